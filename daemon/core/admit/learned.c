/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/admit/learned.h"
#include "core/admit/refused.h"
#include "core/object/core.h"
#include "proto/addr.h"
#include "proto/timer.h"
#include "takeover/ledger.h"
#include "util/log.h"
#include "util/offload.h"
#include "util/util.h"

#define TICK_USEC (300 * 1000000ULL)
#define TICKS_FOR_COUNTS 12
#define SETTLE_MSEC 2000
#define MAGIC "rdmabroker rows"

/* The file: this, a struct ledger_learned, and the rows. Both structs only grow, at their ends. */
struct header {
	char magic[16];
	uint32_t learned_size, row_size;
	uint64_t n_rows;
	uint64_t sum; /* of all that follows */
};

struct learned {
	struct core *core;
	char *path, *new_path;
	sd_event_source *timer;
	unsigned n_ticks; /* since it was written */
	bool exists; /* the file is there */
	bool has_failed; /* which was told */
	struct refused_changes written;

	struct offload *offload;
	struct offload_job job;
	/* never submitted: it keeps the lane allocated, so that offload_prepare() cannot fail */
	struct offload_job keep;
	bool runs;

	/* While the thread runs, only the thread uses these: */
	char *data; /* NULL: the file is removed */
	size_t size;
	int r;
};

static uint64_t sum_of(const char *data, size_t size)
{
	uint64_t sum = 0xcbf29ce484222325;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ (uint8_t)data[i]) * 0x100000001b3;
	return sum;
}

/* Writing */

static int write_file(const struct learned *learned)
{
	size_t done = 0;
	int fd, r = 0;

	fd = open(learned->new_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	while (r == 0 && done < learned->size) {
		ssize_t n = write(fd, learned->data + done, learned->size - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			r = -errno;
	}
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(learned->new_path, learned->path) < 0)
		r = -errno;
	if (r < 0)
		unlink(learned->new_path);
	return r;
}

static void run(struct offload_job *job)
{
	struct learned *learned = container_of(job, struct learned, job);

	if (learned->data) {
		struct header *header = (struct header *)learned->data;

		header->sum = sum_of((char *)(header + 1), learned->size - sizeof(*header));
		learned->r = write_file(learned);
	} else {
		learned->r = unlink(learned->path) < 0 && errno != ENOENT ? -errno : 0;
	}
}

static void on_done(struct offload_job *job)
{
	struct learned *learned = container_of(job, struct learned, job);

	learned->runs = false;
	learned->exists = learned->data != NULL;
	if (learned->r < 0 && !learned->has_failed)
		log_warning("Cannot write %s: %s. A reboot forgets what was refused until then.",
			    learned->path, strerror(-learned->r));
	learned->has_failed = learned->r < 0;
	if (learned->has_failed)
		learned->written = (struct refused_changes){ UINT64_MAX, UINT64_MAX };
	free(learned->data);
	learned->data = NULL;
}

/* Returns 0 or -ENOMEM. */
static int copy_table(struct learned *learned)
{
	const struct core *core = learned->core;
	size_t n = core_count_refused(core);
	struct header header = {
		.magic = MAGIC,
		.learned_size = sizeof(struct ledger_learned),
		.row_size = sizeof(struct ledger_refused),
		.n_rows = n,
	};
	const struct ledger_refused *row;
	char *at;

	learned->size = sizeof(header) + sizeof(struct ledger_learned) + n * sizeof(*row);
	learned->data = malloc(learned->size);
	if (!learned->data)
		return -ENOMEM;
	at = mempcpy(learned->data + sizeof(header), core_get_learned(core),
		     sizeof(struct ledger_learned));
	for (uint64_t next = 0; (row = core_refused_from(core, next)); next = row->number + 1)
		at = mempcpy(at, row, sizeof(*row));
	memcpy(learned->data, &header, sizeof(header));
	return 0;
}

static bool warns(const struct learned *learned)
{
	return policy_n_warn_rules(learned->core->policy) > 0;
}

/* COUNTS: also if only counts and times have changed. */
static void write_if_changed(struct learned *learned, bool counts)
{
	struct refused_changes changes = core_get_refused_changes(learned->core);
	bool is_empty = core_count_refused(learned->core) == 0;

	if (learned->runs || (!warns(learned) && !learned->exists) ||
	    (changes.n == learned->written.n &&
	     (!counts || changes.n_all == learned->written.n_all)))
		return;
	if ((warns(learned) || !is_empty) && copy_table(learned) < 0)
		return;
	learned->written = changes;
	learned->n_ticks = 0;
	learned->runs = true;
	/* Cannot fail, see LEARNED->keep. */
	offload_prepare(learned->offload, &learned->job, 0);
	offload_submit(learned->offload, &learned->job);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct learned *learned = userdata;

	learned->n_ticks++;
	write_if_changed(learned, learned->n_ticks >= TICKS_FOR_COUNTS);
	timer_start(learned->timer, TICK_USEC);
	return 0;
}

/* Reading */

/* NULL: DATA is the file of a table. */
static const char *why_unreadable(const char *data, size_t size)
{
	const struct header *header = (const struct header *)data;
	uint64_t rest = size - sizeof(*header);

	if (size < sizeof(*header) || memcmp(header->magic, MAGIC, sizeof(MAGIC)) != 0)
		return "it is no table";
	if (header->n_rows > LEDGER_REFUSED || header->learned_size > rest ||
	    header->n_rows * header->row_size != rest - header->learned_size ||
	    header->sum != sum_of(data + sizeof(*header), rest))
		return "it is damaged";
	return NULL;
}

static void copy_struct(void *to, size_t size, const char *from, size_t from_size)
{
	memset(to, 0, size);
	memcpy(to, from, from_size < size ? from_size : size);
}

static bool is_sound(const struct ledger_prefix *prefix)
{
	static const uint8_t most[] = { [4] = 32, [6] = 128, [ADDR_KIND_GID] = 128 };

	return prefix->family < ELEMENTS_OF(most) && prefix->bits <= most[prefix->family];
}

#define END_TEXT(text) ((text)[sizeof(text) - 1] = 0)

/* True: no part of the daemon is surprised by ROW. */
static bool make_sound(struct ledger_refused *row)
{
	END_TEXT(row->device);
	END_TEXT(row->name);
	END_TEXT(row->unit);
	END_TEXT(row->container);
	END_TEXT(row->pod);
	END_TEXT(row->job);
	END_TEXT(row->rule);
	return row->number > 0 && row->n > 0 && row->n_gids <= LEDGER_REFUSED_GIDS &&
	       row->port_kind <= REFUSED_PORT_ANY && is_sound(&row->local) && is_sound(&row->peer);
}

static void take(struct learned *learned, const char *data)
{
	const struct header *header = (const struct header *)data;
	const char *at = data + sizeof(*header);
	struct ledger_refused *rows = calloc(header->n_rows + 1, sizeof(*rows));
	struct ledger_learned about;
	size_t n = 0;

	if (!rows)
		return;
	copy_struct(&about, sizeof(about), at, header->learned_size);
	at += header->learned_size;
	for (size_t i = 0; i < header->n_rows; i++, at += header->row_size) {
		copy_struct(&rows[n], sizeof(*rows), at, header->row_size);
		n += make_sound(&rows[n]);
	}
	core_add_refused(learned->core, rows, n, &about);
	free(rows);
}

/* RET is one byte longer than *RET_SIZE. Returns 0 or a negative errno. */
static int read_file(const char *path, char **ret, size_t *ret_size)
{
	size_t most = sizeof(struct header) + sizeof(struct ledger_learned) +
		      LEDGER_REFUSED * 2 * sizeof(struct ledger_refused);
	FILE *file = fopen(path, "re");
	struct stat st;
	char *data = NULL;
	int r = 0;

	if (!file || fstat(fileno(file), &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most)
		r = -EFBIG;
	else if (!(data = malloc((size_t)st.st_size + 1)))
		r = -ENOMEM;
	else if (fread(data, 1, (size_t)st.st_size, file) != (size_t)st.st_size)
		r = -EIO;
	if (file)
		fclose(file);
	if (r < 0) {
		free(data);
		return r;
	}
	*ret = data;
	*ret_size = (size_t)st.st_size;
	return 0;
}

static void load(struct learned *learned)
{
	char *data = NULL;
	size_t size = 0;
	int r = read_file(learned->path, &data, &size);
	const char *why = r == 0 ? why_unreadable(data, size) : strerror(-r);

	learned->exists = r != -ENOENT;
	if (r != -ENOENT && why)
		log_warning("Cannot read what was refused before, %s: %s. The table begins anew.",
			    learned->path, why);
	else if (r == 0 && !core_has_restored_refused(learned->core))
		take(learned, data);
	free(data);
}

int learned_new(struct learned **ret, struct core *core, const char *directory)
{
	struct learned *learned;
	int r;

	*ret = NULL;
	if (!directory)
		return 0;
	learned = calloc(1, sizeof(*learned));
	if (!learned)
		return -ENOMEM;
	learned->core = core;
	learned->job.run = run;
	learned->job.done = on_done;
	r = asprintf(&learned->path, "%s/" LEARNED_FILE, directory) < 0 ||
			    asprintf(&learned->new_path, "%s/" LEARNED_FILE ".new", directory) < 0 ?
		    -ENOMEM :
		    0;
	if (r == 0)
		r = timer_new(&learned->timer, core->loop, 0, on_timer, learned);
	if (r >= 0)
		r = offload_new(&learned->offload, core->loop, 1);
	if (r >= 0)
		r = offload_prepare(learned->offload, &learned->keep, 0);
	if (r < 0) {
		learned_free(learned, /* writes= */ false);
		return r;
	}
	load(learned);
	if (!core_has_restored_refused(core))
		learned->written = core_get_refused_changes(core);
	timer_start(learned->timer, TICK_USEC);
	*ret = learned;
	return 0;
}

struct learned *learned_free(struct learned *learned, bool writes)
{
	if (!learned)
		return NULL;
	sd_event_source_disable_unref(learned->timer);
	if (learned->offload) {
		if (writes && offload_settle(learned->offload, SETTLE_MSEC))
			write_if_changed(learned, /* counts= */ true);
		offload_release(&learned->keep);
		offload_free(learned->offload);
	}
	/* A thread that is stuck in a write still uses LEARNED. */
	if (learned->runs)
		return NULL;
	free(learned->path);
	free(learned->new_path);
	free(learned);
	return NULL;
}
