/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The words of the rule language: the rows of the table in words.c. Their functions are in match.c and setting.c.
 */

#include <stddef.h>

#include "policy/rule/condition.h"

struct policy_settings;
struct token;

/* NULL: the table has no row I. */
const struct policy_word *policy_word_at(size_t i);
const struct policy_word *policy_word_find(const struct token *token);
/* The position of WORD in the table, below 64. */
size_t policy_word_index(const struct policy_word *word);
/* Returns the word that is most similar to TOKEN, for "did you mean"; NULL: none is similar. */
const char *policy_word_guess(const struct token *token);

word_parse_fn match_parse_user, match_parse_group, match_parse_prefix, match_parse_port,
	match_parse_ps, match_parse_same, match_parse_cgroup, match_parse_data, match_parse_pkey,
	match_parse_unit;
word_parse_fn match_parse_glob; /* reads a pattern for the word before it */

word_match_fn match_user, match_group, match_local, match_peer, match_port, match_device, match_ps,
	match_workload, match_cgroup, match_peer_user, match_peer_group, match_peer_unit,
	match_peer_same, match_data, match_pkey;

/*
 * Returns the maximum size of a connection request's private data in PORT_SPACE, in bytes. PORT_SPACE 0: in any port
 * space.
 */
size_t match_data_max(int port_space);

/* The settings of a rule. Those with a form are read by it, and described by policy_next_setting(). */
word_parse_fn setting_parse_number, setting_parse_name, setting_parse_rate, setting_parse_tos,
	setting_parse_dscp, setting_parse_burst, setting_parse_reason, setting_parse_log;

/* The values of a rule that sets nothing. */
void settings_init(struct policy_settings *settings);
/* What a warn rule has unless it says otherwise: the kernel alone neither knows REUSEADDR's users nor looks at QPs. */
void settings_as_kernel(struct policy_settings *settings);
