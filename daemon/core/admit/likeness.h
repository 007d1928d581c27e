/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What in a row of refused.h is another the next time, and makes no difference: the names of login sessions, jobs, containers,
 * pods and what systemd-run starts (proto/unitname.h), and the ports that the kernels of peers choose. A row of several has
 * the class of what differs: "session-*.scope", "*", or REFUSED_PORT_ANY.
 */

#include <stdbool.h>
#include <stdint.h>

struct ledger_refused;

struct likeness {
	unsigned first_port,
		last_port; /* those that this kernel chooses, and others probably, too */
};

void likeness_init(struct likeness *ret);
/* True: the kernel has chosen the row's port, or the peer's kernel has. */
bool likeness_has_chosen_port(const struct likeness *likeness, const struct ledger_refused *row);
/* Of the names in ROW, and its rule: rows that are alike have the same. */
uint64_t likeness_hash(const struct ledger_refused *row);
/* ROW, which is like ANOTHER, gets the class of what differs. True: it has changed. */
bool likeness_join(struct ledger_refused *row, const struct ledger_refused *another);
