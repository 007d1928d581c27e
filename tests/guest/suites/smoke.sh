#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The test guest itself, without the product.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

listening() {
	rdma resource show cm_id | grep -q 'state LISTEN'
}

# await_rping PID FILE: waits for the end of the rping that prints to FILE. It must succeed.
await_rping() {
	local status=0

	wait "$1" || status=$?
	cat "$2"
	[ $status = 0 ] || rping_raced $status "$2" || fail "rping ended with $status"
}

# ping_pong SERVER_USER CLIENT_USER: runs rping between these users.
ping_pong() {
	as "$1" rping -s -a 10.9.0.1 -C 3 > server.log 2>&1 &
	await listening
	run_rping as "$2" rping -c -a 10.9.0.1 -C 3 -v
	await_rping $! server.log
}

case_users_have_their_groups() {
	assert_eq "$(as alice id -u)" 1000
	assert_contains " $(as bob id -nG) " " rdma "
	assert_lacks " $(as carol id -nG) " " rdma "
	assert_contains "$(as dave cat /proc/self/status)" "CapEff:	0000000000000000"
}

case_fabric_comes_and_goes() {
	fabric_up
	fabric_up
	fabric_down
	assert_fails_with 1 test -e /sys/class/infiniband/rxe0
	fabric_down
	fabric_up
	assert_contains "$(rdma link)" "link rxe1/1 state ACTIVE"
}

case_rping_as_root() {
	fabric_up
	ping_pong root root
}

case_rping_between_users() {
	fabric_up
	ping_pong alice bob
}

# watch_wire COUNT: runs tcpdump on d0 until it has seen COUNT packets.
watch_wire() {
	tcpdump --immediate-mode -nvi d0 -c "$1" udp port 4791 > packets 2> tcpdump.log &
	await 'grep -q "listening on" tcpdump.log'
}

case_packets_cross_the_wire() {
	fabric_up
	watch_wire 4
	ucmatose -b 10.9.0.1 > server.log &
	await listening
	ucmatose -s 10.9.0.1 -t 104
	wait %1
	assert_contains "$(cat packets)" "tos 0x68"
	assert_contains "$(cat packets)" "> 10.9.0.1.4791: UDP"
}

case_ipv6_packets_too() {
	fabric_up
	watch_wire 4
	rping -s -a fd09::1 -C 3 > server.log 2>&1 &
	await listening
	run_rping rping -c -a fd09::1 -C 3 -v
	await_rping $! server.log
	assert_contains "$(cat packets)" "> fd09::1.4791:"
}

# After its removal no program can open the device. The device is kept until its last user has closed it.
case_removal_waits_for_users() {
	fabric_up
	rping -s -a 10.9.0.1 -P > server.log &
	await listening
	kill -STOP %1
	rdma link del rxe0 &
	await 'test ! -e /dev/infiniband/uverbs0'
	assert test -e /sys/class/net/d0
	kill -0 %2
	kill -KILL %1
	wait %2
}

run_cases "$@"
