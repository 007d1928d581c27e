/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "holding.h"
#include "output.h"
#include "proto/gids.h"
#include "proto/jsonout.h"
#include "read.h"
#include "suggestion.h"

/*
 * The verb suggest: rules that would have allowed what was refused, or what only a warn rule allowed; or, with --kernel and
 * without the daemon, what programs hold now.
 */

#define GIDS_MAX 1024 /* of a user that rules know */
#define PORT_RANGE "/proc/sys/net/ipv4/ip_local_port_range"

enum {
	OPTION_KERNEL,
	OPTION_PEER_PREFIX,
	OPTION_REJECTED,
	OPTION_TESTS,
};

const struct verb_option suggest_options[] = {
	[OPTION_KERNEL] = { "kernel", NULL,
			    "what programs hold now, as the kernel says; without the daemon" },
	[OPTION_PEER_PREFIX] = { "peer-prefix", "N[,M]",
				 "allow IPv4 peers with the same first N bits, IPv6 with M" },
	[OPTION_REJECTED] = { "rejected", NULL, "also what reject rules have refused" },
	[OPTION_TESTS] = { "tests", NULL, "print tests that the rules pass, not the rules" },
	{ NULL },
};

/* Users and groups */

static const char *user_name(uint32_t uid)
{
	const struct passwd *entry = getpwuid(uid);

	return entry ? entry->pw_name : NULL;
}

static size_t find_gids(uint32_t uid, uint32_t *ret, size_t max)
{
	const struct passwd *entry = getpwuid(uid);
	int n = (int)max;

	if (!entry || getgrouplist(entry->pw_name, entry->pw_gid, ret, &n) < 0)
		return 0;
	return (size_t)n;
}

/* Users of whom it is the primary group are in it without being named. */
static size_t count_members(const struct group *group)
{
	const struct passwd *entry;
	size_t n = 0;

	setpwent();
	while ((entry = getpwent())) {
		bool is_in = entry->pw_gid == group->gr_gid;

		for (char **name = group->gr_mem; *name && !is_in; name++)
			is_in = strcmp(*name, entry->pw_name) == 0;
		n += is_in;
	}
	endpwent();
	return n;
}

/*
 * The smallest group that has all users, if not most of its members are others. Their processes were in all GIDS: a process
 * can be without a group that its user has.
 */
static const char *group_name(const uint32_t *uids, size_t n, const uint32_t *all, size_t n_gids)
{
	uint32_t gids[GIDS_MAX], others[GIDS_MAX];
	size_t least = 2 * n + 1;
	static char name[256];
	bool found = false;

	assert(n_gids <= GIDS_MAX);
	memcpy(gids, all, n_gids * sizeof(*gids));
	for (size_t i = 0; i < n && n_gids > 0; i++)
		n_gids = gids_keep_common(gids, n_gids, others,
					  find_gids(uids[i], others, GIDS_MAX));
	for (size_t i = 0; i < n_gids; i++) {
		const struct group *group = getgrgid(gids[i]);
		size_t n_members = group ? count_members(group) : 0;

		if (n_members < n || n_members >= least || strlen(group->gr_name) >= sizeof(name))
			continue;
		least = n_members;
		strcpy(name, group->gr_name);
		found = true;
	}
	return found ? name : NULL;
}

/* Options */

static bool read_length(const char *option, const char *text, unsigned max, unsigned *ret)
{
	unsigned long length;

	if (!read_number(text, max, &length)) {
		complain("invalid --peer-prefix \"%s\": \"%s\" must be a number from 0 to %u",
			 option, text, max);
		return false;
	}
	*ret = (unsigned)length;
	return true;
}

/* "24", for IPv4, or "24,64". */
static bool read_prefixes(const char *option, struct suggestion_options *ret)
{
	const char *comma = strchr(option, ',');
	char first[32];

	snprintf(first, sizeof(first), "%.*s", (int)(comma ? comma - option : (long)strlen(option)),
		 option);
	return read_length(option, first, 32, &ret->peer_prefix) &&
	       (!comma || read_length(option, comma + 1, 128, &ret->peer_prefix6));
}

static bool read_port_range(struct suggestion_options *ret)
{
	FILE *file = fopen(PORT_RANGE, "re");
	bool done = file && fscanf(file, "%hu %hu", &ret->first_port, &ret->last_port) == 2;

	if (!done)
		complain("cannot read the range of the kernel's ports, " PORT_RANGE ": %s",
			 file ? "it has no two numbers" : strerror(errno));
	if (file)
		fclose(file);
	return done;
}

/* Output */

static void print_modules(FILE *file, const struct holding *holding)
{
	for (size_t i = 0; i < holding->n_holders; i++) {
		const struct holder *holder = &holding->holders[i];

		if (holder->who.pid == 0)
			fprintf(file,
				"# The kernel's module %s has %u id%s and %u QP%s. It does not ask "
				"the broker, and no rule applies to it.\n",
				escaped(holder->name), holder->n_ids, holder->n_ids == 1 ? "" : "s",
				holder->n_qps, holder->n_qps == 1 ? "" : "s");
	}
	if (holding->n_nameless > 0)
		fprintf(file,
			"# Not in these rules: %u ids and QPs of threads that have ended. The "
			"kernel does not say to whom they belong.\n",
			holding->n_nameless);
}

static int print_text(FILE *file, const struct ctl *ctl, const struct rdmabroker_refusals *seen,
		      const struct suggestion_options *options, const struct holding *holding)
{
	long begin;
	int r;

	if (ctl->given[OPTION_TESTS])
		return suggestion_print_tests(file, seen, options);
	if (holding)
		print_modules(file, holding);
	begin = ftell(file);
	r = suggestion_print_rules(file, seen, options);
	if (r == 0 && ftell(file) == begin)
		fputs(holding ?
			      "# No program holds ids or QPs of its own.\n" :
			      "# Nothing was refused because no rule matched, or allowed by a warn rule.\n",
		      file);
	return r;
}

static int print(const struct ctl *ctl, const struct rdmabroker_refusals *seen,
		 const struct suggestion_options *options, const struct holding *holding)
{
	struct jsonout json = { .file = stdout };
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);
	int r = file ? print_text(file, ctl, seen, options, holding) : -ENOMEM;

	if (file && fclose(file) != 0)
		r = -ENOMEM;
	if (r < 0) {
		complain("out of memory");
	} else if (ctl->json) {
		jsonout_open(&json, NULL, '{');
		jsonout_string(&json, ctl->given[OPTION_TESTS] ? "tests" : "rules", text);
		jsonout_close(&json, '}');
		putchar('\n');
	} else {
		fputs(text, stdout);
	}
	free(text);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The ids and QPs of others are shown to root alone. */
static int suggest_by_kernel(const struct ctl *ctl, struct suggestion_options *options)
{
	struct holding holding;
	const char *failed;
	int status;

	if (geteuid() != 0) {
		complain("--kernel has to be used by root: the kernel shows others only what is "
			 "their own");
		return EXIT_FAILURE;
	}
	options->is_held = true;
	failed = holding_read(&holding, options->first_port, options->last_port);
	if (failed) {
		complain("cannot %s: %m%s", failed,
			 errno == EPROTONOSUPPORT ? " (is the kernel's module ib_core loaded?)" :
						    "");
		status = EXIT_FAILURE;
	} else {
		status = print(ctl, &holding.refusals, options, &holding);
	}
	holding_done(&holding);
	return status;
}

static int suggest_by_daemon(struct ctl *ctl, const struct suggestion_options *options)
{
	int r, status = ctl_open_session(ctl, /* as_admin= */ true);
	struct rdmabroker_refusals *refusals;

	if (status != 0)
		return status;
	r = rdmabroker_get_refusals(ctl->session, &refusals);
	if (r < 0)
		return ctl_complain_failure(ctl, r);
	status = print(ctl, refusals, options, NULL);
	rdmabroker_free(refusals);
	return status;
}

int verb_suggest(struct ctl *ctl)
{
	const char *prefixes = ctl->given[OPTION_PEER_PREFIX];
	struct suggestion_options options = {
		.rejected = ctl->given[OPTION_REJECTED],
		.peer_prefix = 32,
		.peer_prefix6 = 128,
		.user_name = user_name,
		.group_name = group_name,
	};

	if (prefixes && !read_prefixes(prefixes, &options))
		return EXIT_USAGE;
	if (ctl->given[OPTION_KERNEL] && ctl->given[OPTION_REJECTED]) {
		complain("--kernel and --rejected exclude each other: the kernel has not refused "
			 "what programs hold");
		return EXIT_USAGE;
	}
	if (!read_port_range(&options))
		return EXIT_FAILURE;
	return ctl->given[OPTION_KERNEL] ? suggest_by_kernel(ctl, &options) :
					   suggest_by_daemon(ctl, &options);
}
