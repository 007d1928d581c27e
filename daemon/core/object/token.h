/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A token is an exported id. A descriptor represents it: one end of a socket pair, whose other end the broker keeps.
 * An import finds the token by the kernel's socket cookie, which is never reused. The export ends when the last copy
 * of the descriptor is closed.
 */

#include <systemd/sd-event.h>

#include "util/crowd.h"

struct core;
struct failure;
struct id;
struct token;

struct tokens {
	struct token *by_cookie; /* a uthash table */
	struct crowd crowd; /* the broker's ends */
};

int tokens_init(struct tokens *tokens, sd_event *loop); /* call tokens_done() also on failure */
void tokens_done(struct tokens *tokens); /* there must be no tokens */

/* Exports ID. The caller owns the descriptor *RET_FD. Returns 0, STATUS_QUOTA or a negative errno. */
int token_new(struct id *id, int *ret_fd, struct failure *failure);
struct token *token_free(struct token *token);
/* Returns the id that FD represents; NULL: none. FD can be anything. */
struct id *token_find(const struct core *core, int fd);
