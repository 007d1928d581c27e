/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "ctl/output.h"
#include "screen.h"
#include "table.h"

/* Lists of the fleet: a line, or a JSON object, for each host, listener, refusing rule, or version. */

typedef void adder(const struct view *view, const struct host *host, struct table *table,
		   json_t *list);

static bool wants(const struct view *view, const struct host *host,
		  const struct judgement *judgement)
{
	const char *label = view->ctl->label;

	if (!host_exists(host))
		return false;
	return !label || (judgement->rollout && strcmp(judgement->rollout->label, label) == 0);
}

static int64_t sum_of(const struct host *host)
{
	const json_t *refusals = host_array(host, "refusals");
	int64_t sum = 0;

	for (size_t i = 0; i < json_array_size(refusals); i++)
		sum += host_clamp(json_object_get(json_array_get(refusals, i), "rejected"));
	return sum;
}

static void add_host(const struct view *view, const struct host *host, struct table *table,
		     json_t *list)
{
	struct judgement judgement = host_judge(&view->fleet, host);
	const char *label = judgement.rollout ? judgement.rollout->label : NULL;
	const char *wanted = judgement.rollout ? judgement.rollout->version : NULL;
	char age[AGE_TEXT_MAX];

	if (list) {
		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:o, s:O?}", "host",
				  host->name, "state", verdict_names[judgement.verdict], "label",
				  label, "wanted", wanted, "version", judgement.in_force, "why",
				  judgement.why, "age_s",
				  judgement.age_s < 0 ? json_null() : json_integer(judgement.age_s),
				  "report", host->state));
		return;
	}
	table_add(table, "%s", host->name);
	table_add(table, "%s", label ?: "");
	table_add(table, "%s", verdict_names[judgement.verdict]);
	table_add(table, "%s", judgement.in_force ?: "");
	table_add(table, "%s", wanted ?: "");
	table_add(table, "%s", host_age(&judgement, age));
	table_add(table, "%lld", (long long)host_number(host, "daemon", "sessions"));
	table_add(table, "%lld", (long long)host_number(host, "daemon", "listeners"));
	table_add(table, "%lld", (long long)host_number(host, "daemon", "connections"));
	table_add(table, "%lld", (long long)sum_of(host));
	table_add(table, "%s", judgement.why ?: "");
}

/* Copies ENTRY, which a host has written, with the host's name. */
static void append_entry(json_t *list, const struct host *host, const json_t *entry)
{
	json_t *copy = json_is_object(entry) ? json_copy((json_t *)entry) : NULL;

	if (copy && json_object_set_new(copy, "host", json_string(host->name)) == 0)
		json_array_append(list, copy);
	json_decref(copy);
}

/* A member of ENTRY as text; empty: there is none. */
static const char *cell_of(const json_t *entry, const char *name)
{
	static char text[32];
	const json_t *value = json_object_get(entry, name);

	if (json_is_string(value))
		return json_string_value(value);
	*text = 0;
	if (json_is_integer(value))
		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
	return text;
}

static void add_entries(const struct host *host, const char *array, const char *const *names,
			struct table *table, json_t *list)
{
	const json_t *entries = host_array(host, array);

	for (size_t i = 0; i < json_array_size(entries); i++) {
		const json_t *entry = json_array_get(entries, i);

		if (list) {
			append_entry(list, host, entry);
			continue;
		}
		table_add(table, "%s", host->name);
		for (size_t j = 0; names[j]; j++)
			table_add(table, "%s", cell_of(entry, names[j]));
	}
}

static void add_listeners(const struct view *view, const struct host *host, struct table *table,
			  json_t *list)
{
	static const char *const names[] = { "user", "uid", "address", "port", NULL };

	(void)view;
	add_entries(host, "listeners", names, table, list);
}

static void add_refusals(const struct view *view, const struct host *host, struct table *table,
			 json_t *list)
{
	static const char *const names[] = { "rejected", "busy", "rule", NULL };

	(void)view;
	add_entries(host, "refusals", names, table, list);
}

static const struct list {
	const char *name;
	adder *add;
	const char *left_out; /* the host's number of what did not fit; NULL: everything does */
	const char *const *heads;
} lists[] = {
	{ "hosts", add_host, NULL,
	  (const char *const[]){ "HOST", "LABEL", "STATE", "VERSION", "WANTED", "-AGE", "-SESSIONS",
				 "-LISTENERS", "-CONNECTIONS", "-REJECTED", "WHY", NULL } },
	{ "listeners", add_listeners, "listeners_left_out",
	  (const char *const[]){ "HOST", "USER", "-UID", "ADDRESS", "-PORT", NULL } },
	{ "refusals", add_refusals, "refusals_left_out",
	  (const char *const[]){ "HOST", "-REJECTED", "-BUSY", "RULE", NULL } },
};

static int64_t add_all(const struct view *view, const struct list *what, struct table *table,
		       json_t *array)
{
	int64_t n_left_out = 0;

	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		const struct host *host = &view->fleet.hosts[i];
		struct judgement judgement = host_judge(&view->fleet, host);

		if (!wants(view, host, &judgement))
			continue;
		what->add(view, host, table, array);
		if (what->left_out)
			n_left_out += host_number(host, NULL, what->left_out);
	}
	return n_left_out;
}

static const struct list *find(const char *name)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strcmp(lists[i].name, name) == 0)
			return &lists[i];
	return NULL;
}

/* Versions are no hosts: which labels have each, and how many hosts */

static unsigned count_hosts(const struct view *view, const char *version)
{
	unsigned n = 0;

	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		struct judgement judgement = host_judge(&view->fleet, &view->fleet.hosts[i]);

		n += judgement.in_force && strcmp(judgement.in_force, version) == 0;
	}
	return n;
}

static json_t *new_labels(const struct view *view, const char *version)
{
	json_t *labels = json_array();

	for (size_t i = 0; i < view->fleet.n_rollouts; i++)
		if (view->fleet.rollouts[i].revision > 0 &&
		    strcmp(view->fleet.rollouts[i].version, version) == 0)
			json_array_append_new(labels, json_string(view->fleet.rollouts[i].label));
	return labels;
}

static void add_versions(const struct view *view, struct table *table, json_t *list)
{
	for (size_t i = 0; i < view->fleet.n_versions; i++) {
		const char *version = view->fleet.versions[i];
		json_t *labels = new_labels(view, version);
		char text[256] = "";
		size_t len = 0;

		if (list) {
			json_array_append_new(list,
					      json_pack("{s:s, s:o, s:I}", "version", version,
							"labels", labels, "hosts",
							(json_int_t)count_hosts(view, version)));
			continue;
		}
		for (size_t j = 0; j < json_array_size(labels) && len < sizeof(text) - 1; j++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
						j > 0 ? "," : "",
						json_string_value(json_array_get(labels, j)));
		json_decref(labels);
		table_add(table, "%s", version);
		table_add(table, "%u", count_hosts(view, version));
		table_add(table, "%s", text);
	}
}

static int print_text(const struct view *view, FILE *file)
{
	static const char *const heads[] = { "VERSION", "-HOSTS", "LABELS", NULL };
	const struct list *what = find(view->what);
	struct table table = { .heads = what ? what->heads : heads, .needs_heads = true };
	int64_t n_left_out = 0;
	char text[512], age[AGE_TEXT_MAX];

	if (*view->error) {
		printable(text, sizeof(text), view->error);
		age_text(age, (unsigned long)view->stale_s);
		fprintf(file, "what follows is %s old: %s\n", age, text);
	}
	if (what)
		n_left_out = add_all(view, what, &table, NULL);
	else
		add_versions(view, &table, NULL);
	if (!table_print(&table, file)) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	if (n_left_out > 0)
		fprintf(file, "(and %lld that did not fit into the states of their hosts)\n",
			(long long)n_left_out);
	return EXIT_SUCCESS;
}

static int print_json(const struct view *view, FILE *file)
{
	const struct list *what = find(view->what);
	json_t *list = json_array(), *object;
	int64_t n_left_out = 0;
	int r;

	if (what)
		n_left_out = add_all(view, what, NULL, list);
	else
		add_versions(view, NULL, list);
	object = json_pack("{s:o, s:I}", view->what, list, "left_out", (json_int_t)n_left_out);
	r = object ? json_dumpf(object, file, JSON_COMPACT | JSON_ENSURE_ASCII) : -1;
	json_decref(object);
	if (r < 0) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	fputc('\n', file);
	return EXIT_SUCCESS;
}

int action_list(struct fleetctl *ctl, char **arguments)
{
	static const struct printer printer = { print_text, print_json, .asks_members = false };
	const char *what = arguments[0] ?: "hosts";

	if (!find(what) && strcmp(what, "versions") != 0) {
		complain("unknown list \"%s\": it must be hosts, listeners, refusals or versions",
			 what);
		return EXIT_USAGE;
	}
	return screen_run(ctl, &printer, what);
}
