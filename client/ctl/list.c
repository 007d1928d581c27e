/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "output.h"
#include "proto/addr.h"
#include "proto/jsonout.h"
#include "proto/portspace.h"
#include "read.h"

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
	int r = 0;

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
		r = EXIT_USAGE;
	ret->state = given[OPTION_STATE];
	ret->by_user = given[OPTION_USER] != NULL;
	ret->by_peer = given[OPTION_PEER] != NULL;
	if (r == 0)
		r = read_positive("session", given[OPTION_SESSION], &ret->session);
	if (r == 0 && ret->by_user)
		r = read_user(given[OPTION_USER], &ret->uid);
	if (r == 0 && ret->by_peer)
		r = read_address(given[OPTION_PEER], &ret->peer);
	if (r == 0 && given[OPTION_PORT])
		r = read_port(given[OPTION_PORT], &ret->port);
	ret->ids = !given[OPTION_SESSIONS];
	/* A session has no state, peer or port, so options for these select only ids, except with --sessions. */
	ret->sessions = given[OPTION_SESSIONS] ||
			!(ret->states || ret->state || ret->by_peer || ret->port);
	return r;
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
	return !(filter->by_user && session->uid != filter->uid) &&
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
		if (list->ids[i]->session == session && wants_id(filter, list->ids[i]))
			return true;
	return false;
}

static void json_owner(struct jsonout *json, const struct rdmabroker_listed_session *session)
{
	jsonout_number(json, "uid", session->uid);
	jsonout_string(json, "user", user_name(session->uid));
	jsonout_number(json, "pid", (unsigned)session->pid);
	jsonout_string(json, "unit", session->unit);
	jsonout_string(json, "container", session->container);
	jsonout_string(json, "pod", session->pod);
	jsonout_string(json, "job", session->job);
	jsonout_string(json, "cgroup", session->cgroup);
}

static void json_session(struct jsonout *json, const struct rdmabroker_listed_session *session)
{
	jsonout_open(json, NULL, '{');
	jsonout_number(json, "session", session->number);
	json_owner(json, session);
	jsonout_number(json, "age_ms", session->age_ms);
	jsonout_number(json, "ids", session->n_ids);
	jsonout_number(json, "leases", session->n_leases);
	jsonout_string(json, "rule", session->rule);
	jsonout_string(json, "restriction", session->restriction);
	jsonout_bool(json, "lingers", session->lingers);
	jsonout_number(json, "charged_uid", session->charged_uid);
	jsonout_close(json, '}');
}

static void json_id(struct jsonout *json, const struct rdmabroker_listed_id *id)
{
	jsonout_open(json, NULL, '{');
	jsonout_number(json, "session", id->session->number);
	jsonout_number(json, "id", id->id);
	json_owner(json, id->session);
	jsonout_string(json, "state", id->state);
	jsonout_number(json, "age_ms", id->age_ms);
	jsonout_string(json, "ps", portspace_name((int)id->ps));
	json_addr(json, "local", &id->local);
	json_addr(json, "peer", &id->peer);
	jsonout_string(json, "device", id->device);
	if (id->qp_num > 0)
		jsonout_number(json, "qpn", id->qp_num);
	else
		jsonout_null(json, "qpn");
	if (id->tos >= 0)
		jsonout_number(json, "tos", (unsigned)id->tos);
	else
		jsonout_null(json, "tos");
	jsonout_string(json, "rule", id->rule);
	json_peer(json, id->peer_identity, id->peer_unknown);
	jsonout_close(json, '}');
}

static void print_json(const struct rdmabroker_list *list, const struct filter *filter)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_open(&json, "sessions", '[');
	for (size_t i = 0; i < list->n_sessions; i++)
		if (wants_session(filter, list, list->sessions[i]))
			json_session(&json, list->sessions[i]);
	jsonout_close(&json, ']');
	jsonout_open(&json, "ids", '[');
	for (size_t i = 0; filter->ids && i < list->n_ids; i++)
		if (wants_id(filter, list->ids[i]))
			json_id(&json, list->ids[i]);
	jsonout_close(&json, ']');
	jsonout_close(&json, '}');
	putchar('\n');
}

enum {
	COLUMN_USER,
	COLUMN_WORKLOAD,
	COLUMN_PID,
	COLUMN_SESSION,
	COLUMN_ID,
	COLUMN_STATE,
	COLUMN_AGE,
	COLUMN_LOCAL,
	COLUMN_PEER,
	COLUMN_DEVICE,
	COLUMN_QPN,
	COLUMN_TOS,
	COLUMN_RULE,
	COLUMN_PEER_IS, /* only shown if it was asked of an id, because most policies never ask */
	N_COLUMNS,
};

static const struct {
	const char *head;
	bool right;
} columns[N_COLUMNS] = {
	[COLUMN_USER] = { "USER", false }, [COLUMN_WORKLOAD] = { "WORKLOAD", false },
	[COLUMN_PID] = { "PID", true },    [COLUMN_SESSION] = { "SESSION", true },
	[COLUMN_ID] = { "ID", true },      [COLUMN_STATE] = { "STATE", false },
	[COLUMN_AGE] = { "AGE", true },    [COLUMN_LOCAL] = { "LOCAL", false },
	[COLUMN_PEER] = { "PEER", false }, [COLUMN_DEVICE] = { "DEVICE", false },
	[COLUMN_QPN] = { "QPN", true },    [COLUMN_TOS] = { "TOS", true },
	[COLUMN_RULE] = { "RULE", false }, [COLUMN_PEER_IS] = { "PEER-IS", false },
};

struct row {
	char cells[N_COLUMNS][PEER_TEXT_MAX];
};

__attribute__((format(printf, 3, 4))) static void set(struct row *row, int column, const char *fmt,
						      ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(row->cells[column], sizeof(row->cells[column]), fmt, ap);
	va_end(ap);
}

static void set_age(struct row *row, uint64_t ms)
{
	char text[AGE_TEXT_MAX];

	age_text(text, (unsigned long)(ms / 1000));
	set(row, COLUMN_AGE, "%s", text);
}

/* The name of UID, or its number, which is written to SPACE. */
static const char *user_text(uint32_t uid, char space[16])
{
	const char *name = user_name(uid);

	if (name)
		return name;
	snprintf(space, 16, "%u", uid);
	return space;
}

static void set_owner(struct row *row, const struct rdmabroker_listed_session *session)
{
	char text[16];

	for (int i = 0; i < N_COLUMNS; i++)
		set(row, i, "-");
	if (session->charged_uid != session->uid)
		set(row, COLUMN_USER, "%u of %s", session->uid,
		    user_text(session->charged_uid, text));
	else
		set(row, COLUMN_USER, "%s", user_text(session->uid, text));
	workload_text(row->cells[COLUMN_WORKLOAD], session->unit, session->container, session->pod,
		      session->job);
	set(row, COLUMN_PID, "%d", session->pid);
	set(row, COLUMN_SESSION, "%" PRIu64, session->number);
}

static void set_session(struct row *row, const struct rdmabroker_listed_session *session)
{
	set_owner(row, session);
	set(row, COLUMN_STATE,
	    session->lingers     ? "lingering" :
	    session->restriction ? "restricted" :
				   "session");
	set_age(row, session->age_ms);
	if (session->rule)
		set(row, COLUMN_RULE, "%s", session->rule);
}

static void set_addr(struct row *row, int column, const struct sockaddr_storage *addr)
{
	char text[ADDR_STRLEN];

	if (addr->ss_family)
		set(row, column, "%s", addr_to_string((const struct sockaddr *)addr, text));
}

static void set_id(struct row *row, const struct rdmabroker_listed_id *id)
{
	set_owner(row, id->session);
	set(row, COLUMN_ID, "%u", id->id);
	set(row, COLUMN_STATE, "%s", id->state);
	set_age(row, id->age_ms);
	set_addr(row, COLUMN_LOCAL, &id->local);
	set_addr(row, COLUMN_PEER, &id->peer);
	if (id->device)
		set(row, COLUMN_DEVICE, "%s", id->device);
	if (id->qp_num > 0)
		set(row, COLUMN_QPN, "%u", id->qp_num);
	if (id->tos >= 0)
		set(row, COLUMN_TOS, "%d", id->tos);
	if (id->rule)
		set(row, COLUMN_RULE, "%s", id->rule);
	peer_text(row->cells[COLUMN_PEER_IS], id->peer_identity, id->peer_unknown);
}

static void for_each_row(const struct rdmabroker_list *list, const struct filter *filter,
			 void (*take)(const struct row *row, void *arg), void *arg)
{
	struct row row;
	size_t k = 0;

	for (size_t i = 0; i < list->n_sessions; i++) {
		if (wants_session(filter, list, list->sessions[i])) {
			set_session(&row, list->sessions[i]);
			take(&row, arg);
		}
		for (; k < list->n_ids && list->ids[k]->session == list->sessions[i]; k++)
			if (filter->ids && wants_id(filter, list->ids[k])) {
				set_id(&row, list->ids[k]);
				take(&row, arg);
			}
	}
}

static void widen(const struct row *row, void *arg)
{
	int *widths = arg;

	for (int i = 0; i < N_COLUMNS; i++) {
		int width = (int)strlen(row->cells[i]);

		if (width > widths[i])
			widths[i] = width;
	}
}

struct printer {
	FILE *file;
	int n_columns;
	int widths[N_COLUMNS];
};

static void print_row(const struct row *row, void *arg)
{
	struct printer *printer = arg;

	for (int i = 0; i < printer->n_columns - 1; i++)
		fprintf(printer->file, columns[i].right ? "%*s  " : "%-*s  ", printer->widths[i],
			row->cells[i]);
	fprintf(printer->file, "%s\n", row->cells[printer->n_columns - 1]);
}

static void print_table(FILE *file, const struct rdmabroker_list *list, const struct filter *filter)
{
	struct printer printer = { .file = file, .n_columns = COLUMN_PEER_IS };
	struct row head;

	for (size_t i = 0; i < list->n_ids; i++)
		if (wants_id(filter, list->ids[i]) &&
		    (list->ids[i]->peer_identity || list->ids[i]->peer_unknown))
			printer.n_columns = N_COLUMNS;
	for (int i = 0; i < N_COLUMNS; i++)
		set(&head, i, "%s", columns[i].head);
	widen(&head, printer.widths);
	for_each_row(list, filter, widen, printer.widths);
	print_row(&head, &printer);
	for_each_row(list, filter, print_row, &printer);
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
	(void)signo;
	interrupted = 1;
}

static int print_on_screen(const struct rdmabroker_list *list, const struct filter *filter)
{
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	if (!file) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	print_table(file, list, filter);
	fclose(file);
	print_screen(text);
	free(text);
	return EXIT_SUCCESS;
}

static int print_list(const struct ctl *ctl, struct rdmabroker *session,
		      const struct filter *filter)
{
	struct rdmabroker_list *list;
	int r, status = EXIT_SUCCESS;

	r = rdmabroker_get_list(session, &list);
	if (r < 0)
		return ctl_complain_failure(ctl, r);
	if (ctl->json)
		print_json(list, filter);
	else if (ctl->given[OPTION_WATCH])
		status = print_on_screen(list, filter);
	else
		print_table(stdout, list, filter);
	rdmabroker_free_list(list);
	return status;
}

int verb_list(const struct ctl *ctl, char **arguments)
{
	const struct sigaction action = { .sa_handler = on_interrupt };
	struct rdmabroker *session;
	struct filter filter;
	int status;

	(void)arguments;
	status = filter_read(&filter, ctl);
	if (status == 0)
		status = ctl_open_session(ctl, /* as_admin= */ true, &session);
	if (status != 0)
		return status;
	if (ctl->given[OPTION_WATCH]) {
		/* After a signal the current list is still printed. */
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGTERM, &action, NULL);
	}
	do
		status = print_list(ctl, session, &filter);
	while (ctl->given[OPTION_WATCH] && status == 0 && !interrupted &&
	       (poll(NULL, 0, WATCH_MS), !interrupted));
	rdmabroker_close(session);
	return status;
}
