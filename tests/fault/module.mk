# SPDX-License-Identifier: BSD-2-Clause
# Fault injection. It is always built with sanitizers, in $(O)/fault.
FAULT_SRC := tests/fault/fault.c tests/fault/story.c

$(O)/tests/fault/fault: $(call objs,$(FAULT_SRC)) $(HOOKED)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)

# In run N, call N fails. SHARE=fast: every eighth run; SHARE=long: the other runs.
.PHONY: check-fault
check-fault:
	+$(Q)$(MAKE) --no-print-directory O=$(O)/fault SAN=address,undefined \
		CFLAGS='-O1 -g -fno-sanitize-recover=all' $(O)/fault/tests/fault/fault
	$(Q)$(O)/fault/tests/fault/fault $(SHARE)
