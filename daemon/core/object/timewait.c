/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/object/held.h"
#include "core/object/id.h"
#include "core/object/timewait.h"
#include "proto/addr.h"
#include "proto/text.h"
#include "proto/timer.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/util.h"

/* The timer that ends time waits expires only at multiples of this, once for many. */
#define BATCH_USEC 50000
#define PASSED_A_TURN 1024 /* shares that the timer passes in one turn of the loop */
#define RESUMED_A_TURN 8 /* connects and accepts that are sent in one turn of the loop */

/* The key of a place: up to the end of the device's name. */
struct key {
	uint32_t qpn;
	uint8_t peer[ADDR_HOST_LEN];
	char device[64];
};

/* An owner who has a share of any place. */
struct timewait_owner {
	UT_hash_handle hh; /* timewaits.owners */
	uid_t uid;
	unsigned n; /* shares */
	struct list resuming; /* held.link: they can be sent */
	struct list link; /* timewaits.resuming, while RESUMING has entries */
};

/*
 * What an owner has in a place: any number of his connections that are in time wait, and any number of his connects and
 * accepts that wait.
 */
struct share {
	struct list link; /* place.shares */
	struct place *place;
	struct timewait_owner *owner;
	unsigned n_ids; /* ids in time wait, whose end the kernel reports */
	/* ids in time wait were destroyed, so the kernel will not report the end, and timewaits.timer ends it */
	bool has_orphans;
	uint64_t until_usec; /* the end of the last time wait */
	uint64_t others_until_usec; /* the same for other owners */
	struct list due; /* timewaits.queues; empty: timewaits.timer has passed the share */
	struct list held; /* held.link */
	sd_event_source *timer; /* ends the wait of HELD; NULL: nothing has waited yet */
};

/* A QP number of a device with a peer, with the time waits of it and what waits for their end. */
struct place {
	UT_hash_handle hh; /* timewaits.places */
	struct timewaits *timewaits;
	struct key key;
	struct list shares; /* share.link */
	struct share first; /* usually there is only one; no owner: it is not used */
};

static uint64_t now_usec(void)
{
	return clock_ns() / 1000;
}

static void run_soon(sd_event_source *timer)
{
	timer_start(timer, 0);
}

static struct timewait_owner *get_owner(struct timewaits *timewaits, uid_t uid)
{
	struct timewait_owner *owner;

	HASH_FIND(hh, timewaits->owners, &uid, sizeof(uid), owner);
	if (owner)
		return owner;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->uid = uid;
	list_init(&owner->resuming);
	list_init(&owner->link);
	HASH_ADD_OR_FREE(timewaits->owners, uid, owner);
	return owner;
}

static void put_owner(struct timewaits *timewaits, struct timewait_owner *owner)
{
	if (owner->n > 0 || !list_is_empty(&owner->resuming))
		return;
	list_remove(&owner->link);
	HASH_DEL(timewaits->owners, owner);
	free(owner);
}

static unsigned length_of(const struct key *key)
{
	return (unsigned)(offsetof(struct key, device) + strlen(key->device));
}

static struct place *get_place(struct timewaits *timewaits, const struct key *key)
{
	const unsigned length = length_of(key);
	struct place *place;
	unsigned hash;

	HASH_VALUE(key, length, hash);
	HASH_FIND_BYHASHVALUE(hh, timewaits->places, key, length, hash, place);
	if (place)
		return place;
	place = malloc(sizeof(*place));
	if (!place)
		return NULL;
	place->timewaits = timewaits;
	memcpy(&place->key, key, length);
	list_init(&place->shares);
	place->first.owner = NULL;
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, timewaits->places, &place->key, length, hash, place);
	if (!place->hh.tbl) {
		free(place);
		return NULL;
	}
	return place;
}

static void put_place(struct place *place)
{
	if (!list_is_empty(&place->shares))
		return;
	HASH_DEL(place->timewaits->places, place);
	free(place);
}

static bool is_active(const struct share *share)
{
	return share->n_ids > 0 || share->has_orphans;
}

/* Frees the share if nothing is in time wait or waits. The place can be freed with it. */
static void share_put(struct share *share)
{
	struct place *place = share->place;
	struct timewaits *timewaits = place->timewaits;
	bool is_first = share == &place->first;

	if (is_active(share) || !list_is_empty(&share->held))
		return;
	list_remove(&share->link);
	list_remove(&share->due);
	share->timer = sd_event_source_disable_unref(share->timer);
	share->owner->n--;
	timewaits->n--;
	put_owner(timewaits, share->owner);
	share->owner = NULL;
	put_place(place);
	if (!is_first)
		free(share);
}

static struct share *find_share(const struct place *place, uid_t uid)
{
	struct list *l;

	list_for_each(l, &place->shares) {
		struct share *share = container_of(l, struct share, link);

		if (share->owner->uid == uid)
			return share;
	}
	return NULL;
}

/* NULL: there is no memory. */
static struct share *get_share(struct timewaits *timewaits, const struct key *key, uid_t uid)
{
	struct place *place = get_place(timewaits, key);
	struct share *share = place ? find_share(place, uid) : NULL;
	struct timewait_owner *owner;

	if (share)
		return share;
	owner = place ? get_owner(timewaits, uid) : NULL;
	if (owner && !place->first.owner)
		share = &place->first;
	else if (owner)
		share = malloc(sizeof(*share));
	if (!share) {
		if (place)
			put_place(place);
		if (owner)
			put_owner(timewaits, owner);
		return NULL;
	}
	*share = (struct share){ .place = place, .owner = owner };
	owner->n++;
	timewaits->n++;
	list_init(&share->due);
	list_init(&share->held);
	list_insert(&place->shares, &share->link);
	return share;
}

/* Until when connects and accepts of SHARE's owner wait. A time that is over: they can be sent. */
static uint64_t get_until(const struct share *share)
{
	uint64_t until = 0;
	struct list *l;

	list_for_each(l, &share->place->shares) {
		const struct share *other = container_of(l, struct share, link);
		uint64_t usec = other == share ? other->until_usec : other->others_until_usec;

		if (is_active(other) && usec > until)
			until = usec;
	}
	return until;
}

/* SHARE's owner has to wait no more, or until another time. It can be freed. */
static void settle_share(struct share *share, uint64_t now)
{
	struct timewaits *timewaits = share->place->timewaits;
	uint64_t until = get_until(share);

	if (!list_is_empty(&share->held) && until > now) {
		timer_start_at(share->timer, until);
		return;
	}
	if (!list_is_empty(&share->held)) {
		list_move_all(&share->owner->resuming, &share->held);
		if (list_is_empty(&share->owner->link))
			list_insert(&timewaits->resuming, &share->owner->link);
		run_soon(timewaits->resumer);
	}
	share_put(share);
}

/* The time wait of one of the shares has ended, at least for some owners. The place can be freed. */
static void settle(struct place *place)
{
	uint64_t now = now_usec();
	struct list *l, *next;

	list_for_each_safe(l, next, &place->shares) {
		/* The last share takes the place with it. */
		bool is_last = next == &place->shares;

		settle_share(container_of(l, struct share, link), now);
		if (is_last)
			return;
	}
}

/* The connects and accepts of one owner are sent, some at a time: each is checked again from its beginning. */
static int on_resumer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct timewaits *timewaits = userdata;
	struct list *l, *first = list_first(&timewaits->resuming);
	struct timewait_owner *owner;

	if (!first)
		return 0;
	owner = container_of(first, struct timewait_owner, link);
	owner->n++;
	for (unsigned i = 0; i < RESUMED_A_TURN && (l = list_first(&owner->resuming)); i++) {
		list_remove(l);
		timewaits->resume(container_of(l, struct held, link)->id);
	}
	owner->n--;
	list_remove(&owner->link);
	if (!list_is_empty(&owner->resuming))
		list_insert(&timewaits->resuming, &owner->link);
	put_owner(timewaits, owner);
	if (!list_is_empty(&timewaits->resuming))
		run_soon(source);
	return 0;
}

static struct share *next_due(const struct list *queue)
{
	struct list *l = list_first(queue);

	return l ? container_of(l, struct share, due) : NULL;
}

/* Makes the timer expire with the first batch after UNTIL_USEC, unless it is set to an earlier time. */
static void arm(struct timewaits *timewaits, uint64_t until_usec)
{
	uint64_t usec = (until_usec + BATCH_USEC - 1) / BATCH_USEC * BATCH_USEC;

	if (usec >= timewaits->armed_usec)
		return;
	timewaits->armed_usec = usec;
	timer_start_at(timewaits->timer, usec);
}

static void rearm(struct timewaits *timewaits)
{
	uint64_t usec = UINT64_MAX;

	for (int i = 0; i < TIMEWAIT_QUEUES; i++) {
		const struct share *share = next_due(&timewaits->queues[i]);

		if (share && share->until_usec < usec)
			usec = share->until_usec;
	}
	timewaits->armed_usec = UINT64_MAX;
	if (timewaits->n_orphans > 0)
		arm(timewaits, usec);
}

/* The timer has passed the share. Ids that exist stay in time wait, because the kernel will report their end. */
static void pass(struct share *share)
{
	list_remove(&share->due);
	if (!share->has_orphans)
		return;
	share->has_orphans = false;
	share->place->timewaits->n_orphans--;
	if (share->n_ids == 0)
		settle(share->place);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct timewaits *timewaits = userdata;
	unsigned left = PASSED_A_TURN;
	uint64_t now = now_usec();
	struct share *share;

	for (int i = 0; i < TIMEWAIT_QUEUES; i++)
		for (; left > 0 && (share = next_due(&timewaits->queues[i])) &&
		       share->until_usec <= now;
		     left--)
			pass(share);
	rearm(timewaits);
	return 0;
}

static int on_end(sd_event_source *source, uint64_t usec, void *userdata)
{
	settle_share(userdata, now_usec());
	return 0;
}

int timewaits_init(struct timewaits *timewaits, sd_event *loop, void (*resume)(struct id *id))
{
	int r;

	timewaits->resume = resume;
	timewaits->armed_usec = UINT64_MAX;
	list_init(&timewaits->resuming);
	for (int i = 0; i < TIMEWAIT_QUEUES; i++)
		list_init(&timewaits->queues[i]);
	r = timer_new(&timewaits->timer, loop, 1, on_timer, timewaits);
	if (r >= 0)
		r = timer_new(&timewaits->resumer, loop, 1, on_resumer, timewaits);
	return r < 0 ? r : 0;
}

void timewaits_done(struct timewaits *timewaits)
{
	while (timewaits->places) {
		struct list *l = list_first(&timewaits->places->shares);
		struct share *share = container_of(l, struct share, link);

		assert(share->n_ids == 0 && list_is_empty(&share->held));
		timewaits->n_orphans -= share->has_orphans;
		share->has_orphans = false;
		share_put(share);
	}
	timewaits->timer = sd_event_source_disable_unref(timewaits->timer);
	timewaits->resumer = sd_event_source_disable_unref(timewaits->resumer);
}

/*
 * The duration of the time waits in QUEUE. The kernel counts a QP timeout of n (4.096 us * 2^n) as 2^(n - 8) ms, so
 * QUEUE is n - 8.
 */
static uint64_t rest_usec(int queue)
{
	uint64_t usec = 1000ULL << queue;

	return usec < TIMEWAIT_MAX_USEC ? usec : TIMEWAIT_MAX_USEC;
}

static int queue_of(const struct id *id)
{
	int n = id->handshake.qp_timeout > 8 ? id->handshake.qp_timeout - 8 : 0;

	return n < TIMEWAIT_QUEUES ? n : TIMEWAIT_QUEUES - 1;
}

/* False: the id has no connection that could end, because it has no device or sends datagrams. */
static bool get_key(const struct id *id, uint32_t qpn, struct key *ret)
{
	struct fabric_id_info info;

	if (id_is_datagram(id))
		return false;
	fabric_id_get_info(id->fabric, &info);
	if (!info.device)
		return false;
	text_copy(ret->device, sizeof(ret->device), info.device);
	addr_host((const struct sockaddr *)&info.peer, ret->peer);
	ret->qpn = qpn;
	return true;
}

static uint64_t latest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* If memory runs out, there is no time wait: at worst a peer rejects the next connection as stale. */
void timewait_enter(struct id *id)
{
	struct timewaits *timewaits = id->session->core->timewaits;
	int queue = queue_of(id);
	uint64_t now, rest = rest_usec(queue);
	struct share *share;
	struct key key;

	if (id->handshake.timewait || id->handshake.timewait_over || id->handshake.qpn == 0 ||
	    !get_key(id, id->handshake.qpn, &key))
		return;
	share = get_share(timewaits, &key, id->session->identity.owner.uid);
	if (!share)
		return;
	if (share->owner->n > TIMEWAIT_PER_OWNER) {
		share_put(share);
		return;
	}
	now = now_usec();
	if (!is_active(share))
		share->until_usec = share->others_until_usec = 0;
	if (now + rest > share->until_usec) {
		share->until_usec = now + rest;
		list_remove(&share->due);
		list_insert(&timewaits->queues[queue], &share->due);
	}
	share->others_until_usec =
		latest(share->others_until_usec,
		       now + (rest < TIMEWAIT_OTHERS_USEC ? rest : TIMEWAIT_OTHERS_USEC));
	share->n_ids++;
	id->handshake.timewait = share;
}

void timewait_exit(struct id *id)
{
	struct share *share = TAKE_PTR(id->handshake.timewait);

	/* Needed if the id has no share because memory ran out. */
	id->handshake.timewait_over = true;
	if (!share)
		return;
	share->n_ids--;
	if (!is_active(share))
		settle(share->place);
}

void timewait_forget(struct id *id)
{
	struct share *share = TAKE_PTR(id->handshake.timewait);

	held_free(id->handshake.held);
	if (!share)
		return;
	share->n_ids--;
	if (share->until_usec > now_usec()) {
		share->place->timewaits->n_orphans += !share->has_orphans;
		share->has_orphans = true;
		arm(share->place->timewaits, share->until_usec);
	} else if (!is_active(share)) {
		settle(share->place);
	}
}

void timewait_move(struct id *from, struct id *to)
{
	to->handshake.timewait = TAKE_PTR(from->handshake.timewait);
	to->handshake.timewait_over = from->handshake.timewait_over;
	to->handshake.held = TAKE_PTR(from->handshake.held);
	if (to->handshake.held)
		to->handshake.held->id = to;
}

/*
 * Returns the share in which ID has to wait, with its timer; NULL: ID has to wait for nothing, or *RET_R is a negative
 * errno.
 */
static struct share *find(struct id *id, uint32_t qpn, int *ret_r)
{
	struct timewaits *timewaits = id->session->core->timewaits;
	struct share *share;
	struct place *place;
	uint64_t until;
	struct key key;

	*ret_r = 0;
	if (!timewaits->places || !get_key(id, qpn, &key))
		return NULL;
	HASH_FIND(hh, timewaits->places, &key, length_of(&key), place);
	if (!place)
		return NULL;
	share = get_share(timewaits, &key, id->session->identity.owner.uid);
	*ret_r = share ? 0 : -ENOMEM;
	if (!share)
		return NULL;
	until = get_until(share);
	if (until > now_usec() && !share->timer)
		*ret_r = timer_new(&share->timer, sd_event_source_get_event(timewaits->timer), 1,
				   on_end, share);
	if (until > now_usec() && *ret_r >= 0) {
		timer_start_at(share->timer, until);
		return share;
	}
	share_put(share);
	return NULL;
}

int timewait_hold(struct id *id, const struct rdma_conn_param *param, bool accept)
{
	int r;
	struct share *share = find(id, param->qp_num, &r);

	if (!share)
		return r;
	r = held_new(id, param, accept);
	if (r < 0) {
		share_put(share);
		return r;
	}
	list_insert(&share->held, &id->handshake.held->link);
	return 1;
}

int timewait_hold_again(struct id *id)
{
	struct held *held = id->handshake.held;
	int r;
	struct share *share = find(id, held->param.qp_num, &r);

	if (!share)
		return r;
	held->is_answered = false;
	list_insert(&share->held, &held->link);
	return 1;
}
