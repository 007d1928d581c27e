/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Lets the sampler find who uses RDMA without the broker, and notes it: core.sampler, core.sightings. */

struct core;
struct old_ledger;

int sampling_init(struct core *core);
void sampling_done(struct core *core);
/* Takes over what a previous process has noted. */
void sampling_restore(struct core *core, const struct old_ledger *old);
