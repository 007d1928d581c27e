/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Repeats the look-up of users' and groups' names that were not found when the policy was loaded at the
 * start, maybe because the service that knows them was not running yet. A thread looks them up again, first
 * after a while and then at intervals that double up to five minutes, as long as a policy with missing names
 * is in force.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "policy/policy.h"

struct missing_names;

/*
 * FOUND is called from the loop after a look-up that has found names. POLICY is then the watched policy with
 * fewer names missing; FOUND has to take a reference to keep it. FIRST_MSEC: the time until the first look-up.
 */
int missing_names_new(struct missing_names **ret, sd_event *loop, unsigned first_msec,
		      void (*found)(void *userdata, struct policy *policy), void *userdata);
struct missing_names *missing_names_free(struct missing_names *names);
/* To be called when POLICY has been put in force. */
void missing_names_watch(struct missing_names *names, struct policy *policy);
