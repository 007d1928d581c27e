/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent.h"
#include "causes.h"
#include "common/log.h"
#include "common/sitehold.h"
#include "converge.h"
#include "etcd/backoff.h"
#include "hoststate.h"
#include "proto/clock.h"
#include "proto/sdnotify.h"
#include "proto/text.h"
#include "report.h"
#include "take.h"
#include "version.h"

#define CALL_MS 5000 /* the limit of silence of a call of etcd */
#define ANSWER_MAX (8 * 1024 * 1024) /* bytes; base64 of the largest file, and the rest */
#define ROLLOUT_MAX 1000 /* keys below rollout/ */
#define REREAD_MS \
	(60 * 1000) /* after this the roll-out is read again, even if the watch says nothing */
#define EVENTS_MAX 1000 /* that are handled together */

struct agent {
	const struct settings *settings;
	struct etcd *etcd;
	struct etcd_watch *watch; /* NULL: the roll-out has to be read first */
	int manager; /* see sdnotify_open() */
	bool is_ready; /* and the manager was told so */
	bool is_untold; /* the manager did not take the last message */
	int stop; /* readable: the agent ends */
	int inotify; /* for what changes on this host; -1: cannot be watched now */
	int64_t read_ms; /* when to read the roll-out */
	int64_t report_ms; /* when to report */
	struct backoff read_backoff, report_backoff;
	struct causes etcd_causes, rollout_causes, take_causes, broker_causes;
	char wanted[SITE_NAME_MAX + 1]; /* by the roll-out; empty: none */
	int64_t wanted_revision; /* of the key that says so */
	char staged[SITE_NAME_MAX + 1]; /* what the file `wanted` has; empty: none */
	char in_force[SITE_NAME_MAX + 1]; /* empty: none */
	bool is_held;
	struct sitehold hold; /* if it is */
	struct converge converge;
	struct take take;
	struct report_install install;
	struct report_broker broker;
	struct hoststate *hoststate;
};

__attribute__((format(printf, 3, 4))) static void make_key(const struct agent *agent,
							   char ret[PATH_MAX], const char *fmt, ...)
{
	int n = snprintf(ret, PATH_MAX, "%s", agent->settings->prefix);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ret + n, PATH_MAX - (size_t)n, fmt, ap);
	va_end(ap);
}

/* etcd has failed by R. What concerns one version only is reported by take(). */
static void report_failure(struct agent *agent, int r)
{
	if (causes_add(&agent->etcd_causes, (uint64_t)r))
		log_line(LOG_WARNING, "Cannot use etcd: %s.", etcd_error(agent->etcd));
}

/* The state was written. Without the watch, that is not everything. */
static void report_success(struct agent *agent)
{
	if (!agent->watch || !etcd_watch_is_connected(agent->watch))
		return;
	if (causes_clear(&agent->etcd_causes)) {
		log_line(LOG_NOTICE, "etcd can be used again.");
		converge_etcd_is_back(&agent->converge);
	}
}

static bool is_ending(const struct agent *agent)
{
	struct pollfd p = { .fd = agent->stop, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* What this host has */

static void read_staged(struct agent *agent)
{
	char path[PATH_MAX], text[SITE_NAME_MAX + 2] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/wanted", agent->settings->state_dir);
	f = fopen(path, "re");
	if (f && fgets(text, sizeof(text), f))
		text[strcspn(text, "\n")] = 0;
	if (f)
		fclose(f);
	if (site_is_name(text))
		strcpy(agent->staged, text);
}

/* Of the directory DIR. It may not exist yet, and may be replaced by another one: so this is repeated. */
static void watch_dir(struct agent *agent, const char *dir)
{
	if (agent->inotify < 0)
		agent->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (agent->inotify >= 0)
		inotify_add_watch(agent->inotify, dir,
				  IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE);
}

static void watch_host(struct agent *agent)
{
	char dir[PATH_MAX];
	char *slash;

	text_copy(dir, sizeof(dir), agent->settings->result);
	slash = strrchr(dir, '/');
	if (slash)
		*slash = 0;
	watch_dir(agent, dir);
	watch_dir(agent, agent->settings->site);
}

static void log_result(const struct report_install *install)
{
	int n = (int)strcspn(install->text, "\n");

	if (install->is_installed)
		log_line(LOG_NOTICE, "Version %s is installed.", install->version);
	else
		log_line(LOG_ERR, "Version %s %s: %.*s", install->version,
			 install->is_temporary ? "could not be installed" : "was refused", n,
			 install->text);
}

/* Root's part has answered to the last question. */
static void take_result(struct agent *agent)
{
	const struct report_install *install = &agent->install;
	char why[sizeof(agent->converge.why)];

	if (install->is_installed) {
		converge_installed(&agent->converge);
		if (strcmp(agent->in_force, agent->wanted) == 0)
			return;
		/* Nothing is repeated at once: perhaps the two parts have been given other directories. */
		snprintf(why, sizeof(why), "root's part has installed it, but %s/current is %s",
			 agent->settings->site, *agent->in_force ? agent->in_force : "not there");
	} else {
		text_copy(why, sizeof(why), install->text);
	}
	converge_fail(&agent->converge,
		      install->is_installed || install->is_temporary ? CONVERGE_HOST :
								       CONVERGE_CHECK,
		      why, now_ms());
}

/* The result of the last installation comes after the version is in force, so it is read before. */
static void look_at_host(struct agent *agent)
{
	struct report_install was = agent->install, now;
	bool was_held = agent->is_held, is_new;
	char in_force[SITE_NAME_MAX + 1];

	report_read_install(&now, agent->settings->result);
	/* What cannot be read now has not changed. */
	if (*now.version)
		agent->install = now;
	strcpy(in_force, agent->in_force);
	report_read_in_force(agent->in_force, agent->settings->site);
	agent->is_held = sitehold_read(agent->settings->site, &agent->hold);
	if (agent->is_held && !was_held)
		log_line(LOG_NOTICE, "The version in force is held by %s.", agent->hold.by);
	else if (was_held && !agent->is_held)
		log_line(LOG_NOTICE, "The version in force is no longer held.");
	is_new = was.id != agent->install.id;
	if (is_new || agent->is_held != was_held || strcmp(in_force, agent->in_force) != 0)
		agent->report_ms = 0;
	if (is_new && (strcmp(was.version, agent->install.version) != 0 ||
		       was.is_installed != agent->install.is_installed ||
		       strcmp(was.text, agent->install.text) != 0))
		log_result(&agent->install);
	if (is_new && agent->converge.is_asked &&
	    strcmp(agent->install.version, agent->wanted) == 0)
		take_result(agent);
}

/* What is done about it */

static int write_wanted(struct agent *agent)
{
	char text[SITE_NAME_MAX + 2];
	int r;

	snprintf(text, sizeof(text), "%s\n", agent->wanted);
	r = version_write_file(agent->settings->state_dir, "wanted", text);
	if (r < 0)
		snprintf(agent->take.error, sizeof(agent->take.error), "cannot write %s/wanted: %s",
			 agent->settings->state_dir, strerror(-r));
	return r;
}

/* Root's part starts when the file is replaced. */
static void ask_to_install(struct agent *agent)
{
	bool is_other = strcmp(agent->staged, agent->wanted) != 0;

	if (!is_other && strcmp(agent->in_force, agent->wanted) == 0) {
		converge_taken(&agent->converge);
		return;
	}
	if (write_wanted(agent) < 0) {
		converge_fail(&agent->converge, CONVERGE_HOST, agent->take.error, now_ms());
		return;
	}
	strcpy(agent->staged, agent->wanted);
	if (is_other)
		log_line(LOG_NOTICE, "Version %s is here, and is to be installed.", agent->staged);
	converge_asked(&agent->converge, now_ms());
}

static void take(struct agent *agent)
{
	static const enum converge_failure failures[] = {
		[TAKE_SOURCE] = CONVERGE_SOURCE,
		[TAKE_ETCD] = CONVERGE_ETCD,
		[TAKE_HOST] = CONVERGE_HOST,
	};
	enum taken taken = take_version(&agent->take, agent->wanted);

	if (taken == TAKEN)
		ask_to_install(agent);
	else
		converge_fail(&agent->converge, failures[taken], agent->take.error, now_ms());
	if (!*agent->take.error)
		causes_clear(&agent->take_causes);
	else if (causes_add_text(&agent->take_causes, agent->take.error))
		log_line(LOG_ERR, "Cannot take version %s: %s.", agent->wanted, agent->take.error);
}

/* Another version was put in force on this host, and not by the fleet. */
static void log_drift(const struct agent *agent, const struct converge *was)
{
	if (was->state == CONVERGE_IN_FORCE && strcmp(was->wanted, agent->wanted) == 0 &&
	    agent->converge.state == CONVERGE_WAITING &&
	    strcmp(agent->in_force, agent->wanted) != 0)
		log_line(
			LOG_NOTICE,
			"%s%s is in force here, but the fleet wants version %s, which is installed "
			"again; \"rdmabrokerctl site hold\" would prevent that.",
			*agent->in_force ? "Version " : "No version",
			*agent->in_force ? agent->in_force : "", agent->wanted);
}

static void converge(struct agent *agent)
{
	struct converge *converge = &agent->converge;
	const struct converge was = *converge;
	enum converge_action action;

	do {
		const struct converge_facts facts = { .wanted = agent->wanted,
						      .staged = agent->staged,
						      .in_force = agent->in_force,
						      .is_held = agent->is_held };

		action = converge_decide(converge, &facts, now_ms());
		if (action != CONVERGE_REST)
			log_drift(agent, &was);
		if (action == CONVERGE_TAKE)
			take(agent);
		else if (action == CONVERGE_INSTALL)
			ask_to_install(agent);
	} while (action != CONVERGE_REST && !is_ending(agent));
	if (was.state != converge->state || was.n_failed != converge->n_failed ||
	    strcmp(was.wanted, converge->wanted) != 0 || strcmp(was.why, converge->why) != 0)
		agent->report_ms = 0;
}

/* The roll-out */

static const struct etcd_entry *find_label(const struct agent *agent,
					   const struct etcd_range *range, const char *label)
{
	char key[PATH_MAX];

	make_key(agent, key, "rollout/%s", label);
	for (size_t i = 0; i < range->n; i++)
		if (strcmp(range->entries[i].key, key) == 0)
			return &range->entries[i];
	return NULL;
}

/* Copies the name in ENTRY. `echo NAME | etcdctl put KEY` adds a line break. */
static bool get_name(const struct etcd_entry *entry, char ret[SITE_NAME_MAX + 1])
{
	size_t n = entry->len;

	if (n > 0 && entry->value[n - 1] == '\n')
		n--;
	if (n == 0 || n > SITE_NAME_MAX)
		return false;
	memcpy(ret, entry->value, n);
	ret[n] = 0;
	return strlen(ret) == n && site_is_name(ret);
}

/* Finds the version that this host should have, and the revision of its key. Without a valid one, RET is empty. */
static void choose(struct agent *agent, const struct etcd_range *range, char ret[SITE_NAME_MAX + 1],
		   int64_t *ret_revision)
{
	const struct settings *settings = agent->settings;
	const struct etcd_entry *entry = NULL;
	char text[PATH_MAX];

	for (size_t i = 0; !entry && i < settings->n_labels; i++)
		entry = find_label(agent, range, settings->labels[i]);
	if (!entry)
		entry = find_label(agent, range, "all");
	*ret_revision = entry ? entry->mod_revision : 0;
	if (entry && get_name(entry, ret)) {
		causes_clear(&agent->rollout_causes);
		return;
	}
	*ret = 0;
	if (entry)
		snprintf(text, sizeof(text), "%.512s does not have the name of a version",
			 entry->key);
	else
		snprintf(text, sizeof(text), "%srollout/ has no key for this host",
			 settings->prefix);
	if (causes_add_text(&agent->rollout_causes, text))
		log_line(LOG_WARNING, "No version is rolled out: %s.", text);
}

/*
 * Watches the roll-out, the manifest of the wanted version, which may come later, and whether somebody asks for a new
 * attempt. That is one interval, with the keys of all hosts, because each costs etcd something, and it rarely happens.
 */
static int watch_from(struct agent *agent, int64_t revision)
{
	char rollout[PATH_MAX], retry[PATH_MAX], manifest[PATH_MAX];
	const struct etcd_interval intervals[] = { { rollout, true },
						   { retry, true },
						   { manifest, false } };

	make_key(agent, rollout, "rollout/");
	make_key(agent, retry, AGENT_RETRY);
	make_key(agent, manifest, "versions/%s", agent->wanted);
	agent->watch = etcd_watch_free(agent->watch);
	return etcd_watch_new(&agent->watch, agent->etcd, intervals, *agent->wanted ? 3 : 2,
			      revision);
}

static int read_now(struct agent *agent)
{
	char key[PATH_MAX], name[SITE_NAME_MAX + 1];
	int64_t revision, wanted_revision;
	struct etcd_range *range;
	bool is_other;
	int r;

	make_key(agent, key, "rollout/");
	r = etcd_range(agent->etcd, key, /* is_prefix= */ true, ROLLOUT_MAX, &range);
	if (r != 0)
		return r;
	revision = range->revision + 1;
	choose(agent, range, name, &wanted_revision);
	etcd_range_free(range);
	is_other = strcmp(agent->wanted, name) != 0;
	if (is_other) {
		strcpy(agent->wanted, name);
		*agent->take.error = 0;
		agent->report_ms = 0;
	} else if (wanted_revision != agent->wanted_revision) {
		/* Who rolls the same version out again wants it to be tried again. */
		converge_retry(&agent->converge);
	}
	agent->wanted_revision = wanted_revision;
	return is_other || !agent->watch ? watch_from(agent, revision) : 0;
}

static void read_rollout(struct agent *agent)
{
	int r = read_now(agent);

	if (r != 0) {
		report_failure(agent, r);
		agent->read_ms = now_ms() + backoff_fail(&agent->read_backoff);
		return;
	}
	backoff_reset(&agent->read_backoff);
	agent->read_ms = now_ms() + REREAD_MS;
}

/* The state of this host */

/* Called at least every 30 s. */
static void tell_manager(struct agent *agent)
{
	char text[512] = "WATCHDOG=1";

	if (!agent->is_ready)
		snprintf(text, sizeof(text), "READY=1\nSTATUS=Host %s\nWATCHDOG=1",
			 agent->settings->host);
	agent->is_untold = sdnotify_send(agent->manager, text, -1) == -EAGAIN;
	agent->is_ready = agent->is_ready || !agent->is_untold;
}

/* While a large version is read. A failure is found later. */
static void keep_alive(void *arg)
{
	struct agent *agent = arg;
	int64_t now = now_ms();

	tell_manager(agent);
	if (now < agent->report_ms)
		return;
	hoststate_keep(agent->hoststate);
	agent->report_ms = now + agent->settings->ttl_sec * 1000 / 3;
}

static bool is_agent_ending(void *arg)
{
	return is_ending(arg);
}

static json_t *new_report(struct agent *agent)
{
	const struct report_input input = {
		.host = agent->settings->host,
		.labels = agent->settings->labels,
		.n_labels = agent->settings->n_labels,
		/* The broker is asked each third of the TTL. */
		.period = agent->settings->report_sec + agent->settings->ttl_sec / 3,
		.wanted = *agent->wanted ? agent->wanted : NULL,
		.staged = *agent->staged ? agent->staged : NULL,
		.in_force = *agent->in_force ? agent->in_force : NULL,
		.error = *agent->take.error ? agent->take.error : NULL,
		.install = &agent->install,
		.converge = &agent->converge,
		.hold = agent->is_held ? &agent->hold : NULL,
	};
	char reason[1024] = "";
	json_t *report = report_new(&agent->broker, &input, reason);

	if (*reason && causes_add_text(&agent->broker_causes, reason))
		log_line(LOG_WARNING, "Cannot get the state of the broker: %s.", reason);
	else if (!*reason && causes_clear(&agent->broker_causes))
		log_line(LOG_NOTICE, "The broker answers.");
	return report;
}

static void report(struct agent *agent)
{
	json_t *report;
	int r;

	watch_host(agent);
	report = new_report(agent);
	r = report ? hoststate_put(agent->hoststate, report) : -ENOMEM;
	json_decref(report);
	if (r != 0) {
		report_failure(agent, r);
		agent->report_ms = now_ms() + backoff_fail(&agent->report_backoff);
		return;
	}
	report_success(agent);
	backoff_reset(&agent->report_backoff);
	agent->report_ms = now_ms() + agent->settings->ttl_sec * 1000 / 3;
}

/* The loop */

/* KEY begins with AGENT_RETRY. Whether it is about this host. */
static bool is_asked(const struct agent *agent, const char *key)
{
	char all[PATH_MAX], one[PATH_MAX];

	make_key(agent, all, AGENT_RETRY);
	make_key(agent, one, AGENT_RETRY "/%s", agent->settings->host);
	return strcmp(key, all) == 0 || strcmp(key, one) == 0;
}

static void on_event(struct agent *agent, const struct etcd_event *event)
{
	const char *key = event->entry.key;
	char rollout[PATH_MAX], retry[PATH_MAX];

	make_key(agent, rollout, "rollout/");
	make_key(agent, retry, AGENT_RETRY);
	if (strncmp(key, rollout, strlen(rollout)) == 0) {
		agent->read_ms = 0;
	} else if (strncmp(key, retry, strlen(retry)) != 0) {
		/* The manifest of the wanted version has come, or was changed. */
		converge_retry(&agent->converge);
	} else if (!event->is_delete && is_asked(agent, key)) {
		log_line(LOG_NOTICE, "A new attempt was asked for.");
		converge_retry(&agent->converge);
		agent->read_ms = 0;
	}
}

static void on_watched(struct agent *agent, int r)
{
	if (r == 0)
		return;
	if (r == ETCD_COMPACTED) {
		agent->watch = etcd_watch_free(agent->watch);
		agent->read_ms = 0;
		/* Perhaps somebody has asked for it. */
		if (converge_has_failed(&agent->converge))
			converge_retry(&agent->converge);
	} else {
		report_failure(agent, r);
	}
}

static int64_t next_ms(const struct agent *agent)
{
	int64_t next = agent->read_ms < agent->report_ms ? agent->read_ms : agent->report_ms;

	return agent->converge.next_ms < next ? agent->converge.next_ms : next;
}

/* Waits until something is to be done. Returns false when the agent has to end. */
static bool wait_for_work(struct agent *agent)
{
	struct pollfd fds[3] = { { .fd = agent->stop, .events = POLLIN } };
	size_t n_fds = 1, inotify = 0;
	int64_t now = now_ms(), next = next_ms(agent);
	int ms = next <= now ? 0 : next - now > 30000 ? 30000 : (int)(next - now);
	struct etcd_event event = {};
	char buffer[4096];
	int r = 0;

	tell_manager(agent);
	if (agent->inotify >= 0) {
		inotify = n_fds++;
		fds[inotify] = (struct pollfd){ .fd = agent->inotify, .events = POLLIN };
	}
	if (agent->is_untold)
		fds[n_fds++] = (struct pollfd){ .fd = agent->manager, .events = POLLOUT };
	if (agent->watch) {
		/* Events that have come together are handled together. */
		for (int i = 0; i < EVENTS_MAX; i++) {
			r = etcd_watch_next(agent->watch, i == 0 ? ms : 0, fds, n_fds, &event);
			if (r != ETCD_EVENT)
				break;
			on_event(agent, &event);
			etcd_event_done(&event);
		}
		if (r != ETCD_EVENT)
			on_watched(agent, r);
	} else {
		poll(fds, n_fds, ms);
	}
	/* What has changed is looked at in each turn. */
	while (inotify > 0 && fds[inotify].revents &&
	       read(agent->inotify, buffer, sizeof(buffer)) > 0)
		;
	return !fds[0].revents && !is_ending(agent);
}

void agent_run(struct agent *agent, int stop)
{
	agent->stop = stop;
	read_staged(agent);
	watch_host(agent);
	while (wait_for_work(agent)) {
		/* In each turn, so at least each third of the TTL: what inotify does not tell is found, too. */
		look_at_host(agent);
		if (now_ms() >= agent->read_ms)
			read_rollout(agent);
		converge(agent);
		if (now_ms() >= agent->report_ms)
			report(agent);
	}
	sdnotify_send(agent->manager, "STOPPING=1", -1);
	/* The host's key goes at once. Without an answer it goes when the lease expires. */
	hoststate_end(agent->hoststate);
}

int agent_new(struct agent **ret, const struct settings *settings)
{
	struct agent *agent = calloc(1, sizeof(*agent));
	int r;

	r = agent ? settings_new_etcd(settings, CALL_MS, ANSWER_MAX, &agent->etcd) : -ENOMEM;
	if (r == 0)
		r = hoststate_new(&agent->hoststate, agent->etcd, settings);
	if (r < 0) {
		log_line(LOG_ERR, "%s",
			 r == -EINVAL ? SETTINGS_INVALID_ENDPOINTS "." : "Out of memory.");
		if (agent)
			etcd_free(agent->etcd);
		free(agent);
		return r;
	}
	agent->settings = settings;
	agent->manager = sdnotify_open();
	agent->inotify = -1;
	converge_init(&agent->converge);
	agent->take = (struct take){ .etcd = agent->etcd,
				     .settings = settings,
				     .keep_alive = keep_alive,
				     .is_ending = is_agent_ending,
				     .arg = agent };
	agent->broker.socket = settings->socket;
	*ret = agent;
	return 0;
}

struct agent *agent_free(struct agent *agent)
{
	if (!agent)
		return NULL;
	etcd_watch_free(agent->watch);
	hoststate_free(agent->hoststate);
	etcd_free(agent->etcd);
	report_broker_done(&agent->broker);
	if (agent->inotify >= 0)
		close(agent->inotify);
	if (agent->manager >= 0)
		close(agent->manager);
	free(agent);
	return NULL;
}
