/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * One exchange with rdmabroker-peerd of another host: a message with questions, and one with the answers.
 *
 *     CLOSING   a thread seals the questions
 *     SENDING   a connection is being opened, unless one is kept, and the questions are sent
 *     RECEIVING the answers
 *     OPENING   a thread opens their seal
 *
 * If a connection that was kept has ended, it begins once more, and opens one.
 */

#include <netinet/in.h>

#include "common/work.h"
#include "gate.h"
#include "kept.h"
#include "message.h"
#include "refusals.h"
#include "seal.h"

struct exchange;

/* What all exchanges of the program use. */
struct exchange_tools {
	sd_event *loop;
	const struct seal *seal;
	struct work *work;
	struct refusals refusals;
	struct gate gate; /* for answers */
	struct kept kept;
};

/* With whom. Those of the same two hosts have the same bytes: those that an address does not need are 0. */
struct exchange_ends {
	struct sockaddr_storage local; /* without a port */
	struct sockaddr_storage peer; /* with the helper's port */
};

#define EXCHANGE_WHY_MAX 160 /* as in rdmabroker.proto */

/* ANSWERS: to all questions, in their order; NULL: there are none, because of WHY. It has to free the exchange. */
typedef void exchange_done(void *userdata, const struct answers *answers, const char *why);

/*
 * Begins. ENDS must outlive the exchange. DONE is not called from within this call. UNTIL_MS: the deadline, of now_ms(). Returns 0 or a negative errno; -EAGAIN:
 * too much is going on already.
 */
int exchange_new(struct exchange **ret, struct exchange_tools *tools,
		 const struct exchange_ends *ends, const struct question *questions, size_t n,
		 int64_t until_ms, exchange_done *done, void *userdata);
struct exchange *exchange_free(struct exchange *exchange); /* takes NULL; returns NULL */
