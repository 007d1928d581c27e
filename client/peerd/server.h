/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The answering side: other hosts connect, send questions, and get the answers. A connection is
 *
 *     RECEIVING --all questions are here--> WORKING --the answers are sealed--> SENDING --all was sent--> KEPT
 *     KEPT --all questions are here--> WORKING
 *
 * The other host can use a connection again while it is KEPT. What is not right closes it without an answer, because it
 * may come from anybody; the journal says why.
 */

#include "brokerlink.h"
#include "common/sockets.h"
#include "common/work.h"
#include "seal.h"

#define SERVER_MS 2000 /* after this a connection is closed, until it is KEPT */
#define SERVER_KEPT_MS 40000 /* the same, from when it is KEPT until all questions are here */
/*
 * Beyond that, the oldest that is RECEIVING is closed. Half of them can be KEPT; beyond that, the one is closed that is
 * KEPT for the longest time. So there always is room for new ones, and those do not drive out all that are KEPT.
 */
#define SERVER_CONNECTIONS_MAX 256
#define SERVER_CONNECTIONS_OF_ADDRESS_MAX 16 /* the same, for those of one address */

struct server;

/* SOCKETS listen. All that is passed must outlive the server, and WORK's last job. */
int server_new(struct server **ret, sd_event *loop, const struct sockets *sockets,
	       const struct seal *seal, struct brokerlink *link, struct work *work);
struct server *server_free(struct server *server); /* takes NULL; returns NULL */
