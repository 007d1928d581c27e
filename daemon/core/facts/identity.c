/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/facts/identity.h"
#include "core/facts/proc.h"
#include "policy/policy.h"
#include "proto/proof.h"
#include "util/util.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

#define UID_MAP_MAX 16384 /* bytes; the kernel allows 340 lines of up to 33 */

static int get_gids(struct identity *identity, int sock, gid_t primary)
{
	gid_t space[IDENTITY_GIDS_MAX];
	socklen_t len = sizeof(space) - sizeof(primary);
	size_t n;

	/* The kernel compares the sizes before it copies, so a long list costs no more than a short one. */
	if (getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, space, &len) < 0) {
		identity->too_many_gids = errno == ERANGE;
		return identity->too_many_gids ? 0 : -errno;
	}
	n = len / sizeof(gid_t);
	space[n++] = primary;
	/* The kernel sorts them, so only the primary group is moved, and is there twice if it is a supplementary one, too. */
	policy_sort_gids(space, n);
	identity->gids = malloc(n * sizeof(gid_t));
	if (!identity->gids)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (i == 0 || space[i] != space[i - 1])
			identity->gids[identity->n_gids++] = space[i];
	return 0;
}

/*
 * SO_PEERPIDFD gives a pidfd of the process that connected. A pidfd that is opened by the pid can be of a later
 * process, so PROVEN stays false then.
 */
static int get_pidfd(struct identity *identity, int sock)
{
	socklen_t len = sizeof(int);
	int fd;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0) {
		identity->pidfd = fd;
		identity->proven = true;
		return 0;
	}
	if (identity->pid > 0)
		identity->pidfd = (int)syscall(SYS_pidfd_open, identity->pid, 0);
	if (identity->pidfd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return -errno;
	return 0;
}

void identity_set_workload(struct identity *identity, struct workload *found)
{
	/* If the process has ended, its pid can have been another process's during the look-up. */
	if (identity_is_alive(identity))
		workload_move(&identity->workload, found);
}

/* The whole uid_map of a process. False: it is not known. */
static bool read_uid_map(pid_t pid, char ret[UID_MAP_MAX])
{
	FILE *file = proc_open(pid, "uid_map");
	size_t n = file ? fread(ret, 1, UID_MAP_MAX, file) : 0;

	if (file)
		fclose(file);
	if (n == 0 || n == UID_MAP_MAX)
		return false;
	ret[n] = 0;
	return true;
}

/* The first uid and the number of uids of the line that has UID. False: there is none. */
static bool find_uid_line(char *map, uid_t uid, uid_t *ret_first, uid_t *ret_n)
{
	char *save;

	for (char *line = strtok_r(map, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "%*u %u %u", ret_first, ret_n) == 2 && uid >= *ret_first &&
		    uid - *ret_first < *ret_n)
			return true;
	return false;
}

/* If the process has ended, this can be of another one that has its pid now. */
static struct owner find_owner(uid_t uid, pid_t pid)
{
	static char own[UID_MAP_MAX]; /* it does not change */
	char map[UID_MAP_MAX];
	uid_t first, n;
	int inner;

	if (!owner_depends_on_namespace(uid))
		return owner_of(uid);
	if ((!own[0] && !read_uid_map(getpid(), own)) || !read_uid_map(pid, map))
		return owner_of_stranger(uid, uid);
	if (strcmp(map, own) == 0)
		return owner_of(uid);
	if (!find_uid_line(map, uid, &first, &n))
		return owner_of_stranger(uid, uid);
	/*
	 * Everybody can make a user namespace with his own uid alone, and many programs do. In a container, whose root
	 * can do so as one uid after the other, there is a pid namespace, too. But who has a range needs none.
	 */
	if (n == 1 && !owners_are_incomplete() &&
	    proc_scan(pid, "status", "NSpid: %*d %d", &inner) == 0)
		return owner_of(uid);
	return owner_of_stranger(uid, first);
}

int identity_find_owner(struct owner *ret, int sock)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*ret = owner_of(cred.uid);
	/* In a range that is known, the line does not matter to others. */
	if (ret->range == OWNER_ALONE)
		*ret = find_owner(cred.uid, cred.pid);
	return 0;
}

int identity_init(struct identity *identity, int sock)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*identity = (struct identity){ .uid = cred.uid, .pid = cred.pid, .pidfd = -1 };
	r = get_gids(identity, sock, cred.gid);
	if (r == 0)
		r = get_pidfd(identity, sock);
	identity->owner = find_owner(cred.uid, cred.pid);
	if (owner_depends_on_namespace(cred.uid) && !identity_is_alive(identity))
		identity->owner = owner_of_stranger(cred.uid, cred.uid);
	return r;
}

/*
 * The proof: nobody knew the name before PIDFD was opened, so listen() was called later. SO_PEERCRED of a listening
 * socket names the process that called listen(). If this process has PIDFD's pid, and PIDFD's process still lives,
 * the two are one process.
 *
 * SCM_CREDENTIALS would be no proof: root of a pid namespace can name another process of the namespace as the sender,
 * and a sendmsg() that blocks can outlive that process.
 */

const char *identity_ask(struct identity *identity)
{
	uint8_t random[16];
	int n;

	if ((identity->proven && !identity->adopts) || identity->pidfd < 0 || identity->question[0])
		return NULL;
	if (getrandom(random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		return NULL;
	n = snprintf(identity->question, sizeof(identity->question), "%s",
		     identity->adopts ? PROOF_ADOPTS : PROOF_OPENS);
	for (size_t i = 0; i < sizeof(random); i++)
		n += snprintf(identity->question + n, sizeof(identity->question) - (size_t)n,
			      "%02x", random[i]);
	return identity->question;
}

static bool has_option(int fd, int option, int value)
{
	int is;
	socklen_t len = sizeof(is);

	return getsockopt(fd, SOL_SOCKET, option, &is, &len) == 0 && is == value;
}

static bool has_name(int fd, const char *name)
{
	size_t n = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);

	return getsockname(fd, (struct sockaddr *)&addr, &len) == 0 && len == n &&
	       addr.sun_path[0] == 0 && memcmp(addr.sun_path + 1, name, strlen(name)) == 0;
}

/*
 * FD can be anything, so no call here takes a lock that the sender could hold. A connected socket would be no proof:
 * its credentials can be older than its name.
 */
static bool is_proof(const struct identity *identity, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return has_option(fd, SO_DOMAIN, AF_UNIX) && has_option(fd, SO_ACCEPTCONN, 1) &&
	       has_option(fd, SO_TYPE, proof_type(identity->question)) &&
	       has_name(fd, identity->question) &&
	       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	       cred.pid == identity->pid && cred.uid == identity->uid;
}

void identity_prove(struct identity *identity, int fd)
{
	if ((identity->proven && !identity->adopts) || !identity->question[0] || fd < 0)
		return;
	if (!is_proof(identity, fd) || !identity_is_alive(identity))
		return;
	identity->proven = true;
	identity->adopts = false;
}

const char *identity_doubt(const struct identity *identity)
{
	if (identity->proven)
		return NULL;
	if (identity->pidfd < 0)
		return "that process has ended, or is not visible to the broker";
	if (!identity->question[0])
		return "Linux before 6.5 cannot verify it, and the client does not support a proof";
	return "Linux before 6.5 cannot verify it, and the client gave no proof";
}

void identity_done(struct identity *identity)
{
	closep(&identity->pidfd);
	identity->pidfd = -1;
	free(identity->gids);
	identity->gids = NULL;
	workload_done(&identity->workload);
	identity->n_gids = 0;
}

bool identity_may_bind_low(const struct identity *identity)
{
	unsigned long long capabilities, n_uids;

	/*
	 * The capabilities of the process prove nothing about who uses the socket: the process can have executed a
	 * set-user-ID program meanwhile, and another one has kept the socket. So only root at the connect counts; the
	 * capability can only narrow what root gets, for no exec brings back what root of a container was denied. Only the
	 * initial user namespace has all uids. That the process lives at the end means that PID was its own.
	 */
	return identity->uid == 0 && identity->proven &&
	       proc_scan(identity->pid, "status", "CapEff: %llx", &capabilities) == 1 &&
	       proc_scan(identity->pid, "uid_map", " 0 0 %llu", &n_uids) == 1 &&
	       identity_is_alive(identity) && n_uids == UINT32_MAX &&
	       (capabilities & 1ULL << CAP_NET_BIND_SERVICE);
}

bool identity_is_alive(const struct identity *identity)
{
	struct pollfd p = { .fd = identity->pidfd, .events = POLLIN };

	return identity->pidfd >= 0 && poll(&p, 1, 0) == 0;
}
