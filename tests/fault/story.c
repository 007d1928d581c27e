/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker.h"
#include "client/admin.h"
#include "tests/fault/story.h"
#include "tests/hooks/hooks.h"
#include "tests/patience.h"

#define T PATIENCE_MS

/* Counts R, the result of the call WHAT. R must be 0 or a negative errno, not below -4095. Returns whether R is 0. */
static bool did(struct story *story, int r, const char *what)
{
	if (r > 0 || r < -4095) {
		story->broken = true;
		printf("  %s returned %d\n", what, r);
	}
	if (getenv("HOOKS_LOG"))
		printf("  %s: %d\n", what, r);
	if (r == 0)
		story->n_done++;
	else
		story->n_failed++;
	return r == 0;
}

#define DID(call) did(story, (call), #call)

static bool turn(void *userdata)
{
	sd_event *loop = hooks_get_loop();

	if (!loop || sd_event_get_state(loop) == SD_EVENT_FINISHED)
		return false;
	/* The daemon may pause after a failure, for less than a second, which the hooks make shorter. */
	return hooks_run(loop) > 0 || sd_event_run(loop, 3000) > 0;
}

static const struct sockaddr *addr(uint16_t port)
{
	static struct sockaddr_in in[4];
	static unsigned n;
	struct sockaddr_in *a = &in[n++ % 4];

	*a = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a090001),
	};
	return (struct sockaddr *)a;
}

static const struct sockaddr *group(void)
{
	static const struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = 0x010101ef,
	};

	return (const struct sockaddr *)&in;
}

/* SOCKET: the name of its file. */
static struct rdmabroker *open_session_at(struct story *story, const char *socket, unsigned flags)
{
	char path[128];
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = path,
		.flags = flags,
		.call_timeout_ms = T,
	};
	struct rdmabroker *session = NULL;

	snprintf(path, sizeof(path), "%s/%s", story->dir, socket);
	/* The fault occurs once: if the first attempt fails, the second succeeds. */
	if (!DID(rdmabroker_open(&options, &session)))
		DID(rdmabroker_open(&options, &session));
	return session;
}

static struct rdmabroker *open_session(struct story *story, unsigned flags)
{
	return open_session_at(story, "socket", flags);
}

/*
 * Waits for an event of TYPES, one bit for each type. Returns false if a call fails, if the connection or session
 * ends, or after eight events. After -ENOMEM the next call returns the event.
 */
static bool await(struct story *story, struct rdmabroker *session, uint64_t types, int timeout_ms)
{
	uint64_t ends = 1ULL << RDMABROKER_EVENT_REJECTED | 1ULL << RDMABROKER_EVENT_CONNECT_ERROR |
			1ULL << RDMABROKER_EVENT_DISCONNECTED |
			1ULL << RDMABROKER_EVENT_UNREACHABLE;

	for (int i = 0; i < 8; i++) {
		struct rdmabroker_event *event;
		int r = rdmabroker_get_event(session, timeout_ms, &event);
		enum rdmabroker_event_type type;

		did(story, r, "get_event");
		if (r == -ENOMEM)
			continue;
		if (r < 0)
			return false;
		type = event->type;
		rdmabroker_free_event(event);
		if (type < 64 && (types & (1ULL << type)))
			return true;
		if (type == RDMABROKER_EVENT_LOST || (type < 64 && (ends & (1ULL << type))))
			return false;
	}
	return false;
}

#define AWAIT(session, name) await(story, session, 1ULL << RDMABROKER_EVENT_##name, T)
/*
 * Everything runs in one thread, and a call without a timeout does not run the daemon. After this call, an event has
 * arrived or will never arrive.
 */
static void let_daemon_run(void)
{
	hooks_run(hooks_get_loop());
}

#define LOOK_FOR(session, name) \
	(let_daemon_run(), await(story, session, 1ULL << RDMABROKER_EVENT_##name, 0))

static struct rdmabroker_id *start_listening(struct story *story, struct rdmabroker *session,
					     enum rdmabroker_port_space ps, uint16_t port)
{
	struct rdmabroker_id *id = NULL;

	if (!DID(rdmabroker_create_id(session, ps, NULL, &id)))
		return NULL;
	if (DID(rdmabroker_bind_addr(id, addr(port))) && DID(rdmabroker_listen(id, 0)))
		return id;
	return rdmabroker_destroy_id(id);
}

static struct rdmabroker_id *resolve(struct story *story, struct rdmabroker *session,
				     enum rdmabroker_port_space ps, uint16_t port)
{
	struct rdmabroker_id *id = NULL;

	if (!DID(rdmabroker_create_id(session, ps, NULL, &id)))
		return NULL;
	if (DID(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 104)) &&
	    (ps == RDMABROKER_PS_UDP ? DID(rdmabroker_resolve_wait(id, NULL, addr(port), T)) :
				       DID(rdmabroker_resolve_addr_wait(id, NULL, addr(port), T)) &&
					       DID(rdmabroker_resolve_route_wait(id, T))))
		return id;
	return rdmabroker_destroy_id(id);
}

static bool make_qp(struct story *story, struct rdmabroker_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	return DID(rdmabroker_create_qp(id, NULL, &attr));
}

static struct rdmabroker_id *get_request(struct story *story, struct rdmabroker_id *listener)
{
	struct rdmabroker_id *request = NULL;
	int r;

	do {
		/* After this turn of the daemon, the request has arrived, or the connect has failed. */
		let_daemon_run();
		r = rdmabroker_get_request(listener, 0, &request);
		did(story, r, "get_request");
	} while (r == -ENOMEM);
	return request;
}

/*
 * The library moves both QPs. Returns the active id, and the passive id in RET; NULL: failed, and both are destroyed.
 */
static struct rdmabroker_id *connect_ids(struct story *story, struct rdmabroker *c,
					 struct rdmabroker *s, struct rdmabroker_id *listener,
					 struct rdmabroker_id **ret)
{
	struct rdmabroker_id *active = resolve(story, c, RDMABROKER_PS_TCP, 7471);
	struct rdmabroker_id *passive = NULL;
	bool connected = false;

	if (active && make_qp(story, active) && DID(rdmabroker_connect(active, NULL))) {
		passive = get_request(story, listener);
		if (passive && !(make_qp(story, passive) && DID(rdmabroker_accept(passive, NULL))))
			passive = rdmabroker_destroy_id(passive);
		/* The client is notified even if the passive side failed. */
		connected = AWAIT(c, ESTABLISHED);
	}
	if (connected && !LOOK_FOR(s, ESTABLISHED)) {
		AWAIT(c, CONNECT_ERROR);
		connected = false;
	}
	if (!connected) {
		rdmabroker_destroy_id(active);
		rdmabroker_destroy_id(passive);
		return NULL;
	}
	*ret = passive;
	return active;
}

static void tell_a_connection(struct story *story, struct rdmabroker *c, struct rdmabroker *s,
			      struct rdmabroker *w, struct rdmabroker_id *listener)
{
	struct rdmabroker_id *passive = NULL;
	struct rdmabroker_id *active = connect_ids(story, c, s, listener, &passive);
	int value;

	if (!active)
		return;
	DID(rdmabroker_notify(passive, IBV_EVENT_COMM_EST));
	DID(rdmabroker_get_option(active, RDMABROKER_OPTION_TOS, &value));
	/* If the call fails halfway, the id can only be destroyed. */
	if (!w || DID(rdmabroker_migrate_id(passive, w)))
		s = w ?: s;
	else
		passive = rdmabroker_destroy_id(passive);
	if (DID(rdmabroker_disconnect_wait(active, T)) && passive)
		AWAIT(s, DISCONNECTED);
	rdmabroker_destroy_id(active);
	rdmabroker_destroy_id(passive);
}

static void tell_a_reject(struct story *story, struct rdmabroker *c, struct rdmabroker_id *listener)
{
	struct rdmabroker_conn_param param = {
		.size = sizeof(param), .qp_num = 17, .private_data = "hello", .private_data_len = 5
	};
	struct rdmabroker_id *active = resolve(story, c, RDMABROKER_PS_TCP, 7471), *passive;

	if (active && DID(rdmabroker_connect(active, &param))) {
		passive = get_request(story, listener);
		if (passive)
			DID(rdmabroker_reject(passive, "no", 2));
		rdmabroker_destroy_id(passive);
		AWAIT(c, REJECTED);
	}
	rdmabroker_destroy_id(active);

	active = resolve(story, c, RDMABROKER_PS_TCP, 7999);
	if (active)
		DID(rdmabroker_connect_wait(active, &param, T));
	rdmabroker_destroy_id(active);
}

static void tell_an_export(struct story *story, struct rdmabroker *c, struct rdmabroker *w,
			   struct rdmabroker_id *listener)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 18 };
	struct rdmabroker_id *active = resolve(story, c, RDMABROKER_PS_TCP, 7471);
	struct rdmabroker_id *request, *taken = NULL;
	int fd;

	if (active && DID(rdmabroker_connect(active, &param))) {
		request = get_request(story, listener);
		if (request && DID(rdmabroker_export_id(request, &fd))) {
			DID(rdmabroker_import_id(w, fd, &taken));
			close(fd);
		}
		if (taken && DID(rdmabroker_accept(taken, &param)) && AWAIT(c, CONNECT_RESPONSE) &&
		    DID(rdmabroker_establish(active)))
			AWAIT(w, ESTABLISHED);
		rdmabroker_destroy_id(taken);
		rdmabroker_destroy_id(request);
	}
	rdmabroker_destroy_id(active);
}

static void tell_datagrams(struct story *story, struct rdmabroker *c, struct rdmabroker *s)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 19 };
	struct rdmabroker_id *listener, *active, *request;
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;

	listener = start_listening(story, s, RDMABROKER_PS_UDP, 7472);
	active = listener ? resolve(story, c, RDMABROKER_PS_UDP, 7472) : NULL;
	if (active && DID(rdmabroker_join_multicast_wait(active, group(), 1, T, &ud)))
		DID(rdmabroker_leave_multicast(active, group()));
	if (active && DID(rdmabroker_connect(active, &param))) {
		request = get_request(story, listener);
		if (request)
			DID(rdmabroker_accept(request, &param));
		rdmabroker_destroy_id(request);
		AWAIT(c, ESTABLISHED);
	}
	rdmabroker_destroy_id(active);
	rdmabroker_destroy_id(listener);
}

static void tell_groups(struct story *story, struct rdmabroker *session)
{
	struct rdmabroker_id *id = resolve(story, session, RDMABROKER_PS_UDP, 7473);
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;

	if (id && make_qp(story, id) &&
	    DID(rdmabroker_join_multicast_wait(id, group(), 1, T, &ud))) {
		rdmabroker_destroy_qp(id);
		make_qp(story, id);
	}
	rdmabroker_destroy_id(id);
}

static void tell_devices(struct story *story, struct rdmabroker *session)
{
	struct ibv_context *context, **devices;

	if (DID(rdmabroker_open_device(session, "fake0", &context)))
		rdmabroker_close_device(session, context);
	if (DID(rdmabroker_get_devices(session, &devices, NULL)))
		rdmabroker_free_devices(session, devices);
}

static void tell_of_itself(struct story *story, struct rdmabroker *session)
{
	struct rdmabroker_notice *notice;
	struct rdmabroker_id *id;

	if (!DID(rdmabroker_watch(session, NULL)))
		return;
	id = start_listening(story, session, RDMABROKER_PS_TCP, 7475);
	if (id && DID(rdmabroker_get_notice(session, T, &notice)))
		rdmabroker_free(notice);
	rdmabroker_destroy_id(id);
}

static void tell_administration(struct story *story, struct rdmabroker *session)
{
	struct rdmabroker_question question = { .operation = "connect" };
	struct rdmabroker_explanation *explanation;
	struct rdmabroker_reload_result *reload;
	struct rdmabroker_status *status;
	struct rdmabroker_rules *rules;
	char *metrics;

	if (DID(rdmabroker_reload(session, false, &reload)))
		rdmabroker_free(reload);
	raise(SIGHUP);
	if (DID(rdmabroker_get_status(session, &status)))
		rdmabroker_free(status);
	if (DID(rdmabroker_get_rules(session, &rules)))
		rdmabroker_free(rules);
	if (DID(rdmabroker_get_metrics(session, &metrics)))
		client_free(metrics);
	if (DID(rdmabroker_explain(session, &question, &explanation)))
		rdmabroker_free(explanation);
	tell_of_itself(story, session);
}

static void tell_without_blocking(struct story *story)
{
	struct rdmabroker *session = open_session(story, RDMABROKER_NONBLOCK);
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;
	int n = 1;

	if (!session)
		return;
	if (DID(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id))) {
		n += DID(rdmabroker_bind_addr(id, addr(7473)));
		n += DID(rdmabroker_listen(id, 0));
		while (n-- > 0)
			if (DID(rdmabroker_get_event(session, T, &event)))
				rdmabroker_free_event(event);
		rdmabroker_destroy_id(id);
	}
	rdmabroker_close(session);
}

/* The next question of the daemon; 0: there is none. */
static uint64_t get_question(struct story *story, struct rdmabroker *helper)
{
	struct rdmabroker_notice *notice;
	uint64_t question;

	let_daemon_run();
	if (!did(story, rdmabroker_get_notice(helper, 0, &notice), "get_notice"))
		return 0;
	question = notice->question;
	rdmabroker_free(notice);
	return question;
}

static void answer_question(struct story *story, struct rdmabroker *helper)
{
	static const uint32_t gids[] = { 5, 6 };
	const struct rdmabroker_who who = { .uid = 1234,
					    .gids = gids,
					    .n_gids = 2,
					    .knows_workload = true,
					    .unit = "a.service",
					    .job = "17" };
	uint64_t question = get_question(story, helper);

	if (question)
		DID(rdmabroker_answer_peer(helper, question, &who, NULL));
}

/* The session H is the helper that says who peers are. */
static void tell_of_peers(struct story *story, struct rdmabroker *c, struct rdmabroker *s,
			  struct rdmabroker *h)
{
	struct rdmabroker_peer_address address = { .listens = true,
						   .ps = RDMABROKER_PS_TCP,
						   .local = addr(7476) };
	struct rdmabroker_id *listener = start_listening(story, s, RDMABROKER_PS_TCP, 7476);
	struct rdmabroker_id *active = resolve(story, c, RDMABROKER_PS_TCP, 7476), *to = NULL;
	struct rdmabroker_who *found;

	if (!DID(rdmabroker_serve_peers(h)))
		goto out;
	if (listener && DID(rdmabroker_find_peer(h, &address, &found)))
		rdmabroker_free(found);
	if (listener && active && make_qp(story, active) && DID(rdmabroker_connect(active, NULL))) {
		answer_question(story, h);
		rdmabroker_destroy_id(get_request(story, listener));
	}
	if (DID(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &to)) &&
	    DID(rdmabroker_resolve_addr(to, NULL, addr(7477), T))) {
		answer_question(story, h);
		LOOK_FOR(c, ADDR_RESOLVED);
	}
out:
	rdmabroker_destroy_id(to);
	rdmabroker_destroy_id(active);
	rdmabroker_destroy_id(listener);
}

static void tell_it(struct story *story, struct rdmabroker *c, struct rdmabroker *s,
		    struct rdmabroker *w)
{
	struct rdmabroker_id *listener = start_listening(story, s, RDMABROKER_PS_TCP, 7471);
	struct rdmabroker_id *passive = NULL;
	struct rdmabroker *h;

	if (listener && c) {
		tell_a_connection(story, c, s, w, listener);
		tell_a_reject(story, c, listener);
		if (w)
			tell_an_export(story, c, w, listener);
	}
	if (c) {
		tell_datagrams(story, c, s);
		tell_groups(story, c);
	}
	tell_devices(story, s);
	tell_administration(story, s);
	tell_without_blocking(story);
	h = c ? open_session_at(story, "helper", 0) : NULL;
	if (h)
		tell_of_peers(story, c, s, h);
	rdmabroker_close(h);
	/* The end of the client's session disconnects these ids. */
	if (listener && c)
		connect_ids(story, c, s, listener, &passive);
	rdmabroker_close(c);
	if (passive)
		AWAIT(s, DISCONNECTED);
}

static void tell_that_it_serves(struct story *story)
{
	struct story after = { .dir = story->dir };
	struct rdmabroker *s = open_session(&after, 0), *c = open_session(&after, 0);
	struct rdmabroker_id *listener, *active = NULL, *passive = NULL;

	listener = s ? start_listening(&after, s, RDMABROKER_PS_TCP, 7474) : NULL;
	rdmabroker_destroy_id(listener);
	listener = listener ? start_listening(&after, s, RDMABROKER_PS_TCP, 7471) : NULL;
	if (listener && c)
		active = connect_ids(&after, c, s, listener, &passive);
	if (!active || after.n_failed > 0) {
		story->broken = true;
		printf("  the daemon does not serve any more: %u calls failed\n", after.n_failed);
	}
	rdmabroker_close(c);
	rdmabroker_close(s);
}

static void end(struct story *story, struct broker *broker, struct rdmabroker *s)
{
	struct rdmabroker_event *event;
	int r;

	raise(SIGTERM);
	hooks_run(hooks_get_loop());
	broker_free(broker);
	hooks_set_turn(NULL, NULL);
	do
		r = s ? rdmabroker_get_event(s, T, &event) : -ECONNRESET;
	while (r == 0 && (rdmabroker_free_event(event), true));
	if (r != -ECONNRESET) {
		story->broken = true;
		printf("  after the daemon's end a session says %d\n", r);
	}
	rdmabroker_close(s);
}

void story_run(struct story *story)
{
	char config[128], common[128], admin[128], helper[128], rules[128];
	struct broker_options options = {
		.config_path = config,
		.socket_path = common,
		.admin_socket_path = admin,
		.helper_socket_path = helper,
		.policy_dir = rules,
	};
	struct broker *broker = NULL;
	struct rdmabroker *s, *c, *w;

	snprintf(config, sizeof(config), "%s/rdmabrokerd.conf", story->dir);
	snprintf(common, sizeof(common), "%s/common", story->dir);
	snprintf(admin, sizeof(admin), "%s/socket", story->dir);
	snprintf(helper, sizeof(helper), "%s/helper", story->dir);
	snprintf(rules, sizeof(rules), "%s/policy.d", story->dir);
	story->started = did(story, broker_new(&broker, &options), "broker_new");
	if (!story->started)
		return;
	hooks_set_turn(turn, NULL);
	s = open_session(story, 0);
	c = open_session(story, 0);
	w = open_session(story, 0);
	if (s)
		tell_it(story, c, s, w);
	else
		rdmabroker_close(c);
	rdmabroker_close(w);
	story->n_deadlines = hooks_count_deadlines();
	story->met = hooks_disarm();
	if (story->met) {
		rdmabroker_close(s);
		tell_that_it_serves(story);
		s = open_session(story, 0);
	}
	end(story, broker, s);
}
