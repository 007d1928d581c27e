#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# librdmacm and the drop-in side by side. Each case is a script, which the program sidebyside runs as root with
# librdmacm, and as alice with the drop-in. Both outputs must be the same.

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

# Intended differences, by script: sed commands that make both outputs the same.
declare -A by_design=(
	# librdmacm queries the QP's attributes, and finds that the request has ended. The drop-in gets the attributes
	# with the request. It does not wait for the broker's reply to an accept, so a failure comes as an event.
	[accept-peer-gone]='s/^(create-qp passive|accept passive|quiet passive): .*/\1: ?/'
	# The drop-in does not wait for the reply to resolve_addr: the failure comes as ADDR_ERROR.
	[resolve-unroutable]='s/^(resolve-addr active nowhere|quiet active): .*/\1: ?/'
	# The drop-in keeps or rejects a request that nobody has taken; it does not move the request.
	[migrate-with-events]='s/^(quiet active): .*/\1: ?/'
	# With the drop-in, an id joins a group only once.
	[join-twice]='s/^(join active group|quiet active): .*/\1: ?/'
	# 524 is the kernel's ENOTSUPP.
	[join-ipv6]='s/: errno 524$/: EOPNOTSUPP/'
)

# told WAY SCRIPT COMMAND...: runs SCRIPT by COMMAND. Its output, without intended differences, is in the file WAY.
told() {
	local way=$1 script=$2
	shift 2
	"$@" "$script" > "$way.all" 2> "$way.errors" || echo "ended with status $?" >> "$way.all"
	sed -E "${by_design[$script]:-}" "$way.all" > "$way"
}

side_by_side() {
	told librdmacm "$1" sidebyside direct
	told dropin "$1" as alice rdmabrokerctl run -- sidebyside dropin
	if ! diff -U 1000 librdmacm dropin || grep -q '^ended with' librdmacm; then
		cat librdmacm.errors dropin.errors
		fail "the two differ, or did not end well"
	fi
}

product_up
start_broker

for script in $(sidebyside list); do
	eval "case_$script() { side_by_side $script; }"
done
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(sidebyside list | grep -vx device-removal)
run_cases "$@"
