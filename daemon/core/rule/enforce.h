/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * OnReload=enforce: ends the sessions, ids, groups and leases that policy no longer allows, a limited number
 * in each turn of the loop.
 */

struct core;

int enforce_init(struct core *core);
void enforce_start(struct core *core);
