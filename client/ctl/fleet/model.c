/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#include "ctl/output.h"
#include "model.h"

/*
 * How many keys are read at a time. etcd makes a whole answer before it sends any of it, so the values that have come say
 * how many the next page has.
 */
#define PAGE_FIRST 4
#define PAGE_MAX 100
#define PAGE_BYTES (2 << 20)
#define NUMBER_MAX \
	((int64_t)1 << 40) /* what is larger comes from no agent; sums of many do not overflow */
#define GRACE_S 60 /* a state can be so much older than its period: clocks differ */

const char *const verdict_names[] = {
	[HOST_AWAY] = "away",       [HOST_INVALID] = "invalid", [HOST_STALE] = "stale",
	[HOST_REFUSED] = "refused", [HOST_FAILED] = "failed",   [HOST_HELD] = "held",
	[HOST_TRYING] = "trying",   [HOST_TWICE] = "twice",     [HOST_BROKER] = "no-broker",
	[HOST_POLICY] = "policy",   [HOST_WAITING] = "waiting", [HOST_OK] = "ok",
};

/* Finds or inserts NAME in an array of elements of SIZE bytes, whose first member is their name. NULL: out of memory. */
static void *insert(void **array, size_t *n, size_t size, const char *name)
{
	size_t low = 0, high = *n;
	char *base = *array, *copy;
	int r;

	while (low < high) {
		size_t middle = (low + high) / 2;

		r = strcmp(name, *(char **)(base + middle * size));
		if (r == 0)
			return base + middle * size;
		if (r < 0)
			high = middle;
		else
			low = middle + 1;
	}
	copy = strdup(name);
	base = copy ? realloc(*array, (*n + 1) * size) : NULL;
	if (!base) {
		free(copy);
		return NULL;
	}
	*array = base;
	memmove(base + (low + 1) * size, base + low * size, (*n - low) * size);
	memset(base + low * size, 0, size);
	*(char **)(base + low * size) = copy;
	(*n)++;
	return base + low * size;
}

int64_t host_clamp(const json_t *number)
{
	int64_t n = json_integer_value(number);

	return n < 0 ? 0 : n > NUMBER_MAX ? NUMBER_MAX : n;
}

const char *model_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* The time of SECONDS since 1970, as "2026-11-27 18:00"; "?": not known. */
void model_print_time(char ret[MODEL_TIME_MAX], int64_t seconds)
{
	time_t since = (time_t)seconds;
	struct tm tm;

	if (since <= 0 || !localtime_r(&since, &tm) ||
	    strftime(ret, MODEL_TIME_MAX, "%F %R", &tm) == 0)
		strcpy(ret, "?");
}

/* Without the name of the program that root's part runs. */
static const char *host_reason(const char *why)
{
	static const char program[] = "rdmabrokerctl: ";

	return why && strncmp(why, program, strlen(program)) == 0 ? why + strlen(program) : why;
}

/* The text of struct host.note, malloc()ed. */
static char *new_note(const json_t *state)
{
	const json_t *converge = json_object_get(state, "converge");
	const json_t *hold = json_object_get(state, "hold");
	const char *name = model_text(converge, "state"), *why = model_text(converge, "why");
	int64_t n = host_clamp(json_object_get(converge, "attempts"));
	char since[MODEL_TIME_MAX], reason[1024], *ret = NULL;
	int r = 0;

	if (json_is_string(json_object_get(state, "twin"))) {
		r = asprintf(&ret, "%s and %s both have this name; set Host= on one of them",
			     model_text(state, "machine") ?: "?", model_text(state, "twin"));
	} else if (json_is_object(hold)) {
		model_print_time(since, host_clamp(json_object_get(hold, "since")));
		why = model_text(hold, "why") ?: "";
		r = asprintf(&ret, "held by %s since %s%s%s", model_text(hold, "by") ?: "?", since,
			     *why ? ": " : "", why);
	} else if (name && strcmp(name, "trying") == 0) {
		model_print_time(since, host_clamp(json_object_get(converge, "since")));
		/* What is cut off first is the number. */
		printable(reason, sizeof(reason), host_reason(why) ?: "?");
		r = asprintf(&ret, "%s (%lld attempt%s since %s)", reason, (long long)n,
			     n == 1 ? "" : "s", since);
	}
	return r < 0 ? NULL : ret;
}

static int set_host(struct fleet *fleet, const char *name, const struct etcd_entry *entry)
{
	struct host *host =
		insert((void **)&fleet->hosts, &fleet->n_hosts, sizeof(*fleet->hosts), name);
	json_error_t error;

	if (!host)
		return -ENOMEM;
	json_decref(host->state);
	host->state = entry ? json_loadb(entry->value, entry->len, 0, &error) : NULL;
	if (host->state && !json_is_object(host->state)) {
		json_decref(host->state);
		host->state = NULL;
	}
	host->is_invalid = entry && !host->state;
	free(host->note);
	host->note = host->state ? new_note(host->state) : NULL;
	return 0;
}

static int set_known(struct fleet *fleet, const char *name, const struct etcd_entry *entry)
{
	struct host *host =
		insert((void **)&fleet->hosts, &fleet->n_hosts, sizeof(*fleet->hosts), name);
	json_error_t error;

	if (!host)
		return -ENOMEM;
	json_decref(host->known);
	/* A value that is not JSON makes the host known, too. */
	host->known = entry ? json_loadb(entry->value, entry->len, 0, &error) ?: json_null() : NULL;
	return 0;
}

static struct rollout *insert_rollout(struct fleet *fleet, const char *label)
{
	return insert((void **)&fleet->rollouts, &fleet->n_rollouts, sizeof(*fleet->rollouts),
		      label);
}

static int set_rollout(struct fleet *fleet, const char *label, const struct etcd_entry *entry)
{
	struct rollout *rollout = insert_rollout(fleet, label);
	size_t n = entry ? entry->len : 0;

	if (!rollout)
		return -ENOMEM;
	rollout->revision = entry ? entry->mod_revision : 0;
	/* `echo NAME | etcdctl put KEY` adds a line break. */
	if (n > 0 && entry->value[n - 1] == '\n')
		n--;
	printable(rollout->value, sizeof(rollout->value), entry ? entry->value : "");
	if (n > SITE_NAME_MAX)
		n = 0;
	if (n > 0)
		memcpy(rollout->version, entry->value, n);
	rollout->version[n] = 0;
	if (!site_is_name(rollout->version))
		*rollout->version = 0;
	return 0;
}

#define LOG "/log"

static int set_log(struct fleet *fleet, const char *label, const struct etcd_entry *entry)
{
	struct rollout *rollout = insert_rollout(fleet, label);
	json_error_t error;

	if (!rollout)
		return -ENOMEM;
	json_decref(rollout->log);
	rollout->log = entry ? json_loadb(entry->value, entry->len, 0, &error) : NULL;
	rollout->log_revision = entry ? entry->mod_revision : 0;
	return 0;
}

/* NAME is that of a label, or LABEL/log. */
static int set_history(struct fleet *fleet, const char *name, const struct etcd_entry *entry)
{
	size_t n = strlen(name), log = strlen(LOG);
	struct rollout *rollout;
	json_error_t error;
	char label[512];

	if (n > log && n - log < sizeof(label) && strcmp(name + n - log, LOG) == 0) {
		snprintf(label, sizeof(label), "%.*s", (int)(n - log), name);
		return set_log(fleet, label, entry);
	}
	rollout = insert_rollout(fleet, name);
	if (!rollout)
		return -ENOMEM;
	json_decref(rollout->history);
	rollout->history = entry ? json_loadb(entry->value, entry->len, 0, &error) : NULL;
	rollout->history_revision = entry ? entry->mod_revision : 0;
	return 0;
}

static int set_version(struct fleet *fleet, const char *name, const struct etcd_entry *entry)
{
	/* The files of a version have a slash in their names. */
	if (!entry || !site_is_name(name))
		return 0;
	return insert((void **)&fleet->versions, &fleet->n_versions, sizeof(*fleet->versions),
		      name) ?
		       0 :
		       -ENOMEM;
}

static const struct folder {
	const char *name;
	int (*set)(struct fleet *fleet, const char *name, const struct etcd_entry *entry);
	bool keys_only;
} folders[] = {
	{ "hosts/", set_host, false },      { "known/", set_known, false },
	{ "rollout/", set_rollout, false }, { "history/", set_history, false },
	{ "versions/", set_version, true },
};

#define N_FOLDERS (sizeof(folders) / sizeof(folders[0]))
#define N_WATCHED 4 /* the first ones */

static unsigned next_limit(unsigned limit, const struct etcd_range *range)
{
	size_t bytes = 1, n;

	for (size_t i = 0; i < range->n; i++)
		bytes += range->entries[i].len;
	n = PAGE_BYTES * range->n / bytes;
	n = MIN(n, MIN((size_t)limit * 8, PAGE_MAX));
	return n > 0 ? (unsigned)n : 1;
}

static int read_folder(struct fleet *fleet, struct etcd *etcd, const struct folder *folder)
{
	size_t len = strlen(fleet->prefix) + strlen(folder->name);
	char prefix[512], *after = NULL;
	struct etcd_page page = { .prefix = prefix,
				  .revision = fleet->revision,
				  .limit = folder->keys_only ? 0 : PAGE_FIRST,
				  .keys_only = folder->keys_only };
	struct etcd_range *range;
	bool has_more = true;
	int r = 0;

	snprintf(prefix, sizeof(prefix), "%s%s", fleet->prefix, folder->name);
	while (r == 0 && has_more) {
		r = etcd_read_page(etcd, &page, &range);
		/* Values that are far larger than those of agents. */
		if (r == -EMSGSIZE && page.limit > 1) {
			page.limit /= 2;
			r = 0;
			continue;
		}
		if (r != 0)
			break;
		if (fleet->revision == 0)
			fleet->revision = range->revision;
		page.revision = fleet->revision;
		for (size_t i = 0; r == 0 && i < range->n; i++)
			r = folder->set(fleet, range->entries[i].key + len, &range->entries[i]);
		if (page.limit > 0)
			page.limit = next_limit(page.limit, range);
		has_more = range->has_more;
		if (has_more && r == 0) {
			free(after);
			after = range->entries[range->n - 1].key;
			range->entries[range->n - 1].key = NULL;
			page.after = after;
		}
		etcd_range_free(range);
	}
	free(after);
	return r;
}

int fleet_read(struct fleet *ret, struct etcd *etcd, const char *prefix)
{
	int r = 0;

	*ret = (struct fleet){ .prefix = strdup(prefix) };
	if (!ret->prefix)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < N_FOLDERS; i++)
		r = read_folder(ret, etcd, &folders[i]);
	return r;
}

void fleet_done(struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->n_hosts; i++) {
		free(fleet->hosts[i].name);
		json_decref(fleet->hosts[i].state);
		json_decref(fleet->hosts[i].known);
		free(fleet->hosts[i].note);
	}
	for (size_t i = 0; i < fleet->n_rollouts; i++) {
		free(fleet->rollouts[i].label);
		json_decref(fleet->rollouts[i].history);
		json_decref(fleet->rollouts[i].log);
	}
	for (size_t i = 0; i < fleet->n_versions; i++)
		free(fleet->versions[i]);
	free(fleet->hosts);
	free(fleet->rollouts);
	free(fleet->versions);
	free(fleet->prefix);
	*fleet = (struct fleet){};
}

int fleet_watch(const struct fleet *fleet, struct etcd *etcd, struct etcd_watch **ret)
{
	struct etcd_interval intervals[N_WATCHED];
	char keys[N_WATCHED][512];

	for (size_t i = 0; i < N_WATCHED; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%s%s", fleet->prefix, folders[i].name);
		intervals[i] = (struct etcd_interval){ keys[i], true };
	}
	return etcd_watch_new(ret, etcd, intervals, N_WATCHED, fleet->revision + 1);
}

void fleet_apply(struct fleet *fleet, const struct etcd_event *event)
{
	const char *key = event->entry.key + strlen(fleet->prefix);

	for (size_t i = 0; i < N_WATCHED; i++)
		if (strncmp(key, folders[i].name, strlen(folders[i].name)) == 0)
			folders[i].set(fleet, key + strlen(folders[i].name),
				       event->is_delete ? NULL : &event->entry);
}

const struct rollout *fleet_find_rollout(const struct fleet *fleet, const char *label)
{
	for (size_t i = 0; i < fleet->n_rollouts; i++)
		if (strcmp(fleet->rollouts[i].label, label) == 0)
			return &fleet->rollouts[i];
	return NULL;
}

const struct host *fleet_find_host(const struct fleet *fleet, const char *name)
{
	for (size_t i = 0; i < fleet->n_hosts; i++)
		if (strcmp(fleet->hosts[i].name, name) == 0)
			return &fleet->hosts[i];
	return NULL;
}

bool fleet_has_version(const struct fleet *fleet, const char *name)
{
	for (size_t i = 0; i < fleet->n_versions; i++)
		if (strcmp(fleet->versions[i], name) == 0)
			return true;
	return false;
}

/* The roll-out that an agent with LABELS follows, as it chooses it itself. */
static const struct rollout *follow(const struct fleet *fleet, const json_t *labels)
{
	const struct rollout *rollout;

	for (size_t i = 0; i < json_array_size(labels); i++) {
		const char *label = json_string_value(json_array_get(labels, i));

		rollout = label ? fleet_find_rollout(fleet, label) : NULL;
		if (rollout && rollout->revision > 0)
			return rollout;
	}
	rollout = fleet_find_rollout(fleet, "all");
	return rollout && rollout->revision > 0 ? rollout : NULL;
}

static bool has_refused(const json_t *state, const char *version)
{
	const json_t *install = json_object_get(state, "install");
	const char *name = model_text(install, "version");

	return name && strcmp(name, version) == 0 &&
	       !json_is_true(json_object_get(install, "installed"));
}

/* What the agent says about WANTED; NULL: nothing, because it does not know of it yet, or is an older one. */
static const char *agent_says(const json_t *state, const char *wanted)
{
	const char *known = model_text(state, "wanted");

	return *wanted && known && strcmp(known, wanted) == 0 ?
		       model_text(json_object_get(state, "converge"), "state") :
		       NULL;
}

/* The verdict of an agent that says how it converges; HOST_OK: nothing is wrong with that. */
static enum verdict judge_converging(const struct host *host, const char *says,
				     const char **ret_why)
{
	if (strcmp(says, "held") == 0) {
		*ret_why = host->note;
		return HOST_HELD;
	}
	if (strcmp(says, "trying") == 0) {
		*ret_why = host->note;
		return HOST_TRYING;
	}
	if (strcmp(says, "refused") != 0)
		return HOST_OK;
	*ret_why = host_reason(model_text(json_object_get(host->state, "converge"), "why"));
	return model_text(host->state, "error") ? HOST_FAILED : HOST_REFUSED;
}

/* The same for an older agent, which does not tell what can pass. */
static enum verdict judge_old(const struct host *host, const char *wanted, const char **ret_why)
{
	const json_t *state = host->state;

	if (*wanted && has_refused(state, wanted)) {
		*ret_why = model_text(json_object_get(state, "install"), "text");
		return HOST_REFUSED;
	}
	*ret_why = model_text(state, "error");
	return *ret_why && *wanted && model_text(state, "wanted") &&
			       strcmp(model_text(state, "wanted"), wanted) == 0 ?
		       HOST_FAILED :
		       HOST_OK;
}

static enum verdict judge(const struct judgement *judgement, const struct host *host,
			  const char **ret_why)
{
	const json_t *state = host->state, *daemon = json_object_get(state, "daemon");
	const char *wanted = judgement->rollout ? judgement->rollout->version : "", *says;
	enum verdict verdict;

	if (!state)
		return host->is_invalid ? HOST_INVALID : HOST_AWAY;
	if (!json_is_object(daemon) || !json_is_array(json_object_get(state, "labels")))
		return HOST_INVALID;
	if (judgement->age_s > host_number(host, NULL, "period") + GRACE_S)
		return HOST_STALE;
	if (json_is_string(json_object_get(state, "twin"))) {
		*ret_why = host->note;
		return HOST_TWICE;
	}
	says = agent_says(state, wanted);
	verdict = says                               ? judge_converging(host, says, ret_why) :
		  json_object_get(state, "converge") ? HOST_OK :
						       judge_old(host, wanted, ret_why);
	if (verdict != HOST_OK)
		return verdict;
	*ret_why = model_text(daemon, "error");
	if (!json_is_true(json_object_get(daemon, "answers")))
		return HOST_BROKER;
	*ret_why = model_text(daemon, "policy_error");
	if (*ret_why)
		return HOST_POLICY;
	/* Who holds the version is said even if it is the right one. */
	*ret_why = host->note;
	if (*wanted && !(judgement->in_force && strcmp(judgement->in_force, wanted) == 0))
		return HOST_WAITING;
	return HOST_OK;
}

bool host_exists(const struct host *host)
{
	return host->state || host->known || host->is_invalid;
}

const json_t *host_labels(const struct host *host)
{
	return json_object_get(host->state ?: host->known, "labels");
}

struct judgement host_judge(const struct fleet *fleet, const struct host *host)
{
	const json_t *state = host->state ?: host->known;
	struct judgement ret = { .rollout = follow(fleet, host_labels(host)),
				 .in_force = model_text(state, "in_force"),
				 .age_s = -1 };
	const json_t *written = json_object_get(host->state, "time");

	if (json_is_integer(written)) {
		ret.age_s = (int64_t)time(NULL) - host_clamp(written);
		/* The host's clock is ahead. */
		if (ret.age_s < 0)
			ret.age_s = 0;
	}
	ret.verdict = judge(&ret, host, &ret.why);
	return ret;
}

int64_t host_number(const struct host *host, const char *object, const char *member)
{
	const json_t *from = object ? json_object_get(host->state, object) : host->state;

	return host_clamp(json_object_get(from, member));
}

const json_t *host_array(const struct host *host, const char *name)
{
	const json_t *array = json_object_get(host->state, name);

	return json_is_array(array) ? array : NULL;
}
