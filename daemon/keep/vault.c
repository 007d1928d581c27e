/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keep/store.h"
#include "keep/vault.h"
#include "util/list.h"
#include "util/util.h"

#define KIND "vault"
#define FDS_PER_MESSAGE 253 /* the kernel's limit, SCM_MAX_FD */
#define ENTRIES_PER_MESSAGE (FDS_PER_MESSAGE / VAULT_FDS)
/* This many sessions that have ended stay in a vault, or as many as still exist if these are more. */
#define DEAD_MAX 64

/* A message: one line for each session. Sender and receiver are programs of the same host. */
struct line {
	uint64_t number;
	uint32_t n_fds;
	uint32_t reserved;
};

struct vault {
	struct store *store;
	void (*close_later)(void *userdata, int fd);
	void *userdata;
	int in, out; /* the two ends; -1: there is none yet */
	unsigned n; /* the number in the name of the stored end */
	struct vault_entry *entries; /* the sessions that are kept */
	size_t n_entries, n_allocated;
	size_t n_dead; /* sessions in the queue that have ended */
	size_t n_queued_fds; /* descriptors in the queue */
	size_t max_fds; /* most descriptors in the queue */
	/* the vaults that the previous process has left; more than one, if it was killed while it made a new one */
	struct old_vault {
		int out;
		unsigned n;
	} * old;
	size_t n_old;
};

/*
 * The kernel lets the daemon send no descriptor to anybody while more of its descriptors are in messages than it may
 * have open. So a vault, together with the new one that replaces it, gets half of them.
 */
static size_t get_max_fds(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 256 : limit.rlim_cur / 4;
}

int vault_new(struct vault **ret, struct store *store, void (*close_later)(void *userdata, int fd),
	      void *userdata)
{
	struct vault *vault = calloc(1, sizeof(*vault));

	if (!vault)
		return -ENOMEM;
	vault->store = store;
	vault->close_later = close_later;
	vault->userdata = userdata;
	vault->in = vault->out = -1;
	vault->n = store_last(store, KIND);
	vault->max_fds = get_max_fds();
	*ret = vault;
	return 0;
}

struct vault *vault_free(struct vault *vault)
{
	if (!vault)
		return NULL;
	closep(&vault->in);
	/* Nobody is served any more, so it does no harm if closing blocks. */
	closep(&vault->out);
	for (size_t i = 0; i < vault->n_old; i++)
		closep(&vault->old[i].out);
	free(vault->entries);
	free(vault->old);
	free(vault);
	return NULL;
}

union control {
	char buf[CMSG_SPACE(FDS_PER_MESSAGE * sizeof(int))];
	struct cmsghdr align;
};

static int send_entries(int fd, const struct vault_entry *entries, size_t n)
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
static void empty(struct vault *vault, int out)
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
			vault->close_later(vault->userdata, ((int *)CMSG_DATA(cmsg))[i]);
	}
}

/*
 * Makes a new vault with the sessions that exist, and removes the present one. -EBUSY: systemd does not read, so the
 * present one stays: it is the one that systemd has.
 */
static int rebuild(struct vault *vault)
{
	int in = -1, out = -1, r;

	if (vault->out >= 0 && store_is_behind(vault->store))
		return -EBUSY;
	r = make_pair(&in, &out);
	for (size_t i = 0; r == 0 && i < vault->n_entries; i += ENTRIES_PER_MESSAGE) {
		size_t n = vault->n_entries - i;

		r = send_entries(in, vault->entries + i,
				 n < ENTRIES_PER_MESSAGE ? n : ENTRIES_PER_MESSAGE);
		if (r < 0) {
			close(in);
			empty(vault, out);
			close(out);
		}
	}
	if (r == 0) {
		r = store_add(vault->store, KIND, vault->n + 1, out);
		if (r == 0 && vault->out >= 0 && store_is_behind(vault->store)) {
			store_remove(vault->store, KIND, vault->n + 1);
			r = -EBUSY;
		}
		if (r < 0) {
			close(in);
			empty(vault, out);
			close(out);
		}
	}
	if (r < 0)
		return r;
	if (vault->out >= 0) {
		empty(vault, vault->out);
		store_remove(vault->store, KIND, vault->n);
		close(vault->in);
		close(vault->out);
	}
	vault->in = in;
	vault->out = out;
	vault->n++;
	vault->n_dead = 0;
	vault->n_queued_fds = 0;
	for (size_t i = 0; i < vault->n_entries; i++)
		vault->n_queued_fds += vault->entries[i].n_fds;
	return 0;
}

static int add_entry(struct vault *vault, const struct vault_entry *entry)
{
	if (vault->n_entries == vault->n_allocated) {
		size_t n = vault->n_allocated ? 2 * vault->n_allocated : 64;
		struct vault_entry *entries = realloc(vault->entries, n * sizeof(*entries));

		if (!entries)
			return -ENOMEM;
		vault->entries = entries;
		vault->n_allocated = n;
	}
	vault->entries[vault->n_entries++] = *entry;
	return 0;
}

static bool has_room(struct vault *vault, unsigned n_fds)
{
	return vault->n_queued_fds + n_fds <= vault->max_fds;
}

int vault_put(struct vault *vault, uint64_t number, const int *fds, unsigned n_fds)
{
	struct vault_entry entry = { .number = number, .n_fds = n_fds };
	int r;

	if (!vault || !store_is_present(vault->store))
		return 0;
	memcpy(entry.fds, fds, n_fds * sizeof(*fds));
	r = add_entry(vault, &entry);
	if (r < 0)
		return r;
	r = -EAGAIN;
	if (vault->in >= 0)
		r = has_room(vault, n_fds) ? send_entries(vault->in, &entry, 1) : -ENOSPC;
	if (r == 0)
		vault->n_queued_fds += n_fds;
	/* The queue is full of many small messages, or there is none yet. */
	if (r == -EAGAIN)
		r = rebuild(vault);
	if (r < 0)
		vault->n_entries--;
	return r;
}

const char *vault_strerror(int r)
{
	return r == -EBUSY ? "systemd does not read what it is told" : strerror(-r);
}

/* Searches from the end, because most sessions that end are short and have begun a short time ago. */
static struct vault_entry *find(struct vault *vault, uint64_t number)
{
	for (size_t i = vault->n_entries; i > 0; i--)
		if (vault->entries[i - 1].number == number)
			return &vault->entries[i - 1];
	return NULL;
}

void vault_drop(struct vault *vault, uint64_t number)
{
	struct vault_entry *entry = vault ? find(vault, number) : NULL;

	if (!entry)
		return;
	*entry = vault->entries[--vault->n_entries];
	vault->n_dead++;
	/* If this fails, the present vault stays, and the next session that ends tries again. */
	if (vault->n_dead > DEAD_MAX &&
	    (vault->n_dead > vault->n_entries || !has_room(vault, VAULT_FDS)))
		rebuild(vault);
}

/* A message that is not of the form of send_entries() is dropped. */
static void take_message(const struct line *lines, size_t n_lines, const int *fds, size_t n_fds,
			 void (*found)(void *userdata, const struct vault_entry *entry),
			 void *userdata)
{
	size_t used = 0;

	for (size_t i = 0; i < n_lines; i++) {
		struct vault_entry entry = { .number = lines[i].number, .n_fds = lines[i].n_fds };

		if (entry.n_fds == 0 || entry.n_fds > VAULT_FDS || used + entry.n_fds > n_fds)
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
static int look_into(int out, void (*found)(void *userdata, const struct vault_entry *entry),
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

int vault_open(struct vault *vault, void (*found)(void *userdata, const struct vault_entry *entry),
	       void *userdata)
{
	unsigned n;
	int out, r = 0;

	while (r == 0 && (out = store_take(vault->store, KIND, &n)) >= 0) {
		struct old_vault *old =
			realloc(vault->old, (vault->n_old + 1) * sizeof(*vault->old));

		if (!old) {
			close(out);
			return -ENOMEM;
		}
		vault->old = old;
		old[vault->n_old++] = (struct old_vault){ out, n };
		r = look_into(out, found, userdata);
	}
	return r;
}

void vault_forget_old(struct vault *vault)
{
	if (vault->n_old > 0)
		store_settle(vault->store);
	for (size_t i = 0; i < vault->n_old; i++) {
		empty(vault, vault->old[i].out);
		store_remove(vault->store, KIND, vault->old[i].n);
		close(vault->old[i].out);
	}
	vault->n_old = 0;
}

void vault_forget(struct vault *vault)
{
	if (vault->out < 0)
		return;
	empty(vault, vault->out);
	store_remove(vault->store, KIND, vault->n);
	close(vault->in);
	close(vault->out);
	vault->in = vault->out = -1;
	vault->n_entries = 0;
}
