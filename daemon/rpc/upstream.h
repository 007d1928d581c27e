/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The connection of an instance of the daemon to the initial instance, which gives users access to the nodes of the
 * devices (fabric_set_lender()).
 *
 *   IDLE ── connect() ──> GREETING ── hello ──> READY
 *     ^──────────── the connection is lost ──────┘
 *
 * After the connection was lost, the initial instance has forgotten all loans, so they are requested again. Access that
 * cannot be requested within 15 seconds is refused. The end of a loan needs no connection.
 */

#include <systemd/sd-event.h>

struct fabric;
struct upstream;

/* Connects to the initial instance, which listens at PATH, and becomes FABRIC's lender. Returns 0 or a negative errno. */
int upstream_new(struct upstream **ret, sd_event *loop, const char *path, struct fabric *fabric);
/* All leases must be gone. Takes NULL; returns NULL. */
struct upstream *upstream_free(struct upstream *upstream);
