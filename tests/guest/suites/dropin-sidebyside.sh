#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# librdmacm and the drop-in side by side: each script of the program sidebyside is run twice by its librdmacm
# half, as root with librdmacm and as alice with what takes its place; what the two tell is to be the same.
#
# The cases are the scripts, but for the one during which a device is removed.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

start_broker() {
	rm -f /etc/rdmabroker/policy.d/*.rules
	cat > /etc/rdmabroker/policy.d/50-test.rules <<-END
		allow connect group rdma reuseaddr client
		allow any     group rdma
	END
	systemctl restart rdmabrokerd
}

# Where the two differ by design: what makes them the same, by script.
declare -A by_design=(
	# With the drop-in, an id with REUSEADDR can only connect.
	[reuseaddr-listen]='s/^(listen (listener|other)): .*/\1: ?/'
	[reuseaddr-listen-shared]='s/^(listen (listener|other)): .*/\1: ?/'
	# With the drop-in, the request already contains what the QP needs. librdmacm asks the kernel again, and
	# only then finds that the request is gone.
	[accept-peer-gone]='s/^(create-qp passive): .*/\1: ?/'
	# With the drop-in, a request that nobody has taken is kept or rejected, not moved.
	[migrate-with-events]='s/^(quiet active): .*/\1: ?/'
	# With the drop-in, an id joins a group only once.
	[join-twice]='s/^(join active group|quiet active): .*/\1: ?/'
	# errno 524 is the kernel's ENOTSUPP.
	[join-ipv6]='s/: errno 524$/: EOPNOTSUPP/'
)

# told WAY SCRIPT COMMAND...
told() {
	local way=$1 script=$2
	shift 2
	"$@" direct "$script" > "$way.all" 2> "$way.errors" || echo "ended with status $?" >> "$way.all"
	sed -E "${by_design[$script]:-}" "$way.all" > "$way"
}

side_by_side() {
	told librdmacm "$1" sidebyside
	told dropin "$1" as alice rdmabrokerctl run -- sidebyside
	if ! diff -U 1000 librdmacm dropin || grep -q '^ended with' librdmacm; then
		cat librdmacm.errors dropin.errors
		fail "the two differ, or did not end well"
	fi
}

fabric_up
install_product
start_broker

for script in $(sidebyside list); do
	eval "case_$script() { side_by_side $script; }"
done
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(sidebyside list | grep -vx device-removal)
run_cases "$@"
