#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The installed product on Soft-RoCE, seen from its users' side.
#
# alice serves and bob connects. users_policy allows dave both, and carol nothing. Some cases set another policy.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

# ---- the cases ----

case_start() {
	systemctl start rdmabrokerd
	assert_eq "$(systemctl is-active rdmabrokerd)" active
	assert_eq "$(stat -c %U "/proc/$(daemon_pid)")" rdmabroker
	assert_eq "$(stat -c '%U %a' /dev/infiniband/rdma_cm)" "rdmabroker 600"
	assert_eq "$(stat -c '%U:%G %a' /dev/infiniband/uverbs0)" "rdmabroker:rdmabroker 660"
	assert_eq "$(stat -c %a $SOCKET)" 666
	for user in alice bob; do
		for node in rdma_cm uverbs0; do
			assert_fails_with 1 as $user dd if=/dev/infiniband/$node count=0
		done
	done
	assert_eq "$(sed -n 's/^CapBnd:\s*//p' "/proc/$(daemon_pid)/status")" 0000000000000400
}

# Repeats what happens at boot, before any user can log in.
case_module_is_loaded_at_boot() {
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	modprobe -r rdma_ucm
	assert test ! -e /dev/infiniband/rdma_cm
	systemctl restart systemd-modules-load
	assert test -e /sys/class/misc/rdma_cm
	udevadm settle
	assert_eq "$(stat -c '%U %a' /dev/infiniband/rdma_cm)" "rdmabroker 600"
	systemctl start rdmabrokerd.socket rdmabrokerd.service
}

case_thousand_rounds() {
	users_policy
	serve server alice $A 7471
	ping_once bob $A -p 7471 -C 1000 -v > client 2>&1 || true
	cat client
	finish server
	for side in client server; do
		assert_contains "$(cat $side)" "event: RDMABROKER_EVENT_ESTABLISHED"
		assert_contains "$(cat $side)" "event: RDMABROKER_EVENT_DISCONNECTED"
		assert_contains "$(cat $side)" "1000 rounds of 64 bytes verified"
	done
}

case_large_rounds() {
	users_policy
	serve server alice $A 7471 -P
	for size in 1 1023 4096 1048576; do
		ping_once bob $A -p 7471 -C 3 -S $size
	done
	stop server
	assert_contains "$(cat server)" "3 rounds of 1048576 bytes verified"
}

case_no_rule_no_session() {
	users_policy
	fails 3 ping_once carol $A -p 7471
	assert_contains "$(cat words)" "refused by the broker"
	fails 3 as carol rdmabroker-ping -s -p 7471
	# bob is allowed a session, but no rule allows him to listen.
	fails 3 as bob rdmabroker-ping -s -p 7471
	assert_contains "$(cat words)" "refused by the broker"
	fails 3 as alice rdmabroker-ping -s -p 7500
}

case_policy_reject_reaches_the_peer() {
	policy <<-END
		allow  session user alice,bob
		allow  device  user alice,bob
		allow  listen  user alice
		allow  connect user bob
		reject accept  user alice port 7472 reason "not a storage host" log
		allow  accept  user alice port 7471
	END
	serve denied alice $A 7472
	mark_journal
	fails 3 ping_once bob $A -p 7472
	assert_contains "$(cat words)" \
		"rejected by policy of the peer's broker (denied): not a storage host"
	await "journal | grep -qF '$RULES:5'"
	assert_lacks "$(cat denied)" CONNECT_REQUEST
	serve no_rule alice $A 7473
	fails 3 ping_once bob $A -p 7473
	assert_contains "$(cat words)" "rejected by policy of the peer's broker (no-rule): no-rule"
}

case_failed_connect_names_its_rule() {
	policy <<-END
		allow  session user bob
		reject connect user bob peer $A reason "not from here"
		allow  connect user bob
	END
	fails 3 ping_once bob $A -p 7471
	assert_contains "$(cat words)" "refused by the broker"
	assert_contains "$(cat words)" "not from here"
	assert_contains "$(cat words)" "(rule $RULES:2)"
	fails 1 ping_once bob 127.0.0.1 -p 7471
	assert_contains "$(cat words)" "127.0.0.1:7471: no RDMA device has the loopback address"
}

case_peer_reject_byte_for_byte() {
	local text=$'\x01no room\xff today'
	users_policy
	serve server alice $A 7471 -r "$text"
	fails 3 ping_once bob $A -p 7471
	finish server
	assert_contains "$(cat words)" "rejected by the peer program"
	assert_contains "$(cat words)" "$(printf %s "$text" | od -An -v -tx1 | tr -d ' \n') "
	fails 3 ping_once bob $A -p 7471
	assert_contains "$(cat words)" "nobody listens on $A:7471"
}

case_dscp_on_the_wire() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice
		allow accept  user alice dscp af31
		allow connect user bob dscp af31
	END
	serve server alice $A 7471
	capture d0
	ping_once bob $A -p 7471 -C 20
	finish server
	# The reply to the disconnect is the last packet of the capture.
	await "[ \$(packets 'src host $A and $TO_CM') -ge 2 ]"
	stop capture
	for host in $A $B; do
		assert test "$(packets "src host $host and $TO_CM and $AF31")" -gt 0
		assert test "$(packets "src host $host and $TO_QP and $AF31")" -gt 20
	done
	assert_eq "$(packets "not ($AF31)")" 0
}

case_dscp_of_the_accepting_side() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice
		allow accept  user alice dscp af31
		allow connect user bob
	END
	serve server alice $A 7471
	capture d0
	ping_once bob $A -p 7471 -C 20
	finish server
	stop capture
	# The connection manager's own messages have the class of the connect request: check only packets to QPs.
	assert test "$(packets "src host $A and $TO_QP and $AF31")" -gt 20
	assert_eq "$(packets "src host $A and $TO_QP and not ($AF31)")" 0
}

# The addresses are on VLANs, v0 and v1. TOS 8 is of the priority 2, TOS 0 of 0. No other case has TOS 8: the daemon keeps for
# ten seconds what it knows of a TOS.
vlans_up() {
	local end
	for end in 0 1; do
		ip address del "10.9.0.$((end + 1))/24" dev d$end
		ip link add link d$end name v$end type vlan id 7 egress-qos-map 2:5
		ip address add "10.9.0.$((end + 1))/24" dev v$end
		fabric_sysctls v$end
		ip link set v$end up
		ip rule add pref 9 oif v$end lookup 9
	done
	ip route replace 10.9.0.1 dev v1 src 10.9.0.2 table 9
	ip route replace 10.9.0.2 dev v0 src 10.9.0.1 table 9
	fabric_neighbour v1 v0 10.9.0.1
	fabric_neighbour v0 v1 10.9.0.2
	await "grep -q ffff:0a09:0001 /sys/class/infiniband/rxe0/ports/1/gids/*"
	await "grep -q ffff:0a09:0002 /sys/class/infiniband/rxe1/ports/1/gids/*"
}

vlans_down() {
	local end
	for end in 0 1; do
		ip rule del pref 9 oif v$end lookup 9 || true
		ip link del v$end || true
	done
	fabric_up
}

# The kernel has the SL of the connecting side from the egress map of the VLAN, and the accepting side's, without the broker,
# from its peer.
case_priority_of_the_accepting_side() {
	policy <<-END
		allow accept user alice tos 8
		allow any    user alice
	END
	trap vlans_down EXIT
	vlans_up
	as alice sidebyside broker connect-own-qp > told
	show < told
	assert_contains "$(grep -A 1 'qp-attr active rtr' told)" "sl 0"
	assert_contains "$(grep -A 1 'qp-attr passive rtr' told)" "sl 5"
}

case_tos_is_capped() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice
		allow accept  user alice
		allow connect user bob tos-max 32
	END
	serve server alice $A 7471
	capture d1
	ping_once bob $A -p 7471 -t 200
	finish server
	stop capture
	assert test "$(packets "src host $B and ip[1] = 32")" -gt 10
	assert_eq "$(packets "src host $B and ip[1] != 32")" 0
}

case_second_client_waits() {
	users_policy
	serve server alice $A 7471 -P
	connect first bob $A 7471
	ping_once dave $A -p 7471 -C 7 > second &
	pid[second]=$!
	await_line server "event: RDMABROKER_EVENT_CONNECT_REQUEST" 2
	# The second request waits for an accept. A third client that gives up early does not affect the second one.
	as dave rdmabroker-ping -c -a $A -p 7471 -T $patience > third 2>&1 &
	pid[third]=$!
	await_line server "event: RDMABROKER_EVENT_CONNECT_REQUEST" 3
	kill "${pid[third]}"
	wait "${pid[third]}" || true
	stop first
	finish second
	assert_contains "$(cat second)" "7 rounds"
	await_line server "gave up before it was accepted"
	stop server
}

case_reuseaddr() {
	policy <<-END
		allow session user alice,bob,dave
		allow device  user alice,bob,dave
		allow listen  user alice
		allow accept  user alice
		allow connect user bob reuseaddr yes
		allow connect user dave
		allow connect user alice reuseaddr client
	END
	serve first alice $A 7471
	serve second alice $A 7472
	connect one bob $A 7471 -I $B:9000
	connect two bob $A 7472 -I $B:9000
	assert_contains "$(cat first)" "established with $B:9000"
	assert_contains "$(cat second)" "established with $B:9000"
	stop one
	stop two
	finish first
	finish second

	serve third alice $A 7471
	connect three dave $A 7471 -I $B:9001
	fails 1 ping_once dave $A -p 7471 -I $B:9001
	assert_contains "$(cat words)" "bind $B:9001: Address already in use"
	fails 3 ping_once dave $A -p 7471 -I $B:9002 -R
	assert_contains "$(cat words)" "refused by the broker"

	as alice api reuseaddr-listen $A 7480
}

case_api() {
	users_policy
	for check in arguments connect-wait deadline fork listen-twice nonblock; do
		echo "--- $check"
		as alice api $check $A 7490
	done
}

# killed SIDE OTHER: kills SIDE, and checks that OTHER is notified.
killed() {
	local before
	before=$(holdings)
	serve server alice $A 7471
	connect client bob $A 7471
	assert_eq "$(status_field "['connections']")" 2
	assert_contains "$(getfacl -pn /dev/infiniband/uverbs*)" "user:1000:rw-"
	assert_contains "$(getfacl -pn /dev/infiniband/uverbs*)" "user:1001:rw-"
	kill -KILL "${pid[$1]}"
	await_line "$2" "event: RDMABROKER_EVENT_DISCONNECTED"
	finish "$2" 1
	await "[ \"\$(holdings)\" = '$before' ]"
}

case_kill_the_client() {
	users_policy
	killed client server
}

case_kill_the_server() {
	users_policy
	killed server client
}

case_strangers_qp() {
	local qp
	users_policy
	serve server alice $A 7471 -P
	connect client bob $A 7471
	qp=$(qp_number client)

	mark_journal
	# Refused: the QP of another user, the QP of another process of the same user, and a number that no QP has.
	fails 3 ping_once dave $A -p 7471 --qpn "$qp"
	assert_contains "$(cat words)" "QP number $qp"
	assert_contains "$(cat words)" EPERM
	fails 3 ping_once bob $A -p 7471 --qpn "$qp"
	fails 3 ping_once bob $A -p 7471 --qpn 0xfffffe
	await "journal | grep -q 'uid 1003.*QP $qp'"

	serve thief dave $B 7472 --qpn "$qp"
	fails 3 ping_once alice $B -p 7472
	finish thief 3
	assert_contains "$(cat thief)" EPERM

	stop client
}

devices() {
	status_field "['devices']"
}

case_hot_plug() {
	local daemon
	users_policy
	daemon=$(daemon_pid)
	serve server alice $A 7471 -P
	connect client bob $A 7471
	timeout $patience rdma link del rxe0
	await_line server "event: RDMABROKER_EVENT_DEVICE_REMOVAL" 2
	await_line server "device removed"
	await "! devices | grep -q rxe0"
	finish client 1

	rdma link add rxe0 type rxe netdev d0
	fabric_up
	await_line server "listening on" 2
	await "devices | grep -q rxe0"
	ping_once bob $A -p 7471
	assert_eq "$(daemon_pid)" "$daemon"
	stop server
}

count_journal() {
	journal | grep -cF -- "$1" || true
}

case_nodes_that_others_can_open() {
	local node
	users_policy
	trap nobody_may EXIT
	mark_journal
	everybody_may rdma_cm uverbs0
	for node in rdma_cm uverbs0; do
		await "journal | grep -qF '/dev/infiniband/$node has owner 0 and mode 0666'"
	done
	# Each fault is logged once. A daemon that finds a fault at its start logs it, too.
	udevadm trigger --settle --subsystem-match=misc --subsystem-match=infiniband_verbs
	rdmabrokerctl status
	assert_eq "$(count_journal "has owner")" 2
	mark_journal
	systemctl restart rdmabrokerd
	for node in rdma_cm uverbs0; do
		await "journal | grep -qF '/dev/infiniband/$node has owner 0 and mode 0666'"
	done
	nobody_may
	mark_journal
	systemctl restart rdmabrokerd
	rdmabrokerctl status
	assert_eq "$(count_journal "has owner")" 0
	assert_eq "$(stat -c '%U %a' /dev/infiniband/rdma_cm)" "rdmabroker 600"
}

case_new_node_that_others_can_open() {
	users_policy
	trap nobody_may EXIT
	everybody_may uverbs1
	mark_journal
	rdma link del rxe1
	await "! devices | grep -q rxe1"
	fabric_up
	await "journal | grep -qF '/dev/infiniband/uverbs1 has owner 0 and mode 0666'"
	journal | grep -F "has owner" | show
	# With open access, the mode of a node is not reported.
	printf '[Devices]\nAccess = open\n' > /etc/rdmabroker/rdmabrokerd.conf.d/50-test.conf
	mark_journal
	systemctl restart rdmabrokerd
	rdmabrokerctl status
	assert_eq "$(count_journal "has owner")" 0
	rm /etc/rdmabroker/rdmabrokerd.conf.d/50-test.conf
	nobody_may
	systemctl restart rdmabrokerd
}

# foreign DEVICE: prints the status of ids on DEVICE that the broker did not make.
foreign() {
	rdmabrokerctl --json status | python3 -c "
import json, sys
devices = {d['name']: d for d in json.load(sys.stdin)['devices']}
print(json.dumps(devices['$1']['foreign_ids']))"
}

# listen_alone PORT [OPTION...]: carol listens without the broker, while everybody can open rdma_cm.
listen_alone() {
	local port=$1
	shift
	everybody_may rdma_cm 'uverbs*'
	as carol rping -s -P -p "$port" "$@" > rping 2>&1 &
	await "rdma resource show cm_id link rxe0 | grep -q 'state LISTEN.*:$port'"
	nobody_may
	stranger=$(rdma resource show cm_id link rxe0 | sed -n "s/.*LISTEN.* pid \([0-9]*\) .*:$port.*/\1/p")
	assert_eq "$(ps -o user=,comm= "$stranger" | xargs)" "carol rping"
}

case_foreign_ids() {
	local stranger
	users_policy
	trap nobody_may EXIT
	listen_alone 7490 -a $A

	# A request for the status finds the foreign ids. The daemon's own ids are not among them.
	serve server alice $A 7471 -P
	connect client bob $A 7471
	await "foreign rxe0 | grep -q '\"pid\": $stranger,'"
	rdma resource show cm_id | show
	rdmabrokerctl status | show
	assert_contains "$(rdmabrokerctl status)" \
		"foreign ids: rxe0  process $stranger (rping, uid 1002) holds 1: LISTEN $A:7490"
	assert_contains "$(foreign rxe0)" '"ids": 1, "state": "LISTEN", "local": "10.9.0.1:7490", "peer": null}], '
	assert_contains "$(foreign rxe0)" '"more": 0, "nameless": 0}'
	assert_contains "$(foreign rxe1)" '"holders": [], "more": 0, "nameless": 0}'
	stop client
	stop server

	# A daemon that starts later logs the foreign ids.
	mark_journal
	systemctl restart rdmabrokerd
	await "journal | grep -qF 'Process $stranger (rping, uid 1002) holds'"
	journal | grep -F "Process $stranger" | show
	assert_contains "$(journal)" "ids on rxe0 that the broker did not create, so no rule applies to them: 1 in all, one of them LISTEN $A:7490."
	kill "$stranger"
	await "foreign rxe0 | grep -qF '\"holders\": []'"
}

# A program that listens on all devices also listens on a device that is added later.
case_foreign_ids_of_a_new_device() {
	local stranger
	users_policy
	trap nobody_may EXIT
	listen_alone 7491
	mark_journal
	rdma link del rxe1
	await "! devices | grep -q rxe1"
	fabric_up
	await "journal | grep -qF 'Process $stranger (rping, uid 1002) holds connection manager ids on rxe1'"
	assert_lacks "$(journal)" "ids on rxe0"
	kill "$stranger"
}

case_start_without_a_device() {
	users_policy
	systemctl stop rdmabrokerd
	rdma link del rxe0
	rdma link del rxe1
	mark_journal
	systemctl start rdmabrokerd
	assert_eq "$(devices)" "[]"
	# The message names what is missing, and what to do.
	for words in "$(journal)" "$(rdmabrokerctl status)"; do
		assert_contains "$words" "this host has no RDMA device"
		assert_contains "$words" "rdma link add rxe0 type rxe netdev"
	done
	fails 1 as alice rdmabroker-ping -s -a $A -p 7471
	fabric_up
	await "devices | grep -q rxe1"
	serve server alice $A 7471
	ping_once bob $A -p 7471
	finish server
}

case_broken_policy() {
	local error="$RULES:3:7"
	policy <<-END
		allow session user alice,bob
		allow device user bob
		allow connect user bob
	END
	cat > "$RULES" <<-END
		allow session user alice,bob
		allow device user bob
		allow everythig user carol
	END
	refused_reload "$error"
	await "systemctl status rdmabrokerd | grep -qF 'nothing was reloaded; the previous 3 rules stay'"
	await "systemctl show --property=StatusText rdmabrokerd | grep -qF '$error'"
	assert_contains "$(systemctl status rdmabrokerd)" "$error"
	assert_contains "$(rdmabrokerctl status)" "$error"
	assert_contains "$(status_field "['policy']['error']")" "$error"
	assert_eq "$(status_field "['policy']['rules']")" 3
	fails 1 rdmabrokerd --check
	assert_contains "$(cat words)" "$error"
	# The old policy is still in force.
	fails 3 ping_once carol $A -p 7471
	fails 3 ping_once bob $A -p 7471
	assert_contains "$(cat words)" "nobody listens"

	# A policy that others than root can write is refused.
	users_policy
	assert_eq "$(status_field "['policy']['error']")" None
	chmod g+w "$RULES"
	refused_reload "$RULES"
	assert_contains "$(rdmabrokerctl status)" "$RULES"
	chmod g-w "$RULES"
	reload "policy reloaded"

	# A umask of 077 makes files that root can read, but not the daemon. The check by root says so, too.
	chmod 600 "$RULES"
	error="$RULES: cannot open: Permission denied for the user rdmabroker; to permit it: chmod a+r $RULES"
	fails 1 rdmabrokerctl check
	assert_eq "$(cat words)" "$error"
	fails 1 rdmabrokerctl check "$RULES"
	assert_eq "$(cat words)" "$error"
	refused_reload "$error"
	assert_contains "$(status_field "['policy']['error']")" "$error"
	chmod a+r "$RULES"
	rdmabrokerctl check
	reload "policy reloaded"

	# What is probably a mistake is told, and is no error.
	echo "reject any" > "${RULES%.rules}.rule"
	reload "${RULES%.rules}.rule: this file is not read"
	rm "${RULES%.rules}.rule"

	# SIGHUP reloads, too, without a reply.
	mark_journal
	kill -HUP "$(daemon_pid)"
	await "journal | grep -qF 'policy reloaded'"
}

# The policy gets an error, and then the daemon is restarted, as by a reboot.
case_policy_broken_at_start() {
	users_policy
	echo "alow session" > "$RULES"
	mark_journal
	systemctl restart rdmabrokerd
	assert_eq "$(systemctl is-active rdmabrokerd rdmabrokerd.socket)" "active
active"
	await "journal | grep -qF 'EVERYTHING IS REJECTED'"
	assert_contains "$(journal)" "$RULES:1:1: unknown action 'alow'"
	assert_contains "$(systemctl show --property=StatusText rdmabrokerd)" "NO POLICY"
	assert_contains "$(rdmabrokerctl status)" "policy: NOT LOADED"
	fails 3 as alice rdmabroker-ping -s -a $A -p 7471
	assert_contains "$(cat words)" "the broker's policy has an error"
	fails 1 as alice rdmabrokerctl status
	refused_reload "there is still no policy"
	users_policy
	assert_eq "$(status_field "['policy']['loaded']")" True
	serve server alice $A 7471
	ping_once bob $A -p 7471
	finish server
}

case_user_that_is_missing_at_start() {
	policy <<-END
		allow session user alice
		allow device
		allow listen
		allow accept
		allow connect
	END
	cat > "$RULES" <<-END
		allow session user eve
		allow session user alice
		allow device
		allow listen
		allow accept
		allow connect
	END
	# The missing user is an error for a reload, but not at start.
	refused_reload "$RULES:1:20: unknown user"
	mark_journal
	systemctl restart rdmabrokerd
	assert_contains "$(journal)" "$RULES:1:20: unknown user 'eve'"
	assert_eq "$(status_field "['policy']['missing_names']")" 1
	serve server alice $A 7471
	# The new user can connect without a reload.
	trap 'userdel eve' EXIT
	useradd --no-create-home eve
	await "journal | grep -qF 'All user and group names of the policy have been looked up'"
	assert_eq "$(status_field "['policy']['missing_names']")" 0
	ping_once eve $A -p 7471
	finish server
}

case_configuration_broken_at_start() {
	local config=/etc/rdmabroker/rdmabrokerd.conf.d/50-test.conf
	users_policy
	trap "rm -f $config" EXIT
	printf '[Daemon]\nLogLevl=info\n' > $config
	mark_journal
	assert_fails_with 1 systemctl restart rdmabrokerd
	assert_contains "$(journal)" "$config:2:1: unknown key"
	assert_eq "$(systemctl show --property=ExecMainStatus,Result,NRestarts rdmabrokerd | sort)" \
		"ExecMainStatus=78
NRestarts=0
Result=exit-code"
	# A client makes systemd start the daemon again, which fails. After too many such starts in a short time, both
	# units fail.
	assert_fails_with 1 timeout $patience rdmabrokerctl status
	rm $config
	# Retry: the service requires its socket, and systemd refuses to restart the socket while the service is
	# starting.
	await "systemctl restart rdmabrokerd"
	assert_eq "$(systemctl is-active rdmabrokerd.socket)" active
	rdmabrokerctl status
}

case_status_is_for_the_admin() {
	users_policy
	rdmabrokerctl status
	rdmabrokerctl help
	fails 1 as alice rdmabrokerctl status
	assert_contains "$(cat words)" root
	fails 2 rdmabrokerctl frobnicate
}

case_started_by_a_client() {
	users_policy
	systemctl stop rdmabrokerd
	assert_eq "$(systemctl is-active rdmabrokerd.socket)" active
	serve server alice $A 7471
	assert_eq "$(systemctl is-active rdmabrokerd)" active
	ping_once bob $A -p 7471
	finish server
}

case_without_socket_activation() {
	users_policy
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	fails 1 rdmabrokerctl status
	assert_contains "$(cat words)" "systemctl start rdmabrokerd"
	systemctl mask --runtime rdmabrokerd.socket
	systemctl start rdmabrokerd
	assert_eq "$(systemctl is-active rdmabrokerd.socket || true)" inactive
	assert_eq "$(stat -c '%U %a' $SOCKET)" "rdmabroker 666"
	serve server alice $A 7471
	ping_once bob $A -p 7471
	finish server
	systemctl stop rdmabrokerd
	assert_fails_with 1 test -e $SOCKET
	systemctl unmask --runtime rdmabrokerd.socket
	systemctl start rdmabrokerd
	assert_eq "$(systemctl is-active rdmabrokerd.socket)" active
}

case_daemon_dies() {
	local before
	users_policy
	serve server alice $A 7471 -P
	connect client bob $A 7471
	mark_journal
	before=$(daemon_pid)
	kill -KILL "$before"
	await "[ \$(systemctl is-active rdmabrokerd) = active ] && [ \$(daemon_pid) != $before ]"
	journal | show
	rdmabrokerctl list | show
	rdma resource show cm_id | show
	# The connection goes on until the client ends it. Then the listener serves the next client.
	stop client
	await_line server RDMABROKER_EVENT_DISCONNECTED
	ping_once bob $A -p 7471
	stop server
}

case_ipv6() {
	policy <<-END
		set here = { fd09::/64 }
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice local @here port 7471
		reject accept user alice peer fd09::3
		allow accept  user alice peer @here
		allow connect user bob peer $A6
	END
	serve server alice $A6 7471
	ping_once bob $A6 -p 7471 -C 1000
	finish server
	assert_contains "$(cat server)" "1000 rounds"
	fails 3 as bob rdmabroker-ping -c -a fd09::2 -p 7471
	fails 3 as alice rdmabroker-ping -s -a $A -p 7471
	users_policy
	serve server alice :: 7472 -P
	ping_once bob $A6 -p 7472
	ping_once bob $A -p 7472
}

case_sandbox() {
	local exposure limit=15
	users_policy
	# With sanitizers the unit's sandbox is weaker.
	! sanitized || limit=17
	exposure=$(systemd-analyze security rdmabrokerd |
		sed -n 's/.*exposure level for rdmabrokerd.service: \([0-9]*\)\.\([0-9]\).*/\1\2/p')
	assert test "$exposure" -le $limit
	# In the daemon's sandbox only libraries and the daemon can be executed.
	assert_fails_with 126 nsenter --mount --target "$(daemon_pid)" /bin/true
	nsenter --mount --target "$(daemon_pid)" /usr/sbin/rdmabrokerd --version
	# A huge page would be more than the daemon has otherwise.
	assert_contains "$(cat /sys/kernel/mm/transparent_hugepage/enabled)" "[always]"
	assert_eq "$(sed -n 's/^THP_enabled:\s*//p' "/proc/$(daemon_pid)/status")" 0
}

product_up
run_cases "$@"
