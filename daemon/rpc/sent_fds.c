/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "core/object/quota.h"
#include "proto/timer.h"
#include "rpc/sent_fds.h"

#define LOOK_USEC (100 * 1000ULL)
#define BATCH 256 /* at most this many flights are checked each time the timer expires */

struct sent_fds {
	struct list link; /* sent_fds_list.list, while descriptors are in flight */
	int sock;
	struct charge charge; /* for the descriptors in flight */
	bool held; /* see sent_fds_hold() */
	/* closes SOCK when all descriptors have been received; NULL: the session still exists */
	struct closing *closing;
};

static bool has_arrived(const struct sent_fds *sent_fds)
{
	int n_bytes;

	/* If the socket cannot be queried, do not wait for it. */
	return !sent_fds->held && (ioctl(sent_fds->sock, SIOCOUTQ, &n_bytes) < 0 || n_bytes == 0);
}

static void arrive(struct sent_fds *sent_fds)
{
	list_remove(&sent_fds->link);
	charge_done(&sent_fds->charge);
	if (!sent_fds->closing)
		return;
	closing_go(sent_fds->closing);
	free(sent_fds);
}

/* A running timer is not restarted: if it were, frequent calls would keep it from ever expiring. */
static void run(struct sent_fds_list *sent_fds_list)
{
	if (sd_event_source_get_enabled(sent_fds_list->timer, NULL) != 0)
		return;
	timer_start(sent_fds_list->timer, LOOK_USEC);
}

/* The flights that were checked move to the end of the list, so that each gets its turn. */
static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct sent_fds_list *sent_fds_list = userdata;
	struct list looked_at, *l;

	list_init(&looked_at);
	for (unsigned i = 0; i < BATCH && (l = list_first(&sent_fds_list->list)); i++) {
		struct sent_fds *sent_fds = container_of(l, struct sent_fds, link);

		list_remove(l);
		list_insert(&looked_at, l);
		if (has_arrived(sent_fds))
			arrive(sent_fds);
	}
	list_move_all(&sent_fds_list->list, &looked_at);
	if (!list_is_empty(&sent_fds_list->list))
		run(sent_fds_list);
	return 0;
}

int sent_fds_list_init(struct sent_fds_list *sent_fds_list, sd_event *loop)
{
	list_init(&sent_fds_list->list);
	return timer_new(&sent_fds_list->timer, loop, 0, on_timer, sent_fds_list);
}

void sent_fds_list_done(struct sent_fds_list *sent_fds_list)
{
	struct list *l;

	while ((l = list_first(&sent_fds_list->list)))
		arrive(container_of(l, struct sent_fds, link));
	sent_fds_list->timer = sd_event_source_disable_unref(sent_fds_list->timer);
}

int sent_fds_add(struct sent_fds **ret, struct sent_fds_list *sent_fds_list,
		 struct session *session, int sock, struct failure *failure)
{
	struct sent_fds *sent_fds = *ret ?: calloc(1, sizeof(*sent_fds));
	struct charge one = { 0 };
	int r;

	if (!sent_fds)
		return failure_errno(failure, -ENOMEM);
	if (!*ret) {
		sent_fds->sock = sock;
		list_init(&sent_fds->link);
		*ret = sent_fds;
	}
	if (sent_fds->charge.account && has_arrived(sent_fds))
		arrive(sent_fds);
	r = quota_charge(session, &one, ACCOUNT_FDS, 1, failure);
	if (r != 0)
		return r;
	if (sent_fds->charge.account) {
		charge_grow(&sent_fds->charge, 1);
		charge_done(&one);
		return 0;
	}
	sent_fds->charge = one;
	list_insert(&sent_fds_list->list, &sent_fds->link);
	run(sent_fds_list);
	return 0;
}

void sent_fds_hold(struct sent_fds *sent_fds, bool hold)
{
	if (sent_fds)
		sent_fds->held = hold;
}

void sent_fds_land(struct sent_fds *sent_fds, struct closing *closing)
{
	if (!sent_fds) {
		closing_go(closing);
		return;
	}
	sent_fds->closing = closing;
	sent_fds->held = false;
	if (!sent_fds->charge.account || has_arrived(sent_fds))
		arrive(sent_fds);
}
