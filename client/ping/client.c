/* SPDX-License-Identifier: BSD-2-Clause */
#include "ping.h"

/* The pause between rounds with -k. It keeps the connection in use without loading the machine. */
#define KEEP_PAUSE_MS 10

static enum outcome set_options(struct ping *ping, struct conn *conn)
{
	const struct options *options = ping->options;
	int r;

	if (options->tos >= 0) {
		r = rdmabroker_set_option(conn->id, RDMABROKER_OPTION_TOS, options->tos);
		if (r < 0)
			return ping_call_failed(r);
	}
	if (options->reuseaddr) {
		r = rdmabroker_set_option(conn->id, RDMABROKER_OPTION_REUSEADDR, 1);
		if (r < 0)
			return ping_call_failed(r);
	}
	return OUTCOME_OK;
}

static enum outcome find_peer(struct ping *ping, struct conn *conn)
{
	const struct options *options = ping->options;
	int r;

	if (options->source.ss_family) {
		r = rdmabroker_bind_addr(conn->id, (const struct sockaddr *)&options->source);
		if (r < 0)
			return ping_call_failed(r);
	}

	r = rdmabroker_resolve(conn->id, NULL, (const struct sockaddr *)&options->addr,
			       options->timeout_ms);
	if (r < 0)
		return ping_call_failed(r);
	return ping_await(ping, CONN_ROUTE_RESOLVED, "resolving the address and the route");
}

static enum outcome connect_conn(struct ping *ping, struct conn *conn)
{
	const struct options *options = ping->options;
	uint8_t hello[DATA_HELLO_LEN];
	struct rdmabroker_conn_param param = {
		.size = sizeof(param),
		.private_data = hello,
		.private_data_len = sizeof(hello),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = options->qpn,
	};
	enum outcome outcome;
	int r;

	if (!options->use_qpn) {
		outcome = ping_make_data(ping, conn, options->size);
		if (outcome != OUTCOME_OK)
			return outcome;
	}
	data_pack_hello(hello, options->size);
	r = rdmabroker_connect(conn->id, &param);
	if (r < 0)
		return ping_call_failed(r);
	return ping_await(ping, CONN_ESTABLISHED, "connecting");
}

static enum outcome fail_data(struct conn *conn)
{
	complain("connection with %s: %s", conn->peer, conn->data.error);
	return OUTCOME_FAILED;
}

static enum outcome pause_rounds(struct ping *ping, struct conn *conn)
{
	int64_t deadline = ping_now() + KEEP_PAUSE_MS;

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
			return fail_data(conn);
		outcome = ping_await_message(ping);
		if (outcome == OUTCOME_GONE)
			complain("%s disconnected after %llu rounds", conn->peer,
				 (unsigned long long)data->n_verified);
		if (outcome != OUTCOME_OK)
			return outcome;
		if (data_verify_done(data, round) < 0)
			return fail_data(conn);
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
	int64_t deadline = ping_now() + ping->options->timeout_ms;

	if (conn->state != CONN_ESTABLISHED)
		return OUTCOME_OK;
	if (data_send_bye(&conn->data) < 0)
		return fail_data(conn);
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

	outcome = set_options(ping, &conn);
	if (outcome == OUTCOME_OK)
		outcome = find_peer(ping, &conn);
	if (outcome == OUTCOME_OK)
		outcome = connect_conn(ping, &conn);
	if (outcome == OUTCOME_OK) {
		start = ping_now();
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
