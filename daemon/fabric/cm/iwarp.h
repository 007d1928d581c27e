/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * iWARP. Calls that InfiniBand's connection manager answers at once can wait there:
 *
 *   disconnect   The kernel waits until the connect or accept before it has ended, which takes as long as the peer wants.
 *                So it is put off until ESTABLISHED. If another event comes, there is nothing to disconnect.
 *   connect      Software iWARP waits until the peer's TCP answers, or two minutes. So a thread calls it, and an event reports
 *                its failure. It is the event that drivers report which do not wait. Meanwhile the kernel would also make all
 *                other calls about the id wait.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>

struct fabric_id;
struct iwarp_call;

/* True: the id is bound to a device of iWARP. */
bool iwarp_has(const struct fabric_id *id);
int iwarp_connect(struct fabric_id *id, const struct rdma_conn_param *param);
/* The id is freed: a thread that has not begun does not connect. */
void iwarp_cancel(struct iwarp_call *call);
/* True: other calls about the id would wait for the thread. */
bool iwarp_is_calling(const struct fabric_id *id);
/* True: the disconnect will be sent later, if there is a connection then. */
bool iwarp_puts_off_disconnect(struct fabric_id *id);
/* ID got an event of TYPE. True: a disconnect was put off, and can be sent now. */
bool iwarp_wants_disconnect(struct fabric_id *id, enum rdma_cm_event_type type);
