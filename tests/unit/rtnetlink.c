/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/rtnetlink.h"

#include <arpa/inet.h>
#include <check.h>
#include <string.h>

static uint32_t serial;

void *begin(union message *buf, uint16_t type, uint16_t flags, size_t size)
{
	struct nlmsghdr *header;

	memset(buf, 0, sizeof(*buf));
	header = mnl_nlmsg_put_header(buf->bytes);
	header->nlmsg_type = type;
	header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	header->nlmsg_seq = ++serial;
	return mnl_nlmsg_put_extra_header(header, size);
}

size_t read_addr(int family, const char *text, uint8_t ret[16])
{
	ck_assert_int_eq(inet_pton(family, text, ret), 1);
	return family == AF_INET ? 4 : 16;
}

void put_addr(union message *buf, uint16_t attr, int family, const char *text)
{
	uint8_t addr[16];
	size_t len = read_addr(family, text, addr);

	mnl_attr_put(&buf->header, attr, len, addr);
}

void put_neighbour(union message *buf, struct ndmsg *nd, int family, const char *text,
		   uint16_t state, uint8_t lladdr)
{
	const uint8_t mac[6] = { 2, 0, 0, 0, 0, lladdr };

	nd->ndm_family = (uint8_t)family;
	nd->ndm_ifindex = LO;
	nd->ndm_state = state;
	put_addr(buf, NDA_DST, family, text);
	if (lladdr)
		mnl_attr_put(&buf->header, NDA_LLADDR, sizeof(mac), mac);
}
