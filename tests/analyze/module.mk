# SPDX-License-Identifier: BSD-2-Clause
# A finding is an error unless tests/analyze/known lists it with a reason.
ANALYZE_PACKAGES := $(BUILD_PACKAGES) clang-tidy cppcheck

.PHONY: analyze analyze-packages coverage coverage-packages
analyze-packages: NEEDED = $(ANALYZE_PACKAGES)
analyze-packages:
	$(install-missing)

analyze: analyze-packages $(PROTO_GEN).h
	$(Q)O=$(O) tests/analyze/run

# Prints for each folder how many lines the unit tests, the story of tests/fault and the fuzz seeds execute.
coverage-packages: NEEDED = $(TEST_PACKAGES) clang llvm libclang-rt-dev
coverage-packages:
	$(install-missing)

COVERAGE_CFLAGS := -O0 -g -fprofile-instr-generate -fcoverage-mapping
coverage: coverage-packages
	+$(Q)$(MAKE) --no-print-directory O=$(O)/coverage CC=clang SAN= CFLAGS='$(COVERAGE_CFLAGS)' \
		coverage-run

.PHONY: coverage-run
coverage-run: $(UNIT) $(O)/rdmabrokerd $(O)/rdmabrokerctl $(O)/rdmabroker-exporter $(O)/rdmabroker-peerd \
		$(O)/rdmabroker-ping \
		$(O)/tests/fault/fault $(addprefix $(O)/tests/fuzz/,$(FUZZERS))
	$(Q)O=$(O) UNIT='$(UNIT)' FUZZERS='$(FUZZERS)' tests/analyze/coverage
