/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* How the core begins and ends. */

#include "core/object/core.h"

/* Takes a reference to POLICY. The caller sets the limits of core.account. */
int core_new(struct core **ret, sd_event *loop, enum fabric_access access, struct policy *policy);
struct core *core_free(struct core *core); /* must have no sessions */
