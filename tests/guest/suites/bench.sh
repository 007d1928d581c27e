#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs rdmabroker-bench, in a guest whose clock counts instructions. Workers that use rdma_cm directly run as root, because only root and the broker's user can
# open rdma_cm. Workers that use the broker run as alice.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$share/broker.sh"
# shellcheck source=../cmtime.sh
. "$share/cmtime.sh"

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

pipelined=300

compare_cmtime() {
	local round direct dropin
	for ((round = 1; round <= $1; round++)); do
		direct=$(cmtime_once direct $pipelined)
		dropin=$(cmtime_once dropin $pipelined)
		echo "$direct $dropin"
	done > rounds
	cat cmtime.out
	echo "cmtime -c $pipelined, whole cycle in us: direct $(cut -d' ' -f1 rounds | median)," \
		"drop-in $(cut -d' ' -f2 rounds | median)," \
		"ratio $(awk '{ print $2 / $1 }' rounds | median) (median of $1 rounds)"
}

what_to_believe() {
	cat <<-END
		This guest's clock counts the instructions of its one processor, two nanoseconds each, and jumps over the
		time in which nothing happens. So the figures are the same whatever else the host does.

		As on a real processor: counts of packets and system calls, and which way takes more instructions.
		Not as on a real processor: the times themselves. Here a system call, a switch between processes and a copy
		of memory cost their instructions and nothing else, a cache never misses, the broker never runs beside its
		client on another processor, the kernel's Soft-RoCE does on the processor what an adapter does by itself,
		and the wire takes no time. A ratio of times is that of the instructions of both ways, the kernel's included.

	END
}

{
	what_to_believe
	compare_cmtime 5
	echo
	rdmabroker-bench --user alice --daemon-pid "$(daemon_pid)" "$@" "$A" "$B"
} | tee "$share/report.txt"
