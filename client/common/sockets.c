/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "log.h"
#include "proto/addr.h"
#include "proto/inifile.h"
#include "proto/unixsock.h"
#include "sockets.h"

#define BACKLOG 256
/* Gives access to the owner and the group. To give access to others, use systemd's socket unit. */
#define MODE 0660

static bool parse_host(struct sockets_address *ret, sa_family_t family, const char *host,
		       uint16_t port)
{
	return addr_parse(&ret->addr, host, port) && ret->addr.ss_family == family;
}

static bool parse(struct sockets_address *ret, const char *text)
{
	const struct inifile_key port_key = { .min = 1, .max = 65535 };
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	size_t len;
	unsigned number;
	uint16_t port;

	*ret = (struct sockets_address){};
	if (strlen(text) >= sizeof(ret->text))
		return false;
	strcpy(ret->text, text);
	if (text[0] == '/')
		return strlen(text) < sizeof(((struct sockaddr_un *)NULL)->sun_path);
	if (!colon || inifile_number(&port_key, colon + 1, &number) != 0)
		return false;
	port = (uint16_t)number;
	len = (size_t)(colon - text);
	if (len == 0)
		return parse_host(ret, AF_INET6, "::", port);
	if (len >= sizeof(host))
		return false;
	memcpy(host, text, len);
	host[len] = 0;
	if (host[0] != '[')
		return parse_host(ret, AF_INET, host, port);
	if (host[len - 1] != ']')
		return false;
	host[len - 1] = 0;
	return parse_host(ret, AF_INET6, host + 1, port);
}

bool sockets_add(struct sockets_addresses *addresses, const char *text, bool may_be_path)
{
	if (addresses->n == SOCKETS_MAX || (text[0] == '/' && !may_be_path) ||
	    !parse(&addresses->list[addresses->n], text))
		return false;
	addresses->n++;
	return true;
}

bool sockets_override(struct sockets_addresses *addresses, const char *const arguments[],
		      unsigned n, bool may_be_path)
{
	if (n > 0)
		addresses->n = 0;
	for (unsigned i = 0; i < n; i++) {
		if (sockets_add(addresses, arguments[i], may_be_path))
			continue;
		log_line(LOG_ERR, "--listen takes %s, not \"%s\"",
			 may_be_path ? SOCKETS_ANY : SOCKETS_INET, arguments[i]);
		return false;
	}
	return true;
}

static int listen_inet(const struct sockets_address *address)
{
	/* ":PORT" means all IPv4 and IPv6 addresses. */
	const struct sockaddr *addr = (const struct sockaddr *)&address->addr;
	const int on = 1, only6 = address->text[0] != ':';
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool done;
	int r;

	if (fd < 0)
		return -errno;
	/* Without SO_REUSEADDR, connections from before a restart of the program could prevent bind(). */
	done = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	       (addr->sa_family != AF_INET6 ||
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only6, sizeof(only6)) == 0) &&
	       bind(fd, addr, addr_len(addr)) == 0 && listen(fd, BACKLOG) == 0;
	if (done)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

/* Listens on all IPv6 and IPv4 addresses of the host; without IPv6 in the kernel, on all IPv4 addresses. */
static int listen_everywhere(const struct sockets_address *address)
{
	struct sockets_address v4;
	int fd = listen_inet(address);

	if (fd != -EAFNOSUPPORT)
		return fd;
	v4 = *address;
	parse_host(&v4, AF_INET, "0.0.0.0", addr_port((const struct sockaddr *)&address->addr));
	return listen_inet(&v4);
}

/* Prints why listening on ADDRESS has failed with R. */
static void complain(const struct sockets_address *address, int r)
{
	const char *name = address->text, *why = strerror(-r);

	if (r == -EACCES)
		log_line(
			LOG_ERR,
			"Cannot listen on %s: %s. This user may not use the port or the directory: "
			"let systemd create the socket, see %s(8).",
			name, why, program_invocation_short_name);
	else
		log_line(LOG_ERR, "Cannot listen on %s: %s.%s", name, why,
			 r == -EADDRINUSE    ? " Another program listens there." :
			 r == -EADDRNOTAVAIL ? " This host does not have the address." :
					       "");
}

static int open_sockets(struct sockets *sockets, const struct sockets_addresses *addresses)
{
	for (unsigned i = 0; i < addresses->n; i++) {
		const struct sockets_address *address = &addresses->list[i];
		struct sockets_entry *entry = &sockets->list[sockets->n];
		bool is_unix = address->text[0] == '/';
		int fd = is_unix ? unixsock_listen(address->text, SOCK_STREAM, MODE, BACKLOG) :
			 address->text[0] == ':' ? listen_everywhere(address) :
						   listen_inet(address);

		if (fd < 0) {
			complain(address, fd);
			return fd;
		}
		entry->fd = fd;
		entry->is_ours = is_unix;
		strcpy(entry->text, address->text);
		sockets->n++;
	}
	return 0;
}

/* Takes the N sockets that systemd has passed. */
static int take_sockets(struct sockets *sockets, int n)
{
	if (n > SOCKETS_MAX) {
		log_line(LOG_ERR, "Cannot use %d sockets from systemd: at most %d are allowed.", n,
			 SOCKETS_MAX);
		return -E2BIG;
	}
	for (int i = 0; i < n; i++) {
		struct sockets_entry *entry = &sockets->list[sockets->n];
		struct sockaddr_storage addr = {};
		socklen_t len = sizeof(addr);
		int fd = SD_LISTEN_FDS_START + i;

		if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0 ||
		    getsockname(fd, (struct sockaddr *)&addr, &len) < 0 ||
		    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
			log_line(
				LOG_ERR,
				"systemd passed a descriptor that is not a listening stream socket: "
				"use ListenStream= with Accept=no in the socket unit.");
			return -EINVAL;
		}
		entry->fd = fd;
		if (addr.ss_family == AF_UNIX)
			snprintf(entry->text, sizeof(entry->text), "%.*s",
				 (int)sizeof(((struct sockaddr_un *)NULL)->sun_path),
				 ((struct sockaddr_un *)&addr)->sun_path);
		else
			addr_to_string((struct sockaddr *)&addr, entry->text);
		sockets->n++;
	}
	return 0;
}

int sockets_open(struct sockets *sockets, const struct sockets_addresses *addresses)
{
	int n_passed = sd_listen_fds(/* unset_environment= */ 1);

	if (n_passed < 0)
		return n_passed;
	return n_passed > 0 ? take_sockets(sockets, n_passed) : open_sockets(sockets, addresses);
}

void sockets_close(struct sockets *sockets)
{
	for (unsigned i = 0; i < sockets->n; i++) {
		close(sockets->list[i].fd);
		if (sockets->list[i].is_ours)
			unlink(sockets->list[i].text);
	}
	sockets->n = 0;
}
