/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/object/id.h"
#include "core/object/inquiry.h"
#include "core/object/listener.h"
#include "core/object/undecided.h"
#include "proto/addr.h"
#include "util/util.h"

struct undecided {
	struct list link; /* listener.asked */
	struct listener *listener;
	struct inquiry *inquiry;
	struct fabric_event event; /* the connection request */
	undecided_fn done;
};

/* Does not free the request. */
static void undecided_free(struct undecided *asked)
{
	list_remove(&asked->link);
	asked->listener->backlog->n_waiting--;
	inquiry_free(asked->inquiry);
	free(asked);
}

static void on_peer_found(void *userdata, struct peerid *answer)
{
	struct undecided *asked = userdata;
	struct fabric_event event = asked->event;
	struct id *listening = asked->listener->id;
	undecided_fn done = asked->done;

	if (event.conn.private_data)
		event.conn.private_data = event.private_data;
	asked->inquiry = NULL;
	undecided_free(asked);
	done(listening, &event, answer);
}

int undecided_add(struct listener *listener, const struct policy_question *question,
		  uint32_t peer_qpn, const struct fabric_event *event, undecided_fn done,
		  struct peerid **ret_unknown)
{
	struct undecided *asked = calloc(1, sizeof(*asked));

	*ret_unknown = NULL;
	if (!asked)
		return -ENOTCONN;
	asked->inquiry = inquiry_new(listener->id->session, question, peer_qpn, on_peer_found,
				     asked, ret_unknown);
	if (!asked->inquiry) {
		free(asked);
		return -ENOTCONN;
	}
	asked->done = done;
	asked->event = *event;
	asked->listener = listener;
	listener->backlog->n_waiting++;
	list_insert(&listener->asked, &asked->link);
	return 0;
}

bool undecided_is_full(const struct listener *listener, const struct sockaddr *peer)
{
	unsigned n = 0, max = (listener->backlog->max + 1) / 2;
	struct list *l;

	list_for_each(l, &listener->asked) {
		const struct undecided *asked = container_of(l, struct undecided, link);

		n += addr_is_same_host(inquiry_get_peer(asked->inquiry), peer);
	}
	return n >= max;
}

void undecided_move(struct listener *listener)
{
	struct list *l;

	list_for_each(l, &listener->asked) {
		struct undecided *asked = container_of(l, struct undecided, link);

		inquiry_move(asked->inquiry, listener->id->session, asked);
	}
}

void undecided_drop(struct listener *listener)
{
	struct list *l;

	while ((l = list_first(&listener->asked))) {
		struct undecided *asked = container_of(l, struct undecided, link);

		/* The kernel rejects a request whose id is destroyed. */
		fabric_id_free(asked->event.request);
		undecided_free(asked);
	}
}
