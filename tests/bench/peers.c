/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/stats.h"
#include "tests/unit/peerd.h"

/*
 * Measures what it costs to know who the peer is: the real rdmabroker-peerd and the real munged, and a daemon on the
 * fake fabric, on the loopback of this machine. Both hosts are this one, so the processors do the work of both.
 */

#define OTHER "10.9.0.7"
#define PLAIN_PORT 7479 /* no rule needs to know who the peer is */
#define PEER_PORT 7471
#define SECONDS 3
#define THREADS_MAX 16
#define ROUNDS 500
#define CROWD 1000

static struct rdmabroker *server, *client;

/* ---- the answering side ---- */

static struct asking {
	pthread_t thread;
	size_t n_questions; /* in a message */
	bool keeps; /* its connection; otherwise each message has a connection of its own */
	int fd;
	double until;
	double times[1 << 16]; /* of messages */
	size_t n;
} asking[THREADS_MAX];

static char *make_questions(size_t n)
{
	const struct message_head head = make_head(HOST, HOST);
	struct question questions[QUESTIONS_MAX];

	for (size_t i = 0; i < n; i++)
		questions[i] = (struct question){ .listens = true,
						  .ps = RDMABROKER_PS_TCP,
						  .port = PLAIN_PORT };
	return message_ask(&head, questions, n);
}

/* As the other host's rdmabroker-peerd does: seals, sends, receives, opens the seal. */
static void ask_once(struct asking *a)
{
	char *questions = make_questions(a->n_questions), *sealed = seal_text(questions), *answer,
	     *text, error[SEAL_ERROR_MAX];

	if (a->fd < 0)
		a->fd = dial_peerd(HOST);
	send_text(a->fd, sealed);
	answer = receive_text(a->fd);
	text = answer ? seal_open(&peerd_test.seal, answer, error) : NULL;
	if (!text || !strstr(text, "\"uid\""))
		fprintf(stderr, "no answer\n");
	if (!a->keeps) {
		close(a->fd);
		a->fd = -1;
	}
	free(text);
	free(answer);
	free(sealed);
	free(questions);
}

static void *ask(void *arg)
{
	struct asking *a = arg;

	while (now_us() < a->until && a->n < sizeof(a->times) / sizeof(a->times[0])) {
		double begin = now_us();

		ask_once(a);
		a->times[a->n++] = now_us() - begin;
	}
	if (a->fd >= 0)
		close(a->fd);
	return NULL;
}

static void measure_answers(size_t n_threads, size_t n_questions, bool keeps)
{
	double until = now_us() + SECONDS * 1e6, *all = NULL;
	size_t n = 0;

	for (size_t i = 0; i < n_threads; i++) {
		asking[i].n_questions = n_questions;
		asking[i].keeps = keeps;
		asking[i].fd = -1;
		asking[i].until = until;
		asking[i].n = 0;
		ck_assert_int_eq(pthread_create(&asking[i].thread, NULL, ask, &asking[i]), 0);
	}
	for (size_t i = 0; i < n_threads; i++) {
		pthread_join(asking[i].thread, NULL);
		all = realloc(all, (n + asking[i].n) * sizeof(*all));
		ck_assert_ptr_nonnull(all);
		memcpy(all + n, asking[i].times, asking[i].n * sizeof(*all));
		n += asking[i].n;
	}
	printf("  %9zu  %9zu  %10s  %10.0f  %8.0f  %8.0f\n", n_threads, n_questions,
	       keeps ? "kept" : "new", (double)(n * n_questions) / SECONDS, percentile(all, n, 50),
	       percentile(all, n, 99));
	free(all);
}

/* ---- the whole way ---- */

static void begin(struct rdmabroker_id *id)
{
	static uint32_t qpn = 16;
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = ++qpn };

	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
}

static void finish(void)
{
	struct rdmabroker_event *event = expect(server, RDMABROKER_EVENT_CONNECT_REQUEST);

	rdmabroker_destroy_id(event->id);
	rdmabroker_free_event(event);
}

/* The time from the connect until the server has the request. */
static double connect_once(uint16_t port)
{
	struct rdmabroker_id *id = resolve(client, port);
	double start = now_us(), took;

	begin(id);
	finish();
	took = now_us() - start;
	rdmabroker_free_event(expect(client, RDMABROKER_EVENT_REJECTED));
	rdmabroker_destroy_id(id);
	return took;
}

static void measure_connects(void)
{
	static double plain[ROUNDS], peer[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		plain[i] = connect_once(PLAIN_PORT);
		peer[i] = connect_once(PEER_PORT);
	}
	printf("\nA connect, until the server has the request (us), %d of each in turn:\n"
	       "                      p50       p99\n"
	       "  no peer rule   %8.0f  %8.0f\n"
	       "  peer-same user %8.0f  %8.0f\n",
	       ROUNDS, percentile(plain, ROUNDS, 50), percentile(plain, ROUNDS, 99),
	       percentile(peer, ROUNDS, 50), percentile(peer, ROUNDS, 99));
}

/* CROWD requests at once, and then one that needs no answer. */
static void measure_crowd(void)
{
	static struct rdmabroker_id *ids[CROWD];
	struct rdmabroker_id *plain = resolve(client, PLAIN_PORT);
	double start, until_plain = 0, all;

	for (int i = 0; i < CROWD; i++)
		ids[i] = resolve(client, PEER_PORT);
	start = now_us();
	for (int i = 0; i < CROWD; i++)
		begin(ids[i]);
	begin(plain);
	for (int i = 0; i < CROWD + 1; i++) {
		struct rdmabroker_event *event = expect(server, RDMABROKER_EVENT_CONNECT_REQUEST);

		if (rdmabroker_get_local_port(event->id) == PLAIN_PORT)
			until_plain = now_us() - start;
		rdmabroker_free_event(event);
	}
	all = now_us() - start;
	printf("\n%d connects at once with a peer rule: all are decided after %.0f ms, the one without such a rule, "
	       "which comes last, after %.0f ms\n",
	       CROWD, all / 1e3, until_plain / 1e3);
}

START_TEST(measure)
{
	set_policy(
		"allow session\nallow listen\nallow connect\nallow accept port 7471 peer-same user\n"
		"allow accept port 7479\n");
	start_peerd();
	server = open_session(0);
	client = open_session(0);
	start_listening_with(server, PEER_PORT,
			     2 * CROWD); /* one address can have half of the backlog */
	start_listening(server, PLAIN_PORT);
	printf("rdmabroker-peerd answers, for %d s each; a message is sealed, sent, answered and opened:\n"
	       "    threads  questions  connection   answers/s  us: p50       p99\n"
	       "            in a message\n",
	       SECONDS);
	measure_answers(1, 1, /* keeps= */ false);
	measure_answers(1, 1, /* keeps= */ true);
	measure_answers(1, QUESTIONS_MAX, /* keeps= */ true);
	measure_answers(8, 1, /* keeps= */ false);
	measure_answers(8, 1, /* keeps= */ true);
	measure_answers(8, QUESTIONS_MAX, /* keeps= */ true);
	measure_connects();
	measure_crowd();
	rdmabroker_close(server);
	rdmabroker_close(client);
}
END_TEST

PEERD_MAIN("bench-peers", set_up_peerd, tear_down_peerd, measure)
