/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "broker.h"
#include "core/admit/learned.h"
#include "core/admit/refused.h"
#include "core/object/core.h"
#include "core/object/inquiry.h"
#include "core/rule/core_life.h"
#include "core/rule/enforce.h"
#include "fabric/no_rdma.h"
#include "missing_names.h"
#include "policy/policy.h"
#include "proto/notifier.h"
#include "proto/timer.h"
#include "proto/version.h"
#include "reload.h"
#include "rpc/control.h"
#include "rpc/server.h"
#include "rpc/upstream.h"
#include "socket.h"
#include "takeover.h"
#include "util/clock.h"
#include "util/diag.h"
#include "util/hot.h"
#include "util/log.h"
#include "util/owner.h"
#include "util/util.h"

#define NAMES_MSEC 1000 /* until missing names are first looked up again */
#define FLUSH_MSEC 5000 /* at most, until systemd has read what was told */
#define STATUS_USEC (1 * 1000000ULL) /* until a change of the status line is sent */

struct broker {
	struct broker_options options;
	struct config config;
	sd_event *loop;
	struct hot *hot; /* of LOOP */
	struct notifier *notifier;
	struct reloader *reloader, *dry_reloader;
	struct missing_names *names;
	struct core *core;
	struct takeover *takeover;
	struct learned *learned;
	struct server *server;
	struct upstream *upstream; /* NULL: this is the initial instance */
	bool leaves; /* the daemon ends and leaves sessions and ids to the next process */
	struct sockets sockets; /* the server has the descriptors */

	sd_event_source *status_timer;
	struct {
		unsigned n_sessions, n_listeners, n_connections;
		bool draining;
		bool has_device;
	} told; /* the last status line */
};

DEFINE_CLEANUP(struct diag *, diag_free)
DEFINE_CLEANUP(struct policy *, policy_unref)
DEFINE_CLEANUP(struct broker *, broker_free)

static void log_complaints(int level, const struct complaints *complaints)
{
	for (size_t i = 0; i < complaints->n_kept; i++)
		log_msg(level, "%s", complaints->kept[i].message);
}

static void log_warnings(const struct diag *diag)
{
	size_t n_more = diag->warnings.n - diag->warnings.n_kept;

	log_complaints(LOG_WARNING, &diag->warnings);
	if (n_more > 0)
		log_warning("There are %zu more warnings about the files of the configuration and "
			    "the policy.",
			    n_more);
}

/* Reserved for root and the daemon's own user. A session has two descriptors. */
#define RESERVED_SESSIONS 64
#define RESERVED_FDS (2 * RESERVED_SESSIONS)
/* 256 descriptors that can arrive with one packet, and 256 of the daemon itself */
#define OTHER_FDS (256 + 256)
#define LEAST_FDS 1024

/* The descriptors of all clients and those of the daemon must fit into RLIMIT_NOFILE. */
static uint64_t n_fds_for_clients(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	if (limit.rlim_cur >= LEAST_FDS)
		return limit.rlim_cur - RESERVED_FDS - OTHER_FDS;
	log_warning(
		"The limit of %llu open files is too low: with fewer than %d, one client can delay "
		"all others. Raise LimitNOFILE=.",
		(unsigned long long)limit.rlim_cur, LEAST_FDS);
	return limit.rlim_cur / 4;
}

/* A change of Socket=, Access= or QueuedBytesPerSession= is not applied before the next start. */
static void apply(struct broker *broker)
{
	const struct config *config = &broker->config;
	struct core *core = broker->core;

	log_set_level(config->log_level);
	core->settings = (struct core_settings){
		.max_ids_per_session = config->max_ids_per_session,
		.backlog = (int)config->backlog,
		.tos = config->tos,
		.resolve_timeout_ms = config->resolve_timeout_ms,
		.resume_timeout_ms = config->resume_timeout_s * 1000,
	};
	owners_use(TAKE_PTR(broker->config.owners));
	inquiries_set_helper_uid(core, config->helper_uid);
	core->account.limit[ACCOUNT_SESSIONS] = config->max_sessions;
	core->account.limit_per_user[ACCOUNT_SESSIONS] = config->max_sessions_per_user;
	core->account.limit_per_user[ACCOUNT_IDS] = config->max_ids_per_user;
	core->account.limit_per_user[ACCOUNT_LISTENERS] = config->max_listeners_per_user;
	core->account.limit_per_user[ACCOUNT_BYTES] = config->max_queued_bytes_per_user;
	core->account.limit_per_user[ACCOUNT_FDS] = config->max_fds_per_user;
	core->account.limit[ACCOUNT_FDS] = n_fds_for_clients();
	core->account.reserve[ACCOUNT_SESSIONS] = RESERVED_SESSIONS;
	core->account.reserve[ACCOUNT_FDS] = RESERVED_FDS;
}

static void tell_status(struct broker *broker)
{
	const struct core *core = broker->core;
	const char *error = control_get_policy_error(server_get_control(broker->server));
	bool has_device = fabric_next_device(core->fabric, NULL);
	size_t n_warn = policy_n_warn_rules(core->policy);
	char missing[64] = "", warns[64] = "";
	const char *first;

	broker->told.n_sessions = core->n_sessions;
	broker->told.n_listeners = core->n_listeners;
	broker->told.n_connections = core->n_connections;
	broker->told.draining = core->draining;
	broker->told.has_device = has_device;
	if (policy_is_fallback(core->policy)) {
		notifier_tell(
			broker->notifier,
			"STATUS=NO POLICY, everything is rejected until a reload succeeds: %s",
			error);
		return;
	}
	if (policy_n_missing_names(core->policy, &first) > 0)
		snprintf(missing, sizeof(missing), "; names that cannot be looked up: %zu",
			 policy_n_missing_names(core->policy, &first));
	if (n_warn > 0)
		snprintf(warns, sizeof(warns), ", %zu of which only warn%s", n_warn,
			 n_warn == 1 ? "s" : "");
	notifier_tell(broker->notifier,
		      "STATUS=%s%u sessions, %u listeners, %u connections; %zu rules%s%s%s%s%s",
		      core->draining ? "Draining, new work is refused: " : "", core->n_sessions,
		      core->n_listeners, core->n_connections, policy_n_rules(core->policy), warns,
		      has_device ? "" : "; no RDMA device, see rdmabrokerctl status", missing,
		      *error ? "; the last reload was refused: " : "", error);
}

static int on_status_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	tell_status(userdata);
	return 0;
}

/* Starts the timer only if the status line has changed, so that it does not wake an idle daemon. */
static void look_at_status(struct broker *broker)
{
	const struct core *core = broker->core;
	int enabled;

	if (core->n_sessions == broker->told.n_sessions &&
	    core->n_listeners == broker->told.n_listeners &&
	    core->n_connections == broker->told.n_connections &&
	    core->draining == broker->told.draining &&
	    broker->told.has_device == !!fabric_next_device(core->fabric, NULL))
		return;
	sd_event_source_get_enabled(broker->status_timer, &enabled);
	if (enabled == SD_EVENT_OFF)
		timer_start(broker->status_timer, STATUS_USEC);
}

static void refuse_reload(struct broker *broker, int r, struct diag *diag)
{
	if (diag)
		log_complaints(LOG_ERR, &diag->errors);
	control_set_policy_error(server_get_control(broker->server),
				 (diag ? complaints_at(&diag->errors, 0) : NULL) ?: strerror(-r));
	if (policy_is_fallback(broker->core->policy))
		log_error("The reload failed: there is still no policy, and everything is "
			  "rejected.");
	else
		log_error("The reload failed: the old configuration and policy stay in force.");
}

static int put_in_force(struct broker *broker, struct reloaded *reloaded)
{
	int r = reloaded->r;

	if (r == 0)
		r = core_set_policy(broker->core, reloaded->policy);
	if (r < 0) {
		refuse_reload(broker, r, reloaded->diag);
		return r;
	}
	config_done(&broker->config);
	broker->config = reloaded->config;
	config_init(&reloaded->config);
	apply(broker);
	log_warnings(reloaded->diag);
	control_set_policy_error(server_get_control(broker->server), NULL);
	missing_names_watch(broker->names, broker->core->policy);
	log_info("Configuration and policy reloaded: %zu rules.",
		 policy_n_rules(broker->core->policy));
	if (broker->config.on_reload == CONFIG_ON_RELOAD_ENFORCE)
		enforce_start(broker->core);
	return 0;
}

static void on_reloaded(void *userdata, struct reloaded *reloaded)
{
	struct broker *broker = userdata;

	reloaded->r = put_in_force(broker, reloaded);
	control_reloaded(server_get_control(broker->server), /* dry_run= */ false, reloaded->ticket,
			 reloaded->r, TAKE_PTR(reloaded->diag), reloaded->policy);
	notifier_tell(broker->notifier, "READY=1");
	tell_status(broker);
}

static void warn_of_missing_names(const struct policy *policy)
{
	const char *first;
	size_t n = policy_n_missing_names(policy, &first);

	if (n > 0)
		log_warning(
			"Cannot look up %zu user or group name%s: an allow rule with such a "
			"name matches nobody, a reject rule matches everybody. The first error: "
			"%s. The look-up is repeated from time to time.",
			n, n == 1 ? "" : "s", first);
}

/*
 * POLICY: the policy in force, with more names found. It allows all that was allowed, so there is nothing to
 * enforce.
 */
static void on_names_found(void *userdata, struct policy *policy)
{
	struct broker *broker = userdata;
	const char *first;

	if (core_set_policy(broker->core, policy) < 0) {
		log_error("Cannot use the user and group names that were found: out of memory. The "
			  "look-up will be repeated.");
		return;
	}
	missing_names_watch(broker->names, policy);
	if (policy_n_missing_names(policy, &first) > 0)
		warn_of_missing_names(policy);
	else
		log_info("All user and group names of the policy have been looked up: %zu rules.",
			 policy_n_rules(policy));
	tell_status(broker);
}

static void on_dry_run(void *userdata, struct reloaded *reloaded)
{
	struct broker *broker = userdata;

	control_reloaded(server_get_control(broker->server), /* dry_run= */ true, reloaded->ticket,
			 reloaded->r, TAKE_PTR(reloaded->diag), reloaded->policy);
}

static uint64_t start_reload(void *userdata, bool dry_run)
{
	struct broker *broker = userdata;

	if (dry_run)
		return reloader_start(broker->dry_reloader);
	notifier_tell(broker->notifier, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_ns() / 1000);
	return reloader_start(broker->reloader);
}

static int on_sighup(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	start_reload(userdata, /* dry_run= */ false);
	return 0;
}

static int on_exit_signal(sd_event_source *source, const struct signalfd_siginfo *info,
			  void *userdata)
{
	struct broker *broker = userdata;

	broker->leaves = takeover_is_expected(broker->takeover);
	log_info("Stopping on signal %s.%s", info->ssi_signo == SIGTERM ? "TERM" : "INT",
		 broker->leaves ? " The next process takes over all sessions." : "");
	notifier_tell(broker->notifier, "STOPPING=1\nSTATUS=%s",
		      broker->leaves ? "Restarting, sessions are kept" : "Ending all sessions");
	if (!broker->leaves)
		takeover_forget(broker->takeover);
	return sd_event_exit(broker->loop, 0);
}

static int add_signals(struct broker *broker)
{
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);

	r = sd_event_add_signal(broker->loop, NULL, SIGTERM, on_exit_signal, broker);
	if (r >= 0)
		r = sd_event_add_signal(broker->loop, NULL, SIGINT, on_exit_signal, broker);
	if (r >= 0)
		r = sd_event_add_signal(broker->loop, NULL, SIGHUP, on_sighup, broker);
	return r < 0 ? r : 0;
}

/* Each session needs two descriptors: its socket and the pidfd of its process. */
static void raise_nofile(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void on_manager_stuck(void *userdata, bool is_stuck)
{
	if (is_stuck)
		log_warning(
			"systemd (PID 1) does not read what its services tell it: it is busy, or "
			"has crashed. Clients are served on, but \"systemctl status\" prints an "
			"old status, and a session that begins now may end with this process.");
	else
		log_info("systemd reads again what its services tell it.");
}

static int set_up(struct broker *broker, struct policy *policy)
{
	const struct config *config = &broker->config;
	const struct broker_options *options = &broker->options;
	/* With a socket by an option, another daemon can have the admin socket of the configuration. */
	const char *const paths[_DOOR_MAX] = {
		[DOOR_COMMON] = options->socket_path ?: config->socket_path,
		[DOOR_ADMIN] = options->admin_socket_path   ?:
				       options->socket_path ? NULL :
							      config->admin_socket_path,
		[DOOR_HELPER] = options->helper_socket_path,
	};
	enum fabric_access access = config->device_access == CONFIG_DEVICE_ACCESS_OPEN ?
					    FABRIC_ACCESS_OPEN :
					    FABRIC_ACCESS_ACL;
	bool has_unknown_owners = owners_count_missing(config->owners) > 0;
	int r;

	raise_nofile();
	r = sd_event_new(&broker->loop);
	if (r < 0)
		return r;
	broker->hot = hot_ref(broker->loop);
	if (!broker->hot)
		return -ENOMEM;
	r = notifier_new(&broker->notifier, broker->loop);
	if (r < 0)
		return r;
	notifier_watch(broker->notifier, on_manager_stuck, broker);
	r = add_signals(broker);
	if (r < 0)
		return r;
	r = reloader_new(&broker->reloader, broker->loop, &broker->options, on_reloaded, broker);
	if (r == 0)
		r = reloader_new(&broker->dry_reloader, broker->loop, &broker->options, on_dry_run,
				 broker);
	if (r < 0)
		return r;
	r = missing_names_new(&broker->names, broker->loop, NAMES_MSEC, on_names_found, broker);
	if (r < 0)
		return r;
	missing_names_watch(broker->names, policy);
	r = core_new(&broker->core, broker->loop, access, policy);
	if (r < 0) {
		log_error("Cannot set up RDMA: %s.", strerror(-r));
		return r;
	}
	apply(broker);
	if (*config->initial_socket) {
		r = upstream_new(&broker->upstream, broker->loop, config->initial_socket,
				 broker->core->fabric);
		if (r < 0)
			return r;
	}
	r = takeover_new(&broker->takeover, broker->core, broker->notifier);
	if (r < 0)
		return r;
	takeover_kernel_ids(broker->takeover, broker->loop);
	r = sockets_open(&broker->sockets, paths, takeover_count_stored(broker->takeover));
	/* An admin must correct the sockets from systemd, the file at PATH, or the length of PATH. */
	if (r == -EINVAL || r == -EEXIST || r == -ENAMETOOLONG)
		return BROKER_MISCONFIGURED;
	if (r < 0)
		return r;
	r = server_new(&broker->server, broker->core, broker->sockets.fds, config->restricted_dir,
		       config->max_queued_bytes, start_reload, broker);
	if (r < 0)
		return r;
	takeover_sessions(broker->takeover, broker->server);
	/* What was restored was not refused now, whatever the quotas are. */
	broker->core->on_quota = refused_note_quota;
	r = learned_new(&broker->learned, broker->core, getenv("STATE_DIRECTORY"));
	if (r < 0)
		return r;
	/* A policy with an error ends nothing, because its author's intent is not known. */
	if (config->on_reload == CONFIG_ON_RELOAD_ENFORCE && !policy_is_fallback(policy))
		enforce_start(broker->core);
	r = timer_new(&broker->status_timer, broker->loop, 0, on_status_timer, broker);
	if (r < 0)
		return r;
	/* The start does not wait for the name service. */
	if (has_unknown_owners)
		reloader_start(broker->reloader);
	return notifier_add_watchdog(broker->notifier);
}

/* A shortage is no error in the admin's files, and can be over at the next start. */
static bool is_shortage(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

/*
 * If the policy has an error, the daemon starts with a fallback that allows nothing. Otherwise systemd would
 * restart the daemon until the unit has failed.
 */
static int read_policy(struct broker *broker, struct policy **ret, struct diag *diag)
{
	int r = reload_read_policy(&broker->options, &broker->config, POLICY_NAMES_MAY_BE_MISSING,
				   ret, diag);

	if (is_shortage(r))
		return r;
	log_complaints(LOG_ERR, &diag->errors);
	log_warnings(diag);
	if (r == 0) {
		warn_of_missing_names(*ret);
		return 0;
	}
	log_msg(LOG_CRIT,
		"Cannot load the policy: it has an error. EVERYTHING IS REJECTED, except root's "
		"requests by rdmabrokerctl. Correct the policy until \"rdmabrokerd --check\" finds "
		"no error, then run \"systemctl reload rdmabrokerd\".");
	return policy_new_fallback(ret);
}

int broker_new(struct broker **ret, const struct broker_options *options)
{
	_cleanup_(broker_freep) struct broker *broker = calloc(1, sizeof(*broker));
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	_cleanup_(diag_freep) struct diag *diag = NULL;
	int r;

	if (!broker)
		return -ENOMEM;
	broker->options = *options;
	config_init(&broker->config);
	r = diag_new(&diag);
	if (r < 0)
		return r;
	r = reload_read_config(options, &broker->config, diag);
	if (is_shortage(r))
		return r;
	if (r < 0) {
		log_complaints(LOG_ERR, &diag->errors);
		log_warnings(diag);
		log_error(
			"Cannot start rdmabrokerd: its configuration has an error. Correct it until "
			"\"rdmabrokerd --check\" finds no error, then start rdmabrokerd again.");
		return BROKER_MISCONFIGURED;
	}
	r = read_policy(broker, &policy, diag);
	if (r < 0)
		return r;
	r = set_up(broker, policy);
	if (r != 0)
		return r;
	if (policy_is_fallback(policy))
		control_set_policy_error(server_get_control(broker->server),
					 complaints_at(&diag->errors, 0) ?:
						 "the policy cannot be read");
	*ret = TAKE_PTR(broker);
	return 0;
}

struct broker *broker_free(struct broker *broker)
{
	/* The next process takes over sessions and ids; freeing them would end them. */
	if (!broker || broker->leaves)
		return NULL;
	reloader_free(broker->reloader);
	reloader_free(broker->dry_reloader);
	missing_names_free(broker->names);
	learned_free(broker->learned, /* writes= */ true);
	server_free(broker->server);
	upstream_free(broker->upstream);
	core_free(broker->core);
	takeover_free(broker->takeover);
	sd_event_source_disable_unref(broker->status_timer);
	notifier_free(broker->notifier);
	hot_unref(broker->hot);
	sd_event_unref(broker->loop);
	sockets_remove(&broker->sockets);
	config_done(&broker->config);
	owners_use(NULL);
	free(broker);
	return NULL;
}

static void warn_of_missing_rdma(void)
{
	char text[512];

	if (no_rdma_explain("", text, sizeof(text)))
		log_warning(
			"Cannot use RDMA or some of its devices: %s. The daemon runs without them "
			"and uses them as soon as they are available.",
			text);
}

int broker_run(struct broker *broker)
{
	size_t n_rules = policy_n_rules(broker->core->policy);
	int r, code = 0;

	if (policy_is_fallback(broker->core->policy))
		log_info("rdmabrokerd " RDMABROKER_VERSION " started without a policy.");
	else
		log_info("rdmabrokerd " RDMABROKER_VERSION " started, %zu rule%s loaded.", n_rules,
			 n_rules == 1 ? "" : "s");
	warn_of_missing_rdma();
	notifier_tell(broker->notifier, "READY=1");
	tell_status(broker);
	r = hot_be_host(broker->hot);
	if (r < 0)
		return r;
	/*
	 * A post source could call look_at_status() after each turn, but would cost one more turn and system
	 * call each time.
	 */
	while (sd_event_get_state(broker->loop) != SD_EVENT_FINISHED) {
		r = hot_run(broker->hot, -1);
		if (r < 0)
			return r;
		look_at_status(broker);
	}
	/* The next process needs what is stored. */
	if (broker->leaves && !notifier_flush(broker->notifier, FLUSH_MSEC))
		log_warning("systemd has not read what this process has told it: the next process "
			    "may not get all sessions.");
	sd_event_get_exit_code(broker->loop, &code);
	return code;
}
