/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <rdmabroker-admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/reason.h"
#include "proto/addr.h"
#include "proto/clock.h"
#include "proto/text.h"
#include "proto/version.h"
#include "report.h"

#define CALL_MS 1000
#define LIST_MAX \
	(24 * 1024) /* bytes of each list, so that both and the rest are below REPORT_MAX */
#define TEXT_MAX 2048 /* bytes of a text */

/* A text of others: what is not UTF-8 becomes U+FFFD, and it is cut. */
static json_t *new_text(const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	size_t len = text ? strlen(text) : 0, n, at = 0;
	char copy[TEXT_MAX + 8];
	uint32_t code;

	if (!text)
		return json_null();
	for (size_t i = 0; i < len && at < TEXT_MAX; i += n) {
		n = text_character(text + i, len - i, &code);
		if (n == 0) {
			memcpy(copy + at, replacement, 3);
			at += 3;
			n = 1;
		} else {
			memcpy(copy + at, text + i, n);
			at += n;
		}
	}
	return json_stringn(copy, at);
}

/* Appends ENTRY, whose reference is taken, to LIST, if LEFT bytes are enough. Returns whether they are. */
static bool append(json_t *list, json_t *entry, size_t *left)
{
	size_t n = json_dumpb(entry, NULL, 0, JSON_COMPACT) + 1;

	if (!entry || n > *left) {
		json_decref(entry);
		*left = 0;
		return false;
	}
	*left -= n;
	return json_array_append_new(list, entry) == 0;
}

/* The name of UID in /etc/passwd, which, unlike a directory service, answers at once. */
static json_t *new_user(uint32_t uid)
{
	FILE *f = fopen("/etc/passwd", "re");
	const struct passwd *entry;
	json_t *name = NULL;

	while (f && !name && (entry = fgetpwent(f)))
		if (entry->pw_uid == uid)
			name = new_text(entry->pw_name);
	if (f)
		fclose(f);
	return name ?: json_null();
}

static json_t *new_listener(const struct rdmabroker_listed_id *id)
{
	const struct sockaddr *local = (const struct sockaddr *)&id->local;
	char address[ADDR_HOST_STRLEN];

	return json_pack("{s:o, s:I, s:s, s:I}", "user", new_user(id->session->uid), "uid",
			 (json_int_t)id->session->uid, "address",
			 addr_host_to_string(local, address), "port", (json_int_t)addr_port(local));
}

static void add_listeners(json_t *report, const struct rdmabroker_list *list)
{
	json_t *listeners = json_array();
	size_t left = LIST_MAX, n_out = 0;

	for (size_t i = 0; i < list->n_ids; i++) {
		if (strcmp(list->ids[i]->state, "listening") != 0)
			continue;
		if (left == 0 || !append(listeners, new_listener(list->ids[i]), &left))
			n_out++;
	}
	json_object_set_new(report, "listeners", listeners);
	json_object_set_new(report, "listeners_left_out", json_integer((json_int_t)n_out));
}

static uint64_t told_by(const struct rdmabroker_rule *rule)
{
	return rule->n_rejected + rule->n_busy + rule->n_warned;
}

/* Those with the most refusals and warnings first. */
static int compare_refusals(const void *a, const void *b)
{
	const struct rdmabroker_rule *x = *(const struct rdmabroker_rule *const *)a;
	const struct rdmabroker_rule *y = *(const struct rdmabroker_rule *const *)b;
	uint64_t n = told_by(x), m = told_by(y);

	return n > m ? -1 : n < m;
}

static json_t *new_refusal(const struct rdmabroker_rule *rule)
{
	char where[PATH_MAX + 32];

	snprintf(where, sizeof(where), "%s:%u", rule->file ?: "", rule->line);
	return json_pack("{s:o, s:I, s:I, s:I}", "rule", rule->file ? new_text(where) : json_null(),
			 "rejected", (json_int_t)rule->n_rejected, "busy", (json_int_t)rule->n_busy,
			 "warned", (json_int_t)rule->n_warned);
}

static void add_refusals(json_t *report, const struct rdmabroker_rules *rules)
{
	const struct rdmabroker_rule **sorted = calloc(rules->n_rules + 1, sizeof(*sorted));
	json_t *refusals = json_array();
	size_t left = LIST_MAX, n = 0, n_out = 0;

	for (size_t i = 0; sorted && i < rules->n_rules; i++)
		if (told_by(rules->rules[i]) > 0)
			sorted[n++] = rules->rules[i];
	if (n > 0)
		qsort(sorted, n, sizeof(*sorted), compare_refusals);
	for (size_t i = 0; i < n; i++)
		if (left == 0 || !append(refusals, new_refusal(sorted[i]), &left))
			n_out++;
	free(sorted);
	json_object_set_new(report, "refusals", refusals);
	json_object_set_new(report, "refusals_left_out", json_integer((json_int_t)n_out));
}

static int open_session(struct report_broker *broker)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;

	if (broker->session)
		return 0;
	options.socket = broker->socket;
	options.flags = RDMABROKER_NO_POLL | RDMABROKER_AS_ADMIN;
	options.call_timeout_ms = CALL_MS;
	return rdmabroker_open(&options, &broker->session);
}

void report_broker_done(struct report_broker *broker)
{
	broker->session = rdmabroker_close(broker->session);
}

static int ask_once(struct report_broker *broker, json_t *report)
{
	struct rdmabroker_status *status = NULL;
	struct rdmabroker_list *list = NULL;
	struct rdmabroker_rules *rules = NULL;
	int r = open_session(broker);

	if (r == 0)
		r = rdmabroker_get_status(broker->session, &status);
	if (r == 0)
		r = rdmabroker_get_list(broker->session, &list);
	if (r == 0)
		r = rdmabroker_get_rules(broker->session, &rules);
	if (r == 0) {
		json_object_set_new(report, "daemon",
				    json_pack("{s:b, s:o, s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:I}",
					      "answers", 1, "version", new_text(status->version),
					      "draining", status->draining, "policy_error",
					      new_text(status->policy_error), "rules",
					      (json_int_t)status->n_rules, "warn_rules",
					      (json_int_t)status->n_warn_rules, "sessions",
					      (json_int_t)status->n_sessions, "listeners",
					      (json_int_t)status->n_listeners, "connections",
					      (json_int_t)status->n_connections, "handshakes",
					      (json_int_t)status->n_handshakes));
		add_listeners(report, list);
		add_refusals(report, rules);
	}
	rdmabroker_free_status(status);
	rdmabroker_free_list(list);
	rdmabroker_free_rules(rules);
	return r;
}

/*
 * A session that was open before the broker was restarted fails once. After other failures, too, the next report needs a
 * new session, because the broker decides only when a session is opened what its user can do.
 */
static void ask_broker(struct report_broker *broker, json_t *report, char reason[1024])
{
	const struct rdmabroker_failure *failure;
	bool was_open = broker->session;
	int r = ask_once(broker, report);

	*reason = 0;
	if (r == -ECONNRESET && was_open) {
		report_broker_done(broker);
		r = ask_once(broker, report);
	}
	if (r == 0)
		return;
	failure = rdmabroker_last_failure();
	snprintf(reason, 1024, "%s%s", reason_without_call(failure->text),
		 r == -EACCES || r == -EPERM ?
			 "; to allow it, add the rule \"allow observe user rdmabroker-fleet\" to "
			 "/etc/rdmabroker/policy.d" :
			 "");
	report_broker_done(broker);
	json_object_set_new(report, "daemon",
			    json_pack("{s:b, s:o}", "answers", 0, "error", new_text(reason)));
}

void report_read_in_force(char ret[SITE_NAME_MAX + 1], const char *site)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *name;
	ssize_t n;

	*ret = 0;
	snprintf(path, sizeof(path), "%s/current", site);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return;
	target[n] = 0;
	name = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
	if (site_is_name(name))
		strcpy(ret, name);
}

static json_t *new_install(const struct report_install *install)
{
	if (!*install->version)
		return json_null();
	return json_pack("{s:s, s:b, s:b, s:o}", "version", install->version, "installed",
			 install->is_installed, "temporary", install->is_temporary, "text",
			 new_text(install->text));
}

static json_t *new_converge(const struct converge *converge)
{
	int64_t left_s = (converge->next_ms - now_ms()) / 1000;
	json_t *ret = json_pack("{s:s, s:o}", "state", converge_names[converge->state], "why",
				new_text(*converge->why ? converge->why : NULL));

	if (!converge_has_failed(converge))
		return ret;
	json_object_set_new(ret, "since", json_integer((json_int_t)converge->since_s));
	json_object_set_new(ret, "attempts", json_integer((json_int_t)converge->n_failed));
	json_object_set_new(ret, "next", json_integer((json_int_t)time(NULL) + left_s));
	return ret;
}

static json_t *new_hold(const struct sitehold *hold)
{
	if (!hold)
		return json_null();
	return json_pack("{s:o, s:I, s:o}", "by", new_text(hold->by), "since",
			 (json_int_t)hold->since, "why", new_text(hold->why));
}

static json_t *new_labels(const struct report_input *input)
{
	json_t *labels = json_array();

	for (size_t i = 0; i < input->n_labels; i++)
		json_array_append_new(labels, json_string(input->labels[i]));
	return labels;
}

json_t *report_new(struct report_broker *broker, const struct report_input *input,
		   char reason[1024])
{
	json_t *report = json_pack("{s:s, s:o, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
				   "host", input->host, "labels", new_labels(input), "agent",
				   RDMABROKER_VERSION, "period", (json_int_t)input->period,
				   "wanted", new_text(input->wanted), "staged",
				   new_text(input->staged), "error", new_text(input->error),
				   "in_force", new_text(input->in_force), "install",
				   new_install(input->install), "converge",
				   new_converge(input->converge), "hold", new_hold(input->hold));

	if (report)
		ask_broker(broker, report, reason);
	return report;
}

/* A copy of REPORT without what changes all the time. */
static json_t *without_numbers(const json_t *report)
{
	static const char *const numbers[] = { "sessions", "listeners", "connections",
					       "handshakes" };
	json_t *copy = json_deep_copy(report), *rules = json_object(), *refusal;
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_del(json_object_get(copy, "daemon"), numbers[i]);
	/* They are in the order of their numbers. */
	json_array_foreach(json_object_get(copy, "refusals"), i, refusal)
		json_object_set_new(rules,
				    json_string_value(json_object_get(refusal, "rule")) ?: "",
				    json_true());
	json_object_set_new(copy, "refusals", rules);
	json_object_del(copy, "refusals_left_out");
	/* A time that is computed from a duration. Another attempt has another number. */
	json_object_del(json_object_get(copy, "converge"), "next");
	return copy;
}

bool report_is_alike(const json_t *a, const json_t *b)
{
	json_t *x = without_numbers(a), *y = without_numbers(b);
	bool alike = json_equal(x, y);

	json_decref(x);
	json_decref(y);
	return alike;
}

char *report_finish(json_t *report)
{
	json_t *copy = json_copy(report);
	char *text = NULL;

	if (json_object_set_new(copy, "time", json_integer((json_int_t)time(NULL))) == 0)
		text = json_dumps(copy, JSON_COMPACT);
	json_decref(copy);
	return text;
}

void report_read_install(struct report_install *ret, const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st = { 0 };
	char text[sizeof(ret->text)], word[16];
	const char *rest;
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	*ret = (struct report_install){};
	if (fd >= 0) {
		fstat(fd, &st);
		close(fd);
	}
	if (n <= 0)
		return;
	/* The file is replaced as a whole: another inode, or the same one later. */
	ret->id = (uint64_t)st.st_ino * 1000003 + (uint64_t)st.st_ctim.tv_sec * 1000000000 +
		  (uint64_t)st.st_ctim.tv_nsec;
	text[n] = 0;
	rest = strchr(text, '\n');
	/* 64 is SITE_NAME_MAX. */
	if (!rest || sscanf(text, "%64s %15s", ret->version, word) != 2 ||
	    !site_is_name(ret->version)) {
		*ret->version = 0;
		return;
	}
	ret->is_installed = strcmp(word, "installed") == 0;
	ret->is_temporary = strcmp(word, "failed") == 0;
	text_copy(ret->text, sizeof(ret->text), rest + 1);
}
