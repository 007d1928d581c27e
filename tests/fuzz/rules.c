/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/rules.h"
#include "policy/shadow.h"
#include "policy/trial.h"
#include "policy/words.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/oracle.h"
#include "util/diag.h"

/*
 * The input is a file of rules. The policy must decide as a scan of all rules does. The text reported for a rule must
 * parse to the same rule. A rule of which is said that it never decides does not.
 */

#define QUESTIONS 24
#define TEXTS 8

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

static struct policy *load(const char *text, size_t len)
{
	struct policy *policy = NULL;
	struct diag *diag;
	int r;

	must(diag_new(&diag) == 0);
	r = policy_load_text(&policy, "t", text, len, diag);
	must((r == 0) == (diag->errors.n == 0));
	must((r == 0) == (policy != NULL));
	for (size_t i = 0; complaints_at(&diag->errors, i); i++)
		must(strlen(complaints_at(&diag->errors, i)) > 0);
	diag_free(diag);
	return policy;
}

/* Returns a match of type WORD; NULL: none. A question with the match's value can match the rule. */
static const struct policy_match *pick_match(const struct policy *policy, const char *word,
					     unsigned nth)
{
	for (size_t i = 0; policy->n_matches && i < policy->n_matches; i++) {
		const struct policy_match *match = &policy->matches[(i + nth) % policy->n_matches];

		if (strcmp(match->word->name, word) == 0)
			return match;
	}
	return NULL;
}

struct facts {
	struct sockaddr_storage local, peer;
	gid_t gids[4];
	char device[32], unit[32], peer_unit[32];
	struct policy_peer who;
	gid_t peer_gid;
};

static const struct sockaddr *pick_address(const struct policy *policy, const char *word,
					   struct input *input, struct sockaddr_storage *ret)
{
	const struct policy_match *match = pick_match(policy, word, take(input));
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	const struct prefix *prefix;
	unsigned change = take_digit(input);

	memset(ret, 0, sizeof(*ret));
	if (change == 15)
		return NULL;
	if (!match || match->value.prefixes->n == 0) {
		in->sin_family = AF_INET;
		in->sin_addr.s_addr = htonl(0x0a000000 + change);
		return (struct sockaddr *)ret;
	}
	prefix = &match->value.prefixes->prefixes[change % match->value.prefixes->n];
	if (prefix->family == 4) {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, prefix->address, 4);
		((uint8_t *)&in->sin_addr)[3] ^= change & 3;
	} else {
		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, prefix->address, 16);
		in6->sin6_addr.s6_addr[15] ^= change & 3;
	}
	return (struct sockaddr *)ret;
}

static uint32_t pick_id(const struct policy *policy, const char *word, struct input *input)
{
	const struct policy_match *match = pick_match(policy, word, take(input));

	return match && match->value.ids->n ?
		       match->value.ids->ids[take(input) % match->value.ids->n] :
		       take(input);
}

/* Who the peer is; NULL: not known. */
static const struct policy_peer *pick_who(const struct policy *policy, struct input *input,
					  struct facts *facts)
{
	const struct policy_match *match = pick_match(policy, "peer-unit", take(input));
	unsigned known = take_digit(input);

	if (!(known & 1))
		return NULL;
	facts->peer_gid = pick_id(policy, "peer-group", input);
	facts->who = (struct policy_peer){
		.uid = pick_id(policy, "peer-user", input),
		.gids = &facts->peer_gid,
		.n_gids = 1,
	};
	if (!(known & 2))
		return &facts->who;
	strncpy(facts->peer_unit, match ? match->value.glob : "x.service",
		sizeof(facts->peer_unit) - 1);
	facts->who.workload[WORKLOAD_UNIT] = facts->peer_unit;
	facts->who.workload[WORKLOAD_JOB] = known & 4 ? "7" : "";
	return &facts->who;
}

static void make_question(const struct policy *policy, struct input *input, struct facts *facts,
			  struct policy_question *ret)
{
	static const int spaces[] = { 0, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB };
	const struct policy_match *match;
	unsigned known = take(input);

	*ret = (struct policy_question){
		.operation = take(input) % _POLICY_OPERATION_MAX,
		.early = known & 1,
		.uid = pick_id(policy, "user", input),
		.gids = facts->gids,
		.n_gids = take_digit(input) % 5,
		.local = pick_address(policy, "local", input, &facts->local),
		.peer = pick_address(policy, "peer", input, &facts->peer),
		.port = -1,
		.port_space = spaces[take(input) % 5],
	};
	for (size_t i = 0; i < ret->n_gids; i++)
		facts->gids[i] = pick_id(policy, "group", input);
	policy_sort_gids(facts->gids, ret->n_gids);
	match = pick_match(policy, "port", take(input));
	if (known & 2)
		ret->port = match ? match->value.ports->ranges[0].last + (known >> 7) : 4711;
	match = pick_match(policy, "device", take(input));
	if (known & 4) {
		strncpy(facts->device, match ? match->value.glob : "mlx5_0",
			sizeof(facts->device) - 1);
		ret->device = facts->device;
	}
	match = pick_match(policy, "unit", take(input));
	if (known & 8) {
		strncpy(facts->unit, match ? match->value.glob : "x.service",
			sizeof(facts->unit) - 1);
		ret->workload[WORKLOAD_UNIT] = facts->unit;
	}
	match = pick_match(policy, "data", take(input));
	if (known & 16) {
		ret->knows_data = true;
		ret->data = match && known & 32 ? match->value.data->bytes : NULL;
		ret->data_len = ret->data ? match->value.data->len : 0;
	}
	match = pick_match(policy, "pkey", take(input));
	if (match && known & 32) {
		ret->pkey = match->value.ports->ranges[0].first;
		ret->names_pkey = known & 16;
	}
	if (!policy_asks(policy))
		return;
	ret->workload[WORKLOAD_JOB] = known & 64 ? "7" : NULL;
	ret->can_ask = take_digit(input) & 1;
	ret->assume_who = take_digit(input) & 1;
	ret->who = pick_who(policy, input, facts);
}

static bool never_decides(const struct policy *policy, size_t rule)
{
	size_t steps = SHADOW_STEPS, by;

	return shadow_find(policy, rule, &steps, &by) == SHADE_ALWAYS;
}

static void ask(const struct policy *policy, const struct oracle *oracle, struct input *input)
{
	struct policy_verdict fast, slow;
	struct policy_question question;
	struct facts facts = { 0 };

	make_question(policy, input, &facts, &question);
	policy_decide(policy, &question, &fast);
	oracle_decide(oracle, &question, &slow);
	must(fast.answer == slow.answer);
	must(fast.rule == slow.rule);
	must(strcmp(fast.reason ?: "", slow.reason ?: "") == 0);
	must(fast.answer != POLICY_DEFER || question.early);
	must(fast.answer != POLICY_ASK ||
	     (question.can_ask && !question.who && !question.assume_who && policy_asks(policy)));
	must(fast.answer != POLICY_REJECT || fast.reason);
	must(!fast.rule || !never_decides(policy, fast.rule->index));
}

static bool is_same_value(const struct policy_match *a, const struct policy_match *b)
{
	const char *name = a->word->name;
	size_t n;

	if (strcmp(name, "user") == 0 || strcmp(name, "group") == 0 ||
	    strcmp(name, "peer-user") == 0 || strcmp(name, "peer-group") == 0) {
		n = a->value.ids->n;
		return n == b->value.ids->n &&
		       memcmp(a->value.ids->ids, b->value.ids->ids, n * sizeof(uint32_t)) == 0;
	}
	if (strcmp(name, "local") == 0 || strcmp(name, "peer") == 0) {
		n = a->value.prefixes->n;
		return n == b->value.prefixes->n &&
		       memcmp(a->value.prefixes->prefixes, b->value.prefixes->prefixes,
			      n * sizeof(struct prefix)) == 0;
	}
	if (strcmp(name, "port") == 0 || strcmp(name, "pkey") == 0) {
		n = a->value.ports->n;
		return n == b->value.ports->n &&
		       memcmp(a->value.ports->ranges, b->value.ports->ranges,
			      n * sizeof(a->value.ports->ranges[0])) == 0;
	}
	if (strcmp(name, "data") == 0) {
		n = a->value.data->len;
		return n == b->value.data->len &&
		       memcmp(a->value.data->bytes, b->value.data->bytes, n) == 0;
	}
	if (strcmp(name, "ps") == 0 || strcmp(name, "peer-same") == 0)
		return a->value.number == b->value.number;
	return strcmp(a->value.glob, b->value.glob) == 0;
}

static void compare_rules(const struct policy *a, size_t i, const struct policy *b, size_t k)
{
	const struct policy_condition *x = &a->conditions[i], *y = &b->conditions[k];
	const struct policy_rule *p = &a->rules[i], *q = &b->rules[k];

	must(strcmp(p->text, q->text) == 0);
	must(p->operation == q->operation && p->allow == q->allow && p->log == q->log);
	must(!p->reason == !q->reason && (!p->reason || strcmp(p->reason, q->reason) == 0));
	must(p->names_port == q->names_port);
	must(memcmp(&p->settings, &q->settings, sizeof(p->settings)) == 0);
	must(x->n_matches == y->n_matches && x->operations == y->operations);
	for (unsigned m = 0; m < x->n_matches; m++) {
		must(a->matches[x->first_match + m].word == b->matches[y->first_match + m].word);
		must(is_same_value(&a->matches[x->first_match + m],
				   &b->matches[y->first_match + m]));
	}
}

/*
 * Appends the reported texts of the first rules to TEXT, which defines their sets. They must parse to the same rules.
 */
static void read_again(const struct policy *policy, const char *text, size_t len)
{
	size_t n = policy->n_rules < TEXTS ? policy->n_rules : TEXTS, size = len + 1;
	struct policy *again;
	char *all, *p;

	for (size_t i = 0; i < n; i++)
		size += strlen(policy->rules[i].text) + 1;
	p = all = malloc(size);
	must(all);
	memcpy(p, text, len);
	p += len;
	*p++ = '\n';
	for (size_t i = 0; i < n; i++) {
		p = stpcpy(p, policy->rules[i].text);
		*p++ = '\n';
	}
	again = load(all, size);
	free(all);
	must(again && again->n_rules == policy->n_rules + n);
	for (size_t i = 0; i < n; i++)
		compare_rules(policy, i, again, policy->n_rules + i);
	policy_unref(again);
}

/* The input as tests of a policy. */
static void make_tests(const char *text, size_t size)
{
	static const char rules[] = "allow connect user 1000 peer 10.0.0.0/8 tos 3\n"
				    "reject any unit a* reason \"no\"\nallow any port 1-99\n";
	struct policy *policy = load(rules, sizeof(rules) - 1);
	struct diag *diag;
	size_t n = 0;
	int r;

	must(diag_new(&diag) == 0);
	r = trial_run_text(policy, "t", text, size, &n, diag);
	must((r == 0) == (diag->errors.n == 0));
	must(r == 0 || r == -EBADMSG || r == -EFBIG);
	diag_free(diag);
	policy_unref(policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct input input = { data, size };
	struct oracle *oracle;
	struct policy *policy;

	if (size > 65536)
		return 0;
	make_tests(text, size);
	policy = load(text, size);
	if (!policy)
		return 0;
	oracle = oracle_new(policy);
	for (int i = 0; i < QUESTIONS; i++)
		ask(policy, oracle, &input);
	oracle_free(oracle);
	if (policy->n_rules > 0 && size > 0 && text[size - 1] == '\n')
		read_again(policy, text, size);
	policy_unref(policy);
	return 0;
}
