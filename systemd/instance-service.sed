# SPDX-License-Identifier: BSD-2-Clause
# Makes rdmabrokerd@.service of rdmabrokerd.service.
s|^Description=.*|&, Network Namespace %i|
/^After=nss-user-lookup.target/a\
# The initial instance gives programs access to the devices. This one can start without it, and waits for it.\
Wants=rdmabrokerd.service\
After=rdmabrokerd.service
s|^ExecStart=.*|& --instance %i\
# "ip netns add" makes the file.\
NetworkNamespacePath=/run/netns/%i|
s|^ExecReload=\(.*\) reload$|ExecReload=\1 --instance %i reload|
s|^Sockets=.*|Sockets=rdmabrokerd@%i.socket rdmabrokerd-admin@%i.socket rdmabrokerd-helper@%i.socket|
s|^\(# Without rdmabrokerd\)\.socket|\1@.socket|
s|^\(# stays, because the socket of rdmabrokerd\)\.socket|\1@.socket|
s|^RuntimeDirectory=.*|RuntimeDirectory=rdmabroker@%i|
s|^StateDirectory=.*|StateDirectory=rdmabrokerd@%i|
s|^Also=.*|Also=rdmabrokerd@%i.socket rdmabrokerd-admin@%i.socket rdmabrokerd-helper@%i.socket|
