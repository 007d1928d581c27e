# SPDX-License-Identifier: BSD-2-Clause
# This file has the rules. Each folder's module.mk lists the folder's files. `make help` lists the targets.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The build directory. Only install, bench-record, abi-program and the installation of packages write outside it,
# besides temporary files.
O ?= build
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' $(1) '$(2)')

# The directories of the installation.
PREFIX ?= /usr
SYSCONFDIR ?= /etc
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
LIBEXECDIR ?= $(PREFIX)/lib/rdmabroker
LIBDIR ?= $(PREFIX)/lib/$(shell $(CC) -print-multiarch 2>/dev/null)
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
MODULESLOADDIR ?= $(PREFIX)/lib/modules-load.d
UDEVDIR ?= $(PREFIX)/lib/udev/rules.d
CATALOGDIR ?= $(PREFIX)/lib/systemd/catalog
DOCDIR ?= $(PREFIX)/share/doc/rdmabroker
DATADIR ?= $(PREFIX)/share/rdmabroker
PROMETHEUS_FILES := conf/prometheus/rdmabroker.rules.yml conf/prometheus/rdmabroker-dashboard.json
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

# CFLAGS, CPPFLAGS and LDFLAGS belong to the user. DEVELOPER=1: strict warnings are errors.
CC := $(if $(filter default,$(origin CC)),gcc,$(CC))
# The compiler for what runs while the rest is built, if CC is a cross-compiler.
CC_FOR_BUILD ?= $(CC)
CFLAGS ?= -O2 -g
DEVELOPER ?= 0
SAN ?=
ifneq ($(SAN),)
san-flags := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
# In a make that another make has started, CFLAGS may already contain these flags.
ifeq ($(findstring $(san-flags),$(CFLAGS)),)
override CFLAGS += $(san-flags)
endif
endif
WARN := -Wall -Wextra -Wno-unused-parameter
ifeq ($(DEVELOPER),1)
WARN += -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla \
	-Wwrite-strings -Wformat=2
endif

VERSION := $(shell sed -n 's/^.define RDMABROKER_VERSION "\(.*\)"/\1/p' proto/version.h)
OUR_CPPFLAGS := -D_GNU_SOURCE -DRDMABROKER_CONFIG='"$(SYSCONFDIR)/rdmabroker/rdmabrokerd.conf"' \
	-DRDMABROKERD='"$(SBINDIR)/rdmabrokerd"' \
	-DEXPORTER_CONFIG='"$(SYSCONFDIR)/rdmabroker/exporter.conf"' \
	-DPEERD_CONFIG='"$(SYSCONFDIR)/rdmabroker/peerd.conf"' \
	-I. -I$(O) -Idaemon -Iclient
OUR_CFLAGS := -std=gnu11 -fPIC -pthread $(WARN)
COMPILE = $(CC) $(OUR_CPPFLAGS) $(CPPFLAGS) $(OUR_CFLAGS) $(CFLAGS)
SUBST = sed -e 's|@SBINDIR@|$(SBINDIR)|g' -e 's|@BINDIR@|$(BINDIR)|g' -e 's|@PREFIX@|$(PREFIX)|g' \
	-e 's|@LIBEXECDIR@|$(LIBEXECDIR)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' \
	-e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' -e 's|@VERSION@|$(VERSION)|g'

objs = $(patsubst %.c,$(O)/obj/%.o,$(1))
ALL :=

include proto/module.mk daemon/module.mk client/module.mk systemd/module.mk tests/module.mk \
	tests/bench/module.mk tests/guest/module.mk tests/hooks/module.mk tests/abi/module.mk \
	tests/fuzz/module.mk tests/fault/module.mk tests/analyze/module.mk tests/fresh/module.mk tests/kubernetes/module.mk \
	tests/prometheus/module.mk tests/ansible/module.mk tests/pull/module.mk tests/arm64/module.mk \
	conf/module.mk

.PHONY: all FORCE
all: $(ALL)

# If the flags or directories change, the files that depend on them are built anew, so that objects with and without
# sanitizers are not mixed. Warning flags do not count.
STAMPS := $(O)/stamp-flags $(O)/stamp-dirs
stamp-flags := $(CC) $(OUR_CPPFLAGS) $(CPPFLAGS) $(filter-out $(WARN),$(OUR_CFLAGS)) $(CFLAGS) $(LDFLAGS)
stamp-dirs := $(SUBST)

ifneq ($(file <$(O)/stamp-flags),$(stamp-flags))
$(O)/stamp-flags: FORCE
endif
ifneq ($(file <$(O)/stamp-dirs),$(stamp-dirs))
$(O)/stamp-dirs: FORCE
endif

$(STAMPS): export STAMP = $($(@F))
$(STAMPS):
	$(Q)mkdir -p $(@D)
	$(Q)printf '%s\n' "$$STAMP" >$@

# Looks for headers and tools, because not every host has Debian's packages.
$(O)/stamp-needs: TOOLS = $(firstword $(CC)) pkg-config protoc-c
$(O)/stamp-needs: HEADERS = stdio.h systemd/sd-event.h protobuf-c/protobuf-c.h infiniband/verbs.h rdma/rdma_cma.h \
	sys/acl.h libmnl/libmnl.h libsmartcols/libsmartcols.h microhttpd.h openssl/evp.h uthash.h
$(O)/stamp-needs: INSTALLS = build-packages

$(O)/stamp-needs-tests: TOOLS = python3
$(O)/stamp-needs-tests: HEADERS = check.h
$(O)/stamp-needs-tests: INSTALLS = test-packages

$(O)/stamp-needs-peerd: HEADERS = jansson.h munge.h
$(O)/stamp-needs-peerd: INSTALLS = build-packages

$(O)/stamp-needs $(O)/stamp-needs-tests $(O)/stamp-needs-peerd: $(O)/stamp-flags
	$(Q)missing=; \
	for tool in $(TOOLS); do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	for header in $(HEADERS); do \
		echo "#include <$$header>" | $(CC) $(CPPFLAGS) $(CFLAGS) -E -x c - >/dev/null 2>&1 || \
		missing="$$missing <$$header>"; done; \
	test -z "$$missing" || { echo "Cannot build, because these are missing:$$missing" >&2; \
		echo 'On Debian, `make $(INSTALLS)` installs the packages that have it.' >&2; exit 1; }
	$(Q)touch $@

$(PROTO_GEN).c $(PROTO_GEN).h: | $(O)/stamp-needs

define compile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<
endef

$(O)/obj/tests/unit/%.o: tests/unit/%.c $(O)/stamp-flags | $(PROTO_GEN).h $(O)/stamp-needs $(O)/stamp-needs-tests
	$(compile)

$(O)/obj/%.o: %.c $(O)/stamp-flags | $(PROTO_GEN).h $(O)/stamp-needs
	$(compile)

$(PROTO_GEN).o: $(PROTO_GEN).c $(O)/stamp-flags
	$(call say,CC,$<)
	$(Q)$(COMPILE) -w -c -o $@ $<

# For clangd and other tools that want to know how each file is compiled.
.PHONY: compile-commands
compile-commands: $(PROTO_GEN).h
	$(Q)git ls-files '*.c' | python3 -c 'import json, sys; files = sys.stdin.read().split(); \
		print(json.dumps([{"directory": "$(CURDIR)", "file": f, "arguments": [*sys.argv[1:], "-c", f]} \
				  for f in files], indent=1))' $(COMPILE) > $(O)/compile_commands.json

-include $(shell test -d $(O)/obj && find $(O)/obj -name '*.d')

# Debian packages. Targets such as check, demo and deb first install those that are missing; `make all` does not.
BUILD_PACKAGES := gcc libc6-dev pkg-config protobuf-c-compiler libprotobuf-c-dev libsystemd-dev \
	libibverbs-dev librdmacm-dev libacl1-dev libmnl-dev libmicrohttpd-dev uthash-dev \
	libssl-dev libjansson-dev libmunge-dev libsmartcols-dev
DEB_PACKAGES := $(BUILD_PACKAGES) build-essential check debhelper dpkg-dev lintian python3
UNIT_PACKAGES := $(DEB_PACKAGES) munge
GUEST_PACKAGES := mmdebstrap uidmap qemu-system-x86 e2fsprogs python3 libucx-dev libinih-dev
DEMO_PACKAGES := $(BUILD_PACKAGES) $(GUEST_PACKAGES)
# Software iWARP for the guest's kernel, which Debian has as source only, and drivers that are changed.
IWARP_PACKAGES := linux-headers-amd64 linux-source patch xz-utils
# All packages that the steps of `make check` need: no step installs any. `make check-rest` needs those of arm64, too.
TEST_PACKAGES = $(sort $(UNIT_PACKAGES) $(RPM_PACKAGES) $(GUEST_PACKAGES) $(FUZZ_PACKAGES) $(COUNT_PACKAGES) \
	$(KUBERNETES_PACKAGES) $(PROMETHEUS_PACKAGES) $(ANSIBLE_PACKAGES) $(PULL_PACKAGES) $(IWARP_PACKAGES) mandoc groff-base)

# Installs the missing packages of $(NEEDED).
install-missing = $(Q)NO_INSTALL='$(NO_INSTALL)' tests/install-packages $(NEEDED)

.PHONY: build-packages deb-packages demo-packages test-packages unit-packages
build-packages: NEEDED = $(BUILD_PACKAGES)
deb-packages: NEEDED = $(DEB_PACKAGES)
unit-packages: NEEDED = $(UNIT_PACKAGES)
demo-packages: NEEDED = $(DEMO_PACKAGES)
test-packages: NEEDED = $(TEST_PACKAGES)
# guest-user reports problems that no package solves: it comes before the installation of packages.
demo-packages test-packages: guest-user
build-packages deb-packages demo-packages test-packages unit-packages:
	$(install-missing)

# What packages bring is looked up while this file is read. If the same command installs them and builds, make reads it again
# after the installation: GNU make does so when a file that it includes was made anew.
ifneq ($(and $(filter %-packages,$(MAKECMDGOALS)),$(filter-out %-packages,$(MAKECMDGOALS))),)
ifeq ($(MAKE_RESTARTS)$(findstring n,$(firstword -$(MAKEFLAGS))),)
include $(O)/packages.mk
$(O)/packages.mk: $(filter %-packages,$(MAKECMDGOALS))
	$(Q)mkdir -p $(@D)
	$(Q)touch $@
endif
endif

# Tests, in three shares: `check` is run before each commit, .ci/run also runs `check-more`, and `check-all` runs these
# and `check-rest`. Their last line is "N passed, N failed". tests/steps lists which share runs what.
# SHARE=fast: the part of a step that `check` runs; SHARE=long: the other part.
SHARE ?=
.PHONY: check check-more check-rest check-all check-unit check-sanitizers check-guest check-calls check-ctl check-layers \
	check-circles check-headers check-abi check-man check-install check-skipped
check-rest check-all: arm64-packages
check check-more check-rest check-all: test-packages
	+$(Q)exec env NO_INSTALL=1 O='$(O)' SAN='$(SAN)' MAKE='$(MAKE)' tests/run $(@:check-%=%)

# The long share is one program, with ten times the rounds of the fast share.
check-unit: $(UNIT) $(DROPIN) $(addprefix $(O)/,rdmabrokerd rdmabrokerctl rdmabroker-exporter \
		rdmabroker-peerd rdmabroker-ping)
	$(Q)SRCDIR=. O=$(O) $(if $(filter fast,$(SHARE)),ROUNDS=400) tests/unit/run \
		$(if $(filter long,$(SHARE)),$(O)/tests/unit/check_policy_property,$(UNIT))

# What tells most about a new compiler and new libraries, without a guest.
.PHONY: check-built
check-built: unit-packages
	+$(Q)$(MAKE) --no-print-directory -j$(shell nproc) DEVELOPER=1 all $(UNIT)
	+$(Q)$(MAKE) --no-print-directory DEVELOPER=1 check-headers check-abi check-install
	+$(Q)$(MAKE) --no-print-directory DEVELOPER=1 check-unit SHARE=fast

# check-fault's build directory has objects with sanitizers.
check-sanitizers:
	+$(Q)$(MAKE) --no-print-directory O=$(O)/fault SHARE= SAN=address,undefined \
		CFLAGS='$(FAULT_CFLAGS)' check-unit

check-calls:
	$(Q)tests/calls

check-ctl: $(O)/rdmabrokerctl
	$(Q)O=$(O) tests/ctl

check-layers:
	$(Q)tests/layers

check-circles: all
	$(Q)O='$(O)' tests/circles

check-headers: $(PROTO_GEN).h
	$(Q)set -e; for h in $$(find daemon client proto tests -name '*.h'); do \
		$(COMPILE) -x c -fsyntax-only -include "$$h" /dev/null; done; \
	$(CC) -Iclient -Wall -Wextra -Werror -x c++ -fsyntax-only tests/header.cc; \
	echo 'Every header compiles alone, and the public one in C++ too.'

# The library must export the calls in its map and its header, and the drop-in must export those of librdmacm.
exported = nm -D --defined-only $(1) | sed -n 's/.* [TW] \(.*@.*\)/\1/p' | sort
declared = grep -ohE '\brdmabroker_[a-z_]+\(' $(1) | sed 's/.$$/@@$(2)/' | sort -u
check-abi: $(LIB) $(DROPIN)
	$(Q)set -e; $(call exported,$(LIB)) >$(O)/abi.exported; \
	{ $(call declared,client/rdmabroker.h,RDMABROKER_2); \
		$(call declared,client/admin.h,RDMABROKER_PRIVATE_$(VERSION)); } | sort >$(O)/abi.declared; \
	sed 's/@@RDMABROKER_2\..*/@@RDMABROKER_2/' $(O)/abi.exported | sort | diff -u $(O)/abi.declared -; \
	sed 's/@@.*//' $(O)/abi.exported >$(O)/abi.names; \
	sed -n 's/^\t\t\(rdmabroker_[a-z_]*\);/\1/p' $(LIB_MAP) | sort | diff -u - $(O)/abi.names; \
	echo 'The library exports what rdmabroker.h declares, and in a private version what admin.h does.'
	$(Q)set -e; $(call exported,$$($(CC) -print-file-name=librdmacm.so.1)) >$(O)/abi.librdmacm; \
	test -s $(O)/abi.librdmacm; $(call exported,$(DROPIN)) >$(O)/abi.dropin; \
	printf '%s\n' ibv_open_device@@IBVERBS_1.1 rdma_query_addrinfo@@RDMACM_1.4 rdma_resolve_addrinfo@@RDMACM_1.4 \
		rdma_write_cm_event@@RDMACM_1.4 repoll_create@@RDMACM_1.5 repoll_ctl@@RDMACM_1.5 \
		repoll_wait@@RDMACM_1.5 | sort -u - $(O)/abi.librdmacm | diff -u - $(O)/abi.dropin; \
	echo 'The drop-in exports what librdmacm does, also the newest one, and ibv_open_device().'; \
	sed -n 's/@@RDMACM_.*//p' $(O)/abi.dropin | sort >$(O)/abi.calls; \
	sed -n '/^\.Sh CALLS/,/^\.Sh [^C]/s/^\.It Fn //p' client/rdmacm/librdmabroker-rdmacm.7 \
		| sed 's/ , Fn /\n/g' | sort | diff -u $(O)/abi.calls -; \
	echo 'The page of the drop-in says what each of them does.'

check-install: all
	$(Q)O='$(O)' MAKE='$(MAKE)' tests/install
	$(Q)tests/hardware-report

check-skipped:
	$(Q)tests/skipped

check-man:
	$(Q)mandoc -T lint -W warning $(DAEMON_MAN) $(CLIENT_MAN) && echo 'The man pages are clean.'
	$(Q)tests/man-render $(DAEMON_MAN) $(CLIENT_MAN)
	$(Q)CC='$(CC)' tests/man-examples

# A host with RDMA needs no guest: rdmabroker can be tried on the host itself.
INFINIBAND ?= /sys/class/infiniband
GUEST ?=
HAS_RDMA = $(if $(GUEST),,$(notdir $(wildcard $(INFINIBAND)/*)))
.PHONY: demo
ifeq ($(HAS_RDMA),)
demo: demo-packages
	+$(Q)$(MAKE) --no-print-directory demo-guest
else
demo:
	@echo 'This host has RDMA devices: $(HAS_RDMA).'
	@echo 'To try rdmabroker on it, follow INSTALL and FIRST POLICY in README.'
	@echo 'GUEST=1 make demo shows it in an emulated guest instead.'
endif

.PHONY: format-check
format-check:
	$(Q)clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h')

INSTALL ?= install
to = $(DESTDIR)$(1)
# $(call replace,MODE,FILE,FOLDER[,NAME]): what programs load or execute is replaced as a whole: a program that starts in between
# gets the file of before. ldconfig does not look at names that begin with a dot.
replace = $(call replace-as,$(1),$(2),$(call to,$(3)),$(or $(4),$(notdir $(2))))
replace-as = $(INSTALL) -m $(1) $(2) '$(3)/.$(4).new' && mv -f '$(3)/.$(4).new' '$(3)/$(4)'

.PHONY: install install-ready uninstall
install: install-ready
	$(Q)$(INSTALL) -d $(addprefix $(DESTDIR),$(BINDIR) $(SBINDIR) $(LIBEXECDIR) $(LIBDIR)/pkgconfig $(LIBDIR)/rdmabroker/default \
		$(INCLUDEDIR) $(UNITDIR) $(SYSUSERSDIR) $(TMPFILESDIR) $(MODULESLOADDIR) \
		$(UDEVDIR) $(CATALOGDIR) $(DOCDIR)/examples/ansible $(DOCDIR)/examples/kubernetes $(DATADIR)/prometheus $(COMPLETIONDIR) $(addprefix $(MANDIR)/man,1 3 5 7 8) \
	 $(SYSCONFDIR)/rdmabroker/policy.d \
		$(SYSCONFDIR)/rdmabroker/rdmabrokerd.conf.d $(SYSCONFDIR)/rdmabroker/pull)
	$(Q)$(foreach p,$(O)/rdmabrokerd $(O)/rdmabroker-pull $(addprefix $(INSTALLED)/,rdmabroker-exporter rdmabroker-peerd), \
		$(call replace,755,$(p),$(SBINDIR)) &&) :
	$(Q)$(foreach p,rdmabrokerctl rdmabroker-ping,$(call replace,755,$(INSTALLED)/$(p),$(BINDIR)) &&) :
	$(Q)$(call replace,644,$(LIB),$(LIBDIR),librdmabroker.so.$(VERSION))
	$(Q)ln -sf librdmabroker.so.$(VERSION) $(call to,$(LIBDIR))/librdmabroker.so.2
	$(Q)ln -sf librdmabroker.so.2 $(call to,$(LIBDIR))/librdmabroker.so
	$(Q)# ldconfig must not find the drop-in, as it would make the drop-in the system's librdmacm.
	$(Q)$(call replace,644,$(INSTALLED)/$(notdir $(DROPIN)),$(LIBDIR)/rdmabroker)
	$(Q)# "rdmabrokerctl dropin enable" gives this folder to ldconfig. Some programs load librdmacm.so, without a version.
	$(Q)ln -sf ../$(notdir $(DROPIN)) $(call to,$(LIBDIR))/rdmabroker/default/librdmacm.so.1
	$(Q)ln -sf librdmacm.so.1 $(call to,$(LIBDIR))/rdmabroker/default/librdmacm.so
	$(Q)$(INSTALL) -m 644 $(O)/rdmabroker.pc $(call to,$(LIBDIR))/pkgconfig
	$(Q)$(INSTALL) -m 644 client/rdmabroker.h $(call to,$(INCLUDEDIR))
	$(Q)$(INSTALL) -m 644 $(SYSTEMD_GEN) $(SYSTEMD_UNITS) $(call to,$(UNITDIR))
	$(Q)for u in rdmabroker rdmabroker-exporter rdmabroker-peerd rdmabroker-pull; do \
		$(INSTALL) -m 644 systemd/$$u.sysusers '$(call to,$(SYSUSERSDIR))'/$$u.conf; done
	$(Q)$(INSTALL) -m 644 systemd/rdmabroker.tmpfiles $(call to,$(TMPFILESDIR))/rdmabroker.conf
	$(Q)$(INSTALL) -m 644 systemd/rdmabroker.modules-load \
		$(call to,$(MODULESLOADDIR))/rdmabroker.conf
	$(Q)$(INSTALL) -m 644 systemd/90-rdmabroker.rules $(call to,$(UDEVDIR))
	$(Q)$(INSTALL) -m 644 systemd/rdmabroker.catalog $(call to,$(CATALOGDIR))
	$(Q)$(INSTALL) -m 644 $(filter-out conf/examples/ansible,$(wildcard conf/examples/*)) $(call to,$(DOCDIR))/examples
	$(Q)$(INSTALL) -m 644 $(wildcard conf/examples/ansible/*) $(call to,$(DOCDIR))/examples/ansible
	$(Q)$(INSTALL) -m 644 $(wildcard conf/kubernetes/*) $(call to,$(DOCDIR))/examples/kubernetes
	$(Q)$(INSTALL) -m 644 $(PROMETHEUS_FILES) $(call to,$(DATADIR))/prometheus
	$(Q)$(INSTALL) -m 644 client/ctl/rdmabrokerctl.bash $(call to,$(COMPLETIONDIR))/rdmabrokerctl
	$(Q)for m in $(CLIENT_MAN) $(DAEMON_MAN); do \
		$(INSTALL) -m 644 $$m '$(call to,$(MANDIR))'/man$${m##*.}; done
	$(Q)for f in rdmabrokerd.conf exporter.conf peerd.conf pull.conf $(patsubst conf/%,%,$(wildcard conf/policy.d/*.rules)); do \
		to='$(call to,$(SYSCONFDIR))/rdmabroker'/$$f; \
		if test -e "$$to"; then echo "  KEEP     $$to"; \
		else $(INSTALL) -m 644 conf/$$f "$$to"; fi; done
	$(if $(DESTDIR),,@echo 'Installed. Next, run the commands after `make install` in section INSTALL of README.')

# Installation compiles nothing: it often runs as root, and the user's next make could not overwrite root's files.
install-ready: export NOW_FLAGS = $(stamp-flags)
install-ready: export NOW_DIRS = $(stamp-dirs)
install-ready:
	$(Q)if $(MAKE) --no-print-directory -q all >/dev/null 2>&1; then exit 0; fi; \
	exec >&2; \
	if ! test -e $(O)/rdmabrokerd; then echo 'Nothing is built in $(O): run `make` first, as yourself.'; exit 1; fi; \
	for stamp in flags:"$$NOW_FLAGS" dirs:"$$NOW_DIRS"; do \
		was="$$(cat $(O)/stamp-$${stamp%%:*})"; now="$${stamp#*:}"; test "$$was" != "$$now" || continue; \
		echo 'What is in $(O) was built with other variables than these.'; \
		printf '  built with  %s\n  now         %s\n' "$$was" "$$now"; \
		echo 'Set for install what was set for make, on its command line: sudo drops the environment.'; exit 1; \
	done; \
	echo 'What is in $(O) is older than the sources: run `make` first, as yourself.'; exit 1

# Files that the admin may have changed stay.
uninstall:
	$(Q)rm -f $(call to,$(SBINDIR))/rdmabrokerd $(call to,$(SBINDIR))/rdmabroker-exporter \
		$(call to,$(SBINDIR))/rdmabroker-peerd $(call to,$(SBINDIR))/rdmabroker-pull \
		$(call to,$(BINDIR))/rdmabrokerctl \
		$(call to,$(BINDIR))/rdmabroker-ping $(call to,$(LIBDIR))/librdmabroker.so* \
		$(call to,$(LIBDIR))/rdmabroker/$(notdir $(DROPIN)) $(call to,$(LIBDIR))/rdmabroker/default/librdmacm.so* \
		$(call to,$(LIBDIR))/pkgconfig/rdmabroker.pc $(call to,$(INCLUDEDIR))/rdmabroker.h \
		$(addprefix $(call to,$(UNITDIR))/,$(notdir $(SYSTEMD_GEN) $(SYSTEMD_UNITS))) \
		$(call to,$(SYSUSERSDIR))/rdmabroker-exporter.conf $(call to,$(SYSUSERSDIR))/rdmabroker-peerd.conf $(call to,$(SYSUSERSDIR))/rdmabroker-pull.conf \
		$(call to,$(SYSUSERSDIR))/rdmabroker.conf $(call to,$(TMPFILESDIR))/rdmabroker.conf \
		$(call to,$(MODULESLOADDIR))/rdmabroker.conf \
		$(call to,$(UDEVDIR))/90-rdmabroker.rules $(call to,$(CATALOGDIR))/rdmabroker.catalog \
		$(call to,$(COMPLETIONDIR))/rdmabrokerctl
	$(Q)rm -rf $(call to,$(DOCDIR))/examples $(call to,$(DATADIR))/prometheus
	$(Q)for m in $(CLIENT_MAN) $(DAEMON_MAN); do \
		rm -f '$(call to,$(MANDIR))'/man$${m##*.}/$${m##*/}; done
	$(Q)rmdir $(call to,$(LIBDIR))/rdmabroker/default $(call to,$(LIBDIR))/rdmabroker $(call to,$(LIBEXECDIR)) $(call to,$(DOCDIR)) $(call to,$(DATADIR)) 2>/dev/null || :

.PHONY: clean help
clean:
	$(Q)rm -rf $(O)

help:
	@echo 'make [all]          build into $$O (build)'
	@echo '  build-packages    install the Debian packages that it takes to build (with sudo, if you are not root)'
	@echo '  test-packages     install those that demo and check need besides; they do so themselves'
	@echo 'make demo           show the main job, in an emulated guest with Soft-RoCE; on a host with RDMA'
	@echo '                    devices it only says how to try it there, and GUEST=1 shows the guest'
	@echo 'make guest-shell    a shell in such a guest, with the product and two users who may use it'
	@echo 'make check          the tests that are run before each commit; installs the Debian packages that are missing'
	@echo 'make check-all      all tests; tests/steps lists what runs where, and how long each step takes'
	@echo '  check-more        what .ci/run runs after check'
	@echo '  check-rest        what check and check-more leave out'
	@echo '  check-unit        unit tests'
	@echo '  check-sanitizers  unit tests with sanitizers'
	@echo '  check-guest       the guest suite; CASES="name ..." runs only these, CASES="--except name ..." the others'
	@echo '  check-guest-policy      the guest: limits, quotas, reloads, the journal'
	@echo '  check-guest-live        the guest: from programs without the broker to a policy'
	@echo '  check-guest-adopt       the guest: a week by rdmabroker-adopt(7)'
	@echo '  check-guest-calls       the guest: calls that the programs do not make'
	@echo '  check-guest-sidebyside  the guest: librdmacm and librdmabroker compared'
	@echo '  check-guest-dropin      the guest: programs of librdmacm through the broker'
	@echo '  check-guest-qemu        the guest: live migration of QEMU over RDMA, through the broker'
	@echo '  check-guest-dropin-sidebyside  the guest: librdmacm and the drop-in compared'
	@echo '  check-guest-hostile     the guest: hostile clients, and clients that are killed'
	@echo '  check-guest-takeover    the guest: the daemon is killed and restarted, and connections go on'
	@echo '  check-guest-containers  the guest: containers of podman, of root and rootless'
	@echo '  check-guest-restricted  the guest: restricted sessions, daemons in other network namespaces'
	@echo '  check-guest-pull        the guest: rdmabroker-pull as systemd runs it'
	@echo '  check-guest-pair        two guests on one wire: programs, restarts, hosts that disappear, losses, a partition'
	@echo '  check-guest-iwarp       the guest: software iWARP instead of Soft-RoCE'
	@echo '  check-guest-hardware    the guest: devices that are slow, not ready, many, or gone'
	@echo '  check-guest-readme      the guest: the commands of README, as they stand there'
	@echo '  check-guest-shell       the guest: what make guest-shell promises'
	@echo '  check-guest-smoke       the guest itself, without the product'
	@echo '  check-guest-packages    the guest: the Debian packages come, are upgraded, and go'
	@echo '  check-guest-deb   what check-guest does, installed from the Debian packages (not in check-all)'
	@echo '  check-calls       every call has a case; prints which'
	@echo '  check-ctl         help, completion and man page of rdmabrokerctl agree'
	@echo '  check-kubernetes  the files for Kubernetes: their schemas, rules and scripts; without a cluster'
	@echo '  check-prometheus  the alerts and the dashboard, with a real Prometheus'
	@echo '  check-ansible     the tasks for Ansible, with a real Ansible and two daemons on the fake fabric'
	@echo '  check-pull        rdmabroker-pull, with a real git, signatures, and a daemon on the fake fabric'
	@echo '  check-layers      no floor includes one above it, and circles stay small'
	@echo '  check-circles     by what is built: small circles of calls, and nothing that nobody uses'
	@echo '  check-headers     every header compiles alone'
	@echo '  check-abi         the libraries export what they should'
	@echo '  check-man         the man pages are clean'
	@echo '  check-install     installation takes what is built, and compiles nothing; a report of hardware has no addresses'
	@echo '  check-skipped     what is skipped is told, with its reason'
	@echo '  check-fresh-packages    in a bare Debian: the packages are built with their tests, installed, upgraded and removed'
	@echo '  check-fresh-newcomer    in a bare Debian: the first minute of make, make demo and make check, as a user'
	@echo '  check-rpm               the RPM packages have the files that the Debian packages have'
	@echo '  check-fresh-other       in a bare Debian of another release: the build and the unit tests'
	@echo '  check-arm64             for arm64: the cross-compiled build, and the unit tests in an emulator'
	@echo '  check-fuzz        the fuzz targets: their seeds, then 10 s each'
	@echo '  check-fault       a story in which every call fails once, under sanitizers'
	@echo '                    SHARE=fast of check-unit, check-fuzz and check-fault is what make check runs of them'
	@echo 'make fuzz           the same for FUZZ_TIME=60 seconds each; FUZZERS="rules ..." only these'
	@echo 'make analyze        gcc -fanalyzer, clang-tidy, cppcheck'
	@echo 'make coverage       what the tests that need no guest run of the product'
	@echo 'make bench          connection set-up through the broker against librdmacm, in the guest;'
	@echo '                    ROUNDS=5 CONNECTS=200 CLIENTS="1 8 64"; the report is in $$O/bench'
	@echo '  bench-build       build rdmabroker-bench, to run it on a host with RDMA'
	@echo 'make bench-policy   how long a decision takes, from 10 to 100,000 rules'
	@echo 'make bench-siege    what a victim waits for while another user attacks the daemon'
	@echo 'make bench-host     what the broker itself costs, above a fake fabric: CPU time, packets and'
	@echo '                    waits of a connection, memory of an object; HOST_ROUNDS=21'
	@echo 'make bench-peers    what it costs to know who the peer is, with a real munged'
	@echo 'make bench-check    instructions and system calls of a connection, against those recorded (in check)'
	@echo 'make bench-record   write them anew'
	@echo 'make check-burst    what a burst of connections costs, in a guest whose clock counts instructions'
	@echo 'make bench-grow     instructions for one of many objects, against one of few (in check)'
	@echo 'make format-check   clang-format has nothing to change'
	@echo 'make compile-commands  compile_commands.json in $(O), for clangd'
	@echo 'make install        what make has built; DESTDIR= PREFIX=/usr SYSCONFDIR=/etc; see README for all variables'
	@echo 'make uninstall      the same variables; keeps $$SYSCONFDIR/rdmabroker'
	@echo 'make deb            Debian packages, into $$O/deb; lintian has nothing to say'
	@echo 'make rpm            RPM packages, into $$O/rpm, by the rpmbuild of this machine'
	@echo 'make clean          remove $$O'
	@echo 'Variables: O= V=1 DEVELOPER=1 SAN=address,undefined CC= CC_FOR_BUILD= CFLAGS= CPPFLAGS= LDFLAGS='
