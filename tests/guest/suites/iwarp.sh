#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Software iWARP (siw) instead of Soft-RoCE: connections, refusals with their reasons, programs of librdmacm. The scripts
# side by side with librdmacm are in iwarp-sidebyside.sh. iWARP has neither UD QPs nor multicast, and no
# reject reasons.

FABRIC=iwarp
# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

case_connections() {
	users_policy
	ibv_devinfo -d rxe0 | grep transport | show
	assert_contains "$(ibv_devinfo -d rxe0)" "iWARP"
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471 -C 20 > ping
	show < ping
	connect client bob $A 7471
	assert_contains "$(rdmabrokerctl list --connections)" "$A:7471"
	# With a port the kernel finds a QP by its number; else the broker has to ask for all QPs.
	rdma resource show qp > qps
	show < qps
	assert_contains "$(cat qps)" "link rxe0/1 lqpn"
	assert_lacks "$(cat qps)" "link rxe0/- lqpn"
	stop client
	stop server
	serve server6 alice $A6 7471 -P
	ping_once dave $A6 -p 7471 -C 20
	stop server6
}

# The reason of the peer's broker, and the private data of the peer's program, come as on InfiniBand, although the status
# says nothing.
case_refusals() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice port 7400-7499
		allow connect user bob
		reject accept port 7472 reason "not a storage host"
		allow accept  user alice
	END
	serve server alice $A 7472
	fails 3 ping_once bob $A -p 7472
	assert_contains "$(cat words)" "rejected by policy of the peer's broker (denied): not a storage host"
	kill "${pid[server]}"
	wait "${pid[server]}" || true
	serve rejecting alice $A 7471 -r "come tomorrow"
	fails 3 ping_once bob $A -p 7471
	assert_contains "$(cat words)" "rejected by the peer program"
	assert_contains "$(cat words)" "come tomorrow"
	wait "${pid[rejecting]}" || true
	# Nobody listens.
	fails 3 ping_once bob $A -p 7473
	assert_contains "$(cat words)" "has no listener at this port (iWARP does not tell which)"
	fails 3 as alice rdmabroker-ping -s -a $A -p 7500
}

case_limits() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice port 7400-7499
		allow connect user bob
		allow accept  user alice max 1
	END
	serve server alice $A 7471 -P
	connect client bob $A 7471
	fails 3 ping_once bob $A -p 7471
	assert_contains "$(cat words)" "busy"
	stop client
	ping_once bob $A -p 7471
	stop server
}

# Datagrams are refused before the driver gets them: it would warn in the kernel's log, and some hosts panic at a warning.
case_datagrams() {
	users_policy
	# The script would go on, and wait for events that do not come.
	as alice sidebyside broker lookup > words 2>&1 &
	(await "grep -q '^connect active' words && grep -q 'connect: the device' words") || (show < words && exit 1)
	kill $!
	wait $! || true
	show < words
	assert_contains "$(cat words)" "create-qp active: EOPNOTSUPP"
	assert_contains "$(cat words)" "connect: the device is of iWARP, which has no datagrams"
	assert_contains "$(cat words)" "connect active data=who: EOPNOTSUPP"
	assert_lacks "$(dmesg)" "WARNING:"
}

# A TCP port that does not answer: software iWARP's connect waits in the kernel, for two minutes, and so would each further call
# about the id. The broker serves others meanwhile, also if a user has more such connects than the broker has threads for
# them. Its restart does not wait for the connects, but ends them.
case_silent_peer() {
	users_policy
	python3 - "$A" 7479 > full 2>&1 <<-END &
		import signal, socket, sys
		address = sys.argv[1], int(sys.argv[2])
		listener = socket.create_server(address, backlog=0)
		filling = []
		for i in range(4):
		    filling.append(socket.socket())
		    filling[-1].setblocking(False)
		    filling[-1].connect_ex(address)
		print("full", flush=True)
		signal.pause()
	END
	pid[full]=$!
	await_line full full
	serve server alice $A 7471 -P
	as bob rdmabroker-ping -c -a $A -p 7479 -T $patience > silent 2>&1 &
	pid[silent]=$!
	await "rdmabrokerctl list --port 7479 --state connecting | grep -q :7479"
	rdmabrokerctl list --port 7479 | show
	ping_once bob $A -p 7471 -C 20 | show
	as bob connects at-once $A 7479 70 > crowd 2>&1 &
	pid[crowd]=$!
	await "[ \$(rdmabrokerctl list --port 7479 --state connecting | grep -c :7479) = 71 ]"
	ping_once dave $A -p 7471 -C 20 | show
	systemctl restart rdmabrokerd
	ping_once bob $A -p 7471 -C 20 | show
	finish silent 1
	assert_contains "$(cat silent)" "connection abort"
	finish crowd 1
	assert_contains "$(cat crowd)" "70 failed"
	stop server
	kill "${pid[full]}"
	wait "${pid[full]}" || true
}

# Connections and listeners go on across restarts and kills of the broker.
case_restart() {
	users_policy
	serve server alice $A 7471 -P
	connect client bob $A 7471
	systemctl restart rdmabrokerd
	assert_contains "$(rdmabrokerctl list --connections)" "$A:7471"
	systemctl kill -s KILL rdmabrokerd
	await "rdmabrokerctl status > /dev/null 2>&1"
	assert_contains "$(rdmabrokerctl list --connections)" "$A:7471"
	stop client
	ping_once dave $A -p 7471 -C 20
	stop server
}

# program SERVER -- CLIENT: an unmodified program with the drop-in at both ends, and with librdmacm at one.
program() {
	local server=() client=()
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	client=("$@")

	as alice timeout $patience rdmabrokerctl run -- "${server[@]}" > server 2>&1 &
	pid[server]=$!
	await "rdmabrokerctl list --listeners | grep -q alice"
	run_rping as bob timeout $patience rdmabrokerctl run -- "${client[@]}"
	finish server
	echo "${client[0]}: done" | show
}

case_programs() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice port 7400-7499
		allow connect user bob
		allow accept  user alice
	END
	program rping -s -a $A -p 7471 -C 10 -v -- rping -c -a $A -p 7471 -C 10 -v
	program ucmatose -b $A -p 7471 -- ucmatose -s $A -p 7471
	program rdma_server -p 7471 -- rdma_client -s $A -p 7471
	program ib_send_bw -R -p 7471 -n 100 -s 4096 -d rxe0 -- ib_send_bw -R -p 7471 -n 100 -s 4096 $A
}

fabric_up
install_product
run_cases "$@"
