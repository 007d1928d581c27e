/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fault/story.h"
#include "tests/hooks/hooks.h"
#include "tests/patience.h"

/*
 * Runs the story of story.c again and again, for each kind of call and each errno in plans[]. In run N, call N of
 * that kind fails. The last run ends before its fault occurs. No run must crash, take too long, or leak memory or
 * descriptors. After the fault the daemon must serve new clients. Each run counts as one test.
 *
 *   fault                       all runs
 *   fault fast                  runs 1, 1 + FAST_EVERY, 1 + 2 * FAST_EVERY ... of each kind
 *   fault long                  the other runs
 *   fault SIDE KIND ERRNO N     one run; HOOKS_LOG=1 shows the daemon's log, HOOKS_ABORT=1 aborts at the fault
 */

/* Enough for a sanitizer on a busy machine. A story that takes longer aborts the program. */
#define STORY_SECONDS PATIENCE_S

#define FAST_EVERY 8
/* One line of counts every few seconds. */
#define STORIES_PER_LINE 50

static const struct plan {
	enum hook_side side;
	enum hook_kind kind;
	int error;
} plans[] = {
	{ HOOK_DAEMON, HOOK_MEMORY, ENOMEM },       { HOOK_DAEMON, HOOK_ACCEPT, EMFILE },
	{ HOOK_DAEMON, HOOK_ACCEPT, ECONNABORTED }, { HOOK_DAEMON, HOOK_SEND, ENOBUFS },
	{ HOOK_DAEMON, HOOK_SEND, EPIPE },          { HOOK_DAEMON, HOOK_SEND, EAGAIN },
	{ HOOK_DAEMON, HOOK_RECEIVE, ENOMEM },      { HOOK_DAEMON, HOOK_RECEIVE, ECONNRESET },
	{ HOOK_DAEMON, HOOK_LOOP, ENOMEM },         { HOOK_DAEMON, HOOK_DESCRIPTOR, EMFILE },
	{ HOOK_DAEMON, HOOK_CM, ENOMEM },           { HOOK_DAEMON, HOOK_CM, ENODEV },
	{ HOOK_CLIENT, HOOK_MEMORY, ENOMEM },       { HOOK_CLIENT, HOOK_SEND, ENOBUFS },
	{ HOOK_CLIENT, HOOK_SEND, EPIPE },          { HOOK_CLIENT, HOOK_SEND, EAGAIN },
	{ HOOK_CLIENT, HOOK_RECEIVE, ENOMEM },      { HOOK_CLIENT, HOOK_RECEIVE, ECONNRESET },
	{ HOOK_CLIENT, HOOK_LOOP, ENOMEM },         { HOOK_CLIENT, HOOK_DESCRIPTOR, EMFILE },
	{ HOOK_CLIENT, HOOK_VERBS, ENOMEM },
};

#define N_PLANS (sizeof(plans) / sizeof(plans[0]))

static char dir[] = "/tmp/rdmabroker-fault-XXXXXX";
static char running[128];
static unsigned n_passed, n_failed, n_met;
static enum { ALL, FAST, LONG } share;

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

static void make_dir(void)
{
	char path[128], config[256];
	const struct passwd *user;

	umask(022);
	if (!mkdtemp(dir)) {
		perror(dir);
		exit(1);
	}
	snprintf(path, sizeof(path), "%s/policy.d", dir);
	mkdir(path, 0755);
	user = getpwuid(geteuid());
	snprintf(config, sizeof(config),
		 "[Daemon]\nLogLevel=debug\nOnReload=enforce\n[Peers]\nHelper=%s\n",
		 user ? user->pw_name : "nobody");
	write_file("rdmabrokerd.conf", config);
	write_file("policy.d/1.rules", "set lab = { 10.9.0.0/16, fd00::/16 }\n"
				       "allow session max-per-user 100\n"
				       "allow connect port 7477 peer-user 1234\n"
				       "reject connect port 7477\n"
				       "allow accept port 7476 peer-user 1234 log\n"
				       "reject accept port 7476\n"
				       "allow connect peer @lab tos-max 64 rate-per-peer 10000/s\n"
				       "allow accept local @lab pending 50 log\n");
	write_file("policy.d/2.rules", "reject listen port 9999 reason \"no\"\nallow any\n");
}

static void remove_dir(void)
{
	static const char *const names[] = { "policy.d/1.rules", "policy.d/2.rules",
					     "policy.d",         "rdmabrokerd.conf",
					     "socket",           "common",
					     "helper",           "" };
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		remove(path);
	}
}

static void on_alarm(int signal)
{
	static const char text[] = ": does not come to its end\n";

	if (write(STDERR_FILENO, running, strlen(running)) > 0 &&
	    write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
		abort();
	_exit(1);
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += access((snprintf(running + 100, 28, "/proc/self/fd/%d", fd), running + 100),
			    F_OK) == 0;
	return n;
}

/* Call N of the plan's kind fails. Returns whether the fault occurred. */
static bool run(const struct plan *plan, unsigned n)
{
	struct story story = { .dir = dir };
	unsigned n_fds = count_fds();
	bool met;

	snprintf(running, 100, "%s %s %d %u", hook_side_to_string(plan->side),
		 hook_kind_to_string(plan->kind), plan->error, n);
	alarm(STORY_SECONDS);
	hooks_reset();
	hooks_arm(plan->side, plan->kind, n, plan->error);
	story_run(&story);
	met = hooks_disarm() || story.met;
	alarm(0);

	story.broken |= hooks_print_memory(HOOK_DAEMON) + hooks_print_memory(HOOK_CLIENT) > 0;
	if (count_fds() != n_fds) {
		story.broken = true;
		printf("  %u descriptors instead of %u\n", count_fds(), n_fds);
	}
	if (story.n_deadlines > 0) {
		story.broken = true;
		printf("  %u waits that only the deadline ended\n", story.n_deadlines);
	}
	if (!met && story.n_failed > STORY_N_REFUSED) {
		story.broken = true;
		printf("  without a fault %u calls fail, not %u\n", story.n_failed,
		       STORY_N_REFUSED);
	}
	if (story.broken) {
		n_failed++;
		printf("FAILED: %s\n", running);
		fflush(stdout);
	} else if (met || share != LONG) {
		/*
		 * "fault long" does not count a story that passes without a fault, so that fast and long add up to
		 * all runs.
		 */
		n_passed++;
	}
	return met;
}

static bool in_share(unsigned n)
{
	return share == ALL || (share == FAST) == (n % FAST_EVERY == 1);
}

static void run_plan(const struct plan *plan)
{
	unsigned n = 0, last = 0, passed = n_passed, failed = n_failed;
	bool met;

	do {
		do
			n++;
		while (!in_share(n));
		met = run(plan, n);
		n_met += met;
		last = met ? n : last;
		if (met && n_passed + n_failed < passed + failed + STORIES_PER_LINE)
			continue;
		printf("%-7s %-10s %-34s up to fault %3u: %2u passed, %u failed\n",
		       hook_side_to_string(plan->side), hook_kind_to_string(plan->kind),
		       strerror(plan->error), last, n_passed - passed, n_failed - failed);
		fflush(stdout);
		passed = n_passed;
		failed = n_failed;
	} while (met);
}

static int run_one(char **argv)
{
	for (size_t i = 0; i < N_PLANS; i++)
		if (strcmp(argv[1], hook_side_to_string(plans[i].side)) == 0 &&
		    strcmp(argv[2], hook_kind_to_string(plans[i].kind)) == 0 &&
		    atoi(argv[3]) == plans[i].error) {
			printf("%s\n", run(&plans[i], (unsigned)atoi(argv[4])) ? "met" : "not met");
			return n_failed > 0;
		}
	return 2;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc == 2) {
		share = strcmp(argv[1], "fast") == 0 ? FAST :
			strcmp(argv[1], "long") == 0 ? LONG :
						       ALL;
		if (share == ALL)
			return 2;
	}
	signal(SIGALRM, on_alarm);
	make_dir();
	hooks_track_memory();
	if (argc == 5) {
		status = run_one(argv);
	} else {
		for (size_t i = 0; i < N_PLANS; i++)
			run_plan(&plans[i]);
		printf("%u stories, %u faults met\n", n_passed + n_failed, n_met);
		printf("%u passed, %u failed\n", n_passed, n_failed);
	}
	remove_dir();
	return status ?: n_failed > 0;
}
