/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/admit/refused.h"
#include "core/object/id.h"
#include "core/object/restriction.h"
#include "core/object/whois.h"
#include "core/rule/restore.h"
#include "core/rule/sampling.h"
#include "core/verbs/lease.h"
#include "rpc/peer.h"
#include "rpc/published.h"
#include "rpc/repeat.h"
#include "rpc/restore_peers.h"
#include "rpc/sending.h"
#include "util/log.h"
#include "util/util.h"

/* Serving the clients of a previous process of the daemon. */

struct taken {
	uint64_t number;
	int sock, pidfd; /* -1: none, or taken */
	struct ledger_session *row; /* NULL: the session is not restored */
	struct peer *peer;
	/* its rows in the old ledger */
	struct repeat repeat;
	const struct ledger_request *requests;
	size_t n_requests;
	const struct ledger_aside *asides;
	size_t n_asides;
	const struct ledger_packet *packets;
	size_t n_packets;
	const struct ledger_lease *leases;
	size_t n_leases;
	const struct ledger_old_leases *old_leases; /* NULL: none */
};

struct takeover {
	struct taken *taken;
	size_t n, n_allocated;
	bool failed;
};

/* The same session can be found more than once, with the same descriptors. */
static void on_found(void *userdata, const struct socketstore_entry *entry)
{
	struct takeover *takeover = userdata;
	struct taken *taken;
	size_t n = takeover->n_allocated ? 2 * takeover->n_allocated : 64;

	if (takeover->n == takeover->n_allocated) {
		taken = realloc(takeover->taken, n * sizeof(*taken));
		if (!taken) {
			takeover->failed = true;
			for (unsigned i = 0; i < entry->n_fds; i++)
				close(entry->fds[i]);
			return;
		}
		takeover->taken = taken;
		takeover->n_allocated = n;
	}
	takeover->taken[takeover->n++] = (struct taken){
		.number = entry->number,
		.sock = entry->fds[0],
		.pidfd = entry->n_fds > 1 ? entry->fds[1] : -1,
	};
}

/* Of entries that begin with a number: struct taken, and rows of the ledger. */
static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * Without its restriction a session could do too much. A session whose Hello has not succeeded has nothing to lose.
 * Packets or a request that the ledger does not have are lost, so the client would wait for ever. A session that
 * watches has missed what happened meanwhile.
 */
static bool can_go_on(const struct ledger_session *row, const struct core *core)
{
	if (row->restriction && !restriction_find(core, row->restriction))
		return false;
	return ledger_session_is_open(row) && row->n_queued == 0 &&
	       ledger_note_length(&row->received) <= LEDGER_PACKET && !row->watches;
}

static void close_both(struct taken *taken)
{
	closep(&taken->sock);
	closep(&taken->pidfd);
	taken->sock = taken->pidfd = -1;
}

/* Closes descriptors of sessions that do not go on, and shuts their sockets down, so that the clients see the end. */
static void let_go(struct taken *taken)
{
	if (taken->sock >= 0)
		shutdown(taken->sock, SHUT_RDWR);
	close_both(taken);
}

static void take_session(struct taken *taken, struct peers *peers)
{
	int r = peers_make_closings(peers);

	if (r == 0)
		r = peer_restore(&taken->peer, peers, TAKE_PTR(peers->next), TAKE_FD(taken->sock),
				 taken->row, TAKE_FD(taken->pidfd));
	if (r < 0) {
		log_warning("Cannot take over session %llu: %s. It ends.",
			    (unsigned long long)taken->number, strerror(-r));
		taken->peer = NULL;
		let_go(taken);
	}
}

#define FIND(rows, n, session, id) old_ledger_find(rows, n, sizeof(*(rows)), session, id)

/* Sets *RET to the first of the rows of the session NUMBER, and returns how many there are. */
#define FIND_ALL(ret, rows, n, number)                    \
	({                                                \
		size_t first_ = FIND(rows, n, number, 0); \
		*(ret) = (rows) + first_;                 \
		FIND(rows, n, (number) + 1, 0) - first_;  \
	})

/* The process died after it had sent a packet, and before it wrote that down. */
static void note_sent(struct taken *taken)
{
	struct ledger_session *row = taken->row;
	struct repeat *repeat = &taken->repeat;

	if (ledger_note_length(&row->sent) == 0)
		return;
	if (row->sent_what == LEDGER_SENT_REPLY)
		ledger_note_set(&row->received, 0);
	for (size_t i = 0; row->sent_what == LEDGER_SENT_EVENT && i < repeat->n_ids; i++) {
		struct ledger_id *known = &repeat->ids[i];

		if (known->handle == row->sent_number) {
			known->untold = 0;
			known->told = 1;
		}
	}
	if (row->sent_what == LEDGER_SENT_PACKET && taken->n_packets > 0 &&
	    taken->packets->number == row->sent_number) {
		while (taken->n_packets > 1 && taken->packets->goes_on) {
			taken->packets++;
			taken->n_packets--;
		}
		taken->packets++;
		taken->n_packets--;
	}
}

static void find_rows(struct taken *taken, const struct old_ledger *old)
{
	uint64_t number = taken->number;
	struct repeat *repeat = &taken->repeat;

	repeat->row = taken->row;
	repeat->tried = old->tried;
	repeat->n_ids = FIND_ALL(&repeat->ids, old->ids, old->n_ids, number);
	repeat->n_groups = FIND_ALL(&repeat->groups, old->groups, old->n_groups, number);
	taken->n_requests = FIND_ALL(&taken->requests, old->requests, old->n_requests, number);
	taken->n_asides = FIND_ALL(&taken->asides, old->asides, old->n_asides, number);
	taken->n_packets = FIND_ALL(&taken->packets, old->packets, old->n_packets, number);
	taken->n_leases = FIND_ALL(&taken->leases, old->leases, old->n_leases, number);
	if (old->n_old_leases > 0)
		taken->old_leases = bsearch(&number, old->old_leases, old->n_old_leases,
					    sizeof(*old->old_leases), compare_numbers);
	note_sent(taken);
	repeat->packet = taken->row->packet;
	repeat->len = ledger_note_length(&taken->row->received);
	if (repeat->len > sizeof(taken->row->packet))
		repeat->len = 0;
	repeat->repeated = taken->row->repeated;
	for (size_t i = 0; i < repeat->n_ids; i++)
		restore_undo(&repeat->ids[i]);
}

static struct left_id get_left_id(const struct taken *taken, const struct ledger_id *row,
				  bool event_lost)
{
	const struct repeat *repeat = &taken->repeat;
	size_t group = FIND(repeat->groups, repeat->n_groups, taken->number, row->handle);
	size_t request = FIND(taken->requests, taken->n_requests, taken->number, row->handle);
	struct left_id ret = {
		.row = row,
		.groups = repeat->groups + group,
		.event_lost = event_lost,
	};

	while (group + ret.n_groups < repeat->n_groups &&
	       ret.groups[ret.n_groups].id == row->handle)
		ret.n_groups++;
	if (request < taken->n_requests && taken->requests[request].id == row->handle)
		ret.request = &taken->requests[request];
	return ret;
}

/* LISTENERS: restores these, else all others. */
static void restore_others(const struct taken *taken, bool event_lost, bool listeners)
{
	for (size_t i = 0; i < taken->repeat.n_ids; i++) {
		const struct ledger_id *row = &taken->repeat.ids[i];
		struct left_id left_id = get_left_id(taken, row, event_lost);

		if ((row->state == ID_LISTENING) == listeners &&
		    restore_other(taken->peer->session, &left_id) < 0)
			peer_drop(taken->peer, "memory has run out while it was taken over");
	}
}

/* Before any other packet is sent. */
static void restore_packets(const struct taken *taken)
{
	int r = outbox_restore(&taken->peer->outbox, taken->packets, taken->n_packets);

	sending_changed(taken->peer);
	if (r < 0)
		peer_drop(taken->peer, strerror(-r));
}

static void restore_all_living(const struct taken *taken, bool event_lost)
{
	for (size_t i = 0; i < taken->repeat.n_ids; i++) {
		struct left_id left_id = get_left_id(taken, &taken->repeat.ids[i], event_lost);

		restore_living(taken->peer->session, &left_id);
	}
}

static struct repeat get_aside(const struct taken *taken, const struct ledger_aside *row)
{
	struct repeat ret = taken->repeat;

	ret.packet = row->packet;
	ret.len = row->len <= sizeof(row->packet) ? row->len : 0;
	ret.repeated = row->repeated;
	return ret;
}

/* The previous process can have died before it noted that a request which is set aside is not received any more. */
static void go_on(const struct taken *taken)
{
	const struct repeat *received = &taken->repeat;
	bool is_aside = false;

	for (size_t i = 0; i < taken->n_asides; i++) {
		struct repeat aside = get_aside(taken, &taken->asides[i]);

		is_aside |= aside.len == received->len &&
			    memcmp(aside.packet, received->packet, aside.len) == 0;
		repeat_go_on_aside(&aside, taken->asides[i].id, taken->peer);
	}
	if (!is_aside)
		repeat_go_on(received, taken->peer);
}

static void restore_ids(struct takeover *takeover, struct core *core, bool event_lost,
			const void *busy, size_t busy_len)
{
	struct fabric *fabric = core_get_fabric(core);
	int r;

	for (size_t i = 0; i < takeover->n; i++) {
		if (!takeover->taken[i].peer)
			continue;
		restore_all_living(&takeover->taken[i], event_lost);
		restore_packets(&takeover->taken[i]);
	}
	for (size_t i = 0; i < takeover->n; i++)
		if (takeover->taken[i].peer)
			restore_others(&takeover->taken[i], event_lost, /* listeners= */ true);
	/* A helper keeps the index from when it comes. */
	if (whois_begin(core) < 0)
		log_error("Cannot take over the connection requests that wait: out of memory.");
	fabric_takeover_requests(fabric, busy, busy_len, restore_request, core);
	whois_end(core);
	r = fabric_takeover_rest(fabric, busy, busy_len);
	if (r < 0)
		log_error("Cannot read the events of connections that were taken over: %s.",
			  strerror(-r));
	for (size_t i = 0; i < takeover->n; i++) {
		struct taken *taken = &takeover->taken[i];

		if (!taken->peer)
			continue;
		lease_restore(taken->peer->session, taken->row, taken->leases, taken->n_leases,
			      taken->old_leases);
		restore_others(taken, event_lost, /* listeners= */ false);
		go_on(taken);
	}
}

/* The first of equal entries: the others are not used, see restore_peers(). */
static struct taken *find_taken(const struct takeover *takeover, uint64_t number)
{
	struct taken *taken = takeover->taken;
	size_t found = LOWER_BOUND(i, takeover->n, taken[i].number < number);

	return found < takeover->n && taken[found].number == number ? &taken[found] : NULL;
}

static void take_published(const struct takeover *takeover,
			   struct published_sockets *published_sockets,
			   const struct old_ledger *old)
{
	for (size_t i = 0; i < old->n_published; i++) {
		const struct ledger_published *row = &old->published_sockets[i];
		struct taken *entry = find_taken(takeover, row->number);
		const struct taken *owner = find_taken(takeover, row->session);
		int r;

		if (!entry || entry->sock < 0 || !owner || !owner->peer)
			continue;
		r = published_sockets_restore(published_sockets, owner->peer->session, row,
					      TAKE_FD(entry->sock));
		if (r < 0)
			log_warning("Cannot take over the socket that session %llu has published: "
				    "%s.",
				    (unsigned long long)row->session, strerror(-r));
	}
}

/* False: the entry is for take_published(). */
static bool is_session(const struct taken *taken, const struct old_ledger *old)
{
	return old->n_published == 0 ||
	       !bsearch(&taken->number, old->published_sockets, old->n_published,
			sizeof(*old->published_sockets), compare_numbers);
}

/* Restrictions were made after their parents, so they have greater numbers. */
static struct restriction **restore_restrictions(struct core *core, const struct old_ledger *old)
{
	struct restriction **ret = calloc(old->n_restrictions + 1, sizeof(*ret));

	for (size_t i = 0; ret && i < old->n_restrictions; i++)
		ret[i] = restriction_restore(core, &old->restrictions[i]);
	return ret;
}

/* The restored sessions and published sockets have references of their own. */
static void unref_restrictions(struct restriction **restrictions, size_t n)
{
	for (size_t i = 0; restrictions && i < n; i++)
		restriction_unref(restrictions[i]);
	free(restrictions);
}

int restore_peers(struct peers *peers, struct published_sockets *published_sockets,
		  struct socketstore *socketstore, const struct old_ledger *old, const void *busy,
		  size_t busy_len)
{
	struct restriction **restrictions = restore_restrictions(peers->core, old);
	struct takeover takeover = { 0 };
	int r, n = 0;

	core_restore_refused(peers->core, old);
	sampling_restore(peers->core, old);
	r = socketstore_open(socketstore, on_found, &takeover);
	if (r < 0)
		log_error("Cannot take over all sessions: %s.", strerror(-r));
	if (takeover.n > 0)
		qsort(takeover.taken, takeover.n, sizeof(*takeover.taken), compare_numbers);
	for (size_t i = 0; i < takeover.n; i++) {
		struct taken *taken = &takeover.taken[i];
		bool again = i > 0 && takeover.taken[i - 1].number == taken->number;
		struct ledger_session *row =
			old->n_sessions == 0 ? NULL :
					       bsearch(taken, old->sessions, old->n_sessions,
						       sizeof(*old->sessions), compare_numbers);

		if (!again && !is_session(taken, old))
			continue;
		if (again) {
			close_both(taken);
			continue;
		}
		if (!row || !can_go_on(row, peers->core)) {
			let_go(taken);
			continue;
		}
		taken->row = row;
		find_rows(taken, old);
		for (size_t k = 0; k < taken->n_asides; k++) {
			struct repeat aside = get_aside(taken, &taken->asides[k]);

			repeat_prepare(&aside, core_get_fabric(peers->core));
		}
		repeat_prepare(&taken->repeat, core_get_fabric(peers->core));
		take_session(taken, peers);
		n += taken->peer != NULL;
	}
	take_published(&takeover, published_sockets, old);
	restore_ids(&takeover, peers->core, old->event_lost, busy, busy_len);
	socketstore_forget_old(socketstore);
	unref_restrictions(restrictions, old->n_restrictions);
	/* Entries that nobody has taken belong to nobody any more. */
	for (size_t i = 0; i < takeover.n; i++)
		close_both(&takeover.taken[i]);
	free(takeover.taken);
	return n;
}
