/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/table.h"
#include "screen.h"

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
	char text[512];

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
	screen_print_error(view, "  ", file);
}

static void json_etcd(const struct view *view, struct jsonout *json)
{
	jsonout_open(json, "etcd", '[');
	for (size_t i = 0; i < view->n_members; i++) {
		const struct member *member = &view->members[i];

		jsonout_open(json, NULL, '{');
		jsonout_string(json, "endpoint", view->ctl->settings.endpoints[i]);
		jsonout_bool(json, "answers", member->answers);
		if (member->answers) {
			jsonout_string(json, "version", member->is.version);
			jsonout_bool(json, "leader", member->is.has_leader);
			jsonout_signed(json, "database_bytes", member->is.db_size);
			jsonout_string(json, "alarms", member->is.alarms);
		} else {
			jsonout_string(json, "error", member->error);
		}
		jsonout_close(json, '}');
	}
	jsonout_close(json, ']');
}

/* The hosts */

struct warnings {
	unsigned n_hosts; /* that have warn rules */
	int64_t n; /* what warn rules have admitted, in the last reports */
};

static struct warnings count_warnings(const struct view *view)
{
	struct warnings ret = { 0 };

	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		const struct host *host = &view->fleet.hosts[i];

		ret.n_hosts += host_number(host, "daemon", "warn_rules") > 0;
		ret.n += screen_sum_refusals(host, "warned");
	}
	return ret;
}

static void print_hosts(const struct view *view, FILE *file)
{
	int64_t listeners = 0, connections = 0;
	unsigned n_listening = 0;
	struct warnings warnings = count_warnings(view);
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
	if (warnings.n_hosts > 0)
		fprintf(file, "warn rules: on %u hosts; admitted with a warning: %lld\n",
			warnings.n_hosts, (long long)warnings.n);
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

struct rollout_row {
	const char *label, *version, *by;
	const json_t *time;
	unsigned n_bad;
	struct numbers numbers;
};

static void print_since(const void *at, FILE *file)
{
	time_t since = (time_t)json_integer_value(*(const json_t *const *)at);
	char text[32];
	struct tm tm;

	if (since > 0 && localtime_r(&since, &tm) && strftime(text, sizeof(text), "%F %R", &tm))
		fputs(text, file);
}

static void json_numbers(const void *at, struct jsonout *json, const char *key)
{
	const struct numbers *numbers = at;

	jsonout_open(json, key, '{');
	for (size_t i = 0; i < N_VERDICTS; i++)
		jsonout_number(json, verdict_names[i], numbers->of[i]);
	jsonout_close(json, '}');
}

#define ROLLOUT(member) COLUMN_OF(struct rollout_row, member)

static const struct column rollout_columns[] = {
	{ "LABEL", "label", ROLLOUT(label) },
	{ "VERSION", "version", ROLLOUT(version) },
	{ "HOSTS", "hosts", ROLLOUT(numbers.n) },
	{ "OK", NULL, ROLLOUT(numbers.of[HOST_OK]) },
	{ "WAITING", NULL, ROLLOUT(numbers.of[HOST_WAITING]) },
	{ "PROBLEM", NULL, ROLLOUT(n_bad) },
	{ "AWAY", NULL, ROLLOUT(numbers.of[HOST_AWAY]) },
	{ "SINCE", "time", .type = COLUMN_TEXT, .offset = offsetof(struct rollout_row, time),
	  .text = print_since, .json = screen_json },
	{ "BY", "by", ROLLOUT(by) },
	{ NULL, "states", .offset = offsetof(struct rollout_row, numbers), .json = json_numbers },
	{ NULL },
};

/* ROLLOUT NULL: the hosts that follow none. */
static struct rollout_row rollout_row(const struct view *view, const struct rollout *rollout)
{
	const json_t *last = rollout ? last_of(rollout) : NULL;
	struct rollout_row row = { .label = rollout ? rollout->label : "(none)",
				   .version = rollout ? rollout->version : NULL,
				   .time = json_object_get(last, "time"),
				   .by = json_string_value(json_object_get(last, "by")) };
	const unsigned *of = row.numbers.of;

	count(view, rollout, /* all= */ false, &row.numbers);
	row.n_bad = row.numbers.n - of[HOST_OK] - of[HOST_WAITING] - of[HOST_AWAY];
	return row;
}

static const struct column problem_columns[] = {
	{ "HOST", "host", COLUMN_OF(struct host_row, host) },
	{ "STATE", "state", COLUMN_OF(struct host_row, state) },
	{ "VERSION", "version", COLUMN_OF(struct host_row, version) },
	{ "AGE", NULL, COLUMN_OF(struct host_row, age_s), .text = screen_print_age },
	{ "WHY", "why", COLUMN_OF(struct host_row, why) },
	{ NULL },
};

static bool has_problem(const struct view *view, const struct host *host)
{
	struct judgement judgement = host_judge(&view->fleet, host);

	return judgement.verdict != HOST_OK && judgement.verdict != HOST_WAITING &&
	       host_exists(host);
}

/* The rules that refuse most */

struct rule_row {
	const char *rule;
	int64_t rejected, busy, warned, hosts;
};

static const struct column rule_columns[] = {
	{ "REJECTED", NULL, COLUMN_OF(struct rule_row, rejected) },
	{ "BUSY", NULL, COLUMN_OF(struct rule_row, busy) },
	{ "WARNED", NULL, COLUMN_OF(struct rule_row, warned) },
	{ "HOSTS", NULL, COLUMN_OF(struct rule_row, hosts) },
	{ "RULE", NULL, COLUMN_OF(struct rule_row, rule) },
	{ NULL },
};

static struct rule_row rule_row(const char *name, const json_t *sum)
{
	return (struct rule_row){ name, host_clamp(json_object_get(sum, "rejected")),
				  host_clamp(json_object_get(sum, "busy")),
				  host_clamp(json_object_get(sum, "warned")),
				  host_clamp(json_object_get(sum, "hosts")) };
}

/* {"rejected", "busy", "warned", "hosts"} of each rule. */
static json_t *new_rules(const struct view *view)
{
	json_t *rules = json_object();

	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		const json_t *refusals = host_array(&view->fleet.hosts[i], "refusals");

		for (size_t j = 0; j < json_array_size(refusals); j++) {
			const json_t *refusal = json_array_get(refusals, j);
			const char *name = json_string_value(json_object_get(refusal, "rule")) ?:
						   "(no rule)";
			struct rule_row sum = rule_row(name, json_object_get(rules, name)),
					one = rule_row(name, refusal);

			json_object_set_new(rules, name,
					    json_pack("{s:I, s:I, s:I, s:I}", "rejected",
						      (json_int_t)(sum.rejected + one.rejected),
						      "busy", (json_int_t)(sum.busy + one.busy),
						      "warned",
						      (json_int_t)(sum.warned + one.warned),
						      "hosts", (json_int_t)(sum.hosts + 1)));
		}
	}
	return rules;
}

static int64_t told_by(const struct rule_row *row)
{
	return row->rejected + row->busy + row->warned;
}

/* The rule with the most refusals and warnings. False: there is none. */
static bool find_most(json_t *rules, struct rule_row *ret)
{
	const char *name;
	json_t *sum;

	*ret = (struct rule_row){ .rejected = -1 };
	json_object_foreach(rules, name, sum)
	{
		struct rule_row row = rule_row(name, sum);

		if (told_by(&row) > told_by(ret))
			*ret = row;
	}
	return ret->rule;
}

/* A table, after an empty line, or nothing if it has no rows. */
static bool print_table(struct table *table, FILE *file)
{
	if (table->n_rows > 0) {
		fputc('\n', file);
		return table_end(table, file);
	}
	table_done(table);
	return true;
}

static void add_rollouts(const struct view *view, struct table *table)
{
	for (size_t i = 0; i < view->fleet.n_rollouts; i++) {
		struct rollout_row row = rollout_row(view, &view->fleet.rollouts[i]);

		if (view->fleet.rollouts[i].revision > 0)
			table_add(table, &row);
	}
}

/* Adds at most MAX. Returns how many there are. */
static unsigned add_problems(const struct view *view, struct table *table, unsigned max)
{
	unsigned n = 0;

	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		struct host_row row = host_row(view, &view->fleet.hosts[i]);

		if (has_problem(view, &view->fleet.hosts[i]) && n++ < max)
			table_add(table, &row);
	}
	return n;
}

static bool print_rollouts(const struct view *view, FILE *file)
{
	struct rollout_row none = rollout_row(view, NULL);
	struct table table;

	table_begin(&table, rollout_columns);
	add_rollouts(view, &table);
	if (none.numbers.n > 0)
		table_add(&table, &none);
	return print_table(&table, file);
}

static bool print_problems(const struct view *view, FILE *file)
{
	struct table table;
	unsigned n;
	bool good;

	table_begin(&table, problem_columns);
	n = add_problems(view, &table, PROBLEMS_MAX);
	good = print_table(&table, file);
	if (n > PROBLEMS_MAX)
		fprintf(file, "(and %u more, see \"rdmabrokerctl fleet list\")\n",
			n - PROBLEMS_MAX);
	return good;
}

static bool print_rules(const struct view *view, FILE *file)
{
	json_t *rules = new_rules(view);
	struct rule_row row;
	struct table table;

	table_begin(&table, rule_columns);
	for (size_t i = 0; i < RULES_MAX && find_most(rules, &row); i++) {
		table_add(&table, &row);
		json_object_del(rules, row.rule);
	}
	json_decref(rules);
	return print_table(&table, file);
}

static int print_text(const struct view *view, FILE *file)
{
	print_members(view, file);
	print_hosts(view, file);
	return print_rollouts(view, file) && print_problems(view, file) && print_rules(view, file) ?
		       EXIT_SUCCESS :
		       EXIT_FAILURE;
}

static int print_objects(const struct view *view, FILE *file)
{
	struct warnings warnings = count_warnings(view);
	struct jsonout json = { .file = file };
	json_t *rules = new_rules(view);
	struct numbers numbers;

	count(view, NULL, /* all= */ true, &numbers);
	jsonout_open(&json, NULL, '{');
	json_etcd(view, &json);
	jsonout_number(&json, "hosts", numbers.n);
	json_numbers(&numbers, &json, "states");
	jsonout_open(&json, "rollout", '[');
	add_rollouts(view, &(struct table){ .columns = rollout_columns, .json = &json });
	jsonout_close(&json, ']');
	jsonout_open(&json, "problems", '[');
	add_problems(view, &(struct table){ .columns = problem_columns, .json = &json }, UINT_MAX);
	jsonout_close(&json, ']');
	screen_json(&rules, &json, "refusals");
	jsonout_open(&json, "warnings", '{');
	jsonout_number(&json, "hosts", warnings.n_hosts);
	jsonout_signed(&json, "warned", warnings.n);
	jsonout_close(&json, '}');
	jsonout_close(&json, '}');
	fputc('\n', file);
	json_decref(rules);
	return EXIT_SUCCESS;
}

int action_status(struct fleetctl *ctl, char **arguments)
{
	static const struct printer printer = { print_text, print_objects, .asks_members = true };

	return screen_run(ctl, &printer, NULL);
}
