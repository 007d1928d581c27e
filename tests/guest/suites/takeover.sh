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
# shellcheck disable=SC2034
long_cases=(watchdog memory_runs_out killed_often daemon_reexec client_dies_meanwhile requests_meanwhile some_instants
	every_instant)

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
	finish next > /dev/null
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
	cp /host/bin/killer.so /usr/lib/killer.so
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

# kill_at WHEN: the daemon is killed at WHEN (see killer.c) while bob connects. False: bob's connection was not made.
# OLD is the process that was there before.
kill_at() {
	old=$(daemon_pid)
	echo "$1" > /run/rdmabroker/arm
	if as bob timeout 60 rdmabroker-ping -c -a $A -p 7410 > once 2>&1; then
		return 0
	fi
	grep -qE 'connection with .* failed|REJECTED|rejected|busy|cannot resolve the route again|disconnected after' once || {
		show < once
		fail "instant $1: the client does not learn what has happened"
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

# slow_restarts: the next daemon starts three seconds after the last one has died.
slow_restarts() {
	mkdir -p /run/systemd/system/rdmabrokerd.service.d
	printf '[Service]\nRestartSec=3\n' > /run/systemd/system/rdmabrokerd.service.d/slow.conf
	systemctl daemon-reload
	trap 'rm -rf /run/systemd/system/rdmabrokerd.service.d; systemctl daemon-reload' EXIT
}

away() {
	[ "$(daemon_pid)" = 0 ]
}

case_client_dies_meanwhile() {
	local old
	users_policy
	load 2 0
	slow_restarts
	old=$(daemon_pid)
	kill -KILL "$old"
	(await away)
	kill -KILL "${pid[c7400]}"
	wait "${pid[c7400]}" || true
	away
	new_daemon "$old"
	await_line s7400 RDMABROKER_EVENT_DISCONNECTED
	assert_eq "$(n_established)" 2
	kill -0 "${pid[c7401]}"
	clients=(c7401)
	end_load
}

# The peer uses librdmacm without a broker, as root can. Its request arrives while no daemon runs, and waits.
case_request_meanwhile() {
	local old
	users_policy
	as alice rdmabrokerctl run -- rping -s -a $A -p 7410 -C 1 -V > server 2>&1 &
	pid[server]=$!
	(await "rdmabrokerctl list | grep -q 'listening .*:7410 '")
	slow_restarts
	old=$(daemon_pid)
	kill -KILL "$old"
	(await away)
	timeout 60 rping -c -a $A -p 7410 -C 1 -V > direct 2>&1 &
	pid[direct]=$!
	(await "rdma resource show cm_id | grep -q 'state CONNECT.*comm rping'")
	away
	new_daemon "$old"
	wait "${pid[direct]}" || {
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
	slow_restarts
	old=$(daemon_pid)
	kill -KILL "$old"
	(await away)
	ping_once bob $A -p 7411
	new_daemon "$old"
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

# A process that hangs is killed by the watchdog after 30 s.
case_watchdog() {
	local old
	users_policy
	load 1 1
	old=$(daemon_pid)
	kill -STOP "$old"
	for _ in {1..4}; do
		[ "$(daemon_pid)" = "$old" ] || break
		(await "[ \$(daemon_pid) != $old ]") || true
	done
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

fabric_up
install_product
run_cases "$@"
