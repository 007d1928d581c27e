/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "policy/rule/prefix.h"
#include "tests/unit/unit.h"

static struct prefix prefix(const char *text)
{
	struct prefix p;

	ck_assert_msg(prefix_parse(&p, text, strlen(text)) == PREFIX_OK, "%s", text);
	return p;
}

static void assert_parses_to(const char *text, const char *expected)
{
	struct prefix p = prefix(text);
	char buffer[PREFIX_STRING_MAX];

	ck_assert_str_eq(prefix_to_string(&p, buffer), expected);
}

START_TEST(parses_addresses_and_prefixes)
{
	assert_parses_to("10.1.0.0/16", "10.1.0.0/16");
	assert_parses_to("10.1.2.3", "10.1.2.3");
	assert_parses_to("10.1.2.3/32", "10.1.2.3");
	assert_parses_to("0.0.0.0/0", "0.0.0.0/0");
	assert_parses_to("10.1.2.128/25", "10.1.2.128/25");
	assert_parses_to("fd00:1::/64", "fd00:1::/64");
	assert_parses_to("FD00::1", "fd00::1");
	assert_parses_to("::/0", "::/0");
	assert_parses_to("fe80::/10", "fe80::/10");
	assert_parses_to("gid:fe80::/10", "gid:fe80::/10");
	assert_parses_to("gid:FE80::1/128", "gid:fe80::1");
	/* A GID of RoCE, which is no IPv4 address here. */
	assert_parses_to("gid:::ffff:10.1.2.3", "gid:::ffff:10.1.2.3");
}
END_TEST

START_TEST(mapped_addresses_are_ipv4)
{
	assert_parses_to("::ffff:10.1.2.3", "10.1.2.3");
	assert_parses_to("::ffff:10.1.0.0/112", "10.1.0.0/16");
	assert_parses_to("::ffff:0.0.0.0/96", "0.0.0.0/0");
	/* This prefix is shorter than ::ffff:0:0/96, and therefore IPv6. */
	ck_assert_int_eq(prefix("::/80").family, 6);
}
END_TEST

static void assert_refused(const char *text, enum prefix_status status)
{
	struct prefix p;

	ck_assert_msg(prefix_parse(&p, text, strlen(text)) == status, "%s", text);
}

START_TEST(refuses_nonsense)
{
	static const char *const no_address[] = {
		"",
		"/",
		"/8",
		"10",
		"10.1",
		"10.1.0/16",
		"10.0.0.256",
		"010.0.0.1",
		"10.0.0.1 ",
		"fe80::1%eth0",
		"fd00:::",
		"localhost",
		":",
		"::ffff:10.0.0",
		"gid:",
		"gid:10.1.2.3",
		"gid:/64",
		"gid:gid:fe80::1",
		"GID:fe80::1",
		"1111111111111111111111111111111111111111111111111111111111111111111111111111111",
	};
	static const char *const bad_length[] = {
		"10.0.0.0/",   "10.0.0.0/33",        "10.0.0.0/-1",    "10.0.0.0/+8",
		"10.0.0.0/08", "10.0.0.0/8x",        "10.0.0.0/8/8",   "fd00::/129",
		"fd00::/1000", "10.0.0.0/255.0.0.0", "gid:fe80::/129",
	};

	for (size_t i = 0; i < sizeof(no_address) / sizeof(no_address[0]); i++)
		assert_refused(no_address[i], PREFIX_NO_ADDRESS);
	for (size_t i = 0; i < sizeof(bad_length) / sizeof(bad_length[0]); i++)
		assert_refused(bad_length[i], PREFIX_BAD_LENGTH);
}
END_TEST

START_TEST(host_bits_are_reported_and_cleared)
{
	static const struct {
		const char *text, *cleared;
	} cases[] = {
		{ "10.1.2.3/16", "10.1.0.0/16" },
		{ "10.1.2.129/25", "10.1.2.128/25" },
		{ "0.0.0.1/0", "0.0.0.0/0" },
		{ "fd00::1/64", "fd00::/64" },
		{ "::ffff:10.0.0.1/104", "10.0.0.0/8" },
		/* This prefix is shorter than ::ffff:0:0/96, and therefore cleared as IPv6. */
		{ "::ffff:10.0.0.0/95", "::fffe:0:0/95" },
	};
	char buffer[PREFIX_STRING_MAX];
	struct prefix p;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_int_eq(prefix_parse(&p, cases[i].text, strlen(cases[i].text)),
				 PREFIX_HOST_BITS);
		ck_assert_str_eq(prefix_to_string(&p, buffer), cases[i].cleared);
	}
}
END_TEST

static bool contains(const char *outer, const char *inner)
{
	struct prefix x = prefix(outer), y = prefix(inner);

	return prefix_contains(&x, &y);
}

START_TEST(contains_at_every_length)
{
	char text[PREFIX_STRING_MAX];
	struct prefix address = prefix("170.85.170.85");

	for (unsigned bits = 0; bits <= 32; bits++) {
		uint32_t mask = bits ? ~UINT32_C(0) << (32 - bits) : 0;
		struct in_addr net = { htonl(0xaa55aa55 & mask) }, other;
		struct prefix p;

		snprintf(text, sizeof(text), "%s/%u", inet_ntoa(net), bits);
		p = prefix(text);
		ck_assert(prefix_contains(&p, &address));
		if (!bits)
			continue;
		/* The last bit of the prefix differs. */
		other.s_addr = htonl((0xaa55aa55 & mask) ^ (UINT32_C(1) << (32 - bits)));
		snprintf(text, sizeof(text), "%s/%u", inet_ntoa(other), bits);
		p = prefix(text);
		ck_assert(!prefix_contains(&p, &address));
	}
}
END_TEST

START_TEST(contains_distinguishes_families)
{
	ck_assert(contains("0.0.0.0/0", "::ffff:1.2.3.4"));
	ck_assert(!contains("::/0", "1.2.3.4"));
	ck_assert(!contains("::/0", "::ffff:1.2.3.4"));
	ck_assert(!contains("0.0.0.0/0", "::1.2.3.4"));
	ck_assert(!contains("10.1.0.0/16", "10.0.0.0/8"));
	ck_assert(contains("10.0.0.0/8", "10.1.0.0/16"));
	ck_assert(contains("fd00::/127", "fd00::1"));
	ck_assert(!contains("fd00::/127", "fd00::2"));
}
END_TEST

START_TEST(socket_addresses)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr other = { .sa_family = AF_UNIX };
	char buffer[PREFIX_STRING_MAX], packet[1 + sizeof(in6)];
	struct prefix p;

	ck_assert(!prefix_from_sockaddr(&p, NULL));
	ck_assert(!prefix_from_sockaddr(&p, &other));
	ck_assert(!prefix_from_sockaddr(&p, (struct sockaddr *)&in6));
	ck_assert(prefix_from_sockaddr(&p, (struct sockaddr *)&in));
	ck_assert_str_eq(prefix_to_string(&p, buffer), "10.0.0.1");
	in.sin_addr.s_addr = 0;
	ck_assert(!prefix_from_sockaddr(&p, (struct sockaddr *)&in));

	inet_pton(AF_INET6, "::ffff:10.0.0.2", &in6.sin6_addr);
	memcpy(packet + 1, &in6, sizeof(in6));
	ck_assert(prefix_from_sockaddr(&p, (struct sockaddr *)(packet + 1)));
	ck_assert_str_eq(prefix_to_string(&p, buffer), "10.0.0.2");
	inet_pton(AF_INET6, "::ffff:0.0.0.0", &in6.sin6_addr);
	ck_assert(!prefix_from_sockaddr(&p, (struct sockaddr *)&in6));
	inet_pton(AF_INET6, "::1", &in6.sin6_addr);
	ck_assert(prefix_from_sockaddr(&p, (struct sockaddr *)&in6));
	ck_assert_str_eq(prefix_to_string(&p, buffer), "::1");
}
END_TEST

START_TEST(normalise_drops_contained_prefixes)
{
	struct prefix p[] = {
		prefix("fd00::/16"),  prefix("10.1.2.0/24"), prefix("10.0.0.0/8"),
		prefix("10.0.0.0/8"), prefix("fd00::1"),     prefix("11.0.0.0"),
		prefix("10.0.0.0/9"), prefix("9.0.0.0/8"),
	};
	static const char *const expected[] = { "9.0.0.0/8", "10.0.0.0/8", "11.0.0.0",
						"fd00::/16" };
	char buffer[PREFIX_STRING_MAX];

	ck_assert_uint_eq(prefix_normalise(p, sizeof(p) / sizeof(p[0])), 4);
	for (size_t i = 0; i < 4; i++)
		ck_assert_str_eq(prefix_to_string(&p[i], buffer), expected[i]);
	ck_assert_uint_eq(prefix_normalise(p, 0), 0);
}
END_TEST

START_TEST(a_set_finds_what_a_scan_finds)
{
	struct prefix_set *set = malloc(sizeof(*set) + 200 * sizeof(struct prefix));
	struct prefix all[200];

	ck_assert_ptr_nonnull(set);
	srandom(1);
	for (int round = 0; round < 50; round++) {
		size_t n = 1 + random() % 200;

		for (size_t i = 0; i < n; i++) {
			char text[64];
			unsigned bits = 8 + random() % 25;
			uint32_t mask = ~UINT32_C(0) << (32 - bits);
			struct in_addr net = { htonl((0x0a000000 | (random() & 0x0303ffff)) &
						     mask) };

			snprintf(text, sizeof(text), "%s%s/%u",
				 i % 3 ? "" : "::ffff:", inet_ntoa(net), i % 3 ? bits : bits + 96);
			all[i] = set->prefixes[i] = prefix(text);
		}
		set->n = prefix_normalise(set->prefixes, n);

		for (int i = 0; i < 200; i++) {
			struct sockaddr_in in = {
				.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(0x0a000000 | (random() & 0x0303ffff)),
			};
			struct prefix address;
			bool found = false;

			ck_assert(prefix_from_sockaddr(&address, (struct sockaddr *)&in));
			for (size_t k = 0; k < n; k++)
				found = found || prefix_contains(&all[k], &address);
			ck_assert_int_eq(prefix_set_contains(set, &address), found);
		}
	}
	set->n = 0;
	ck_assert(!prefix_set_contains(set, &all[0]));
	free(set);
}
END_TEST

UNIT_MAIN("policy_prefix", NULL, NULL, parses_addresses_and_prefixes, mapped_addresses_are_ipv4,
	  refuses_nonsense, host_bits_are_reported_and_cleared, contains_at_every_length,
	  contains_distinguishes_families, socket_addresses, normalise_drops_contained_prefixes,
	  a_set_finds_what_a_scan_finds)
