/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "keep/ledger.h"
#include "keep/vault.h"
#include "rpc/outlet.h"
#include "rpc/peers.h"

/* See server_take_over(). */
int takeover_run(struct peers *peers, struct outlets *outlets, size_t max_queued_bytes,
		 struct vault *vault, const struct old_ledger *old, const void *busy,
		 size_t busy_len);
