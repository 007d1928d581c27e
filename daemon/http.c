/* SPDX-License-Identifier: BSD-2-Clause */
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>

#include "http.h"
#include "policy/policy.h"
#include "proto/unixsock.h"
#include "rpc/metrics.h"
#include "util/log.h"
#include "util/util.h"

#define MAX_CONNECTIONS 16
#define CONNECTION_USEC (10 * 1000000ULL) /* from the start of a connection to its end */
#define CONNECTION_MEMORY 16384 /* for the request's headers, and for the chunk being sent */
#define PAUSE_USEC (1 * 1000000ULL) /* when there are no descriptors left */
#define BACKLOG 64

struct http {
	sd_event *loop;
	const struct core *core;
	struct config_listen listen;
	int fd;
	struct MHD_Daemon *mhd;

	sd_event_source *accept;
	sd_event_source *resume; /* ends a pause of accepting */
	sd_event_source *io; /* libmicrohttpd's epoll descriptor */
	sd_event_source *timer; /* when libmicrohttpd has to be run without an event */
	unsigned n_connections;
	bool is_paused;
	struct ratelimit log_limit;
};

/* The text that answers one request. One page of it is in memory at a time. */
struct reply {
	const struct core *core;
	struct policy *policy; /* whose rules it reports */
	struct metrics_place place;
	struct metrics_text page;
	size_t taken; /* bytes of the page */
	bool more;
	char space[METRICS_PAGE_MAX];
};

DEFINE_CLEANUP(struct http *, http_free)

/* Requests */

static struct reply *reply_free(struct reply *reply)
{
	if (reply)
		policy_unref(reply->policy);
	free(reply);
	return NULL;
}

static void on_reply_end(void *userdata)
{
	reply_free(userdata);
}

static ssize_t read_reply(void *userdata, uint64_t pos, char *buf, size_t max)
{
	struct reply *reply = userdata;
	size_t n;

	(void)pos;
	while (reply->taken == reply->page.len) {
		if (!reply->more)
			return MHD_CONTENT_READER_END_OF_STREAM;
		/*
		 * With another policy PLACE is not valid any more. The text is cut off, and its reader sees
		 * that the end is missing.
		 */
		if (reply->core->policy != reply->policy)
			return MHD_CONTENT_READER_END_WITH_ERROR;
		reply->more = metrics_page(reply->core, &reply->page, &reply->place);
		reply->taken = 0;
	}
	n = reply->page.len - reply->taken;
	if (n > max)
		n = max;
	memcpy(buf, reply->page.buf + reply->taken, n);
	reply->taken += n;
	return (ssize_t)n;
}

static struct MHD_Response *respond_metrics(const struct http *http)
{
	struct reply *reply = calloc(1, sizeof(*reply));
	struct MHD_Response *response;

	if (!reply)
		return NULL;
	reply->core = http->core;
	reply->policy = policy_ref(http->core->policy);
	reply->page = (struct metrics_text){ .buf = reply->space, .size = sizeof(reply->space) };
	reply->more = true;
	response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, sizeof(reply->space),
						     read_reply, reply, on_reply_end);
	if (!response)
		reply_free(reply);
	return response;
}

static struct MHD_Response *respond_text(const char *text)
{
	return MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
}

/* MHD_NO closes the connection. */
static enum MHD_Result on_request(void *userdata, struct MHD_Connection *connection,
				  const char *url, const char *method, const char *version,
				  const char *upload, size_t *upload_size, void **state)
{
	const char *type = "text/plain; charset=utf-8";
	struct MHD_Response *response;
	unsigned status = MHD_HTTP_OK;
	enum MHD_Result r;

	(void)version;
	(void)upload;
	(void)upload_size;
	(void)state;
	if (strcmp(url, "/metrics") != 0) {
		status = MHD_HTTP_NOT_FOUND;
		response = respond_text("Not found. The metrics are at /metrics.\n");
	} else if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
		   strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		status = MHD_HTTP_METHOD_NOT_ALLOWED;
		response = respond_text("The metrics can be read, by GET or HEAD.\n");
	} else {
		type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
		response = respond_metrics(userdata);
	}
	if (!response)
		return MHD_NO;

	r = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (r == MHD_YES)
		r = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (r == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		r = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (r == MHD_YES)
		r = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return r;
}

/* Connections */

static void update_accepting(struct http *http)
{
	bool accepting = !http->is_paused && http->n_connections < MAX_CONNECTIONS;

	sd_event_source_set_enabled(http->accept, accepting ? SD_EVENT_ON : SD_EVENT_OFF);
}

static int connection_fd(struct MHD_Connection *connection)
{
	return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* A deadline of our own, because libmicrohttpd's timeout begins anew with every byte. */
static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	/* libmicrohttpd is notified by its epoll descriptor, as if the client had closed the connection. */
	shutdown(connection_fd(userdata), SHUT_RDWR);
	return 0;
}

static void on_connection_change(void *userdata, struct MHD_Connection *connection, void **state,
				 enum MHD_ConnectionNotificationCode code)
{
	struct http *http = userdata;
	sd_event_source *deadline = NULL;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		sd_event_source_disable_unref(*state);
		*state = NULL;
		http->n_connections--;
		/* There is a free descriptor again. */
		http->is_paused = false;
		update_accepting(http);
		return;
	}

	http->n_connections++;
	update_accepting(http);
	if (sd_event_add_time_relative(http->loop, &deadline, CLOCK_MONOTONIC, CONNECTION_USEC, 0,
				       on_deadline, connection) < 0)
		shutdown(connection_fd(connection), SHUT_RDWR);
	*state = deadline;
}

/* libmicrohttpd */

/* To be called whenever libmicrohttpd's next timeout may have changed. */
static void update_timer(struct http *http)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(http->mhd, &ms) == MHD_YES) {
		sd_event_source_set_time_relative(http->timer, (uint64_t)ms * 1000);
		sd_event_source_set_enabled(http->timer, SD_EVENT_ONESHOT);
	} else {
		sd_event_source_set_enabled(http->timer, SD_EVENT_OFF);
	}
}

/* MHD_run() does one step for each connection that is ready. */
static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct http *http = userdata;

	(void)source;
	(void)fd;
	(void)events;
	MHD_run(http->mhd);
	update_timer(http);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)usec;
	return on_io(source, -1, 0, userdata);
}

static int on_resume(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct http *http = userdata;

	(void)source;
	(void)usec;
	http->is_paused = false;
	update_accepting(http);
	return 0;
}

static void pause_accepting(struct http *http)
{
	http->is_paused = true;
	update_accepting(http);
	sd_event_source_set_time_relative(http->resume, PAUSE_USEC);
	sd_event_source_set_enabled(http->resume, SD_EVENT_ONESHOT);
}

/* Accepting is not left to libmicrohttpd, which spins when descriptors run out. */
static int on_connect(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct http *http = userdata;
	struct sockaddr_storage peer = {};
	socklen_t len = sizeof(peer);
	int sock;

	(void)source;
	(void)events;
	sock = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (sock < 0) {
		switch (errno) {
		case EAGAIN:
		case EINTR:
		case ECONNABORTED:
			return 0;
		default:
			log_limited(
				&http->log_limit, LOG_WARNING,
				"Cannot accept who asks for metrics: %s. Trying again in a second.",
				strerror(errno));
			pause_accepting(http);
			return 0;
		}
	}
	/* libmicrohttpd owns the socket from here on, even if this fails. */
	if (MHD_add_connection(http->mhd, sock, (struct sockaddr *)&peer, len) != MHD_YES)
		log_limited(&http->log_limit, LOG_WARNING, "Cannot serve who asks for metrics: %s.",
			    strerror(errno));
	update_timer(http);
	return 0;
}

/* Creation and destruction */

static int listen_inet(const struct config_listen *address)
{
	_cleanup_close_ int fd =
		socket(address->addr.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int on = 1;

	if (fd < 0)
		return -errno;
	/* Connections that are left from before a restart must not prevent bind(). */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, &address->addr.sa, address->len) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static bool is_unix(const struct http *http)
{
	return http->listen.addr.sa.sa_family == AF_UNIX;
}

static int start_mhd(struct http *http)
{
	const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET;
	int r;

	/* SIGPIPE is ignored, by broker.c. */
	http->mhd = MHD_start_daemon(flags, 0, NULL, NULL, on_request, http,
				     MHD_OPTION_NOTIFY_CONNECTION, on_connection_change, http,
				     MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
				     MHD_OPTION_STRICT_FOR_CLIENT, 1,
				     MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
	if (!http->mhd)
		return -ENOMEM;
	r = sd_event_add_io(http->loop, &http->io,
			    MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
			    EPOLLIN, on_io, http);
	if (r >= 0)
		/* sd-event takes an accuracy of 0 as 250 ms. */
		r = sd_event_add_time_relative(http->loop, &http->timer, CLOCK_MONOTONIC, 0, 1,
					       on_timer, http);
	if (r >= 0)
		r = sd_event_source_set_enabled(http->timer, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

static int set_up(struct http *http)
{
	int r;

	http->fd = is_unix(http) ? unixsock_listen(http->listen.text, SOCK_STREAM, 0660, BACKLOG) :
				   listen_inet(&http->listen);
	if (http->fd < 0)
		return http->fd;
	r = start_mhd(http);
	if (r < 0)
		return r;
	r = sd_event_add_io(http->loop, &http->accept, http->fd, EPOLLIN, on_connect, http);
	if (r >= 0)
		r = sd_event_add_time_relative(http->loop, &http->resume, CLOCK_MONOTONIC,
					       PAUSE_USEC, 0, on_resume, http);
	if (r >= 0)
		r = sd_event_source_set_enabled(http->resume, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

int http_new(struct http **ret, sd_event *loop, const struct core *core,
	     const struct config_listen *listen)
{
	_cleanup_(http_freep) struct http *http = calloc(1, sizeof(*http));
	int r = -ENOMEM;

	if (http) {
		http->fd = -1;
		http->loop = sd_event_ref(loop);
		http->core = core;
		http->listen = *listen;
		r = set_up(http);
	}
	if (r < 0) {
		const char *advice = "";

		if (r == -EADDRINUSE)
			advice = " Another program does; once it has ended, reload.";
		else if (r == -EAFNOSUPPORT)
			advice =
				" The unit's sandbox has no IP sockets, see rdmabrokerd.conf(5), EXAMPLES.";
		log_error("Metrics are not served, cannot listen on %s: %s.%s", listen->text,
			  strerror(-r), advice);
		return r;
	}
	log_info("Metrics are served on %s%s.", listen->text,
		 is_unix(http) ? ", path /metrics" : "/metrics");
	*ret = TAKE_PTR(http);
	return 0;
}

struct http *http_free(struct http *http)
{
	if (!http)
		return NULL;
	sd_event_source_disable_unref(http->io);
	sd_event_source_disable_unref(http->timer);
	/* Ends the connections; calls on_connection_change() for each. */
	if (http->mhd)
		MHD_stop_daemon(http->mhd);
	sd_event_source_disable_unref(http->accept);
	sd_event_source_disable_unref(http->resume);
	if (http->fd >= 0) {
		close(http->fd);
		if (is_unix(http))
			unlink(http->listen.text);
	}
	sd_event_unref(http->loop);
	free(http);
	return NULL;
}

const char *http_get_address(const struct http *http)
{
	return http->listen.text;
}
