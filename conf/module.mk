# SPDX-License-Identifier: BSD-2-Clause
# Debian packages. They are built in a copy of the tree, where conf/debian is debian/, with Debian's flags. The
# variables of this make have no effect there.
deb-dir := $(O)/deb
deb-source := $(deb-dir)/rdmabroker-$(VERSION)

# Prints the files that git tracks; without git, all files except those of build directories.
deb-files = if git rev-parse --git-dir >/dev/null 2>&1; then git ls-files -z; \
	else find . -path './build*' -prune -o -type f -print0; fi

.PHONY: deb
deb: deb-packages
	$(Q)test "$$(dpkg-parsechangelog -l conf/debian/changelog -S Version)" = '$(VERSION)' || { \
		echo 'conf/debian/changelog is not of version $(VERSION), which proto/version.h says' >&2; exit 1; }
	$(Q)rm -rf $(deb-dir)
	$(Q)mkdir -p $(deb-source)
	$(Q){ $(deb-files); } | tar -c --null -T - | tar -x -C $(deb-source)
	$(Q)cp -r $(deb-source)/conf/debian $(deb-source)/debian
	$(call say,DEB,$(deb-dir)/build.log)
	$(Q)cd $(deb-source) && env -u MAKEFLAGS -u MFLAGS -u CFLAGS -u CPPFLAGS -u LDFLAGS \
		dpkg-buildpackage --build=binary --unsigned-changes --unsigned-buildinfo >../build.log 2>&1 || { \
		tail -n 40 ../build.log; exit 1; }
	$(call say,LINTIAN,rdmabroker $(VERSION))
	$(Q)lintian --allow-root --fail-on error,warning $(deb-dir)/*.changes
	$(Q)ls $(deb-dir)/*.deb
