/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "proto/jsonout.h"

#define TEXT_MIN 16 /* the text's minimum width, even if lines wrap */

enum {
	OPTION_FULL,
};

const struct verb_option rules_options[] = {
	[OPTION_FULL] = { "full", NULL, "do not cut the rules to the terminal's width" },
	{ NULL },
};

#define N_COLUMNS 5

static const struct column {
	const char *head, *key;
	enum colour colour; /* for numbers that are not 0 */
} columns[N_COLUMNS] = {
	{ "ALLOWED", "allowed", COLOUR_NONE }, { "REJECTED", "rejected", COLOUR_RED },
	{ "BUSY", "busy", COLOUR_YELLOW },     { "NOW", "now", COLOUR_NONE },
	{ "PENDING", "pending", COLOUR_NONE },
};

static uint64_t get_number(const struct rdmabroker_rule *rule, size_t column)
{
	const uint64_t numbers[N_COLUMNS] = {
		rule->n_allowed, rule->n_rejected, rule->n_busy, rule->n_now, rule->n_pending,
	};

	return numbers[column];
}

/* Returns "file:line", in a static buffer. */
static const char *get_place(const struct rdmabroker_rule *rule)
{
	static char place[512];

	if (!rule->file)
		return "(no rule)";
	snprintf(place, sizeof(place), "%s:%u", rule->file, rule->line);
	return place;
}

static void print_json(const struct rdmabroker_rules *rules)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_open(&json, "rules", '[');
	for (size_t i = 0; i < rules->n_rules; i++) {
		const struct rdmabroker_rule *rule = rules->rules[i];

		jsonout_open(&json, NULL, '{');
		jsonout_string(&json, "file", rule->file);
		if (rule->file)
			jsonout_number(&json, "line", rule->line);
		else
			jsonout_null(&json, "line");
		jsonout_string(&json, "text", rule->text);
		for (size_t k = 0; k < N_COLUMNS; k++)
			jsonout_number(&json, columns[k].key, get_number(rule, k));
		jsonout_close(&json, '}');
	}
	jsonout_close(&json, ']');
	jsonout_close(&json, '}');
	putchar('\n');
}

/* Returns how many bytes of TEXT fit into WIDTH columns, at one column for each UTF-8 character. */
static size_t fitting(const char *text, size_t width)
{
	size_t n = 0, at = 0;

	for (; text[at]; at++) {
		if ((text[at] & 0xc0) == 0x80)
			continue;
		if (n++ == width)
			break;
	}
	return at;
}

static void print_text(const char *text, size_t width)
{
	if (width == 0 || text[fitting(text, width)] == '\0')
		puts(text);
	else
		printf("%.*s...\n", (int)fitting(text, width - 3), text);
}

static int larger(int a, int b)
{
	return a > b ? a : b;
}

static void print_table(const struct rdmabroker_rules *rules, unsigned terminal)
{
	int place_width = (int)strlen("RULE"), widths[N_COLUMNS];
	int used;

	for (size_t k = 0; k < N_COLUMNS; k++)
		widths[k] = (int)strlen(columns[k].head);
	for (size_t i = 0; i < rules->n_rules; i++) {
		const struct rdmabroker_rule *rule = rules->rules[i];

		place_width = larger(place_width, (int)strlen(get_place(rule)));
		for (size_t k = 0; k < N_COLUMNS; k++)
			widths[k] = larger(widths[k],
					   snprintf(NULL, 0, "%" PRIu64, get_number(rule, k)));
	}
	used = place_width + 2;
	for (size_t k = 0; k < N_COLUMNS; k++)
		used += widths[k] + 2;

	printf("%-*s  ", place_width, "RULE");
	for (size_t k = 0; k < N_COLUMNS; k++)
		printf("%*s  ", widths[k], columns[k].head);
	puts("TEXT");
	for (size_t i = 0; i < rules->n_rules; i++) {
		const struct rdmabroker_rule *rule = rules->rules[i];

		printf("%-*s  ", place_width, get_place(rule));
		for (size_t k = 0; k < N_COLUMNS; k++) {
			uint64_t number = get_number(rule, k);
			bool tell = number > 0 && columns[k].colour != COLOUR_NONE;

			printf("%s%*" PRIu64 "%s  ", tell ? colour(columns[k].colour) : "",
			       widths[k], number, tell ? colour(COLOUR_NONE) : "");
		}
		print_text(rule->file ? rule->text : "(rejected: no rule matches)",
			   terminal > 0 ? (size_t)larger((int)terminal - used, TEXT_MIN) : 0);
	}
}

int verb_rules(const struct ctl *ctl, char **arguments)
{
	struct rdmabroker_rules *rules;
	struct rdmabroker *session;
	int r, status;

	(void)arguments;
	status = ctl_open_session(ctl, /* as_admin= */ true, &session);
	if (status != 0)
		return status;
	r = rdmabroker_get_rules(session, &rules);
	if (r < 0) {
		status = ctl_complain_failure(ctl, r);
	} else {
		if (ctl->json)
			print_json(rules);
		else
			print_table(rules, ctl->given[OPTION_FULL] ? 0 : terminal_width());
		rdmabroker_free_rules(rules);
	}
	rdmabroker_close(session);
	return status;
}
