# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs the subcommands of the program calls. Where the suite has to act first, a subcommand prints the name of the
# step, and waits for `go`.

declare -A pids

# start NAME USER COMMAND...: runs `calls COMMAND...` in the background. Its output is in the file NAME.
start() {
	local name=$1 user=$2
	shift 2
	mkfifo "$name.in"
	: > "$name"
	as "$user" calls "$@" <> "$name.in" > "$name" 2>&1 &
	pids[$name]=$!
}

# go NAME: makes the program NAME continue with its next step.
go() {
	echo go > "$1.in"
}

# await_line NAME TEXT [COUNT]: waits until at least COUNT (1) lines of the program NAME contain TEXT. Fails if the
# program fails first.
await_line() {
	local seen="[ \$(grep -cF -- '$2' $1) -ge ${3:-1} ]"

	(await "$seen || grep -q ^FAILED $1") || true
	eval "$seen" || fail "$1 does not say '$2': $(cat "$1")"
}

# finish NAME [STATUS]: waits for the program's end. Its exit status must be STATUS (0).
finish() {
	local status=0
	wait "${pids[$1]}" || status=$?
	echo "--- $1:"
	cat "$1"
	rm -f "$1.in"
	assert_eq "$1 ended with $status" "$1 ended with ${2:-0}"
}

# run USER COMMAND...: runs `calls COMMAND...` to its end.
run() {
	local user=$1 status=0
	shift
	as "$user" calls "$@" || status=$?
	# After a failure, prints the output of the other programs, too.
	[ $status = 0 ] || find . -type f -name '[!.]*' -exec tail -n 80 {} +
	return $status
}
