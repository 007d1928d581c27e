# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Functions that suites share. A suite runs as root in the guest, and begins with:
#
#     . "$(dirname "$0")/../lib.sh"
#
# A suite of cases ends with `run_cases "$@"`. The command `as USER COMMAND...` is bin/as.

share=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
PATH=$share/bin:$PATH:/usr/sbin:/sbin

# shellcheck source=sanitizers.sh
. "$share/sanitizers.sh"

# A clock that counts instructions jumps to the next deadline while the guest waits for the host's disk, so systemctl would
# give up at once. A case has a limit of its own.
export SYSTEMD_BUS_TIMEOUT=3600

# ---- waiting and asserting ----

# A wait ends when what is awaited happens. Its limit only ends a hang, so that the case says what did not happen: it is
# minutes, for a machine that is slow or has other work. See tests/patience.h for the programs.
patience=180 # seconds
slower=1 # factor for the limits; higher for a product with sanitizers

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# show: prints stdin with the case's result, even if the case passes.
show() {
	tee -a "$case_dir/.show"
}

# skip REASON: ends a case that cannot run here.
skip() {
	echo "$*" > "$case_dir/.skip"
	exit 77
}

# progress TEXT: with PROGRESS=1, a line that says how far a long case has come.
progress() {
	[ -z "${PROGRESS-}" ] || echo "# now $*" >&3
}

# run_by_name CASE: skips CASE, which takes very long, unless it was named to run_cases.
run_by_name() {
	[[ " $requested " == *" $1 "* ]] || skip "it takes very long, so it is run only by its name: CASES=$1"
}

# await CONDITION [SECONDS]: waits until the shell command CONDITION succeeds. Fails after SECONDS ($patience), which are
# more only where the kernel needs minutes. Use it only if no event can be awaited.
await() {
	local condition=$1 seconds=$((${2:-$patience} * slower))
	local deadline=$((${EPOCHREALTIME/./} + seconds * 1000000))

	until eval "$condition" > /dev/null 2>&1; do
		[ "${EPOCHREALTIME/./}" -lt $deadline ] ||
			fail "waited $seconds s for: $condition"
		sleep 0.05
	done
}

assert() {
	"$@" || fail "$* (status $?)"
}

assert_eq() {
	[ "$1" = "$2" ] || fail "got '$1' instead of '$2'"
}

assert_contains() {
	[[ $1 == *"$2"* ]] || fail "no '$2' in: $1"
}

assert_lacks() {
	[[ $1 != *"$2"* ]] || fail "'$2' should not be in: $1"
}

assert_fails_with() {
	local expected=$1 status=0
	shift

	"$@" || status=$?
	[ $status = "$expected" ] || fail "$*: status $status instead of $expected"
}

# ---- rping ----

# rping_raced STATUS FILE: whether rping ended with STATUS and the output FILE only because of a race between its own
# threads, after it had done its work. In rdma-core before version 59, main() destroys the event channel while the
# other thread may be about to read the next event. The thread then gets EBADF, and calls exit(-1). Any other message
# is a failure. The data of the option -v can come last, because stdout is written at the end.
rping_raced() {
	local end="rdma_get_cm_event: Bad file descriptor"

	[ "$1" = 255 ] || return 1
	case $(grep -vE '^(server )?ping data: rdma-ping-[0-9]+: ' "$2") in
	"client DISCONNECT EVENT..."$'\n'"$end") ;;
	"server DISCONNECT EVENT..."$'\n'"wait for RDMA_READ_ADV state 10"$'\n'"$end") ;;
	*) return 1 ;;
	esac
	echo "rping ended with 255 after its work was done: its threads race when it destroys its event channel" |
		tee -a "$case_dir/.show"
}

# cmtime_raced STATUS LOG: whether cmtime's server ended with STATUS only because of a race between its own threads: one
# of them signals that there is a request only after another one has taken it. The other one then takes a request from
# the empty list, whose id is NULL, and the kernel's LOG has a fault at a small address.
cmtime_raced() {
	[ "$1" = 139 ] && grep -qE '(^|[] ])cmtime\[[0-9]+\]: segfault at [0-9a-f]{1,3} ip ' "$2" || return 1
	echo "cmtime's server crashed: its threads race when it gets a request" | tee -a "$case_dir/.show"
}

# perftest_raced FILE: whether perftest's client, whose output is FILE, was rejected because its server had no listener at that
# moment: both connect twice, and the client does not wait until the server listens again. Then the client crashes.
perftest_raced() {
	grep -q "REJECTED; error: 8" "$1"
}

# run_rping COMMAND...: runs COMMAND, which can be rping, and prints its output. It must succeed.
run_rping() {
	local status=0

	"$@" > rping.log 2>&1 || status=$?
	cat rping.log
	[ $status = 0 ] || rping_raced $status rping.log || fail "$*: status $status"
}

# ---- the fabric ----
#
# Two Soft-RoCE devices at the ends of a veth pair:
#
#     10.9.0.1 fd09::1  rxe0  d0 ------ d1  rxe1  10.9.0.2 fd09::2
#
# By default the kernel passes packets between two of its own addresses over lo. Here, routes come before the table of
# local addresses: a packet from 10.9.0.2 to 10.9.0.1 is sent by d1, where tcpdump can see it. A packet passes over lo
# only if its sender is bound to the device with the destination address.
#
# FABRIC=iwarp: the devices have the same names, but are of software iWARP, over TCP.

fabric=${FABRIC:-roce}

fabric_sysctls() {
	local dev=$1

	# Accept packets from addresses of this host. Only the device with an address replies to ARP requests for it.
	sysctl -q -w "net.ipv4.conf.$dev.accept_local=1" "net.ipv4.conf.$dev.rp_filter=0" \
		"net.ipv4.conf.$dev.arp_ignore=1"
}

fabric_device() {
	local rxe=$1 dev=$2 number=$3
	local gids=/sys/class/infiniband/$rxe/ports/1/gids

	ip address replace "10.9.0.$number/24" dev "$dev"
	ip address replace "fd09::$number/64" dev "$dev" nodad
	if [ "$fabric" = iwarp ]; then
		[ -e "/sys/class/infiniband/$rxe" ] || rdma link add "$rxe" type siw netdev "$dev"
	else
		[ -e "/sys/class/infiniband/$rxe" ] || rdma link add "$rxe" type rxe netdev "$dev"
		await "grep -q ffff:0a09:000$number $gids/*"
		await "grep -q fd09:.*:000$number $gids/*"
	fi
	await "rdma link show $rxe/1 | grep -q 'state ACTIVE'"
}

fabric_neighbour() {
	local dev=$1 peer=$2 address
	shift 2

	for address in "$@"; do
		ip neigh replace "$address" dev "$dev" nud permanent \
			lladdr "$(cat "/sys/class/net/$peer/address")"
	done
}

fabric_routes() {
	local family

	ip route replace 10.9.0.1 dev d1 src 10.9.0.2 table 9
	ip route replace 10.9.0.2 dev d0 src 10.9.0.1 table 9
	ip -6 route replace fd09::1 dev d1 src fd09::2 table 9
	ip -6 route replace fd09::2 dev d0 src fd09::1 table 9

	# A neighbour's reply can come before rdma_resolve_addr() waits for it, and the kernel would look again only
	# at the timeout. So the neighbours are permanent.
	fabric_neighbour d1 d0 10.9.0.1 fd09::1
	fabric_neighbour d0 d1 10.9.0.2 fd09::2

	for family in -4 -6; do
		! ip $family rule show pref 9 | grep -q . || continue
		# The first rule is for sent packets. The next two are for the check of a received packet's source.
		# The table of local addresses comes after these.
		ip $family rule add pref 9 iif lo lookup 9
		ip $family rule add pref 9 oif d0 lookup 9
		ip $family rule add pref 9 oif d1 lookup 9
		ip $family rule add pref 10 lookup local
		ip $family rule del pref 0
	done
}

# The kernel removes the routes of table 9 with their devices.
fabric_unroute() {
	local family

	for family in -4 -6; do
		ip $family rule show pref 9 | grep -q . || continue
		ip $family rule add pref 0 lookup local
		ip $family rule del pref 10
		while ip $family rule del pref 9 2> /dev/null; do :; done
	done
}

# Software iWARP is built for this guest's kernel, because Debian's kernel does not have it.
fabric_iwarp() {
	[ -e /sys/module/siw ] && return
	modprobe -a ib_uverbs iw_cm libcrc32c
	insmod "$share/modules/siw.ko"
}

fabric_up() {
	if [ "$fabric" = iwarp ]; then
		fabric_iwarp
		modprobe rdma_ucm
	else
		modprobe -a rdma_rxe rdma_ucm
	fi

	if [ ! -e /sys/class/net/d0 ]; then
		ip link add d0 type veth peer name d1
		sysctl -q -w net.ipv4.conf.all.rp_filter=0
		fabric_sysctls d0
		fabric_sysctls d1
		ip link set d0 up
		ip link set d1 up
	fi
	fabric_device rxe0 d0 1
	fabric_device rxe1 d1 2

	fabric_routes

	# udev sets the owners of the device nodes.
	udevadm settle
	assert test -c /dev/infiniband/rdma_cm
	assert test -c /dev/infiniband/uverbs0
}

# Waits until all programs have closed the devices.
fabric_down() {
	local rxe

	for rxe in rxe0 rxe1; do
		[ ! -e "/sys/class/infiniband/$rxe" ] || rdma link del $rxe
	done
	[ ! -e /sys/class/net/d0 ] || ip link del d0
	fabric_unroute
	udevadm settle
}

# ---- the product ----

# PRODUCT=debs: installs the packages. Otherwise installs the files of `make install`, creates users, and reloads
# systemd and udev, as a package does, but does not start the daemon.
install_product() {
	if [ "${PRODUCT:-dest}" = debs ]; then
		dpkg -i "$share"/debs/*.deb > /run/dpkg.log 2>&1 ||
			fail "dpkg: $(cat /run/dpkg.log)"
		return
	fi
	tar -C "$share/dest" --owner=0 --group=0 -c . |
		tar -C / -x --keep-directory-symlink --no-overwrite-dir
	# What was built on a newer release of Debian does not start in the guest.
	rdmabrokerd --version > /run/version.log 2>&1 || fail "rdmabrokerd does not start here: $(cat /run/version.log)"
	ldconfig
	systemd-sysusers
	systemd-tmpfiles --create
	systemctl daemon-reload
	udevadm control --reload
	udevadm trigger --settle --subsystem-match=misc --subsystem-match='infiniband*'
	! sanitized || sanitizers_begin
}

# product_up: makes the fabric, and installs the product. tests/guest/run looks for the calls of it, and begins their
# suites in a guest in which suites/product.sh has done it.
product_up() {
	if [ ! -e /run/product-is-up ]; then
		fabric_up
		install_product
		touch /run/product-is-up
	elif sanitized; then
		sanitizers_begin
	fi
}

# ---- cases ----

# The limit of a case, which can have many waits. It is more than that of a program, PATIENCE_PROGRAM_S.
case_seconds=${case_seconds:-1200}

# Prints the names of the case_* functions except case_sanitizers, in the order of their definitions.
list_cases() {
	local name

	shopt -s extdebug
	for name in $(compgen -A function case_); do
		declare -F "$name"
	done | sort -s -k3,3 -k2,2n | cut -d' ' -f1 | grep -vx case_sanitizers
	shopt -u extdebug
}

# A case ends at its first failure or its timeout, and its background programs end with it. The result is in
# case_status: set -e has no effect in a function whose exit status is tested.
run_case() {
	local case_pid watch_pid seconds=$((case_seconds * slower))

	case_dir=$(mktemp -d)
	chmod 755 "$case_dir"
	! sanitized || journal_began=$(journal_cursor)
	set -m
	(
		set -eE -o pipefail
		trap 'echo "FAILED: line $LINENO: $BASH_COMMAND (status $?)" >&2' ERR
		cd "$case_dir"
		"$1"
	) > "$case_dir/.log" 2>&1 < /dev/null &
	case_pid=$!
	(sleep "$seconds" && touch "$case_dir/.late" && kill -KILL -- -$case_pid) &
	watch_pid=$!
	set +m

	{
		wait $case_pid
		case_status=$?
		kill -KILL -- -$watch_pid -$case_pid
		wait $watch_pid
	} 2> /dev/null
	if [ -e "$case_dir/.late" ]; then
		echo "FAILED: not done within $seconds s" >> "$case_dir/.log"
	elif [ $case_status -gt 128 ]; then
		# A command whose status is not tested, or a signal to the shell, which says nothing about it.
		echo "FAILED: status $case_status; the kernel says: $(dmesg | tail -n 5)" >> "$case_dir/.log"
	fi
	[ "$1" != case_sanitizers ] || return 0
	if sanitized && sanitizer_reports "$journal_began" "$case_dir" > /run/sanitizers.found; then
		echo "FAILED: a sanitizer's report" | cat - /run/sanitizers.found >> "$case_dir/.log"
		rm -f "$case_dir/.skip"
		case_status=1
	fi
}

# expand PATTERN...: prints the cases that match, in the order of list_cases for each PATTERN. A PATTERN without a case
# is an error.
expand() {
	local pattern name found

	for pattern in "$@"; do
		found=false
		while read -r name; do
			# shellcheck disable=SC2053
			[[ ${name#case_} == ${pattern#case_} ]] || continue
			found=true
			echo "$name"
		done < <(list_cases)
		$found || fail "no such case: $pattern"
	done
}

# run_cases [PATTERN...] | --except PATTERN...: runs all cases, those that match, or those that do not. tests/steps lists
# which share of the tests runs which. case_sanitizers runs last, if the product has sanitizers. PROGRESS=1: prints each
# name before its case runs. Must not be called where its exit status is tested, as in `run_cases || ...`: bash would
# ignore set -e in the cases.
run_cases() {
	local goes_on

	goes_on=$( (set -e; false; echo yes); true)
	[ -z "$goes_on" ] || fail "run_cases is called where bash ignores set -e"
	[ -z "${PROGRESS-}" ] || exec 3>&1
	local name names=() number=0 passed=0 failed=0 start tenths took

	requested=
	case ${1-} in
	'') names=$(list_cases) ;;
	--except) names=$(expand "${@:2}") && names=$(list_cases | grep -vxF -- "$names") ;;
	*)
		requested=$*
		names=$(expand "$@") ;;
	esac || exit
	mapfile -t names <<< "$names"
	! sanitized || names+=(case_sanitizers)

	for name in "${names[@]}"; do
		number=$((number + 1))
		[ -z "${PROGRESS-}" ] || echo "# now ${name#case_}"
		start=${EPOCHREALTIME/./}
		run_case "$name"
		tenths=$(((${EPOCHREALTIME/./} - start) / 100000))
		took="$((tenths / 10)).$((tenths % 10)) s"

		if [ $case_status = 0 ]; then
			passed=$((passed + 1))
			echo "ok $number - ${name#case_} ($took)"
			[ ! -s "$case_dir/.show" ] || sed 's/^/    /' "$case_dir/.show"
		elif [ -e "$case_dir/.skip" ]; then
			echo "ok $number - ${name#case_} # SKIP $(cat "$case_dir/.skip")"
		else
			failed=$((failed + 1))
			echo "not ok $number - ${name#case_} ($took)"
			sed 's/^/    /' "$case_dir/.log"
		fi
		rm -rf "$case_dir"
	done

	echo "$passed passed, $failed failed"
	[ $failed = 0 ]
}
