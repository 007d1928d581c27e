/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Names of users and groups that could not be looked up when the policy was loaded at start: whoever knows them may
 * not have been there yet. They are looked up again by a thread, first after a while and then at intervals that double
 * up to five minutes, for as long as the policy that misses them is in force.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "policy/policy.h"

struct names;

/*
 * FOUND is called from the loop: POLICY is the one that is watched with fewer names missing. It stays the caller's of
 * FOUND to reference. FIRST_MSEC: after this time they are looked up for the first time.
 */
int names_new(struct names **ret, sd_event *loop, unsigned first_msec,
	      void (*found)(void *userdata, struct policy *policy), void *userdata);
struct names *names_free(struct names *names);
/* POLICY is in force now. */
void names_watch(struct names *names, struct policy *policy);
