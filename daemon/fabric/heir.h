/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Ids that a previous process of the daemon has made, and that live on: connections, also those that are being made or
 * ended, and ids that have joined multicast groups. An heir is such an id; the fabric_id that has an heir instead of an
 * rdma_cm_id belongs to the core as any other.
 *
 *   heirs_take()        all ids of the previous processes' files move to a file of this process
 *   heirs_claim()       the core claims those that it knows
 *   heirs_end()         ends a listener, just before the core listens at the same address anew
 *   heirs_next_request() the connection requests that have waited
 *   heirs_next_unclaimed() the rest, which has to be ended
 *   heirs_start()       events are delivered from now on
 */

#include "fabric/fabric.h"
#include "fabric/ucm.h"

struct heir;
struct heirs;

/* USERDATA is that of heirs_start(). */
typedef void (*heir_event_fn)(void *userdata, struct fabric_id *id, const struct ucm_event *event);

/* READING: see fabric_note_reading(). */
int heirs_new(struct heirs **ret, uint32_t *reading);
struct heirs *heirs_free(struct heirs *heirs); /* all heirs must have been freed */
int heirs_get_file(const struct heirs *heirs);
/*
 * FILES are the files of the connection manager of previous processes, which can be closed afterwards. N_EXPECTED ids
 * are known; there can be more. Returns 0 or a negative errno: the ids that were not moved end when FILES are closed.
 */
int heirs_take(struct heirs *heirs, const int *files, size_t n_files, size_t n_expected);

/*
 * Whether the id that has these addresses can be connected, or was, and events tell of it. False also if several ids
 * have them. Nobody must have claimed the id.
 */
bool heirs_has_begun(struct heirs *heirs, const struct sockaddr_storage *local,
		     const struct sockaddr_storage *peer);
/*
 * Claims the id that has these addresses for ID. Returns NULL if there is none that is not
 * claimed yet.
 */
struct heir *heirs_claim(struct heirs *heirs, const struct sockaddr_storage *local,
			 const struct sockaddr_storage *peer, struct fabric_id *id);
/* Ends the listener at LOCAL, which is of the port space PS. Its connection requests stay. */
void heirs_end(struct heirs *heirs, enum rdma_port_space ps, const struct sockaddr_storage *local);
/* Returns a connection request that has waited, and its event. NULL: there are no more. */
struct heir *heirs_next_request(struct heirs *heirs, struct ucm_event *ret);
/* Returns an id that nobody has claimed. *POSITION: 0 at first. NULL: there are no more. */
struct heir *heirs_next_unclaimed(const struct heirs *heirs, size_t *position);
/* Delivers events from now on. */
int heirs_start(struct heirs *heirs, sd_event *loop, heir_event_fn on_event, void *userdata);

/* Delivers events that wait. Returns 0, or a negative errno: -EAGAIN: no event waits any more. */
int heirs_poll(struct heirs *heirs);

/* The ids of all heirs that were claimed and not forgotten. *POSITION: 0 at first. NULL: there are no more. */
struct fabric_id *heirs_next(const struct heirs *heirs, size_t *position);

void heir_claim(struct heir *heir, struct fabric_id *id); /* nobody must have claimed HEIR */
/*
 * HEIR is a connection request. Returns the port space of its listener, which was ended by heirs_end(); 0: there is no
 * such listener, or listeners of several port spaces have the address.
 */
enum rdma_port_space heir_get_listener_ps(const struct heir *heir);
const struct ucm_addresses *heir_get_addresses(const struct heir *heir);
/* The file and the number for the functions of ucm.h. */
int heir_get_file(const struct heir *heir);
uint32_t heir_get_number(const struct heir *heir);
void heir_forget(struct heir *heir); /* no event is delivered any more */
