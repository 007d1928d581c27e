/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/kernelepoll.h"
#include "rdmacm.h"

/* 0, or a negative errno. */
static int make_fd(struct channel *channel)
{
	int epoll = kernel_epoll_create(EPOLL_CLOEXEC), r;

	if (epoll < 0)
		return -errno;
	r = BROKER(rdmabroker_set_epoll(channel->session.broker, epoll));
	if (r < 0)
		close(epoll);
	channel->public.fd = epoll;
	return r;
}

static void end_session(struct channel *channel, bool keep)
{
	int r = BROKER(rdmabroker_set_epoll(channel->session.broker, -1));

	/* -EBADF: the program has closed descriptors that it does not know, and can have opened others in their place. */
	if (r != -EBADF)
		close(channel->public.fd);
	if (channel->sync && keep && r == 0)
		broker_keep(&channel->session);
	else
		BROKER(rdmabroker_close(channel->session.broker));
	channel->session.broker = NULL;
}

struct channel *channel_new(bool sync)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int r;

	if (!channel) {
		errno = ENOMEM;
		return NULL;
	}
	channel->sync = sync;
	if ((sync ? broker_reuse(&channel->session) : broker_open(&channel->session)) < 0) {
		free(channel);
		return NULL;
	}
	r = make_fd(channel);
	if (r < 0) {
		BROKER(rdmabroker_close(channel->session.broker));
		free(channel);
		errno = -r;
		return NULL;
	}
	pthread_mutex_init(&channel->lock, NULL);
	LIST_INIT(&channel->ids);
	return channel;
}

#define GONE_MAX 16

static pthread_mutex_t gone_lock = PTHREAD_MUTEX_INITIALIZER;
static struct channel *gone[GONE_MAX];
static unsigned n_gone;

static void free_channel(struct channel *channel)
{
	if (channel)
		pthread_mutex_destroy(&channel->lock);
	free(channel);
}

/*
 * An ending program can have a thread that is about to wait on a destroyed channel (rping does). To avoid a use after
 * free, the memory of the last channels is kept. CHANNEL can be NULL.
 */
static void forget(struct channel *channel)
{
	struct channel *oldest;

	pthread_mutex_lock(&gone_lock);
	oldest = gone[n_gone];
	gone[n_gone] = channel;
	n_gone = (n_gone + 1) % GONE_MAX;
	pthread_mutex_unlock(&gone_lock);
	free_channel(oldest);
}

void channels_begin_in_child(void)
{
	pthread_mutex_init(&gone_lock, NULL);
}

void channels_end(void)
{
	for (unsigned i = 0; i < GONE_MAX; i++)
		forget(NULL);
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
	if (is_last && channel->session.broker)
		end_session(channel, /* keep= */ false);
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
	/*
	 * If a thread still waits for events, as at the end of cmtime, that thread frees the channel. If it waits in the
	 * session's socket, it wakes up, and closes the session, too. Otherwise the descriptor is no socket, and threads wait
	 * without using the session.
	 */
	pthread_mutex_lock(&channel->lock);
	channel->closed = true;
	is_used = channel->n_inside > 0;
	if (!is_used || shutdown(rdmabroker_get_fd(channel->session.broker), SHUT_RDWR) < 0)
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

static void leave_cancelled(void *channel)
{
	pthread_mutex_lock(&((struct channel *)channel)->lock);
	channel_leave(channel);
}

int channel_wait(struct channel *channel)
{
	struct pollfd p = { .fd = channel->public.fd, .events = POLLIN };
	int r;

	/* The library does not know the flags of the program's descriptor. */
	if (fcntl(channel->public.fd, F_GETFL) & O_NONBLOCK)
		return poll(&p, 1, 0) == 0 ? -EAGAIN : 0;
	pthread_mutex_unlock(&channel->lock);
	/* A cancellation point, like librdmacm's wait. */
	pthread_cleanup_push(leave_cancelled, channel);
	r = rdmabroker_await_event(channel->session.broker);
	pthread_cleanup_pop(0);
	pthread_mutex_lock(&channel->lock);
	if (channel->closed) {
		channel_leave(channel);
		wait_for_ever();
	}
	return r;
}
