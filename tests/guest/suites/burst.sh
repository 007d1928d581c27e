#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What a connection costs, in a guest whose clock counts instructions: cmtime directly and through the drop-in, with one
# connection and with 300 at once, and what the daemon does for one of the 300. burst.txt gets a line "NAME VALUE" for each
# figure, behind lines "# FACT: VALUE" for what the figures depend on. tests/bench/burst compares them.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$share/broker.sh"
# shellcheck source=../cmtime.sh
. "$share/cmtime.sh"

set -eE -o pipefail
trap 'echo "burst.sh: line $LINENO: $BASH_COMMAND (status $?)" >&2' ERR

product_up
policy <<-END
	allow session user alice
	allow device  user alice
	allow listen  user alice
	allow accept  user alice
	allow connect user alice
END

# The daemon's time on the processor in us, also that of threads that have ended.
daemon_us() {
	awk '/^usage_usec/ { print $2 }' /sys/fs/cgroup/system.slice/rdmabrokerd.service/cpu.stat
}

# The system calls of the daemon's threads, also of those that it starts, by name, and how often they give the processor away.
traced() {
	local tracing=/sys/kernel/tracing
	[ -e $tracing/trace ] || mount -t tracefs tracefs $tracing
	echo 65536 > $tracing/buffer_size_kb
	echo 1 > $tracing/options/event-fork
	(cd /proc/"$daemon"/task && echo *) > $tracing/set_event_pid
	echo 1 | tee $tracing/events/syscalls/enable > $tracing/events/sched/sched_switch/enable
	"$@" > /dev/null
	echo 0 | tee $tracing/events/syscalls/enable > $tracing/events/sched/sched_switch/enable
	grep -oE ': sys_[a-z0-9_]+\(|: sched_switch: prev_comm=rdmabrokerd' $tracing/trace |
		sed -E 's/.*(sys_[a-z0-9_]+).*/\1/; s/.*sched_switch.*/switches/' | sort | uniq -c
	echo > $tracing/set_event_pid
}

daemon=$(daemon_pid)
lives=300
for way in direct dropin; do
	for n in 1 $lives; do
		# The first one finds less in the guest's caches.
		cmtime_once $way $n > /dev/null
		for ((i = 0; i < (n == 1 ? 9 : 3); i++)); do
			cmtime_once $way $n
		done > "rounds-$way-$n"
		median < "rounds-$way-$n" > "cmtime-$way-$n"
		echo "cmtime -c $n, $way: $(xargs < "rounds-$way-$n") us"
	done
done
before=$(daemon_us)
cmtime_once dropin $lives > /dev/null
after=$(daemon_us)
traced cmtime_once dropin $lives > calls
cat calls

{
	echo "# packages: $(dpkg-query -W | sha256sum | cut -c1-16)"
	echo "# kernel: $(uname -rv)"
	echo "# processor: $(tr ' ' '\n' < /proc/cmdline | grep -E 'mitigations|norandmaps' | xargs)"
	for file in cmtime-*; do
		echo "$file $(cat "$file")"
	done
	echo "daemon-us $(((after - before) / lives))"
	awk -v n=$lives '$2 == "switches" { printf "daemon-switches %.1f\n", $1 / n }' calls
	awk -v n=$lives '$2 != "switches" { sum += $1 } END { printf "daemon-calls %.1f\n", sum / n }' calls
	awk -v n=$lives '$1 >= n && sub(/^sys_/, "", $2) { printf "daemon-calls-%s %.1f\n", $2, $1 / n }' calls
} > "$share/burst.txt"
