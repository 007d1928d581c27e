/* SPDX-License-Identifier: BSD-2-Clause */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "proto/word.h"

/*
 * The options of rdmabrokerctl and of its verbs, which are rows of the verbs' tables: getopt_long() with a table that
 * is made for the verb.
 */

enum {
	COMMON_HELP,
	COMMON_INSTANCE,
	COMMON_JSON,
	COMMON_SOCKET,
	COMMON_VERSION,
	N_COMMON,
};

const struct verb_option common_options[] = {
	[COMMON_HELP] = { "help", NULL, "print a summary of the verb" },
	[COMMON_INSTANCE] = { "instance", "NAME",
			      "the daemon of this network namespace (socket /run/rdmabroker@NAME/rdmabroker.sock)" },
	[COMMON_JSON] = { "json", NULL, "print one JSON object" },
	[COMMON_SOCKET] = { "socket", "PATH",
			    "the daemon's socket (default /run/rdmabroker/rdmabroker.sock)" },
	[COMMON_VERSION] = { "version", NULL, "print the version of rdmabrokerctl; also -V" },
	{ NULL },
};

/* getopt_long() returns OWN + an index into the verb's own options, or COMMON + an index into common_options. */
#define OWN 0x100
#define COMMON 0x200

static void add_rows(struct option **row, const struct verb_option *options, int value)
{
	for (; options && options->name; options++)
		*(*row)++ = (struct option){
			.name = options->name,
			.has_arg = options->argument ? required_argument : no_argument,
			.val = value++,
		};
}

static void complain_option(const char *word, const struct option *rows)
{
	struct word_guess guess;

	if (strncmp(word, "--", 2) != 0) {
		complain("unknown option \"%s\"", word);
		return;
	}
	guess = (struct word_guess){ .word = word + 2, .len = strcspn(word + 2, "=") };
	for (const struct option *row = rows; row->name; row++)
		word_guess(&guess, row->name);
	for (; !guess.best && rows->name; rows++)
		if (guess.len > 0 && strncmp(rows->name, guess.word, guess.len) == 0)
			guess.best = rows->name;
	complain_unknown("option", "--", &guess, NULL);
}

/*
 * Whether WORD, which getopt_long() has taken for the option NAME, is an abbreviation of it. These are refused: the same
 * abbreviation can be an option of its own in a later version, or already mean another one to the user.
 */
static bool is_abbreviation(const char *word, const char *name)
{
	return strncmp(word, "--", 2) == 0 && strcspn(word + 2, "=") < strlen(name);
}

static const char *name_of(const struct option *rows, int value)
{
	while (rows->val != value)
		rows++;
	return rows->name;
}

static bool take_common(struct ctl *ctl, int which)
{
	bool *const flags[N_COMMON] = { [COMMON_HELP] = &ctl->help,
					[COMMON_JSON] = &ctl->json,
					[COMMON_VERSION] = &ctl->version };

	if (flags[which])
		*flags[which] = true;
	else
		*(which == COMMON_SOCKET ? &ctl->socket : &ctl->instance) = optarg;
	return true;
}

/* Giving an option twice is an error, because only the last one would have an effect. */
static bool take_own(struct ctl *ctl, int which)
{
	if (ctl->given[which]) {
		complain("option --%s is given twice", ctl->verb->options[which].name);
		return false;
	}
	ctl->given[which] = optarg ?: "";
	return true;
}

/*
 * Reads options into CTL, and leaves the other arguments in ARGV. Skips the first entry, the name of the program or
 * verb.
 */
static bool read_options(struct ctl *ctl, const char *mode, int *argc, char ***argv)
{
	struct option rows[N_COMMON + MAX_OPTIONS + 1] = { 0 }, *row = rows;
	int c;

	add_rows(&row, common_options, COMMON);
	if (ctl->verb)
		add_rows(&row, ctl->verb->options, OWN);
	opterr = 0;
	optind = 0; /* makes getopt start again */
	while ((c = getopt_long(*argc, *argv, mode, rows, NULL)) != -1) {
		const char *word =
			(*argv)[optind - (optarg && optarg == (*argv)[optind - 1] ? 2 : 1)];
		int value = c == '?' || c == ':' ? optopt : c;

		if (value >= OWN && is_abbreviation(word, name_of(rows, value))) {
			complain_option(word, rows);
			return false;
		}
		if (c == 'h')
			c = COMMON + COMMON_HELP;
		if (c == 'V')
			c = COMMON + COMMON_VERSION;
		if (c >= COMMON ? take_common(ctl, c - COMMON) : c >= OWN && take_own(ctl, c - OWN))
			continue;
		if (c == ':')
			complain("option --%s needs an argument", name_of(rows, optopt));
		else if (c == '?' && optopt >= OWN)
			complain("option --%s takes no argument", name_of(rows, optopt));
		else if (c == '?')
			complain_option((*argv)[optind - 1], rows);
		return false;
	}
	*argc -= optind;
	*argv += optind;
	return true;
}

bool options_read_common(struct ctl *ctl, int *argc, char ***argv)
{
	return read_options(ctl, "+:hV", argc, argv);
}

/*
 * Options after the name of the program to run belong to that program. If there are any, "--" must precede the name.
 */
static bool read_run_options(struct ctl *ctl, int *argc, char ***argv)
{
	char **all = *argv;

	if (!read_options(ctl, "+:hV", argc, argv))
		return false;
	if (strcmp((*argv)[-1], "--") == 0 && *argv - 1 > all)
		return true;
	for (int i = 1; i < *argc; i++)
		if ((*argv)[i][0] == '-') {
			complain(
				"the program must follow \"--\": \"rdmabrokerctl %s ... -- %s ...\"",
				ctl->verb->name, (*argv)[0]);
			return false;
		}
	return true;
}

bool options_read_verb(struct ctl *ctl, int *argc, char ***argv)
{
	bool runs = ctl->verb->run == verb_run || ctl->verb->run == verb_restrict;

	return runs ? read_run_options(ctl, argc, argv) : read_options(ctl, ":hV", argc, argv);
}
