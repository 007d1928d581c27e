/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A session that does what the lines of the standard input say, and that ends with the input. It prints what came of each
 * line.
 *
 *   open DEVICE           opens it by the library, and makes something with it
 *   check DEVICE          asks the library whether the device that was opened last can still be used
 *   close DEVICE          closes the device that was opened last
 *   qps DEVICE N          makes N QPs, which stay
 *   connect ADDR PORT     ADDR is an IPv4 address; the id stays
 *   disconnect ADDR PORT  the connection that was made last
 *   event any             waits for an event
 */

#include <arpa/inet.h>
#include <errno.h>
#include <rdmabroker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/patience.h"

static struct rdmabroker *session;
static struct ibv_context *context; /* what was opened last */
static struct rdmabroker_id *id; /* of the last connection */

static struct ibv_qp_init_attr small = {
	.qp_type = IBV_QPT_RC,
	.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
};

static const char *outcome_of(int r)
{
	return r < 0 ? rdmabroker_last_failure()->text : "done";
}

static const char *open_device(const char *name)
{
	struct ibv_pd *pd;

	if (rdmabroker_open_device(session, name, &context) < 0)
		return rdmabroker_last_failure()->text;
	pd = ibv_alloc_pd(context);
	if (!pd)
		return strerror(errno);
	ibv_dealloc_pd(pd);
	return "done";
}

static const char *check_device(void)
{
	int r = rdmabroker_check_device(session, context);

	return r < 0 ? strerror(-r) : "done";
}

static const char *make_qps(const char *name, int n)
{
	struct ibv_qp_init_attr attr = small;
	struct ibv_pd *pd;

	if (rdmabroker_open_device(session, name, &context) < 0)
		return rdmabroker_last_failure()->text;
	pd = ibv_alloc_pd(context);
	attr.send_cq = attr.recv_cq = pd ? ibv_create_cq(context, 1, NULL, NULL, 0) : NULL;
	if (!attr.send_cq)
		return strerror(errno);
	for (int i = 0; i < n; i++)
		if (!ibv_create_qp(pd, &attr))
			return strerror(errno);
	return "done";
}

static const char *connect_to(const char *host, int port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct ibv_qp_init_attr attr = small;
	int r;

	inet_pton(AF_INET, host, &addr.sin_addr);
	r = rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id);
	if (r == 0)
		r = rdmabroker_resolve_wait(id, NULL, (struct sockaddr *)&addr, PATIENCE_MS);
	if (r == 0)
		r = rdmabroker_open_device(session, rdmabroker_get_device_name(id), &context);
	if (r == 0) {
		attr.send_cq = attr.recv_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
		if (!attr.send_cq)
			return strerror(errno);
		r = rdmabroker_create_qp(id, NULL, &attr);
	}
	if (r == 0)
		r = rdmabroker_connect_wait(id, NULL, PATIENCE_MS);
	return outcome_of(r);
}

static const char *next_event(void)
{
	struct rdmabroker_event *event;
	const char *name;

	if (rdmabroker_get_event(session, PATIENCE_MS, &event) < 0)
		return rdmabroker_last_failure()->text;
	name = rdmabroker_event_str(event->type);
	rdmabroker_free_event(event);
	return name;
}

static const char *obey(const char *verb, const char *name, int n)
{
	if (strcmp(verb, "open") == 0)
		return open_device(name);
	if (strcmp(verb, "check") == 0)
		return check_device();
	if (strcmp(verb, "close") == 0) {
		rdmabroker_close_device(session, context);
		return "done";
	}
	if (strcmp(verb, "qps") == 0)
		return make_qps(name, n);
	if (strcmp(verb, "connect") == 0)
		return connect_to(name, n);
	if (strcmp(verb, "disconnect") == 0)
		return outcome_of(rdmabroker_disconnect(id));
	if (strcmp(verb, "event") == 0)
		return next_event();
	return "no such verb";
}

int main(void)
{
	char line[128], verb[16], name[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (rdmabroker_open(NULL, &session) < 0) {
		printf("session: %s\n", rdmabroker_last_failure()->text);
		return 1;
	}
	puts("session: done");
	while (fgets(line, sizeof(line), stdin)) {
		int n = 0;

		if (sscanf(line, "%15s %63s %d", verb, name, &n) < 2)
			continue;
		printf("%s %s: %s\n", verb, name, obey(verb, name, n));
	}
	rdmabroker_close(session);
	return 0;
}
