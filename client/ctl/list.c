/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "list.h"
#include "proto/addr.h"
#include "read.h"
#include "who.h"

/*
 * The verb list: sessions and ids, once or on a screen that is drawn again and again. The daemon sends all of them,
 * and what the options do not want is left out here.
 */

#define WATCH_MS 2000

enum {
	OPTION_SESSIONS,
	OPTION_LISTENERS,
	OPTION_CONNECTIONS,
	OPTION_SESSION,
	OPTION_USER,
	OPTION_STATE,
	OPTION_PEER,
	OPTION_PORT,
	OPTION_WATCH,
};

static const char *const states[] = {
	"idle",
	"bound",
	"listening",
	"resolving-addr",
	"addr-resolved",
	"resolving-route",
	"route-resolved",
	"connecting",
	"responded",
	"request",
	"accepted",
	"established",
	"disconnecting",
	"disconnected",
	"failed",
	"removed",
	"moved",
	"revoked",
	NULL,
};

/* The states that --connections selects. */
static const char *const connection_states[] = {
	"connecting", "responded", "request", "accepted", "established", "disconnecting", NULL,
};

const struct verb_option list_options[] = {
	[OPTION_SESSIONS] = { "sessions", NULL, "only sessions" },
	[OPTION_LISTENERS] = { "listeners", NULL, "only ids that listen" },
	[OPTION_CONNECTIONS] = { "connections", NULL,
				 "only connections, including those being set up or ended" },
	[OPTION_SESSION] = { "session", "N", "only this session and its ids" },
	[OPTION_USER] = { "user", "NAME|UID", "only sessions and ids of this user" },
	[OPTION_STATE] = { "state", "STATE", "only ids in this state", states },
	[OPTION_PEER] = { "peer", "ADDR", "only ids with this peer address" },
	[OPTION_PORT] = { "port", "N", "only ids with this port, local or at the peer" },
	[OPTION_WATCH] = { "watch", NULL, "print the list again every 2 s, until interrupted" },
	{ NULL },
};

struct filter {
	bool sessions, ids;
	const char *const *states; /* NULL: all */
	const char *state; /* NULL: all */
	bool by_user, by_peer;
	uint32_t uid;
	unsigned long session; /* 0: all */
	struct sockaddr_storage peer;
	uint16_t port; /* 0: all */
};

static int filter_read(struct filter *ret, const struct ctl *ctl)
{
	static const char *const listening[] = { "listening", NULL };
	const char *const *given = ctl->given;

	*ret = (struct filter){ 0 };
	if (!!given[OPTION_SESSIONS] + !!given[OPTION_LISTENERS] + !!given[OPTION_CONNECTIONS] >
	    1) {
		complain(
			"--sessions, --listeners and --connections exclude each other: give only one");
		return ctl_see_help(ctl->verb);
	}
	if (given[OPTION_WATCH] && (ctl->json || !isatty(STDOUT_FILENO))) {
		complain("--watch needs a terminal, and excludes --json");
		return ctl_see_help(ctl->verb);
	}
	if (given[OPTION_LISTENERS])
		ret->states = listening;
	if (given[OPTION_CONNECTIONS])
		ret->states = connection_states;
	if (given[OPTION_STATE] && read_word("state", given[OPTION_STATE], states) < 0)
		return EXIT_USAGE;
	ret->state = given[OPTION_STATE];
	ret->by_user = given[OPTION_USER] != NULL;
	ret->by_peer = given[OPTION_PEER] != NULL;
	ret->ids = !given[OPTION_SESSIONS];
	/* A session has no state, peer or port, so options for these select only ids, except with --sessions. */
	ret->sessions = given[OPTION_SESSIONS] ||
			!(ret->states || ret->state || ret->by_peer || given[OPTION_PORT]);
	return read_positive("session", given[OPTION_SESSION], &ret->session) ?:
		       read_user(given[OPTION_USER], &ret->uid)               ?:
		       read_address(given[OPTION_PEER], &ret->peer)           ?:
		       read_port(given[OPTION_PORT], &ret->port);
}

static bool has_word(const char *const *words, const char *word)
{
	for (; *words; words++)
		if (strcmp(*words, word) == 0)
			return true;
	return false;
}

static uint16_t port_of(const struct sockaddr_storage *addr)
{
	return addr->ss_family ? addr_port((const struct sockaddr *)addr) : 0;
}

static bool wants_owner(const struct filter *filter,
			const struct rdmabroker_listed_session *session)
{
	return !(filter->by_user && session->who.uid != filter->uid) &&
	       !(filter->session && session->number != filter->session);
}

static bool wants_id(const struct filter *filter, const struct rdmabroker_listed_id *id)
{
	const struct sockaddr *peer = (const struct sockaddr *)&id->peer;

	return wants_owner(filter, id->session) &&
	       !(filter->states && !has_word(filter->states, id->state)) &&
	       !(filter->state && strcmp(filter->state, id->state) != 0) &&
	       !(filter->by_peer &&
		 !addr_is_same_host((const struct sockaddr *)&filter->peer, peer)) &&
	       !(filter->port && port_of(&id->local) != filter->port &&
		 port_of(&id->peer) != filter->port);
}

static bool wants_session(const struct filter *filter, const struct rdmabroker_list *list,
			  const struct rdmabroker_listed_session *session)
{
	if (!filter->sessions || !wants_owner(filter, session))
		return false;
	if (!(filter->state || filter->by_peer || filter->port))
		return true;
	/* Select the sessions that have an id which the filter selects. */
	for (size_t i = 0; i < list->n_ids; i++)
		if (list->ids[i].session == session && wants_id(filter, &list->ids[i]))
			return true;
	return false;
}

/* A session, or one of its ids. In the table, ID has what there is to say about a session. */
struct row {
	struct rdmabroker_listed_session session;
	struct rdmabroker_listed_id id;
};

static void print_age(const void *at, FILE *file)
{
	char text[AGE_TEXT_MAX];

	age_text(text, (unsigned long)(*(const uint64_t *)at / 1000));
	fputs(text, file);
}

#define OF(member) COLUMN_OF(struct row, member)

static const struct column session_columns[] = {
	{ NULL, "session", OF(session.number) },
	WHO_COLUMNS(struct row, session.who, 0, 0),
	{ NULL, "age_ms", OF(session.age_ms) },
	{ NULL, "ids", OF(session.n_ids) },
	{ NULL, "leases", OF(session.n_leases) },
	{ NULL, "rule", OF(session.rule) },
	{ NULL, "restriction", OF(session.restriction) },
	{ NULL, "lingers", OF(session.lingers) },
	{ NULL, "charged_uid", OF(session.who.charged_uid) },
	{ NULL },
};

/* Of an id in JSON, and of both in the table. */
static const struct column columns[] = {
	{ NULL, "session", OF(session.number) },
	{ NULL, "id", OF(id.id) },
	WHO_COLUMNS(struct row, session.who, 0, 0),
	{ "SESSION", NULL, OF(session.number) },
	{ "ID", NULL, OF(id.id), COLUMN_NO_ZERO },
	{ "STATE", "state", OF(id.state) },
	{ "AGE", "age_ms", OF(id.age_ms), .text = print_age },
	{ NULL, "ps", .type = COLUMN_PORT_SPACE, .offset = offsetof(struct row, id.ps) },
	{ "LOCAL", "local", OF(id.local) },
	{ "PEER", "peer", OF(id.peer) },
	{ "DEVICE", "device", OF(id.device) },
	{ "QPN", "qpn", OF(id.qp_num), COLUMN_NO_ZERO },
	{ "TOS", "tos", OF(id.tos), COLUMN_NO_NEGATIVE },
	{ "RULE", "rule", OF(id.rule) },
	/* Most policies never ask. */
	{ "PEER-IS", "peer_identity", .type = COLUMN_TEXT,
	  .offset = offsetof(struct row, id.who_peer), COLUMN_IF_ANY, .text = who_print_peer,
	  .json = who_json_peer },
	{ NULL },
};

/* For reload --dry-run. */
static const struct column denied_columns[] = {
	{ NULL, "session", OF(session.number) },    { NULL, "id", OF(id.id), COLUMN_NO_ZERO },
	WHO_COLUMNS(struct row, session.who, 0, 0), { "SESSION", NULL, OF(session.number) },
	{ "ID", NULL, OF(id.id), COLUMN_NO_ZERO },  { "STATE", "state", OF(id.state) },
	{ "LOCAL", "local", OF(id.local) },         { "PEER", "peer", OF(id.peer) },
	{ "NOT ALLOWED", "denied", OF(id.denied) }, { NULL },
};

/* ID NULL: the session. */
static struct row make_row(const struct rdmabroker_listed_session *session,
			   const struct rdmabroker_listed_id *id)
{
	const struct rdmabroker_listed_id none = {
		.state = session->lingers     ? "lingering" :
			 session->restriction ? "restricted" :
						"session",
		.age_ms = session->age_ms,
		.rule = session->rule,
		.denied = session->denied,
		.tos = -1,
	};

	return (struct row){ .session = *session, .id = id ? *id : none };
}

/* What is printed. */
struct view {
	const struct rdmabroker_list *list;
	const struct filter *filter;
};

static void add_rows(const struct view *view, struct table *table, bool sessions, bool ids)
{
	const struct rdmabroker_list *list = view->list;
	const struct rdmabroker_listed_id *id = list->ids, *end = id + list->n_ids;
	struct row row;

	for (size_t i = 0; i < list->n_sessions; i++) {
		const struct rdmabroker_listed_session *session = &list->sessions[i];

		row = make_row(session, NULL);
		if (sessions && wants_session(view->filter, list, session))
			table_add(table, &row);
		for (; id < end && id->session == session; id++) {
			row = make_row(session, id);
			if (ids && view->filter->ids && wants_id(view->filter, id))
				table_add(table, &row);
		}
	}
}

static void print_objects(const struct view *view)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_open(&json, "sessions", '[');
	add_rows(view, &(struct table){ .columns = session_columns, .json = &json }, true,
		 /* ids= */ false);
	jsonout_close(&json, ']');
	jsonout_open(&json, "ids", '[');
	add_rows(view, &(struct table){ .columns = columns, .json = &json }, /* sessions= */ false,
		 true);
	jsonout_close(&json, ']');
	jsonout_close(&json, '}');
	putchar('\n');
}

static int print_table(const void *arg, FILE *file)
{
	struct table table;

	table_begin(&table, columns);
	add_rows(arg, &table, /* sessions= */ true, /* ids= */ true);
	return table_end(&table, file) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int print_list(const struct ctl *ctl, const struct filter *filter)
{
	struct rdmabroker_list *list;
	struct view view = { .filter = filter };
	int r, status = EXIT_SUCCESS;

	r = rdmabroker_get_list(ctl->session, 0, &list);
	if (r < 0)
		return ctl_complain_failure(ctl, r);
	view.list = list;
	if (ctl->json)
		print_objects(&view);
	else if (ctl->given[OPTION_WATCH])
		status = print_on_screen(print_table, &view);
	else
		status = print_table(&view, stdout);
	rdmabroker_free(list);
	return status;
}

static size_t add_denied(const struct rdmabroker_list *list, struct table *table)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n_sessions + list->n_ids; i++) {
		const struct rdmabroker_listed_id *id =
			i < list->n_sessions ? NULL : &list->ids[i - list->n_sessions];
		struct row row = make_row(id ? id->session : &list->sessions[i], id);

		if (!row.id.denied)
			continue;
		table_add(table, &row);
		n++;
	}
	return n;
}

void list_json_denied(const struct rdmabroker_list *list, struct jsonout *json)
{
	add_denied(list, &(struct table){ .columns = denied_columns, .json = json });
}

int list_print_denied(const struct rdmabroker_list *list)
{
	struct table table;

	table_begin(&table, denied_columns);
	if (add_denied(list, &table) > 0)
		return table_end(&table, stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
	table_done(&table);
	printf("they allow all sessions and ids that there are now\n");
	return EXIT_SUCCESS;
}

int verb_list(struct ctl *ctl)
{
	struct filter filter;
	int status = filter_read(&filter, ctl) ?: ctl_open_session(ctl, /* as_admin= */ true);

	if (status != 0)
		return status;
	/* After a signal the current list is still printed. */
	if (ctl->given[OPTION_WATCH])
		ctl_catch_signals();
	do
		status = print_list(ctl, &filter);
	while (ctl->given[OPTION_WATCH] && status == 0 && !ctl_interrupted &&
	       (poll(NULL, 0, WATCH_MS), !ctl_interrupted));
	return status;
}
