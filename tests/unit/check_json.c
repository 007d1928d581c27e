/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/helper.h"
#include "tests/unit/program.h"
#include "tests/unit/watch.h"
#include "util/clock.h"

/*
 * The keys of rdmabrokerctl's JSON, which programs of others use: json.keys lists them. A key that is not there any more, or
 * has a value of another type, fails; a new one is added to the list. json.py compares.
 */

static const char rules[] = "allow session\nallow listen\nallow connect\n"
			    "allow accept port 7471 peer-user 1234\n"
			    "reject accept port 7472 reason \"closed\"\n";

static char printed
	[128]; /* the path of what the verbs have printed: a line has the verb, a tab, and the JSON */

/* Adds the last run's output, of the verb NAME. */
static void add(const char *name)
{
	FILE *file = fopen(printed, "ae");

	ck_assert_ptr_nonnull(file);
	ck_assert_msg(got.out[0] == '{', "%s: %s%s", name, got.out, got.err);
	fprintf(file, "%s\t%s", name, got.out);
	fclose(file);
}

#define ADD(status, name, ...)                                                                  \
	do {                                                                                    \
		ck_assert_msg(ctl("--json", __VA_ARGS__) == (status), "%s: %s", name, got.err); \
		add(name);                                                                      \
	} while (0)

static void write_rules(const char *text)
{
	FILE *file = fopen(harness.rules_path, "we");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static void do_be_taken_over(void *arg)
{
	const struct core_take_over taken = { .generation = 2, .n_sessions = 1 };
	static union {
		struct fabric_holders holders;
		char space[sizeof(struct fabric_holders) + sizeof(struct fabric_holder)];
	} found;

	harness.core->take_over = taken;
	found.holders.seen_ms = clock_ms();
	found.holders.n_holders = 1;
	found.holders.holders[0] = (struct fabric_holder){
		.pid = 812, .uid = 1000, .name = "rping", .state = "LISTEN"
	};
	fake_set_holders(harness.core->fabric, "fake0", &found.holders);
	control_set_policy_error(server_get_control(harness.server), "my.rules:7:1: an error");
}

static void set_up_json(void)
{
	char daemon[4096];

	set_up_ctl();
	harness.core->account.limit_per_user[ACCOUNT_SESSIONS] = 16;
	snprintf(printed, sizeof(printed), "%s/printed", harness.dir);
	snprintf(daemon, sizeof(daemon), "%s/rdmabrokerd", build_dir());
	setenv("RDMABROKERD", daemon, 1);
}

static void add_events(struct rdmabroker *s, struct rdmabroker *c, struct rdmabroker *helper)
{
	static const char *const kinds[] = { "session", "decision", "cm" };
	struct child child;

	for (size_t i = 0; i < 3; i++) {
		char name[32];

		START_EVENTS(&child, "--json", "--kind", kinds[i], "--count", "1");
		got.err[0] = '\0';
		if (i == 0)
			rdmabroker_close(open_session(0));
		else if (i == 1)
			ck_assert_int_eq(try_to_listen(s, 7475), 0);
		else
			rdmabroker_destroy_id(resolve(c, 7471));
		read_line(&child);
		snprintf(name, sizeof(name), "events %s", kinds[i]);
		add(name);
		ck_assert_int_eq(end_ctl(&child), 0);
	}
	START_EVENTS(&child, "--json", "--operation", "accept", "--count", "1");
	connect_to(c, 7471);
	answer_question(helper, "accept", &somebody);
	read_line(&child);
	add("events decision");
	ck_assert_int_eq(end_ctl(&child), 0);
}

START_TEST(keys)
{
	struct rdmabroker *helper, *s, *c;
	char command[8192], target[32];

	set_policy(rules);
	in_server(do_be_taken_over, NULL);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	start_listening(s, 7472);
	add_events(s, c, helper);
	ADD(0, "list", "list");
	connect_to(c, 7472);
	expect_reject(c, "closed");
	ADD(0, "status", "status");
	ADD(0, "limits", "limits");
	ADD(0, "rules", "rules");
	ADD(0, "refusals", "refusals");
	ADD(0, "suggest", "suggest");
	ADD(0, "suggest --tests", "suggest", "--tests");
	ADD(3, "explain", "explain", "accept", "--port", "7471", "--peer", "10.9.0.2");
	ADD(0, "explain", "explain", "accept", "--port", "7471", "--peer-user", "1234");
	ADD(0, "metrics", "metrics");
	ADD(0, "version", "version");
	ADD(0, "help", "help");
	write_rules("allow session\n");
	ADD(0, "reload --dry-run", "reload", "--dry-run");
	write_rules("allow eny\n");
	ADD(1, "reload", "reload");
	ADD(1, "check", "check", harness.rules_path);
	ADD(0, "drain", "drain", "--cancel");
	snprintf(target, sizeof(target), "%u:1", 2);
	ADD(0, "kick", "kick", target);
	ADD(0, "refusals --clear", "refusals", "--clear");
	rdmabroker_close(c);
	rdmabroker_close(s);
	rdmabroker_close(helper);
	snprintf(command, sizeof(command),
		 "python3 -IS %s/tests/unit/json.py %s %s/tests/unit/json.keys",
		 getenv("SRCDIR") ?: ".", printed, getenv("SRCDIR") ?: ".");
	ck_assert_msg(system(command) == 0, "rdmabrokerctl's JSON has other keys than json.keys");
	unlink(printed);
	unlink(harness.rules_path);
}
END_TEST

UNIT_MAIN("json", set_up_json, tear_down, keys)
