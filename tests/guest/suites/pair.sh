#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Two hosts, each with a broker: programs, DSCP, restarts, hosts that disappear, a wire that loses packets or is cut.
# Needs tests/guest/run --second.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"
# shellcheck source=../pair.sh
. "$(dirname "$0")/../pair.sh"

# ---- programs ----

case_ping() {
	there_start server as alice rdmabroker-ping -s -a $THERE -p 7471 -v -P
	there_says server "listening on"
	ping_once bob $THERE -p 7471 -C 20 | show
	there_stop server rdmabroker-ping
	serve server6 alice $HERE6 7471 -P
	there_start client as bob rdmabroker-ping -c -a $HERE6 -p 7471 -C 20
	there_finish client
	stop server6
	# The other host's policy decides about those who come, and says why.
	there_start other as alice rdmabroker-ping -s -a $THERE -p 7499 -v
	there_says other "listening on"
	fails 3 ping_once bob $THERE -p 7499
	assert_contains "$(cat words)" "not on this port"
	there_stop other rdmabroker-ping 1
}

# both NAME SERVER -- CLIENT: the server there and the client here, and the other way round. ADDR: the server's address.
both() {
	local name=$1 server=() client=()
	shift
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	client=("$@")

	repeat_races client_here
	repeat_races client_there
	echo "$name: both ways" | show
}

# repeat_races FUNCTION: runs FUNCTION again if it sets `raced`.
repeat_races() {
	local _

	for _ in 1 2 3 4; do
		raced=
		"$1"
		[ -n "$raced" ] || return 0
	done
	fail "$name: rejected each time"
}

# Of `both`: its server there and its client here.
client_here() {
	local status=0

	there_start "$name" as alice rdmabrokerctl run -- "${server[@]//ADDR/$THERE}"
	on_there await "rdmabrokerctl list --listeners | grep -q alice" || (there_output "$name" && exit 1)
	as bob timeout $patience rdmabrokerctl run -- "${client[@]//ADDR/$THERE}" > client.log 2>&1 || status=$?
	cat client.log
	if [ $status != 0 ] && perftest_raced client.log; then
		raced=yes
		on_there pkill "${server[0]}"
		await "[ -e '$PAIR/${there[$name]}.exit' ]"
		return
	fi
	[ $status = 0 ] || rping_raced $status client.log || fail "$name: status $status"
	there_finish "$name"
}

# Of `both`: the other way round.
client_there() {
	as alice rdmabrokerctl run -- "${server[@]//ADDR/$HERE}" > "$name.here" 2>&1 &
	pid[$name.here]=$!
	await "rdmabrokerctl list --listeners | grep -q alice"
	there_start "$name" as bob timeout $patience rdmabrokerctl run -- "${client[@]//ADDR/$HERE}"
	await "[ -e '$PAIR/${there[$name]}.exit' ]" "${there_seconds:-$((2 * patience))}"
	if perftest_raced "$PAIR/${there[$name]}.out"; then
		raced=yes
		pkill "${server[0]}"
		wait "${pid[$name.here]}" || true
		unset "pid[$name.here]"
		return
	fi
	there_finish "$name"
	finish "$name.here"
}

case_programs() {
	both rping rping -s -a ADDR -p 7471 -C 10 -v -- rping -c -a ADDR -p 7471 -C 10 -v
	both ucmatose ucmatose -b ADDR -p 7471 -- ucmatose -s ADDR -p 7471
	both udaddy udaddy -b ADDR -- udaddy -s ADDR
	both rdma_server rdma_server -p 7471 -- rdma_client -s ADDR -p 7471
	both ib_send_bw ib_send_bw -R -p 7471 -n 100 -s 4096 -- ib_send_bw -R -p 7471 -n 100 -s 4096 ADDR
}

# ---- the wire ----

# The rule of the client's host sets the type of service, and the packets have it where they arrive.
case_dscp() {
	there_start capture tcpdump -Z root -U --immediate-mode -s 128 -ni wire -w "$PAIR/packets.pcap" udp dst port 4791
	there_says capture "listening on"
	there_start server as alice rdmabroker-ping -s -a $THERE -p 7472 -v -P
	there_says server "listening on"
	ping_once bob $THERE -p 7472 -C 5
	there_stop server rdmabroker-ping
	there_stop capture tcpdump
	cp "$PAIR/packets.pcap" .
	assert test "$(packets "src host $HERE and $TO_QP and $AF31")" -gt 0
	assert_eq "$(packets "src host $HERE and $TO_QP and not ($AF31)")" 0
}

# ---- restarts ----

case_restart_of_one_side() {
	there_start server as alice rdmabroker-ping -s -a $THERE -p 7471 -v -P
	there_says server "listening on"
	connect client bob $THERE 7471
	flows
	on_there systemctl restart rdmabrokerd
	flows
	systemctl restart rdmabrokerd
	flows
	# Both know their connection still: the end of one is the end of the other.
	stop client
	there_says server "RDMABROKER_EVENT_DISCONNECTED"
	ping_once bob $THERE -p 7471
	there_stop server rdmabroker-ping
}

# ---- hosts that disappear ----

second_returns() {
	wire_neighbours 1
	there_boots
	second_up
}

# In each case nothing here waits for ever, and all is given back.

# Before it is looked for.
case_gone_before() {
	holdings > before
	there_dies
	ip neigh del $THERE dev wire
	fails 1 timeout $patience as bob rdmabroker-ping -c -a $THERE -p 7471
	show < words
	second_returns
	holdings > after
	diff before after
}

# While the request is on its way: the neighbour is known, but nobody answers.
case_gone_while_connecting() {
	there_start server as alice rdmabroker-ping -s -a $THERE -p 7471 -v -P
	there_says server "listening on"
	# The first connection of a daemon leaves a descriptor that is kept.
	ping_once bob $THERE -p 7471
	holdings > before
	there_dies
	fails 1 timeout $((2 * patience)) as bob rdmabroker-ping -c -a $THERE -p 7471 -T $patience
	show < words
	second_returns
	holdings > after
	diff before after
}

# With an established connection, on which the client here sends: it learns it by its next round.
case_gone_when_established() {
	there_start server as alice rdmabroker-ping -s -a $THERE -p 7471 -v -P
	there_says server "listening on"
	ping_once bob $THERE -p 7471
	holdings > before
	connect client bob $THERE 7471
	flows
	there_dies
	(await "! kill -0 ${pid[client]} 2>/dev/null" $((2 * patience))) || (rdmabrokerctl list | show && rdma resource show qp && exit 1)
	wait "${pid[client]}" || true
	show < client
	second_returns
	holdings > after
	diff before after
}

# A server whose client is gone: it waits, as with librdmacm, but an admin sees the connection, and ends it.
case_client_is_gone() {
	# The first connection of a daemon leaves a descriptor that is kept.
	serve first alice $HERE 7471 -P
	on_there as bob rdmabroker-ping -c -a $HERE -p 7471
	stop first
	holdings > before
	serve waiting alice $HERE 7471 -P -T $((2 * patience))
	there_start client as bob rdmabroker-ping -c -a $HERE -p 7471 -k
	await_line waiting "established"
	there_dies
	rdmabrokerctl list --connections | show
	assert_contains "$(rdmabrokerctl list --connections)" "$THERE"
	rdmabrokerctl kick "$(rdmabrokerctl --json list --connections | python3 -c '
import json, sys
one = json.load(sys.stdin)["ids"][0]
print(str(one["session"]) + ":" + str(one["id"]))')"
	# The kernel asks the peer 16 times whether it has disconnected, too.
	(await "grep -q RDMABROKER_EVENT_DISCONNECTED waiting") ||
		(rdmabrokerctl list && cat waiting && rdma resource show cm_id && journal && exit 1)
	assert_lacks "$(rdmabrokerctl list --connections)" "$THERE"
	stop waiting
	second_returns
	holdings > after
	diff before after
}

# ---- a bad wire ----

case_loss() {
	local i

	lossy loss 5% delay 2ms reorder 25%
	on_there lossy loss 5% delay 2ms reorder 25%
	there_start server as alice rdmabroker-ping -s -a $THERE -p 7471 -v -P
	there_says server "listening on"
	for i in {1..20}; do
		ping_once bob $THERE -p 7471 -C 10 > words || (cat words && exit 1)
	done
	tc -s qdisc show dev wire | show
	assert test "$(tc -s -j qdisc show dev wire | python3 -c '
import json, sys
print(sum(one.get("drops", 0) for one in json.load(sys.stdin)))')" -gt 0
	there_stop server rdmabroker-ping
	lossy
	on_there lossy
}

# The wire is cut under a connection, and mended.
case_partition() {
	there_start server as alice rdmabroker-ping -s -a $THERE -p 7471 -v -P -T $((2 * patience))
	there_says server "listening on"
	connect client bob $THERE 7471 -T $((2 * patience))
	flows
	lossy loss 100%
	on_there lossy loss 100%
	fails 1 timeout $patience as bob rdmabroker-ping -c -a $THERE -p 7471
	show < words
	lossy
	on_there lossy
	# The old connection has either gone on, or has ended at both sides.
	if kill -0 "${pid[client]}" 2> /dev/null; then
		flows
		echo "the connection went on" | show
		stop client
	else
		wait "${pid[client]}" || true
		tail -n 2 client | show
	fi
	ping_once bob $THERE -p 7471 -T $((2 * patience))
	(await "! rdmabrokerctl list --connections | grep -q $THERE" $((2 * patience)))
	there_stop server rdmabroker-ping
}

pair_up <<-END
	allow session user alice,bob
	allow device  user alice,bob
	allow listen  user alice port 7400-7499
	allow listen  user alice port 7174 # udaddy's
	reject accept port 7499 reason "not on this port"
	allow accept  user alice peer 10.8.0.0/24
	allow accept  user alice peer fd08::/64
	allow connect user bob port 7472 tos 104
	allow connect user bob
END
run_cases "$@"
