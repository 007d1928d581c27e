#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Containers without privileges and without a network use RDMA through the broker, by CDI: podman, as root and rootless.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"
# shellcheck source=../podman.sh
. "$(dirname "$0")/../podman.sh"

# ---- cases ----

case_specifications() {
	local description
	systemctl start rdmabroker-cdi
	assert_eq "$(stat -c '%U %a' /run/cdi/rdmabroker-rdma.json /run/cdi/rdmabroker-node.json /run/cdi/rdmabroker-dropin.json |
		sort -u)" "root 644"
	for description in rdma node dropin; do
		python3 -m json.tool "/run/cdi/rdmabroker-$description.json" | show
	done
	assert_eq "$(rdmabrokerctl cdi)" "$(cat /run/cdi/rdmabroker-rdma.json)"
	assert_eq "$(rdmabrokerctl cdi --node)" "$(cat /run/cdi/rdmabroker-node.json)"
	assert_eq "$(rdmabrokerctl cdi --dropin)" "$(cat /run/cdi/rdmabroker-dropin.json)"
	assert_eq "$(sed -n 's/^CapEff:\s*//p' "/proc/$(systemctl show -P MainPID rdmabroker-cdi)/status")" \
		0000000000000000
	systemd-analyze security rdmabroker-cdi | tail -1 | show
	systemctl stop rdmabroker-cdi
}

case_two_containers() {
	local server client
	prepare_root
	containers_policy
	container server root --user 1000 --device $RDMA=rxe0 -- rdmabroker-ping -s -a $A -p 7410 -P -v
	await_line server "listening on"
	container client root --user 1001 --device $RDMA=rxe1 -- rdmabroker-ping -c -a $A -p 7410 -k -v
	await_line client established
	server=$(container_id server) client=$(container_id client)
	assert_eq "$(list_field container "s['uid'] == 1000")" "$server"
	assert_eq "$(list_field container "s['uid'] == 1001")" "$client"
	assert_eq "$(list_field cgroup "s['uid'] == 1000")" "/machine.slice/libpod-$server.scope/container"
	assert_contains "$(rdmabrokerctl list)" "container:${client:0:12} "
	rdmabrokerctl list | cut -c 1-120 | show
	# The nodes in the containers are their own, so nobody got access to those of the host.
	assert_eq "$(getfacl -pn /dev/infiniband/uverbs* | grep -cE 'user:[0-9]')" 0
	assert_fails_with 2 podman exec server ls /dev/infiniband/uverbs1
	assert_fails_with 2 podman exec server ls /dev/infiniband/rdma_cm
	end_container client
	await_line server RDMABROKER_EVENT_DISCONNECTED
	end_container server
	nothing_is_left
}

case_dropin() {
	local maps
	prepare_root
	containers_policy
	container server root --user 1000 --device $RDMA=rxe0 --device $DROPIN -- rping -s -a $A -p 7411 -V -d
	(await "rdmabrokerctl list | grep -q 'listening .*:7411 '")
	maps=$(cat "/proc/$(podman inspect --format '{{.State.Pid}}' server)/maps")
	assert_contains "$maps" "/usr/lib/rdmabroker/librdmabroker-rdmacm.so"
	assert_contains "$maps" "/usr/lib/rdmabroker/librdmabroker.so.2"
	assert_lacks "$maps" "libibverbs/librdmacm"
	container client root --user 1001 --device $RDMA=all --device $DROPIN -- rping -c -a $A -p 7411 -C 10 -V -v
	finish client
	assert_contains "$(cat client)" "ping data: rdma-ping-9"
	end_container server
	nothing_is_left
}

case_rootless() {
	prepare_user alice
	containers_policy
	container server alice --device $RDMA=rxe0 -- rdmabroker-ping -s -a $A -p 7412 -P -v
	await_line server "listening on"
	container client alice --device $RDMA=rxe1 -- rdmabroker-ping -c -a $A -p 7412 -k -v
	await_line client established
	# Root in the container is alice. The node is that of the host, so she needs access to it.
	assert_eq "$(list_field uid "s['container']" | sort -u)" 1000
	list_field container "s['container']" | grep -cE '^user-1000/[0-9a-f]{64}$' > count
	assert_eq "$(cat count)" 2
	assert_eq "$(getfacl -pn /dev/infiniband/uverbs* | grep -c user:1000:rw-)" 2
	rdmabrokerctl list | cut -c 1-120 | show
	end_container client alice
	await_line server RDMABROKER_EVENT_DISCONNECTED
	end_container server alice
	nothing_is_left
}

# With the rules of README's section CONTAINERS, and what it says about failures.
case_rootless_dropin() {
	prepare_user alice
	sed -n '/^CONTAINERS$/,/^KUBERNETES$/s/^      \(allow .*\)/\1/p' "$share/README" > rules
	assert [ -s rules ]
	policy < rules
	container server alice --device $RDMA=all --device $DROPIN -- rping -s -a $A -p 20000 -V
	(await "rdmabrokerctl list | grep -q 'listening .*:20000 '")
	container client alice --device $RDMA=all --device $DROPIN -- rping -c -a $A -p 20000 -C 10 -V
	finish client
	end_container server alice
	container refused alice --device $RDMA=all --device $DROPIN --env RDMABROKER_DEBUG=1 -- \
		rping -c -a $A -p 7413 -C 1
	wait "${pid[refused]}" || true
	assert_contains "$(cat refused)" "uid 1000 may not connect to $A:7413: no-rule"
	container bare alice --device $RDMA=all -- rping -c -a $A -p 20000 -C 1
	wait "${pid[bare]}" || true
	assert_contains "$(cat bare)" "No such file or directory"
	nothing_is_left
}

# Users whose containers are not allowed, and users who are no containers.
case_two_rootless_users() {
	prepare_user alice
	prepare_user dave
	containers_policy
	container server alice --device $RDMA=rxe0 -- rdmabroker-ping -s -a $A -p 7414 -P -v
	await_line server "listening on"
	container client dave --device $RDMA=rxe1 -- rdmabroker-ping -c -a $A -p 7414
	finish client 3
	assert_contains "$(cat client)" "uid 1003 may not use the broker"
	fails 3 as alice rdmabroker-ping -s -a $A -p 7415
	assert_contains "$(cat words)" "uid 1000 may not use the broker"
	ping_once bob $A -p 7414
	end_container server alice
	nothing_is_left
}

case_container_and_host() {
	prepare_root
	containers_policy
	container server root --user 1000 --device $RDMA=all -- rdmabroker-ping -s -a $A -p 7416 -P -v
	await_line server "listening on"
	ping_once bob $A -p 7416 -C 20 -v
	# librdmacm without the broker, as root can.
	container dropin root --user 1000 --device $RDMA=all --device $DROPIN -- rping -s -a $A -p 7417 -V
	(await "rdmabrokerctl list | grep -q 'listening .*:7417 '")
	run_rping timeout $patience rping -c -a $A -p 7417 -C 3 -V
	end_container server
	end_container dropin
	nothing_is_left
}

case_rules_for_one_container() {
	prepare_root
	policy <<-END
		reject session cgroup /machine.slice log reason "no containers today"
		allow  any     user alice
	END
	mark_journal
	container refused root --user 1000 --device $RDMA=all -- rdmabroker-ping -s -a $A -p 7418
	finish refused 3
	assert_contains "$(cat refused)" "no containers today"
	journalctl -u rdmabrokerd -o json --after-cursor="$journal_mark" |
		grep -oE '"RDMABROKER_(CONTAINER|CGROUP)":"[^"]*"' > fields
	assert_contains "$(cat fields)" '"RDMABROKER_CGROUP":"/machine.slice/libpod-'
	assert_contains "$(cat fields)" '"RDMABROKER_CONTAINER":"'
	assert_contains "$(rdmabrokerctl explain session --user alice --cgroup /machine.slice/x || true)" "no containers today"
	rdmabrokerctl explain session --user alice
}

# A container is killed: its peer is told, and nothing is left.
case_killed_container() {
	prepare_root
	containers_policy
	container server root --user 1000 --device $RDMA=all -- rdmabroker-ping -s -a $A -p 7419 -P -v
	await_line server "listening on"
	connect client bob $A 7419
	podman kill --signal KILL server > /dev/null
	await_line client RDMABROKER_EVENT_DISCONNECTED
	wait "${pid[server]}" || true
	wait "${pid[client]}" || true
	nothing_is_left
}

# Root of a container without a user namespace has the uid of root, and sees the socket.
case_root_in_a_container() {
	prepare_root
	policy <<-END
		allow session container *
	END
	for verb in reload list; do
		container root root --user 0 --device $RDMA=all -- rdmabrokerctl $verb
		finish root 1
		assert_contains "$(cat root)" "only root and the daemon's own user"
	done
	container root root --user 0 --device $RDMA=all -- ls /dev/infiniband/rdma_cm
	finish root 2
	assert_eq "$(status_field "['draining']")" False
	# With a rule it may observe.
	policy <<-END
		allow session container *
		allow observe container *
	END
	container root root --user 0 --device $RDMA=all -- rdmabrokerctl status
	finish root
}

# However a container is run, and whoever is its user: without a rule it has no rights over others. With --cgroups=disabled
# it is in its caller's control group, so that no name tells that it is one.
case_rights_without_a_rule() {
	local ways way uid
	ways=("" --cgroups=disabled --cgroups=split
		"--cgroups=disabled --cap-drop=ALL --security-opt=no-new-privileges --read-only")
	prepare_root
	policy <<< "allow session"
	for way in "${ways[@]}"; do
		for uid in 0 "$(id -u rdmabroker)" "$(id -u rdmabroker-peerd)"; do
			# shellcheck disable=SC2086
			container root root --user "$uid" $way --device $RDMA=all -- rdmabrokerctl reload
			finish root 1
			assert_contains "$(cat root)" "only root and the daemon's own user"
			show <<< "${way:-by default}, uid $uid: $(head -1 root | cut -c 1-70)..."
			# The same for everything else that such users may do on the host, by a process that connects and ends.
			# shellcheck disable=SC2086
			container root root --user "$uid" $way --device $RDMA=all --volume "$share/bin:/attack:ro" -- \
				/attack/hostile $SOCKET rights
			finish root
			show < root
		done
	done
	policy <<-END
		reject any container *
		allow  any
	END
	mark_journal
	for way in "${ways[@]}"; do
		# shellcheck disable=SC2086
		container root root --user 1000 $way --device $RDMA=all -- rdmabroker-ping -s -a $A -p 7420
		finish root 3
		assert_contains "$(cat root)" "uid 1000 may not use the broker"
	done
	# The journal names the container where it can be told.
	journal | grep -E "session rejected" > rejected
	cut -c 1-100 rejected | show
	assert_eq "$(wc -l < rejected)" ${#ways[@]}
	assert_eq "$(grep -cE ", container [0-9a-f]{64}: session rejected" rejected)" 2
}

# alice makes control groups with the names of pods, jobs and containers.
case_names_of_others() {
	local id=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef group
	prepare_user alice
	policy <<-END
		allow any container *
		allow any pod *
		allow any job *
		allow any cgroup /kubepods
		allow any cgroup /machine.slice
	END
	for group in "kubepods/pod0a1b/$id" "docker/$id" "slurmstepd.scope/job_7" "libpod-$id.scope" "kubepods"; do
		as_manager alice bash -c "
			own=/sys/fs/cgroup\$(sed 's/^0:://' /proc/self/cgroup)
			mkdir -p \$own/$group && echo \$BASHPID > \$own/$group/cgroup.procs || exit 7
			exec rdmabroker-ping -s -a $A -p 7420" > alice 2>&1 && fail "$group: admitted"
		assert_contains "$(cat alice)" "uid 1000 may not use the broker"
	done
	# She cannot make them where they would count.
	as_manager alice mkdir /sys/fs/cgroup/docker > alice 2>&1 && fail "alice can make control groups of root"
	assert_contains "$(cat alice)" "Permission denied"
}

case_restart_under_containers() {
	local id old
	prepare_root
	containers_policy
	container server root --user 1000 --device $RDMA=all -- rdmabroker-ping -s -a $A -p 7421 -P -v -T 3600
	await_line server "listening on"
	container client root --user 1001 --device $RDMA=all -- rdmabroker-ping -c -a $A -p 7421 -k -v -T 3600
	await_line client established
	id=$(container_id client)
	old=$(daemon_pid)
	kill -KILL "$old"
	(await "[ \$(daemon_pid) != $old ] && systemctl -q is-active rdmabrokerd")
	systemctl restart rdmabrokerd
	assert_eq "$(rdmabrokerctl list | grep -c ' established ')" 2
	assert_eq "$(list_field container "s['uid'] == 1001")" "$id"
	container second root --user 1002 --device $RDMA=all -- rdmabroker-ping -s -a $A -p 7423
	await_line second "listening on"
	ping_once bob $A -p 7423
	finish second
	end_container server
	end_container client
	# A socket that is made anew appears in the containers that run.
	container old root --user 1000 --device $RDMA=all -- sleep 3600
	(await "podman exec old ls /run/rdmabroker")
	systemctl stop rdmabrokerd.service rdmabrokerd.socket
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	podman exec --user 1000 old rdmabroker-ping -s -a $A -p 7424 > again 2>&1 &
	pid[again]=$!
	await_line again "listening on"
	ping_once bob $A -p 7424
	finish again
	end_container old
	nothing_is_left
}

# begin_old_daemon: the next daemon is the version before, with its own configuration. end_old_daemon: the next one is of this
# tree again.
begin_old_daemon() {
	cp /host/old/rdmabrokerd /run/rdmabrokerd.old
	mount --bind /run/rdmabrokerd.old /usr/sbin/rdmabrokerd
	mount --bind /host/old/rdmabrokerd.conf /etc/rdmabroker/rdmabrokerd.conf
}

end_old_daemon() {
	# The old daemon can still be running.
	umount --lazy /usr/sbin/rdmabrokerd /etc/rdmabroker/rdmabrokerd.conf
}

has_version_before() {
	[ -x /host/old/rdmabrokerd ] || skip "the version before could not be built: this tree has no history"
}

# A container can have another version of the library than the host has of the daemon.
case_other_versions() {
	has_version_before
	prepare_root
	containers_policy
	# The library before the daemon.
	container server root --user 1000 --device $RDMA=all --volume /host/old:/old:ro --env LD_LIBRARY_PATH=/old -- \
		/old/rdmabroker-ping -s -a $A -p 7425 -P
	await_line server "listening on"
	assert_contains "$(rdmabrokerctl list)" "container:$(podman inspect --format '{{.Id}}' server | cut -c 1-12) "
	ping_once bob $A -p 7425
	container client root --user 1001 --device $RDMA=all --volume /host/old:/old:ro --env LD_LIBRARY_PATH=/old -- \
		/old/rdmabroker-ping -c -a $A -p 7425
	finish client
	end_container server
	nothing_is_left
	# The daemon before the library, with its own rdmabrokerd.conf, as a package manager would install it.
	begin_old_daemon
	trap 'systemctl stop rdmabrokerd; end_old_daemon; systemctl start rdmabrokerd' EXIT
	systemctl restart rdmabrokerd
	container server root --user 1000 --device $RDMA=all -- rdmabroker-ping -s -a $A -p 7426
	await_line server "listening on"
	assert_contains "$(rdmabrokerctl list)" "container:"
	ping_once bob $A -p 7426
	finish server
}

# Upgraded and set back under a connection, which neither ends.
case_upgrade() {
	has_version_before
	policy <<-END
		allow any user alice,bob
	END
	begin_old_daemon
	trap 'systemctl stop rdmabrokerd; end_old_daemon; systemctl start rdmabrokerd' EXIT
	systemctl restart rdmabrokerd
	serve server alice $A 7427 -P
	connect client bob $A 7427
	end_old_daemon
	systemctl restart rdmabrokerd
	assert_eq "$(rdmabrokerctl list | grep -c ' established ')" 2
	begin_old_daemon
	systemctl restart rdmabrokerd
	assert_eq "$(rdmabrokerctl list | grep -c ' established ')" 2
	end_old_daemon
	trap - EXIT
	systemctl restart rdmabrokerd
	assert_eq "$(rdmabrokerctl list | grep -c ' established ')" 2
	stop client
	stop server
}

case_device_is_unplugged() {
	prepare_root
	containers_policy
	container server root --user 1000 --device $RDMA=all -- rdmabroker-ping -s -a $A -p 7422 -P -v
	await_line server "listening on"
	connect client bob $A 7422
	rdma link delete rxe0
	(await "! grep -q rxe0 /run/cdi/rdmabroker-rdma.json")
	await_line client RDMABROKER_EVENT_D
	end_container server
	wait "${pid[client]}" || true
	fabric_down
	(await "[ ! -e /run/cdi/rdmabroker-rdma.json ]")
	fails 126 podman run --rm --network none --device $RDMA=all --rootfs /srv/rootfs:O ls
	fabric_up
	(await "grep -q rxe0 /run/cdi/rdmabroker-rdma.json")
	container server root --user 1000 --device $RDMA=rxe0 -- rdmabroker-ping -s -a $A -p 7422 -P
	await_line server "listening on"
	ping_once bob $A -p 7422
	end_container server
	nothing_is_left
}

# ucx_rootfs DIR: UCX's example and modules, beside what make_rootfs() has made.
ucx_rootfs() {
	local file files=()
	cp "$(type -P ucp_client_server)" "$1/usr/bin/"
	mapfile -t files < <(ldd "$1/usr/bin/ucp_client_server" /usr/lib/*/ucx/*.so* 2> /dev/null |
		sed -nE 's/^.*=> (\/[^ ]*) .*/\1/p' | sort -u)
	for file in "${files[@]}" /usr/lib/*/ucx/*.so*; do
		file=${file#/usr}
		mkdir -p "$1/usr${file%/*}"
		cp -L "/usr$file" "$1/usr${file%/*}/"
	done
}

# UCX between two containers, by the drop-in.
case_ucx() {
	local ucx=(--env UCX_TLS=rc_verbs,self --env UCX_SOCKADDR_TLS_PRIORITY=rdmacm)
	prepare_root
	ucx_rootfs /srv/rootfs
	policy <<-END
		allow session container *
		allow device  container * access open
		allow any     container *
	END
	container server root --user 1000 --device $RDMA=all --device $DROPIN "${ucx[@]}" --env UCX_NET_DEVICES=rxe0:1 -- \
		ucp_client_server -l $A -i 20 -s 4096
	(await "rdmabrokerctl list | grep -q ' listening '")
	container client root --user 1001 --device $RDMA=all --device $DROPIN "${ucx[@]}" --env UCX_NET_DEVICES=rxe1:1 -- \
		ucp_client_server -a $A -i 20 -s 4096
	finish client || {
		cat server
		exit 1
	}
	end_container server
	nothing_is_left
}

# in_container COMMAND...: runs COMMAND as root of a container that has the node and the broker's socket.
in_container() {
	container thief root --user 0 --device $RDMA=all --volume "$share/bin:/attack:ro" -- "$@"
}

# Root of a container tries what belongs to others: queue pairs, ids, descriptors, and the daemon itself.
case_attacks_from_a_container() {
	local qpn number old
	prepare_root
	containers_policy
	container server root --user 1000 --device $RDMA=rxe0 -- rdmabroker-ping -s -a $A -p 7440 -P -v
	await_line server "listening on"
	connect client bob $A 7440
	old=$(daemon_pid)
	qpn=$(sed -n 's/.*QP number \([0-9]*\).*/\1/p' client | head -1)
	[ -n "$qpn" ] || fail "the client prints no QP number: $(cat client)"
	# bob's queue pair, and one that no process has.
	for number in "$qpn" 0xfffffe; do
		in_container rdmabroker-ping -c -a $A -p 7440 --qpn "$number"
		finish thief 3
		assert_contains "$(cat thief)" "QP"
	done
	# shellcheck disable=SC2016
	in_container bash -c 'for attack in raw fields flipped cut fds "requests 100" protocol; do
			echo "--- $attack:"
			/attack/hostile '$SOCKET' $attack
		done
		true'
	finish thief
	assert_lacks "$(cat thief)" FAILED
	assert_eq "$(sed -n 's/^\(.*\): [0-9]* trials: .* 0 failures$/\1/p' thief | xargs)" "raw fields flipped cut fds requests protocol"
	grep ' trials: ' thief | show
	assert_eq "$(daemon_pid)" "$old"
	assert_eq "$(rdmabrokerctl list | grep -c ' established ')" 2
	end_container server
	wait "${pid[client]}" || true
	nothing_is_left
}

# ---- Kubernetes ----

# The agent of conf/kubernetes in a container with the privileges that its pod has, and the units of the node.
case_kubernetes_agent() {
	local files=/usr/share/doc/rdmabroker/examples/kubernetes
	prepare_root
	add_programs /srv/rootfs sh sha256sum head tail mv rm readlink date touch tr rdmabrokerd
	cp $files/rdmabroker-policy.{path,service} /etc/systemd/system/
	systemctl daemon-reload
	systemctl start rdmabroker-policy.path
	policy <<< "allow session user alice"
	mkdir -p config /run/rdmabroker-policy
	sed -n '/^  agent.sh: |/,/^[^ ]/{ s/^    //p }' $files/policy-agent.yaml > config.sh
	assert [ -s config.sh ]
	echo "allow listen user alice port 7471" > config/60-site.k8s.rules
	container agent root --user 0 --cap-drop ALL --security-opt no-new-privileges --tmpfs /state --env PERIOD=1 \
		--volume "$PWD/config:/config:ro" --volume "$PWD/config.sh:/agent.sh:ro" \
		--volume /etc/rdmabroker/policy.d:/policy --volume /run/rdmabroker-policy:/answers:ro -- sh /agent.sh
	await_line agent "in force: 60-site.k8s.rules"
	assert_contains "$(rdmabrokerctl rules)" "60-site.k8s.rules:1"
	echo "allow lisen user alice" > config/60-site.k8s.rules
	await_line agent "did you mean"
	assert_contains "$(rdmabrokerctl rules)" "allow listen user alice port 7471"
	echo "allow listen user alice port 7472" > config/60-site.k8s.rules
	(await "rdmabrokerctl rules | grep -q 'allow listen user alice port 7472'")
	rm config/60-site.k8s.rules
	(await "! rdmabrokerctl rules | grep -q 60-site.k8s.rules")
	assert_contains "$(rdmabrokerctl rules)" "allow session user alice"
	sed 's/^/agent: /' agent | show
	end_container agent
	systemctl stop rdmabroker-policy.path
}

product_up
run_cases "$@"
