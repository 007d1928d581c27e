/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* IPv4 and IPv6 socket addresses. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDR_HOST_STRLEN 46 /* space for an address and the NUL */
#define ADDR_STRLEN 80 /* space for "[v6%scope]:port" and the NUL */

/* Writes "10.0.0.1" or "fd00::1", without port and scope, or nothing if ADDR is of another family, to BUF. Returns BUF. */
const char *addr_host_to_string(const struct sockaddr *addr, char buf[ADDR_HOST_STRLEN]);
/* Writes "10.0.0.1:4420", "[fd00::1%2]:4420", or "-" if ADDR is NULL or of another family, to BUF. Returns BUF. */
const char *addr_to_string(const struct sockaddr *addr, char buf[ADDR_STRLEN]);
/* Sets RET to HOST, a numeric address without a scope, with PORT (host order). False: HOST is no address. */
bool addr_parse(struct sockaddr_storage *ret, const char *host, uint16_t port);
socklen_t addr_len(const struct sockaddr *addr); /* 0: a family that is not supported */
uint16_t addr_port(const struct sockaddr *addr); /* host order */
bool addr_is_wildcard(const struct sockaddr *addr);
bool addr_is_loopback(const struct sockaddr *addr);
#define ADDR_HOST_LEN 16
/*
 * Sets RET to the address in ADDR without port and scope; IPv4 is mapped to IPv6. False: it is of another family, and RET is
 * all zero.
 */
bool addr_host(const struct sockaddr *addr, uint8_t ret[ADDR_HOST_LEN]);
/* Ignores ports and scopes. */
bool addr_is_same_host(const struct sockaddr *a, const struct sockaddr *b);
