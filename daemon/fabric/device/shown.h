/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The devices as librdmacm sees them. Left alone, librdmacm opens each device that libibverbs lists: in whatever thread
 * needs it first, with a mutex held that all its calls need, for as long as the firmware takes; and if that fails once, it
 * never uses the device again. So this program has functions of libibverbs of its own, which librdmacm calls:
 * ibv_get_device_list() lists what is shown, and ibv_open_device() lends the context that was opened before. It stays the
 * opener's, who alone closes it.
 *
 * All functions can be called in any thread.
 */

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "util/list.h"

/* Embedded in what has the context. */
struct shown {
	struct list link; /* the devices that are shown, or lent */
	struct ibv_device *device;
	struct ibv_context *verbs;
	bool is_hidden;
	unsigned n_lent;
};

/* libibverbs's own list of all devices, for shown_free_list(); NULL and errno on failure. */
struct ibv_device **shown_list_all(void);
void shown_free_list(struct ibv_device **list);
/* As ibv_open_device() and ibv_close_device() of libibverbs. They can take as long as the firmware does. */
struct ibv_context *shown_open(struct ibv_device *device);
void shown_close(struct ibv_context *verbs);

/* From now on librdmacm sees the device of VERBS. */
void shown_begin(struct shown *shown, struct ibv_context *verbs);
/* librdmacm sees it no more. It gives the context back when no id needs it, and it lists the devices again. */
void shown_hide(struct shown *shown);
bool shown_is_lent(const struct shown *shown);
/* Nothing is known of it any more. What is lent is then librdmacm's, which closes it. Idempotent. */
void shown_end(struct shown *shown);
