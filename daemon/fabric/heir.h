/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Ids that a previous process of the daemon has made, and that live on: connections that are established or are being
 * disconnected. They can only end. An heir is such an id; the fabric_id that has an heir instead of an rdma_cm_id
 * belongs to the core as any other.
 *
 *   heirs_take()        all ids of the previous processes' files move to a file of this process, connection requests
 *                       that wait are rejected
 *   heirs_claim()       the core claims those that it knows
 *   heirs_start()       the rest is ended, and events are delivered from now on
 */

#include "fabric/fabric.h"

struct heir;
struct heirs;

/* A heir's event; only type and status are known of it. USERDATA is that of heirs_start(). */
typedef void (*heir_event_fn)(void *userdata, struct fabric_id *id, struct fabric_event *event);

/*
 * FILES are the files of the connection manager of previous processes, which can be closed afterwards. N_EXPECTED ids
 * are known; there can be more. BUSY is the private data for the connection requests that wait. Returns 0 or a
 * negative errno: the ids that were not moved end when FILES are closed.
 */
int heirs_take(struct heirs **ret, const int *files, size_t n_files, size_t n_expected,
	       const void *busy, size_t busy_len);
struct heirs *heirs_free(struct heirs *heirs); /* all heirs must have been freed */
int heirs_get_file(const struct heirs *heirs);

/*
 * Claims the id that has these addresses for ID. Returns NULL if there is none that is not
 * claimed yet.
 */
struct heir *heirs_claim(struct heirs *heirs, const struct sockaddr_storage *local,
			 const struct sockaddr_storage *peer, struct fabric_id *id);
/* Rejects or disconnects all that nobody has claimed, and delivers events from now on. */
int heirs_start(struct heirs *heirs, sd_event *loop, const void *busy, size_t busy_len,
		heir_event_fn on_event, void *userdata);

/* The ids of all heirs that were claimed and not forgotten. *POSITION: 0 at first. NULL: there are no more. */
struct fabric_id *heirs_next(const struct heirs *heirs, size_t *position);

bool heir_is_connected(const struct heir *heir);
int heir_establish(const struct heir *heir);
int heir_reject(const struct heir *heir, const void *data, size_t len);
int heir_disconnect(const struct heir *heir);
/* Destroys the kernel's id. Can be called by any thread. The heir stays until heir_forget(). */
void heir_destroy(const struct heir *heir);
void heir_forget(struct heir *heir); /* no event is delivered any more */
