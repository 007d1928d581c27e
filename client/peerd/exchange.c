/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exchange.h"
#include "proto/addr.h"
#include "proto/clock.h"
#include "transfer.h"

/* Bytes, sealed: the identities of QUESTIONS_MAX programs, with 1024 groups each. */
#define ANSWERS_TEXT_MAX (768 * 1024)
#define TRANSFER_MS 10000

struct exchange {
	struct exchange_tools *tools;
	struct exchange_ends ends;
	struct message_head head;
	size_t n; /* questions */
	sd_event_source *timer; /* the deadline */
	exchange_done *done;
	void *userdata;
	struct sealing *sealing; /* CLOSING and OPENING */
	struct transfer *transfer; /* from SENDING on */
	bool is_sent;
	char *questions;
	bool was_kept; /* the connection; it can have ended, and then the questions are sealed and sent once more */
	bool dials; /* the questions go through a new connection */
};

/* What a thread does: it seals TEXT, or opens the seal. */
struct sealing {
	struct job job;
	struct exchange *exchange; /* NULL: it was freed meanwhile */
	const struct seal *seal;
	struct message_head head;
	size_t n;
	char *text, *result;
	struct gate_text gate_text;
	struct answers answers; /* in RESULT */
	bool is_right;
	char error[SEAL_ERROR_MAX];
};

__attribute__((format(printf, 2, 3))) static void fail(struct exchange *exchange, const char *fmt,
						       ...)
{
	char why[EXCHANGE_WHY_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	exchange->done(exchange->userdata, /* answers= */ NULL, why);
}

/* ---- in a thread ---- */

static void run_closing(struct job *job)
{
	struct sealing *sealing = (struct sealing *)job;

	sealing->result = seal_close(sealing->seal, sealing->text, sealing->error);
	sealing->is_right = sealing->result;
}

static void run_opening(struct job *job)
{
	struct sealing *sealing = (struct sealing *)job;

	sealing->result = seal_open(sealing->seal, sealing->text, sealing->error);
	sealing->is_right = sealing->result &&
			    message_read_answers(sealing->result, &sealing->head, sealing->n,
						 &sealing->answers, sealing->error);
}

/* ---- in the loop's thread ---- */

static void sealing_free(struct sealing *sealing)
{
	answers_done(&sealing->answers);
	free(sealing->text);
	free(sealing->result);
	free(sealing);
}

/* TEXT is taken. NULL: out of memory. */
static int start_sealing(struct exchange *exchange, char *text, void (*run)(struct job *job),
			 void (*done)(struct job *job))
{
	struct sealing *sealing = text ? calloc(1, sizeof(*sealing)) : NULL;

	if (!sealing) {
		free(text);
		return -ENOMEM;
	}
	sealing->job.run = run;
	sealing->job.done = done;
	sealing->exchange = exchange;
	sealing->seal = exchange->tools->seal;
	sealing->head = exchange->head;
	sealing->n = exchange->n;
	sealing->text = text;
	if (work_add(exchange->tools->work, &sealing->job) < 0) {
		sealing_free(sealing);
		return -EAGAIN;
	}
	exchange->sealing = sealing;
	return 0;
}

static void done_opening(struct job *job)
{
	struct sealing *sealing = (struct sealing *)job;
	struct exchange *exchange = sealing->exchange;

	if (exchange && sealing->result)
		gate_was_right(&exchange->tools->gate, &sealing->gate_text);
	if (exchange)
		exchange->sealing = NULL;
	if (exchange && sealing->is_right) {
		kept_put(&exchange->tools->kept, &exchange->ends, exchange->transfer);
		exchange->transfer = NULL;
		exchange->done(exchange->userdata, &sealing->answers, /* why= */ NULL);
	} else if (exchange) {
		refusals_print(&exchange->tools->refusals, "answers", exchange->ends.to,
			       sealing->error);
		fail(exchange, "the answer of %s was refused: %s", exchange->ends.to,
		     sealing->error);
	}
	sealing_free(sealing);
}

static int seal_questions(struct exchange *exchange);

/*
 * The connection that was kept has ended; others that are kept may have, too. The questions get a new seal, because the other
 * host may have opened the old one.
 */
static void ask_again(struct exchange *exchange)
{
	exchange->was_kept = exchange->is_sent = false;
	exchange->dials = true;
	exchange->transfer = transfer_free(exchange->transfer);
	kept_close(&exchange->tools->kept, &exchange->ends);
	if (seal_questions(exchange) < 0)
		fail(exchange, "too many questions are being sealed already");
}

/* The answers are here. */
static void open_answers(struct exchange *exchange)
{
	const struct sockaddr *peer = (const struct sockaddr *)&exchange->ends.peer;
	const char *to = exchange->ends.to, *why;
	char *text = transfer_take(exchange->transfer);
	struct gate_text gate_text;

	why = gate_check(&exchange->tools->gate, text, exchange->was_kept ? NULL : peer,
			 &gate_text);
	if (why) {
		free(text);
		refusals_print(&exchange->tools->refusals, "answers", to, why);
		fail(exchange, "the answer of %s was refused: %s", to, why);
	} else if (start_sealing(exchange, text, run_opening, done_opening) < 0) {
		fail(exchange, "too many answers are being read already");
	} else {
		exchange->sealing->gate_text = gate_text;
	}
}

static void on_transfer(void *userdata, int r)
{
	struct exchange *exchange = userdata;
	const char *to = exchange->ends.to;

	if (r < 0 && r != -EMSGSIZE && exchange->was_kept) {
		ask_again(exchange);
	} else if (r == -ECONNRESET && exchange->is_sent) {
		fail(exchange, "rdmabroker-peerd of %s does not answer; the journal there says why",
		     to);
	} else if (r == -EMSGSIZE) {
		fail(exchange, "the answer of %s was refused: it is too long or empty", to);
	} else if (r < 0) {
		fail(exchange, "cannot reach rdmabroker-peerd of %s: %s", to, strerror(-r));
	} else if (!exchange->is_sent) {
		exchange->is_sent = true;
		transfer_receive(exchange->transfer, ANSWERS_TEXT_MAX);
	} else {
		open_answers(exchange);
	}
}

/* Connects from the address that the RDMA connection has: the other host compares it. */
static int connect_to(const struct exchange_ends *ends)
{
	const int on = 1;
	const struct sockaddr *local = (const struct sockaddr *)&ends->local;
	const struct sockaddr *peer = (const struct sockaddr *)&ends->peer;
	int fd = socket(peer->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, local, addr_len(local)) == 0 &&
	    (connect(fd, peer, addr_len(peer)) == 0 || errno == EINPROGRESS))
		return fd;
	r = -errno;
	close(fd);
	return r;
}

/* Takes TEXT. The other host closes connections that do not send their questions at once, if it has too many. */
static void dial(struct exchange *exchange, char *text)
{
	const struct exchange_ends *ends = &exchange->ends;
	int fd = connect_to(ends), r = fd;

	/* The exchange has a deadline of its own, which comes first. */
	if (fd >= 0)
		r = transfer_new(&exchange->transfer, exchange->tools->loop, fd, TRANSFER_MS,
				 on_transfer, exchange);
	if (r >= 0) {
		transfer_send(exchange->transfer, text);
		return;
	}
	free(text);
	fail(exchange, "cannot connect from %s to %s: %s", ends->from, ends->to, strerror(-r));
}

/* Takes TEXT. */
static void connect_and_send(struct exchange *exchange, char *text)
{
	if (!exchange->dials)
		exchange->transfer = kept_take(&exchange->tools->kept, &exchange->ends);
	if (!exchange->transfer) {
		dial(exchange, text);
		return;
	}
	exchange->was_kept = true;
	transfer_set_timeout(exchange->transfer, TRANSFER_MS);
	transfer_pass(exchange->transfer, on_transfer, exchange);
	transfer_send(exchange->transfer, text);
}

static void done_closing(struct job *job)
{
	struct sealing *sealing = (struct sealing *)job;
	struct exchange *exchange = sealing->exchange;
	char *result = sealing->result;

	if (exchange)
		exchange->sealing = NULL;
	if (exchange && sealing->is_right) {
		sealing->result = NULL;
		connect_and_send(exchange, result);
	} else if (exchange) {
		fail(exchange, "%s", sealing->error);
	}
	sealing_free(sealing);
}

static int seal_questions(struct exchange *exchange)
{
	return start_sealing(exchange, strdup(exchange->questions), run_closing, done_closing);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct exchange *exchange = userdata;

	if (exchange->sealing)
		fail(exchange, "munged has not %s in time",
		     exchange->transfer ? "opened the seal of the answer" : "sealed the question");
	else
		fail(exchange, "rdmabroker-peerd of %s has not answered in time",
		     exchange->ends.to);
	return 0;
}

static int start_timer(struct exchange *exchange, int64_t ms)
{
	int r = sd_event_add_time_relative(exchange->tools->loop, &exchange->timer, CLOCK_MONOTONIC,
					   ms > 0 ? (uint64_t)ms * 1000 : 0, 1000, on_timer,
					   exchange);

	return r < 0 ? r : 0;
}

int exchange_new(struct exchange **ret, struct exchange_tools *tools,
		 const struct exchange_ends *ends, const struct question *questions, size_t n,
		 int64_t until_ms, exchange_done *done, void *userdata)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));
	int r;

	if (!exchange)
		return -ENOMEM;
	exchange->tools = tools;
	exchange->ends = *ends;
	exchange->n = n;
	exchange->done = done;
	exchange->userdata = userdata;
	strcpy(exchange->head.from, ends->from);
	strcpy(exchange->head.to, ends->to);
	r = message_set_nonce(&exchange->head) ? 0 : -EIO;
	if (r == 0)
		r = start_timer(exchange, until_ms - now_ms());
	if (r == 0) {
		exchange->questions = message_ask(&exchange->head, questions, n);
		r = exchange->questions ? seal_questions(exchange) : -ENOMEM;
	}
	if (r < 0) {
		exchange_free(exchange);
		return r;
	}
	*ret = exchange;
	return 0;
}

struct exchange *exchange_free(struct exchange *exchange)
{
	if (!exchange)
		return NULL;
	if (exchange->sealing)
		exchange->sealing->exchange = NULL;
	transfer_free(exchange->transfer);
	free(exchange->questions);
	sd_event_source_disable_unref(exchange->timer);
	free(exchange);
	return NULL;
}
