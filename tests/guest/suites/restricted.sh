#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Restricted sessions: programs and containers that can do less than their user. Instances of the daemon for other network
# namespaces.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"
# shellcheck source=../podman.sh
. "$(dirname "$0")/../podman.sh"

# ---- restricted sessions ----

# restrict NAME USER RULES OPTIONS COMMAND...: runs COMMAND restricted, in the background.
restrict() {
	local name=$1 user=$2 rules=$3 options=$4
	shift 4
	: > "$name"
	# shellcheck disable=SC2086
	as "$user" rdmabrokerctl restrict --rules "$rules" $options -- "$@" > "$name" 2>&1 &
	pid[$name]=$!
}

restricted_policy() {
	policy <<-END
		allow session user root,alice,bob
		allow device  user alice,bob
		allow any     user alice,bob port 7400-7499
	END
}

restricted_sockets() {
	find /run/rdmabroker-restricted -name rdmabroker.sock
}

case_restricted_program() {
	local rules="allow device; allow listen port 7430; allow accept; allow connect port 7431"
	restricted_policy
	restrict server alice "$rules" "" rdmabroker-ping -s -a $A -p 7430 -P -v
	await_line server "listening on"
	ping_once bob $A -p 7430
	rdmabrokerctl list | cut -c 1-100 | show
	assert_contains "$(rdmabrokerctl list)" " restricted "
	assert_contains "$(list_field restriction "s['restriction']")" "allow device; allow listen port 7430"
	assert_eq "$(stat -c '%a %U' /run/rdmabroker-restricted)" "711 rdmabroker"
	assert_fails_with 2 as bob ls /run/rdmabroker-restricted
	kill "${pid[server]}"
	finish server
	(await "[ -z \"\$(restricted_sockets)\" ]")
	# What it may not do.
	mark_journal
	fails 3 as alice rdmabrokerctl restrict --rules "$rules" -- rdmabroker-ping -s -a $A -p 7432
	assert_contains "$(cat words)" "no rule of its restriction allows this"
	assert_contains "$(journal)" "rejected by the session's restriction"
	serve other bob $A 7432 -P > /dev/null
	fails 3 as alice rdmabrokerctl restrict --rules "$rules" -- rdmabroker-ping -c -a $A -p 7432
	fails 3 as alice rdmabrokerctl restrict --rules "reject any" -- rdmabroker-ping -s -a $A -p 7430
	# What his own rules do not allow, no restriction allows.
	fails 3 as alice rdmabrokerctl restrict --rules "allow any" -- rdmabroker-ping -s -a $A -p 8000
	fails 1 as alice rdmabrokerctl restrict --rules "allow any user alice" -- true
	assert_contains "$(cat words)" "restriction:1:11: 'user' cannot be used in a restriction"
	# Root is no admin, and the limit counts all sessions together.
	fails 1 rdmabrokerctl restrict --rules "allow any" -- rdmabrokerctl reload
	assert_contains "$(cat words)" "may do this"
	assert_lacks "$(cat words)" "which is not here"
	# A restriction allows nothing that policy does not allow to its clients, also to root.
	fails 1 rdmabrokerctl restrict --rules "allow observe" -- rdmabrokerctl status
	policy <<-END
		allow session user root
		allow observe user root
	END
	rdmabrokerctl restrict --rules "allow observe" -- rdmabrokerctl status
	stop other
	nothing_is_left
}

# The session is of who adopts it, not of who has opened it. This kernel is too old for SO_PEERPIDFD.
case_released_session() {
	restricted_policy
	mkfifo go
	restricted release "allow listen port 7433" as bob restricted adopt $A 7433 7434 < go > bob 2>&1 &
	exec 9> go
	await_line bob "7434: "
	assert_contains "$(cat bob)" "7433: listened"
	assert_contains "$(cat bob)" "no rule of its restriction allows this"
	assert_eq "$(list_field user "s['restriction']")" bob
	assert_contains "$(list_field cgroup "s['restriction']")" "/"
	# It goes on after a restart, as bob's.
	kill_and_wait
	echo again >&9
	await_line bob "7434: " 2
	assert_eq "$(grep -c '7433: listened' bob)" 2
	assert_eq "$(list_field user "s['restriction']")" bob
	exec 9>&-
	wait
	# Policy decides about who adopts it. dave may not use the broker.
	fails 1 restricted release "allow any" as dave restricted adopt $A 7433
	assert_contains "$(cat words)" "uid 1003 may not use the broker"
	# A released session is of no use but to be adopted.
	restricted release "allow any" as dave restricted steal > steal 2>&1
	assert_contains "$(cat steal)" "a hello must be sent first"
	assert_contains "$(cat steal)" "then: 0"
	fails 1 restricted release "set a = { 10.0.0.0/8 }" true
	nothing_is_left
}

kill_and_wait() {
	local old
	old=$(daemon_pid)
	kill -KILL "$old"
	(await "[ \$(daemon_pid) != $old ] && systemctl -q is-active rdmabrokerd")
}

# A restart keeps restrictions, sockets and limits. A socket whose launcher is killed is gone.
case_restricted_restart() {
	restricted_policy
	restrict shell alice "allow device; allow listen port 7435-7436; allow accept" "--ids 2" \
		bash -c "rdmabroker-ping -s -a $A -p 7435 -P & read -r < $PWD/go; rdmabroker-ping -s -a $A -p 7436 -P
			rdmabroker-ping -s -a $A -p 7437; echo \"status \$?\"; sleep 3600"
	mkfifo go
	(await "rdmabrokerctl list | grep -q 'listening .*:7435 '")
	connect client bob $A 7435
	kill_and_wait
	systemctl restart rdmabrokerd
	assert_eq "$(rdmabrokerctl list | grep -c ' established ')" 2
	assert_eq "$(restricted_sockets | wc -l)" 1
	echo > go
	# Two ids exist already: the listener and the connection.
	(await "grep -q 'restricted to 2 ids' shell")
	await_line shell "status 3"
	pkill -KILL -f "rdmabrokerctl restrict" || true
	(await "[ -z \"\$(restricted_sockets)\" ]")
	wait "${pid[shell]}" || true
	pkill -KILL rdmabroker-ping || true
	wait "${pid[client]}" || true
	nothing_is_left
}

# A container gets the socket of a restricted session in place of the broker's own.
case_restricted_container() {
	local rules="allow device device rxe0; allow listen port 7438; allow accept peer 10.9.0.0/24"
	prepare_root
	policy <<-END
		allow session user root,alice,bob
		allow device  user alice access open
		allow device  user bob
		allow any     user root,alice,bob port 7400-7499
	END
	rdmabrokerctl restrict --rules "$rules" --ids 8 -- bash -c "exec podman run --rm --name server --network none \
		--log-driver none --user 1000 --ulimit memlock=-1:-1 --device rdmabroker/node=rxe0 \
		-v \${RDMABROKER_SOCKET%/*}:/run/rdmabroker --rootfs /srv/rootfs:O \
		rdmabroker-ping -s -a $A -p 7438 -P -v" > server 2>&1 &
	pid[server]=$!
	await_line server "listening on"
	ping_once bob $A -p 7438
	kill_and_wait
	ping_once bob $A -p 7438
	assert_eq "$(podman exec server ls /run/rdmabroker)" rdmabroker.sock
	# The broker's own socket is out of reach.
	fails 3 podman exec --user 1000 server rdmabroker-ping -s -a $A -p 7439
	assert_contains "$(cat words)" "no rule of its restriction allows this"
	fails 1 podman exec --user 0 server rdmabrokerctl list
	podman exec --user 1000 server rdmabrokerctl restrict --rules "allow any" -- true > words 2>&1 || true
	cat words
	podman kill server > /dev/null
	wait "${pid[server]}" || true
	(await "[ -z \"\$(restricted_sockets)\" ]")
	nothing_is_left
}

# ---- other network namespaces ----

# blue_policy: the instance gets its own policy, from the standard input.
blue_policy() {
	mkdir -p /etc/rdmabroker/blue
	cat > /etc/rdmabroker/blue/50-blue.rules
	printf '[Daemon]\nPolicyDir=/etc/rdmabroker/blue\n' > /etc/rdmabroker/rdmabrokerd@blue.conf
	systemctl reload rdmabrokerd@blue
}

in_blue() {
	RDMABROKER_SOCKET=$BLUE "$@"
}

has_acl() {
	getfacl -pn /dev/infiniband/uverbs* | grep -q "user:$1:rw-"
}

n_devices() {
	rdmabrokerctl --instance blue --json status | python3 -c "import json, sys; print(len(json.load(sys.stdin)['devices']))"
}

# Two instances, with ports and policies of their own. The initial one alone changes the ACLs of the nodes.
case_network_namespace() {
	policy <<-END
		allow any user alice
		allow session user alice,root
	END
	blue_up
	assert_contains "$(rdmabrokerctl --instance blue status)" "rdmabrokerd "
	rdmabrokerctl --instance blue status | show
	systemd-analyze security rdmabrokerd@blue | tail -1 | show
	# The same port in both.
	as alice rdmabroker-ping -s -p 7471 -P > initial 2>&1 &
	pid[initial]=$!
	await_line initial "listening on"
	RDMABROKER_SOCKET=$BLUE as alice rdmabroker-ping -s -p 7471 -P > other 2>&1 &
	pid[other]=$!
	await_line other "listening on"
	rdmabrokerctl list --listeners | show
	rdmabrokerctl --instance blue list --listeners | show
	fails 1 as alice rdmabroker-ping -s -p 7471
	assert_contains "$(cat words)" "the port is in use"
	fails 1 in_blue as alice rdmabroker-ping -s -p 7471
	# Access to the nodes.
	RDMABROKER_SOCKET=$BLUE as alice rdmabrokerctl run -- sleep 3600 &
	pid[sleep]=$!
	(await "has_acl 1000")
	assert_contains "$(rdmabrokerctl list)" "rdmabroker "
	kill "${pid[sleep]}"
	(await "! has_acl 1000")
	# A policy of its own.
	blue_policy <<< "allow session user bob"
	fails 3 in_blue as alice rdmabroker-ping -s -p 7472
	assert_contains "$(cat words)" "uid 1000 may not use the broker"
	fails 3 in_blue as bob rdmabroker-ping -s -p 7472
	assert_contains "$(cat words)" "may neither listen"
	fails 1 systemctl reload rdmabrokerd@blue 3< <(blue_policy <<< "alow any" 2> /dev/null)
	blue_policy <<< "allow any user alice"
	rdmabrokerctl --instance blue rules | show
	# Nobody but the daemon's own user lends.
	stop initial
	stop other
	fails 2 rdmabrokerctl --instance blue --socket $BLUE status
	fails 2 rdmabrokerctl --instance ../x status
	fails 1 rdmabrokerctl --instance red status
	assert_contains "$(cat words)" "/run/rdmabroker@red/rdmabroker.sock"
}

# Restarts of either instance, and devices that come and go.
case_instance_restarts() {
	local old n
	policy <<-END
		allow any user alice
	END
	blue_up
	n=$(n_devices)
	RDMABROKER_SOCKET=$BLUE as alice rdmabroker-ping -s -p 7471 -P > other 2>&1 &
	pid[other]=$!
	await_line other "listening on"
	RDMABROKER_SOCKET=$BLUE as alice rdmabrokerctl run -- sleep 3600 &
	pid[sleep]=$!
	(await "has_acl 1000")
	# The initial instance forgets what it has lent, and is asked again.
	old=$(daemon_pid)
	kill -KILL "$old"
	(await "[ \$(daemon_pid) != $old ] && systemctl -q is-active rdmabrokerd")
	(await "has_acl 1000")
	# The instance keeps its sessions.
	systemctl restart rdmabrokerd@blue
	assert_contains "$(rdmabrokerctl --instance blue list)" " listening "
	(await "has_acl 1000")
	kill "${pid[sleep]}"
	(await "! has_acl 1000")
	# Devices.
	rdma link delete rxe1
	(await "[ \$(n_devices) = $((n - 1)) ]")
	fabric_up
	(await "[ \$(n_devices) = $n ]")
	# Without the initial instance there is no access, and a message that says why.
	systemctl stop rdmabrokerd.service rdmabrokerd.socket
	in_blue as alice rdmabrokerctl run -- true > run 2>&1 || true
	sed 's/^/run: /' run
	(await "journalctl -u rdmabrokerd@blue -o cat | grep -q 'The initial instance of the broker does not serve'")
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	(await "journalctl -u rdmabrokerd@blue -o cat | grep -q 'serves again'")
	RDMABROKER_SOCKET=$BLUE as alice rdmabrokerctl run -- sleep 3600 &
	pid[sleep]=$!
	(await "has_acl 1000")
	kill "${pid[sleep]}"
	stop other
}

# What Soft-RoCE of this kernel does not do: its packets are always those of the initial network namespace.
case_connections_of_an_instance() {
	local status=0
	policy <<-END
		allow any user alice
	END
	blue_up
	RDMABROKER_SOCKET=$BLUE as alice rdmabroker-ping -s -p 7471 -P > other 2>&1 &
	pid[other]=$!
	await_line other "listening on"
	in_blue as alice timeout $patience rdmabroker-ping -c -a 10.10.0.2 -p 7471 > client 2>&1 || status=$?
	sed "s/^/connect in the namespace: status $status: /" client | show
	status=0
	in_blue as alice timeout $patience rdmabroker-ping -c -a $A -p 7471 > client 2>&1 || status=$?
	sed "s/^/connect out of the namespace: status $status: /" client | show
	[ $status != 124 ] || fail "a connect hangs"
	ip netns exec blue rdma resource show cm_id | sed 's/^/in the namespace: /' | show
	rdma system show | show
	{ rdma dev set rxe0 netns blue 2>&1 || true; } | sed 's/^/rdma dev set rxe0 netns blue: /' | show
	assert_contains "$(rdmabrokerctl --instance blue list)" " listening "
	stop other
}

product_up
run_cases "$@"
