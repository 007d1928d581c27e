/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Leftover ids: those that a previous process of the daemon has made, and that live on in the kernel, as connections,
 * also those that are being made or ended, and as members of multicast groups. The fabric_id that has a leftover id
 * instead of an rdma_cm_id belongs to the core as any other.
 *
 *   leftovers_take()            all ids of the previous processes' files move to a file of this process
 *   leftovers_claim()           the core claims those that it knows
 *   leftovers_end()             ends a listener, just before the core listens at the same address anew
 *   leftovers_next_request()    the connection requests that have waited
 *   leftovers_next_unclaimed()  the rest, which has to be ended
 *   leftovers_start()           events are delivered from now on
 */

#include "fabric/fabric.h"
#include "fabric/cm/ucm.h"

struct leftover;
struct leftovers;

/* USERDATA is that of leftovers_start(). */
typedef void (*leftover_event_fn)(void *userdata, struct fabric_id *id,
				  const struct ucm_event *event);

/* READING: see fabric_note_reading(). */
int leftovers_new(struct leftovers **ret, uint32_t *reading);
struct leftovers *
leftovers_free(struct leftovers *leftovers); /* all leftover ids must have been freed */
int leftovers_get_file(const struct leftovers *leftovers);
/*
 * FILES are the files of the connection manager of previous processes, which can be closed afterwards. N_EXPECTED ids
 * are known; there can be more. Returns 0 or a negative errno: the ids that were not moved end when FILES are closed.
 */
int leftovers_take(struct leftovers *leftovers, const int *files, size_t n_files,
		   size_t n_expected);

/*
 * Whether the id that has these addresses can be connected, or was, and events tell of it. False also if several ids
 * have them. Nobody must have claimed the id.
 */
bool leftovers_has_begun(struct leftovers *leftovers, const struct sockaddr_storage *local,
			 const struct sockaddr_storage *peer);
/*
 * Claims the id that has these addresses for ID. Returns NULL if there is none that is not
 * claimed yet.
 */
struct leftover *leftovers_claim(struct leftovers *leftovers, const struct sockaddr_storage *local,
				 const struct sockaddr_storage *peer, struct fabric_id *id);
/* Ends the listener at LOCAL, which is of the port space PS. Its connection requests stay. */
void leftovers_end(struct leftovers *leftovers, enum rdma_port_space ps,
		   const struct sockaddr_storage *local);
/* Returns a connection request that has waited, and its event. NULL: there are no more. */
struct leftover *leftovers_next_request(struct leftovers *leftovers, struct ucm_event *ret);
/* Returns an id that nobody has claimed. *POSITION: 0 at first. NULL: there are no more. */
struct leftover *leftovers_next_unclaimed(const struct leftovers *leftovers, size_t *position);
/* Delivers events from now on. */
int leftovers_start(struct leftovers *leftovers, sd_event *loop, leftover_event_fn on_event,
		    void *userdata);

/* Delivers events that wait. Returns 0, or a negative errno: -EAGAIN: no event waits any more. */
int leftovers_poll(struct leftovers *leftovers);

/* The ids of all leftovers that were claimed and not forgotten. *POSITION: 0 at first. NULL: there are no more. */
struct fabric_id *leftovers_next(const struct leftovers *leftovers, size_t *position);

void leftover_claim(struct leftover *leftover,
		    struct fabric_id *id); /* nobody must have claimed LEFTOVER */
/*
 * LEFTOVER is a connection request. Returns the port space of its listener, which was ended by leftovers_end(); 0:
 * there is no such listener, or listeners of several port spaces have the address.
 */
enum rdma_port_space leftover_get_listener_ps(const struct leftover *leftover);
const struct ucm_addresses *leftover_get_addresses(const struct leftover *leftover);
/* The file and the number for the functions of ucm.h. */
int leftover_get_file(const struct leftover *leftover);
uint32_t leftover_get_number(const struct leftover *leftover);
void leftover_forget(struct leftover *leftover); /* no event is delivered any more */
