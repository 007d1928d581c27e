/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A queue of entries that a thread writes to the journal, see log.h. */

#include <stddef.h>
#include <sys/uio.h>

struct journal;

struct journal *journal_new(void); /* NULL: no memory, or no thread could be started */
/*
 * Waits until the queue is written, for two seconds at most, and frees JOURNAL. If the thread has not
 * finished by then, JOURNAL stays allocated. Takes NULL; returns NULL.
 */
struct journal *journal_free(struct journal *journal);
/*
 * Puts an entry into the queue; if the queue is full, drops and counts the entry. FIELDS are "NAME=VALUE".
 * Never waits for the journal.
 */
void journal_write(struct journal *journal, const struct iovec *fields, size_t n_fields);
