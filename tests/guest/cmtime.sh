# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# cmtime of librdmacm: all of its connections do one step before any does the next.

# cmtime_once WAY N: N connections at the same time. WAY: direct, or dropin. Prints the time of the life of one of them, in
# us: the sum of cmtime's steps.
cmtime_once() {
	local through=() server
	[ "$1" = direct ] || through=(as alice rdmabrokerctl run --)
	"${through[@]}" cmtime -b "$A" > /dev/null &
	server=$!
	(await "rdma resource show cm_id | grep -q 'link rxe0/.*state LISTEN'")
	"${through[@]}" timeout 300 cmtime -s "$A" -c "$2" > cmtime.out
	pkill -KILL -x cmtime
	{ wait $server || true; } 2> /dev/null
	(await "! rdma resource show cm_id | grep -q 'state LISTEN'")
	awk -F: 'NF == 2 { n = split($2, column, " "); sum += column[n] } END { print sum }' cmtime.out
}

median() {
	sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}
