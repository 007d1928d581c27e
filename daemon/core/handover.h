/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Ids that change hands: exported by one session, taken over by another; for the verbs' results see bind.h. */

struct failure;
struct id;
struct session;

/* The caller owns *RET_FD, which stands for the id. */
int handover_export(struct id *id, int *ret_fd, struct failure *failure);
/*
 * SESSION takes over the id that FD stands for, if policy allows it. STATUS_NO_SUCH_ID: FD stands for no id.
 * On failure nothing has changed. FD stays the caller's.
 */
int handover_import(struct session *session, int fd, struct id **ret, struct failure *failure);
