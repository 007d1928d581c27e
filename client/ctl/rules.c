/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "table.h"

/* The verb rules: the rules in force, and how often each of them has decided. */

enum {
	OPTION_FULL,
};

const struct verb_option rules_options[] = {
	[OPTION_FULL] = { "full", NULL, "do not cut the rules to the terminal's width" },
	{ NULL },
};

static void print_place(const void *at, FILE *file)
{
	const struct rdmabroker_rule *rule = at;

	if (rule->file)
		fprintf(file, "%s:%u", rule->file, rule->line);
	else
		fputs("(no rule)", file);
}

static void print_rule_text(const void *at, FILE *file)
{
	const struct rdmabroker_rule *rule = at;

	fprintf(file, "%s", rule->file ? rule->text : "(rejected: no rule matches)");
}

static enum colour colour_rejected(const void *row)
{
	return ((const struct rdmabroker_rule *)row)->n_rejected > 0 ? COLOUR_RED : COLOUR_NONE;
}

static enum colour colour_busy(const void *row)
{
	return ((const struct rdmabroker_rule *)row)->n_busy > 0 ? COLOUR_YELLOW : COLOUR_NONE;
}

static enum colour colour_warned(const void *row)
{
	return ((const struct rdmabroker_rule *)row)->n_warned > 0 ? COLOUR_YELLOW : COLOUR_NONE;
}

#define OF(member) COLUMN_OF(struct rdmabroker_rule, member)

static const struct column columns[] = {
	{ NULL, "file", OF(file) },
	{ NULL, "line", OF(line), COLUMN_NO_ZERO },
	{ "RULE", NULL, .type = COLUMN_TEXT, .text = print_place },
	{ NULL, "text", OF(text) },
	{ "ALLOWED", "allowed", OF(n_allowed) },
	{ "REJECTED", "rejected", OF(n_rejected), .colour = colour_rejected },
	{ "BUSY", "busy", OF(n_busy), .colour = colour_busy },
	{ "WARNED", "warned", OF(n_warned), .colour = colour_warned },
	{ "NOW", "now", OF(n_now) },
	{ "PENDING", "pending", OF(n_pending) },
	{ "TEXT", NULL, .type = COLUMN_TEXT, .text = print_rule_text },
	{ NULL },
};

int verb_rules(struct ctl *ctl)
{
	int r, status = ctl_open_session(ctl, /* as_admin= */ true);
	struct rdmabroker_rules *rules;

	if (status != 0)
		return status;
	r = rdmabroker_get_rules(ctl->session, &rules);
	if (r < 0)
		return ctl_complain_failure(ctl, r);
	if (!print_rows(ctl->json ? "rules" : NULL, columns, rules->list, rules->n,
			sizeof(*rules->list), ctl->given[OPTION_FULL] ? 0 : terminal_width()))
		status = EXIT_FAILURE;
	rdmabroker_free(rules);
	return status;
}
