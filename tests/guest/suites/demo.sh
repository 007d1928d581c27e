#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A demonstration of the product for somebody who sees it for the first time.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
case_dir=$(mktemp -d)
chmod 755 "$case_dir"
cd "$case_dir" || exit 1

show() {
	local user=$1
	shift
	[ "$user" = root ] && echo "# $*" || echo "$user$ $*"
}

# run USER COMMAND...: shows the command, and then its output.
run() {
	show "$@"
	as "$@" 2>&1
}

# serve PORT: runs alice's server in the background.
serve() {
	show alice rdmabroker-ping -s -a 10.9.0.1 -p "$1"
	as alice rdmabroker-ping -s -a 10.9.0.1 -p "$1" > server 2>&1 &
	await 'grep -q listening server'
}

fabric_up
(install_product) > install.log 2>&1 || { cat install.log; exit 1; }
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

echo "--- alice serves, bob connects, and both verify the data (in an emulated guest: mind no times):"
serve 7471
run bob rdmabroker-ping -c -a 10.9.0.1 -p 7471 -C 1000
connected=$?
wait $!

echo "--- On a port that policy closes, bob is told why:"
serve 7472
run bob rdmabroker-ping -c -a 10.9.0.1 -p 7472
rejected=$?

echo "--- The admin sees everything; alice still listens:"
run root rdmabrokerctl status
run root journalctl -u rdmabrokerd -o cat -n 3
kill $!
[ "$connected $rejected" = "0 3" ]
