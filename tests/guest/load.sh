# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-2-Clause
# For suites in which connections carry data while something happens to the daemon: needs lib.sh and broker.sh.

# The programs that carry data share a part of one of the two emulated processors. They never pause. Without this
# limit they would leave the daemon and systemd hardly any time.
# The limit is a unit, because systemd disables controllers that no unit uses.
limit=/sys/fs/cgroup/load.slice

# limited NAME...: these programs are subject to the limit from now on.
limited() {
	local name
	for name; do
		echo "${pid[$name]}" > $limit/cgroup.procs
	done
}

# load LIBRARY DROPIN: starts this many connections of each kind. Their data is verified at both ends: a wrong byte
# ends the program. The programs run until end_load. While others are being started, they are frozen, which can take
# minutes.
load() {
	local i port=7400
	servers=() clients=()
	systemctl start load.slice
	systemctl set-property --runtime load.slice CPUQuota=80%
	sessions_before=$(status_field "['sessions']")
	echo 1 > $limit/cgroup.freeze
	for ((i = 0; i < $1; i++, port++)); do
		as alice rdmabroker-ping -s -a $A -p $port -v -P -T 3600 > s$port 2>&1 &
		pid[s$port]=$!
		await_line s$port "listening on"
		as bob rdmabroker-ping -c -a $A -p $port -v -k -T 3600 > c$port 2>&1 &
		pid[c$port]=$!
		await_line c$port established
		limited s$port c$port
		servers+=("s$port") clients+=("c$port")
	done
	for ((i = 0; i < $2; i++, port++)); do
		as alice rdmabrokerctl run -- rping -s -a $A -p $port -V > s$port 2>&1 &
		pid[s$port]=$!
		(await "rdmabrokerctl list | grep -q 'listening .*:$port '")
		as bob rdmabrokerctl run -- rping -c -a $A -p $port -V > c$port 2>&1 &
		pid[c$port]=$!
		(await "[ \$(rdmabrokerctl list | grep -c ' established .*:$port') = 2 ]")
		limited s$port c$port
		servers+=("s$port") clients+=("c$port")
	done
	echo 0 > $limit/cgroup.freeze
	n_load=$(($1 + $2))
	(await "[ \$(n_established) = $((2 * n_load)) ]") || load_runs
}

# n_established: the established ids of alice and bob, as the daemon knows them.
n_established() {
	rdmabrokerctl list | grep -c ' established '
}

# load_runs: fails unless each program of load still runs, and all connections are there.
load_runs() {
	local name
	for name in "${servers[@]}" "${clients[@]}"; do
		kill -0 "${pid[$name]}" || {
			echo "$name has ended:"
			tail -n 5 "${servers[@]}" "${clients[@]}"
			journalctl -u rdmabrokerd -o cat -n 20
			return 1
		}
	done
	assert_eq "$(n_established)" $((2 * n_load))
}

# data_flows: each connection carries data now. The counter of the device tells it, for all together.
data_flows() {
	local before
	before=$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts)
	(await "[ \$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts) -gt $((before + 100)) ]")
}

# end_load: ends the clients. Each server has to learn of it, and nothing is left.
end_load() {
	local name
	assert_eq "$(cat $limit/cpu.max)" "80000 100000"
	systemctl set-property --runtime load.slice CPUQuota=
	for name in "${clients[@]}"; do
		kill "${pid[$name]}"
	done
	for name in "${clients[@]}"; do
		wait "${pid[$name]}" || true
	done
	(await "[ \$(n_established) = 0 ]")
	for name in "${servers[@]}"; do
		kill "${pid[$name]}" 2> /dev/null || true
		wait "${pid[$name]}" || true
	done
	(await "[ \$(status_field \"['ids']\") = 0 ]")
	# The exporter, if it was restarted meanwhile, has no session until somebody fetches the metrics.
	(await "[ \$(status_field \"['sessions']\") -le $sessions_before ]")
	(await "! rdma resource show cm_id | grep -q 'state CONNECT'")
	(await "! getfacl -pn /dev/infiniband/uverbs* | grep -q user:100")
}
