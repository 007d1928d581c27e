#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs rdmabroker-bench. Workers that use rdma_cm directly run as root, because only root and the broker's user can
# open rdma_cm. Workers that use the broker run as alice.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$share/broker.sh"

set -eE -o pipefail
trap 'echo "bench.sh: line $LINENO: $BASH_COMMAND (status $?)" >&2' ERR

product_up
policy <<-END
	allow session user alice
	allow device  user alice
	allow listen  user alice port 7471-7473
	allow accept  user alice port 7471-7473
	allow connect user alice
END

# cmtime makes its connections at the same time: all of them do one step before any does the next.
pipelined=300

# cmtime_once WAY: prints the time of the whole cycle of a connection, in us: the sum of cmtime's steps.
cmtime_once() {
	local through=() server
	[ "$1" = direct ] || through=(as alice rdmabrokerctl run --)
	"${through[@]}" cmtime -b "$A" > /dev/null &
	server=$!
	(await "rdma resource show cm_id | grep -q 'link rxe0/.*state LISTEN'")
	"${through[@]}" timeout 300 cmtime -s "$A" -c $pipelined > cmtime.out
	pkill -KILL -x cmtime
	wait $server || true
	(await "! rdma resource show cm_id | grep -q 'state LISTEN'")
	awk -F: 'NF == 2 { n = split($2, column, " "); sum += column[n] } END { print sum }' cmtime.out
}

median() {
	sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

compare_cmtime() {
	local round direct dropin
	for ((round = 1; round <= $1; round++)); do
		direct=$(cmtime_once direct)
		dropin=$(cmtime_once dropin)
		echo "$direct $dropin"
	done > rounds
	cat cmtime.out
	echo "cmtime -c $pipelined, whole cycle in us: direct $(cut -d' ' -f1 rounds | median)," \
		"drop-in $(cut -d' ' -f2 rounds | median)," \
		"ratio $(awk '{ print $2 / $1 }' rounds | median) (median of $1 rounds)"
}

{
	compare_cmtime 5
	echo
	rdmabroker-bench --user alice --daemon-pid "$(daemon_pid)" "$@" "$A" "$B"
} | tee "$share/report.txt"
