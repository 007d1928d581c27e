/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Addresses of the wire, and the socket addresses that they stand for: IPv4 and IPv6. */

#include <sys/socket.h>

#include "proto/rdmabroker.pb-c.h"

/* RET points into ADDR. NULL: no address, or one of another family. */
Rdmabroker__Address *address_pack(Rdmabroker__Address *ret, const struct sockaddr *addr);
/* NULL if all is well, else what is wrong, in words; *RET is AF_UNSPEC then. */
const char *address_unpack(struct sockaddr_storage *ret, const Rdmabroker__Address *address);
