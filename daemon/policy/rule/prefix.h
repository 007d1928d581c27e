/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * IP addresses, GIDs of InfiniBand, and prefixes of them. A GID, as "gid:fe80::1", is the address of programs that use
 * AF_IB; no IP address equals it, but it can be the same host's, see prefix_set_lacks(). An IPv4-mapped IPv6 address
 * counts as IPv4, because it is how a program that binds to "::" gets its IPv4 peers. So ::/0 contains no IPv4 address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/addr.h"

#define PREFIX_GID ADDR_KIND_GID

struct prefix {
	uint8_t family; /* 4, 6 or PREFIX_GID */
	uint8_t bits; /* length of the prefix; 32 (IPv4) or 128: a single address */
	uint8_t address[16]; /* network order; unused bits and bytes are 0 */
};

#define PREFIX_STRING_MAX 64

enum prefix_status {
	PREFIX_OK,
	PREFIX_NO_ADDRESS, /* the part before the slash is no IPv4 or IPv6 address, nor "gid:" and a GID */
	PREFIX_BAD_LENGTH, /* the part after the slash is no number, has a leading zero, or is too large */
	PREFIX_HOST_BITS, /* bits after the prefix are set; they are cleared in the result */
};

/* Sorted prefixes, none of which contains another. A set does not change once it is made. */
struct prefix_set {
	size_t n;
	struct prefix prefixes[];
};

enum prefix_status prefix_parse(struct prefix *ret, const char *text, size_t len);
/* False: ADDRESS is NULL, a wildcard or of another family, which all count as not known. */
bool prefix_from_sockaddr(struct prefix *ret, const struct sockaddr *address);
/* BUFFER has space for PREFIX_STRING_MAX bytes. Returns BUFFER. */
const char *prefix_to_string(const struct prefix *prefix, char *buffer);
bool prefix_contains(const struct prefix *outer, const struct prefix *inner);

/* Sorts the prefixes, and drops those that another one contains. Returns how many are left. */
size_t prefix_normalise(struct prefix *prefixes, size_t n);
bool prefix_set_contains(const struct prefix_set *set, const struct prefix *address);
/*
 * ADDRESS is in none of the prefixes of SET. True: its host is not in SET either. False: this is not known, because ADDRESS
 * is a GID and SET has IP prefixes, or the other way round.
 */
bool prefix_set_lacks(const struct prefix_set *set, const struct prefix *address);
