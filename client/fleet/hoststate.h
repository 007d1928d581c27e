/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The keys of this host in etcd: its state under a lease (hosts/HOST), and that it exists (known/HOST). */

#include <jansson.h>

#include "settings.h"

struct hoststate;

/* ETCD and SETTINGS have to exist longer. 0 or -ENOMEM. */
int hoststate_new(struct hoststate **ret, struct etcd *etcd, const struct settings *settings);
struct hoststate *hoststate_free(struct hoststate *state);
/*
 * Keeps the lease, and writes REPORT (see report.h), if something else than numbers has changed since the last one, or if
 * the last one is too old: each writing makes etcd's database larger until it is compacted. Adds which machine and which
 * agent it is, and the machine of another agent with the same name. Returns as the calls of etcd.
 */
int hoststate_put(struct hoststate *state, json_t *report);
/* Keeps the lease only. */
void hoststate_keep(struct hoststate *state);
/* The state is gone at once. Without an answer it is gone when the lease expires. */
void hoststate_end(struct hoststate *state);
