# SPDX-License-Identifier: BSD-2-Clause
# A fresh machine: a bare Debian, and an archive of all packages that the tree names, so that its tests need no
# network. It is built anew when its recipe or these names change.
fresh-dir := tests/fresh
comma := ,
fresh-packages = $(sort $(DEMO_PACKAGES) $(TEST_PACKAGES)) systemd udev
fresh-key = $(shell { cat $(fresh-dir)/build; echo '$(fresh-packages)' $(RELEASE); } | sha256sum | cut -c1-16)
fresh-root = $(O)/fresh/debian-$(fresh-key).tar
fresh-run = { $(deb-files); } | tar -c --null -T - | $(fresh-dir)/run $(fresh-root)

# Builds the tree and runs its unit tests on a bare Debian of the other release.
fresh-other-release := $(firstword $(filter-out $(shell tests/release),trixie bookworm))

.PHONY: fresh-root fresh-debs fresh-newcomer fresh-other check-fresh-packages check-fresh-newcomer check-fresh-other
fresh-root: guest-user
	$(Q)test -e $(fresh-root) || { rm -f $(O)/fresh/debian-*.tar; $(fresh-dir)/build $(fresh-root) $(fresh-packages); }

# Builds the packages on a fresh machine, installs them on another, tries their ends on a third, and copies them to the
# guest's shared folder.
fresh-debs: fresh-root
	$(Q)rm -rf $(O)/fresh/debs $(O)/guest/share/debs
	$(Q)mkdir -p $(O)/fresh/debs $(O)/guest/share/debs
	$(Q)$(fresh-run) packages $(O)/fresh/debs
	$(Q)$(fresh-run) installed '' $(O)/fresh/debs
	$(Q)$(fresh-run) ends '' $(O)/fresh/debs
	$(Q)cp -t $(O)/guest/share/debs $(foreach p,rdmabroker rdmabroker-exporter rdmabroker-peerd rdmabroker-pull \
		librdmabroker2 librdmabroker-rdmacm,$(O)/fresh/debs/$(p)_*.deb)
	$(Q)$(call default-debs,$(O)/fresh/debs)

fresh-newcomer: fresh-root
	$(Q)$(fresh-run) newcomer

# Makes fresh-$(1). A container that cannot mount has no fresh machine, and makes $(2) instead.
fresh-or = $(Q)if why=$$($(fresh-dir)/run --possible $(1) 2>&1); then $(MAKE) --no-print-directory fresh-$(1); \
	else echo "skipped: no bare Debian can be entered here: $$why"; $(2); fi

check-fresh-packages:
	+$(call fresh-or,debs,DEB_BUILD_OPTIONS=nocheck $(MAKE) --no-print-directory guest-debs)

check-fresh-newcomer:
	+$(call fresh-or,newcomer,echo 0 passed$(comma) 0 failed)

fresh-other:
	$(Q)RELEASE=$(fresh-other-release) $(fresh-dir)/bare $(O)/fresh/$(fresh-other-release)
	$(Q)trap 'rm -rf $(O)/fresh/$(fresh-other-release)' EXIT; \
		$(fresh-dir)/enter $(O)/fresh/$(fresh-other-release) make check-built

check-fresh-other:
	+$(call fresh-or,other,echo 0 passed$(comma) 0 failed)
