# Files for systemd and udev.
SYSTEMD_UNITS := systemd/rdmabroker-peerd.socket systemd/rdmabroker-module.service systemd/rdmabroker-pull.timer
SYSTEMD_IN := $(wildcard systemd/*.in)
SYSTEMD_INSTANCE := $(addprefix $(O)/systemd/,rdmabrokerd@.service rdmabrokerd@.socket rdmabrokerd-admin@.socket rdmabrokerd-helper@.socket)
SYSTEMD_GEN := $(patsubst systemd/%.in,$(O)/systemd/%,$(SYSTEMD_IN)) $(SYSTEMD_INSTANCE)

$(O)/systemd/%: systemd/%.in Makefile $(O)/stamp-dirs
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(SUBST) $< > $@

# The units for other network namespaces are the daemon's own, with these differences.
$(O)/systemd/%@.service: $(O)/systemd/%.service systemd/instance-service.sed
	$(call say,GEN,$@)
	$(Q)sed -f systemd/instance-service.sed $< > $@
$(O)/systemd/%@.socket: $(O)/systemd/%.socket systemd/instance-socket.sed
	$(call say,GEN,$@)
	$(Q)sed -f systemd/instance-socket.sed $< > $@

ALL += $(SYSTEMD_GEN)
