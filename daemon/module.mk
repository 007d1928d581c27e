# The daemon's floors from the top down: main, rpc, core, policy | fabric, takeover, util. In core: rule, verbs, admit,
# object, facts. In policy: policy, rule.
DAEMON_SRC := \
	daemon/broker.c \
	daemon/config.c \
	daemon/filecheck.c \
	daemon/instance.c \
	daemon/takeover.c \
	daemon/missing_names.c \
	daemon/reload.c \
	daemon/socket.c \
	$(wildcard daemon/rpc/*.c) \
	$(wildcard daemon/core/*/*.c) \
	$(wildcard daemon/policy/*.c daemon/policy/*/*.c) \
	$(wildcard daemon/takeover/*.c) \
	$(wildcard daemon/util/*.c) \
	proto/inifile.c
FABRIC_SRC := $(wildcard daemon/fabric/*.c daemon/fabric/*/*.c)
DAEMON_MAN := $(wildcard daemon/*.5 daemon/*.7 daemon/*.8)

DAEMON_LIBS := $(shell pkg-config --libs libsystemd libprotobuf-c libibverbs librdmacm libacl \
	libmnl 2>/dev/null)

# Where the drop-in is the default, only a path of its own leads the daemon to librdmacm itself.
comma := ,
RDMACM_PATH := $(patsubst %,-Wl$(comma)-rpath$(comma)%,$(shell pkg-config --variable=libdir librdmacm 2>/dev/null))

$(O)/rdmabrokerd: $(call objs,daemon/main.c $(DAEMON_SRC) $(FABRIC_SRC) $(PROTO_SRC) \
		$(PROTO_TOOL_SRC) $(PROTO_NOTIFY_SRC) $(PROTO_NLDEV_SRC)) $(PROTO_GEN).o
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(RDMACM_PATH) -o $@ $^ $(DAEMON_LIBS)

ALL += $(O)/rdmabrokerd
