# SPDX-License-Identifier: BSD-2-Clause
# Fault injection. It is always built with sanitizers, in $(O)/fault. Compiling takes longer than the tests: with -O1 and
# -g twice as long.
FAULT_CFLAGS := -O0 -g1 -fno-sanitize-recover=all
FAULT_SRC := tests/fault/fault.c tests/fault/story.c

$(O)/tests/fault/fault: $(call objs,$(FAULT_SRC)) $(HOOKED)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)

# In run N, call N fails. SHARE=fast: every eighth run; SHARE=long: the other runs.
.PHONY: check-fault
check-fault:
	+$(Q)$(MAKE) --no-print-directory O=$(O)/fault SAN=address,undefined \
		CFLAGS='$(FAULT_CFLAGS)' $(O)/fault/tests/fault/fault
	$(Q)$(O)/fault/tests/fault/fault $(SHARE)
