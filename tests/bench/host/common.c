/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/host/host.h"
#include "tests/unit/place.h"

/* The limits are not reached here. All other keys have their defaults. */
static const char config[] = "[Daemon]\n"
			     "LogLevel=warning\n"
			     "[Limits]\n"
			     "Sessions=1048576\n"
			     "SessionsPerUser=1048576\n"
			     "IdsPerSession=65536\n"
			     "IdsPerUser=1048576\n"
			     "DescriptorsPerUser=1048576\n";

/* Rules for the user who runs this program. */
static const char rules[] = "allow session user %u\n"
			    "allow observe user %u\n"
			    "allow device user %u device fake*\n"
			    "allow listen user %u port 7000-7999\n"
			    "allow accept user %u port 7000-7999 peer 10.0.0.0/8\n"
			    "allow connect user %u peer 10.0.0.0/8 tos-max 32\n";

noreturn void die(const char *fmt, ...)
{
	va_list ap;

	fputs("bench: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

void must(int r, const char *what)
{
	if (r < 0)
		die("%s: %s", what, rdmabroker_last_failure()->text);
}

/* The broker does not export its loop: the programs are linked with --wrap=sd_event_new. */
static sd_event *last_loop;

int __real_sd_event_new(sd_event **ret);
int __wrap_sd_event_new(sd_event **ret);

int __wrap_sd_event_new(sd_event **ret)
{
	int r = __real_sd_event_new(ret);

	last_loop = r < 0 ? NULL : *ret;
	return r;
}

sd_event *get_loop(void)
{
	return last_loop;
}

struct broker *start_broker(void)
{
	unsigned uid = geteuid();
	struct broker *broker;
	char text[512];

	snprintf(text, sizeof(text), rules, uid, uid, uid, uid, uid, uid);
	place_write(text, config);
	place_start(&broker);
	return broker;
}

struct sockaddr_in service_addr(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a090001),
	};
}

struct rdmabroker *open_session(unsigned flags)
{
	return open_session_apart(NULL, flags);
}

struct rdmabroker *open_session_apart(struct rdmabroker *replies, unsigned flags)
{
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.flags = flags,
		.call_timeout_ms = DEADLINE_MS,
		.replies = replies,
	};
	struct rdmabroker *session;

	must(rdmabroker_open(&options, &session), "open");
	return session;
}

struct rdmabroker_id *listen_on(struct rdmabroker *session, uint16_t port)
{
	struct sockaddr_in service = service_addr(port);
	struct rdmabroker_id *id;

	must(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), "create_id");
	must(rdmabroker_bind_addr(id, (const struct sockaddr *)&service), "bind_addr");
	must(rdmabroker_listen(id, 0), "listen");
	return id;
}

struct rdmabroker_id *await(struct rdmabroker *session, enum rdmabroker_event_type type)
{
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	must(rdmabroker_get_event(session, DEADLINE_MS, &event), "get_event");
	if (event->type != type)
		die("%s instead of %s%s%s", rdmabroker_event_str(event->type),
		    rdmabroker_event_str(type), event->text ? ": " : "", event->text ?: "");
	id = event->id;
	rdmabroker_free_event(event);
	return id;
}
