/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/timer.h"
#include "transfer.h"

#define HEADER sizeof(uint32_t)
#define CHUNK 4096 /* a text's buffer grows with what arrives, not with what was announced */

/* A transfer does one of these at a time, or nothing between them. Only its timer runs all the time. */
enum doing {
	SENDING, /* a text */
	RECEIVING, /* a text */
	WATCHING, /* that the other end neither sends nor closes */
};

struct transfer {
	int fd;
	sd_event_source *io, *timer;
	transfer_done *done;
	void *userdata;
	enum doing doing;
	/* The header, and then the text, are sent or received; N bytes of both together were. */
	size_t n;
	uint32_t header; /* the text's length, in network order */
	char *text;
	size_t len; /* of the text; when receiving, known after the header */
	size_t size; /* of TEXT; when receiving, it grows up to LEN */
	size_t max; /* that LEN can be, when receiving */
};

/* DONE can free TRANSFER. */
static void end(struct transfer *transfer, int r)
{
	sd_event_source_set_enabled(transfer->io, SD_EVENT_OFF);
	transfer->done(transfer->userdata, r);
}

/* What is left of the header, and of TEXT. */
static struct msghdr get_rest(struct transfer *transfer, struct iovec parts[2])
{
	size_t in_header = transfer->n < HEADER ? transfer->n : HEADER;
	size_t in_text = transfer->n - in_header;

	parts[0] = (struct iovec){ (char *)&transfer->header + in_header, HEADER - in_header };
	parts[1] = (struct iovec){ transfer->text + in_text, transfer->size - in_text };
	return (struct msghdr){ .msg_iov = parts, .msg_iovlen = 2 };
}

/* These three return 0: it goes on when the socket is ready again; 1: done; or a negative errno. */

static int send_more(struct transfer *transfer)
{
	while (transfer->n < HEADER + transfer->len) {
		struct iovec parts[2];
		const struct msghdr message = get_rest(transfer, parts);
		ssize_t n = sendmsg(transfer->fd, &message, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		transfer->n += (size_t)n;
	}
	return 1;
}

/* For the next bytes of the text, and a zero after it. */
static int make_room(struct transfer *transfer)
{
	size_t want = transfer->size + CHUNK;
	char *text;

	if (transfer->n < HEADER + transfer->size)
		return 0;
	transfer->len = ntohl(transfer->header);
	if (transfer->len == 0 || transfer->len > transfer->max)
		return -EMSGSIZE;
	if (want > transfer->len)
		want = transfer->len;
	text = realloc(transfer->text, want + 1);
	if (!text)
		return -ENOMEM;
	transfer->text = text;
	transfer->size = want;
	return 0;
}

static int receive_more(struct transfer *transfer)
{
	while (transfer->n <= HEADER || transfer->n < HEADER + transfer->len) {
		struct iovec parts[2];
		struct msghdr message;
		ssize_t n;
		int r = make_room(transfer);

		if (r < 0)
			return r;
		message = get_rest(transfer, parts);
		n = recvmsg(transfer->fd, &message, 0);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		transfer->n += (size_t)n;
	}
	transfer->text[transfer->len] = 0;
	return 1;
}

static int watch_more(const struct transfer *transfer)
{
	char byte;
	ssize_t n = recv(transfer->fd, &byte, 1, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return n == 0 ? -ECONNRESET : -EPROTO;
}

static int go_on(struct transfer *transfer)
{
	switch (transfer->doing) {
	case SENDING:
		return send_more(transfer);
	case RECEIVING:
		return receive_more(transfer);
	default:
		return watch_more(transfer);
	}
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct transfer *transfer = userdata;
	int r = go_on(transfer);

	if (r != 0)
		end(transfer, r < 0 ? r : 0);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	end(userdata, -ETIMEDOUT);
	return 0;
}

int transfer_new(struct transfer **ret, sd_event *loop, int fd, uint64_t ms, transfer_done *done,
		 void *userdata)
{
	struct transfer *transfer = calloc(1, sizeof(*transfer));
	const int on = 1;
	int r;

	if (!transfer) {
		close(fd);
		return -ENOMEM;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	transfer->fd = fd;
	r = sd_event_add_io(loop, &transfer->io, fd, EPOLLIN, on_io, transfer);
	if (r >= 0)
		r = sd_event_source_set_enabled(transfer->io, SD_EVENT_OFF);
	if (r >= 0)
		r = timer_new(&transfer->timer, loop, 1000, on_timer, transfer);
	if (r < 0) {
		transfer_free(transfer);
		return r;
	}
	transfer_pass(transfer, ms, done, userdata);
	*ret = transfer;
	return 0;
}

void transfer_set_timeout(struct transfer *transfer, uint64_t ms)
{
	timer_start(transfer->timer, ms * 1000);
}

void transfer_pass(struct transfer *transfer, uint64_t ms, transfer_done *done, void *userdata)
{
	transfer->done = done;
	transfer->userdata = userdata;
	transfer_set_timeout(transfer, ms);
}

struct transfer *transfer_free(struct transfer *transfer)
{
	if (!transfer)
		return NULL;
	sd_event_source_disable_unref(transfer->io);
	sd_event_source_disable_unref(transfer->timer);
	close(transfer->fd);
	free(transfer->text);
	free(transfer);
	return NULL;
}

/* Takes TEXT, of LEN bytes; NULL: none. */
static void begin(struct transfer *transfer, enum doing doing, char *text, size_t len)
{
	free(transfer->text);
	transfer->text = text;
	transfer->len = transfer->size = len;
	transfer->header = htonl((uint32_t)len);
	transfer->n = 0;
	transfer->doing = doing;
	sd_event_source_set_io_events(transfer->io, doing == SENDING ? EPOLLOUT : EPOLLIN);
	sd_event_source_set_enabled(transfer->io, SD_EVENT_ON);
}

void transfer_send(struct transfer *transfer, char *text)
{
	begin(transfer, SENDING, text, strlen(text));
}

void transfer_receive(struct transfer *transfer, size_t max)
{
	transfer->max = max;
	begin(transfer, RECEIVING, /* text= */ NULL, 0);
}

void transfer_watch(struct transfer *transfer)
{
	begin(transfer, WATCHING, /* text= */ NULL, 0);
}

void transfer_limit_silence(struct transfer *transfer, unsigned ms)
{
	setsockopt(transfer->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

char *transfer_take(struct transfer *transfer)
{
	char *text = transfer->text;

	transfer->text = NULL;
	return text;
}
