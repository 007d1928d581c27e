# librdmabroker and the programs on it.
# The library's floors from the top down: open.c, admin | connect, event, id, wire.
LIB_SRC := $(wildcard client/lib/*.c client/lib/*/*.c)
LIB_MAP := $(O)/librdmabroker.map
LIB := $(O)/librdmabroker.so.2
CLIENT_LIBS := $(shell pkg-config --libs libibverbs libprotobuf-c 2>/dev/null) -pthread
CLIENT_MAN := $(wildcard client/*.1 client/*.3 client/exporter/*.8 client/peerd/*.8 client/pull/*.8 client/rdmacm/*.7)

# Programs of another version than the library's do not start: their calls have other structs.
$(LIB_MAP): client/librdmabroker.map proto/version.h Makefile
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)sed 's/@VERSION@/$(VERSION)/' $< > $@

$(LIB): $(call objs,$(LIB_SRC) $(PROTO_SRC)) $(PROTO_GEN).o $(LIB_MAP)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,librdmabroker.so.2 -Wl,-z,defs \
		-Wl,--version-script=$(LIB_MAP) -o $@ $(filter %.o,$^) $(CLIENT_LIBS)

$(O)/librdmabroker.so: $(LIB)
	$(Q)ln -sf librdmabroker.so.2 $@

$(O)/rdmabroker.pc: client/rdmabroker.pc.in proto/version.h Makefile $(O)/stamp-dirs
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(SUBST) $< > $@

$(O)/rdmabroker-pull: client/pull/rdmabroker-pull.in proto/version.h Makefile $(O)/stamp-dirs
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(SUBST) $< > $@
	$(Q)chmod 755 $@

# In the build directory, the programs and the drop-in find the library beside them. What is installed must look for it
# only where the system does, so it is linked a second time, without a run path.
INSTALLED := $(O)/installed
linked = $(O)/$(1) $(INSTALLED)/$(1)
LINKED := librdmabroker-rdmacm.so rdmabroker-ping rdmabrokerctl rdmabroker-exporter rdmabroker-peerd
$(addprefix $(O)/,$(LINKED)): private RUNPATH := -Wl,-rpath,'$$ORIGIN'
$(foreach name,$(LINKED),$(call linked,$(name))): client/module.mk

# The drop-in has the calls and the soname of librdmacm, so a program that needs librdmacm gets the drop-in if that is
# preloaded, or is found first. The drop-in uses only the library's public headers. It has copies of the library and of
# libprotobuf-c: where it is the default, no program of librdmacm would start if a library that it needs were gone.
DROPIN := $(O)/librdmabroker-rdmacm.so
DROPIN_MAP := client/rdmacm/librdmabroker-rdmacm.map

PROTOBUF_C := $(firstword $(wildcard $(shell pkg-config --variable=libdir libprotobuf-c 2>/dev/null)/libprotobuf-c.a) -lprotobuf-c)

$(call linked,$(notdir $(DROPIN))): $(call objs,$(wildcard client/rdmacm/*.c) $(LIB_SRC) $(PROTO_SRC)) $(PROTO_GEN).o $(DROPIN_MAP)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(RUNPATH) -shared -Wl,-soname,librdmacm.so.1 -Wl,-z,defs \
		-Wl,--version-script=$(DROPIN_MAP) -o $@ $(filter %.o,$^) $(PROTOBUF_C) \
		$(shell pkg-config --libs libibverbs 2>/dev/null) -pthread

# librdmacm's names, as they are installed.
$(O)/default/librdmacm.so: $(DROPIN)
	$(Q)mkdir -p $(@D)
	$(Q)ln -sf ../$(notdir $(DROPIN)) $(@D)/librdmacm.so.1
	$(Q)ln -sf librdmacm.so.1 $@

# What programs share that read a configuration file, or print to the journal; and those that run as services.
COMMON := client/common/conffile.c client/common/log.c proto/inifile.c proto/text.c proto/word.c
SERVICE := $(COMMON) client/common/reason.c client/common/service.c

# The programs use only the library's calls: those of rdmabroker.h, and the three for admins those of client/admin.h, too.
# They link the files of proto/ that they need.
$(call linked,rdmabroker-ping): $(call objs,$(wildcard client/ping/*.c) proto/addr.c proto/text.c) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(RUNPATH) -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs libibverbs 2>/dev/null)

$(call linked,rdmabrokerctl): $(call objs,$(wildcard client/ctl/*.c) client/common/reason.c $(PROTO_TOOL_SRC) $(PROTO_NOTIFY_SRC) $(PROTO_NLDEV_SRC) proto/addr.c) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(RUNPATH) -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs libsystemd libmnl smartcols libcrypto 2>/dev/null)

EXPORTER_LIBS := $(shell pkg-config --libs libsystemd libmicrohttpd 2>/dev/null)

$(call linked,rdmabroker-exporter): $(call objs,$(wildcard client/exporter/*.c) $(SERVICE) client/common/sockets.c client/common/work.c $(PROTO_NOTIFY_SRC) proto/addr.c proto/unixsock.c) \
		$(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(RUNPATH) -pthread -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker $(EXPORTER_LIBS)

# The helper that asks other hosts who peers are. Only its objects need MUNGE.
PEERD_SRC := $(wildcard client/peerd/*.c) $(SERVICE) client/common/sockets.c client/common/work.c $(PROTO_NOTIFY_SRC) proto/addr.c proto/text.c proto/unixsock.c
PEERD_LIBS := $(shell pkg-config --libs libsystemd jansson munge 2>/dev/null)

$(call objs,$(wildcard client/peerd/*.c)): | $(O)/stamp-needs-peerd

$(call linked,rdmabroker-peerd): $(call objs,$(PEERD_SRC)) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(RUNPATH) -pthread -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker $(PEERD_LIBS)

ALL += $(LIB) $(O)/librdmabroker.so $(O)/rdmabroker.pc $(O)/rdmabroker-pull $(O)/default/librdmacm.so \
	$(foreach name,$(LINKED),$(call linked,$(name)))
