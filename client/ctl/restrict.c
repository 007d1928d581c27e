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
#define PATH_LEN 108

/* The exit statuses of shells, see also ctl_run_program(). */
enum {
	EXIT_CANNOT_RUN = 126,
	EXIT_BY_SIGNAL = 128,
};

enum {
	OPTION_RULES,
	OPTION_FILE,
	OPTION_IDS,
};

const struct verb_option restrict_options[] = {
	[OPTION_RULES] = { "rules", "RULES",
			   "what the program can do: rules, with \";\" between them" },
	[OPTION_FILE] = { "file", "FILE", "the same, from a file, one rule a line" },
	[OPTION_IDS] = { "ids", "N", "the most ids that the program can have (default: no limit)" },
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

static int read_file(const char *path, char ret[RULES_MAX])
{
	FILE *file = fopen(path, "re");
	size_t n;
	bool failed;

	if (!file) {
		complain("cannot open %s: %m", path);
		return EXIT_FAILURE;
	}
	n = fread(ret, 1, RULES_MAX, file);
	failed = ferror(file);
	if (failed)
		complain("cannot read %s: %m", path);
	fclose(file);
	if (failed)
		return EXIT_FAILURE;
	if (n == RULES_MAX || memchr(ret, 0, n)) {
		complain("%s: the rules must be a text of at most %d bytes", path, RULES_MAX - 1);
		return EXIT_FAILURE;
	}
	ret[n] = 0;
	return 0;
}

static int read_rules(const struct ctl *ctl, char ret[RULES_MAX])
{
	const char *rules = ctl->given[OPTION_RULES], *path = ctl->given[OPTION_FILE];

	if (!rules == !path) {
		complain("give the rules with either --rules or --file");
		return ctl_see_help(ctl->verb);
	}
	if (path)
		return read_file(path, ret);
	if (strlen(rules) >= RULES_MAX) {
		complain("the rules are longer than %d bytes", RULES_MAX - 1);
		return EXIT_USAGE;
	}
	split(strcpy(ret, rules));
	return 0;
}

/* Opens the session that owns the socket, and sets PATH to the socket's. */
static int prepare(struct ctl *ctl, const char *rules, unsigned ids, char path[PATH_LEN])
{
	int r, status = ctl_open_session(ctl, /* as_admin= */ false);

	if (status != 0)
		return status;
	r = rdmabroker_restrict(ctl->session, rules, ids);
	if (r == 0)
		r = rdmabroker_publish(ctl->session, path, PATH_LEN);
	return r == 0 ? 0 : ctl_complain_failure(ctl, r);
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
	if (pid < 0) {
		complain("cannot start a process: %m");
		return EXIT_CANNOT_RUN;
	}
	child = pid;
	handle_signals(&passes);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	handle_signals(&ignores);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BY_SIGNAL + WTERMSIG(status);
}

int verb_restrict(struct ctl *ctl)
{
	char rules[RULES_MAX], path[PATH_LEN];
	const char *given = ctl->given[OPTION_IDS];
	unsigned long ids = 0;
	int status = read_rules(ctl, rules);

	if (status == 0 && given && (!read_number(given, UINT_MAX, &ids) || ids == 0)) {
		complain("invalid number of ids \"%s\": it must be a number from 1", given);
		return ctl_see_help(ctl->verb);
	}
	if (status == 0)
		status = prepare(ctl, rules, (unsigned)ids, path);
	return status != 0 ? status : run(path, ctl->arguments);
}
