/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The agent: follows the keys of etcd, stages the version that this host should have, and reports the host's state.
 *
 * The keys, below the prefix (/rdmabroker/):
 *
 *   versions/NAME/FILE   a file of the version NAME
 *   versions/NAME        the manifest of the version (see version.h); it is written last, and a version without it is not
 *                        taken. None of these keys is changed later
 *   rollout/LABEL        the name of the version for hosts with this label
 *   rollout/all          the name of the version for the others
 *   hosts/HOST           the state of a host (see report.h), under a lease
 *   versions/.retry      somebody asks all hosts, or one (versions/.retry/HOST), for a new attempt at once; the value says who.
 *                        No version has such a name, and hosts may read these keys already, because of the versions
 *   known/HOST           "labels" and "in_force" of a host, as JSON, without a lease: so it is known that a host is away
 *
 * A host takes the first of its labels that has a key, else "all". A staged roll-out, and a roll-back, are changes of
 * these keys. If there is no key, or the version cannot be taken, the host keeps what it has. When and how often the agent
 * tries, and what it does if somebody puts another version in force on the host: see converge.h.
 *
 * On the host:
 *
 *   STATE/staged/NAME/   a version, complete and verified
 *   STATE/wanted         its name and a line break. systemd starts rdmabroker-fleet-install when it is replaced
 *   RESULT               what came of it, see report_read_install()
 *
 * The agent runs as a user without privileges. Root trusts nothing of it: see rdmabroker-fleet-install.
 *
 * What goes wrong never ends the agent. It is logged once for each cause, and tried again after pauses of up to 30 s.
 */

#include "settings.h"

#define AGENT_RETRY "versions/.retry"

struct agent;

/* SETTINGS are not copied. 0 or a negative errno, which was reported. */
int agent_new(struct agent **ret, const struct settings *settings);
struct agent *agent_free(struct agent *agent);
/* Runs until STOP, a descriptor, is readable. */
void agent_run(struct agent *agent, int stop);
