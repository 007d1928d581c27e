/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/core.h"
#include "proto/packet.h"
#include "rpc/discard.h"
#include "rpc/peers.h"
#include "util/closer.h"

/* By default the kernel queues some 280 small packets. */
#define UNREAD_MAX 512

bool discard_unread(struct peers *peers, int sock, struct owner owner, enum closer_class class)
{
	struct core *core = peers->core;

	for (unsigned i = 0; i < UNREAD_MAX; i++) {
		struct closing *room = NULL;
		int fds[PACKET_ALL_FDS];
		size_t n_fds;
		int r;

		if (!closer_is_behind(core_get_closer(core), owner) &&
		    !account_is_full(core_get_account(core), ACCOUNT_FDS))
			room = peers_get_room(peers);
		if (!room)
			return false;
		r = packet_discard(sock, fds, &n_fds);
		if (n_fds == 0) {
			peers_put_room(peers, room);
		} else {
			closing_bind(room, owner, class);
			for (size_t k = 0; k < n_fds; k++)
				closing_add(room, fds[k]);
			closing_go(room);
		}
		if (r <= 0)
			return r == 0;
	}
	return false;
}
