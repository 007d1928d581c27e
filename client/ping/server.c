/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "ping.h"

/* The server: it serves one client after the other, and goes on when a client fails. */

#define RETRY_MS 200 /* between attempts to listen while the device is removed */

static int start_listening(struct ping *ping)
{
	const struct sockaddr *addr = (const struct sockaddr *)&ping->options->addr;
	char text[PING_ADDR_STRLEN];
	int r;

	r = rdmabroker_create_id(ping->session, RDMABROKER_PS_TCP, NULL, &ping->listener);
	if (r < 0)
		return r;
	r = rdmabroker_bind_addr(ping->listener, addr);
	if (r >= 0)
		r = rdmabroker_listen(ping->listener, 0);
	if (r < 0)
		return r;
	ping_addr_to_string(text, rdmabroker_get_local_addr(ping->listener));
	say(ping, "listening on %s", text);
	return 0;
}

/* The listener's device was removed: listens again when the device is back. */
static enum outcome listen_again(struct ping *ping)
{
	int64_t deadline = now_ms() + ping->options->timeout_ms;
	enum outcome outcome;
	int r;

	ping->listener_removed = false;
	ping->listener = rdmabroker_destroy_id(ping->listener);
	while (!ping->stop && !ping->lost) {
		int64_t next = now_ms() + RETRY_MS;

		r = start_listening(ping);
		if (r == 0)
			return OUTCOME_OK;
		if (ping_is_refusal(r) || now_ms() >= deadline) {
			outcome = ping_call_failed(r);
			ping->listener = rdmabroker_destroy_id(ping->listener);
			return outcome;
		}
		ping->listener = rdmabroker_destroy_id(ping->listener);
		while (!ping->stop && !ping->lost && ping_pump(ping, next) == 0)
			;
	}
	return ping->lost ? OUTCOME_FAILED : OUTCOME_STOPPED;
}

static enum outcome next_request(struct ping *ping, struct request *ret)
{
	const struct options *options = ping->options;
	int64_t deadline = options->persistent ? -1 : now_ms() + options->timeout_ms;
	enum outcome outcome;

	while (ping->n_waiting == 0) {
		if (ping->lost)
			return OUTCOME_FAILED;
		if (ping->stop)
			return OUTCOME_STOPPED;
		if (ping->listener_removed) {
			if (!options->persistent)
				return OUTCOME_REMOVED;
			outcome = listen_again(ping);
			if (outcome != OUTCOME_OK)
				return outcome;
			continue;
		}
		if (ping_pump(ping, deadline) == -ETIMEDOUT) {
			complain("no client connected within %d s", options->timeout_ms / 1000);
			return OUTCOME_FAILED;
		}
	}
	*ret = ping->waiting[0];
	ping->n_waiting--;
	memmove(&ping->waiting[0], &ping->waiting[1], ping->n_waiting * sizeof(ping->waiting[0]));
	return OUTCOME_OK;
}

static enum outcome reject(struct ping *ping, struct conn *conn, const char *text)
{
	int r;

	r = rdmabroker_reject(conn->id, text, (uint8_t)strlen(text));
	if (r < 0)
		return ping_call_failed(r);
	say(ping, "rejected %s", conn->peer);
	return OUTCOME_OK;
}

static enum outcome accept_conn(struct ping *ping, struct conn *conn, size_t size)
{
	const struct options *options = ping->options;
	struct rdmabroker_conn_param param;
	uint8_t hello[DATA_HELLO_LEN];
	enum outcome outcome = ping_prepare(ping, conn, size, hello, &param);
	int r;

	if (outcome != OUTCOME_OK)
		return outcome;
	r = rdmabroker_accept(conn->id, &param);
	if (r == -EINVAL) {
		/* The kernel reports this error if the client gave up while it waited. */
		complain("%s gave up before it was accepted", conn->peer);
		return OUTCOME_GONE;
	}
	if (r < 0)
		return ping_call_failed(r);
	if (options->use_qpn) {
		complain(
			"the broker accepted QP number 0x%x, which only a rule with 'qp reserved' allows",
			options->qpn);
		return OUTCOME_FAILED;
	}
	return ping_await(ping, CONN_ESTABLISHED, "accepting");
}

static enum outcome serve_rounds(struct ping *ping, struct conn *conn)
{
	enum outcome outcome;
	bool bye = false;

	while (!bye) {
		outcome = ping_await_message(ping);
		if (outcome != OUTCOME_OK)
			return outcome;
		if (data_serve(&conn->data, &bye) < 0)
			return ping_data_failed(conn);
	}
	return ping_await(ping, CONN_DISCONNECTED, "waiting for the client's disconnect");
}

static enum outcome serve_one(struct ping *ping, const struct request *request)
{
	struct conn conn = { .id = request->id, .state = CONN_ROUTE_RESOLVED };
	enum outcome outcome;
	int64_t start;
	size_t size;
	int r;

	ping_addr_to_string(conn.peer, rdmabroker_get_peer_addr(conn.id));
	ping->conn = &conn;

	r = data_unpack_hello(&size, request->data, request->len);
	if (ping->options->reject) {
		outcome = reject(ping, &conn, ping->options->reject);
	} else if (r < 0) {
		outcome = reject(ping, &conn,
				 r == -E2BIG ? "size out of range" :
					       "not a client of rdmabroker-ping");
	} else {
		outcome = accept_conn(ping, &conn, size);
		if (outcome == OUTCOME_OK) {
			start = now_ms();
			outcome = serve_rounds(ping, &conn);
			ping_print_result(ping, &conn, start);
			ping_disconnect(ping, &conn);
		}
	}
	ping_conn_done(ping, &conn);
	return outcome;
}

enum outcome server_run(struct ping *ping)
{
	const struct options *options = ping->options;
	enum outcome outcome, worst = OUTCOME_OK;
	struct request request;
	int r;

	r = start_listening(ping);
	if (r < 0) {
		outcome = ping_call_failed(r);
		rdmabroker_destroy_id(ping->listener);
		return outcome;
	}

	do {
		outcome = next_request(ping, &request);
		if (outcome != OUTCOME_OK)
			break;
		outcome = serve_one(ping, &request);
		if (outcome == OUTCOME_STOPPED)
			break;
		/* A killed client, or a removed device, is no failure of this server. */
		if (outcome == OUTCOME_FAILED || outcome == OUTCOME_REFUSED)
			worst = outcome;
	} while (options->persistent && !ping->lost);

	while (ping->n_waiting > 0)
		rdmabroker_destroy_id(ping->waiting[--ping->n_waiting].id);
	rdmabroker_destroy_id(ping->listener);
	if (options->persistent && (outcome == OUTCOME_STOPPED || outcome == OUTCOME_OK))
		return worst;
	return outcome;
}
