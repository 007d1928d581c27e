/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Messages of rtnetlink, for the tests of route changes. */

#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <stdint.h>

#define LO 1 /* the index of lo in every namespace */

union message {
	struct nlmsghdr header;
	char bytes[512];
};

/* Begins a message. Returns its extra header, of SIZE bytes. */
void *begin(union message *buf, uint16_t type, uint16_t flags, size_t size);
/* Parses the address TEXT into RET. Returns the length of the address. */
size_t read_addr(int family, const char *text, uint8_t ret[16]);
void put_addr(union message *buf, uint16_t attr, int family, const char *text);
/* Adds a neighbour on lo. LLADDR is the last byte of its link-layer address; 0: it has none. */
void put_neighbour(union message *buf, struct ndmsg *nd, int family, const char *text,
		   uint16_t state, uint8_t lladdr);
