/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/hostile.h"

/*
 * The library against a hostile daemon. The input is a program: a letter for each call, and, where the library waits,
 * letters for what the daemon sends (hostile.c). Every call must return, and ids and events must be as rdmabroker.h
 * promises.
 */

#define IDS 6
#define STEPS 128
#define T 50

static struct {
	struct rdmabroker *session;
	struct rdmabroker_id *ids[IDS];
	struct hostile hostile;
	struct input input;
} w;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	silence();
	return 0;
}

static void keep(struct rdmabroker_id *id)
{
	for (int i = 0; i < IDS; i++)
		must(w.ids[i] != id);
	for (int i = 0; i < IDS; i++)
		if (!w.ids[i]) {
			w.ids[i] = id;
			return;
		}
	rdmabroker_destroy_id(id);
}

static bool is_known(const struct rdmabroker_id *id)
{
	for (int i = 0; i < IDS; i++)
		if (w.ids[i] == id)
			return true;
	return false;
}

static void check_event(const struct rdmabroker_event *event)
{
	must(rdmabroker_event_str(event->type));
	must(!event->text || strlen(event->text) < 256);
	must(!event->conn->private_data_len == !event->conn->private_data);
	for (unsigned i = 0; i < event->conn->private_data_len; i++)
		must(((const char *)event->conn->private_data)[i] != 0x55 || i < 256);
	must((event->type == RDMABROKER_EVENT_CONNECT_REQUEST) == (event->listen_id != NULL));
	must((event->type == RDMABROKER_EVENT_DONE) == (event->call != NULL));
	must((event->type == RDMABROKER_EVENT_LOST) == (event->id == NULL));
	if (event->listen_id)
		must(is_known(event->listen_id) && !is_known(event->id));
	else if (event->id)
		must(is_known(event->id));
}

static void take_event(void)
{
	struct rdmabroker_event *event;

	if (rdmabroker_get_event(w.session, T, &event) < 0)
		return;
	check_event(event);
	if (event->type == RDMABROKER_EVENT_CONNECT_REQUEST)
		keep(event->id);
	rdmabroker_free_event(event);
}

static struct rdmabroker_id *take_id(void)
{
	return w.ids[take_digit(&w.input) % IDS];
}

static const struct sockaddr *take_addr(void)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(7471),
		.sin_addr.s_addr = htonl(0x0a090001 + take_digit(&w.input)),
	};
	return (struct sockaddr *)&in;
}

static void connect_or_accept(struct rdmabroker_id *id, uint8_t c)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param),
					       .qp_num = 17,
					       .retry_count = 9 },
				     *p = &param;
	unsigned kind = take_digit(&w.input);

	if (kind & 1)
		p = NULL;
	else if (kind & 2)
		param.responder_resources = param.initiator_depth = 0xff;
	switch (c) {
	case 'C':
		rdmabroker_connect_wait(id, p, T * 10);
		break;
	case 'c':
		rdmabroker_connect(id, p);
		break;
	case 'A':
		rdmabroker_accept_wait(id, p, T);
		break;
	case 'a':
		rdmabroker_accept(id, p);
		break;
	}
}

static void new_id(void)
{
	static const enum rdmabroker_port_space spaces[] = { RDMABROKER_PS_TCP, RDMABROKER_PS_UDP };
	struct rdmabroker_id *id = NULL;

	if (rdmabroker_create_id(w.session, spaces[take(&w.input) & 1], &w, &id) == 0) {
		must(id);
		keep(id);
	}
}

static void destroy_id(void)
{
	struct rdmabroker_id **slot = &w.ids[take_digit(&w.input) % IDS];

	*slot = rdmabroker_destroy_id(*slot);
}

static void take_request(struct rdmabroker_id *listener)
{
	struct rdmabroker_id *id = NULL;

	if (rdmabroker_get_request(listener, T, &id) < 0)
		return;
	must(id && id != listener && !is_known(id));
	must(rdmabroker_get_request_event(id));
	keep(id);
}

static void import(void)
{
	struct rdmabroker_id *id = NULL;

	if (rdmabroker_import_id(w.session, w.hostile.sock, &id) == 0)
		keep(id);
}

static void make_qp(struct rdmabroker_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr qp = { .qp_state = IBV_QPS_RTR };
	int mask;

	if (rdmabroker_get_qp(id))
		rdmabroker_destroy_qp(id);
	else if (rdmabroker_create_qp(id, NULL, &attr) == 0)
		must(rdmabroker_get_qp(id));
	rdmabroker_init_qp_attr(id, &qp, &mask);
}

static void step_on_id(uint8_t c)
{
	struct rdmabroker_id *id = take_id();
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	int value, fd;

	if (!id)
		return;
	switch (c) {
	case 'o':
		rdmabroker_set_option(id, (enum rdmabroker_option)take_digit(&w.input) & 3, 1);
		break;
	case 'g':
		rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value);
		break;
	case 'b':
		rdmabroker_bind_addr(id, take_addr());
		break;
	case 'l':
		rdmabroker_listen(id, 5);
		break;
	case 'r':
		rdmabroker_resolve_addr_wait(id, NULL, take_addr(), T);
		break;
	case 'R':
		rdmabroker_resolve_route_wait(id, T);
		break;
	case 'w':
		rdmabroker_resolve_wait(id, NULL, take_addr(), T);
		break;
	case 'q':
		take_request(id);
		break;
	case 'Q':
		make_qp(id);
		break;
	case 'C':
	case 'c':
	case 'A':
	case 'a':
		connect_or_accept(id, c);
		break;
	case 'e':
		rdmabroker_establish(id);
		break;
	case 'j':
		rdmabroker_reject(id, "no", 2);
		break;
	case 'x':
		rdmabroker_disconnect_wait(id, T);
		break;
	case 'm':
		rdmabroker_join_multicast_wait(id, take_addr(), 1, T, &ud);
		break;
	case 'M':
		rdmabroker_leave_multicast(id, take_addr());
		break;
	case 'E':
		if (rdmabroker_export_id(id, &fd) == 0)
			close(fd);
		break;
	case 'G':
		rdmabroker_migrate_id(id, w.session);
		break;
	}
	must(rdmabroker_get_session(id) == w.session);
}

static bool is_word(const char *text)
{
	return !text || text[0];
}

static void check_notice(const struct rdmabroker_notice *notice)
{
	must(notice->kind && is_word(notice->operation));
	must(is_word(notice->outcome) && is_word(notice->event));
	must(is_word(notice->who.unit) && is_word(notice->rule) && is_word(notice->rule_text));
	must(is_word(notice->reason) && is_word(notice->device));
	must(notice->local.ss_family == AF_UNSPEC || notice->local.ss_family == AF_INET ||
	     notice->local.ss_family == AF_INET6);
}

static void ask_as_admin(void)
{
	struct rdmabroker_question question = { .operation = "connect" };
	struct rdmabroker_explanation *explanation;
	struct rdmabroker_reload_result *reload;
	struct rdmabroker_status *status;
	struct rdmabroker_notice *notice;
	struct rdmabroker_rules *rules;
	struct rdmabroker_list *list;
	struct ibv_context **devices;
	char *text;
	size_t n;

	switch (take_digit(&w.input)) {
	case 0:
		if (rdmabroker_get_status(w.session, &status) == 0)
			rdmabroker_free(status);
		break;
	case 1:
		if (rdmabroker_get_rules(w.session, &rules) == 0)
			rdmabroker_free(rules);
		break;
	case 2:
		if (rdmabroker_explain(w.session, &question, &explanation) == 0)
			rdmabroker_free(explanation);
		break;
	case 3:
		if (rdmabroker_reload(w.session, false, &reload) == 0)
			rdmabroker_free(reload);
		break;
	case 4:
		if (rdmabroker_get_devices(w.session, &devices, &n) == 0)
			rdmabroker_free_devices(w.session, devices);
		break;
	case 5:
		rdmabroker_watch(w.session, NULL);
		break;
	case 6:
		if (rdmabroker_get_notice(w.session, T, &notice) == 0) {
			check_notice(notice);
			rdmabroker_free(notice);
		}
		break;
	case 7:
		if (rdmabroker_get_list(w.session, 0, &list) == 0)
			rdmabroker_free(list);
		break;
	case 8:
		if (rdmabroker_get_metrics(w.session, &text) == 0)
			free(text);
		break;
	}
}

static void step(void)
{
	uint8_t c = take(&w.input);

	switch (c) {
	case '+':
		new_id();
		break;
	case '-':
		destroy_id();
		break;
	case 'v':
		take_event();
		break;
	case 'I':
		import();
		break;
	case 's':
		ask_as_admin();
		break;
	case '!':
		w.hostile.honest = !w.hostile.honest;
		break;
	default:
		step_on_id(c);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&w, 0, sizeof(w));
	w.input = (struct input){ data, size };
	w.session =
		hostile_open(&w.hostile, &w.input, take(&w.input) & 1 ? RDMABROKER_NONBLOCK : 0);
	must(w.session);
	for (int i = 0; i < STEPS && w.input.left > 0; i++)
		step();
	for (int i = 0; i < IDS; i++)
		if (take(&w.input) & 1)
			rdmabroker_destroy_id(w.ids[i]);
	hostile_close(&w.hostile, w.session);
	return 0;
}
