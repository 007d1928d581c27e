# SPDX-License-Identifier: BSD-2-Clause
# Measures the daemon with the fake fabric, on the host. `make bench-host` does not fail because of the times that it
# measures.

# The fake fabric's own allocations are renamed, so that they are counted separately.
HOST_FAKE := $(patsubst %.c,$(O)/tests/bench/%.o,$(notdir $(wildcard tests/fake/*.c)))

$(HOST_FAKE): $(O)/tests/bench/%.o: $(O)/obj/tests/fake/%.o
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJCOPY) --redefine-sym calloc=fake_calloc --redefine-sym strdup=fake_strdup \
		--redefine-sym free=fake_free $< $@

HOST_SHARED := $(call objs,$(addprefix tests/bench/host/,ends.c place.c fakemem.c)) $(HOST_FAKE)

$(O)/tests/bench/host: $(call objs,$(wildcard tests/bench/host/*.c))
$(O)/tests/bench/count: $(call objs,$(wildcard tests/bench/count/*.c))
$(O)/tests/bench/host $(O)/tests/bench/count: $(HOST_SHARED) $(O)/daemon.a $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -Wl,--wrap=sd_event_new -o $@ $(filter %.o,$^) $(O)/daemon.a \
		-L$(O) -Wl,-rpath,$(abspath $(O)) -Wl,--as-needed -lrdmabroker $(DAEMON_LIBS)

# HOST_OPTIONS: options of the program, see its --help. To add the plot to the page of `make bench`, set BENCH_MORE to
# the JSON file that this writes.
.PHONY: bench-host
bench-host: $(O)/tests/bench/host
	$(Q)mkdir -p $(O)/bench
	$(Q)$< --json $(O)/bench/host.json $(HOST_OPTIONS)
	@echo 'As JSON: $(O)/bench/host.json'

# `make bench-check` counts the instructions for a connection, which do not depend on other work on the host, and
# compares them with tests/bench/instructions. `make bench-record` writes that file.
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

bench-record-run: $(O)/tests/bench/count
	$(Q)$(count-run) --record $< tests/bench/instructions
