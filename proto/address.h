/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Converts between Address messages of the protocol and socket addresses: IPv4, IPv6 and InfiniBand (AF_IB). */

#include <sys/socket.h>

#include "proto/rdmabroker.pb-c.h"

/* Returns RET, which points into ADDR; NULL: ADDR is NULL, or no address of these. */
Rdmabroker__Address *address_pack(Rdmabroker__Address *ret, const struct sockaddr *addr);
/* Returns NULL, or a text that describes the error; then *RET is AF_UNSPEC. */
const char *address_unpack(struct sockaddr_storage *ret, const Rdmabroker__Address *address);
