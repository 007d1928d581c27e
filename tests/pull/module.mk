# SPDX-License-Identifier: BSD-2-Clause
# rdmabroker-pull with a real git, and real signatures of ssh-keygen and gpg.
PULL_PACKAGES = $(BUILD_PACKAGES) python3 git openssh-client gnupg

.PHONY: check-pull pull-packages
pull-packages: NEEDED = $(PULL_PACKAGES)
pull-packages:
	$(install-missing)

check-pull: pull-packages $(addprefix $(O)/,rdmabrokerd rdmabrokerctl rdmabroker-pull tests/fakebroker)
	$(Q)O=$(O) tests/pull/check
