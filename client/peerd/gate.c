/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include <string.h>

#include "gate.h"
#include "proto/addr.h"
#include "proto/clock.h"

#define BASE64 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
#define BEGIN "MUNGE:"

/* "MUNGE:", base64 and ":", see munge_encode(3). Who receives the text limits its length. */
static bool is_credential(const char *text)
{
	size_t n;

	if (strncmp(text, BEGIN, strlen(BEGIN)) != 0)
		return false;
	text += strlen(BEGIN);
	n = strspn(text, BASE64);
	text += n;
	for (unsigned i = 0; i < 2 && *text == '='; i++, n++)
		text++;
	return n > 0 && n % 4 == 0 && strcmp(text, ":") == 0;
}

/* The address that ADDR counts as. One of IPv4 is mapped to IPv6. */
static void set_from(struct in6_addr *ret, const struct sockaddr *addr)
{
	addr_host(addr, ret->s6_addr);
	if (!IN6_IS_ADDR_V4MAPPED(ret))
		memset(&ret->s6_addr[8], 0, 8);
	else if (ret->s6_addr[12] == 127)
		memset(&ret->s6_addr[13], 0, 3);
}

/* NULL: it has no text. */
static struct gate_address *find(struct gate *gate, const struct in6_addr *from)
{
	for (unsigned i = 0; i < gate->n_addresses; i++)
		if (IN6_ARE_ADDR_EQUAL(&gate->addresses[i].from, from))
			return &gate->addresses[i];
	return NULL;
}

const char *gate_check(struct gate *gate, const char *text, const struct sockaddr *from,
		       struct gate_text *ret)
{
	struct gate_address *address;
	int64_t now = now_ms();

	*ret = (struct gate_text){ 0 };
	if (!is_credential(text))
		return "it is no credential of MUNGE";
	if (!from)
		return NULL;
	if (gate->begin_ms == 0 || now >= gate->begin_ms + GATE_MS)
		*gate = (struct gate){ .begin_ms = now };
	set_from(&ret->from, from);
	address = find(gate, &ret->from);
	if (address && address->n == GATE_OF_ADDRESS_MAX)
		return "too many wrong messages of this address";
	if (gate->n == GATE_MAX)
		return "too many wrong messages";
	if (!address) {
		address = &gate->addresses[gate->n_addresses++];
		*address = (struct gate_address){ .from = ret->from };
	}
	address->n++;
	gate->n++;
	ret->begin_ms = gate->begin_ms;
	return NULL;
}

void gate_was_right(struct gate *gate, const struct gate_text *text)
{
	struct gate_address *address;

	if (text->begin_ms == 0 || text->begin_ms != gate->begin_ms)
		return;
	address = find(gate, &text->from);
	gate->n--;
	if (--address->n == 0)
		*address = gate->addresses[--gate->n_addresses];
}
