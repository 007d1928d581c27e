/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A program's listening sockets: TCP, Unix, or those that systemd has passed. */

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SOCKETS_MAX 8

struct sockets_address {
	char text[128]; /* as in the settings */
	socklen_t len;
	union {
		struct sockaddr sa;
		struct sockaddr_un un;
		struct sockaddr_storage storage;
	} addr;
};

struct sockets {
	unsigned n;
	struct sockets_entry {
		int fd;
		char text[128];
		bool is_ours; /* a Unix socket that this process made, and has to unlink at its end */
	} list[SOCKETS_MAX];
};

#define SOCKETS_FORMS \
	"HOST:PORT, [HOST]:PORT, :PORT (every address of this host), or an absolute path"

/* HOST must be a numeric address. False: TEXT is none of SOCKETS_FORMS. */
bool sockets_parse(struct sockets_address *ret, const char *text);

/*
 * Takes the sockets that systemd has passed; if there are none, listens on the N ADDRESSES. Returns 0 or a negative
 * errno, after reporting the error. Call sockets_close() also after a failure, for the sockets that are open.
 */
int sockets_open(struct sockets *sockets, const struct sockets_address *addresses, unsigned n);
void sockets_close(struct sockets *sockets);
