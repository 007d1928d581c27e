#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Clients that break the protocol, use too many resources, or are killed. During most attacks another user makes and
# ends connections. Afterwards the daemon has the same resources as before.
#
# alice serves, bob connects with rdmabroker-ping, dave attacks, and carol is allowed no session.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

# The daemon's memory must not grow by more than this. The memory that the heap returns to the kernel varies with its
# fragmentation, by up to 400 kB. An attack of at least 12,000 requests finds a leak of 64 bytes for each.
RSS_SLACK_KB=768

# witness: runs bob's rdmabroker-ping again and again, each time with a new session and a new connection.
witness() {
	: > witness
	(
		until [ -e enough ]; do
			begin=${EPOCHREALTIME/./}
			ping_once bob $A -p 7471 -C 3 -T $((2 * patience)) > ping 2>&1 || {
				echo "lost after $(((${EPOCHREALTIME/./} - begin) / 1000)) ms:"
				cat ping
				exit 1
			}
			echo "round $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
		done
	) >> witness 2>&1 &
	pid[witness]=$!
	await_line witness round
}

rounds() {
	grep -c '^round' witness || true
}

end_witness() {
	local result=0
	touch enough
	wait "${pid[witness]}" || result=$?
	rm enough
	[ $result = 0 ] || fail "another user is disturbed: $(tail -n 5 witness)"
}

slowest() {
	sed -n 's/^round \([0-9]*\) ms$/\1/p' witness | sort -n | tail -n 1
}

rss_kb() {
	awk '$1 == "VmRSS:" { print $2 }' "/proc/$(daemon_pid)/status"
}

# is_idle: the broker has nothing but the session of rdmabrokerctl.
is_idle() {
	rdmabrokerctl --json status | python3 -c '
import json, sys
status = json.load(sys.stdin)
names = "sessions", "listeners", "connections", "handshakes", "ids", "leases"
sys.exit([status[name] for name in names] != [1, 0, 0, 0, 0, 0])'
}

await_holdings() {
	(await "[ \"\$(holdings)\" = '$1' ]") ||
		fail "more or less than before: $(diff <(echo "$1") <(holdings))"
}

# attack NAME [ARG...]: dave attacks while the witness makes at least three complete rounds.
attack() {
	local daemon before base after begin first n=0 times=0
	daemon=$(daemon_pid)
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471
	await "[ \$(status_field \"['sessions']\") = 2 ]"
	before=$(holdings)
	# In a first run the daemon's memory grows to its final size. Of the slow attack "limits", a part is enough.
	first=("$@")
	[ "$1" != limits ] || first=(limits 20)
	as dave hostile $SOCKET "${first[@]}"
	await_holdings "$before"
	base=$(rss_kb)

	witness
	n=$(rounds)
	begin=${EPOCHREALTIME/./}
	until [ $times -gt 0 ] && [ "$(rounds)" -ge $((n + 4)) ]; do
		as dave hostile $SOCKET "$@" > words || fail "$(cat words)"
		times=$((times + 1))
	done
	begin=$(((${EPOCHREALTIME/./} - begin) / 1000))
	n=$(($(rounds) - n))
	end_witness
	show < words
	await_holdings "$before"
	after=$(rss_kb)
	assert_eq "$(daemon_pid)" "$daemon"
	echo "$times times in $begin ms; meanwhile $n pings of another user, the slowest $(slowest) ms;" \
		"the daemon's memory: $base kB, then $after kB" | show
	has_asan || [ "$after" -le $((base + RSS_SLACK_KB)) ] || fail "the daemon grows: $base kB, $after kB"
	stop server
	await is_idle
}

case_raw() {
	users_policy
	attack raw
	# A user without a session can make this attack, too. Other attacks begin with a hello.
	as carol hostile $SOCKET raw
	assert_fails_with 1 as carol hostile $SOCKET fields
}

case_protocol() {
	users_policy
	attack protocol
}

case_fields() {
	users_policy
	attack fields
}

case_flipped_bits() {
	users_policy
	attack flipped
}

case_every_message_cut() {
	users_policy
	attack cut
}

case_every_field_at_its_limits() {
	users_policy
	attack limits 1
}

case_descriptors_everywhere() {
	users_policy
	attack fds
}

# carol, without a session, and dave make the daemon close descriptors that linger for a minute. Meanwhile the daemon
# must serve other clients.
case_descriptors_that_linger() {
	local daemon before n held idle_fds
	users_policy
	daemon=$(daemon_pid)
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471
	await "[ \$(status_field \"['sessions']\") = 2 ]"
	before=$(holdings)
	idle_fds=$(status_field "['fds']")
	mkfifo hold
	as carol hostile $SOCKET linger stranger < hold > carol &
	pid[carol]=$!
	as dave hostile $SOCKET linger < hold > dave &
	pid[dave]=$!
	exec {held}> hold
	await_line carol armed
	await_line dave armed
	witness
	n=$(rounds)
	await "[ \$(rounds) -ge $((n + 4)) ]"
	end_witness
	echo "meanwhile $(($(rounds) - n)) pings of another user, the slowest $(slowest) ms;" \
		"$(status_field "['fds']") descriptors are open" | show
	# The descriptors still linger, except those whose last copy was closed by their sender.
	[ "$(status_field "['fds']")" -gt $((idle_fds + 8)) ] || fail "nothing lingers: $(holdings)"
	exec {held}>&-
	finish carol
	finish dave
	await_holdings "$before"
	assert_eq "$(daemon_pid)" "$daemon"
	stop server
	await is_idle
}

# slow_call CALL COMMAND...: COMMAND makes the daemon call CALL, which lasts until they are done: 1,000 requests of
# another user, which must be answered meanwhile.
slow_call() {
	local call=$1 dropin=/run/systemd/system/rdmabrokerd.service.d/60-slow.conf dir=/run/rdmabroker
	shift
	mkdir -p "${dropin%/*}"
	printf '[Service]\nEnvironment=LD_PRELOAD=/usr/lib/slow.so SLOW=%s SLOW_DIR=%s\n' "$call" $dir > $dropin
	systemctl daemon-reload
	mark_journal
	systemctl restart rdmabrokerd
	# What is called while the devices are opened is not to be tested here, but in hardware.sh.
	(await "[ \$(journal | grep -c 'can be used') = 2 ]")
	await "rdmabrokerctl status"
	rm -f $dir/begun $dir/ended $dir/release
	echo "before $call takes long:" | show
	as bob hostile $SOCKET requests 200 | show
	touch $dir/arm
	"$@" > slow 2>&1 &
	pid[slow]=$!
	await "[ -e $dir/begun ]"
	# If these waited for the call, they would wait for ever.
	as bob hostile $SOCKET requests 1000 | show
	[ ! -e $dir/ended ] || fail "$call has ended by itself"
	echo "$call takes long: 1000 requests of another user are answered before it is over" | show
	touch $dir/release
	wait "${pid[slow]}" || :
	await "[ -e $dir/ended ]"
	rm $dropin
	systemctl daemon-reload
}

begin_slow_calls() {
	if has_asan; then
		skip "a sanitizer's daemon has nothing preloaded before it"
	fi
	trap 'touch /run/rdmabroker/release; rm -f /run/systemd/system/rdmabrokerd.service.d/60-slow.conf; systemctl daemon-reload' EXIT
	cp /host/bin/slow.so /usr/lib/slow.so
	users_policy
}

case_calls_that_take_long() {
	begin_slow_calls
	slow_call rdma_destroy_id reach_nobody
	slow_call mnl_socket_sendto ping_self
	slow_call getpwnam_r rdmabrokerctl reload
	slow_call sd_journal_sendv as carol hostile $SOCKET raw
	systemctl restart rdmabrokerd
}

case_devices_that_take_long() {
	begin_slow_calls
	slow_call acl_set_file ping_self
	slow_call sd_pid_get_unit ping_self
	systemctl restart rdmabrokerd
}

# reach_nobody: connects to a port without a listener, so that the id is destroyed.
reach_nobody() {
	as dave rdmabroker-ping -c -a $A -p 7499
}

ping_self() {
	serve server alice $A 7471
	as dave rdmabroker-ping -c -a $A -p 7471 || :
	stop server
}

# dave does not read his ids' events. The broker closes the removed device nevertheless, and serves other clients.
case_device_removal_with_many_ids() {
	local begin n=500
	users_policy
	# The server must not inherit the pipe, so it is started first.
	serve server alice $B 7471 -P
	mkfifo hold
	as dave hostile $SOCKET keep $n < hold > dave &
	pid[dave]=$!
	exec {held}> hold
	await_line dave kept
	begin=${EPOCHREALTIME/./}
	timeout $patience rdma link del rxe0
	echo "a device with $n ids is gone after $(((${EPOCHREALTIME/./} - begin) / 1000)) ms" | show
	await "! status_field \"['devices']\" | grep -q rxe0"
	as bob hostile $SOCKET requests 100 | show
	fabric_up
	ping_once bob $B -p 7471
	exec {held}>&-
	finish dave
	stop server
	await is_idle
}

case_strangers_ids() {
	local user
	users_policy
	serve owner alice $A 7472 -P
	connect one bob $A 7472
	ping_once dave $A -p 7472 -C 7 > two &
	pid[two]=$!
	# The owner has a listener, a connection and a request, and bob has an id.
	await_line owner "event: RDMABROKER_EVENT_CONNECT_REQUEST" 2
	# Another session of the owner, and other users.
	for user in alice bob dave; do
		as $user hostile $SOCKET strangers 20 | show
	done
	stop one
	finish two
	ping_once bob $A -p 7472
	stop owner
}

case_unread_replies() {
	users_policy
	attack unread 16 20000
}

case_slow_clients() {
	users_policy
	attack slow
}

case_flood() {
	users_policy
	attack flood 20 1000
}

# start_victim PID: runs bob's ping as the process PID, in a scope of its own.
start_victim() {
	local number=$1
	: > victim
	for _ in {1..100}; do
		echo $((number - 1)) > /proc/sys/kernel/ns_last_pid
		(
			[ "$BASHPID" = "$number" ] || exit 1
			exec systemd-run --quiet --scope --unit="victim-$number" --uid=bob -- \
				"$(command -v rdmabroker-ping)" -c -a $A -p 7471 -v -k
		) > victim 2>&1 &
		pid[victim]=$!
		[ ${pid[victim]} != "$number" ] || break
		wait ${pid[victim]} || true
	done
	assert_eq ${pid[victim]} "$number"
	await "grep -q victim-$number.scope /proc/$number/cgroup"
	await "[ \$(cat /proc/$number/comm) = rdmabroker-ping ]"
}

# in_the_place_of_a_victim USER ARG...: while the daemon is stopped, a process of USER connects and exits, and a
# victim gets its pid.
in_the_place_of_a_victim() {
	local user=$1
	shift
	: > attack
	kill -STOP "$(daemon_pid)"
	as "$user" hostile $SOCKET pid "$@" < orders > attack 2>&1 &
	pid[attack]=$!
	await_line attack "pid "
	start_victim "$(sed -n 's/^pid //p' attack)"
	kill -CONT "$(daemon_pid)"
	echo go >&9
}

case_reused_pid() {
	trap 'kill -CONT "$(daemon_pid)"; usual_watchdog' EXIT
	policy <<-END
		allow session unit victim-*.scope
		allow any user alice,bob,dave
	END
	# This also starts the daemon anew: an earlier case may have used up the ten journal entries that dave can have in
	# ten seconds.
	long_watchdog
	mkfifo orders
	exec 9<> orders
	serve server alice $A 7471 -P
	mark_journal
	# The attack on the victim's unit: carol herself is allowed no session.
	assert_fails_with 1 as carol hostile $SOCKET fields
	in_the_place_of_a_victim carol unit
	finish attack
	await_line victim "established"
	stop victim
	# The attack on the victim's QP: dave would connect to the server in place of bob.
	in_the_place_of_a_victim dave qp 7471
	await_line attack "greeted"
	await_line victim "established"
	qp_number victim >&9
	finish attack
	stop victim
	stop server
	journal | grep "cannot verify that process .* is the client" | show
	await is_idle
}

CROWD=10000
declare -A held # descriptors that keep the crowds waiting, by USER
NOFILE=/run/systemd/system/rdmabrokerd.service.d/50-test.conf
LIMITS=/etc/rdmabroker/rdmabrokerd.conf.d/50-test.conf

# few_descriptors SESSIONS_PER_USER: restarts the daemon with few descriptors and this quota. many_descriptors ends
# that.
few_descriptors() {
	mkdir -p "$(dirname $NOFILE)"
	printf '[Service]\nLimitNOFILE=1024\n' > $NOFILE
	printf '[Limits]\nSessionsPerUser=%s\nDescriptorsPerUser=100000\n' "$1" > $LIMITS
	systemctl daemon-reload
	systemctl restart rdmabrokerd
	assert grep -q '^Max open files *1024 ' "/proc/$(daemon_pid)/limits"
}

many_descriptors() {
	rm -f $NOFILE $LIMITS
	systemctl daemon-reload
	systemctl restart rdmabrokerd
}

# crowd USER: starts a program that makes connections until the daemon accepts no more, and holds them. Its output is in the
# file crowd-USER.
crowd() {
	local name=crowd-$1
	mkfifo "hold-$1"
	prlimit --nofile=20000:20000 as "$1" hostile $SOCKET crowd $CROWD < "hold-$1" > "$name" 2>&1 &
	pid[$name]=$!
	exec {holds}> "hold-$1"
	held[$1]=$holds
	(await "grep -q ^full: $name") || fail "$(cat "$name")"
}

# end_crowd USER
end_crowd() {
	local holds=${held[$1]}
	exec {holds}>&-
	finish "crowd-$1"
	show < "crowd-$1"
}

cpu_ticks() {
	awk '{ print $14 + $15 }' "/proc/$(daemon_pid)/stat"
}

case_crowd_within_quotas() {
	local before n
	users_policy
	few_descriptors 32
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471
	await "[ \$(status_field \"['sessions']\") = 2 ]"
	before=$(holdings)
	witness
	n=$(rounds)
	crowd dave
	(await "[ \$(rounds) -ge $((n + 4)) ]")
	n=$(($(rounds) - n))
	end_witness
	end_crowd dave
	echo "meanwhile $n pings of another user, the slowest $(slowest) ms" | show
	assert_contains "$(cat crowd-dave)" " 32 are served (32 with an id,"
	await_holdings "$before"
	stop server
	await is_idle
	many_descriptors
}

# One user gets half of the descriptors, and others are served. While two users hold them all, only root can open a session.
# Afterwards all users can.
case_crowd_without_quotas() {
	local daemon before used calls begin
	policy <<< "allow any user alice,bob,carol,dave"
	few_descriptors 100000
	daemon=$(daemon_pid)
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471
	await "[ \$(status_field \"['sessions']\") = 2 ]"
	before=$(holdings)
	mark_journal
	crowd dave
	(await "journal | grep -q 'uid 1003 is at its limit of 192 descriptors, half of what the broker has'") ||
		fail "the journal has no line about dave's limit: $(journal | tail -n 20)"
	ping_once bob $A -p 7471
	crowd carol
	as bob rdmabroker-ping -c -a $A -p 7471 > bob 2>&1 && fail "bob is served, although nothing is left"
	used=$(cpu_ticks)
	assert rdmabrokerctl status
	# On a busy machine the CPU time does not show how often the daemon wakes up, so strace counts its system
	# calls. The sleep is the interval of the measurement.
	strace -c -f -p "$daemon" > calls 2>&1 &
	pid[strace]=$!
	await "grep -q attached calls"
	sleep 3
	kill "${pid[strace]}"
	wait "${pid[strace]}" || true
	# Without any call there is no table.
	calls=$(awk '$NF == "total" { print $4 }' calls)
	calls=${calls:-0}
	used=$(($(cpu_ticks) - used))
	# carol's process has also what keeps dave's crowd waiting.
	end_crowd carol
	end_crowd dave
	begin=${EPOCHREALTIME/./}
	ping_once bob $A -p 7471
	begin=$(((${EPOCHREALTIME/./} - begin) / 1000))
	echo "the daemon used $((used * 10)) ms of CPU time at its limit, and $calls system calls in 3;" \
		"afterwards the first ping took $begin ms" | show
	assert_contains "$(cat bob)" "the broker is at its limit of 384 descriptors"
	assert_contains "$(cat crowd-carol)" "refused with status 8"
	assert test "$calls" -le 200
	(await "journal | grep -q 'the broker is at its limit of [0-9]* descriptors'") ||
		fail "the journal has no line about the limit: $(journal | tail -n 20)"
	journal | grep -m 3 "the broker is at its limit of [0-9]* descriptors" | show
	assert_eq "$(daemon_pid)" "$daemon"
	await_holdings "$before"
	stop server
	await is_idle
	many_descriptors
}

# alice acts as four of her subordinate uids, each of which would have quotas of its own.
case_subordinate_uids() {
	local uids="1 2 3 4" uid first served
	policy <<< "allow any"
	printf '[Limits]\nSessionsPerUser=32\n' > $LIMITS
	systemctl restart rdmabrokerd
	first=$(sed -n 's/^alice:\([0-9]*\):.*/\1/p' /etc/subuid)
	mkfifo hold
	chmod 666 hold
	chmod 777 .
	mark_journal
	# shellcheck disable=SC2016
	as alice unshare --map-auto --map-root-user bash -c '
		for uid in $2; do
			setpriv --reuid $uid --regid $uid --clear-groups hostile $1 crowd 40 < hold > crowd-$uid 2>&1 &
		done
		wait' - $SOCKET "$uids" > crowd 2>&1 &
	pid[crowd]=$!
	exec {holds}> hold
	for uid in $uids; do
		(await "grep -q ^full: crowd-$uid") || fail "$(cat "crowd-$uid")"
		show < "crowd-$uid"
	done
	served=$(cat crowd-? | sed -n 's/^full: .*: \([0-9]*\) are served.*/\1/p' | awk '{ n += $1 } END { print n }')
	assert_eq "$served" 32
	fails 3 as alice rdmabroker-ping -s -a $A -p 7472
	assert_contains "$(cat words)" "uid 1000 is at its limit of 32 sessions (SessionsPerUser=)"
	assert_contains "$(rdmabrokerctl list --sessions)" " of alice "
	assert_contains "$(rdmabrokerctl explain session --user $((first + 1)))" "uid 1000 is charged"
	# Another user is served, and the limits on the journal's entries are hers, too.
	serve server bob $A 7473 -P
	ping_once bob $A -p 7473
	stop server
	assert test "$(journal | grep -c "A client is refused")" -le 11
	exec {holds}>&-
	finish crowd
	rm $LIMITS
	systemctl restart rdmabrokerd
}

# carol, whom only a rule for one of her groups admits, has 65,535 groups: they are not known, and the rule does not match.
case_many_groups() {
	local first i
	first=$(sed -n 's/^carol:\([0-9]*\):.*/\1/p' /etc/subgid)
	policy < <(
		for i in {1..100}; do
			echo "allow session group $((4000000000 + i))"
		done
		echo "allow session group $((first + 6))"
		echo "allow any user alice,bob"
	)
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471
	witness
	as carol unshare --map-auto --map-root-user hostile $SOCKET groups 1000 20 > words || fail "$(cat words)"
	show < words
	assert_contains "$(cat words)" "1000 groups, 20 hellos: 20 answered, 0 refused"
	i=$(rounds)
	as carol unshare --map-auto --map-root-user hostile $SOCKET groups 65535 500 > words || fail "$(cat words)"
	show < words
	assert_contains "$(cat words)" "65535 groups, 500 hellos: 0 answered, 500 refused"
	await "[ \$(rounds) -gt $i ]"
	end_witness
	echo "meanwhile the slowest ping of another user took $(slowest) ms" | show
	stop server
	await is_idle
}

# ---- kills ----

rdma_resources() {
	rdma resource show | grep -o '\(qp\|cm_id\|cq\|mr\|pd\) [0-9]*' | paste -sd' '
}

# kills clients|servers COUNT SPAN_MS: runs the program killed, and the witness.
kills() {
	local daemon before resources base n
	daemon=$(daemon_pid)
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471
	# librdmacm makes objects for each device, which exist from the first connection on.
	killed "$1" $A 7400 16 1500 "$RANDOM" alice dave
	await "[ \$(status_field \"['sessions']\") = 2 ]"
	before=$(holdings)
	base=$(rss_kb)
	resources=$(rdma_resources)
	witness
	n=$(rounds)
	killed "$1" $A 7400 "$2" "$3" "$RANDOM" alice dave > words 2>&1 || fail "$(cat words)"
	n=$(($(rounds) - n))
	end_witness
	show < words
	await_holdings "$before"
	(await "[ \"\$(rdma_resources)\" = '$resources' ]") ||
		fail "$resources before, $(rdma_resources) now"
	assert_eq "$(daemon_pid)" "$daemon"
	echo "meanwhile $n pings of another user, the slowest $(slowest) ms; the daemon's memory: $base kB," \
		"then $(rss_kb) kB; $resources" | show
	stop server
	await is_idle
}

case_fifty_killed_clients() {
	users_policy
	kills clients 50 800
}

case_killed_clients() {
	users_policy
	kills clients 150 800
}

case_thousand_killed_clients() {
	run_by_name thousand_killed_clients
	users_policy
	kills clients 1000 800
}

case_killed_servers() {
	users_policy
	kills servers 25 1000
}

# The message about the end of a killed client is lost on the wire, and sent again.
case_killed_while_the_wire_is_cut() {
	local before
	trap 'tc qdisc del dev d1 root 2> /dev/null || true' EXIT
	users_policy
	# librdmacm makes objects for both devices, which exist from the first connection on.
	serve server alice $A 7471
	ping_once bob $A -p 7471
	finish server
	before=$(holdings)
	# The long timeout keeps the server from ending the connection itself.
	serve server alice $A 7471 -T $((2 * patience))
	connect client bob $A 7471
	# From now on the server gets nothing from the client.
	kill -STOP "${pid[client]}"
	tc qdisc add dev d1 root netem loss 100%
	kill -KILL "${pid[client]}"
	(await "[ \$(status_field \"['sessions']\") = 2 ]") || fail "the session of a dead client goes on"
	# The remaining connection is the server's. The server has not been notified.
	assert_eq "$(status_field "['connections']")" 1
	tc qdisc del dev d1 root
	await_line server "event: RDMABROKER_EVENT_DISCONNECTED"
	finish server 1
	await_holdings "$before"
}

product_up
run_cases "$@"
