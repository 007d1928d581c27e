/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/output.h"
#include "screen.h"
#include "table.h"

#define PROBLEMS_MAX 20 /* lines */
#define RULES_MAX 5 /* lines */

/* Numbers of hosts: all, and those of each verdict. */
struct numbers {
	unsigned n, of[N_VERDICTS];
};

static void count(const struct view *view, const struct rollout *rollout, bool all,
		  struct numbers *ret)
{
	*ret = (struct numbers){};
	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		const struct host *host = &view->fleet.hosts[i];
		struct judgement judgement;

		/* What was forgotten while the fleet is watched. */
		if (!host_exists(host))
			continue;
		judgement = host_judge(&view->fleet, host);
		if (!all && judgement.rollout != rollout)
			continue;
		ret->n++;
		ret->of[judgement.verdict]++;
	}
}

/* etcd */

static unsigned count_members(const struct view *view, int64_t *ret_size)
{
	unsigned n = 0;

	*ret_size = 0;
	for (size_t i = 0; i < view->n_members; i++) {
		n += view->members[i].answers;
		if (view->members[i].answers && view->members[i].is.db_size > *ret_size)
			*ret_size = view->members[i].is.db_size;
	}
	return n;
}

static void print_members(const struct view *view, FILE *file)
{
	int64_t size;
	unsigned n = count_members(view, &size);
	char text[512], age[AGE_TEXT_MAX];

	fprintf(file, "etcd: %u of %zu endpoints answer; its database has %.1f MiB\n", n,
		view->n_members, (double)size / (1024 * 1024));
	for (size_t i = 0; i < view->n_members; i++) {
		const struct member *member = &view->members[i];
		const char *endpoint = view->ctl->settings.endpoints[i];

		printable(text, sizeof(text), member->answers ? member->is.alarms : member->error);
		if (!member->answers)
			/* The error begins with the endpoint. */
			fprintf(file, "  %s\n", text);
		else if (!member->is.has_leader)
			fprintf(file, "  %s: it has no leader, so most members are away from it\n",
				endpoint);
		if (member->answers && *text)
			fprintf(file, "  %s: %s\n", endpoint, text);
	}
	if (*view->error) {
		printable(text, sizeof(text), view->error);
		age_text(age, (unsigned long)view->stale_s);
		fprintf(file, "  what follows is %s old: %s\n", age, text);
	}
}

static json_t *new_members(const struct view *view)
{
	json_t *members = json_array();

	for (size_t i = 0; i < view->n_members; i++) {
		const struct member *member = &view->members[i];
		json_t *one = json_pack("{s:s, s:b}", "endpoint", view->ctl->settings.endpoints[i],
					"answers", member->answers);

		if (member->answers) {
			json_object_set_new(one, "version", json_string(member->is.version));
			json_object_set_new(one, "leader", json_boolean(member->is.has_leader));
			json_object_set_new(one, "database_bytes",
					    json_integer(member->is.db_size));
			json_object_set_new(one, "alarms", json_string(member->is.alarms));
		} else {
			json_object_set_new(one, "error", json_string(member->error));
		}
		json_array_append_new(members, one);
	}
	return members;
}

/* The hosts */

static void print_hosts(const struct view *view, FILE *file)
{
	int64_t listeners = 0, connections = 0;
	unsigned n_listening = 0;
	struct numbers numbers;
	const char *comma = "";

	count(view, NULL, /* all= */ true, &numbers);
	fprintf(file, "hosts: %u", numbers.n);
	for (size_t i = N_VERDICTS; i > 0; i--) {
		if (numbers.of[i - 1] == 0)
			continue;
		fprintf(file, "%s %u %s", *comma ? comma : ":", numbers.of[i - 1],
			verdict_names[i - 1]);
		comma = ",";
	}
	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		const struct host *host = &view->fleet.hosts[i];
		int64_t n = host_number(host, "daemon", "listeners");

		n_listening += n > 0;
		listeners += n;
		connections += host_number(host, "daemon", "connections");
	}
	fprintf(file, "\nlisteners: %lld on %u hosts; connections: %lld\n", (long long)listeners,
		n_listening, (long long)connections);
	fprintf(file, "versions in etcd: %zu\n", view->fleet.n_versions);
}

/* The last entry, if it is the version that is rolled out. */
static const json_t *last_of(const struct rollout *rollout)
{
	size_t n = json_array_size(rollout->history);
	const json_t *last = n > 0 ? json_array_get(rollout->history, n - 1) : NULL;
	const char *version = json_string_value(json_object_get(last, "version"));

	return version && strcmp(version, rollout->version) == 0 ? last : NULL;
}

static const char *since_text(const json_t *last)
{
	static char text[32];
	time_t since = (time_t)json_integer_value(json_object_get(last, "time"));
	struct tm tm;

	*text = 0;
	if (since > 0 && localtime_r(&since, &tm))
		strftime(text, sizeof(text), "%F %R", &tm);
	return text;
}

static void add_rollout(const struct view *view, struct table *table, const struct rollout *rollout)
{
	const json_t *last = rollout ? last_of(rollout) : NULL;
	struct numbers numbers;
	unsigned n_bad;

	count(view, rollout, /* all= */ false, &numbers);
	if (!rollout && numbers.n == 0)
		return;
	n_bad = numbers.n - numbers.of[HOST_OK] - numbers.of[HOST_WAITING] - numbers.of[HOST_AWAY];
	table_add(table, "%s", rollout ? rollout->label : "(none)");
	table_add(table, "%s", rollout ? rollout->version : "");
	table_add(table, "%u", numbers.n);
	table_add(table, "%u", numbers.of[HOST_OK]);
	table_add(table, "%u", numbers.of[HOST_WAITING]);
	table_add(table, "%u", n_bad);
	table_add(table, "%u", numbers.of[HOST_AWAY]);
	table_add(table, "%s", since_text(last));
	table_add(table, "%s", json_string_value(json_object_get(last, "by")) ?: "");
}

static bool print_rollouts(const struct view *view, FILE *file)
{
	static const char *const heads[] = { "LABEL",    "VERSION", "-HOSTS", "-OK", "-WAITING",
					     "-PROBLEM", "-AWAY",   "SINCE",  "BY",  NULL };
	struct table table = { .heads = heads };

	for (size_t i = 0; i < view->fleet.n_rollouts; i++)
		if (view->fleet.rollouts[i].revision > 0)
			add_rollout(view, &table, &view->fleet.rollouts[i]);
	add_rollout(view, &table, NULL);
	if (table.n_cells > 0)
		fputc('\n', file);
	return table_print(&table, file);
}

static bool print_problems(const struct view *view, FILE *file)
{
	static const char *const heads[] = { "HOST", "STATE", "VERSION", "-AGE", "WHY", NULL };
	struct table table = { .heads = heads };
	char age[AGE_TEXT_MAX];
	unsigned n = 0;
	bool good;

	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		const struct host *host = &view->fleet.hosts[i];
		struct judgement judgement = host_judge(&view->fleet, host);

		if (judgement.verdict == HOST_OK || judgement.verdict == HOST_WAITING ||
		    !host_exists(host) || n++ >= PROBLEMS_MAX)
			continue;
		table_add(&table, "%s", host->name);
		table_add(&table, "%s", verdict_names[judgement.verdict]);
		table_add(&table, "%s", judgement.in_force ?: "");
		table_add(&table, "%s", host_age(&judgement, age));
		table_add(&table, "%s", judgement.why ?: "");
	}
	if (n > 0)
		fputc('\n', file);
	good = table_print(&table, file);
	if (n > PROBLEMS_MAX)
		fprintf(file, "(and %u more, see \"rdmabrokerctl fleet list\")\n",
			n - PROBLEMS_MAX);
	return good;
}

/* The rules that refuse most */

static int64_t number(const json_t *object, const char *name)
{
	return host_clamp(json_object_get(object, name));
}

/* {"rejected", "busy", "hosts"} of each rule. */
static json_t *new_rules(const struct view *view)
{
	json_t *rules = json_object();

	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		const json_t *refusals = host_array(&view->fleet.hosts[i], "refusals");

		for (size_t j = 0; j < json_array_size(refusals); j++) {
			const json_t *refusal = json_array_get(refusals, j);
			const char *name = json_string_value(json_object_get(refusal, "rule")) ?:
						   "(no rule)";
			const json_t *sum = json_object_get(rules, name);

			json_object_set_new(rules, name,
					    json_pack("{s:I, s:I, s:I}", "rejected",
						      (json_int_t)(number(sum, "rejected") +
								   number(refusal, "rejected")),
						      "busy",
						      (json_int_t)(number(sum, "busy") +
								   number(refusal, "busy")),
						      "hosts",
						      (json_int_t)(number(sum, "hosts") + 1)));
		}
	}
	return rules;
}

/* The name of the rule with the most refusals, but fewer than BELOW. */
static const char *find_most(json_t *rules)
{
	const char *name, *most = NULL;
	int64_t best = -1;
	json_t *sum;

	json_object_foreach(rules, name, sum)
	{
		int64_t n = number(sum, "rejected") + number(sum, "busy");

		if (n > best) {
			best = n;
			most = name;
		}
	}
	return most;
}

static bool print_rules(const struct view *view, FILE *file)
{
	static const char *const heads[] = { "-REJECTED", "-BUSY", "-HOSTS", "RULE", NULL };
	struct table table = { .heads = heads };
	json_t *rules = new_rules(view);
	const char *name;

	for (size_t i = 0; i < RULES_MAX && (name = find_most(rules)); i++) {
		const json_t *sum = json_object_get(rules, name);

		table_add(&table, "%lld", (long long)number(sum, "rejected"));
		table_add(&table, "%lld", (long long)number(sum, "busy"));
		table_add(&table, "%lld", (long long)number(sum, "hosts"));
		table_add(&table, "%s", name);
		json_object_del(rules, name);
	}
	json_decref(rules);
	if (table.n_cells > 0)
		fputc('\n', file);
	return table_print(&table, file);
}

static int print_text(const struct view *view, FILE *file)
{
	print_members(view, file);
	print_hosts(view, file);
	if (print_rollouts(view, file) && print_problems(view, file) && print_rules(view, file))
		return EXIT_SUCCESS;
	complain("out of memory");
	return EXIT_FAILURE;
}

/* JSON */

static json_t *new_numbers(const struct numbers *numbers)
{
	json_t *object = json_object();

	for (size_t i = 0; i < N_VERDICTS; i++)
		json_object_set_new(object, verdict_names[i], json_integer(numbers->of[i]));
	return object;
}

static json_t *new_rollouts(const struct view *view)
{
	json_t *rollouts = json_array();

	for (size_t i = 0; i < view->fleet.n_rollouts; i++) {
		const struct rollout *rollout = &view->fleet.rollouts[i];
		const json_t *last = last_of(rollout);
		struct numbers numbers;

		if (rollout->revision == 0)
			continue;
		count(view, rollout, /* all= */ false, &numbers);
		json_array_append_new(
			rollouts,
			json_pack("{s:s, s:s, s:O?, s:O?, s:I, s:o}", "label", rollout->label,
				  "version", rollout->version, "time",
				  json_object_get(last, "time"), "by", json_object_get(last, "by"),
				  "hosts", (json_int_t)numbers.n, "states", new_numbers(&numbers)));
	}
	return rollouts;
}

static json_t *new_problems(const struct view *view)
{
	json_t *problems = json_array();

	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		const struct host *host = &view->fleet.hosts[i];
		struct judgement judgement = host_judge(&view->fleet, host);

		if (judgement.verdict == HOST_OK || judgement.verdict == HOST_WAITING)
			continue;
		json_array_append_new(
			problems, json_pack("{s:s, s:s, s:s?, s:s?}", "host", host->name, "state",
					    verdict_names[judgement.verdict], "version",
					    judgement.in_force, "why", judgement.why));
	}
	return problems;
}

static int print_json(const struct view *view, FILE *file)
{
	struct numbers numbers;
	json_t *object;
	int r;

	count(view, NULL, /* all= */ true, &numbers);
	object = json_pack("{s:o, s:I, s:o, s:o, s:o, s:o}", "etcd", new_members(view), "hosts",
			   (json_int_t)numbers.n, "states", new_numbers(&numbers), "rollout",
			   new_rollouts(view), "problems", new_problems(view), "refusals",
			   new_rules(view));
	r = object ? json_dumpf(object, file, JSON_COMPACT | JSON_ENSURE_ASCII) : -1;
	json_decref(object);
	if (r < 0) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	fputc('\n', file);
	return EXIT_SUCCESS;
}

int action_status(struct fleetctl *ctl, char **arguments)
{
	static const struct printer printer = { print_text, print_json, .asks_members = true };

	(void)arguments;
	return screen_run(ctl, &printer, NULL);
}
