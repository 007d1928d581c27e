/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabrokerctl: each verb has a row in the table in main.c, and a file of its own. The tests compare the shell
 * completion and the man page with the table.
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/admin.h"

enum {
	EXIT_USAGE = 2,
	EXIT_REJECT = 3, /* explain: policy rejects */
};

#define MAX_OPTIONS 19 /* maximum number of a verb's own options */

struct verb_option {
	const char *name; /* NULL ends the list */
	const char *argument; /* the argument's name in the help; NULL: no argument */
	const char *summary;
	const char *const *values; /* all values of the argument, then NULL; NULL: no fixed list */
	const char **given; /* gets the argument: "", if it takes none; NULL: not given */
};

#define CTL_SOCKET_SIZE 108 /* of a socket's path, with the NUL */

struct ctl {
	const struct verb *verbs; /* an entry without a name ends the list */
	const struct verb *verb; /* NULL: not read yet */
	const char *socket; /* NULL: the library's default */
	const char *instance; /* NULL: the initial one */
	char instance_socket[CTL_SOCKET_SIZE]; /* SOCKET, if it is that of INSTANCE */
	bool json;
	bool help;
	bool version;
	char **arguments; /* those of no option, which end with NULL */
	struct rdmabroker *session; /* main() closes it; NULL: ctl_connect() has not opened one */
};

struct verb {
	const char *name;
	const char *argument; /* the argument's name in the help; NULL: no argument */
	const char *summary;
	int min_arguments, max_arguments;
	const struct verb_option *options; /* NULL: none */
	const char *const *values; /* all values of the argument, as in struct verb_option */
	int (*run)(struct ctl *ctl); /* returns an exit status */
};

extern const struct verb_option common_options[];
/*
 * options_read_common() reads the options before the verb, options_read_verb() those after it. If one is wrong, the
 * program ends.
 */
void options_read_common(struct ctl *ctl, int *argc, char ***argv);
void options_read_verb(struct ctl *ctl, int *argc, char ***argv);

int help_print(const struct ctl *ctl, const struct verb *verb);

extern const struct verb_option cdi_options[], drain_options[], events_options[], explain_options[],
	list_options[], nodes_options[], refusals_options[], reload_options[], restrict_options[],
	rules_options[], site_options[], suggest_options[];
extern const char *const dropin_actions[], *const nodes_actions[], *const site_actions[];
int verb_cdi(struct ctl *ctl);
int verb_check(struct ctl *ctl);
int verb_drain(struct ctl *ctl);
int verb_dropin(struct ctl *ctl);
int verb_events(struct ctl *ctl);
int verb_explain(struct ctl *ctl);
int verb_help(struct ctl *ctl);
int verb_kick(struct ctl *ctl);
int verb_limits(struct ctl *ctl);
int verb_list(struct ctl *ctl);
int verb_metrics(struct ctl *ctl);
int verb_nodes(struct ctl *ctl);
int verb_refusals(struct ctl *ctl);
int verb_reload(struct ctl *ctl);
int verb_restrict(struct ctl *ctl);
int verb_rules(struct ctl *ctl);
int verb_run(struct ctl *ctl);
int verb_site(struct ctl *ctl);
int verb_status(struct ctl *ctl);
int verb_suggest(struct ctl *ctl);
int verb_version(struct ctl *ctl);

/* Runs a program of the user's instead of this one. Returns the exit status of env(1) and of shells if it cannot. */
int ctl_run_program(char **arguments);
/* NULL: there is no verb NAME, and an error was printed. */
const struct verb *ctl_find_verb(const struct ctl *ctl, const char *name);
/*
 * Opens the session. AS_ADMIN: for administration and observation, which root and the daemon's own user may do without a rule.
 * Returns 0 or a negative errno.
 */
int ctl_connect(struct ctl *ctl, bool as_admin);
/* As ctl_connect(), or prints an error and ends the program. */
void ctl_open_session(struct ctl *ctl, bool as_admin);
/* Prints the error of the library's last call, which returned R. */
void ctl_complain_failure(const struct ctl *ctl, int r);
/* R is what the library's last call has returned. If it is negative, prints the error and ends the program. */
void ctl_check(const struct ctl *ctl, int r);
/*
 * SIGINT and SIGTERM set ctl_interrupted, and no call is started again: a signal has to end a write to a full pipe.
 */
extern volatile sig_atomic_t ctl_interrupted;
void ctl_catch_signals(void);
/* Prints an error in the command line and a reference to the help, and ends the program. */
__attribute__((noreturn, format(printf, 2, 3))) void ctl_misused(const struct ctl *ctl,
								 const char *fmt, ...);
/* The same, after the error was printed. */
__attribute__((noreturn)) void ctl_see_help(const struct ctl *ctl);
