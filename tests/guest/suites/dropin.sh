#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Debian's programs of librdmacm, through the broker: alice serves and bob connects, and neither can open rdma_cm.
# Each program also runs with librdmacm itself, as root, at one end or at both.
#
# The cases are named PROGRAM_SERVER_CLIENT, where SERVER and CLIENT are `broker` or `direct`. At the end a table
# shows their results.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

A=10.9.0.1 # rxe0
B=10.9.0.2 # rxe1
DROPIN=/usr/lib/*/rdmabroker/librdmabroker-rdmacm.so
CASES=(dropin id sync migrate external srq own-channels one-channel ack-elsewhere poll signal ports)

start_broker() {
	rm -f /etc/rdmabroker/policy.d/*.rules
	cat > /etc/rdmabroker/policy.d/50-test.rules <<-END
		allow connect group rdma reuseaddr client
		allow any     group rdma
	END
	systemctl restart rdmabrokerd
}

no_direct="what has sanitizers cannot open librdmacm with RTLD_DEEPBIND"

real=() # what runs a program with librdmacm itself

# by_default: makes the drop-in the host's default.
by_default() {
	rdmabrokerctl dropin enable
	real=(env "LD_LIBRARY_PATH=$(dirname "$(ldconfig -p | sed -n 's,.*librdmacm\.so\.1.* => ,,p' | grep -v /rdmabroker/)")")
	through=()
	[ -z "$asan" ] || through=(env "LD_PRELOAD=$asan" "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0")
}

# side broker|direct USER COMMAND...: runs COMMAND as USER with the drop-in, or as root with librdmacm itself.
side() {
	local way=$1 user=$2
	shift 2
	if [ "$way" = direct ]; then
		"${real[@]}" "$@"
	else
		as "$user" "${through[@]}" "$@"
	fi
}

# shellcheck source=../programs.sh
. "$(dirname "$0")/../programs.sh"

case_manual() {
	local package program transport rows result
	local -A versions
	# shellcheck source=/dev/null
	[ "$(. /etc/os-release && echo "$VERSION_ID")" = 12 ] || skip "the page names the versions of Debian 12"
	assert_eq "$(cut -d' ' -f4- <<< "$manual" | tr ' ' '\n' | sort)" "$(sort <<< "$programs")"
	# shellcheck disable=SC2046
	dpkg-query -W -f '${Package} ${source:Upstream-Version}\n' $(cut -d' ' -f1 <<< "$manual" | sort -u) > versions
	while read -r package result; do
		versions[$package]=$result
	done < versions
	while read -r package program transport rows; do
		result=works
		[ -z "${fails_directly[$rows]-}" ] || result=fails
		echo ".It $program Ta ${versions[$package]} Ta $transport Ta $result"
	done <<< "$manual" > expected
	sed -n '/^\.Sh PROGRAMS/,/^\.El/ { /^\.It [^S]/p }' "$share"/dest/usr/share/man/man7/librdmabroker-rdmacm.7 |
		assert diff expected -
}

# ucx_perftest has no row: it exchanges addresses over TCP, and the broker only gives it the devices. This tests UCT:
# UCP's tests need UD, over which UCX fails on Soft-RoCE.
case_ucx_perftest() {
	local before command=(timeout $patience ucx_perftest -t am_lat -x rc_verbs -n 20 -w 2)
	before=$(admitted)
	ulimit -l unlimited
	side broker alice "${command[@]}" -d rxe0:1 > server 2>&1 &
	server=$!
	(await "ss -Hltn 'sport = :13337' | grep -q .") || fail_shown
	side broker bob "${command[@]}" -d rxe1:1 $A > client 2>&1 || fail_shown
	served
	assert_contains "$(cat client)" "Final:"
	assert_eq "$(admitted)" "$before"
}

# UCX's client closes when it knows that its server has disconnected. The server's QP must still be there: librdmacm's
# program confirms the disconnect by its own disconnect or destroy, and so does the drop-in's.
case_close_after_the_peer() {
	local way
	local command=(ucp_client_server -a $A -i 20 -s 64)
	! sanitized || skip "a library without sanitizers is loaded before what has sanitizers"
	ulimit -l unlimited
	cp /host/bin/late.so /usr/lib/late.so
	for way in direct broker; do
		# shellcheck disable=SC2046
		serve $way $(ucx rc_verbs,self rxe0) stdbuf -oL ucp_client_server -l $A -i 20 -s 64
		# shellcheck disable=SC2016,SC2046
		connect broker $(ucx rc_verbs,self rxe1) \
			sh -c 'LD_PRELOAD=/usr/lib/late.so:$LD_PRELOAD exec "$@"' sh "${command[@]}"
		assert_contains "$(cat client)" "late: closes after the peer"
		(await "grep -q 'UCP TEST SUCCESS' server") || fail_shown
		stop_server
	done
}

# The expectations of the program dropin must be right: it passes with librdmacm, too.
case_expectations_with_librdmacm() {
	# librdmacm leaks an event if the thread that waits for the event is cancelled.
	local -x ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:detect_leaks=0}
	"${CASES[@]:0:1}" $A "${CASES[@]:1}"
}

case_calls() {
	as bob rdmabrokerctl run -- "${CASES[0]}" $A "${CASES[@]:1}"
}

# After a change of its user, a process can use an event channel no more with librdmacm. With the drop-in the channel keeps
# the rights of the user who opened it, and a new channel has those of the new user.
case_setuid() {
	printf '%s\n' 'reject listen user alice' 'allow any user root' 'allow any user alice' > /etc/rdmabroker/policy.d/50-test.rules
	systemctl restart rdmabrokerd
	for case in setuid setuid-early; do
		dropin $A $case | tee said
		assert_lacks "$(cat said)" ": yes"
		# Without RDMABROKER_DEVICES=all the new user may open the device first.
		for devices in all none; do
			RDMABROKER_DEVICES=$devices rdmabrokerctl run -- dropin $A $case | tee said
			assert_eq "$(grep ': E' said | paste -sd,)" \
				"old: take an event: EAGAIN,new: listen: EACCES,new: take an event: EAGAIN"
		done
	done
	start_broker
}

case_valgrind() {
	! sanitized || skip "valgrind cannot run what has sanitizers"
	as bob rdmabrokerctl run -- valgrind --error-exitcode=9 --leak-check=full \
		--errors-for-leak-kinds=definite --num-callers=20 -q \
		dropin $A id sync migrate external ack-elsewhere > log 2>&1 || {
		cat log
		fail "valgrind"
	}
}

case_preload() {
	LD_PRELOAD=$(echo $DROPIN) as bob dropin $A channel
}

case_dlopen() {
	as bob rdmabrokerctl run -- dropin-dlopen | tee found
	assert_contains "$(cat found)" "/rdmabroker/librdmabroker-rdmacm.so"
	dropin-dlopen | tee found
	assert_contains "$(cat found)" "/librdmacm.so.1"
	# The loader still finds librdmacm by its own name.
	ldconfig
	assert_contains "$(ldconfig -p | grep librdmacm)" "librdmacm.so.1 "
	assert_lacks "$(readlink -f /usr/lib/*/librdmacm.so.1)" broker
}

case_run() {
	assert_fails_with 2 rdmabrokerctl run
	assert_fails_with 127 rdmabrokerctl run -- no-such-program
	assert_fails_with 126 rdmabrokerctl run -- /etc/passwd
	[ -z "$asan" ] || export LD_PRELOAD=$asan ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
	assert_fails_with 7 rdmabrokerctl run -- sh -c 'exit 7'
	assert_eq "$(rdmabrokerctl --socket /x run -- printenv RDMABROKER_SOCKET)" /x
	assert_contains "$(LD_PRELOAD=${asan:-libc.so.6} rdmabrokerctl run -- printenv LD_PRELOAD)" \
		"librdmabroker-rdmacm.so:${asan:-libc.so.6}"
}

# told COMMAND...: runs COMMAND with stderr in the file errors, and prints its exit status.
told() {
	local status=0
	"$@" 2> errors || status=$?
	cat errors
	echo "status $status"
}

case_refused() {
	told as carol rdmabrokerctl run -- dropin $A channel | tee said
	assert_contains "$(cat said)" "channel: EACCES"
	assert_contains "$(cat errors)" "the broker refuses"
	RDMABROKER_FALLBACK=direct told as carol rdmabrokerctl run -- dropin $A channel | tee said
	assert_contains "$(cat said)" "channel: EACCES"
	assert_lacks "$(cat errors)" "librdmacm itself instead"
}

case_daemon_is_stopped() {
	as bob rdmabrokerctl run -- dropin $A lost > lost 2>&1 &
	await "grep -q ready lost"
	systemctl stop rdmabrokerd
	wait $! || (cat lost && exit 1)
	cat lost
	systemctl start rdmabrokerd
}

case_device_removal() {
	as bob rdmabrokerctl run -- dropin $A removal > removal 2>&1 &
	program=$!
	await "grep -q ready removal"
	# The removal waits until all programs have closed the device.
	rdma link del rxe0 &
	removal=$!
	await "grep -q gone removal"
	await "! kill -0 $removal"
	fabric_up
	wait $program || (cat removal && exit 1)
}

# lingering: prints how many sessions of alice linger, and whether she may open the device's node.
lingering() {
	echo "$(rdmabrokerctl list --sessions --user alice | grep -c ' lingering ' || true) \
		$(getfacl -p /dev/infiniband/uverbs0 | grep -c user:alice:rw || true)" | tr -d '\t\n'
}

# The session of a program that has lost its socket lingers until the program ends, or its time is over.
case_a_session_lingers() {
	mkfifo line
	exec 5<> line
	side broker alice closes $A lingers <&5 > said 2>&1 &
	await "grep -q closed said"
	await '[ "$(lingering)" = "1 1" ]'
	rdmabrokerctl list --sessions | tee -a .show
	echo >&5
	await "! kill -0 $!"
	assert_contains "$(cat said)" "opened a device"
	await '[ "$(lingering)" = "0 0" ]'

	side broker alice closes $A lingers <&5 > said 2>&1 &
	await "grep -q closed said"
	await '[ "$(lingering)" = "1 1" ]'
	pkill -KILL -u alice -x closes
	await '[ "$(lingering)" = "0 0" ]'

	# A program that becomes another one without closing its session.
	side broker alice sh -c 'exec sleep infinity' > said 2>&1 &
	await '[ "$(rdmabrokerctl list --sessions --user alice | grep -c " session ")" = 1 ]'
	await '[ "$(lingering)" = "0 1" ]'
	pkill -KILL -u alice -x sleep
	await '[ "$(lingering)" = "0 0" ]'

	printf '[Limits]\nResumeTimeoutSec=0\n' > /etc/rdmabroker/rdmabrokerd.conf.d/60-test.conf
	rdmabrokerctl reload
	side broker alice closes $A lingers <&5 > said 2>&1 &
	await "grep -q closed said"
	await '[ "$(lingering)" = "0 0" ]'
	echo >&5
	await "! kill -0 $!"
	rm /etc/rdmabroker/rdmabrokerd.conf.d/60-test.conf
	rdmabrokerctl reload
	assert_contains "$(cat said)" "ibv_open_device: Permission denied"
}

# A device that is removed and comes back is there for new listeners at once, and the timeout that runs the program, which
# has the drop-in too, does not keep it from being removed. With librdmacm itself, a Soft-RoCE device cannot be removed
# while the program runs.
case_device_is_back() {
	local i
	mkfifo line
	exec 5<> line
	side broker alice timeout $((3 * patience)) dropin $A back <&5 > back 2>&1 &
	program=$!
	for i in 1 2 3; do
		(await "[ \$(grep -c ready back) = $i ]") || fail "$(cat back)"
		rdma link del rxe0 &
		removal=$!
		(await "[ \$(grep -c gone back) = $i ]") || fail "$(cat back)"
		await "! kill -0 $removal"
		fabric_up
		echo >&5
	done
	wait $program || fail "$(cat back)"
}

case_fork() {
	as bob rdmabrokerctl run -- dropin $A fork
}

# A program closes all descriptors that it has inherited, the drop-in's among them, and opens its own. It prints the same
# with librdmacm, and its own descriptors stay as they were.
case_closed_descriptors() {
	local what
	! sanitized || skip "sanitizers have descriptors of their own"
	for what in files sockets epolls listed loaded daemon; do
		side direct alice closes $A $what > direct 2>&1 || (cat direct && fail "closes $what with librdmacm")
		(await "[ $what != daemon ] || grep -q ^end direct") || fail "$(cat direct)"
		side broker alice timeout $patience closes $A $what > broker 2>&1 || (cat broker && fail "closes $what with the drop-in")
		(await "[ $what != daemon ] || grep -q ^end broker") || fail "$(cat broker)"
		echo "$what: $(paste -s -d ';' broker)"
		assert diff direct broker
	done
	# librdmacm itself cannot do this: it does not open again what it has opened once.
	side broker alice timeout $patience closes $A again > broker 2>&1 || (cat broker && fail "closes again with the drop-in")
	echo "again: $(paste -s -d ';' broker)"
	assert_lacks "$(cat broker)" foreign
	# The connections end, for the library's descriptors are gone; they do not with librdmacm.
	side broker alice timeout $patience closes $A kept > broker 2>&1 || (cat broker && fail "closes kept with the drop-in")
	echo "kept: $(paste -s -d ';' broker)"
	assert_lacks "$(cat broker)" foreign
	# The processes have ended, and so have their leases.
	await "rdmabrokerctl status | grep -q 'leases: 0$'"
}

# Not run with librdmacm, whose behaviour is not defined here.
case_wait_that_comes_too_late() {
	as bob "${through[@]}" timeout $patience dropin $A late
}

# with_librspreload WAY USER COMMAND...: as side, but the sockets of COMMAND are rsockets.
with_librspreload() {
	local way=$1 user=$2
	shift 2
	side "$way" "$user" sh -c 'LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$(echo /usr/lib/*/rsocket/librspreload.so) exec "$@"' sh "$@"
}

# A program that knows nothing of RDMA. If its server had a socket of TCP, there would be no listener.
case_librspreload() {
	local server_way client_way before
	! sanitized || skip "what has sanitizers must preload them before all others"
	for server_way in broker direct; do
		for client_way in broker direct; do
			echo "$server_way $client_way"
			before=$(admitted)
			await "! anyone_listens"
			(trap - ERR && with_librspreload $server_way alice timeout --foreground $patience sockets serve $A) > server 2>&1 &
			server=$!
			(await listening) || fail_shown
			with_librspreload $client_way bob timeout --foreground $patience sockets connect $A > client 2>&1 || fail_shown
			wait $server || fail_shown
			assert_contains "$(cat client)" "64 times 16384 bytes came back"
			if [ $server_way$client_way = directdirect ]; then
				assert_eq "$(admitted)" "$before"
			else
				assert test "$(admitted)" -gt "$before"
			fi
		done
	done
}

# rsockets without the broker, which root can have, and others cannot; and what policy refuses.
case_rsockets() {
	local before
	! sanitized || skip "$no_direct"
	before=$(admitted)
	export RDMABROKER_RSOCKETS=direct RDMABROKER_DEBUG=1
	"${through[@]}" timeout $patience rstream -b $A -S 64 -I 10 > server 2>&1 &
	(await listening) || fail_shown
	"${through[@]}" timeout $patience rstream -s $A -S 64 -I 10 > client 2>&1 || fail_shown
	wait $! || fail_shown
	assert_eq "$(grep -c 'do not use the broker' client)" 1
	assert_eq "$(admitted)" "$before"
	told as bob "${through[@]}" timeout $patience rstream -s $A -S 64 -I 10 | tee said
	# librdmacm's id cannot have a channel, which it takes for a lack of memory.
	assert_contains "$(cat said)" "rsocket failed: Cannot allocate memory"
	assert_contains "$(cat errors)" "do not use the broker"

	unset RDMABROKER_RSOCKETS RDMABROKER_DEBUG
	told as carol "${through[@]}" timeout $patience rstream -s $A -S 64 -I 10 | tee said
	assert_lacks "$(cat said)" "status 0"
	assert_contains "$(cat errors)" "the broker refuses this process"
	# Nobody needs to know that rsockets do not go to librdmacm alone.
	assert_eq "$(grep -c librdmabroker-rdmacm errors)" 1
}

# This case comes late, because it stops the daemon.
case_daemon_stays_away() {
	RDMABROKER_FALLBACK=direct as bob rdmabrokerctl run -- dropin $A stays-away > away 2>&1 &
	await "grep -q ready away"
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	wait $! || (cat away && exit 1)
	cat away
	systemctl start rdmabrokerd.socket
}

case_no_daemon() {
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	told as bob rdmabrokerctl run -- dropin $A channel | tee said
	assert_contains "$(cat said)" "channel: ENODEV"
	assert_contains "$(cat said)" "status 3"
	assert_eq "$(grep -c librdmabroker-rdmacm errors)" 1
	assert_contains "$(cat errors)" "check that rdmabrokerd is running"

	RDMABROKER_QUIET=1 told as bob rdmabrokerctl run -- dropin $A channel
	assert_eq "$(cat errors)" ""

	if sanitized; then
		echo "without RDMABROKER_FALLBACK=direct: $no_direct" >> .show
	else
		# As with librdmacm, root can open rdma_cm and bob cannot.
		RDMABROKER_FALLBACK=direct rdmabrokerctl run -- "${CASES[0]}" $A "${CASES[@]:1}"
		RDMABROKER_FALLBACK=direct RDMABROKER_DEBUG=1 told as bob rdmabrokerctl run -- \
			dropin $A channel | tee said
		assert_contains "$(cat said)" "channel: EACCES"
		assert_contains "$(cat errors)" "using librdmacm itself instead"
	fi
	systemctl start rdmabrokerd.socket
	as bob rdmabrokerctl run -- dropin $A channel
}

# The one session is that of rdmabrokerctl.
case_nothing_left() {
	await "rdmabrokerctl status | grep -q 'sessions: 1$'"
	await "rdmabrokerctl status | grep -q ' ids: 0$'"
	await "rdmabrokerctl status | grep -q 'leases: 0$'"
}

# cell PROGRAM WAY RESULT: prints a cell of the table.
cell() {
	case $3 in
	*SKIP*) echo skipped ;;
	not*) echo FAIL ;;
	ok*) if [ "$2" != direct_direct ]; then
			echo "pass ($(cat "/tmp/ids-$1_$2"))"
		elif [ -n "${fails_directly[$1]-}" ]; then
			echo fails
		else
			echo pass
		fi ;;
	*) echo - ;;
	esac
}

table() {
	local program way row result
	grep -qE "^(not )?ok .*_(broker|direct)_(broker|direct) " "$1" || return 0
	printf '\nIn brackets: the ids that the broker allowed to listen, connect, accept or join.\n%-16s' "server-client"
	printf '%-16s' ${ways//_/-}
	echo
	for program in $programs; do
		row=
		for way in $ways; do
			result=$(grep -oE "^(not )?ok [0-9]+ - ${program}_$way .*" "$1")
			row+=$(printf '%-16s' "$(cell "$program" "$way" "$result")")
		done
		printf '%-16s%s\n' "$program" "$row"
	done
	for way in $ways; do
		[ ! -e "/tmp/cmtime-$way" ] || (echo && echo "cmtime, $way" && cat "/tmp/cmtime-$way")
	done
}

product_up
start_broker
if [ -n "${BY_DEFAULT-}" ]; then
	by_default
	# The other cases are about the drop-in itself.
	# shellcheck disable=SC2046
	unset -f $(compgen -A function case_ | grep -v _broker_broker)
fi
run_cases "$@" | tee /tmp/results
status=${PIPESTATUS[0]}
table /tmp/results
exit "$status"
