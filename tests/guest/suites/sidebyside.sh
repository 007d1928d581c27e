#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# librdmacm and librdmabroker side by side. Each case is a script, which the program sidebyside runs as root with
# librdmacm, and as alice with librdmabroker. Both outputs must be the same.

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

# run BACKEND SCRIPT: runs SCRIPT. Its output is in the file BACKEND, its stderr in BACKEND.errors.
run() {
	local backend=$1 script=$2 as_user=()
	# Leaks of librdmacm are ignored.
	local -x ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:detect_leaks=0}
	if [ "$backend" != direct ]; then
		as_user=(as alice)
		ASAN_OPTIONS=${ASAN_OPTIONS%:detect_leaks=0}
	fi
	"${as_user[@]}" sidebyside "$backend" "$script" > "$backend" 2> "$backend.errors"
}

# ended BACKEND STATUS: adds STATUS to the output of BACKEND, unless it is 0.
ended() {
	[ "$2" = 0 ] || echo "ended with status $2" >> "$1"
}

compare() {
	local same=true
	# Shows the complete output, not only the differences.
	diff -U 1000 direct broker || same=false
	[ "$(tail -qn 1 direct broker | grep -c '^ended with')" = 0 ] || same=false
	if ! $same; then
		for backend in direct broker; do
			[ ! -s $backend.errors ] || (echo "$backend said:" && cat $backend.errors)
		done
		fail "the two differ, or did not end well"
	fi
}

side_by_side() {
	local direct
	# Both run at the same time, with different ports.
	run direct "$1" &
	direct=$!
	run broker "$1" || ended broker $?
	wait $direct || ended direct $?
	compare
}

case_device-removal() {
	for backend in direct broker; do
		run $backend device-removal &
		program=$!
		await "grep -q '^ready' $backend"
		# The removal waits until all programs have closed the device.
		rdma link del rxe0 &
		removal=$!
		wait $program || ended $backend $?
		wait $removal
		fabric_up
	done
	compare
}

product_up
start_broker

# With FABRIC=iwarp: scripts that iWARP cannot run.
if [ "${FABRIC-}" = iwarp ]; then
	for script in $(sidebyside datagrams); do
		eval "case_$script() { skip 'iWARP has neither datagrams nor multicast'; }"
	done
	case_listen-wildcard-ipv6() {
		skip "it fails with librdmacm itself, too: on software iWARP the listener gets no request from IPv4"
	}
fi
for script in $(sidebyside list); do
	declare -F "case_$script" > /dev/null || eval "case_$script() { side_by_side $script; }"
done
# Prints the scripts in the order of the table, not of their names.
list_cases() {
	sidebyside list | sed 's/^/case_/'
}

sidebyside exceptions
run_cases "$@"
