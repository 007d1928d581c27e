/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/inquiry.h"
#include "core/object/session.h"
#include "tests/unit/helper.h"

uint32_t last_qpn = 16;

const struct rdmabroker_conn_param *new_param(void)
{
	static struct rdmabroker_conn_param param;

	param = (struct rdmabroker_conn_param){ .size = sizeof(struct rdmabroker_conn_param),
						.qp_num = ++last_qpn };
	return &param;
}

static void do_name_helper(void *arg)
{
	inquiries_set_helper_uid(harness.core, *(uid_t *)arg);
	harness.core->settings.max_ids_per_session = 4096;
}

void name_helper(uid_t uid)
{
	in_server(do_name_helper, &uid);
}

struct rdmabroker *open_helper(void)
{
	struct rdmabroker *session;

	name_helper(geteuid());
	session = open_session_at(harness.helper_path, 0);
	ck_assert_int_eq(rdmabroker_serve_peers(session), 0);
	return session;
}

struct rdmabroker_notice *expect_question(struct rdmabroker *helper, const char *operation)
{
	struct rdmabroker_notice *notice;

	ck_assert_int_eq(rdmabroker_get_notice(helper, T, &notice), 0);
	ck_assert_str_eq(notice->kind, "question");
	ck_assert_str_eq(notice->operation, operation);
	ck_assert_uint_ne(notice->question, 0);
	return notice;
}

const struct rdmabroker_who somebody = {
	.uid = 1234,
	.gids = (const uint32_t[]){ 55, 77 },
	.n_gids = 2,
	.knows_workload = true,
	.unit = "storage-a.service",
	.job = "4711",
};

void answer_question(struct rdmabroker *helper, const char *operation,
		     const struct rdmabroker_who *who)
{
	struct rdmabroker_notice *question = expect_question(helper, operation);

	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, who,
						who ? NULL : "10.9.0.9 is silent"),
			 0);
	rdmabroker_free(question);
}

struct rdmabroker_id *connect_to(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id = resolve(session, port);

	ck_assert_int_eq(rdmabroker_connect(id, new_param()), 0);
	return id;
}

struct rdmabroker_id *expect_request(struct rdmabroker *session)
{
	struct rdmabroker_event *event = expect(session, RDMABROKER_EVENT_CONNECT_REQUEST);
	struct rdmabroker_id *id = event->id;

	rdmabroker_free_event(event);
	return id;
}

const char peer_rules[] =
	"allow session\nallow listen\nallow connect\n"
	"allow accept port 7471 peer-user 1234\n"
	"reject accept port 7472 peer-group 77 reason \"not group 77\"\nallow accept port 7472\n"
	"allow accept port 7473 peer-unit storage-*.service\n"
	"allow accept port 7474 peer-same user\n"
	"allow accept port 7479\n";

void expect_no_question(struct rdmabroker *helper)
{
	struct rdmabroker_notice *notice;

	/* A question that came before would arrive before this reply. */
	ck_assert_int_eq(rdmabroker_serve_peers(helper), 0);
	ck_assert_int_eq(rdmabroker_get_notice(helper, 0, &notice), -EAGAIN);
}

void expect_reject(struct rdmabroker *session, const char *text)
{
	struct rdmabroker_event *event = expect(session, RDMABROKER_EVENT_REJECTED);

	ck_assert_str_eq(event->text, text);
	rdmabroker_free_event(event);
}

static void do_count_inquiries(void *arg)
{
	*(unsigned *)arg = (unsigned)harness.core->account.used[ACCOUNT_INQUIRIES];
}

unsigned count_inquiries(void)
{
	unsigned n;

	in_server(do_count_inquiries, &n);
	return n;
}
