/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/verbs/conn.h"
#include "core/verbs/handover.h"
#include "core/object/timewait.h"
#include "tests/unit/pair.h"

/*
 * A client can offer the numbers of its own QPs. A rule with "qp reserved" also allows numbers of which the kernel
 * knows no QP.
 */

#define NOBODYS 6000
#define OWN "allow session\nallow listen\nallow connect\nallow accept\n"
#define RESERVED \
	"allow session\nallow listen\nallow connect qp reserved\nallow accept qp reserved\n"

static void set_up(void)
{
	pair_set_up();
	pair_start_listening(7471);
	fake_hide_qp(core->fabric, NOBODYS);
	fake_estrange_qp(core->fabric, STRANGER);
}

/* Calls VERB, conn_connect() or conn_accept(), with the QP number QPN. */
static int offer(int (*verb)(struct id *id, const struct rdma_conn_param *param,
			     const struct ibv_ece *local_ece, struct failure *failure),
		 struct id *id, uint32_t qpn)
{
	struct rdma_conn_param p = param("hello");
	int r;

	p.qp_num = qpn;
	r = verb(id, &p, NULL, &why);
	run_loop();
	return r;
}

static int connect_with(struct id *id, uint32_t qpn)
{
	return offer(conn_connect, id, qpn);
}

static int accept_with(struct id *id, uint32_t qpn)
{
	return offer(conn_accept, id, qpn);
}

/* Connects the client's id HANDLE, which offers QPN. Returns the server's id of the request. */
static struct id *request_from(uint32_t handle, uint32_t qpn)
{
	struct id *request;
	unsigned n = server.n;

	ck_assert_int_eq(connect_with(pair_resolve(handle, 7471), qpn), 0);
	ck_assert_uint_eq(server.n, n + 1);
	pair_expect(&server, n, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_uint_eq(server.events[n].conn.qp_num, qpn);
	ck_assert_int_eq(table_find(server.session, server.events[n].request, &request, &why), 0);
	return request;
}

static void expect_refused(int r, const char *text)
{
	ck_assert_int_eq(r, STATUS_NOT_OWNER);
	ck_assert_int_eq(why.error, EPERM);
	ck_assert_ptr_nonnull(strstr(why.text, text));
}

START_TEST(a_connect)
{
	struct id *id;

	pair_set_policy(OWN);
	id = pair_resolve(1, 7471);
	expect_refused(connect_with(id, NOBODYS),
		       "QP number 6000 of fake0 does not belong to process ");
	ck_assert_ptr_nonnull(strstr(why.text, ": the kernel knows no such QP"));
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	pair_set_policy(
		"allow session\nallow listen\nallow connect qp own\nallow accept qp reserved\n");
	id = pair_resolve(2, 7471);
	expect_refused(connect_with(id, NOBODYS), "does not belong");
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 0);
	/* The program can try again with a QP of its own. */
	ck_assert_int_eq(connect_with(id, QPN), 0);

	pair_set_policy(RESERVED);
	request_from(3, NOBODYS);
	request_from(4, QPN + 1);
	pair_set_policy("allow any qp reserved\n");
	request_from(5, NOBODYS);
}
END_TEST

START_TEST(an_accept)
{
	struct id *request;
	unsigned n;

	pair_set_policy(OWN);
	request = request_from(1, QPN);
	expect_refused(accept_with(request, NOBODYS), "the kernel knows no such QP");
	ck_assert_int_eq(request->state, ID_REQUEST);
	ck_assert_int_eq(accept_with(request, QPN + 1), 0);
	pair_set_policy("allow session\nallow listen\nallow connect qp reserved\nallow accept\n");
	request = request_from(2, QPN + 2);
	expect_refused(accept_with(request, NOBODYS), "the kernel knows no such QP");
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_ACCEPT), 1);

	pair_set_policy(RESERVED);
	request = request_from(3, QPN + 3);
	n = client.n;
	ck_assert_int_eq(accept_with(request, NOBODYS), 0);
	pair_expect(&client, n, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_uint_eq(client.events[n].conn.qp_num, NOBODYS);
	ck_assert_int_eq(accept_with(request_from(4, QPN + 4), QPN + 5), 0);
}
END_TEST

/* The kernel does not tell whose it is. Only who accepts has one. */
START_TEST(a_target_of_xrc)
{
	struct id *id, *request;

	fake_make_xrc_target(core->fabric, NOBODYS + 1);
	pair_set_policy(OWN);
	request = request_from(1, QPN);
	expect_refused(
		accept_with(request, NOBODYS + 1),
		"the kernel does not tell whose a target QP of XRC is; only a rule with \"qp "
		"reserved\" allows one");
	pair_set_policy(RESERVED);
	request = request_from(2, QPN + 1);
	id = pair_resolve(3, 7471);
	expect_refused(connect_with(id, NOBODYS + 1), "does not belong to process");
	ck_assert_int_eq(accept_with(request, NOBODYS + 1), 0);
}
END_TEST

/* "qp reserved" affects neither QPs of other processes nor numbers whose owner cannot be found out. */
START_TEST(a_qp_of_another_process_with_the_setting)
{
	struct id *id, *request;

	pair_set_policy(RESERVED);
	id = pair_resolve(1, 7471);
	expect_refused(connect_with(id, STRANGER), "does not belong to process");
	ck_assert_ptr_null(strstr(why.text, "the kernel knows"));
	fake_fail_next(core->fabric, FAKE_QP_BELONGS, -EIO);
	ck_assert_int_eq(connect_with(id, NOBODYS), STATUS_FABRIC);
	client.session->identity.proven = false;
	if (identity_doubt(&client.session->identity))
		ck_assert_int_eq(connect_with(id, NOBODYS), STATUS_NOT_OWNER);
	client.session->identity.proven = true;
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 0);
	request = request_from(2, NOBODYS);
	expect_refused(accept_with(request, STRANGER), "does not belong to process");
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_ACCEPT), 0);
	/* The number that an accept offers decides, and not that of an earlier attempt. */
	pair_set_policy(OWN);
	expect_refused(accept_with(request, NOBODYS), "the kernel knows no such QP");
	expect_refused(accept_with(request, STRANGER), "does not belong to process");
	ck_assert_int_eq(accept_with(request, QPN), 0);
}
END_TEST

START_TEST(a_reload_takes_the_setting_away)
{
	struct id *id, *request;

	pair_set_policy(RESERVED);
	id = pair_resolve(1, 7471);
	request = request_from(2, NOBODYS);
	pair_set_policy(OWN);
	expect_refused(connect_with(id, NOBODYS), "the kernel knows no such QP");
	expect_refused(accept_with(request, NOBODYS), "the kernel knows no such QP");
	ck_assert_int_eq(request->state, ID_REQUEST);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 1);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_ACCEPT), 0);
	/* Another reload allows reserved numbers again. */
	pair_set_policy(RESERVED);
	ck_assert_int_eq(connect_with(id, NOBODYS), 0);
	ck_assert_int_eq(accept_with(request, NOBODYS), 0);
}
END_TEST

/* Returns the index of the only event of TYPE since event FIRST. */
static unsigned find_event(struct record *record, unsigned first, enum rdma_cm_event_type type)
{
	unsigned found = record->n;

	for (unsigned i = first; i < record->n; i++)
		if (record->events[i].type == type) {
			ck_assert_uint_eq(found, record->n);
			found = i;
		}
	ck_assert_uint_lt(found, record->n);
	return found;
}

/*
 * Puts NOBODYS into time wait, so that connects and accepts that offer it are held back until end_rest(). Returns the
 * client's id of the ended connection.
 */
static struct id *rest(void)
{
	struct id *request = request_from(1, NOBODYS), *active;
	unsigned n = client.n;

	ck_assert_int_eq(table_find(client.session, 1, &active, &why), 0);
	ck_assert_int_eq(accept_with(request, QPN), 0);
	pair_expect(&client, n, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_int_eq(conn_establish(active, &why), 0);
	run_loop();
	active->handshake.qp_timeout =
		31; /* the time wait lasts a minute, unless end_rest() ends it */
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	run_loop();
	return active;
}

static void end_rest(struct id *active)
{
	fake_send_event_to(core->fabric, active->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	run_loop();
}

START_TEST(a_reload_while_a_connect_is_held_back)
{
	struct id *active, *id, *imported;
	unsigned n, n_server, n_connects;
	int fd;

	pair_set_policy(RESERVED);
	active = rest();
	n_connects = fake_count(core->fabric, FAKE_CONNECT);
	id = pair_resolve(2, 7471);
	ck_assert_int_eq(connect_with(id, NOBODYS), 0);
	ck_assert_ptr_nonnull(id->handshake.held);
	/* The rule in force also decides about a held connect whose id another session has imported. */
	imported = pair_resolve(3, 7471);
	ck_assert_int_eq(connect_with(imported, NOBODYS), 0);
	ck_assert_int_eq(handover_export(imported, &fd, &why), 0);
	ck_assert_int_eq(handover_import(server.session, fd, &imported, &why), 0);
	close(fd);
	run_loop();
	ck_assert_ptr_nonnull(imported->handshake.held);

	pair_set_policy(OWN);
	n = client.n;
	n_server = server.n;
	end_rest(active);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n_connects);
	n = find_event(&client, n, RDMA_CM_EVENT_CONNECT_ERROR);
	ck_assert_int_eq(client.events[n].status, -EPERM);
	ck_assert_uint_eq(client.events[n].id, 2);
	ck_assert_ptr_nonnull(strstr(client.events[n].text, "the kernel knows no such QP"));
	ck_assert_int_eq(id->state, ID_FAILED);
	n = find_event(&server, n_server, RDMA_CM_EVENT_CONNECT_ERROR);
	ck_assert_int_eq(server.events[n].status, -EPERM);
	ck_assert_int_eq(imported->state, ID_FAILED);
}
END_TEST

START_TEST(a_held_connect_is_sent_if_the_rule_still_accepts_it)
{
	struct id *active;
	unsigned n_connects;

	pair_set_policy(RESERVED);
	active = rest();
	n_connects = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert_int_eq(connect_with(pair_resolve(2, 7471), NOBODYS), 0);
	pair_set_policy("allow any qp reserved\n");
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n_connects);
	end_rest(active);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n_connects + 1);
}
END_TEST

/* If a held accept is refused, the peer must get a reject. Otherwise it would wait for an answer. */
START_TEST(a_reload_while_an_accept_is_held_back)
{
	struct id *active, *request;
	struct refusal refusal;
	unsigned n, n_server, n_accepts;

	pair_set_policy(RESERVED);
	active = rest();
	n_accepts = fake_count(core->fabric, FAKE_ACCEPT);
	request = request_from(2, QPN + 1);
	ck_assert_int_eq(accept_with(request, NOBODYS), 0);
	ck_assert_ptr_nonnull(request->handshake.held);
	pair_set_policy(OWN);
	n = client.n;
	n_server = server.n;
	end_rest(active);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_ACCEPT), n_accepts);
	ck_assert_int_eq(request->state, ID_FAILED);
	n_server = find_event(&server, n_server, RDMA_CM_EVENT_CONNECT_ERROR);
	ck_assert_int_eq(server.events[n_server].status, -EPERM);
	n = find_event(&client, n, RDMA_CM_EVENT_REJECTED);
	ck_assert_int_eq(client.events[n].status, 28);
	ck_assert(refusal_unpack(&refusal, client.events[n].data, 148));
	ck_assert_int_eq(refusal.code, REFUSAL_DENIED);
	ck_assert_str_eq(refusal.text, "policy has changed");
}
END_TEST

/* Diverts the log to a temporary file, and returns the file. */
static FILE *divert_log(void)
{
	FILE *file = tmpfile();

	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(dup2(fileno(file), STDERR_FILENO), 0);
	return file;
}

/* Returns what was logged, in a static buffer. */
static const char *read_log(FILE *file)
{
	static char text[8192];
	size_t n;

	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = 0;
	return text;
}

START_TEST(the_log)
{
	FILE *file;

	pair_set_policy(OWN);
	file = divert_log();
	connect_with(pair_resolve(1, 7471), NOBODYS);
	ck_assert_ptr_nonnull(strstr(read_log(file),
				     "offered QP 6000 of fake0: the kernel knows no such QP. "
				     "test.rules:3 would accept it with \"qp reserved\".\n"));
	/* A number that the rule accepts is logged only if the rule has "log". */
	pair_set_policy("allow session\nallow listen\nallow connect qp reserved log\n"
			"allow accept qp reserved\n");
	file = divert_log();
	ck_assert_int_eq(accept_with(request_from(2, NOBODYS), NOBODYS), 0);
	ck_assert_ptr_nonnull(strstr(read_log(file),
				     ": connect to 10.9.0.1:7471 allowed by test.rules:3: qp "
				     "reserved: QP 6000 of fake0: the kernel knows no such QP"));
	ck_assert_ptr_null(strstr(read_log(file), "test.rules:4"));
	pair_set_policy(
		"allow session\nallow listen\nallow connect\nallow accept qp reserved log\n");
	file = divert_log();
	ck_assert_int_eq(accept_with(request_from(3, QPN), NOBODYS), 0);
	ck_assert_ptr_nonnull(strstr(read_log(file),
				     " allowed by test.rules:4: qp reserved: QP 6000 of fake0: "
				     "the kernel knows no such QP"));
	/* For a QP of the client's own, only the decision is logged. */
	file = divert_log();
	ck_assert_int_eq(accept_with(request_from(4, QPN + 1), QPN + 2), 0);
	ck_assert_ptr_nonnull(strstr(read_log(file), " allowed by test.rules:4."));
	ck_assert_ptr_null(strstr(read_log(file), "qp reserved"));
}
END_TEST

UNIT_MAIN("qpcheck", set_up, pair_tear_down, a_connect, an_accept, a_target_of_xrc,
	  a_qp_of_another_process_with_the_setting, a_reload_takes_the_setting_away,
	  a_reload_while_a_connect_is_held_back,
	  a_held_connect_is_sent_if_the_rule_still_accepts_it,
	  a_reload_while_an_accept_is_held_back, the_log)
