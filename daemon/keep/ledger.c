/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keep/ledger.h"
#include "keep/store.h"
#include "util/util.h"

#define KIND "ledger"
#define MAGIC "rdmabroker ledger"
#define TRIES_MAX 3

struct header {
	char magic[24];
	uint32_t version;
	uint32_t session_size, id_size; /* the sizes of a row */
	/* True: all that was taken over is in this ledger. A process that is killed before leaves an incomplete one. */
	uint32_t complete;
	/* how many processes have begun to take this ledger over */
	uint32_t tries;
	uint32_t reserved;
	uint64_t generation;
	uint64_t last_session;
	/* rows from these numbers on were never used */
	uint32_t sessions_end, ids_end;
};

/* The file. Rows that were never used take no memory. */
struct layout {
	struct header header;
	struct ledger_session sessions[LEDGER_SESSIONS];
	struct ledger_id ids[LEDGER_IDS];
};

/* The free rows below the end, as a stack, so that few rows and few pages are used. */
struct free_rows {
	uint32_t *rows;
	uint32_t n, n_allocated;
};

struct ledger {
	struct store *store;
	struct layout *layout;
	int fd;
	struct free_rows free_sessions, free_ids;
};

static bool has_form(const struct header *header)
{
	return memcmp(header->magic, MAGIC, sizeof(MAGIC)) == 0;
}

DEFINE_CLEANUP(struct ledger *, ledger_free)

static int map(int fd, struct layout **ret)
{
	void *p = mmap(NULL, sizeof(struct layout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*ret = p;
	return 0;
}

static int make_file(struct ledger *ledger)
{
	ledger->fd = memfd_create("rdmabroker-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (ledger->fd < 0 || ftruncate(ledger->fd, sizeof(struct layout)) < 0 ||
	    fcntl(ledger->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return -errno;
	return map(ledger->fd, &ledger->layout);
}

int ledger_new(struct ledger **ret, struct store *store)
{
	_cleanup_(ledger_freep) struct ledger *ledger = NULL;
	struct header *header;
	int r;

	*ret = NULL;
	if (!store_is_present(store))
		return 0;
	ledger = calloc(1, sizeof(*ledger));
	if (!ledger)
		return -ENOMEM;
	ledger->store = store;
	ledger->fd = -1;
	r = make_file(ledger);
	if (r < 0)
		return r;
	header = &ledger->layout->header;
	memcpy(header->magic, MAGIC, sizeof(MAGIC));
	header->version = LEDGER_VERSION;
	header->session_size = sizeof(struct ledger_session);
	header->id_size = sizeof(struct ledger_id);
	header->generation = 1;
	r = store_add(store, KIND, store_last(store, KIND) + 1, ledger->fd);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(ledger);
	return 0;
}

struct ledger *ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return NULL;
	if (ledger->layout)
		munmap(ledger->layout, sizeof(*ledger->layout));
	closep(&ledger->fd);
	free(ledger->free_sessions.rows);
	free(ledger->free_ids.rows);
	free(ledger);
	return NULL;
}

/* Returns the number of a free row below MAX; -1: there is none. */
static int64_t take_row(struct free_rows *rows, uint32_t *end, uint32_t max)
{
	if (rows->n > 0)
		return rows->rows[--rows->n];
	return *end < max ? (int64_t)(*end)++ : -1;
}

/* If memory runs out, the row is not used again by this process. */
static void put_row(struct free_rows *rows, uint32_t row)
{
	if (rows->n == rows->n_allocated) {
		uint32_t n = rows->n_allocated ? 2 * rows->n_allocated : 256;
		uint32_t *more = realloc(rows->rows, n * sizeof(*more));

		if (!more)
			return;
		rows->rows = more;
		rows->n_allocated = n;
	}
	rows->rows[rows->n++] = row;
}

struct ledger_session *ledger_add_session(struct ledger *ledger)
{
	int64_t row;

	if (!ledger)
		return NULL;
	row = take_row(&ledger->free_sessions, &ledger->layout->header.sessions_end,
		       LEDGER_SESSIONS);
	return row < 0 ? NULL : &ledger->layout->sessions[row];
}

struct ledger_id *ledger_add_id(struct ledger *ledger)
{
	int64_t row;

	if (!ledger)
		return NULL;
	row = take_row(&ledger->free_ids, &ledger->layout->header.ids_end, LEDGER_IDS);
	return row < 0 ? NULL : &ledger->layout->ids[row];
}

/* The first member is cleared first, so that a row that is half cleared is a free one. */
struct ledger_session *ledger_remove_session(struct ledger *ledger, struct ledger_session *row)
{
	if (!row)
		return NULL;
	__atomic_store_n(&row->number, 0, __ATOMIC_RELEASE);
	memset(row, 0, sizeof(*row));
	put_row(&ledger->free_sessions, (uint32_t)(row - ledger->layout->sessions));
	return NULL;
}

struct ledger_id *ledger_remove_id(struct ledger *ledger, struct ledger_id *row)
{
	if (!row)
		return NULL;
	__atomic_store_n(&row->session, 0, __ATOMIC_RELEASE);
	memset(row, 0, sizeof(*row));
	put_row(&ledger->free_ids, (uint32_t)(row - ledger->layout->ids));
	return NULL;
}

void ledger_set_last_session(struct ledger *ledger, uint64_t number)
{
	if (ledger)
		ledger->layout->header.last_session = number;
}

uint64_t ledger_get_generation(const struct ledger *ledger)
{
	return ledger ? ledger->layout->header.generation : 0;
}

/* Reading what the previous process has left */

/* NULL: LAYOUT can be read. */
static const char *why_unreadable(const struct header *header)
{
	if (!has_form(header))
		return "it is no ledger";
	if (header->version != LEDGER_VERSION ||
	    header->session_size != sizeof(struct ledger_session) ||
	    header->id_size != sizeof(struct ledger_id))
		return "it was written by another version of the daemon";
	if (header->sessions_end > LEDGER_SESSIONS || header->ids_end > LEDGER_IDS)
		return "it is damaged";
	return NULL;
}

static int compare_ids(const void *a, const void *b)
{
	const struct ledger_id *x = a, *y = b;

	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	return x->handle < y->handle ? -1 : x->handle > y->handle;
}

static int copy_rows(struct old_ledger *ret, const struct layout *layout)
{
	const struct header *header = &layout->header;

	ret->sessions = calloc(header->sessions_end + 1, sizeof(*ret->sessions));
	ret->ids = calloc(header->ids_end + 1, sizeof(*ret->ids));
	if (!ret->sessions || !ret->ids)
		return -ENOMEM;
	for (uint32_t i = 0; i < header->sessions_end; i++)
		if (layout->sessions[i].number > 0)
			ret->sessions[ret->n_sessions++] = layout->sessions[i];
	for (uint32_t i = 0; i < header->ids_end; i++)
		if (layout->ids[i].session > 0)
			ret->ids[ret->n_ids++] = layout->ids[i];
	if (ret->n_ids > 0)
		qsort(ret->ids, ret->n_ids, sizeof(*ret->ids), compare_ids);
	ret->last_session = header->last_session;
	ret->generation = header->generation;
	return 0;
}

/* Finds the newest complete ledger. *RET_MAPPED is NULL if there is none. */
static int find_complete(struct store *store, struct old_ledger *ret, struct layout **ret_mapped,
			 const char **ret_why)
{
	struct layout *best = NULL;
	unsigned n, best_n = 0;
	int fd;

	*ret_why = NULL;
	while ((fd = store_take(store, KIND, &n)) >= 0) {
		struct layout *layout = NULL;
		struct stat st;
		const char *why = NULL;

		if (ret->n_old < OLD_LEDGERS_MAX)
			ret->old[ret->n_old++] = n;
		if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct header))
			why = "it is no ledger";
		else if (st.st_size != sizeof(struct layout))
			why = "it was written by another version of the daemon";
		else if (map(fd, &layout) < 0)
			why = "it cannot be mapped";
		close(fd);
		why = why ?: why_unreadable(&layout->header);
		if (!why && layout->header.complete && n > best_n) {
			if (best)
				munmap(best, sizeof(*best));
			best = TAKE_PTR(layout);
			best_n = n;
		}
		if (layout)
			munmap(layout, sizeof(*layout));
		*ret_why = why ?: *ret_why;
	}
	*ret_mapped = best;
	return best ? 0 : *ret_why ? -EPROTO : -ENOENT;
}

int old_ledger_read(struct old_ledger *ret, struct store *store, const char **ret_why)
{
	struct layout *layout;
	int r;

	*ret = (struct old_ledger){ 0 };
	r = find_complete(store, ret, &layout, ret_why);
	if (r < 0)
		return r;
	if (++layout->header.tries > TRIES_MAX) {
		*ret_why = "three processes have failed to take it over";
		r = -EPROTO;
	}
	if (r == 0)
		r = copy_rows(ret, layout);
	munmap(layout, sizeof(*layout));
	return r;
}

void old_ledger_free(struct old_ledger *old)
{
	free(old->sessions);
	free(old->ids);
	*old = (struct old_ledger){ 0 };
}

void ledger_complete(struct ledger *ledger, const struct old_ledger *old)
{
	if (!ledger)
		return;
	ledger->layout->header.generation = old->generation + 1;
	__atomic_store_n(&ledger->layout->header.complete, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < old->n_old; i++)
		store_remove(ledger->store, KIND, old->old[i]);
}
