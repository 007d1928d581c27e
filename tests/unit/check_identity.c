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

#include "core/session.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "proto/status.h"
#include "tests/unit/harness.h"
#include "tests/wire/requests.h"

/*
 * A pid is not a process. The attack: connect, pass the socket on, end, and have the pid used again by a victim,
 * all before the daemon looks. Nothing that is the victim's may be the attacker's then: not its systemd unit, and
 * not its QPs. Against kernels that tell which process has connected (SO_PEERPIDFD, Linux 6.5), and those that do
 * not, which this program stands in for.
 */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define QPN 17 /* the one that request_make() offers */
#define FDS_MAX 2

/* The kernel, as the daemon sees it: the errno of SO_PEERPIDFD; 0: what this one says. */
static int no_peerpidfd;

int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	if (no_peerpidfd && level == SOL_SOCKET && option == SO_PEERPIDFD) {
		errno = no_peerpidfd;
		return -1;
	}
	return (int)syscall(SYS_getsockopt, fd, level, option, value, len);
}

static pid_t victim; /* 0: there is none */

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

/* A client that speaks the protocol by itself */

static int sock = -1;
static uint32_t serial;
static struct {
	int status;
	char question[64]; /* of a reply to hello */
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

/* The reply to what was sent last; events are passed over. */
static void await_reply(void)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	uint8_t buf[PACKET_MAX];
	bool found = false;

	while (!found) {
		Rdmabroker__Frame *frame;
		ssize_t n;

		ck_assert_int_eq(poll(&p, 1, T), 1);
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

/* Of an event of the id; its reply was read before. */
static void await_event(void)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	uint8_t buf[PACKET_MAX];

	ck_assert_int_eq(poll(&p, 1, T), 1);
	ck_assert_int_gt(recv(sock, buf, sizeof(buf), 0), 0);
}

/* What becomes of an offer of the QP. */
static int offer_qp(void)
{
	ck_assert_int_eq(ask(OP(CREATE_ID)), STATUS_OK);
	ck_assert_int_eq(ask(OP(RESOLVE_ADDR)), STATUS_OK);
	await_event();
	ck_assert_int_eq(ask(OP(RESOLVE_ROUTE)), STATUS_OK);
	await_event();
	return ask(OP(CONNECT));
}

/* Proofs, right and wrong */

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

/* The attack. All of it happens in the server's thread, and so before the server looks. */

static struct attack {
	int fds[FDS_MAX]; /* what the process that connected has passed on: its socket first */
	size_t n_fds;
	void (*prepare)(struct attack *attack); /* in that process */
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

	(void)arg;
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

/* False: here nobody can choose a pid. */
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

/* After hello: the victim's QP and unit are of no use. */
static void expect_nothing_gained(void)
{
	ck_assert_int_eq(reply.status, STATUS_OK);
	ck_assert_str_eq(reply.question, "");
	/* The test's user is an admin: without the permit to use RDMA it is let in all the same. */
	set_policy("allow any\n");
	ck_assert_int_eq(ask(OP(CREATE_ID)), STATUS_NOT_PERMITTED);
	close(sock);
	end_victim();
}

#define VICTIMS_RULES "allow session unit victim.service\nallow device\nallow connect\n"

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

/* Whatever the kernel is: one that tells, one that does not, one that says that the process is gone. */
START_TEST(the_unit_is_not_the_victims)
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

START_TEST(the_qps_are_not_the_victims)
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

/* A rule that rejects a unit rejects who may be of it. */
START_TEST(an_unknown_unit_is_rejected)
{
	no_peerpidfd = ENOPROTOOPT;
	set_policy("reject session unit other.service\nallow any\n");
	if (!attack_by(NULL))
		return;
	ck_assert_int_eq(say_hello(/* announce= */ false, -1), STATUS_OK);
	expect_nothing_gained();
}
END_TEST

/* What the attacker says in the process that connected, it has said before it was asked. */
static void say_hello_twice(struct attack *a)
{
	uint8_t buf[PACKET_MAX];

	packet_send(a->fds[0], buf, make_hello(buf, true), NULL, 0);
	packet_send(a->fds[0], buf, make_hello(buf, true), NULL, 0);
}

START_TEST(said_twice_in_advance)
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

/* Descriptors in the place of a proof; FROM is what the process that connected has left. */

static int nothing(int from)
{
	(void)from;
	return -1;
}

static int no_socket(int from)
{
	(void)from;
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int ip_listener(int from)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)from;
	ck_assert_int_eq(listen(fd, 1), 0);
	return fd;
}

static int ones_own(int from)
{
	(void)from;
	return make_proof(reply.question);
}

static int does_not_listen(int from)
{
	(void)from;
	return named_socket(reply.question);
}

static int other_name(int from)
{
	return dup(from);
}

/* Bears the pid that is looked for, and the name; but it does not listen. */
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

START_TEST(wrong_proofs_prove_nothing)
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

/* In the right process, but as another user than the one that the broker knows it by. */
START_TEST(a_proof_of_another_user)
{
	int proof;

	if (geteuid() != 0) {
		printf("not tested: only root can become another user\n");
		return;
	}
	no_peerpidfd = ENOPROTOOPT;
	set_policy("allow session unit client.service\n");
	sock = raw_connect();
	ck_assert_int_eq(say_hello(/* announce= */ true, -1), STATUS_OK);
	/* The system call is about this thread alone. */
	ck_assert_int_eq(syscall(SYS_setresuid, -1, 65534, -1), 0);
	proof = make_proof(reply.question);
	ck_assert_int_eq(syscall(SYS_setresuid, -1, 0, -1), 0);
	ck_assert_int_eq(say_hello(/* announce= */ true, proof), STATUS_OK);
	close(proof);
	expect_nothing_gained();
}
END_TEST

/* Until the question is answered nothing but hello is. */
START_TEST(a_question_is_no_hello)
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

/* Clients that are who they are */

START_TEST(whoever_proves_it_is_believed)
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

/* Told why, and not held up otherwise. */
START_TEST(whoever_cannot_is_served_without)
{
	pid_t self = getpid();

	no_peerpidfd = ENOPROTOOPT;
	set_policy("allow any\n");
	in_server(give_qp, &self);
	sock = raw_connect();
	ck_assert_int_eq(say_hello(/* announce= */ false, -1), STATUS_OK);
	ck_assert_str_eq(reply.question, "");
	ck_assert_int_eq(offer_qp(), STATUS_NOT_OWNER);
	ck_assert_msg(strstr(reply.text, "does not know how to prove it") != NULL, "%s",
		      reply.text);
	close(sock);
}
END_TEST

/* Where the kernel tells nobody is asked. */
START_TEST(no_question_without_need)
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

/* The library: with its own unit and its own QPs, on any kernel. */
START_TEST(the_library_proves_it)
{
	struct rdmabroker_conn_param param = { .qp_num = QPN };
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
		ck_assert_int_eq(rdmabroker_get_list(client, &list), 0);
		ck_assert_uint_eq(list->n_sessions, 2);
		ck_assert_str_eq(list->sessions[1].unit, "client.service");
		rdmabroker_free_list(list);
		rdmabroker_close(client);
		rdmabroker_close(server);
		await_counts(0, 0);
	}
}
END_TEST

/* It has proven who it is, and then it does as the attacker does: by now its pid is another's. */

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

START_TEST(a_proof_is_of_one_process)
{
	static const int two_kernels[] = { 0, ENOPROTOOPT };

	set_policy("allow any\n");
	for (size_t i = 0; i < 2; i++) {
		no_peerpidfd = two_kernels[i];
		attack = (struct attack){ .prepare = prove_it };
		/* Not in the server's thread, which has to answer. */
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

UNIT_MAIN("identity", set_up_attack, tear_down_attack, the_unit_is_not_the_victims,
	  the_qps_are_not_the_victims, an_unknown_unit_is_rejected, said_twice_in_advance,
	  wrong_proofs_prove_nothing, a_question_is_no_hello, a_proof_of_another_user,
	  whoever_proves_it_is_believed, whoever_cannot_is_served_without, no_question_without_need,
	  the_library_proves_it, a_proof_is_of_one_process)
