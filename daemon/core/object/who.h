/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What is known of who the peer of an id is, which only some rules need. */

struct inquiry;
struct ledger_id;
struct peerid;

enum who_state {
	WHO_UNASKED, /* nobody has asked, or the answer to INQUIRY has not come yet */
	WHO_ANSWERED, /* PEERID is the answer */
	WHO_LOST, /* a previous process of the daemon has asked, and the answer is lost */
};

struct who {
	enum who_state state;
	struct peerid *peerid; /* of ANSWERED; NULL: memory ran out */
	struct inquiry *inquiry; /* before ADDR_RESOLVED is handled; NULL: none */
};

void who_done(struct who *who);
void who_set(struct who *who, struct peerid *peerid); /* takes PEERID */
void who_forget(struct who *who); /* the peer will be another one */
/* Without the inquiry, which inquiry_move() moves. */
void who_move(struct who *to, struct who *from);
void who_save(const struct who *who, struct ledger_id *row);
void who_load(struct who *who, const struct ledger_id *row);
