/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <fnmatch.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/policy.h"
#include "tests/unit/unit.h"
#include "util/diag.h"

static struct diag *diag;
static struct policy *policy;
static struct policy_question question;
static struct policy_verdict verdict;
static gid_t gids[3] = { 100, 200, 300 };

static void ask(enum policy_operation operation)
{
	question = (struct policy_question){
		.operation = operation,
		.uid = 1000,
		.gids = gids,
		.n_gids = 3,
		.port = -1,
	};
}

static void set_up(void)
{
	ck_assert_int_eq(diag_new(&diag), 0);
	ask(POLICY_SESSION);
}

static void tear_down(void)
{
	policy = policy_unref(policy);
	diag = diag_free(diag);
}

static void load(const char *text)
{
	int r;

	policy_unref(policy);
	r = policy_load_text(&policy, "t", text, strlen(text), diag);
	ck_assert_msg(r == 0, "%s\n%s", diag_first(diag), text);
}

static const struct sockaddr *address(const char *text)
{
	static struct sockaddr_storage storage[4];
	static unsigned next;
	struct sockaddr_storage *ss = &storage[next++ % 4];
	struct sockaddr_in *in = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
		ss->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
		ss->ss_family = AF_INET6;
	else
		ck_abort_msg("%s", text);
	return (struct sockaddr *)ss;
}

/* Checks the decision about QUESTION. LINE: the line of the verdict's rule; 0: there is none. */
static void assert_answer(enum policy_answer answer, unsigned line)
{
	memset(&verdict, 0xff, sizeof(verdict));
	policy_decide(policy, &question, &verdict);
	ck_assert_int_eq(verdict.answer, answer);
	if (line) {
		ck_assert_ptr_nonnull(verdict.rule);
		ck_assert_uint_eq(verdict.rule->line, line);
	} else {
		ck_assert_ptr_null(verdict.rule);
	}
	ck_assert((verdict.reason != NULL) == (answer == POLICY_REJECT));
}

START_TEST(nothing_is_allowed_by_default)
{
	load("# nothing\n");
	for (int early = 0; early < 2; early++) {
		for (int i = 0; i < _POLICY_OPERATION_MAX; i++) {
			ask(i);
			question.early = early;
			assert_answer(POLICY_REJECT, 0);
			ck_assert_str_eq(verdict.reason, "no-rule");
		}
	}
}
END_TEST

START_TEST(the_first_match_decides)
{
	load("reject session user 5\n"
	     "allow session user 1000\n"
	     "reject session\n"
	     "allow session\n");
	assert_answer(POLICY_ALLOW, 2);
	question.uid = 5;
	assert_answer(POLICY_REJECT, 1);
	question.uid = 6;
	assert_answer(POLICY_REJECT, 3);
}
END_TEST

START_TEST(reasons)
{
	load("reject session user 1 reason \"not you\"\nreject session user 2");
	question.uid = 1;
	assert_answer(POLICY_REJECT, 1);
	ck_assert_str_eq(verdict.reason, "not you");
	question.uid = 2;
	assert_answer(POLICY_REJECT, 2);
	ck_assert_str_eq(verdict.reason, "denied");
	question.uid = 3;
	assert_answer(POLICY_REJECT, 0);
	ck_assert_str_eq(verdict.reason, "no-rule");
}
END_TEST

START_TEST(users_and_groups)
{
	load("allow session user 7,1000 group 5,300\nallow session group 200");
	assert_answer(POLICY_ALLOW, 1);
	question.n_gids = 2;
	assert_answer(POLICY_ALLOW, 2);
	question.n_gids = 1;
	assert_answer(POLICY_REJECT, 0);
	question.gids = NULL;
	question.n_gids = 0;
	assert_answer(POLICY_REJECT, 0);
	load("allow session user root");
	assert_answer(POLICY_REJECT, 0);
	question.uid = 0;
	assert_answer(POLICY_ALLOW, 1);
}
END_TEST

START_TEST(ports)
{
	load("allow listen port 5,1000-1010,65535");
	ask(POLICY_LISTEN);
	for (int port = 1; port < 65536; port++) {
		bool in = port == 5 || (port >= 1000 && port <= 1010) || port == 65535;

		question.port = port;
		assert_answer(in ? POLICY_ALLOW : POLICY_REJECT, in);
	}
	/* Port 0 means any free port, which is not known yet. */
	question.port = 0;
	assert_answer(POLICY_REJECT, 0);
	question.early = true;
	assert_answer(POLICY_DEFER, 1);
}
END_TEST

START_TEST(addresses_and_sets)
{
	load("set a = { 10.1.0.0/16, fd00::/64 }\n"
	     "set b = { @a, 10.2.0.1 }\n"
	     "allow connect local @a peer @b\n"
	     "allow connect peer 192.168.0.0/16\n");
	ask(POLICY_CONNECT);
	question.local = address("10.1.2.3");
	question.peer = address("fd00::5");
	assert_answer(POLICY_ALLOW, 3);
	question.peer = address("::ffff:10.2.0.1");
	assert_answer(POLICY_ALLOW, 3);
	question.peer = address("10.2.0.2");
	assert_answer(POLICY_REJECT, 0);
	question.local = address("::ffff:10.1.2.3");
	question.peer = address("10.2.0.1");
	assert_answer(POLICY_ALLOW, 3);
	question.local = NULL;
	assert_answer(POLICY_REJECT, 0);
	question.peer = address("192.168.3.4");
	assert_answer(POLICY_ALLOW, 4);
}
END_TEST

START_TEST(wildcard_addresses_are_unknown)
{
	static const char *const wildcards[] = { "0.0.0.0", "::", "::ffff:0.0.0.0" };

	ask(POLICY_LISTEN);
	for (size_t i = 0; i < 3; i++) {
		question.local = address(wildcards[i]);
		load("allow listen local 0.0.0.0/0\nallow listen local ::/0");
		question.early = false;
		assert_answer(POLICY_REJECT, 0);
		question.early = true;
		assert_answer(POLICY_DEFER, 1);

		load("reject listen local 10.0.0.0/8\nallow listen");
		question.early = false;
		assert_answer(POLICY_REJECT, 1);
		question.early = true;
		assert_answer(POLICY_DEFER, 1);
	}
}
END_TEST

START_TEST(addresses_of_other_families_are_unknown)
{
	struct sockaddr_storage ib = { .ss_family = 27 /* AF_IB */ };

	load("reject connect peer 10.0.0.0/8\nallow connect ps ib");
	ask(POLICY_CONNECT);
	question.peer = (struct sockaddr *)&ib;
	question.port_space = RDMA_PS_IB;
	assert_answer(POLICY_REJECT, 1);
	load("allow connect peer 10.0.0.0/8\nallow connect ps ib");
	assert_answer(POLICY_ALLOW, 2);
}
END_TEST

START_TEST(device_patterns)
{
	load("allow device device rxe*\nallow device device mlx5_[0-3]");
	ask(POLICY_DEVICE);
	assert_answer(POLICY_REJECT, 0);
	question.device = "rxe";
	assert_answer(POLICY_ALLOW, 1);
	question.device = "rxe_eth0";
	assert_answer(POLICY_ALLOW, 1);
	question.device = "xrxe";
	assert_answer(POLICY_REJECT, 0);
	question.device = "mlx5_2";
	assert_answer(POLICY_ALLOW, 2);
	question.device = "mlx5_22";
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

START_TEST(each_port_space)
{
	load("allow listen ps tcp\nallow listen ps udp\nallow listen ps ib\nallow listen ps ipoib");
	ask(POLICY_LISTEN);
	assert_answer(POLICY_REJECT, 0);
	question.port_space = RDMA_PS_TCP;
	assert_answer(POLICY_ALLOW, 1);
	question.port_space = RDMA_PS_UDP;
	assert_answer(POLICY_ALLOW, 2);
	question.port_space = RDMA_PS_IB;
	assert_answer(POLICY_ALLOW, 3);
	question.port_space = RDMA_PS_IPOIB;
	assert_answer(POLICY_ALLOW, 4);
	question.port_space = 1;
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

START_TEST(units)
{
	load("allow session unit a.service\nallow session unit user@*.service\n"
	     "allow session unit \"dev-\\\\\\\\x2dd.device\"\nreject session unit *");
	question.workload[WORKLOAD_UNIT] = "a.service";
	assert_answer(POLICY_ALLOW, 1);
	question.workload[WORKLOAD_UNIT] = "user@1000.service";
	assert_answer(POLICY_ALLOW, 2);
	question.workload[WORKLOAD_UNIT] = "dev-\\x2dd.device";
	assert_answer(POLICY_ALLOW, 3);
	question.workload[WORKLOAD_UNIT] = "a.service2";
	assert_answer(POLICY_REJECT, 4);
	/* The client is in no unit, so not even '*' matches. */
	question.workload[WORKLOAD_UNIT] = "";
	assert_answer(POLICY_REJECT, 0);
	/* The unit is not known, so a reject rule that possibly matches decides. */
	question.workload[WORKLOAD_UNIT] = NULL;
	assert_answer(POLICY_REJECT, 4);
	question.early = true;
	assert_answer(POLICY_DEFER, 1);
}
END_TEST

START_TEST(containers)
{
	load("allow session container web\nallow session container user-1000/*\n"
	     "allow session container *\nallow session pod 0a1b*\nallow session job 7\n"
	     "reject session container user-*/*\nallow session job *");
	for (int i = 0; i < _WORKLOAD_MAX; i++)
		question.workload[i] = "";
	assert_answer(POLICY_REJECT, 0);
	question.workload[WORKLOAD_CONTAINER] = "web";
	assert_answer(POLICY_ALLOW, 1);
	question.workload[WORKLOAD_CONTAINER] = "user-1000/web";
	assert_answer(POLICY_ALLOW, 2);
	question.workload[WORKLOAD_CONTAINER] = "web2";
	assert_answer(POLICY_ALLOW, 3);
	/* A wildcard matches no slash, so "*" does not match what a user has named. */
	question.workload[WORKLOAD_CONTAINER] = "user-1001/web";
	assert_answer(POLICY_REJECT, 6);
	question.workload[WORKLOAD_CONTAINER] = "";
	question.workload[WORKLOAD_POD] = "0a1b-2c";
	assert_answer(POLICY_ALLOW, 4);
	question.workload[WORKLOAD_POD] = "user-5/0a1b";
	assert_answer(POLICY_REJECT, 0);
	question.workload[WORKLOAD_JOB] = "7";
	assert_answer(POLICY_ALLOW, 5);
	question.workload[WORKLOAD_JOB] = "77";
	assert_answer(POLICY_ALLOW, 7);
	/* Not known: an allow rule does not match, and a reject rule does. */
	question.workload[WORKLOAD_CONTAINER] = NULL;
	assert_answer(POLICY_REJECT, 6);
	question.early = true;
	assert_answer(POLICY_DEFER, 1);
}
END_TEST

START_TEST(control_groups)
{
	load("allow session cgroup /system.slice/a.service\n"
	     "allow session cgroup /machine.slice/libpod-*.scope\n"
	     "allow session cgroup /user.slice/*/user@1000.service\nreject session cgroup /");
	question.workload[WORKLOAD_CGROUP] = "/system.slice/a.service";
	assert_answer(POLICY_ALLOW, 1);
	/* What is below matches too, but not what has a longer name. */
	question.workload[WORKLOAD_CGROUP] = "/system.slice/a.service/below/it";
	assert_answer(POLICY_ALLOW, 1);
	question.workload[WORKLOAD_CGROUP] = "/system.slice/a.service2";
	assert_answer(POLICY_REJECT, 4);
	question.workload[WORKLOAD_CGROUP] = "/machine.slice/libpod-12.scope/container";
	assert_answer(POLICY_ALLOW, 2);
	question.workload[WORKLOAD_CGROUP] = "/user.slice/u.slice/user@1000.service/app.slice";
	assert_answer(POLICY_ALLOW, 3);
	/* A wildcard matches no slash. */
	question.workload[WORKLOAD_CGROUP] = "/user.slice/a/b/user@1000.service";
	assert_answer(POLICY_REJECT, 4);
	question.workload[WORKLOAD_CGROUP] = "/x/machine.slice/libpod-12.scope";
	assert_answer(POLICY_REJECT, 4);
	question.workload[WORKLOAD_CGROUP] = NULL;
	assert_answer(POLICY_REJECT, 4);
}
END_TEST

START_TEST(private_data)
{
	load("allow accept data \"NVMe\"\nallow accept data 0x00ff\nreject accept data 0x00");
	ask(POLICY_ACCEPT);
	assert_answer(POLICY_REJECT, 3);
	question.early = true;
	assert_answer(POLICY_DEFER, 1);
	/* The request is known to have no private data. */
	question.knows_data = true;
	assert_answer(POLICY_REJECT, 0);
	question.early = false;
	assert_answer(POLICY_REJECT, 0);
	question.data = "NVMe and more";
	question.data_len = 13;
	assert_answer(POLICY_ALLOW, 1);
	question.data_len = 4;
	assert_answer(POLICY_ALLOW, 1);
	question.data_len = 3;
	assert_answer(POLICY_REJECT, 0);
	question.data = "\0\xff\0";
	assert_answer(POLICY_ALLOW, 2);
	question.data = "\0\xfe\0";
	assert_answer(POLICY_REJECT, 3);
}
END_TEST

START_TEST(administration)
{
	load("reject admin user 1000\nallow admin group 200\nallow connect peer 10.0.0.0/8");
	ask(POLICY_ADMIN);
	assert_answer(POLICY_REJECT, 1);
	question.uid = 5;
	assert_answer(POLICY_ALLOW, 2);
	question.n_gids = 1;
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

/* A rule for "any" allows neither observe nor admin, and a rule for observe does not allow admin. */
START_TEST(observe_and_admin_are_always_named)
{
	load("allow any");
	ask(POLICY_OBSERVE);
	assert_answer(POLICY_REJECT, 0);
	ask(POLICY_ADMIN);
	assert_answer(POLICY_REJECT, 0);
	load("reject any\nallow observe user 1000");
	ask(POLICY_OBSERVE);
	assert_answer(POLICY_ALLOW, 2);
	ask(POLICY_ADMIN);
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

START_TEST(any_covers_the_operations_that_its_matches_fit)
{
	load("allow any user 1000 tos 8 backlog 5");
	for (int i = 0; i < POLICY_OBSERVE; i++) {
		ask(i);
		assert_answer(POLICY_ALLOW, 1);
	}

	load("reject any peer 10.0.0.0/8\nallow any");
	for (int i = 0; i < POLICY_OBSERVE; i++) {
		bool has_peer = i == POLICY_CONNECT || i == POLICY_ACCEPT || i == POLICY_JOIN;

		ask(i);
		assert_answer(has_peer ? POLICY_REJECT : POLICY_ALLOW, has_peer ? 1 : 2);
	}

	load("reject any port 5 device x\nallow any");
	for (int i = 0; i < POLICY_OBSERVE; i++) {
		bool fits = i == POLICY_LISTEN || i == POLICY_CONNECT || i == POLICY_ACCEPT;

		ask(i);
		assert_answer(fits ? POLICY_REJECT : POLICY_ALLOW, fits ? 1 : 2);
	}
}
END_TEST

START_TEST(early_answers)
{
	ask(POLICY_CONNECT);
	question.early = true;
	question.port = 80;

	load("allow connect");
	assert_answer(POLICY_ALLOW, 1);
	load("allow connect peer 10.0.0.0/8");
	assert_answer(POLICY_DEFER, 1);
	/* The request will be allowed, but the settings are not certain. */
	load("allow connect peer 10.0.0.0/8 tos 1\nallow connect");
	assert_answer(POLICY_DEFER, 1);
	load("reject connect peer 10.0.0.0/8\nallow connect");
	assert_answer(POLICY_DEFER, 1);
	load("reject connect peer 10.0.0.0/8\nallow connect peer 11.0.0.0/8\nreject connect");
	assert_answer(POLICY_DEFER, 1);
	/* The request is rejected in any case. */
	load("reject connect peer 10.0.0.0/8");
	assert_answer(POLICY_REJECT, 1);
	load("reject connect peer 10.0.0.0/8\nreject connect\nallow connect");
	assert_answer(POLICY_REJECT, 1);
	load("reject connect peer 10.0.0.0/8\nallow connect port 81\nreject connect device x");
	assert_answer(POLICY_REJECT, 1);
	/* A match that certainly fails excludes the rule, whatever else is unknown. */
	load("allow connect peer 10.0.0.0/8 port 81 device x");
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

START_TEST(final_answers)
{
	ask(POLICY_CONNECT);
	load("allow connect peer 10.0.0.0/8\nallow connect user 1000");
	assert_answer(POLICY_ALLOW, 2);
	load("allow connect user 1000 peer 10.0.0.0/8\nreject connect user 1000 device x\n"
	     "allow connect");
	assert_answer(POLICY_REJECT, 2);
}
END_TEST

/*
 * The tests below use random rules and questions. naive_decide() is a simple scan of all rules, written after the
 * description in policy.h.
 */

enum { NO, MAYBE, YES };

struct naive_rule {
	bool allow;
	int operation;
	int uid, gid, ps; /* -1: not named */
	int first_port, last_port; /* -1: not named */
	int local, peer; /* index of prefixes; -1: not named */
	const char *device;
};

static const struct {
	const char *text;
	const char *start; /* the addresses[] in this prefix begin with this text */
} prefixes[] = {
	{ "10.1.0.0/16", "10.1." }, { "10.0.0.0/8", "10." },
	{ "10.1.2.3", "10.1.2.3" }, { "::ffff:10.2.0.0/112", "10.2." },
	{ "fd00::/16", "fd00:" },   { "@s", NULL }, /* the set { 10.1.0.0/16, fd00::/16 } */
};

static const char *const addresses[] = { "10.1.2.3", "10.1.9.9", "10.2.0.1",
					 "11.0.0.1", "fd00::1",  "fe80::1" };
static const char *const globs[] = { "rxe*", "mlx5_?", "rxe1" };
static const char *const devices[] = { "rxe0", "rxe1", "mlx5_0", "other" };
static const int port_spaces[] = { RDMA_PS_TCP, RDMA_PS_UDP };
static const char *const operations[] = { "session", "device",  "listen", "connect", "accept",
					  "join",    "observe", "admin",  "any" };

/* The facts of a question as indices; -1: not known. */
struct naive_question {
	int operation, uid, n_gids;
	int local, peer; /* indices of addresses */
	bool is_mapped; /* IPv4 addresses are given as IPv4-mapped IPv6 addresses */
	int device; /* index of devices */
	int ps; /* index of port_spaces */
	int port;
};

static bool starts_with(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

static int naive_address(int which, int known)
{
	if (which < 0)
		return YES;
	if (known < 0)
		return MAYBE;
	if (!prefixes[which].start)
		return starts_with(addresses[known], "10.1.") ||
				       starts_with(addresses[known], "fd00:") ?
			       YES :
			       NO;
	return starts_with(addresses[known], prefixes[which].start) ? YES : NO;
}

static int naive_match(const struct naive_rule *rule, const struct naive_question *q)
{
	int all = YES, some[7], n = 0;
	bool is_cm = q->operation >= POLICY_LISTEN && q->operation <= POLICY_JOIN;

	if (rule->operation == _POLICY_OPERATION_MAX ? q->operation >= POLICY_OBSERVE :
						       rule->operation != q->operation)
		return NO;
	if ((rule->local >= 0 || rule->first_port >= 0 || rule->ps >= 0) && !is_cm)
		return NO;
	if (rule->first_port >= 0 && q->operation == POLICY_JOIN)
		return NO;
	if (rule->peer >= 0 && q->operation != POLICY_CONNECT && q->operation != POLICY_ACCEPT &&
	    q->operation != POLICY_JOIN)
		return NO;
	if (rule->device && (q->operation == POLICY_SESSION || q->operation >= POLICY_OBSERVE))
		return NO;

	some[n++] = rule->uid < 0 || rule->uid == q->uid ? YES : NO;
	some[n++] = rule->gid < 0 ? YES : NO;
	for (int i = 0; i < q->n_gids; i++)
		if (rule->gid == (int)gids[i])
			some[1] = YES;
	some[n++] = naive_address(rule->local, q->local);
	some[n++] = naive_address(rule->peer, q->peer);
	some[n++] = rule->first_port < 0                                      ? YES :
		    q->port < 0                                               ? MAYBE :
		    q->port >= rule->first_port && q->port <= rule->last_port ? YES :
										NO;
	some[n++] = !rule->device                                 ? YES :
		    q->device < 0                                 ? MAYBE :
		    !fnmatch(rule->device, devices[q->device], 0) ? YES :
								    NO;
	some[n++] = rule->ps < 0 ? YES : q->ps < 0 ? MAYBE : rule->ps == q->ps ? YES : NO;
	for (int i = 0; i < n; i++)
		all = some[i] < all ? some[i] : all;
	return all;
}

/* *RET_RULE becomes the index of the rule that decides; -1: none. */
static enum policy_answer naive_decide(const struct naive_rule *rules, int n,
				       const struct naive_question *q, bool early, int *ret_rule)
{
	*ret_rule = -1;
	for (int i = 0; i < n; i++) {
		int m = naive_match(&rules[i], q);

		if (m == NO || (m == MAYBE && !early && rules[i].allow))
			continue;
		*ret_rule = i;
		if (m == YES || !early)
			return rules[i].allow ? POLICY_ALLOW : POLICY_REJECT;

		/* Try all rules that can still decide. The first one that certainly matches ends the loop. */
		for (int k = i; k < n; k++) {
			m = naive_match(&rules[k], q);
			if (m != NO && rules[k].allow)
				return POLICY_DEFER;
			if (m == YES)
				break;
		}
		return POLICY_REJECT;
	}
	return POLICY_REJECT;
}

static int pick(int n)
{
	return random() % n;
}

/* Returns -1 in three of four cases, else a random number below N. */
static int seldom(int n)
{
	return pick(4) ? -1 : pick(n);
}

static struct naive_rule random_rule(void)
{
	struct naive_rule rule = { .allow = pick(3) > 0,
				   .operation = pick(_POLICY_OPERATION_MAX + 1) };
	int operation = rule.operation;
	bool is_any = operation == _POLICY_OPERATION_MAX;
	bool is_cm = operation >= POLICY_LISTEN && operation <= POLICY_JOIN;

	rule.uid = pick(4) ? -1 : 1000 + pick(2);
	rule.gid = pick(4) ? -1 : (int)gids[pick(3)];
	rule.local = rule.peer = rule.first_port = rule.last_port = rule.ps = -1;
	if (is_cm) {
		rule.local = seldom(6);
		rule.first_port = operation == POLICY_JOIN ? -1 : seldom(10);
		rule.ps = seldom(2);
	}
	if (rule.first_port >= 0) {
		rule.first_port++;
		rule.last_port = rule.first_port + pick(5);
	}
	if (operation == POLICY_CONNECT || operation == POLICY_ACCEPT || operation == POLICY_JOIN ||
	    is_any)
		rule.peer = seldom(6);
	if (operation != POLICY_SESSION && operation != POLICY_OBSERVE &&
	    operation != POLICY_ADMIN && !pick(6))
		rule.device = globs[pick(3)];
	return rule;
}

static void print_rule(FILE *f, const struct naive_rule *rule)
{
	fprintf(f, "%s %s", rule->allow ? "allow" : "reject", operations[rule->operation]);
	if (rule->peer >= 0)
		fprintf(f, " peer %s", prefixes[rule->peer].text);
	if (rule->uid >= 0)
		fprintf(f, " user 5,%d,7", rule->uid);
	if (rule->gid >= 0)
		fprintf(f, " group %d", rule->gid);
	if (rule->device)
		fprintf(f, " device %s", rule->device);
	if (rule->local >= 0)
		fprintf(f, " local %s", prefixes[rule->local].text);
	if (rule->ps >= 0)
		fprintf(f, " ps %s", rule->ps ? "udp" : "tcp");
	if (rule->first_port >= 0)
		fprintf(f, " port 4000,%d-%d", rule->first_port, rule->last_port);
	fputc('\n', f);
}

static struct naive_question random_question(void)
{
	return (struct naive_question){
		.operation = pick(_POLICY_OPERATION_MAX),
		.uid = 1000 + pick(3),
		.n_gids = pick(4),
		.local = pick(2) ? -1 : pick(6),
		.peer = pick(2) ? -1 : pick(6),
		.is_mapped = pick(2),
		.device = pick(2) ? -1 : pick(4),
		.ps = pick(2) ? -1 : pick(2),
		.port = pick(2) ? -1 : 1 + pick(15),
	};
}

static const struct sockaddr *naive_sockaddr(const struct naive_question *q, int which)
{
	char text[64];

	if (which < 0)
		return pick(2) ? NULL : address(pick(2) ? "::" : "0.0.0.0");
	if (!q->is_mapped || strchr(addresses[which], ':'))
		return address(addresses[which]);
	snprintf(text, sizeof(text), "::ffff:%s", addresses[which]);
	return address(text);
}

static void put_question(const struct naive_question *q, bool early)
{
	question = (struct policy_question){
		.operation = q->operation,
		.early = early,
		.uid = q->uid,
		.gids = gids,
		.n_gids = q->n_gids,
		.local = naive_sockaddr(q, q->local),
		.peer = naive_sockaddr(q, q->peer),
		.port = q->port < 0 && pick(2) ? 0 : q->port,
		.device = q->device < 0 ? NULL : devices[q->device],
		.port_space = q->ps < 0 ? 0 : port_spaces[q->ps],
	};
	policy_decide(policy, &question, &verdict);
}

#define RULES_MAX 24

static int load_random_rules(struct naive_rule *rules)
{
	int n = 1 + pick(RULES_MAX);
	char *text;
	size_t size;
	FILE *f;

	f = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(f);
	fputs("set t = { 10.1.0.0/16 }\nset s = { fd00::/16, @t, 10.1.2.0/24 }\n", f);
	for (int i = 0; i < n; i++) {
		rules[i] = random_rule();
		print_rule(f, &rules[i]);
	}
	fclose(f);
	load(text);
	ck_assert_uint_eq(policy_n_rules(policy), n);
	free(text);
	return n;
}

START_TEST(a_scan_decides_the_same)
{
	struct naive_rule rules[RULES_MAX];
	int seen[3] = { 0 };

	srandom(2);
	for (int round = 0; round < 1000; round++) {
		int n = load_random_rules(rules);

		for (int i = 0; i < 20; i++) {
			struct naive_question q = random_question();
			bool early = pick(2);
			enum policy_answer expected;
			int rule;

			expected = naive_decide(rules, n, &q, early, &rule);
			put_question(&q, early);
			ck_assert_int_eq(verdict.answer, expected);
			ck_assert_ptr_eq(verdict.rule,
					 rule < 0 ? NULL : policy_rule_at(policy, rule));
			seen[expected]++;
		}
	}
	/* Each decision must be frequent, otherwise the random questions test little. */
	for (int i = 0; i < 3; i++)
		ck_assert_int_gt(seen[i], 1000);
}
END_TEST

/* An early decision other than "defer" is final, whatever the unknown facts are. */
START_TEST(early_answers_hold)
{
	struct naive_rule rules[RULES_MAX];
	int n_checked = 0;

	srandom(3);
	for (int round = 0; round < 500; round++) {
		load_random_rules(rules);
		for (int i = 0; i < 20; i++) {
			struct naive_question q = random_question(), full;
			struct policy_verdict early;

			put_question(&q, true);
			early = verdict;
			if (early.answer == POLICY_DEFER)
				continue;
			for (int k = 0; k < 10; k++) {
				full = random_question();
				full.operation = q.operation;
				full.uid = q.uid;
				full.n_gids = q.n_gids;
				full.local = q.local >= 0 ? q.local : pick(6);
				full.peer = q.peer >= 0 ? q.peer : pick(6);
				full.device = q.device >= 0 ? q.device : pick(4);
				full.ps = q.ps >= 0 ? q.ps : pick(2);
				full.port = q.port >= 0 ? q.port : 1 + pick(15);
				put_question(&full, false);
				ck_assert_int_eq(verdict.answer, early.answer);
				if (early.answer == POLICY_ALLOW)
					ck_assert_ptr_eq(verdict.rule, early.rule);
				n_checked++;
			}
		}
	}
	ck_assert_int_gt(n_checked, 10000);
}
END_TEST

UNIT_MAIN("policy_decide", set_up, tear_down, nothing_is_allowed_by_default,
	  the_first_match_decides, reasons, users_and_groups, ports, addresses_and_sets,
	  wildcard_addresses_are_unknown, addresses_of_other_families_are_unknown, device_patterns,
	  each_port_space, units, containers, control_groups, private_data, administration,
	  observe_and_admin_are_always_named, any_covers_the_operations_that_its_matches_fit,
	  early_answers, final_answers, a_scan_decides_the_same, early_answers_hold)
