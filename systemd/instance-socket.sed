# SPDX-License-Identifier: BSD-2-Clause
# Makes rdmabrokerd@.socket of rdmabrokerd.socket, and so on.
s|^Description=.*|&, Network Namespace %i|
s|^PartOf=.*|PartOf=rdmabrokerd@%i.socket|
s|/run/\(rdmabroker[a-z-]*\)/|/run/\1@%i/|
s|^Service=.*|Service=rdmabrokerd@%i.service|
