/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Hand-over of ids: one session exports an id, another takes it over; for the verbs' results see bind.h. */

struct failure;
struct id;
struct session;

/* Exports ID. *RET_FD is a descriptor that represents the id; the caller owns the descriptor. */
int handover_export(struct id *id, int *ret_fd, struct failure *failure);
/*
 * SESSION takes over the id that FD represents, if policy allows it: *RET is a new id of SESSION, and the old id
 * is in state MOVED. STATUS_NO_SUCH_ID: FD represents no id. On failure nothing has changed. The caller keeps FD.
 */
int handover_import(struct session *session, int fd, struct id **ret, struct failure *failure);
