#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# QEMU's live migration over RDMA: alice's machine moves to bob. The destination listens with REUSEADDR, and the source
# connects. Neither user can open rdma_cm. Each end also runs with librdmacm itself, as root.
#
# The cases are named migration[-pin]_DESTINATION_SOURCE, where DESTINATION and SOURCE are `broker` or `direct`. With
# -pin, QEMU registers all memory before it begins.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

PORT=4444
MACHINE_MB=16
RANDOM_MB=8
RANDOM_AT=0x100000 # in the machine's memory; its BIOS does not write there
LOCKED_MB=64 # what a user's program may lock: the machine's memory, and what QEMU needs besides

# migration_policy [SETTING]: SETTING is one of the rule for listen.
migration_policy() {
	policy <<-END
		allow session user alice,bob
		allow device  user alice,bob
		allow listen  user bob port $PORT ${1-} log
		allow accept  user bob port $PORT peer $B log
		allow connect user alice peer $A port $PORT log
	END
	mark_journal
}

# side broker|direct USER COMMAND...: runs COMMAND as USER with the drop-in, or as root with librdmacm itself.
side() {
	local way=$1 user=$2
	shift 2
	if [ "$way" = direct ]; then
		"$@"
	else
		ulimit -l $((LOCKED_MB * 1024))
		RDMABROKER_DEBUG=1 as "$user" "${through[@]}" "$@"
	fi
}

qemu=(qemu-system-x86_64 -M pc -accel tcg -m "$MACHINE_MB" -no-user-config -nodefaults -display none)

# ---- QEMU's monitor ----

declare -A line # descriptors to which a monitor's commands are written, by NAME
questions=0

# machine NAME WAY USER [OPTION...]: starts a machine in the background. The output of its monitor is in the file NAME.
machine() {
	local name=$1 fd
	mkfifo "$name.in"
	# The trap would print to the file, too.
	(trap - ERR && side "$2" "$3" "${qemu[@]}" -qmp stdio "${@:4}") < "$name.in" > "$name" 2> "$name.errors" &
	pid[$name]=$!
	exec {fd}> "$name.in"
	line[$name]=$fd
	ask "$name" qmp_capabilities
}

# said NAME TEXT [OTHER]: waits until NAME's monitor says TEXT. The text OTHER ends the wait, too, but is a failure.
said() {
	(await "grep -qF -e '$2' -e '${3-$2}' $1 || ! kill -0 ${pid[$1]}") || true
	grep -qF "$2" "$1" || {
		tail -n 30 {source,destination}{.errors,} || true
		fail "the $1 does not say: $2"
	}
}

# ask NAME COMMAND [ARGUMENTS]: gives NAME's monitor a command, which must succeed. The reply is in the file reply.
ask() {
	local none='{}'
	questions=$((questions + 1))
	printf '{"execute": "%s", "arguments": %s, "id": "q%d"}\n' "$2" "${3-$none}" $questions >&"${line[$1]}"
	said "$1" "\"id\": \"q$questions\""
	grep -F "\"id\": \"q$questions\"" "$1" > reply
	assert_contains "$(cat reply)" '{"return": '
}

# state NAME STATE: NAME's machine must be in STATE.
state() {
	ask "$1" query-status
	assert_contains "$(cat reply)" "\"status\": \"$2\""
}

# in_words NAME COMMAND [FIRST]: shows what QEMU says to people who give COMMAND, from the line that begins with FIRST on.
in_words() {
	local text
	ask "$1" human-monitor-command "{\"command-line\": \"$2\"}"
	text=$(sed 's/.*"return": "\(.*\)", "id": .*/\1/' reply)
	printf '%b' "$text" | tr -d '\r' | sed -n "/^${3-}/,\$ s/^/$1: /p" | show
}

quit() {
	ask "$1" quit
	finish "$1"
	cat "$1.errors"
}

# ---- the migration ----

COMPLETED='"event": "MIGRATION", "data": {"status": "completed"}'
FAILED='"event": "MIGRATION", "data": {"status": "failed"}'

# begin_migration DESTINATION SOURCE PIN: starts two machines, and the migration of one. PIN is true or false.
begin_migration() {
	[ -z "$asan" ] || [ "$1$2" = directdirect ] || skip "AddressSanitizer cannot follow QEMU's coroutines"
	head -c ${RANDOM_MB}M /dev/urandom > random
	machine source "$2" alice -device "loader,file=$PWD/random,addr=$RANDOM_AT,force-raw=on"
	state source running
	machine destination "$1" bob -incoming "rdma:$A:$PORT"
	state destination inmigrate
	ask source migrate-set-capabilities "{\"capabilities\": [
		{\"capability\": \"events\", \"state\": true}, {\"capability\": \"rdma-pin-all\", \"state\": $3}]}"
	ask source migrate "{\"uri\": \"rdma:$A:$PORT\"}"
}

# migrate_machine DESTINATION SOURCE PIN: migrates a machine, and compares its memory.
migrate_machine() {
	local transferred least=$((RANDOM_MB << 20))
	[ "$3" = false ] || least=$((MACHINE_MB << 20)) # pages of zeros too
	begin_migration "$@"
	said source "$COMPLETED" "$FAILED"
	said source '"event": "STOP"'
	said destination '"event": "RESUME"'

	state source postmigrate
	state destination running
	ask source query-migrate
	transferred=$(sed 's/.*"transferred": \([0-9]*\).*/\1/' reply)
	assert test "$transferred" -ge $least
	install -d -o bob there
	ask destination pmemsave \
		"{\"val\": $((RANDOM_AT)), \"size\": $((RANDOM_MB << 20)), \"filename\": \"$PWD/there/memory\"}"
	assert cmp random there/memory

	in_words source "info migrate" "Migration status"
	in_words source "info status"
	in_words destination "info status"
	quit source
	quit destination
}

# decisions: prints what the broker has allowed, a line for each decision: "connect 1000".
decisions() {
	journal | sed -n 's/.*, uid \([0-9]*\), .*: \([a-z]*\) .* allowed by .*/\2 \1/p'
}

program_migration() {
	migrate_machine "$1" "$2" false
}

program_migration-pin() {
	migrate_machine "$1" "$2" true
}

# run_program PROGRAM DESTINATION SOURCE: the broker must decide about the ends that use it, and about no others.
run_program() {
	local expected
	expected=$(
		[ "$2" = direct ] || echo "listen $(id -u bob)"
		[ "$3" = direct ] || echo "connect $(id -u alice)"
		[ "$2" = direct ] || echo "request $(id -u bob)"
	)
	migration_policy
	"program_$1" "$2" "$3"
	journal
	(await "[ \"\$(decisions)\" = '$expected' ]") || fail "got '$(decisions)' instead of '$expected'"
}

for program in migration migration-pin; do
	for way in direct_direct broker_broker broker_direct direct_broker; do
		eval "case_${program}_$way() { run_program $program ${way/_/ }; }"
	done
done

# The destination says why it cannot listen, and its user which rule does not let it.
case_reuseaddr_no() {
	local status=0
	migration_policy "reuseaddr no"
	side broker bob timeout $patience "${qemu[@]}" -incoming "rdma:$A:$PORT" > words 2>&1 || status=$?
	show < words
	assert_eq $status 1
	assert_contains "$(cat words)" "policy does not allow REUSEADDR (rule $RULES:3)"
	assert_contains "$(cat words)" "-incoming rdma:$A:$PORT: RDMA ERROR: Error: could not rdma_bind_addr!"
}

# With systemd's default limit the destination cannot register all of the memory that comes, and ends. The source is told,
# and its machine goes on.
case_locked_memory() {
	local LOCKED_MB=8
	migration_policy
	begin_migration broker broker false
	said source "$FAILED" "$COMPLETED"
	finish destination 1
	show < destination.errors
	assert_contains "$(cat destination.errors)" "Failed to register chunk!: Cannot allocate memory"
	show < source.errors
	state source running
	quit source
}

# The one session is that of rdmabrokerctl.
case_nothing_left() {
	await "rdmabrokerctl status | grep -q 'sessions: 1$'"
	await "rdmabrokerctl status | grep -q ' ids: 0$'"
	await "rdmabrokerctl status | grep -q 'leases: 0$'"
}

product_up
run_cases "$@"
