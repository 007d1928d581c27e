/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* How much of what was refused, or allowed with a warning, the daemon knows, for the verbs that print of it. */

#include <stdio.h>

#include "client/admin.h"
#include "table.h"

extern const struct column learned_columns[];
/* Prints "watched since ...; 3 rows have left since ..., because there were too many", without a newline. */
void learned_print(FILE *file, const struct rdmabroker_learned *learned);
