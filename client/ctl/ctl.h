/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabrokerctl: one row a verb in ctl.c, one file a verb beside it. The rows are what the command line
 * is read by, what help prints, and what the completion and the man page are tested against.
 */

#include <rdmabroker.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	EXIT_USAGE = 2,
	EXIT_REJECT = 3, /* explain: policy says no */
};

#define MAX_OPTIONS 12 /* of one verb's own */

struct verb_option {
	const char *name; /* NULL ends the list */
	const char *argument; /* as help names it; NULL: it takes none */
	const char *summary;
	const char *const *values; /* all that the argument can be, up to NULL; or NULL: too many */
};

struct ctl {
	const struct verb *verb;
	const char *socket; /* NULL: the library's default */
	bool json;
	bool help;
	bool version;
	const char *given[MAX_OPTIONS]; /* by the verb's own options; NULL: not given */
};

struct verb {
	const char *name;
	const char *argument; /* as help names it; NULL: none */
	const char *summary; /* one line of help */
	int min_arguments, max_arguments;
	const struct verb_option *options; /* its own; NULL: none */
	const char *const *values; /* as those of an option */
	int (*run)(const struct ctl *ctl, char **arguments); /* an exit status */
};

extern const struct verb verbs[];
extern const size_t n_verbs;
const struct verb *find_verb(const char *name); /* NULL: none, and it is said */

extern const struct verb_option common_options[]; /* of all verbs */
/* Up to the first that is no option (before the verb), or all. False: wrong, and it is said. */
bool read_common_options(struct ctl *ctl, int *argc, char ***argv);
bool read_verb_options(struct ctl *ctl, int *argc, char ***argv);

int print_help(const struct ctl *ctl, const struct verb *verb);

extern const struct verb_option drain_options[], events_options[], explain_options[],
	list_options[], rules_options[];
extern const char *const operations[];
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

/* A session with the daemon: 0, or an exit status and it is said. */
int open_session(const struct ctl *ctl, struct rdmabroker **ret);
/* Of the command line: the exit status. */
int see_help(const struct verb *verb); /* VERB may be NULL */
/* Says why a call of the session failed with R, and gives the exit status. */
int complain_failure(struct rdmabroker *session, int r);
