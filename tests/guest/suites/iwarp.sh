#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Software iWARP (siw) instead of Soft-RoCE: connections, refusals with their reasons, programs of librdmacm, and scripts
# side by side with librdmacm. iWARP has neither UD QPs nor multicast, and no reject reasons.

FABRIC=iwarp
# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

# shellcheck disable=SC2034
long_cases=(programs limits)

case_connections() {
	users_policy
	ibv_devinfo -d rxe0 | grep transport | show
	assert_contains "$(ibv_devinfo -d rxe0)" "iWARP"
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471 -C 20 > ping
	show < ping
	connect client bob $A 7471
	assert_contains "$(rdmabrokerctl list --connections)" "$A:7471"
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
	# Nobody listens: TCP says so.
	fails 1 ping_once bob $A -p 7473
	assert_contains "$(cat words)" "Connection refused"
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

# program SERVER -- CLIENT: an unmodified program with the drop-in at both ends, and with librdmacm at one.
program() {
	local server=() client=()
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	client=("$@")

	as alice timeout 60 rdmabrokerctl run -- "${server[@]}" > server 2>&1 &
	pid[server]=$!
	await "rdmabrokerctl list --listeners | grep -q alice"
	as bob timeout 60 rdmabrokerctl run -- "${client[@]}"
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
