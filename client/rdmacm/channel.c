/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdmacm.h"

/* Returns a new epoll instance that contains FD; -1 with errno: failure. */
static int wrap_fd(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC), error;

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0)
		return epoll;
	error = errno;
	close(epoll);
	return fail(error);
}

static void end_session(struct channel *channel, bool keep)
{
	if (channel->sync)
		close(channel->public.fd);
	if (channel->sync && keep)
		broker_keep(&channel->session);
	else
		BROKER(rdmabroker_close(channel->session.broker));
}

struct channel *channel_new(bool sync)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int error;

	if (!channel) {
		errno = ENOMEM;
		return NULL;
	}
	channel->sync = sync;
	if ((sync ? broker_reuse : broker_open)(&channel->session) < 0) {
		free(channel);
		return NULL;
	}
	channel->public.fd = rdmabroker_get_fd(channel->session.broker);
	if (sync)
		channel->public.fd = wrap_fd(channel->public.fd);
	if (channel->public.fd < 0) {
		error = errno;
		BROKER(rdmabroker_close(channel->session.broker));
		free(channel);
		errno = error;
		return NULL;
	}
	pthread_mutex_init(&channel->lock, NULL);
	LIST_INIT(&channel->ids);
	return channel;
}

/*
 * An ending program can have a thread that is about to wait on a destroyed channel (rping does). To avoid a use after
 * free, the memory of the last 16 channels is kept.
 */
static void forget(struct channel *channel)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct channel *gone[16];
	static unsigned n;
	struct channel *oldest;

	pthread_mutex_lock(&lock);
	oldest = gone[n];
	gone[n] = channel;
	n = (n + 1) % (sizeof(gone) / sizeof(gone[0]));
	pthread_mutex_unlock(&lock);
	if (!oldest)
		return;
	pthread_mutex_destroy(&oldest->lock);
	free(oldest);
}

/*
 * As in librdmacm, a thread that waits on a destroyed channel waits until the process ends. With an error instead, a
 * program that is ending (rping) could exit with a failure.
 */
__attribute__((noreturn)) static void wait_for_ever(void)
{
	for (;;)
		pause();
}

void channel_enter(struct channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	if (channel->closed) {
		pthread_mutex_unlock(&channel->lock);
		wait_for_ever();
	}
	channel->n_inside++;
}

void channel_leave(struct channel *channel)
{
	bool is_last;

	is_last = --channel->n_inside == 0 && channel->closed;
	pthread_mutex_unlock(&channel->lock);
	if (is_last)
		forget(channel);
}

/* Ids that are left on CHANNEL lose their handle, so that they can only be destroyed. */
void channel_free(struct channel *channel)
{
	bool is_used;
	struct id *id;

	while ((id = LIST_FIRST(&channel->ids))) {
		LIST_REMOVE(id, link);
		BROKER(rdmabroker_destroy_id_wait(id->handle, RDMABROKER_TIMEOUT_DEFAULT));
		id->handle = NULL;
		id->public.channel = NULL;
	}
	/* If a thread still waits for events, as at the end of cmtime, that thread frees the channel. */
	pthread_mutex_lock(&channel->lock);
	channel->closed = true;
	is_used = channel->n_inside > 0;
	end_session(channel, /* keep= */ !is_used && !channel->lost);
	pthread_mutex_unlock(&channel->lock);
	if (!is_used)
		forget(channel);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel;

	if (broker_start() < 0)
		return NULL;
	FORWARD(rdma_create_event_channel);
	devices_sweep();
	channel = channel_new(/* sync= */ false);
	return channel ? &channel->public : NULL;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	FORWARD(rdma_destroy_event_channel, channel);
	channel_free(to_channel(channel));
}

/*
 * After a signal whose handler has SA_RESTART the kernel restarts librdmacm's wait, but not poll(). The signal is not
 * known here, so poll() is restarted only if all handlers have SA_RESTART.
 */
static bool may_be_restarted(void)
{
	struct sigaction action;

	for (int i = 1; i < NSIG; i++)
		if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
		    action.sa_handler != SIG_IGN && !(action.sa_flags & SA_RESTART))
			return false;
	return true;
}

static void leave_cancelled(void *channel)
{
	pthread_mutex_lock(&((struct channel *)channel)->lock);
	channel_leave(channel);
}

int channel_wait(struct channel *channel)
{
	struct pollfd p = { .fd = channel->public.fd, .events = POLLIN };
	int r;

	pthread_mutex_unlock(&channel->lock);
	/* poll() is a cancellation point, like librdmacm's wait. */
	pthread_cleanup_push(leave_cancelled, channel);
	do
		r = poll(&p, 1, -1);
	while (r < 0 && errno == EINTR && may_be_restarted());
	pthread_cleanup_pop(0);
	pthread_mutex_lock(&channel->lock);
	if (channel->closed) {
		channel_leave(channel);
		wait_for_ever();
	}
	return r < 0 ? -errno : 0;
}
