/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/conn.h"
#include "core/id.h"
#include "core/restore.h"
#include "rpc/peer.h"
#include "rpc/takeover.h"
#include "util/log.h"
#include "util/util.h"

/* Serving the clients of a previous process of the daemon. */

struct taken {
	uint64_t number;
	int sock, pidfd; /* -1: none, or taken */
	const struct ledger_session *row; /* NULL: the session is not taken over */
	struct peer *peer;
	const struct ledger_id *ids; /* its rows in the old ledger */
	size_t n_ids;
};

struct takeover {
	struct taken *taken;
	size_t n, n_allocated;
	bool failed;
};

/* The same session can be found more than once, with the same descriptors. */
static void on_found(void *userdata, const struct vault_entry *entry)
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

static int compare(const void *a, const void *b)
{
	const struct taken *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static int compare_row(const void *a, const void *b)
{
	const struct taken *taken = a;
	const struct ledger_session *row = b;

	return taken->number < row->number ? -1 : taken->number > row->number;
}

static int compare_rows(const void *a, const void *b)
{
	const struct ledger_session *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/*
 * A session whose Hello has not succeeded has nothing to lose. Packets that were queued in the daemon are lost, so the
 * client would wait for ever. One that watches has missed what happened meanwhile.
 */
static bool can_go_on(const struct ledger_session *row)
{
	return row->permits != 0 && row->n_queued == 0 && !row->watches;
}

/* Closes descriptors of sessions that do not go on, and shuts their sockets down, so that the clients see the end. */
static void let_go(struct taken *taken)
{
	if (taken->sock >= 0)
		shutdown(taken->sock, SHUT_RDWR);
	closep(&taken->sock);
	closep(&taken->pidfd);
	taken->sock = taken->pidfd = -1;
}

static void take_session(struct taken *taken, struct peers *peers, size_t max_queued_bytes)
{
	int r = peers_make_closings(peers);

	if (r == 0)
		r = peer_restore(&taken->peer, peers, peers->core, TAKE_PTR(peers->next),
				 TAKE_FD(taken->sock), max_queued_bytes, taken->row,
				 TAKE_FD(taken->pidfd));
	if (r < 0) {
		log_warning("Cannot take over session %llu: %s. It ends.",
			    (unsigned long long)taken->number, strerror(-r));
		taken->peer = NULL;
		let_go(taken);
	}
}

static void find_ids(struct taken *taken, const struct old_ledger *old)
{
	size_t low = 0, high = old->n_ids;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (old->ids[mid].session < taken->number)
			low = mid + 1;
		else
			high = mid;
	}
	taken->ids = old->ids + low;
	while (low + taken->n_ids < old->n_ids &&
	       old->ids[low + taken->n_ids].session == taken->number)
		taken->n_ids++;
}

static struct id *find_id(struct taken *taken, uint32_t handle)
{
	struct failure ignored;
	struct id *id;

	return table_find(taken->peer->session, handle, &id, &ignored) == 0 ? id : NULL;
}

/* The event by which the client learns that its request has failed, if it expects no reply; -1: none. */
static int failure_event(uint32_t op)
{
	switch (op) {
	case RDMABROKER__REQUEST__OP_RESOLVE_ADDR:
		return RDMA_CM_EVENT_ADDR_ERROR;
	case RDMABROKER__REQUEST__OP_RESOLVE_ROUTE:
		return RDMA_CM_EVENT_ROUTE_ERROR;
	case RDMABROKER__REQUEST__OP_CONNECT:
		return RDMA_CM_EVENT_CONNECT_ERROR;
	default:
		return -1;
	}
}

/*
 * True: the request had not changed the state of its id when the daemon died. If it had, restore_other() has told the
 * client what became of it.
 */
static bool was_not_begun(const struct taken *taken)
{
	for (size_t i = 0; i < taken->n_ids; i++)
		if (taken->ids[i].handle == taken->row->id)
			return taken->ids[i].state == ID_IDLE || taken->ids[i].state == ID_BOUND ||
			       taken->ids[i].state == ID_ADDR_RESOLVED ||
			       taken->ids[i].state == ID_ROUTE_RESOLVED;
	return true;
}

/*
 * The client has created an id together with a request that gets no reply, so it does not know that there was no id yet.
 * Returns NULL if memory has run out.
 */
static struct id *make_first(struct taken *taken)
{
	const struct ledger_session *old = taken->row;
	const struct ledger_id row = {
		.session = old->number,
		.since_ms = old->since_ms,
		.handle = old->first,
		.ps = (uint16_t)old->first_ps,
		.state = ID_IDLE,
		.tos = -1,
		.tos_asked = old->first_options[RDMA_OPTION_ID_TOS],
		.reuseaddr_asked = old->first_options[RDMA_OPTION_ID_REUSEADDR] > 0,
		.afonly = old->first_options[RDMA_OPTION_ID_AFONLY],
		.ack_timeout = old->first_options[RDMA_OPTION_ID_ACK_TIMEOUT],
	};

	restore_other(taken->peer->session, &row);
	return find_id(taken, old->first);
}

/* The request that was received and not answered. */
static void end_request(struct taken *taken)
{
	const struct ledger_session *row = taken->row;
	struct id *id = row->id ? find_id(taken, row->id) : NULL;
	struct failure ignored;

	if (!row->has_request)
		return;
	if (!row->quiet) {
		/* The client takes the refusal to mean that the id was not made. */
		id = row->first ? find_id(taken, row->first) : NULL;
		if (id)
			id_free(id);
		peer_refuse_request(taken->peer, row->serial);
		return;
	}
	if (row->op == RDMABROKER__REQUEST__OP_DESTROY_ID) {
		id_free(id);
	} else if (row->op == RDMABROKER__REQUEST__OP_DISCONNECT) {
		if (id)
			conn_disconnect(id, &ignored);
	} else if (failure_event(row->op) >= 0 && was_not_begun(taken)) {
		if (!id && row->first == row->id)
			id = make_first(taken);
		if (id)
			restore_tell(id, (enum rdma_cm_event_type)failure_event(row->op));
	}
}

static void restore_ids(struct takeover *takeover, struct fabric *fabric, const void *busy,
			size_t busy_len)
{
	int r;

	for (size_t i = 0; i < takeover->n; i++)
		for (size_t k = 0; takeover->taken[i].peer && k < takeover->taken[i].n_ids; k++)
			restore_living(takeover->taken[i].peer->session,
				       &takeover->taken[i].ids[k]);
	r = fabric_inherit_rest(fabric, busy, busy_len);
	if (r < 0)
		log_error("Cannot read the events of connections that were taken over: %s.",
			  strerror(-r));
	for (size_t i = 0; i < takeover->n; i++) {
		struct taken *taken = &takeover->taken[i];

		if (!taken->peer)
			continue;
		restore_leases(taken->peer->session, taken->row);
		for (size_t k = 0; k < taken->n_ids; k++)
			if (restore_other(taken->peer->session, &taken->ids[k]) < 0)
				peer_drop(taken->peer,
					  "memory has run out while it was taken over");
		end_request(taken);
	}
}

int takeover_run(struct peers *peers, size_t max_queued_bytes, struct vault *vault,
		 const struct old_ledger *old, const void *busy, size_t busy_len)
{
	struct takeover takeover = { 0 };
	int r, n = 0;

	r = vault_open(vault, on_found, &takeover);
	if (r < 0)
		log_error("Cannot take over all sessions: %s.", strerror(-r));
	if (takeover.n > 0)
		qsort(takeover.taken, takeover.n, sizeof(*takeover.taken), compare);
	if (old->n_sessions > 0)
		qsort(old->sessions, old->n_sessions, sizeof(*old->sessions), compare_rows);
	for (size_t i = 0; i < takeover.n; i++) {
		struct taken *taken = &takeover.taken[i];
		bool again = i > 0 && takeover.taken[i - 1].number == taken->number;
		const struct ledger_session *row =
			old->n_sessions == 0 ? NULL :
					       bsearch(taken, old->sessions, old->n_sessions,
						       sizeof(*old->sessions), compare_row);

		if (again) {
			closep(&taken->sock);
			closep(&taken->pidfd);
			taken->sock = taken->pidfd = -1;
			continue;
		}
		if (!row || !can_go_on(row)) {
			let_go(taken);
			continue;
		}
		taken->row = row;
		find_ids(taken, old);
		take_session(taken, peers, max_queued_bytes);
		n += taken->peer != NULL;
	}
	restore_ids(&takeover, core_get_fabric(peers->core), busy, busy_len);
	vault_forget_old(vault);
	free(takeover.taken);
	return n;
}
