# Each check_X.c is a program. Most of these programs are linked with the library, and with the archive of the
# daemon's objects. The archive has neither main() nor the real fabric. The fake fabric is linked instead of the real
# one.
UNIT_SRC := $(wildcard tests/unit/check_*.c)
UNIT := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(UNIT_SRC))
FAKE_SRC := $(wildcard tests/fake/*.c)
CHECK_LIBS := $(shell pkg-config --libs check 2>/dev/null)

$(O)/daemon.a: $(call objs,$(DAEMON_SRC) $(PROTO_SRC) $(PROTO_TOOL_SRC)) $(PROTO_GEN).o
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

# Objects that several programs share.
HARNESS := $(addprefix $(O)/obj/tests/unit/,exporter.o harness.o pair.o program.o watch.o wire.o) $(O)/obj/tests/wire/requests.o

# These programs test the parts of the real fabric that need no RDMA.
UNIT_FABRIC := $(addprefix $(O)/tests/unit/check_,absence nldev node qpscan)

# These programs test the library or the drop-in with hooks in the place of its system calls. Their rule is in
# tests/hooks/module.mk.
UNIT_HOOKED := $(addprefix $(O)/tests/unit/check_,dropin library_hostile library_pages library_waits takeover)

$(filter-out $(UNIT_FABRIC) $(UNIT_HOOKED),$(UNIT)): $(O)/tests/unit/%: $(O)/obj/tests/unit/%.o $(HARNESS) $(O)/daemon.a \
		$(call objs,$(FAKE_SRC)) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(HARNESS) $(O)/daemon.a $(call objs,$(FAKE_SRC)) \
		$(O)/daemon.a \
		-L$(O) -Wl,-rpath,$(abspath $(O)) -Wl,--as-needed -lrdmabroker $(DAEMON_LIBS) $(CHECK_LIBS)

# The library does not export this function.
$(O)/tests/unit/check_bounded: $(call objs,client/lib/wire/bounded.c)
$(O)/tests/unit/check_bounded: HARNESS += $(call objs,client/lib/wire/bounded.c)

$(addprefix $(O)/tests/unit/check_,nldev qpscan): $(O)/obj/tests/unit/nldev.o

$(UNIT_FABRIC): $(O)/tests/unit/%: $(O)/obj/tests/unit/%.o $(call objs,$(FABRIC_SRC)) $(O)/daemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS) $(CHECK_LIBS)

$(O)/tests/unit/check_takeover: $(O)/obj/tests/unit/manager.o
