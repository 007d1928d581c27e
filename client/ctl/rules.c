/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "table.h"

/* The verb rules: the rules in force, and how often each of them has decided. */

static const char *full;

const struct verb_option rules_options[] = {
	{ "full", NULL, "do not cut the rules to the terminal's width", .given = &full },
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

#define OF(member) COLUMN_OF(struct rdmabroker_rule, member)

static const struct column columns[] = {
	{ NULL, "file", OF(file) },
	{ NULL, "line", OF(line), COLUMN_NO_ZERO },
	{ "RULE", NULL, .type = COLUMN_TEXT, .text = print_place },
	{ NULL, "text", OF(text) },
	{ "ALLOWED", "allowed", OF(n_allowed) },
	{ "REJECTED", "rejected", OF(n_rejected), .hue = COLOUR_RED },
	{ "BUSY", "busy", OF(n_busy), .hue = COLOUR_YELLOW },
	{ "WARNED", "warned", OF(n_warned), .hue = COLOUR_YELLOW },
	{ "NOW", "now", OF(n_now) },
	{ "PENDING", "pending", OF(n_pending) },
	{ "TEXT", NULL, .type = COLUMN_TEXT, .text = print_rule_text },
	{ NULL },
};

int verb_rules(struct ctl *ctl)
{
	struct rdmabroker_rules *rules;

	ctl_open_session(ctl, /* as_admin= */ true);
	ctl_check(ctl, rdmabroker_get_rules(ctl->session, &rules));
	print_rows(ctl->json ? "rules" : NULL, columns, rules->list, rules->n, sizeof(*rules->list),
		   full ? 0 : terminal_width());
	rdmabroker_free(rules);
	return EXIT_SUCCESS;
}
