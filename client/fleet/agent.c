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
#include "etcd/backoff.h"
#include "hoststate.h"
#include "proto/clock.h"
#include "proto/sdnotify.h"
#include "proto/text.h"
#include "report.h"
#include "version.h"

#define CALL_MS 5000 /* the limit of silence of a call of etcd */
#define ANSWER_MAX (8 * 1024 * 1024) /* bytes; base64 of the largest file, and the rest */
#define ROLLOUT_MAX 1000 /* keys below rollout/ */
#define MANIFEST_MAX (128 * 1024) /* bytes */
#define TAKE_MS (60 * 1000) /* the deadline for all files of a version */
#define REREAD_MS \
	(60 * 1000) /* after this the roll-out is read again, even if the watch says nothing */
#define RETRY_MS (5 * 60 * 1000) /* after this a version that was refused is tried again */
#define NUDGE_MS (60 * 1000) /* after this `wanted` is written again, if it was not installed */
#define EVENTS_MAX 1000 /* that are handled together */
#define KEEP 8 /* staged versions */

struct agent {
	const struct settings *settings;
	struct etcd *etcd;
	struct etcd_watch *watch; /* NULL: the roll-out has to be read first */
	int manager; /* see sdnotify_open() */
	bool is_ready; /* and the manager was told so */
	bool is_untold; /* the manager did not take the last message */
	int stop; /* readable: the agent ends */
	int inotify; /* for the result of an installation; -1: cannot be watched now */
	int64_t read_ms; /* when to read the roll-out */
	int64_t take_ms; /* when to take the wanted version; INT64_MAX: nothing is to be taken */
	int64_t report_ms; /* when to report */
	int64_t nudge_ms; /* when to write `wanted` again */
	struct backoff read_backoff, take_backoff, report_backoff;
	struct causes etcd_causes, rollout_causes, take_causes, broker_causes;
	char wanted[SITE_NAME_MAX + 1]; /* by the roll-out; empty: none */
	char staged[SITE_NAME_MAX + 1]; /* what the file `wanted` has; empty: none */
	char error[VERSION_REASON_MAX + 128]; /* why WANTED was not taken; empty: it was */
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
	if (agent->watch && etcd_watch_is_connected(agent->watch) &&
	    causes_clear(&agent->etcd_causes))
		log_line(LOG_NOTICE, "etcd can be used again.");
}

static bool is_ending(const struct agent *agent)
{
	struct pollfd p = { .fd = agent->stop, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* The file `wanted` */

static int write_wanted(struct agent *agent, const char *name)
{
	char text[SITE_NAME_MAX + 2];
	int r;

	snprintf(text, sizeof(text), "%s\n", name);
	r = version_write_file(agent->settings->state_dir, "wanted", text);
	if (r < 0) {
		snprintf(agent->error, sizeof(agent->error), "cannot write %s/wanted: %s",
			 agent->settings->state_dir, strerror(-r));
		return r;
	}
	agent->nudge_ms = now_ms() + NUDGE_MS;
	return 0;
}

static void read_wanted(struct agent *agent)
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

/*
 * systemd may miss a change of `wanted` that comes while it installs another version. So the file is written again if the
 * result is of another version for some time.
 */
static void nudge(struct agent *agent)
{
	if (*agent->staged && now_ms() >= agent->nudge_ms &&
	    strcmp(agent->install.version, agent->staged) != 0)
		write_wanted(agent, agent->staged);
}

/* Takes a version from etcd */

enum taken {
	TAKEN,
	TAKE_REFUSED, /* what etcd has is not right: ERROR says why */
	TAKE_FAILED, /* etcd, or this host, has failed: ERROR says why */
};

__attribute__((format(printf, 3, 4))) static enum taken fail(struct agent *agent, enum taken taken,
							     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(agent->error, sizeof(agent->error), fmt, ap);
	va_end(ap);
	return taken;
}

/* Reads the value of KEY, which must not be larger than MAX. Free *RET with etcd_range_free(). */
static enum taken get_value(struct agent *agent, const char *key, size_t max,
			    struct etcd_range **ret)
{
	int r = etcd_range(agent->etcd, key, /* is_prefix= */ false, 1, ret);

	if (r == -EMSGSIZE)
		return fail(agent, TAKE_REFUSED, "%s is too large", key);
	if (r != 0)
		return fail(agent, TAKE_FAILED, "cannot read %s: %s", key, etcd_error(agent->etcd));
	if ((*ret)->n == 1 && (*ret)->entries[0].len <= max)
		return TAKEN;
	fail(agent, TAKE_REFUSED, (*ret)->n == 1 ? "%s is too large" : "there is no %s", key);
	*ret = etcd_range_free(*ret);
	return TAKE_REFUSED;
}

static enum taken get_manifest(struct agent *agent, const char *name, struct manifest **ret)
{
	char key[PATH_MAX], reason[VERSION_REASON_MAX];
	struct etcd_range *range;
	enum taken taken;
	int r;

	make_key(agent, key, "versions/%s", name);
	taken = get_value(agent, key, MANIFEST_MAX, &range);
	if (taken != TAKEN)
		return taken;
	r = manifest_parse(range->entries[0].value, range->entries[0].len, ret, reason);
	etcd_range_free(range);
	if (r == -EBADMSG)
		return fail(agent, TAKE_REFUSED, "%s", reason);
	return r < 0 ? fail(agent, TAKE_FAILED, "out of memory") : TAKEN;
}

static enum taken stage_file(struct agent *agent, struct staging *staging,
			     const struct manifest_file *file)
{
	char key[PATH_MAX], reason[VERSION_REASON_MAX];
	struct etcd_range *range = NULL;
	enum taken taken;
	int r;

	make_key(agent, key, "versions/%s/%s", staging->name, file->name);
	taken = get_value(agent, key, SITE_SIZE_MAX, &range);
	if (taken != TAKEN)
		return taken;
	if (!manifest_verify(file, range->entries[0].value, range->entries[0].len, reason)) {
		taken = fail(agent, TAKE_REFUSED, "%s", reason);
	} else {
		r = staging_add(staging, file->name, range->entries[0].value,
				range->entries[0].len);
		if (r < 0)
			taken = fail(agent, TAKE_FAILED, "cannot write %s: %s", file->name,
				     strerror(-r));
	}
	etcd_range_free(range);
	return taken;
}

static void keep_lease(struct agent *agent);

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

static enum taken stage_files(struct agent *agent, struct staging *staging,
			      const struct manifest *manifest)
{
	int64_t deadline = now_ms() + TAKE_MS;
	enum taken taken = TAKEN;
	int r;

	for (size_t i = 0; taken == TAKEN && i < manifest->n; i++) {
		if (now_ms() > deadline || is_ending(agent))
			return fail(agent, TAKE_FAILED, "the files did not come within %d s",
				    TAKE_MS / 1000);
		taken = stage_file(agent, staging, &manifest->files[i]);
		tell_manager(agent);
		keep_lease(agent);
	}
	if (taken != TAKEN)
		return taken;
	r = staging_commit(staging);
	return r < 0 ? fail(agent, TAKE_FAILED, "cannot write the version: %s", strerror(-r)) :
		       TAKEN;
}

static enum taken stage(struct agent *agent, const char *name, const struct manifest *manifest)
{
	char staged[PATH_MAX];
	struct staging staging;
	enum taken taken;
	int r;

	snprintf(staged, sizeof(staged), "%s/staged", agent->settings->state_dir);
	switch (version_compare(staged, name, manifest)) {
	case VERSION_SAME:
		return TAKEN;
	case VERSION_OTHER:
		return fail(
			agent, TAKE_REFUSED,
			"%s/%s has other files; a version cannot be changed, so give the new one "
			"another name",
			staged, name);
	case VERSION_ABSENT:
		break;
	}
	r = staging_begin(&staging, staged, name);
	taken = r < 0 ? fail(agent, TAKE_FAILED, "cannot write to %s: %s", staged, strerror(-r)) :
			stage_files(agent, &staging, manifest);
	staging_done(&staging);
	if (taken == TAKEN)
		version_forget_old(staged, KEEP, name);
	return taken;
}

static enum taken take_now(struct agent *agent)
{
	struct manifest *manifest = NULL;
	enum taken taken = get_manifest(agent, agent->wanted, &manifest);

	if (taken == TAKEN)
		taken = stage(agent, agent->wanted, manifest);
	free(manifest);
	if (taken != TAKEN || strcmp(agent->staged, agent->wanted) == 0)
		return taken;
	if (write_wanted(agent, agent->wanted) < 0)
		return TAKE_FAILED;
	strcpy(agent->staged, agent->wanted);
	log_line(LOG_NOTICE, "Version %s is here, and is to be installed.", agent->staged);
	return TAKEN;
}

static void take(struct agent *agent)
{
	char was[sizeof(agent->error)];

	strcpy(was, agent->error);
	*agent->error = 0;
	switch (take_now(agent)) {
	case TAKEN:
		agent->take_ms = INT64_MAX;
		backoff_reset(&agent->take_backoff);
		causes_clear(&agent->take_causes);
		break;
	case TAKE_REFUSED:
		agent->take_ms = now_ms() + RETRY_MS;
		backoff_reset(&agent->take_backoff);
		break;
	case TAKE_FAILED:
		agent->take_ms = now_ms() + backoff_fail(&agent->take_backoff);
		break;
	}
	if (*agent->error && causes_add_text(&agent->take_causes, agent->error))
		log_line(LOG_ERR, "Cannot take version %s: %s.", agent->wanted, agent->error);
	if (strcmp(was, agent->error) != 0 || !*agent->error)
		agent->report_ms = now_ms();
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

/* Finds the version that this host should have. Without a valid one, RET is empty. */
static void choose(struct agent *agent, const struct etcd_range *range, char ret[SITE_NAME_MAX + 1])
{
	const struct settings *settings = agent->settings;
	const struct etcd_entry *entry = NULL;
	char text[PATH_MAX];

	for (size_t i = 0; !entry && i < settings->n_labels; i++)
		entry = find_label(agent, range, settings->labels[i]);
	if (!entry)
		entry = find_label(agent, range, "all");
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

/* Watches the roll-out and the manifest of the wanted version, which may come later. */
static int watch_from(struct agent *agent, int64_t revision)
{
	char rollout[PATH_MAX], manifest[PATH_MAX];
	const struct etcd_interval intervals[] = { { rollout, true }, { manifest, false } };

	make_key(agent, rollout, "rollout/");
	make_key(agent, manifest, "versions/%s", agent->wanted);
	agent->watch = etcd_watch_free(agent->watch);
	return etcd_watch_new(&agent->watch, agent->etcd, intervals, *agent->wanted ? 2 : 1,
			      revision);
}

static int read_now(struct agent *agent)
{
	char key[PATH_MAX], name[SITE_NAME_MAX + 1];
	struct etcd_range *range;
	int64_t revision;
	bool is_other;
	int r;

	make_key(agent, key, "rollout/");
	r = etcd_range(agent->etcd, key, /* is_prefix= */ true, ROLLOUT_MAX, &range);
	if (r != 0)
		return r;
	revision = range->revision + 1;
	choose(agent, range, name);
	etcd_range_free(range);
	is_other = strcmp(agent->wanted, name) != 0;
	if (is_other) {
		strcpy(agent->wanted, name);
		*agent->error = 0;
		agent->take_ms = *name ? 0 : INT64_MAX;
		agent->report_ms = 0;
	}
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

/* While a large version is read. A failure is found later. */
static void keep_lease(struct agent *agent)
{
	int64_t now = now_ms();

	if (now < agent->report_ms)
		return;
	hoststate_keep(agent->hoststate);
	agent->report_ms = now + agent->settings->ttl_sec * 1000 / 3;
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
		.error = *agent->error ? agent->error : NULL,
		.site = agent->settings->site,
		.install = &agent->install,
	};
	char reason[1024] = "";
	json_t *report = report_new(&agent->broker, &input, reason);

	if (*reason && causes_add_text(&agent->broker_causes, reason))
		log_line(LOG_WARNING, "Cannot get the state of the broker: %s.", reason);
	else if (!*reason && causes_clear(&agent->broker_causes))
		log_line(LOG_NOTICE, "The broker answers.");
	return report;
}

static void watch_result(struct agent *agent)
{
	char dir[PATH_MAX];
	char *slash;

	if (agent->inotify >= 0)
		return;
	text_copy(dir, sizeof(dir), agent->settings->result);
	slash = strrchr(dir, '/');
	if (slash)
		*slash = 0;
	agent->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	/* The directory exists after the first installation. */
	if (agent->inotify >= 0 && inotify_add_watch(agent->inotify, dir, IN_MOVED_TO) < 0) {
		close(agent->inotify);
		agent->inotify = -1;
	}
}

static void read_result(struct agent *agent)
{
	struct report_install was = agent->install;

	watch_result(agent);
	report_read_install(&agent->install, agent->settings->result);
	if (!*agent->install.version || (strcmp(was.version, agent->install.version) == 0 &&
					 was.is_installed == agent->install.is_installed &&
					 strcmp(was.text, agent->install.text) == 0))
		return;
	if (agent->install.is_installed)
		log_line(LOG_NOTICE, "Version %s is installed.", agent->install.version);
	else
		log_line(LOG_ERR, "Version %s was refused: %.*s", agent->install.version,
			 (int)strcspn(agent->install.text, "\n"), agent->install.text);
}

static void report(struct agent *agent)
{
	json_t *report;
	int r;

	read_result(agent);
	nudge(agent);
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

static void on_event(struct agent *agent, const struct etcd_event *event)
{
	char rollout[PATH_MAX];

	make_key(agent, rollout, "rollout/");
	if (strncmp(event->entry.key, rollout, strlen(rollout)) == 0)
		agent->read_ms = 0;
	else if (*agent->wanted)
		/* The manifest of the wanted version has come, or was changed. */
		agent->take_ms = 0;
}

static void on_watched(struct agent *agent, int r)
{
	if (r == 0)
		return;
	if (r == ETCD_COMPACTED) {
		agent->watch = etcd_watch_free(agent->watch);
		agent->read_ms = 0;
	} else {
		report_failure(agent, r);
	}
}

static int64_t next_ms(const struct agent *agent)
{
	int64_t next = agent->read_ms < agent->report_ms ? agent->read_ms : agent->report_ms;

	return agent->take_ms < next ? agent->take_ms : next;
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
	if (inotify > 0 && fds[inotify].revents && read(agent->inotify, buffer, sizeof(buffer)) > 0)
		agent->report_ms = 0;
	return !fds[0].revents && !is_ending(agent);
}

void agent_run(struct agent *agent, int stop)
{
	agent->stop = stop;
	read_wanted(agent);
	read_result(agent);
	while (wait_for_work(agent)) {
		if (now_ms() >= agent->read_ms)
			read_rollout(agent);
		if (now_ms() >= agent->take_ms)
			take(agent);
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
	agent->take_ms = INT64_MAX;
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
