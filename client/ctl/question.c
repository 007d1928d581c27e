/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "proto/addr.h"
#include "proto/names.h"
#include "question.h"
#include "read.h"

const struct verb_option explain_options[] = {
	[OPTION_USER] = { "user", "NAME|UID",
			  "the client's user, with all its groups (default: you)" },
	[OPTION_GROUP] = { "group", "[+]LIST",
			   "groups (names or gids) that replace the user's; with +: are added" },
	[OPTION_UNIT] = { "unit", "NAME", "the client's systemd unit (default: none)" },
	[OPTION_CONTAINER] = { "container", "ID", "the client's container (default: none)" },
	[OPTION_POD] = { "pod", "UID", "the client's pod (default: none)" },
	[OPTION_JOB] = { "job", "NUMBER", "the client's job (default: none)" },
	[OPTION_CGROUP] = { "cgroup", "PATH", "the client's control group (default: none)" },
	[OPTION_LOCAL] = { "local", "ADDR", "the local address" },
	[OPTION_PEER] = { "peer", "ADDR", "the peer's address, or the multicast group" },
	[OPTION_PORT] = { "port", "N", "the service's port" },
	[OPTION_DEVICE] = { "device", "NAME", "the RDMA device" },
	[OPTION_PS] = { "ps", "PS", "the port space", portspace_names },
	[OPTION_DATA] = { "data", "TEXT|0xHEX", "the private data of the connection request" },
	[OPTION_PEER_USER] = { "peer-user", "NAME|UID",
			       "the user at the other end, with all its groups on this host" },
	[OPTION_PEER_GROUP] = { "peer-group", "[+]LIST",
				"groups that replace those of --peer-user; with +: are added" },
	[OPTION_PEER_UNIT] = { "peer-unit", "NAME",
			       "the systemd unit at the other end (default: none)" },
	[OPTION_PEER_JOB] = { "peer-job", "NUMBER", "the job at the other end (default: none)" },
	{ NULL },
};
_Static_assert(sizeof(explain_options) / sizeof(explain_options[0]) <= MAX_OPTIONS + 1,
	       "struct ctl has no room for these");

static int add_gid(struct user *user, uint32_t gid)
{
	for (size_t i = 0; i < user->n_gids; i++)
		if (user->gids[i] == gid)
			return 0;
	if (user->n_gids == MAX_GROUPS) {
		complain("too many groups: at most %u are allowed", MAX_GROUPS);
		return EXIT_FAILURE;
	}
	user->gids[user->n_gids++] = gid;
	return 0;
}

static int add_gids(struct user *user, const gid_t *gids, int n)
{
	int r = 0;

	for (int i = 0; i < n && r == 0; i++)
		r = add_gid(user, gids[i]);
	return r;
}

/* Takes the ids that the daemon would use: the effective uid and the groups of this process. */
static int take_caller(struct user *user, bool with_groups)
{
	gid_t gids[MAX_GROUPS];
	int n, r;

	user->uid = geteuid();
	if (!with_groups)
		return 0;
	n = getgroups(MAX_GROUPS, gids);
	if (n < 0) {
		complain("cannot read the groups of this process: %m");
		return EXIT_FAILURE;
	}
	r = add_gid(user, getegid());
	return r != 0 ? r : add_gids(user, gids, n);
}

static int take_user(struct user *user, const char *name, bool with_groups)
{
	const struct passwd *entry;
	gid_t gids[MAX_GROUPS];
	int n = MAX_GROUPS;
	int r = read_user(name, &user->uid);

	if (r != 0 || !with_groups)
		return r;
	entry = getpwuid(user->uid);
	/* The groups of a uid without an entry, as in containers, cannot be looked up. */
	if (!entry)
		return 0;
	if (getgrouplist(entry->pw_name, entry->pw_gid, gids, &n) < 0) {
		complain("user %s is in too many groups: at most %u are allowed", entry->pw_name,
			 MAX_GROUPS);
		return EXIT_FAILURE;
	}
	return add_gids(user, gids, n);
}

static int take_group(struct user *user, const char *name)
{
	const struct group *entry;
	uint32_t gid;
	int r = read_id("gid", name, &gid);

	if (r >= 0)
		return r != 0 ? r : add_gid(user, gid);
	entry = getgrnam(name);
	if (!entry) {
		complain("unknown group \"%s\"%s%s", name, errno ? ": " : "",
			 errno ? strerror(errno) : "");
		return EXIT_FAILURE;
	}
	return add_gid(user, entry->gr_gid);
}

static int take_groups(struct user *user, const char *list)
{
	char *copy = strdup(list), *rest = copy, *name;
	int r = 0;

	if (!copy) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	while (r == 0 && (name = strsep(&rest, ",")))
		r = take_group(user, name);
	free(copy);
	return r;
}

/* NAME NULL: the caller. GROUPS: the argument of --group; NULL: not given. */
static int read_identity(struct user *ret, const char *name, const char *groups)
{
	bool in_addition = groups && groups[0] == '+';
	bool with_groups = !groups || in_addition;
	int r = name ? take_user(ret, name, with_groups) : take_caller(ret, with_groups);

	if (r == 0 && groups)
		r = take_groups(ret, groups + in_addition);
	return r;
}

static int take_identity(struct question *question, const struct ctl *ctl)
{
	int r = read_identity(&question->user, ctl->given[OPTION_USER], ctl->given[OPTION_GROUP]);

	question->public.who.uid = question->user.uid;
	question->public.who.gids = question->user.gids;
	question->public.who.n_gids = question->user.n_gids;
	return r;
}

static int take_peer_identity(struct question *question, const struct ctl *ctl)
{
	const char *const *given = ctl->given;
	struct user *user = &question->peer_user;
	int r;

	if (!given[OPTION_PEER_USER] &&
	    (given[OPTION_PEER_GROUP] || given[OPTION_PEER_UNIT] || given[OPTION_PEER_JOB])) {
		complain("--peer-group, --peer-unit and --peer-job need --peer-user");
		return ctl_see_help(ctl->verb);
	}
	if (!given[OPTION_PEER_USER])
		return 0;
	r = read_identity(user, given[OPTION_PEER_USER], given[OPTION_PEER_GROUP]);
	question->peer_who = (struct rdmabroker_who){
		.uid = user->uid,
		.gids = user->gids,
		.n_gids = user->n_gids,
		.knows_workload = true,
		.unit = given[OPTION_PEER_UNIT],
		.job = given[OPTION_PEER_JOB],
	};
	question->public.peer_who = &question->peer_who;
	return r;
}

static bool read_hex(const char *text, uint8_t *bytes)
{
	for (; *text; text += 2)
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]) ||
		    sscanf(text, "%2hhx", bytes++) != 1)
			return false;
	return true;
}

static int take_data(struct question *question, const char *text)
{
	bool is_hex = text && strncmp(text, "0x", 2) == 0;
	size_t n = !text ? 0 : is_hex ? (strlen(text) - 2) / 2 : strlen(text);

	if (!text)
		return 0;
	if (n > sizeof(question->data)) {
		complain("the private data is too long: at most %zu bytes are allowed",
			 sizeof(question->data));
		return EXIT_USAGE;
	}
	if (!is_hex) {
		memcpy(question->data, text, n);
	} else if (!read_hex(text + 2, question->data)) {
		complain("invalid private data \"%s\": 0x must be followed by pairs of "
			 "hexadecimal digits",
			 text);
		return EXIT_USAGE;
	}
	question->public.data = question->data;
	question->public.data_len = n;
	return 0;
}

static int take_port_space(struct question *question, const char *text)
{
	int i = text ? read_word("port space", text, portspace_names) : 0;

	if (!text)
		return 0;
	if (i < 0)
		return EXIT_USAGE;
	question->public.ps = (enum rdmabroker_port_space)portspace_number((size_t)i);
	return 0;
}

static int take_wish(struct question *question, const struct ctl *ctl)
{
	const char *const *given = ctl->given;
	struct rdmabroker_question *public = &question->public;

	public->device = given[OPTION_DEVICE];
	public->who.unit = given[OPTION_UNIT];
	public->who.container = given[OPTION_CONTAINER];
	public->who.pod = given[OPTION_POD];
	public->who.job = given[OPTION_JOB];
	public->who.cgroup = given[OPTION_CGROUP];
	public->local = given[OPTION_LOCAL] ? (struct sockaddr *)&question->local : NULL;
	public->peer = given[OPTION_PEER] ? (struct sockaddr *)&question->peer : NULL;
	return read_address(given[OPTION_LOCAL], &question->local)       ?:
		       read_address(given[OPTION_PEER], &question->peer) ?:
		       read_port(given[OPTION_PORT], &public->port)      ?:
		       take_port_space(question, given[OPTION_PS])       ?:
		       take_data(question, given[OPTION_DATA]);
}

int question_read(struct question *ret, const struct ctl *ctl, const char *operation)
{
	if (read_word("operation", operation, operation_names) < 0)
		return EXIT_USAGE;
	*ret = (struct question){ .public.operation = operation };
	return take_wish(ret, ctl) ?: take_identity(ret, ctl) ?: take_peer_identity(ret, ctl);
}

static bool knows(const struct rdmabroker_question *question, size_t option)
{
	switch (option) {
	case OPTION_LOCAL:
		return question->local && !addr_is_wildcard(question->local);
	case OPTION_PEER:
		return question->peer;
	case OPTION_PORT:
		return question->port > 0;
	case OPTION_DEVICE:
		return question->device && *question->device;
	case OPTION_PS:
		return question->ps != 0;
	case OPTION_DATA:
		return question->data;
	case OPTION_PEER_USER:
	case OPTION_PEER_GROUP:
	case OPTION_PEER_UNIT:
	case OPTION_PEER_JOB:
		return question->peer_who;
	default:
		return true; /* the user, the groups and the workload are always known */
	}
}

/* Returns the blank after the token, or the end of TEXT. A token can have blanks in quotes. */
static const char *token_end(const char *text)
{
	bool quoted = false;

	for (; *text && (quoted || *text != ' '); text++) {
		if (*text == '"')
			quoted = !quoted;
		else if (quoted && *text == '\\' && text[1])
			text++;
	}
	return text;
}

static const char *skip_token(const char *text)
{
	text = token_end(text);
	return text + strspn(text, " ");
}

/* Skips a value, which can be a list with blanks after its commas. */
static const char *skip_value(const char *text)
{
	const char *end;

	do {
		end = token_end(text);
		text = end + strspn(end, " ");
	} while (*text && end[-1] == ',');
	return text;
}

/*
 * Returns what follows WORD in the rule TEXT; NULL: TEXT does not have WORD. A rule is ACTION OPERATION, then words and
 * their values.
 */
static const char *find_word(const char *text, const char *word)
{
	text = skip_token(skip_token(text));
	while (*text) {
		size_t len = strcspn(text, " ");
		bool is_log = len == strlen("log") && memcmp(text, "log", len) == 0;

		if (len == strlen(word) && memcmp(text, word, len) == 0)
			return skip_token(text);
		text = skip_token(text);
		if (!is_log) /* the only word without a value */
			text = skip_value(text);
	}
	return NULL;
}

static bool compares(const char *text, const char *what)
{
	const char *value = find_word(text, "peer-same");

	return value && strncmp(value, what, strlen(what)) == 0;
}

/* True if the rule TEXT depends on the argument of OPTION. */
static bool needs(const char *text, size_t option)
{
	switch (option) {
	case OPTION_PEER_USER:
		/* Without it, the options about the peer's group, unit and job are not allowed. */
		return find_word(text, "peer-user") || find_word(text, "peer-group") ||
		       find_word(text, "peer-unit") || find_word(text, "peer-same");
	case OPTION_PEER_UNIT:
		return find_word(text, "peer-unit") || compares(text, "unit");
	case OPTION_PEER_JOB:
		return compares(text, "job");
	default:
		return find_word(text, explain_options[option].name);
	}
}

size_t question_find_missing(const struct question *question, const char *text,
			     const char *ret[MAX_OPTIONS])
{
	size_t n = 0;

	for (size_t i = 0; explain_options[i].name; i++)
		if (!knows(&question->public, i) && needs(text, i))
			ret[n++] = explain_options[i].name;
	return n;
}
