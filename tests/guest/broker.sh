# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-2-Clause
# For suites that test the installed broker: its policy, its journal, and rdmabroker-ping on both sides.

A=10.9.0.1 # rxe0
B=10.9.0.2 # rxe1
A6=fd09::1
B6=fd09::2
SOCKET=/run/rdmabroker/rdmabroker.sock
RULES=/etc/rdmabroker/policy.d/50-test.rules

# ---- the daemon ----

daemon_pid() {
	systemctl show --property=MainPID --value rdmabrokerd
}

# long_watchdog: restarts the daemon with a watchdog of an hour, for a case that stops the daemon or systemd. A slow machine
# can take longer than the 30 s after which systemd would kill it. usual_watchdog undoes that.
long_watchdog() {
	mkdir -p /run/systemd/system/rdmabrokerd.service.d
	printf '[Service]\nWatchdogSec=1h\n' > $WATCHDOG
	systemctl daemon-reload
	systemctl restart rdmabrokerd
}

usual_watchdog() {
	rm -f $WATCHDOG
	systemctl daemon-reload
}

WATCHDOG=/run/systemd/system/rdmabrokerd.service.d/70-watchdog.conf

# The mark is the daemon's last entry: with the cursor of an entry that does not match, journalctl would skip the first
# entry that matches. Without an entry of the daemon, it is the last one of all.
mark_journal() {
	journal_mark=$(journalctl -u rdmabrokerd -n 0 --show-cursor | sed -n 's/^-- cursor: //p')
	[ -n "$journal_mark" ] || journal_mark=$(journalctl -n 0 --show-cursor | sed -n 's/^-- cursor: //p')
}

journal() {
	journalctl -u rdmabrokerd -o cat --after-cursor="$journal_mark"
}

# close_doors: stops the daemon, and systemd does not make its sockets for administration and for the helper, as before they
# came with an upgrade. open_doors ends that.
close_doors() {
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	systemctl mask --runtime rdmabrokerd-admin.socket rdmabrokerd-helper.socket
}

open_doors() {
	systemctl unmask --runtime rdmabrokerd-admin.socket rdmabrokerd-helper.socket
}

# policy: stdin becomes the policy, and is in force when this returns.
policy() {
	rm -f /etc/rdmabroker/policy.d/*.rules
	cat > "$RULES"
	chmod 644 "$RULES"
	if systemctl -q is-active rdmabrokerd; then
		reload "policy reloaded"
	else
		systemctl start rdmabrokerd
	fi
}

# reload EXPECTED: reloads, and waits until the journal contains EXPECTED.
reload() {
	mark_journal
	systemctl reload rdmabrokerd
	await "journal | grep -qF '$1'"
}

# refused_reload EXPECTED: the reload must fail, and the journal must contain EXPECTED.
refused_reload() {
	mark_journal
	assert_fails_with 1 systemctl reload rdmabrokerd
	await "journal | grep -qF '$1'"
	assert_eq "$(systemctl is-active rdmabrokerd)" active
}

users_policy() {
	policy <<-END
		allow session user alice,bob,dave
		allow device  user alice,bob,dave
		allow listen  user alice,dave port 7400-7499
		allow accept  user alice,dave port 7400-7499
		allow connect user alice,bob,dave
	END
}

# status_field EXPRESSION: prints an element of the daemon's status, such as ['sessions'].
status_field() {
	rdmabrokerctl --json status |
		python3 -c "import json, sys; print(json.load(sys.stdin)$1)"
}

count_open_files() {
	find "/proc/$(daemon_pid)/fd" -type l | wc -l
}

# open_files: prints what the daemon has open, a line for each kind: "2 socket netlink".
open_files() {
	find "/proc/$(daemon_pid)/fd" -type l -printf '%l\n' | awk '
		BEGIN {
			while ((getline < "/proc/net/unix") > 0) kind[$7] = "unix"
			while ((getline < "/proc/net/netlink") > 0) kind[$10] = "netlink, protocol " $2
		}
		match($0, /^socket:\[/) {
			inode = substr($0, RLENGTH + 1) + 0
			$0 = "socket " (inode in kind ? kind[inode] : "of another kind")
		}
		{ n[$0]++ }
		END { for (name in n) print n[name], name }' | sort -k 2
}

# counted_holdings: prints the daemon's counters and its number of open files. "fds" counts the socket and the pidfd
# of the client that requests the status. It can also count that client's proof until a thread closes it: repeat the
# request until exactly two descriptors fewer are open after the client's end than were counted.
counted_holdings() {
	local counted files
	for _ in {1..50}; do
		counted=$(rdmabrokerctl --json status | python3 -c '
import json, sys
status = json.load(sys.stdin)
for name in "sessions", "listeners", "connections", "ids", "leases", "fds":
	print(name, status[name])')
		for _ in {1..200}; do
			files=$(count_open_files)
			[ "$files" -gt $((${counted##* } - 2)) ] || break
		done
		[ "$files" -ne $((${counted##* } - 2)) ] || break
	done
	echo "$counted"
	echo "open files $files"
}

# holdings: the values that must be the same before a client begins and after it has ended
holdings() {
	counted_holdings
	getfacl -pn /dev/infiniband/uverbs*
}

# everybody_may NODE...: opens the nodes to everybody, as the kernel does until udev restricts them.
everybody_may() {
	local node
	mkdir -p /run/udev/rules.d
	for node in "$@"; do
		echo "KERNEL==\"$node\", OWNER=\"root\", MODE=\"0666\""
	done > /run/udev/rules.d/95-test.rules
	udevadm control --reload
	udevadm trigger --settle --subsystem-match=misc --subsystem-match=infiniband_verbs
}

nobody_may() {
	rm -f /run/udev/rules.d/95-test.rules
	udevadm control --reload
	udevadm trigger --settle --subsystem-match=misc --subsystem-match=infiniband_verbs
}

# ---- an instance of the daemon in another network namespace ----

BLUE=/run/rdmabroker@blue/rdmabroker.sock

# blue_up: the namespace blue, with the address 10.10.0.2, and an instance of the daemon for it.
blue_up() {
	ip netns add blue
	trap blue_down EXIT
	ip link add veth-blue type veth peer name veth0 netns blue
	ip addr add 10.10.0.1/24 dev veth-blue
	ip link set veth-blue up
	ip -n blue addr add 10.10.0.2/24 dev veth0
	ip -n blue link set veth0 up
	ip -n blue link set lo up
	systemctl start rdmabrokerd@blue
}

blue_down() {
	systemctl stop rdmabrokerd@blue.service rdmabrokerd@blue.socket
	rm -rf /etc/rdmabroker/rdmabrokerd@blue.conf /etc/rdmabroker/blue
	ip link delete veth-blue
	ip netns delete blue
}

# ---- the programs ----

declare -A pid # process ids of programs in the background, by NAME; their output is in the file NAME

# serve NAME USER ADDR PORT [OPTION...]: starts a server in the background, and waits until it listens.
serve() {
	local name=$1 user=$2 addr=$3 port=$4
	shift 4
	: > "$name" # removes the output of an earlier program of this name
	as "$user" rdmabroker-ping -s -a "$addr" -p "$port" -v -T $patience "$@" > "$name" 2>&1 &
	pid[$name]=$!
	await_line "$name" "listening on"
}

# connect NAME USER ADDR PORT [OPTION...]: starts a client in the background, and waits until it is connected. The
# client makes rounds until it is stopped.
connect() {
	local name=$1 user=$2 addr=$3 port=$4
	shift 4
	: > "$name"
	as "$user" rdmabroker-ping -c -a "$addr" -p "$port" -v -k -T $patience "$@" > "$name" 2>&1 &
	pid[$name]=$!
	await_line "$name" "QP number"
	await_line "$name" "established"
}

# await_line FILE TEXT [COUNT]: waits until at least COUNT (1) lines of FILE contain TEXT.
await_line() {
	(await "[ \$(grep -cF -- '$2' $1) -ge ${3:-1} ]") || {
		cat "$1"
		exit 1
	}
}

# finish NAME [STATUS]: waits for the program's end. Its exit status must be STATUS (0). See rping_raced().
finish() {
	local status=0
	wait "${pid[$1]}" || status=$?
	echo "--- $1:"
	cat "$1"
	[ "${2:-0}" != 0 ] || ! rping_raced $status "$1" || status=0
	assert_eq "$1 ended with $status" "$1 ended with ${2:-0}"
}

stop() {
	kill "${pid[$1]}"
	finish "$1"
}

# capture DEVICE: records the headers of the RoCE packets on DEVICE, until "stop capture". The buffer has room for few whole
# packets, and what does not fit is lost.
capture() {
	tcpdump -Z root -U --immediate-mode -s 128 -ni "$1" -w packets.pcap udp dst port 4791 \
		> capture 2>&1 &
	pid[capture]=$!
	await_line capture "listening on"
}

# packets FILTER: prints the number of recorded packets that match FILTER.
packets() {
	tcpdump -nr packets.pcap "$*" 2> capture.log | wc -l
}

TO_CM='udp[12:4] & 0xffffff = 1' # to QP 1, which gets the connection manager's messages
TO_QP='udp[12:4] & 0xffffff != 1'
AF31='ip[1] & 0xfc = 0x68'

# fails STATUS COMMAND...: COMMAND must end with STATUS. Its output is in the file words.
fails() {
	local expected=$1 status=0
	shift
	"$@" > words 2>&1 || status=$?
	echo "--- $*:"
	cat words
	assert_eq "status $status" "status $expected"
}

ping_once() {
	local user=$1 addr=$2
	shift 2
	as "$user" rdmabroker-ping -c -a "$addr" -T $patience "$@"
}

# has_asan: the daemon has AddressSanitizer, which keeps freed memory, so the daemon's growth cannot be judged.
has_asan() {
	ldd /usr/sbin/rdmabrokerd | grep -q libasan
}

qp_number() {
	sed -n 's/^QP number \([0-9]*\) .*/\1/p' "$1"
}

# fetch_metrics ADDRESS: prints the exporter's metrics. ADDRESS: a port of this host, or the path of a socket.
fetch_metrics() {
	python3 -c '
import http.client, socket, sys
connection = http.client.HTTPConnection("127.0.0.1", timeout=180)
if sys.argv[1].startswith("/"):
	connection.sock = socket.socket(socket.AF_UNIX)
	connection.sock.connect(sys.argv[1])
else:
	connection.port = int(sys.argv[1])
connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
response = connection.getresponse()
assert response.status == 200, response.status
kind = response.getheader("Content-Type")
assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8", kind
sys.stdout.buffer.write(response.read())' "$1"
}

# exporter_says LINE: LINE is in the exporter's metrics, in the older format. Python would take seconds to start here.
exporter_says() (
	exec 9<> /dev/tcp/127.0.0.1/9471
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&9
	grep -qxF -- "$1" <&9
)
