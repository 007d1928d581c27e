/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "common/log.h"
#include "exposition.h"
#include "fetch.h"
#include "http.h"
#include "proto/addr.h"
#include "proto/notifier.h"
#include "proto/text.h"

#define MAX_CONNECTIONS 16
#define MAX_PER_HOST 4 /* of one address; no limit for loopback addresses and Unix sockets */
/* For so long a connection is not displaced: one that has sent no request, and one that has. */
#define SILENT_USEC (250 * 1000ULL)
#define SERVED_USEC (2 * 1000000ULL)
#define CROWDED_USEC (50 * 1000ULL) /* between two looks for one that can be displaced */
#define CONNECTION_USEC (10 * 1000000ULL) /* from the start of a connection to its deadline */
#define CONNECTION_MEMORY 16384 /* in bytes, for the request's headers */
#define PAUSE_USEC (1 * 1000000ULL) /* after accept() has failed */
#define FETCH_USEC \
	(5 * 1000000ULL) /* after this the broker counts as absent; Prometheus waits for 10 s */
#define FRESH_USEC (1 * 1000000ULL) /* how long an answer is used for later requests */
#define OLD_TEXTS_MAX (64 << 20) /* in bytes; responses that slow clients are still reading */
#define LOG_USEC (60 * 1000000ULL) /* warn_limited() prints one warning in this time */

/* The result of the last fetch, and the responses made from it so far, by format. */
struct answer {
	char *text; /* the broker's metrics; NULL: the broker did not answer */
	uint64_t n_fetches;
	uint64_t usec; /* when the answer came; 0: there is none */
	struct MHD_Response *responses[_EXPOSITION_MAX];
};

struct body {
	struct http *http;
	char *text;
	size_t len;
};

struct connection {
	struct http *http;
	struct connection *prev, *next; /* in http.connections */
	struct MHD_Connection *mhd;
	sd_event_source *deadline;
	uint64_t begin_usec;
	bool has_request; /* the headers of a request have come */
	bool is_displaced; /* it was shut down for others */
	bool is_waiting; /* suspended: it waits for the broker */
	bool has_waited;
};

struct http {
	sd_event *loop;
	struct notifier *notifier;
	struct MHD_Daemon *mhd;
	sd_event_source *listeners[SOCKETS_MAX];
	unsigned n_listeners;
	sd_event_source *resume; /* a timer that ends a pause of accepting */
	sd_event_source *crowded; /* a timer that runs while all places are taken */
	sd_event_source *io; /* libmicrohttpd's epoll descriptor */
	sd_event_source *timer; /* libmicrohttpd's next timeout */
	struct connection *connections;
	unsigned n_connections;
	bool is_paused;
	uint64_t logged_usec; /* time of the last warning of warn_limited() */

	struct fetch *fetch;
	sd_event_source *late; /* a timer that ends the wait for the broker */
	struct answer answer;
	uint64_t n_fetches;
	size_t n_bytes; /* size of the texts of all responses */
	bool was_asked; /* the first fetch has ended: REASON is valid */
	char reason[512]; /* why the last fetch failed; empty: the broker answered */
};

static uint64_t now_usec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void warn_limited(struct http *http, const char *what, int error)
{
	uint64_t now = now_usec();

	if (http->logged_usec && now - http->logged_usec < LOG_USEC)
		return;
	http->logged_usec = now;
	log_line(LOG_WARNING, "%s: %s.", what, strerror(error));
}

static void drop_answer(struct http *http)
{
	struct answer *answer = &http->answer;

	free(answer->text);
	for (size_t i = 0; i < _EXPOSITION_MAX; i++)
		if (answer->responses[i])
			MHD_destroy_response(answer->responses[i]);
	*answer = (struct answer){};
}

static void free_body(void *userdata)
{
	struct body *body = userdata;

	body->http->n_bytes -= body->len;
	free(body->text);
	free(body);
}

static bool add_headers(struct MHD_Response *response, const char *type)
{
	return MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
	       MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES;
}

/* NULL: out of memory. */
static struct MHD_Response *new_response(struct http *http, enum exposition_format format)
{
	struct body *body = calloc(1, sizeof(*body));
	struct MHD_Response *response = NULL;

	if (!body)
		return NULL;
	body->http = http;
	body->text = exposition_new(format, http->answer.text, http->answer.n_fetches);
	if (body->text) {
		body->len = strlen(body->text);
		response = MHD_create_response_from_buffer_with_free_callback_cls(
			body->len, body->text, free_body, body);
	}
	if (!response) {
		free(body->text);
		free(body);
		return NULL;
	}
	http->n_bytes += body->len;
	if (add_headers(response, exposition_content_type(format)) &&
	    MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Accept") == MHD_YES)
		return response;
	MHD_destroy_response(response);
	return NULL;
}

static bool is_fresh(const struct answer *answer)
{
	return answer->usec && now_usec() - answer->usec < FRESH_USEC;
}

static enum MHD_Result respond_text(struct MHD_Connection *connection, unsigned status,
				    const char *type, const char *text)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result r = response && add_headers(response, type) ? MHD_YES : MHD_NO;

	if (r == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		r = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (r == MHD_YES)
		r = MHD_queue_response(connection, status, response);
	if (response)
		MHD_destroy_response(response);
	return r;
}

static enum MHD_Result respond_plain(struct MHD_Connection *connection, unsigned status,
				     const char *text)
{
	return respond_text(connection, status, "text/plain; charset=utf-8", text);
}

static enum MHD_Result respond_metrics(struct http *http, struct MHD_Connection *connection)
{
	const char *accept =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	enum exposition_format format = exposition_choose(accept);
	struct MHD_Response **response = &http->answer.responses[format];

	if (!*response)
		*response = new_response(http, format);
	if (!*response)
		return respond_plain(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "Out of memory.\n");
	return MHD_queue_response(connection, MHD_HTTP_OK, *response);
}

static void start_timer(sd_event_source *timer, uint64_t usec)
{
	sd_event_source_set_time_relative(timer, usec);
	sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

static void await_broker(struct http *http, struct connection *connection)
{
	int enabled = SD_EVENT_OFF;

	sd_event_source_get_enabled(http->late, &enabled);
	if (enabled == SD_EVENT_OFF) {
		if (fetch_start(http->fetch))
			http->n_fetches++;
		start_timer(http->late, FETCH_USEC);
	}
	connection->is_waiting = true;
	MHD_suspend_connection(connection->mhd);
}

static enum MHD_Result on_metrics(struct http *http, struct connection *connection)
{
	if (is_fresh(&http->answer) || connection->has_waited)
		return respond_metrics(http, connection->mhd);
	drop_answer(http);
	if (http->n_bytes > OLD_TEXTS_MAX)
		return respond_plain(
			connection->mhd, MHD_HTTP_SERVICE_UNAVAILABLE,
			"Responses to slow clients use too much memory. Try again later.\n");
	await_broker(http, connection);
	return MHD_YES;
}

/* MHD_NO closes the connection. */
static enum MHD_Result on_request(void *userdata, struct MHD_Connection *mhd, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **state)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	bool is_metrics = strcmp(url, "/metrics") == 0;

	if (!info || !info->socket_context)
		return MHD_NO;
	((struct connection *)info->socket_context)->has_request = true;
	/* Ignore the body of a request. */
	if (*upload_size > 0) {
		*upload_size = 0;
		return MHD_YES;
	}
	if (!is_metrics && strcmp(url, "/") != 0)
		return respond_plain(mhd, MHD_HTTP_NOT_FOUND,
				     "Not found. The metrics are at /metrics.\n");
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return respond_plain(mhd, MHD_HTTP_METHOD_NOT_ALLOWED,
				     "Method not allowed. Use GET or HEAD.\n");
	if (is_metrics)
		return on_metrics(userdata, info->socket_context);
	return respond_text(
		mhd, MHD_HTTP_OK, "text/html; charset=utf-8",
		"<!DOCTYPE html>\n<html lang=\"en\"><head><title>rdmabroker-exporter</title></head>\n"
		"<body><h1>rdmabroker-exporter</h1>\n"
		"<p>The metrics of rdmabrokerd are at <a href=\"/metrics\">/metrics</a>.</p>\n"
		"</body></html>\n");
}

static void update_accepting(struct http *http)
{
	bool accepting = !http->is_paused && http->n_connections < MAX_CONNECTIONS;

	for (unsigned i = 0; i < http->n_listeners; i++)
		sd_event_source_set_enabled(http->listeners[i],
					    accepting ? SD_EVENT_ON : SD_EVENT_OFF);
}

/* libmicrohttpd sees this as if the client had closed the connection. */
static void shut_down(struct MHD_Connection *mhd)
{
	shutdown(MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
		 SHUT_RDWR);
}

/* libmicrohttpd has no deadline, only a timeout that starts again with every byte. */
static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	shut_down(((struct connection *)userdata)->mhd);
	return 0;
}

/*
 * Who has to go first: the oldest connection that has not sent a whole request in its first moments, or else the oldest one
 * that has had its time to take the answer. NULL: nobody yet.
 */
static struct connection *find_displaced(const struct http *http)
{
	struct connection *silent = NULL, *served = NULL;
	uint64_t now = now_usec();

	/* The newest is the first in the list. */
	for (struct connection *c = http->connections; c; c = c->next) {
		uint64_t age = now - c->begin_usec;

		if (c->is_displaced)
			return NULL; /* its place is free soon */
		if (!c->has_request && age >= SILENT_USEC)
			silent = c;
		if (c->has_request && !c->is_waiting && age >= SERVED_USEC)
			served = c;
	}
	return silent ?: served;
}

/*
 * When all places are taken, somebody has to go, so that the next connection has one: all local programs share the address
 * of loopback, and one of them could take all places with connections that say nothing.
 */
static void make_room(struct http *http)
{
	struct connection *c;

	if (http->n_connections < MAX_CONNECTIONS)
		return;
	c = find_displaced(http);
	if (c) {
		c->is_displaced = true;
		shut_down(c->mhd);
	}
	start_timer(http->crowded, CROWDED_USEC);
}

static int on_crowded(sd_event_source *source, uint64_t usec, void *userdata)
{
	make_room(userdata);
	return 0;
}

/*
 * NULL: out of memory. Then on_connection_change() shuts the connection down, and on_request() refuses its requests.
 */
static struct connection *connection_new(struct http *http, struct MHD_Connection *mhd)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return NULL;
	connection->http = http;
	connection->mhd = mhd;
	connection->begin_usec = now_usec();
	if (sd_event_add_time_relative(http->loop, &connection->deadline, CLOCK_MONOTONIC,
				       CONNECTION_USEC, 0, on_deadline, connection) < 0) {
		free(connection);
		return NULL;
	}
	DL_PREPEND(http->connections, connection);
	return connection;
}

static void connection_free(struct connection *connection)
{
	if (!connection)
		return;
	DL_DELETE(connection->http->connections, connection);
	sd_event_source_disable_unref(connection->deadline);
	free(connection);
}

static void on_connection_change(void *userdata, struct MHD_Connection *mhd, void **state,
				 enum MHD_ConnectionNotificationCode code)
{
	struct http *http = userdata;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		connection_free(*state);
		*state = NULL;
		http->n_connections--;
		/* A new connection can use the descriptor of the closed one. */
		http->is_paused = false;
	} else {
		http->n_connections++;
		*state = connection_new(http, mhd);
		if (!*state)
			shut_down(mhd);
	}
	make_room(http);
	update_accepting(http);
}

static bool has_too_many(const struct http *http, const struct sockaddr *peer)
{
	unsigned n = 0;

	if (peer->sa_family == AF_UNIX || addr_is_loopback(peer))
		return false;
	for (const struct connection *c = http->connections; c; c = c->next) {
		const union MHD_ConnectionInfo *info =
			MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

		if (info && info->client_addr && addr_is_same_host(info->client_addr, peer))
			n++;
	}
	return n >= MAX_PER_HOST;
}

/* Called whenever libmicrohttpd's next timeout can have changed. */
static void update_timer(struct http *http)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(http->mhd, &ms) == MHD_YES)
		start_timer(http->timer, (uint64_t)ms * 1000);
	else
		sd_event_source_set_enabled(http->timer, SD_EVENT_OFF);
}

/* MHD_run() does one step for each connection that is ready. */
static int run_mhd(struct http *http)
{
	MHD_run(http->mhd);
	update_timer(http);
	return 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	return run_mhd(userdata);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	return run_mhd(userdata);
}

static int on_resume(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct http *http = userdata;

	http->is_paused = false;
	update_accepting(http);
	return 0;
}

static void pause_accepting(struct http *http)
{
	http->is_paused = true;
	update_accepting(http);
	start_timer(http->resume, PAUSE_USEC);
}

/* libmicrohttpd would loop without a pause when descriptors run out, so the exporter accepts connections itself. */
static int on_connect(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct http *http = userdata;
	struct sockaddr_storage peer = {};
	socklen_t len = sizeof(peer);
	int sock;

	sock = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (sock < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return 0;
		warn_limited(http, "Cannot accept a connection, trying again in a second", errno);
		pause_accepting(http);
		return 0;
	}
	if (has_too_many(http, (struct sockaddr *)&peer)) {
		close(sock);
		return 0;
	}
	/* libmicrohttpd owns SOCK from here on, even if MHD_add_connection() fails. */
	if (MHD_add_connection(http->mhd, sock, (struct sockaddr *)&peer, len) != MHD_YES)
		warn_limited(http, "Cannot serve a connection", errno);
	update_timer(http);
	return 0;
}

static void notify_change(struct http *http, const char *reason)
{
	if (http->was_asked && strcmp(http->reason, reason) == 0)
		return;
	if (*reason) {
		log_line(LOG_WARNING, "Cannot get metrics from the broker: %s.", reason);
		notifier_tell(http->notifier, "STATUS=Cannot get metrics from the broker: %s",
			      reason);
	} else {
		log_line(LOG_INFO, "The broker answers.");
		notifier_tell(http->notifier, "STATUS=The broker answers");
	}
	http->was_asked = true;
	text_copy(http->reason, sizeof(http->reason), reason);
}

static void resume_waiting(struct http *http)
{
	struct connection *c;

	DL_FOREACH(http->connections, c) {
		if (!c->is_waiting)
			continue;
		c->is_waiting = false;
		c->has_waited = true;
		MHD_resume_connection(c->mhd);
	}
}

/* TEXT NULL: the broker did not answer, because of REASON. */
static int give_answer(struct http *http, char *text, const char *reason)
{
	drop_answer(http);
	http->answer = (struct answer){
		.text = text,
		.n_fetches = http->n_fetches,
		.usec = now_usec(),
	};
	notify_change(http, text ? "" : reason);
	resume_waiting(http);
	return run_mhd(http);
}

static void on_fetched(void *userdata, struct fetched *fetched)
{
	struct http *http = userdata;

	sd_event_source_set_enabled(http->late, SD_EVENT_OFF);
	give_answer(http, fetched->text, fetched->reason);
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	return give_answer(userdata, /* text= */ NULL, "no reply within five seconds");
}

/* Adds a timer that is off. The accuracy is 1 us, because 0 would mean 250 ms to sd-event. */
static int add_timer(struct http *http, sd_event_source **ret, sd_event_time_handler_t handler)
{
	int r = sd_event_add_time_relative(http->loop, ret, CLOCK_MONOTONIC, 0, 1, handler, http);

	return r < 0 ? r : sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

static int start_mhd(struct http *http)
{
	const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
	int fd;

	/*
	 * main.c ignores SIGPIPE, as MHD_OPTION_SIGPIPE_HANDLED_BY_APP requires. The limit is kept by update_accepting():
	 * libmicrohttpd 1.0 counts a connection that has closed a while longer, and would refuse the next one.
	 */
	http->mhd = MHD_start_daemon(flags, 0, NULL, NULL, on_request, http,
				     MHD_OPTION_NOTIFY_CONNECTION, on_connection_change, http,
				     MHD_OPTION_CONNECTION_LIMIT, 2u * MAX_CONNECTIONS,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
				     MHD_OPTION_STRICT_FOR_CLIENT, 1,
				     MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
	if (!http->mhd)
		return -ENOMEM;
	fd = MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	return sd_event_add_io(http->loop, &http->io, fd, EPOLLIN, on_io, http);
}

static int add_listeners(struct http *http, const struct sockets *sockets)
{
	for (unsigned i = 0; i < sockets->n; i++) {
		int r = sd_event_add_io(http->loop, &http->listeners[i], sockets->list[i].fd,
					EPOLLIN, on_connect, http);

		if (r < 0)
			return r;
		http->n_listeners++;
	}
	return 0;
}

static int set_up(struct http *http, const struct sockets *sockets, const char *broker)
{
	int r = start_mhd(http);

	if (r >= 0)
		r = add_timer(http, &http->timer, on_timer);
	if (r >= 0)
		r = add_timer(http, &http->resume, on_resume);
	if (r >= 0)
		r = add_timer(http, &http->crowded, on_crowded);
	if (r >= 0)
		r = add_timer(http, &http->late, on_late);
	if (r >= 0)
		r = fetch_new(&http->fetch, http->loop, broker, on_fetched, http);
	if (r >= 0)
		r = add_listeners(http, sockets);
	return r < 0 ? r : 0;
}

int http_new(struct http **ret, sd_event *loop, struct notifier *notifier,
	     const struct sockets *sockets, const char *broker)
{
	struct http *http = calloc(1, sizeof(*http));
	int r;

	if (!http)
		return -ENOMEM;
	http->loop = sd_event_ref(loop);
	http->notifier = notifier;
	r = set_up(http, sockets, broker);
	if (r < 0) {
		http_free(http);
		return r;
	}
	*ret = http;
	return 0;
}

bool http_free(struct http *http)
{
	bool is_idle;

	if (!http)
		return true;
	is_idle = fetch_free(http->fetch);
	sd_event_source_disable_unref(http->io);
	sd_event_source_disable_unref(http->timer);
	if (http->mhd) {
		/* libmicrohttpd must not be stopped while a connection is suspended. */
		drop_answer(http);
		resume_waiting(http);
		/* Calls on_connection_change() for each connection. */
		MHD_stop_daemon(http->mhd);
	}
	drop_answer(http);
	for (unsigned i = 0; i < http->n_listeners; i++)
		sd_event_source_disable_unref(http->listeners[i]);
	sd_event_source_disable_unref(http->resume);
	sd_event_source_disable_unref(http->crowded);
	sd_event_source_disable_unref(http->late);
	sd_event_unref(http->loop);
	free(http);
	return is_idle;
}
