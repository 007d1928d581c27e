# SPDX-License-Identifier: BSD-2-Clause
# The test guest: a Debian with Soft-RoCE in QEMU, in which the installed product is tested.

guest-dir := tests/guest
guest-recipe := $(addprefix $(guest-dir)/,build packages agent rdmabroker-guest.service)
# `make check-guest KERNEL=backports`: the cases with the newer kernel of Debian's backports.
# `make check-guest RELEASE=trixie`: the cases on another release of Debian than this machine's, with the programs as they
# are built here.
guest-other := $(filter-out $(shell tests/release),$(RELEASE))
guest-at := $(O)/guest$(addprefix -,$(guest-other))
guest-stamp := $(guest-at)/built-$(shell cat $(guest-recipe) | sha256sum | cut -c1-16)$(addprefix -,$(KERNEL))
# The timeout only ends a hang: each case has a limit of its own.
guest-run = $(guest-dir)/run --image $(guest-at) --share $(O)/guest/share --timeout 14400 --

.PHONY: guest-user guest-image guest-frozen guest-dest demo-guest
.PHONY: check-guest check-guest-policy check-guest-calls check-guest-dropin check-guest-sidebyside \
	check-guest-dropin-sidebyside check-guest-hostile check-guest-takeover check-guest-containers check-guest-restricted check-guest-pull \
	check-guest-readme check-guest-smoke

guest-user:
	$(Q)$(guest-dir)/user

guest-image: $(guest-stamp)

# The stamp's name depends on the content of the recipe, because a new checkout has new dates.
$(guest-stamp):
	$(Q)rm -f $(guest-at)/built-*
	$(Q)KERNEL=$(KERNEL) RELEASE=$(guest-other) $(guest-dir)/build $(guest-at)
	$(Q)touch $@

# Otherwise the first suites boot it. That needs none of the programs.
guest-frozen: guest-image
	$(Q)mkdir -p $(O)/guest/share
	$(Q)$(guest-dir)/run --freeze --image $(guest-at) --share $(O)/guest/share

# hostile speaks the protocol without the library; api, calls, connects, killed and stepwise use the library;
# sidebyside uses the library and librdmacm; closes and dropin use librdmacm or the drop-in; unconfirmed uses librdmacm;
# sockets uses none of them.
guest-examples := $(patsubst %.c,$(O)/%,$(wildcard conf/examples/*.c))
guest-programs := $(addprefix $(O)/tests/guest/,api calls closes connects dropin dropin-dlopen hostile killed \
	restricted sanitizer-probe sidebyside sockets stepwise unconfirmed killer.so late.so slow.so ucp_client_server) \
	$(guest-examples)

$(O)/tests/guest/api $(O)/tests/guest/connects $(O)/tests/guest/restricted $(O)/tests/guest/stepwise: $(O)/tests/guest/%: $(O)/obj/$(guest-dir)/%.o $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs libibverbs 2>/dev/null)

$(guest-examples): $(O)/%: $(O)/obj/%.o $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs libibverbs 2>/dev/null)

$(O)/tests/guest/killed: $(call objs,$(guest-dir)/killed.c $(guest-dir)/killed-roles.c) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs libibverbs 2>/dev/null)

hostile-sources := $(addprefix $(guest-dir)/hostile,.c -identity.c -load.c -protocol.c) tests/wire/requests.c \
	proto/packet.c

$(O)/tests/guest/hostile: $(call objs,$(hostile-sources)) $(PROTO_GEN).o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) \
		$(shell pkg-config --libs libprotobuf-c 2>/dev/null)

calls-sources := $(sort $(wildcard $(guest-dir)/calls*.c))

$(O)/tests/guest/calls: $(call objs,$(calls-sources)) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs libibverbs 2>/dev/null)

$(O)/tests/guest/closes $(O)/tests/guest/unconfirmed: $(O)/tests/guest/%: $(O)/obj/$(guest-dir)/%.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs librdmacm libibverbs 2>/dev/null)

dropin-sources := $(addprefix $(guest-dir)/dropin,.c -back.c -ports.c -threads.c -user.c)

$(O)/tests/guest/dropin: $(call objs,$(dropin-sources))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ \
		$(shell pkg-config --libs librdmacm libibverbs 2>/dev/null)

$(addprefix $(O)/tests/guest/,killer.so late.so slow.so): $(O)/tests/guest/%.so: $(O)/obj/$(guest-dir)/%.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ $^ -ldl

$(O)/tests/guest/dropin-dlopen $(O)/tests/guest/sanitizer-probe $(O)/tests/guest/sockets: $(O)/tests/guest/%: $(O)/obj/$(guest-dir)/%.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^

sidebyside-sources := $(addprefix $(guest-dir)/sidebyside,.c -broker.c -direct.c -ids.c -scripts.c \
	-steps.c -tell.c)

$(O)/tests/guest/sidebyside: $(call objs,$(sidebyside-sources)) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(O) -lrdmabroker \
		$(shell pkg-config --libs librdmacm libibverbs 2>/dev/null)

# UCX's example in Debian's libucx-dev, built without this tree's flags, like another project's package.
ucx-example := /usr/share/doc/libucx-dev/examples/ucp_client_server.c

$(O)/tests/guest/ucp_client_server: $(ucx-example)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -w -o $@ $< -lucp -lucs

# Runs only if the file does not exist.
$(ucx-example):
	$(Q)echo 'Cannot build the programs of the guest, because there is no $@.' >&2; \
	echo 'On Debian, `make test-packages` installs libucx-dev, which has it. If libucx-dev is installed,' >&2; \
	echo 'dpkg left out /usr/share/doc on this host. Then run as root:' >&2; \
	echo "    apt-get --reinstall -o Dpkg::Options::='--path-include=/usr/share/doc/libucx-dev/*' install libucx-dev" >&2; \
	exit 1

# The version before this one, for the cases in which versions meet. Without the history of the tree it cannot be built, and
# the cases are skipped.
old-commit := 537adc0a61ccea2bc00f6310b6d71f87bdb328ce
old-dest := $(O)/guest/share/old
old-files := rdmabrokerd rdmabrokerctl rdmabroker-ping librdmabroker.so.2
old-stamp := $(O)/guest/old/stamp-$(old-commit)

.PHONY: guest-old

$(old-stamp):
	$(Q)rm -rf $(@D)
	$(Q)mkdir -p $(@D)/src
	$(Q)if git cat-file -e $(old-commit)^{commit} 2>/dev/null; then \
		git archive $(old-commit) | tar -x -C $(@D)/src && \
		$(MAKE) --no-print-directory -C $(@D)/src O=build SAN= DEVELOPER= $(addprefix build/,$(old-files)) >$(@D)/log && \
		cp -t $(@D) $(addprefix $(@D)/src/build/,$(old-files)) && rm -rf $(@D)/src; fi
	$(Q)touch $@

guest-old: $(old-stamp)
	$(Q)rm -rf $(old-dest)
	$(Q)mkdir -p $(O)/guest/share
	$(Q)cp -r $(O)/guest/old $(old-dest)
	$(Q)! git cat-file -e $(old-commit)^{commit} 2>/dev/null || \
		git show $(old-commit):conf/rdmabrokerd.conf >$(old-dest)/rdmabrokerd.conf

# The folder that the guest sees as /host.
guest-dest: all $(guest-programs)
	$(Q)rm -rf $(O)/guest/share/dest $(O)/guest/share/bin $(O)/guest/share/suites
	$(Q)mkdir -p $(O)/guest/share/dest
	$(Q)$(MAKE) --no-print-directory install DESTDIR=$(abspath $(O))/guest/share/dest PREFIX=/usr
	$(Q)cp -r $(addprefix $(guest-dir)/,lib.sh sanitizers.sh broker.sh load.sh calls.sh cmtime.sh pair.sh podman.sh programs.sh bin suites) \
		$(O)/guest/share/
	$(Q)cp -t $(O)/guest/share/bin $(guest-programs) tests/openmetrics
	$(Q)cp -r conf/examples README $(O)/guest/share/
	$(Q)$(MAKE) --no-print-directory -n uninstall DESTDIR= PREFIX=/usr >$(O)/guest/share/uninstall

# -dev and -dbgsym are left out, because the guest lacks their dependencies. librdmabroker-default is installed by the cases
# that are about it.
default-debs = rm -rf $(O)/guest/share/debs-default && mkdir -p $(O)/guest/share/debs-default && \
	cp -t $(O)/guest/share/debs-default $(1)/librdmabroker-default_*.deb

.PHONY: guest-debs check-guest-deb check-guest-packages
guest-debs: deb
	$(Q)rm -rf $(O)/guest/share/debs
	$(Q)mkdir -p $(O)/guest/share/debs
	$(Q)cp -t $(O)/guest/share/debs $(foreach p,rdmabroker rdmabroker-exporter rdmabroker-peerd rdmabroker-pull \
		librdmabroker2 librdmabroker-rdmacm,$(O)/deb/$(p)_*.deb)
	$(Q)$(call default-debs,$(O)/deb)

# Installation, upgrade, removal.
check-guest-packages: guest-image guest-dest guest-debs
	$(Q)$(guest-run) suites/packages.sh $(CASES)

# The suite of check-guest, with the product installed from its packages.
check-guest-deb: guest-image guest-dest guest-debs
	$(Q)$(guest-dir)/run --bare $(wordlist 2,99,$(guest-run)) env PRODUCT=debs suites/main.sh $(CASES)

# CASES="name ...": only these cases.
check-guest: guest-image guest-dest
	$(Q)$(guest-run) suites/main.sh $(CASES)

# The library's calls, made by unprivileged users.
check-guest-calls: guest-image guest-dest
	$(Q)$(guest-run) suites/calls.sh $(CASES)

# Limits, quotas, reloads, the journal.
check-guest-policy: guest-image guest-dest
	$(Q)$(guest-run) suites/policy.sh $(CASES)

# Into a live cluster.
.PHONY: check-guest-live
check-guest-live: guest-image guest-dest
	$(Q)$(guest-run) suites/live.sh $(CASES)

# A week by rdmabroker-adopt(7), in a guest whose clock counts instructions.
.PHONY: check-guest-adopt
check-guest-adopt: guest-image guest-dest
	$(Q)$(guest-dir)/run --count $(wordlist 2,99,$(guest-run)) suites/adopt.sh $(CASES)

# Debian's programs of librdmacm.
check-guest-dropin: guest-image guest-dest
	$(Q)$(guest-run) suites/dropin.sh $(CASES)

# The same programs, with the drop-in as the default.
.PHONY: check-guest-dropin-default
check-guest-dropin-default: guest-image guest-dest
	$(Q)$(guest-run) suites/dropin-default.sh $(CASES)

# QEMU's live migration over RDMA.
.PHONY: check-guest-qemu
check-guest-qemu: guest-image guest-dest
	$(Q)$(guest-run) suites/qemu.sh $(CASES)

# Scripts that must have the same results with librdmacm and with the drop-in.
check-guest-dropin-sidebyside: guest-image guest-dest
	$(Q)$(guest-run) suites/dropin-sidebyside.sh $(CASES)

# Scripts that must have the same results with librdmacm and with librdmabroker.
check-guest-sidebyside: guest-image guest-dest
	$(Q)$(guest-run) suites/sidebyside.sh $(CASES)

# Clients that break the protocol, use too many resources, or are killed.
check-guest-hostile: guest-image guest-dest
	$(Q)$(guest-run) suites/hostile.sh $(CASES)

check-guest-takeover: guest-image guest-dest
	$(Q)$(guest-run) suites/takeover.sh $(CASES)

# Containers of podman.
check-guest-containers: guest-image guest-dest guest-old
	$(Q)$(guest-run) suites/containers.sh $(CASES)

check-guest-restricted: guest-image guest-dest
	$(Q)$(guest-run) suites/restricted.sh $(CASES)

# Software iWARP for the guest's kernel.
.PHONY: guest-siw check-guest-iwarp check-guest-pair check-guest-peers
guest-siw: $(O)/guest/share/modules/siw-$(notdir $(guest-stamp))

$(O)/guest/share/modules/siw-$(notdir $(guest-stamp)): $(guest-dir)/module | guest-image
	$(Q)rm -rf $(@D)
	$(Q)$(guest-dir)/module siw $(guest-at) $(@D)
	$(Q)touch $@

# Soft-RoCE and software iWARP that are as slow and as unready as hardware can be.
.PHONY: guest-hardware check-guest-hardware
hardware-stamp := $(O)/guest/share/hardware/built-$(notdir $(guest-stamp))
guest-hardware: $(hardware-stamp)

$(hardware-stamp): $(addprefix $(guest-dir)/,module rxe.patch siw.patch) | guest-image
	$(Q)rm -rf $(@D)
	$(Q)$(guest-dir)/module rxe $(guest-at) $(@D) $(guest-dir)/rxe.patch
	$(Q)$(guest-dir)/module siw $(guest-at) $(@D) $(guest-dir)/siw.patch
	$(Q)touch $@

# Two guests on one wire.
check-guest-pair: guest-image guest-dest
	$(Q)$(guest-dir)/run --second $(wordlist 2,99,$(guest-run)) suites/pair.sh $(CASES)

# Two guests, whose brokers ask each other who peers are.
check-guest-peers: guest-image guest-dest
	$(Q)$(guest-dir)/run --second $(wordlist 2,99,$(guest-run)) suites/peers.sh $(CASES)

# Software iWARP instead of Soft-RoCE.
check-guest-iwarp: guest-image guest-dest guest-siw
	$(Q)$(guest-run) suites/iwarp.sh $(CASES)

.PHONY: check-guest-iwarp-sidebyside
check-guest-iwarp-sidebyside: guest-image guest-dest guest-siw
	$(Q)$(guest-run) suites/iwarp-sidebyside.sh $(CASES)

check-guest-hardware: guest-image guest-dest guest-hardware
	$(Q)$(guest-run) suites/hardware.sh $(CASES)

check-guest-pull: guest-image guest-dest
	$(Q)$(guest-run) suites/pull.sh $(CASES)

# README's commands.
check-guest-readme: guest-image guest-dest
	$(Q)$(guest-run) suites/readme.sh $(CASES)

check-guest-smoke: guest-image guest-dest
	$(Q)$(guest-run) suites/smoke.sh $(CASES)

# What `make demo` and `make guest-shell` need. The guest comes first, so that its errors are reported before anything is
# compiled. It is built before the product, because both would use all processors.
.PHONY: demo-ready guest-shell check-guest-shell
demo-ready: guest-image
	@echo 'Building rdmabroker and the programs that run in the guest; this takes a minute or two'
	+$(Q)$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) guest-dest

demo-guest: demo-ready
	@echo 'Running the demo in the guest; this takes a minute'
	$(Q)$(guest-run) suites/demo.sh || { printf '\nThe demo did not work. The lines above say where it ended.\n'; exit 1; }
	@printf '\nThe demo worked: by policy, bob could connect to port 7471, and was rejected on port 7472.\n'

guest-shell: demo-packages
	+$(Q)$(MAKE) --no-print-directory demo-ready
	$(Q)$(wordlist 1,1,$(guest-run)) --shell $(wordlist 2,99,$(guest-run)) suites/shell.sh

check-guest-shell: guest-image guest-dest
	$(Q)$(MAKE) --no-print-directory guest-shell-typed

# Prepares nothing, because tests/run runs it beside other suites, which use the shared folder.
.PHONY: guest-shell-typed
guest-shell-typed:
	$(Q)O=$(O) $(guest-dir)/shell-check
