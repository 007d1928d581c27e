/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "ping.h"

/* The server: it serves one client after the other, and goes on when a client fails. */

#define RETRY_MS 200 /* between attempts to listen while the device is removed */

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

	while (outcome == OUTCOME_OK && !bye) {
		outcome = ping_await(ping, STEP_MESSAGE);
		if (outcome == OUTCOME_OK)
			outcome = data_serve(&ping->conn, &bye);
	}
	if (outcome == OUTCOME_OK)
		outcome = ping_await(ping, STEP_DISCONNECTED);
	ping_print_result(&ping->conn, begin);
	ping_disconnect(ping);
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
	outcome = refuse ? reject(ping, refuse) : ping_establish(ping, rdmabroker_accept);
	if (outcome == OUTCOME_OK && !refuse)
		outcome = serve_rounds(ping);
	ping_end(ping);
	return outcome;
}

enum outcome server_run(struct ping *ping)
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
