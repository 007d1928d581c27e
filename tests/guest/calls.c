/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/guest/calls.h"

void die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("FAILED: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(1);
}

int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

const char *error_name(int r)
{
	return r >= 0 ? "0" : strerrorname_np(-r);
}

int number(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end)
		die("\"%s\" is not a number", text);
	return (int)n;
}

const char *argument(char **argv, int i)
{
	for (int j = 0; j <= i; j++)
		if (!argv[j])
			return "";
	return argv[i];
}

void step(const char *name)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	printf("%s\n", name);
	if (poll(&p, 1, DEADLINE_MS) <= 0)
		die("the suite does not say what comes after \"%s\"", name);
	if (!step_is_over())
		die("the suite is gone");
}

/* Reads single bytes: bytes after the end of the line belong to the next step. */
bool step_is_over(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char c = 0;

	if (poll(&p, 1, 0) <= 0)
		return false;
	while (c != '\n')
		if (read(STDIN_FILENO, &c, 1) != 1)
			return false;
	return true;
}

struct rdmabroker *open_session(unsigned flags)
{
	const struct rdmabroker_options o = { .size = sizeof(o), .flags = flags };
	struct rdmabroker *session;
	int r = rdmabroker_open(&o, &session);

	if (r < 0)
		die("open: %s: %s", error_name(r), rdmabroker_last_failure()->text);
	return session;
}

void must(struct rdmabroker *session, const char *what, int r)
{
	if (r == 0)
		return;
	if (r == -ETIMEDOUT)
		stall_tell(session, NULL, what);
	die("%s: %s: %s", what, error_name(r), rdmabroker_last_failure()->text);
}

void must_fail(const char *what, int r, int expected)
{
	printf("%s: %s: %s\n", what, error_name(r), r < 0 ? rdmabroker_last_failure()->text : "");
	if (r != expected)
		die("%s: %s instead of %s", what, error_name(r), error_name(expected));
}

struct rdmabroker_event *await_event(struct rdmabroker *session, struct rdmabroker_id *id,
				     enum rdmabroker_event_type type)
{
	struct rdmabroker_event *event;
	int r = rdmabroker_get_event(session, DEADLINE_MS, &event);

	if (r == -EAGAIN)
		stall_tell(session, NULL, rdmabroker_event_str(type));
	if (r < 0)
		die("%s instead of %s", error_name(r), rdmabroker_event_str(type));
	if (event->type != type || (id && event->id != id))
		die("%s (%d, %s) instead of %s", rdmabroker_event_str(event->type), event->status,
		    event->text ? event->text : "-", rdmabroker_event_str(type));
	return event;
}

void drop_event(struct rdmabroker *session, struct rdmabroker_id *id,
		enum rdmabroker_event_type type)
{
	rdmabroker_free_event(await_event(session, id, type));
}

union address make_address(const char *host, const char *port)
{
	union address a = { 0 };

	if (inet_pton(AF_INET, host, &a.in.sin_addr) == 1) {
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons((uint16_t)number(port));
	} else if (inet_pton(AF_INET6, host, &a.in6.sin6_addr) == 1) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons((uint16_t)number(port));
	} else {
		die("\"%s\" is not an address", host);
	}
	return a;
}

struct rdmabroker_id *new_id(struct rdmabroker *session, enum rdmabroker_port_space ps)
{
	struct rdmabroker_id *id;

	must(session, "create_id", rdmabroker_create_id(session, ps, NULL, &id));
	return id;
}

struct rdmabroker_id *listen_on(struct rdmabroker *session, enum rdmabroker_port_space ps,
				const union address *address)
{
	struct rdmabroker_id *id = new_id(session, ps);

	must(session, "bind_addr", rdmabroker_bind_addr(id, &address->any));
	must(session, "listen", rdmabroker_listen(id, 0));
	return id;
}

struct rdmabroker_id *resolve(struct rdmabroker *session, enum rdmabroker_port_space ps,
			      const union address *address)
{
	struct rdmabroker_id *id = new_id(session, ps);

	must(session, "resolve_wait",
	     rdmabroker_resolve_wait(id, NULL, &address->any, DEADLINE_MS));
	return id;
}

static const struct command {
	const char *name;
	int n_args;
	int (*run)(char **argv);
} commands[] = {
	{ "datagram-server", 3, datagram_server },
	{ "datagram-client", 3, datagram_client },
	{ "datagram-refuser", 3, datagram_refuser },
	{ "datagram-refused", 3, datagram_refused },
	{ "multicast-receive", 3, multicast_receive },
	{ "multicast-send", 4, multicast_send },
	{ "multicast-denied", 2, multicast_denied },
	{ "workers", 4, workers },
	{ "many", 4, many },
	{ "forking", 3, forking },
	{ "fork-too-late", 2, fork_too_late },
	{ "list-fds", 0, list_fds },
	{ "deadline-broker", 2, deadline_broker },
	{ "deadline-silent", 1, deadline_silent },
	{ "deadline-connect", 2, deadline_connect },
	{ "deadline-accept", 2, deadline_accept },
	{ "deadline-disconnect", 2, deadline_disconnect },
	{ "disconnect-stopped", 2, disconnect_stopped },
	{ "serve", 3, serve },
	{ "client", 4, client },
	{ "connect-to", 4, connect_to },
	{ "client-leaves", 3, client_leaves },
	{ "client-reset", 3, client_reset },
	{ "number-server", 3, number_server },
	{ "number-client", 3, number_client },
	{ "removal-server", 2, removal_server },
	{ "removal-client", 2, removal_client },
	{ "threads-waiting", 4, threads_waiting },
	{ "threads-pumped", 4, threads_pumped },
	{ "binds", 2, binds },
	{ "options", 4, options },
	{ "devices", 0, devices },
	{ "reloads", 2, reloads },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (argc < 2 || strcmp(commands[i].name, argv[1]) != 0)
			continue;
		if (argc - 2 < commands[i].n_args)
			break;
		/* SIGALRM ends a program that runs longer. */
		alarm(PATIENCE_PROGRAM_S);
		return commands[i].run(argv + 2);
	}
	fprintf(stderr, "calls: unknown command, or not enough arguments\n");
	return 2;
}
