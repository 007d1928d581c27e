/* SPDX-License-Identifier: BSD-2-Clause */
#include "ping.h"

/* The pause between rounds with -k. It keeps the connection in use without loading the machine. */
#define KEEP_PAUSE_MS 10

static enum outcome find_peer(struct ping *ping, struct conn *conn)
{
	const struct options *options = ping->options;
	int r = 0;

	if (options->tos >= 0)
		r = rdmabroker_set_option(conn->id, RDMABROKER_OPTION_TOS, options->tos);
	if (r >= 0 && options->reuseaddr)
		r = rdmabroker_set_option(conn->id, RDMABROKER_OPTION_REUSEADDR, 1);
	if (r >= 0 && options->source.ss_family)
		r = rdmabroker_bind_addr(conn->id, (const struct sockaddr *)&options->source);
	if (r >= 0)
		r = rdmabroker_resolve(conn->id, NULL, (const struct sockaddr *)&options->addr,
				       options->timeout_ms);
	if (r < 0)
		return ping_call_failed(r);
	return ping_await(ping, CONN_ROUTE_RESOLVED, "resolving the address and the route");
}

static enum outcome connect_conn(struct ping *ping, struct conn *conn)
{
	struct rdmabroker_conn_param param;
	uint8_t hello[DATA_HELLO_LEN];
	enum outcome outcome = ping_prepare(ping, conn, ping->options->size, hello, &param);
	int r;

	if (outcome != OUTCOME_OK)
		return outcome;
	param.retry_count = 7;
	r = rdmabroker_connect(conn->id, &param);
	if (r < 0)
		return ping_call_failed(r);
	return ping_await(ping, CONN_ESTABLISHED, "connecting");
}

static enum outcome pause_rounds(struct ping *ping, struct conn *conn)
{
	int64_t deadline = now_ms() + KEEP_PAUSE_MS;

	while (!ping->stop && !ping->lost && conn->state == CONN_ESTABLISHED)
		if (ping_pump(ping, deadline) < 0)
			break;
	return conn->state == CONN_ENDED ? conn->outcome : OUTCOME_OK;
}

static enum outcome run_rounds(struct ping *ping, struct conn *conn)
{
	const struct options *options = ping->options;
	struct data *data = &conn->data;
	enum outcome outcome;

	for (uint64_t round = 1; options->keep || round <= options->count; round++) {
		if (ping->stop)
			return options->keep ? OUTCOME_OK : OUTCOME_STOPPED;
		if (data_send_round(data, round) < 0)
			return ping_data_failed(conn);
		outcome = ping_await_message(ping);
		if (outcome != OUTCOME_OK)
			return outcome;
		if (data_verify_done(data, round) < 0)
			return ping_data_failed(conn);
		if (options->keep) {
			outcome = pause_rounds(ping, conn);
			if (outcome != OUTCOME_OK)
				return outcome;
		}
	}
	return OUTCOME_OK;
}

static enum outcome say_bye(struct ping *ping, struct conn *conn)
{
	int64_t deadline = now_ms() + ping->options->timeout_ms;

	if (conn->state != CONN_ESTABLISHED)
		return OUTCOME_OK;
	if (data_send_bye(&conn->data) < 0)
		return ping_data_failed(conn);
	while (conn->data.n_sending > 0 && conn->state == CONN_ESTABLISHED && !ping->lost)
		if (ping_pump(ping, deadline) < 0)
			break;
	return ping_disconnect(ping, conn);
}

enum outcome client_run(struct ping *ping)
{
	struct conn conn = { 0 };
	enum outcome outcome, end;
	int64_t start;
	int r;

	ping_addr_to_string(conn.peer, (const struct sockaddr *)&ping->options->addr);
	r = rdmabroker_create_id(ping->session, RDMABROKER_PS_TCP, NULL, &conn.id);
	if (r < 0)
		return ping_call_failed(r);
	ping->conn = &conn;

	outcome = find_peer(ping, &conn);
	if (outcome == OUTCOME_OK)
		outcome = connect_conn(ping, &conn);
	if (outcome == OUTCOME_OK) {
		start = now_ms();
		outcome = run_rounds(ping, &conn);
		ping_print_result(ping, &conn, start);
		end = outcome == OUTCOME_OK || outcome == OUTCOME_STOPPED ?
			      say_bye(ping, &conn) :
			      ping_disconnect(ping, &conn);
		if (outcome == OUTCOME_OK)
			outcome = end;
	}
	ping_conn_done(ping, &conn);
	return outcome;
}
