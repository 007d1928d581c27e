/* SPDX-License-Identifier: BSD-2-Clause */
#include <getopt.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "proto/word.h"

/*
 * The options of rdmabrokerctl and of its verbs, which are rows of the verbs' tables: getopt_long() with a table that
 * is made for the verb.
 */

static const char *help, *instance, *json, *socket_path, *version;

const struct verb_option common_options[] = {
	{ "help", NULL, "print a summary of the verb", .given = &help },
	{ "instance", "NAME",
	  "the daemon of this network namespace (socket /run/rdmabroker@NAME/rdmabroker.sock)",
	  .given = &instance },
	{ "json", NULL, "print one JSON object", .given = &json },
	{ "socket", "PATH", "the daemon's socket (default /run/rdmabroker/rdmabroker.sock)",
	  .given = &socket_path },
	{ "version", NULL, "print the version of rdmabrokerctl; also -V", .given = &version },
	{ NULL },
};
#define N_COMMON (sizeof(common_options) / sizeof(common_options[0]) - 1)

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

__attribute__((noreturn)) static void refuse_option(const struct ctl *ctl, const char *word,
						    const struct option *rows)
{
	struct word_guess guess;

	if (strncmp(word, "--", 2) != 0)
		ctl_misused(ctl, "unknown option \"%s\"", word);
	guess = (struct word_guess){ .word = word + 2, .len = strcspn(word + 2, "=") };
	for (const struct option *row = rows; row->name; row++)
		word_guess(&guess, row->name);
	for (; !guess.best && rows->name; rows++)
		if (guess.len > 0 && strncmp(rows->name, guess.word, guess.len) == 0)
			guess.best = rows->name;
	complain_unknown("option", "--", &guess, NULL);
	ctl_see_help(ctl);
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

/* Giving an option of the verb's own twice is an error, because only the last one would have an effect. */
static void take(struct ctl *ctl, int c)
{
	const struct verb_option *option = c >= COMMON ? &common_options[c - COMMON] :
							 &ctl->verb->options[c - OWN];

	if (c < COMMON && *option->given)
		ctl_misused(ctl, "option --%s is given twice", option->name);
	*option->given = optarg ?: "";
}

/*
 * Reads options into CTL, and leaves the other arguments in ARGV. Skips the first entry, the name of the program or
 * verb.
 */
static void read_options(struct ctl *ctl, const char *mode, int *argc, char ***argv)
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

		if (value >= OWN && is_abbreviation(word, name_of(rows, value)))
			refuse_option(ctl, word, rows);
		if (c == 'h')
			help = "";
		else if (c == 'V')
			version = "";
		else if (c >= OWN)
			take(ctl, c);
		else if (c == ':')
			ctl_misused(ctl, "option --%s needs an argument", name_of(rows, optopt));
		else if (optopt >= OWN)
			ctl_misused(ctl, "option --%s takes no argument", name_of(rows, optopt));
		else
			refuse_option(ctl, (*argv)[optind - 1], rows);
	}
	*argc -= optind;
	*argv += optind;
	ctl->help = help;
	ctl->instance = instance;
	ctl->json = json;
	ctl->socket = socket_path;
	ctl->version = version;
}

void options_read_common(struct ctl *ctl, int *argc, char ***argv)
{
	read_options(ctl, "+:hV", argc, argv);
}

/*
 * Options after the name of the program to run belong to that program. If there are any, "--" must precede the name.
 */
static void read_run_options(struct ctl *ctl, int *argc, char ***argv)
{
	char **all = *argv;

	read_options(ctl, "+:hV", argc, argv);
	if (strcmp((*argv)[-1], "--") == 0 && *argv - 1 > all)
		return;
	for (int i = 1; i < *argc; i++)
		if ((*argv)[i][0] == '-')
			ctl_misused(
				ctl,
				"the program must follow \"--\": \"rdmabrokerctl %s ... -- %s ...\"",
				ctl->verb->name, (*argv)[0]);
}

void options_read_verb(struct ctl *ctl, int *argc, char ***argv)
{
	bool runs = ctl->verb->run == verb_run || ctl->verb->run == verb_restrict;

	if (runs)
		read_run_options(ctl, argc, argv);
	else
		read_options(ctl, ":hV", argc, argv);
}
