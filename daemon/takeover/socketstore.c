/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "takeover/fdstore.h"
#include "takeover/socketstore.h"
#include "util/list.h"
#include "util/util.h"

#define KIND "vault"
#define FDS_PER_MESSAGE 253 /* the kernel's limit, SCM_MAX_FD */
#define ENTRIES_PER_MESSAGE (FDS_PER_MESSAGE / SOCKETSTORE_FDS)
/* This many sessions that have ended stay in a socket store, or as many as still exist if these are more. */
#define DEAD_MAX 64

/* A message: one line for each session. Sender and receiver are programs of the same host. */
struct line {
	uint64_t number;
	uint32_t n_fds;
	uint32_t reserved;
};

struct socketstore {
	struct fdstore *store;
	void (*close_later)(void *userdata, int fd);
	void *userdata;
	int in, out; /* the two ends; -1: there is none yet */
	unsigned n; /* the number in the name of the stored end */
	struct socketstore_entry *entries; /* the sessions that are kept */
	size_t n_entries, n_allocated;
	size_t n_dead; /* sessions in the queue that have ended */
	size_t n_queued_fds; /* descriptors in the queue */
	size_t max_fds; /* most descriptors in the queue */
	/* the socket stores that the previous process has left; more than one, if it was killed while it made a new one */
	struct old_store {
		int out;
		unsigned n;
	} * old;
	size_t n_old;
};

/*
 * The kernel lets the daemon send no descriptor to anybody while more of its descriptors are in messages than it may
 * have open. So a socket store, together with the new one that replaces it, gets half of them.
 */
static size_t get_max_fds(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 256 : limit.rlim_cur / 4;
}

int socketstore_new(struct socketstore **ret, struct fdstore *store,
		    void (*close_later)(void *userdata, int fd), void *userdata)
{
	struct socketstore *socketstore = calloc(1, sizeof(*socketstore));

	if (!socketstore)
		return -ENOMEM;
	socketstore->store = store;
	socketstore->close_later = close_later;
	socketstore->userdata = userdata;
	socketstore->in = socketstore->out = -1;
	socketstore->n = fdstore_last(store, KIND);
	socketstore->max_fds = get_max_fds();
	*ret = socketstore;
	return 0;
}

struct socketstore *socketstore_free(struct socketstore *socketstore)
{
	if (!socketstore)
		return NULL;
	closep(&socketstore->in);
	/* Nobody is served any more, so it does no harm if closing blocks. */
	closep(&socketstore->out);
	for (size_t i = 0; i < socketstore->n_old; i++)
		closep(&socketstore->old[i].out);
	free(socketstore->entries);
	free(socketstore->old);
	free(socketstore);
	return NULL;
}

union control {
	char buf[CMSG_SPACE(FDS_PER_MESSAGE * sizeof(int))];
	struct cmsghdr align;
};

static int send_entries(int fd, const struct socketstore_entry *entries, size_t n)
{
	struct line lines[ENTRIES_PER_MESSAGE] = { 0 };
	struct iovec iov = { .iov_base = lines, .iov_len = n * sizeof(*lines) };
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf };
	struct cmsghdr *cmsg = &control.align;
	size_t n_fds = 0;
	int *fds = (int *)CMSG_DATA(cmsg);

	for (size_t i = 0; i < n; i++) {
		lines[i] = (struct line){ entries[i].number, entries[i].n_fds, 0 };
		memcpy(fds + n_fds, entries[i].fds, entries[i].n_fds * sizeof(int));
		n_fds += entries[i].n_fds;
	}
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int make_pair(int *ret_in, int *ret_out)
{
	int fds[2], most = 1 << 30;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return -errno;
	/* The kernel grants what it allows. */
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &most, sizeof(most));
	*ret_in = fds[0];
	*ret_out = fds[1];
	return 0;
}

/* Receives and drops all that is in OUT, so that whoever closes it last has nothing to close with it. */
static void empty(struct socketstore *socketstore, int out)
{
	struct line lines[ENTRIES_PER_MESSAGE];
	union control control;

	for (;;) {
		struct iovec iov = { .iov_base = lines, .iov_len = sizeof(lines) };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control.buf,
				      .msg_controllen = sizeof(control.buf) };
		struct cmsghdr *cmsg;

		if (recvmsg(out, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
			break;
		cmsg = CMSG_FIRSTHDR(&msg);
		if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++)
			socketstore->close_later(socketstore->userdata,
						 ((int *)CMSG_DATA(cmsg))[i]);
	}
}

/*
 * Makes a new socket store with the sessions that exist, and removes the present one. -EBUSY: systemd does not read, so
 * the present one stays: it is the one that systemd has.
 */
static int rebuild(struct socketstore *socketstore)
{
	int in = -1, out = -1, r;

	if (socketstore->out >= 0 && fdstore_is_behind(socketstore->store))
		return -EBUSY;
	r = make_pair(&in, &out);
	for (size_t i = 0; r == 0 && i < socketstore->n_entries; i += ENTRIES_PER_MESSAGE) {
		size_t n = socketstore->n_entries - i;

		r = send_entries(in, socketstore->entries + i,
				 n < ENTRIES_PER_MESSAGE ? n : ENTRIES_PER_MESSAGE);
		if (r < 0) {
			close(in);
			empty(socketstore, out);
			close(out);
		}
	}
	if (r == 0) {
		r = fdstore_add(socketstore->store, KIND, socketstore->n + 1, out);
		if (r == 0 && socketstore->out >= 0 && fdstore_is_behind(socketstore->store)) {
			fdstore_remove(socketstore->store, KIND, socketstore->n + 1);
			r = -EBUSY;
		}
		if (r < 0) {
			close(in);
			empty(socketstore, out);
			close(out);
		}
	}
	if (r < 0)
		return r;
	if (socketstore->out >= 0) {
		empty(socketstore, socketstore->out);
		fdstore_remove(socketstore->store, KIND, socketstore->n);
		close(socketstore->in);
		close(socketstore->out);
	}
	socketstore->in = in;
	socketstore->out = out;
	socketstore->n++;
	socketstore->n_dead = 0;
	socketstore->n_queued_fds = 0;
	for (size_t i = 0; i < socketstore->n_entries; i++)
		socketstore->n_queued_fds += socketstore->entries[i].n_fds;
	return 0;
}

static int add_entry(struct socketstore *socketstore, const struct socketstore_entry *entry)
{
	if (socketstore->n_entries == socketstore->n_allocated) {
		size_t n = socketstore->n_allocated ? 2 * socketstore->n_allocated : 64;
		struct socketstore_entry *entries =
			realloc(socketstore->entries, n * sizeof(*entries));

		if (!entries)
			return -ENOMEM;
		socketstore->entries = entries;
		socketstore->n_allocated = n;
	}
	socketstore->entries[socketstore->n_entries++] = *entry;
	return 0;
}

static bool has_room(struct socketstore *socketstore, unsigned n_fds)
{
	return socketstore->n_queued_fds + n_fds <= socketstore->max_fds;
}

int socketstore_put(struct socketstore *socketstore, uint64_t number, const int *fds,
		    unsigned n_fds)
{
	struct socketstore_entry entry = { .number = number, .n_fds = n_fds };
	int r;

	if (!socketstore || !fdstore_is_present(socketstore->store))
		return 0;
	memcpy(entry.fds, fds, n_fds * sizeof(*fds));
	r = add_entry(socketstore, &entry);
	if (r < 0)
		return r;
	r = -EAGAIN;
	if (socketstore->in >= 0)
		r = has_room(socketstore, n_fds) ? send_entries(socketstore->in, &entry, 1) :
						   -ENOSPC;
	if (r == 0)
		socketstore->n_queued_fds += n_fds;
	/* The queue is full of many small messages, or there is none yet. */
	if (r == -EAGAIN)
		r = rebuild(socketstore);
	if (r < 0)
		socketstore->n_entries--;
	return r;
}

const char *socketstore_strerror(int r)
{
	return r == -EBUSY ? "systemd does not read what it is told" : strerror(-r);
}

/* Searches from the end, because most sessions that end are short and have begun a short time ago. */
static struct socketstore_entry *find(struct socketstore *socketstore, uint64_t number)
{
	for (size_t i = socketstore->n_entries; i > 0; i--)
		if (socketstore->entries[i - 1].number == number)
			return &socketstore->entries[i - 1];
	return NULL;
}

void socketstore_drop(struct socketstore *socketstore, uint64_t number)
{
	struct socketstore_entry *entry = socketstore ? find(socketstore, number) : NULL;

	if (!entry)
		return;
	*entry = socketstore->entries[--socketstore->n_entries];
	socketstore->n_dead++;
	/* If this fails, the present socket store stays, and the next session that ends tries again. */
	if (socketstore->n_dead > DEAD_MAX && (socketstore->n_dead > socketstore->n_entries ||
					       !has_room(socketstore, SOCKETSTORE_FDS)))
		rebuild(socketstore);
}

/* A message that is not of the form of send_entries() is dropped. */
static void take_message(const struct line *lines, size_t n_lines, const int *fds, size_t n_fds,
			 void (*found)(void *userdata, const struct socketstore_entry *entry),
			 void *userdata)
{
	size_t used = 0;

	for (size_t i = 0; i < n_lines; i++) {
		struct socketstore_entry entry = { .number = lines[i].number,
						   .n_fds = lines[i].n_fds };

		if (entry.n_fds == 0 || entry.n_fds > SOCKETSTORE_FDS || used + entry.n_fds > n_fds)
			break;
		memcpy(entry.fds, fds + used, entry.n_fds * sizeof(*fds));
		used += entry.n_fds;
		found(userdata, &entry);
	}
	for (; used < n_fds; used++)
		close(fds[used]);
}

/*
 * Looks at all messages of OUT without receiving them. So if this process is killed before it has stored what it
 * found, the next one finds the same.
 */
static int look_into(int out, void (*found)(void *userdata, const struct socketstore_entry *entry),
		     void *userdata)
{
	struct line lines[ENTRIES_PER_MESSAGE];
	union control control;
	int offset = 0;

	/* With this option each MSG_PEEK gets the message after the one before. */
	if (setsockopt(out, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)) < 0)
		return -errno;
	for (;;) {
		struct iovec iov = { .iov_base = lines, .iov_len = sizeof(lines) };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control.buf,
				      .msg_controllen = sizeof(control.buf) };
		ssize_t n = recvmsg(out, &msg, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		struct cmsghdr *cmsg;

		if (n <= 0)
			return n == 0 || errno == EAGAIN ? 0 : -errno;
		cmsg = CMSG_FIRSTHDR(&msg);
		if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
			take_message(lines, (size_t)n / sizeof(*lines), (int *)CMSG_DATA(cmsg),
				     (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int), found, userdata);
	}
}

int socketstore_open(struct socketstore *socketstore,
		     void (*found)(void *userdata, const struct socketstore_entry *entry),
		     void *userdata)
{
	unsigned n;
	int out, r = 0;

	while (r == 0 && (out = fdstore_take(socketstore->store, KIND, &n)) >= 0) {
		struct old_store *old = realloc(
			socketstore->old, (socketstore->n_old + 1) * sizeof(*socketstore->old));

		if (!old) {
			close(out);
			return -ENOMEM;
		}
		socketstore->old = old;
		old[socketstore->n_old++] = (struct old_store){ out, n };
		r = look_into(out, found, userdata);
	}
	return r;
}

void socketstore_forget_old(struct socketstore *socketstore)
{
	if (socketstore->n_old > 0)
		fdstore_settle(socketstore->store);
	for (size_t i = 0; i < socketstore->n_old; i++) {
		empty(socketstore, socketstore->old[i].out);
		fdstore_remove(socketstore->store, KIND, socketstore->old[i].n);
		close(socketstore->old[i].out);
	}
	socketstore->n_old = 0;
}

void socketstore_forget(struct socketstore *socketstore)
{
	if (socketstore->out < 0)
		return;
	empty(socketstore, socketstore->out);
	fdstore_remove(socketstore->store, KIND, socketstore->n);
	close(socketstore->in);
	close(socketstore->out);
	socketstore->in = socketstore->out = -1;
	socketstore->n_entries = 0;
}
