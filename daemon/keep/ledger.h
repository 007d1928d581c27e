/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The ledger: what the next process has to know about the sessions and their ids. It is a file in memory (memfd) that
 * systemd keeps, and that the daemon has mapped. The daemon writes each change in place, so that the ledger is true
 * whenever the daemon is killed.
 *
 * Layout: a header, then a table of sessions, then a table of ids. A row whose first member is 0 is free. Rows have a
 * fixed size. LEDGER_VERSION changes whenever the meaning or the place of a member changes; a process does not read a
 * ledger of another version, and then nothing is taken over.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define LEDGER_VERSION 1
#define LEDGER_SESSIONS 32768
#define LEDGER_IDS (1u << 20)
#define LEDGER_LEASES 8 /* leases of one session; further ones are not kept */
#define LEDGER_DEVICE_LEN 64
#define LEDGER_OPTIONS 4

struct store;
struct ledger;

struct ledger_lease {
	char device[LEDGER_DEVICE_LEN]; /* "": free */
	uint32_t n_opens;
	uint32_t reserved;
};

struct ledger_session {
	uint64_t number; /* 0: the row is free */
	uint64_t since_ms; /* CLOCK_MONOTONIC */
	uint32_t permits; /* enum session_permit; 0: Hello has not succeeded */
	/*
	 * The request that is being carried out: it was received, and not answered. OP is its Rdmabroker__Request
	 * case, ID the id that it is about, FIRST the id that it creates before (Request.first), with its port space and
	 * its options (RDMA_OPTION_ID_*); -1: not set.
	 */
	uint32_t serial, op, id, first;
	uint32_t first_ps;
	int16_t first_options[LEDGER_OPTIONS];
	uint8_t has_request;
	uint8_t quiet; /* the client expects no reply if the request succeeds */
	uint8_t proven; /* identity.proven */
	uint8_t watches; /* the session watches, so it cannot be taken over */
	uint32_t
		n_queued; /* packets that the client's socket has not accepted yet, and that are lost */
	char unit[256];
	uint8_t unit_known;
	uint8_t reserved[3];
	struct ledger_lease leases[LEDGER_LEASES];
};

struct ledger_id {
	uint64_t session; /* the number of its session; 0: the row is free */
	uint64_t since_ms; /* CLOCK_MONOTONIC */
	uint32_t handle;
	uint32_t qpn;
	uint32_t backlog; /* of a listener */
	int16_t tos_asked, tos, afonly, ack_timeout; /* -1: not set */
	uint16_t ps; /* enum rdma_port_space */
	uint8_t state; /* enum id_state */
	/* the type of the event, plus 1, that the kernel has given and the client has perhaps not got; 0: none */
	uint8_t untold;
	uint8_t passive, reuseaddr_asked, reuseaddr;
	uint8_t qp_timeout;
	uint8_t port_num;
	uint8_t told; /* of a connection request: the client knows of the id */
	uint8_t route; /* the route is to be resolved after the address, see ResolveAddr.route */
	uint8_t ahead; /* the same, see ResolveAddr.ahead */
	char device[LEDGER_DEVICE_LEN];
	struct sockaddr_storage local, peer; /* ss_family 0: none */
};

/*
 * Makes a new ledger and stores it. Without a store, *RET is NULL: nothing is kept, and the functions below do
 * nothing.
 */
int ledger_new(struct ledger **ret, struct store *store);
struct ledger *ledger_free(struct ledger *ledger); /* what is stored stays stored */

/* A free row, all zero; NULL: the table is full, or there is no ledger. Set its first member to use it. */
struct ledger_session *ledger_add_session(struct ledger *ledger);
struct ledger_id *ledger_add_id(struct ledger *ledger);
/* Frees the row. Takes NULL; returns NULL. */
struct ledger_session *ledger_remove_session(struct ledger *ledger, struct ledger_session *row);
struct ledger_id *ledger_remove_id(struct ledger *ledger, struct ledger_id *row);
/* The number of the last session that was begun, so that no number is used twice. */
void ledger_set_last_session(struct ledger *ledger, uint64_t number);

#define OLD_LEDGERS_MAX 16

/* What the previous process has left, copied. */
struct old_ledger {
	uint64_t last_session;
	uint64_t generation; /* 0: nothing was left */
	struct ledger_session *sessions;
	size_t n_sessions;
	struct ledger_id *ids; /* sorted by session and handle */
	size_t n_ids;
	unsigned old[OLD_LEDGERS_MAX]; /* the numbers of the ledgers in the store */
	unsigned n_old;
};

/*
 * Reads the newest ledger that is complete. -ENOENT: there is none; -EPROTO: it cannot be taken over, and *RET_WHY says
 * why: it is of another version, or damaged, or three processes have begun to take it over and none has come to the
 * end. *RET has to be freed with old_ledger_free(), also on failure.
 */
int old_ledger_read(struct old_ledger *ret, struct store *store, const char **ret_why);
void old_ledger_free(struct old_ledger *old);
/*
 * LEDGER is complete: all that is still needed of OLD is in it. Removes OLD from the store. LEDGER's generation is that
 * of OLD plus 1. To be called also if there was nothing to take over.
 */
void ledger_complete(struct ledger *ledger, const struct old_ledger *old);
uint64_t ledger_get_generation(const struct ledger *ledger); /* from 1; 0: there is no ledger */
