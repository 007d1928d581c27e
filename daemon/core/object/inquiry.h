/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Inquiries: who is the peer? The session of a helper, rdmabroker-peerd, gets each inquiry as a notice, asks the broker
 * of the peer's host, and answers.
 *
 * There is one helper at a time. If it goes away, the next one gets the inquiries that are open. At its deadline, an
 * inquiry ends without an answer. If no helper was there for some time, inquiries end at once.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "util/list.h"

struct core;
struct inquiry;
struct inquiry_share;
struct peerid;
struct policy_question;
struct session;
struct sockaddr;

#define INQUIRY_MS 2000 /* how long to wait for an answer */
#define INQUIRIES_MAX 8192
#define INQUIRIES_OF_USER_MAX \
	2048 /* half of them about one address, so that a silent host leaves the rest to others */
#define HELPER_RETURNS_MS \
	10000 /* for so long after a start, or after the end of a helper, the next one is awaited */

struct inquiries {
	uid_t helper_uid; /* (uid_t)-1: nobody may be the helper */
	bool has_door; /* there is a socket for helpers */
	struct session *helper; /* NULL: there is none */
	uint64_t without_helper_ms; /* CLOCK_MONOTONIC: since when, if there is none */
	struct inquiry *open; /* a uthash table, by number */
	struct inquiry_share *shares; /* a uthash table, by user and peer */
	struct list by_age; /* inquiry.link, the oldest first */
	sd_event_source *timer;
	uint64_t last; /* number of the newest inquiry */
	unsigned wait_ms; /* INQUIRY_MS; only a test has another value */
};

int inquiries_init(struct inquiries *inquiries, sd_event *loop);
void inquiries_done(
	struct inquiries *inquiries); /* to be called when there is no inquiry any more */

/* UID: the user of helpers from now on; (uid_t)-1: none. A helper of another user ends. */
void inquiries_set_helper_uid(struct core *core, uid_t uid);
/* There is a socket for helpers. */
void inquiries_set_door(struct core *core);
/* What an admin has to do so that peers can be asked, as a sentence; NULL: nothing. */
const char *inquiries_find_fault(const struct core *core);

/* SESSION is the helper from now on; an earlier one ends. Returns 0 or -ENOMEM. */
int inquiries_serve(struct session *session);
/* SESSION ends. If it is the helper, there is none from now on. */
void inquiries_forget(struct session *session);

/*
 * Asks who the peer of QUESTION is, which policy cannot decide without that. PEER_QPN: its QP number; 0: not known.
 * DONE gets the answer, which it has to free; NULL: out of memory. It is not called from within this call.
 *
 * Returns NULL if nobody can be asked; *RET_UNKNOWN, which the caller has to free, says why (NULL: out of memory).
 */
struct inquiry *inquiry_new(struct session *session, const struct policy_question *question,
			    uint32_t peer_qpn, void (*done)(void *userdata, struct peerid *answer),
			    void *userdata, struct peerid **ret_unknown);
const struct sockaddr *inquiry_get_peer(const struct inquiry *inquiry);
/* INQUIRY is SESSION's from now on, and done() gets USERDATA. INQUIRY can be NULL. */
void inquiry_move(struct inquiry *inquiry, struct session *session, void *userdata);
/* Forgets INQUIRY without calling its done(). Takes NULL; returns NULL. */
struct inquiry *inquiry_free(struct inquiry *inquiry);
/* The answer to inquiry NUMBER, which is taken. Returns false if there is no such inquiry (any more). */
bool inquiry_answer(struct core *core, uint64_t number, struct peerid *answer);
