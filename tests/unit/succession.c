/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdlib.h>

#include "broker.h"
#include "client/admin.h"
#include "tests/fake/fake.h"
#include "tests/hooks/hooks.h"
#include "tests/unit/manager.h"
#include "tests/unit/place.h"
#include "tests/unit/succession.h"
#include "tests/unit/unit.h"

static struct broker *broker, *dead[4096];
static unsigned n_dead;
static struct rdmabroker *replies; /* NULL: the replies of a session come by its own socket */

struct rdmabroker *server, *client;
struct rdmabroker_id *listener, *accepted, *id;
jmp_buf killed;
static unsigned flags; /* of sessions */
bool kills_in_wait;
void (*before_kill)(void);

void on_kill(void)
{
	longjmp(killed, 1);
}

/* If the daemon is killed in this turn, the next one takes over. */
static bool turn(void *userdata)
{
	sd_event *loop = hooks_get_loop();

	if (hooks_left_until_kill() > 0 && setjmp(killed) != 0) {
		restart();
		return true;
	}
	if (hooks_run(loop) > 0)
		return true;
	if (kills_in_wait) {
		kills_in_wait = false;
		if (before_kill)
			before_kill();
		restart();
		return true;
	}
	/* The daemon may pause for less than a second, which the hooks make shorter. */
	return sd_event_run(loop, 3000) > 0;
}

/* Of LeakSanitizer. NULL without it. */
extern void __lsan_disable(void) __attribute__((weak));

void allow_leaks(void)
{
	if (__lsan_disable)
		__lsan_disable();
}

void run_all(void)
{
	if (hooks_left_until_kill() > 0 && setjmp(killed) != 0)
		restart();
	hooks_run(hooks_get_loop());
}

const struct sockaddr *addr(uint16_t port)
{
	static struct sockaddr_in in = { .sin_family = AF_INET };

	in.sin_port = htons(port);
	in.sin_addr.s_addr = htonl(0x0a090001);
	return (struct sockaddr *)&in;
}

void start_broker(void)
{
	place_start(&broker);
}

void kill_broker(void)
{
	dead[n_dead++] = broker; /* keeps its memory reachable */
	broker = NULL;
}

void restart(void)
{
	kill_broker();
	start_broker();
}

void restart_with(const char *rules)
{
	kill_broker();
	place_write(rules, "[Daemon]\nLogLevel=error\nOnReload=enforce\n");
	start_broker();
}

struct rdmabroker *open_helper(void)
{
	char path[64];
	const struct rdmabroker_options options = { .size = sizeof(options),
						    .socket = place_path("helper", path) };
	struct rdmabroker *session;

	ck_assert_int_eq(rdmabroker_open(&options, &session), 0);
	return session;
}

void be_apart(void)
{
	rdmabroker_close(client);
	rdmabroker_close(server);
	hooks_run(hooks_get_loop());
	replies = open_session();
	server = open_session();
	client = open_session();
	ck_assert_int_ge(rdmabroker_get_fd(server), 0);
	ck_assert_int_ge(rdmabroker_get_fd(client), 0);
}

void be_quiet(void)
{
	rdmabroker_close(client);
	rdmabroker_close(server);
	flags = RDMABROKER_FAIL_BY_EVENT;
	server = open_session();
	client = open_session();
}

unsigned n_sessions(void)
{
	return replies ? 3 : 2;
}

struct rdmabroker *open_session(void)
{
	const struct rdmabroker_options options = { .size = sizeof(options),
						    .flags = flags,
						    .replies = replies };
	struct rdmabroker *session;

	ck_assert_int_eq(rdmabroker_open(&options, &session), 0);
	return session;
}

void succession_set_up(void)
{
	char paths[2][64];

	place_make("allow any\n", "[Daemon]\nLogLevel=error\n");
	hooks_reset();
	fake_set_event_read(hooks_step);
	flags = 0;
	manager_begin(place_path("common", paths[0]), getenv("RDMABROKER_SOCKET"),
		      place_path("helper", paths[1]));
	start_broker();
	hooks_set_turn(turn, NULL);
	server = open_session();
	client = open_session();
}

void succession_tear_down(void)
{
	rdmabroker_close(replies);
	rdmabroker_close(client);
	rdmabroker_close(server);
	hooks_run(hooks_get_loop());
	place_remove();
}

/* Takes the next event of SESSION, which has to be of TYPE and about ABOUT. Returns its status. */
int expect(struct rdmabroker *session, enum rdmabroker_event_type type, struct rdmabroker_id *about)
{
	struct rdmabroker_event *event;
	int status;

	ck_assert_int_eq(rdmabroker_get_event(session, T, &event), 0);
	ck_assert_str_eq(rdmabroker_event_str(event->type), rdmabroker_event_str(type));
	if (about)
		ck_assert_ptr_eq(event->listen_id ?: event->id, about);
	if (type == RDMABROKER_EVENT_CONNECT_REQUEST)
		accepted = event->id;
	status = event->status;
	rdmabroker_free_event(event);
	return status;
}

void expect_nothing(struct rdmabroker *session)
{
	struct rdmabroker_event *event;

	hooks_run(hooks_get_loop());
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), -EAGAIN);
}

/* The session has ended: its ids can only be destroyed. */
void expect_end(struct rdmabroker *session)
{
	struct rdmabroker_event *event;
	int r;

	while ((r = rdmabroker_get_event(session, T, &event)) == 0)
		rdmabroker_free_event(event);
	ck_assert_int_eq(r, -ECONNRESET);
}

struct rdmabroker_id *new_id(struct rdmabroker *session)
{
	struct rdmabroker_id *ret;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &ret), 0);
	return ret;
}

void start_listening(void)
{
	listener = new_id(server);
	ck_assert_int_eq(rdmabroker_bind_addr(listener, addr(PORT)), 0);
	ck_assert_int_eq(rdmabroker_listen(listener, 8), 0);
}

void resolve(struct rdmabroker_id *one)
{
	ck_assert_int_eq(rdmabroker_resolve_wait(one, NULL, addr(PORT), T), 0);
}

void request_connection(uint32_t qpn)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = qpn };

	id = new_id(client);
	resolve(id);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	expect(server, RDMABROKER_EVENT_CONNECT_REQUEST, listener);
}

void accept_and_establish(uint32_t qpn)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = qpn };

	if (!accepted)
		expect(server, RDMABROKER_EVENT_CONNECT_REQUEST, listener);
	ck_assert_int_eq(rdmabroker_accept(accepted, &param), 0);
	expect(client, RDMABROKER_EVENT_CONNECT_RESPONSE, id);
	ck_assert_int_eq(rdmabroker_establish(id), 0);
	expect(server, RDMABROKER_EVENT_ESTABLISHED, accepted);
}

/* Connects ID, of CLIENT, to ACCEPTED, of SERVER. */
void connect_ids(uint32_t qpn)
{
	request_connection(qpn);
	accept_and_establish(qpn + 1);
}

struct rdmabroker_status *get_status(void)
{
	struct rdmabroker_status *status;

	ck_assert_int_eq(rdmabroker_get_status(client, &status), 0);
	return status;
}

void end_connection(void)
{
	ck_assert_int_eq(rdmabroker_disconnect(id), 0);
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
	rdmabroker_destroy_id(id);
	rdmabroker_destroy_id(accepted);
}
