/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/unit/exporter.h"
#include "tests/unit/program.h"

/* A wrong command line gets the error and a pointer to the help, and not the whole help. */

static char ping[4096], daemon_program[4096];

static void set_up_all(void)
{
	set_up_ctl();
	snprintf(ping, sizeof(ping), "%s/rdmabroker-ping", build_dir());
	snprintf(daemon_program, sizeof(daemon_program), "%s/rdmabrokerd", build_dir());
	setenv("RDMABROKER_SOCKET", harness.socket_path, /* overwrite= */ 1);
}

#define RUN(...) run((const char *const[]){ __VA_ARGS__, NULL })

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Checks the error of a wrong command line: at most two lines, so that the user sees the first one. */
static void assert_usage(const char *part, const char *see)
{
	ck_assert_int_eq(got.status, 2);
	ck_assert_str_eq(got.out, "");
	assert_has(got.err, part);
	assert_has(got.err, see);
	ck_assert_msg(count_lines(got.err) <= 2, "%s", got.err);
}

START_TEST(ping_usage)
{
	static const char see[] = "see rdmabroker-ping --help\n";

	RUN(ping, "-x");
	assert_usage("invalid option", see);
	RUN(ping, "-s", "-p", "7471", "-t", "1");
	assert_usage("-t can only be given with -c", see);
	RUN(ping, "-c", "-a", "10.9.0.1", "-p", "0");
	assert_usage("cannot connect to port 0", see);
	RUN(ping, "-c", "-a", "no such host", "-p", "7471");
	assert_usage("cannot resolve \"no such host\": ", see);
	RUN(ping, "-c", "-a", "fe80::1%nosuch", "-p", "7471");
	assert_usage(
		"cannot resolve \"fe80::1%nosuch\": what follows % must be an interface of this "
		"host, and what precedes it a link-local address; see",
		see);
	RUN(ping, "-c", "-a", "10.9.0.1", "-p", "7471", "-I", "fe80::1%nosuch");
	assert_usage("cannot resolve the source \"fe80::1%nosuch\": what follows % must be", see);
	RUN(ping, "-c", "-a", "10.9.0.1", "-p", "7471", "-I", "no such host:1");
	assert_usage("cannot resolve the source \"no such host:1\": ", see);
}
END_TEST

/* Both ends accept -C, so that they can be started with the same count. The server ignores the count. */
START_TEST(ping_takes_a_count_on_both_sides)
{
	RUN(ping, "-s", "-a", "10.9.0.1", "-p", "7471", "-C", "3", "-T", "1");
	ck_assert_int_eq(got.status, 1);
	ck_assert_str_eq(got.err, "rdmabroker-ping: no client connected within 1 s\n");
}
END_TEST

START_TEST(the_loopback_is_explained)
{
	fake_fail_next(harness.core->fabric, FAKE_BIND, -ENODEV);
	RUN(ping, "-s", "-a", "127.0.0.1", "-p", "7471");
	ck_assert_int_eq(got.status, 1);
	assert_has(got.err, "bind 127.0.0.1:7471: no RDMA device has the loopback address");
	fake_fail_next(harness.core->fabric, FAKE_BIND, -ENODEV);
	RUN(ping, "-s", "-a", "::1", "-p", "7471");
	assert_has(got.err, "bind [::1]:7471: no RDMA device has the loopback address");
	fake_fail_next(harness.core->fabric, FAKE_BIND, -ENODEV);
	RUN(ping, "-s", "-a", "10.9.0.1", "-p", "7471");
	ck_assert_int_eq(got.status, 1);
	assert_lacks(got.err, "loopback");
	fake_fail_addresses(harness.core->fabric, 1, -ENODEV);
	RUN(ping, "-c", "-a", "127.0.0.1", "-p", "7471");
	ck_assert_int_eq(got.status, 1);
	ck_assert_str_eq(got.err,
			 "rdmabroker-ping: cannot resolve 127.0.0.1:7471: no RDMA device has the "
			 "loopback address; give another address of this host\n");
	fake_fail_next(harness.core->fabric, FAKE_BIND, -ENODEV);
	RUN(ping, "-c", "-a", "10.9.0.1", "-p", "7471", "-I", "127.0.0.1:7472");
	ck_assert_int_eq(got.status, 1);
	assert_has(got.err, "no RDMA device has the loopback address");
	fake_fail_addresses(harness.core->fabric, 1, -ENODEV);
	RUN(ping, "-c", "-a", "10.9.0.1", "-p", "7471");
	ck_assert_int_eq(got.status, 1);
	assert_lacks(got.err, "loopback");
	/* Policy may allow it, but the connection would fail. */
	ctl("explain", "connect", "--peer", "127.0.0.1");
	assert_has(got.out, "     note: no RDMA device has the loopback address\n");
	ctl("explain", "listen", "--local", "::1");
	assert_has(got.out, "     note: no RDMA device has the loopback address\n");
	ctl("explain", "connect", "--peer", "10.9.0.1");
	assert_lacks(got.out, "note");
}
END_TEST

START_TEST(versions)
{
	static const char *const ways[] = { "-V", "--version" };
	const char *const programs[] = { program, ping, daemon_program };

	for (size_t i = 0; i < 3; i++)
		for (size_t k = 0; k < 2; k++) {
			RUN(programs[i], ways[k]);
			ck_assert_int_eq(got.status, 0);
			ck_assert_str_eq(got.err, "");
			assert_has(got.out, "rdmabroker");
			assert_has(got.out, rdmabroker_get_version());
			ck_assert_uint_eq(count_lines(got.out), 1);
		}
}
END_TEST

START_TEST(daemon_usage)
{
	static const char see[] = "see rdmabrokerd --help\n";

	RUN(daemon_program, "--chekc");
	assert_usage("unrecognized option '--chekc'", see);
	RUN(daemon_program, "--socket");
	assert_usage("requires an argument", see);
	RUN(daemon_program, "--json");
	assert_usage("--json requires --check", see);
	RUN(daemon_program, "file.rules");
	assert_usage("unexpected argument 'file.rules'", see);
	RUN(daemon_program, "--help");
	ck_assert_int_eq(got.status, 0);
	assert_has(got.out, "--policy-dir DIR");
}
END_TEST

START_TEST(ctl_options)
{
	static const char see[] = "see rdmabrokerctl help ";

	/* Errors name options as they were typed. */
	ctl("explain", "connect", "--usr", "root");
	assert_usage("unknown option \"--usr\", did you mean \"--user\"?\n", see);
	ctl("status", "--full");
	assert_usage("unknown option \"--full\"\n", see);
	/* An abbreviation could become another option in a later version. */
	ctl("list", "--listener");
	assert_usage("unknown option \"--listener\", did you mean \"--listeners\"?\n", see);
	ctl("list", "--conn", "--json");
	assert_usage("unknown option \"--conn\", did you mean \"--connections\"?\n", see);
	ctl("events", "--cou=3");
	assert_usage("unknown option \"--cou\", did you mean \"--count\"?\n", see);
	ctl("explain", "connect", "--us", "root");
	assert_usage("unknown option \"--us\", did you mean \"--user\"?\n", see);
	RUN(program, "--vers");
	assert_usage("unknown option \"--vers\", did you mean \"--version\"?\n",
		     "see rdmabrokerctl help\n");
	ctl("explain", "connect", "--pe", "10.9.0.1");
	assert_usage("unknown option \"--pe\"", see);
	/* rdmabrokerctl does not take a program's options for its own. */
	ctl("run", "rping", "-s");
	assert_usage("the program must follow \"--\": \"rdmabrokerctl run ... -- rping ...\"\n",
		     "see rdmabrokerctl help run\n");
	ctl("run", "rping", "--help");
	assert_usage("the program must follow \"--\": \"rdmabrokerctl run ... -- rping ...\"\n",
		     "see rdmabrokerctl help run\n");
	ctl("run", "-s", "rping");
	assert_usage("unknown option \"-s\"\n", see);
	ctl("run");
	assert_usage("run needs an argument: -- PROGRAM", see);
	ctl("run", "--help");
	ck_assert_int_eq(got.status, 0);
	assert_has(got.out, "Usage: rdmabrokerctl run");
}
END_TEST

/* The error for an unknown word lists all known words, unless a similar word can be suggested. */
START_TEST(ctl_lists_known_words)
{
	static const struct {
		const char *argv[4], *said;
	} rows[] = {
		{ { "events", "--kind", "foo" },
		  "unknown kind \"foo\": it must be one of decision, cm, session\n" },
		{ { "events", "--outcome", "maybe" },
		  "unknown outcome \"maybe\": it must be one of allowed, rejected, busy, "
		  "warned\n" },
		{ { "events", "--operation", "foo" },
		  "unknown operation \"foo\": it must be one of session, device, listen, connect, accept" },
		{ { "list", "--state", "foo" },
		  "unknown state \"foo\": it must be one of idle, bound, " },
		{ { "explain", "foo" },
		  "unknown operation \"foo\": it must be one of session, device, listen, connect, accept" },
		{ { "explain", "connect", "--ps", "foo" },
		  "unknown port space \"foo\": it must be one of tcp, udp, ib, ipoib\n" },
		{ { "events", "--kind", "sesion" },
		  "unknown kind \"sesion\", did you mean \"session\"?\n" },
		{ { "explain", "connect", "--peer", "www.example.org" },
		  "invalid address \"www.example.org\": it must be IPv4 or IPv6 or gid:GID; host names are not resolved" },
		{ { "explain", "connect", "--peer", "10.9.0" },
		  "invalid address \"10.9.0\": it must be IPv4 or IPv6 or gid:GID\n" },
		{ { "explain", "connect", "--peer", "10.9.0.0/16" },
		  "invalid address \"10.9.0.0/16\": it is a prefix, give one address\n" },
		{ { "explain", "connect", "--peer", "fe80::1%nosuch" },
		  "invalid address \"fe80::1%nosuch\": there is no interface \"nosuch\" here\n" },
		{ { "explain", "connect", "--peer", "fd00::1%lo" },
		  "invalid address \"fd00::1%lo\": only link-local addresses are followed by %INTERFACE\n" },
		{ { "explain", "connect", "--peer", "10.9.0.1%lo" },
		  "invalid address \"10.9.0.1%lo\": only link-local addresses are followed by %INTERFACE\n" },
		{ { "explain", "connect", "--port", "0" },
		  "invalid port 0: it stands for any free port; give one from 1 to 65535\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *const *argv = rows[i].argv;

		RUN(program, argv[0], argv[1], argv[2], argv[2] ? argv[3] : NULL);
		ck_assert_int_eq(got.status, 2);
		assert_has(got.err, rows[i].said);
	}
}
END_TEST

/*
 * In a child, accepts one client on the socket ODD.SOCK in the harness's folder, and answers all its requests as if
 * they were hellos.
 */
static pid_t start_odd_broker(struct sockaddr_un *ret)
{
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid_t pid;

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/odd.sock", harness.dir);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)ret, sizeof(*ret)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	pid = fork();
	if (pid == 0) {
		int sock = accept(listener, NULL, NULL);
		uint8_t buf[PACKET_MAX];
		ssize_t n;

		while ((n = read(sock, buf, sizeof(buf))) > 0) {
			Rdmabroker__Frame *request =
				rdmabroker__frame__unpack(NULL, (size_t)n, buf);
			Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
			Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
			Rdmabroker__HelloResult hello = RDMABROKER__HELLO_RESULT__INIT;

			hello.version = 1;
			reply.serial = request->request->serial;
			reply.result_case = RDMABROKER__REPLY__RESULT_HELLO;
			reply.hello = &hello;
			frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
			frame.reply = &reply;
			if (write(sock, buf, rdmabroker__frame__pack(&frame, buf)) < 0)
				break;
			rdmabroker__frame__free_unpacked(request, NULL);
		}
		_exit(0);
	}
	close(listener);
	return pid;
}

/* The library's text begins with the name of its call, get_status, which the user has not made. */
START_TEST(ctl_names_the_verb_that_failed)
{
	static const struct {
		const char *verb, *said;
	} rows[] = {
		{ "status", "rdmabrokerctl: status: the broker's reply is of the wrong type\n" },
		{ "metrics", "rdmabrokerctl: metrics: the broker's reply is of the wrong type\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sockaddr_un addr;
		pid_t pid = start_odd_broker(&addr);

		ck_assert_int_gt(pid, 0);
		RUN(program, "--socket", addr.sun_path, rows[i].verb);
		ck_assert_int_eq(got.status, 1);
		ck_assert_str_eq(got.err, rows[i].said);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		unlink(addr.sun_path);
	}
}
END_TEST

/* Returns what the line FIRST of the page NAME is followed by, up to the next line that begins with END. */
static char *part_of_page(const char *name, const char *first, const char *end)
{
	char path[4096], line[1024], *text = NULL;
	bool is_there = false;
	size_t size;
	FILE *f, *out = open_memstream(&text, &size);

	snprintf(path, sizeof(path), "%s/%s", getenv("SRCDIR") ?: ".", name);
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s", path);
	while (fgets(line, sizeof(line), f)) {
		if (is_there && strncmp(line, end, strlen(end)) == 0)
			break;
		if (is_there)
			fputs(line, out);
		is_there = is_there || strcmp(line, first) == 0;
	}
	fclose(f);
	fclose(out);
	ck_assert_msg(size > 0, "%s: %s", name, first);
	return text;
}

/* rdmabrokerd(8) shows what --check --json prints. In the page, long lines are broken at blanks. */
START_TEST(the_page_shows_the_json_of_check)
{
	char *shown = part_of_page("daemon/rdmabrokerd.8",
				   "$ rdmabrokerd --check --json 60-mine.rules\n", ".Ed"),
	     *to = shown;

	for (const char *from = shown; *from; from++)
		if (*from != '\n' || from[1] == '\0')
			*to++ = *from;
	*to = '\0';
	ck_assert_int_eq(chdir(harness.dir), 0);
	write_text("60-mine.rules", "allow sesion\n");
	RUN(daemon_program, "--check", "--json", "60-mine.rules");
	ck_assert_int_eq(got.status, 1);
	ck_assert_str_eq(got.out, shown);
	unlink("60-mine.rules");
	free(shown);
}
END_TEST

/* Both pages that document this JSON name all of its members. */
START_TEST(the_pages_name_the_members_of_check)
{
	static const char *const names[] = {
		"ok",   "complaints", "file",          "line",  "column", "text",
		"more", "warnings",   "more_warnings", "rules", "tests",
	};
	char *texts[] = {
		part_of_page("daemon/rdmabrokerd.8", "The object has these members:\n", ".El"),
		part_of_page("client/rdmabrokerctl.1", ".Sh JSON\n", ".It Cm drain"),
	};

	RUN(daemon_program, "--check", "--json", "/dev/null");
	assert_json("list(d) == [\"ok\", \"complaints\", \"more\", \"warnings\", "
		    "\"more_warnings\", \"rules\", \"tests\"]");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
			char item[32], in_list[32];

			snprintf(item, sizeof(item), "Li %s", names[k]);
			snprintf(in_list, sizeof(in_list), " , %s", names[k]);
			ck_assert_msg(strstr(texts[i], item) || strstr(texts[i], in_list), "%s: %s",
				      names[k], texts[i]);
		}
		free(texts[i]);
	}
}
END_TEST

UNIT_MAIN("usage", set_up_all, tear_down, ping_usage, ping_takes_a_count_on_both_sides,
	  the_loopback_is_explained, versions, daemon_usage, ctl_options, ctl_lists_known_words,
	  ctl_names_the_verb_that_failed, the_page_shows_the_json_of_check,
	  the_pages_name_the_members_of_check)
