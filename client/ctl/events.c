/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "output.h"
#include "proto/addr.h"
#include "proto/jsonout.h"
#include "proto/names.h"
#include "proto/portspace.h"
#include "read.h"

enum {
	OPTION_KIND,
	OPTION_OPERATION,
	OPTION_OUTCOME,
	OPTION_USER,
	OPTION_SESSION,
	OPTION_PEER,
	OPTION_PORT,
	OPTION_COUNT,
};

/* The kinds of notices that a filter can select: all but "lost". */
static const char *const kinds[] = { "decision", "cm", "session", NULL };

const struct verb_option events_options[] = {
	[OPTION_KIND] = { "kind", "KIND", "only notices of this kind", kinds },
	[OPTION_OPERATION] = { "operation", "OPERATION", "only decisions about this operation",
			       operation_names },
	[OPTION_OUTCOME] = { "outcome", "OUTCOME", "only decisions with this outcome",
			     outcome_names },
	[OPTION_USER] = { "user", "NAME|UID", "only notices about this user" },
	[OPTION_SESSION] = { "session", "N", "only notices about this session" },
	[OPTION_PEER] = { "peer", "ADDR", "only notices with this peer address" },
	[OPTION_PORT] = { "port", "N", "only notices with this port, local or at the peer" },
	[OPTION_COUNT] = { "count", "N", "end after this many events" },
	{ NULL },
};

struct wanted {
	struct rdmabroker_filter filter;
	uint32_t uid;
	struct sockaddr_storage peer;
	unsigned long count; /* end after this many notices, without "lost" ones; 0: no end */
};

/* Sets *RET to the number of the option's argument in rdmabroker-admin.h; 0: the option is not given. */
static bool read_name(const struct ctl *ctl, int option, const char *const *names, int *ret)
{
	const char *name = ctl->given[option];

	*ret = name ? read_word(events_options[option].name, name, names) + 1 : 0;
	return !name || *ret > 0;
}

static int read_wanted(struct wanted *ret, const struct ctl *ctl)
{
	const char *const *given = ctl->given;
	unsigned long session = 0;
	int kind, operation, outcome, r = 0;

	*ret = (struct wanted){ .filter = RDMABROKER_FILTER_INIT };
	if (!read_name(ctl, OPTION_KIND, kinds, &kind) ||
	    !read_name(ctl, OPTION_OPERATION, operation_names, &operation) ||
	    !read_name(ctl, OPTION_OUTCOME, outcome_names, &outcome) ||
	    read_positive("session", given[OPTION_SESSION], &session) != 0 ||
	    read_positive("count", given[OPTION_COUNT], &ret->count) != 0)
		return EXIT_USAGE;
	if (kind > 0 && kind != RDMABROKER_NOTICE_DECISION && (operation > 0 || outcome > 0)) {
		complain("only notices of kind decision have an operation and an outcome: do not "
			 "combine --operation or --outcome with --kind %s",
			 given[OPTION_KIND]);
		return ctl_see_help(ctl->verb);
	}
	ret->filter.kind = (enum rdmabroker_notice_kind)kind;
	ret->filter.operation = (enum rdmabroker_operation)operation;
	ret->filter.outcome = (enum rdmabroker_outcome)outcome;
	ret->filter.session = session;
	if (given[OPTION_USER]) {
		r = read_user(given[OPTION_USER], &ret->uid);
		ret->filter.uid = &ret->uid;
	}
	if (r == 0 && given[OPTION_PEER]) {
		r = read_address(given[OPTION_PEER], &ret->peer);
		ret->filter.peer = (struct sockaddr *)&ret->peer;
	}
	if (r == 0 && given[OPTION_PORT])
		r = read_port(given[OPTION_PORT], &ret->filter.port);
	return r;
}

static void json_number_or_null(struct jsonout *json, const char *key, uint32_t n)
{
	if (n > 0)
		jsonout_number(json, key, n);
	else
		jsonout_null(json, key);
}

/* Prints a string, because many JSON parsers read numbers as floating point, which cannot hold all digits. */
static void json_time(struct jsonout *json, uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	char text[64], stamp[96];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(stamp, sizeof(stamp), "%s.%09uZ", text, (unsigned)(ns % 1000000000));
	jsonout_string(json, "time", stamp);
}

static bool is_lost(const struct rdmabroker_notice *notice)
{
	return notice->kind == RDMABROKER_NOTICE_LOST;
}

static void json_facts(struct jsonout *json, const struct rdmabroker_notice *notice)
{
	jsonout_number(json, "session", notice->session);
	jsonout_number(json, "uid", notice->uid);
	jsonout_string(json, "user", user_name(notice->uid));
	jsonout_number(json, "pid", (unsigned)notice->pid);
	jsonout_string(json, "unit", notice->unit);
	jsonout_string(json, "container", notice->container);
	jsonout_string(json, "pod", notice->pod);
	jsonout_string(json, "job", notice->job);
	jsonout_string(json, "cgroup", notice->cgroup);
	json_number_or_null(json, "id", notice->id);
	json_number_or_null(json, "request_id", notice->request_id);
	jsonout_string(json, "operation", notice->operation_name);
	jsonout_string(json, "outcome", notice->outcome_name);
	jsonout_string(json, "event", notice->event_name);
	jsonout_signed(json, "status", notice->status);
	jsonout_string(json, "ps", portspace_name((int)notice->ps));
	json_addr(json, "local", &notice->local);
	json_addr(json, "peer", &notice->peer);
	jsonout_string(json, "device", notice->device);
	json_number_or_null(json, "qpn", notice->qp_num);
	jsonout_string(json, "rule", notice->rule);
	jsonout_string(json, "rule_text", notice->rule_text);
	jsonout_string(json, "reason", notice->reason);
	jsonout_number(json, "retry_after_ms", notice->retry_after_ms);
	json_peer(json, notice->peer_identity, notice->peer_unknown);
}

static void print_json(const struct rdmabroker_notice *notice)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	json_time(&json, notice->time_ns);
	jsonout_string(&json, "kind", notice->kind_name);
	jsonout_number(&json, "lost", notice->n_lost);
	if (!is_lost(notice))
		json_facts(&json, notice);
	jsonout_close(&json, '}');
	putchar('\n');
}

/* The table: columns grow as needed, and never shrink. */

enum {
	COLUMN_TIME,
	COLUMN_USER,
	COLUMN_WORKLOAD,
	COLUMN_PID,
	COLUMN_SESSION,
	COLUMN_ID,
	COLUMN_WHAT,
	COLUMN_RESULT,
	COLUMN_LOCAL,
	COLUMN_PEER,
	COLUMN_DEVICE,
	COLUMN_QPN,
	COLUMN_RULE,
	COLUMN_REASON,
	N_COLUMNS,
};

static struct {
	const char *head;
	int width; /* negative: aligned to the right */
} columns[N_COLUMNS] = {
	[COLUMN_TIME] = { "TIME", 15 },        [COLUMN_USER] = { "USER", 8 },
	[COLUMN_WORKLOAD] = { "WORKLOAD", 8 }, [COLUMN_PID] = { "PID", -7 },
	[COLUMN_SESSION] = { "SESSION", -7 },  [COLUMN_ID] = { "ID", -10 },
	[COLUMN_WHAT] = { "WHAT", 16 },        [COLUMN_RESULT] = { "RESULT", 8 },
	[COLUMN_LOCAL] = { "LOCAL", 15 },      [COLUMN_PEER] = { "PEER", 15 },
	[COLUMN_DEVICE] = { "DEVICE", 6 },     [COLUMN_QPN] = { "QPN", -6 },
	[COLUMN_RULE] = { "RULE", 16 },        [COLUMN_REASON] = { "REASON", 0 },
};

struct row {
	char cells[N_COLUMNS][2048];
};

__attribute__((format(printf, 3, 4))) static void set(struct row *row, int column, const char *fmt,
						      ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(row->cells[column], sizeof(row->cells[column]), fmt, ap);
	va_end(ap);
}

static void print_row(const struct row *row, enum colour of_result)
{
	for (int i = 0; i < N_COLUMNS - 1; i++) {
		bool right = columns[i].width < 0;
		int width = abs(columns[i].width), len = (int)strlen(row->cells[i]);

		if (len > width) {
			columns[i].width = right ? -len : len;
			width = len;
		}
		printf("%*s%s%s%s%*s  ", right ? width - len : 0, "",
		       i == COLUMN_RESULT && of_result ? colour(of_result) : "", row->cells[i],
		       i == COLUMN_RESULT && of_result ? colour(COLOUR_NONE) : "",
		       right ? 0 : width - len, "");
	}
	printf("%s\n", row->cells[COLUMN_REASON]);
}

static void print_head(void)
{
	struct row row;

	for (int i = 0; i < N_COLUMNS; i++)
		set(&row, i, "%s", columns[i].head);
	print_row(&row, COLOUR_NONE);
}

static void set_time(struct row *row, uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	char text[32];
	struct tm tm;

	localtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	set(row, COLUMN_TIME, "%s.%06u", text, (unsigned)(ns % 1000000000 / 1000));
}

static void set_owner(struct row *row, const struct rdmabroker_notice *notice)
{
	const char *name = user_name(notice->uid);

	if (name)
		set(row, COLUMN_USER, "%s", name);
	else
		set(row, COLUMN_USER, "%u", notice->uid);
	workload_text(row->cells[COLUMN_WORKLOAD], notice->unit, notice->container, notice->pod,
		      notice->job);
	set(row, COLUMN_PID, "%d", notice->pid);
	set(row, COLUMN_SESSION, "%" PRIu64, notice->session);
	if (notice->id)
		set(row, COLUMN_ID, "%u", notice->id);
}

static void set_addr(struct row *row, int column, const struct sockaddr_storage *addr)
{
	char text[ADDR_STRLEN];

	if (addr->ss_family)
		set(row, column, "%s", addr_to_string((const struct sockaddr *)addr, text));
}

static void set_status(struct row *row, int status)
{
	const char *name = status < 0 ? strerrorname_np(-status) : NULL;

	if (name)
		set(row, COLUMN_RESULT, "%s", name);
	else if (status != 0)
		set(row, COLUMN_RESULT, "%d", status);
}

/* The reason of a decision that is not "allowed" includes the text of the rule. */
static void set_reason(struct row *row, const struct rdmabroker_notice *notice)
{
	bool refused = notice->outcome_name && notice->outcome != RDMABROKER_OUTCOME_ALLOWED;
	const char *text = refused ? notice->rule_text : NULL;
	char again[48] = "";

	if (notice->retry_after_ms > 0)
		snprintf(again, sizeof(again), ", retry after %u ms", notice->retry_after_ms);
	if (notice->reason || text)
		set(row, COLUMN_REASON, "%s%s%s%s%s%s", notice->reason ? notice->reason : "", again,
		    notice->reason && text ? " " : "", text ? "(" : "", text ? text : "",
		    text ? ")" : "");
	else if (notice->request_id)
		set(row, COLUMN_REASON, "new id %u", notice->request_id);
}

/* Adds who the peer is, if that was asked. */
static void add_peer(struct row *row, const struct rdmabroker_notice *notice)
{
	char *cell = row->cells[COLUMN_REASON], text[PEER_TEXT_MAX];
	size_t len = strcmp(cell, "-") == 0 ? 0 : strlen(cell);

	if (!notice->peer_identity && !notice->peer_unknown)
		return;
	peer_text(text, notice->peer_identity, notice->peer_unknown);
	snprintf(cell + len, sizeof(row->cells[0]) - len, "%sthe peer is %s", len > 0 ? "; " : "",
		 text);
}

static enum colour colour_of(const struct rdmabroker_notice *notice)
{
	switch (notice->outcome) {
	case RDMABROKER_OUTCOME_ALLOWED:
		return COLOUR_GREEN;
	case RDMABROKER_OUTCOME_REJECTED:
		return COLOUR_RED;
	case RDMABROKER_OUTCOME_BUSY:
		return COLOUR_YELLOW;
	default:
		return COLOUR_NONE;
	}
}

static void print_line(const struct rdmabroker_notice *notice)
{
	struct row row;

	if (notice->n_lost > 0)
		printf("%slost %" PRIu64 " events%s: they arrived faster than they were read\n",
		       colour(COLOUR_YELLOW), notice->n_lost, colour(COLOUR_NONE));
	if (is_lost(notice))
		return;
	for (int i = 0; i < N_COLUMNS; i++)
		set(&row, i, "-");
	set_time(&row, notice->time_ns);
	set_owner(&row, notice);
	if (notice->kind == RDMABROKER_NOTICE_DECISION) {
		set(&row, COLUMN_WHAT, "%s", notice->operation_name ?: "-");
		set(&row, COLUMN_RESULT, "%s", notice->outcome_name ?: "-");
	} else {
		/* The events of a session are "opened" and "closed". */
		set(&row, COLUMN_WHAT, "%s%s",
		    notice->kind == RDMABROKER_NOTICE_SESSION ? "session " : "",
		    notice->event_name ?: "-");
		set_status(&row, notice->status);
	}
	set_addr(&row, COLUMN_LOCAL, &notice->local);
	set_addr(&row, COLUMN_PEER, &notice->peer);
	if (notice->device)
		set(&row, COLUMN_DEVICE, "%s", notice->device);
	if (notice->qp_num > 0)
		set(&row, COLUMN_QPN, "%u", notice->qp_num);
	if (notice->rule)
		set(&row, COLUMN_RULE, "%s", notice->rule);
	set_reason(&row, notice);
	add_peer(&row, notice);
	print_row(&row, colour_of(notice));
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
	(void)signo;
	interrupted = 1;
}

/*
 * No SA_RESTART, because a signal has to end a write to a full pipe. SIGPIPE is ignored, because it is no failure if
 * the reader of the output ends.
 */
static void catch_signals(void)
{
	const struct sigaction stop = { .sa_handler = on_interrupt };
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
}

/* False: the program has to end, because a write failed or a signal came. */
static bool flush(void)
{
	bool gone = fflush(stdout) != 0 && errno == EPIPE;

	/* On a terminal each line is written by printf(), so a signal can have ended that write. */
	if (!gone && !interrupted)
		return !ferror(stdout);
	/* Discard the rest, so that main() does not report an error. */
	__fpurge(stdout);
	clearerr(stdout);
	return false;
}

/* Waits until there can be a notice. False: the program has to end, because the reader is gone or a signal came. */
static bool wait_for_more(struct rdmabroker *session)
{
	struct pollfd fds[] = {
		{ .fd = rdmabroker_get_fd(session), .events = POLLIN },
		{ .fd = STDOUT_FILENO }, /* POLLERR: nobody reads from the pipe any more */
	};
	sigset_t stops, before;

	sigemptyset(&stops);
	sigaddset(&stops, SIGINT);
	sigaddset(&stops, SIGTERM);
	/* Block the signals until ppoll(), so that none is missed after the test of INTERRUPTED. */
	sigprocmask(SIG_BLOCK, &stops, &before);
	if (!interrupted)
		ppoll(fds, 2, NULL, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return !interrupted && !(fds[1].revents & POLLERR);
}

static int print_events(const struct ctl *ctl, struct rdmabroker *session, unsigned long count)
{
	for (unsigned long n = 0; count == 0 || n < count;) {
		struct rdmabroker_notice *notice;
		int r = rdmabroker_get_notice(session, /* timeout_ms= */ 0, &notice);

		if (r == -EAGAIN) {
			if (!wait_for_more(session))
				break;
			continue;
		}
		if (r == -ECONNRESET)
			complain("the daemon has ended, or has closed this session");
		if (r < 0)
			return r == -ECONNRESET ? EXIT_FAILURE : ctl_complain_failure(ctl, r);
		n += !is_lost(notice);
		if (ctl->json)
			print_json(notice);
		else
			print_line(notice);
		rdmabroker_free_notice(notice);
		if (!flush())
			break;
	}
	return EXIT_SUCCESS;
}

int verb_events(const struct ctl *ctl, char **arguments)
{
	struct rdmabroker *session;
	struct wanted wanted;
	int r, status;

	(void)arguments;
	status = read_wanted(&wanted, ctl);
	if (status == 0)
		status = ctl_open_session(ctl, /* as_admin= */ true, &session);
	if (status != 0)
		return status;
	catch_signals();
	r = rdmabroker_watch(session, &wanted.filter);
	if (r < 0) {
		status = ctl_complain_failure(ctl, r);
	} else {
		/* The header shows that the watch has begun. */
		if (!ctl->json)
			print_head();
		if (flush())
			status = print_events(ctl, session, wanted.count);
	}
	rdmabroker_close(session);
	return status;
}
