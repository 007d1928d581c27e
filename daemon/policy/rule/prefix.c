/* SPDX-License-Identifier: BSD-2-Clause */

#include <arpa/inet.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/rule/prefix.h"
#include "util/util.h"

#define GID_WORD "gid:"

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

static void clear_host_bits(struct prefix *prefix)
{
	unsigned n = prefix->bits / 8;

	if (prefix->bits % 8) {
		prefix->address[n] &= 0xff << (8 - prefix->bits % 8);
		n++;
	}
	memset(prefix->address + n, 0, sizeof(prefix->address) - n);
}

static void set(struct prefix *ret, uint8_t family, const void *address, unsigned bits)
{
	*ret = (struct prefix){ .family = family, .bits = (uint8_t)bits };
	memcpy(ret->address, address, family == 4 ? 4 : 16);
}

/* As set(). If BITS is at least 96 and ADDRESS is an IPv4-mapped address, the prefix is IPv4. */
static void set_ipv6(struct prefix *ret, const uint8_t *address, unsigned bits)
{
	if (bits >= 96 && !memcmp(address, mapped, sizeof(mapped)))
		set(ret, 4, address + sizeof(mapped), bits - 96);
	else
		set(ret, 6, address, bits);
}

static bool parse_bits(unsigned *ret, const char *text, unsigned max)
{
	size_t len = strspn(text, "0123456789");
	unsigned bits = 0;

	if (!len || len > 3 || text[len] || (text[0] == '0' && len > 1))
		return false;
	for (size_t i = 0; i < len; i++)
		bits = bits * 10 + (text[i] - '0');
	if (bits > max)
		return false;

	*ret = bits;
	return true;
}

enum prefix_status prefix_parse(struct prefix *ret, const char *text, size_t len)
{
	char buffer[PREFIX_STRING_MAX], *slash;
	bool is_gid = len >= strlen(GID_WORD) && !memcmp(text, GID_WORD, strlen(GID_WORD));
	struct prefix prefix, masked;
	uint8_t address[16];
	unsigned bits, max;

	if (is_gid) {
		text += strlen(GID_WORD);
		len -= strlen(GID_WORD);
	}
	if (len >= sizeof(buffer) || memchr(text, '\0', len))
		return PREFIX_NO_ADDRESS;
	memcpy(buffer, text, len);
	buffer[len] = '\0';

	slash = strchr(buffer, '/');
	if (slash)
		*slash = '\0';

	if (!is_gid && inet_pton(AF_INET, buffer, address) == 1)
		max = 32;
	else if (inet_pton(AF_INET6, buffer, address) == 1)
		max = 128;
	else
		return PREFIX_NO_ADDRESS;

	bits = max;
	if (slash && !parse_bits(&bits, slash + 1, max))
		return PREFIX_BAD_LENGTH;

	if (max == 32)
		set(&prefix, 4, address, bits);
	else if (is_gid)
		set(&prefix, PREFIX_GID, address, bits);
	else
		set_ipv6(&prefix, address, bits);

	masked = prefix;
	clear_host_bits(&masked);
	*ret = masked;
	return memcmp(masked.address, prefix.address, 16) ? PREFIX_HOST_BITS : PREFIX_OK;
}

bool prefix_from_sockaddr(struct prefix *ret, const struct sockaddr *address)
{
	static const uint8_t zero[16];
	struct prefix prefix = {};
	sa_family_t family;

	if (!address)
		return false;

	/* ADDRESS can be unaligned, so copy it before use. */
	memcpy(&family, (const char *)address + offsetof(struct sockaddr, sa_family),
	       sizeof(family));
	if (family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		set(&prefix, 4, &in.sin_addr, 32);
	} else if (family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof(in6));
		set_ipv6(&prefix, (const uint8_t *)&in6.sin6_addr, 128);
	} else if (family == AF_IB) {
		struct sockaddr_ib ib;

		memcpy(&ib, address, sizeof(ib));
		set(&prefix, PREFIX_GID, &ib.sib_addr, 128);
	} else {
		return false;
	}

	if (!memcmp(prefix.address, zero, sizeof(zero)))
		return false;

	*ret = prefix;
	return true;
}

const char *prefix_to_string(const struct prefix *prefix, char *buffer)
{
	char address[INET6_ADDRSTRLEN];
	bool is_ipv4 = prefix->family == 4;
	const char *word = prefix->family == PREFIX_GID ? GID_WORD : "";

	inet_ntop(is_ipv4 ? AF_INET : AF_INET6, prefix->address, address, sizeof(address));
	if (prefix->bits == (is_ipv4 ? 32 : 128))
		snprintf(buffer, PREFIX_STRING_MAX, "%s%s", word, address);
	else
		snprintf(buffer, PREFIX_STRING_MAX, "%s%s/%u", word, address, prefix->bits);
	return buffer;
}

bool prefix_contains(const struct prefix *outer, const struct prefix *inner)
{
	unsigned n = outer->bits / 8, rest = outer->bits % 8;

	if (outer->family != inner->family || outer->bits > inner->bits)
		return false;
	if (memcmp(outer->address, inner->address, n))
		return false;
	return !rest || !((outer->address[n] ^ inner->address[n]) >> (8 - rest));
}

static int compare(const void *a, const void *b)
{
	const struct prefix *x = a, *y = b;
	int r;

	if (x->family != y->family)
		return x->family - y->family;
	r = memcmp(x->address, y->address, sizeof(x->address));
	return r ? r : x->bits - y->bits;
}

size_t prefix_normalise(struct prefix *prefixes, size_t n)
{
	size_t n_kept = 0;

	if (!n)
		return 0;

	/* After sorting, each prefix is directly followed by all prefixes that it contains. */
	qsort(prefixes, n, sizeof(*prefixes), compare);
	for (size_t i = 0; i < n; i++)
		if (!n_kept || !prefix_contains(&prefixes[n_kept - 1], &prefixes[i]))
			prefixes[n_kept++] = prefixes[i];
	return n_kept;
}

bool prefix_set_contains(const struct prefix_set *set, const struct prefix *address)
{
	/* Only the last prefix that does not sort after the address can contain it. */
	size_t after = LOWER_BOUND(i, set->n, compare(&set->prefixes[i], address) <= 0);

	return after && prefix_contains(&set->prefixes[after - 1], address);
}

bool prefix_set_lacks(const struct prefix_set *set, const struct prefix *address)
{
	/* The prefixes are sorted by their family, and PREFIX_GID is the last one. */
	if (address->family == PREFIX_GID)
		return set->n == 0 || set->prefixes[0].family == PREFIX_GID;
	return set->n == 0 || set->prefixes[set->n - 1].family != PREFIX_GID;
}
