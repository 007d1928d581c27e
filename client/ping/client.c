/* SPDX-License-Identifier: BSD-2-Clause */
#include "ping.h"

#define PAUSE_MS 10 /* between rounds with -k, so that they do not load the machine */

static enum outcome connect_id(struct ping *ping)
{
	const struct options *options = ping->options;
	struct rdmabroker_id *id = ping->conn.id;
	enum outcome outcome;
	int r = 0;

	if (options->has_tos)
		r = rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, (int)options->tos);
	if (r >= 0 && options->reuseaddr)
		r = rdmabroker_set_option(id, RDMABROKER_OPTION_REUSEADDR, 1);
	if (r >= 0 && options->source.ss_family)
		r = rdmabroker_bind_addr(id, (const struct sockaddr *)&options->source);
	if (r >= 0)
		r = rdmabroker_resolve(id, NULL, (const struct sockaddr *)&options->addr,
				       options->timeout_ms);
	if (r < 0)
		return ping_call_failed(r);
	outcome = ping_await(ping, STEP_RESOLVED);
	return outcome ?: ping_establish(ping, rdmabroker_connect);
}

static enum outcome run_rounds(struct ping *ping)
{
	const struct options *options = ping->options;
	struct conn *conn = &ping->conn;
	enum outcome outcome;

	for (uint64_t round = 1; options->keep || round <= options->count; round++) {
		if (ping->stop)
			return options->keep ? OUTCOME_OK : OUTCOME_STOPPED;
		outcome = data_send(conn, MESSAGE_ROUND, round);
		if (outcome == OUTCOME_OK)
			outcome = ping_await(ping, STEP_MESSAGE);
		if (outcome == OUTCOME_OK)
			outcome = data_verify_done(conn);
		if (outcome != OUTCOME_OK)
			return outcome;
		if (options->keep)
			ping_pause(ping, PAUSE_MS);
		if (conn->outcome != OUTCOME_OK)
			return conn->outcome;
	}
	return OUTCOME_OK;
}

/* Tells the server that this was all, and disconnects. */
static enum outcome say_bye(struct ping *ping)
{
	enum outcome outcome = OUTCOME_OK;

	if (ping->conn.state == STEP_ESTABLISHED)
		outcome = data_send(&ping->conn, MESSAGE_BYE, ping->conn.n_verified);
	if (outcome == OUTCOME_OK)
		ping_await(ping, STEP_SENT);
	return outcome ?: ping_disconnect(ping);
}

enum outcome client_run(struct ping *ping)
{
	enum outcome outcome, end;
	int64_t begin;
	int r;

	r = rdmabroker_create_id(ping->session, RDMABROKER_PS_TCP, NULL, &ping->conn.id);
	if (r < 0)
		return ping_call_failed(r);
	addr_to_string((const struct sockaddr *)&ping->options->addr, ping->conn.peer);
	ping->conn.size = ping->options->size;
	outcome = connect_id(ping);
	if (outcome == OUTCOME_OK) {
		begin = now_ms();
		outcome = run_rounds(ping);
		ping_print_result(&ping->conn, begin);
		end = outcome == OUTCOME_OK || outcome == OUTCOME_STOPPED ? say_bye(ping) :
									    ping_disconnect(ping);
		outcome = outcome ?: end;
	}
	ping_end(ping);
	return outcome;
}
