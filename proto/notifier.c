/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>
#include <utlist.h>

#include "proto/clock.h"
#include "proto/notifier.h"
#include "proto/sdnotify.h"
#include "proto/timer.h"

#define TEXT_MAX 4096 /* a longer text is cut; systemd ignores one that is longer */
#define STUCK_USEC 10000000ULL
#define RETRY_USEC 1000000ULL /* after a shortage of memory or of descriptors */

struct message {
	struct message *prev, *next; /* notifier.queue */
	size_t key_len; /* the part of TEXT by which messages replace each other */
	int fd; /* -1: none */
	char text[];
};

struct notifier {
	sd_event *loop;
	int sock; /* or an error of sdnotify_open() */
	sd_event_source *writable; /* NULL: nothing is queued */
	sd_event_source *stuck_timer;
	sd_event_source *retry_timer; /* NULL: there was no shortage */
	sd_event_source *watchdog;
	uint64_t watchdog_usec;
	struct message *queue; /* the oldest first */
	bool is_stuck;
	void (*changed)(void *userdata, bool is_stuck);
	void *userdata;
};

int notifier_new(struct notifier **ret, sd_event *loop)
{
	struct notifier *notifier = calloc(1, sizeof(*notifier));

	if (!notifier)
		return -ENOMEM;
	notifier->loop = loop;
	notifier->sock = sdnotify_open();
	*ret = notifier;
	return 0;
}

static void drop(struct notifier *notifier, struct message *message)
{
	DL_DELETE(notifier->queue, message);
	if (message->fd >= 0)
		close(message->fd);
	free(message);
}

struct notifier *notifier_free(struct notifier *notifier)
{
	if (!notifier)
		return NULL;
	while (notifier->queue)
		drop(notifier, notifier->queue);
	sd_event_source_disable_unref(notifier->writable);
	sd_event_source_disable_unref(notifier->stuck_timer);
	sd_event_source_disable_unref(notifier->retry_timer);
	sd_event_source_disable_unref(notifier->watchdog);
	if (notifier->sock >= 0)
		close(notifier->sock);
	free(notifier);
	return NULL;
}

void notifier_watch(struct notifier *notifier, void (*changed)(void *userdata, bool is_stuck),
		    void *userdata)
{
	notifier->changed = changed;
	notifier->userdata = userdata;
}

static int on_stuck(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct notifier *notifier = userdata;

	notifier->is_stuck = true;
	if (notifier->changed)
		notifier->changed(notifier->userdata, true);
	return 0;
}

static void end_waiting(struct notifier *notifier)
{
	notifier->writable = sd_event_source_disable_unref(notifier->writable);
	notifier->stuck_timer = sd_event_source_disable_unref(notifier->stuck_timer);
	notifier->retry_timer = sd_event_source_disable_unref(notifier->retry_timer);
	if (notifier->is_stuck && notifier->changed)
		notifier->changed(notifier->userdata, false);
	notifier->is_stuck = false;
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct notifier *notifier = userdata;

	notifier->retry_timer = sd_event_source_disable_unref(source);
	return sd_event_source_set_enabled(notifier->writable, SD_EVENT_ON);
}

/* The socket is writable, but nothing can be sent. */
static void pause_sending(struct notifier *notifier)
{
	if (!notifier->retry_timer &&
	    timer_new(&notifier->retry_timer, notifier->loop, 0, on_retry, notifier) == 0 &&
	    timer_start(notifier->retry_timer, RETRY_USEC) == 0)
		sd_event_source_set_enabled(notifier->writable, SD_EVENT_OFF);
}

static void send_queue(struct notifier *notifier)
{
	while (notifier->queue) {
		int r = sdnotify_send(notifier->sock, notifier->queue->text, notifier->queue->fd);

		if (r == -EAGAIN)
			return;
		if (sdnotify_is_shortage(r)) {
			pause_sending(notifier);
			return;
		}
		/* A message that fails in another way would fail again. */
		drop(notifier, notifier->queue);
	}
	end_waiting(notifier);
}

static int on_writable(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	send_queue(userdata);
	return 0;
}

bool notifier_is_behind(const struct notifier *notifier)
{
	return notifier && notifier->queue;
}

bool notifier_flush(struct notifier *notifier, int ms)
{
	int64_t end = now_ms() + ms, left;
	struct pollfd p = { .events = POLLOUT };

	while (notifier_is_behind(notifier) && (left = end - now_ms()) > 0) {
		/* A socket that is writable in a shortage is not asked again at once. */
		p.fd = notifier->retry_timer ? -1 : notifier->sock;
		poll(&p, 1, notifier->retry_timer && left > 100 ? 100 : (int)left);
		send_queue(notifier);
	}
	return !notifier_is_behind(notifier);
}

static int begin_waiting(struct notifier *notifier)
{
	int r = 0;

	if (!notifier->writable)
		r = sd_event_add_io(notifier->loop, &notifier->writable, notifier->sock, EPOLLOUT,
				    on_writable, notifier);
	if (r < 0 || notifier->stuck_timer)
		return r < 0 ? r : 0;
	r = timer_new(&notifier->stuck_timer, notifier->loop, 0, on_stuck, notifier);
	return r < 0 ? r : timer_start(notifier->stuck_timer, STUCK_USEC);
}

static bool unqueue(struct notifier *notifier, const char *text, size_t key_len)
{
	struct message *message;

	DL_FOREACH(notifier->queue, message)
		if (message->key_len == key_len && memcmp(message->text, text, key_len) == 0) {
			drop(notifier, message);
			return true;
		}
	return false;
}

static int enqueue(struct notifier *notifier, const char *text, size_t key_len, int fd)
{
	struct message *message = malloc(sizeof(*message) + strlen(text) + 1);
	int r = message ? begin_waiting(notifier) : -ENOMEM;

	if (r == 0) {
		*message = (struct message){ .key_len = key_len, .fd = -1 };
		strcpy(message->text, text);
		if (fd >= 0)
			message->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0 && message->fd < 0)
			r = -errno;
	}
	if (r < 0) {
		free(message);
		return r;
	}
	unqueue(notifier, text, key_len);
	DL_APPEND(notifier->queue, message);
	return 0;
}

/* A manager can be started again, and then it listens with another socket. */
static int send_now(struct notifier *notifier, const char *text, int fd)
{
	int r = sdnotify_send(notifier->sock, text, fd);

	if (r != -ECONNREFUSED && r != -ENOTCONN)
		return r;
	close(notifier->sock);
	notifier->sock = sdnotify_open();
	return notifier->sock < 0 ? notifier->sock : sdnotify_send(notifier->sock, text, fd);
}

static int add(struct notifier *notifier, const char *text, size_t key_len, int fd)
{
	int r = -EAGAIN;

	if (!notifier || notifier->sock == -ENXIO)
		return 0;
	if (notifier->sock < 0)
		return notifier->sock;
	if (!notifier->queue)
		r = send_now(notifier, text, fd);
	return r == -EAGAIN || sdnotify_is_shortage(r) ? enqueue(notifier, text, key_len, fd) : r;
}

void notifier_tell(struct notifier *notifier, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	add(notifier, text, strcspn(text, "="), -1);
}

/* FDPOLL=0: systemd does not drop the descriptor because of a hang-up or an error, which it may have for a moment. */
#define STORE_TEXT "FDSTORE=1\nFDPOLL=0\nFDNAME=%s"
#define REMOVE_TEXT "FDSTOREREMOVE=1\nFDNAME=%s"

int notifier_store(struct notifier *notifier, const char *name, int fd)
{
	char text[TEXT_MAX];

	snprintf(text, sizeof(text), STORE_TEXT, name);
	return add(notifier, text, strlen(text), fd);
}

void notifier_remove(struct notifier *notifier, const char *name)
{
	char text[TEXT_MAX];

	snprintf(text, sizeof(text), STORE_TEXT, name);
	if (notifier && unqueue(notifier, text, strlen(text)))
		return;
	snprintf(text, sizeof(text), REMOVE_TEXT, name);
	add(notifier, text, strlen(text), -1);
}

static int on_watchdog(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct notifier *notifier = userdata;

	notifier_tell(notifier, "WATCHDOG=1");
	return timer_start(source, notifier->watchdog_usec);
}

int notifier_add_watchdog(struct notifier *notifier)
{
	uint64_t usec;
	int r = sd_watchdog_enabled(/* unset_environment= */ 0, &usec);

	if (r <= 0)
		return r;
	/* sd_watchdog_enabled(3) recommends half of the time. */
	notifier->watchdog_usec = usec / 2;
	r = timer_new(&notifier->watchdog, notifier->loop, 0, on_watchdog, notifier);
	return r < 0 ? r : timer_start(notifier->watchdog, usec / 2);
}
