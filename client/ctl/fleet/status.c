/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/table.h"
#include "proto/text.h"
#include "screen.h"

#define PROBLEMS_MAX 20 /* lines */
#define PROBLEMS_MIN 5 /* lines for which others give way on a screen */
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

/* What a member complains about, but not that etcd is full, which is said once. */
static void print_alarms(const char *endpoint, const struct etcd_member *member, FILE *file)
{
	char alarms[sizeof(member->alarms)], text[sizeof(member->alarms)];
	bool said = false;

	text_copy(alarms, sizeof(alarms), member->alarms);
	for (char *save, *one = strtok_r(alarms, ",", &save); one;
	     one = strtok_r(NULL, ",", &save)) {
		one += strspn(one, " ");
		if (!*one || strstr(one, "NOSPACE"))
			continue;
		printable(text, sizeof(text), one);
		fprintf(file, "  %s: %s%s\n", endpoint, text,
			member->has_leader ? "" : "; most members are away from it");
		said = true;
	}
	if (!member->has_leader && !said)
		fprintf(file, "  %s: no leader; most members are away from it\n", endpoint);
}

static void print_members(const struct view *view, FILE *file)
{
	int64_t size;
	unsigned n = count_members(view, &size);
	char text[512];

	fprintf(file, "etcd: %u of %zu endpoints answer", n, view->n_members);
	if (n > 0)
		fprintf(file, "; its database has %.1f MiB", (double)size / (1024 * 1024));
	fputc('\n', file);
	for (size_t i = 0; i < view->n_members; i++) {
		const struct member *member = &view->members[i];

		if (member->answers) {
			print_alarms(view->ctl->settings.endpoints[i], &member->is, file);
			continue;
		}
		/* The error begins with the endpoint. */
		printable(text, sizeof(text), member->error);
		fprintf(file, "  %s\n", text);
	}
	if (screen_is_full(view))
		fputs("  etcd is full (NOSPACE), so nothing can be written: no roll-out, and no state "
		      "of a host.\n  " FLEETCTL_CURE "\n",
		      file);
	if (view->has_fleet)
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
	const char *shown; /* of the version */
	const char *value; /* of the key, if it is no name of a version; NULL: it is */
	const json_t *time;
	unsigned n_bad;
	struct numbers numbers;
};

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
	{ "VERSION", NULL, ROLLOUT(shown) },
	{ NULL, "version", ROLLOUT(version) },
	{ NULL, "invalid", ROLLOUT(value) },
	{ "HOSTS", "hosts", ROLLOUT(numbers.n) },
	{ "OK", NULL, ROLLOUT(numbers.of[HOST_OK]) },
	{ "WAITING", NULL, ROLLOUT(numbers.of[HOST_WAITING]) },
	{ "PROBLEM", NULL, ROLLOUT(n_bad) },
	{ "AWAY", NULL, ROLLOUT(numbers.of[HOST_AWAY]) },
	{ "SINCE", "time", .type = COLUMN_TEXT, .offset = offsetof(struct rollout_row, time),
	  .text = screen_print_time, .json = screen_json },
	{ "BY", "by", ROLLOUT(by) },
	{ NULL, "states", .offset = offsetof(struct rollout_row, numbers), .json = json_numbers },
	{ NULL },
};

/* ROLLOUT NULL: the hosts that follow none. */
static struct rollout_row rollout_row(const struct view *view, const struct rollout *rollout)
{
	const json_t *last = rollout ? last_of(rollout) : NULL;
	bool is_invalid = rollout && !*rollout->version;
	struct rollout_row row = { .label = rollout ? rollout->label : "(none)",
				   .version = rollout && !is_invalid ? rollout->version : NULL,
				   .shown = is_invalid ? "(invalid)" :
					    rollout    ? rollout->version :
							 NULL,
				   .value = is_invalid ? rollout->value : NULL,
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
	{ "AGE", NULL, COLUMN_OF(struct host_row, age_s), COLUMN_IF_ROOM,
	  .text = screen_print_age },
	{ "WHY", "why", COLUMN_OF(struct host_row, why) },
	{ NULL },
};

static bool is_waiting(const struct view *view, const struct host *host)
{
	return host_judge(&view->fleet, host).verdict == HOST_WAITING && host_exists(host);
}

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

/* Adds the hosts that IS_ONE accepts, at most MAX. Returns how many there are. */
static unsigned add_hosts(const struct view *view, struct table *table, unsigned max,
			  bool (*is_one)(const struct view *view, const struct host *host))
{
	unsigned n = 0;

	for (size_t i = 0; i < view->fleet.n_hosts; i++) {
		struct host_row row = host_row(view, &view->fleet.hosts[i]);

		if (is_one(view, &view->fleet.hosts[i]) && n++ < max)
			table_add(table, &row);
	}
	return n;
}

/* What is wrong with a key that another program has written. */
static void print_mistakes(const struct view *view, FILE *file)
{
	for (size_t i = 0; i < view->fleet.n_rollouts; i++) {
		const struct rollout *rollout = &view->fleet.rollouts[i];
		char label[128];

		if (rollout->revision == 0)
			continue;
		printable(label, sizeof(label), rollout->label);
		if (!*rollout->version)
			fprintf(file,
				"label %s has \"%s\", which is no name of a version, so its hosts keep "
				"what they have\n",
				label, rollout->value);
		else if (!fleet_has_version(&view->fleet, rollout->version))
			fprintf(file, "etcd has no version %s, which is rolled out to label %s\n",
				rollout->version, label);
	}
}

static bool print_rollouts(const struct view *view, FILE *file)
{
	struct rollout_row none = rollout_row(view, NULL);
	struct table table;
	bool good;

	table_begin(&table, rollout_columns);
	add_rollouts(view, &table);
	if (none.numbers.n > 0)
		table_add(&table, &none);
	good = print_table(&table, file);
	print_mistakes(view, file);
	return good;
}

/* MAX: of the hosts. The last line counts those that are not shown. */
static bool print_problems(const struct view *view, unsigned max, FILE *file)
{
	struct table table;
	unsigned n;
	bool good;

	table_begin(&table, problem_columns);
	table.fit = terminal_width();
	/* Those that wait come last, because they may need nothing but time. */
	n = add_hosts(view, &table, max, has_problem);
	n += add_hosts(view, &table, n < max ? max - n : 0, is_waiting);
	good = print_table(&table, file);
	if (n > max)
		fprintf(file, "(and %u more host%s, see \"rdmabrokerctl fleet list\")\n", n - max,
			n - max == 1 ? "" : "s");
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

/* A part of the screen, before it is known how much room there is. */
struct part {
	char *text;
	unsigned n_lines; /* that a screen shows: those that are not empty */
};

static bool make_part(const struct view *view, bool (*print)(const struct view *view, FILE *file),
		      struct part *ret)
{
	size_t len;
	FILE *file = open_memstream(&ret->text, &len);
	bool good = file && print(view, file);

	if (!file || fclose(file) != 0)
		return false;
	ret->n_lines = 0;
	for (const char *line = ret->text; *line; line += strcspn(line, "\n") + 1)
		ret->n_lines += *line != '\n';
	return good;
}

static bool print_top(const struct view *view, FILE *file)
{
	print_members(view, file);
	if (!view->has_fleet)
		return true;
	print_hosts(view, file);
	return print_rollouts(view, file);
}

/*
 * On a screen, the hosts with problems get the lines that the others leave, and if these are too few, also those of the
 * rules. So what is left out are hosts, which are counted.
 */
static int print_text(const struct view *view, FILE *file)
{
	unsigned lines = view->ctl->watch ? terminal_lines() : 0, max = PROBLEMS_MAX, others;
	struct part top = { 0 }, rules = { 0 };
	bool good = make_part(view, print_top, &top) &&
		    (!view->has_fleet || make_part(view, print_rules, &rules));

	if (good && lines > 0) {
		/* And the headings, and the line that counts. */
		others = top.n_lines + 2;
		if (others + rules.n_lines + PROBLEMS_MIN > lines && rules.text)
			*rules.text = 0;
		else
			others += rules.n_lines;
		max = others + PROBLEMS_MIN > lines ? PROBLEMS_MIN : lines - others;
		max = max < PROBLEMS_MAX ? max : PROBLEMS_MAX;
	}
	if (good) {
		fputs(top.text, file);
		good = !view->has_fleet || print_problems(view, max, file);
		fputs(rules.text ?: "", file);
	}
	free(top.text);
	free(rules.text);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int print_objects(const struct view *view, FILE *file)
{
	struct warnings warnings = count_warnings(view);
	struct jsonout json = { .file = file };
	struct table objects = { .columns = problem_columns, .json = &json };
	json_t *rules = new_rules(view);
	struct numbers numbers;

	count(view, NULL, /* all= */ true, &numbers);
	jsonout_open(&json, NULL, '{');
	json_etcd(view, &json);
	if (!view->has_fleet) {
		jsonout_string(&json, "error", view->error);
		jsonout_close(&json, '}');
		fputc('\n', file);
		json_decref(rules);
		return EXIT_SUCCESS;
	}
	jsonout_number(&json, "hosts", numbers.n);
	json_numbers(&numbers, &json, "states");
	jsonout_open(&json, "rollout", '[');
	add_rollouts(view, &(struct table){ .columns = rollout_columns, .json = &json });
	jsonout_close(&json, ']');
	jsonout_open(&json, "problems", '[');
	add_hosts(view, &objects, UINT_MAX, has_problem);
	jsonout_close(&json, ']');
	jsonout_open(&json, "waiting", '[');
	add_hosts(view, &objects, UINT_MAX, is_waiting);
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
