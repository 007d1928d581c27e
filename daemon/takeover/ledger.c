/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "takeover/fdstore.h"
#include "takeover/ledger.h"
#include "util/util.h"

#define KIND "ledger"
#define MAGIC "rdmabroker ledger"
#define TRIES_MAX 3
#define TABLES_MAX 16

struct header {
	char magic[24];
	uint32_t version;
	/* how many processes have begun to take this ledger over */
	uint32_t tries;
	/* True: all that was taken over is in this ledger. A process that is killed before leaves an incomplete one. */
	uint32_t complete;
	uint32_t reading; /* see ledger_get_reading() */
	uint64_t generation;
	uint64_t last_session;
	struct header_table {
		uint64_t offset; /* 0: there is no such table */
		uint32_t row_size;
		uint32_t end; /* rows from this number on were never used */
	} tables[TABLES_MAX];
};

/* The file. Rows that were never used take no memory. */
struct layout {
	struct header header;
#define TABLE(name, max, member, n) struct ledger_##name member[max];
	LEDGER_TABLES(TABLE)
#undef TABLE
};

static const struct {
	size_t offset, row_size;
	uint32_t max; /* rows */
	size_t old_rows, old_n; /* in struct old_ledger */
} forms[] = {
#define TABLE(name, max, member, n)                                           \
	{ offsetof(struct layout, member), sizeof(struct ledger_##name), max, \
	  offsetof(struct old_ledger, member), offsetof(struct old_ledger, n) },
	LEDGER_TABLES(TABLE)
#undef TABLE
};

/* The free rows below the end, as a stack, so that few rows and few pages are used. */
struct free_rows {
	uint32_t *rows;
	uint32_t n, n_allocated;
};

struct ledger {
	struct fdstore *store;
	struct layout *layout;
	int fd;
	struct free_rows free[_LEDGER_TABLES];
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

int ledger_new(struct ledger **ret, struct fdstore *store)
{
	_cleanup_(ledger_freep) struct ledger *ledger = NULL;
	struct header *header;
	int r;

	*ret = NULL;
	if (!fdstore_is_present(store))
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
	for (unsigned i = 0; i < _LEDGER_TABLES; i++)
		header->tables[i] = (struct header_table){
			.offset = forms[i].offset,
			.row_size = (uint32_t)forms[i].row_size,
		};
	header->generation = 1;
	r = fdstore_add(store, KIND, fdstore_last(store, KIND) + 1, ledger->fd);
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
	for (unsigned i = 0; i < _LEDGER_TABLES; i++)
		free(ledger->free[i].rows);
	free(ledger);
	return NULL;
}

void *ledger_add(struct ledger *ledger, enum ledger_table table)
{
	struct free_rows *rows;
	uint32_t *end, row;

	if (!ledger)
		return NULL;
	rows = &ledger->free[table];
	end = &ledger->layout->header.tables[table].end;
	if (rows->n > 0)
		row = rows->rows[--rows->n];
	else if (*end < forms[table].max)
		row = (*end)++;
	else
		return NULL;
	return (char *)ledger->layout + forms[table].offset + row * forms[table].row_size;
}

/* If memory runs out, the row is not used again by this process. */
static void put(struct free_rows *rows, uint32_t row)
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

/* The first member is cleared first, so that a row that is half cleared is a free one. */
void *ledger_remove(struct ledger *ledger, enum ledger_table table, void *row)
{
	size_t offset;

	if (!row)
		return NULL;
	offset = (size_t)((char *)row - (char *)ledger->layout) - forms[table].offset;
	__atomic_store_n((uint64_t *)row, 0, __ATOMIC_RELEASE);
	memset(row, 0, forms[table].row_size);
	put(&ledger->free[table], (uint32_t)(offset / forms[table].row_size));
	return NULL;
}

void ledger_link_parts(struct ledger *ledger, struct ledger_packet *part,
		       const struct ledger_packet *next)
{
	part->next = (uint32_t)(next - ledger->layout->packets) + 1;
}

struct ledger_packet *ledger_next_part(struct ledger *ledger, const struct ledger_packet *part)
{
	return part->next > 0 ? &ledger->layout->packets[part->next - 1] : NULL;
}

void ledger_set_last_session(struct ledger *ledger, uint64_t number)
{
	if (ledger)
		ledger->layout->header.last_session = number;
}

uint32_t *ledger_get_reading(struct ledger *ledger)
{
	return ledger ? &ledger->layout->header.reading : NULL;
}

uint64_t ledger_get_generation(const struct ledger *ledger)
{
	return ledger ? ledger->layout->header.generation : 0;
}

struct mmsghdr *ledger_note_header(struct ledger_note *note)
{
	_Static_assert(sizeof(struct mmsghdr) <= sizeof(note->header), "header");
	return (struct mmsghdr *)note->header;
}

uint32_t ledger_note_length(const struct ledger_note *note)
{
	return ((const struct mmsghdr *)note->header)->msg_len;
}

void ledger_note_set(struct ledger_note *note, uint32_t length)
{
	__atomic_store_n(&ledger_note_header(note)->msg_len, length, __ATOMIC_RELEASE);
}

/* Reading what the previous process has left */

/* NULL: the file of SIZE bytes that begins with HEADER can be read. */
static const char *why_unreadable(const struct header *header, size_t size)
{
	if (!has_form(header))
		return "it is no ledger";
	if (header->version != LEDGER_VERSION)
		return "it was written by another version of the daemon";
	for (unsigned i = 0; i < TABLES_MAX; i++) {
		const struct header_table *table = &header->tables[i];

		if (table->offset > size || table->offset % sizeof(uint64_t) != 0 ||
		    (table->end > 0 && table->row_size < sizeof(uint64_t)) ||
		    table->row_size % sizeof(uint64_t) != 0 ||
		    (uint64_t)table->end * table->row_size > size - table->offset)
			return "it is damaged";
	}
	return NULL;
}

_Static_assert(offsetof(struct ledger_id, handle) == offsetof(struct ledger_key, id), "ids");
_Static_assert(offsetof(struct ledger_group, id) == offsetof(struct ledger_key, id), "groups");
_Static_assert(offsetof(struct ledger_request, id) == offsetof(struct ledger_key, id), "requests");
_Static_assert(offsetof(struct ledger_packet, number) == offsetof(struct ledger_key, id),
	       "packets");

static int compare_keys(const void *a, const void *b)
{
	const struct ledger_key *x = a, *y = b;

	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

size_t old_ledger_find(const void *rows, size_t n, size_t size, uint64_t session, uint32_t id)
{
	const struct ledger_key key = { .session = session, .id = id };

	return LOWER_BOUND(i, n, compare_keys((const char *)rows + i * size, &key) < 0);
}

static void **old_rows(struct old_ledger *old, unsigned table)
{
	return (void **)((char *)old + forms[table].old_rows);
}

/* Copies the rows that are used. A row of an older ledger can be shorter, and one of a newer ledger longer. */
static int copy_rows(struct old_ledger *ret, const struct header *header, unsigned number)
{
	const struct header_table *table = &header->tables[number];
	size_t size = forms[number].row_size, n = 0;
	const char *from = (const char *)header + table->offset;
	char *rows = calloc((size_t)table->end + 1, size);

	if (!rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->end; i++, from += table->row_size)
		if (*(const uint64_t *)from > 0)
			memcpy(rows + n++ * size, from,
			       table->row_size < size ? table->row_size : size);
	if (n > 0)
		qsort(rows, n, size, compare_keys);
	*old_rows(ret, number) = rows;
	*(size_t *)((char *)ret + forms[number].old_n) = n;
	return 0;
}

static int copy_ledger(struct old_ledger *ret, const struct header *header)
{
	int r = 0;

	for (unsigned i = 0; i < _LEDGER_TABLES && r == 0; i++)
		r = copy_rows(ret, header, i);
	ret->last_session = header->last_session;
	ret->generation = header->generation;
	/* A process that has begun to take over can have taken events, which were in its own ledger only. */
	ret->tried = header->tries > 1;
	ret->event_lost = header->reading || ret->tried;
	return r;
}

struct mapped {
	struct header *header; /* NULL: nothing is mapped */
	size_t size;
};

static void unmap(struct mapped *mapped)
{
	if (mapped->header)
		munmap(mapped->header, mapped->size);
	*mapped = (struct mapped){ 0 };
}

/* Maps the file FD. Returns NULL, or why it cannot be read. */
static const char *map_old(int fd, struct mapped *ret)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct header))
		return "it is no ledger";
	p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return "it cannot be mapped";
	*ret = (struct mapped){ .header = p, .size = (size_t)st.st_size };
	return why_unreadable(ret->header, ret->size);
}

/* Finds the newest complete ledger. RET_MAPPED->header is NULL if there is none. */
static int find_complete(struct fdstore *store, struct old_ledger *ret, struct mapped *ret_mapped,
			 const char **ret_why)
{
	unsigned n, best_n = 0;
	int fd;

	*ret_mapped = (struct mapped){ 0 };
	*ret_why = NULL;
	while ((fd = fdstore_take(store, KIND, &n)) >= 0) {
		struct mapped mapped = { 0 };
		const char *why = map_old(fd, &mapped);

		close(fd);
		if (ret->n_old < OLD_LEDGERS_MAX)
			ret->old[ret->n_old++] = n;
		if (!why && mapped.header->complete && n > best_n) {
			unmap(ret_mapped);
			*ret_mapped = mapped;
			best_n = n;
		} else {
			unmap(&mapped);
		}
		*ret_why = why ?: *ret_why;
	}
	return ret_mapped->header ? 0 : *ret_why ? -EPROTO : -ENOENT;
}

int old_ledger_read(struct old_ledger *ret, struct fdstore *store, const char **ret_why)
{
	struct mapped mapped;
	int r;

	*ret = (struct old_ledger){ 0 };
	r = find_complete(store, ret, &mapped, ret_why);
	if (r < 0)
		return r;
	if (++mapped.header->tries > TRIES_MAX) {
		*ret_why = "three processes have failed to take it over";
		r = -EPROTO;
	}
	if (r == 0)
		r = copy_ledger(ret, mapped.header);
	unmap(&mapped);
	return r;
}

void old_ledger_forget(struct old_ledger *old)
{
	struct old_ledger forgotten = { .n_old = old->n_old };

	memcpy(forgotten.old, old->old, sizeof(forgotten.old));
	old_ledger_free(old);
	*old = forgotten;
}

void old_ledger_free(struct old_ledger *old)
{
	for (unsigned i = 0; i < _LEDGER_TABLES; i++)
		free(*old_rows(old, i));
	*old = (struct old_ledger){ 0 };
}

void ledger_complete(struct ledger *ledger, const struct old_ledger *old)
{
	if (!ledger)
		return;
	ledger->layout->header.generation = old->generation + 1;
	__atomic_store_n(&ledger->layout->header.complete, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < old->n_old; i++)
		fdstore_remove(ledger->store, KIND, old->old[i]);
}
