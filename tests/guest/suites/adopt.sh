#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A week by rdmabroker-adopt(7), from a host whose jobs use RDMA to a policy. In the guest whose clock counts instructions,
# it jumps over the time in which nothing happens, so that an hour takes seconds. Of a day in which nothing is asked of the
# clock, only the first hours are lived through, and the clock is set to the next day then.
#
# alice serves, bob and carol have jobs, and dave's backup and measurements are rare. daemon is the stranger.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$share/broker.sh"
# shellcheck source=../podman.sh
. "$share/podman.sh"

case_seconds=$((30 * 24 * 3600))
HOURS_A_DAY=1
NODES_RULE=/etc/udev/rules.d/89-rdmabroker-open.rules
SLURM=/sys/fs/cgroup/system.slice/slurmstepd.scope
POLICY_D=/etc/rdmabroker/policy.d
TRACING=/sys/kernel/tracing
LEARNED=/var/lib/rdmabrokerd/refusals
n_jobs=0

# told TEXT...: a line of the story, with the day's time.
told() {
	echo "$(date '+%a %H:%M') $*" | show
	progress "$*"
}

# ---- what runs on this host ----

# service NAME USER COMMAND...: starts a service, which ends by itself or with the host.
service() {
	local name=$1 user=$2
	shift 2
	systemd-run --quiet --collect --unit="$name" --uid="$user" -- "$@"
}

listens() {
	rdma resource show cm_id | grep -q "state LISTEN.*:$1 "
}

# serving NAME PORT: alice's service NAME listens on PORT.
serving() {
	service "$1" alice rping -s -P -a $A -p "$2"
	await "listens $2"
}

# connections PORT: prints how many ids are connected to PORT.
connections() {
	rdma resource show cm_id | grep -c "state CONNECT.*dst-addr $A:$1 " || true
}

# holds NAME USER: a service of USER's that connects to the store, and keeps its connection without using it.
holds() {
	local before
	before=$(connections 7471)
	service "$1" "$2" rping -c -a $A -p 7471 -C 1000000
	await "[ \$(connections 7471) -gt $before ]"
	systemctl kill --signal=STOP "$1"
}

# job USER COMMAND...: COMMAND runs as the step of a job of Slurm, which begins with the caller's $n_jobs.
job() {
	local user=$1 step=$SLURM/job_$n_jobs/step_0/user/task_0
	shift
	mkdir -p "$step"
	(echo "$BASHPID" > "$step/cgroup.procs" && exec as "$user" "$@")
}

job_succeeds() {
	local status=0
	job "$@" > job 2>&1 || status=$?
	[ $status = 0 ] || rping_raced $status job || fail "job $n_jobs of $1: status $status: $(cat job)"
}

# jobs_of_a_day N: each is a client of alice's services. In every tenth one two tasks find each other on a port that the
# kernel has chosen.
jobs_of_a_day() {
	local users=(bob carol) tasks user
	for ((i = 0; i < $1; i++)); do
		n_jobs=$((n_jobs + 1))
		user=${users[n_jobs / 10 % 2]}
		if ((n_jobs % 10 == 0)); then
			: > tasks
			job "$user" rdmabroker-ping -s -a $A -p 0 -v -T $patience > tasks 2>&1 &
			tasks=$!
			await_line tasks "listening on"
			job_succeeds "$user" rdmabroker-ping -c -a $A -T $patience \
				-p "$(sed -n 's/.*listening on .*:\([0-9]*\).*/\1/p' tasks)"
			wait $tasks || fail "job $n_jobs: $(cat tasks)"
		else
			job_succeeds "$user" rping -c -a $A -p $((7472 + n_jobs % 2)) -C 1
		fi
		find "$SLURM/job_$n_jobs" -depth -type d -delete
	done
	told "$1 jobs have ended well, $n_jobs since the beginning"
}

# weekly_report: carol's, once a week.
weekly_report() {
	systemd-run --quiet --collect --wait --pipe --unit=weekly-report --uid=carol -- rping -c -a $A -p 7475 -C 1 > report 2>&1 ||
		rping_raced $? report || fail "the weekly report: $(cat report)"
	told "the weekly report was made"
}

# measures [WRAPPER...]: dave uses verbs alone for a minute.
measures() {
	service measure dave "$@" ibv_asyncwatch -d rxe0
	sleep 60
	assert systemctl -q is-active measure
	systemctl stop measure
}

# simulation OPTION...: a container of root's, with librdmacm.
simulation() {
	NETWORK=host container simulation root --user 1003 "$@" -- rping -s -P -a $A -p 7477
	(await "listens 7477") || fail "the container says: $(cat simulation)"
}

# what is started with the host
services() {
	systemd-run --quiet --scope --unit=slurmstepd -p Delegate=yes sleep infinity &
	serving store 7471
	serving compute 7472
	serving compute-2 7473
	serving reports 7475
	holds feed bob
}

# Until the end of this day, nobody does anything.
end_of_day() {
	sleep $((HOURS_A_DAY * 3600))
	date --set="tomorrow 00:01" > /dev/null
}

# The host is started again, as far as the broker sees it: all programs end, /run is empty and the kernel knows nothing.
reboot_host() {
	local unit
	for unit in store compute compute-2 reports feed backup; do
		systemctl kill --signal=KILL $unit 2> /dev/null || true
	done
	end_container simulation
	systemctl stop slurmstepd.scope
	systemctl stop rdmabroker-cdi 'rdmabrokerd*.socket' rdmabrokerd.service
	fabric_down
	modprobe -r rdma_ucm
	modprobe -r rdma_rxe
	find /run/rdmabroker* -mindepth 1 -delete
	fabric_up
	udevadm trigger --settle --subsystem-match=misc --subsystem-match='infiniband*'
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	told "the host has been started again"
	services
}

# warned: prints how many requests the warn rule has admitted.
warned() {
	rdmabrokerctl --json rules | python3 -c "
import json, sys
print(sum(r['warned'] for r in json.load(sys.stdin)['rules']))"
}

# ---- the steps ----

# The packages are not installed yet: their files are elsewhere, and the nodes are as the kernel and rdma-core leave them.
step_1() {
	local path
	path=$(echo "$share"/dest/usr/lib/*-linux-gnu)
	serving store 7471
	holds feed bob
	holds backup dave
	LD_LIBRARY_PATH=$path "$share/dest/usr/bin/rdmabrokerctl" suggest --kernel > before.rules
	systemctl kill --signal=KILL backup
	show < before.rules
	assert_contains "$(cat before.rules)" "allow connect user dave unit backup.service peer $A/32 port 7471"
	told "step 1: dave's backup was seen, and will not be again"
}

step_2() {
	local connected
	connected=$(connections 7471)
	echo 'SUBSYSTEM=="misc|infiniband_verbs", ENV{RDMABROKER_NODES}="open"' > $NODES_RULE
	mkdir -p $POLICY_D
	echo 'warn any reason "no rule yet"' > $POLICY_D/90-live.rules
	install_product
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	# An image has librdmacm of its own.
	make_rootfs /srv/rootfs root
	rdmabrokerctl status | show
	rdmabrokerctl nodes status | show
	assert_eq "$(connections 7471)" "$connected"
	assert_contains "$(rdmabrokerctl nodes status | tr -s ' ')" "rping $(systemctl show -P MainPID feed) bob"
	# The table is written to disk: each time it gets a new name.
	[ -e $TRACING/trace ] || mount -t tracefs tracefs $TRACING
	echo 'comm == "rdmabrokerd"' | tee $TRACING/events/syscalls/sys_enter_rename{,at,at2}/filter > /dev/null
	echo 1 | tee $TRACING/events/syscalls/sys_enter_rename{,at,at2}/enable > /dev/null
	told "step 2: the broker runs, and ended nothing"
}

step_3() {
	rdmabrokerctl dropin enable | show
	assert_contains "$(rdmabrokerctl dropin status | tr -s ' ')" "rping"
	serving compute 7472
	serving compute-2 7473
	serving reports 7475
	systemd-run --quiet --scope --unit=slurmstepd -p Delegate=yes sleep infinity &
	simulation --device /dev/infiniband/rdma_cm --device /dev/infiniband/uverbs0 --device /dev/infiniband/uverbs1
	told "step 3: what starts now uses the broker"
}

step_4() {
	jobs_of_a_day 72
	weekly_report
	end_of_day
	jobs_of_a_day 72
	measures
	end_of_day
	jobs_of_a_day 72
	end_of_day
	rdmabrokerctl refusals --warned | show
	jobs_of_a_day 72
	reboot_host
	end_of_day
	simulation --device /dev/infiniband/rdma_cm --device /dev/infiniband/uverbs0 --device /dev/infiniband/uverbs1
	jobs_of_a_day 72
	end_of_day
	jobs_of_a_day 72
	measures
	end_of_day
	jobs_of_a_day 72
	measures
	rdmabrokerctl refusals --warned | show
	rdmabrokerctl nodes status --since 7d | show
	assert_contains "$(rdmabrokerctl refusals --warned)" weekly-report.service
	assert_contains "$(rdmabrokerctl nodes status --since 7d | tr -s ' ')" "ibv_asyncwatch"
	assert_lacks "$(rdmabrokerctl refusals --refused)" " rping "
	told "step 4: after a week and $n_jobs jobs, the table has $(stat -c %s $LEARNED) bytes, and was written" \
		"$(grep -c rename $TRACING/trace) times"
}

step_5() {
	fails 1 rdmabrokerctl nodes close
	show < words
	assert_contains "$(cat words)" "--yes"
	rdmabrokerctl dropin status | show
	# The container gets the broker's device, and the measurements get the broker.
	end_container simulation
	systemctl start rdmabroker-cdi
	simulation --device $RDMA=all --device $DROPIN
	measures rdmabrokerctl run --
	end_of_day
	jobs_of_a_day 10
	sleep $((25 * 3600))
	rdmabrokerctl nodes close | show
	told "step 5: the nodes are closed"
	jobs_of_a_day 10
	measures rdmabrokerctl run --
}

step_6() {
	local counted
	rdmabrokerctl suggest --peer-prefix 24 --also before.rules > seen.rules
	rdmabrokerctl suggest --peer-prefix 24 --tests > seen.tests
	show < seen.rules
	rdmabrokerctl check seen.rules
	mkdir rules
	cp seen.rules rules/60-seen.rules
	rdmabrokerd --check --policy-dir "$PWD/rules" --test seen.tests
	cp seen.rules $POLICY_D/60-seen.rules
	rdmabrokerctl reload
	counted=$(warned)
	jobs_of_a_day 10
	rdmabrokerctl status > /dev/null
	rdmabrokerctl refusals > /dev/null
	assert_eq "$(warned)" "$counted"
	told "step 6: the number rests at $counted"
}

step_7() {
	mv $POLICY_D/90-live.rules $POLICY_D/90-live.rules.off
	rdmabrokerctl reload --dry-run > tried
	show < tried
	assert_lacks "$(cat tried)" "NOT ALLOWED"
	rdmabrokerctl reload
	sleep 3600
	jobs_of_a_day 10
	weekly_report
	measures rdmabrokerctl run --
	holds backup dave
	told "dave's backup has connected"
	fails 1 as daemon timeout --foreground $patience ucmatose -s $A -p 7471
	fails 243 as bob timeout --foreground $patience ucmatose -s $A -p 7479
	rdmabrokerctl refusals --refused --since 1h > refused
	show < refused
	assert_contains "$(grep -m 1 no-rule refused)" bob
	assert_lacks "$(grep -E 'no-rule|rejected|quota' refused)" carol
	assert_lacks "$(grep -E 'no-rule|rejected|quota' refused)" dave
	told "step 7: only a stranger was refused"
}

case_a_week() {
	fabric_up
	step_1
	step_2
	step_3
	step_4
	step_5
	step_6
	step_7
}

run_cases "$@"
