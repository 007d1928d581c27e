/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Gives a restricted session to another program, and is that program.
 *
 *   restricted release RULES COMMAND...   COMMAND inherits the released session as descriptor 3
 *   restricted adopt ADDR PORT...         adopts descriptor 3, and tries to listen on the ports, once at first and once
 *                                         for each line of the standard input
 *   restricted steal                      sends a request by descriptor 3 without adopting the session
 */

#include <arpa/inet.h>
#include <ctype.h>
#include <poll.h>
#include <rdmabroker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/patience.h"

#define FD 3

static int complain(const char *what)
{
	printf("%s: %s\n", what, rdmabroker_last_failure()->text);
	return 1;
}

static int release(const char *rules, char **command)
{
	struct rdmabroker *session;
	int fd;

	if (rdmabroker_open(NULL, &session) < 0)
		return complain("open");
	if (rdmabroker_restrict(session, rules, 0) < 0)
		return complain("restrict");
	fd = rdmabroker_release(session);
	if (fd < 0)
		return complain("release");
	/* The copy is not close-on-exec. Descriptor 3 can be FD itself, then nothing was copied. */
	if (fd == FD)
		fd = dup(fd);
	dup2(fd, FD);
	close(fd);
	execvp(command[0], command);
	perror(command[0]);
	return 1;
}

static void try_port(struct rdmabroker *session, const char *host, const char *port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct rdmabroker_id *id;
	int r;

	addr.sin_port = htons((uint16_t)atoi(port));
	inet_pton(AF_INET, host, &addr.sin_addr);
	r = rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id);
	if (r == 0) {
		r = rdmabroker_bind_addr(id, (struct sockaddr *)&addr);
		if (r == 0)
			r = rdmabroker_listen(id, 0);
	}
	printf("%s: %s\n", port, r == 0 ? "listened" : rdmabroker_last_failure()->text);
	rdmabroker_destroy_id(id);
}

static int adopt(const char *host, char **ports)
{
	struct rdmabroker *session;
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (rdmabroker_adopt(FD, NULL, &session) < 0)
		return complain("adopt");
	puts("adopted");
	do
		for (char **port = ports; *port; port++)
			try_port(session, host, *port);
	while (fgets(line, sizeof(line), stdin));
	rdmabroker_close(session);
	return 0;
}

static ssize_t await_packet(char *buf, size_t size)
{
	struct pollfd p = { .fd = FD, .events = POLLIN };

	poll(&p, 1, PATIENCE_MS);
	return recv(FD, buf, size, 0);
}

/* The bytes of a request create_id (field 17 of the request, which is field 1 of the frame). */
static int steal(void)
{
	static const char packet[] = { 0x0a, 0x09, 0x08, 0x01, (char)0x8a, 0x01,
				       0x04, 0x08, 0x06, 0x10, 0x01 };
	char reply[4096];
	ssize_t n;

	if (send(FD, packet, sizeof(packet), MSG_NOSIGNAL) < 0) {
		perror("send");
		return 1;
	}
	n = await_packet(reply, sizeof(reply));
	fputs("reply: ", stdout);
	for (ssize_t i = 0; i < n; i++)
		putchar(isprint((unsigned char)reply[i]) ? reply[i] : '.');
	printf("\nthen: %zd\n", await_packet(reply, sizeof(reply)));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 3 && strcmp(argv[1], "release") == 0)
		return release(argv[2], argv + 3);
	if (argc > 3 && strcmp(argv[1], "adopt") == 0)
		return adopt(argv[2], argv + 3);
	if (argc == 2 && strcmp(argv[1], "steal") == 0)
		return steal();
	fprintf(stderr, "usage: see the source\n");
	return 2;
}
