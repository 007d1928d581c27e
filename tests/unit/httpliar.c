/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/httpliar.h"

#define REQUEST_MAX (1 << 20)

/* Waits until FD is readable. False: the test ends. */
static bool await(const struct httpliar *liar, int fd)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
				{ .fd = liar->stop, .events = POLLIN } };

	poll(fds, 2, -1);
	return !fds[1].revents;
}

/* Reads a whole request. */
static bool read_request(const struct httpliar *liar, int fd, char *text)
{
	const char *body = NULL, *length = NULL;
	size_t len = 0;
	ssize_t n;

	do {
		if (!await(liar, fd))
			return false;
		n = recv(fd, text + len, REQUEST_MAX - len - 1, 0);
		if (n <= 0)
			return false;
		text[len += (size_t)n] = 0;
		body = strstr(text, "\r\n\r\n");
		length = strcasestr(text, "\r\nContent-Length: ");
	} while (!body || (length && strlen(body + 4) < strtoul(length + 18, NULL, 10)));
	return true;
}

static const struct lie *choose(const struct httpliar *liar, const char *text)
{
	for (size_t i = 0; i < liar->n_lies; i++) {
		const struct lie *lie = &liar->lies[i];

		if (strncmp(text + strlen("POST "), lie->path, strlen(lie->path)) == 0 &&
		    (!lie->part || strstr(text, lie->part)))
			return lie;
	}
	return NULL;
}

/* Returns what is left of the body then. */
static const char *send_blanks(const struct httpliar *liar, int fd, const struct lie *lie)
{
	struct pollfd stop = { .fd = liar->stop, .events = POLLIN };
	const char *at = lie->body;

	while (lie->pause_ms > 0 && *at == ' ' && poll(&stop, 1, lie->pause_ms) == 0 &&
	       send(fd, at, 1, MSG_NOSIGNAL) == 1)
		at++;
	return at;
}

static void answer(const struct httpliar *liar, int fd, const char *text)
{
	const struct lie *lie = choose(liar, text);
	char head[256], byte;
	const char *body;

	if (lie && lie->status != 0) {
		snprintf(head, sizeof(head), "HTTP/1.1 %u X\r\nConnection: close\r\n\r\n",
			 lie->status);
		send(fd, head, strlen(head), MSG_NOSIGNAL);
		body = send_blanks(liar, fd, lie);
		send(fd, body, strlen(body), MSG_NOSIGNAL);
	} else if (!lie) {
		static const char none[] = "HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n";

		send(fd, none, strlen(none), MSG_NOSIGNAL);
	}
	if (lie && (lie->status == 0 || lie->stays))
		while (await(liar, fd) && recv(fd, &byte, 1, 0) > 0)
			;
}

static void *serve(void *userdata)
{
	struct httpliar *liar = userdata;
	char *text = malloc(REQUEST_MAX);

	while (text && await(liar, liar->fd)) {
		int fd = accept(liar->fd, NULL, NULL);

		if (fd < 0)
			continue;
		if (read_request(liar, fd, text)) {
			__atomic_add_fetch(&liar->n_requests, 1, __ATOMIC_SEQ_CST);
			answer(liar, fd, text);
		}
		close(fd);
	}
	free(text);
	return NULL;
}

void httpliar_start(struct httpliar *liar, const struct lie *lies, size_t n)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);

	*liar = (struct httpliar){ .lies = lies, .n_lies = n };
	liar->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	liar->stop = eventfd(0, EFD_CLOEXEC);
	ck_assert_int_ge(liar->stop, 0);
	ck_assert_int_eq(bind(liar->fd, (struct sockaddr *)&addr, len), 0);
	ck_assert_int_eq(listen(liar->fd, 16), 0);
	ck_assert_int_eq(getsockname(liar->fd, (struct sockaddr *)&addr, &len), 0);
	snprintf(liar->endpoint, sizeof(liar->endpoint), "http://127.0.0.1:%u",
		 ntohs(addr.sin_port));
	ck_assert_int_eq(pthread_create(&liar->thread, NULL, serve, liar), 0);
}

void httpliar_stop(struct httpliar *liar)
{
	eventfd_write(liar->stop, 1);
	pthread_join(liar->thread, NULL);
	close(liar->fd);
	close(liar->stop);
}
