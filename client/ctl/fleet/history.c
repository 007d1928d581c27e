/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/author.h"
#include "ctl/output.h"
#include "ctl/table.h"
#include "history.h"
#include "screen.h"

static json_t *new_author(void)
{
	char text[AUTHOR_MAX];

	author_text(text);
	return json_string(text);
}

const char *history_version_at(const json_t *history, size_t i)
{
	const char *name =
		json_string_value(json_object_get(json_array_get(history, i), "version"));

	/* It may be printed. */
	return name && site_is_name(name) ? name : NULL;
}

/* The index of the newest entry for VERSION; the size of HISTORY: there is none. */
static size_t find_in(const json_t *history, const char *version)
{
	size_t n = json_array_size(history);

	for (size_t i = n; i > 0; i--) {
		const char *name = history_version_at(history, i - 1);

		if (name && strcmp(name, version) == 0)
			return i - 1;
	}
	return n;
}

/* Takes the reference to ENTRY. */
static void append(json_t *array, size_t max, json_t *entry)
{
	while (json_array_size(array) >= max)
		json_array_remove(array, 0);
	json_array_append_new(array, entry);
}

static void append_version(json_t *history, const char *version, json_t *author)
{
	append(history, HISTORY_MAX,
	       json_pack("{s:s, s:I, s:o}", "version", version, "time", (json_int_t)time(NULL),
			 "by", author));
}

/* Whether a version is rolled out, and not something that is no name of one. */
static bool is_set(const struct rollout *rollout)
{
	return rollout && rollout->revision > 0 && *rollout->version;
}

json_t *history_known(const struct rollout *rollout)
{
	json_t *history = json_array();
	size_t n = rollout ? json_array_size(rollout->history) : 0, end = n;

	if (is_set(rollout)) {
		end = find_in(rollout->history, rollout->version);
		end = end < n ? end + 1 : n;
	}
	for (size_t i = 0; i < end; i++)
		json_array_append(history, json_array_get(rollout->history, i));
	if (is_set(rollout) && find_in(history, rollout->version) == json_array_size(history))
		append_version(history, rollout->version, json_null());
	return history;
}

void history_add(json_t *history, const char *version)
{
	size_t n = json_array_size(history);
	const char *newest = n > 0 ? history_version_at(history, n - 1) : NULL;

	if (!newest || strcmp(newest, version) != 0)
		append_version(history, version, new_author());
}

const char *history_go_back(json_t *history, const struct rollout *rollout)
{
	size_t n = json_array_size(history);

	/* Something that is no version has no entry. */
	if (is_set(rollout) && n > 0)
		json_array_remove(history, --n);
	return n > 0 ? history_version_at(history, n - 1) : NULL;
}

json_t *history_log(const struct rollout *rollout, const char *what, const char *version)
{
	/* An older program has written the history only. */
	const json_t *old = !rollout                    ? NULL :
			    json_is_array(rollout->log) ? rollout->log :
							  rollout->history;
	json_t *log = json_is_array(old) ? json_copy((json_t *)old) : json_array();
	const char *before = is_set(rollout) ? rollout->version : NULL;

	append(log, HISTORY_LOG_MAX,
	       json_pack("{s:s, s:s?, s:s?, s:I, s:o}", "what", what, "version", version, "before",
			 before, "time", (json_int_t)time(NULL), "by", new_author()));
	return log;
}

/* The action */

struct entry_row {
	const char *label, *what, *version, *before, *by;
	const json_t *time;
};

#define ENTRY(member) COLUMN_OF(struct entry_row, member)

static const struct column columns[] = {
	{ "LABEL", "label", ENTRY(label) },
	{ "TIME", "time", .type = COLUMN_TEXT, .offset = offsetof(struct entry_row, time),
	  .text = screen_print_time, .json = screen_json },
	{ "WHAT", "what", ENTRY(what) },
	{ "VERSION", "version", ENTRY(version) },
	{ "BEFORE", "before", ENTRY(before) },
	{ "BY", "by", ENTRY(by) },
	{ NULL },
};

static void add_entry(struct table *table, const char *label, const json_t *entry)
{
	const struct entry_row row = {
		.label = label,
		.what = model_text(entry, "what") ?: "use",
		.version = model_text(entry, "version"),
		.before = model_text(entry, "before"),
		.by = model_text(entry, "by"),
		.time = json_object_get(entry, "time"),
	};

	table_add(table, &row);
}

/* The version that the newest entry of the log has left; NULL: none. */
static const char *last_logged(const json_t *log)
{
	size_t n = json_array_size(log);

	return n > 0 ? history_version_at(log, n - 1) : NULL;
}

/* The log, or, if no program has written one yet, the history. */
static void add_entries(struct table *table, const struct rollout *rollout)
{
	const json_t *log = json_is_array(rollout->log) ? rollout->log : rollout->history;
	const char *last = last_logged(log);

	for (size_t i = 0; i < json_array_size(log); i++)
		add_entry(table, rollout->label, json_array_get(log, i));
	/* What another program has written. */
	if (rollout->revision > 0 && (!last || strcmp(last, rollout->version) != 0)) {
		const struct entry_row row = { .label = rollout->label,
					       .what = "unknown",
					       .version = *rollout->version ? rollout->version :
									      "(invalid)",
					       .before = last };

		table_add(table, &row);
	}
}

static bool is_shown(const struct rollout *rollout, const char *label)
{
	return (!label || strcmp(rollout->label, label) == 0) &&
	       (rollout->revision > 0 || rollout->log || rollout->history);
}

/* What rollback would do for a label. The caller frees *RET_HISTORY, in which the name lies. */
static const char *get_target(const struct rollout *rollout, json_t **ret_history)
{
	*ret_history = rollout->revision > 0 ? history_known(rollout) : NULL;
	return *ret_history ? history_go_back(*ret_history, rollout) : NULL;
}

static bool print_text(const struct fleet *fleet, const char *label)
{
	struct table table;
	char text[256];

	table_begin(&table, columns);
	for (size_t i = 0; i < fleet->n_rollouts; i++)
		if (is_shown(&fleet->rollouts[i], label))
			add_entries(&table, &fleet->rollouts[i]);
	if (!table_end(&table, stdout))
		return false;
	for (size_t i = 0; i < fleet->n_rollouts; i++) {
		const struct rollout *rollout = &fleet->rollouts[i];
		json_t *history;
		const char *target = get_target(rollout, &history);

		printable(text, sizeof(text), rollout->label);
		if (is_shown(rollout, label) && rollout->revision > 0)
			printf("rollback of label %s: %s%s\n", text,
			       target ? target : "no version before it is known",
			       target && !fleet_has_version(fleet, target) ?
				       ", which etcd no longer has" :
				       "");
		json_decref(history);
	}
	return true;
}

static void print_objects(const struct fleet *fleet, const char *label)
{
	struct jsonout json = { .file = stdout };
	struct table table = { .columns = columns, .json = &json };

	jsonout_open(&json, NULL, '{');
	jsonout_open(&json, "history", '[');
	for (size_t i = 0; i < fleet->n_rollouts; i++)
		if (is_shown(&fleet->rollouts[i], label))
			add_entries(&table, &fleet->rollouts[i]);
	jsonout_close(&json, ']');
	jsonout_open(&json, "rollback", '[');
	for (size_t i = 0; i < fleet->n_rollouts; i++) {
		const struct rollout *rollout = &fleet->rollouts[i];
		json_t *history;
		const char *target = get_target(rollout, &history);

		if (is_shown(rollout, label) && rollout->revision > 0) {
			jsonout_open(&json, NULL, '{');
			jsonout_string(&json, "label", rollout->label);
			jsonout_string(&json, "version", target);
			jsonout_bool(&json, "is_in_etcd",
				     target && fleet_has_version(fleet, target));
			jsonout_close(&json, '}');
		}
		json_decref(history);
	}
	jsonout_close(&json, ']');
	jsonout_close(&json, '}');
	putchar('\n');
}

int action_history(struct fleetctl *ctl, char **arguments)
{
	const char *label = arguments[0] ?: ctl->label;
	int status = EXIT_FAILURE;
	struct fleet fleet;

	if (!fleetctl_read_fleet(ctl, &fleet))
		return EXIT_FAILURE;
	if (ctl->json) {
		print_objects(&fleet, label);
		status = EXIT_SUCCESS;
	} else if (print_text(&fleet, label)) {
		status = EXIT_SUCCESS;
	}
	fleet_done(&fleet);
	return status;
}
