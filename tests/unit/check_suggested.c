/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * An adversary chooses what is refused, and an admin puts in force what is suggested of it. The daemon's own table has the
 * requests, and its evaluator asks the rules: they allow nothing that was not requested. SEED=N repeats a run, and ROUNDS=N
 * sets its length.
 */

#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "client/ctl/suggestion.h"
#include "core/admit/refused.h"
#include "core/object/core.h"
#include "core/object/session.h"
#include "tests/unit/randompolicy.h"
#include "tests/unit/unit.h"
#include "util/diag.h"

#define ROUNDS 300
#define REQUESTS_MAX 400
#define VICTIM 1000
#define ADVERSARY 1001
#define STRANGER 1002
#define CRON "cron.service"
#define PORT 7471

struct request {
	enum policy_operation operation;
	uid_t uid;
	const char *unit;
	int port;
	uint32_t peer;
};

static struct core core;
static struct request requests[REQUESTS_MAX];
static size_t n_requests;

/* What was tested. If a count is 0, the run proves nothing about that. */
static struct {
	unsigned long requests, rules, comments, allowed, refused;
} count;

static const char *user_name(uint32_t uid)
{
	return NULL;
}

/* All are in it, and the stranger is, too. */
static const char *group_name(const uint32_t *uids, size_t n, const uint32_t *gids, size_t n_gids)
{
	return "daemon";
}

static const struct suggestion_options options = {
	.peer_prefix = 32,
	.peer_prefix6 = 128,
	.first_port = 32768,
	.last_port = 60999,
	.user_name = user_name,
	.group_name = group_name,
};

static void fill_question(struct policy_question *ret, struct sockaddr_in *addr, gid_t *gid,
			  const struct request *request)
{
	*gid = 1;
	*addr = (struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(request->peer) };
	*ret = (struct policy_question){
		.operation = request->operation,
		.uid = request->uid,
		.gids = gid,
		.n_gids = 1,
		.port = request->port,
		.peer = (struct sockaddr *)addr,
		.workload = { [WORKLOAD_UNIT] = request->unit,
			      [WORKLOAD_CGROUP] = "/",
			      [WORKLOAD_CONTAINER] = "",
			      [WORKLOAD_POD] = "",
			      [WORKLOAD_JOB] = "" },
		.knows_data = true,
	};
}

/* It is refused, because no rule matches it. */
static void request(enum policy_operation operation, uid_t uid, const char *unit, int port,
		    uint32_t peer)
{
	struct policy_verdict verdict = { .answer = POLICY_REJECT, .reason = "no-rule" };
	struct request *new = &requests[n_requests++];
	struct session session = { .core = &core };
	struct intent intent = {};
	struct sockaddr_in addr;
	gid_t gid;

	ck_assert_uint_le(n_requests, REQUESTS_MAX);
	*new = (struct request){ operation, uid, unit, port, peer };
	fill_question(&intent.question, &addr, &gid, new);
	session.identity.uid = uid;
	session.identity.gids = &gid;
	session.identity.n_gids = 1;
	session.identity.pid = getpid();
	session.identity.workload.names[WORKLOAD_UNIT] = (char *)unit;
	refused_note(&session, &intent, &verdict, NULL);
}

/* The rules that are suggested. The caller frees them. */
static char *suggest(size_t *ret_size)
{
	static struct rdmabroker_refusal rows[REQUESTS_MAX];
	struct rdmabroker_refusals table = { .list = rows };
	const struct ledger_refused *from;
	char *text;
	FILE *file = open_memstream(&text, ret_size);

	for (uint64_t at = 0; (from = core_refused_from(&core, at)); at = from->number + 1) {
		struct rdmabroker_refusal *row = &rows[table.n++];
		struct sockaddr_in *peer = (struct sockaddr_in *)&row->peer;

		*row = (struct rdmabroker_refusal){
			.operation =
				policy_operation_to_string((enum policy_operation)from->operation),
			.outcome = "no-rule",
			.who = { .uid = from->uid,
				 .unit = from->unit[0] ? from->unit : NULL,
				 .gids = from->gids,
				 .n_gids = from->n_gids },
			.port = from->port,
			.peer_prefix = from->peer.bits,
			.name = from->name,
			.count = from->n,
		};
		peer->sin_family = AF_INET;
		memcpy(&peer->sin_addr, from->peer.address, 4);
	}
	suggestion_print_rules(file, &table, &options);
	ck_assert_int_eq(fclose(file), 0);
	for (size_t i = 0; i < *ret_size; i++)
		ck_assert_msg(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'), "%s", text);
	return text;
}

static bool is_allowed(const struct policy *policy, const struct request *request)
{
	struct policy_question question;
	struct policy_verdict verdict;
	struct sockaddr_in addr;
	gid_t gid;

	fill_question(&question, &addr, &gid, request);
	policy_decide(policy, &question, &verdict);
	return verdict.answer == POLICY_ALLOW;
}

/* A unit that is no service has another name the next time, and no rule names it. */
static bool was_seen(const struct request *asked)
{
	for (size_t i = 0; i < n_requests; i++) {
		const struct request *seen = &requests[i];

		if (seen->operation == asked->operation && seen->uid == asked->uid &&
		    seen->port == asked->port &&
		    (strcmp(seen->unit, CRON) != 0 || strcmp(asked->unit, CRON) == 0) &&
		    (seen->operation == POLICY_LISTEN || seen->peer == asked->peer))
			return true;
	}
	return false;
}

static void ask(const struct policy *policy, const char *rules, const struct request *asked)
{
	bool allowed = is_allowed(policy, asked);

	count.allowed += allowed;
	count.refused += !allowed;
	if (!allowed || was_seen(asked))
		return;
	fputs(rules, stderr);
	ck_abort_msg("operation %d uid %u unit %s port %d peer %08x is allowed, but was never seen",
		     asked->operation, asked->uid, asked->unit, asked->port, asked->peer);
}

static uint32_t random_address(void)
{
	return (uint32_t)pick(1 << 16) << 16 | (uint32_t)pick(1 << 16);
}

/* What is near to REQUEST: one fact is another. */
static struct request another(const struct request *request)
{
	struct request ret = *request;

	switch (pick(6)) {
	case 0:
		ret.operation = ret.operation == POLICY_ACCEPT ? POLICY_CONNECT : POLICY_ACCEPT;
		break;
	case 1:
		ret.uid = one_in(2) ? STRANGER : ret.uid == VICTIM ? ADVERSARY : VICTIM;
		break;
	case 2:
		ret.unit = strcmp(ret.unit, CRON) == 0 ? "session-9.scope" : CRON;
		break;
	case 3:
		ret.port += one_in(2) ? 1 : -1;
		break;
	case 4:
		ret.peer ^= 1u << pick(32);
		break;
	default:
		ret.peer = random_address();
	}
	return ret;
}

static void put_in_force(void)
{
	struct policy *policy = NULL;
	struct diag *diag;
	size_t size;
	char *rules = suggest(&size);

	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_msg(policy_load_text(&policy, "suggested", rules, size, diag) == 0 &&
			      !complaints_at(&diag->errors, 0),
		      "%s\n%s", complaints_at(&diag->errors, 0), rules);
	for (size_t i = 0; i < n_requests; i++) {
		ask(policy, rules, &requests[i]);
		for (int k = 0; k < 20; k++) {
			const struct request asked = another(&requests[i]);

			ask(policy, rules, &asked);
		}
	}
	count.requests += n_requests;
	count.rules += policy_n_rules(policy);
	count.comments += strstr(rules, "# No rule allows these") != NULL;
	policy_unref(policy);
	diag_free(diag);
	free(rules);
}

static void begin(void)
{
	core = (struct core){ 0 };
	n_requests = 0;
	ck_assert_int_eq(refused_new(&core.refused), 0);
}

static void end(void)
{
	core.refused = refused_free(core.refused);
}

/* 24 hosts that somebody else has chosen: each third of the addresses is in a prefix that holds them. */
START_TEST(peers_from_everywhere)
{
	size_t size;
	char *rules;

	begin();
	for (uint32_t i = 0; i < 24; i++)
		request(POLICY_ACCEPT, VICTIM, "", PORT, (i % 8) << 29 | i / 8 << 27 | 1);
	rules = suggest(&size);
	ck_assert_msg(strstr(rules, "\n#   0.0.0.0/3 32.0.0.0/3 "), "%s", rules);
	ck_assert_msg(strstr(rules, "\n# allow accept user 1000 peer ADDRESS port 7471\n"), "%s",
		      rules);
	ck_assert_msg(!strstr(rules, "\nallow"), "%s", rules);
	free(rules);
	put_in_force();
	end();
}
END_TEST

/* Two users of a service that runs programs of all users. */
START_TEST(a_unit_of_many_users)
{
	size_t size;
	char *rules;

	begin();
	request(POLICY_CONNECT, VICTIM, CRON, PORT, 0x0a000001);
	request(POLICY_CONNECT, ADVERSARY, CRON, PORT, 0x0a000001);
	rules = suggest(&size);
	ck_assert_msg(strstr(rules, "\nallow connect user 1000,1001 unit cron.service peer "
				    "10.0.0.1/32 port 7471\n"),
		      "%s", rules);
	/* The group would allow the stranger, too. */
	ck_assert_msg(strstr(rules, "\n# All these users are in a group: with its other members "
				    "it is \"group daemon\".\n"),
		      "%s", rules);
	free(rules);
	put_in_force();
	end();
}
END_TEST

/* The adversary chooses peers of the victim, near to each other or far, and what he requests himself; and his name. */
START_TEST(random_adversary)
{
	static const char *const units[] = { CRON, "session-1.scope", "" };
	static const char *const names[] = { "\xef\xbb\xbfrping", "\xe2\x80\xaegnipr", "x\ny",
					     "\033[2J\xff" };
	unsigned long rounds = number_from("ROUNDS", ROUNDS / SLOWER);

	random_state = number_from("SEED", 1);
	for (unsigned long i = 0; i < rounds; i++) {
		uint32_t near = random_address(), mask = UINT32_MAX >> pick(32);
		int n = 1 + pick(one_in(2) ? 12 : 60);

		begin();
		prctl(PR_SET_NAME, names[pick(4)]);
		request(POLICY_LISTEN, VICTIM, units[pick(3)], PORT, 0);
		for (int k = 0; k < n; k++)
			request(POLICY_ACCEPT, VICTIM, units[pick(3)], PORT,
				near ^ (random_address() & mask));
		for (int k = 0; k < n; k++)
			request(POLICY_CONNECT, one_in(4) ? VICTIM : ADVERSARY, units[pick(3)],
				PORT + pick(2), near ^ (random_address() & mask));
		put_in_force();
		end();
	}
	printf("%lu requests: %lu rules, %lu times prefixes; %lu questions allowed, %lu refused\n",
	       count.requests, count.rules, count.comments, count.allowed, count.refused);
	ck_assert_uint_gt(count.rules, 0);
	ck_assert_uint_gt(count.comments, 0);
	ck_assert_uint_gt(count.allowed, count.requests / 10);
	ck_assert_uint_gt(count.refused, count.requests);
}
END_TEST

UNIT_MAIN("suggested", NULL, NULL, peers_from_everywhere, a_unit_of_many_users, random_adversary)
