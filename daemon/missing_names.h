/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Repeats the look-up of user and group names that were not found at the start: the directory service may not
 * have been running yet. While a policy with missing names is in force, a thread looks them up at intervals
 * that double up to five minutes.
 */

#include <systemd/sd-event.h>

#include "policy/policy.h"

struct missing_names;

/*
 * FOUND is called from the loop when names were found. POLICY is then the watched policy with fewer names
 * missing; FOUND must take a reference to keep it. FIRST_MSEC: until the first look-up.
 */
int missing_names_new(struct missing_names **ret, sd_event *loop, unsigned first_msec,
		      void (*found)(void *userdata, struct policy *policy), void *userdata);
struct missing_names *missing_names_free(struct missing_names *names);
/* Call when POLICY is put in force. */
void missing_names_watch(struct missing_names *names, struct policy *policy);
