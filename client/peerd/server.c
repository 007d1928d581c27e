/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "gate.h"
#include "proto/timer.h"
#include "refusals.h"
#include "server.h"
#include "transfer.h"

#define ACCEPT_MAX 32 /* in one turn of the loop */
#define PAUSE_MS 200 /* without descriptors or memory */
#define QUESTIONS_TEXT_MAX (16 * 1024) /* bytes, sealed: several times what QUESTIONS_MAX take */

enum state { RECEIVING, WORKING, SENDING, KEPT, ANY_STATE };

struct connection {
	struct job job; /* in the state WORKING */
	struct server *server; /* NULL: it was closed meanwhile, and the end of the job frees it */
	struct transfer *transfer;
	enum state state;
	struct sockaddr_storage address; /* the other host's */
	struct gate_text gate_text;
	struct connection *prev, *next; /* server.connections */

	/* While it is WORKING, these are the thread's: */
	const struct seal *seal;
	struct brokerlink *link;
	char from[64], to[64]; /* the addresses: the other host's, and this one's */
	char *questions; /* sealed */
	bool is_right; /* their seal */
	char *answers; /* sealed; NULL: ERROR says why there are none */
	char error[SEAL_ERROR_MAX];
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
	struct refusals refusals;
	struct gate gate;
};

static void connection_free(struct connection *connection)
{
	if (connection->server) {
		transfer_free(connection->transfer);
		DL_DELETE(connection->server->connections, connection);
		connection->server = NULL;
	}
	if (connection->state == WORKING)
		return;
	free(connection->questions);
	free(connection->answers);
	free(connection);
}

static void refuse(struct connection *connection, const char *why)
{
	refusals_print(&connection->server->refusals, "questions", connection->from, why);
	connection_free(connection);
}

/* ---- in a thread ---- */

static json_t *find_answers(struct brokerlink *link, const struct message_head *head,
			    const struct question *questions, size_t n)
{
	json_t *answers = json_array();
	bool hangs = false;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(answers, brokerlink_find(link, head, &questions[i], &hangs));
	if (json_array_size(answers) == n)
		return answers;
	json_decref(answers);
	return NULL;
}

/* The answers to the questions in TEXT. NULL: the connection's error says why there are none. */
static char *answer_text(struct connection *connection, const char *text)
{
	struct question questions[QUESTIONS_MAX];
	struct message_head head;
	const char *why = "out of memory";
	char *ret = NULL;
	json_t *answers;
	size_t n;

	if (!message_read_questions(text, &head, questions, &n, connection->error))
		return NULL;
	/* So nobody learns anything about other hosts' connections, and a seal for another host is of no use here. */
	if (strcmp(head.from, connection->from) != 0)
		why = "its sender is not the host that has sent it";
	else if (strcmp(head.to, connection->to) != 0)
		why = "it is for another host or another address";
	else if ((answers = find_answers(connection->link, &head, questions, n)))
		ret = message_answer(&head, answers);
	if (!ret)
		strcpy(connection->error, why);
	return ret;
}

static void run(struct job *job)
{
	struct connection *connection = (struct connection *)job;
	char *text = seal_open(connection->seal, connection->questions, connection->error);
	char *answers = text ? answer_text(connection, text) : NULL;

	connection->is_right = text;
	if (answers)
		connection->answers = seal_close(connection->seal, answers, connection->error);
	free(answers);
	free(text);
}

/* ---- in the loop's thread ---- */

static void done(struct job *job)
{
	struct connection *connection = (struct connection *)job;

	connection->state = SENDING;
	if (!connection->server) {
		connection_free(connection);
		return;
	}
	if (connection->is_right)
		gate_was_right(&connection->server->gate, &connection->gate_text);
	if (connection->answers) {
		transfer_send(connection->transfer, connection->answers);
		connection->answers = NULL;
	} else {
		refuse(connection, connection->error);
	}
}

/* All questions are here. */
static void answer(struct connection *connection)
{
	struct server *server = connection->server;
	bool is_kept = connection->state == KEPT;
	const char *why;

	free(connection->questions);
	connection->questions = transfer_take(connection->transfer);
	why = gate_check(&server->gate, connection->questions,
			 is_kept ? NULL : (const struct sockaddr *)&connection->address,
			 &connection->gate_text);
	if (!why && work_add(server->work, &connection->job) < 0)
		why = "too many questions wait";
	if (why) {
		refuse(connection, why);
		return;
	}
	if (is_kept)
		transfer_set_timeout(connection->transfer, SERVER_MS);
	connection->state = WORKING;
}

/* Each user of this host can connect from any address of 127.0.0.0/8, so they count as one. */
static bool is_same_address(const char *a, const char *b)
{
	return strcmp(a, b) == 0 || (strncmp(a, "127.", 4) == 0 && strncmp(b, "127.", 4) == 0);
}

/*
 * The oldest connection that is in STATE, and of the address FROM; NULL: of any. *RET_N: how many there are. NULL: there is
 * none.
 */
static struct connection *find_oldest(const struct server *server, enum state state,
				      const char *from, unsigned *ret_n)
{
	struct connection *connection, *oldest = NULL;

	*ret_n = 0;
	DL_FOREACH(server->connections, connection) {
		if ((state != ANY_STATE && connection->state != state) ||
		    (from && !is_same_address(connection->from, from)))
			continue;
		if (!oldest)
			oldest = connection;
		++*ret_n;
	}
	return oldest;
}

/* Of those that are KEPT, of the address FROM or of all, at most MAX stay. */
static void limit_kept(struct server *server, const char *from, unsigned max)
{
	unsigned n;
	struct connection *oldest = find_oldest(server, KEPT, from, &n);

	if (n > max)
		connection_free(oldest);
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
 * Makes room for a connection from FROM, if there are MAX already: of this address, or of all, if OF is NULL. The oldest that
 * is RECEIVING is closed. Any user of another host can open connections from the address of its helper, but the helper sends
 * its questions at once. False: there is no room, because of WHY.
 */
static bool make_room(struct server *server, const char *from, const char *of, unsigned max,
		      const char *why)
{
	struct connection *oldest;
	char text[128];
	unsigned n;

	find_oldest(server, ANY_STATE, of, &n);
	if (n < max)
		return true;
	oldest = find_oldest(server, RECEIVING, of, &n);
	if (!oldest) {
		refusals_print(&server->refusals, "connection", from, why);
		return false;
	}
	snprintf(text, sizeof(text), "%s, and this one had not sent its questions", why);
	refuse(oldest, text);
	return true;
}

/* Takes over FD. */
static void add(struct server *server, int fd, const struct sockaddr_storage *from)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	struct sockaddr_storage to;
	socklen_t len = sizeof(to);

	if (!connection) {
		close(fd);
		return;
	}
	message_address((const struct sockaddr *)from, connection->from);
	if (getsockname(fd, (struct sockaddr *)&to, &len) < 0 ||
	    !make_room(server, connection->from, connection->from,
		       SERVER_CONNECTIONS_OF_ADDRESS_MAX, "too many connections of this address") ||
	    !make_room(server, connection->from, /* of= */ NULL, SERVER_CONNECTIONS_MAX,
		       "too many connections")) {
		close(fd);
		free(connection);
		return;
	}
	message_address((struct sockaddr *)&to, connection->to);
	connection->job = (struct job){ .run = run, .done = done };
	connection->server = server;
	connection->address = *from;
	connection->seal = server->seal;
	connection->link = server->link;
	DL_APPEND(server->connections, connection);
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
	timer_start(server->pause, PAUSE_MS * 1000);
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
	r = timer_new(&server->pause, loop, 1, on_pause, server);
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
