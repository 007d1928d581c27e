#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The main job of the product, for somebody who sees it for the first time.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
case_dir=$(mktemp -d)
chmod 755 "$case_dir"
cd "$case_dir" || exit 1

# run AS COMMAND...: show the command, then what it prints.
run() {
	local user=$1
	shift
	[ "$user" = root ] && echo "# $*" || echo "$user$ $*"
	as "$user" "$@" 2>&1
}

fabric_up
install_product
rm -f /etc/rdmabroker/policy.d/*.rules
cat > /etc/rdmabroker/policy.d/50-demo.rules <<'END'
allow  session user alice,bob
allow  device  user alice,bob
allow  listen  user alice port 7000-7999
reject accept  user alice port 7472 reason "storage is for hosts of the rack" log
allow  accept  user alice dscp af31
allow  connect user bob
END

echo "--- One unprivileged user owns RDMA connection set-up:"
run root systemctl start rdmabrokerd
run root ls -l /dev/infiniband/rdma_cm
run alice cat /dev/infiniband/rdma_cm
run bob cat /dev/infiniband/rdma_cm

echo "--- This is who may do what:"
run root cat /etc/rdmabroker/policy.d/50-demo.rules

echo "--- alice serves, bob connects; data goes as it always did, past the broker:"
as alice rdmabroker-ping -s -a 10.9.0.1 -p 7471 > server &
await 'grep -q listening server'
run bob rdmabroker-ping -c -a 10.9.0.1 -p 7471 -C 1000
status=$?
wait $!

echo "--- On a port that policy closes, bob is told why:"
as alice rdmabroker-ping -s -a 10.9.0.1 -p 7472 > server &
await 'grep -q listening server'
run bob rdmabroker-ping -c -a 10.9.0.1 -p 7472

echo "--- The admin sees everything, with alice still listening:"
run root rdmabrokerctl status
run root journalctl -u rdmabrokerd -o cat -n 5
kill $!
exit $status
