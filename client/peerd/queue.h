/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The broker's questions about one other host that wait to be asked. The users whose programs wait for the answers take
 * turns, so that nobody's many questions delay those of others.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "message.h"

/* A question of the broker. Allocated by malloc(). */
struct ask {
	uint64_t number;
	int64_t until_ms; /* of now_ms() */
	uid_t uid; /* of the program that waits for the answer */
	struct question question;
	struct ask *prev, *next; /* turn.asks */
};

struct turn;

struct queue {
	/* One for each user with questions, in the order of their turns. NULL: the queue is empty. */
	struct turn *turns;
};

/* ASK is the user's last one. Returns 0 or, if the caller keeps it, -ENOMEM. */
int queue_add(struct queue *queue, struct ask *ask);
/* Gives the next turn to the first user who may have it. False: nobody may. */
bool queue_choose(struct queue *queue, bool (*may)(void *userdata, uid_t uid), void *userdata);
/* The oldest question of the user whose turn it is, which then is the next user's. NULL: the queue is empty. */
struct ask *queue_take(struct queue *queue);
/* A question whose time is over at NOW. NULL: there is none. */
struct ask *queue_take_late(struct queue *queue, int64_t now);
