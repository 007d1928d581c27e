/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Hand-over of ids: one session exports an id, another takes it over; for the verbs' results see bind.h. */

struct failure;
struct id;
struct session;

/* *RET_FD is a descriptor that represents ID; the caller owns the descriptor. */
int handover_export(struct id *id, int *ret_fd, struct failure *failure);
/*
 * If policy allows it, the id that FD represents moves to *RET, a new id of SESSION. The old id enters MOVED.
 * STATUS_NO_SUCH_ID: FD represents no id. The caller keeps FD.
 */
int handover_import(struct session *session, int fd, struct id **ret, struct failure *failure);
