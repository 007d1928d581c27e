# Sources of the daemon and of the client library.
PROTO_SRC := proto/addr.c proto/address.c proto/arena.c proto/codec.c proto/handles.c proto/names.c proto/packet.c proto/path.c proto/proof.c proto/status.c proto/text.c
# Sources of the daemon and of rdmabrokerctl, which links a copy: the library does not export them.
PROTO_TOOL_SRC := proto/jsonout.c proto/names.c proto/text.c proto/unixsock.c proto/word.c
# What asks the kernel about RDMA by netlink.
PROTO_NLDEV_SRC := proto/cmdump.c proto/maker.c proto/nldev.c
# Sources of programs that systemd runs.
PROTO_NOTIFY_SRC := proto/notifier.c proto/sdnotify.c proto/timer.c
PROTO_GEN := $(O)/proto/rdmabroker.pb-c

$(PROTO_GEN).c $(PROTO_GEN).h &: proto/rdmabroker.proto
	$(call say,PROTOC,$<)
	$(Q)mkdir -p $(O)/proto
	$(Q)protoc-c --c_out=$(O) $<

# The straight-line coders: see proto/codec.h. The generator runs on this machine, whose integers and pointers have to be
# as long as those for which a cross-compiler compiles.
ifeq ($(CC_FOR_BUILD),$(CC))
$(O)/proto/codecgen: $(O)/obj/proto/codecgen.o $(PROTO_GEN).o
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs libprotobuf-c 2>/dev/null)
else
$(O)/proto/codecgen: proto/codecgen.c $(PROTO_GEN).c
	$(call say,CC,$<)
	$(Q)$(CC_FOR_BUILD) -w -I. -I$(O) -o $@ $^ -lprotobuf-c
endif

$(O)/proto/coders.h: $(O)/proto/codecgen
	$(call say,GEN,$@)
	$(Q)$< > $@.new
	$(Q)mv $@.new $@

$(O)/obj/proto/codec.o: $(O)/proto/coders.h
