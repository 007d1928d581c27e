/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "core/object/core.h"
#include "keep/ledger.h"
#include "keep/store.h"
#include "keep/vault.h"
#include "keeper.h"
#include "proto/status.h"
#include "rpc/server.h"
#include "util/clock.h"
#include "util/closer.h"
#include "util/log.h"
#include "util/util.h"

/* The kinds of descriptors in the store, besides those of ledger.c and vault.c: files of the connection manager. */
#define KIND_CM "cm"
#define KIND_INHERITED "inherited"
#define FILES_MAX 16

#define DEVICES_MS 10000 /* how long the devices are awaited */
#define TURN_USEC (20 * 1000ULL)
#define RETRY_AFTER_MS 100 /* when a peer whose request was turned away should retry */
#define BUS_USEC (2 * 1000000ULL)

struct keeper {
	struct core *core;
	struct store *store;
	struct ledger *ledger;
	struct vault *vault;
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
	struct keeper *keeper = userdata;
	struct closer *closer = core_get_closer(keeper->core);
	struct closing *closing;

	if (closing_new(&closing, closer, 1) == 0) {
		if (closing_bind(closing, (uid_t)-1, CLOSER_STRANGER) == 0) {
			closing_add(closing, fd);
			closing_go(closing);
			return;
		}
		closing_free(closing);
	}
	close(fd);
}

static void take_files(struct keeper *keeper, const char *kind)
{
	unsigned n;
	int fd;

	while (keeper->n_files < FILES_MAX && (fd = store_take(keeper->store, kind, &n)) >= 0)
		keeper->files[keeper->n_files++] = (struct file){ kind, n, fd };
}

static void start_clean(struct keeper *keeper, const char *why)
{
	log_error("Cannot take over the sessions of the previous process: %s. They end.", why);
	old_ledger_forget(&keeper->old);
	keeper->failed = true;
}

/* The connection manager can be opened long after the start, when the host gets its first device. */
static void on_opened(void *userdata, int file)
{
	struct keeper *keeper = userdata;

	store_add(keeper->store, KIND_CM, store_last(keeper->store, KIND_CM) + 1, file);
}

/* The file is stored before the first id is moved to it, because an id lives only as long as its file is open. */
static void on_inherits(void *userdata, int file)
{
	struct keeper *keeper = userdata;

	store_add(keeper->store, KIND_INHERITED, store_last(keeper->store, KIND_INHERITED) + 1,
		  file);
	store_settle(keeper->store);
}

DEFINE_CLEANUP(struct keeper *, keeper_free)

int keeper_new(struct keeper **ret, struct core *core, struct notifier *notifier)
{
	_cleanup_(keeper_freep) struct keeper *keeper = calloc(1, sizeof(*keeper));
	const char *why = NULL;
	int r;

	if (!keeper)
		return -ENOMEM;
	keeper->core = core;
	keeper->began_ms = clock_ms();
	keeper->busy_len = refusal_pack(keeper->busy, REFUSAL_MAX_LOOKUP, REFUSAL_BUSY,
					RETRY_AFTER_MS, "restarted");
	r = store_new(&keeper->store, notifier);
	if (r < 0)
		return r;
	take_files(keeper, KIND_CM);
	take_files(keeper, KIND_INHERITED);
	r = old_ledger_read(&keeper->old, keeper->store, &why);
	if (r < 0 && r != -ENOENT)
		start_clean(keeper, r == -EPROTO ? why : strerror(-r));
	r = ledger_new(&keeper->ledger, keeper->store);
	if (r < 0)
		log_warning("A restart will end all sessions, because systemd does not keep them: "
			    "%s.",
			    strerror(-r));
	r = vault_new(&keeper->vault, keeper->store, close_later, keeper);
	if (r < 0)
		return r;
	core_keep(core, &(struct core_keep){
				.ledger = keeper->ledger,
				.vault = keeper->vault,
				.opened = on_opened,
				.inherits = on_inherits,
				.userdata = keeper,
			});
	core_set_last_session(core, keeper->old.last_session);
	fabric_note_reading(core_get_fabric(core), ledger_get_reading(keeper->ledger));
	*ret = TAKE_PTR(keeper);
	return 0;
}

struct keeper *keeper_free(struct keeper *keeper)
{
	if (!keeper)
		return NULL;
	for (size_t i = 0; i < keeper->n_files; i++)
		closep(&keeper->files[i].fd);
	old_ledger_free(&keeper->old);
	vault_free(keeper->vault);
	ledger_free(keeper->ledger);
	store_free(keeper->store);
	free(keeper);
	return NULL;
}

unsigned keeper_count_stored(const struct keeper *keeper)
{
	return store_count(keeper->store);
}

/* Returns 0 if the devices that the host has can be used. */
static int await_devices(struct keeper *keeper, sd_event *loop)
{
	struct fabric *fabric = core_get_fabric(keeper->core);
	uint64_t until = clock_ms() + DEVICES_MS;
	int cm, inherited, r;

	do {
		r = fabric_get_files(fabric, &cm, &inherited);
		if (r != -EINPROGRESS && !fabric_is_opening(fabric))
			return r;
		r = sd_event_run(loop, TURN_USEC);
	} while (r >= 0 && clock_ms() < until);
	return r < 0 ? r : -ETIMEDOUT;
}

void keeper_inherit(struct keeper *keeper, sd_event *loop)
{
	struct fabric *fabric = core_get_fabric(keeper->core);
	int files[FILES_MAX], r;

	if (!store_is_present(keeper->store))
		return;
	r = await_devices(keeper, loop);
	for (size_t i = 0; i < keeper->n_files; i++)
		files[i] = keeper->files[i].fd;
	if (r == 0 && keeper->n_files > 0 && !keeper->failed)
		r = fabric_inherit(fabric, files, keeper->n_files, keeper->old.n_ids);
	if (r < 0 && keeper->old.generation > 0 && !keeper->failed)
		start_clean(keeper, strerror(-r));
}

/* With their last descriptor, the kernel ends the ids that were not moved. */
static void forget_files(struct keeper *keeper)
{
	for (size_t i = 0; i < keeper->n_files; i++) {
		store_remove(keeper->store, keeper->files[i].kind, keeper->files[i].n);
		close_later(keeper, keeper->files[i].fd);
	}
	keeper->n_files = 0;
}

void keeper_take_over(struct keeper *keeper, struct server *server)
{
	struct core_take_over report = { 0 };
	unsigned n_greeted = 0;
	int r;

	r = server_take_over(server, keeper->vault, &keeper->old, keeper->busy, keeper->busy_len);
	if (!store_is_present(keeper->store))
		return;
	ledger_complete(keeper->ledger, &keeper->old);
	forget_files(keeper);
	report.generation = ledger_get_generation(keeper->ledger);
	report.n_sessions = r > 0 ? (unsigned)r : 0;
	for (size_t i = 0; i < keeper->old.n_sessions; i++)
		n_greeted += ledger_session_is_open(&keeper->old.sessions[i]);
	report.n_ended = n_greeted - report.n_sessions;
	report.at_ms = clock_ms();
	report.took_ms = report.at_ms - keeper->began_ms;
	core_set_take_over(keeper->core, &report);
	if (keeper->old.generation > 0)
		log_info("Took over %u of %u sessions from the previous process, in %llu ms.",
			 report.n_sessions, n_greeted, (unsigned long long)report.took_ms);
	old_ledger_free(&keeper->old);
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

bool keeper_is_succeeded(const struct keeper *keeper)
{
	_cleanup_free_ char *type = NULL;
	int r;

	if (!keeper || !store_is_present(keeper->store))
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

void keeper_forget(struct keeper *keeper)
{
	if (!keeper || !store_is_present(keeper->store))
		return;
	core_keep(keeper->core, &(struct core_keep){ .ledger = keeper->ledger });
	vault_forget(keeper->vault);
	store_remove(keeper->store, KIND_CM, store_last(keeper->store, KIND_CM) + 1);
	store_remove(keeper->store, KIND_INHERITED, store_last(keeper->store, KIND_INHERITED) + 1);
}
