# SPDX-License-Identifier: BSD-2-Clause
# These targets do not fail because of their results.

$(O)/tests/bench/decide: $(call objs,tests/bench/decide.c) $(O)/daemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(DAEMON_LIBS)

.PHONY: bench-policy
bench-policy: $(O)/tests/bench/decide
	$(Q)$<

$(O)/tests/bench/fleet: $(call objs,tests/bench/fleet.c $(filter-out client/fleet/main.c,$(FLEET_SRC))) \
		$(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $(filter %.o,$^) -L$(O) -Wl,-rpath,$(abspath $(O)) -lrdmabroker $(FLEET_LIBS)

# Needs Debian's etcd-server.
.PHONY: bench-fleet
bench-fleet: $(O)/tests/bench/fleet $(O)/tests/fakebroker $(O)/rdmabrokerctl $(O)/rdmabroker-fleetctl
	$(Q)O=$(O) $< $(HOSTS)

# Needs Debian's munge.
$(O)/tests/bench/peers: $(call objs,tests/bench/peers.c) $(PEERD_HARNESS) $(O)/daemon.a $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $(filter %.o,$^) $(O)/daemon.a -L$(O) -Wl,-rpath,$(abspath $(O)) \
		-Wl,--as-needed -lrdmabroker $(DAEMON_LIBS) $(PEERD_LIBS) $(CHECK_LIBS)

.PHONY: bench-peers
bench-peers: $(O)/tests/bench/peers $(O)/rdmabroker-peerd
	$(Q)O=$(O) $< 2>&1 | grep -v -e ^Running -e ^100% -e ^Device

$(O)/tests/bench/overload: $(call objs,tests/bench/overload.c) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs libibverbs 2>/dev/null)
