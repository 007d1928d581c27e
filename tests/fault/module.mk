# SPDX-License-Identifier: BSD-2-Clause
# Fault injection: how the daemon and the library behave if one of their calls fails. It is always built with
# sanitizers, below $(O)/fault.
FAULT_SRC := tests/fault/fault.c tests/fault/story.c

$(O)/tests/fault/fault: $(call objs,$(FAULT_SRC)) $(HOOKED)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)

# In each run one call fails, first the first one, then the second one, and so on. SHARE=fast: only every eighth run;
# SHARE=long: the other runs.
.PHONY: check-fault
check-fault:
	+$(Q)$(MAKE) --no-print-directory O=$(O)/fault SAN=address,undefined \
		CFLAGS='-O1 -g -fno-sanitize-recover=all' $(O)/fault/tests/fault/fault
	$(Q)$(O)/fault/tests/fault/fault $(SHARE)
