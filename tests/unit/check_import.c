/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/admit/rule_settings.h"
#include "core/admit/watch.h"
#include "core/verbs/bind.h"
#include "core/verbs/conn.h"
#include "core/verbs/handover.h"
#include "core/verbs/id_life.h"
#include "core/verbs/listen.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "tests/unit/be_user.h"
#include "tests/unit/pair.h"
#include "tests/unit/stopped.h"

/*
 * Policy decides about an import by the rules for the session that imports. Here the user FROM exports and the user
 * TO imports.
 */

#define FROM 1000
#define TO 2000

static struct session *from, *to;

static void become(struct session *session, uid_t uid, pid_t pid, const char *unit)
{
	be_user(session, uid);
	session->identity.pid = pid;
	workload_done(&session->identity.workload);
	for (int i = 0; i < _WORKLOAD_MAX; i++)
		session->identity.workload.names[i] = strdup(i == WORKLOAD_UNIT ? unit : "");
}

/* At first server.session has both ends of each connection. client.session only imports. */
static void set_up(void)
{
	pair_set_up();
	from = server.session;
	to = client.session;
	become(from, FROM, 10, "from.service");
	become(to, TO, 20, "to.service");
	core->settings.max_ids_per_session = 1000;
}

static uint64_t n_decided(enum policy_operation operation)
{
	uint64_t n = 0;

	for (int i = 0; i < _DECISION_MAX; i++)
		n += core->metrics.decisions[operation][i];
	return n;
}

static const struct tally *tally_of(size_t rule)
{
	return admissions_find(core->admissions, policy_rule_at(core->policy, rule));
}

static uint16_t next_port = 7500;

/*
 * Returns an id of FROM in STATE; PASSIVE: the id of the side that accepts. Events that would change STATE are held.
 */
static struct id *reach(enum id_state state, bool passive)
{
	static uint32_t handle = 10;
	struct rdma_conn_param p = param("hello");
	struct id *id = make(&server, handle++), *active, *request;
	uint16_t port = next_port++;
	unsigned n = server.n;

	if (state == ID_IDLE)
		return id;
	if (state == ID_BOUND || state == ID_LISTENING || state >= ID_CONNECTING)
		ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", port), &why), 0);
	if (state == ID_LISTENING || state >= ID_CONNECTING)
		ck_assert_int_eq(listen_start(id, 0, &why), 0);
	if (state == ID_BOUND || state == ID_LISTENING)
		return id;

	active = make(&server, handle++);
	if (state == ID_ADDR_QUERY)
		fake_hold_events(core->fabric, true);
	ck_assert_int_eq(resolve_addr(active, NULL, pair_addr("10.9.0.1", port), 100,
				      state != ID_ADDR_QUERY && state != ID_ADDR_RESOLVED, &why),
			 0);
	run_loop();
	if (state <= ID_ROUTE_RESOLVED)
		return active;
	if (state == ID_CONNECTING && !passive)
		fake_hold_events(core->fabric, true);
	p.qp_num = handle; /* a QP number that is not in time wait */
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	run_loop();
	if (state == ID_CONNECTING)
		return active;
	n = (server.n - 1) % 64;
	ck_assert_int_eq(server.events[n].type, RDMA_CM_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(table_find(from, server.events[n].request, &request, &why), 0);
	if (state == ID_REQUEST)
		return request;
	p.qp_num = 1000 + handle;
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), 0);
	run_loop();
	if (state == ID_ACCEPTED || state == ID_RESPONDED)
		return passive ? request : active;
	ck_assert_int_eq(conn_establish(active, &why), 0);
	run_loop();
	ck_assert_int_eq(active->state, ID_ESTABLISHED);
	if (state == ID_FAILED) {
		ck_assert_int_eq(conn_disconnect(active, &why), 0);
		run_loop();
	}
	return passive ? request : active;
}

static int hand_over(struct id *id, struct id **ret)
{
	int fd, r;

	ck_assert_int_eq(handover_export(id, &fd, &why), 0);
	r = handover_import(to, fd, ret, &why);
	close(fd);
	/* Closing the last copy of the descriptor ends the export. */
	run_loop();
	return r;
}

static void let_go(void)
{
	fake_hold_events(core->fabric, false);
	run_loop();
}

START_TEST(each_state_needs_a_rule_for_its_operation)
{
	static const struct {
		enum id_state state;
		bool passive;
		enum policy_operation operation;
	} table[] = {
		{ ID_BOUND, false, _POLICY_OPERATION_MAX }, /* a rule for listen or for connect suffices */
		{ ID_LISTENING, false, POLICY_LISTEN },
		{ ID_ADDR_QUERY, false, POLICY_CONNECT },
		{ ID_ADDR_RESOLVED, false, POLICY_CONNECT },
		{ ID_ROUTE_RESOLVED, false, POLICY_CONNECT },
		{ ID_CONNECTING, false, POLICY_CONNECT },
		{ ID_RESPONDED, false, POLICY_CONNECT },
		{ ID_ESTABLISHED, false, POLICY_CONNECT },
		{ ID_REQUEST, true, POLICY_ACCEPT },
		{ ID_ACCEPTED, true, POLICY_ACCEPT },
		{ ID_ESTABLISHED, true, POLICY_ACCEPT },
	};
	static const char *const none = "allow any user 1000\nallow session\nallow join\n"
					"reject any user 2000 reason \"not yours\"\n";
	static const struct {
		enum policy_operation operation;
		const char *rules;
	} one[] = {
		{ POLICY_LISTEN, "allow any user 1000\nallow listen user 2000\n" },
		{ POLICY_CONNECT, "allow any user 1000\nallow connect user 2000\n" },
		{ POLICY_ACCEPT, "allow any user 1000\nallow accept user 2000\n" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		for (size_t j = 0; j < sizeof(one) / sizeof(one[0]); j++) {
			bool good =
				one[j].operation == table[i].operation ||
				(table[i].state == ID_BOUND && one[j].operation != POLICY_ACCEPT);
			struct id *id = reach(table[i].state, table[i].passive), *moved = NULL;
			enum id_state state = id->state;
			struct policy_rule const *rule = id->grant.rule;
			int r;

			ck_assert_int_eq(state, table[i].state);
			pair_set_policy(none);
			ck_assert_int_eq(hand_over(id, &moved), STATUS_DENIED);
			ck_assert_int_eq(why.error, EACCES);
			ck_assert_ptr_nonnull(strstr(why.text, "not yours"));
			ck_assert_int_eq(id->state, state);
			ck_assert_ptr_eq(id->session, from);
			ck_assert_ptr_eq(id->grant.rule, rule);

			pair_set_policy(one[j].rules);
			r = hand_over(id, &moved);
			ck_assert_msg(r == (good ? 0 : STATUS_DENIED), "%s, %s: %d",
				      id_state_to_string(state), one[j].rules, r);
			ck_assert_int_eq(id->state, good ? ID_MOVED : state);
			if (good) {
				ck_assert_int_eq(moved->state, state);
				if (moved->grant.rule)
					ck_assert_uint_eq(moved->grant.rule->line, 2);
			}
			pair_set_policy("allow any\n");
			let_go();
			id_free(moved);
			id_free(id);
			run_loop();
		}
	}
}
END_TEST

/* An id without an address, or one whose connection has ended, can be imported without a rule. */
START_TEST(states_that_need_no_rule)
{
	struct id *idle = reach(ID_IDLE, false), *ended = reach(ID_FAILED, false), *moved;

	pair_set_policy("allow session\n");
	ck_assert_int_eq(hand_over(idle, &moved), 0);
	ck_assert_int_eq(hand_over(ended, &moved), 0);
}
END_TEST

START_TEST(a_refused_import_keeps_the_export)
{
	struct id *id = reach(ID_LISTENING, false), *moved;
	unsigned n_ids = core->n_ids;
	int fd;

	pair_set_policy("allow session\nreject listen user 2000\nallow any\n");
	ck_assert_int_eq(handover_export(id, &fd, &why), 0);
	ck_assert_int_eq(handover_import(to, fd, &moved, &why), STATUS_DENIED);
	ck_assert_str_eq(why.rule, "test.rules:2");
	ck_assert_uint_eq(core->n_ids, n_ids);
	ck_assert_uint_eq(tally_of(1)->n_rejected, 1);
	/* After a refused import, a session of another user can still import the id. */
	become(to, 3000, 20, "to.service");
	ck_assert_int_eq(handover_import(to, fd, &moved, &why), 0);
	ck_assert_int_eq(moved->state, ID_LISTENING);
	ck_assert_uint_eq(moved->grant.rule->line, 3);
	close(fd);
}
END_TEST

static struct notice last;
static unsigned n_notices;

static void on_event(void *userdata, const struct session_event *event)
{
}

static bool on_notice(void *userdata, const struct notice *notice)
{
	last = *notice;
	n_notices++;
	return true;
}

START_TEST(imports_are_reported)
{
	static const struct session_ops ops = { .event = on_event, .notice = on_notice };
	struct watch_filter filter = { .kind = NOTICE_DECISION, .operation = -1, .outcome = -1 };
	struct id *id = reach(ID_ROUTE_RESOLVED, false), *moved;
	uint64_t n = n_decided(POLICY_CONNECT);

	from->ops = &ops;
	ck_assert_int_eq(watch_start(from, &filter, &why), 0);
	pair_set_policy("allow session\nreject connect user 2000\n");
	ck_assert_int_eq(hand_over(id, &moved), STATUS_DENIED);
	ck_assert_uint_eq(n_notices, 1);
	ck_assert_int_eq(last.operation, POLICY_CONNECT);
	ck_assert_int_eq(last.outcome, NOTICE_REJECTED);
	ck_assert_ptr_eq(last.session, to);
	ck_assert_ptr_null(last.id);
	pair_set_policy("allow session\nallow connect user 2000\n");
	ck_assert_int_eq(hand_over(id, &moved), 0);
	ck_assert_uint_eq(n_notices, 2);
	ck_assert_int_eq(last.outcome, NOTICE_ALLOWED);
	ck_assert_uint_eq(tally_of(1)->n_allowed, 1);
	ck_assert_uint_eq(n_decided(POLICY_CONNECT), n + 2);
}
END_TEST

START_TEST(imports_by_the_same_user_and_unit)
{
	struct id *id = reach(ID_LISTENING, false), *moved;
	uint64_t n = n_decided(POLICY_LISTEN);

	become(to, FROM, 20, "from.service");
	ck_assert_int_eq(hand_over(id, &moved), 0);
	ck_assert_uint_eq(n_decided(POLICY_LISTEN), n);

	/* If the importer's unit or groups differ from the exporter's, policy decides about the import. */
	become(to, FROM, 20, "to.service");
	id = reach(ID_LISTENING, false);
	n = n_decided(POLICY_LISTEN);
	ck_assert_int_eq(hand_over(id, &moved), 0);
	ck_assert_uint_eq(n_decided(POLICY_LISTEN), n + 1);
	become(to, FROM, 20, "from.service");
	to->identity.gids[0]++;
	id = reach(ID_LISTENING, false);
	n = n_decided(POLICY_LISTEN);
	ck_assert_int_eq(hand_over(id, &moved), 0);
	ck_assert_uint_eq(n_decided(POLICY_LISTEN), n + 1);
	to->identity.gids[0]--;

	/*
	 * A reload voids earlier decisions, so policy decides about the import. Imports between sessions of one
	 * process are not decided.
	 */
	id = reach(ID_LISTENING, false);
	pair_set_policy("allow session\n");
	ck_assert_int_eq(hand_over(id, &moved), STATUS_DENIED);
	n = n_decided(POLICY_LISTEN);
	become(to, FROM, 10, "from.service");
	ck_assert_int_eq(hand_over(id, &moved), 0);
	ck_assert_uint_eq(n_decided(POLICY_LISTEN), n);
}
END_TEST

/* The pid of an exporter that has ended can be the importer's. */
START_TEST(an_exporter_that_has_ended)
{
	struct id *id = reach(ID_LISTENING, false), *moved;
	int pidfd = from->identity.pidfd;
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	from->identity.pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	ck_assert_int_ge(from->identity.pidfd, 0);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	become(to, FROM, 10, "to.service");
	pair_set_policy("allow session\n");
	ck_assert_int_eq(hand_over(id, &moved), STATUS_DENIED);
	close(from->identity.pidfd);
	from->identity.pidfd = pidfd;
	ck_assert_int_eq(hand_over(id, &moved), 0);
}
END_TEST

START_TEST(the_importers_rule_counts_the_id)
{
	struct id *ids[4], *moved;

	stop_time();
	pair_set_policy("allow any user 1000 max 100\nallow session\n"
			"allow listen user 2000 max 2 rate 1/s burst 1\n");
	for (int i = 0; i < 4; i++)
		ids[i] = reach(ID_LISTENING, false);
	ck_assert_uint_eq(tally_of(0)->n_now, 4);
	/* The rate of the rule does not apply to imports. */
	ck_assert_int_eq(hand_over(ids[0], &moved), 0);
	ck_assert_int_eq(hand_over(ids[1], &moved), 0);
	ck_assert_uint_eq(tally_of(0)->n_now, 2);
	ck_assert_uint_eq(tally_of(2)->n_now, 2);
	ck_assert_int_eq(hand_over(ids[2], &moved), STATUS_BUSY);
	ck_assert_ptr_nonnull(strstr(why.text, "max 2"));
	ck_assert_int_eq(ids[2]->state, ID_LISTENING);
	ck_assert_uint_eq(tally_of(0)->n_now, 2);
	ck_assert_uint_eq(tally_of(2)->n_busy, 1);
	pair_set_policy("allow any user 1000 max 100\nallow listen user 2000\n");
	ck_assert_int_eq(hand_over(ids[2], &moved), 0);
	id_free(moved);
	ck_assert_uint_eq(tally_of(1)->n_now, 0);
}
END_TEST

/*
 * If one rule covers both users, an import does not count the object twice. The rule's max-per-user applies to each
 * user.
 */
START_TEST(a_rule_for_both_users)
{
	struct id *ids[3], *moved;

	pair_set_policy("allow any port 7000-7999 max 3 max-per-user 2\n");
	for (int i = 0; i < 2; i++)
		ids[i] = reach(ID_LISTENING, false);
	become(from, 3000, 10, "from.service");
	ids[2] = reach(ID_LISTENING, false);
	ck_assert_uint_eq(tally_of(0)->n_now, 3);
	ck_assert_int_eq(hand_over(ids[2], &moved), 0);
	become(from, FROM, 10, "from.service");
	ck_assert_int_eq(hand_over(ids[0], &moved), 0);
	ck_assert_uint_eq(tally_of(0)->n_now, 3);
	ck_assert_int_eq(hand_over(ids[1], &moved), STATUS_BUSY);
	ck_assert_ptr_nonnull(strstr(why.text, "max-per-user 2"));
	ck_assert_uint_eq(tally_of(0)->n_now, 3);
	/* The importer destroys an id, so the rule admits another listener of the exporter. */
	ck_assert_int_eq(table_find(to, SESSION_FIRST_REQUEST, &moved, &why), 0);
	id_free(moved);
	reach(ID_LISTENING, false);
	ck_assert_uint_eq(tally_of(0)->n_now, 3);
}
END_TEST

START_TEST(a_request_is_handed_to_a_worker)
{
	struct rdma_conn_param p = param("");
	struct id *request, *moved;
	struct qp_attr rtr;

	/* Settings that the exporter's rule forced do not apply to the importer. */
	pair_set_policy("allow any user 1000 tos 8\nallow any user 2000 tos-max 4\n");
	request = reach(ID_REQUEST, true);
	ck_assert_int_eq(request->options.now[OPTION_TOS], 8);
	ck_assert_int_eq(hand_over(request, &moved), 0);
	ck_assert_int_eq(rule_settings_get_qp_attr(moved, IBV_QPS_RTR, &rtr, &why), 0);
	ck_assert_uint_eq(rtr.attr.ah_attr.grh.traffic_class, 0);
	id_free(moved);
	run_loop();

	request = reach(ID_REQUEST, true);
	/* The importer's rule sees the private data, and its settings apply to the accept. */
	pair_set_policy(
		"allow session\nallow any user 1000\n"
		"allow accept user 2000 data \"hello\" tos 104 pending 1 initiator-depth 4\n");
	ck_assert_int_eq(hand_over(request, &moved), 0);
	ck_assert_uint_eq(tally_of(2)->n_pending, 1);
	ck_assert_int_eq(rule_settings_get_qp_attr(moved, IBV_QPS_RTR, &rtr, &why), -EINPROGRESS);
	run_loop();
	ck_assert_int_eq(rule_settings_get_qp_attr(moved, IBV_QPS_RTR, &rtr, &why), 0);
	ck_assert_uint_eq(rtr.attr.ah_attr.grh.traffic_class, 104);
	ck_assert_int_eq(rule_settings_get_caps(moved)->initiator_depth, 4);
	/* The importer's rule limits pending requests. */
	request = reach(ID_REQUEST, true);
	ck_assert_int_eq(hand_over(request, &moved), STATUS_BUSY);
	ck_assert_ptr_nonnull(strstr(why.text, "pending 1"));
	ck_assert_int_eq(table_find(to, SESSION_FIRST_REQUEST, &moved, &why), 0);
	ck_assert_int_eq(conn_accept(moved, &p, NULL, &why), 0);
	ck_assert_uint_eq(tally_of(2)->n_pending, 0);
	ck_assert_int_eq(hand_over(request, &moved), 0);
	ck_assert_int_eq(conn_accept(moved, &p, NULL, &why), 0);
	run_loop();
}
END_TEST

/*
 * A route is resolved for one traffic class. An importer whose rule sets another class cannot connect over this
 * route.
 */
START_TEST(a_route_of_another_traffic_class)
{
	struct id *id, *resolved = reach(ID_ADDR_RESOLVED, false), *moved;
	struct rdma_conn_param p = param("");

	id = reach(ID_ROUTE_RESOLVED, false);
	pair_set_policy("allow any user 1000\nallow connect user 2000 tos 104\n");
	ck_assert_int_eq(hand_over(id, &moved), 0);
	ck_assert_int_eq(conn_connect(moved, &p, NULL, &why), STATUS_BAD_STATE);
	ck_assert_int_eq(why.error, ESTALE);
	ck_assert_int_eq(hand_over(resolved, &moved), 0);
	ck_assert_int_eq(moved->options.now[OPTION_TOS], 104);
	ck_assert_int_eq(resolve_route(moved, 100, &why), 0);
	run_loop();
	ck_assert_int_eq(conn_connect(moved, &p, NULL, &why), 0);
	run_loop();
	/*
	 * If a setting cannot be applied, the import succeeds without a rule. The next step is decided anew, and
	 * applies the setting.
	 */
	resolved = reach(ID_ADDR_RESOLVED, false);
	pair_set_policy("allow any user 1000\nallow connect user 2000 ack-timeout 14\n");
	fake_fail_next(core->fabric, FAKE_SET_OPTION, -EIO);
	ck_assert_int_eq(hand_over(resolved, &moved), 0);
	ck_assert_ptr_null(moved->grant.rule);
	ck_assert_int_eq(resolve_route(moved, 100, &why), 0);
	ck_assert_int_eq(moved->options.now[OPTION_ACK_TIMEOUT], 14);
	run_loop();
}
END_TEST

START_TEST(a_privileged_or_shared_port_is_decided)
{
	struct id *bound = make(&server, 1), *shared = make(&server, 2), *moved;

	/* If the id's port is below 1024, the import needs a rule that names the port. */
	pair_set_policy("allow any user 1000 port 1-1023\nallow any user 1000 reuseaddr yes\n");
	ck_assert_int_eq(bind_addr(bound, pair_addr("10.9.0.1", 443), &why), 0);
	pair_set_policy("allow listen user 1000 port 1-1023\nallow any\n");
	ck_assert_int_eq(hand_over(bound, &moved), STATUS_DENIED);
	ck_assert_ptr_nonnull(strstr(why.text, "below 1024"));
	ck_assert_int_eq(listen_start(bound, 0, &why), 0);
	ck_assert_int_eq(hand_over(bound, &moved), STATUS_DENIED);
	ck_assert_ptr_nonnull(strstr(why.text, "below 1024"));
	pair_set_policy("allow listen port 1-1023\nallow any\n");
	ck_assert_int_eq(hand_over(bound, &moved), 0);

	/* If an id shares its source port, the rule that allows its import must also allow REUSEADDR. */
	pair_set_policy("allow any user 1000 reuseaddr yes\nallow any user 2000\n");
	ck_assert_int_eq(
		resolve_addr(shared, NULL, pair_addr("10.9.0.1", 7471), 100, ROUTE_LATER, &why), 0);
	run_loop();
	ck_assert(options_has_reuseaddr(&shared->options));
	ck_assert_int_eq(hand_over(shared, &moved), STATUS_DENIED);
	ck_assert_ptr_nonnull(strstr(why.text, "REUSEADDR"));
}
END_TEST

/*
 * The device is not known before the address is resolved, so the imported id has no rule. Afterwards the rules for
 * the new owner decide.
 */
START_TEST(while_the_address_is_resolved)
{
	struct id *id = reach(ID_ADDR_QUERY, false), *moved;
	unsigned n = client.n;

	pair_set_policy("allow session\nallow connect user 2000\n");
	ck_assert_int_eq(hand_over(id, &moved), 0);
	ck_assert_ptr_null(moved->grant.rule);
	pair_set_policy("allow session\nallow connect user 1000\n");
	fake_hold_events(core->fabric, false);
	pair_expect(&client, n, RDMA_CM_EVENT_ADDR_ERROR, -EACCES);
	ck_assert_int_eq(moved->state, ID_BOUND);
}
END_TEST

UNIT_MAIN("import", set_up, pair_tear_down, each_state_needs_a_rule_for_its_operation,
	  states_that_need_no_rule, a_refused_import_keeps_the_export, imports_are_reported,
	  imports_by_the_same_user_and_unit, an_exporter_that_has_ended,
	  the_importers_rule_counts_the_id, a_rule_for_both_users, a_request_is_handed_to_a_worker,
	  a_route_of_another_traffic_class, a_privileged_or_shared_port_is_decided,
	  while_the_address_is_resolved)
