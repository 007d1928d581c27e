/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/program.h"
#include "tests/unit/watch.h"

/* Tests of the verb "events" of rdmabrokerctl. */

START_TEST(ctl_prints_lines)
{
	struct rdmabroker *s;
	struct child child;

	set_policy(watch_rules);
	s = open_session(0);
	START_EVENTS(&child, "--operation", "listen", "--count", "3");
	assert_has(read_line(&child), "TIME ");
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	read_line(&child);
	assert_has(got.out, " listen            allowed   10.9.0.1:7471 ");
	assert_has(got.out, " test.rules:2 ");
	assert_lacks(got.out, "\033");
	ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	assert_has(read_line(&child), " rejected ");
	assert_has(got.out, " not here (reject listen port 7480-7999 reason \"not here\")\n");
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	read_line(&child);
	ck_assert_ptr_null(fgets(got.out, sizeof(got.out), child.out));
	ck_assert_int_eq(end_ctl(&child), 0);
	ck_assert_str_eq(got.err, "");
	rdmabroker_close(s);
}
END_TEST

/* What the connection manager tells has no outcome. */
START_TEST(ctl_prints_events_of_ids)
{
	struct rdmabroker *s = open_session(0);
	struct child child;

	start_listening(s, 7471);
	START_EVENTS(&child, "--kind", "cm", "--count", "1");
	assert_has(read_line(&child), "TIME ");
	resolve(s, 7471);
	assert_has(read_line(&child), " addr-resolved ");
	assert_lacks(got.out, "allowed");
	ck_assert_int_eq(end_ctl(&child), 0);
	ck_assert_str_eq(got.err, "");
	rdmabroker_close(s);
}
END_TEST

START_TEST(ctl_prints_json)
{
	struct rdmabroker *s;
	struct child child;

	set_policy(watch_rules);
	s = open_session(0);
	be_client(s);
	START_EVENTS(&child, "--json");
	got.err[0] = '\0';
	ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	read_line(&child);
	assert_json("(d[\"kind\"], d[\"operation\"], d[\"outcome\"], d[\"event\"], d[\"lost\"]) == "
		    "(\"decision\", \"listen\", \"rejected\", None, 0)");
	assert_json("d[\"local\"] == \"10.9.0.1:7480\" and d[\"peer\"] is None");
	assert_json("(d[\"rule\"], d[\"reason\"], d[\"ps\"], d[\"id\"]) == "
		    "(\"test.rules:3\", \"not here\", \"tcp\", 1)");
	assert_json("__import__(\"re\").fullmatch(\"20[0-9-]{8}T[0-9:]{8}[.][0-9]{9}Z\", "
		    "d[\"time\"])");
	start_listening(s, 7471);
	read_line(&child);
	resolve(s, 7471);
	read_line(&child);
	read_line(&child);
	assert_json("(d[\"kind\"], d[\"event\"], d[\"operation\"], d[\"status\"]) == "
		    "(\"cm\", \"addr-resolved\", None, 0)");
	ck_assert_int_eq(kill(child.pid, SIGTERM), 0);
	ck_assert_int_eq(end_ctl(&child), 0);
	ck_assert_str_eq(got.err, "");
	rdmabroker_close(s);
}
END_TEST

START_TEST(ctl_ends)
{
	struct rdmabroker *s = open_session(0);
	struct child child;

	START_EVENTS(&child, "--kind", "cm");
	read_line(&child);
	ck_assert_int_eq(kill(child.pid, SIGINT), 0);
	ck_assert_int_eq(end_ctl(&child), 0);
	await_watches(0);

	/* The program ends when the reader of its output is gone, even if it has nothing to write. */
	START_EVENTS(&child, "--kind", "cm");
	read_line(&child);
	fclose(child.out);
	child.out = NULL;
	ck_assert_int_eq(end_ctl(&child), 0);
	ck_assert_str_eq(got.err, "");
	await_watches(0);

	START_EVENTS(&child, "--kind", "cm");
	stop_server();
	ck_assert_int_eq(end_ctl(&child), 1);
	ck_assert_str_eq(got.err,
			 "rdmabrokerctl: the daemon has ended, or has closed this session\n");
	rdmabroker_close(s);
}
END_TEST

/* The program gets SIGTERM while it waits for a reader that does not read. */
START_TEST(ctl_ends_while_the_pipe_is_full)
{
	struct rdmabroker *s = open_session(0);
	struct child child;
	int size;

	START_EVENTS(&child, "--json");
	size = fcntl(fileno(child.out), F_SETPIPE_SZ, 4096);
	ck_assert_int_ge(size, 4096);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(try_to_listen(s, 7471), 0);
	ck_assert_int_eq(kill(child.pid, SIGTERM), 0);
	ck_assert_int_eq(end_ctl(&child), 0);
	ck_assert_str_eq(got.err, "");
	rdmabroker_close(s);
}
END_TEST

static atomic_bool enough;

static void *keep_trying(void *arg)
{
	while (!enough)
		try_to_listen(arg, 7480);
	return NULL;
}

START_TEST(ctl_has_colours_on_a_terminal)
{
	const char *const argv[] = { program,     "--socket", ctl_socket(), "events",
				     "--outcome", "rejected", NULL };
	struct rdmabroker *s;
	pthread_t thread;
	size_t len;
	int status;

	set_policy(watch_rules);
	s = open_session(0);
	ck_assert_int_eq(pthread_create(&thread, NULL, keep_trying, s), 0);
	status = run_on_terminal(300, "\033[31mrejected\033[0m ", argv);
	len = strlen(got.out);
	ck_assert_msg(status == 0, "status %d: %s", status, got.out + (len > 300 ? len - 300 : 0));
	enough = true;
	pthread_join(thread, NULL);
	rdmabroker_close(s);
}
END_TEST

START_TEST(ctl_refuses_bad_arguments)
{
	static const struct {
		const char *arguments[5], *words;
	} cases[] = {
		{ { "--kind", "sesion" }, "unknown kind \"sesion\", did you mean \"session\"?" },
		{ { "--operation", "any" }, "unknown operation \"any\"" },
		{ { "--outcome", "alowed" }, "did you mean \"allowed\"?" },
		{ { "--session", "0" },
		  "invalid --session \"0\": it must be a number of at least 1" },
		{ { "--count", "x" }, "invalid --count \"x\": it must be a number of at least 1" },
		{ { "--count", "-1" },
		  "invalid --count \"-1\": it must be a number of at least 1" },
		{ { "--peer", "host" }, "invalid address \"host\": it must be IPv4 or IPv6" },
		{ { "--port", "65536" }, "invalid port \"65536\"" },
		{ { "--kind", "cm", "--outcome", "busy" },
		  "do not combine --operation or --outcome with --kind cm" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const *a = cases[i].arguments;

		ck_assert_int_eq(ctl("events", a[0], a[1], a[2], a[3]), 2);
		assert_has(got.err, cases[i].words);
	}
	ck_assert_int_eq(ctl("events", "--user", "nobody-at-all"), 1);
	ck_assert_int_eq(ctl("events", "more"), 2);
}
END_TEST

START_TEST(not_permitted)
{
	if (!run_as_nobody())
		return;
	set_policy("allow session\nreject admin\n");
	ck_assert_int_eq(ctl("events"), 1);
	ck_assert_str_eq(got.out, "");
	assert_has(got.err, "only root and the daemon's own user");
	assert_has(got.err, "try again as root");
	end_nobody();
}
END_TEST

UNIT_MAIN("events", set_up_ctl, tear_down, ctl_prints_lines, ctl_prints_events_of_ids,
	  ctl_prints_json, ctl_ends, ctl_ends_while_the_pipe_is_full, ctl_has_colours_on_a_terminal,
	  ctl_refuses_bad_arguments, not_permitted)
