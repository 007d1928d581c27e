/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/program.h"

/* The verbs of the real rdmabrokerctl that are about rules, against the server over a real socket. */

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

static void listen_thrice(struct rdmabroker *session)
{
	struct rdmabroker_id *id;

	start_listening(session, 7471);
	for (uint16_t i = 0; i < 2; i++) {
		ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
		ck_assert_int_eq(rdmabroker_bind_addr(id, addr(7472 + i)), 0);
		ck_assert_int_lt(rdmabroker_listen(id, 0), 0);
	}
}

static const char counted_rules[] =
	"allow session\n"
	"allow listen port 7471,7472 \\\n  max 1 # one\n"
	"reject listen port 7473 reason \"\xc3\xa4\xc3\xb6\xc3\xbc \\\"quoted\\\" text that is rather "
	"long, so that a terminal has to cut it somewhere\"\n"
	"allow connect\n";

START_TEST(rules)
{
	struct rdmabroker *session = open_session(0);
	char *line, *text;

	set_policy(counted_rules);
	listen_thrice(session);
	ck_assert_int_eq(ctl("rules"), 0);
	ck_assert_str_eq(got.err, "");
	assert_lacks(got.out, "\033");
	line = strtok(got.out, "\n");
	ck_assert_str_eq(line, "RULE          ALLOWED  REJECTED  BUSY  WARNED  NOW  PENDING  TEXT");
	text = strstr(line, "TEXT");
	line = strtok(NULL, "\n");
	ck_assert_int_eq(strncmp(line, "test.rules:1 ", 13), 0);
	line = strtok(NULL, "\n");
	ck_assert_str_eq(line, "test.rules:2        2         0     1       0    1        0  "
			       "allow listen port 7471,7472 max 1");
	line = strtok(NULL, "\n");
	assert_has(line,
		   "test.rules:4        0         1     0       0    0        0  reject listen");
	/* If the output is no terminal, nothing is cut. */
	assert_has(line, "has to cut it somewhere\"");
	line = strtok(NULL, "\n");
	assert_has(line, "allow connect");
	line = strtok(NULL, "\n");
	ck_assert_str_eq(line, "(no rule)           0         0     0       0    0        0  "
			       "(rejected: no rule matches)");
	ck_assert_ptr_null(strtok(NULL, "\n"));
	ck_assert_ptr_nonnull(text);

	ck_assert_int_eq(ctl("rules", "--json"), 0);
	assert_json("len(d[\"rules\"]) == 5 and d[\"rules\"][1] == {\"file\": \"test.rules\", "
		    "\"line\": 2, \"text\": \"allow listen port 7471,7472 max 1\", \"allowed\": 2, "
		    "\"rejected\": 0, \"busy\": 1, \"warned\": 0, \"now\": 1, \"pending\": 0}");
	assert_json("d[\"rules\"][4][\"file\"] is None and d[\"rules\"][4][\"line\"] is None and "
		    "d[\"rules\"][4][\"text\"] == \"\"");
	assert_json("\"\\u00e4\\u00f6\\u00fc \" in d[\"rules\"][2][\"text\"]");
	rdmabroker_close(session);
}
END_TEST

/* Returns the line of the output that contains WORD, without its CR. */
static char *line_with(const char *word)
{
	static char line[4096];
	const char *at = strstr(got.out, word);

	ck_assert_msg(at, "no '%s' in '%s'", word, got.out);
	while (at > got.out && at[-1] != '\n')
		at--;
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\r"), at);
	return line;
}

static size_t columns_of(const char *line)
{
	size_t n = 0;

	for (; *line; line++) {
		if (*line == '\033')
			line = strchr(line, 'm');
		else if ((*line & 0xc0) != 0x80)
			n++;
	}
	return n;
}

START_TEST(rules_on_a_terminal)
{
	struct rdmabroker *session = open_session(0);
	char *line;

	set_policy(counted_rules);
	listen_thrice(session);
	ck_assert_int_eq(ctl_on_terminal(98, "rules"), 0);
	line = line_with("test.rules:4");
	assert_has(line, "  \033[31m       1\033[0m  ");
	assert_has(line, "...");
	ck_assert_uint_eq(columns_of(line), 98);
	line = line_with("test.rules:2");
	assert_has(line, "  \033[33m   1\033[0m  ");
	assert_has(line, "allow listen port 7471,7472 max 1");

	/* A column that does not fit keeps a minimum of its text. */
	ck_assert_int_eq(ctl_on_terminal(20, "rules"), 0);
	assert_has(line_with("test.rules:2"), "allow listen ...");
	/* If a terminal does not report its width, nothing is cut. */
	ck_assert_int_eq(ctl_on_terminal(0, "rules"), 0);
	assert_has(line_with("test.rules:4"), "has to cut it somewhere\"");
	ck_assert_int_eq(ctl_on_terminal(98, "rules", "--full"), 0);
	assert_has(line_with("test.rules:4"), "has to cut it somewhere\"");
	ck_assert_int_eq(ctl_on_terminal(98, "rules", "--json"), 0);
	assert_lacks(got.out, "\033");

	setenv("NO_COLOR", "1", 1);
	ck_assert_int_eq(ctl_on_terminal(98, "rules"), 0);
	assert_lacks(got.out, "\033");
	unsetenv("NO_COLOR");
	setenv("TERM", "dumb", 1);
	ck_assert_int_eq(ctl_on_terminal(98, "rules"), 0);
	assert_lacks(got.out, "\033");
	rdmabroker_close(session);
}
END_TEST

static const char explained_rules[] =
	"set far = { 10.2.0.0/16, fd00::/16 }\n"
	"reject connect user 1000 device mlx* port 1-1023, 7000 log reason \"a, peer\"\n"
	"allow connect group 2000 peer @far tos-max 32 rate-per-user 500/s\n"
	"allow accept data \"RDMA\" dscp af31 pending 64\n"
	"allow listen local 10.2.0.1 ps udp\n"
	"allow listen user 7\n"
	"reject connect reason \"not \\\"here\\\"\"\n"
	"allow session\n";

START_TEST(explain_names_the_deciding_rule)
{
	set_policy(explained_rules);
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--group", "2000", "--peer",
			     "10.2.3.4", "--port", "7471"),
			 0);
	ck_assert_str_eq(got.err, "");
	ck_assert_str_eq(got.out, "allow\n"
				  "      who: uid 1001, gids 2000\n"
				  "     rule: test.rules:3\n"
				  "           allow connect group 2000 peer @far "
				  "tos-max 32 rate-per-user 500/s\n"
				  "     sets: tos-max 32\n"
				  "           reuseaddr no\n"
				  "           rate-per-user 500/s burst 500\n");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--group", "2000", "--peer",
			     "fd00::1", "--json"),
			 0);
	assert_json("d[\"answer\"] == \"allow\" and d[\"reason\"] is None and d[\"uid\"] == 1001 "
		    "and d[\"gids\"] == [2000] and d[\"rule\"][\"line\"] == 3 and "
		    "\"tos-max 32\" in d[\"effects\"] and d[\"depends\"] is None");

	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--group", "2000", "--peer",
			     "10.3.0.1"),
			 3);
	ck_assert_str_eq(got.out, "reject: not \"here\"\n"
				  "      who: uid 1001, gids 2000\n"
				  "     rule: test.rules:7\n"
				  "           reject connect reason \"not \\\"here\\\"\"\n");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--json"), 3);
	assert_json("d[\"answer\"] == \"reject\" and d[\"reason\"] == \"not \\\"here\\\"\" and "
		    "d[\"rule\"][\"file\"] == \"test.rules\" and d[\"effects\"] == []");

	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--peer", "fe80::1%lo"), 3);
	ck_assert_int_eq(ctl("explain", "join"), 3);
	assert_has(got.out, "reject: no-rule\n");
	assert_has(got.out, "     rule: no rule matches\n");
	ck_assert_int_eq(ctl("explain", "join", "--json"), 3);
	assert_json("d[\"reason\"] == \"no-rule\" and d[\"rule\"] is None");

	ck_assert_int_eq(ctl_on_terminal(80, "explain", "session"), 0);
	assert_has(got.out, "\033[32mallow\033[0m");
	ck_assert_int_eq(ctl_on_terminal(80, "explain", "join"), 3);
	assert_has(got.out, "\033[31mreject: no-rule\033[0m");
}
END_TEST

START_TEST(explain_names_the_missing_facts)
{
	set_policy(explained_rules);
	/* Words in a rule's reason or in its list of ports are not taken for keywords of matches. */
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1000", "--group", "2000", "--peer",
			     "10.2.0.9"),
			 3);
	assert_has(got.out, "  depends: test.rules:2\n");
	assert_has(got.out, "may not match; to find out, give --port, --device\n");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1000", "--group", "2000", "--peer",
			     "10.2.0.9", "--device", "mlx5_0", "--json"),
			 3);
	assert_json("d[\"depends\"][\"line\"] == 2 and d[\"depends\"][\"missing\"] == [\"port\"]");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1000", "--group", "2000", "--peer",
			     "10.2.0.9", "--device", "rxe0"),
			 0);
	assert_lacks(got.out, "depends");

	ck_assert_int_eq(ctl("explain", "accept"), 3);
	assert_has(got.out, "may match first; to find out, give --data\n");
	ck_assert_int_eq(ctl("explain", "accept", "--data", "RDMAx"), 0);
	assert_has(got.out, "     sets: tos 104\n");
	ck_assert_int_eq(ctl("explain", "accept", "--data", "0x52444d41"), 0);
	ck_assert_int_eq(ctl("explain", "accept", "--data", "RDM"), 3);
	assert_lacks(got.out, "depends");

	/* If the local address is a wildcard, the address that a rule would match is not known yet. */
	ck_assert_int_eq(ctl("explain", "listen", "--local", "0.0.0.0"), 3);
	assert_has(got.out, "to find out, give --local, --ps\n");
	ck_assert_int_eq(ctl("explain", "listen", "--local", "::", "--ps", "udp"), 3);
	assert_has(got.out, "to find out, give --local\n");
	ck_assert_int_eq(ctl("explain", "listen", "--local", "10.2.0.1", "--ps", "udp"), 0);
}
END_TEST

START_TEST(explain_names_what_decides_besides_rules)
{
	set_policy(explained_rules);
	ck_assert_int_eq(ctl("explain", "listen", "--user", "7", "--port", "80", "--ps", "tcp"), 3);
	assert_has(got.out, "reject: a port below 1024 needs a rule that names it");
	ck_assert_int_eq(ctl("explain", "listen", "--user", "7", "--port", "1024", "--ps", "tcp"),
			 0);
	assert_lacks(got.out, "note");
	ck_assert_int_eq(ctl("explain", "admin"), 3);
	assert_has(got.out, "     note: root and the daemon's own user");
}
END_TEST

START_TEST(explain_knows_partitions)
{
	set_policy("allow connect pkey 5-7\nallow connect port 80\nallow session\n");
	ck_assert_int_eq(ctl("explain", "connect", "--port", "80", "--pkey", "0x8008"), 0);
	ck_assert_int_eq(ctl("explain", "connect", "--port", "80", "--path-pkey", "8"), 3);
	ck_assert_int_eq(ctl("explain", "connect", "--port", "80", "--path-pkey", "0x8006"), 0);
	assert_has(got.out, "allow connect pkey 5-7");
	ck_assert_int_eq(ctl("explain", "connect", "--port", "80", "--peer", "gid:fe80::1"), 0);
	assert_lacks(got.out, "depends");
	ck_assert_int_eq(ctl("explain", "connect", "--port", "80", "--peer", "gid:fe80::1",
			     "--pkey", "8"),
			 3);
	ck_assert_int_eq(ctl("explain", "connect", "--port", "80"), 0);
	assert_has(got.out, "may match first; to find out, give --pkey\n");
	for (size_t i = 0; i < 3; i++) {
		static const char *const wrong[] = { "0x8000", "65536", "5-7" };

		ck_assert_int_eq(ctl("explain", "connect", "--pkey", wrong[i]), 2);
		assert_has(got.err, "it must be a number from 1 to 0x7fff, or with the bit 0x8000");
		assert_has(got.err, wrong[i]);
	}
}
END_TEST

START_TEST(explain_knows_users)
{
	const struct passwd *root = getpwuid(0);

	ck_assert_ptr_nonnull(root);
	set_policy("allow connect user 0\n");
	ck_assert_int_eq(ctl("explain", "connect", "--user", root->pw_name, "--json"), 0);
	assert_json("d[\"uid\"] == 0 and 0 in d[\"gids\"]");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "0", "--json"), 0);
	assert_json("d[\"uid\"] == 0 and 0 in d[\"gids\"]");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "0", "--group", "+77,78", "--json"),
			 0);
	assert_json("0 in d[\"gids\"] and 77 in d[\"gids\"] and 78 in d[\"gids\"]");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "0", "--group", "77,78", "--json"), 0);
	assert_json("d[\"gids\"] == [77, 78]");
	/* A user need not have an entry in the user database. */
	ck_assert_int_eq(ctl("explain", "connect", "--user", "3999999999", "--json"), 3);
	assert_json("d[\"uid\"] == 3999999999 and d[\"gids\"] == []");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "3999999999"), 3);
	assert_has(got.out, "who: uid 3999999999, no groups\n");
	/* Without --user, explain decides for the user who runs it. */
	ck_assert_int_eq(ctl("explain", "connect", "--json") == 0, geteuid() == 0);
	assert_json("len(d[\"gids\"]) >= 1");

	ck_assert_int_eq(ctl("explain", "connect", "--user", "nobody-at-all"), 1);
	assert_has(got.err, "unknown user \"nobody-at-all\"\n");
	ck_assert_int_eq(ctl("explain", "connect", "--group", "nothing-at-all"), 1);
	assert_has(got.err, "unknown group \"nothing-at-all\"\n");
	ck_assert_int_eq(ctl("explain", "connect", "--group", ""), 1);
	ck_assert_int_eq(ctl("explain", "connect", "--user", "4294967295"), 2);
	ck_assert_int_eq(ctl("explain", "connect", "--group", "99999999999999999999"), 2);
	ck_assert_str_eq(got.out, "");
}
END_TEST

START_TEST(explain_refuses_bad_arguments)
{
	static const struct {
		const char *operation, *option, *value, *complaint;
	} cases[] = {
		{ "conect", "--port", "1",
		  "unknown operation \"conect\", did you mean \"connect\"?" },
		{ "any", "--port", "1", "unknown operation \"any\": it must be one of session" },
		{ "connect", "--peer", "10.1",
		  "invalid address \"10.1\": it must be IPv4 or IPv6" },
		{ "connect", "--peer", "localhost",
		  "invalid address \"localhost\": it must be IPv4 or IPv6" },
		{ "connect", "--local", "", "invalid address \"\": it must be IPv4 or IPv6" },
		{ "connect", "--port", "0", "invalid port 0: it stands for any free port" },
		{ "connect", "--port", "65536", "invalid port \"65536\"" },
		{ "connect", "--port", "-1", "invalid port \"-1\"" },
		{ "connect", "--ps", "tpc", "unknown port space \"tpc\", did you mean \"tcp\"?" },
		{ "connect", "--data", "0x1",
		  "0x must be followed by pairs of hexadecimal digits" },
		{ "connect", "--data", "0x1g",
		  "0x must be followed by pairs of hexadecimal digits" },
		{ "connect", "--prot", "1", "unknown option \"--prot\", did you mean \"--port\"?" },
	};
	char data[200] = "";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_int_eq(
			ctl("explain", cases[i].operation, cases[i].option, cases[i].value), 2);
		ck_assert_str_eq(got.out, "");
		assert_has(got.err, cases[i].complaint);
	}
	memset(data, 'x', 181);
	ck_assert_int_eq(ctl("explain", "connect", "--data", data), 2);
	assert_has(got.err, "the private data is too long: at most 180 bytes are allowed");
	data[180] = '\0';
	ck_assert_int_eq(ctl("explain", "connect", "--data", data), 0);
}
END_TEST

START_TEST(reload)
{
	write_file(harness.rules_path, "allow any\nreject any\n");
	ck_assert_int_eq(ctl("reload"), 0);
	ck_assert_str_eq(got.out, "2 rules in force\n");
	ck_assert_int_eq(ctl("reload", "--json"), 0);
	assert_json("d == {\"ok\": True, \"rules\": 2, \"complaints\": []}");

	write_file(harness.rules_path, "allow any\nreject eny\nallow\n");
	ck_assert_int_eq(ctl("reload"), 1);
	ck_assert_str_eq(got.out, "");
	assert_has(got.err, "test.rules:2:8: unknown operation 'eny'");
	assert_has(got.err, "test.rules:3:");
	assert_has(got.err, "nothing was reloaded; the previous 2 rules stay in force");
	ck_assert_int_eq(ctl("reload", "--json"), 1);
	assert_json("not d[\"ok\"] and d[\"rules\"] == 2 and len(d[\"complaints\"]) == 2 and "
		    "\"test.rules:2:8: \" in d[\"complaints\"][0]");
	ck_assert_int_eq(ctl("rules"), 0);
	assert_has(got.out, "reject any");
}
END_TEST

START_TEST(refusals)
{
	static const char *const bad[] = {
		"", "1", "h", "1w", "-1h", "2026-13-01", "2026-01-31 12", "99999999999999999999h"
	};
	struct rdmabroker *session = open_session(0);

	set_policy(counted_rules);
	listen_thrice(session);
	ck_assert_int_eq(ctl("refusals"), 0);
	assert_has(got.out, "COUNT  LAST ");
	assert_has(got.out, "  busy      listen     ");
	assert_has(got.out, "  rejected  listen     ");
	assert_has(got.out, "  test.rules:4\n");
	assert_has(got.out, "  check_ctl_rules  7472  10.9.0.1  ");
	ck_assert_int_eq(ctl("refusals", "--json"), 0);
	assert_json("len(d[\"refusals\"]) == 2 and d[\"refusals\"][0][\"count\"] == 1 and "
		    "{r[\"outcome\"] for r in d[\"refusals\"]} == {\"busy\", \"rejected\"} and "
		    "all(r[\"local\"] == \"10.9.0.1\" and r[\"peer\"] is None and "
		    "r[\"ps\"] == \"tcp\" for r in d[\"refusals\"])");
	ck_assert_int_eq(ctl("refusals", "--warned"), 0);
	assert_lacks(got.out, "listen");
	ck_assert_int_eq(ctl("refusals", "--user", "daemon"), 0);
	assert_lacks(got.out, "listen");
	ck_assert_int_eq(ctl("refusals", "--user", "no-such-user"), 1);

	/* What was refused last comes first. */
	ck_assert_int_eq(ctl("refusals", "--refused"), 0);
	assert_has(got.out, "  rejected  listen     ");
	ck_assert_int_eq(ctl("refusals", "--json"), 0);
	assert_json("[r[\"last_ms\"] for r in d[\"refusals\"]] == "
		    "sorted((r[\"last_ms\"] for r in d[\"refusals\"]), reverse=True)");
	ck_assert_int_eq(ctl("refusals", "--since", "1h"), 0);
	assert_has(got.out, "  busy      listen     ");
	assert_has(got.out, "\nwatched since 20");
	assert_has(got.out, "; no row has left\n");
	ck_assert_int_eq(ctl("refusals", "--since", "2099-01-31 12:00"), 0);
	assert_lacks(got.out, "listen");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_int_eq(ctl("refusals", "--since", bad[i]), 2);
		assert_has(got.err, "invalid --since \"");
	}
	ck_assert_int_eq(ctl("refusals", "--refused", "--warned"), 2);
	ck_assert_int_eq(ctl("refusals", "--clear", "--refused"), 2);
	ck_assert_int_eq(ctl("refusals", "--clear"), 0);
	ck_assert_int_eq(ctl("refusals"), 0);
	assert_lacks(got.out, "listen");
	rdmabroker_close(session);
}
END_TEST

/* Of a reject rule, and of a limit, nothing is suggested unless that is asked for. */
START_TEST(refusals_of_a_partition)
{
	struct rdmabroker_id *id;
	struct rdmabroker *c;
	struct sockaddr_ib ib = {
		.sib_family = AF_IB,
		.sib_pkey = htons(0x8001),
		.sib_sid = htobe64((uint64_t)RDMA_PS_TCP << 16 | 7480),
		.sib_sid_mask = UINT64_MAX,
	};

	fake_be_infiniband(true);
	fake_gid_of((union ibv_gid *)&ib.sib_addr, addr(0));
	set_policy("allow any port 1000-9000\nallow session\n");
	c = open_session(0);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &id), 0);
	expect_failure(rdmabroker_resolve_addr_wait(id, NULL, (struct sockaddr *)&ib, T), EACCES,
		       ":7480 in partition 0x8001");
	ck_assert_int_eq(ctl("refusals"), 0);
	assert_has(got.out, "PKEY");
	assert_has(got.out, "0x8001");
	ck_assert_int_eq(ctl("refusals", "--json"), 0);
	assert_json("[r[\"pkey\"] for r in d[\"refusals\"]] == [\"0x8001\"]");
	ck_assert_int_eq(ctl("suggest"), 0);
	assert_has(got.out, " port 7480 pkey 0x8001\n");
	ck_assert_int_eq(ctl("suggest", "--tests"), 0);
	assert_has(got.out, " path-pkey 0x8001\n");

	set_policy("allow any pkey 1\nallow session\n");
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, (struct sockaddr *)&ib, T), 0);
	ck_assert_int_eq(ctl("list"), 0);
	assert_has(got.out, " PKEY ");
	assert_has(got.out, " 0x8001 ");
	ck_assert_int_eq(ctl("list", "--json"), 0);
	assert_json("d[\"ids\"][0][\"pkey\"] == \"0x8001\"");
	rdmabroker_close(c);
}
END_TEST

START_TEST(suggest)
{
	struct rdmabroker *session = open_session(0);

	set_policy(counted_rules);
	listen_thrice(session);
	ck_assert_int_eq(ctl("suggest"), 0);
	assert_has(got.out, "# watched since 20");
	assert_has(got.out, "; no row has left\n# Nothing was refused because no rule matched, or "
			    "allowed by a warn rule.\n");
	ck_assert_int_eq(ctl("suggest", "--rejected"), 0);
	assert_has(got.out, "\n# 1 time since 20");
	assert_has(got.out, ", by check_ctl_rules\nallow listen user ");
	assert_has(got.out, " port 7473\n");
	ck_assert_int_eq(ctl("suggest", "--rejected", "--tests"), 0);
	assert_has(got.out, "allow listen uid ");
	ck_assert_int_eq(ctl("suggest", "--rejected", "--json"), 0);
	assert_json("d[\"rules\"].endswith(\" port 7473\\n\")");
	ck_assert_int_eq(ctl("suggest", "--peer-prefix", "24,129"), 2);
	assert_has(got.err, "invalid --peer-prefix \"24,129\": \"129\" must be a number from 0 to "
			    "128");
	ck_assert_int_eq(ctl("suggest", "--peer-prefix", ""), 2);
	ck_assert_int_eq(ctl("suggest", "--kernel", "--rejected"), 2);
	assert_has(got.err, "--kernel and --rejected exclude each other");
	rdmabroker_close(session);
}
END_TEST

/* What was suggested before the installation is suggested again, in one rule with what was seen since. */
START_TEST(suggest_also)
{
	static const struct {
		const char *text, *complaint;
	} bad[] = {
		{ "reject any\n", ":1: cannot read \"reject\"" },
		{ "\nallow listen group hpc port 1\n", ":2: cannot read \"group\"" },
		{ "allow listen user nobody-at-all port 1\n", ":1: there is no user" },
		{ "allow listen user 1 port 70000\n", ":1: cannot read \"70000\"" },
		{ "allow connect user 1 peer @seen-1 port 1\n", ":1: cannot read \"@seen-1\"" },
		{ "allow connect user 1 peer 10.9.0.1/33 port 1\n", ":1: cannot read" },
		{ "allow listen user 1 unit job-*.scope port 1\n", ":1: cannot read" },
		{ "allow listen port 1\n", ":1: cannot read" },
		{ "allow listen user 1 port\n", ":1: cannot read" },
		{ "set seen-1 = { 10.9.0.1/32", ":1: cannot read" },
		{ "allow listen user 1,\\\n 2,\n", ":1: cannot read" },
	};
	struct rdmabroker *session = open_session(0);
	char path[PATH_MAX];

	set_policy(counted_rules);
	listen_thrice(session);
	snprintf(path, sizeof(path), "%s/before", harness.dir);
	write_file(path,
		   "# The kernel's module nvme_rdma has 1 id.\n"
		   "\n# 3 held on 2026-11-20, by nvmf_tgt\n"
		   "set seen-1 = { 10.9.0.7/32,\\\n     10.9.1.0/24 }\n"
		   "allow connect user 0,\\\n    4711 unit \"a\\\\*b.service\" peer @seen-1 port "
		   "4420-4421\n"
		   "allow listen user root port 7474,7480\n");
	ck_assert_int_eq(ctl("suggest", "--rejected", "--also", path), 0);
	assert_has(got.out, "\n# Not requested since it was suggested, by nvmf_tgt\n"
			    "set seen-1 = { 10.9.0.7/32, 10.9.1.0/24 }\n"
			    "allow connect user root,4711 unit \"a\\\\*b.service\" peer @seen-1 "
			    "port 4420-4421\n");
	if (geteuid() == 0)
		assert_has(got.out, "\nallow listen user root port 7473-7474,7480\n");
	ck_assert_int_eq(ctl("suggest", "--also", path, "--tests"), 0);
	assert_has(got.out,
		   "\nallow connect uid 4711 unit \"a*b.service\" peer 10.9.1.0 port 4421\n");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_file(path, bad[i].text);
		ck_assert_msg(ctl("suggest", "--also", path) == 1, "%s", bad[i].text);
		assert_has(got.err, bad[i].complaint);
	}
	unlink(path);
	ck_assert_int_eq(ctl("suggest", "--also", path), 1);
	assert_has(got.err, "cannot open ");
	rdmabroker_close(session);
}
END_TEST

static void assert_ascii(const char *text)
{
	for (; *text; text++)
		ck_assert_msg(*text == '\n' || (*text >= ' ' && *text <= '~'), "%s", text);
}

/* What a program, or the author of a rule, has chosen neither hides on the terminal nor breaks a file of rules. */
START_TEST(names_of_others)
{
	static const char *const verbs[][4] = {
		{ "refusals" },
		{ "refusals", "--json" },
		{ "suggest", "--rejected" },
		{ "rules" },
		{ "rules", "--json" },
		{ "list" },
		{ "status", "--json" },
		{ "explain", "listen", "--port", "7473" },
	};
	struct rdmabroker *session = open_session(0);
	char path[PATH_MAX], daemon[PATH_MAX + 32];
	FILE *file;

	set_policy("allow listen port 7471,7472 max 1\n"
		   "reject listen port 7473 reason \"\xe2\x80\xaehidden\"\nallow any\n");
	prctl(PR_SET_NAME, "\xef\xbb\xbf\xe2\x80\xaegnip\x1b\n");
	listen_thrice(session);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		run((const char *const[]){ program, "--socket", ctl_socket(), verbs[i][0],
					   verbs[i][1], verbs[i][2], verbs[i][3], NULL });
		assert_ascii(got.out);
		assert_ascii(got.err);
	}
	assert_has(got.out, "reject: \\u202ehidden\n");
	ck_assert_int_eq(ctl("refusals"), 0);
	assert_has(got.out, "  \\ufeff\\u202egnip?  7473  ");
	ck_assert_int_eq(ctl("refusals", "--json"), 0);
	assert_json("d[\"refusals\"][0][\"program\"] == \"\\ufeff\\u202egnip?\"");
	ck_assert_int_eq(ctl("suggest", "--rejected"), 0);
	assert_has(got.out, ", by \\ufeff\\u202egnip?\nallow listen user ");
	snprintf(path, sizeof(path), "%s/suggested.rules", harness.dir);
	file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	fputs(got.out, file);
	fclose(file);
	snprintf(daemon, sizeof(daemon), "%s/rdmabrokerd", build_dir());
	setenv("RDMABROKERD", daemon, 1);
	ck_assert_msg(ctl("check", path) == 0, "%s", got.err);
	unlink(path);
	ck_assert_int_eq(ctl("\xe2\x80\xae\x1b[2J"), 2);
	assert_has(got.err, "unknown verb \"\\u202e\\x1b[2J\"");
	rdmabroker_close(session);
}
END_TEST

START_TEST(reload_dry_run)
{
	struct rdmabroker *session = open_session(0);

	set_policy("allow any\n");
	start_listening(session, 7471);
	write_file(harness.rules_path, "allow any\nreject any\n");
	ck_assert_int_eq(ctl("reload", "--dry-run"), 0);
	ck_assert_str_eq(got.out, "2 rules would be in force\n"
				  "they allow all sessions and ids that there are now\n");
	write_file(harness.rules_path, "allow session\nreject listen reason \"not here\"\n");
	ck_assert_int_eq(ctl("reload", "--dry-run"), 0);
	assert_has(got.out, "NOT ALLOWED\n");
	assert_has(got.out, "listen on 10.9.0.1:7471");
	assert_has(got.out, "not here");
	ck_assert_int_eq(ctl("reload", "--dry-run", "--json"), 0);
	assert_json("d[\"ok\"] and d[\"rules\"] == 2 and len(d[\"denied\"]) == 1 and "
		    "d[\"denied\"][0][\"id\"] == 1 and "
		    "d[\"denied\"][0][\"state\"] == \"listening\" and "
		    "\"not here\" in d[\"denied\"][0][\"denied\"]");
	write_file(harness.rules_path, "allow eny\n");
	ck_assert_int_eq(ctl("reload", "--dry-run"), 1);
	assert_has(got.err, "unknown operation 'eny'");
	/* Nothing has changed. */
	ck_assert_int_eq(ctl("rules"), 0);
	assert_has(got.out, "allow any");
	assert_lacks(got.out, "reject listen");
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out, "policy: 1 rule\n");
	rdmabroker_close(session);
}
END_TEST

UNIT_MAIN("ctl_rules", set_up_ctl, tear_down, rules, rules_on_a_terminal,
	  explain_names_the_deciding_rule, explain_names_the_missing_facts,
	  explain_names_what_decides_besides_rules, explain_knows_partitions, explain_knows_users,
	  explain_refuses_bad_arguments, reload, reload_dry_run, refusals, refusals_of_a_partition,
	  suggest, suggest_also, names_of_others)
