/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "proto/jsonout.h"

static void json_values(struct jsonout *json, const char *const *values)
{
	jsonout_open(json, "values", '[');
	for (; values && *values; values++)
		jsonout_string(json, NULL, *values);
	jsonout_close(json, ']');
}

static void json_options(struct jsonout *json, const struct verb_option *option)
{
	jsonout_open(json, "options", '[');
	for (; option && option->name; option++) {
		jsonout_open(json, NULL, '{');
		jsonout_string(json, "name", option->name);
		jsonout_string(json, "argument", option->argument);
		jsonout_string(json, "summary", option->summary);
		json_values(json, option->values);
		jsonout_close(json, '}');
	}
	jsonout_close(json, ']');
}

static void json_verb(struct jsonout *json, const struct verb *verb)
{
	jsonout_open(json, NULL, '{');
	jsonout_string(json, "name", verb->name);
	jsonout_string(json, "argument", verb->argument);
	jsonout_string(json, "summary", verb->summary);
	json_values(json, verb->values);
	json_options(json, verb->options);
	jsonout_close(json, '}');
}

static void print_json(const struct ctl *ctl, const struct verb *only)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_open(&json, "verbs", '[');
	for (const struct verb *verb = ctl->verbs; verb->name; verb++)
		if (!only || only == verb)
			json_verb(&json, verb);
	jsonout_close(&json, ']');
	json_options(&json, common_options);
	jsonout_close(&json, '}');
	putchar('\n');
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
		print_json(ctl, verb);
	else if (verb)
		print_verb(verb);
	else
		print_all(ctl);
	return EXIT_SUCCESS;
}

int verb_help(const struct ctl *ctl, char **arguments)
{
	const struct verb *verb = NULL;

	if (arguments[0]) {
		verb = ctl_find_verb(ctl, arguments[0]);
		if (!verb)
			return EXIT_USAGE;
	}
	return help_print(ctl, verb);
}
