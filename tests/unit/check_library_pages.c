/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "tests/hooks/hooks.h"
#include "tests/unit/liar.h"

/* A broker that breaks the protocol replies in pages. The calls must end, with bounded memory and time. */

#define PAGES_TIRED 200000 /* after this many pages the broker announces no further page */
#define PAGE_FULL 512 /* number of sessions on a full page */

static unsigned n_pages;

/* Answers with a full page of rules, and announces another page. */
static void answer_with_rules(const Rdmabroker__Request *request)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__ListRulesResult result = RDMABROKER__LIST_RULES_RESULT__INIT;
	Rdmabroker__Rule rule = RDMABROKER__RULE__INIT, *rules[64];
	static char text[201];

	memset(text, 'x', sizeof(text) - 1);
	rule.text = text;
	for (size_t i = 0; i < 64; i++)
		rules[i] = &rule;
	result.rules = rules;
	result.n_rules = 64;
	result.total = n_pages++ < PAGES_TIRED ? UINT32_MAX : 0;
	reply.result_case = RESULT(LIST_RULES);
	reply.list_rules = &result;
	liar_send_reply(request, &reply);
}

START_TEST(rules_without_end)
{
	struct rdmabroker_rules *rules;

	liar_open(0, LIAR_TIMEOUT);
	liar.answer = answer_with_rules;
	ck_assert_int_eq(rdmabroker_get_rules(session, &rules), -EPROTO);
	ck_assert_uint_lt(liar.n_sent, 257 * MIB);
}
END_TEST

static void answer_with_no_rules(const Rdmabroker__Request *request)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__ListRulesResult result = RDMABROKER__LIST_RULES_RESULT__INIT;

	result.total = 1;
	reply.result_case = RESULT(LIST_RULES);
	reply.list_rules = &result;
	liar_send_reply(request, &reply);
}

START_TEST(a_list_that_lacks_rules)
{
	struct rdmabroker_rules *rules;

	liar_open(0, LIAR_TIMEOUT);
	liar.answer = answer_with_no_rules;
	ck_assert_int_eq(rdmabroker_get_rules(session, &rules), -EPROTO);
}
END_TEST

/* Each page advances by A sessions or sections, and by B ids or indices. */
static struct step {
	int a, b;
	size_t n; /* number of entries on the page */
} step;

static void answer_with_a_page(const Rdmabroker__Request *request)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__ListResult list = RDMABROKER__LIST_RESULT__INIT;
	Rdmabroker__ListedSession one = RDMABROKER__LISTED_SESSION__INIT, *sessions[PAGE_FULL];
	Rdmabroker__GetMetricsResult metrics = RDMABROKER__GET_METRICS_RESULT__INIT;
	static char text[8192];
	bool more = n_pages++ < PAGES_TIRED;

	if (request->op_case == OP(LIST)) {
		for (size_t i = 0; i < step.n; i++)
			sessions[i] = &one;
		list.sessions = sessions;
		list.n_sessions = step.n;
		list.more = more;
		list.next_session = request->list->session + (uint64_t)step.a;
		list.next_id = request->list->id + (uint32_t)step.b;
		reply.result_case = RESULT(LIST);
		reply.list = &list;
	} else {
		ck_assert_int_eq(request->op_case, OP(GET_METRICS));
		memset(text, '#', sizeof(text) - 1);
		metrics.text = step.n > 0 ? text : text + sizeof(text) - 1;
		metrics.more = more;
		metrics.next_section = request->get_metrics->section + (uint32_t)step.a;
		metrics.next_index = request->get_metrics->index + (uint32_t)step.b;
		reply.result_case = RESULT(GET_METRICS);
		reply.get_metrics = &metrics;
	}
	liar_send_reply(request, &reply);
}

static void answer_slowly(const Rdmabroker__Request *request)
{
	hooks_pass_time(LIAR_SLOW_MS);
	answer_with_a_page(request);
}

static void expect_bad_pages(unsigned max_pages)
{
	struct rdmabroker_list *list;
	char *text;

	n_pages = 0;
	ck_assert_int_eq(rdmabroker_get_list(session, 0, &list), -EPROTO);
	ck_assert_uint_le(n_pages, max_pages);
	n_pages = 0;
	ck_assert_int_eq(rdmabroker_get_metrics(session, &text), -EPROTO);
	ck_assert_uint_le(n_pages, max_pages);
}

START_TEST(pages_that_do_not_advance)
{
	liar_open(0, LIAR_TIMEOUT);
	liar.answer = answer_with_a_page;
	step = (struct step){ .n = 1 };
	expect_bad_pages(1);
	step = (struct step){ .a = 1 };
	expect_bad_pages(1);
	/* From 0, a step of -1 wraps to the maximum, so the first page advances, but the second does not. */
	step = (struct step){ .b = -1, .n = 1 };
	expect_bad_pages(2);
	step = (struct step){ .a = -1, .b = 1, .n = 1 };
	expect_bad_pages(2);
}
END_TEST

START_TEST(pages_without_end)
{
	liar_open(0, LIAR_TIMEOUT);
	liar.answer = answer_with_a_page;
	step = (struct step){ .a = 1, .b = -1, .n = PAGE_FULL };
	expect_bad_pages(PAGES_TIRED / 2);
	step = (struct step){ .b = 1, .n = PAGE_FULL };
	expect_bad_pages(PAGES_TIRED / 2);
}
END_TEST

/* Each page comes in time, but all pages together exceed the deadline. */
START_TEST(pages_that_take_for_ever)
{
	struct rdmabroker_list *list;

	liar_open(0, LIAR_TIMEOUT);
	liar.answer = answer_slowly;
	step = (struct step){ .a = 1, .n = 1 };
	ck_assert_int_eq(rdmabroker_get_list(session, 0, &list), -ETIMEDOUT);
	ck_assert_uint_eq(n_pages, 7);
}
END_TEST

/* Each page has STEP.N devices, and ends with a device whose number is greater by STEP.A, or is STEP.B. */
static void answer_with_devices(const Rdmabroker__Request *request)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__Status status = RDMABROKER__STATUS__INIT;
	Rdmabroker__Status__Device one = RDMABROKER__STATUS__DEVICE__INIT, *devices[PAGE_FULL];

	for (size_t i = 0; i < step.n; i++)
		devices[i] = &one;
	status.devices = devices;
	status.n_devices = step.n;
	if (n_pages++ < PAGES_TIRED)
		status.last_device = step.b > 0 ?
					     (uint64_t)step.b :
					     request->get_status->after_device + (uint64_t)step.a;
	reply.result_case = RESULT(STATUS);
	reply.status = &status;
	liar_send_reply(request, &reply);
}

static void expect_bad_status(unsigned max_pages)
{
	struct rdmabroker_status *status;

	n_pages = 0;
	ck_assert_int_eq(rdmabroker_get_status(session, &status), -EPROTO);
	ck_assert_uint_le(n_pages, max_pages);
}

START_TEST(statuses_without_end)
{
	liar_open(0, LIAR_TIMEOUT);
	liar.answer = answer_with_devices;
	step = (struct step){ .a = 1 };
	expect_bad_status(1);
	step = (struct step){ .b = 7, .n = 1 };
	expect_bad_status(2);
	step = (struct step){ .a = 1, .n = PAGE_FULL };
	expect_bad_status(PAGES_TIRED);
}
END_TEST

/* Each request for a device fails shortly before its deadline. */
static void refuse_slowly(const Rdmabroker__Request *request)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__Failure failure = RDMABROKER__FAILURE__INIT;

	failure.error = ENODEV;
	failure.text = (char *)"no";
	hooks_pass_time(LIAR_SLOW_MS);
	reply.failure = &failure;
	n_pages++;
	liar_send_reply(request, &reply);
}

START_TEST(devices_that_take_for_ever)
{
	struct ibv_context **devices;
	size_t n;

	liar_open(0, LIAR_TIMEOUT);
	liar.answer = refuse_slowly;
	hooks_set_devices(0, 64);
	ck_assert_int_eq(rdmabroker_get_devices(session, &devices, &n), -ENODEV);
	ck_assert_uint_eq(n_pages, 7);
	n_pages = 0;
	ck_assert_int_eq(rdmabroker_lease_devices(session, NULL), -ETIMEDOUT);
	ck_assert_uint_eq(n_pages, 7);
	hooks_set_devices(0, 1);
}
END_TEST

UNIT_MAIN("library_pages", liar_set_up, liar_tear_down, rules_without_end, a_list_that_lacks_rules,
	  pages_that_do_not_advance, pages_without_end, pages_that_take_for_ever,
	  statuses_without_end, devices_that_take_for_ever)
