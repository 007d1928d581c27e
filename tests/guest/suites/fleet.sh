#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# rdmabroker-fleet: the installed units, with real members of etcd, which are killed and partitioned.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

export ETCDCTL_API=3

start_etcd() {
	etcd --data-dir "$PWD/etcd" --logger zap > etcd.log 2>&1 &
	etcd=$!
	(await "etcdctl endpoint health") || (cat etcd.log && exit 1)
}

# publish VERSION RULES TESTS
publish() {
	local name size sum list=()

	mkdir "$1"
	printf '%s\n' "$2" > "$1/10-site.rules"
	printf '%s\n' "$3" > "$1/10-site.tests"
	for name in 10-site.rules 10-site.tests; do
		etcdctl put "/rdmabroker/versions/$1/$name" < "$1/$name" > /dev/null
		size=$(stat -c %s "$1/$name")
		sum=$(sha256sum < "$1/$name" | cut -d' ' -f1)
		list+=("{\"name\": \"$name\", \"size\": $size, \"sha256\": \"$sum\"}")
	done
	etcdctl put "/rdmabroker/versions/$1" "{\"files\": [${list[0]}, ${list[1]}]}" > /dev/null
}

# roll_out LABEL VERSION
roll_out() {
	etcdctl put "/rdmabroker/rollout/$1" "$2" > /dev/null
}

# host EXPRESSION: prints an element of this host's state in etcd, such as ['in_force'].
host() {
	etcdctl get --print-value-only /rdmabroker/hosts/guest |
		python3 -c "import json, sys; print(json.load(sys.stdin)$1)"
}

# host_refuses VERSION TEXT: the host must refuse VERSION with TEXT, and keep the version v1.
host_refuses() {
	roll_out all "$1"
	(await "[ \"\$(host \"['install']['version']\")\" = $1 ]")
	assert_eq "$(host "['install']['installed']")" False
	host "['install']['text']" | show
	assert_contains "$(host "['install']['text']")" "$2"
	assert_eq "$(host "['in_force']")" v1
	assert_contains "$(rdmabrokerctl rules)" "allow listen user alice port 7471"
}

# The installed units of the fleet's agent, with a real etcd.
case_one_host() {
	policy <<-END
		allow session
		allow device
		allow connect
		allow accept
		allow observe user rdmabroker-fleet
	END
	start_etcd
	printf '[Fleet]\nEndpoints=http://127.0.0.1:2379\nLabels=canary\nTTLSec=5\n' > /etc/rdmabroker/fleet.conf
	systemctl start rdmabroker-fleet
	systemd-analyze security --no-pager rdmabroker-fleet rdmabroker-fleet-install | grep Overall | show
	assert_eq "$(stat -c %U "/proc/$(systemctl show --property=MainPID --value rdmabroker-fleet)")" rdmabroker-fleet
	(await "[ \"\$(host \"['daemon']['answers']\")\" = True ]")
	assert_eq "$(host "['in_force']")" None

	publish v1 "allow listen user alice port 7471" "allow listen uid 1000 gid 1000 port 7471"
	roll_out all v1
	(await "[ \"\$(host \"['in_force']\")\" = v1 ]")
	assert_contains "$(rdmabrokerctl rules)" "allow listen user alice port 7471"
	serve server alice $A 7471 -P
	(await "[ \"\$(host \"['listeners'][0]['port']\")\" = 7471 ]")
	assert_eq "$(host "['listeners'][0]['user']")" alice

	# What is wrong, what its tests refuse, and what only this host's admin may allow.
	publish v2 "allow lisen user alice" "allow listen uid 1000 gid 1000 port 7471"
	host_refuses v2 "10-site.rules:1:7"
	publish v3 "allow listen user bob port 7471" "allow listen uid 1000 gid 1000 port 7471"
	host_refuses v3 "10-site.tests:1"
	publish v4 $'allow listen user alice port 7471\nallow admin user bob' "allow listen uid 1000 gid 1000 port 7471"
	host_refuses v4 "admin"

	# A stage: only hosts with the label.
	publish v5 $'allow listen user alice port 7471\nallow listen user bob port 7472' \
		"allow listen uid 1001 gid 1001 port 7472"
	roll_out all v1
	roll_out other v4
	roll_out canary v5
	(await "[ \"\$(host \"['in_force']\")\" = v5 ]")
	assert_contains "$(rdmabrokerctl rules)" "allow listen user bob port 7472"
	etcdctl del /rdmabroker/rollout/canary > /dev/null
	(await "[ \"\$(host \"['in_force']\")\" = v1 ]")

	# Without etcd and without the agent the host serves on, after a restart, too.
	kill -KILL $etcd
	wait $etcd || true
	ping_once bob $A -p 7471
	stop server
	systemctl restart rdmabrokerd
	assert_contains "$(rdmabrokerctl rules)" "allow listen user alice port 7471"
	await "journalctl -u rdmabroker-fleet -o cat | grep -q 'Cannot use etcd: '"
	start_etcd
	roll_out all v5
	(await "[ \"\$(host \"['in_force']\")\" = v5 ]")
	assert_eq "$(systemctl show --property=NRestarts --value rdmabroker-fleet)" 0
	systemctl stop rdmabroker-fleet
	assert_eq "$(etcdctl get /rdmabroker/hosts/guest)" ""
	journalctl -u rdmabroker-fleet -u rdmabroker-fleet-install -o cat | show
	systemctl stop rdmabroker-fleet-install.path
	rm -rf /var/lib/rdmabroker/site /var/lib/rdmabroker-fleet/* /var/lib/rdmabroker-fleet-result/*
	reload "policy reloaded"
}

# ---- a cluster of three members, each in a network namespace, which is a host of its own ----

# As another host sees the fleet: in the namespace of the second member.
elsewhere() {
	ip netns exec e2 rdmabrokerctl fleet "$@"
}

start_member() {
	ip netns exec "e$1" etcd --name "e$1" --data-dir "$PWD/e$1" --logger zap \
		--listen-client-urls "http://10.30.0.$1:2379" --advertise-client-urls "http://10.30.0.$1:2379" \
		--listen-peer-urls "http://10.30.0.$1:2380" --initial-advertise-peer-urls "http://10.30.0.$1:2380" \
		--initial-cluster e1=http://10.30.0.1:2380,e2=http://10.30.0.2:2380,e3=http://10.30.0.3:2380 \
		--heartbeat-interval 200 --election-timeout 2000 > "e$1.log" 2>&1 &
	member[$1]=$!
}

start_cluster() {
	local i

	ip link add brf type bridge
	ip addr add 10.30.0.254/24 dev brf
	ip link set brf up
	for i in 1 2 3; do
		ip netns add "e$i"
		ip link add "ve$i" type veth peer name eth0 netns "e$i"
		ip link set "ve$i" master brf up
		ip -n "e$i" addr add "10.30.0.$i/24" dev eth0
		ip -n "e$i" link set eth0 up
		ip -n "e$i" link set lo up
		start_member "$i"
	done
	(await "rdmabrokerctl fleet status | grep -q '^etcd: 3 of 3 endpoints answer'") ||
		(tail -n 5 e?.log && exit 1)
}

stop_cluster() {
	local i

	for i in 1 2 3; do
		kill -KILL "${member[$i]}" || true
		ip netns del "e$i"
	done
	wait "${member[@]}" || true
	ip link del brf
}

# version NAME RULE: makes the directory of a version.
version() {
	mkdir "$1"
	echo "$2" > "$1/10-site.rules"
	echo "$2" | sed 's/user/uid/' > "$1/10-site.tests"
}

# A member that the agent uses, this host, and most members are cut off, one after the other.
case_cluster() {
	declare -A member

	policy <<-END
		allow session
		allow device
		allow connect
		allow accept
		allow observe user rdmabroker-fleet
	END
	cat > /etc/rdmabroker/fleet.conf <<-END
		[Fleet]
		Endpoints=http://10.30.0.1:2379 http://10.30.0.2:2379 http://10.30.0.3:2379
		TTLSec=5
	END
	start_cluster
	systemctl start rdmabroker-fleet
	version v1 "allow listen user 1000 port 7471"
	version v2 "allow listen user 1000 port 7472"
	version v3 "allow listen user 1000 port 7473"
	version v4 "allow listen user 1000 port 7474"
	(await "rdmabrokerctl fleet list | grep -q '^guest  *-  *ok '")
	rdmabrokerctl fleet push v1 --label all --wait $patience | show

	# The member that the agent uses is cut off. The other two go on, and so does the agent.
	ip link set ve1 down
	elsewhere push v2 --label all --wait $patience | show
	rdmabrokerctl fleet status | show
	assert_contains "$(rdmabrokerctl fleet status)" "etcd: 2 of 3 endpoints answer"
	ip link set ve1 up
	(await "rdmabrokerctl fleet status | grep -q '^etcd: 3 of 3 endpoints answer'")

	# This host is cut off from all members: it serves on, after a restart, too, and others see that it is away.
	serve server alice $A 7472 -P
	ip addr del 10.30.0.254/24 dev brf
	(await "ip netns exec e2 rdmabrokerctl fleet list | grep -q '^guest  *all  *away  *v2 '")
	elsewhere status | show
	elsewhere push v3 --label all | show
	ping_once bob $A -p 7472
	stop server
	systemctl restart rdmabrokerd
	assert_contains "$(rdmabrokerctl rules)" "allow listen user 1000 port 7472"
	fails 1 rdmabrokerctl fleet status
	assert_contains "$(cat words)" "cannot use etcd: http://10.30.0."
	ip addr add 10.30.0.254/24 dev brf
	(await "rdmabrokerctl fleet list | grep -q '^guest  *all  *ok  *v3 '")

	# Most members are gone. What there is remains, and nothing can be rolled out.
	kill -KILL "${member[1]}" "${member[3]}"
	wait "${member[1]}" "${member[3]}" || true
	fails 1 elsewhere push v4 --label all
	assert_contains "$(rdmabrokerctl rules)" "allow listen user 1000 port 7473"
	start_member 1
	(await "ip netns exec e2 rdmabrokerctl fleet status | grep -q '^etcd: 2 of 3 endpoints answer'")
	elsewhere push v4 --label all --wait $patience | show
	elsewhere rollback --wait $patience | show
	assert_contains "$(rdmabrokerctl rules)" "allow listen user 1000 port 7473"
	assert_eq "$(systemctl show --property=NRestarts --value rdmabroker-fleet)" 0
	systemctl stop rdmabroker-fleet rdmabroker-fleet-install.path
	start_member 3
	stop_cluster
	rm -rf /var/lib/rdmabroker/site /var/lib/rdmabroker-fleet/* /var/lib/rdmabroker-fleet-result/*
	reload "policy reloaded"
}

product_up
mkdir -p /etc/rdmabroker/rdmabrokerd.conf.d
run_cases "$@"
