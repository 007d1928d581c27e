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
#include "grow.h"
#include "holding.h"
#include "learned.h"
#include "proto/gids.h"
#include "read.h"
#include "suggested.h"
#include "suggestion.h"
#include "table.h"

/*
 * The verb suggest: rules that would have allowed what was refused, or what only a warn rule allowed; or, with --kernel and
 * without the daemon, what programs hold now.
 */

#define GIDS_MAX 1024 /* of a user that rules know */
#define PORT_RANGE "/proc/sys/net/ipv4/ip_local_port_range"

static const char *also, *kernel, *prefer_groups, *prefixes, *rejected, *tests;

const struct verb_option suggest_options[] = {
	{ "also", "FILE", "with the rules that \"suggest\" has written to FILE earlier",
	  .given = &also },
	{ "kernel", NULL, "what programs hold now, as the kernel says; without the daemon",
	  .given = &kernel },
	{ "peer-prefix", "N[,M]", "allow IPv4 peers with the same first N bits, IPv6 with M",
	  .given = &prefixes },
	{ "prefer-groups", NULL, "allow groups in place of many users", .given = &prefer_groups },
	{ "rejected", NULL, "also what reject rules have refused", .given = &rejected },
	{ "tests", NULL, "print tests that the rules pass, not the rules", .given = &tests },
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
static bool is_member(const struct group *group, const struct passwd *entry)
{
	if (entry->pw_gid == group->gr_gid)
		return true;
	for (char **name = group->gr_mem; *name; name++)
		if (strcmp(*name, entry->pw_name) == 0)
			return true;
	return false;
}

static size_t count_members(const struct group *group)
{
	const struct passwd *entry;
	size_t n = 0;

	setpwent();
	while ((entry = getpwent()))
		n += is_member(group, entry);
	endpwent();
	return n;
}

static void print_others(FILE *file, const char *name, const uint32_t *uids, size_t n_uids)
{
	const struct group *group = getgrnam(name);
	const struct passwd *entry;
	size_t n = 0;

	setpwent();
	while (group && (entry = getpwent())) {
		bool is_seen = false;

		for (size_t i = 0; i < n_uids && !is_seen; i++)
			is_seen = uids[i] == entry->pw_uid;
		if (!is_seen && is_member(group, entry))
			fprintf(file, "%s%s", n++ > 0 ? ", " : "", escaped(entry->pw_name));
	}
	endpwent();
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

static unsigned read_length(const char *text, unsigned max)
{
	unsigned long length;

	if (!read_number(text, max, &length))
		die(EXIT_USAGE,
		    "invalid --peer-prefix \"%s\": \"%s\" must be a number from 0 to %u", prefixes,
		    text, max);
	return (unsigned)length;
}

/* "24", for IPv4, or "24,64". */
static void read_prefixes(struct suggestion_options *ret)
{
	const char *comma = strchrnul(prefixes, ',');
	char first[32];

	snprintf(first, sizeof(first), "%.*s", (int)(comma - prefixes), prefixes);
	ret->peer_prefix = read_length(first, 32);
	if (*comma)
		ret->peer_prefix6 = read_length(comma + 1, 128);
}

static void read_port_range(struct suggestion_options *ret)
{
	FILE *file = fopen(PORT_RANGE, "re");

	if (!file || fscanf(file, "%hu %hu", &ret->first_port, &ret->last_port) != 2)
		die(EXIT_FAILURE, "cannot read the range of the kernel's ports, " PORT_RANGE ": %s",
		    file ? "it has no two numbers" : strerror(errno));
	fclose(file);
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

static void print_text(FILE *file, const struct rdmabroker_refusals *seen,
		       const struct suggestion_options *options, const struct holding *holding)
{
	long begin;

	if (!holding) {
		fputs("# ", file);
		learned_print(file, &seen->learned);
		fputc('\n', file);
	}
	if (tests) {
		suggestion_print_tests(file, seen, options);
		return;
	}
	if (holding)
		print_modules(file, holding);
	begin = ftell(file);
	suggestion_print_rules(file, seen, options);
	if (ftell(file) == begin)
		fputs(holding ?
			      "# No program holds ids or QPs of its own.\n" :
			      "# Nothing was refused because no rule matched, or allowed by a warn rule.\n",
		      file);
}

/* RET: SEEN, and what FILE of --also has. */
static void add_also(struct rdmabroker_refusals *ret, struct suggested *file,
		     const struct rdmabroker_refusals *seen,
		     const struct suggestion_options *options)
{
	suggested_read(file, also, options);
	*ret = *seen;
	ret->n += file->n;
	ret->list = allocated(calloc(ret->n + 1, sizeof(*ret->list)));
	for (size_t i = 0; i < ret->n; i++)
		ret->list[i] = i < seen->n ? seen->list[i] : file->rows[i - seen->n];
}

static void print(const struct ctl *ctl, const struct rdmabroker_refusals *seen,
		  const struct suggestion_options *options, const struct holding *holding)
{
	struct rdmabroker_refusals all = { 0 };
	struct suggested file_of_also = { NULL };
	struct jsonout json;
	char *text = NULL;
	size_t size;
	FILE *file = allocated(open_memstream(&text, &size));

	if (also) {
		add_also(&all, &file_of_also, seen, options);
		seen = &all;
	}
	print_text(file, seen, options, holding);
	free(all.list);
	suggested_done(&file_of_also);
	allocated(fclose(file) == 0 ? text : NULL);
	if (ctl->json) {
		json_begin(&json);
		jsonout_string(&json, tests ? "tests" : "rules", text);
		json_end(&json);
	} else {
		fputs(text, stdout);
	}
	free(text);
}

/* The ids and QPs of others are shown to root alone. */
static void suggest_by_kernel(const struct ctl *ctl, struct suggestion_options *options)
{
	struct holding holding;
	const char *failed;

	if (geteuid() != 0)
		die(EXIT_FAILURE,
		    "--kernel has to be used by root: the kernel shows others only what is "
		    "their own");
	options->is_held = true;
	failed = holding_read(&holding, options->first_port, options->last_port);
	if (failed)
		die(EXIT_FAILURE, "cannot %s: %m%s", failed,
		    errno == EPROTONOSUPPORT ? " (is the kernel's module ib_core loaded?)" : "");
	print(ctl, &holding.refusals, options, &holding);
	holding_done(&holding);
}

static void suggest_by_daemon(struct ctl *ctl, const struct suggestion_options *options)
{
	struct rdmabroker_refusals *refusals;

	ctl_open_session(ctl, /* as_admin= */ true);
	ctl_check(ctl, rdmabroker_get_refusals(ctl->session, &refusals));
	print(ctl, refusals, options, NULL);
	rdmabroker_free(refusals);
}

int verb_suggest(struct ctl *ctl)
{
	struct suggestion_options options = {
		.rejected = rejected,
		.peer_prefix = 32,
		.peer_prefix6 = 128,
		.user_name = user_name,
		.group_name = group_name,
		.prefer_groups = prefer_groups,
		.print_others = print_others,
	};

	if (prefixes)
		read_prefixes(&options);
	if (kernel && rejected)
		die(EXIT_USAGE,
		    "--kernel and --rejected exclude each other: the kernel has not refused "
		    "what programs hold");
	read_port_range(&options);
	if (kernel)
		suggest_by_kernel(ctl, &options);
	else
		suggest_by_daemon(ctl, &options);
	return EXIT_SUCCESS;
}
