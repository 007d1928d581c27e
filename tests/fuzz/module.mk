# SPDX-License-Identifier: BSD-2-Clause
# Fuzzing with libFuzzer, built with clang in $(O)/fuzz. corpus/TARGET has a target's seeds and the inputs that found
# an error; TARGET.dict has the tokens of its input.
FUZZERS := packet requests rules config client reject peers
FUZZ_SHARED := tests/fuzz/fuzz.c tests/fuzz/hostile.c
# The seeds take less time than the compiler.
FUZZ_CFLAGS = $(if $(filter fast,$(SHARE)),-O0,-O1) -g1 -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_TIME ?= 60
FUZZ_JOBS ?= $(shell nproc)
FUZZ_PACKAGES := $(BUILD_PACKAGES) clang libclang-rt-dev

# The make that builds with clang uses these rules:
$(O)/tests/fuzz/peers: $(call objs,client/peerd/message.c)
$(O)/tests/fuzz/rules: $(call objs,tests/unit/oracle.c)

$(addprefix $(O)/tests/fuzz/,$(FUZZERS)): $(O)/tests/fuzz/%: $(O)/obj/tests/fuzz/%.o \
		$(call objs,$(FUZZ_SHARED)) $(HOOKED)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(DAEMON_LIBS) -Wl,--as-needed $(PEERD_LIBS)

.PHONY: fuzzers fuzz check-fuzz fuzz-packages
fuzz-packages: NEEDED = $(FUZZ_PACKAGES)
fuzz-packages:
	$(install-missing)

fuzzers: fuzz-packages
	+$(Q)$(MAKE) --no-print-directory O=$(O)/fuzz CC=clang SAN= CFLAGS='$(FUZZ_CFLAGS)' \
		$(addprefix $(O)/fuzz/tests/fuzz/,$(FUZZERS))

# Runs all seeds, and then new inputs for FUZZ_TIME seconds with each target. Keeps new inputs in $(O)/fuzz/corpus.
fuzz: fuzzers
	$(Q)O=$(O)/fuzz FUZZ_TIME=$(FUZZ_TIME) FUZZ_JOBS=$(FUZZ_JOBS) FUZZ_NO_SEEDS=$(FUZZ_NO_SEEDS) \
		tests/fuzz/run $(FUZZERS)

# SHARE=fast: the seeds; SHARE=long: new inputs.
check-fuzz: FUZZ_TIME = $(if $(filter fast,$(SHARE)),0,10)
check-fuzz: FUZZ_NO_SEEDS = $(filter long,$(SHARE))
check-fuzz: fuzz
