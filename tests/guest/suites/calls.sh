#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The library's calls, made by programs of unprivileged users: alice serves and bob connects.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"
# shellcheck source=../calls.sh
. "$(dirname "$0")/../calls.sh"

# ---- the daemon ----

users_policy() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice port 7400-7499
		allow accept  user alice port 7400-7499
		allow connect user bob
	END
}

# Without the ACLs of the nodes: a device that is removed and added again gets a new node.
holdings() {
	counted_holdings
}

remember_holdings() {
	holdings_before=$(holdings)
	open_files > files_before
}

holdings_are_back() {
	(await "[ \"\$(holdings)\" = '$holdings_before' ]") ||
		fail "there is more, or less, than before: $(diff <(echo "$holdings_before") <(holdings) || true)" \
			"$(open_files | diff files_before - || true)"
}

rounds_pass() {
	start check_server alice serve $A 7499 own 1
	await_line check_server listening
	run bob client $A 7499 own 10
	finish check_server
}

# ---- connecting by one call ----

case_connect_to() {
	users_policy
	remember_holdings
	start server alice serve $A 7471 own 10
	await_line server listening
	run bob connect-to $A 7471 rxe1 10
	finish server
	holdings_are_back
}

# ---- the examples that are installed ----

# A server with deadlines, and a client that does not block.
case_examples() {
	local server text status=0
	users_policy
	remember_holdings
	as alice blocking-server 7471 3 > server 2>&1 &
	server=$!
	await 'grep -q "^listening on port 7471" server'
	for text in one two "and three"; do
		as bob event-client $A 7471 "$text" || fail "the client of '$text': status $?; the server: $(cat server)"
	done
	wait $server || fail "the server: status $?: $(cat server)"
	assert_eq "$(grep -v ^listening server | sort)" "$(printf 'and three\none\ntwo')"

	# There is no listener any more.
	as bob event-client $A 7471 again > client 2>&1 || status=$?
	assert_eq "$status: $(cat client)" "1: $(cat client)"
	assert_contains "$(cat client)" "REJECTED: the peer has no listener at this port"
	holdings_are_back
}

# ---- datagrams ----

case_datagrams() {
	users_policy
	remember_holdings
	start server alice datagram-server $A 7471 100
	await_line server listening
	run bob datagram-client $A 7471 100
	finish server
	assert_contains "$(cat server)" "answered 100 datagrams"
	holdings_are_back
}

case_datagram_refusals() {
	policy <<-END
		allow  session user alice,bob
		allow  device  user alice,bob
		allow  listen  user alice
		allow  connect user bob
		reject accept  user alice port 7472 reason "not a storage host"
		allow  accept  user alice
	END
	remember_holdings
	start refuser alice datagram-refuser $A 7471 2
	await_line refuser listening
	run bob datagram-refused $A 7471 peer
	finish refuser
	start refuser alice datagram-refuser $A 7472 1
	await_line refuser listening
	run bob datagram-refused $A 7472 policy "not a storage host"
	assert_lacks "$(cat refuser)" refused
	kill "${pids[refuser]}"
	finish refuser 143
	run bob datagram-refused $A 7473 no-listener
	holdings_are_back
}

# ---- ids that are handed over ----

case_four_workers() {
	users_policy
	remember_holdings
	start acceptor alice workers $A 7471 4 40
	await_line acceptor listening
	run bob many $A 7471 40 8
	finish acceptor
	for worker in 0 1 2 3; do
		assert_contains "$(cat acceptor)" "worker $worker served 10"
	done
	for what in "a socket" /dev/null twice; do
		assert_contains "$(cat acceptor)" "import $what: EBADF"
	done
	holdings_are_back
}

case_killed_worker() {
	local victim
	users_policy
	remember_holdings
	start acceptor alice workers $A 7471 4 8
	await_line acceptor listening
	start clients bob many $A 7471 8 8 hold
	await_line clients "all are held"
	victim=$(sed -n 's/^worker 2 is process //p' acceptor)
	kill -KILL "$victim"
	await_line clients "worker 2: disconnected" 2
	go clients
	finish clients
	finish acceptor
	assert_eq "$(grep -c 'worker [013]: [0-9]* rounds verified' clients)" 6
	assert_eq "$(grep -c disconnected clients)" 2
	assert_contains "$(cat acceptor)" "a worker was killed by signal 9"
	holdings_are_back
}

# ---- fork ----

# forked HOW [VARIABLE=VALUE]: runs `forking ... HOW`, with VARIABLE in its environment.
forked() {
	local during
	users_policy
	remember_holdings
	start server alice serve $A 7471 own 1
	await_line server listening
	mkfifo parent.in
	as bob env ${2:+"$2"} calls forking $A 7471 "$1" <> parent.in > parent 2>&1 &
	pids[parent]=$!
	await_line parent "ready to fork"
	during=$(holdings)
	mark_journal
	go parent
	await_line parent "the child has ended"
	assert_eq "$(holdings)" "$during"
	assert_eq "$(journal)" ""
	go parent
	finish parent
	finish server
	assert_contains "$(cat parent)" "child: every call was refused"
	assert_eq "$(grep -c '^child: descriptor' parent)" 3
	holdings_are_back
}

case_fork_flag() {
	forked flag
}

case_fork_environment() {
	forked env IBV_FORK_SAFE=1
}

# Without ibv_fork_init(), the child has a copy of the registered memory.
case_fork_unprepared() {
	forked none
	assert_contains "$(cat parent)" "child: its copy of the registered memory is overwritten"
}

case_fork_too_late() {
	users_policy
	run bob fork-too-late $A 7471
}

# ---- deadlines ----

# drop [MATCH...]: drops the matching RoCE packets over IPv4 (without MATCH: all), until `lift`.
drop() {
	dropped=("$@")
	iptables -I INPUT -p udp --dport 4791 "$@" -j DROP
	trap lift EXIT
}

lift() {
	trap - EXIT
	iptables -D INPUT -p udp --dport 4791 "${dropped[@]}" -j DROP
}

case_deadlines_stopped_broker() {
	users_policy
	long_watchdog
	# The first connection of a daemon opens the devices.
	rounds_pass
	remember_holdings
	start server alice serve $A 7471 own
	await_line server listening
	start client bob deadline-broker $A 7471
	await_line client "the broker is to be stopped"
	kill -STOP "$(daemon_pid)"
	trap 'kill -CONT $(daemon_pid); usual_watchdog' EXIT
	go client
	finish client
	kill -CONT "$(daemon_pid)"
	rounds_pass
	await_line server RDMABROKER_EVENT_DISCONNECTED
	go server
	finish server
	holdings_are_back
}

case_deadlines_silent_address() {
	users_policy
	remember_holdings
	run bob deadline-silent 10.9.0.250
	rounds_pass
	holdings_are_back
}

case_deadlines_connect() {
	users_policy
	remember_holdings
	start server alice serve $A 7471 own
	await_line server listening
	kill -STOP "${pids[server]}"
	run bob deadline-connect $A 7471
	kill -CONT "${pids[server]}"
	rounds_pass
	kill "${pids[server]}"
	finish server 143

	drop
	run bob deadline-connect $A 7471
	lift
	rounds_pass
	holdings_are_back
}

case_deadlines_accept() {
	users_policy
	remember_holdings
	start server alice deadline-accept $A 7471
	await_line server listening
	start client bob client $A 7471 own 1
	await_line server "a request is here"
	kill -KILL "${pids[client]}"
	wait "${pids[client]}" || true
	go server
	finish server
	rounds_pass

	start server alice deadline-accept $A 7471
	await_line server listening
	rm client.in
	start client bob client $A 7471 own 1
	await_line server "a request is here"
	drop
	go server
	finish server
	assert_contains "$(cat server)" "accept_wait: ETIMEDOUT"
	lift
	rounds_pass
	# On a slow machine the client may have ended already.
	kill -KILL "${pids[client]}" || true
	wait "${pids[client]}" || true
	holdings_are_back
}

case_disconnect_from_a_stopped_server() {
	users_policy
	remember_holdings
	start server alice serve $A 7471 own 1
	await_line server listening
	start client bob disconnect-stopped $A 7471
	await_line client "the server is to be stopped"
	# The server is alice's only process `calls`.
	pkill -STOP -u alice -x calls
	go client
	finish client
	pkill -CONT -u alice -x calls
	await_line server RDMABROKER_EVENT_DISCONNECTED
	finish server
	holdings_are_back
}

# A client may disconnect before its QP has acknowledged the server's last answer. Here all acknowledgements are
# dropped, so that the server's send never succeeds.
case_last_answer_is_not_acknowledged() {
	users_policy
	remember_holdings
	start server alice serve $A 7471 own 1
	await_line server listening
	start client bob client-leaves $A 7471 4
	await_line client "one round is left"
	drop -i d0 -m u32 --u32 '0>>22&0x3C@8>>24=0x11' # RC ACKNOWLEDGE to the server's device
	go client
	finish client
	finish server
	lift
	assert_contains "$(cat server)" "event: RDMABROKER_EVENT_DISCONNECTED"
	holdings_are_back
}

case_deadlines_disconnect() {
	users_policy
	remember_holdings
	start server alice serve $A 7471 own
	await_line server listening
	start client bob deadline-disconnect $A 7471
	await_line client established
	drop
	go client
	finish client
	lift
	rounds_pass
	kill "${pids[server]}"
	finish server 143
	holdings_are_back
}

# ---- QPs that the program makes ----

case_own_qps() {
	users_policy
	remember_holdings
	for serving in set external srq; do
		start server alice serve $A 7471 $serving 4
		await_line server listening
		for connecting in own set external srq; do
			run bob client $A 7471 $connecting 20
		done
		finish server
	done
	holdings_are_back
}

case_ack_timeout() {
	users_policy
	for mode in own set external; do
		start server alice serve $A 7471 $mode 2 15
		await_line server listening
		run bob client $A 7471 $mode 5 12
		run bob client $A 7471 $mode 5
		finish server
	done
}

case_qp_in_reset() {
	local qp
	policy <<-END
		allow any user alice,bob,dave
	END
	start server alice serve $A 7471 own 1
	await_line server listening
	start client bob client-reset $A 7471 5
	await_line client "the QP is in RESET"
	qp=$(sed -n 's/^QP number //p' client)
	rdma resource show qp | grep "link rxe./- lqpn $qp " | show
	# The QP belongs to another process. No QP has the number 0xfffffe.
	for user in bob dave; do
		assert_fails_with 3 as $user rdmabroker-ping -c -a $A -p 7471 --qpn "$qp"
		assert_fails_with 3 as $user rdmabroker-ping -c -a $A -p 7471 --qpn 0xfffffe
	done
	go client
	finish client
	finish server
}

# number_refused USER QPN TEXT: the broker must refuse a connect with QPN, with an error that contains TEXT.
number_refused() {
	local status=0
	as "$1" calls number-client $A 7471 "$2" > refused 2>&1 || status=$?
	cat refused
	assert_eq "status $status" "status 3"
	assert_contains "$(cat refused)" "connect: EPERM: QP number $2 of "
	assert_contains "$(cat refused)" "$3"
}

# Numbers that are no QPs, as UCX reserves them on mlx5.
case_reserved_qp_numbers() {
	local first=16777212 second=16777213 third=16777214 device qp
	policy <<-END
		allow any user alice,bob,dave
	END
	start server alice number-server $A 7471 $third
	await_line server listening
	mark_journal
	number_refused bob $first "the kernel knows no such QP"
	await "journal | grep -q 'QP $first of rxe.: the kernel knows no such QP. .*qp reserved'"

	# The policy allows reserved numbers for connects only.
	policy <<-END
		allow connect user bob,dave qp reserved log
		allow any user alice,bob,dave
	END
	mark_journal
	start client bob number-client $A 7471 $first
	await_line server "request with QP number $first"
	await_line server "accept: EPERM: QP number $third of "
	await_line client RDMABROKER_EVENT_REJECTED
	finish client
	await "journal | grep -q ' allowed by .*: qp reserved: QP $first of rxe.: the kernel knows no such QP'"

	policy <<-END
		allow connect user bob,dave qp reserved
		allow accept user alice qp reserved
		allow any user alice,bob,dave
	END
	rdmabrokerctl explain connect --user bob --peer $A --port 7471 > explained
	cat explained
	grep -qx " *sets: *qp reserved" explained || fail "explain does not show the setting"
	start client bob number-client $A 7471 $second
	await_line server "request with QP number $second"
	await_line client "response with QP number $third"
	await_line client established
	await_line server RDMABROKER_EVENT_ESTABLISHED

	# The broker still refuses numbers that are not for programs, and QPs of other processes, even those in RESET.
	number_refused bob 1 "does not belong to process"
	number_refused bob 16777215 "does not belong to process"
	start serving alice serve $A 7472 own 2
	await_line serving listening
	start resting dave client-reset $A 7472 5
	await_line resting "the QP is in RESET"
	qp=$(sed -n 's/^QP number //p' resting)
	number_refused bob "$qp" "does not belong to process"
	device=$(rdma resource show qp | sed -n "s|.*link \(rxe.\)/- lqpn $qp .*|\1|p")
	start connected dave client-leaves $A 7472 5
	await_line connected "one round is left"
	qp=$(rdma resource show qp link "$device" | sed -n 's/.* lqpn \([0-9]*\) .* state RTS .* comm calls.*/\1/p')
	number_refused bob "$qp" "does not belong to process"
	for name in connected resting; do
		go $name
		finish $name
	done
	finish serving

	# If two clients use one QP number, the peer rejects the second as stale, and disconnects the first.
	start thief dave number-client $A 7471 $second
	await_line thief "RDMABROKER_EVENT_REJECTED (10)"
	await_line client RDMABROKER_EVENT_DISCONNECTED
	finish thief
	finish client
	go server
	finish server
	await "rdmabrokerctl metrics | grep -qx 'rdmabroker_ids 0'"
}

# ---- multicast ----

# multicast GROUP FLAGS ADDR OTHER_ADDR: alice joins with FLAGS from ADDR, and sends. bob receives at OTHER_ADDR.
# While MEANWHILE= restarts the daemon, each process is to be counted after the same: a take-over and a connection.
multicast() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice,bob
		allow join    user alice,bob peer $1
		allow accept  user alice port 7499
		allow connect user bob port 7499
	END
	${meanwhile-}
	rounds_pass
	remember_holdings
	start receiver bob multicast-receive "$4" "$1" 100
	await "grep -q -e ^FAILED -e 'the group is joined' -e 'cannot join' receiver"
	! grep -q "cannot join" receiver || skip "the kernel has no group $1 on RoCE v2 (EOPNOTSUPP)"
	await_line receiver "the group is joined"
	${meanwhile-}
	go receiver
	start sender alice multicast-send "$3" "$1" 100 "$2"
	await_line receiver "the group is left"
	await_line sender "all datagrams are answered"
	${meanwhile-}
	go sender
	finish sender
	go receiver
	finish receiver
	rounds_pass
	holdings_are_back
}

case_multicast() {
	multicast 239.1.2.3 1 $A $B
}

# The next daemon takes the memberships over: their ids can leave the group, and join again.
case_multicast_and_restarts() {
	local meanwhile="systemctl restart rdmabrokerd"
	multicast 239.1.2.3 1 $A $B
}

case_multicast_send_only() {
	multicast 239.1.2.3 2 $A $B
}

case_multicast_denied() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user alice,bob
		allow join    user alice
		reject join   user bob
	END
	run bob multicast-denied $B 239.1.2.3 | tee denied
	assert_contains "$(cat denied)" "rule $RULES:5"
}

case_multicast_ipv6() {
	multicast ff05::1234 1 $A6 $B6
}

# ---- devices that are removed ----

case_removal_at_the_server() {
	users_policy
	start server alice removal-server $A 7471
	await_line server listening
	start client bob removal-client $A 7471
	await_line client established
	assert timeout $patience rdma link del rxe0
	await_line server "all is destroyed"
	await_line client "all is destroyed"
	assert_contains "$(cat server)" RDMABROKER_EVENT_DEVICE_REMOVAL
	fabric_up
	await "rdmabrokerctl --json status | grep -q rxe0"
	go server
	await_line server "listening again"
	go client
	finish client
	finish server
}

case_removal_at_the_client() {
	users_policy
	start server alice serve $A 7471 own 2
	await_line server listening
	start client bob removal-client $A 7471
	await_line client established
	assert timeout $patience rdma link del rxe1
	await_line client "all is destroyed"
	await_line server RDMABROKER_EVENT_DISCONNECTED
	fabric_up
	await "rdmabrokerctl --json status | grep -q rxe1"
	go client
	finish client
	finish server
}

# ---- threads ----

# threads COMMAND ARG...: runs COMMAND, which must make 200 connections to a server.
threads() {
	users_policy
	remember_holdings
	start server alice serve $A 7471 own 200
	await_line server listening
	run bob "$@"
	finish server
	assert_contains "$(cat server)" "served 200 connections"
	holdings_are_back
}

case_threads_with_sessions_of_their_own() {
	threads many $A 7471 200 8
}

case_threads_waiting_in_one_session() {
	threads threads-waiting $A 7471 8 25
}

case_threads_with_an_event_thread() {
	threads threads-pumped $A 7471 8 25
}

# ---- binding, options ----

case_binds() {
	policy <<-END
		allow session user alice
		allow device  user alice
		allow listen  user alice
	END
	run alice binds $A $A6
}

case_options() {
	policy <<-END
		allow session user bob
		allow connect user bob port 7471 tos-max 32
		allow connect user bob port 7472 dscp af31
		allow connect user bob port 7473
	END
	run bob options $A 7471 200 32
	run bob options $A 7471 8 8
	run bob options $A 7472 200 104
	run bob options $A 7472 -1 104
	run bob options $A 7473 200 200
	run bob options $A 7473 -1 -1
}

case_devices() {
	users_policy
	assert_eq "$(run alice devices | grep '^device' | sort | xargs)" "device rxe0 device rxe1"
	policy <<-END
		allow session user alice
		allow device  user alice device rxe1
	END
	assert_eq "$(run alice devices | grep '^device')" "device rxe1"
}

product_up
# Makes the daemon open the descriptors that it keeps from its first connection on.
(cd "$(mktemp -d)" && chmod 755 . && users_policy && rounds_pass) > /dev/null ||
	fail "no connection"
run_cases "$@"
