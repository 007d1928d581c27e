# SPDX-License-Identifier: BSD-2-Clause
# Only bench-check, bench-grow and check-burst, which count instructions, fail because of their results.

.PHONY: bench bench-build bench-packages bench-run bench-host bench-policy bench-siege bench-peers count-packages \
	bench-check bench-check-run bench-record bench-record-run bench-grow bench-grow-run check-burst burst-judged burst-record burst-run

# Connections through the broker against librdmacm's, in the guest. BENCH_OPTIONS: further options of rdmabroker-bench.
ROUNDS ?= 5
CONNECTS ?= 200
CLIENTS ?= 1 8 64

$(O)/tests/bench/rdmabroker-bench-worker: $(call objs,$(wildcard tests/bench/connect/*.c)) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs librdmacm libibverbs 2>/dev/null)

$(O)/tests/bench/rdmabroker-bench: tests/bench/connect/rdmabroker-bench
	$(Q)mkdir -p $(@D)
	$(Q)cp $< $@

bench-build: $(O)/tests/bench/rdmabroker-bench $(O)/tests/bench/rdmabroker-bench-worker

bench-packages: NEEDED = $(TEST_PACKAGES)
bench-packages:
	$(install-missing)

bench: bench-packages
	+$(Q)$(MAKE) --no-print-directory bench-run

bench-run: all bench-build guest-image guest-dest
	$(Q)mkdir -p $(O)/bench
	$(Q)cp -t $(O)/guest/share/bin $(addprefix $(O)/tests/bench/rdmabroker-,bench bench-worker)
	$(Q)$(guest-dir)/run --count --image $(O)/guest --share $(O)/guest/share --timeout 7200 -- suites/bench.sh \
		--rounds '$(ROUNDS)' --connects '$(CONNECTS)' --clients '$(CLIENTS)' $(BENCH_OPTIONS)
	$(Q)cp -t $(O)/bench $(O)/guest/share/report.txt
	@echo 'The report is $(O)/bench/report.txt.'

# A burst of connections, in a guest whose clock counts instructions, against tests/bench/figures/RELEASE. As tests/run runs
# it beside suites, burst-judged prepares nothing.
burst-compare = $(Q)CC='$(CC)' CFLAGS='$(CFLAGS)' tests/bench/burst $(1) $(O)/guest/share/burst.txt tests/bench/figures

burst-run:
	$(Q)$(guest-dir)/run --count $(wordlist 2,99,$(guest-run)) suites/burst.sh

burst-judged: burst-run
	$(call burst-compare,check)

check-burst: guest-image guest-dest
	+$(Q)$(MAKE) --no-print-directory burst-judged

burst-record: guest-image guest-dest
	+$(Q)$(MAKE) --no-print-directory burst-run
	$(call burst-compare,record)

# What the broker itself costs above a fake fabric, whose allocations are separated from the daemon's.
BENCH_FAKE := $(patsubst %.c,$(O)/tests/bench/%.o,$(notdir $(wildcard tests/fake/*.c)))

# objcopy does not work on what -flto makes.
$(O)/obj/tests/bench/fake/%.o: tests/fake/%.c $(O)/stamp-flags | $(PROTO_GEN).h $(O)/stamp-needs
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(COMPILE) -fno-lto -MMD -MP -c -o $@ $<

$(BENCH_FAKE): $(O)/tests/bench/%.o: $(O)/obj/tests/bench/fake/%.o
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJCOPY) --redefine-sym calloc=fake_calloc --redefine-sym strdup=fake_strdup \
		--redefine-sym free=fake_free $< $@

BENCH_SHARED := $(call objs,$(addprefix tests/bench/host/,common.c ends.c fakemem.c) tests/unit/place.c) $(BENCH_FAKE)
BENCH_HOSTED := $(addprefix $(O)/tests/bench/,host count grow)

$(O)/tests/bench/host: $(call objs,$(addprefix tests/bench/host/,main.c cost.c memory.c process.c traffic.c))
$(O)/tests/bench/count $(O)/tests/bench/grow: $(O)/tests/bench/%: $(call objs,tests/bench/count/single.c) \
	$(O)/obj/tests/bench/count/%.o
$(BENCH_HOSTED): $(BENCH_SHARED) $(O)/daemon.a $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -Wl,--wrap=sd_event_new -o $@ $(filter %.o,$^) $(O)/daemon.a \
		-L$(O) -Wl,-rpath,$(abspath $(O)) -Wl,--as-needed -lrdmabroker $(DAEMON_LIBS)

HOST_ROUNDS ?= 21
bench-host: $(O)/tests/bench/host
	$(Q)$< $(HOST_ROUNDS)

# Instructions: of a connection, against tests/bench/instructions/RELEASE, and for one of many objects, against one of few.
COUNT_PACKAGES := $(BUILD_PACKAGES) python3 valgrind
count-run = $(Q)CC='$(CC)' CFLAGS='$(CFLAGS)' CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' tests/bench/count/run

count-packages: NEEDED = $(COUNT_PACKAGES)
count-packages:
	$(install-missing)

bench-check bench-record bench-grow: %: count-packages
	+$(Q)$(MAKE) --no-print-directory $@-run

bench-check-run: $(O)/tests/bench/count
	$(count-run) check $< tests/bench/instructions

bench-record-run: $(O)/tests/bench/count
	$(count-run) record $< tests/bench/instructions

bench-grow-run: $(O)/tests/bench/grow $(O)/tests/unit/check_grow
	$(Q)O=$(O) SRCDIR=. tests/bench/count/run grow $^

$(O)/tests/bench/decide: $(call objs,tests/bench/decide.c) $(O)/daemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(DAEMON_LIBS)

bench-policy: $(O)/tests/bench/decide
	$(Q)$<

# Root runs it, because each user needs a uid.
$(O)/tests/bench/siege: $(call objs,tests/bench/siege.c $(FAKE_SRC)) $(HARNESS) $(O)/daemon.a $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(O)/daemon.a -L$(O) -Wl,-rpath,$(abspath $(O)) \
		-Wl,--as-needed -lrdmabroker $(DAEMON_LIBS) $(CHECK_LIBS)

bench-siege: $(O)/tests/bench/siege
	$(Q)echo 'Processor time of the loop in ms, between a request of a victim and its reply, and of the longest turn:'
	$(Q)$<

# Needs Debian's munge.
$(O)/tests/bench/peers: $(call objs,tests/bench/peers.c) $(PEERD_HARNESS) $(O)/daemon.a $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $(filter %.o,$^) $(O)/daemon.a -L$(O) -Wl,-rpath,$(abspath $(O)) \
		-Wl,--as-needed -lrdmabroker $(DAEMON_LIBS) $(PEERD_LIBS) $(CHECK_LIBS)

bench-peers: $(O)/tests/bench/peers $(O)/rdmabroker-peerd
	$(Q)O=$(O) $< 2>&1 | grep -v -e ^Running -e ^100% -e ^Device
