/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl.h"
#include "output.h"
#include "read.h"

#define RULES_MAX 1024

/* The exit statuses of shells, see also ctl_run_program(). */
enum {
	EXIT_CANNOT_RUN = 126,
	EXIT_BY_SIGNAL = 128,
};

static const char *rules_given, *file_given, *ids_given;

const struct verb_option restrict_options[] = {
	{ "rules", "RULES", "what the program can do: rules, with \";\" between them",
	  .given = &rules_given },
	{ "file", "FILE", "the same, from a file, one rule a line", .given = &file_given },
	{ "ids", "N", "the most ids that the program can have (default: no limit)",
	  .given = &ids_given },
	{ NULL },
};

/* A semicolon between quotes is part of a text. */
static void split(char *rules)
{
	bool quoted = false;

	for (; *rules; rules++) {
		quoted ^= *rules == '"';
		if (*rules == ';' && !quoted)
			*rules = '\n';
	}
}

static void read_file(const char *path, char ret[RULES_MAX])
{
	FILE *file = fopen(path, "re");
	size_t n;

	if (!file)
		die(EXIT_FAILURE, "cannot open %s: %m", path);
	n = fread(ret, 1, RULES_MAX, file);
	if (ferror(file))
		die(EXIT_FAILURE, "cannot read %s: %m", path);
	fclose(file);
	if (n == RULES_MAX || memchr(ret, 0, n))
		die(EXIT_FAILURE, "%s: the rules must be a text of at most %d bytes", path,
		    RULES_MAX - 1);
	ret[n] = 0;
}

static void read_rules(const struct ctl *ctl, char ret[RULES_MAX])
{
	if (!rules_given == !file_given)
		ctl_misused(ctl, "give the rules with either --rules or --file");
	if (file_given) {
		read_file(file_given, ret);
		return;
	}
	if (strlen(rules_given) >= RULES_MAX)
		die(EXIT_USAGE, "the rules are longer than %d bytes", RULES_MAX - 1);
	split(strcpy(ret, rules_given));
}

static volatile sig_atomic_t child;

/* A key on the terminal sends its signal to the program, too. */
static void pass_on(int signo, siginfo_t *info, void *context)
{
	if (info->si_code != SI_KERNEL)
		kill(child, signo);
}

static void handle_signals(const struct sigaction *action)
{
	static const int signals[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], action, NULL);
}

/* Does not return. If rdmabrokerctl is killed, the socket is gone, and so is the program. */
static void run_program(const char *path, char **arguments, const sigset_t *mask, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_CANNOT_RUN);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (setenv("RDMABROKER_SOCKET", path, 1) < 0) {
		complain("cannot set the environment: %m");
		_exit(EXIT_CANNOT_RUN);
	}
	_exit(ctl_run_program(arguments));
}

static int run(const char *path, char **arguments)
{
	/* The program can take time to end, so the signals that ask for it go on to the program. */
	const struct sigaction passes = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO };
	const struct sigaction ignores = { .sa_handler = SIG_IGN };
	sigset_t all, mask;
	pid_t pid, parent = getpid();
	int status;

	fflush(stdout);
	/* No signal is handled before CHILD is set. */
	signal(SIGCHLD, SIG_DFL);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	pid = fork();
	if (pid == 0)
		run_program(path, arguments, &mask, parent);
	if (pid < 0)
		die(EXIT_CANNOT_RUN, "cannot start a process: %m");
	child = pid;
	handle_signals(&passes);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	handle_signals(&ignores);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BY_SIGNAL + WTERMSIG(status);
}

/* This process has the session that owns the socket at PATH. */
int verb_restrict(struct ctl *ctl)
{
	char rules[RULES_MAX], path[CTL_SOCKET_SIZE];
	unsigned long ids = 0;

	read_rules(ctl, rules);
	if (ids_given && (!read_number(ids_given, UINT_MAX, &ids) || ids == 0))
		ctl_misused(ctl, "invalid number of ids \"%s\": it must be a number from 1",
			    ids_given);
	ctl_open_session(ctl, /* as_admin= */ false);
	ctl_check(ctl, rdmabroker_restrict(ctl->session, rules, (unsigned)ids));
	ctl_check(ctl, rdmabroker_publish(ctl->session, path, CTL_SOCKET_SIZE));
	return run(path, ctl->arguments);
}
