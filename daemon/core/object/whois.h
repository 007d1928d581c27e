/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Who has this address? The question of another host's broker, which rdmabroker-peerd passes on, and of the daemon when
 * it takes requests over. While there is no helper (inquiry.h), and nothing is taken over, no index is kept.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct core;
struct id;
struct session;

struct whois_question {
	bool listens; /* who listens on LOCAL; false: who connects from LOCAL to PEER, or is connected */
	int port_space; /* enum rdma_port_space */
	/* addresses with their ports, as this host sees them; PEER is not used if LISTENS is set */
	const struct sockaddr *local, *peer;
	uint32_t qpn; /* as offered to PEER; 0: not known */
};

/* Begins to keep the index. Returns 0 or -ENOMEM. */
int whois_begin(struct core *core);
void whois_end(struct core *core);
/* ID has entered another state, or ends. Does nothing if there is no index. */
void whois_update(struct id *id);
void whois_remove(struct id *id);

/* The id that listens at LOCAL, or at a wildcard address with its port; NULL: none, or there is no index. */
struct id *whois_find_listener(const struct core *core, int port_space,
			       const struct sockaddr *local);
/* NULL: nobody has it, or it is not known which one of several. */
struct session *whois_find(const struct core *core, const struct whois_question *question);
