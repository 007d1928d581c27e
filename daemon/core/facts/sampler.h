/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Looks every ten seconds who has devices open, or connection manager ids, without the broker, as long as the device nodes
 * are open. A thread asks netlink for the contexts and the ids of all devices, not for QPs, each of which costs the device
 * a command, and /proc for their processes. Whoever opens a device for a shorter time is not seen, nor whose thread has
 * ended since.
 *
 *   off ── the nodes are open, at the next time ──> a thread takes a sample ── done ──> off
 *
 * A sample reads at most SAMPLER_PROCESSES processes; the next one goes on where it has ended.
 */

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/facts/sighting.h"

#define SAMPLER_PROCESSES 1024
#define SAMPLER_PERIOD_USEC (10 * UINT64_C(1000000))

struct sampler;

struct sampler_ops {
	/*
	 * The pids of all clients, in any order. Returns their number; RET is freed with free(). -ENOMEM: not known. Clients
	 * have contexts of their own.
	 */
	int (*list_clients)(void *userdata, pid_t **ret);
	void (*seen)(void *userdata, const struct seen *seen);
	void (*sampled)(void *userdata); /* after the calls of SEEN for a whole sample */
};

/* OPEN_FILE: exists while the nodes are open. OPS and OPEN_FILE must stay valid. */
int sampler_new(struct sampler **ret, sd_event *loop, const char *open_file,
		const struct sampler_ops *ops, void *userdata);
/* Waits for the thread, as offload_free() does. */
struct sampler *sampler_free(struct sampler *sampler);
