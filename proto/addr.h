/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Socket addresses: IPv4, IPv6 and InfiniBand's own (AF_IB). The host of an AF_IB address is a GID, which is written
 * "gid:fe80::1". Its port is in its service id (SID), see rdma/ib.h of the kernel and RDMA_IB_IP_PS_MASK.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDR_HOST_STRLEN 50 /* space for an address and the NUL */
#define ADDR_STRLEN 80 /* space for "[v6%scope]:port" and the NUL */

/*
 * Writes "10.0.0.1", "fd00::1" or "gid:fe80::1", without port and scope, or nothing if ADDR is of another family, to BUF.
 * Returns BUF.
 */
const char *addr_host_to_string(const struct sockaddr *addr, char buf[ADDR_HOST_STRLEN]);
/*
 * Writes "10.0.0.1:4420", "[fd00::1%2]:4420", "[gid:fe80::1]:4420", or "-" if ADDR is NULL or of another family, to BUF.
 * Returns BUF.
 */
const char *addr_to_string(const struct sockaddr *addr, char buf[ADDR_STRLEN]);
/*
 * Sets RET to HOST, a numeric address without a scope or "gid:" and a GID, with PORT (host order). A GID gets the default
 * P_Key and a service id without a port space. False: HOST is no address.
 */
bool addr_parse(struct sockaddr_storage *ret, const char *host, uint16_t port);
socklen_t addr_len(const struct sockaddr *addr); /* 0: a family that is not supported */
bool addr_is_ip(const struct sockaddr *addr); /* IPv4 or IPv6; NULL is neither */
uint16_t addr_port(const struct sockaddr *addr); /* host order */
bool addr_is_wildcard(const struct sockaddr *addr);
bool addr_is_loopback(const struct sockaddr *addr);
#define ADDR_HOST_LEN 16
/*
 * Sets RET to the address in ADDR without port and scope; IPv4 is mapped to IPv6, and of AF_IB it is the GID. False: it
 * is of another family, and RET is all zero.
 */
bool addr_host(const struct sockaddr *addr, uint8_t ret[ADDR_HOST_LEN]);
/* Prefixes have the kind of their addresses in one byte: 4 (IPv4), 6 (IPv6) or this one. Stored rows have it too. */
#define ADDR_KIND_GID 9
/* Sets RET to the address of KIND with the bytes HOST, 4 of IPv4, 16 of the others, without a port. */
void addr_set_host(struct sockaddr_storage *ret, uint8_t kind, const uint8_t *host);
/* The bits of an address of ADDR's family: 32 or 128; 0: a family that is not supported. */
unsigned addr_bits(const struct sockaddr *addr);
/* The traffic class in the flow information of an IPv6 address; 0: of others. Setting it leaves the flow label. */
uint8_t addr_traffic_class(const struct sockaddr *addr);
void addr_set_traffic_class(struct sockaddr_storage *addr, uint8_t value);
/* Ignores ports and scopes. */
bool addr_is_same_host(const struct sockaddr *a, const struct sockaddr *b);
/*
 * AF_IB names services by ids of 64 bits, and those of a port space are a part of them. True: ADDR is of another family,
 * or names no service, or one of port space PS, so that all that can be known about the service is its port. IS_PEER: a
 * connection goes to ADDR, for which it has to name the service as a whole.
 */
bool addr_is_of_port_space(const struct sockaddr *addr, int ps, bool is_peer);
