/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The condition under which a rule matches: its operations and its matches. A match is a word (see words.h) with a
 * value.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/rule/prefix.h"
#include "policy/rule/question.h"

#define POLICY_ALL_OPERATIONS ((1u << _POLICY_OPERATION_MAX) - 1)
/* The operations of "any". Observe and admin must be named in a rule, because they concern other users' state. */
#define POLICY_ANY_OPERATIONS (POLICY_ALL_OPERATIONS & ~(1u << POLICY_OBSERVE | 1u << POLICY_ADMIN))

struct parser;
struct policy_rule;

struct policy_ids {
	bool is_incomplete; /* a name could not be looked up */
	size_t n;
	uint32_t ids[]; /* ascending */
};

struct policy_ports {
	size_t n;
	struct {
		uint16_t first, last;
	} ranges[];
};

struct policy_data {
	size_t len; /* 1 to PRIVATE_DATA_LOOKUP */
	uint8_t bytes[];
};

union policy_value {
	const struct policy_ids *ids;
	const struct policy_ports *ports; /* or partitions */
	const struct prefix_set *prefixes;
	const char *glob;
	const struct policy_data *data;
	int number;
};

/* What a match is about. What the client belongs to is in the order of enum workload_name. */
enum policy_fact {
	FACT_NONE, /* who the peer is; or the word is a setting */
	FACT_USER,
	FACT_GROUP,
	FACT_UNIT,
	FACT_CONTAINER,
	FACT_POD,
	FACT_JOB,
	FACT_CGROUP,
	FACT_PS,
	FACT_PORT,
	FACT_DEVICE,
	FACT_PEER,
	FACT_LOCAL,
	FACT_DATA,
	FACT_PKEY,
	_FACT_MAX,
};

/*
 * The result of a match function. TERNARY_UNKNOWN: it depends on an unknown fact, or on a name that could not be
 * looked up.
 */
enum ternary {
	TERNARY_NO,
	TERNARY_UNKNOWN,
	TERNARY_YES,
};

/* Of FACT_UNIT to FACT_CGROUP. */
static inline enum workload_name fact_workload(enum policy_fact fact)
{
	return (enum workload_name)(fact - FACT_UNIT);
}

/* A question, and its addresses as prefixes. */
struct policy_facts {
	const struct policy_question *question;
	bool knows_local;
	bool knows_peer;
	struct prefix local;
	struct prefix peer;
};

enum policy_place {
	WORD_ON_ALLOW = 1 << 0,
	WORD_ON_REJECT = 1 << 1,
	WORD_ON_BOTH = WORD_ON_ALLOW | WORD_ON_REJECT,
	WORD_IN_RESTRICTION =
		1 << 2, /* also in the rules of a restriction, see policy_load_restriction() */
};

/* What a setting's value is, in struct policy_settings. */
enum setting_form {
	SETTING_NONE, /* the word is a match, or a setting of a form of its own */
	SETTING_NUMBER, /* an int; -1: not set */
	SETTING_COUNT, /* an unsigned; 0: not set */
	SETTING_NAME, /* an enum, by its name; 0: not set */
	SETTING_RATE, /* a struct policy_rate; all zero: not set */
};

struct setting {
	enum setting_form form;
	size_t offset; /* in struct policy_settings */
	uint32_t least, most; /* of a number or a count */
	const char *const
		*names; /* of a name: by its value; "": this value has none; the last one is NULL */
	const char *takes; /* for complaints: "'qp' takes own or reserved" */
};

struct policy_match;

/*
 * Reads a word's value into RET (a match) or RULE (a setting). Returns 0 if the rest of the line can be parsed, even
 * after a complaint; else -EBADMSG or -ENOMEM.
 */
typedef int word_parse_fn(struct parser *parser, struct policy_rule *rule, union policy_value *ret);
typedef enum ternary word_match_fn(const struct policy_match *match,
				   const struct policy_facts *facts);

struct policy_word {
	const char *name;
	unsigned places; /* enum policy_place */
	/* bit i: the word is allowed for enum policy_operation i */
	unsigned operations;
	word_parse_fn *parse;
	enum policy_fact fact;
	word_match_fn *match; /* NULL: the word is a setting */
	bool is_about_who; /* a match that depends on policy_question.who */
	struct setting setting; /* of a setting */
};

struct policy_match {
	const struct policy_word *word;
	union policy_value value;
};

struct policy_condition {
	uint32_t first_match;
	uint8_t n_matches;
	uint8_t operations; /* bit i: enum policy_operation i */
	bool allow;
	/* an allow rule without 'pkey', which does not cover a partition that is named (policy_question.names_pkey) */
	bool lacks_pkey;
};
_Static_assert(_POLICY_OPERATION_MAX <= 8, "a condition keeps the operations in 8 bits");
