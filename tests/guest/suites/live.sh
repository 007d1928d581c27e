#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Into a live cluster: programs that use RDMA without the broker go on, and become rules.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

# suggests TEXT: TEXT is in what the kernel's ids suggest.
suggests() {
	rdmabrokerctl suggest --kernel > suggested
	grep -qF -- "$1" suggested
}

# What a program holds that does not ask the broker becomes rules.
case_suggest_by_kernel() {
	policy <<-END
		allow session user dave
	END
	trap nobody_may EXIT
	everybody_may rdma_cm 'uverbs*'
	logged-in alice rping -s -P -a $A -p 7471 > server 2>&1 &
	pid[server]=$!
	await "suggests 'listen user alice port 7471'"
	logged-in bob rping -c -a $A -p 7471 -C 1000000 > client 2>&1 &
	pid[client]=$!
	await "suggests 'connect user bob peer $A/32 port 7471'"
	await "suggests 'accept user alice peer'"
	systemd-run --quiet --uid=carol --unit=server-1 rping -s -P -a $A -p 7472
	await "suggests 'listen user carol unit server-1.service port 7472'"
	show < suggested
	assert_contains "$(cat suggested)" "by rping"
	rdmabrokerctl check suggested
	rdmabrokerctl suggest --kernel --tests > suggested.tests
	mkdir rules
	cp suggested rules/50-suggested.rules
	rdmabrokerd --check --policy-dir "$PWD/rules" --test suggested.tests
	fails 1 as bob rdmabrokerctl suggest --kernel
	assert_contains "$(cat words)" "has to be used by root"
	kill "${pid[client]}" "${pid[server]}"
	wait "${pid[client]}" "${pid[server]}" || true
	systemctl stop server-1
	nobody_may
}

# A module of the kernel that listens, here as a target of NVMe over RDMA, does not ask the broker.
case_modules_of_the_kernel() {
	local port=/sys/kernel/config/nvmet/ports/1
	modprobe nvmet-rdma
	await "[ -d /sys/kernel/config/nvmet ] || mount -t configfs none /sys/kernel/config"
	mkdir $port
	echo rdma > $port/addr_trtype
	echo ipv4 > $port/addr_adrfam
	echo $A > $port/addr_traddr
	echo 4420 > $port/addr_trsvcid
	mkdir -p /sys/kernel/config/nvmet/subsystems/test
	ln -s /sys/kernel/config/nvmet/subsystems/test $port/subsystems/test
	await "rdmabrokerctl status | grep -q \"the kernel's module nvmet_rdma holds 1: LISTEN $A:4420\""
	rdmabrokerctl status | show
	rdmabrokerctl suggest --kernel > suggested
	show < suggested
	assert_contains "$(cat suggested)" "# The kernel's module nvmet_rdma has 1 id and 0 QPs."
	assert_lacks "$(cat suggested)" "allow"
	mark_journal
	systemctl restart rdmabrokerd
	await "journal | grep -q \"The kernel's module nvmet_rdma holds connection manager ids on rxe0\""
	rm $port/subsystems/test
	rmdir $port /sys/kernel/config/nvmet/subsystems/test
	modprobe -r nvmet-rdma
}

# nodes: owner and mode of each node, as they are.
nodes() {
	stat -c '%n %U %a' /dev/infiniband/rdma_cm /dev/infiniband/uverbs*
}

# Programs without the broker go on while the nodes are open, and are counted; those with it never notice.
case_nodes_open_and_closed() {
	local closed stranger
	policy <<-END
		allow any user alice,bob
	END
	closed=$(nodes)
	fails 1 as bob rdmabrokerctl nodes open
	assert_eq "$(nodes)" "$closed"
	serve server alice $A 7471
	connect client bob $A 7471
	serve others alice $A 7472 -P

	rdmabrokerctl nodes open | show
	nodes | show
	assert_eq "$(nodes | grep -c 'root 666')" 3
	assert_lacks "$(getfacl -pn /dev/infiniband/uverbs*)" "user:1000"
	rdmabrokerctl status | show
	assert_contains "$(rdmabrokerctl status)" "the device nodes are open"
	as carol rping -s -P -a $A -p 7490 > rping 2>&1 &
	await "rdma resource show cm_id link rxe0 | grep -q 'state LISTEN.*:7490'"
	stranger=$(rdma resource show cm_id link rxe0 | sed -n "s/.*LISTEN.* pid \([0-9]*\) .*:7490.*/\1/p")
	rdmabrokerctl nodes status | show
	assert_contains "$(rdmabrokerctl nodes status | tr -s ' ')" "rping $stranger carol"
	# Clients of the broker have QPs, but are not without the broker.
	assert_lacks "$(rdmabrokerctl nodes status)" "rdmabroker-ping"
	rdmabrokerctl --json nodes status | python3 -c '
import json, sys
status = json.load(sys.stdin)
assert status["open"] and status["knows_clients"]
assert [(h["name"], h["ids"]) for h in status["without_broker"]] == [("rping", 1)]
assert [n["mode"] for n in status["nodes"]] == ["0666"] * 3'
	mark_journal
	systemctl restart rdmabrokerd
	await "journal | grep -q 'uverbs1 is open, as /etc/udev/rules.d/89-rdmabroker-open.rules says'"
	assert_lacks "$(journal)" "has owner"
	ping_once bob $A -p 7472
	# Who does without the broker would be refused, so closing needs a yes.
	await "rdmabrokerctl nodes status --since 1d | grep -q '^rping .*ids'"
	assert_lacks "$(rdmabrokerctl nodes status --since 1d)" "rdmabroker-ping"
	fails 1 rdmabrokerctl nodes close
	assert_eq "$(nodes | grep -c 'root 666')" 3
	rdmabrokerctl nodes close --yes | show
	assert_eq "$(nodes)" "$closed"
	await "getfacl -pn /dev/infiniband/uverbs0 | grep -q user:1000:rw"
	await "getfacl -pn /dev/infiniband/uverbs1 | grep -q user:1001:rw"
	fails 22 as carol rping -c -a $A -p 7490 -C 1
	assert_contains "$(rdmabrokerctl nodes status | tr -s ' ')" "rping $stranger carol"
	ping_once bob $A -p 7472
	kill "$stranger"
	stop client
	finish server
	stop others
	await "! getfacl -pn /dev/infiniband/uverbs* | grep -q user:100"

	# The node of a new device is open, too.
	rdmabrokerctl nodes open
	rdma link del rxe1
	await "! rdmabrokerctl status | grep -q rxe1"
	fabric_up
	await "rdmabrokerctl status | grep -q rxe1"
	assert_eq "$(nodes | grep -c 'root 666')" 3
	rdmabrokerctl nodes close --yes
	assert_eq "$(nodes)" "$closed"
}

# programs_run: a server of alice's and a client of bob's run, with no word before them.
programs_run() {
	as alice ucmatose -b $A -p 7480 > server 2>&1 &
	pid[server]=$!
	await "rdma resource show cm_id | grep -q 'state LISTEN.*:7480'"
	as bob timeout --foreground $patience ucmatose -s $A -p 7480
	finish server
}

# Without the broker, nobody but root can open the nodes: alice's program gets that far, with librdmacm itself.
librdmacm_itself() {
	fails 1 as alice timeout --foreground $patience ucmatose -b $A -p 7480
	assert_contains "$(cat words)" "failed to create RDMA CM event channel: Permission denied"
}

case_dropin_by_default() {
	local folder dropin
	policy <<-END
		allow any user alice,bob
	END
	dropin=$(echo /usr/lib/*/rdmabroker/librdmabroker-rdmacm.so)
	folder=${dropin%/*}/default
	librdmacm_itself
	fails 1 as bob rdmabrokerctl dropin enable
	rdmabrokerctl dropin status | show
	rdmabrokerctl dropin enable | show
	rdmabrokerctl dropin status | show
	assert_contains "$(as bob rdmabrokerctl dropin status)" "default: $folder/librdmacm.so.1"
	programs_run

	# Devices that programs open by libibverbs, and not by librdmacm.
	serve_devices ib_send_lat -d rxe0 -x 1 -n 20

	# A program that only prints its help asks nobody. The broker is away, so a program that asks says so.
	as alice env RDMABROKER_SOCKET=/run/none RDMABROKER_DEBUG=1 rping -h > words 2>&1 || true
	assert_contains "$(cat words)" "rping -s"
	assert_lacks "$(cat words)" "rdmabroker"
	as alice env RDMABROKER_SOCKET=/run/none timeout --foreground $patience ucmatose -b $A > words 2>&1 || true
	assert_contains "$(cat words)" "check that rdmabrokerd is running"
	assert_lacks "$(cat words)" "RDMABROKER_FALLBACK"
	trap nobody_may EXIT
	everybody_may rdma_cm
	fails 1 as alice env RDMABROKER_SOCKET=/run/none RDMABROKER_FALLBACK=none \
		timeout --foreground $patience ucmatose -b $A
	assert_contains "$(cat words)" "RDMABROKER_FALLBACK=direct lets this program use RDMA without it"
	# Where the nodes are open, a program goes on by itself: the server waits for its client.
	fails 124 as alice env RDMABROKER_SOCKET=/run/none RDMABROKER_DEBUG=1 timeout --foreground 5 ucmatose -b $A
	assert_contains "$(cat words)" "using librdmacm itself instead"
	nobody_may

	# The daemon has librdmacm itself. With the drop-in it does not start.
	systemctl restart rdmabrokerd
	assert_lacks "$(cat "/proc/$(daemon_pid)/maps")" librdmabroker-rdmacm
	assert_contains "$(cat "/proc/$(daemon_pid)/maps")" librdmacm.so.1
	fails 78 env "LD_LIBRARY_PATH=$folder" rdmabrokerd
	assert_contains "$(cat words)" "it has got the drop-in in place of librdmacm"

	# A program that runs with the privileges of another user follows, too: carol may not use the broker.
	install -m 4755 -o carol "$(command -v ucmatose)" /usr/local/bin/ucmatose-of-carol
	fails 1 as alice timeout --foreground $patience ucmatose-of-carol -b $A -p 7480
	assert_contains "$(cat words)" "uid 1002 may not use the broker: no-rule"
	rm /usr/local/bin/ucmatose-of-carol

	# What a removal leaves that is interrupted: ld.so's cache names a file that is gone.
	mv "$dropin" "$dropin.away"
	librdmacm_itself
	mv "$dropin.away" "$dropin"
	programs_run
	# A drop-in that cannot be loaded is not put in force.
	rdmabrokerctl dropin disable | show
	librdmacm_itself
	cp "$dropin" "$dropin.good"
	echo "no library" > "$dropin.bad"
	mv "$dropin.bad" "$dropin"
	fails 1 rdmabrokerctl dropin enable
	assert_contains "$(cat words)" "cannot load the drop-in, so nothing was changed"
	mv "$dropin.good" "$dropin"
	librdmacm_itself
	[ ! -e /etc/ld.so.conf.d/00-rdmabroker.conf ] || fail "the file is left"
}

# serve_devices PROGRAM...: a program of perftest connects over TCP, and opens its device by libibverbs.
serve_devices() {
	as alice "$@" > server 2>&1 &
	pid[server]=$!
	await "ss -ltn | grep -q :18515"
	as bob timeout --foreground $patience "$@" $A
	finish server
}

product_up
run_cases "$@"
