/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>

#include "proto/status.h"
#include "tests/unit/liar.h"

/* The library against a broker that breaks the protocol. Each call must end, with an error if necessary. */

#define FIRST_REQUEST 0x80000000u
#define IDS_MAX 1048576

static void expect_lost(int status)
{
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_LOST);
	ck_assert_int_eq(event->status, status);
	rdmabroker_free_event(event);
}

static void send_request_event(uint32_t id, uint32_t request)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;

	event.id = id;
	event.type = RDMABROKER_EVENT_CONNECT_REQUEST;
	event.request_id = request;
	liar_send_event(&event);
}

START_TEST(a_handle_past_the_maximum)
{
	struct rdmabroker_event *event;

	liar_open(0, LIAR_TIMEOUT);
	liar_make_id();
	/* The first event has the last valid handle, and the second event has the first invalid one. */
	send_request_event(1, FIRST_REQUEST + IDS_MAX - 1);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_CONNECT_REQUEST);
	rdmabroker_free_event(event);
	send_request_event(1, FIRST_REQUEST + IDS_MAX);
	expect_lost(-EPROTO);
}
END_TEST

/* The event is a packet of only 12 bytes. A table with room for its handle would take 256 MiB. */
START_TEST(a_handle_far_past_the_maximum)
{
	liar_open(0, LIAR_TIMEOUT);
	liar_make_id();
	send_request_event(1, FIRST_REQUEST + (1 << 24));
	expect_lost(-EPROTO);
}
END_TEST

START_TEST(a_handle_in_use)
{
	struct rdmabroker_event *event;

	liar_open(0, LIAR_TIMEOUT);
	liar_make_id();
	send_request_event(1, FIRST_REQUEST);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), 0);
	rdmabroker_free_event(event);
	send_request_event(1, FIRST_REQUEST);
	expect_lost(-EPROTO);
}
END_TEST

/*
 * The broker can raise max_ids after its reply to hello, so more ids of connection requests do not break the
 * protocol.
 */
START_TEST(a_limit_that_was_raised)
{
	struct rdmabroker_event *event;

	liar.max_ids = 2;
	liar_open(0, LIAR_TIMEOUT);
	liar_make_id();
	for (uint32_t i = 0; i < 10; i++) {
		send_request_event(1, FIRST_REQUEST + i);
		ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), 0);
		ck_assert_int_eq(event->type, RDMABROKER_EVENT_CONNECT_REQUEST);
		rdmabroker_free_event(event);
	}
}
END_TEST

static uint32_t imported;

static void answer_with_an_id(const Rdmabroker__Request *request)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__ImportIdResult result = RDMABROKER__IMPORT_ID_RESULT__INIT;

	result.id = imported;
	reply.result_case = RESULT(IMPORT_ID);
	reply.import_id = &result;
	liar_send_reply(request, &reply);
}

START_TEST(an_import_that_is_wrong)
{
	struct rdmabroker_id *id;

	liar_open(0, LIAR_TIMEOUT);
	ck_assert_int_eq(rdmabroker_import_id(session, liar.sock, &id), -EPROTO);
	liar.answer = answer_with_an_id;
	imported = FIRST_REQUEST + IDS_MAX;
	ck_assert_int_eq(rdmabroker_import_id(session, liar.sock, &id), -EPROTO);
	expect_lost(-EPROTO);
}
END_TEST

/* The broker replies with an imported id to a call that imports nothing. The library drops events about this id. */
START_TEST(an_import_that_nobody_asked_for)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	struct rdmabroker_status *status;
	struct rdmabroker_event *got;

	liar_open(0, LIAR_TIMEOUT);
	liar.answer = answer_with_an_id;
	imported = event.id = FIRST_REQUEST;
	ck_assert_int_lt(rdmabroker_get_status(session, &status), 0);
	event.type = RDMABROKER_EVENT_DISCONNECTED;
	liar_send_event(&event);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &got), -EAGAIN);
}
END_TEST

static uint8_t many_bytes[PACKET_MAX - 128];

/* Sends one large event about id 1. */
static void flood_with_events(void)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	Rdmabroker__ConnParam conn = RDMABROKER__CONN_PARAM__INIT;

	event.id = 1;
	event.type = RDMABROKER_EVENT_ADDR_CHANGE;
	conn.private_data.data = many_bytes;
	conn.private_data.len = sizeof(many_bytes);
	event.conn = &conn;
	liar_send_event(&event);
}

/* The events come while a call waits for its reply, and fill the queue. */
START_TEST(events_without_end)
{
	struct rdmabroker_status *status;

	liar_open(0, LIAR_TIMEOUT);
	liar_make_id();
	liar.answer = NULL;
	liar_start_flood(flood_with_events);
	ck_assert_int_eq(rdmabroker_get_status(session, &status), -ECONNRESET);
	ck_assert_uint_gt(liar.n_sent, 128 * MIB);
	ck_assert_uint_lt(liar.n_sent, 257 * MIB);
}
END_TEST

static void flood_with_notices(void)
{
	Rdmabroker__Notice notice = RDMABROKER__NOTICE__INIT;
	static char text[sizeof(many_bytes)];

	memset(text, 'x', sizeof(text) - 1);
	notice.reason = text;
	liar_send_notice(&notice);
	if (liar.n_sent > 64 * MIB)
		liar.flood = NULL;
}

START_TEST(notices_without_end)
{
	struct rdmabroker_status *status;
	struct rdmabroker_notice *notice;
	size_t size = 0;
	bool lost = false;

	liar_open(0, LIAR_TIMEOUT);
	ck_assert_int_eq(rdmabroker_watch(session, NULL), 0);
	liar.answer = NULL;
	liar_start_flood(flood_with_notices);
	ck_assert_int_eq(rdmabroker_get_status(session, &status), -ETIMEDOUT);
	while (!lost) {
		ck_assert_int_eq(rdmabroker_get_notice(session, 0, &notice), 0);
		size += notice->reason ? strlen(notice->reason) : 0;
		lost = notice->n_lost > 0;
		rdmabroker_free(notice);
	}
	ck_assert_uint_gt(size, 16 * MIB);
	ck_assert_uint_lt(size, 33 * MIB);
	ck_assert_int_eq(rdmabroker_get_notice(session, 0, &notice), -EAGAIN);
	/* The queue has room again. */
	flood_with_notices();
	ck_assert_int_eq(rdmabroker_get_notice(session, 0, &notice), 0);
	rdmabroker_free(notice);
}
END_TEST

/* Sends an event about an id that does not exist. The library drops such events. */
static void flood_with_nothing(void)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;

	event.id = 77;
	event.type = RDMABROKER_EVENT_ADDR_CHANGE;
	liar_send_event(&event);
}

START_TEST(a_wait_for_an_event_in_a_flood)
{
	struct rdmabroker_event *event;

	liar_open(0, LIAR_TIMEOUT);
	liar_start_flood(flood_with_nothing);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), -EAGAIN);
	ck_assert_int_eq(rdmabroker_get_event(session, 10, &event), -EAGAIN);
	liar_expect_not_tired();
}
END_TEST

START_TEST(a_wait_for_a_notice_in_a_flood)
{
	struct rdmabroker_notice *notice;

	liar_open(0, LIAR_TIMEOUT);
	ck_assert_int_eq(rdmabroker_watch(session, NULL), 0);
	liar_start_flood(flood_with_nothing);
	ck_assert_int_eq(rdmabroker_get_notice(session, 0, &notice), -EAGAIN);
	liar_expect_not_tired();
}
END_TEST

/* The broker sends packets, and does not read. */
START_TEST(a_wait_for_room_in_a_flood)
{
	struct rdmabroker_status *status;
	struct rdmabroker_id *id;

	liar_open(RDMABROKER_NONBLOCK, 100);
	id = liar_make_id();
	liar.is_deaf = true;
	while (rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 1) == 0)
		;
	liar_start_flood(flood_with_nothing);
	ck_assert_int_eq(rdmabroker_get_status(session, &status), -ETIMEDOUT);
	liar_expect_not_tired();
}
END_TEST

/* Sends a reply with serial 0, which counts for the oldest call that waits for a reply. */
static void flood_with_answers(void)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;

	liar_say_yes(&request);
}

/* The reply comes before the whole request is sent. Until it is sent, the library must not free the call. */
START_TEST(an_answer_before_the_request)
{
	struct rdmabroker_id *id;

	liar_open(RDMABROKER_NONBLOCK, 100);
	id = liar_make_id();
	liar.is_deaf = true;
	while (rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 1) == 0)
		;
	liar_start_flood(flood_with_answers);
	rdmabroker_destroy_id(id);
	liar_expect_not_tired();
	expect_lost(-ETIMEDOUT);
}
END_TEST

START_TEST(a_wait_for_a_handle_in_a_flood)
{
	struct rdmabroker_id *id;

	liar.max_ids = 1;
	liar_open(RDMABROKER_NONBLOCK, LIAR_TIMEOUT);
	id = liar_make_id();
	liar.answer = NULL;
	rdmabroker_destroy_id(id);
	liar_start_flood(flood_with_nothing);
	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), -EDQUOT);
	liar_expect_not_tired();
}
END_TEST

/* More paths than an id can have, an incomplete one, and bytes that are no path at all. */
START_TEST(paths_that_are_wrong)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	struct rdmabroker_event *got;
	uint8_t ones[40 * 64 + 63];

	memset(ones, 0xff, sizeof(ones));
	liar_open(0, LIAR_TIMEOUT);
	liar_make_id();
	event.id = 1;
	event.type = RDMABROKER_EVENT_ROUTE_RESOLVED;
	event.paths.data = ones;
	event.paths.len = sizeof(ones);
	liar_send_event(&event);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &got), 0);
	ck_assert_uint_eq(got->n_paths, 2);
	for (size_t i = 0; i < got->n_paths; i++) {
		ck_assert_mem_eq(&got->paths[i].dgid, ones, 16);
		ck_assert_uint_eq(got->paths[i].flow_label, htonl(0xfffff));
		ck_assert_uint_eq(got->paths[i].mtu, 0x3f);
		ck_assert_uint_eq(got->paths[i].sl, 0xf);
		ck_assert_int_eq(got->paths[i].reversible, 1);
	}
	rdmabroker_free_event(got);
	event.paths.len = 63;
	liar_send_event(&event);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &got), 0);
	ck_assert_uint_eq(got->n_paths, 0);
	ck_assert_ptr_null(got->paths);
	rdmabroker_free_event(got);
	event.paths.len = 2 * 64;
	/* Events of other types have no paths. */
	event.type = RDMABROKER_EVENT_ADDR_CHANGE;
	liar_send_event(&event);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &got), 0);
	ck_assert_uint_eq(got->n_paths, 0);
	ck_assert_ptr_null(got->paths);
	rdmabroker_free_event(got);
}
END_TEST

/* All packets of this flood are in the socket when the call begins. The call does not wait for later ones. */
START_TEST(an_event_behind_a_flood_is_found)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	struct rdmabroker_event *got;

	liar_open(0, LIAR_TIMEOUT);
	liar_make_id();
	for (int i = 0; i < 100; i++)
		flood_with_nothing();
	event.id = 1;
	event.type = RDMABROKER_EVENT_ADDR_CHANGE;
	liar_send_event(&event);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &got), 0);
	rdmabroker_free_event(got);
}
END_TEST

/* These connection requests have no listener, so the library must reject them, but the broker does not read. */

static uint32_t last_request;

static void flood_with_orphans(void)
{
	send_request_event(77, FIRST_REQUEST + last_request++);
}

START_TEST(requests_for_no_listener_without_end)
{
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;
	int r;

	liar_open(RDMABROKER_NONBLOCK, 100);
	id = liar_make_id();
	liar.is_deaf = true;
	while (rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 1) == 0)
		;
	liar_start_flood(flood_with_orphans);
	r = rdmabroker_get_event(session, 0, &event);
	if (r == 0) {
		ck_assert_int_eq(event->type, RDMABROKER_EVENT_LOST);
		rdmabroker_free_event(event);
	} else {
		ck_assert_int_eq(r, -EAGAIN);
	}
	liar_expect_not_tired();
}
END_TEST

static void send_resolved(void)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	Rdmabroker__IdInfo info = RDMABROKER__ID_INFO__INIT;
	Rdmabroker__QpAttr init = RDMABROKER__QP_ATTR__INIT;

	info.device = (char *)"fake0";
	init.mask = IBV_QP_STATE;
	init.qp_state = IBV_QPS_INIT;
	event.id = 1;
	event.type = RDMABROKER_EVENT_ADDR_RESOLVED;
	event.info = &info;
	event.qp = &init;
	liar_send_event(&event);
}

/*
 * Answers a connect with a reject that looks like one by the peer's broker. Any program at the peer can send such
 * data.
 */
static void answer_come_again(const Rdmabroker__Request *request)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	Rdmabroker__ConnParam conn = RDMABROKER__CONN_PARAM__INIT;
	static uint8_t refusal[REFUSAL_MAX];

	if (request->op_case != OP(CONNECT)) {
		liar_say_yes(request);
		return;
	}
	conn.private_data.data = refusal;
	conn.private_data.len = refusal_pack(refusal, REFUSAL_MAX, REFUSAL_BUSY, INT_MAX, "later");
	event.id = 1;
	event.type = RDMABROKER_EVENT_REJECTED;
	event.status = 28; /* "consumer defined": rejected by the listener */
	event.conn = &conn;
	liar_send_event(&event);
}

static void send_bound_event(void)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;

	event.id = 1;
	event.type = RDMABROKER_EVENT_UNREACHABLE;
	liar_send_event(&event);
}

static void reply_with_event(const Rdmabroker__Request *request)
{
	liar_say_yes(request);
	send_bound_event();
}

static void take_all(void)
{
	struct rdmabroker_event *event;
	unsigned n = 0;

	for (; rdmabroker_get_event(session, 0, &event) == 0; n++)
		rdmabroker_free_event(event);
	ck_assert_uint_eq(n, 1);
}

/*
 * An event is right behind the reply of a call. A program that polls the descriptor is woken, even if its epoll is
 * edge-triggered, as that of UCX is, and looks at the descriptor only once for each event.
 */
START_TEST(an_event_behind_a_reply)
{
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET }, got;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	const struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdmabroker_id *id;

	liar_open(0, LIAR_TIMEOUT);
	id = liar_make_id();
	ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, rdmabroker_get_fd(session), &wanted), 0);
	ck_assert_int_eq(epoll_wait(epoll, &got, 1, 0), 0);
	send_bound_event();
	ck_assert_int_eq(epoll_wait(epoll, &got, 1, 0), 1);
	take_all();
	liar.answer = reply_with_event;
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(rdmabroker_bind_addr(id, (const struct sockaddr *)&any), 0);
		ck_assert_int_eq(epoll_wait(epoll, &got, 1, 0), 1);
		take_all();
	}
	close(epoll);
	liar.answer = liar_say_yes;
	rdmabroker_destroy_id(id);
}
END_TEST

/* With the random delay added, the retry time does not fit an int. The QP must be moved to ERR nevertheless. */
START_TEST(a_retry_time_past_the_maximum)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	liar_open(RDMABROKER_RETRY_BUSY, LIAR_TIMEOUT);
	id = liar_make_id();
	send_resolved();
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), 0);
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_create_qp(id, NULL, &attr), 0);
	ck_assert_int_eq(rdmabroker_get_qp(id)->state, IBV_QPS_INIT);
	liar.answer = answer_come_again;
	ck_assert_int_eq(rdmabroker_connect_wait(id, NULL, LIAR_TIMEOUT), -ECONNREFUSED);
	ck_assert_int_eq(rdmabroker_get_qp(id)->state, IBV_QPS_ERR);
}
END_TEST

/* The process has no descriptor left when the broker asks for a proof. */
static void ask_for_a_proof(const Rdmabroker__Request *request)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__HelloResult hello = RDMABROKER__HELLO_RESULT__INIT;
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	liar.answer = liar_say_yes;
	hello.version = 1;
	hello.max_ids = liar.max_ids;
	hello.proof = (char *)"rdmabroker-proof-1";
	reply.result_case = RESULT(HELLO);
	reply.hello = &hello;
	liar_send_reply(request, &reply);
}

START_TEST(no_descriptor_for_the_proof)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rlimit before;
	int r;

	options.socket = "/nowhere";
	liar.answer = ask_for_a_proof;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	r = rdmabroker_open(&options, &session);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_int_eq(r, -EMFILE);
	ck_assert_str_eq(rdmabroker_last_failure()->text,
			 "cannot create the socket that shows the broker which process this is: "
			 "Too many open files");
	ck_assert_ptr_null(session);
}
END_TEST

UNIT_MAIN("library_hostile", liar_set_up, liar_tear_down, a_handle_past_the_maximum,
	  a_handle_far_past_the_maximum, a_handle_in_use, a_limit_that_was_raised,
	  an_import_that_is_wrong, an_import_that_nobody_asked_for, events_without_end,
	  notices_without_end, a_wait_for_an_event_in_a_flood, a_wait_for_a_notice_in_a_flood,
	  a_wait_for_room_in_a_flood, an_answer_before_the_request, a_wait_for_a_handle_in_a_flood,
	  an_event_behind_a_flood_is_found, paths_that_are_wrong,
	  requests_for_no_listener_without_end, an_event_behind_a_reply,
	  a_retry_time_past_the_maximum, no_descriptor_for_the_proof)
