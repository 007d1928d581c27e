#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs rdmabroker-bench with the given arguments. Workers that use rdma_cm directly run as root, because only the
# broker's user and root can open it. Workers that use the broker run as alice.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$share/broker.sh"

set -eE -o pipefail
trap 'echo "bench.sh: line $LINENO: $BASH_COMMAND (status $?)" >&2' ERR

fabric_up
install_product
policy <<-END
	allow session user alice
	allow device  user alice
	allow listen  user alice port 7471-7475
	allow accept  user alice port 7471-7475
	allow connect user alice
END

mkdir -p /etc/rdmabroker/rdmabrokerd.conf.d
cat > /usr/local/bin/spares <<-'END'
	#!/bin/sh -e
	# spares on|off
	drop_in=/etc/rdmabroker/rdmabrokerd.conf.d/50-spares.conf
	if [ "$1" = off ]; then
		printf '[Limits]\nSpareIds=0\n' > $drop_in
	else
		rm -f $drop_in
	fi
	rdmabrokerctl reload > /dev/null
END
chmod 755 /usr/local/bin/spares

rdmabroker-bench --user alice --daemon-pid "$(daemon_pid)" --output "$share/results.json" \
	--ways "direct library dropin one-go no-spares relay" --spares-command spares "$@" "$A" "$B"
