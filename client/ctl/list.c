/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "grow.h"
#include "list.h"
#include "proto/pkey.h"
#include "read.h"
#include "who.h"

/*
 * The verb list: sessions and ids, once or on a screen that is drawn again and again. The daemon sends all of them,
 * and what the options do not want is left out here.
 */

#define WATCH_MS 2000

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

static const char *sessions, *listeners, *connections, *session_number, *user, *state, *peer, *port,
	*watch;

const struct verb_option list_options[] = {
	{ "sessions", NULL, "only sessions", .given = &sessions },
	{ "listeners", NULL, "only ids that listen", .given = &listeners },
	{ "connections", NULL, "only connections, including those being set up or ended",
	  .given = &connections },
	{ "session", "N", "only this session and its ids", .given = &session_number },
	{ "user", "NAME|UID", "only sessions and ids of this user", .given = &user },
	{ "state", "STATE", "only ids in this state", states, .given = &state },
	{ "peer", "ADDR", "only ids with this peer address", .given = &peer },
	{ "port", "N", "only ids with this port, local or at the peer", .given = &port },
	{ "watch", NULL, "print the list again every 2 s, until interrupted", .given = &watch },
	{ NULL },
};

static struct {
	bool sessions, ids;
	const char *const *states; /* NULL: all */
	uint32_t uid;
	unsigned long session; /* 0: all */
	struct sockaddr_storage peer;
	uint16_t port; /* 0: all */
} wanted;

static void read_wanted(const struct ctl *ctl)
{
	static const char *const listening[] = { "listening", NULL };

	if (!!sessions + !!listeners + !!connections > 1)
		ctl_misused(
			ctl,
			"--sessions, --listeners and --connections exclude each other: give only one");
	if (watch && (ctl->json || !isatty(STDOUT_FILENO)))
		ctl_misused(ctl, "--watch needs a terminal, and excludes --json");
	wanted.states = listeners ? listening : connections ? connection_states : NULL;
	read_word("state", state, states);
	wanted.ids = !sessions;
	/* A session has no state, peer or port, so options for these select only ids, except with --sessions. */
	wanted.sessions = sessions || !(wanted.states || state || peer || port);
	read_positive("session", session_number, &wanted.session);
	read_user(user, &wanted.uid);
	read_address(peer, &wanted.peer);
	read_port(port, &wanted.port);
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

static bool wants_owner(const struct rdmabroker_listed_session *session)
{
	return !(user && session->who.uid != wanted.uid) &&
	       !(wanted.session && session->number != wanted.session);
}

static bool wants_id(const struct rdmabroker_listed_id *id)
{
	return wants_owner(id->session) &&
	       !(wanted.states && !has_word(wanted.states, id->state)) &&
	       !(state && strcmp(state, id->state) != 0) &&
	       !(peer && !addr_is_same_host((const struct sockaddr *)&wanted.peer,
					    (const struct sockaddr *)&id->peer)) &&
	       !(wanted.port && port_of(&id->local) != wanted.port &&
		 port_of(&id->peer) != wanted.port);
}

static bool wants_session(const struct rdmabroker_list *list,
			  const struct rdmabroker_listed_session *session)
{
	if (!wanted.sessions || !wants_owner(session))
		return false;
	if (!(state || peer || port))
		return true;
	/* Select the sessions that have an id which the filter selects. */
	for (size_t i = 0; i < list->n_ids; i++)
		if (list->ids[i].session == session && wants_id(&list->ids[i]))
			return true;
	return false;
}

/* A session, or one of its ids. In the table, ID has what there is to say about a session. */
struct row {
	struct rdmabroker_listed_session session;
	struct rdmabroker_listed_id id;
};

/* With its two largest units: "12s", "4m05s", "3h04m", "12d03h". */
static void print_age(const void *at, FILE *file)
{
	unsigned long s = (unsigned long)(*(const uint64_t *)at / 1000);

	if (s < 60)
		fprintf(file, "%lus", s);
	else if (s < 60 * 60)
		fprintf(file, "%lum%02lus", s / 60, s % 60);
	else if (s < 24 * 60 * 60)
		fprintf(file, "%luh%02lum", s / 3600, s / 60 % 60);
	else
		fprintf(file, "%lud%02luh", s / 86400, s / 3600 % 24);
}

/* In a table the default partition is not worth a column. */
static void print_pkey(const void *at, FILE *file)
{
	const uint16_t *pkey = at;

	if (*pkey && pkey_partition(*pkey) != PKEY_DEFAULT)
		fprintf(file, "0x%04x", *pkey);
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
	{ "PKEY", "pkey", .type = COLUMN_TEXT, .offset = offsetof(struct row, id.pkey),
	  COLUMN_IF_ANY, .text = print_pkey, .json = table_json_pkey },
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

static void add_rows(const struct rdmabroker_list *list, struct table *table, bool with_sessions,
		     bool with_ids)
{
	const struct rdmabroker_listed_id *id = list->ids, *end = id + list->n_ids;
	struct row row;

	for (size_t i = 0; i < list->n_sessions; i++) {
		const struct rdmabroker_listed_session *session = &list->sessions[i];

		row = make_row(session, NULL);
		if (with_sessions && wants_session(list, session))
			table_add(table, &row);
		for (; id < end && id->session == session; id++) {
			row = make_row(session, id);
			if (with_ids && wanted.ids && wants_id(id))
				table_add(table, &row);
		}
	}
}

static void print_objects(const struct rdmabroker_list *list)
{
	struct jsonout json;
	struct table table;

	json_begin(&json);
	table_begin(&table, session_columns, &json, "sessions");
	add_rows(list, &table, /* with_sessions= */ true, /* with_ids= */ false);
	table_end(&table, stdout);
	table_begin(&table, columns, &json, "ids");
	add_rows(list, &table, /* with_sessions= */ false, /* with_ids= */ true);
	table_end(&table, stdout);
	json_end(&json);
}

static void print_table(const struct rdmabroker_list *list, FILE *file)
{
	struct table table;

	table_begin(&table, columns, NULL, NULL);
	add_rows(list, &table, /* with_sessions= */ true, /* with_ids= */ true);
	table_end(&table, file);
}

static void print_on_screen(const struct rdmabroker_list *list)
{
	char *text = NULL;
	size_t len;
	FILE *file = allocated(open_memstream(&text, &len));

	print_table(list, file);
	allocated(fclose(file) == 0 ? text : NULL);
	draw_screen(text);
	free(text);
}

static void print_list(const struct ctl *ctl)
{
	struct rdmabroker_list *list;

	ctl_check(ctl, rdmabroker_get_list(ctl->session, 0, &list));
	if (ctl->json)
		print_objects(list);
	else if (watch)
		print_on_screen(list);
	else
		print_table(list, stdout);
	rdmabroker_free(list);
}

void list_print_denied(const struct rdmabroker_list *list, struct jsonout *json)
{
	struct table table;

	table_begin(&table, denied_columns, json, "denied");
	for (size_t i = 0; i < list->n_sessions + list->n_ids; i++) {
		const struct rdmabroker_listed_id *id =
			i < list->n_sessions ? NULL : &list->ids[i - list->n_sessions];
		struct row row = make_row(id ? id->session : &list->sessions[i], id);

		if (row.id.denied)
			table_add(&table, &row);
	}
	if (json || table.n_rows > 0) {
		table_end(&table, stdout);
	} else {
		table_done(&table);
		puts("they allow all sessions and ids that there are now");
	}
}

int verb_list(struct ctl *ctl)
{
	read_wanted(ctl);
	ctl_open_session(ctl, /* as_admin= */ true);
	/* After a signal the current list is still printed. */
	if (watch)
		ctl_catch_signals();
	do
		print_list(ctl);
	while (watch && !ctl_interrupted && (poll(NULL, 0, WATCH_MS), !ctl_interrupted));
	return EXIT_SUCCESS;
}
