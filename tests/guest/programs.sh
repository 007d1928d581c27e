# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: BSD-2-Clause
# The programs of others that the suites dropin and dropin-default run: functions with the arguments SERVER and CLIENT,
# each broker or direct. The suite has `side`, which starts a program in one of these ways.

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

# again_if RACED SERVER CLIENT: runs server_command, which stays, and client_command, which ends well. If the client does
# not, and RACED says that this is a race of the program with itself, both run again, up to eight times in all.
again_if() {
	for _ in 1 2 3 4 5 6 7 8; do
		serve "$2" "${server_command[@]}"
		if (connect "$3" "${client_command[@]}" > attempt 2>&1); then
			return
		fi
		cat attempt
		$1 || fail_shown
		stop_server
	done
	fail "it raced each time"
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

# rstream_raced: whether rstream's client ended with 16, which is POLLHUP, and the server well: if the server's last data and
# its end come together, the client takes the end for a failure, and does not read the data.
rstream_raced() {
	grep -q "the client ended with 16 " attempt || return 1
	served
	grep -q '^custom  *4k ' server || return 1
	echo "rstream's client ended with POLLHUP: it does not read what came with the end" | tee -a "$case_dir/.show"
}

# Without waiting, and with poll().
program_rstream-n() {
	local options=(-S 4096 -I 10 -T n -T a)
	local server_command=(rstream -b "$A" "${options[@]}") client_command=(rstream -s "$A" "${options[@]}")
	again_if rstream_raced "$1" "$2"
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
# parameters. A client that is faster than the second listen is rejected and crashes, with librdmacm, too.
perftest() {
	local ways=("$1" "$2")
	shift 2
	! sanitized || [ "${ways[*]}" != "broker direct" ] || skip "a client without sanitizers is always the faster"
	local server_command=("$@" -R -n 50 -d rxe0) client_command=("$@" -R -n 50 -d rxe1 "$A")
	again_if "perftest_raced client" "${ways[@]}"
	served
	# The line of results begins with the size of a message and the number of rounds. The times are inf if perftest could
	# not calibrate its clock, which happens on a loaded machine.
	grep -qE '^ *[0-9]+ +50 +([0-9]|inf)' client || fail_shown
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

# ucx_raced: whether a side ended by an assertion of UCX 1.18 itself (Debian 13): a device's event comes while an earlier one is
# still waited for. With librdmacm itself this happens about as often, in every second run of io_demo.
ucx_raced() {
	grep -qE "Assertion .*wait_ctx->cb_id == UCS_CALLBACKQ_ID_NULL.* failed" client server || return 1
	echo "UCX ended by its own assertion" | tee -a "$case_dir/.show"
}

# io_demo reads and writes.
program_ucx() {
	local server_command client_command
	# shellcheck disable=SC2207
	server_command=($(ucx "${3:-rc_verbs,self}" rxe0) io_demo -p 7471)
	# shellcheck disable=SC2207
	client_command=($(ucx "${3:-rc_verbs,self}" rxe1) io_demo -p 7471 -i 20 -o "read,write" "$A")
	ulimit -l unlimited
	again_if ucx_raced "$1" "$2"
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
