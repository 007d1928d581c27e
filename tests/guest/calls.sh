# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs the programs of the binary calls. Such a program prints one line for each step. Before a step for which the suite
# has to do something first, it waits for `go`.

declare -A pids

# start NAME USER COMMAND...: runs COMMAND in the background. Its output is in the file NAME.
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

# await_line NAME TEXT [COUNT]: waits until the program NAME has printed TEXT in COUNT lines, or has failed.
await_line() {
	local seen="[ \$(grep -cF -- '$2' $1) -ge ${3:-1} ]"

	(await "$seen || grep -q ^FAILED $1") || true
	eval "$seen" || fail "$1 does not say '$2': $(cat "$1")"
}

# finish NAME [EXPECTED_STATUS]: waits for the program's end, and checks its exit status.
finish() {
	local status=0
	wait "${pids[$1]}" || status=$?
	echo "--- $1:"
	cat "$1"
	rm -f "$1.in"
	assert_eq "$1 ended with $status" "$1 ended with ${2:-0}"
}

# run USER COMMAND...: runs COMMAND to its end.
run() {
	local user=$1 status=0
	shift
	as "$user" calls "$@" || status=$?
	# Print the output of the other programs as well.
	[ $status = 0 ] || find . -type f -name '[!.]*' -exec tail -n 80 {} +
	return $status
}
