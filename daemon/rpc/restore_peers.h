/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "rpc/peers.h"
#include "rpc/published.h"
#include "takeover/ledger.h"
#include "takeover/socketstore.h"

/* See server_take_over(). */
int restore_peers(struct peers *peers, struct published_sockets *published_sockets,
		  struct socketstore *socketstore, const struct old_ledger *old, const void *busy,
		  size_t busy_len);
