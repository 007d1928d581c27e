/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "ping.h"

/* The steps of both roles. The server serves one client after the other, and goes on when a client fails. */

#define PAUSE_MS 10 /* between rounds with -k, so that they do not load the machine */
#define RETRY_MS 200 /* between attempts to listen while the device is removed */

typedef int connect_function(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param);

/*
 * Makes the QP and what belongs to it, unless --qpn is given, and calls CONNECT: rdmabroker_connect() or
 * rdmabroker_accept(). Waits until the connection is established.
 */
static enum outcome establish(struct ping *ping, connect_function *connect)
{
	const struct options *options = ping->options;
	struct conn *conn = &ping->conn;
	const uint32_t hello[PING_HELLO_LEN] = { PING_MAGIC, PING_VERSION,
						 htobe32((uint32_t)conn->size) };
	const struct rdmabroker_conn_param param = {
		.size = sizeof(param),
		.private_data = hello,
		.private_data_len = sizeof(hello),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = (uint32_t)options->qpn,
	};
	enum outcome outcome = options->use_qpn ? OUTCOME_OK : data_open(conn);
	int r;

	if (outcome != OUTCOME_OK)
		return outcome;
	if (options->verbose && !options->use_qpn)
		printf("QP number %u on %s\n", rdmabroker_get_qp(conn->id)->qp_num,
		       ibv_get_device_name(conn->pd->context->device));
	r = connect(conn->id, &param);
	if (r == -EINVAL && options->serve) {
		/* The kernel reports this error if the client gave up while it waited. */
		complain("%s gave up before it was accepted", conn->peer);
		return OUTCOME_ENDED;
	}
	outcome = r < 0 ? ping_call_failed(r) : ping_await(ping, STEP_ESTABLISHED);
	if (outcome == OUTCOME_OK && options->use_qpn) {
		complain("the broker accepted QP number 0x%x, which only a rule with 'qp reserved' "
			 "allows",
			 (unsigned)options->qpn);
		return OUTCOME_FAILED;
	}
	if (outcome == OUTCOME_OK && options->verbose)
		printf("established with %s\n", conn->peer);
	return outcome;
}

/* If the connection is established, disconnects it, and waits until it has ended. */
static enum outcome disconnect(struct ping *ping)
{
	int r;

	if (ping->lost || ping->conn.outcome != OUTCOME_OK || ping->conn.state != STEP_ESTABLISHED)
		return OUTCOME_OK;
	r = rdmabroker_disconnect(ping->conn.id);
	return r < 0 ? ping_call_failed(r) : ping_await(ping, STEP_DISCONNECTED);
}

static void print_result(const struct conn *conn, int64_t begin)
{
	printf("%llu rounds of %zu bytes verified in %.3f s\n",
	       (unsigned long long)conn->n_verified, conn->size, (double)(now_ms() - begin) / 1000);
}

/* Frees the connection, and all its objects on the device. */
static void end_conn(struct ping *ping)
{
	struct conn *conn = &ping->conn;

	/* The id last, because that closes the device. */
	data_close(conn);
	rdmabroker_destroy_id(conn->id);
	*conn = (struct conn){};
}

static enum outcome connect_id(struct ping *ping)
{
	const struct options *options = ping->options;
	struct rdmabroker_id *id = ping->conn.id;
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
	return ping_await(ping, STEP_RESOLVED) ?: establish(ping, rdmabroker_connect);
}

static enum outcome run_rounds(struct ping *ping)
{
	const struct options *options = ping->options;
	struct conn *conn = &ping->conn;
	enum outcome outcome = OUTCOME_OK;

	for (uint64_t round = 1; !outcome && (options->keep || round <= options->count); round++) {
		if (ping->stop)
			return options->keep ? OUTCOME_OK : OUTCOME_STOPPED;
		outcome = data_send(conn, MESSAGE_ROUND, round);
		outcome = outcome ?: ping_await(ping, STEP_MESSAGE);
		outcome = outcome ?: data_verify_done(conn);
		if (outcome == OUTCOME_OK && options->keep)
			ping_pause(ping, PAUSE_MS);
		outcome = outcome ?: conn->outcome;
	}
	return outcome;
}

/* Tells the server that this was all, and disconnects. */
static enum outcome say_bye(struct ping *ping)
{
	enum outcome outcome = OUTCOME_OK;

	if (ping->conn.state == STEP_ESTABLISHED)
		outcome = data_send(&ping->conn, MESSAGE_BYE, ping->conn.n_verified);
	if (outcome == OUTCOME_OK)
		ping_await(ping, STEP_SENT);
	return outcome ?: disconnect(ping);
}

static enum outcome run_client(struct ping *ping)
{
	enum outcome outcome, end;
	int64_t begin;
	int r = rdmabroker_create_id(ping->session, RDMABROKER_PS_TCP, NULL, &ping->conn.id);

	if (r < 0)
		return ping_call_failed(r);
	addr_to_string((const struct sockaddr *)&ping->options->addr, ping->conn.peer);
	ping->conn.size = ping->options->size;
	outcome = connect_id(ping);
	if (outcome == OUTCOME_OK) {
		begin = now_ms();
		outcome = run_rounds(ping);
		print_result(&ping->conn, begin);
		end = outcome == OUTCOME_OK || outcome == OUTCOME_STOPPED ? say_bye(ping) :
									    disconnect(ping);
		outcome = outcome ?: end;
	}
	end_conn(ping);
	return outcome;
}

static int start_listening(struct ping *ping)
{
	char text[ADDR_STRLEN];
	int r = rdmabroker_create_id(ping->session, RDMABROKER_PS_TCP, NULL, &ping->listener);

	if (r >= 0)
		r = rdmabroker_bind_addr(ping->listener,
					 (const struct sockaddr *)&ping->options->addr);
	if (r >= 0)
		r = rdmabroker_listen(ping->listener, 0);
	if (r < 0)
		return r;
	ping->listener_removed = false;
	printf("listening on %s\n",
	       addr_to_string(rdmabroker_get_local_addr(ping->listener), text));
	return 0;
}

static enum outcome await_request(struct ping *ping)
{
	const struct options *options = ping->options;
	int64_t deadline = 0;
	enum outcome outcome;
	int r;

	for (;;) {
		outcome = ping_await(ping, STEP_REQUEST);
		if (outcome != OUTCOME_OK || ping->n_waiting > 0)
			return outcome;
		/* The listener's device was removed: listen again when the device is back. */
		if (!options->persistent)
			return OUTCOME_ENDED;
		deadline = deadline ?: now_ms() + options->timeout_ms;
		ping->listener = rdmabroker_destroy_id(ping->listener);
		r = start_listening(ping);
		if (r < 0 && (ping_is_refusal(r) || now_ms() >= deadline))
			return ping_call_failed(r);
		if (r < 0)
			ping_pause(ping, RETRY_MS);
		else
			deadline = 0;
	}
}

static enum outcome reject(struct ping *ping, const char *text)
{
	int r = rdmabroker_reject(ping->conn.id, text, strlen(text));

	if (r < 0)
		return ping_call_failed(r);
	printf("rejected %s\n", ping->conn.peer);
	return OUTCOME_OK;
}

static enum outcome serve_rounds(struct ping *ping)
{
	enum outcome outcome = OUTCOME_OK;
	int64_t begin = now_ms();
	bool bye = false;

	while (outcome == OUTCOME_OK && !bye)
		outcome = ping_await(ping, STEP_MESSAGE) ?: data_serve(&ping->conn, &bye);
	outcome = outcome ?: ping_await(ping, STEP_DISCONNECTED);
	print_result(&ping->conn, begin);
	disconnect(ping);
	return outcome;
}

/* Serves the client that waits longest. */
static enum outcome serve_one(struct ping *ping)
{
	const char *refuse = ping->options->reject;
	enum outcome outcome;

	ping->conn = ping->waiting[0];
	memmove(&ping->waiting[0], &ping->waiting[1], --ping->n_waiting * sizeof(ping->waiting[0]));
	if (ping->conn.size == 0)
		refuse = refuse ?: "not a client of rdmabroker-ping";
	if (refuse)
		outcome = reject(ping, refuse);
	else
		outcome = establish(ping, rdmabroker_accept) ?: serve_rounds(ping);
	end_conn(ping);
	return outcome;
}

static enum outcome run_server(struct ping *ping)
{
	bool persistent = ping->options->persistent;
	enum outcome outcome, worst = OUTCOME_OK;
	int r = start_listening(ping);

	if (r < 0)
		return ping_call_failed(r);
	do {
		outcome = await_request(ping);
		if (outcome != OUTCOME_OK)
			break;
		outcome = serve_one(ping);
		/* A killed client, or a removed device, is no failure of this server. */
		if (outcome == OUTCOME_FAILED || outcome == OUTCOME_REFUSED)
			worst = outcome;
	} while (persistent && !ping->lost && outcome != OUTCOME_STOPPED);
	return persistent && (outcome == OUTCOME_STOPPED || outcome == OUTCOME_OK) ? worst :
										     outcome;
}

static int make_signal_fd(void)
{
	sigset_t set;

	/* SIGPIPE: disconnect properly if the reader of our output is gone. */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
	struct options options;
	struct rdmabroker_options session_options = RDMABROKER_OPTIONS_INIT;
	struct ping ping = { .options = &options };
	enum outcome outcome;
	int r, status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (options_parse(&options, argc, argv, &status) < 0)
		return status;
	ping.signal_fd = make_signal_fd();
	/* -T also limits the wait for replies of the broker. */
	session_options.call_timeout_ms = options.timeout_ms;
	r = rdmabroker_open(&session_options, &ping.session);
	if (r < 0)
		outcome = ping_call_failed(r);
	else
		outcome = options.serve ? run_server(&ping) : run_client(&ping);
	if (outcome == OUTCOME_STOPPED)
		complain("interrupted");
	/* Destroys the ids that are left, which rejects the requests that wait. */
	rdmabroker_close(ping.session);
	return outcome == OUTCOME_OK ? EXIT_SUCCESS : outcome == OUTCOME_REFUSED ? 3 : EXIT_FAILURE;
}
