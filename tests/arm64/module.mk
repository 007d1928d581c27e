# SPDX-License-Identifier: BSD-2-Clause
# The tree is built for arm64 by a cross-compiler, with the libraries of a bare Debian, in which the unit tests then run.
arm64-dir := tests/arm64
ARM64_PACKAGES := mmdebstrap qemu-user-static gcc-aarch64-linux-gnu
arm64-tools := gcc pkg-config protobuf-c-compiler
arm64-contents = $(filter-out $(arm64-tools),$(BUILD_PACKAGES)) base-files base-passwd bash check coreutils dash \
	grep libc-bin mount munge procps python3 sed
arm64-root = $(abspath $(O))/arm64/root-$(shell { cat $(arm64-dir)/root; echo '$(arm64-contents)' $(RELEASE); } \
	| sha256sum | cut -c1-16)
arm64-make = env PKG_CONFIG_SYSROOT_DIR=$(arm64-root) \
	PKG_CONFIG_LIBDIR=$(arm64-root)/usr/lib/aarch64-linux-gnu/pkgconfig:$(arm64-root)/usr/share/pkgconfig \
	$(MAKE) --no-print-directory O=$(O)/arm64/build DEVELOPER=1 CC='aarch64-linux-gnu-gcc --sysroot=$(arm64-root)' \
	CC_FOR_BUILD=gcc LD=aarch64-linux-gnu-ld OBJCOPY=aarch64-linux-gnu-objcopy

.PHONY: arm64-packages check-arm64 run-arm64
arm64-packages: NEEDED = $(ARM64_PACKAGES)
arm64-packages:
	$(install-missing)

check-arm64: arm64-packages
	+$(Q)if why=$$($(arm64-dir)/emulate --possible); then $(MAKE) --no-print-directory run-arm64; \
		else echo "skipped: $$why"; echo 0 passed, 0 failed; fi

run-arm64:
	$(Q)test -e $(arm64-root) || { rm -rf $(O)/arm64/root-*; $(arm64-dir)/root $(arm64-root) $(arm64-contents); }
	+$(Q)$(arm64-make) -j$$(nproc) NO_INSTALL=1 all $(patsubst $(O)/%,$(O)/arm64/build/%,$(UNIT))
	$(Q)aarch64-linux-gnu-gcc --sysroot=$(arm64-root) -D_GNU_SOURCE -Wall -Wextra -Werror -O2 -shared -fPIC \
		-o $(O)/arm64/build/cookie.so $(arm64-dir)/cookie.c
	$(Q)O=$(O)/arm64/build $(arm64-dir)/run $(arm64-root) $(patsubst $(O)/%,$(O)/arm64/build/%,$(UNIT))
