# SPDX-License-Identifier: BSD-2-Clause
# Measurements; nothing here passes or fails.

$(O)/tests/bench/decide: $(call objs,tests/bench/decide.c) $(O)/daemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(DAEMON_LIBS)

.PHONY: bench-policy
bench-policy: $(O)/tests/bench/decide
	$(Q)$<
