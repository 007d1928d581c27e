/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Partitions of InfiniBand. A P_Key has the number of a partition, and the bit that says whether the port is a full member
 * of it. Both kinds of members are in the same partition, so rules and questions have the number without that bit.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PKEY_FULL 0x8000 /* the port is a full member; people write P_Keys with this bit */
#define PKEY_DEFAULT 0x7fff /* the partition in which all ports are; the only one on Ethernet */

/* The partition of a P_Key in host order; 0: none. */
static inline uint16_t pkey_partition(uint16_t pkey)
{
	return pkey & (uint16_t)~PKEY_FULL;
}

/* Reads a P_Key, decimal or hexadecimal after 0x, from all of TEXT. False: it is none. It can be of no partition. */
static inline bool pkey_parse(const char *text, size_t len, uint32_t *ret)
{
	bool is_hex = len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	size_t i = is_hex ? 2 : 0;
	uint32_t n = 0;

	if (len == 0 || len - i > 5)
		return false;
	for (; i < len; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			n = n * (is_hex ? 16 : 10) + (uint32_t)(c - '0');
		else if (is_hex && (c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			n = n * 16 + (uint32_t)((c | 0x20) - 'a') + 10;
		else
			return false;
	}
	*ret = n;
	return n <= UINT16_MAX;
}
