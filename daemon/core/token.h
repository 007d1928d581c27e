/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A token is an exported id. A descriptor represents it: one end of a socket pair, whose other end the broker keeps.
 * An import finds the token by the kernel's socket cookie, which is never reused. The export ends when the last copy
 * of the descriptor is closed.
 */

struct core;
struct failure;
struct id;
struct token;

/* Exports ID. The caller owns the descriptor *RET_FD. Returns 0, STATUS_QUOTA or a negative errno. */
int token_new(struct id *id, int *ret_fd, struct failure *failure);
struct token *token_free(struct token *token);
/* Returns the id that FD represents; NULL: none. FD can be anything. */
struct id *token_find(const struct core *core, int fd);
