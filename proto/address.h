/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Converts between Address messages of the protocol and IPv4 and IPv6 socket addresses. */

#include <sys/socket.h>

#include "proto/rdmabroker.pb-c.h"

/* Returns RET, which points into ADDR; NULL: ADDR is NULL or of another family. */
Rdmabroker__Address *address_pack(Rdmabroker__Address *ret, const struct sockaddr *addr);
/* Returns NULL on success, else a text that describes the error; *RET is AF_UNSPEC then. */
const char *address_unpack(struct sockaddr_storage *ret, const Rdmabroker__Address *address);
