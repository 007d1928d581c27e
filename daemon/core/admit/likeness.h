/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What in a row of refused.h is another the next time, and makes no difference: the names of login sessions, jobs, containers,
 * pods and what systemd-run starts (proto/unitname.h), the ports that the kernels of peers choose, and those of the same range
 * on which a job listens: its program had the kernel choose one for TCP, say, and takes the number for RDMA, too. A row of
 * several has the class of what differs: "session-*.scope", "*", or REFUSED_PORT_ANY.
 */

#include <stdbool.h>
#include <stdint.h>

struct ledger_refused;

struct likeness {
	unsigned first_port,
		last_port; /* those that this kernel chooses, and others probably, too */
};

void likeness_init(struct likeness *ret);
/* True: this kernel or the peer's has chosen the row's port, as far as can be told. */
bool likeness_has_chosen_port(const struct likeness *likeness, const struct ledger_refused *row);
/* Of the names in ROW, and its rule: rows that are alike have the same. */
uint64_t likeness_hash(const struct ledger_refused *row);
/* ROW, which is like ANOTHER, gets the class of what differs. True: it has changed. */
bool likeness_join(struct ledger_refused *row, const struct ledger_refused *another);
