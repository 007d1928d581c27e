/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/verbs/conn.h"
#include "core/object/id.h"
#include "core/object/session.h"
#include "tests/unit/be_user.h"
#include "tests/unit/program.h"
#include "tests/unit/ranges.h"

/* How admins see and change sessions and ids, by the library and by rdmabrokerctl. */

static uint32_t last_qpn = 16;

/* Each connection gets its own QP number, because timewait delays the reuse of a QP number. */
static const struct rdmabroker_conn_param *new_param(void)
{
	static struct rdmabroker_conn_param param;

	param = (struct rdmabroker_conn_param){ .size = sizeof(struct rdmabroker_conn_param),
						.qp_num = ++last_qpn };
	return &param;
}

/* Connects C to S, which listens on PORT, and returns C's id. S's id is returned in RET_PASSIVE; NULL: it is not. */
static struct rdmabroker_id *establish(struct rdmabroker *c, struct rdmabroker *s, uint16_t port,
				       struct rdmabroker_id **ret_passive)
{
	struct rdmabroker_id *id = resolve(c, port);
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_connect(id, new_param()), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(rdmabroker_accept(event->id, new_param()), 0);
	if (ret_passive)
		*ret_passive = event->id;
	rdmabroker_free_event(event);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	ck_assert_int_eq(rdmabroker_establish(id), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
	return id;
}

static const char listed_rules[] =
	"allow session\nallow listen\nallow connect tos 104\nallow accept\n";

START_TEST(list_shows_all_fields)
{
	struct rdmabroker *s, *c;
	const struct rdmabroker_listed_session *session;
	const struct rdmabroker_listed_id *id;
	struct rdmabroker_list *list;

	set_policy(listed_rules);
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	establish(c, s, 7471, NULL);
	ck_assert_int_eq(rdmabroker_get_list(c, 0, &list), 0);
	ck_assert_uint_eq(list->n_sessions, 2);
	ck_assert_uint_eq(list->n_ids, 3);
	session = &list->sessions[0];
	ck_assert_uint_lt(session->number, list->sessions[1].number);
	ck_assert_uint_eq(session->who.uid, geteuid());
	ck_assert_int_eq(session->who.pid, getpid());
	ck_assert_uint_eq(session->n_ids, 2);
	ck_assert_uint_eq(session->n_leases, 0);
	ck_assert_uint_le(session->age_ms, 10 * T);
	ck_assert_str_eq(session->rule, "test.rules:1");

	id = &list->ids[0];
	ck_assert_ptr_eq(id->session, &list->sessions[0]);
	ck_assert_uint_eq(id->id, 1);
	ck_assert_str_eq(id->state, "listening");
	ck_assert_int_eq(id->ps, RDMABROKER_PS_TCP);
	ck_assert_int_eq(id->peer.ss_family, AF_UNSPEC);
	ck_assert_int_eq(id->local.ss_family, AF_INET);
	ck_assert_str_eq(id->rule, "test.rules:2");
	ck_assert_int_eq(id->tos, -1);
	ck_assert_uint_eq(id->qp_num, 0);
	id = &list->ids[1];
	ck_assert_ptr_eq(id->session, &list->sessions[0]);
	ck_assert_uint_ge(id->id, SESSION_FIRST_REQUEST);
	ck_assert_str_eq(id->state, "established");
	ck_assert_str_eq(id->rule, "test.rules:4");
	ck_assert_uint_eq(id->qp_num, last_qpn);
	id = &list->ids[2];
	ck_assert_ptr_eq(id->session, &list->sessions[1]);
	ck_assert_str_eq(id->state, "established");
	ck_assert_str_eq(id->device, "fake0");
	ck_assert_int_eq(id->peer.ss_family, AF_INET);
	ck_assert_str_eq(id->rule, "test.rules:3");
	ck_assert_uint_eq(id->qp_num, last_qpn - 1);
	ck_assert_int_eq(id->tos, 104);
	rdmabroker_free(list);
	rdmabroker_free(NULL);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

/* There are more ids than fit on a page, in several sessions, and with gaps in their handles. */
START_TEST(list_has_pages)
{
	struct rdmabroker *sessions[3];
	struct rdmabroker_id *ids[3][40];
	struct rdmabroker_list *list;
	size_t n = 0;
	int tos;

	harness.core->settings.max_ids_per_session = 100;
	for (int i = 0; i < 3; i++) {
		sessions[i] = open_session(0);
		for (int k = 0; k < 40; k++) {
			ck_assert_int_eq(rdmabroker_create_id(sessions[i], RDMABROKER_PS_TCP, NULL,
							      &ids[i][k]),
					 0);
			/* The broker creates the id with this request. */
			ck_assert_int_eq(
				rdmabroker_get_option(ids[i][k], RDMABROKER_OPTION_TOS, &tos), 0);
		}
	}
	for (int k = 0; k < 40; k += 2)
		rdmabroker_destroy_id(ids[0][k]);
	await_counts(3, 100);
	ck_assert_int_eq(rdmabroker_get_list(sessions[2], 0, &list), 0);
	ck_assert_uint_eq(list->n_sessions, 3);
	ck_assert_uint_eq(list->n_ids, 100);
	for (int i = 0; i < 3; i++)
		for (uint32_t k = 1; k <= 40; k++) {
			if (i == 0 && k % 2 == 1)
				continue;
			ck_assert_uint_eq(list->ids[n].id, k);
			ck_assert_ptr_eq(list->ids[n].session, &list->sessions[i]);
			ck_assert_str_eq(list->ids[n].state, "idle");
			n++;
		}
	rdmabroker_free(list);
	for (int i = 0; i < 3; i++)
		rdmabroker_close(sessions[i]);
}
END_TEST

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

START_TEST(list_prints)
{
	const struct passwd *me = getpwuid(geteuid());
	struct rdmabroker *s, *c;
	char uid[16], *line;
	size_t workload;

	set_policy(listed_rules);
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	establish(c, s, 7471, NULL);
	ck_assert_int_eq(ctl("list"), 0);
	ck_assert_str_eq(got.err, "");
	/* A header, two sessions, three ids, and the session of rdmabrokerctl itself. */
	ck_assert_uint_eq(count_lines(got.out), 1 + 2 + 3 + 1);
	line = strtok(got.out, "\n");
	/* Names begin below their headings, however long the name of the user is. */
	ck_assert_int_eq(strncmp(line, "USER ", 5), 0);
	workload = (size_t)(strstr(line, " WORKLOAD ") + 1 - line);
	ck_assert_ptr_nonnull(strstr(line, "TOS  RULE"));
	/* All ids are in the default partition. */
	ck_assert_ptr_null(strstr(line, "PKEY"));
	line = strtok(NULL, "\n");
	ck_assert_int_eq(line[workload], '-');
	assert_has(line, " session ");
	if (me)
		ck_assert_int_eq(strncmp(line, me->pw_name, strlen(me->pw_name)), 0);
	line = strtok(NULL, "\n");
	assert_has(line, " listening ");
	assert_has(line, " 10.9.0.1:7471 ");
	assert_has(line, " test.rules:2");
	line = strtok(NULL, "\n");
	line = strtok(NULL, "\n");
	line = strtok(NULL, "\n");
	assert_has(line, " established ");
	assert_has(line, " fake0 ");
	assert_has(line, "  104  test.rules:3");

	ck_assert_int_eq(ctl("list", "--json"), 0);
	assert_json("len(d[\"sessions\"]) == 3 and len(d[\"ids\"]) == 3");
	assert_json(
		"list(d[\"sessions\"][0]) == [\"session\", \"uid\", \"user\", \"pid\", \"unit\", "
		"\"container\", \"pod\", \"job\", \"cgroup\", \"age_ms\", \"ids\", \"leases\", \"rule\", \"restriction\", \"lingers\", \"charged_uid\"]");
	assert_json("d[\"ids\"][0][\"local\"] == \"10.9.0.1:7471\" and "
		    "d[\"ids\"][0][\"peer\"] is None and d[\"ids\"][0][\"qpn\"] is None and "
		    "d[\"ids\"][0][\"tos\"] is None and d[\"ids\"][2][\"tos\"] == 104 and "
		    "d[\"ids\"][2][\"ps\"] == \"tcp\" and d[\"ids\"][2][\"pkey\"] == \"0xffff\"");

	ck_assert_int_eq(ctl("list", "--sessions"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 3);
	assert_lacks(got.out, "established");
	ck_assert_int_eq(ctl("list", "--sessions", "--state", "listening"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 1);
	ck_assert_int_eq(ctl("list", "--listeners"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 1);
	ck_assert_int_eq(ctl("list", "--connections"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 2);
	ck_assert_int_eq(ctl("list", "--state", "established", "--port", "7471"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 2);
	ck_assert_int_eq(ctl("list", "--peer", "10.9.0.1"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 2);
	ck_assert_int_eq(ctl("list", "--peer", "10.9.0.7"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1);
	ck_assert_int_eq(ctl("list", "--port", "7472", "--json"), 0);
	assert_json("d == {\"sessions\": [], \"ids\": []}");
	snprintf(uid, sizeof(uid), "%u", geteuid());
	ck_assert_int_eq(ctl("list", "--user", uid), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 6);
	ck_assert_int_eq(ctl("list", "--user", "3999999999"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1);
	/* The server has the first session, with two ids, the client the second one. */
	ck_assert_int_eq(ctl("list", "--session", "1"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 3);
	ck_assert_int_eq(ctl("list", "--session", "2", "--state", "established"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 1);
	ck_assert_int_eq(ctl("list", "--session", "1", "--sessions"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1 + 1);
	ck_assert_int_eq(ctl("list", "--session", "77"), 0);
	ck_assert_uint_eq(count_lines(got.out), 1);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(list_refuses_bad_arguments)
{
	static const struct {
		const char *option, *value, *complaint;
	} cases[] = {
		{ "--state", "listenin",
		  "unknown state \"listenin\", did you mean \"listening\"?" },
		{ "--peer", "10.1", "invalid address \"10.1\": it must be IPv4 or IPv6" },
		{ "--port", "0", "invalid port 0: it stands for any free port" },
		{ "--session", "0", "invalid --session \"0\": it must be a number of at least 1" },
		{ "--session", "1:3",
		  "invalid --session \"1:3\": it must be a number of at least 1" },
		{ "--sessions", "--listeners",
		  "--sessions, --listeners and --connections exclude each other" },
		{ "--watch", "--json", "--watch needs a terminal" },
		{ "--watch", "--sessions", "--watch needs a terminal" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_int_eq(ctl("list", cases[i].option, cases[i].value), 2);
		ck_assert_str_eq(got.out, "");
		assert_has(got.err, cases[i].complaint);
	}
	ck_assert_int_eq(ctl("list", "--user", "nobody-at-all"), 1);
	assert_has(got.err, "unknown user \"nobody-at-all\"\n");
}
END_TEST

START_TEST(list_is_refreshed)
{
	ck_assert_int_eq(run_on_terminal(80, " session ",
					 (const char *const[]){ program, "--socket",
								harness.socket_path, "list",
								"--watch", NULL }),
			 0);
	assert_has(got.out, "\033[H\033[2JUSER ");
}
END_TEST

/* rdmabrokerctl and the daemon have the same names of states. */
START_TEST(list_knows_the_states)
{
	char expression[2048] = "[o[\"values\"] for o in d[\"verbs\"][0][\"options\"] "
				"if o[\"name\"] == \"state\"][0] == [";

	for (int i = 0; i < _ID_STATE_MAX; i++) {
		strcat(expression, "\"");
		strcat(expression, id_state_to_word((enum id_state)i));
		strcat(expression, "\", ");
	}
	strcat(expression, "]");
	ck_assert_int_eq(ctl("help", "list", "--json"), 0);
	assert_json(expression);
}
END_TEST

START_TEST(kick_ends_ids)
{
	struct rdmabroker *admin = open_session(0), *s = open_session(0), *c = open_session(0);
	struct rdmabroker_id *listener = start_listening(s, 7471), *passive, *active, *pending;
	struct rdmabroker_id *idle, *taken;
	int fd;
	uint64_t ns = number_of(admin, 1), nc = number_of(admin, 2);
	struct rdmabroker_event *event;

	active = establish(c, s, 7471, &passive);
	pending = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(pending, new_param()), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_CONNECT_REQUEST));

	/*
	 * Both ends of a connection are notified. Ids that programs make are numbered from 1, ids of connection
	 * requests from 2^31.
	 */
	ck_assert_int_eq(rdmabroker_kick(admin, nc, 1), 0);
	event = expect(c, RDMABROKER_EVENT_DISCONNECTED);
	ck_assert_ptr_eq(event->id, active);
	rdmabroker_free_event(event);
	event = expect(s, RDMABROKER_EVENT_DISCONNECTED);
	ck_assert_ptr_eq(event->id, passive);
	rdmabroker_free_event(event);
	expect_failure(rdmabroker_kick(admin, nc, 1), EINVAL, "is already disconnected");

	ck_assert_int_eq(rdmabroker_kick(admin, ns, SESSION_FIRST_REQUEST + 1), 0);
	event = expect(c, RDMABROKER_EVENT_REJECTED);
	ck_assert_ptr_eq(event->id, pending);
	ck_assert_int_eq(event->rejected_by, RDMABROKER_REJECTED_BY_POLICY);
	ck_assert_str_eq(event->text, "ended by an admin");
	rdmabroker_free_event(event);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_CONNECT_ERROR));

	ck_assert_int_eq(rdmabroker_kick(admin, ns, 1), 0);
	event = expect(s, RDMABROKER_EVENT_DEVICE_REMOVAL);
	ck_assert_ptr_eq(event->id, listener);
	ck_assert_int_eq(event->status, -EACCES);
	rdmabroker_free_event(event);
	expect_failure(rdmabroker_listen(listener, 0), EINVAL, "or an admin");

	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &idle), 0);
	/* A revoked id cannot be imported. */
	ck_assert_int_eq(rdmabroker_export_id(idle, &fd), 0);
	ck_assert_int_eq(rdmabroker_kick(admin, nc, 3), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_DEVICE_REMOVAL));
	expect_failure(rdmabroker_import_id(admin, fd, &taken), EBADF, "import");
	close(fd);
	rdmabroker_destroy_id(idle);

	expect_failure(rdmabroker_kick(admin, nc, 77), EBADF, "has no id 77");
	expect_failure(rdmabroker_kick(admin, 999, 1), EBADF, "there is no session 999");
	rdmabroker_close(c);
	rdmabroker_close(s);
	await_counts(1, 0);
	rdmabroker_close(admin);
}
END_TEST

START_TEST(kick_ends_sessions)
{
	struct rdmabroker *admin = open_session(0), *s = open_session(0);
	char target[32];

	start_listening(s, 7471);
	expect_failure(rdmabroker_kick(admin, number_of(admin, 0), 0), EINVAL, "cannot end itself");
	expect_failure(rdmabroker_kick(admin, 999, 0), EBADF, "there is no session 999");
	snprintf(target, sizeof(target), "%llu", (unsigned long long)number_of(admin, 1));
	ck_assert_int_eq(ctl("kick", target), 0);
	assert_has(got.out, " ended\n");
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_LOST));
	await_counts(1, 0);
	rdmabroker_close(s);

	s = open_session(0);
	start_listening(s, 7471);
	snprintf(target, sizeof(target), "%llu:1", (unsigned long long)number_of(admin, 1));
	ck_assert_int_eq(ctl("kick", target, "--json"), 0);
	assert_json("d[\"id\"] == 1 and d[\"session\"] > 1");
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DEVICE_REMOVAL));
	ck_assert_int_eq(ctl("kick", "999"), 1);
	assert_has(got.err, "there is no session 999");
	assert_has(got.err, "run \"rdmabrokerctl list\" for the sessions and ids\n");
	rdmabroker_close(s);
	rdmabroker_close(admin);
}
END_TEST

START_TEST(kick_refuses_bad_arguments)
{
	static const char *const targets[] = {
		"",
		"0",
		"x",
		"1:",
		"1:0",
		"1:x",
		":1",
		"1:2:3",
		"-1",
		"99999999999999999999999999",
		"18446744073709551616",
		"1:4294967296",
	};

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		ck_assert_int_eq(ctl("kick", "--", targets[i]), 2);
		assert_has(got.err, "it must be SESSION or SESSION:ID");
	}
	ck_assert_int_eq(ctl("kick"), 2);
	assert_has(got.err, "kick needs an argument: SESSION[:ID]");
}
END_TEST

START_TEST(drain_refuses_new_objects)
{
	struct rdmabroker *admin = open_session(0), *s = open_session(0), *c = open_session(0);
	struct rdmabroker_id *active, *bound, *resolved, *late, *pending, *id;
	struct rdmabroker_event *event, *request;
	struct rdmabroker_status *status;

	start_listening(s, 7471);
	active = establish(c, s, 7471, NULL);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &bound), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(bound, addr(7472)), 0);
	resolved = resolve(c, 7471);
	/* The connection request of LATE is accepted before the drain, and that of PENDING is not. */
	late = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(late, new_param()), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(rdmabroker_accept(event->id, new_param()), 0);
	rdmabroker_free_event(event);
	pending = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(pending, new_param()), 0);
	request = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);

	ck_assert_int_eq(rdmabroker_drain(admin, false), 0);
	ck_assert_int_eq(rdmabroker_drain(admin, false), 0);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &id), 0);
	expect_failure(rdmabroker_bind_addr(id, addr(7473)), ESHUTDOWN,
		       "create_id: the broker is draining");
	rdmabroker_destroy_id(id);
	expect_failure(rdmabroker_listen(bound, 0), ESHUTDOWN, "listen: the broker is draining");
	expect_failure(rdmabroker_resolve_addr_wait(bound, NULL, addr(7471), T), ESHUTDOWN,
		       "draining");
	expect_failure(rdmabroker_connect(resolved, new_param()), ESHUTDOWN, "draining");
	expect_failure(rdmabroker_accept(request->id, new_param()), ESHUTDOWN, "draining");
	rdmabroker_destroy_id(request->id);
	rdmabroker_free_event(request);

	/* The handshake of LATE goes on. */
	event = expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE);
	ck_assert_ptr_eq(event->id, late);
	rdmabroker_free_event(event);
	event = expect(c, RDMABROKER_EVENT_REJECTED);
	ck_assert_ptr_eq(event->id, pending);
	ck_assert_int_eq(event->rejected_by, RDMABROKER_REJECTED_BY_POLICY);
	ck_assert_int_eq(event->reject_code, RDMABROKER_REJECT_DRAINING);
	ck_assert_str_eq(event->text, "draining");
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_get_status(admin, &status), 0);
	ck_assert_int_eq(status->draining, 1);
	ck_assert_uint_eq(status->n_connections, 2);
	/* The connection in setup counts twice, because both of its ends are clients of this broker. */
	ck_assert_uint_eq(status->n_handshakes, 2);
	rdmabroker_free(status);
	ck_assert_int_eq(rdmabroker_establish(late), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
	ck_assert_int_eq(rdmabroker_disconnect_wait(active, T), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DISCONNECTED));

	/* After the drain, the ids that were refused during it can be used again. */
	ck_assert_int_eq(rdmabroker_drain(admin, true), 0);
	ck_assert_int_eq(rdmabroker_listen(bound, 0), 0);
	ck_assert_int_eq(rdmabroker_connect(resolved, new_param()), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_CONNECT_REQUEST));
	rdmabroker_close(c);
	rdmabroker_close(s);
	await_counts(1, 0);
	ck_assert_int_eq(rdmabroker_get_status(admin, &status), 0);
	ck_assert_int_eq(status->draining, 0);
	ck_assert_uint_eq(status->n_handshakes, 0);
	rdmabroker_free(status);
	rdmabroker_close(admin);
}
END_TEST

/* Acts as a client of another host, whose connection request is sent before the drain and arrives after it. */
static void do_connect_and_drain(void *arg)
{
	const struct rdma_conn_param param = { .qp_num = ++last_qpn };
	struct session *session = container_of(harness.core->sessions.prev, struct session, link);
	struct failure why;
	struct id *id;

	ck_assert_int_eq(table_find(session, 1, &id, &why), 0);
	ck_assert_int_eq(conn_connect(id, &param, NULL, &why), 0);
	harness.core->draining = true;
}

START_TEST(drain_rejects_requests)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_event *event;

	start_listening(s, 7471);
	resolve(c, 7471);
	in_server(do_connect_and_drain, NULL);
	event = expect(c, RDMABROKER_EVENT_REJECTED);
	ck_assert_int_eq(event->reject_code, RDMABROKER_REJECT_DRAINING);
	ck_assert_str_eq(event->text, "draining");
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_get_event(s, 0, &event), -EAGAIN);
	rdmabroker_close(c);
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

START_TEST(drain_waits)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);

	ck_assert_int_eq(ctl("drain"), 0);
	ck_assert_str_eq(got.out, "drained: no connection is left\n");
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out, "   draining: NEW WORK IS REFUSED");
	ck_assert_int_eq(ctl("status", "--json"), 0);
	assert_json("d[\"draining\"] is True");
	ck_assert_int_eq(ctl("drain", "--cancel"), 0);
	ck_assert_str_eq(got.out, "draining is cancelled\n");
	ck_assert_int_eq(ctl("status"), 0);
	assert_lacks(got.out, "draining");

	start_listening(s, 7471);
	establish(c, s, 7471, NULL);
	ck_assert_int_eq(ctl("drain", "--timeout", "0"), 1);
	/* Both ends of the connection are counted. */
	assert_has(got.err, "2 connections are left after 0 s; draining continues");
	ck_assert_int_eq(ctl("drain", "--timeout", "1", "--json"), 1);
	assert_json("d == {\"draining\": True, \"connections\": 2, \"handshakes\": 0}");
	rdmabroker_close(c);
	rdmabroker_close(s);
	await_counts(0, 0);
	ck_assert_int_eq(ctl("drain", "--json"), 0);
	assert_json("d == {\"draining\": True, \"connections\": 0, \"handshakes\": 0}");
	ck_assert_int_eq(ctl("drain", "--cancel", "--json"), 0);
	assert_json("d[\"draining\"] is False");

	ck_assert_int_eq(ctl("drain", "--timeout", "soon"), 2);
	assert_has(got.err, "invalid timeout \"soon\": it must be a number of seconds");
	ck_assert_int_eq(ctl("drain", "--timeout", "1", "--cancel"), 2);
	assert_has(got.err, "--timeout cannot be given with --cancel");
}
END_TEST

static void assert_openmetrics(void)
{
	FILE *check = popen("python3 -IS \"${SRCDIR:-.}/tests/openmetrics\"", "w");

	ck_assert_str_eq(got.err, "");
	ck_assert_ptr_nonnull(check);
	fputs(got.out, check);
	ck_assert_msg(pclose(check) == 0, "%s", got.out);
}

START_TEST(metrics_count)
{
	struct rdmabroker *s, *c;
	struct rdmabroker_id *id;

	set_policy("allow session\nallow listen port 7471\nallow connect\nallow accept max 1\n"
		   "reject listen port 7472\n");
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	establish(c, s, 7471, NULL);
	id = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect_wait(id, new_param(), T), -ECONNREFUSED);
	for (uint16_t port = 7472; port < 7474; port++) {
		ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
		ck_assert_int_eq(rdmabroker_bind_addr(id, addr(port)), 0);
		ck_assert_int_eq(rdmabroker_listen(id, 0), -EACCES);
	}
	ck_assert_int_eq(ctl("metrics"), 0);
	assert_openmetrics();
	assert_has(got.out, "\nrdmabroker_sessions 3\n");
	assert_has(got.out, "\nrdmabroker_connections 2\n");
	assert_has(got.out, "{operation=\"listen\",outcome=\"allowed\"} 1\n");
	assert_has(got.out, "{operation=\"listen\",outcome=\"rejected\"} 1\n");
	assert_has(got.out, "{operation=\"listen\",outcome=\"no-rule\"} 1\n");
	assert_has(got.out, "{operation=\"accept\",outcome=\"busy\"} 1\n");
	assert_has(got.out, "rdmabroker_refusals_total{status=\"denied\"} 2\n");
	assert_has(got.out, "rdmabroker_events_total{type=\"connect-request\"} 1\n");
	assert_has(got.out, "rdmabroker_phase_seconds_count{phase=\"resolve addr\"} 2\n");
	assert_has(got.out, "rdmabroker_phase_seconds_count{phase=\"connect\"} 1\n");
	assert_has(got.out, "rdmabroker_phase_seconds_count{phase=\"accept\"} 1\n");
	assert_has(got.out, "rdmabroker_phase_seconds_count{phase=\"establish\"} 2\n");
	assert_has(got.out, "rdmabroker_rule_decisions_total{file=\"test.rules\",line=\"5\","
			    "outcome=\"rejected\"} 1\n");
	assert_has(got.out, "rdmabroker_rule_objects{file=\"test.rules\",line=\"4\"} 1\n");
	ck_assert_int_eq(ctl("metrics", "--json"), 0);
	assert_json("d[\"openmetrics\"].endswith(\"# EOF\\n\")");
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

static void do_count_refusals(void *arg)
{
	for (unsigned s = 1; s < _STATUS_MAX; s++)
		harness.core->metrics.refusals[s] = 1000 + s;
}

START_TEST(metrics_name_every_status)
{
	static const char family[] = "\nrdmabroker_refusals_total{";
	char words[_STATUS_MAX][32];
	unsigned n, number;
	const char *line;

	in_server(do_count_refusals, NULL);
	ck_assert_int_eq(ctl("metrics"), 0);
	assert_openmetrics();
	for (n = 0, line = got.out; (line = strstr(line, family)); n++) {
		line += strlen(family);
		ck_assert_uint_lt(n + 1, _STATUS_MAX);
		ck_assert_int_eq(sscanf(line, "status=\"%31[a-z-]\"} %u\n", words[n], &number), 2);
		ck_assert_uint_eq(number, 1000 + n + 1);
		for (unsigned i = 0; i < n; i++)
			ck_assert_str_ne(words[i], words[n]);
	}
	ck_assert_uint_eq(n + 1, _STATUS_MAX);
}
END_TEST

/* There are more rules than fit on a page. */
START_TEST(metrics_have_pages)
{
	char text[150 * 32] = "", line[32];

	for (int i = 0; i < 149; i++) {
		snprintf(line, sizeof(line), "reject listen port %d\n", i + 1);
		strcat(text, line);
	}
	strcat(text, "allow any\n");
	set_policy(text);
	ck_assert_int_eq(ctl("metrics"), 0);
	assert_openmetrics();
	assert_has(got.out, "rdmabroker_rule_objects{file=\"test.rules\",line=\"149\"} 0\n");
	assert_has(got.out, "rdmabroker_rule_objects{file=\"\",line=\"0\"} 0\n# EOF\n");
}
END_TEST

#define SUBORDINATE 100007

/* The newest session is of a subordinate uid of user 4711. */
static void do_use_ranges(void *unused)
{
	char text[32];

	snprintf(text, sizeof(text), "4711:%u:1\n", SUBORDINATE);
	owners_use(read_ranges(text));
	be_user(container_of(harness.core->sessions.prev, struct session, link), SUBORDINATE);
}

static void do_use_none(void *unused)
{
	owners_use(NULL);
}

START_TEST(who_is_charged)
{
	struct rdmabroker *session;
	char of[32];

	set_policy("allow any\n");
	session = open_session(0);
	in_server(do_use_ranges, NULL);
	snprintf(of, sizeof(of), "%u of 4711 ", SUBORDINATE);
	ck_assert_int_eq(ctl("list", "--sessions"), 0);
	assert_has(got.out, of);
	ck_assert_int_eq(ctl("list", "--json"), 0);
	assert_json("all(s[\"charged_uid\"] == (4711 if s[\"uid\"] == 100007 else s[\"uid\"]) "
		    "for s in d[\"sessions\"])");
	ck_assert_int_eq(ctl("explain", "session", "--user", "100007"), 0);
	assert_has(got.out, "; uid 4711 is charged\n");
	ck_assert_int_eq(ctl("explain", "session", "--user", "100008"), 0);
	assert_lacks(got.out, "is charged");
	ck_assert_int_eq(ctl("explain", "session", "--user", "100007", "--json"), 0);
	assert_json("d[\"charged_uid\"] == 4711");
	in_server(do_use_none, NULL);
	rdmabroker_close(session);
}
END_TEST

UNIT_MAIN("live", set_up_ctl, tear_down, list_shows_all_fields, list_has_pages, list_prints,
	  list_refuses_bad_arguments, list_is_refreshed, list_knows_the_states, kick_ends_ids,
	  kick_ends_sessions, kick_refuses_bad_arguments, drain_refuses_new_objects,
	  drain_rejects_requests, drain_waits, metrics_count, metrics_name_every_status,
	  metrics_have_pages, who_is_charged)
