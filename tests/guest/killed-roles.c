/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdmabroker.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "killed.h"

/* All connections of a process share this session and these verbs objects. The parent has none. */

static struct rdmabroker *session;
static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct ibv_comp_channel *completions;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char buffer[64];

static void must(const char *what, int r)
{
	if (r < 0)
		die("%s: %s: %s", what, strerror(-r), rdmabroker_last_failure()->text);
}

static void open_session(void)
{
	int r = rdmabroker_open(NULL, &session);

	if (r < 0)
		die("open: %s: %s", strerror(-r), rdmabroker_last_failure()->text);
}

/*
 * Opens the device of ID and makes the verbs objects, unless they exist. The device stays open after ID is destroyed.
 */
static void open_verbs(struct rdmabroker_id *id)
{
	if (verbs)
		return;
	must("open_device",
	     rdmabroker_open_device(session, rdmabroker_get_device_name(id), &verbs));
	pd = ibv_alloc_pd(verbs);
	completions = ibv_create_comp_channel(verbs);
	cq = ibv_create_cq(verbs, 512, NULL, completions, 0);
	mr = pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!pd || !completions || !cq || !mr || ibv_req_notify_cq(cq, 0) != 0)
		die("verbs objects cannot be made");
}

static void make_qp(struct rdmabroker_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	must("create_qp", rdmabroker_create_qp(id, pd, &attr));
}

static struct ibv_sge sge(void)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)buffer,
		.length = sizeof(buffer),
		.lkey = mr->lkey,
	};
}

static void post_receive(struct rdmabroker_id *id)
{
	struct ibv_sge s = sge();
	struct ibv_recv_wr wr = { .sg_list = &s, .num_sge = 1 }, *bad;

	if (ibv_post_recv(rdmabroker_get_qp(id), &wr, &bad) != 0)
		die("a receive cannot be posted");
}

static void drain_completions(void)
{
	struct ibv_wc wc[16];

	while (ibv_poll_cq(cq, 16, wc) > 0)
		;
}

static struct rdmabroker_id *find_peer(void)
{
	const struct sockaddr *peer = (const struct sockaddr *)&address;
	struct rdmabroker_id *id;

	must("create_id", rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id));
	must("resolve_addr", rdmabroker_resolve_addr_wait(id, NULL, peer, DEADLINE_MS));
	must("resolve_route", rdmabroker_resolve_route_wait(id, DEADLINE_MS));
	open_verbs(id);
	make_qp(id);
	return id;
}

/* CHILD: private data, the number of a child; NULL: none. */
static struct rdmabroker_conn_param conn_param(uint32_t *child)
{
	return (struct rdmabroker_conn_param){
		.size = sizeof(struct rdmabroker_conn_param),
		.private_data = child,
		.private_data_len = child ? sizeof(*child) : 0,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

/* The client that is killed: it connects, sends and disconnects in a loop. */

static void kill_self(struct child *child)
{
	child->killed_ns = now_ns();
	raise(SIGKILL);
}

static void send_once(struct rdmabroker_id *id)
{
	struct ibv_sge s = sge();
	struct ibv_send_wr wr = {
		.sg_list = &s,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct pollfd p = { .fd = completions->fd, .events = POLLIN };
	struct ibv_send_wr *bad;
	struct ibv_cq *of;
	void *context;

	if (ibv_post_send(rdmabroker_get_qp(id), &wr, &bad) != 0)
		die("a message cannot be posted");
	if (poll(&p, 1, DEADLINE_MS) != 1 || ibv_get_cq_event(completions, &of, &context) != 0)
		die("a message is not sent");
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0) != 0)
		die("no notification");
	drain_completions();
}

void run_client(uint32_t number)
{
	struct child *child = &shared->children[number];

	open_session();
	child->state = STATE_SESSION;
	ring();
	for (;;) {
		struct rdmabroker_conn_param param = conn_param(&number);
		struct rdmabroker_id *id;
		int r;

		child->state = STATE_SESSION;
		id = find_peer();
		child->state = STATE_REQUEST;
		if (number % N_ASKING == 1) {
			must("connect", rdmabroker_connect(id, &param));
			kill_self(child);
		}
		r = rdmabroker_connect_wait(id, &param, DEADLINE_MS);
		if (r < 0) {
			fprintf(stderr, "client %u: connect: %s: %s\n", number, strerror(-r),
				rdmabroker_last_failure()->text);
			child->n_failed++;
			rdmabroker_destroy_id(id);
			continue;
		}
		child->state = STATE_ESTABLISHED;
		send_once(id);
		child->state = STATE_DISCONNECTING;
		must("disconnect", rdmabroker_disconnect_wait(id, DEADLINE_MS));
		rdmabroker_destroy_id(id);
		child->n_done++;
	}
}

/* The server, which accepts every request, or one in EVERY. */

static struct link *new_link(unsigned child)
{
	unsigned i = atomic_fetch_add(&shared->n_links, 1);
	struct link *link = &shared->links[i];

	if (i >= LINKS_MAX)
		die("too many connections");
	link->child = child;
	link->event = EVENT_NONE;
	/* The last one: see report(). */
	link->seen_ns = now_ns();
	return link;
}

static void tell_link(struct link *link, int event)
{
	link->event = event;
	link->told_ns = now_ns();
}

/* Whether the event ends the connection. */
static bool is_end(const struct rdmabroker_event *event)
{
	switch (event->type) {
	case RDMABROKER_EVENT_DISCONNECTED:
	case RDMABROKER_EVENT_REJECTED:
	case RDMABROKER_EVENT_CONNECT_ERROR:
	case RDMABROKER_EVENT_UNREACHABLE:
		return true;
	case RDMABROKER_EVENT_ESTABLISHED:
	case RDMABROKER_EVENT_TIMEWAIT_EXIT:
		return false;
	default:
		die("%s: %s", rdmabroker_event_str(event->type), event->text ? event->text : "-");
	}
}

static unsigned n_serving; /* links that have not ended */
static bool is_victim; /* this server is killed, by the parent or by itself */
static struct child *falls; /* entry of a server that kills itself; NULL: it does not */

static void end_link(struct rdmabroker_id *id, int event)
{
	tell_link(rdmabroker_get_context(id), event);
	rdmabroker_destroy_id(id);
	n_serving--;
}

static void take_request(const struct rdmabroker_event *event, bool accepting)
{
	struct rdmabroker_conn_param param = conn_param(NULL);
	uint32_t child;

	if (event->conn->private_data_len < sizeof(child))
		die("a request without private data");
	memcpy(&child, event->conn->private_data, sizeof(child));
	rdmabroker_set_context(event->id, new_link(is_victim ? NOBODY : child));
	n_serving++;
	if (!accepting)
		return;
	open_verbs(event->id);
	make_qp(event->id);
	post_receive(event->id);
	if (rdmabroker_accept(event->id, &param) < 0)
		end_link(event->id, EVENT_ACCEPT_FAILED);
	else if (falls)
		kill_self(falls);
}

static void serve_event(const struct rdmabroker_event *event, unsigned every)
{
	static unsigned n_requests;
	struct link *link;

	if (event->type == RDMABROKER_EVENT_CONNECT_REQUEST) {
		take_request(event, ++n_requests % every == 0);
		return;
	}
	link = rdmabroker_get_context(event->id);
	if (is_end(event))
		end_link(event->id, (int)event->type);
	else if (event->type == RDMABROKER_EVENT_ESTABLISHED)
		link->established = true;
}

/*
 * Serves until stdin ends (no more clients come) and all links have ended. Fails if that takes longer than
 * DEADLINE_MS after stdin's end.
 */
void run_server(unsigned every, struct child *falls_as)
{
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
	struct rdmabroker_event *event;
	struct rdmabroker_id *listener;
	int64_t deadline = 0;
	int r;

	is_victim = every > 1;
	falls = falls_as;
	open_session();
	must("create_id", rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &listener));
	must("bind_addr", rdmabroker_bind_addr(listener, (struct sockaddr *)&address));
	must("listen", rdmabroker_listen(listener, 0));
	open_verbs(listener);
	shared->listening = ntohs(address.sin_port);
	ring();
	p[0].fd = rdmabroker_get_fd(session);
	while (!deadline || n_serving > 0) {
		if (poll(p, 2, deadline ? ms_until(deadline) : -1) == 0)
			die("%u peers are dead, and nobody has told it", n_serving);
		while ((r = rdmabroker_get_event(session, 0, &event)) == 0) {
			serve_event(event, every);
			rdmabroker_free_event(event);
		}
		if (r != -EAGAIN)
			must("get_event", r);
		drain_completions();
		if (p[1].revents) {
			p[1].fd = -1;
			deadline = in_ms(DEADLINE_MS);
		}
	}
	rdmabroker_destroy_id(listener);
	rdmabroker_close(session);
}

/* The watcher. A line "PORT" on stdin begins a round, which connects to a server that is killed. */

static bool read_port(unsigned *ret)
{
	char line[16];
	ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);

	if (n <= 1)
		return false;
	line[n - 1] = 0;
	*ret = number(line, 65535);
	return true;
}

static void await_ends(unsigned n_left)
{
	int64_t deadline = in_ms(DEADLINE_MS);
	struct rdmabroker_event *event;

	while (n_left > 0) {
		struct link *link;
		int r = rdmabroker_get_event(session, ms_until(deadline), &event);

		if (r == -EAGAIN)
			die("the server is dead, and nobody has told %u of its peers", n_left);
		must("get_event", r);
		link = rdmabroker_get_context(event->id);
		if (event->type == RDMABROKER_EVENT_ESTABLISHED)
			link->established = true;
		if (is_end(event) && !link->told_ns) {
			tell_link(link, (int)event->type);
			n_left--;
		}
		rdmabroker_free_event(event);
	}
}

void run_watcher(void)
{
	unsigned port;

	open_session();
	for (uint32_t round = 1; read_port(&port); round++) {
		struct rdmabroker_conn_param param = conn_param(&round);
		struct rdmabroker_id *ids[N_WATCHED];

		address.sin_port = htons((uint16_t)port);
		for (unsigned i = 0; i < N_WATCHED; i++) {
			ids[i] = find_peer();
			rdmabroker_set_context(ids[i], new_link(round));
			must("connect", rdmabroker_connect(ids[i], &param));
		}
		await_ends(N_WATCHED);
		for (unsigned i = 0; i < N_WATCHED; i++)
			rdmabroker_destroy_id(ids[i]);
		drain_completions();
		shared->round = round;
		ring();
	}
	rdmabroker_close(session);
}
