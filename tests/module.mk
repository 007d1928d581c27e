# Each check_X.c is a program. Most are linked with the library, the fake fabric, and the daemon's objects except
# main() and the real fabric.
UNIT_SRC := $(wildcard tests/unit/check_*.c)
UNIT := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(UNIT_SRC))
FAKE_SRC := $(wildcard tests/fake/*.c)
CHECK_LIBS := $(shell pkg-config --libs check 2>/dev/null)

$(O)/daemon.a: $(call objs,$(DAEMON_SRC) $(PROTO_SRC) $(PROTO_TOOL_SRC) $(PROTO_NOTIFY_SRC) $(PROTO_NLDEV_SRC)) $(PROTO_GEN).o
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

HARNESS := $(addprefix $(O)/obj/tests/unit/,exporter.o harness.o helper.o journald.o pair.o program.o watch.o wire.o) $(O)/obj/tests/wire/requests.o

# Tests of the parts of the real fabric that need no RDMA.
UNIT_FABRIC := $(addprefix $(O)/tests/unit/check_,no_rdma cmscan holding nldev node opener qpscan sampler)

# Tests of the library or the drop-in, with hooks in place of its system calls. Their rule is in
# tests/hooks/module.mk.
UNIT_HOOKED := $(addprefix $(O)/tests/unit/check_,devices disconnect_restart dropin dropin_events dropin_ib dropin_paths dropin_written grow instants ledger library_hostile library_pages library_waits takeover takeover_restricted)

# The daemon on the fake fabric, as a program of its own.
$(O)/tests/fakebroker: $(O)/obj/tests/unit/fakebroker.o $(O)/daemon.a $(call objs,$(FAKE_SRC))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(O)/daemon.a $(call objs,$(FAKE_SRC)) $(O)/daemon.a $(DAEMON_LIBS)

# Tests of rdmabroker-peerd, with a real munged.
UNIT_ASKING := $(addprefix $(O)/tests/unit/check_,peerd peerd_answers peerd_crowd)
UNIT_ANSWERING := $(addprefix $(O)/tests/unit/check_,peerd_hostile peerd_floods peerd_life)
UNIT_PEERD := $(UNIT_ASKING) $(UNIT_ANSWERING)

$(UNIT_ASKING): $(O)/obj/tests/unit/asking.o
$(UNIT_ANSWERING): $(O)/obj/tests/unit/answering.o

# The daemon has a table, too.
UNIT_TABLE := $(O)/tests/unit/check_table
$(UNIT_TABLE): $(O)/obj/tests/unit/check_table.o $(call objs,$(addprefix client/ctl/,output.c table.c) \
		$(addprefix proto/,addr.c jsonout.c names.c text.c))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs smartcols 2>/dev/null) $(CHECK_LIBS)

# Tests of the drop-in as programs load it. It looks for librdmacm's rsockets beside libibverbs, and thus beside the program.
# Libraries find the program's verbs in place of libibverbs's.
UNIT_RSOCKET := $(addprefix $(O)/tests/unit/check_,dropin_process rsocket)
$(UNIT_RSOCKET): $(O)/tests/unit/%: $(O)/obj/tests/unit/%.o $(O)/obj/tests/unit/brokerprocess.o $(O)/obj/tests/unit/loopverbs.o | \
		$(O)/librdmabroker-rdmacm.so $(O)/tests/fakebroker
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)ln -sf $$($(CC) -print-file-name=librdmacm.so.1) $(@D)/librdmacm.so.1
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -Wl,--export-dynamic-symbol='ibv_*' \
		-Wl,--export-dynamic-symbol='epoll_*' -Wl,--export-dynamic-symbol=stat \
		-Wl,--export-dynamic-symbol=fopen -Wl,--export-dynamic-symbol='glob*' \
		-Wl,--export-dynamic-symbol=eaccess $(CHECK_LIBS) -pthread

PEERD_HARNESS := $(O)/obj/tests/unit/peerd.o $(filter-out %/exporter.o %/helper.o %/pair.o,$(HARNESS)) \
	$(call objs,client/peerd/gate.c client/peerd/message.c client/peerd/seal.c $(FAKE_SRC))

$(UNIT_PEERD): $(O)/tests/unit/%: $(O)/obj/tests/unit/%.o $(PEERD_HARNESS) $(O)/daemon.a $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(O)/daemon.a -L$(O) -Wl,-rpath,$(abspath $(O)) \
		-Wl,--as-needed -lrdmabroker $(DAEMON_LIBS) $(PEERD_LIBS) $(CHECK_LIBS)

$(filter-out $(UNIT_FABRIC) $(UNIT_HOOKED) $(UNIT_PEERD) $(UNIT_RSOCKET) $(UNIT_TABLE),$(UNIT)): $(O)/tests/unit/%: $(O)/obj/tests/unit/%.o $(HARNESS) $(O)/daemon.a \
		$(call objs,$(FAKE_SRC)) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(HARNESS) $(O)/daemon.a $(call objs,$(FAKE_SRC)) \
		$(O)/daemon.a \
		-L$(O) -Wl,-rpath,$(abspath $(O)) -Wl,--as-needed -lrdmabroker $(DAEMON_LIBS) $(CHECK_LIBS)

$(addprefix $(O)/tests/unit/check_,aside waiting): $(O)/obj/tests/unit/three.o
$(addprefix $(O)/tests/unit/check_,aside waiting): HARNESS += $(O)/obj/tests/unit/three.o
$(addprefix $(O)/tests/unit/check_,apart apart_life): $(O)/obj/tests/unit/apart.o
$(addprefix $(O)/tests/unit/check_,apart apart_life): HARNESS += $(O)/obj/tests/unit/apart.o

SITE_TESTS := $(addprefix $(O)/tests/unit/check_,site site_state site_killed)
$(SITE_TESTS): $(O)/obj/tests/unit/site.o
$(SITE_TESTS): HARNESS += $(O)/obj/tests/unit/site.o

# Random policies and questions.
$(addprefix $(O)/tests/unit/check_policy_,property shadow): $(O)/obj/tests/unit/randompolicy.o $(O)/obj/tests/unit/oracle.o
$(addprefix $(O)/tests/unit/check_policy_,property shadow): HARNESS += $(O)/obj/tests/unit/randompolicy.o $(O)/obj/tests/unit/oracle.o

# Part of rdmabrokerctl.
$(O)/tests/unit/check_cdi: $(call objs,client/ctl/cdispec.c)
$(O)/tests/unit/check_cdi: HARNESS += $(call objs,client/ctl/cdispec.c)

NODES := $(call objs,client/ctl/output.c client/ctl/sightings.c)
$(O)/tests/unit/check_nodes: $(NODES)
$(O)/tests/unit/check_nodes: HARNESS += $(NODES)

SUGGESTION := $(call objs,$(addprefix client/ctl/,atoms.c suggestion.c))
$(addprefix $(O)/tests/unit/check_,suggested suggestion): $(SUGGESTION) $(O)/obj/tests/unit/randompolicy.o
$(addprefix $(O)/tests/unit/check_,suggested suggestion): HARNESS += $(SUGGESTION) $(O)/obj/tests/unit/randompolicy.o

$(addprefix $(O)/tests/unit/check_,cmscan holding nldev qpscan sampler): $(O)/obj/tests/unit/nldev.o
$(O)/tests/unit/check_holding: $(call objs,client/ctl/holding.c)

$(UNIT_FABRIC): $(O)/tests/unit/%: $(O)/obj/tests/unit/%.o $(call objs,$(FABRIC_SRC)) $(O)/daemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS) $(CHECK_LIBS)

$(addprefix $(O)/tests/unit/check_,devices disconnect_restart grow takeover takeover_restricted instants ledger): $(O)/obj/tests/unit/manager.o \
  $(O)/obj/tests/unit/succession.o $(O)/obj/tests/unit/place.o
$(addprefix $(O)/tests/unit/check_,dropin dropin_events dropin_ib dropin_paths dropin_written): $(addprefix $(O)/obj/tests/unit/,ends.o place.o)
$(addprefix $(O)/tests/unit/check_,dropin_ib dropin_paths): $(O)/obj/tests/unit/ib.o
