/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "gate.h"
#include "refusals.h"
#include "server.h"
#include "transfer.h"

#define ACCEPT_MAX 32 /* in one turn of the loop */
#define PAUSE_MS 200 /* without descriptors or memory */
#define QUESTIONS_TEXT_MAX (16 * 1024) /* bytes, sealed: several times what QUESTIONS_MAX take */

enum state { RECEIVING, WORKING, SENDING, KEPT, ANY_STATE };

/* What a thread does for a connection. */
struct answering {
	struct job job;
	struct connection *connection; /* NULL: it was closed meanwhile */
	const struct seal *seal;
	struct brokerlink *link;
	char from[64], to[64]; /* the connection's addresses: the other host's, and this one's */
	char *questions; /* sealed */
	bool is_right; /* their seal */
	struct gate_text gate_text;
	char *answers; /* sealed; NULL: ERROR says why there are none */
	char error[SEAL_ERROR_MAX];
};

struct connection {
	struct server *server;
	struct transfer *transfer;
	struct answering *answering; /* in the state WORKING */
	enum state state;
	struct sockaddr_storage address; /* the other host's */
	char from[64], to[64];
	struct connection *prev, *next; /* server.connections */
};

struct server {
	sd_event *loop;
	sd_event_source *listening[SOCKETS_MAX];
	unsigned n_listening;
	sd_event_source *pause;
	const struct seal *seal;
	struct brokerlink *link;
	struct work *work;
	/* The oldest first. One that is KEPT comes after those that were there before. */
	struct connection *connections;
	unsigned n_connections;
	struct refusals refusals;
	struct gate gate;
};

static void connection_free(struct connection *connection)
{
	if (connection->answering)
		connection->answering->connection = NULL;
	transfer_free(connection->transfer);
	DL_DELETE(connection->server->connections, connection);
	connection->server->n_connections--;
	free(connection);
}

static void refuse(struct connection *connection, const char *why)
{
	refusals_print(&connection->server->refusals, "questions", connection->from, why);
	connection_free(connection);
}

/* ---- in a thread ---- */

static json_t *find_answers(struct answering *answering, const struct message_head *head,
			    const struct question *questions, size_t n)
{
	json_t *answers = json_array();
	bool hangs = false;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(answers, brokerlink_find(answering->link, head, &questions[i],
							       &hangs));
	if (json_array_size(answers) == n)
		return answers;
	json_decref(answers);
	return NULL;
}

/* Returns why there are no answers; NULL: they are in *RET. */
static const char *answer_text(struct answering *answering, const char *text, char **ret)
{
	struct question questions[QUESTIONS_MAX];
	struct message_head head;
	json_t *answers;
	size_t n;

	if (!message_read_questions(text, &head, questions, &n, answering->error))
		return answering->error;
	/* So nobody learns anything about other hosts' connections, and a seal for another host is of no use here. */
	if (strcmp(head.from, answering->from) != 0)
		return "its sender is not the host that has sent it";
	if (strcmp(head.to, answering->to) != 0)
		return "it is for another host or another address";
	answers = find_answers(answering, &head, questions, n);
	*ret = answers ? message_answer(&head, answers) : NULL;
	return *ret ? NULL : "out of memory";
}

static void run(struct job *job)
{
	struct answering *answering = (struct answering *)job;
	char *text = seal_open(answering->seal, answering->questions, answering->error);
	char *answers = NULL;
	const char *why = text ? answer_text(answering, text, &answers) : answering->error;

	answering->is_right = text;
	if (answers)
		answering->answers = seal_close(answering->seal, answers, answering->error);
	else if (why != answering->error)
		strcpy(answering->error, why);
	free(answers);
	free(text);
}

/* ---- in the loop's thread ---- */

static void answering_free(struct answering *answering)
{
	free(answering->questions);
	free(answering->answers);
	free(answering);
}

static void done(struct job *job)
{
	struct answering *answering = (struct answering *)job;
	struct connection *connection = answering->connection;

	if (connection && answering->is_right)
		gate_was_right(&connection->server->gate, &answering->gate_text);
	if (connection)
		connection->answering = NULL;
	if (connection && answering->answers) {
		connection->state = SENDING;
		transfer_send(connection->transfer, answering->answers);
		answering->answers = NULL;
	} else if (connection) {
		refuse(connection, answering->error);
	}
	answering_free(answering);
}

/* All questions are here. */
static void answer(struct connection *connection)
{
	struct server *server = connection->server;
	const struct sockaddr *from = (const struct sockaddr *)&connection->address;
	struct answering *answering = calloc(1, sizeof(*answering));
	const char *why;

	if (!answering) {
		refuse(connection, "out of memory");
		return;
	}
	answering->questions = transfer_take(connection->transfer);
	why = gate_check(&server->gate, answering->questions,
			 connection->state == KEPT ? NULL : from, &answering->gate_text);
	if (why) {
		refuse(connection, why);
		answering_free(answering);
		return;
	}
	answering->job.run = run;
	answering->job.done = done;
	answering->connection = connection;
	answering->seal = server->seal;
	answering->link = server->link;
	strcpy(answering->from, connection->from);
	strcpy(answering->to, connection->to);
	if (connection->state == KEPT)
		transfer_set_timeout(connection->transfer, SERVER_MS);
	connection->state = WORKING;
	if (work_add(server->work, &answering->job) < 0) {
		refuse(connection, "too many questions wait");
		answering_free(answering);
		return;
	}
	connection->answering = answering;
}

/* Each user of this host can connect from any address of 127.0.0.0/8, so they count as one. */
static bool is_same_address(const char *a, const char *b)
{
	return strcmp(a, b) == 0 || (strncmp(a, "127.", 4) == 0 && strncmp(b, "127.", 4) == 0);
}

/* Whether CONNECTION is in STATE, and of the address FROM; NULL: of any. */
static bool is_one(const struct connection *connection, enum state state, const char *from)
{
	return (state == ANY_STATE || connection->state == state) &&
	       (!from || is_same_address(connection->from, from));
}

static unsigned count(const struct server *server, enum state state, const char *from)
{
	struct connection *connection;
	unsigned n = 0;

	DL_FOREACH(server->connections, connection)
		n += is_one(connection, state, from);
	return n;
}

/* NULL: there is none. */
static struct connection *find_first(const struct server *server, enum state state,
				     const char *from)
{
	struct connection *connection;

	DL_FOREACH(server->connections, connection)
		if (is_one(connection, state, from))
			return connection;
	return NULL;
}

/* Of those that are KEPT, of the address FROM or of all, at most MAX stay. */
static void limit_kept(struct server *server, const char *from, unsigned max)
{
	if (count(server, KEPT, from) > max)
		connection_free(find_first(server, KEPT, from));
}

/* The answers were sent. */
static void keep(struct connection *connection)
{
	struct server *server = connection->server;

	connection->state = KEPT;
	DL_DELETE(server->connections, connection);
	DL_APPEND(server->connections, connection);
	transfer_set_timeout(connection->transfer, SERVER_KEPT_MS);
	transfer_receive(connection->transfer, QUESTIONS_TEXT_MAX);
	limit_kept(server, connection->from, SERVER_CONNECTIONS_OF_ADDRESS_MAX / 2);
	limit_kept(server, /* from= */ NULL, SERVER_CONNECTIONS_MAX / 2);
}

static void on_transfer(void *userdata, int r)
{
	struct connection *connection = userdata;

	if (r == 0 && connection->state == SENDING)
		keep(connection);
	else if (r == 0)
		answer(connection);
	else if (r == -EMSGSIZE)
		refuse(connection, "it is too long or empty");
	else if (r == -ETIMEDOUT && connection->state == RECEIVING)
		refuse(connection, "it did not come in time");
	else
		connection_free(connection);
}

/*
 * Closes the oldest connection that is RECEIVING; FROM: only of this address; NULL: of all. Any user of another host can
 * open connections from the address of its helper, but the helper sends its questions at once. False: there is none.
 */
static bool close_oldest(struct server *server, const char *from)
{
	struct connection *oldest = find_first(server, RECEIVING, from);

	if (oldest)
		refuse(oldest,
		       from ? "too many connections of this address, and this one had not sent its questions" :
			      "too many connections, and this one had not sent its questions");
	return oldest;
}

/* False: there is no room for a connection from the address FROM. */
static bool make_room(struct server *server, const char *from)
{
	const char *why = NULL;

	if (count(server, ANY_STATE, from) >= SERVER_CONNECTIONS_OF_ADDRESS_MAX &&
	    !close_oldest(server, from))
		why = "too many connections of this address";
	else if (server->n_connections >= SERVER_CONNECTIONS_MAX &&
		 !close_oldest(server, /* from= */ NULL))
		why = "too many connections";
	if (why)
		refusals_print(&server->refusals, "connection", from, why);
	return !why;
}

/* Takes over FD. */
static void add(struct server *server, int fd, const struct sockaddr_storage *from)
{
	struct sockaddr_storage to;
	socklen_t len = sizeof(to);
	char from_text[64], to_text[64];
	struct connection *connection = NULL;

	message_address((const struct sockaddr *)from, from_text);
	if (getsockname(fd, (struct sockaddr *)&to, &len) == 0 && make_room(server, from_text))
		connection = calloc(1, sizeof(*connection));
	if (!connection) {
		close(fd);
		return;
	}
	message_address((struct sockaddr *)&to, to_text);
	connection->server = server;
	connection->address = *from;
	strcpy(connection->from, from_text);
	strcpy(connection->to, to_text);
	DL_APPEND(server->connections, connection);
	server->n_connections++;
	if (transfer_new(&connection->transfer, server->loop, fd, SERVER_MS, on_transfer,
			 connection) < 0)
		connection_free(connection);
	else
		transfer_receive(connection->transfer, QUESTIONS_TEXT_MAX);
}

static void set_listening(struct server *server, int enabled)
{
	for (unsigned i = 0; i < server->n_listening; i++)
		sd_event_source_set_enabled(server->listening[i], enabled);
}

/* Without a pause, the loop would spin. */
static void pause_listening(struct server *server)
{
	set_listening(server, SD_EVENT_OFF);
	sd_event_source_set_time_relative(server->pause, PAUSE_MS * 1000);
	sd_event_source_set_enabled(server->pause, SD_EVENT_ONESHOT);
}

static int on_pause(sd_event_source *source, uint64_t usec, void *userdata)
{
	set_listening(userdata, SD_EVENT_ON);
	return 0;
}

static int on_listening(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *server = userdata;

	for (int i = 0; i < ACCEPT_MAX; i++) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		int new = accept4(fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (new >= 0) {
			add(server, new, &from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_listening(server);
		break;
	}
	return 0;
}

int server_new(struct server **ret, sd_event *loop, const struct sockets *sockets,
	       const struct seal *seal, struct brokerlink *link, struct work *work)
{
	struct server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	server->loop = loop;
	server->seal = seal;
	server->link = link;
	server->work = work;
	r = sd_event_add_time_relative(loop, &server->pause, CLOCK_MONOTONIC, 0, 1, on_pause,
				       server);
	if (r >= 0)
		r = sd_event_source_set_enabled(server->pause, SD_EVENT_OFF);
	for (unsigned i = 0; r >= 0 && i < sockets->n; i++) {
		r = sd_event_add_io(loop, &server->listening[i], sockets->list[i].fd, EPOLLIN,
				    on_listening, server);
		server->n_listening += r >= 0;
	}
	if (r < 0) {
		server_free(server);
		return r;
	}
	*ret = server;
	return 0;
}

struct server *server_free(struct server *server)
{
	struct connection *connection, *next;

	if (!server)
		return NULL;
	DL_FOREACH_SAFE(server->connections, connection, next)
		connection_free(connection);
	for (unsigned i = 0; i < server->n_listening; i++)
		sd_event_source_disable_unref(server->listening[i]);
	sd_event_source_disable_unref(server->pause);
	free(server);
	return NULL;
}
