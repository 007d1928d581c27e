# SPDX-License-Identifier: BSD-2-Clause
# Debian packages. They are built in a copy of the tree, where conf/debian is debian/, with Debian's flags. The
# variables of this make have no effect there.
deb-dir := $(O)/deb
deb-source := $(deb-dir)/rdmabroker-$(VERSION)
# REVISION=1site1: packages of a revision of your own, 0.2.0-1site1, which upgrade those of 0.2.0.
REVISION ?=
deb-version := $(VERSION)$(addprefix -,$(REVISION))

# Prints the files that git tracks; without git, all files except those of build directories.
deb-files = if git rev-parse --git-dir >/dev/null 2>&1; then git ls-files -z; \
	else find . -path './build*' -prune -o -type f -print0; fi

.PHONY: deb
deb: deb-packages
	$(Q)test "$$(dpkg-parsechangelog -l conf/debian/changelog -S Version)" = '$(VERSION)' || { \
		echo 'conf/debian/changelog is not of version $(VERSION), which proto/version.h says' >&2; exit 1; }
	$(if $(REVISION),$(Q)dpkg --validate-version '$(deb-version)' && dpkg --compare-versions '$(VERSION)' lt '$(deb-version)' || { \
		echo 'REVISION=$(REVISION) makes no version that is newer than $(VERSION): try REVISION=1site1' >&2; exit 1; })
	$(Q)rm -rf $(deb-dir)
	$(Q)mkdir -p $(deb-source)
	$(Q){ $(deb-files); } | tar -c --null -T - | tar -x -C $(deb-source)
	$(Q)cp -r $(deb-source)/conf/debian $(deb-source)/debian
	$(if $(REVISION),$(Q)printf 'rdmabroker ($(deb-version)) unstable; urgency=medium\n\n  * A local revision.\n\n -- %s  %s\n\n' \
		"$$(sed -n 's/^Maintainer: //p' conf/debian/control)" "$$(date -R)" | cat - conf/debian/changelog >$(deb-source)/debian/changelog)
	@echo 'Building the packages$(if $(findstring nocheck,$(DEB_BUILD_OPTIONS)),, and running their unit tests), with the log in $(deb-dir)/build.log.'
	@echo 'This takes minutes, $(if $(findstring nocheck,$(DEB_BUILD_OPTIONS)),,most of them for the tests, which DEB_BUILD_OPTIONS=nocheck leaves out. )These are its steps:'
	$(Q)cd $(deb-source) && { env -u MAKEFLAGS -u MFLAGS -u CFLAGS -u CPPFLAGS -u LDFLAGS \
		dpkg-buildpackage --build=binary --unsigned-changes --unsigned-buildinfo 2>&1; echo $$? >../status; } | \
		tee ../build.log | $(CURDIR)/tests/alive '^   dh_(auto|install|strip|builddeb)|^check_[a-z_]+ .*passed'
	$(Q)test "$$(cat $(deb-dir)/status)" = 0 || { tests/unit/failures $(deb-dir)/build.log; \
		echo 'The packages are not built. The whole log is in $(deb-dir)/build.log.'; exit 1; }
	$(call say,LINTIAN,rdmabroker $(deb-version))
	$(Q)lintian --allow-root --fail-on error,warning $(deb-dir)/*.changes
	$(Q)ls $(deb-dir)/*.deb

# RPM packages. They are built from what git tracks, by the rpmbuild of this machine, which need not be one of a
# distribution with RPM: there BuildRequires cannot be looked up, so the packages are those of `make rpm-packages`.
rpm-dir := $(O)/rpm
RPM_PACKAGES := $(BUILD_PACKAGES) rpm

.PHONY: rpm rpm-packages
rpm-packages: NEEDED = $(RPM_PACKAGES)
rpm-packages:
	$(install-missing)

rpm: $(if $(wildcard /etc/debian_version),rpm-packages)
	$(Q)rm -rf $(rpm-dir)
	$(Q)mkdir -p $(rpm-dir)/SOURCES
	$(Q){ $(deb-files); } | tar -cz --null -T - --transform 's,^,rdmabroker-$(VERSION)/,' \
		-f $(rpm-dir)/SOURCES/rdmabroker-$(VERSION).tar.gz
	@echo 'Building the RPM packages, with the log in $(rpm-dir)/build.log; this takes minutes.'
	$(Q){ env -u MAKEFLAGS -u MFLAGS -u CFLAGS -u CPPFLAGS -u LDFLAGS rpmbuild -bb --define '_topdir $(abspath $(rpm-dir))' \
		--define 'rdmabroker_version $(VERSION)' $(if $(wildcard /etc/debian_version),--nodeps) \
		conf/rpm/rdmabroker.spec 2>&1; echo $$? >$(rpm-dir)/status; } | tee $(rpm-dir)/build.log | tests/alive '^error:'
	$(Q)test "$$(cat $(rpm-dir)/status)" = 0 || { tail -n 30 $(rpm-dir)/build.log; exit 1; }
	$(Q)ls $(rpm-dir)/RPMS/*/*.rpm

# The files of both kinds of packages.
.PHONY: check-rpm
check-rpm: export DEB_BUILD_OPTIONS := nocheck
check-rpm: deb rpm
	$(Q)tests/rpm $(rpm-dir)/RPMS $(deb-dir)
