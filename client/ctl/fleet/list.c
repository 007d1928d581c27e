/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "ctl/table.h"
#include "screen.h"

/* Lists of the fleet: a line, or a JSON object, for each host, listener, refusing rule, or version. */

static bool wants(const struct view *view, const struct host *host)
{
	const char *label = view->ctl->label;
	struct judgement judgement = host_judge(&view->fleet, host);

	if (!host_exists(host))
		return false;
	return !label || (judgement.rollout && strcmp(judgement.rollout->label, label) == 0);
}

static const struct column host_columns[] = {
	{ "HOST", "host", COLUMN_OF(struct host_row, host) },
	{ "LABEL", "label", COLUMN_OF(struct host_row, label) },
	{ "STATE", "state", COLUMN_OF(struct host_row, state) },
	{ "VERSION", "version", COLUMN_OF(struct host_row, version) },
	{ "WANTED", "wanted", COLUMN_OF(struct host_row, wanted) },
	{ "LABELS", "labels", .type = COLUMN_TEXT, .offset = offsetof(struct host_row, labels),
	  .text = screen_print_list, .json = screen_json },
	{ "AGE", "age_s", COLUMN_OF(struct host_row, age_s), COLUMN_NO_NEGATIVE | COLUMN_IF_ROOM,
	  .text = screen_print_age },
	{ "SESSIONS", NULL, COLUMN_OF(struct host_row, sessions), COLUMN_IF_ROOM },
	{ "LISTENERS", NULL, COLUMN_OF(struct host_row, listeners), COLUMN_IF_ROOM },
	{ "CONNECTIONS", NULL, COLUMN_OF(struct host_row, connections), COLUMN_IF_ROOM },
	{ "REJECTED", NULL, COLUMN_OF(struct host_row, rejected), COLUMN_IF_ROOM },
	{ "WHY", "why", COLUMN_OF(struct host_row, why) },
	{ NULL, "report", COLUMN_OF(struct host_row, report), .json = screen_json },
	{ NULL },
};

/* These return how many did not fit into the states of the hosts. */
static int64_t add_hosts(const struct view *view, struct table *table)
{
	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		struct host_row row = host_row(view, &view->fleet.hosts[i]);

		if (wants(view, &view->fleet.hosts[i]))
			table_add(table, &row);
	}
	return 0;
}

/* What hosts have written about a listener, or about a rule that has refused something. */
struct entry_row {
	const char *host, *user, *address, *rule;
	int64_t uid, port, rejected, busy, warned;
};

#define ENTRY(member) COLUMN_OF(struct entry_row, member)

static const struct column listener_columns[] = {
	{ "HOST", "host", ENTRY(host) },
	{ "USER", "user", ENTRY(user) },
	{ "UID", "uid", ENTRY(uid), COLUMN_NO_NEGATIVE },
	{ "ADDRESS", "address", ENTRY(address) },
	{ "PORT", "port", ENTRY(port), COLUMN_NO_NEGATIVE },
	{ NULL },
};

static const struct column refusal_columns[] = {
	{ "HOST", "host", ENTRY(host) },
	{ "REJECTED", "rejected", ENTRY(rejected), COLUMN_NO_NEGATIVE },
	{ "BUSY", "busy", ENTRY(busy), COLUMN_NO_NEGATIVE },
	{ "WARNED", "warned", ENTRY(warned), COLUMN_NO_NEGATIVE },
	{ "RULE", "rule", ENTRY(rule) },
	{ NULL },
};

static int64_t number_of(const json_t *entry, const char *name)
{
	const json_t *number = json_object_get(entry, name);

	return json_is_integer(number) ? host_clamp(number) : -1;
}

static int64_t add_entries(const struct view *view, struct table *table)
{
	int64_t n_left_out = 0;
	char left_out[64];

	snprintf(left_out, sizeof(left_out), "%s_left_out", view->what);
	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		const struct host *host = &view->fleet.hosts[i];
		const json_t *entries = host_array(host, view->what);

		if (!wants(view, host))
			continue;
		for (size_t j = 0; j < json_array_size(entries); j++) {
			const json_t *entry = json_array_get(entries, j);
			const struct entry_row row = {
				.host = host->name,
				.user = model_text(entry, "user"),
				.address = model_text(entry, "address"),
				.rule = model_text(entry, "rule"),
				.uid = number_of(entry, "uid"),
				.port = number_of(entry, "port"),
				.rejected = number_of(entry, "rejected"),
				.busy = number_of(entry, "busy"),
				.warned = number_of(entry, "warned"),
			};

			if (json_is_object(entry))
				table_add(table, &row);
		}
		n_left_out += host_number(host, NULL, left_out);
	}
	return n_left_out;
}

/* Versions are no hosts: which labels have each, and how many hosts */

struct version_row {
	const struct view *view;
	const char *version, *by;
	const json_t *time;
	int64_t bytes; /* of its files; negative: not known */
	unsigned n_hosts;
};

/* The next label that has the version; NULL: there is none. */
static const char *next_label(const struct version_row *row, size_t *at)
{
	const struct fleet *fleet = &row->view->fleet;

	while (*at < fleet->n_rollouts) {
		const struct rollout *rollout = &fleet->rollouts[(*at)++];

		if (rollout->revision > 0 && strcmp(rollout->version, row->version) == 0)
			return rollout->label;
	}
	return NULL;
}

static void print_labels(const void *at, FILE *file)
{
	const char *label, *comma = "";

	for (size_t i = 0; (label = next_label(at, &i)); comma = ",")
		fprintf(file, "%s%s", comma, label);
}

static void json_labels(const void *at, struct jsonout *json, const char *key)
{
	const char *label;

	jsonout_open(json, key, '[');
	for (size_t i = 0; (label = next_label(at, &i));)
		jsonout_string(json, NULL, label);
	jsonout_close(json, ']');
}

static const struct column version_columns[] = {
	{ "VERSION", "version", COLUMN_OF(struct version_row, version) },
	{ "HOSTS", "hosts", COLUMN_OF(struct version_row, n_hosts) },
	{ "LABELS", "labels", .type = COLUMN_TEXT, .text = print_labels, .json = json_labels },
	{ "PUSHED", "time", .type = COLUMN_TEXT, .offset = offsetof(struct version_row, time),
	  .text = screen_print_time, .json = screen_json },
	{ "BYTES", "bytes", COLUMN_OF(struct version_row, bytes), COLUMN_NO_NEGATIVE },
	{ "BY", "by", COLUMN_OF(struct version_row, by) },
	{ NULL },
};

/* The manifest of the version; NULL: it cannot be read. */
static const json_t *get_manifest(const struct view *view, const char *version)
{
	const json_t *known = json_object_get(view->manifests, version);
	char key[FLEETCTL_KEY_MAX];
	struct etcd_range *range;
	json_error_t error;

	if (known)
		return known;
	fleetctl_key(view->ctl, key, "versions", version);
	if (etcd_range(view->ctl->etcd, key, /* is_prefix= */ false, 1, &range) != 0)
		return NULL;
	if (range->n == 1)
		json_object_set_new(
			view->manifests, version,
			json_loadb(range->entries[0].value, range->entries[0].len, 0, &error) ?:
				json_null());
	etcd_range_free(range);
	return json_object_get(view->manifests, version);
}

static int64_t sum_bytes(const json_t *manifest)
{
	const json_t *files = json_object_get(manifest, "files");
	int64_t sum = 0;

	for (size_t i = 0; i < json_array_size(files); i++)
		sum += host_clamp(json_object_get(json_array_get(files, i), "size"));
	return json_is_array(files) ? sum : -1;
}

static int64_t add_versions(const struct view *view, struct table *table)
{
	for (size_t i = 0; i < view->fleet.n_versions; i++) {
		const json_t *manifest = get_manifest(view, view->fleet.versions[i]);
		struct version_row row = { .view = view,
					   .version = view->fleet.versions[i],
					   .by = model_text(manifest, "by"),
					   .time = json_object_get(manifest, "time"),
					   .bytes = sum_bytes(manifest) };

		for (size_t j = 0; j < view->fleet.n_hosts; j++) {
			struct judgement judgement =
				host_judge(&view->fleet, &view->fleet.hosts[j]);

			row.n_hosts += judgement.in_force &&
				       strcmp(judgement.in_force, row.version) == 0;
		}
		table_add(table, &row);
	}
	return 0;
}

static const struct list {
	const char *name;
	int64_t (*add)(const struct view *view, struct table *table);
	const struct column *columns;
} lists[] = {
	{ "hosts", add_hosts, host_columns },
	{ "listeners", add_entries, listener_columns },
	{ "refusals", add_entries, refusal_columns },
	{ "versions", add_versions, version_columns },
};

static const struct list *find(const char *name)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strcmp(lists[i].name, name) == 0)
			return &lists[i];
	return NULL;
}

static int print_text(const struct view *view, FILE *file)
{
	const struct list *what = find(view->what);
	int64_t n_left_out;
	struct table table;

	screen_print_error(view, "", file);
	table_begin(&table, what->columns);
	table.fit = terminal_width();
	n_left_out = what->add(view, &table);
	if (!table_end(&table, file))
		return EXIT_FAILURE;
	if (n_left_out > 0)
		fprintf(file, "(and %lld that did not fit into the states of their hosts)\n",
			(long long)n_left_out);
	return EXIT_SUCCESS;
}

static int print_objects(const struct view *view, FILE *file)
{
	const struct list *what = find(view->what);
	struct jsonout json = { .file = file };
	struct table table = { .columns = what->columns, .json = &json };
	int64_t n_left_out;

	jsonout_open(&json, NULL, '{');
	jsonout_open(&json, what->name, '[');
	n_left_out = what->add(view, &table);
	jsonout_close(&json, ']');
	jsonout_signed(&json, "left_out", n_left_out);
	jsonout_close(&json, '}');
	fputc('\n', file);
	return EXIT_SUCCESS;
}

int action_list(struct fleetctl *ctl, char **arguments)
{
	static const struct printer printer = { print_text, print_objects, .asks_members = false };
	const char *what = arguments[0] ?: "hosts";

	if (!find(what)) {
		complain("unknown list \"%s\": it must be hosts, listeners, refusals or versions",
			 what);
		return EXIT_USAGE;
	}
	return screen_run(ctl, &printer, what);
}
