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

# ---- the programs: functions with the arguments SERVER and CLIENT, each broker or direct ----

# show: prints the output of both programs.
show() {
	for file in server client; do
		[ ! -s $file ] || sed "s/^/$file: /" $file
	done
}

# last_words FILE: prints the last line of FILE that has letters.
last_words() {
	sed -n '/[[:alnum:]]/h; ${x; p}' "$1" 2> /dev/null || true
}

# fail_shown [REASON]: fails with the output of both programs, and with the last line that each has printed.
fail_shown() {
	show
	fail "${1:-a program failed} (server: $(last_words server)) (client: $(last_words client))"
}

# listening: there is a listener on rxe0. A wildcard listener exists before it listens on each device.
listening() {
	rdma resource show cm_id | grep -q 'link rxe0/.*state LISTEN'
}

anyone_listens() {
	rdma resource show cm_id | grep -q 'state LISTEN'
}

# serve WAY COMMAND...: starts the server COMMAND in the background.
serve() {
	local way=$1
	shift
	# A listener that has just ended may still be visible.
	await "! anyone_listens"
	server_program=$1
	# The trap would print to the file, too.
	(trap - ERR && side "$way" alice timeout --foreground -k 1 "${program_seconds:-$((2 * patience))}" "$@") > server 2>&1 &
	server=$!
}

# succeeded server|client PROGRAM STATUS: the server or client PROGRAM, which ended with STATUS, must have succeeded.
succeeded() {
	[ "$3" != 0 ] || return 0
	[ "$2" != rping ] || ! rping_raced "$3" "$1" || return 0
	fail_shown "the $1 ended with $3"
}

# run_client WAY COMMAND...: waits for a listener, and runs the client COMMAND to its end. Sets client_status; 124: it did
# not end, and this prints where it waits.
run_client() {
	local way=$1 client
	shift
	client_status=0
	(await listening) || fail_shown
	(trap - ERR && side "$way" bob "$@") > client 2>&1 &
	client=$!
	if (await "! kill -0 $client" "${program_seconds:-$((2 * patience))}"); then
		wait $client || client_status=$?
		return
	fi
	client_status=124
	show_waits $client
	# shellcheck disable=SC2046
	kill -KILL $(descendants $client) $client 2> /dev/null || true
}

# connect WAY COMMAND...: runs the client COMMAND, which must succeed.
connect() {
	local client_status
	run_client "$@"
	succeeded client "$2" $client_status
}

# show_waits PROCESS: prints where the threads of PROCESS's descendants are blocked, and what the broker has of them.
show_waits() {
	local pid task
	for pid in $(descendants $1); do
		for task in /proc/"$pid"/task/*; do
			echo "$(cat $task/comm): $(cat $task/syscall)"
			cat $task/stack
		done
	done
	rdmabrokerctl list || true
	rdma resource show cm_id || true
	rdma resource show qp || true
}

# served: the server must end by itself, with success.
served() {
	local status=0
	(await "! kill -0 $server") || show_waits $server
	wait $server || status=$?
	succeeded server "$server_program" $status
}

# descendants PID: prints the pids of PID's descendants. After PID has ended, its children have another parent.
descendants() {
	local child
	for child in $(pgrep -P "$1" || true); do
		echo "$child"
		descendants "$child"
	done
}

# stop_server: kills a server that does not end by itself.
stop_server() {
	# shellcheck disable=SC2046
	kill -KILL $(descendants $server) $server 2> /dev/null || true
	wait $server || true
}

program_rping() {
	serve "$1" rping -s -a $A -C 10 -v
	connect "$2" rping -c -a $A -C 10 -v
	served
	assert_contains "$(cat client)" "ping data: rdma-ping-9:"
}

program_rping-q() {
	serve "$1" rping -s -a $A -C 5 -q
	connect "$2" rping -c -a $A -C 5 -q
	served
}

program_rping-P() {
	serve "$1" rping -s -a $A -P
	for _ in 1 2 3; do
		connect "$2" rping -c -a $A -C 5
	done
	kill -0 $server || fail_shown
	stop_server
}

program_rping-6() {
	serve "$1" rping -s -a fd09::1 -C 5
	connect "$2" rping -c -a fd09::1 -C 5
	served
}

program_ucmatose() {
	serve "$1" ucmatose -b $A
	connect "$2" ucmatose -s $A
	served
	assert_contains "$(cat client)" "return status 0"
	assert_contains "$(cat server)" "return status 0"
}

program_ucmatose-t() {
	serve "$1" ucmatose -b $A -t 104
	connect "$2" ucmatose -s $A -t 104
	served
	assert_contains "$(cat client)" "return status 0"
}

program_ucmatose-c100() {
	serve "$1" ucmatose -b $A -c 100
	connect "$2" ucmatose -s $A -c 100
	served
	assert_contains "$(cat client)" "return status 0"
	assert_contains "$(cat server)" "return status 0"
}

program_rdma_client() {
	serve "$1" rdma_server
	connect "$2" rdma_client -s $A
	served
	assert_contains "$(cat client)" "rdma_client: end 0"
	assert_contains "$(cat server)" "rdma_server: end 0"
}

program_rdma_xclient() {
	serve "$1" rdma_xserver
	connect "$2" rdma_xclient -s $A
	served
	assert_contains "$(cat client)" "end 0"
	assert_contains "$(cat server)" "end 0"
}

# cmtime_c500 SERVER CLIENT: runs cmtime once. RACED is set if its server ended as cmtime_raced() describes.
cmtime_c500() {
	local ended=0 client_status
	raced=
	dmesg --clear
	serve "$1" cmtime -b $A
	run_client "$2" cmtime -s $A -c 500
	if kill -0 $server 2> /dev/null; then
		succeeded client cmtime $client_status
		stop_server
		return
	fi
	wait $server || ended=$?
	dmesg > kernel
	if cmtime_raced $ended kernel; then
		raced=1
		return
	fi
	fail_shown "the server ended with $ended"
}

program_cmtime-c500() {
	local attempt raced
	for attempt in 1 2 3; do
		cmtime_c500 "$@"
		[ -n "$raced" ] || break
	done
	[ -z "$raced" ] || fail "cmtime's server crashed $attempt times"
	assert_contains "$(cat client)" "destroy "
	for trouble in error: failure; do
		assert_lacks "$(cat client)" $trouble
		assert_lacks "$(cat server)" $trouble
	done
	grep "us / conn" -A 10 client > "/tmp/cmtime-$1_$2"
}

program_udaddy() {
	serve "$1" udaddy -b $A
	connect "$2" udaddy -s $A
	served
	assert_contains "$(cat client)" "return status 0"
}

# The server has no id that listens: it joins a group.
program_mckey() {
	serve "$1" stdbuf -oL mckey -m 239.1.2.3 -b $A
	(await "grep -q joined server") || fail_shown
	side "$2" bob timeout --foreground -k 1 "${program_seconds:-$((2 * patience))}" mckey -m 239.1.2.3 -b $B -s > client 2>&1 || fail_shown
	served
	assert_contains "$(cat server)" "data transfers complete"
}

# The programs of rsockets, which are librdmacm's own, over the broker's ids at the ends that are `broker`.

program_rstream() {
	serve "$1" rstream -b $A -S 64 -I 10
	connect "$2" rstream -s $A -S 64 -I 10
	served
	assert grep -q '^custom  *64 ' client
}

# Without waiting, and with poll().
program_rstream-n() {
	serve "$1" rstream -b $A -S 4096 -I 10 -T n -T a
	connect "$2" rstream -s $A -S 4096 -I 10 -T n -T a
	served
	assert grep -q '^custom  *4k ' client
}

program_riostream() {
	serve "$1" riostream -b $A -S 64 -I 10
	connect "$2" riostream -s $A -S 64 -I 10
	served
	assert grep -q '^custom  *64 ' client
}

# The server serves one client after another.
program_rcopy() {
	local copy
	serve "$1" rcopy
	for _ in 1 2 3; do
		copy=/tmp/copy-$RANDOM$RANDOM
		connect "$2" rcopy /etc/services $A:$copy
		assert cmp /etc/services $copy
	done
	kill -0 $server || fail_shown
	stop_server
}

# The server has no listener: it waits for datagrams, and does not end.
program_udpong() {
	serve "$1" udpong -b $A
	(await "ss -Hlun 'sport = :7174' | grep -q .") || fail_shown
	side "$2" bob timeout --foreground -k 1 "${program_seconds:-$((2 * patience))}" udpong -s $A -S 64 -C 100 > client 2>&1 || fail_shown
	stop_server
	assert grep -q '^custom  *64 ' client
}

# perftest SERVER CLIENT COMMAND...: runs a program of perftest. Its server listens twice, first to exchange the
# parameters. A client that is faster than the second listen is rejected and crashes, with librdmacm, too. Both are
# then run again, up to four times in all.
perftest() {
	local ways=("$1" "$2")
	shift 2
	! sanitized || [ "${ways[*]}" != "broker direct" ] || skip "a client without sanitizers is always the faster"
	for _ in 1 2 3 4; do
		serve "${ways[0]}" "$@" -R -n 50 -d rxe0
		if (connect "${ways[1]}" "$@" -R -n 50 -d rxe1 $A > attempt); then
			served
			# The line of results begins with the size of a message and the number of rounds.
			grep -qE '^ *[0-9]+ +50 +[0-9]' client || fail_shown
			return
		fi
		cat attempt
		assert_contains "$(cat client)" "REJECTED; error: 8"
		stop_server
	done
	fail "rejected each time"
}

program_ib_send_lat-R() {
	perftest "$1" "$2" ib_send_lat
}

# perftest sets the TOS between the resolution of the address and that of the route.
program_ib_send_lat-tos() {
	perftest "$1" "$2" ib_send_lat -T 104
}

program_ib_send_bw-R() {
	perftest "$1" "$2" ib_send_bw
}

program_ib_write_lat-R() {
	perftest "$1" "$2" ib_write_lat
}

program_ib_write_bw-R() {
	perftest "$1" "$2" ib_write_bw
}

program_ib_read_lat-R() {
	perftest "$1" "$2" ib_read_lat
}

program_ib_read_bw-R() {
	perftest "$1" "$2" ib_read_bw
}

program_ib_atomic_lat-R() {
	perftest "$1" "$2" ib_atomic_lat
}

program_ib_atomic_bw-R() {
	perftest "$1" "$2" ib_atomic_bw
}

# ucx TRANSPORTS DEVICE: prints the beginning of a command of UCX, so that UCX uses rdma_cm's addresses. UCX connects
# with a QP in RESET, and registers more memory than a user can lock by default.
ucx() {
	echo env UCX_TLS="$1" UCX_NET_DEVICES="$2":1 UCX_SOCKADDR_TLS_PRIORITY=rdmacm
}

# io_demo reads and writes.
program_ucx() {
	ulimit -l unlimited
	# shellcheck disable=SC2046
	serve "$1" $(ucx "${3:-rc_verbs,self}" rxe0) io_demo -p 7471
	# shellcheck disable=SC2046
	connect "$2" $(ucx "${3:-rc_verbs,self}" rxe1) io_demo -p 7471 -i 20 -o read,write $A
	assert_contains "$(cat client)" "Client exit with status 'OK'"
	stop_server
}

program_ucx-rc-ud() {
	program_ucx "$1" "$2" rc_verbs,ud_verbs,self
}

program_ucx-ud() {
	program_ucx "$1" "$2" ud_verbs,self
}

# UCX's example ucp_client_server. Its client drops the connection when all that it has sent is handed to UCX, and the
# server fails if it has not read all by then, also with librdmacm itself at both ends. With UCX's rendezvous protocol,
# which has only tagged messages, the client waits until the server has them.
program_ucp() {
	ulimit -l unlimited
	# shellcheck disable=SC2046
	serve "$1" $(ucx "${3:-rc_verbs,self}" rxe0) stdbuf -oL ucp_client_server -l $A -i 20 -s 4096 -c tag
	# shellcheck disable=SC2046
	connect "$2" $(ucx "${3:-rc_verbs,self}" rxe1) UCX_RNDV_THRESH=0 ucp_client_server -a $A -i 20 -s 4096 -c tag
	# at the first and at the last message
	(await "[ \$(grep -c 'UCP TEST SUCCESS' server) = 2 ]") || fail_shown
	stop_server
}

program_ucp-rc-ud() {
	program_ucp "$1" "$2" rc_verbs,ud_verbs,self
}

program_ucp-ud() {
	program_ucp "$1" "$2" ud_verbs,self
}

# program_fi-msg SERVER CLIENT PROVIDER ENDPOINT: libfabric's ping-pong. The server listens with rdma_cm only after a
# TCP connection from the client.
program_fi-msg() {
	local command=(fi_pingpong -p "${3:-verbs}" -e "${4:-msg}" -I 20)
	ulimit -l unlimited
	serve "$1" "${command[@]}"
	(await "ss -Hltn 'sport = :47592' | grep -q .") || fail_shown
	side "$2" bob timeout --foreground -k 1 "${program_seconds:-$((2 * patience))}" "${command[@]}" $A > client 2>&1 || fail_shown
	served
	assert_contains "$(cat client)" "MB/sec"
}

program_fi-rxm() {
	program_fi-msg "$1" "$2" "verbs;ofi_rxm" rdm
}

programs=$(compgen -A function program_ | cut -d_ -f2-)
ways="broker_broker broker_direct direct_broker direct_direct"
[ -z "${BY_DEFAULT-}" ] || ways=broker_broker

# admitted: prints how many ids the broker has allowed to listen, connect, accept or join since it started.
admitted() {
	rdmabrokerctl metrics | awk -F '[{}=," ]+' '
		$1 == "rdmabroker_decisions_total" && $3 ~ /^(listen|connect|accept|join)$/ && $5 == "allowed" { n += $6 }
		END { print n + 0 }'
}

# Programs that fail with librdmacm itself, and how.
declare -A fails_directly=(
	[ucx-ud]="the peer's UCX resets the connection"
	[ucp-ud]="the peer's UCX resets the connection"
	[fi-rxm]="fi_enable: Invalid argument"
	[udpong]="RoCE needs a GRH, and librdmacm's address handle has none"
)

# The programs as librdmabroker-rdmacm(7) lists them: package, program, transport, and the rows that run it.
manual="\
rdmacm-utils rping RC rping rping-6 rping-P rping-q
rdmacm-utils ucmatose RC ucmatose ucmatose-c100 ucmatose-t
rdmacm-utils rdma_client RC rdma_client
rdmacm-utils rdma_xclient RC rdma_xclient
rdmacm-utils cmtime RC cmtime-c500
rdmacm-utils udaddy UD udaddy
rdmacm-utils mckey UD mckey
rdmacm-utils rstream RC rstream rstream-n
rdmacm-utils riostream RC riostream
rdmacm-utils rcopy RC rcopy
rdmacm-utils udpong UD udpong
perftest ib_send_lat RC ib_send_lat-R ib_send_lat-tos
perftest ib_send_bw RC ib_send_bw-R
perftest ib_write_lat RC ib_write_lat-R
perftest ib_write_bw RC ib_write_bw-R
perftest ib_read_lat RC ib_read_lat-R
perftest ib_read_bw RC ib_read_bw-R
perftest ib_atomic_lat RC ib_atomic_lat-R
perftest ib_atomic_bw RC ib_atomic_bw-R
ucx-utils io_demo rc_verbs,self ucx
ucx-utils io_demo rc_verbs,ud_verbs,self ucx-rc-ud
ucx-utils io_demo ud_verbs,self ucx-ud
libucx0 ucp_client_server rc_verbs,self ucp
libucx0 ucp_client_server rc_verbs,ud_verbs,self ucp-rc-ud
libucx0 ucp_client_server ud_verbs,self ucp-ud
libfabric-bin fi_pingpong verbs fi-msg
libfabric-bin fi_pingpong verbs;ofi_rxm fi-rxm"

# fail_directly PROGRAM: PROGRAM must fail with librdmacm itself.
fail_directly() {
	local program_seconds=20
	! (trap stop_server EXIT && "program_$1" direct direct) > attempt 2>&1 ||
		fail "$1 works directly: remove it from fails_directly"
	echo "fails with librdmacm itself: ${fails_directly[$1]}"
	echo 0 > "/tmp/ids-$1_direct_direct"
}

# run_program PROGRAM SERVER CLIENT: also counts the ids that the broker allows: none if both ends are direct,
# otherwise some. A program in fails_directly runs only directly.
run_program() {
	local before n
	if [ -n "${fails_directly[$1]-}" ]; then
		[ "$2$3" = directdirect ] || skip "it fails with librdmacm itself, too: ${fails_directly[$1]}"
		fail_directly "$1"
		return
	fi
	before=$(admitted)
	"program_$1" "$2" "$3"
	n=$(($(admitted) - before))
	echo "$n ids by the broker"
	echo $n > "/tmp/ids-$1_$2_$3"
	if [ "$2$3" = directdirect ]; then
		assert_eq $n 0
	else
		assert test $n -gt 0
	fi
}

for program in $programs; do
	for way in $ways; do
		eval "case_${program}_$way() { run_program $program ${way/_/ }; }"
	done
done

# ---- the rest ----

case_manual() {
	local package program transport rows result
	local -A versions
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
	assert_contains "$(cat said)" "Permission denied"
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

fabric_up
install_product
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
