/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The verbs that set and get options of ids; for their results see bind.h. */

struct failure;
struct id;

int option_set(struct id *id, int option, int value, struct failure *failure);
int option_get(struct id *id, int option, int *ret, struct failure *failure);
