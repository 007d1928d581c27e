/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/patience.h"

/*
 * A program of sockets, which knows nothing of RDMA: a server that sends back what one client sends, and that client. Usage:
 *
 *   sockets serve ADDRESS
 *   sockets connect ADDRESS
 */

#define PORT 7470
#define ROUNDS 64

static void must(bool done, const char *what)
{
	if (done)
		return;
	perror(what);
	exit(1);
}

static void send_all(int fd, const char *data, size_t len)
{
	ssize_t n;

	for (; len > 0; data += n, len -= (size_t)n) {
		n = send(fd, data, len, 0);
		must(n > 0, "send");
	}
}

static void serve(int fd, const struct sockaddr_in *addr)
{
	int yes = 1, client;
	char data[4096];
	ssize_t n;

	must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0, "setsockopt");
	must(bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0, "bind");
	must(listen(fd, 8) == 0, "listen");
	client = accept(fd, NULL, NULL);
	must(client >= 0, "accept");
	while ((n = recv(client, data, sizeof(data), 0)) > 0)
		send_all(client, data, (size_t)n);
	must(n == 0, "recv");
	close(client);
}

static void receive(int fd, char *data, size_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;

	for (; len > 0; data += n, len -= (size_t)n) {
		must(poll(&p, 1, PATIENCE_MS) == 1, "poll");
		n = recv(fd, data, len, 0);
		must(n > 0, "recv");
	}
}

static void run_client(int fd, const struct sockaddr_in *addr)
{
	char sent[16384], got[sizeof(sent)];

	must(connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0, "connect");
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (size_t k = 0; k < sizeof(sent); k++)
			sent[k] = (char)(i * 7 + k * 13);
		send_all(fd, sent, sizeof(sent));
		receive(fd, got, sizeof(got));
		must(memcmp(sent, got, sizeof(sent)) == 0, "other data");
	}
	must(shutdown(fd, SHUT_RDWR) == 0, "shutdown");
	printf("%u times %zu bytes came back\n", ROUNDS, sizeof(sent));
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd;

	if (argc != 3 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1) {
		fprintf(stderr, "sockets serve|connect ADDRESS\n");
		return 2;
	}
	fd = socket(AF_INET, SOCK_STREAM, 0);
	must(fd >= 0, "socket");
	if (strcmp(argv[1], "serve") == 0)
		serve(fd, &addr);
	else
		run_client(fd, &addr);
	close(fd);
	return 0;
}
