/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabrokerctl: each verb has a row in main.c and a file of its own. The rows are used to parse the command line
 * and to print the help; the shell completion and the man page are tested against them.
 */

#include <rdmabroker-admin.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	EXIT_USAGE = 2,
	EXIT_REJECT = 3, /* explain: policy rejects */
};

#define MAX_OPTIONS 12 /* of one verb's own */

struct verb_option {
	const char *name; /* NULL ends the list */
	const char *argument; /* its name in the help; NULL: the option takes none */
	const char *summary;
	const char *const *values; /* all values of the argument, up to NULL; NULL: no fixed list */
};

struct ctl {
	const struct verb *verbs; /* all verbs; an entry without a name ends the list */
	const struct verb *verb; /* the one on the command line; NULL: not read yet */
	const char *socket; /* NULL: the library's default */
	bool json;
	bool help;
	bool version;
	const char *given[MAX_OPTIONS]; /* arguments of the verb's own options; NULL: not given */
};

struct verb {
	const char *name;
	const char *argument; /* its name in the help; NULL: none */
	const char *summary; /* one line of help */
	int min_arguments, max_arguments;
	const struct verb_option *options; /* its own; NULL: none */
	const char *const *values; /* of the argument, as in struct verb_option */
	int (*run)(const struct ctl *ctl, char **arguments); /* an exit status */
};

extern const struct verb_option common_options[]; /* of all verbs */
/*
 * Parse the options before the verb, up to the first argument that is none, or those after the verb. False: they are
 * wrong, which is printed.
 */
bool options_read_common(struct ctl *ctl, int *argc, char ***argv);
bool options_read_verb(struct ctl *ctl, int *argc, char ***argv);

int help_print(const struct ctl *ctl, const struct verb *verb);

extern const struct verb_option drain_options[], events_options[], explain_options[],
	list_options[], rules_options[];
int verb_check(const struct ctl *ctl, char **arguments);
int verb_drain(const struct ctl *ctl, char **arguments);
int verb_events(const struct ctl *ctl, char **arguments);
int verb_explain(const struct ctl *ctl, char **arguments);
int verb_help(const struct ctl *ctl, char **arguments);
int verb_kick(const struct ctl *ctl, char **arguments);
int verb_list(const struct ctl *ctl, char **arguments);
int verb_metrics(const struct ctl *ctl, char **arguments);
int verb_reload(const struct ctl *ctl, char **arguments);
int verb_rules(const struct ctl *ctl, char **arguments);
int verb_run(const struct ctl *ctl, char **arguments);
int verb_status(const struct ctl *ctl, char **arguments);
int verb_version(const struct ctl *ctl, char **arguments);

/* NULL: there is no verb NAME, which is printed. */
const struct verb *ctl_find_verb(const struct ctl *ctl, const char *name);
/* Open a session with the daemon. Returns 0, or an exit status after printing why. */
int ctl_open_session(const struct ctl *ctl, struct rdmabroker **ret);
/* Point to the help after an error of the command line. Returns the exit status. */
int ctl_see_help(const struct verb *verb); /* VERB may be NULL */
/* Print why the library's last call failed with R. Returns the exit status. */
int ctl_complain_failure(int r);
