#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Devices with the manners of hardware: slow, not ready, many, and gone. Soft-RoCE and software iWARP are here built with
# rxe.patch and siw.patch: parameters of the modules say how they behave, see set_manners.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"
# shellcheck source=../podman.sh
. "$(dirname "$0")/../podman.sh"

# ---- devices ----

# Loading the distribution's Soft-RoCE first loads what it needs.
load_modules() {
	modprobe -a rdma_rxe ib_uverbs iw_cm libcrc32c rdma_ucm &&
		rmmod rdma_rxe &&
		insmod "$share/hardware/rdma_rxe.ko" &&
		insmod "$share/hardware/siw.ko"
}

# set_manners MODULE NAME=VALUE...: from now on, MODULE (rdma_rxe or siw) behaves as its parameters say. What is not named
# is as usual.
set_manners() {
	local module=$1 file word
	shift
	for file in /sys/module/"$module"/parameters/*; do
		case ${file##*/} in
		only) echo > "$file" ;;
		reuse_qpn) echo N > "$file" ;;
		*_ms | *_us | *_error) echo 0 > "$file" ;;
		esac
	done
	for word; do
		echo "${word#*=}" > "/sys/module/$module/parameters/${word%%=*}"
	done
}

# begin roce|iwarp: the devices rxe0 and rxe1 are of this kind from now on, and have no manners.
begin() {
	local kind=rxe
	[ "$1" = roce ] || kind=siw
	set_manners rdma_rxe
	set_manners siw
	# What an earlier case has left.
	await "! in_kernel manners_"
	rdma link show rxe0/1 > /dev/null 2>&1 && [ "$(kind_of rxe0)" = $kind ] || fabric_down
	fabric=$1
	fabric_up
}

kind_of() {
	ibv_devinfo -d "$1" | sed -nE 's/.*transport:.*iWARP.*/siw/p; s/.*transport:.*InfiniBand.*/rxe/p'
}

# in_kernel FUNCTION: whether a thread of the daemon is in this function of the kernel.
in_kernel() {
	grep -qs "$1" "/proc/$(daemon_pid)/task"/*/stack
}

# same_daemon COMMAND...: runs COMMAND. The daemon must be the same process after it: its watchdog has not ended it.
same_daemon() {
	local before
	before=$(daemon_pid)
	"$@"
	assert_eq "process $(daemon_pid)" "process $before"
}

# now_ms: prints the time in ms.
now_ms() {
	echo $((${EPOCHREALTIME/./} / 1000))
}

# took COMMAND...: runs COMMAND, which must succeed, and prints how many ms it took.
took() {
	local began
	began=$(now_ms)
	"$@" > took.log 2>&1 || {
		cat took.log >&2
		return 1
	}
	echo $(($(now_ms) - began))
}

# ---- cases ----

opens() {
	ibv_devinfo -d "$1" > opens 2>&1
}

how_open_fails() {
	strace -f -e trace=ioctl,write ibv_devinfo -d "$1" 2>&1 || true
}

# Nobody is at the other end.
qp_number_of_rxe() {
	{ ibv_rc_pingpong -d "$1" -g 0 127.0.0.1 2>&1 || true; } |
		sed -n 's/.*local address.*QPN 0x\([0-9a-f]*\),.*/\1/p'
}

# The modules do what the other cases take for granted.
case_manners() {
	local before after
	begin roce
	opens rxe0 || fail "$(cat opens)"

	set_manners rdma_rxe only=rxe1 open_eagain_ms=3600000
	rdma link delete rxe1
	fabric_up
	! opens rxe1 || fail "open_eagain_ms"
	assert_contains "$(how_open_fails rxe1)" "EAGAIN"
	assert opens rxe0
	set_manners rdma_rxe open_eagain_ms=1
	assert opens rxe1

	set_manners rdma_rxe only=rxe1 open_ms=2000
	before=$(took opens rxe0)
	after=$(took opens rxe1)
	echo "open takes $before ms and $after ms" | show
	[ "$after" -ge 2000 ] && [ "$before" -lt 2000 ] || fail "open_ms"

	set_manners rdma_rxe only=rxe0 open_error=5
	assert_contains "$(how_open_fails rxe0)" "EIO"

	# Each device has a QP of the kernel.
	set_manners rdma_rxe
	before=$(took rdma resource show qp link rxe0)
	set_manners rdma_rxe query_qp_us=1000000
	after=$(took rdma resource show qp link rxe0)
	echo "a query takes $before ms and $after ms" | show
	[ "$after" -ge 1000 ] || fail "query_qp_us"
	assert_contains "$(rdma resource show qp link rxe0)" "rxe0/1"
	set_manners rdma_rxe query_qp_error=5
	! rdma resource show qp link rxe0 > words 2>&1 || fail "query_qp_error"
	assert_contains "$(cat words)" "Input/output error"
	set_manners rdma_rxe

	qp_number_of_rxe rxe0 > before
	qp_number_of_rxe rxe0 > after
	echo "QP numbers: $(cat before) $(cat after)" | show
	! cmp -s before after || fail "QP numbers are reused at once"
	set_manners rdma_rxe reuse_qpn=Y
	qp_number_of_rxe rxe0 > before
	qp_number_of_rxe rxe0 > after
	echo "QP numbers that are reused: $(cat before) $(cat after)" | show
	assert cmp before after
}

# come_again DEVICE: DEVICE is removed and added again.
come_again() {
	rdma link delete "$1"
	fabric_up
}

# mlx5 registers its node before it can be opened, and answers EAGAIN until then.
case_device_that_is_not_ready() {
	begin roce
	users_policy
	serve server alice 0.0.0.0 7471 -P
	ping_once bob $B -p 7471 | show
	set_manners rdma_rxe only=rxe1 open_eagain_ms=3600000
	mark_journal
	come_again rxe1
	# The others go on.
	ping_once bob $A -I $A -p 7471
	(await "rdmabrokerctl status | grep 'Resource temporarily unavailable'" 60) || {
		rdmabrokerctl status
		touch unseen
	}
	rdmabrokerctl status | show
	journal | show
	set_manners rdma_rxe
	same_daemon await "ping_once bob $B -p 7471" 120
	assert_lacks "$(rdmabrokerctl status)" "Resource temporarily unavailable"
	[ ! -e unseen ] || fail "status did not show the device that could not be opened"
	stop server
}

# While a device opens, connections of another one come and go.
case_slow_open() {
	local before during
	begin roce
	users_policy
	# A server has one client at a time.
	serve server alice $A 7471 -P
	serve other alice $A 7472 -P
	before=$(took ping_once bob $A -I $A -p 7472)
	connect client bob $A 7471 -I $A
	set_manners rdma_rxe only=rxe1 open_ms=3600000
	come_again rxe1
	(await "in_kernel manners_alloc_ucontext")
	during=$(took ping_once bob $A -I $A -p 7472)
	echo "a connection takes $before ms, and $during ms while another device opens" | show
	assert in_kernel manners_alloc_ucontext
	stop client
	await_line server RDMABROKER_EVENT_DISCONNECTED
	assert in_kernel manners_alloc_ucontext
	set_manners rdma_rxe
	ping_once_each_way
	stop server
	stop other
}

# ping_once_each_way: both devices have been opened.
ping_once_each_way() {
	serve there alice $A 7473 -P
	serve back alice $B 7474 -P
	await "ping_once bob $A -p 7473"
	await "ping_once bob $B -p 7474"
	stop there
	stop back
}

# in_background NAME COMMAND...
in_background() {
	local name=$1
	shift
	"$@" > "$name" 2>&1 &
	pid[$name]=$!
}

# An accept that waits for the peer or for firmware. Others are served meanwhile, so the daemon's watchdog is, too.
case_iwarp_slow_accept() {
	local before during
	begin iwarp
	users_policy
	serve slow alice $A 7471 -P
	serve other alice $B 7472 -P
	before=$(took ping_once bob $B -p 7472)
	set_manners siw only=rxe0 accept_ms=3600000
	in_background client ping_once bob $A -p 7471
	(await "in_kernel manners_accept")
	same_daemon iwarp_is_served manners_accept "$before"
	finish client
	stop slow
	stop other
}

# iwarp_is_served FUNCTION BEFORE: while a thread of the daemon is in FUNCTION, others are served, as fast as BEFORE ms.
iwarp_is_served() {
	local during
	during=$(took ping_once bob $B -p 7472)
	echo "a connection takes $2 ms, and $during ms meanwhile" | show
	assert in_kernel "$1"
	rdmabrokerctl list | show
	assert in_kernel "$1"
	set_manners siw
	await "! in_kernel $1"
}

# A listen that waits for iwpmd. A wildcard listener is not tried: it holds a lock of the kernel for which all others wait.
case_iwarp_slow_listen() {
	local before
	begin iwarp
	users_policy
	serve other alice $B 7472 -P
	before=$(took ping_once bob $B -p 7472)
	set_manners siw only=rxe0 listen_ms=3600000
	in_background slow as alice rdmabroker-ping -s -a $A -p 7471 -v -P -T $patience
	(await "in_kernel manners_create_listen")
	same_daemon iwarp_is_served manners_create_listen "$before"
	await_line slow "listening on"
	ping_once bob $A -p 7471
	stop slow
	stop other
}

# The next process of the daemon listens for three listeners, and serves others meanwhile.
case_iwarp_slow_takeover() {
	local port restarts old
	begin iwarp
	users_policy
	serve other alice $B 7472 -P
	for port in 7474 7475 7476; do
		serve slow-$port alice $A $port -P
	done
	set_manners siw only=rxe0 listen_ms=3600000
	restarts=$(systemctl show -P NRestarts rdmabrokerd)
	old=$(daemon_pid)
	kill -KILL "$old"
	(await "[ \$(daemon_pid) != $old ] && rdmabrokerctl status")
	ping_once bob $B -p 7472
	rdmabrokerctl list | show
	assert in_kernel manners_create_listen
	set_manners siw
	await "! in_kernel manners_create_listen && rdmabrokerctl status"
	assert_eq "$(($(systemctl show -P NRestarts rdmabrokerd) - restarts)) restart" "1 restart"
	for port in 7474 7475 7476; do
		ping_once bob $A -p $port
		stop slow-$port
	done
	stop other
}

# say NAME LINE [COUNT]: gives LINE to the program stepwise that runs as NAME, and waits for what it prints about it.
say() {
	local words n
	words=$(cut -d' ' -f 1,2 <<< "$2")
	n=$(grep -c "^$words: " "$1") || true
	echo "$2" >> "$1.in"
	(await "[ \$(grep -cF '$words: ' $1) -gt $n ] || ! kill -0 ${pid[$1]}") || true
	tail -n 1 "$1"
}

# stepwise NAME USER: begins stepwise as USER, which gets lines by say.
stepwise() {
	: > "$1.in"
	: > "$1"
	tail -f -s 0.1 "$PWD/$1.in" 2> /dev/null | as "$2" stepwise > "$1" 2>&1 &
	pid[$1]=$!
	await_line "$1" "session: done"
}

# The hardware address of a neighbour changes, as in a fail-over. Linux reports UNREACHABLE for an established connection,
# which is still connected.
case_unreachable() {
	begin roce
	users_policy
	in_background server as alice connects serve $A 7471
	await_line server listening
	stepwise client bob
	assert_contains "$(say client "connect $A 7471")" "done"
	ip neigh replace 10.9.0.1 lladdr 02:00:00:00:00:09 nud permanent dev d1
	fabric_neighbour d1 d0 10.9.0.1
	say client "event any" | show
	rdmabrokerctl list --connections | show
	assert_eq "$(rdmabrokerctl list --connections | grep -c established) established" "2 established"
	assert_contains "$(say client "disconnect now")" "done"
	# The id of the client still exists.
	(await "[ \$(rdmabrokerctl list --connections | grep -c established) = 0 ]" 60)
	kill "${pid[client]}" "${pid[server]}"
}

# So is the connection of a client that dies then. The message by which the peer learns of it is lost, and repeated.
case_unreachable_and_killed() {
	begin roce
	users_policy
	in_background server as alice connects serve $A 7471
	await_line server listening
	stepwise client bob
	assert_contains "$(say client "connect $A 7471")" "done"
	ip neigh replace 10.9.0.1 lladdr 02:00:00:00:00:09 nud permanent dev d1
	assert_contains "$(say client "event any")" UNREACHABLE
	kill -KILL "$(list_field pid "s['user'] == 'bob'")"
	(await "! rdmabrokerctl list | grep -q '^bob '")
	fabric_neighbour d1 d0 10.9.0.1
	rdmabrokerctl list --connections | show
	(await "[ \$(rdmabrokerctl list --connections | grep -c established) = 0 ]" 60)
	kill "${pid[server]}"
}

# The node in a container is made by mknod, and stays when the device goes.
case_reset_in_a_container() {
	local node
	begin roce
	PROGRAMS="$PROGRAMS tail" prepare_root
	containers_policy
	: > program.in
	cp "$share/bin/stepwise" .
	container program root --user 1000 --device $RDMA=rxe0 -v "$PWD:/lines" -- \
		bash -c "tail -f -s 0.1 /lines/program.in | /lines/stepwise"
	await_line program "session: done"
	assert_contains "$(say program "open rxe0")" "done"
	node=$(podman exec program ls -l /dev/infiniband)
	echo "$node" | show
	come_again rxe0
	assert_eq "$(podman exec program ls -l /dev/infiniband)" "$node"
	say program "check rxe0" > check
	# The node of the container leads to the device of before, as long as a process has it open by this node.
	assert_contains "$(say program "close rxe0")" "done"
	say program "open rxe0" > open
	cat check open | show
	assert_contains "$(cat check)" "No such device" # the one of before
	assert_contains "$(cat open)" "done"
	assert_contains "$(say program "check rxe0")" "done"
	end_container program
	nothing_is_left
}

# Each device has a network interface and an address of its own, 10.11.N.1.
forty_up() {
	local n
	for n in {1..40}; do
		ip link add many$n type dummy
		ip address add 10.11.$n.1/24 dev many$n
		ip link set many$n up
		rdma link add many$n type rxe netdev many$n
		progress "device $n of 40"
	done
	await "[ \$(rdma link show | grep -c 'many.* state ACTIVE') = 40 ]"
	udevadm settle
}

forty_down() {
	local n
	for n in {1..40}; do
		rdma link delete many$n
		ip link delete many$n
	done
}

case_forty_devices() {
	local n
	begin roce
	prepare_root
	users_policy
	trap forty_down EXIT
	forty_up
	(await "[ \$(status_field \"['devices']\" | grep -o \"'name'\" | wc -l) = 42 ]")
	# The program opens all of them, in a session of its own.
	stepwise program alice
	for n in {1..40}; do
		say program "open many$n"
	done > opened
	grep -v "done" opened | show || true
	# What the drop-in gets at the program's start.
	as alice rdmabrokerctl run -- bash -c '
		for node in /dev/infiniband/uverbs*; do
			[ -r $node ] && [ -w $node ] && echo usable || echo "no access to $node"
		done' > nodes 2>&1
	sort nodes | uniq -c | sort -rn | head -n 4 | show
	kill "${pid[program]}"
	# A container with the last one.
	containers_policy
	container server root --user 1000 --device $RDMA=many40 --device $DROPIN -- rping -s -a 10.11.40.1 -p 7411 -V -d
	(await "rdmabrokerctl list | grep -q 'listening .*:7411 '" 60) || {
		show < server
		touch refused
	}
	[ -e refused ] || as bob rdmabrokerctl run -- rping -c -a 10.11.40.1 -I 10.11.40.1 -p 7411 -C 10 -V
	end_container server
	assert_eq "$(grep -c "done" opened) opened" "40 opened"
	assert_eq "$(grep -c usable nodes) usable" "42 usable"
	[ ! -e refused ] || fail "the program in the container cannot listen"
}

# Owners of QPs are looked up in the kernel, where each QP costs a query of the device. The figures are not judged.
case_slow_query() {
	begin roce
	users_policy
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471 > /dev/null
	echo "a connection takes $(took ping_once bob $A -p 7471 -C 1) ms" | show
	stepwise program alice
	assert_contains "$(say program "qps rxe0 1000")" "done"
	assert_contains "$(say program "qps rxe1 1000")" "done"
	echo "with 1,000 QPs on each device: $(took ping_once bob $A -p 7471 -C 1) ms" | show
	set_manners rdma_rxe query_qp_us=25
	echo "with 1,000 QPs, and a query that takes 25 us: $(took ping_once bob $A -p 7471 -C 1) ms" | show
	echo "rdma resource show qp: $(took rdma resource show qp) ms" | show
	# A number in RESET is found only among all QPs, a second time by one who has another place in the queue.
	for more in 0 4000; do
		[ $more = 0 ] || assert_contains "$(say program "qps rxe1 $more")" "done"
		qpn=$(rdma resource show qp | sed -nE 's,^link rxe1/- lqpn ([0-9]+) .*,\1,p' | tail -n 1)
		for user in bob dave; do
			echo "$user's look-up of QP $qpn in RESET, among $((1000 + more)):" \
				"$(took fails 3 ping_once $user $A -p 7471 --qpn "$qpn") ms" | show
		done
	done
	set_manners rdma_rxe query_qp_error=5
	ping_once bob $A -p 7471 -C 1 2>&1 | sed 's/^/with queries that fail: /' | show || true
	set_manners rdma_rxe
	kill "${pid[program]}"
	stop server
}

# devices_of INSTANCE: the names of the devices in its status. INSTANCE: initial or blue.
devices_of() {
	local options=()
	[ "$1" = initial ] || options=(--instance "$1")
	rdmabrokerctl "${options[@]}" --json status |
		python3 -c "import json, sys; print(*sorted(d['name'] for d in json.load(sys.stdin)['devices']))"
}

# move_back: rxe1 is in the initial network namespace again. The mode stays as it is: the kernel does not change it while
# there is another namespace.
move_back() {
	ip netns attach initial 1
	ip netns exec blue rdma dev set rxe1 netns initial
	ip netns delete initial
	udevadm settle
}

# A device is in one network namespace. Another one has its node, and cannot open it.
case_exclusive_namespaces() {
	begin roce
	policy <<-END
		allow any user alice
		allow session user alice,root
	END
	# Refused while there is another network namespace. With Linux 6.1 something of a container's stays.
	rdma system set netns exclusive
	blue_up
	trap "move_back; blue_down" EXIT
	(await "[ \"\$(devices_of initial)\" = 'rxe0 rxe1' ]")
	devices_of blue | show
	mark_journal
	rdma dev set rxe1 netns blue
	udevadm settle
	(await "[ \"\$(devices_of initial)\" = rxe0 ]" 60) || touch wrong
	(await "[ \"\$(devices_of blue)\" = rxe1 ]" 60) || touch wrong
	rdmabrokerctl status | show
	rdmabrokerctl --instance blue status | show
	journal | show
	journalctl -u rdmabrokerd@blue -o cat | show
	serve server alice $A 7471 -P
	ping_once alice $A -I $A -p 7471
	stop server
	move_back
	trap blue_down EXIT
	(await "[ \"\$(devices_of initial)\" = 'rxe0 rxe1' ]" 60) || touch wrong
	[ ! -e wrong ] || fail "a device of another network namespace is listed"
	assert_lacks "$(journal)" "annot"
}

load_modules || exit
fabric_up
install_product
run_cases "$@"
