#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What a connection costs, in a guest whose clock counts instructions: cmtime directly and through the drop-in, with one
# connection and with 300 at once, and what the daemon and the two ends do for one of the 300. burst.txt gets a line
# "NAME VALUE" for each figure, behind lines "# FACT: VALUE" for what the figures depend on. tests/bench/burst compares them.

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

# traced NAME PIDS COMMAND...: runs COMMAND. The system calls of the threads PIDS, and of those that they start, by name, and how
# often they give the processor away; of these threads only those whose program has NAME.
traced() {
	local tracing=/sys/kernel/tracing name=$1 pids=$2
	shift 2
	[ -e $tracing/trace ] || mount -t tracefs tracefs $tracing
	echo 65536 > $tracing/buffer_size_kb
	echo 1 > $tracing/options/event-fork
	echo > $tracing/trace
	echo "$pids" > $tracing/set_event_pid
	echo 1 | tee $tracing/events/syscalls/enable > $tracing/events/sched/sched_switch/enable
	"$@" > /dev/null
	echo 0 | tee $tracing/events/syscalls/enable > $tracing/events/sched/sched_switch/enable
	grep -oE "^ *$name-[0-9].*: sys_[a-z0-9_]+\(|: sched_switch: prev_comm=$name" $tracing/trace |
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
traced rdmabrokerd "$(cd /proc/"$daemon"/task && echo *)" cmtime_once dropin $lives > calls-daemon
# cmtime yields the processor while it waits, and how often is chance.
traced cmtime $BASHPID cmtime_once dropin $lives | grep -v sched_yield > calls-ends
cat calls-*

{
	echo "# packages: $(dpkg-query -W | sha256sum | cut -c1-16)"
	echo "# kernel: $(uname -rv)"
	echo "# processor: $(tr ' ' '\n' < /proc/cmdline | grep -E 'mitigations|norandmaps' | xargs)"
	for file in cmtime-*; do
		echo "$file $(cat "$file")"
	done
	echo "daemon-us $(((after - before) / lives))"
	awk -v n=$lives '$2 == "switches" { printf "daemon-switches %.1f\n", $1 / n }' calls-daemon
	for who in daemon ends; do
		awk -v n=$lives -v who=$who '$2 != "switches" { sum += $1 } END { printf "%s-calls %.1f\n", who, sum / n }' calls-$who
		awk -v n=$lives -v who=$who '$1 >= n && sub(/^sys_/, "", $2) { printf "%s-calls-%s %.1f\n", who, $2, $1 / n }' calls-$who
	done
} > "$share/burst.txt"
