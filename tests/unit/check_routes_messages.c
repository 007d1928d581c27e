/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/routes.h"
#include "tests/unit/rtnetlink.h"
#include "tests/unit/unit.h"

/*
 * Which notifications of the kernel count as a change of the host's routes, including those that are hard to provoke.
 * check_routes.c tests those that the kernel sends easily.
 */

static sd_event *loop;

static void on_changed(void *userdata)
{
	(void)userdata;
	ck_abort_msg("the kernel is not asked here");
}

static void set_up(void)
{
	ck_assert_int_ge(sd_event_new(&loop), 0);
}

static void tear_down(void)
{
	loop = sd_event_unref(loop);
}

static struct routes *start(void)
{
	struct routes *routes;

	ck_assert_int_eq(routes_new(&routes, loop, on_changed, NULL), 0);
	return routes;
}

/* Passes a copy of LEN bytes to routes_take(), so that sanitizers find reads past its end. */
static bool take(struct routes *routes, const void *datagram, size_t len)
{
	void *copy = malloc(len ?: 1);
	bool changed;

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, datagram, len);
	changed = routes_take(routes, copy, len);
	free(copy);
	return changed;
}

static bool take_message(struct routes *routes, const union message *buf)
{
	return take(routes, buf, buf->header.nlmsg_len);
}

static bool take_neighbour(struct routes *routes, uint16_t type, const char *text, uint16_t state,
			   uint8_t lladdr)
{
	union message buf;
	struct ndmsg *nd = begin(&buf, type, 0, sizeof(*nd));

	put_neighbour(&buf, nd, strchr(text, ':') ? AF_INET6 : AF_INET, text, state, lladdr);
	return take_message(routes, &buf);
}

START_TEST(states_of_a_neighbour)
{
	static const uint16_t harmless[] = { NUD_STALE,     NUD_DELAY, NUD_PROBE,
					     NUD_REACHABLE, NUD_NOARP, NUD_PERMANENT };
	static const uint16_t lost[] = { NUD_INCOMPLETE, NUD_FAILED, NUD_NONE };
	struct routes *routes = start();

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		ck_assert(!take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.1", lost[i], 0));
		ck_assert(take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.1", NUD_REACHABLE, 1));
		for (size_t k = 0; k < sizeof(harmless) / sizeof(harmless[0]); k++)
			ck_assert(
				!take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.1", harmless[k], 1));
		ck_assert(take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.1", lost[i], 0));
	}
	/* The deletion of a known neighbour counts, whatever its state. */
	ck_assert(!take_neighbour(routes, RTM_DELNEIGH, "10.0.0.1", NUD_STALE, 1));
	ck_assert(take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.1", NUD_STALE, 1));
	ck_assert(take_neighbour(routes, RTM_DELNEIGH, "10.0.0.1", NUD_STALE, 1));
	ck_assert(!take_neighbour(routes, RTM_DELNEIGH, "10.0.0.1", NUD_STALE, 1));
	routes_free(routes);
}
END_TEST

/* A neighbour is identified by interface, family and address. */
START_TEST(which_neighbour)
{
	union message buf;
	struct routes *routes = start();
	struct ndmsg *nd;

	ck_assert(take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.1", NUD_STALE, 1));
	ck_assert(take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.2", NUD_STALE, 1));
	ck_assert(take_neighbour(routes, RTM_NEWNEIGH, "a00:1::", NUD_STALE, 1));
	nd = begin(&buf, RTM_NEWNEIGH, 0, sizeof(*nd));
	put_neighbour(&buf, nd, AF_INET, "10.0.0.1", NUD_STALE, 1);
	ck_assert(!take_message(routes, &buf));
	nd->ndm_ifindex = LO + 1;
	ck_assert(take_message(routes, &buf));
	ck_assert(!take_message(routes, &buf));
	ck_assert(!take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.1", NUD_STALE, 1));

	/* A forwarding entry of a bridge is no neighbour. */
	nd = begin(&buf, RTM_NEWNEIGH, 0, sizeof(*nd));
	nd->ndm_family = AF_BRIDGE;
	nd->ndm_state = NUD_REACHABLE;
	mnl_attr_put(&buf.header, NDA_LLADDR, 6, "\2\0\0\0\0\1");
	ck_assert(!take_message(routes, &buf));
	/* RTM_GETNEIGH is a request of the kernel to resolve a neighbour, so it is no change. */
	ck_assert(!take_neighbour(routes, RTM_GETNEIGH, "10.0.0.3", NUD_STALE, 1));
	ck_assert(take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.3", NUD_STALE, 1));
	routes_free(routes);
}
END_TEST

/* Link-layer addresses from 0 bytes, as on a tunnel, to the 20 bytes of IPoIB and the kernel's maximum. */
START_TEST(lengths_of_addresses)
{
	static const size_t lens[] = { 0, 6, 7, 20, 32 };
	const uint8_t lladdr[33] = { 0 };
	struct routes *routes = start();
	union message buf;

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		for (int again = 0; again < 2; again++) {
			struct ndmsg *nd = begin(&buf, RTM_NEWNEIGH, 0, sizeof(*nd));

			put_neighbour(&buf, nd, AF_INET, "10.0.0.1", NUD_STALE, 0);
			mnl_attr_put(&buf.header, NDA_LLADDR, lens[i], lladdr);
			ck_assert(take_message(routes, &buf) == !again);
		}
	}
	routes_free(routes);
}
END_TEST

static bool take_number(struct routes *routes, unsigned i)
{
	char text[32];

	snprintf(text, sizeof(text), "10.1.%u.%u", i / 256, i % 256);
	return take_neighbour(routes, RTM_NEWNEIGH, text, NUD_STALE, 1);
}

START_TEST(too_many_neighbours)
{
	struct routes *routes = start();

	for (unsigned i = 0; i < ROUTES_NEIGHBOURS_MAX; i++)
		ck_assert(take_number(routes, i));
	for (unsigned i = 0; i < ROUTES_NEIGHBOURS_MAX; i++)
		ck_assert(!take_number(routes, i));
	ck_assert(take_number(routes, ROUTES_NEIGHBOURS_MAX));
	ck_assert(!take_number(routes, ROUTES_NEIGHBOURS_MAX));
	for (unsigned i = 0; i < ROUTES_NEIGHBOURS_MAX - 1; i++)
		ck_assert(take_number(routes, i));
	ck_assert(!take_number(routes, ROUTES_NEIGHBOURS_MAX));
	routes_free(routes);
}
END_TEST

/* A malformed message counts as a change, and all remembered neighbours are forgotten. */
static void assert_malformed(struct routes *routes, const void *datagram, size_t len)
{
	take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.9", NUD_STALE, 1);
	ck_assert(!take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.9", NUD_STALE, 1));
	ck_assert(take(routes, datagram, len));
	ck_assert(take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.9", NUD_STALE, 1));
}

START_TEST(malformed)
{
	const uint8_t lladdr[33] = { 0 };
	union message buf;
	struct nlmsghdr *header = &buf.header;
	struct routes *routes = start();
	struct ndmsg *nd = begin(&buf, RTM_NEWNEIGH, 0, sizeof(*nd));
	size_t len;

	ck_assert(!take(routes, &buf, 0));
	put_neighbour(&buf, nd, AF_INET6, "fd00::1", NUD_STALE, 1);
	len = header->nlmsg_len;
	ck_assert_uint_gt(len, 4);
	/* Messages cut at each length: the header claims more than there is. */
	for (size_t i = 1; i < len; i++)
		assert_malformed(routes, &buf, i);
	/*
	 * Now the header has the length of the cut message. Such a message can be valid only if the cut is in the
	 * last attribute, the link-layer address.
	 */
	for (uint32_t i = 0; i < len; i++) {
		header->nlmsg_len = i;
		if (i < NLMSG_LENGTH(sizeof(*nd)) + MNL_ATTR_HDRLEN + 16)
			assert_malformed(routes, &buf, i ?: 1);
		else
			take(routes, &buf, i);
	}
	/* The address has the length of another family. */
	begin(&buf, RTM_NEWNEIGH, 0, sizeof(*nd));
	put_neighbour(&buf, nd, AF_INET, "10.0.0.1", NUD_STALE, 1);
	nd->ndm_family = AF_INET6;
	assert_malformed(routes, &buf, header->nlmsg_len);
	/* A link-layer address longer than the maximum. */
	begin(&buf, RTM_NEWNEIGH, 0, sizeof(*nd));
	put_neighbour(&buf, nd, AF_INET, "10.0.0.1", NUD_STALE, 0);
	mnl_attr_put(header, NDA_LLADDR, sizeof(lladdr), lladdr);
	assert_malformed(routes, &buf, header->nlmsg_len);
	/*
	 * An attribute whose length is wrong: greater than the rest, smaller than its header, or not that of an IPv4
	 * address.
	 */
	for (uint16_t attr_len = 0; attr_len < 64; attr_len++) {
		struct nlattr *attr;

		begin(&buf, RTM_NEWNEIGH, 0, sizeof(*nd));
		attr = mnl_nlmsg_get_payload_tail(header);
		put_neighbour(&buf, nd, AF_INET, "10.0.0.1", NUD_STALE, 0);
		attr->nla_len = attr_len;
		if (attr_len != MNL_ATTR_HDRLEN + 4)
			assert_malformed(routes, &buf, header->nlmsg_len);
	}
	routes_free(routes);
}
END_TEST

/* All messages in a datagram are read. If one of them is a change, the datagram counts as a change. */
START_TEST(several_at_once)
{
	union message first, second;
	char both[2 * sizeof(first)];
	struct routes *routes = start();
	struct ndmsg *nd;
	size_t at, len;

	nd = begin(&first, RTM_NEWNEIGH, 0, sizeof(*nd));
	put_neighbour(&first, nd, AF_INET, "10.0.0.1", NUD_STALE, 1);
	nd = begin(&second, RTM_NEWNEIGH, 0, sizeof(*nd));
	put_neighbour(&second, nd, AF_INET, "10.0.0.2", NUD_STALE, 1);
	at = MNL_ALIGN(first.header.nlmsg_len);
	len = at + second.header.nlmsg_len;
	memcpy(both, &first, at);
	memcpy(both + at, &second, second.header.nlmsg_len);
	ck_assert(take(routes, both, len));
	ck_assert(!take(routes, both, len));
	ck_assert(!take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.1", NUD_STALE, 1));
	ck_assert(!take_neighbour(routes, RTM_NEWNEIGH, "10.0.0.2", NUD_STALE, 1));
	/* A netlink control message does not count, one about a link does. */
	second.header.nlmsg_type = NLMSG_DONE;
	memcpy(both + at, &second, second.header.nlmsg_len);
	ck_assert(!take(routes, both, len));
	second.header.nlmsg_type = RTM_NEWLINK;
	memcpy(both + at, &second, second.header.nlmsg_len);
	ck_assert(take(routes, both, len));
	routes_free(routes);
}
END_TEST

UNIT_MAIN("routes: messages", set_up, tear_down, states_of_a_neighbour, which_neighbour,
	  lengths_of_addresses, too_many_neighbours, malformed, several_at_once)
