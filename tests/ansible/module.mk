# SPDX-License-Identifier: BSD-2-Clause
# The files for Ansible in conf/examples/ansible, with a real Ansible.
# python3-apt: Ansible would install it itself.
ANSIBLE_PACKAGES = $(BUILD_PACKAGES) python3 python3-apt ansible-core

.PHONY: check-ansible ansible-packages
ansible-packages: NEEDED = $(ANSIBLE_PACKAGES)
ansible-packages:
	$(install-missing)

check-ansible: ansible-packages $(addprefix $(O)/,rdmabrokerd rdmabrokerctl tests/fakebroker)
	$(Q)O=$(O) tests/ansible/check
