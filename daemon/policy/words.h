/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The words of the rule language: the rows of the table in words.c. Their functions are in match.c and setting.c.
 */

#include <stddef.h>

#include "policy/rule/condition.h"

struct parser;
struct policy_rule;
struct policy_settings;
struct token;

/* NULL: the table has no row I. */
const struct policy_word *policy_word_at(size_t i);
const struct policy_word *policy_word_find(const struct token *token);
/* The position of WORD in the table, below 64. */
size_t policy_word_index(const struct policy_word *word);
/* Returns the word that is most similar to TOKEN, for "did you mean"; NULL: none is similar. */
const char *policy_word_guess(const struct token *token);

int match_parse_user(struct parser *parser, struct policy_rule *rule, union policy_value *ret);
int match_parse_group(struct parser *parser, struct policy_rule *rule, union policy_value *ret);
int match_parse_prefix(struct parser *parser, struct policy_rule *rule, union policy_value *ret);
int match_parse_port(struct parser *parser, struct policy_rule *rule, union policy_value *ret);
/* Reads a pattern for the word before it. */
int match_parse_glob(struct parser *parser, struct policy_rule *rule, union policy_value *ret);
int match_parse_ps(struct parser *parser, struct policy_rule *rule, union policy_value *ret);
int match_parse_same(struct parser *parser, struct policy_rule *rule, union policy_value *ret);
int match_parse_cgroup(struct parser *parser, struct policy_rule *rule, union policy_value *ret);
int match_parse_data(struct parser *parser, struct policy_rule *rule, union policy_value *ret);

enum ternary match_user(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_group(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_local(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_peer(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_port(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_device(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_ps(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_unit(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_container(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_pod(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_job(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_cgroup(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_peer_user(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_peer_group(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_peer_unit(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_peer_same(const union policy_value *value, const struct policy_facts *facts);
enum ternary match_data(const union policy_value *value, const struct policy_facts *facts);

/*
 * Returns the maximum size of a connection request's private data in PORT_SPACE, in bytes. PORT_SPACE 0: in any port
 * space.
 */
size_t match_data_max(int port_space);

/* The settings of a rule. Those with a form are read by it, and described by policy_next_setting(). */
typedef int setting_parse_fn(struct parser *parser, struct policy_rule *rule,
			     union policy_value *ret);
setting_parse_fn setting_parse_number, setting_parse_name, setting_parse_rate, setting_parse_tos,
	setting_parse_dscp, setting_parse_burst, setting_parse_reason, setting_parse_log;

/* The values of a rule that sets nothing. */
void settings_init(struct policy_settings *settings);
/* What a warn rule has unless it says otherwise: the kernel alone neither knows REUSEADDR's users nor looks at QPs. */
void settings_as_kernel(struct policy_settings *settings);
