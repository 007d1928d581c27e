/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Entries on their way to the journal, which a thread writes: see log.h. */

#include <stddef.h>
#include <sys/uio.h>

struct journal;

struct journal *journal_new(void); /* NULL: there is no memory, or no thread */
/* Waits for what is still to be written, two seconds at most. Takes NULL; returns NULL. */
struct journal *journal_free(struct journal *journal);
/* "NAME=VALUE" each, as for sd_journal_sendv(). Never waits for the journal. */
void journal_write(struct journal *journal, const struct iovec *fields, size_t n_fields);
