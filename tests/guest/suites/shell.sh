#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A shell for somebody who wants to try the product: it is installed, two users may use it, and there is a device for
# each end of a connection. Needs tests/guest/run --shell, which sets the variables TERM, LINES and COLUMNS.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

echo "preparing the guest: two Soft-RoCE devices, and the product as installed by make install"
dmesg --console-off
fabric_up
install_product > /run/install.log 2>&1
rm -f /etc/rdmabroker/policy.d/*.rules
cat > /etc/rdmabroker/policy.d/50-shell.rules <<'END_OF_RULES'
allow any user alice,bob
END_OF_RULES
systemctl start rdmabrokerd

cat > /run/shell.rc <<END_OF_RC
stty rows ${LINES:-24} cols ${COLUMNS:-80}
END_OF_RC
cat >> /run/shell.rc <<'END_OF_RC'
PS1='guest:\w\$ '
PATH=/host/bin:/usr/sbin:/sbin:$PATH
cd /host
shopt -s checkwinsize
END_OF_RC

cat <<'END_OF_WORDS'

You are root in the guest. alice and bob may use RDMA by /etc/rdmabroker/policy.d/50-shell.rules, carol may not.
10.9.0.1 and 10.9.0.2 are addresses of two Soft-RoCE devices that are connected with each other.

    as alice rdmabroker-ping -s -p 7471 &              alice serves
    as bob rdmabroker-ping -c -a 10.9.0.1 -p 7471      bob connects
    as alice rdmabrokerctl run -- rping -s -C 3 &      the same with a program that uses librdmacm
    as bob rdmabrokerctl run -- rping -c -a 10.9.0.1 -C 3 -v
    rdmabrokerctl status; rdmabrokerctl events; journalctl -u rdmabrokerd

Your own program: copy it to build/guest/share on the host, and it is in /host here. `exit` ends the guest, and
nothing of what you did in it remains, except the files in /host.

END_OF_WORDS
echo "# attach"
# The status of the last command in the shell says nothing about the guest.
HOME=/root setsid --ctty --wait bash --rcfile /run/shell.rc -i < /dev/ttyS0 > /dev/ttyS0 2>&1 || true
