/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "backoff.h"
#include "etcd.h"
#include "etcdcall.h"
#include "proto/clock.h"

/*
 * A watch. Its connection is made by one request, with a "create_request" for each interval; the answer is a stream of
 * lines of JSON.
 *
 *   IDLE -- pause is over --> CREATING -- all intervals are created --> WATCHING
 *     ^                          |                                         |
 *     +------------ the connection ends, or is not valid -----------------+
 */

#define FDS_MAX 8
/* etcd reports its progress every 10 min. A connection that is silent for longer is given up. */
#define SILENT_MS (15 * 60 * 1000)

enum watch_state {
	WATCH_IDLE, /* no connection; the next one is made at resume_ms */
	WATCH_CREATING, /* the request was sent; etcd has to confirm it before deadline_ms */
	WATCH_WATCHING, /* all intervals are confirmed; etcd has to send something before deadline_ms */
};

struct interval {
	char *key;
	bool is_prefix;
	bool is_created;
	int64_t next; /* the first revision whose events were not returned */
};

struct queued {
	struct queued *prev, *next;
	struct etcd_event event;
};

struct etcd_watch {
	struct etcd *etcd;
	CURLM *multi;
	CURL *curl; /* NULL: IDLE */
	struct curl_slist *headers;
	char curl_error[CURL_ERROR_SIZE];
	enum watch_state state;
	unsigned moves; /* the client's, when the connection was made */
	int64_t resume_ms, deadline_ms;
	struct backoff backoff;
	struct interval intervals[ETCD_INTERVALS_MAX];
	size_t n_intervals;
	int64_t revision; /* no revision of the store before this one is right */
	char *line; /* what came after the last line break */
	size_t len;
	struct queued *first; /* events that were not returned */
	int failure; /* what etcd_watch_next() has to return; 0: nothing. The text is in the client */
};

int etcd_watch_new(struct etcd_watch **ret, struct etcd *etcd,
		   const struct etcd_interval *intervals, size_t n_intervals, int64_t revision)
{
	struct etcd_watch *watch;
	bool good;

	if (n_intervals == 0 || n_intervals > ETCD_INTERVALS_MAX)
		return etcd_fail(etcd, -EINVAL, "cannot watch %zu intervals", n_intervals);
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return etcd_fail(etcd, -ENOMEM, "out of memory");
	watch->etcd = etcd;
	watch->revision = revision - 1;
	watch->multi = curl_multi_init();
	good = watch->multi;
	for (size_t i = 0; good && i < n_intervals; i++) {
		struct interval *interval = &watch->intervals[watch->n_intervals++];

		interval->key = strdup(intervals[i].key);
		interval->is_prefix = intervals[i].is_prefix;
		interval->next = revision;
		good = interval->key;
	}
	if (!good) {
		etcd_watch_free(watch);
		return etcd_fail(etcd, -ENOMEM, "out of memory");
	}
	*ret = watch;
	return 0;
}

/* Ends the connection. What of it was not returned will come again. */
static void disconnect(struct etcd_watch *watch)
{
	if (watch->curl) {
		curl_multi_remove_handle(watch->multi, watch->curl);
		curl_easy_cleanup(watch->curl);
		watch->curl = NULL;
	}
	curl_slist_free_all(watch->headers);
	watch->headers = NULL;
	free(watch->line);
	watch->line = NULL;
	watch->len = 0;
	for (size_t i = 0; i < watch->n_intervals; i++)
		watch->intervals[i].is_created = false;
	watch->state = WATCH_IDLE;
}

struct etcd_watch *etcd_watch_free(struct etcd_watch *watch)
{
	struct queued *queued;

	if (!watch)
		return NULL;
	disconnect(watch);
	curl_multi_cleanup(watch->multi);
	while ((queued = watch->first)) {
		DL_DELETE(watch->first, queued);
		etcd_event_done(&queued->event);
		free(queued);
	}
	for (size_t i = 0; i < watch->n_intervals; i++)
		free(watch->intervals[i].key);
	free(watch);
	return NULL;
}

bool etcd_watch_is_connected(const struct etcd_watch *watch)
{
	return watch->state == WATCH_WATCHING;
}

void etcd_event_done(struct etcd_event *event)
{
	etcd_entry_done(&event->entry);
}

static int add_event(struct etcd_watch *watch, struct interval *interval, const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));
	struct queued *queued = calloc(1, sizeof(*queued));
	int64_t revision;
	int r;

	if (!queued)
		return -ENOMEM;
	r = etcd_get_entry(json_object_get(event, "kv"), &queued->event.entry);
	revision = queued->event.entry.mod_revision;
	queued->event.is_delete = type && strcmp(type, "DELETE") == 0;
	if (r == 0 && !etcd_is_within(queued->event.entry.key, interval->key, interval->is_prefix))
		r = -EPROTO;
	/* Events of one revision come in one message, so this is no repetition. */
	if (r == 0 && revision < interval->next)
		r = -EPROTO;
	if (r < 0) {
		etcd_event_done(&queued->event);
		free(queued);
		return r == -ENOENT ? 0 : r;
	}
	DL_APPEND(watch->first, queued);
	return 0;
}

static int add_events(struct etcd_watch *watch, struct interval *interval, const json_t *events)
{
	size_t n = json_array_size(events);
	int64_t revision = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		const json_t *event = json_array_get(events, i);

		r = add_event(watch, interval, event);
		if (r == 0)
			r = etcd_get_number(json_object_get(event, "kv"), "mod_revision",
					    &revision);
	}
	if (revision >= interval->next)
		interval->next = revision + 1;
	return r;
}

static int take_created(struct etcd_watch *watch, struct interval *interval, int64_t revision)
{
	interval->is_created = true;
	/* The database was lost, or replaced by an older copy. etcd would wait for the revision in silence. */
	if (revision < watch->revision)
		return etcd_fail(watch->etcd, ETCD_COMPACTED,
				 "the revision of etcd has gone back, from %lld to %lld",
				 (long long)watch->revision, (long long)revision);
	for (size_t i = 0; i < watch->n_intervals; i++)
		if (!watch->intervals[i].is_created)
			return 0;
	watch->state = WATCH_WATCHING;
	watch->deadline_ms = now_ms() + SILENT_MS;
	backoff_reset(&watch->backoff);
	return 0;
}

static int take_cancelled(struct etcd_watch *watch, const json_t *result)
{
	const char *reason = json_string_value(json_object_get(result, "cancel_reason"));
	int64_t compacted;

	if (etcd_get_number(result, "compact_revision", &compacted) == 0 && compacted > 0)
		return etcd_fail(watch->etcd, ETCD_COMPACTED, "revisions before %lld are gone",
				 (long long)compacted);
	return etcd_fail_refused(watch->etcd, reason && *reason ? reason : "etcd ends the watch");
}

static int take_result(struct etcd_watch *watch, const json_t *result)
{
	const json_t *events = json_object_get(result, "events");
	struct interval *interval;
	int64_t id, revision;

	if (json_is_true(json_object_get(result, "canceled")))
		return take_cancelled(watch, result);
	if (etcd_get_number(result, "watch_id", &id) < 0 || id < 1 ||
	    (size_t)id > watch->n_intervals ||
	    etcd_get_number(json_object_get(result, "header"), "revision", &revision) < 0)
		return -EPROTO;
	interval = &watch->intervals[id - 1];
	if (json_is_true(json_object_get(result, "created")))
		return take_created(watch, interval, revision);
	if (watch->state == WATCH_WATCHING)
		watch->deadline_ms = now_ms() + SILENT_MS;
	if (json_array_size(events) > 0)
		return add_events(watch, interval, events);
	/* Only progress: everything up to this revision has come. */
	if (revision >= interval->next)
		interval->next = revision + 1;
	return 0;
}

static int take_line(struct etcd_watch *watch, const char *text, size_t len)
{
	json_t *message, *error, *result;
	int r = -EPROTO;

	if (len == 0)
		return 0;
	message = json_loadb(text, len, 0, NULL);
	error = json_object_get(message, "error");
	result = json_object_get(message, "result");
	if (error) {
		const char *reason = json_string_value(json_object_get(error, "message")) ?:
					     json_string_value(error);

		r = etcd_fail_refused(watch->etcd, reason ?: "etcd ends the watch");
	} else if (json_is_object(result)) {
		r = take_result(watch, result);
	}
	json_decref(message);
	if (r == -EPROTO)
		etcd_fail(watch->etcd, r, "a message of the watch is not valid");
	return r;
}

static size_t take_data(char *data, size_t size, size_t n, void *userdata)
{
	struct etcd_watch *watch = userdata;
	char *line, *end;
	size_t at = 0;

	n *= size;
	if (n > watch->etcd->answer_max - watch->len) {
		watch->failure = etcd_fail(watch->etcd, -EMSGSIZE,
					   "a message of the watch has more than %zu bytes",
					   watch->etcd->answer_max);
		return 0;
	}
	line = realloc(watch->line, watch->len + n);
	if (!line && n > 0) {
		watch->failure = etcd_fail(watch->etcd, -ENOMEM, "out of memory");
		return 0;
	}
	memcpy(line + watch->len, data, n);
	watch->line = line;
	watch->len += n;
	while (watch->failure == 0 && (end = memchr(line + at, '\n', watch->len - at))) {
		watch->failure = take_line(watch, line + at, (size_t)(end - line) - at);
		at = (size_t)(end - line) + 1;
	}
	memmove(line, line + at, watch->len - at);
	watch->len -= at;
	return watch->failure == 0 ? n : 0;
}

/* The body of the request: one message for each interval. */
static char *new_request(const struct etcd_watch *watch)
{
	char *text = NULL;
	size_t size;
	bool good = true;
	FILE *f = open_memstream(&text, &size);

	for (size_t i = 0; f && good && i < watch->n_intervals; i++) {
		const struct interval *interval = &watch->intervals[i];
		json_t *create = json_pack("{s:I, s:I, s:b}", "start_revision",
					   (json_int_t)interval->next, "watch_id",
					   (json_int_t)(i + 1), "progress_notify", 1);
		json_t *request =
			json_pack("{s:o}", "create_request",
				  etcd_with_key(create, interval->key, interval->is_prefix));

		good = request && json_dumpf(request, f, JSON_COMPACT) == 0 && putc('\n', f) != EOF;
		json_decref(request);
	}
	if (!f || fclose(f) != 0 || !good) {
		free(text);
		return NULL;
	}
	return text;
}

static int connect_now(struct etcd_watch *watch)
{
	struct etcd *etcd = watch->etcd;
	struct etcd_budget budget = etcd_begin_budget(etcd);
	char *text;
	int r = etcd_authenticate(etcd, &budget);

	if (r != 0)
		return r;
	text = new_request(watch);
	watch->curl = curl_easy_init();
	r = text && watch->curl ?
		    etcd_prepare(etcd, watch->curl, "/v3/watch", text, &watch->headers) :
		    etcd_fail(etcd, -ENOMEM, "out of memory");
	free(text);
	if (r < 0) {
		curl_easy_cleanup(watch->curl);
		watch->curl = NULL;
		return r;
	}
	*watch->curl_error = 0;
	curl_easy_setopt(watch->curl, CURLOPT_ERRORBUFFER, watch->curl_error);
	curl_easy_setopt(watch->curl, CURLOPT_WRITEFUNCTION, take_data);
	curl_easy_setopt(watch->curl, CURLOPT_WRITEDATA, watch);
	curl_easy_setopt(watch->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)etcd->call_ms);
	curl_multi_add_handle(watch->multi, watch->curl);
	watch->state = WATCH_CREATING;
	watch->moves = etcd->moves;
	watch->deadline_ms = now_ms() + etcd->call_ms;
	return 0;
}

/* The connection has ended by R. Returns what etcd_watch_next() returns. */
static int give_up(struct etcd_watch *watch, int r)
{
	struct etcd *etcd = watch->etcd;

	watch->failure = 0;
	disconnect(watch);
	if (r == ETCD_COMPACTED)
		return r;
	if (r == -EKEYEXPIRED) {
		etcd_forget_token(etcd);
		r = -EACCES;
	}
	/* A call that was made meanwhile may have another one already; either is right. */
	if (r != -EACCES && r != -ENOMEM)
		etcd_use_next_endpoint(etcd);
	watch->resume_ms = now_ms() + backoff_fail(&watch->backoff);
	return r == -EHOSTDOWN || r == -ECONNRESET ? -ECONNREFUSED : r > 0 ? -EREMOTEIO : r;
}

/* Whether the transfer has ended. */
static int check_end(struct etcd_watch *watch)
{
	CURLMsg *message;
	long status = 0;
	int left;

	while ((message = curl_multi_info_read(watch->multi, &left))) {
		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(watch->curl, CURLINFO_RESPONSE_CODE, &status);
		/* What is refused before the watch begins has no line break. */
		if (watch->failure == 0 && watch->len > 0 && status != 200)
			watch->failure = take_line(watch, watch->line, watch->len);
		if (watch->failure != 0)
			return watch->failure;
		if (message->data.result != CURLE_OK)
			return etcd_fail_transfer(watch->etcd, message->data.result,
						  watch->curl_error);
		return etcd_fail(watch->etcd, -ECONNRESET, "etcd has ended the watch");
	}
	return 0;
}

static bool take_event(struct etcd_watch *watch, struct etcd_event *ret)
{
	struct queued *queued = watch->first;

	if (!queued)
		return false;
	DL_DELETE(watch->first, queued);
	*ret = queued->event;
	free(queued);
	return true;
}

/* Waits for the connection and for FDS. Returns whether one of FDS is ready. */
static bool wait_until(struct etcd_watch *watch, int64_t until, struct pollfd *fds, size_t n_fds)
{
	int64_t now = now_ms(), ms = until > now ? until - now : 0;
	struct curl_waitfd waits[FDS_MAX];
	bool is_ready = false;
	int n;

	for (size_t i = 0; i < n_fds; i++)
		waits[i] = (struct curl_waitfd){
			.fd = fds[i].fd,
			.events = fds[i].events & POLLOUT ? CURL_WAIT_POLLOUT : CURL_WAIT_POLLIN,
		};
	/* An interrupted wait ends early, and is repeated by the caller. */
	curl_multi_poll(watch->multi, waits, (unsigned)n_fds, ms > 60000 ? 60000 : (int)ms, &n);
	for (size_t i = 0; i < n_fds; i++) {
		fds[i].revents = (waits[i].revents & CURL_WAIT_POLLIN ? POLLIN : 0) |
				 (waits[i].revents & CURL_WAIT_POLLOUT ? POLLOUT : 0);
		is_ready = is_ready || fds[i].revents;
	}
	return is_ready;
}

/*
 * A call has found that the endpoint does not answer, or is on the smaller side of a partition. The watch would notice much
 * later, so it goes to the endpoint that the calls use now.
 */
static void follow_calls(struct etcd_watch *watch)
{
	if (watch->state == WATCH_IDLE || watch->first || watch->failure != 0 ||
	    watch->moves == watch->etcd->moves)
		return;
	disconnect(watch);
	watch->resume_ms = now_ms();
}

int etcd_watch_next(struct etcd_watch *watch, int timeout_ms, struct pollfd *fds, size_t n_fds,
		    struct etcd_event *ret)
{
	int64_t end = now_ms() + timeout_ms, until;
	bool is_ready = false;
	int r, running;

	if (n_fds > FDS_MAX)
		return etcd_fail(watch->etcd, -EINVAL, "cannot wait for %zu descriptors", n_fds);
	for (;;) {
		r = 0;
		follow_calls(watch);
		if (watch->state == WATCH_IDLE && now_ms() >= watch->resume_ms)
			r = connect_now(watch);
		/* While events wait to be returned, no more are read: what waits is limited by one reading. */
		if (r == 0 && watch->state != WATCH_IDLE && !watch->first) {
			curl_multi_perform(watch->multi, &running);
			r = check_end(watch);
		}
		/* Events that came before the connection ended are valid. */
		if (take_event(watch, ret)) {
			if (r != 0)
				watch->failure = r;
			return ETCD_EVENT;
		}
		if (r == 0)
			r = watch->failure;
		if (r == 0 && watch->state == WATCH_CREATING && now_ms() >= watch->deadline_ms)
			r = etcd_fail(watch->etcd, -ETIMEDOUT,
				      "the watch was not confirmed within %u ms",
				      watch->etcd->call_ms);
		if (r == 0 && watch->state == WATCH_WATCHING && now_ms() >= watch->deadline_ms)
			r = etcd_fail(watch->etcd, -ETIMEDOUT, "the watch is silent");
		if (r != 0)
			return give_up(watch, r);
		if (is_ready || now_ms() >= end)
			return 0;
		until = watch->state == WATCH_IDLE ? watch->resume_ms : watch->deadline_ms;
		is_ready = wait_until(watch, until < end ? until : end, fds, n_fds);
	}
}
