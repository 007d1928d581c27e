/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "queue.h"

/* A user's questions. */
struct turn {
	uid_t uid;
	struct ask *asks; /* the oldest first */
	struct turn *prev, *next; /* queue.turns */
};

static struct turn *get_turn(struct queue *queue, uid_t uid)
{
	struct turn *turn;

	DL_SEARCH_SCALAR(queue->turns, turn, uid, uid);
	if (turn)
		return turn;
	turn = calloc(1, sizeof(*turn));
	if (!turn)
		return NULL;
	turn->uid = uid;
	DL_APPEND(queue->turns, turn);
	return turn;
}

int queue_add(struct queue *queue, struct ask *ask)
{
	struct turn *turn = get_turn(queue, ask->uid);

	if (!turn)
		return -ENOMEM;
	DL_APPEND(turn->asks, ask);
	return 0;
}

bool queue_choose(struct queue *queue, bool (*may)(void *userdata, uid_t uid), void *userdata)
{
	struct turn *turn;

	DL_FOREACH(queue->turns, turn) {
		if (!may(userdata, turn->uid))
			continue;
		DL_DELETE(queue->turns, turn);
		DL_PREPEND(queue->turns, turn);
		return true;
	}
	return false;
}

/* The oldest question of TURN. */
static struct ask *take(struct queue *queue, struct turn *turn)
{
	struct ask *ask = turn->asks;

	DL_DELETE(turn->asks, ask);
	if (turn->asks)
		return ask;
	DL_DELETE(queue->turns, turn);
	free(turn);
	return ask;
}

struct ask *queue_take(struct queue *queue)
{
	struct turn *turn = queue->turns;

	if (!turn)
		return NULL;
	DL_DELETE(queue->turns, turn);
	DL_APPEND(queue->turns, turn);
	return take(queue, turn);
}

struct ask *queue_take_late(struct queue *queue, int64_t now)
{
	struct turn *turn;

	DL_FOREACH(queue->turns, turn)
		if (turn->asks->until_ms <= now)
			return take(queue, turn);
	return NULL;
}
