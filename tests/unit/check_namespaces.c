/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/facts/identity.h"
#include "proto/packet.h"
#include "tests/unit/ranges.h"
#include "tests/unit/unit.h"
#include "util/util.h"

/*
 * Whose a client is that runs in a user namespace: real namespaces, with maps as container managers write them, and as
 * root of a container can write them.
 */

#define CONTAINER 524288 /* as of systemd-nspawn --private-users=pick */
#define WHOLE "0 524288 65536"
#define ONE "0 524295 1"

static int link_fd; /* to the client */
static pid_t client, outside; /* OUTSIDE: the client's parent */

static void set_up(void)
{
	client = outside = 0;
}

static void end_client(void)
{
	if (client > 0)
		kill(client, SIGKILL);
	if (outside > 0)
		waitpid(outside, NULL, 0);
	if (outside > 0)
		close(link_fd);
	client = outside = 0;
}

static void tear_down(void)
{
	end_client();
	owners_use(NULL);
}

static void use(const char *text, bool incomplete)
{
	struct owners *owners = read_ranges(text);

	if (incomplete)
		owners_set_incomplete(owners);
	owners_use(owners);
}

/* The client makes a pair of sockets as UID of its namespace, and sends one of them. */
static void be_client(int fd, bool separate, uid_t uid)
{
	char byte = 0;
	int pair[2];

	if ((separate && unshare(CLONE_NEWUSER) < 0) || write(fd, &byte, 1) != 1 ||
	    read(fd, &byte, 1) != 1 || syscall(SYS_setresuid, uid, uid, uid) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 ||
	    packet_send(fd, &byte, 1, &pair[1], 1) < 0)
		_exit(1);
	for (;;)
		pause();
}

static void write_map(const char *map)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/uid_map", client);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(write(fd, map, strlen(map)), (ssize_t)strlen(map));
	close(fd);
}

/* MAP NULL: the client has no user namespace of its own. Returns an end of the client's pair. */
static int start_client(const char *map, bool with_pids, uid_t uid)
{
	uint8_t buf[PACKET_MAX];
	int pair[2], told[2], fds[PACKET_ALL_FDS];
	size_t n_fds;
	char byte = 0;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
	outside = fork();
	if (outside == 0) {
		pid_t pid;

		if (with_pids && unshare(CLONE_NEWPID) < 0)
			_exit(1);
		pid = fork();
		if (pid == 0)
			be_client(pair[1], map != NULL, uid);
		if (write(told[1], &pid, sizeof(pid)) < 0)
			_exit(1);
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	close(told[1]);
	close(pair[1]);
	link_fd = pair[0];
	ck_assert_int_eq(read(told[0], &client, sizeof(client)), sizeof(client));
	close(told[0]);
	ck_assert_int_eq(read(link_fd, &byte, 1), 1);
	if (map)
		write_map(map);
	ck_assert_int_eq(write(link_fd, &byte, 1), 1);
	AWAIT_INPUT(link_fd, "the client's socket");
	ck_assert_int_gt(packet_recv(link_fd, buf, fds, PACKET_ALL_FDS, &n_fds), 0);
	ck_assert_uint_eq(n_fds, 1);
	return fds[0];
}

static void assert_identity(int sock, uid_t uid, struct owner owner)
{
	struct identity identity;

	ck_assert_int_eq(identity_init(&identity, sock), 0);
	ck_assert_uint_eq(identity.uid, uid);
	ck_assert_uint_eq(identity.owner.uid, owner.uid);
	ck_assert_uint_eq(identity.owner.range, owner.range);
	identity_done(&identity);
	close(sock);
}

static bool may_test(void)
{
	if (geteuid() == 0)
		return true;
	fprintf(stderr, "skipped: only root can write such maps\n");
	return false;
}

static const struct {
	const char *map;
	bool with_pids;
	uid_t inside, uid;
	const char *ranges;
	struct owner owner;
} clients[] = {
	/* Whoever is in a container is the container, which no file names. */
	{ WHOLE, true, 0, CONTAINER, "", { CONTAINER, OWNER_STRANGERS } },
	{ WHOLE, true, 7, CONTAINER + 7, "", { CONTAINER, OWNER_STRANGERS } },
	{ WHOLE, false, 7, CONTAINER + 7, "", { CONTAINER, OWNER_STRANGERS } },
	{ "0 1000 1\n1 524288 65536", true, 8, CONTAINER + 7, "", { CONTAINER, OWNER_STRANGERS } },
	/* Root of it makes namespaces with one uid each. */
	{ ONE, true, 0, CONTAINER + 7, "", { CONTAINER + 7, OWNER_STRANGERS } },
	/* A user of a directory has made one for himself. */
	{ ONE, false, 0, CONTAINER + 7, "", { CONTAINER + 7, OWNER_ALONE } },
	/* And he is the same without one. */
	{ NULL, false, CONTAINER + 7, CONTAINER + 7, "", { CONTAINER + 7, OWNER_ALONE } },
	/* The file names the range. It is of root: a pod of it is an owner, and so is a uid by itself. */
	{ WHOLE, true, 7, CONTAINER + 7, "root:500000:200000", { CONTAINER, 500000 } },
	{ ONE, true, 0, CONTAINER + 7, "root:500000:200000", { CONTAINER + 7, 500000 } },
	{ ONE, false, 0, CONTAINER + 7, "root:500000:200000", { CONTAINER + 7, 500000 } },
	/* It is of a user. */
	{ WHOLE, true, 7, CONTAINER + 7, "1000:500000:200000", { 1000, OWNER_ALONE } },
	{ "0 1000 1", true, 0, 1000, "1000:500000:200000", { 1000, OWNER_ALONE } },
	/* Root has mapped uids of the host: each is its own. */
	{ "0 0 65536", true, 1000, 1000, "", { 1000, OWNER_ALONE } },
	{ "0 0 1000000", true, CONTAINER, CONTAINER, "", { CONTAINER, OWNER_STRANGERS } },
};

START_TEST(the_line_of_the_map)
{
	if (!may_test())
		return;
	for (size_t i = 0; i < ELEMENTS_OF(clients); i++) {
		use(clients[i].ranges, /* incomplete= */ false);
		assert_identity(start_client(clients[i].map, clients[i].with_pids,
					     clients[i].inside),
				clients[i].uid, clients[i].owner);
		end_client();
	}
}
END_TEST

/* Users can have ranges of which the file does not know. Then it is not known who is in a namespace with one uid. */
START_TEST(ranges_that_are_elsewhere)
{
	if (!may_test())
		return;
	use("", /* incomplete= */ true);
	assert_identity(start_client(ONE, /* with_pids= */ false, 0), CONTAINER + 7,
			(struct owner){ CONTAINER + 7, OWNER_STRANGERS });
	end_client();
	assert_identity(start_client(NULL, /* with_pids= */ false, CONTAINER + 7), CONTAINER + 7,
			(struct owner){ CONTAINER + 7, OWNER_ALONE });
}
END_TEST

/* What is not known costs nobody else: neither its uid nor another process's map says whose it is. */
START_TEST(a_client_that_has_ended)
{
	int sock;

	if (!may_test())
		return;
	sock = start_client(NULL, /* with_pids= */ false, CONTAINER + 7);
	end_client();
	assert_identity(sock, CONTAINER + 7, (struct owner){ CONTAINER + 7, OWNER_STRANGERS });
	sock = start_client(NULL, /* with_pids= */ false, 1000);
	end_client();
	assert_identity(sock, 1000, (struct owner){ 1000, OWNER_ALONE });
}
END_TEST

UNIT_MAIN("namespaces", set_up, tear_down, the_line_of_the_map, ranges_that_are_elsewhere,
	  a_client_that_has_ended)
