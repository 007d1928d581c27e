# SPDX-License-Identifier: BSD-2-Clause
# These targets do not fail because of the times that they measure.

BENCH := $(O)/tests/bench/rdmabroker-bench
bench-report := tests/bench/report

$(BENCH): $(call objs,$(wildcard tests/bench/connect/*.c)) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs librdmacm libibverbs 2>/dev/null)

.PHONY: bench bench-build bench-packages bench-run
bench-build: $(BENCH)

bench-packages: NEEDED = $(TEST_PACKAGES) gnuplot-nox
bench-packages:
	$(install-missing)

bench: bench-packages
	+$(Q)$(MAKE) --no-print-directory bench-run

# BENCH_OPTIONS: further options of rdmabroker-bench. BENCH_MORE: files whose plots are added to the page.
ROUNDS ?= 5
CONNECTS ?= 200
CLIENTS ?= 1 8 64
bench-options := --rounds '$(ROUNDS)' --connects '$(CONNECTS)' --clients '$(CLIENTS)'

bench-run: all bench-build guest-image guest-dest
	$(Q)mkdir -p $(O)/bench
	$(Q)cp -t $(O)/guest/share/bin $(BENCH)
	$(Q)rm -f $(O)/guest/share/results.json
	$(Q)$(guest-dir)/run --image $(O)/guest --share $(O)/guest/share --timeout 7200 -- \
		suites/bench.sh $(bench-options) $(BENCH_OPTIONS)
	$(Q)cp $(O)/guest/share/results.json $(O)/bench/results.json
	$(Q)$(bench-report) --html $(O)/bench/report.html $(O)/bench/results.json $(BENCH_MORE)
