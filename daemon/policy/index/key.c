/* SPDX-License-Identifier: BSD-2-Clause */

#include <endian.h>
#include <string.h>

#include "policy/index/key.h"
#include "policy/rule/condition.h"

#define HEAD_MAX 63 /* maximum number of bytes of a pattern that its key covers */
#define DATA_MAX 16 /* maximum number of bytes of private data that a key covers */
#define LENGTH_IPV6 33 /* length of the key of ::/0; 0 to 32 are the lengths of IPv4 prefixes */
#define LENGTH_SET 162

/* 128 bits, of which a key uses the leading ones. */
struct bits {
	uint64_t high, low;
};

void key_lengths_add(struct key_lengths *lengths, unsigned length)
{
	if (lengths->has[length])
		return;
	lengths->has[length] = true;
	lengths->lengths[lengths->n++] = length;
}

static uint64_t hash_pair(enum key_dimension dimension, unsigned length, uint64_t high,
			  uint64_t low)
{
	return key_mix(key_mix(dimension << 8 | length, high), low);
}

static uint64_t first_bits(unsigned n)
{
	return n == 0 ? 0 : ~UINT64_C(0) << (64 - n);
}

static uint64_t hash_bits(enum key_dimension dimension, unsigned length, struct bits bits,
			  unsigned n)
{
	return n <= 64 ? hash_pair(dimension, length, bits.high & first_bits(n), 0) :
			 hash_pair(dimension, length, bits.high, bits.low & first_bits(n - 64));
}

/* LEN is at most 16. */
static struct bits bits_from_bytes(const void *bytes, size_t len)
{
	uint64_t words[2] = {};

	memcpy(words, bytes, len);
	return (struct bits){ be64toh(words[0]), be64toh(words[1]) };
}

static struct bits bits_from_port(unsigned port)
{
	return (struct bits){ .high = (uint64_t)port << 48 };
}

static struct key make_key(enum key_dimension dimension, unsigned length, struct bits bits,
			   unsigned n)
{
	return (struct key){ hash_bits(dimension, length, bits, n), length };
}

static struct key make_exact(enum key_dimension dimension, uint64_t value)
{
	return (struct key){ hash_pair(dimension, 0, value, 0), 0 };
}

static size_t keys_from_ids(enum key_dimension dimension, const struct policy_ids *ids,
			    struct key *ret)
{
	if (ids->is_incomplete || ids->n > KEY_MATCH_MAX)
		return 0;
	for (size_t i = 0; i < ids->n; i++)
		ret[i] = make_exact(dimension, ids->ids[i]);
	return ids->n;
}

static struct key make_prefix(enum key_dimension dimension, const struct prefix *prefix)
{
	unsigned length = prefix->bits + (prefix->family == 6 ? LENGTH_IPV6 : 0);

	return make_key(dimension, length, bits_from_bytes(prefix->address, 16), prefix->bits);
}

struct key key_from_prefix(const struct prefix *prefix)
{
	return make_prefix(KEY_NONE, prefix);
}

uint64_t key_from_set(enum key_dimension dimension, size_t number)
{
	return hash_pair(dimension, LENGTH_SET, number, 0);
}

static size_t keys_from_prefixes(enum key_dimension dimension, const struct prefix_set *set,
				 struct key *ret, const struct prefix_set **ret_set)
{
	if (set->n == 1) {
		*ret = make_prefix(dimension, &set->prefixes[0]);
		return 1;
	}
	*ret = (struct key){ key_from_set(dimension, set->number), LENGTH_SET };
	*ret_set = set;
	return 1;
}

/*
 * A port range is covered by at most five aligned blocks of one size. They can extend past the ends of the range;
 * match_port() excludes the ports outside.
 */
static size_t keys_from_ports(const struct policy_ports *ports, struct key *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < ports->n; i++) {
		unsigned first = ports->ranges[i].first, last = ports->ranges[i].last;
		unsigned size = 1, bits = 16;

		while (size * 4 <= last - first + 1) {
			size *= 2;
			bits--;
		}
		for (unsigned at = first & -size; at <= last; at += size) {
			if (n == KEY_MATCH_MAX)
				return 0;
			ret[n++] = make_key(KEY_PORT, bits, bits_from_port(at), bits);
		}
	}
	return n;
}

static uint64_t hash_char(uint64_t hash, char c)
{
	return (hash ^ (unsigned char)c) * UINT64_C(0x100000001b3);
}

/*
 * Hashes the part of a pattern before its first wildcard or backslash, at most HEAD_MAX bytes. The key's length is
 * the length of that part; 0: the pattern is a plain name, and only this name matches. Returns the number of keys, 0
 * or 1.
 */
static size_t keys_from_glob(enum key_dimension dimension, const char *glob, struct key *ret)
{
	size_t head = strcspn(glob, "*?[\\"), length = head;
	uint64_t hash = 0;

	if (!head)
		return 0;
	/* The path of a control group matches those below it too. */
	if (!glob[head] && dimension != KEY_CGROUP)
		length = 0;
	else if (head > HEAD_MAX)
		length = head = HEAD_MAX;
	for (size_t i = 0; i < head; i++)
		hash = hash_char(hash, glob[i]);
	*ret = (struct key){ hash_pair(dimension, length, hash, 0), length };
	return 1;
}

static size_t keys_from_data(const struct policy_data *data, struct key *ret)
{
	size_t len = data->len < DATA_MAX ? data->len : DATA_MAX;

	*ret = make_key(KEY_DATA, len, bits_from_bytes(data->bytes, len), 8 * len);
	return 1;
}

size_t key_from_match(const struct policy_match *match, struct key *ret,
		      const struct prefix_set **ret_set)
{
	enum key_dimension dimension = match->word->dimension;

	*ret_set = NULL;

	switch (dimension) {
	case KEY_USER:
	case KEY_GROUP:
		return keys_from_ids(dimension, match->value.ids, ret);
	case KEY_PEER:
	case KEY_LOCAL:
		return keys_from_prefixes(dimension, match->value.prefixes, ret, ret_set);
	case KEY_UNIT:
	case KEY_CONTAINER:
	case KEY_POD:
	case KEY_JOB:
	case KEY_DEVICE:
	case KEY_CGROUP:
		return keys_from_glob(dimension, match->value.glob, ret);
	case KEY_PORT:
		return keys_from_ports(match->value.ports, ret);
	case KEY_DATA:
		return keys_from_data(match->value.data, ret);
	case KEY_PS:
		*ret = make_exact(KEY_PS, match->value.number);
		return 1;
	case KEY_NONE:
	case _KEY_DIMENSION_MAX:
		break;
	}
	return 0;
}

static size_t probe_groups(const struct policy_question *question, uint64_t *ret)
{
	for (size_t i = 0; i < question->n_gids; i++)
		ret[i] = make_exact(KEY_GROUP, question->gids[i]).hash;
	return question->n_gids;
}

static size_t probe_prefixes(enum key_dimension dimension, const struct prefix *address,
			     const struct key_lengths *lengths, uint64_t *ret)
{
	struct bits bits = bits_from_bytes(address->address, 16);
	bool is_ipv6 = address->family == 6;
	size_t n = 0;

	for (size_t i = 0; i < lengths->n; i++) {
		unsigned length = lengths->lengths[i];

		if (length != LENGTH_SET && is_ipv6 == (length >= LENGTH_IPV6))
			ret[n++] = hash_bits(dimension, length, bits,
					     is_ipv6 ? length - LENGTH_IPV6 : length);
	}
	return n;
}

size_t key_from_address(const struct prefix *address, const struct key_lengths *lengths,
			uint64_t *ret)
{
	return probe_prefixes(KEY_NONE, address, lengths, ret);
}

static size_t probe_port(unsigned port, const struct key_lengths *lengths, uint64_t *ret)
{
	for (size_t i = 0; i < lengths->n; i++)
		ret[i] = hash_bits(KEY_PORT, lengths->lengths[i], bits_from_port(port),
				   lengths->lengths[i]);
	return lengths->n;
}

static size_t probe_text(enum key_dimension dimension, const char *text,
			 const struct key_lengths *lengths, uint64_t *ret)
{
	uint64_t hash = 0;
	size_t n = 0;

	for (size_t i = 0; text[i]; i++) {
		hash = hash_char(hash, text[i]);
		if (i < HEAD_MAX && lengths->has[i + 1])
			ret[n++] = hash_pair(dimension, i + 1, hash, 0);
	}
	if (lengths->has[0])
		ret[n++] = hash_pair(dimension, 0, hash, 0);
	return n;
}

static size_t probe_data(const struct policy_question *question, const struct key_lengths *lengths,
			 uint64_t *ret)
{
	size_t len = question->data_len < DATA_MAX ? question->data_len : DATA_MAX, n = 0;
	struct bits bits = {};

	if (len)
		bits = bits_from_bytes(question->data, len);
	for (size_t i = 0; i < lengths->n; i++)
		if (lengths->lengths[i] <= len)
			ret[n++] = hash_bits(KEY_DATA, lengths->lengths[i], bits,
					     8 * lengths->lengths[i]);
	return n;
}

static enum workload_name workload_of(enum key_dimension dimension)
{
	static const enum workload_name workloads[] = {
		[KEY_UNIT] = WORKLOAD_UNIT,     [KEY_CONTAINER] = WORKLOAD_CONTAINER,
		[KEY_POD] = WORKLOAD_POD,       [KEY_JOB] = WORKLOAD_JOB,
		[KEY_CGROUP] = WORKLOAD_CGROUP,
	};

	return workloads[dimension];
}

/* True if the fact of this dimension is known. Must agree with the match functions. */
static bool is_known(enum key_dimension dimension, const struct policy_facts *facts)
{
	const struct policy_question *question = facts->question;

	switch (dimension) {
	case KEY_USER:
		return true;
	case KEY_GROUP:
		return !question->too_many_gids;
	case KEY_UNIT:
	case KEY_CONTAINER:
	case KEY_POD:
	case KEY_JOB:
	case KEY_CGROUP:
		return question->workload[workload_of(dimension)];
	case KEY_PS:
		return question->port_space;
	case KEY_PORT:
		return question->port > 0;
	case KEY_DEVICE:
		return question->device;
	case KEY_PEER:
		return facts->knows_peer;
	case KEY_LOCAL:
		return facts->knows_local;
	case KEY_DATA:
		return question->knows_data;
	case KEY_NONE:
	case _KEY_DIMENSION_MAX:
		break;
	}
	return false;
}

static size_t probe_one(enum key_dimension dimension, uint64_t value, uint64_t *ret)
{
	*ret = make_exact(dimension, value).hash;
	return 1;
}

static size_t probe(enum key_dimension dimension, const struct policy_facts *facts,
		    const struct key_lengths *lengths, uint64_t *ret)
{
	const struct policy_question *question = facts->question;

	switch (dimension) {
	case KEY_USER:
		return probe_one(dimension, question->uid, ret);
	case KEY_GROUP:
		return probe_groups(question, ret);
	case KEY_UNIT:
	case KEY_CONTAINER:
	case KEY_POD:
	case KEY_JOB:
	case KEY_CGROUP:
		return probe_text(dimension, question->workload[workload_of(dimension)], lengths,
				  ret);
	case KEY_PS:
		return probe_one(dimension, question->port_space, ret);
	case KEY_PORT:
		return probe_port(question->port, lengths, ret);
	case KEY_DEVICE:
		return probe_text(dimension, question->device, lengths, ret);
	case KEY_PEER:
		return probe_prefixes(dimension, &facts->peer, lengths, ret);
	case KEY_LOCAL:
		return probe_prefixes(dimension, &facts->local, lengths, ret);
	case KEY_DATA:
		return probe_data(question, lengths, ret);
	case KEY_NONE:
	case _KEY_DIMENSION_MAX:
		break;
	}
	return 0;
}

enum key_state key_from_facts(enum key_dimension dimension, const struct policy_facts *facts,
			      const struct key_lengths *lengths, uint64_t *ret, size_t *ret_n)
{
	if (!is_known(dimension, facts))
		return KEY_UNKNOWN;
	if (dimension == KEY_GROUP && facts->question->n_gids > KEY_FACT_MAX)
		return KEY_TOO_MANY;
	*ret_n = probe(dimension, facts, lengths, ret);
	return KEY_KNOWN;
}
