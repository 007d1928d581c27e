/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A socket of the test takes the place of journald's, in a private /run. */

#include <stdbool.h>

/*
 * To be called before the first thread is created, and before log_init(). Returns false, and prints the reason, if this
 * machine does not allow a private /run.
 */
bool take_place_of_journald(void);
/* Returns the next entry, a line for each field; NULL: no entry came within the timeout. Valid until the next call. */
char *next_entry(void);
