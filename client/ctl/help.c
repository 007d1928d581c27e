/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "table.h"

/*
 * The texts of --help and of the verb help, made from the table of verbs. As JSON they are what the completion and the
 * tests read.
 */

static void json_values(const void *at, struct jsonout *json, const char *key)
{
	const char *const *values = *(const char *const *const *)at;

	jsonout_open(json, key, '[');
	for (; values && *values; values++)
		jsonout_string(json, NULL, *values);
	jsonout_close(json, ']');
}

static void json_options(const void *at, struct jsonout *json, const char *key)
{
	static const struct column columns[] = {
		{ NULL, "name", COLUMN_OF(struct verb_option, name) },
		{ NULL, "argument", COLUMN_OF(struct verb_option, argument) },
		{ NULL, "summary", COLUMN_OF(struct verb_option, summary) },
		{ NULL, "values", COLUMN_OF(struct verb_option, values), .json = json_values },
		{ NULL },
	};
	const struct verb_option *option = *(const struct verb_option *const *)at;

	jsonout_open(json, key, '[');
	for (; option && option->name; option++)
		json_row(json, NULL, columns, option);
	jsonout_close(json, ']');
}

static void print_verbs(const struct ctl *ctl, const struct verb *only)
{
	static const struct column columns[] = {
		{ NULL, "name", COLUMN_OF(struct verb, name) },
		{ NULL, "argument", COLUMN_OF(struct verb, argument) },
		{ NULL, "summary", COLUMN_OF(struct verb, summary) },
		{ NULL, "values", COLUMN_OF(struct verb, values), .json = json_values },
		{ NULL, "options", .offset = offsetof(struct verb, options), .json = json_options },
		{ NULL },
	};
	const struct verb_option *common = common_options;
	struct jsonout json;
	struct table table;

	json_begin(&json);
	table_begin(&table, columns, &json, "verbs");
	for (const struct verb *verb = ctl->verbs; verb->name; verb++)
		if (!only || only == verb)
			table_add(&table, verb);
	table_end(&table, stdout);
	json_options(&common, &json, "options");
	json_end(&json);
}

static void print_row(int indent, const char *prefix, const char *left, const char *argument,
		      const char *right)
{
	int n = printf("%*s%s%s%s%s", indent, "", prefix, left, argument ? " " : "",
		       argument ? argument : "");

	printf("%*s%s\n", n < 24 ? 25 - n : 1, "", right);
}

static void print_options(int indent, const struct verb_option *option)
{
	for (; option && option->name; option++)
		print_row(indent, "--", option->name, option->argument, option->summary);
}

static void print_verb(const struct verb *verb)
{
	printf("Usage: rdmabrokerctl %s%s%s%s\n\n%s.\n", verb->name,
	       verb->options ? " [OPTION ...]" : "", verb->argument ? " " : "",
	       verb->argument ? verb->argument : "", verb->summary);
	if (verb->values) {
		printf("\n%s:", verb->argument);
		for (const char *const *value = verb->values; *value; value++)
			printf(" %s", *value);
		putchar('\n');
	}
	puts("\nOptions:");
	print_options(2, verb->options);
	print_options(2, common_options);
}

static void print_all(const struct ctl *ctl)
{
	puts("Usage: rdmabrokerctl [OPTION ...] VERB [ARGUMENT ...]\n"
	     "\n"
	     "Shows the state, rules and decisions of rdmabrokerd, and administers it.\n"
	     "\n"
	     "Verbs:");
	for (const struct verb *verb = ctl->verbs; verb->name; verb++) {
		print_row(2, "", verb->name, verb->argument, verb->summary);
		print_options(6, verb->options);
	}
	puts("\nOptions of all verbs:");
	print_options(2, common_options);
	puts("\nExit status: 0 success, 1 failure, 2 usage error, 3 rejected (explain).");
}

int help_print(const struct ctl *ctl, const struct verb *verb)
{
	if (ctl->json)
		print_verbs(ctl, verb);
	else if (verb)
		print_verb(verb);
	else
		print_all(ctl);
	return EXIT_SUCCESS;
}

int verb_help(struct ctl *ctl)
{
	const struct verb *verb = NULL;

	if (ctl->arguments[0]) {
		verb = ctl_find_verb(ctl, ctl->arguments[0]);
		if (!verb)
			return EXIT_USAGE;
	}
	return help_print(ctl, verb);
}
