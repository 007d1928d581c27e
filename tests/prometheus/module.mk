# SPDX-License-Identifier: BSD-2-Clause
# The files for Prometheus and Grafana in conf/prometheus, with a real Prometheus.
PROMETHEUS_PACKAGES = $(BUILD_PACKAGES) python3 prometheus

.PHONY: check-prometheus prometheus-packages
prometheus-packages: NEEDED = $(PROMETHEUS_PACKAGES)
prometheus-packages:
	$(install-missing)

$(O)/tests/prometheus/traffic: $(call objs,tests/prometheus/traffic.c) $(O)/librdmabroker.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(O) -Wl,-rpath,$(abspath $(O)) -lrdmabroker

check-prometheus: prometheus-packages $(O)/rdmabroker-exporter $(O)/tests/fakebroker $(O)/tests/prometheus/traffic
	$(Q)O=$(O) tests/prometheus/check
