/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What becomes of a roll-out on the hosts. */

#include "fleetctl.h"
#include "proto/jsonout.h"

/* How many hosts follow LABEL. */
unsigned wait_count_hosts(const struct fleet *fleet, const char *label);
/*
 * Waits until no host of LABEL can get VERSION by itself any more, or for the time of --wait, and tells what has become of
 * it: in text, or as members of the object that is open in JSON. Returns an exit status.
 */
int wait_for_hosts(struct fleetctl *ctl, const char *label, const char *version,
		   struct jsonout *json);
