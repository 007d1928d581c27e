/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The asking side. The broker's questions about one other host are collected: a message has up to QUESTIONS_MAX of
 * them, by turns of their users, and two exchanges of messages with one host go on at a time. If one fails, its questions
 * are answered with the reason, and so are those that wait for the same host: the broker decides without knowing who the
 * peer is.
 */

#include "brokerlink.h"
#include "common/work.h"

/* The broker waits 2 s, and should get the reason before. */
#define ASKER_MS 1800
#define ASKER_EXCHANGES_OF_HOST_MAX 2
#define ASKER_EXCHANGES_MAX 512
/* Those whose first question was for one user, so that nobody can delay all others by peers that are silent. */
#define ASKER_EXCHANGES_OF_USER_MAX 128

struct asker;
struct seal;

/* PORT: of rdmabroker-peerd on other hosts. What is passed must outlive the asker, and WORK's last job. */
int asker_new(struct asker **ret, sd_event *loop, uint16_t port, const struct seal *seal,
	      struct work *work);
struct asker *asker_free(struct asker *asker); /* takes NULL; returns NULL */
/* Answers go to LINK. To be called before the first question. */
void asker_set_link(struct asker *asker, struct brokerlink *link);
void asker_ask(void *asker, const struct rdmabroker_notice *notice); /* a brokerlink_asked */
