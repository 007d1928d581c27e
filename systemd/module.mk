# Files for systemd and udev.
SYSTEMD_UNITS := systemd/rdmabrokerd.socket systemd/rdmabrokerd@.socket systemd/rdmabroker-peerd.socket systemd/rdmabroker-module.service \
	systemd/rdmabroker-fleet-install.path
SYSTEMD_IN := $(wildcard systemd/*.in)
SYSTEMD_GEN := $(patsubst systemd/%.in,$(O)/systemd/%,$(SYSTEMD_IN)) $(O)/systemd/rdmabrokerd@.service

$(O)/systemd/%: systemd/%.in Makefile $(O)/stamp-dirs
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(SUBST) $< > $@

# The unit for other network namespaces is the daemon's own, with these differences.
$(O)/systemd/rdmabrokerd@.service: $(O)/systemd/rdmabrokerd.service systemd/instance.sed
	$(call say,GEN,$@)
	$(Q)sed -f systemd/instance.sed $< > $@

ALL += $(SYSTEMD_GEN)
