/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * iWARP. Calls that InfiniBand's connection manager answers at once can wait there, for the peer or for firmware:
 *
 *   disconnect   The kernel waits until the connect or accept before it has ended, which takes as long as the peer wants.
 *                So it is put off until ESTABLISHED. If another event comes, there is nothing to disconnect.
 *   connect      Software iWARP waits until the peer's TCP answers, or two minutes. So a thread calls it, and an event reports
 *                its failure. It is the event that drivers report which do not wait. Meanwhile the kernel would also make all
 *                other calls about the id wait.
 *   accept       Adapters wait for the peer's first message, or for firmware, for up to a minute. So a thread calls it, too.
 *   listen       The kernel waits for the port mapper (iwpmd), for 10 s if that hangs, and for firmware. A thread calls it, and
 *                the request waits. While it is an id without a device, the kernel would make all binds, listens and
 *                resolutions of addresses wait. So they wait here (fabric_is_opening()), and such ids listen one after
 *                the other.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>

struct fabric;
struct fabric_id;
struct iwarp_call;

/* True: the id is bound to a device of iWARP. */
bool iwarp_has(const struct fabric_id *id);
int iwarp_connect(struct fabric_id *id, const struct rdma_conn_param *param);
int iwarp_accept(struct fabric_id *id, const struct rdma_conn_param *param);
/* True: a listen of ID can wait, as its device, or one of all if it has none, is of iWARP. */
bool iwarp_may_wait_to_listen(const struct fabric_id *id);
/*
 * Begins to listen, in a later turn of the loop, and returns -EINPROGRESS until the outcome is known: then can_go_on() is
 * called, and the next call returns it. RESTORES: nobody calls again; returns 0, and DEVICE_REMOVAL reports a failure.
 */
int iwarp_listen(struct fabric_id *id, int backlog, bool restores);
int iwarp_init(struct fabric *fabric); /* 0 or a negative errno */
void iwarp_end(struct fabric *fabric);
/* The id is freed: a thread that has not begun does not begin. */
void iwarp_cancel(struct iwarp_call *call);
/* True: other calls about the id would wait for the thread. */
bool iwarp_is_calling(const struct fabric_id *id);
/* True: the disconnect will be sent later, if there is a connection then. */
bool iwarp_puts_off_disconnect(struct fabric_id *id);
/* ID got an event of TYPE. True: a disconnect was put off, and can be sent now. */
bool iwarp_wants_disconnect(struct fabric_id *id, enum rdma_cm_event_type type);
