# SPDX-License-Identifier: BSD-2-Clause
# These targets do not fail because of their results.

$(O)/tests/bench/decide: $(call objs,tests/bench/decide.c) $(O)/daemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(DAEMON_LIBS)

.PHONY: bench-policy
bench-policy: $(O)/tests/bench/decide
	$(Q)$<

$(O)/tests/bench/fleet: $(call objs,tests/bench/fleet.c $(filter-out client/fleet/main.c,$(FLEET_SRC)) proto/text.c) \
		$(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $(filter %.o,$^) -L$(O) -Wl,-rpath,$(abspath $(O)) -lrdmabroker $(FLEET_LIBS)

# Needs Debian's etcd-server.
.PHONY: bench-fleet
bench-fleet: $(O)/tests/bench/fleet $(O)/tests/fakebroker $(O)/rdmabrokerctl $(O)/rdmabroker-fleetctl
	$(Q)O=$(O) $< $(HOSTS)

$(O)/tests/bench/overload: $(call objs,tests/bench/overload.c) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs libibverbs 2>/dev/null)
