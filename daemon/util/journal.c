/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "util/journal.h"
#include "util/list.h"

#define WAITING_MAX (1024 * 1024) /* size of the queue in bytes */
#define END_SECONDS 2
#define STACK_SIZE (256 * 1024)

struct entry {
	struct list link; /* journal.entries */
	size_t size;
	size_t n_fields;
	struct iovec fields[]; /* point to the text, which is stored behind FIELDS */
};

struct journal {
	pthread_t thread;
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t work;
	pthread_cond_t ended;
	struct list entries; /* entry.link */
	size_t n_bytes; /* of ENTRIES and of the entry that is being written */
	unsigned n_dropped; /* dropped and not reported yet */
	bool ending, has_ended;
};

static void tell_dropped(unsigned n)
{
	if (n > 0)
		sd_journal_send(
			"PRIORITY=%i", LOG_WARNING,
			"MESSAGE=(%u lines before the next one were dropped: the journal did "
			"not accept them in time)",
			n, NULL);
}

static void *work(void *arg)
{
	struct journal *journal = arg;
	struct list *l;

	pthread_mutex_lock(&journal->lock);
	for (;;) {
		struct entry *entry;
		unsigned n_dropped;

		/* Entries in the queue are older than dropped lines, so the queue is written first. */
		l = list_first(&journal->entries);
		if (!l && journal->n_dropped > 0) {
			n_dropped = journal->n_dropped;
			journal->n_dropped = 0;
			pthread_mutex_unlock(&journal->lock);
			tell_dropped(n_dropped);
			pthread_mutex_lock(&journal->lock);
			continue;
		}
		if (!l && journal->ending)
			break;
		if (!l) {
			pthread_cond_wait(&journal->work, &journal->lock);
			continue;
		}
		entry = container_of(l, struct entry, link);
		list_remove(l);
		pthread_mutex_unlock(&journal->lock);
		sd_journal_sendv(entry->fields, (int)entry->n_fields);
		pthread_mutex_lock(&journal->lock);
		journal->n_bytes -= entry->size;
		free(entry);
	}
	journal->has_ended = true;
	pthread_cond_signal(&journal->ended);
	pthread_mutex_unlock(&journal->lock);
	return NULL;
}

struct journal *journal_new(void)
{
	struct journal *journal = calloc(1, sizeof(*journal));
	pthread_condattr_t clock;
	sigset_t all, before;
	pthread_attr_t attr;
	int r;

	if (!journal)
		return NULL;
	list_init(&journal->entries);
	pthread_mutex_init(&journal->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&journal->work, &clock);
	pthread_cond_init(&journal->ended, &clock);
	pthread_condattr_destroy(&clock);
	/* Block all signals in the thread: the event loop handles them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	r = pthread_create(&journal->thread, &attr, work, journal);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		free(journal);
		return NULL;
	}
	return journal;
}

struct journal *journal_free(struct journal *journal)
{
	struct timespec deadline;
	bool has_ended;
	int r = 0;

	if (!journal)
		return NULL;
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += END_SECONDS;
	pthread_mutex_lock(&journal->lock);
	journal->ending = true;
	pthread_cond_signal(&journal->work);
	while (!journal->has_ended && r == 0)
		r = pthread_cond_timedwait(&journal->ended, &journal->lock, &deadline);
	has_ended = journal->has_ended;
	pthread_mutex_unlock(&journal->lock);
	/* The thread still uses JOURNAL. */
	if (!has_ended)
		return NULL;
	pthread_join(journal->thread, NULL);
	pthread_mutex_destroy(&journal->lock);
	pthread_cond_destroy(&journal->work);
	pthread_cond_destroy(&journal->ended);
	free(journal);
	return NULL;
}

static struct entry *entry_new(const struct iovec *fields, size_t n_fields)
{
	size_t size = sizeof(struct entry) + n_fields * sizeof(struct iovec);
	struct entry *entry;
	char *text;

	for (size_t i = 0; i < n_fields; i++)
		size += fields[i].iov_len;
	entry = malloc(size);
	if (!entry)
		return NULL;
	entry->size = size;
	entry->n_fields = n_fields;
	text = (char *)&entry->fields[n_fields];
	for (size_t i = 0; i < n_fields; i++) {
		memcpy(text, fields[i].iov_base, fields[i].iov_len);
		entry->fields[i] = (struct iovec){ text, fields[i].iov_len };
		text += fields[i].iov_len;
	}
	return entry;
}

void journal_write(struct journal *journal, const struct iovec *fields, size_t n_fields)
{
	struct entry *entry = entry_new(fields, n_fields);

	pthread_mutex_lock(&journal->lock);
	/*
	 * The thread writes the queue before it reports dropped lines. This entry is younger than those
	 * lines, so it is dropped too.
	 */
	if (!entry || journal->n_dropped > 0 || journal->n_bytes + entry->size > WAITING_MAX) {
		journal->n_dropped++;
		free(entry);
	} else {
		journal->n_bytes += entry->size;
		list_insert(&journal->entries, &entry->link);
	}
	pthread_cond_signal(&journal->work);
	pthread_mutex_unlock(&journal->lock);
}
