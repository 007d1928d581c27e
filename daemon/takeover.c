/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "core/object/core.h"
#include "proto/status.h"
#include "rpc/server.h"
#include "takeover.h"
#include "takeover/fdstore.h"
#include "takeover/ledger.h"
#include "takeover/socketstore.h"
#include "util/clock.h"
#include "util/closer.h"
#include "util/log.h"
#include "util/util.h"

/* The kinds of descriptors in the store, besides those of ledger.c and socketstore.c: files of the connection manager. */
#define KIND_CM "cm"
#define KIND_RESTORED "inherited" /* an upgrade reads this name */
#define FILES_MAX 16

#define DEVICES_MS 10000 /* how long the devices are awaited */
#define TURN_USEC (20 * 1000ULL)
#define RETRY_AFTER_MS 100 /* when a peer whose request was turned away should retry */
#define BUS_USEC (2 * 1000000ULL)

struct takeover {
	struct core *core;
	struct fdstore *store;
	struct ledger *ledger;
	struct socketstore *socketstore;
	struct old_ledger old;
	struct file {
		const char *kind;
		unsigned n;
		int fd;
	} files[FILES_MAX]; /* the files of the previous process */
	size_t n_files;
	bool failed; /* starts clean */
	uint8_t busy[REFUSAL_MAX]; /* the private data for peers that are turned away */
	size_t busy_len;
	uint64_t began_ms;
};

/* A thread closes FD, because the unread descriptors of a client can be closed with it, which can block. */
static void close_later(void *userdata, int fd)
{
	struct takeover *takeover = userdata;
	struct closer *closer = core_get_closer(takeover->core);
	struct closing *closing;

	if (closing_new(&closing, closer, 1) == 0) {
		if (closing_bind(closing, owner_of((uid_t)-1), CLOSER_STRANGER) == 0) {
			closing_add(closing, fd);
			closing_go(closing);
			return;
		}
		closing_free(closing);
	}
	close(fd);
}

static void take_files(struct takeover *takeover, const char *kind)
{
	unsigned n;
	int fd;

	while (takeover->n_files < FILES_MAX && (fd = fdstore_take(takeover->store, kind, &n)) >= 0)
		takeover->files[takeover->n_files++] = (struct file){ kind, n, fd };
}

static void start_clean(struct takeover *takeover, const char *why)
{
	log_error("Cannot take over the sessions of the previous process: %s. They end.", why);
	old_ledger_forget(&takeover->old);
	takeover->failed = true;
}

/* Stores FILE, besides those of KIND that the previous process has left. */
static void store(struct takeover *takeover, const char *kind, int file)
{
	fdstore_add(takeover->store, kind, fdstore_last(takeover->store, kind) + 1, file);
}

/* The connection manager can be opened long after the start, when the host gets its first device. */
static void on_opened(void *userdata, int file)
{
	store(userdata, KIND_CM, file);
}

/* The file is stored before the first id is moved to it, because an id lives only as long as its file is open. */
static void on_restores(void *userdata, int file)
{
	struct takeover *takeover = userdata;

	store(takeover, KIND_RESTORED, file);
	fdstore_settle(takeover->store);
}

DEFINE_CLEANUP(struct takeover *, takeover_free)

int takeover_new(struct takeover **ret, struct core *core, struct notifier *notifier)
{
	_cleanup_(takeover_freep) struct takeover *takeover = calloc(1, sizeof(*takeover));
	const char *why = NULL;
	int r;

	if (!takeover)
		return -ENOMEM;
	takeover->core = core;
	takeover->began_ms = clock_ms();
	takeover->busy_len = refusal_pack(takeover->busy, REFUSAL_MAX_LOOKUP, REFUSAL_BUSY,
					  RETRY_AFTER_MS, "restarted");
	r = fdstore_new(&takeover->store, notifier);
	if (r < 0)
		return r;
	take_files(takeover, KIND_CM);
	take_files(takeover, KIND_RESTORED);
	r = old_ledger_read(&takeover->old, takeover->store, &why);
	if (r < 0 && r != -ENOENT)
		start_clean(takeover, r == -EPROTO ? why : strerror(-r));
	r = ledger_new(&takeover->ledger, takeover->store);
	if (r < 0)
		log_warning("A restart will end all sessions, because systemd does not keep them: "
			    "%s.",
			    strerror(-r));
	r = socketstore_new(&takeover->socketstore, takeover->store, close_later, takeover);
	if (r < 0)
		return r;
	core->keep = (struct core_keep){
		.ledger = takeover->ledger,
		.socketstore = takeover->socketstore,
		.opened = on_opened,
		.restores = on_restores,
		.userdata = takeover,
	};
	core_set_last_session(core, takeover->old.last_session);
	fabric_note_reading(core_get_fabric(core), ledger_get_reading(takeover->ledger));
	*ret = TAKE_PTR(takeover);
	return 0;
}

struct takeover *takeover_free(struct takeover *takeover)
{
	if (!takeover)
		return NULL;
	for (size_t i = 0; i < takeover->n_files; i++)
		closep(&takeover->files[i].fd);
	old_ledger_free(&takeover->old);
	socketstore_free(takeover->socketstore);
	ledger_free(takeover->ledger);
	fdstore_free(takeover->store);
	free(takeover);
	return NULL;
}

unsigned takeover_count_stored(const struct takeover *takeover)
{
	return fdstore_count(takeover->store);
}

/* Returns 0 if there is a connection manager. A device that is not opened by then, nobody else waits for. */
static int await_devices(struct takeover *takeover, sd_event *loop)
{
	struct fabric *fabric = core_get_fabric(takeover->core);
	uint64_t until = clock_ms() + DEVICES_MS;
	int cm, restored, r;

	do {
		r = fabric_get_files(fabric, &cm, &restored);
		if (!fabric_has_unopened(fabric) || clock_ms() >= until)
			return r;
	} while (sd_event_run(loop, TURN_USEC) >= 0);
	return -EIO;
}

void takeover_kernel_ids(struct takeover *takeover, sd_event *loop)
{
	struct fabric *fabric = core_get_fabric(takeover->core);
	int files[FILES_MAX], r;

	if (!fdstore_is_present(takeover->store))
		return;
	r = await_devices(takeover, loop);
	for (size_t i = 0; i < takeover->n_files; i++)
		files[i] = takeover->files[i].fd;
	if (r == 0 && takeover->n_files > 0 && !takeover->failed)
		r = fabric_takeover(fabric, files, takeover->n_files, takeover->old.n_ids);
	if (r < 0 && takeover->old.generation > 0 && !takeover->failed)
		start_clean(takeover, strerror(-r));
}

/* With their last descriptor, the kernel ends the ids that were not moved. */
static void forget_files(struct takeover *takeover)
{
	for (size_t i = 0; i < takeover->n_files; i++) {
		fdstore_remove(takeover->store, takeover->files[i].kind, takeover->files[i].n);
		close_later(takeover, takeover->files[i].fd);
	}
	takeover->n_files = 0;
}

void takeover_sessions(struct takeover *takeover, struct server *server)
{
	struct core_take_over report = { 0 };
	unsigned n_greeted = 0;
	int r;

	r = server_take_over(server, takeover->socketstore, &takeover->old, takeover->busy,
			     takeover->busy_len);
	if (!fdstore_is_present(takeover->store))
		return;
	ledger_complete(takeover->ledger, &takeover->old);
	forget_files(takeover);
	report.generation = ledger_get_generation(takeover->ledger);
	report.n_sessions = r > 0 ? (unsigned)r : 0;
	for (size_t i = 0; i < takeover->old.n_sessions; i++)
		n_greeted += ledger_session_is_open(&takeover->old.sessions[i]);
	report.n_ended = n_greeted - report.n_sessions;
	report.at_ms = clock_ms();
	report.took_ms = report.at_ms - takeover->began_ms;
	takeover->core->take_over = report;
	if (takeover->old.generation > 0)
		log_info("Took over %u of %u sessions from the previous process, in %llu ms.",
			 report.n_sessions, n_greeted, (unsigned long long)report.took_ms);
	old_ledger_free(&takeover->old);
}

/* Gets the type of the job that systemd runs for this service ("restart"). */
static int get_job_type(char **ret)
{
	_cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *job = NULL;
	_cleanup_free_ char *unit = NULL, *path = NULL;
	const char *job_path;
	uint32_t number;
	int r;

	r = sd_pid_get_unit(0, &unit);
	if (r >= 0)
		r = sd_bus_path_encode("/org/freedesktop/systemd1/unit", unit, &path);
	if (r >= 0)
		r = sd_bus_open_system(&bus);
	if (r >= 0)
		r = sd_bus_set_method_call_timeout(bus, BUS_USEC);
	if (r >= 0)
		r = sd_bus_get_property(bus, "org.freedesktop.systemd1", path,
					"org.freedesktop.systemd1.Unit", "Job", NULL, &job, "(uo)");
	if (r >= 0)
		r = sd_bus_message_read(job, "(uo)", &number, &job_path);
	if (r < 0)
		return r;
	if (number == 0) {
		*ret = strdup("");
		return *ret ? 0 : -ENOMEM;
	}
	return sd_bus_get_property_string(bus, "org.freedesktop.systemd1", job_path,
					  "org.freedesktop.systemd1.Job", "JobType", NULL, ret);
}

bool takeover_is_expected(const struct takeover *takeover)
{
	_cleanup_free_ char *type = NULL;
	int r;

	if (!takeover || !fdstore_is_present(takeover->store))
		return false;
	r = get_job_type(&type);
	/* If the service is stopped after all, systemd closes what is kept, and the kernel ends it. */
	if (r < 0) {
		log_warning("Cannot ask systemd whether this service is being restarted: %s. "
			    "Sessions and connections are kept for the next process.",
			    strerror(-r));
		return true;
	}
	return strcmp(type, "restart") == 0 || strcmp(type, "try-restart") == 0;
}

void takeover_forget(struct takeover *takeover)
{
	if (!takeover || !fdstore_is_present(takeover->store))
		return;
	takeover->core->keep = (struct core_keep){ .ledger = takeover->ledger };
	socketstore_forget(takeover->socketstore);
	fdstore_remove(takeover->store, KIND_CM, fdstore_last(takeover->store, KIND_CM) + 1);
	fdstore_remove(takeover->store, KIND_RESTORED,
		       fdstore_last(takeover->store, KIND_RESTORED) + 1);
}
