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
#include "proto/timer.h"
#include "transfer.h"

/* Bytes, sealed: the identities of QUESTIONS_MAX programs, with 1024 groups each. */
#define ANSWERS_TEXT_MAX (768 * 1024)
#define TRANSFER_MS 10000

struct exchange {
	struct job job; /* CLOSING and OPENING */
	struct exchange_tools *tools;
	const struct exchange_ends *ends;
	struct message_head head;
	size_t n; /* questions */
	sd_event_source *timer; /* the deadline */
	exchange_done *done; /* NULL: it was freed meanwhile, and the end of the job frees it */
	void *userdata;
	bool has_job;
	struct transfer *transfer; /* from SENDING on */
	bool is_sent;
	bool was_kept; /* the connection; it can have ended, and then the questions are sealed and sent once more */
	bool dials; /* the questions go through a new connection */
	struct gate_text gate_text;

	/* While there is a job, these are the thread's: */
	const struct seal *seal;
	char *questions;
	char *sealed; /* the questions, or the answers */
	bool has_seal; /* of the answers: it is right */
	struct answers answers;
	char error[SEAL_ERROR_MAX]; /* empty: the job was done */
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
	struct exchange *exchange = (struct exchange *)job;

	exchange->sealed = seal_close(exchange->seal, exchange->questions, exchange->error);
}

static void run_opening(struct job *job)
{
	struct exchange *exchange = (struct exchange *)job;
	char *text = seal_open(exchange->seal, exchange->sealed, exchange->error);

	exchange->has_seal = text;
	if (text)
		message_read_answers(text, &exchange->head, exchange->n, &exchange->answers,
				     exchange->error);
	free(text);
}

/* ---- in the loop's thread ---- */

static bool start_job(struct exchange *exchange, void (*run)(struct job *job),
		      void (*done)(struct job *job))
{
	exchange->job.run = run;
	exchange->job.done = done;
	exchange->has_job = work_add(exchange->tools->work, &exchange->job) == 0;
	return exchange->has_job;
}

/* The job has ended. False: the exchange was freed meanwhile. */
static bool end_job(struct exchange *exchange)
{
	exchange->has_job = false;
	if (exchange->done)
		return true;
	exchange_free(exchange);
	return false;
}

static void refuse(struct exchange *exchange, const char *why)
{
	refusals_print(&exchange->tools->refusals, "answers", exchange->head.to, why);
	fail(exchange, "the answer of %s was refused: %s", exchange->head.to, why);
}

static void done_opening(struct job *job)
{
	struct exchange *exchange = (struct exchange *)job;

	if (!end_job(exchange))
		return;
	if (exchange->has_seal)
		gate_was_right(&exchange->tools->gate, &exchange->gate_text);
	if (*exchange->error) {
		refuse(exchange, exchange->error);
		return;
	}
	kept_put(&exchange->tools->kept, exchange->ends, exchange->transfer);
	exchange->transfer = NULL;
	exchange->done(exchange->userdata, &exchange->answers, /* why= */ NULL);
}

static void done_closing(struct job *job);

/*
 * The connection that was kept has ended; others that are kept may have, too. The questions get a new seal, because the other
 * host may have opened the old one.
 */
static void ask_again(struct exchange *exchange)
{
	exchange->was_kept = exchange->is_sent = false;
	exchange->dials = true;
	exchange->transfer = transfer_free(exchange->transfer);
	kept_close(&exchange->tools->kept, exchange->ends);
	if (!start_job(exchange, run_closing, done_closing))
		fail(exchange, "too many questions are being sealed already");
}

/* The answers are here. */
static void open_answers(struct exchange *exchange)
{
	const struct sockaddr *peer = (const struct sockaddr *)&exchange->ends->peer;
	const char *why;

	exchange->sealed = transfer_take(exchange->transfer);
	why = gate_check(&exchange->tools->gate, exchange->sealed, exchange->was_kept ? NULL : peer,
			 &exchange->gate_text);
	if (why)
		refuse(exchange, why);
	else if (!start_job(exchange, run_opening, done_opening))
		fail(exchange, "too many answers are being read already");
}

static void on_transfer(void *userdata, int r)
{
	struct exchange *exchange = userdata;
	const char *to = exchange->head.to;

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

/* The other host closes connections that do not send their questions at once, if it has too many. */
static int connect_transfer(struct exchange *exchange)
{
	int fd;

	if (!exchange->dials)
		exchange->transfer = kept_take(&exchange->tools->kept, exchange->ends);
	exchange->was_kept = exchange->transfer;
	/* The exchange has a deadline of its own, which comes first. */
	if (exchange->was_kept) {
		transfer_pass(exchange->transfer, TRANSFER_MS, on_transfer, exchange);
		return 0;
	}
	fd = connect_to(exchange->ends);
	return fd < 0 ? fd :
			transfer_new(&exchange->transfer, exchange->tools->loop, fd, TRANSFER_MS,
				     on_transfer, exchange);
}

static void done_closing(struct job *job)
{
	struct exchange *exchange = (struct exchange *)job;
	int r;

	if (!end_job(exchange))
		return;
	if (!exchange->sealed) {
		fail(exchange, "%s", exchange->error);
		return;
	}
	r = connect_transfer(exchange);
	if (r < 0) {
		fail(exchange, "cannot connect from %s to %s: %s", exchange->head.from,
		     exchange->head.to, strerror(-r));
		return;
	}
	transfer_send(exchange->transfer, exchange->sealed);
	exchange->sealed = NULL;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct exchange *exchange = userdata;

	if (exchange->has_job)
		fail(exchange, "munged has not %s in time",
		     exchange->transfer ? "opened the seal of the answer" : "sealed the question");
	else
		fail(exchange, "rdmabroker-peerd of %s has not answered in time",
		     exchange->head.to);
	return 0;
}

int exchange_new(struct exchange **ret, struct exchange_tools *tools,
		 const struct exchange_ends *ends, const struct question *questions, size_t n,
		 int64_t until_ms, exchange_done *done, void *userdata)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));
	int64_t ms = until_ms - now_ms();
	int r;

	if (!exchange)
		return -ENOMEM;
	exchange->tools = tools;
	exchange->seal = tools->seal;
	exchange->ends = ends;
	exchange->n = n;
	exchange->done = done;
	exchange->userdata = userdata;
	message_address((const struct sockaddr *)&ends->local, exchange->head.from);
	message_address((const struct sockaddr *)&ends->peer, exchange->head.to);
	r = message_set_nonce(&exchange->head) ? 0 : -EIO;
	if (r == 0)
		r = timer_new(&exchange->timer, tools->loop, 1000, on_timer, exchange);
	if (r == 0)
		r = timer_start(exchange->timer, ms > 0 ? (uint64_t)ms * 1000 : 0);
	if (r == 0 && !(exchange->questions = message_ask(&exchange->head, questions, n)))
		r = -ENOMEM;
	if (r == 0 && !start_job(exchange, run_closing, done_closing))
		r = -EAGAIN;
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
	exchange->transfer = transfer_free(exchange->transfer);
	exchange->timer = sd_event_source_disable_unref(exchange->timer);
	exchange->done = NULL;
	if (exchange->has_job)
		return NULL;
	answers_done(&exchange->answers);
	free(exchange->questions);
	free(exchange->sealed);
	free(exchange);
	return NULL;
}
