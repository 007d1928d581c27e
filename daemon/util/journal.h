/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A queue of journal entries that a thread writes to the journal, see log.h. */

#include <stddef.h>
#include <sys/uio.h>

struct journal;

struct journal *journal_new(void); /* NULL: no memory, or no thread could be started */
/*
 * Waits until the queue is written, and frees JOURNAL. If the queue is not written after two seconds, JOURNAL stays
 * allocated, because the thread still uses it. Takes NULL; returns NULL.
 */
struct journal *journal_free(struct journal *journal);
/*
 * Puts an entry into the queue; if that is full, the entry is dropped and counted. FIELDS are "NAME=VALUE", as for
 * sd_journal_sendv(). Never waits for the journal.
 */
void journal_write(struct journal *journal, const struct iovec *fields, size_t n_fields);
