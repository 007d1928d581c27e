/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "core/object/session.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "proto/status.h"
#include "tests/unit/harness.h"
#include "tests/wire/requests.h"
#include "util/util.h"

/*
 * A pid does not identify a process. An attacker can connect, pass the socket on and exit, and then a victim gets the
 * pid. The attacker must get neither the victim's systemd unit nor its QPs. The tests also simulate kernels without
 * SO_PEERPIDFD (Linux 6.5), which reports the process that connected.
 */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define QPN 17 /* the QP number that request_make() uses */
#define FDS_MAX 2

/* The errno with which the kernel refuses SO_PEERPIDFD; 0: the real kernel decides. */
static int no_peerpidfd;
/* The supplementary groups of clients; NULL: the real kernel decides. */
static const gid_t *groups;
static socklen_t groups_size;

int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	if (groups && level == SOL_SOCKET && option == SO_PEERGROUPS) {
		*len = groups_size;
		memcpy(value, groups, groups_size);
		return 0;
	}
	if (no_peerpidfd && level == SOL_SOCKET && option == SO_PEERPIDFD) {
		errno = no_peerpidfd;
		return -1;
	}
	return (int)syscall(SYS_getsockopt, fd, level, option, value, len);
}

static pid_t victim; /* 0: no victim */

int sd_pid_get_unit(pid_t pid, char **ret)
{
	*ret = strdup(pid == victim ? "victim.service" : "client.service");
	return *ret ? 0 : -ENOMEM;
}

static bool has_peerpidfd(void)
{
	int pair[2], fd = -1;
	socklen_t len = sizeof(fd);
	bool has;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	has = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0;
	close(fd);
	close(pair[0]);
	close(pair[1]);
	return has;
}

/* A client that speaks the protocol without the library */

static int sock = -1;
static uint32_t serial;
static struct {
	int status;
	char question[64]; /* from the reply to hello */
	char text[256];
} reply;

static int raw_connect(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, harness.socket_path);
	return connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0 ? fd : -1;
}

static size_t make_hello(uint8_t buf[PACKET_MAX], bool announce)
{
	static const uint8_t features[] = { 2 << 3, RDMABROKER__FEATURE__FEATURE_PROOF };

	return request_make(++serial, OP(HELLO), 0, features, announce ? sizeof(features) : 0, buf);
}

static void read_reply(const Rdmabroker__Reply *in)
{
	reply.status = in->failure ? (int)in->failure->status : STATUS_OK;
	reply.question[0] = reply.text[0] = 0;
	if (in->failure)
		snprintf(reply.text, sizeof(reply.text), "%s", in->failure->text);
	if (in->result_case == RDMABROKER__REPLY__RESULT_HELLO)
		snprintf(reply.question, sizeof(reply.question), "%s", in->hello->proof);
}

/* Waits for the reply to the last request, and skips events. */
static void await_reply(void)
{
	uint8_t buf[PACKET_MAX];
	bool found = false;

	while (!found) {
		Rdmabroker__Frame *frame;
		ssize_t n;

		AWAIT_INPUT(sock, "the reply %u", serial);
		n = recv(sock, buf, sizeof(buf), 0);
		ck_assert_int_gt(n, 0);
		frame = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
		ck_assert_ptr_nonnull(frame);
		found = frame->body_case == RDMABROKER__FRAME__BODY_REPLY &&
			frame->reply->serial == serial;
		if (found)
			read_reply(frame->reply);
		rdmabroker__frame__free_unpacked(frame, NULL);
	}
}

static int say_hello(bool announce, int fd)
{
	uint8_t buf[PACKET_MAX];
	size_t len = make_hello(buf, announce);

	ck_assert_int_eq(packet_send(sock, buf, len, &fd, fd >= 0), 0);
	await_reply();
	return reply.status;
}

static int ask(int op)
{
	uint8_t buf[PACKET_MAX];

	ck_assert_int_eq(
		packet_send(sock, buf, request_make(++serial, op, 1, NULL, 0, buf), NULL, 0), 0);
	await_reply();
	return reply.status;
}

/* Waits for the id's next event. All replies must have been read before. */
static void await_event(void)
{
	uint8_t buf[PACKET_MAX];

	AWAIT_INPUT(sock, "an event");
	ck_assert_int_gt(recv(sock, buf, sizeof(buf), 0), 0);
}

/* Creates an id, resolves it, and requests a connection with a QP. Returns the status of the connect. */
static int offer_qp(void)
{
	ck_assert_int_eq(ask(OP(CREATE_ID)), STATUS_OK);
	ck_assert_int_eq(ask(OP(RESOLVE_ADDR)), STATUS_OK);
	await_event();
	ck_assert_int_eq(ask(OP(RESOLVE_ROUTE)), STATUS_OK);
	await_event();
	return ask(OP(CONNECT));
}

static socklen_t name_of(struct sockaddr_un *ret, const char *name)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(ret->sun_path + 1, name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static int named_socket(const char *name)
{
	struct sockaddr_un sun;
	socklen_t len = name_of(&sun, name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return bind(fd, (struct sockaddr *)&sun, len) == 0 ? fd : -1;
}

static int make_proof(const char *name)
{
	int fd = named_socket(name);

	return listen(fd, 0) == 0 ? fd : -1;
}

/*
 * Except in one test, the whole attack runs in the server's thread, so that the server examines the process only
 * afterwards.
 */

static struct attack {
	int fds[FDS_MAX]; /* descriptors that the connecting process has passed on; [0]: its socket */
	size_t n_fds;
	void (*prepare)(struct attack *attack); /* runs in the connecting process */
	bool possible;
} attack;

static pid_t fork_with_pid(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&pid,
		.set_tid_size = 1,
	};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static pid_t start_victim(pid_t pid)
{
	pid_t child = fork_with_pid(pid);

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	if (child < 0 && errno != EPERM && errno != ENOSYS)
		ck_abort_msg("pid %d cannot be used again: %s", pid, strerror(errno));
	return child;
}

static void end_victim(void)
{
	if (victim > 0) {
		kill(victim, SIGKILL);
		waitpid(victim, NULL, 0);
	}
	victim = 0;
}

static void run_attack(void *arg)
{
	uint8_t buf[PACKET_MAX];
	int pair[2], status;
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		attack.fds[0] = raw_connect();
		attack.n_fds = 1;
		if (attack.prepare)
			attack.prepare(&attack);
		_exit(packet_send(pair[1], "x", 1, attack.fds, attack.n_fds) == 0 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(packet_recv(pair[0], buf, attack.fds, FDS_MAX, &attack.n_fds), 1);
	close(pair[0]);
	close(pair[1]);
	sock = attack.fds[0];
	victim = start_victim(pid);
	attack.possible = victim > 0;
}

/* Runs the attack, with PREPARE in the connecting process. Returns false if this user cannot choose a pid. */
static bool attack_by(void (*prepare)(struct attack *attack))
{
	attack = (struct attack){ .prepare = prepare };
	in_server(run_attack, NULL);
	if (!attack.possible) {
		printf("not tested: only root can give a pid to another process (CAP_CHECKPOINT_RESTORE)\n");
		victim = 0;
		close(sock);
	}
	return attack.possible;
}

static void give_qp(void *arg)
{
	fake_give_qp(harness.core->fabric, QPN, *(pid_t *)arg);
}

/* Checks that the client whose hello was just accepted is not permitted to use RDMA, and ends the victim. */
static void expect_nothing_gained(void)
{
	ck_assert_int_eq(reply.status, STATUS_OK);
	ck_assert_str_eq(reply.question, "");
	/*
	 * The hello was accepted because everybody may observe. Even a later policy must not permit the session
	 * to use RDMA.
	 */
	set_policy("allow any\n");
	ck_assert_int_eq(ask(OP(CREATE_ID)), STATUS_NOT_PERMITTED);
	close(sock);
	end_victim();
}

#define VICTIMS_RULES \
	"allow observe\nallow session unit victim.service\nallow device\nallow connect\n"

static void set_up_attack(void)
{
	victim = 0;
	serial = 0;
	set_up();
	set_policy(VICTIMS_RULES);
}

static void tear_down_attack(void)
{
	end_victim();
	tear_down();
}

static const int kernels[] = { 0, ENOPROTOOPT, ESRCH };
#define EACH_KERNEL                       \
	for (size_t k_ = 0; k_ < 3; k_++) \
		if ((no_peerpidfd = kernels[k_]), true)

/*
 * Each round runs with another kernel: the real one, one that cannot report the process, and one that reports that
 * the process is gone.
 */
START_TEST(the_attacker_does_not_get_the_victims_unit)
{
	EACH_KERNEL
	{
		if (!attack_by(NULL))
			return;
		ck_assert_int_eq(say_hello(/* announce= */ false, -1), STATUS_OK);
		expect_nothing_gained();
		set_policy(VICTIMS_RULES);
	}
}
END_TEST

START_TEST(the_attacker_cannot_use_the_victims_qps)
{
	set_policy("allow any\n");
	EACH_KERNEL
	{
		if (!attack_by(NULL))
			return;
		in_server(give_qp, &victim);
		ck_assert_int_eq(say_hello(/* announce= */ false, -1), STATUS_OK);
		ck_assert_int_eq(offer_qp(), STATUS_NOT_OWNER);
		close(sock);
		end_victim();
		await_counts(0, 0);
	}
}
END_TEST

/* A rule that rejects a unit also rejects clients whose unit is unknown. */
START_TEST(an_unknown_unit_is_rejected)
{
	no_peerpidfd = ENOPROTOOPT;
	set_policy("reject session unit other.service\nallow any\nallow observe\n");
	if (!attack_by(NULL))
		return;
	ck_assert_int_eq(say_hello(/* announce= */ false, -1), STATUS_OK);
	expect_nothing_gained();
}
END_TEST

/* The connecting process sends two hellos before the daemon has requested a proof. */
static void say_hello_twice(struct attack *a)
{
	uint8_t buf[PACKET_MAX];

	packet_send(a->fds[0], buf, make_hello(buf, true), NULL, 0);
	packet_send(a->fds[0], buf, make_hello(buf, true), NULL, 0);
}

START_TEST(two_hellos_before_the_question)
{
	no_peerpidfd = ENOPROTOOPT;
	if (!attack_by(say_hello_twice))
		return;
	serial = 1;
	await_reply();
	ck_assert_str_ne(reply.question, "");
	serial = 2;
	await_reply();
	expect_nothing_gained();
}
END_TEST

/*
 * Each of these functions returns a descriptor to send in place of a proof; -1: none. FROM is the listener that the
 * connecting process has left behind.
 */

static int nothing(int from)
{
	return -1;
}

static int no_socket(int from)
{
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int ip_listener(int from)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(listen(fd, 1), 0);
	return fd;
}

static int ones_own(int from)
{
	return make_proof(reply.question);
}

static int does_not_listen(int from)
{
	return named_socket(reply.question);
}

static int other_name(int from)
{
	return dup(from);
}

/* This socket has the right name, and its peer has the right pid, but it does not listen. */
static int connected_to_the_past(int from)
{
	int fd = named_socket(reply.question);
	struct sockaddr_un sun;
	socklen_t len = sizeof(sun);
	struct ucred cred;

	ck_assert_int_eq(getsockname(from, (struct sockaddr *)&sun, &len), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&sun, len), 0);
	len = sizeof(cred);
	ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len), 0);
	ck_assert_int_eq(cred.pid, victim);
	return fd;
}

static void leave_a_listener(struct attack *a)
{
	char name[64];

	snprintf(name, sizeof(name), "rdmabroker-check-%d", getpid());
	a->fds[a->n_fds++] = make_proof(name);
}

static int (*const wrong_proofs[])(int from) = {
	nothing,    no_socket,       ip_listener,           ones_own,
	other_name, does_not_listen, connected_to_the_past,
};

START_TEST(wrong_proofs_are_refused)
{
	no_peerpidfd = ENOPROTOOPT;
	for (size_t i = 0; i < sizeof(wrong_proofs) / sizeof(wrong_proofs[0]); i++) {
		int proof;

		set_policy(VICTIMS_RULES);
		if (!attack_by(leave_a_listener))
			return;
		ck_assert_int_eq(say_hello(/* announce= */ true, -1), STATUS_OK);
		ck_assert_str_ne(reply.question, "");
		ck_assert_uint_eq(attack.n_fds, 2);
		proof = wrong_proofs[i](attack.fds[1]);
		say_hello(/* announce= */ true, proof);
		close(proof);
		close(attack.fds[1]);
		expect_nothing_gained();
	}
}
END_TEST

/* The proof comes from the right process, but from another user than the one that has connected. */
START_TEST(a_proof_of_another_user)
{
	int proof;

	if (geteuid() != 0) {
		printf("not tested: only root can become another user\n");
		return;
	}
	no_peerpidfd = ENOPROTOOPT;
	set_policy("allow session unit client.service\nallow observe\n");
	sock = raw_connect();
	ck_assert_int_eq(say_hello(/* announce= */ true, -1), STATUS_OK);
	/* The raw system call affects only this thread, unlike the function setresuid(). */
	ck_assert_int_eq(syscall(SYS_setresuid, -1, 65534, -1), 0);
	proof = make_proof(reply.question);
	ck_assert_int_eq(syscall(SYS_setresuid, -1, 0, -1), 0);
	ck_assert_int_eq(say_hello(/* announce= */ true, proof), STATUS_OK);
	close(proof);
	expect_nothing_gained();
}
END_TEST

/* The client has announced a proof. Until the broker has received it, only hello is accepted. */
START_TEST(only_hello_is_accepted_before_the_proof)
{
	no_peerpidfd = ENOPROTOOPT;
	sock = raw_connect();
	ck_assert_int_eq(say_hello(/* announce= */ true, -1), STATUS_OK);
	ck_assert_str_ne(reply.question, "");
	ck_assert_int_eq(ask(OP(CREATE_ID)), STATUS_BAD_STATE);
	close(sock);
	await_counts(0, 0);
}
END_TEST

START_TEST(a_right_proof_is_accepted)
{
	pid_t self = getpid();
	int proof;

	no_peerpidfd = ENOPROTOOPT;
	set_policy("allow session unit client.service\nallow device\nallow connect\n");
	in_server(give_qp, &self);
	sock = raw_connect();
	ck_assert_int_eq(say_hello(/* announce= */ true, -1), STATUS_OK);
	proof = make_proof(reply.question);
	ck_assert_int_eq(say_hello(/* announce= */ true, proof), STATUS_OK);
	close(proof);
	ck_assert_str_eq(reply.question, "");
	ck_assert_int_eq(offer_qp(), STATUS_OK);
	close(sock);
}
END_TEST

/*
 * A client that does not announce a proof is served without one. Only its QP is refused, and the error explains why.
 */
START_TEST(a_client_without_a_proof_is_served)
{
	pid_t self = getpid();

	no_peerpidfd = ENOPROTOOPT;
	set_policy("allow any\n");
	in_server(give_qp, &self);
	sock = raw_connect();
	ck_assert_int_eq(say_hello(/* announce= */ false, -1), STATUS_OK);
	ck_assert_str_eq(reply.question, "");
	ck_assert_int_eq(offer_qp(), STATUS_NOT_OWNER);
	ck_assert_msg(strstr(reply.text, "does not support a proof") != NULL, "%s", reply.text);
	close(sock);
}
END_TEST

/* If the kernel reports the process, the daemon does not request a proof. */
START_TEST(no_question_if_the_kernel_knows)
{
	pid_t self = getpid();

	no_peerpidfd = 0;
	if (!has_peerpidfd()) {
		printf("not tested: this kernel has no SO_PEERPIDFD\n");
		return;
	}
	set_policy("allow session unit client.service\nallow device\nallow connect\n");
	in_server(give_qp, &self);
	sock = raw_connect();
	ck_assert_int_eq(say_hello(/* announce= */ true, -1), STATUS_OK);
	ck_assert_str_eq(reply.question, "");
	ck_assert_int_eq(offer_qp(), STATUS_OK);
	close(sock);
}
END_TEST

/* A client of the library gets its own unit and can use its own QPs, whatever the kernel. */
START_TEST(the_library_sends_a_proof)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = QPN };
	pid_t self = getpid();

	for (size_t i = 0; i < 2; i++) {
		struct rdmabroker *server, *client;
		struct rdmabroker_event *event;
		struct rdmabroker_id *id;
		struct rdmabroker_list *list;

		no_peerpidfd = i == 0 ? 0 : ENOPROTOOPT;
		if (!no_peerpidfd && !has_peerpidfd())
			continue;
		set_policy("allow any unit client.service\n");
		in_server(give_qp, &self);
		server = open_session(0);
		client = open_session(0);
		start_listening(server, 7471);
		id = resolve(client, 7471);
		ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
		event = expect(server, RDMABROKER_EVENT_CONNECT_REQUEST);
		ck_assert_int_eq(rdmabroker_accept(event->id, &param), 0);
		rdmabroker_free_event(event);
		ck_assert_int_eq(rdmabroker_get_list(client, 0, &list), 0);
		ck_assert_uint_eq(list->n_sessions, 2);
		ck_assert_str_eq(list->sessions[1].who.unit, "client.service");
		rdmabroker_free(list);
		rdmabroker_close(client);
		rdmabroker_close(server);
		await_counts(0, 0);
	}
}
END_TEST

/* The client proves its identity. Then its pid is given to another process, as in the attack. */

static void prove_it(struct attack *a)
{
	int proof;

	sock = a->fds[0];
	say_hello(/* announce= */ true, -1);
	if (reply.question[0]) {
		proof = make_proof(reply.question);
		say_hello(/* announce= */ true, proof);
	}
}

static void do_get_groups(void *arg)
{
	const struct identity *identity =
		&container_of(harness.core->sessions.prev, struct session, link)->identity;

	ck_assert_uint_eq(identity->n_gids, 3);
	memcpy(arg, identity->gids, 3 * sizeof(gid_t));
}

/* The primary group is there once, and first, wherever the kernel has it among the supplementary ones. */
START_TEST(groups_of_a_client)
{
	gid_t own = getegid(), given[] = { 4711, own, 4712 }, got[3];
	struct rdmabroker *session;

	groups = given;
	groups_size = sizeof(given);
	session = open_session(0);
	in_server(do_get_groups, got);
	ck_assert_uint_eq(got[0], own);
	ck_assert_uint_eq(got[1], 4711);
	ck_assert_uint_eq(got[2], 4712);
	rdmabroker_close(session);
}
END_TEST

START_TEST(a_proof_counts_for_one_process)
{
	static const int two_kernels[] = { 0, ENOPROTOOPT };

	set_policy("allow any\n");
	for (size_t i = 0; i < 2; i++) {
		no_peerpidfd = two_kernels[i];
		attack = (struct attack){ .prepare = prove_it };
		/* The server has to reply to the hello, so this attack cannot run in the server's thread. */
		run_attack(NULL);
		serial = 2;
		if (!attack.possible) {
			printf("not tested: only root can give a pid to another process\n");
			return;
		}
		in_server(give_qp, &victim);
		ck_assert_int_eq(offer_qp(), STATUS_NOT_OWNER);
		close(sock);
		end_victim();
		await_counts(0, 0);
	}
}
END_TEST

UNIT_MAIN("identity", set_up_attack, tear_down_attack, the_attacker_does_not_get_the_victims_unit,
	  the_attacker_cannot_use_the_victims_qps, an_unknown_unit_is_rejected,
	  two_hellos_before_the_question, wrong_proofs_are_refused,
	  only_hello_is_accepted_before_the_proof, a_proof_of_another_user,
	  a_right_proof_is_accepted, a_client_without_a_proof_is_served,
	  no_question_if_the_kernel_knows, the_library_sends_a_proof, groups_of_a_client,
	  a_proof_counts_for_one_process)
