/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdmabroker-admin.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker.h"
#include "keep/ledger.h"
#include "tests/fake/fake.h"
#include "tests/hooks/hooks.h"
#include "tests/unit/manager.h"
#include "tests/unit/unit.h"

/*
 * The daemon dies, and the next process takes over. A daemon "dies" here by never running again: its descriptors stay
 * open, as those of a process that was killed would in the store of systemd. The library is in this process too, and
 * notices nothing.
 */

#define PORT 7471
#define T 3000 /* ms */

static char dir[32];
static struct broker *broker, *dead[4096];
static unsigned n_dead;
static struct rdmabroker *server, *client;
static struct rdmabroker_id *listener, *accepted, *id;

static jmp_buf killed;
static void restart(void);

static void on_kill(void)
{
	longjmp(killed, 1);
}

/* If the daemon is killed in this turn, the next one takes over. */
static bool turn(void *userdata)
{
	sd_event *loop = hooks_get_loop();

	(void)userdata;
	if (hooks_left_until_kill() > 0 && setjmp(killed) != 0) {
		restart();
		return true;
	}
	return hooks_run(loop) > 0 || sd_event_run(loop, T) > 0;
}

static void write_file(const char *name, const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static const char *in_dir(char *ret, const char *name)
{
	snprintf(ret, 64, "%s/%s", dir, name);
	return ret;
}

static const struct sockaddr *addr(uint16_t port)
{
	static struct sockaddr_in in = { .sin_family = AF_INET };

	in.sin_port = htons(port);
	in.sin_addr.s_addr = htonl(0x0a090001);
	return (struct sockaddr *)&in;
}

static void start_broker(void)
{
	char config[64], socket[64], rules[64];
	struct broker_options options = {
		.config_path = in_dir(config, "rdmabrokerd.conf"),
		.socket_path = in_dir(socket, "socket"),
		.policy_dir = in_dir(rules, "policy.d"),
	};

	ck_assert_int_eq(broker_new(&broker, &options), 0);
}

static void kill_broker(void)
{
	dead[n_dead++] = broker; /* keeps its memory reachable */
	broker = NULL;
}

static void restart(void)
{
	kill_broker();
	start_broker();
}

static void restart_with(const char *rules)
{
	kill_broker();
	write_file("policy.d/1.rules", rules);
	write_file("rdmabrokerd.conf", "[Daemon]\nLogLevel=error\nOnReload=enforce\n");
	start_broker();
}

static struct rdmabroker *open_session(void)
{
	const struct rdmabroker_options options = { .size = sizeof(options) };
	struct rdmabroker *session;

	ck_assert_int_eq(rdmabroker_open(&options, &session), 0);
	return session;
}

static void set_up(void)
{
	char path[64];

	umask(022);
	strcpy(dir, "/tmp/rdmabroker-takeover-XXXXXX");
	ck_assert(mkdtemp(dir));
	mkdir(in_dir(path, "policy.d"), 0755);
	write_file("policy.d/1.rules", "allow any\n");
	write_file("rdmabrokerd.conf", "[Daemon]\nLogLevel=error\n");
	setenv("RDMABROKER_SOCKET", in_dir(path, "socket"), 1);
	hooks_reset();
	manager_begin(path);
	start_broker();
	hooks_set_turn(turn, NULL);
	server = open_session();
	client = open_session();
}

static void tear_down(void)
{
	char path[64];

	rdmabroker_close(client);
	rdmabroker_close(server);
	hooks_run(hooks_get_loop());
	remove(in_dir(path, "policy.d/1.rules"));
	remove(in_dir(path, "policy.d"));
	remove(in_dir(path, "rdmabrokerd.conf"));
	remove(in_dir(path, "socket"));
	remove(dir);
}

/* Takes the next event of SESSION, which has to be of TYPE and about ABOUT. Returns its status. */
static int expect(struct rdmabroker *session, enum rdmabroker_event_type type,
		  struct rdmabroker_id *about)
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

static void expect_nothing(struct rdmabroker *session)
{
	struct rdmabroker_event *event;

	hooks_run(hooks_get_loop());
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), -EAGAIN);
}

/* The session has ended: its ids can only be destroyed. */
static void expect_end(struct rdmabroker *session)
{
	struct rdmabroker_event *event;
	int r;

	while ((r = rdmabroker_get_event(session, T, &event)) == 0)
		rdmabroker_free_event(event);
	ck_assert_int_eq(r, -ECONNRESET);
}

static struct rdmabroker_id *new_id(struct rdmabroker *session)
{
	struct rdmabroker_id *ret;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &ret), 0);
	return ret;
}

static void start_listening(void)
{
	listener = new_id(server);
	ck_assert_int_eq(rdmabroker_bind_addr(listener, addr(PORT)), 0);
	ck_assert_int_eq(rdmabroker_listen(listener, 8), 0);
}

static void resolve(struct rdmabroker_id *one)
{
	ck_assert_int_eq(rdmabroker_resolve_wait(one, NULL, addr(PORT), T), 0);
}

static void request_connection(uint32_t qpn)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = qpn };

	id = new_id(client);
	resolve(id);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	expect(server, RDMABROKER_EVENT_CONNECT_REQUEST, listener);
}

static void accept_and_establish(uint32_t qpn)
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
static void connect_ids(uint32_t qpn)
{
	request_connection(qpn);
	accept_and_establish(qpn + 1);
}

static struct rdmabroker_status *get_status(void)
{
	struct rdmabroker_status *status;

	ck_assert_int_eq(rdmabroker_get_status(client, &status), 0);
	return status;
}

static void end_connection(void)
{
	ck_assert_int_eq(rdmabroker_disconnect(id), 0);
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
	rdmabroker_destroy_id(id);
	rdmabroker_destroy_id(accepted);
}

START_TEST(connections_and_listeners_go_on)
{
	struct rdmabroker_status *status;

	start_listening();
	connect_ids(17);
	for (unsigned i = 0; i < 5; i++) {
		restart();
		expect_nothing(client);
		expect_nothing(server);
		status = get_status();
		ck_assert_uint_eq(status->generation, i + 2);
		ck_assert_uint_eq(status->n_taken_sessions, 2);
		ck_assert_uint_eq(status->n_ended_sessions, 0);
		ck_assert_uint_eq(status->n_sessions, 2);
		ck_assert_uint_eq(status->n_ids, 3);
		ck_assert_uint_eq(status->n_connections, 2);
		ck_assert_uint_eq(status->n_listeners, 1);
		rdmabroker_free_status(status);
		/* What the dead processes have stored is not needed any more. */
		ck_assert_uint_eq(manager_count("ledger"), 1);
		ck_assert_uint_eq(manager_count("vault"), 1);
		ck_assert_uint_eq(manager_count("cm"), 1);
	}
	end_connection();
	connect_ids(19);
	restart();
	end_connection();
}
END_TEST

/* The broker resolves the route in advance, and learns only by the connect that the client wanted it. */
START_TEST(connection_whose_route_was_not_requested)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	start_listening();
	id = new_id(client);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(PORT), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	accept_and_establish(18);
	restart();
	expect_nothing(client);
	expect_nothing(server);
	end_connection();
}
END_TEST

/* The connection manager is opened after the start, when there is a device. */
START_TEST(device_that_comes_later)
{
	rdmabroker_close(client);
	rdmabroker_close(server);
	manager_drop();
	fake_start_without_devices(true);
	restart_with("allow any\n");
	fake_start_without_devices(false);
	ck_assert_uint_eq(manager_count("cm"), 0);
	fake_add_device(fake_last(), "fake0");
	server = open_session();
	client = open_session();
	start_listening();
	connect_ids(17);
	restart();
	expect_nothing(client);
	end_connection();
}
END_TEST

START_TEST(the_other_side_ends_the_connection)
{
	start_listening();
	connect_ids(17);
	restart();
	ck_assert_int_eq(rdmabroker_disconnect(accepted), 0);
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
}
END_TEST

/* The kernel's event waits when the daemon dies. */
START_TEST(connection_that_ends_meanwhile)
{
	start_listening();
	connect_ids(17);
	kill_broker();
	rdmabroker_close(client);
	start_broker();
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
	client = open_session();
	connect_ids(19);
}
END_TEST

START_TEST(client_that_ends_meanwhile)
{
	struct rdmabroker_status *status;

	start_listening();
	connect_ids(17);
	kill_broker();
	rdmabroker_close(server);
	start_broker();
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	server = open_session();
	hooks_run(hooks_get_loop());
	status = get_status();
	ck_assert_uint_eq(status->n_sessions, 2);
	ck_assert_uint_eq(status->n_listeners, 0);
	rdmabroker_free_status(status);
	start_listening();
}
END_TEST

START_TEST(requests_that_come_meanwhile)
{
	kill_broker();
	/* What the client sends waits in its socket. */
	id = new_id(client);
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 32), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(PORT), T), 0);
	start_broker();
	expect(client, RDMABROKER_EVENT_ADDR_RESOLVED, id);
}
END_TEST

START_TEST(ids_that_have_not_begun)
{
	struct rdmabroker_id *bound = new_id(client), *idle = new_id(client), *other;

	ck_assert_int_eq(rdmabroker_bind_addr(bound, addr(7000)), 0);
	ck_assert_int_eq(rdmabroker_set_option(bound, RDMABROKER_OPTION_TOS, 96), 0);
	start_listening();
	restart();
	other = new_id(server);
	ck_assert_int_eq(rdmabroker_bind_addr(other, addr(7000)), -EADDRINUSE);
	ck_assert_int_eq(rdmabroker_get_local_port(bound), 7000);
	resolve(bound);
	resolve(idle);
	expect_nothing(client);
}
END_TEST

/* An id whose address is resolved resolves it again, without its client. */
START_TEST(resolved_address)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	start_listening();
	id = new_id(client);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(PORT), T), 0);
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 96), 0);
	restart();
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	expect(server, RDMABROKER_EVENT_CONNECT_REQUEST, listener);
}
END_TEST

START_TEST(handshakes)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 18 };

	start_listening();
	request_connection(17);
	restart();
	ck_assert_int_eq(expect(client, RDMABROKER_EVENT_CONNECT_ERROR, id), -ECONNABORTED);
	ck_assert_int_eq(expect(server, RDMABROKER_EVENT_CONNECT_ERROR, accepted), -ECONNABORTED);
	ck_assert_int_lt(rdmabroker_accept(accepted, &param), 0);
	rdmabroker_destroy_id(id);
	rdmabroker_destroy_id(accepted);

	/* Where the client has the response already, the connection is made. */
	request_connection(17);
	ck_assert_int_eq(rdmabroker_accept(accepted, &param), 0);
	expect(client, RDMABROKER_EVENT_CONNECT_RESPONSE, id);
	restart();
	expect_nothing(client);
	expect_nothing(server);
	ck_assert_int_eq(rdmabroker_establish(id), 0);
	expect(server, RDMABROKER_EVENT_ESTABLISHED, accepted);
	restart();
	end_connection();
	connect_ids(17);
	expect_nothing(client);
	expect_nothing(server);
}
END_TEST

START_TEST(policy_on_disk_is_in_force)
{
	start_listening();
	connect_ids(17);
	restart_with("reject connect peer 10.9.0.1\nallow any\n");
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
}
END_TEST

/* What the author of a policy with an error wanted is not known, so nothing that exists is ended. */
START_TEST(policy_on_disk_has_an_error)
{
	start_listening();
	connect_ids(17);
	restart_with("reject connect peer 10.9.0.1\nallow anything\n");
	expect_nothing(client);
	expect_nothing(server);
	end_connection();
}
END_TEST

/* Takes events of SESSION until one of the two types about ABOUT. Returns its type; -1: there is none. */
static int await_either(struct rdmabroker *session, struct rdmabroker_id *about,
			enum rdmabroker_event_type one, enum rdmabroker_event_type other)
{
	struct rdmabroker_event *event;

	while (rdmabroker_get_event(session, T, &event) == 0) {
		int type = event->type;
		bool found = (event->listen_id ?: event->id) == about &&
			     (event->type == one || event->type == other);

		if (found && type == RDMABROKER_EVENT_CONNECT_REQUEST)
			accepted = event->id;
		rdmabroker_free_event(event);
		if (found)
			return type;
	}
	return -1;
}

enum life {
	LIFE_REFUSED, /* a call has failed */
	LIFE_FAILED, /* the connection was not made, and an event has said so or has to */
	LIFE_TOLD, /* the connection was not made, and an event has said so */
	LIFE_WHOLE, /* the connection was made, and both ends have learnt of its end */
	LIFE_LOST, /* an end has waited in vain */
};

static bool connection_is_made(enum life *ret)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	*ret = LIFE_REFUSED;
	if (rdmabroker_resolve_wait(id, NULL, addr(PORT), T) < 0 ||
	    rdmabroker_connect(id, &param) < 0)
		return false;
	*ret = LIFE_FAILED;
	/* The daemon can have died before the request reached the listener, or before it was told. */
	if (await_either(server, listener, RDMABROKER_EVENT_CONNECT_REQUEST,
			 RDMABROKER_EVENT_CONNECT_REQUEST) < 0)
		return false;
	param.qp_num = 18;
	if (rdmabroker_accept(accepted, &param) < 0)
		return false;
	*ret = LIFE_TOLD;
	if (await_either(client, id, RDMABROKER_EVENT_CONNECT_RESPONSE,
			 RDMABROKER_EVENT_CONNECT_ERROR) != RDMABROKER_EVENT_CONNECT_RESPONSE)
		return false;
	*ret = LIFE_FAILED;
	/*
	 * The daemon died while it carried the request out: it is not known whether that was before or after. The
	 * second try fails if it was after.
	 */
	if (rdmabroker_establish(id) == -EAGAIN)
		rdmabroker_establish(id);
	return await_either(server, accepted, RDMABROKER_EVENT_ESTABLISHED,
			    RDMABROKER_EVENT_CONNECT_ERROR) == RDMABROKER_EVENT_ESTABLISHED;
}

/* Of LeakSanitizer. NULL without it. */
extern void __lsan_disable(void) __attribute__((weak));

/* What a daemon has allocated when it dies in the middle of a call is reachable from nowhere. */
static void allow_leaks(void)
{
	if (__lsan_disable)
		__lsan_disable();
}

/* The life of a connection, from id to end. */
static enum life live(void)
{
	enum life ret;

	accepted = NULL;
	id = new_id(client);
	if (!connection_is_made(&ret)) {
		/* The client has to learn that nothing comes of it. */
		if (ret == LIFE_FAILED && await_either(client, id, RDMABROKER_EVENT_CONNECT_ERROR,
						       RDMABROKER_EVENT_REJECTED) < 0)
			ret = LIFE_LOST;
		return ret;
	}
	if (rdmabroker_disconnect(id) < 0)
		rdmabroker_disconnect(id);
	if (await_either(client, id, RDMABROKER_EVENT_DISCONNECTED, RDMABROKER_EVENT_DISCONNECTED) <
		    0 ||
	    await_either(server, accepted, RDMABROKER_EVENT_DISCONNECTED,
			 RDMABROKER_EVENT_DISCONNECTED) < 0)
		return LIFE_LOST;
	return LIFE_WHOLE;
}

/*
 * The daemon dies before each of the calls that it makes for a connection: of the system, of malloc(), of the fabric.
 * Whatever the time, the sessions go on, the client learns what became of its connection, another connection can be
 * made, and nothing is left.
 */
START_TEST(every_instant)
{
	static const char *const names[] = { "refused", "failed", "told", "whole", "lost" };
	unsigned n_lives[5] = { 0 };
	struct rdmabroker_status *status;
	bool was_killed = true;
	enum life life;

	allow_leaks();
	start_listening();
	for (unsigned n = 1; was_killed; n++) {
		hooks_kill_at(n, on_kill);
		life = live();
		n_lives[life]++;
		ck_assert_msg(life != LIFE_LOST, "an event is lost if the daemon dies at call %u",
			      n);
		was_killed = hooks_left_until_kill() == 0;
		hooks_kill_at(0, NULL);
		rdmabroker_destroy_id(id);
		rdmabroker_destroy_id(accepted);
		id = accepted = NULL;
		hooks_run(hooks_get_loop());
		status = get_status();
		ck_assert_msg(status->n_ids == 1 && status->n_sessions == 2 &&
				      status->n_listeners == 1 && status->n_connections == 0,
			      "%u ids, %u sessions, %u listeners, %u connections are left if the "
			      "daemon dies at call %u",
			      status->n_ids, status->n_sessions, status->n_listeners,
			      status->n_connections, n);
		rdmabroker_free_status(status);
		ck_assert_int_eq(live(), LIFE_WHOLE);
		rdmabroker_destroy_id(id);
		rdmabroker_destroy_id(accepted);
	}
	for (unsigned i = 0; i < 5; i++)
		printf("    %u %s\n", n_lives[i], names[i]);
}
END_TEST

/* Starts a broker, which dies before its N-th call, and then another one. Returns whether the first one died. */
static bool start_twice(unsigned n)
{
	if (setjmp(killed) == 0) {
		hooks_kill_at(n, on_kill);
		start_broker();
		hooks_kill_at(0, NULL);
		return false;
	}
	start_broker();
	return true;
}

START_TEST(every_instant_of_a_take_over)
{
	struct rdmabroker_status *status;
	bool was_killed = true;

	allow_leaks();
	start_listening();
	connect_ids(17);
	for (unsigned n = 1; was_killed; n++) {
		kill_broker();
		was_killed = start_twice(n);
		expect_nothing(client);
		expect_nothing(server);
		status = get_status();
		ck_assert_msg(status->n_ids == 3 && status->n_sessions == 2 &&
				      status->n_listeners == 1 && status->n_connections == 2,
			      "%u ids, %u sessions, %u listeners, %u connections are left if the "
			      "daemon dies at call %u of a take-over",
			      status->n_ids, status->n_sessions, status->n_listeners,
			      status->n_connections, n);
		rdmabroker_free_status(status);
	}
	end_connection();
	connect_ids(19);
	end_connection();
}
END_TEST

/* The first bytes of the header are its magic and its version, see ledger.c. */
static uint32_t *version_in_ledger(void)
{
	int fd = manager_get("ledger");
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return (uint32_t *)((char *)p + 24);
}

START_TEST(ledger_of_another_version)
{
	start_listening();
	connect_ids(17);
	ck_assert_uint_eq(*version_in_ledger(), LEDGER_VERSION);
	(*version_in_ledger())++;
	restart();
	expect_end(client);
	expect_end(server);
}
END_TEST

/* Three processes die while they take over. The fourth starts clean, and does not die of the same. */
START_TEST(take_overs_that_fail)
{
	uint32_t *tries;

	start_listening();
	connect_ids(17);
	tries = version_in_ledger() + 4;
	*tries = 3;
	restart();
	expect_end(client);
	rdmabroker_close(client);
	rdmabroker_close(server);
	server = open_session();
	client = open_session();
	start_listening();
	connect_ids(17);
	restart();
	end_connection();
}
END_TEST

UNIT_MAIN("takeover", set_up, tear_down, connections_and_listeners_go_on,
	  connection_whose_route_was_not_requested, device_that_comes_later,
	  the_other_side_ends_the_connection, connection_that_ends_meanwhile,
	  client_that_ends_meanwhile, requests_that_come_meanwhile, ids_that_have_not_begun,
	  resolved_address, handshakes, policy_on_disk_is_in_force, policy_on_disk_has_an_error,
	  every_instant, every_instant_of_a_take_over, ledger_of_another_version,
	  take_overs_that_fail)
