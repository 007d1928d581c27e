/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "exposition.h"
#include "fetch.h"
#include "http.h"
#include "proto/addr.h"
#include "proto/clock.h"
#include "proto/notifier.h"
#include "proto/text.h"
#include "proto/timer.h"

#define MAX_CONNECTIONS 16
#define MAX_PER_HOST 4u /* of one address; no limit for loopback addresses and Unix sockets */
/* For so long a connection is not displaced: one that has sent no request, and one that has. */
#define SILENT_MS 250
#define SERVED_MS 2000
#define CONNECTION_MS 10000 /* from the start of a connection to its deadline */
#define CONNECTION_MEMORY 16384 /* in bytes, for the request's headers */
#define PAUSE_MS 1000 /* after accept() has failed */
#define TICK_MS 50 /* between two looks at the connections and the pause */
#define FETCH_MS 5000 /* after this the broker counts as absent; Prometheus waits for 10 s */
#define FRESH_MS 1000 /* how long an answer is used for later requests */
#define OLD_TEXTS_MAX (64 << 20) /* in bytes; responses that slow clients are still reading */
#define LOG_MS 60000 /* warn_limited() prints one warning in this time */

/* The result of the last fetch, and the responses made from it so far, by format. */
struct answer {
	char *text; /* the broker's metrics; NULL: the broker did not answer */
	int64_t ms; /* when the answer came; 0: there is none */
	struct MHD_Response *responses[_EXPOSITION_MAX];
};

struct body {
	struct http *http;
	char *text;
	size_t len;
};

struct connection {
	struct MHD_Connection *mhd; /* NULL: the place is free */
	int64_t begin_ms;
	bool has_request; /* the headers of a request have come */
	bool is_shut_down; /* by shut_down(); libmicrohttpd has not closed it yet */
	bool is_waiting; /* suspended: it waits for the broker */
	bool has_waited;
};

struct http {
	sd_event *loop;
	struct notifier *notifier;
	struct MHD_Daemon *mhd;
	sd_event_source *listeners[SOCKETS_MAX];
	unsigned n_listeners;
	sd_event_source *tick; /* a timer, while there are connections, or a pause of accepting */
	sd_event_source *io; /* libmicrohttpd's epoll descriptor */
	sd_event_source *again; /* on while libmicrohttpd has more to do */
	struct connection connections[MAX_CONNECTIONS];
	int64_t accept_ms; /* until then accepting pauses */
	int64_t logged_ms; /* time of the last warning of warn_limited() */

	struct site_paths site;
	struct fetch fetch;
	sd_event_source *late; /* a timer that ends the wait for the broker */
	struct answer answer;
	uint64_t n_fetches;
	size_t n_bytes; /* size of the texts of all responses */
	bool was_asked; /* the first fetch has ended: REASON is valid */
	char reason[512]; /* why the last fetch failed; empty: the broker answered */
};

static void warn_limited(struct http *http, const char *what, int error)
{
	int64_t now = now_ms();

	if (http->logged_ms && now - http->logged_ms < LOG_MS)
		return;
	http->logged_ms = now;
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
	body->text = exposition_new(format, http->answer.text, http->n_fetches, &http->site);
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
	return answer->ms && now_ms() - answer->ms < FRESH_MS;
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

static void await_broker(struct http *http, struct connection *connection)
{
	int enabled = SD_EVENT_OFF;

	sd_event_source_get_enabled(http->late, &enabled);
	if (enabled == SD_EVENT_OFF) {
		if (fetch_start(&http->fetch))
			http->n_fetches++;
		timer_start(http->late, FETCH_MS * 1000);
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
	struct connection *connection =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	bool is_metrics = strcmp(url, "/metrics") == 0;

	connection->has_request = true;
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
		return on_metrics(userdata, connection);
	return respond_text(
		mhd, MHD_HTTP_OK, "text/html; charset=utf-8",
		"<!DOCTYPE html>\n<html lang=\"en\"><head><title>rdmabroker-exporter</title></head>\n"
		"<body><h1>rdmabroker-exporter</h1>\n"
		"<p>The metrics of rdmabrokerd are at <a href=\"/metrics\">/metrics</a>.</p>\n"
		"</body></html>\n");
}

/* libmicrohttpd sees this as if the client had closed the connection. */
static void shut_down(struct connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (!c->is_shut_down)
		shutdown(info->connect_fd, SHUT_RDWR);
	c->is_shut_down = true;
}

/*
 * When all places are taken, somebody has to go, so that the next connection has one: all local programs share the address
 * of loopback, and one of them could take all places with connections that say nothing. First the oldest one goes that has
 * not sent a whole request in its first moments, or else the oldest one that has had its time to take the answer.
 */
static void make_room(struct http *http, int64_t now)
{
	struct connection *silent = NULL, *served = NULL;

	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		struct connection *c = &http->connections[i];
		struct connection **oldest = c->has_request ? &served : &silent;

		if (c->is_waiting)
			continue;
		if (c->is_shut_down)
			return; /* its place is free soon */
		if (now - c->begin_ms >= (c->has_request ? SERVED_MS : SILENT_MS) &&
		    (!*oldest || c->begin_ms < (*oldest)->begin_ms))
			*oldest = c;
	}
	if (silent || served)
		shut_down(silent ?: served);
}

/* Ends the connections that have to end, and accepts further ones while there are places for them. */
static void tend_connections(struct http *http)
{
	int64_t now = now_ms();
	bool accepting = now >= http->accept_ms;
	unsigned n = 0;

	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		struct connection *c = &http->connections[i];

		/* libmicrohttpd has no deadline, only a timeout that starts again with every byte. */
		if (c->mhd && now - c->begin_ms >= CONNECTION_MS)
			shut_down(c);
		n += c->mhd != NULL;
	}
	if (n == MAX_CONNECTIONS)
		make_room(http, now);
	accepting = accepting && n < MAX_CONNECTIONS;
	for (unsigned i = 0; i < http->n_listeners; i++)
		sd_event_source_set_enabled(http->listeners[i],
					    accepting ? SD_EVENT_ON : SD_EVENT_OFF);
	if (n > 0 || !accepting)
		timer_start(http->tick, TICK_MS * 1000);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	tend_connections(userdata);
	return 0;
}

static void on_connection_change(void *userdata, struct MHD_Connection *mhd, void **state,
				 enum MHD_ConnectionNotificationCode code)
{
	struct http *http = userdata;
	struct connection *c = *state ?: http->connections;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		*c = (struct connection){};
		/* A new connection can use the descriptor of the closed one. */
		http->accept_ms = 0;
	} else {
		/* One is free, or tend_connections() would have ended accepting. */
		while (c->mhd)
			c++;
		*c = (struct connection){ .mhd = mhd, .begin_ms = now_ms() };
		*state = c;
	}
	tend_connections(http);
}

/* MHD_run() does one step for each connection that is ready. It uses no timeouts: it has more to do now, or waits. */
static int run_mhd(struct http *http)
{
	MHD_UNSIGNED_LONG_LONG ms;

	MHD_run(http->mhd);
	return sd_event_source_set_enabled(http->again, MHD_get_timeout(http->mhd, &ms) == MHD_YES ?
								SD_EVENT_ONESHOT :
								SD_EVENT_OFF);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	return run_mhd(userdata);
}

static int on_again(sd_event_source *source, void *userdata)
{
	return run_mhd(userdata);
}

/*
 * libmicrohttpd takes only one listening socket, and would loop without a pause when descriptors run out, so the exporter
 * accepts connections itself.
 */
static int on_connect(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct http *http = userdata;
	struct sockaddr_storage storage = {};
	struct sockaddr *peer = (struct sockaddr *)&storage;
	socklen_t len = sizeof(storage);
	int sock;

	sock = accept4(fd, peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (sock < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return 0;
		warn_limited(http, "Cannot accept a connection, trying again in a second", errno);
		http->accept_ms = now_ms() + PAUSE_MS;
		tend_connections(http);
		return 0;
	}
	/* Connections without an address have no limit of their own. */
	if (!addr_is_ip(peer) || addr_is_loopback(peer))
		len = 0;
	/* libmicrohttpd owns SOCK from here on, even if it fails. ENFILE: the host has too many connections. */
	if (MHD_add_connection(http->mhd, sock, peer, len) != MHD_YES && errno != ENFILE)
		warn_limited(http, "Cannot serve a connection", errno);
	return run_mhd(http);
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
	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		struct connection *c = &http->connections[i];

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
		.ms = now_ms(),
	};
	notify_change(http, text ? "" : reason);
	resume_waiting(http);
	return run_mhd(http);
}

static void on_fetched(void *userdata, char *text, const char *reason)
{
	struct http *http = userdata;

	timer_stop(http->late);
	give_answer(http, text, reason);
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	return give_answer(userdata, /* text= */ NULL, "no reply within five seconds");
}

static int start_mhd(struct http *http)
{
	const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
	int fd;

	/*
	 * main.c ignores SIGPIPE, as MHD_OPTION_SIGPIPE_HANDLED_BY_APP requires. The limit is kept by tend_connections():
	 * libmicrohttpd 1.0 counts a connection that has closed a while longer, and would refuse the next one.
	 */
	http->mhd = MHD_start_daemon(flags, 0, NULL, NULL, on_request, http,
				     MHD_OPTION_NOTIFY_CONNECTION, on_connection_change, http,
				     MHD_OPTION_CONNECTION_LIMIT, 2u * MAX_CONNECTIONS,
				     MHD_OPTION_PER_IP_CONNECTION_LIMIT, MAX_PER_HOST,
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
		r = sd_event_add_defer(http->loop, &http->again, on_again, http);
	if (r >= 0)
		r = timer_new(&http->tick, http->loop, 1, on_tick, http);
	if (r >= 0)
		r = timer_new(&http->late, http->loop, 1, on_late, http);
	if (r >= 0)
		r = fetch_init(&http->fetch, http->loop, broker, on_fetched, http);
	if (r >= 0)
		r = add_listeners(http, sockets);
	return r < 0 ? r : 0;
}

int http_new(struct http **ret, sd_event *loop, struct notifier *notifier,
	     const struct sockets *sockets, const char *broker, const struct site_paths *site)
{
	struct http *http = calloc(1, sizeof(*http));
	int r;

	if (!http)
		return -ENOMEM;
	http->loop = loop;
	http->notifier = notifier;
	http->site = *site;
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
	if (!http)
		return true;
	if (!fetch_done(&http->fetch))
		return false;
	sd_event_source_disable_unref(http->io);
	sd_event_source_disable_unref(http->again);
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
	sd_event_source_disable_unref(http->tick);
	sd_event_source_disable_unref(http->late);
	free(http);
	return true;
}
