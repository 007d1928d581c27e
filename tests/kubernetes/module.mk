# SPDX-License-Identifier: BSD-2-Clause
# The files for Kubernetes in conf/kubernetes, checked without a cluster.
KUBERNETES_PACKAGES = $(BUILD_PACKAGES) python3 python3-jsonschema python3-yaml

.PHONY: check-kubernetes kubernetes-packages
kubernetes-packages: NEEDED = $(KUBERNETES_PACKAGES)
kubernetes-packages:
	$(install-missing)

$(O)/tests/kubernetes/cdi: $(call objs,tests/kubernetes/cdi.c client/ctl/cdispec.c $(PROTO_TOOL_SRC))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^

check-kubernetes: kubernetes-packages $(O)/rdmabrokerd $(O)/tests/kubernetes/cdi
	$(Q)O=$(O) tests/kubernetes/check
