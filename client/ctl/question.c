/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <infiniband/ib.h>
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

static const char *user, *group, *unit, *container, *pod, *job, *cgroup, *local, *peer, *port,
	*device, *ps, *pkey, *path_pkey, *data, *peer_user, *peer_group, *peer_unit, *peer_job;

const struct verb_option explain_options[] = {
	{ "user", "NAME|UID", "the client's user, with all its groups (default: you)",
	  .given = &user },
	{ "group", "[+]LIST", "groups (names or gids) that replace the user's; with +: are added",
	  .given = &group },
	{ "unit", "NAME", "the client's systemd unit (default: none)", .given = &unit },
	{ "container", "ID", "the client's container (default: none)", .given = &container },
	{ "pod", "UID", "the client's pod (default: none)", .given = &pod },
	{ "job", "NUMBER", "the client's job (default: none)", .given = &job },
	{ "cgroup", "PATH", "the client's control group (default: none)", .given = &cgroup },
	{ "local", "ADDR", "the local address", .given = &local },
	{ "peer", "ADDR", "the peer's address, or the multicast group", .given = &peer },
	{ "port", "N", "the service's port", .given = &port },
	{ "device", "NAME", "the RDMA device", .given = &device },
	{ "ps", "PS", "the port space", portspace_names, .given = &ps },
	{ "pkey", "N", "the P_Key of the network device, GID or connection request",
	  .given = &pkey },
	{ "path-pkey", "N", "the P_Key of a path that the client sets itself (default: none)",
	  .given = &path_pkey },
	{ "data", "TEXT|0xHEX", "the private data of the connection request", .given = &data },
	{ "peer-user", "NAME|UID", "the user at the other end, with all its groups on this host",
	  .given = &peer_user },
	{ "peer-group", "[+]LIST", "groups that replace those of --peer-user; with +: are added",
	  .given = &peer_group },
	{ "peer-unit", "NAME", "the systemd unit at the other end (default: none)",
	  .given = &peer_unit },
	{ "peer-job", "NUMBER", "the job at the other end (default: none)", .given = &peer_job },
	{ NULL },
};
_Static_assert(sizeof(explain_options) / sizeof(explain_options[0]) <= MAX_OPTIONS + 1,
	       "options.c has no room for these");

/* Its groups are in an array of MAX_GROUPS. */
static void add_gid(struct rdmabroker_who *to, uint32_t gid)
{
	for (size_t i = 0; i < to->n_gids; i++)
		if (to->gids[i] == gid)
			return;
	if (to->n_gids == MAX_GROUPS)
		die(EXIT_FAILURE, "too many groups: at most %u are allowed", MAX_GROUPS);
	((uint32_t *)to->gids)[to->n_gids++] = gid;
}

static void add_gids(struct rdmabroker_who *to, const gid_t *gids, int n)
{
	for (int i = 0; i < n; i++)
		add_gid(to, gids[i]);
}

/* Takes the ids that the daemon would use: the effective uid and the groups of this process. */
static void take_caller(struct rdmabroker_who *to, bool with_groups)
{
	gid_t gids[MAX_GROUPS];
	int n;

	to->uid = geteuid();
	if (!with_groups)
		return;
	n = getgroups(MAX_GROUPS, gids);
	if (n < 0)
		die(EXIT_FAILURE, "cannot read the groups of this process: %m");
	add_gid(to, getegid());
	add_gids(to, gids, n);
}

static void take_user(struct rdmabroker_who *to, const char *name, bool with_groups)
{
	const struct passwd *entry;
	gid_t gids[MAX_GROUPS];
	int n = MAX_GROUPS;

	read_user(name, &to->uid);
	/* The groups of a uid without an entry, as in containers, cannot be looked up. */
	entry = with_groups ? getpwuid(to->uid) : NULL;
	if (!entry)
		return;
	if (getgrouplist(entry->pw_name, entry->pw_gid, gids, &n) < 0)
		die(EXIT_FAILURE, "user %s is in too many groups: at most %u are allowed",
		    entry->pw_name, MAX_GROUPS);
	add_gids(to, gids, n);
}

static void take_group(struct rdmabroker_who *to, const char *name)
{
	const struct group *entry;
	uint32_t gid;

	if (!read_id("gid", name, &gid)) {
		entry = getgrnam(name);
		if (!entry)
			die(EXIT_FAILURE, "unknown group \"%s\"%s%s", name, errno ? ": " : "",
			    errno ? strerror(errno) : "");
		gid = entry->gr_gid;
	}
	add_gid(to, gid);
}

/* NAME NULL: the caller. GROUPS: the argument of --group; NULL: not given. */
static void read_identity(struct rdmabroker_who *to, const char *name, const char *groups)
{
	bool in_addition = groups && groups[0] == '+';
	bool with_groups = !groups || in_addition;
	char *rest, *one;

	if (name)
		take_user(to, name, with_groups);
	else
		take_caller(to, with_groups);
	if (groups)
		for (rest = strdupa(groups + in_addition); (one = strsep(&rest, ","));)
			take_group(to, one);
}

static void read_peer_identity(struct question *question, const struct ctl *ctl)
{
	if (!peer_user && (peer_group || peer_unit || peer_job))
		ctl_misused(ctl, "--peer-group, --peer-unit and --peer-job need --peer-user");
	if (!peer_user)
		return;
	question->peer_who = (struct rdmabroker_who){
		.gids = question->peer_gids,
		.knows_workload = true,
		.unit = peer_unit,
		.job = peer_job,
	};
	read_identity(&question->peer_who, peer_user, peer_group);
	question->public.peer_who = &question->peer_who;
}

static bool read_hex(const char *text, uint8_t *bytes)
{
	for (; *text; text += 2)
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]) ||
		    sscanf(text, "%2hhx", bytes++) != 1)
			return false;
	return true;
}

static void take_data(struct question *question)
{
	bool is_hex = strncmp(data, "0x", 2) == 0;
	size_t n = is_hex ? (strlen(data) - 2) / 2 : strlen(data);

	if (n > sizeof(question->data))
		die(EXIT_USAGE, "the private data is too long: at most %zu bytes are allowed",
		    sizeof(question->data));
	if (!is_hex)
		memcpy(question->data, data, n);
	else if (!read_hex(data + 2, question->data))
		die(EXIT_USAGE,
		    "invalid private data \"%s\": 0x must be followed by pairs of "
		    "hexadecimal digits",
		    data);
	question->public.data = question->data;
	question->public.data_len = n;
}

void question_read(struct question *ret, const struct ctl *ctl, const char *operation)
{
	struct rdmabroker_question *public = &ret->public;

	read_word("operation", operation, operation_names);
	*ret = (struct question){
		.public = {
			.operation = operation,
			.device = device,
			.who = {
				.gids = ret->gids,
				.unit = unit,
				.container = container,
				.pod = pod,
				.job = job,
				.cgroup = cgroup,
			},
			.local = local ? (struct sockaddr *)&ret->local : NULL,
			.peer = peer ? (struct sockaddr *)&ret->peer : NULL,
		},
	};
	read_address(local, &ret->local);
	read_address(peer, &ret->peer);
	read_port(port, &public->port);
	read_pkey(pkey, &public->pkey);
	read_pkey(path_pkey, &public->path_pkey);
	if (ps)
	public->ps = (enum rdmabroker_port_space)portspace_number(
		(size_t)read_word("port space", ps, portspace_names));
	if (data)
		take_data(ret);
	read_identity(&public->who, user, group);
	read_peer_identity(ret, ctl);
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

/* A GID is in the default partition, unless another one is given. */
static bool has_gid(const struct question *question)
{
	return question->local.ss_family == AF_IB || question->peer.ss_family == AF_IB;
}

size_t question_find_missing(const struct question *question, const char *text,
			     const char *ret[MAX_OPTIONS])
{
	/* The user, the groups and the workload are always known. */
	const struct {
		const char *option;
		bool is_known, is_needed;
	} members[] = {
		{ "local", local && !addr_is_wildcard((const struct sockaddr *)&question->local),
		  find_word(text, "local") },
		{ "peer", peer, find_word(text, "peer") },
		{ "port", port, find_word(text, "port") },
		{ "device", device && *device, find_word(text, "device") },
		{ "ps", ps, find_word(text, "ps") },
		{ "pkey", pkey || path_pkey || has_gid(question), find_word(text, "pkey") },
		{ "data", data, find_word(text, "data") },
		/* Without it, the options about the peer's group, unit and job are not allowed. */
		{ "peer-user", peer_user,
		  find_word(text, "peer-user") || find_word(text, "peer-group") ||
			  find_word(text, "peer-unit") || find_word(text, "peer-same") },
		{ "peer-group", peer_user, find_word(text, "peer-group") },
		{ "peer-unit", peer_user, find_word(text, "peer-unit") || compares(text, "unit") },
		{ "peer-job", peer_user, compares(text, "job") },
	};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		if (members[i].is_needed && !members[i].is_known)
			ret[n++] = members[i].option;
	return n;
}
