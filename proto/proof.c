/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/abovestdio.h"
#include "proto/proof.h"

int proof_type(const char *name)
{
	return strncmp(name, PROOF_ADOPTS, strlen(PROOF_ADOPTS)) == 0 ? SOCK_STREAM :
									SOCK_SEQPACKET;
}

int proof_new(const char *name, const char *kind)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t n = strlen(name);
	int sock, r;

	if (strncmp(name, kind, strlen(kind)) != 0)
		return -EPROTO;
	if (n >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	memcpy(addr.sun_path + 1, name, n);
	sock = above_stdio(socket(AF_UNIX, proof_type(name) | SOCK_CLOEXEC, 0));
	if (sock < 0)
		return -errno;
	n += offsetof(struct sockaddr_un, sun_path) + 1;
	/* Every process can see the name, but after shutdown() none can connect, or leave packets in the socket. */
	if (bind(sock, (struct sockaddr *)&addr, (socklen_t)n) == 0 &&
	    shutdown(sock, SHUT_RDWR) == 0 && listen(sock, 0) == 0)
		return sock;
	r = -errno;
	close(sock);
	return r;
}
