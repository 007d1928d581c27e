# SPDX-License-Identifier: BSD-2-Clause
# The daemon, the library and the drop-in are linked into one object each, see hooks.h. In the client objects,
# functions that are not exported become local, because the daemon has functions of the same names.
# --force-group-allocation: clang puts a variable that AddressSanitizer guards into a group, and of two objects with a group
# of the same name the linker discards one, although the variable is local in each.
# The functions of proto/sdnotify.c are weak: tests/unit/manager.c replaces them.
HOOKS_SRC := $(wildcard tests/hooks/*.c)
OBJCOPY ?= objcopy
LD ?= ld

$(O)/tests/hooks/daemon.o: $(call objs,$(DAEMON_SRC) $(PROTO_SRC) $(PROTO_TOOL_SRC) $(PROTO_NOTIFY_SRC) $(PROTO_NLDEV_SRC)) $(PROTO_GEN).o \
		tests/hooks/daemon.symbols
	$(call say,HOOK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LD) -r --force-group-allocation -o $@ $(filter %.o,$^)
	$(Q)$(OBJCOPY) --redefine-syms=tests/hooks/daemon.symbols --wildcard --weaken-symbol='sdnotify_*' $@

$(O)/tests/hooks/client.o: $(call objs,$(LIB_SRC) $(PROTO_SRC)) $(PROTO_GEN).o \
		tests/hooks/client.symbols
	$(call say,HOOK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LD) -r --force-group-allocation -o $@ $(filter %.o,$^)
	$(Q)$(OBJCOPY) --redefine-syms=tests/hooks/client.symbols --wildcard \
		--keep-global-symbol='rdmabroker_[a-z]*' $@

$(O)/tests/hooks/dropin.o: $(call objs,$(wildcard client/rdmacm/*.c) proto/addr.c) tests/hooks/client.symbols
	$(call say,HOOK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LD) -r --force-group-allocation -o $@ $(filter %.o,$^)
	$(Q)$(OBJCOPY) --redefine-syms=tests/hooks/client.symbols --wildcard --keep-global-symbol='rdma_*' $@

$(addprefix $(O)/tests/unit/check_,dropin dropin_events dropin_ib dropin_paths dropin_written): $(O)/tests/hooks/dropin.o

HOOKED := $(O)/tests/hooks/daemon.o $(O)/tests/hooks/client.o $(call objs,$(HOOKS_SRC) $(FAKE_SRC))

$(UNIT_HOOKED): $(O)/tests/unit/%: $(O)/obj/tests/unit/%.o \
		$(O)/obj/tests/unit/liar.o $(HOOKED)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS) $(CHECK_LIBS)
