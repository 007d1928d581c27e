/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A program's listening sockets: TCP, Unix, or those that systemd has passed. */

#include <stdbool.h>
#include <sys/socket.h>

#define SOCKETS_MAX 8

struct sockets_addresses {
	unsigned n;
	struct sockets_address {
		char text[128]; /* as in the settings */
		struct sockaddr_storage addr; /* not of a Unix socket, whose path TEXT is */
	} list[SOCKETS_MAX];
};

struct sockets {
	unsigned n;
	struct sockets_entry {
		int fd;
		char text[128];
		bool is_ours; /* a Unix socket that this process made, and has to unlink at its end */
	} list[SOCKETS_MAX];
};

#define SOCKETS_INET "HOST:PORT, [HOST]:PORT or :PORT (every address of this host)"
#define SOCKETS_ANY "HOST:PORT, [HOST]:PORT, :PORT (every address of this host) or an absolute path"

/* HOST must be a numeric address. False: TEXT is none of SOCKETS_ANY, or of SOCKETS_INET, or there are too many. */
bool sockets_add(struct sockets_addresses *addresses, const char *text, bool may_be_path);
/* The N arguments of --listen, if there are any, override ADDRESSES. False: one is not valid, which was reported. */
bool sockets_override(struct sockets_addresses *addresses, const char *const arguments[],
		      unsigned n, bool may_be_path);

/*
 * Takes the sockets that systemd has passed; if there are none, listens on ADDRESSES. Returns 0 or a negative
 * errno, after reporting the error. Call sockets_close() also after a failure, for the sockets that are open.
 */
int sockets_open(struct sockets *sockets, const struct sockets_addresses *addresses);
void sockets_close(struct sockets *sockets);
