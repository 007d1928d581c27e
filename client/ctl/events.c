/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "proto/names.h"
#include "read.h"
#include "who.h"

/*
 * The verb events: the notices of the daemon, one line for each, as they come. The daemon selects nothing: what the
 * options do not want is left out here.
 */

/* The kinds of notices that a filter can select: all but "lost". */
static const char *const kinds[] = { "decision", "cm", "session", NULL };

static const char *kind, *operation, *outcome, *user, *session, *peer, *port, *count;

const struct verb_option events_options[] = {
	{ "kind", "KIND", "only notices of this kind", kinds, .given = &kind },
	{ "operation", "OPERATION", "only decisions about this operation", operation_names,
	  .given = &operation },
	{ "outcome", "OUTCOME", "only decisions with this outcome", outcome_names,
	  .given = &outcome },
	{ "user", "NAME|UID", "only notices about this user", .given = &user },
	{ "session", "N", "only notices about this session", .given = &session },
	{ "peer", "ADDR", "only notices with this peer address", .given = &peer },
	{ "port", "N", "only notices with this port, local or at the peer", .given = &port },
	{ "count", "N", "end after this many events", .given = &count },
	{ NULL },
};

static struct {
	struct rdmabroker_filter filter;
	uint32_t uid;
	struct sockaddr_storage peer;
	unsigned long count; /* of the notices that are printed, without "lost" ones; 0: no end */
} wanted;

static void read_wanted(const struct ctl *ctl)
{
	unsigned long number = 0;

	read_word("kind", kind, kinds);
	read_word("operation", operation, operation_names);
	read_word("outcome", outcome, outcome_names);
	read_positive("session", session, &number);
	read_positive("count", count, &wanted.count);
	if (kind && strcmp(kind, "decision") != 0 && (operation || outcome))
		ctl_misused(
			ctl,
			"only notices of kind decision have an operation and an outcome: do not "
			"combine --operation or --outcome with --kind %s",
			kind);
	wanted.filter = (struct rdmabroker_filter){
		.uid = user ? &wanted.uid : NULL,
		.session = number,
		.peer = peer ? (struct sockaddr *)&wanted.peer : NULL,
		.kind = kind,
		.operation = operation,
		.outcome = outcome,
	};
	read_user(user, &wanted.uid);
	read_address(peer, &wanted.peer);
	read_port(port, &wanted.filter.port);
}

/* Prints a string, because many JSON parsers read numbers as floating point, which cannot hold all digits. */
static void json_time(const void *at, struct jsonout *json, const char *key)
{
	uint64_t ns = *(const uint64_t *)at;
	time_t seconds = (time_t)(ns / 1000000000);
	char text[64], stamp[96];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(stamp, sizeof(stamp), "%s.%09uZ", text, (unsigned)(ns % 1000000000));
	jsonout_string(json, key, stamp);
}

static void print_time(const void *at, FILE *file)
{
	uint64_t ns = *(const uint64_t *)at;
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;

	localtime_r(&seconds, &tm);
	fprintf(file, "%02d:%02d:%02d.%06u", tm.tm_hour, tm.tm_min, tm.tm_sec,
		(unsigned)(ns % 1000000000 / 1000));
}

static bool is_kind(const struct rdmabroker_notice *notice, const char *name)
{
	return strcmp(notice->kind, name) == 0;
}

/* The events of a session are "opened" and "closed". */
static void print_what(const void *at, FILE *file)
{
	const struct rdmabroker_notice *notice = at;

	if (is_kind(notice, "decision"))
		fprintf(file, "%s", notice->operation ?: "");
	else
		fprintf(file, "%s%s", is_kind(notice, "session") ? "session " : "",
			notice->event ?: "-");
}

static void print_result(const void *at, FILE *file)
{
	const struct rdmabroker_notice *notice = at;
	const char *name = notice->status < 0 ? strerrorname_np(-notice->status) : NULL;

	if (is_kind(notice, "decision"))
		name = notice->outcome ?: "-";
	if (name)
		fprintf(file, "%s", name);
	else if (notice->status != 0)
		fprintf(file, "%d", notice->status);
}

static enum colour colour_of_result(const void *row)
{
	const char *result = ((const struct rdmabroker_notice *)row)->outcome ?: "";

	return strcmp(result, "allowed") == 0  ? COLOUR_GREEN :
	       strcmp(result, "rejected") == 0 ? COLOUR_RED :
	       *result                         ? COLOUR_YELLOW :
						 COLOUR_NONE;
}

/* The reason of a decision that is not "allowed" includes the text of the rule. Then who the peer is, if that was asked. */
static void print_reason(const void *at, FILE *file)
{
	const struct rdmabroker_notice *notice = at;
	bool refused = notice->outcome && strcmp(notice->outcome, "allowed") != 0;
	const char *text = refused ? notice->rule_text : NULL;

	if (notice->reason)
		fputs(notice->reason, file);
	if (notice->retry_after_ms > 0 && (notice->reason || text))
		fprintf(file, ", retry after %u ms", notice->retry_after_ms);
	if (text)
		fprintf(file, "%s(%s)", notice->reason ? " " : "", text);
	else if (!notice->reason && notice->request_id)
		fprintf(file, "new id %u", notice->request_id);
	if (!notice->who_peer.is_known && !notice->who_peer.why)
		return;
	fprintf(file, "%sthe peer is ", notice->reason || text || notice->request_id ? "; " : "");
	who_print_peer(&notice->who_peer, file);
}

#define OF(member) COLUMN_OF(struct rdmabroker_notice, member)

static const struct column lost_columns[] = {
	{ NULL, "time", OF(time_ns), .json = json_time },
	{ NULL, "kind", OF(kind) },
	{ NULL, "lost", OF(n_lost) },
	{ NULL },
};

/* The columns of the table grow as needed. */
static const struct column columns[] = {
	{ "TIME", "time", .type = COLUMN_TEXT,
	  .offset = offsetof(struct rdmabroker_notice, time_ns), .width = 15, .text = print_time,
	  .json = json_time },
	{ NULL, "kind", OF(kind) },
	{ NULL, "lost", OF(n_lost) },
	{ NULL, "session", OF(session) },
	WHO_COLUMNS(struct rdmabroker_notice, who, 8, 7),
	{ "SESSION", NULL, OF(session), .width = 7 },
	{ "ID", "id", OF(id), COLUMN_NO_ZERO, .width = 10 },
	{ NULL, "request_id", OF(request_id), COLUMN_NO_ZERO },
	{ "WHAT", NULL, .type = COLUMN_TEXT, .width = 16, .text = print_what },
	{ "RESULT", NULL, .type = COLUMN_TEXT, .width = 8, .text = print_result,
	  .colour = colour_of_result },
	{ NULL, "operation", OF(operation) },
	{ NULL, "outcome", OF(outcome) },
	{ NULL, "event", OF(event) },
	{ NULL, "status", OF(status) },
	{ NULL, "ps", .type = COLUMN_PORT_SPACE, .offset = offsetof(struct rdmabroker_notice, ps) },
	{ "LOCAL", "local", OF(local), .width = 15 },
	{ "PEER", "peer", OF(peer), .width = 15 },
	{ "DEVICE", "device", OF(device), .width = 6 },
	{ "QPN", "qpn", OF(qp_num), COLUMN_NO_ZERO, .width = 6 },
	{ "RULE", "rule", OF(rule), .width = 16 },
	{ NULL, "rule_text", OF(rule_text) },
	{ "REASON", NULL, .type = COLUMN_TEXT, .text = print_reason },
	{ NULL, "reason", OF(reason) },
	{ NULL, "retry_after_ms", OF(retry_after_ms) },
	{ NULL, "peer_identity", .type = COLUMN_TEXT,
	  .offset = offsetof(struct rdmabroker_notice, who_peer), .json = who_json_peer },
	{ NULL },
};

/* TABLE NULL: as JSON. */
static void print_notice(const struct rdmabroker_notice *notice, struct table *table)
{
	bool is_lost = is_kind(notice, "lost");

	if (!table) {
		print_json(is_lost ? lost_columns : columns, notice);
		return;
	}
	if (notice->n_lost > 0)
		printf("%slost %" PRIu64 " events%s: they arrived faster than they were read\n",
		       colour(COLOUR_YELLOW), notice->n_lost, colour(COLOUR_NONE));
	if (is_lost)
		return;
	table_add(table, notice);
	table_print(table, stdout);
}

/* False: the program has to end, because a write failed or a signal came. */
static bool flush(void)
{
	bool gone = fflush(stdout) != 0 && errno == EPIPE;

	/* On a terminal each line is written by printf(), so a signal can have ended that write. */
	if (!gone && !ctl_interrupted)
		return !ferror(stdout);
	/* Discard the rest, so that main() does not report an error. */
	__fpurge(stdout);
	clearerr(stdout);
	return false;
}

/* Waits until there can be a notice. False: the program has to end, because the reader is gone or a signal came. */
static bool wait_for_more(struct rdmabroker *broker)
{
	struct pollfd fds[] = {
		{ .fd = rdmabroker_get_fd(broker), .events = POLLIN },
		{ .fd = STDOUT_FILENO }, /* POLLERR: nobody reads from the pipe any more */
	};
	sigset_t stops, before;

	sigemptyset(&stops);
	sigaddset(&stops, SIGINT);
	sigaddset(&stops, SIGTERM);
	/* Block the signals until ppoll(), so that none is missed after the test of ctl_interrupted. */
	sigprocmask(SIG_BLOCK, &stops, &before);
	if (!ctl_interrupted)
		ppoll(fds, 2, NULL, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return !ctl_interrupted && !(fds[1].revents & POLLERR);
}

static void print_events(const struct ctl *ctl, struct table *table)
{
	struct rdmabroker_notice *notice;

	for (unsigned long n = 0; wanted.count == 0 || n < wanted.count;) {
		int r = rdmabroker_get_notice(ctl->session, /* timeout_ms= */ 0, &notice);

		if (r == -EAGAIN) {
			if (!wait_for_more(ctl->session))
				return;
			continue;
		}
		if (r == -ECONNRESET)
			die(EXIT_FAILURE, "the daemon has ended, or has closed this session");
		ctl_check(ctl, r);
		n += !is_kind(notice, "lost");
		print_notice(notice, table);
		rdmabroker_free(notice);
		if (!flush())
			return;
	}
}

int verb_events(struct ctl *ctl)
{
	struct table table;

	read_wanted(ctl);
	ctl_open_session(ctl, /* as_admin= */ true);
	/* It is no failure if the reader of the output ends. */
	signal(SIGPIPE, SIG_IGN);
	ctl_catch_signals();
	ctl_check(ctl, rdmabroker_watch(ctl->session, &wanted.filter));
	table_begin(&table, columns, NULL, NULL);
	/* The headings show that the watch has begun. */
	if (!ctl->json)
		table_print(&table, stdout);
	if (flush())
		print_events(ctl, ctl->json ? NULL : &table);
	table_done(&table);
	return EXIT_SUCCESS;
}
