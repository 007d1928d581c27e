/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An exported id is represented by a descriptor: one end of a socket pair whose other end the broker keeps.
 * On import the id is found by the kernel's socket cookie, which is never reused and stays the same however
 * the descriptor was passed on. When the last copy of the descriptor is closed, the broker's end gets a
 * hang-up, and the export ends.
 */

struct core;
struct failure;
struct id;
struct token;

/*
 * Exports ID: sets ID.token. The caller owns *RET_FD, the descriptor. Returns 0, STATUS_QUOTA or a negative
 * errno.
 */
int token_new(struct id *id, int *ret_fd, struct failure *failure);
struct token *token_free(struct token *token);
/* Returns the id that FD represents; NULL: none. FD can be anything. */
struct id *token_find(const struct core *core, int fd);
