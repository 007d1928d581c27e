#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# rdmabroker-bench with the arguments given. Root runs what is done directly: it can open rdma_cm, which is
# the broker's; alice runs what is done through the broker.

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
	allow listen  user alice port 7471-7473
	allow accept  user alice port 7471-7473
	allow connect user alice
END

rdmabroker-bench --user alice --daemon-pid "$(daemon_pid)" --output "$share/results.json" "$@" "$A" "$B"
