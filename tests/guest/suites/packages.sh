#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The Debian packages: the effects of installation, upgrade, removal and purge. At the start of each case no package
# of the product is installed.

# shellcheck disable=SC2034
PRODUCT=debs

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"
# shellcheck source=../load.sh
. "$(dirname "$0")/../load.sh"

PACKAGES="librdmabroker-default rdmabroker rdmabroker-exporter rdmabroker-peerd rdmabroker-pull librdmabroker-rdmacm librdmabroker2"
NODES="/dev/infiniband/rdma_cm /dev/infiniband/uverbs0 /dev/infiniband/uverbs1"

# Prints the paths of the file system without temporary files, logs, caches, and data of dpkg and the journal's
# catalog. Skips the backups of /etc/passwd and /etc/group, because the packages' users stay.
files() {
	{
		find / -xdev \( -path /tmp -o -path /var/log -o -path /var/cache -o -path /var/lib/dpkg \
			-o -path /var/lib/systemd/catalog -o -path /var/tmp \) -prune -o -print |
			grep -vE '^/etc/((passwd|group|shadow|gshadow)-|\.pwd\.lock)$'
		ls -d /run/rdmabroker* 2> /dev/null || true
	} | sort
}

nodes() {
	# shellcheck disable=SC2086
	getfacl -pcn $NODES
	# shellcheck disable=SC2086
	stat -c '%n %U:%G %a' $NODES
}

# dpkg asks the admin no questions.
dpkg_() {
	DEBIAN_FRONTEND=noninteractive dpkg "$@" < /dev/null
}

purge() {
	rm -rf /etc/rdmabroker/*.d/*-test.*
	# shellcheck disable=SC2086
	dpkg_ --purge $PACKAGES
}

# fresh: removes the packages and files that a failed case has left.
fresh() {
	! dpkg-query -W rdmabroker > /dev/null 2>&1 || purge > /dev/null 2>&1
}

version() {
	dpkg-query -W -f '${Version}' rdmabroker
}

# next_packages: makes the next version of the same packages, in the folder next.
next_packages() {
	local deb version
	mkdir next
	for deb in "$share"/debs/*.deb; do
		dpkg-deb -R "$deb" tree
		version=$(sed -n 's/^Version: //p' tree/DEBIAN/control)
		sed -i "s/^Version: .*/&+next/; s/(= $version)/(= $version+next)/g" tree/DEBIAN/control
		dpkg-deb -Znone -b tree "next/${deb##*/}"
		rm -rf tree
	done
}

ping_works() {
	serve server alice $A 7471
	ping_once bob $A -p 7471
	finish server
}

# connected: a server and a client that stay connected until the broker ends.
connected() {
	serve server alice $A 7471 -P
	connect client bob $A 7471
	assert_contains "$(nodes)" "user:1000:rw-"
}

disconnected() {
	await_line server "the broker is gone"
	finish server 1
	finish client 1
}

# program_works [LAUNCHER...]: runs a program of librdmacm: ucmatose, because the threads of rping race with each
# other at its end.
program_works() {
	as alice "$@" ucmatose -b $A -p 7480 &
	await "rdma resource show cm_id | grep -q 'state LISTEN.*:7480'"
	as bob "$@" ucmatose -s $A -p 7480
	wait $!
}

assert_active() {
	local unit
	for unit in rdmabrokerd.socket rdmabrokerd.service; do
		assert_eq "$unit is $(systemctl is-active $unit || true)" "$unit is $1"
	done
}

exporter_is() {
	assert_eq "the exporter is $(systemctl is-active rdmabroker-exporter || true)" "the exporter is $1"
}

exporter_serves() {
	await "exporter_says 'rdmabroker_up 1'"
	fetch_metrics 9471 > metrics
	assert openmetrics < metrics
}

# The service and its socket.
peerd_is() {
	local unit
	for unit in rdmabroker-peerd.socket rdmabroker-peerd.service; do
		assert_eq "$unit is $(systemctl is-active $unit || true)" "$unit is $1"
	done
}

# Prints the number of the socket that listens on a port; another socket has another number.
socket_of_port() {
	ss -Hltne "sport = $1" | grep -o 'ino:[0-9]*'
}

assert_ours() {
	assert_eq "$(stat -c '%U %a' /dev/infiniband/rdma_cm)" "rdmabroker 600"
	assert_eq "$(stat -c '%U:%G %a' /dev/infiniband/uverbs0)" "rdmabroker:rdmabroker 660"
}

case_life() {
	local daemon nodes errors peerd port
	fresh
	files > before
	nodes=$(nodes)

	install_product
	cat /run/dpkg.log
	assert_active active
	assert_eq "$(systemctl is-enabled rdmabrokerd.socket rdmabrokerd.service)" "enabled"$'\n'"enabled"
	assert_ours
	assert_lacks "$(ldconfig -p)" rdmabroker-rdmacm
	# Only hosts with containers need CDI specifications.
	assert_eq "$(systemctl is-enabled rdmabroker-cdi || true)" disabled
	assert_eq "$(systemctl is-active rdmabroker-cdi || true)" inactive
	# The exporter listens on a port, so the admin has to enable it.
	exporter_is inactive
	assert_contains "$(systemctl is-enabled rdmabroker-exporter || true)" disabled
	assert_eq "$(id -un rdmabroker-exporter)" rdmabroker-exporter
	# rdmabroker-peerd listens on a port, too, and its user needs the same uid on all hosts.
	assert_eq "$(systemctl is-enabled rdmabroker-peerd.socket rdmabroker-peerd.service || true)" "disabled"$'\n'"disabled"
	peerd_is inactive
	assert_eq "$(id -un rdmabroker-peerd)" rdmabroker-peerd
	# Nothing is allowed before the admin allows it.
	fails 3 as alice rdmabroker-ping -s -a $A -p 7471
	assert_eq "$(status_field "['policy']['rules']")" 0
	users_policy
	ping_works
	program_works rdmabrokerctl run --
	echo 'allow observe user rdmabroker-exporter' >> "$RULES"
	reload "policy reloaded"
	systemctl -q enable --now rdmabroker-exporter
	exporter_serves
	systemctl -q enable --now rdmabroker-peerd
	peerd_is active
	await "journalctl -b -u rdmabroker-peerd -o cat | grep -q 'rdmabrokerd gives its questions'"

	# An upgrade keeps the admin's changes and removals.
	echo '# mine' >> /etc/rdmabroker/rdmabrokerd.conf
	assert test ! -e /etc/rdmabroker/policy.d/50-default.rules
	next_packages
	daemon=$(daemon_pid)
	peerd=$(systemctl show -p MainPID --value rdmabroker-peerd)
	port=$(socket_of_port 9472)
	load 2 2
	dpkg_ -i next/*.deb
	load_runs
	data_flows
	end_load
	assert_contains "$(version)" +next
	assert_active active
	assert test "$(daemon_pid)" != "$daemon"
	assert_ours
	exporter_is active
	exporter_serves
	# No user could take the port of rdmabroker-peerd.
	peerd_is active
	assert test "$(systemctl show -p MainPID --value rdmabroker-peerd)" != "$peerd"
	assert_eq "$(socket_of_port 9472)" "$port"
	assert_eq "$(tail -n 1 /etc/rdmabroker/rdmabrokerd.conf)" '# mine'
	assert test ! -e /etc/rdmabroker/policy.d/50-default.rules
	ping_works

	connected
	# shellcheck disable=SC2086
	dpkg_ --remove $PACKAGES
	disconnected
	assert_active inactive
	exporter_is inactive
	peerd_is inactive
	assert test ! -e /run/rdmabroker
	# As before the installation, every user can open the devices.
	assert_eq "$(nodes)" "$nodes"
	program_works
	assert test -e "$RULES"

	errors=$(journalctl -b -t rdmabrokerd -p err -o cat)
	assert_eq "$errors" ""
	purge
	rm -rf next
	files > after
	diff before after
	assert_eq "$(systemctl list-units --all --plain --no-legend 'rdmabrokerd*' 'rdmabroker-exporter*' 'rdmabroker-peerd*')" ""
	# The users remain after a purge, so that no other user gets their uids.
	assert_eq "$(id -un rdmabroker)" rdmabroker
	assert_eq "$(id -un rdmabroker-exporter)" rdmabroker-exporter
	assert_eq "$(id -un rdmabroker-peerd)" rdmabroker-peerd
}

case_removed_and_reinstalled() {
	fresh
	install_product
	users_policy
	# shellcheck disable=SC2086
	dpkg_ --remove $PACKAGES
	install_product
	assert_active active
	assert_ours
	ping_works
}

case_disabled_service_stays_disabled() {
	fresh
	install_product
	next_packages
	systemctl -q disable --now rdmabrokerd.socket rdmabrokerd.service
	dpkg_ -i next/*.deb
	assert_active inactive
	exporter_is inactive
	assert_contains "$(systemctl is-enabled rdmabrokerd.socket || true)" disabled
	assert_contains "$(systemctl is-enabled rdmabrokerd.service || true)" disabled
}

# policy-rc.d forbids starting services, as while an image is built.
case_policy_rc_d() {
	fresh
	printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
	chmod 755 /usr/sbin/policy-rc.d
	install_product
	rm /usr/sbin/policy-rc.d
	assert_active inactive
	assert test ! -e $SOCKET
	systemctl start rdmabrokerd
	users_policy
	ping_works
}

# readme FROM TO: prints README's commands between two of its lines. The guest has no compiler: `make` was run
# outside.
readme() {
	sed -n "/$1/,/$2/s/^      //p" "$share/README" | grep .
}

sudo() {
	"$@"
}

make() {
	case ${1-} in
	install) tar -C "$share/dest" --owner=0 --group=0 -c . | tar -C / -x --keep-directory-symlink --no-overwrite-dir ;;
	uninstall) sh -e "$share/uninstall" ;;
	esac
}

# Installation by `make install`, and removal as README describes it.
case_from_source() {
	local nodes commands left
	fresh
	files > before
	nodes=$(nodes)
	! sanitized "$share/dest/usr/sbin/rdmabrokerd" || sanitizers_prepare

	commands=$(readme '^INSTALL$' '^  Or install Debian')
	assert_contains "$commands" "sudo make install"
	eval "$commands"
	assert_active active
	assert_ours
	assert_contains "$(journalctl --list-catalog)" "was refused as busy"
	users_policy
	ping_works
	rdmabrokerctl dropin enable
	instance_up

	connected
	commands=$(readme '^  To remove rdmabroker' '^  If you installed the packages')
	assert_contains "$commands" "sudo make uninstall"
	eval "$commands"
	disconnected
	await_line blue "the broker is gone"
	finish blue 1
	ip netns delete blue
	assert_eq "$(nodes)" "$nodes"
	program_works
	assert_lacks "$(journalctl --list-catalog)" "was refused as busy"
	assert_eq "$(systemctl list-units --all --plain --no-legend 'rdmabrokerd*')" ""
	assert_eq "$(ls -d /run/rdmabroker* 2> /dev/null)" ""
	assert test -e "$RULES"

	rm -r /etc/rdmabroker blue
	files > after
	left=$(comm -13 before after | while read -r path; do [ -d "$path" ] || echo "$path"; done)
	assert_eq "$left" ""
}

# A file that exists before the installation keeps the nodes open. "rdmabrokerctl nodes close" gives them to the broker.
case_nodes_stay_open() {
	local nodes
	fresh
	nodes=$(nodes)
	echo 'SUBSYSTEM=="misc|infiniband_verbs", ENV{RDMABROKER_NODES}="open"' > /etc/udev/rules.d/89-rdmabroker-open.rules
	install_product
	assert_active active
	assert_eq "$(nodes)" "$nodes"
	program_works
	users_policy
	ping_works
	rdmabrokerctl nodes close --yes
	assert_ours
	rdmabrokerctl nodes open
	assert_eq "$(nodes)" "$nodes"
	purge
	assert test ! -e /etc/udev/rules.d/89-rdmabroker-open.rules
	assert_eq "$(nodes)" "$nodes"
}

# by_broker: alice and bob run programs with no word before them, and the broker allows what they do.
by_broker() {
	local before
	before=$(rdmabrokerctl metrics | grep -c 'operation="connect",outcome="allowed"} 0$' || true)
	program_works
	assert_eq "$before then $(rdmabrokerctl metrics | grep -c 'operation="connect",outcome="allowed"} 0$' || true)" "1 then 0"
}

# says_no_error: what dpkg has said, in the file words.
says_no_error() {
	cat words
	assert_lacks "$(cat words)" "Could not execute"
	assert_lacks "$(cat words)" "ailed"
}

# The sockets of clients: a socket that was closed for a moment has another number.
sockets() {
	stat -c '%n %i' /run/rdmabroker*/rdmabroker.sock
}

# in_blue PROGRAM...: uses the instance.
in_blue() {
	RDMABROKER_SOCKET=/run/rdmabroker@blue/rdmabroker.sock "$@"
}

# An instance for a network namespace, enabled, with a program that listens.
instance_up() {
	ip netns add blue
	systemctl -q enable --now rdmabrokerd@blue
	in_blue as alice rdmabroker-ping -s -p 7473 -P > blue 2>&1 &
	pid[blue]=$!
	await_line blue "listening on"
}

# An instance, and the drop-in as the default by its command: an upgrade, going back, and a removal.
case_instance() {
	local way daemon instance before
	fresh
	files > before
	install_product
	users_policy
	rdmabrokerctl dropin enable
	instance_up
	connected
	next_packages
	before=$(sockets)
	for way in next "$share/debs"; do
		daemon=$(daemon_pid)
		instance=$(systemctl show -p MainPID --value rdmabrokerd@blue)
		dpkg_ -i "$way"/*.deb > words 2>&1
		says_no_error
		assert test "$(daemon_pid)" != "$daemon"
		assert test "$(systemctl show -p MainPID --value rdmabrokerd@blue)" != "$instance"
		assert_eq "$(sockets)" "$before"
		kill -0 "${pid[blue]}" "${pid[server]}" "${pid[client]}"
		rdmabrokerctl --instance blue list --listeners | grep ':7473 '
		rdmabrokerctl dropin status | grep '^default: /'
		program_works
	done

	# The commands are gone with the package, so what they have made goes, too.
	dpkg_ --remove rdmabroker rdmabroker-pull > words 2>&1
	says_no_error
	disconnected
	await_line blue "the broker is gone"
	finish blue 1
	program_works
	assert_eq "$(systemctl list-units --plain --no-legend 'rdmabrokerd*')" ""
	assert_eq "$(ls -d /run/rdmabroker* 2> /dev/null)" ""
	purge
	rm -rf next blue words
	files > after
	diff before after
	ip netns delete blue
}

# The package that makes the drop-in the default: what it gives, an upgrade leaves, and a removal takes back.
case_default_drop_in() {
	fresh
	install_product
	users_policy
	files > before
	fails 1 as alice ucmatose -b $A -p 7480
	dpkg_ -i "$share"/debs-default/*.deb
	by_broker
	# Packages that are built here go on to depend on librdmacm1.
	assert_eq "$(cat /var/lib/dpkg/info/librdmabroker-rdmacm*.shlibs)" "librdmacm 1 librdmacm1"

	# An upgrade does not enable what the admin has disabled.
	rdmabrokerctl dropin disable
	dpkg_ -i "$share"/debs-default/*.deb
	fails 1 as alice ucmatose -b $A -p 7480
	rdmabrokerctl dropin enable

	# The library is removed while the default is there, as by a removal that is interrupted: programs start.
	dpkg_ --force-depends --remove librdmabroker-rdmacm
	fails 1 as alice ucmatose -b $A -p 7480
	assert_contains "$(cat words)" "Permission denied"
	dpkg_ -i "$share"/debs/librdmabroker-rdmacm_*.deb
	program_works

	dpkg_ --remove librdmabroker-default
	fails 1 as alice ucmatose -b $A -p 7480
	assert_contains "$(cat words)" "Permission denied"
	assert_lacks "$(ldconfig -p)" /rdmabroker/
	files > after
	diff before after
	purge
	program_works
}

# ---- into a live cluster: rdmabroker-adopt(7) as one story ----

# listens PORT: waits for the server of a job.
listens() {
	(await "rdma resource show cm_id | grep -q 'state LISTEN.*:$1'") || {
		cat server
		rdmabrokerctl refusals
		exit 1
	}
}

# Jobs: alice's server and bob's client, with no word before them.
job_rping() {
	logged-in alice rping -s -a $A -p 7480 -C 5 > server 2>&1 &
	pid[server]=$!
	listens 7480
	timeout --foreground $patience logged-in bob rping -c -a $A -p 7480 -C 5 > client 2>&1 || rping_raced $? client
	finish server
}

job_perftest() {
	local _ status

	for _ in 1 2 3 4; do
		logged-in alice ib_send_lat -R -d rxe0 -n 50 -p 7481 > server 2>&1 &
		pid[server]=$!
		listens 7481
		status=0
		timeout --foreground $patience logged-in bob ib_send_lat -R -d rxe1 -n 50 -p 7481 $A > client 2>&1 || status=$?
		cat client
		[ $status != 0 ] && perftest_raced client || break
		pkill ib_send_lat
		wait "${pid[server]}" || true
	done
	assert_eq "$status" 0
	finish server
}

# UCX loads libibverbs and librdmacm as plug-ins of plug-ins.
job_ucx() {
	local ucx=(env UCX_TLS=rc_verbs,self UCX_SOCKADDR_TLS_PRIORITY=rdmacm)
	ulimit -l unlimited
	logged-in alice "${ucx[@]}" UCX_NET_DEVICES=rxe0:1 io_demo -p 7482 > server 2>&1 &
	pid[server]=$!
	listens 7482
	timeout --foreground $patience logged-in bob "${ucx[@]}" UCX_NET_DEVICES=rxe1:1 io_demo -p 7482 -i 20 -o read,write $A \
		> client 2>&1 || fail "io_demo ended with $?: $(grep -m 3 -E 'WARN|error' client)"
	assert_contains "$(cat client)" "Client exit with status 'OK'"
	pkill -x io_demo
	wait "${pid[server]}" || true
}

# qperf opens devices by libibverbs, connects over TCP, and asks librdmacm only for some of its tests.
job_qperf() {
	logged-in alice qperf -lp 7483 > server 2>&1 &
	pid[server]=$!
	await "ss -Hltn 'sport = :7483' | grep -q ."
	timeout --foreground $patience logged-in bob qperf -lp 7483 -cm 1 -t 1 $A rc_lat
	pkill -x qperf
	wait "${pid[server]}" || true
}

jobs() {
	job_rping
	job_perftest
	job_ucx
	job_qperf
}

case_into_a_live_cluster() {
	local nodes rb
	fresh
	files > before
	nodes=$(nodes)

	# 1. Before the installation. A job runs on through all that follows.
	jobs
	logged-in alice nice -n 19 rping -s -a $A -p 7490 -C 100000000 > long-server 2>&1 &
	await "rdma resource show cm_id | grep -q 'state LISTEN.*:7490'"
	logged-in bob nice -n 19 rping -c -a $A -p 7490 -C 100000000 > long-client 2>&1 &
	await "rdma resource show cm_id | grep -q 'state CONNECT.*:7490'"
	mkdir rb
	for rb in "$share"/debs/{rdmabroker,librdmabroker2}_*.deb; do dpkg-deb -x "$rb" rb; done
	LD_LIBRARY_PATH=$(echo "$PWD"/rb/usr/lib/*-linux-gnu) rb/usr/bin/rdmabrokerctl suggest --kernel | tee held | show
	assert_contains "$(cat held)" "port 7490"
	rm -r rb

	# 2. Installed, and nobody is refused.
	echo 'SUBSYSTEM=="misc|infiniband_verbs", ENV{RDMABROKER_NODES}="open"' > /etc/udev/rules.d/89-rdmabroker-open.rules
	mkdir -p /etc/rdmabroker/policy.d
	echo 'warn any reason "no rule yet"' > /etc/rdmabroker/policy.d/90-live.rules
	install_product
	assert_eq "$(nodes)" "$nodes"
	jobs
	rdmabrokerctl nodes status | show
	assert_contains "$(rdmabrokerctl nodes status)" "rping"
	assert_eq "$(rdmabrokerctl --json refusals --warned | python3 -c 'import json, sys; print(len([r for r in json.load(sys.stdin)["refusals"] if r["operation"] == "connect"]))')" 0

	# 3. and 4. Programs use the broker, and are seen.
	dpkg_ -i "$share"/debs-default/*.deb
	jobs
	rdmabrokerctl refusals --warned | show
	for program in rping ib_send_lat io_demo qperf; do
		assert_contains "$(rdmabrokerctl refusals --warned)" " $program "
	done

	# 5. No program connects without the broker any more; the one that runs goes on.
	rdmabrokerctl nodes close --yes
	jobs
	kill -0 "$(pgrep -xo rping)"

	# 6. Rules of what was seen.
	rdmabrokerctl suggest > 60-seen.rules
	rdmabrokerctl suggest --tests > seen.tests
	show < 60-seen.rules
	rdmabrokerctl check 60-seen.rules
	mkdir trial
	cp 60-seen.rules trial
	rdmabrokerd --check --policy-dir "$PWD/trial" --test seen.tests
	cp 60-seen.rules /etc/rdmabroker/policy.d

	# 7. The rest is refused.
	mv /etc/rdmabroker/policy.d/90-live.rules /etc/rdmabroker/policy.d/90-live.rules.off
	rdmabrokerctl reload --dry-run | tee tried
	assert_lacks "$(cat tried)" "NOT ALLOWED"
	rdmabrokerctl reload
	jobs
	fails 1 timeout --foreground $patience logged-in carol ucmatose -s $A -p 7480
	rdmabrokerctl refusals | show
	assert_contains "$(rdmabrokerctl refusals --user carol | tr -s ' ')" "no-rule session carol"

	# All is taken back.
	pgrep -x rping
	dpkg_ --purge librdmabroker-default
	purge
	assert_eq "$(nodes)" "$nodes"
	jobs
	pkill -x rping
	wait || true
	rm -rf /etc/rdmabroker
	rm -r trial held tried words server client seen.tests 60-seen.rules long-server long-client 2> /dev/null || true
	files > after
	diff before after
}

fabric_up
run_cases "$@"
