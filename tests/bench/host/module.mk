# SPDX-License-Identifier: BSD-2-Clause
# `make bench-host` does not fail because of the times that it measures.

# Separates the fake fabric's allocations from the daemon's.
HOST_FAKE := $(patsubst %.c,$(O)/tests/bench/%.o,$(notdir $(wildcard tests/fake/*.c)))

$(HOST_FAKE): $(O)/tests/bench/%.o: $(O)/obj/tests/fake/%.o
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJCOPY) --redefine-sym calloc=fake_calloc --redefine-sym strdup=fake_strdup \
		--redefine-sym free=fake_free $< $@

HOST_SHARED := $(call objs,$(addprefix tests/bench/host/,ends.c place.c fakemem.c)) $(HOST_FAKE)

$(O)/tests/bench/host: $(call objs,$(wildcard tests/bench/host/*.c))
$(O)/tests/bench/count: $(call objs,$(wildcard tests/bench/count/*.c))
$(O)/tests/bench/grow: $(call objs,tests/bench/grow/grow.c tests/bench/count/single.c)
$(O)/tests/bench/host $(O)/tests/bench/count $(O)/tests/bench/grow: $(HOST_SHARED) $(O)/daemon.a $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -Wl,--wrap=sd_event_new -o $@ $(filter %.o,$^) $(O)/daemon.a \
		-L$(O) -Wl,-rpath,$(abspath $(O)) -Wl,--as-needed -lrdmabroker $(DAEMON_LIBS)

# HOST_OPTIONS: see the program's --help. BENCH_MORE=$(O)/bench/host.json adds the plot to the page of `make bench`.
.PHONY: bench-host
bench-host: $(O)/tests/bench/host
	$(Q)mkdir -p $(O)/bench
	$(Q)$< --json $(O)/bench/host.json $(HOST_OPTIONS)
	@echo 'As JSON: $(O)/bench/host.json'

# `make bench-check` counts the instructions for a connection, and compares them with tests/bench/instructions.
COUNT_PACKAGES := $(BUILD_PACKAGES) python3 valgrind
count-run = CC='$(CC)' CFLAGS='$(CFLAGS)' CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' tests/bench/count/run

.PHONY: count-packages bench-check bench-check-run bench-record bench-record-run
count-packages: NEEDED = $(COUNT_PACKAGES)
count-packages:
	$(install-missing)

bench-check bench-record: %: count-packages
	+$(Q)$(MAKE) --no-print-directory $@-run

bench-check-run: $(O)/tests/bench/count
	$(Q)$(count-run) $< tests/bench/instructions

# What the daemon does for one of many objects, and for one of few.
.PHONY: bench-grow bench-grow-run
bench-grow: count-packages
	+$(Q)$(MAKE) --no-print-directory bench-grow-run

bench-grow-run: $(O)/tests/bench/grow $(O)/tests/unit/check_grow
	$(Q)O=$(O) SRCDIR=. tests/bench/grow/run $^

bench-record-run: $(O)/tests/bench/count
	$(Q)$(count-run) --record $< tests/bench/instructions
