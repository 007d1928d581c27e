/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/reason.h"
#include "ctl.h"
#include "output.h"
#include "proto/word.h"

#define ADMIN_SOCKET "/run/rdmabroker-admin/rdmabroker.sock"

int ctl_run_program(char **arguments)
{
	int error;

	execvp(arguments[0], arguments);
	error = errno;
	complain("cannot run %s: %s", arguments[0], strerror(error));
	return error == ENOENT ? 127 : 126;
}

/* The letters that both begin with. */
static size_t count_common(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

const struct verb *ctl_find_verb(const struct ctl *ctl, const char *name)
{
	struct word_guess guess = { .word = name, .len = strlen(name) };

	for (const struct verb *verb = ctl->verbs; verb->name; verb++) {
		if (strcmp(verb->name, name) == 0)
			return verb;
		word_guess(&guess, verb->name);
	}
	/* "refuse" is no misspelling of "refusals", but means it. */
	for (const struct verb *verb = ctl->verbs; verb->name && !guess.best; verb++)
		if (count_common(verb->name, name) >= 4)
			guess.best = verb->name;
	complain_unknown("verb", /* prefix= */ "", &guess, NULL);
	return NULL;
}

/* Where the library's text names its call, the verb replaces it. */
static void complain_failure(const struct ctl *ctl)
{
	const struct rdmabroker_failure *failure = rdmabroker_last_failure();
	const char *text = reason_without_call(failure->text);
	bool names_call = text != failure->text;

	complain("%s%s%s%s%s%s", names_call ? ctl->verb->name : "", names_call ? ": " : "", text,
		 failure->rule ? " (rule " : "", failure->rule ?: "", failure->rule ? ")" : "");
}

/* How to get the right that was missing, if R says that one was. */
static void tell_way(const struct ctl *ctl, int r)
{
	if (r != -EACCES && r != -EPERM)
		return;
	if (geteuid() != 0)
		complain("try again as root");
	else if (!ctl->socket && !getenv("RDMABROKER_SOCKET") && access(ADMIN_SOCKET, F_OK) < 0)
		complain("root needs no rule on " ADMIN_SOCKET ", which is not here; outside of "
			 "containers \"systemctl restart rdmabrokerd\" makes it");
}

/* The instance's socket for administration, in PATH. False: this process cannot connect to it. */
static bool find_admin_socket(const struct ctl *ctl, char path[CTL_SOCKET_SIZE])
{
	return snprintf(path, CTL_SOCKET_SIZE, "/run/rdmabroker-admin@%s/rdmabroker.sock",
			ctl->instance) < CTL_SOCKET_SIZE &&
	       faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

int ctl_connect(struct ctl *ctl, bool as_admin)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	char path[CTL_SOCKET_SIZE];

	options.socket = ctl->socket;
	if (as_admin) {
		options.flags = RDMABROKER_AS_ADMIN;
		if (ctl->instance && find_admin_socket(ctl, path))
			options.socket = path;
	}
	return rdmabroker_open(&options, &ctl->session);
}

void ctl_open_session(struct ctl *ctl, bool as_admin)
{
	int r = ctl_connect(ctl, as_admin);

	if (r == 0)
		return;
	complain_failure(ctl);
	if (r == -ENOENT || r == -ECONNREFUSED)
		complain(
			"the daemon is not running; start it with \"systemctl start rdmabrokerd\"");
	else if (as_admin && geteuid() == 0)
		tell_way(ctl, r);
	end(EXIT_FAILURE);
}

void ctl_complain_failure(const struct ctl *ctl, int r)
{
	complain_failure(ctl);
	tell_way(ctl, r);
}

void ctl_check(const struct ctl *ctl, int r)
{
	if (r >= 0)
		return;
	ctl_complain_failure(ctl, r);
	end(EXIT_FAILURE);
}

volatile sig_atomic_t ctl_interrupted;

static void on_interrupt(int signo)
{
	ctl_interrupted = 1;
}

void ctl_catch_signals(void)
{
	const struct sigaction stop = { .sa_handler = on_interrupt };

	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
}

void ctl_see_help(const struct ctl *ctl)
{
	die(EXIT_USAGE, "see rdmabrokerctl help%s%s", ctl->verb ? " " : "",
	    ctl->verb ? ctl->verb->name : "");
}

void ctl_misused(const struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcomplain(fmt, ap);
	va_end(ap);
	ctl_see_help(ctl);
}
