#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The daemon is killed and restarted, and no connection ends: programs of the library and of librdmacm, as
# unprivileged users, while their data flows.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"
# shellcheck source=../load.sh
. "$(dirname "$0")/../load.sh"
# shellcheck disable=SC2034
case_seconds=3600

# ---- the daemon ends ----

# new_daemon OLD: waits until another process than OLD serves.
new_daemon() {
	(await "[ \$(daemon_pid) != $1 ] && [ \$(daemon_pid) != 0 ] && systemctl -q is-active rdmabrokerd")
}

kill_daemon() {
	local old
	old=$(daemon_pid)
	kill -KILL "$old"
	new_daemon "$old"
}

# often_policy: load can use 100 ports, and next_connects the one after them.
often_policy() {
	policy <<-END
		allow any user alice,bob port 7400-7500
		allow session user alice,bob
		allow device  user alice,bob
	END
}

# next_connects: a new connection can be made.
next_connects() {
	serve next alice $A 7500 > /dev/null
	ping_once bob $A -p 7500 > /dev/null
	finish next
}

# a_while: lets the load run for up to half a second.
a_while() {
	local milliseconds=$((RANDOM % 500))
	read -rt "$(printf '0.%03d' $milliseconds)" <> <(:) || true
}

# percentiles: reads milliseconds, and prints their distribution.
percentiles() {
	sort -n | awk '
		{ ms[NR] = $1 }
		END { printf "p50 %d, p99 %d, longest %d ms\n", ms[int((NR + 1) / 2)], ms[int(NR * 0.99 + 0.5)], ms[NR] }'
}

# end_often KILLS RESTARTS
end_often() {
	local i began=() started=()
	for ((i = 0; i < $1 + $2; i++)); do
		progress "killed or restarted $i times of $(($1 + $2))"
		a_while
		began+=("$(date +%s%3N)")
		if [ $i -lt "$1" ]; then
			kill_daemon
		else
			systemctl restart rdmabrokerd
		fi
		assert_contains "$(rdmabrokerctl status)" "restart: keeps sessions and connections; process"
		load_runs
		next_connects
	done
	data_flows
	# From the kill to the journal's message, after which the next daemon serves.
	mapfile -t started < <(journalctl -u rdmabrokerd -o short-unix |
		sed -n 's/^\([0-9]*\)\.\([0-9]\{3\}\).* started, .*/\1\2/p' |
		tail -n $(($1 + $2)))
	assert_eq ${#started[@]} $(($1 + $2))
	echo "$1 kills, $2 restarts; until the next daemon serves: $(for ((i = 0; i < $1 + $2; i++)); do
		echo $((started[i] - began[i]))
	done | percentiles)" | show
	journal | grep "Took over" | tail -1 | show
}

case_killed() {
	often_policy
	load 2 2
	mark_journal
	end_often 3 2
	end_load
}

# 100 connections, 50 kills, 50 restarts.
case_killed_often() {
	run_by_name killed_often
	often_policy
	load 50 50
	mark_journal
	end_often 50 50
	end_load
}

# with_killer: restarts the daemon with killer.so, and begins a load of one connection. Of connections to port 7410 each
# kill can end one, and its programs are told. Nothing else ends.
with_killer() {
	local dropin=/run/systemd/system/rdmabrokerd.service.d/60-killer.conf
	if has_asan; then
		skip "a sanitizer's daemon has nothing preloaded before it"
	fi
	users_policy
	install /host/bin/killer.so /usr/lib/killer.so
	mkdir -p "${dropin%/*}"
	trap "rm -f $dropin /run/rdmabroker/arm; systemctl daemon-reload" EXIT
	printf '[Service]\nEnvironment=LD_PRELOAD=/usr/lib/killer.so KILLER_DIR=/run/rdmabroker\n' > $dropin
	systemctl daemon-reload
	systemctl restart rdmabrokerd
	load 1 0
	serve server alice $A 7410 -P > /dev/null
}

end_killer() {
	kill "${pid[server]}"
	wait "${pid[server]}" || true # a failure if one of the connections has failed
	end_load
	# The kernel says so if it cannot destroy an id.
	assert_lacks "$(dmesg)" "cm_destroy_id"
}

# restart_took_long: whether the next daemon served only after longer than clients wait for a reply, 10 s. That happens if
# the machine has no time for the guest.
restart_took_long() {
	local times=()
	new_daemon "$old"
	mapfile -t times < <(journalctl -u rdmabrokerd -o short-unix |
		sed -n 's/^\([0-9]*\)\.\([0-9]\{3\}\).*\(Main process exited\|: rdmabrokerd .* started, \).*/\1\2/p' | tail -n 2)
	echo "from the kill until the next daemon served: $((times[1] - times[0])) ms" | show
	[ $((times[1] - times[0])) -gt 9000 ]
}

# kill_at WHEN: the daemon is killed at WHEN (see killer.c) while bob connects. False: bob's connection was not made.
# OLD is the process that was there before.
kill_at() {
	old=$(daemon_pid)
	echo "$1" > /run/rdmabroker/arm
	if as bob timeout $patience rdmabroker-ping -c -a $A -p 7410 > once 2>&1; then
		return 0
	fi
	if grep -q "did not answer in time" once && restart_took_long; then
		return 1
	fi
	grep -qE 'connection with .* failed|REJECTED|rejected|busy|cannot resolve the route again|disconnected after' once || {
		show < once
		journalctl -u rdmabrokerd -o short-precise -n 30 | show
		fail "instant $1: the client does not learn what has happened: $(tail -n 1 once)"
	}
	return 1
}

# all_goes_on: after the process OLD was killed.
all_goes_on() {
	new_daemon "$old"
	load_runs
	ping_once bob $A -p 7410 > /dev/null
}

# instants STEP: kills the daemon at each STEP-th instant of a connection's life.
instants() {
	local n old ok=0 refused=0
	with_killer
	for ((n = 1; ; n += $1)); do
		progress "instant $n"
		if kill_at "$n"; then
			ok=$((ok + 1))
		else
			refused=$((refused + 1))
		fi
		[ "$(daemon_pid)" != "$old" ] || break
		all_goes_on
	done
	echo "killed at $((ok + refused - 1)) instants: $ok connections were made, $refused were refused" | show
	assert test $((ok + refused)) -gt 3
	end_killer
}

# The daemon dies when the kernel has got a command, and the ledger does not know of it yet.
case_command_not_in_ledger() {
	local command old
	with_killer
	# resolve the address and the route, connect, accept, disconnect, destroy
	for command in 21 4 6 8 10 1; do
		kill_at c$command || true
		all_goes_on
	done
	end_killer
}

# connect_unconfirmed PORT: connects to PORT with librdmacm itself, and does not confirm the response, until something is
# written to the descriptor LINE.
connect_unconfirmed() {
	rm -f line
	mkfifo line
	timeout $patience unconfirmed $A "$1" < line > unconfirmed.log 2>&1 &
	pid[unconfirmed]=$!
	exec {line}> line # closed when the case ends
	(await "grep -q ^RDMA_CM_EVENT_CONNECT_RESPONSE unconfirmed.log") || {
		show < unconfirmed.log
		fail "the peer has got no response"
	}
}

# The daemon dies when the kernel has sent the response of an accept, and the peer has not confirmed it. If the next one
# accepted once more, the kernel would reject, and would destroy the id only after a minute: as long would a daemon that
# is killed meanwhile stay, and no other one start.
case_accepted_and_unconfirmed() {
	local old line
	with_killer
	old=$(daemon_pid)
	echo c8 > /run/rdmabroker/arm
	connect_unconfirmed 7410
	new_daemon "$old"
	echo >&"$line"
	(await "[ \$(grep -c 'established with' server) = 1 ]") || {
		show < server
		show < unconfirmed.log
		fail "the accept is lost"
	}
	wait "${pid[unconfirmed]}" || {
		show < unconfirmed.log
		fail "the peer's connection is not made"
	}
	await_line server RDMABROKER_EVENT_DISCONNECTED
	kill_daemon
	load_runs
	end_killer
}

# The peer confirms and disconnects, or dies unconfirmed, while no daemon runs.
case_accepted_and_over() {
	local old line
	with_killer
	hold_restarts
	old=$(daemon_pid)
	echo c8 > /run/rdmabroker/arm
	connect_unconfirmed 7410
	echo >&"$line"
	await_line unconfirmed.log "disconnects"
	(await away)
	next_may_start
	new_daemon "$old"
	wait "${pid[unconfirmed]}" || {
		show < unconfirmed.log
		show < server
		fail "the peer's disconnect is not answered"
	}
	await_line server "established with"
	await_line server "RDMABROKER_EVENT_DISCONNECTED"

	old=$(daemon_pid)
	echo c8 > /run/rdmabroker/arm
	connect_unconfirmed 7410
	kill -KILL "$(pgrep -x unconfirmed)"
	wait "${pid[unconfirmed]}" || true
	(await away)
	next_may_start
	new_daemon "$old"
	await_line server "RDMABROKER_EVENT_REJECTED"
	ping_once bob $A -p 7410 > /dev/null
	end_killer
}

# server_that_ends serve|hold: alice serves port 7411 with a session that is not taken over. Its ids are ended.
server_that_ends() {
	policy <<-END
		allow session user alice,bob
		allow observe user alice
		allow device  user alice,bob
		allow listen  user alice port 7411
		allow accept  user alice port 7411
		allow connect user bob
	END
	WATCH=1 as alice connects "$1" $A 7411 > server 2>&1 &
	pid[server]=$!
	await_line server listening
}

# The next daemon ends an id that was accepted and not confirmed, and none takes a minute.
case_ended_and_unconfirmed() {
	local line
	server_that_ends serve
	connect_unconfirmed 7411
	kill_daemon
	(await "! kill -0 ${pid[server]}")
	show < server
	kill_daemon
	assert_lacks "$(dmesg)" "cm_destroy_id"
	kill "${pid[unconfirmed]}"
	wait "${pid[unconfirmed]}" || true
}

# The peers of requests that were not answered are told to come again.
case_ended_and_unanswered() {
	server_that_ends hold
	as bob rdmabroker-ping -c -a $A -p 7411 > client 2>&1 &
	pid[client]=$!
	await_line server CONNECT_REQUEST
	kill_daemon
	finish client 3
	assert_contains "$(cat client)" "rejected by policy of the peer's broker (busy)"
	assert_contains "$(cat client)" "try again after"
}

case_some_instants() {
	instants 17
}

case_every_instant() {
	run_by_name every_instant
	instants 1
}

case_daemon_reexec() {
	users_policy
	load 1 1
	systemctl daemon-reexec
	kill_daemon
	load_runs
	data_flows
	end_load
}

# hold_restarts: after a daemon has died, the next one starts only when next_may_start is called.
hold_restarts() {
	mkdir -p /run/systemd/system/rdmabrokerd.service.d
	rm -f $MAY_START
	cat > /run/systemd/system/rdmabrokerd.service.d/70-held.conf <<-END
		[Service]
		ExecStartPre=+/bin/sh -c 'until [ -e $MAY_START ]; do sleep 0.1; done; rm $MAY_START'
		TimeoutStartSec=infinity
	END
	systemctl daemon-reload
	trap 'touch $MAY_START; rm -rf /run/systemd/system/rdmabrokerd.service.d; systemctl daemon-reload' EXIT
}

MAY_START=/run/next-daemon-may-start

next_may_start() {
	away
	touch $MAY_START
}

away() {
	[ "$(daemon_pid)" = 0 ]
}

case_client_dies_meanwhile() {
	local old
	users_policy
	load 2 0
	hold_restarts
	old=$(daemon_pid)
	kill -KILL "$old"
	(await away)
	kill -KILL "${pid[c7400]}"
	wait "${pid[c7400]}" || true
	next_may_start
	new_daemon "$old"
	await_line s7400 RDMABROKER_EVENT_DISCONNECTED
	assert_eq "$(n_established)" 2
	kill -0 "${pid[c7401]}"
	clients=(c7401)
	end_load
}

# The peer uses librdmacm without a broker, as root can. Its request arrives while no daemon runs, and waits.
case_request_meanwhile() {
	local old status
	users_policy
	as alice rdmabrokerctl run -- rping -s -a $A -p 7410 -C 1 -V > server 2>&1 &
	pid[server]=$!
	(await "rdmabrokerctl list | grep -q 'listening .*:7410 '")
	hold_restarts
	old=$(daemon_pid)
	kill -KILL "$old"
	(await away)
	timeout $patience rping -c -a $A -p 7410 -C 1 -V > direct 2>&1 &
	pid[direct]=$!
	(await "rdma resource show cm_id | grep -q 'state CONNECT.*comm rping'")
	next_may_start
	new_daemon "$old"
	status=0
	wait "${pid[direct]}" || status=$?
	[ $status = 0 ] || rping_raced $status direct || {
		show < direct
		show < server
		fail "the request is lost"
	}
	wait "${pid[server]}" || true
}

# What clients send while no daemon runs is answered by the next one, also if they begin only then.
case_requests_meanwhile() {
	local old
	users_policy
	serve server alice $A 7411 -P
	hold_restarts
	old=$(daemon_pid)
	kill -KILL "$old"
	(await away)
	ping_once bob $A -p 7411 > once 2>&1 &
	pid[once]=$!
	# Its connection waits in the queue of the socket.
	(await "[ \$(ss -Hxl src $SOCKET | awk '{ print \$3 }') -gt 0 ]")
	next_may_start
	new_daemon "$old"
	finish once
	stop server
}

# The admin stops the service: all ends, and the programs are told.
case_stopped() {
	users_policy
	load 2 0
	systemctl stop rdmabrokerd
	await_line s7400 "the broker is gone"
	await_line c7401 "the broker is gone"
	(await "! rdma resource show cm_id | grep -q 'state CONNECT'")
	assert_eq "$(getfacl -pn /dev/infiniband/uverbs* | grep -c user:100)" 0
	systemctl start rdmabrokerd
	assert_contains "$(rdmabrokerctl status)" "restart: keeps sessions and connections"
	assert_eq "$(status_field "['restart']['generation']")" 1
	for name in "${servers[@]}" "${clients[@]}"; do
		wait "${pid[$name]}" || true
	done
}

# The daemon of a version that had only the common socket is upgraded. The other sockets come with the restart, which ends
# nothing.
case_doors_come_with_an_upgrade() {
	users_policy
	close_doors
	mark_journal
	systemctl start rdmabrokerd
	assert_contains "$(journal)" "There is no socket for administration"
	assert_fails_with 1 test -e /run/rdmabroker-admin/rdmabroker.sock
	fails 1 rdmabrokerctl status
	assert_contains "$(cat words)" "systemctl restart rdmabrokerd"
	serve server alice $A 7471 -P
	connect client bob $A 7471
	open_doors
	systemctl restart rdmabrokerd
	assert_eq "$(stat -c '%U %G %a' /run/rdmabroker-admin/rdmabroker.sock)" "root rdmabroker 660"
	# Also for services of root that have no capabilities.
	assert setpriv --bounding-set -all rdmabrokerctl status
	assert runuser -u rdmabroker -- rdmabrokerctl status
	assert_eq "$(stat -c '%U %a' /run/rdmabroker-helper/rdmabroker.sock)" "rdmabroker-peerd 600"
	assert_eq "$(rdmabrokerctl list | grep -c ' established ')" 2
	assert_fails_with 1 as alice env RDMABROKER_SOCKET=/run/rdmabroker-admin/rdmabroker.sock rdmabrokerctl status
	stop client
	stop server
}

freeze_systemd() {
	echo "$1" > /sys/fs/cgroup/init.scope/cgroup.freeze
	await "grep -qx 'frozen $1' /sys/fs/cgroup/init.scope/cgroup.events"
}

# fill_queue_of_systemd: sends messages to systemd until the kernel keeps no more of them. Prints their number.
fill_queue_of_systemd() {
	python3 -c '
import itertools, socket
for n in itertools.count():
	# One socket may not have as many messages in the queue.
	sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
	sock.connect("/run/systemd/notify")
	try:
		sock.send(b"X=1")
	except BlockingIOError:
		break
	sock.close()
print(n)'
}

# stop_systemd: systemd does not read what services tell it, as after a crash of its own ("Freezing execution").
stop_systemd() {
	trap 'freeze_systemd 0; usual_watchdog' EXIT
	freeze_systemd 1
	assert [ "$(fill_queue_of_systemd)" -gt 0 ]
}

go_on_systemd() {
	freeze_systemd 0
}

# The broker serves on.
case_systemd_does_not_read() {
	local daemon
	users_policy
	trap usual_watchdog EXIT
	long_watchdog
	load 1 1
	daemon=$(daemon_pid)
	stop_systemd
	rdmabrokerctl reload > /dev/null
	serve server alice $A 7490 -P
	connect client bob $A 7490
	echo 'allow session group nogroup' >> "$RULES"
	rdmabrokerctl reload > /dev/null
	data_flows
	assert_eq "$(fill_queue_of_systemd)" 0
	go_on_systemd
	await "systemctl show -p StatusText rdmabrokerd | grep -q '; 6 rules$'"
	assert_eq "$(systemctl is-active rdmabrokerd)" active
	assert_eq "$(daemon_pid)" "$daemon"
	stop client
	stop server
	(await "[ \$(n_established) = $((2 * n_load)) ]")
	load_runs
	end_load
}

# The broker dies meanwhile. So many sessions have ended that a new socket store is due: what systemd has must stay complete.
case_killed_while_systemd_does_not_read() {
	local daemon
	users_policy
	load 1 1
	daemon=$(daemon_pid)
	stop_systemd
	rdmabrokerctl reload > /dev/null
	# One session each.
	for _ in {1..80}; do
		rdmabrokerctl status > /dev/null
	done
	kill -KILL "$daemon"
	go_on_systemd
	new_daemon "$daemon"
	load_runs
	end_load
}

# A process that hangs is killed by the watchdog after 30 s.
case_watchdog() {
	local old
	users_policy
	load 1 1
	old=$(daemon_pid)
	kill -STOP "$old"
	new_daemon "$old"
	load_runs
	end_load
}

case_memory_runs_out() {
	local old
	users_policy
	load 1 1
	old=$(daemon_pid)
	echo 1000 > "/proc/$old/oom_score_adj"
	echo f > /proc/sysrq-trigger
	new_daemon "$old"
	load_runs
	end_load
}

# A policy with an error is found only at the restart. Nothing that exists ends.
case_broken_policy() {
	users_policy
	load 1 1
	echo "allow everything" >> "$RULES"
	systemctl restart rdmabrokerd
	assert_contains "$(rdmabrokerctl status)" "NOT LOADED"
	load_runs
	users_policy
	load_runs
	end_load
}

product_up
run_cases "$@"
