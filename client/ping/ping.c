/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ping.h"
#include "proto/text.h"

/* What both roles do: wait, and handle and explain events. */

void complain(const char *fmt, ...)
{
	char text[2048], shown[TEXT_ESCAPED(sizeof(text))];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* The peer can have chosen a part of it. */
	text_escape(shown, sizeof(shown), text);
	fprintf(stderr, "rdmabroker-ping: %s\n", shown);
}

bool ping_is_refusal(int r)
{
	return r == -EACCES || r == -EPERM || r == -EBUSY || r == -EDQUOT || r == -ESHUTDOWN;
}

enum outcome ping_call_failed(int r)
{
	const struct rdmabroker_failure *failure = rdmabroker_last_failure();

	complain("%s%s (%s%s)", ping_is_refusal(r) ? "refused by the broker: " : "", failure->text,
		 failure->rule ? "rule " : "", failure->rule ?: strerrorname_np(-r));
	return ping_is_refusal(r) ? OUTCOME_REFUSED : OUTCOME_FAILED;
}

static void explain_reject(const struct conn *conn, const struct rdmabroker_event *event)
{
	static const char *const codes[] = { "no code", "denied", "busy", "no-rule", "draining" };
	const char *data = event->conn->private_data;
	size_t code = event->reject_code, len = event->conn->private_data_len;
	char hex[2 * UINT8_MAX + 1] = "", text[UINT8_MAX + 1] = "";

	switch (event->rejected_by) {
	case RDMABROKER_REJECTED_BY_PEER:
		/* The transport pads the data with zero bytes. */
		while (len > 0 && data[len - 1] == 0)
			len--;
		for (size_t i = 0; i < len && i < UINT8_MAX; i++) {
			sprintf(&hex[2 * i], "%02x", (uint8_t)data[i]);
			text[i] = data[i] >= ' ' && data[i] <= '~' ? data[i] : '.';
		}
		complain("rejected by the peer program, private data: %s \"%s\"", hex, text);
		break;
	case RDMABROKER_REJECTED_BY_POLICY:
		complain("rejected by policy of the peer's broker (%s): %s",
			 code < sizeof(codes) / sizeof(codes[0]) ? codes[code] : "unknown code",
			 event->text ?: "");
		if (code == RDMABROKER_REJECT_BUSY)
			complain("try again after %u ms, as the peer's broker requests",
				 event->retry_after_ms);
		break;
	case RDMABROKER_REJECTED_NO_LISTENER:
		complain("rejected: nobody listens on %s", conn->peer);
		break;
	default:
		complain("rejected (%d): %s", event->status, event->text ?: "no reason given");
	}
}

static enum outcome explain_error(const struct conn *conn, const struct rdmabroker_event *event)
{
	static const char *const what[] = {
		[RDMABROKER_EVENT_ADDR_ERROR] = "cannot resolve",
		[RDMABROKER_EVENT_ROUTE_ERROR] = "no route to",
		[RDMABROKER_EVENT_CONNECT_ERROR] = "the connection with",
		[RDMABROKER_EVENT_UNREACHABLE] = "no answer from",
	};
	bool is_refused = ping_is_refusal(event->status);
	const char *text = event->text;

	if (!text)
		text = event->status < 0 ? strerror(-event->status) :
					   rdmabroker_event_str(event->type);
	complain("%s%s %s%s: %s", is_refused ? "refused by the broker: " : "", what[event->type],
		 conn->peer, event->type == RDMABROKER_EVENT_CONNECT_ERROR ? " failed" : "", text);
	return is_refused ? OUTCOME_REFUSED : OUTCOME_FAILED;
}

/* If policy or an admin ends an id, the event is the same, but has a status. */
static void say_removed(const struct rdmabroker_event *event)
{
	if (event->status == 0)
		puts("device removed");
	else
		complain("the broker has ended the id: %s",
			 event->text ?: strerror(-event->status));
}

static void handle_conn_event(struct ping *ping, const struct rdmabroker_event *event)
{
	const struct rdmabroker_conn_param *param = event->conn;
	struct conn *conn = &ping->conn;

	switch (event->type) {
	case RDMABROKER_EVENT_ROUTE_RESOLVED:
		conn->state = STEP_RESOLVED;
		break;
	case RDMABROKER_EVENT_CONNECT_RESPONSE: /* with --qpn, because the library has no QP */
	case RDMABROKER_EVENT_ESTABLISHED:
		conn->state = STEP_ESTABLISHED;
		if (ping->options->serve ||
		    data_hello_size(param->private_data, param->private_data_len) == conn->size)
			break;
		complain("the program at %s is not rdmabroker-ping", conn->peer);
		conn->outcome = OUTCOME_FAILED;
		break;
	case RDMABROKER_EVENT_DISCONNECTED:
		conn->state = STEP_DISCONNECTED;
		break;
	case RDMABROKER_EVENT_REJECTED:
		explain_reject(conn, event);
		conn->outcome = OUTCOME_REFUSED;
		break;
	case RDMABROKER_EVENT_ADDR_ERROR:
	case RDMABROKER_EVENT_ROUTE_ERROR:
	case RDMABROKER_EVENT_CONNECT_ERROR:
	case RDMABROKER_EVENT_UNREACHABLE:
		conn->outcome = explain_error(conn, event);
		break;
	case RDMABROKER_EVENT_DEVICE_REMOVAL:
		say_removed(event);
		conn->outcome = OUTCOME_ENDED;
		break;
	default:
		break;
	}
}

static void add_request(struct ping *ping, const struct rdmabroker_event *event)
{
	static const char busy[] = "too many clients are waiting";
	struct conn *conn;

	if (ping->n_waiting == PING_MAX_WAITING) {
		rdmabroker_reject(event->id, busy, sizeof(busy) - 1);
		rdmabroker_destroy_id(event->id);
		return;
	}
	conn = &ping->waiting[ping->n_waiting++];
	*conn = (struct conn){
		.id = event->id,
		.state = STEP_RESOLVED,
		.size = data_hello_size(event->conn->private_data, event->conn->private_data_len),
	};
	addr_to_string(rdmabroker_get_peer_addr(conn->id), conn->peer);
}

/* The client of the request has given up, or the device is gone. */
static void drop_request(struct ping *ping, const struct rdmabroker_id *id)
{
	struct conn *waiting = ping->waiting;

	for (unsigned i = 0; i < ping->n_waiting; i++) {
		if (waiting[i].id != id)
			continue;
		rdmabroker_destroy_id(waiting[i].id);
		memmove(&waiting[i], &waiting[i + 1], (--ping->n_waiting - i) * sizeof(*waiting));
	}
}

static void handle_event(struct ping *ping, const struct rdmabroker_event *event)
{
	if (ping->options->verbose)
		printf("event: %s\n", rdmabroker_event_str(event->type));
	if (event->type == RDMABROKER_EVENT_CONNECT_REQUEST) {
		add_request(ping, event);
	} else if (ping->conn.id && event->id == ping->conn.id) {
		handle_conn_event(ping, event);
	} else if (event->type == RDMABROKER_EVENT_DEVICE_REMOVAL && event->id == ping->listener) {
		say_removed(event);
		ping->listener_removed = true;
	} else if (event->type != RDMABROKER_EVENT_TIMEWAIT_EXIT) {
		drop_request(ping, event->id);
	}
}

/* Returns true if there were events. */
static bool take_events(struct ping *ping)
{
	struct rdmabroker_event *event;
	bool is_any = false;
	int r;

	while ((r = rdmabroker_get_event(ping->session, 0, &event)) == 0) {
		handle_event(ping, event);
		rdmabroker_free_event(event);
		is_any = true;
	}
	if (r == -EAGAIN)
		return is_any;
	if (r == -ECONNRESET)
		complain("the broker is gone");
	else
		complain("cannot receive an event: %s", strerror(-r));
	ping->lost = true;
	return true;
}

/* Handles events and completions; waits if there are none. False: DEADLINE is past. DEADLINE -1: there is none. */
static bool pump(struct ping *ping, int64_t deadline)
{
	struct conn *conn = &ping->conn;
	struct pollfd fds[] = {
		{ .fd = ping->signal_fd, .events = POLLIN },
		{ .fd = rdmabroker_get_fd(ping->session), .events = POLLIN },
		{ .fd = conn->channel ? conn->channel->fd : -1, .events = POLLIN },
	};
	struct signalfd_siginfo signal;
	struct ibv_cq *cq;
	void *context;
	int64_t left = deadline < 0 ? -1 : deadline - now_ms();
	bool is_any = take_events(ping);

	/* Completions after events, because work that ended before a disconnect event has its completion by now. */
	if (ping->lost || data_poll(conn) || is_any)
		return true;
	if (deadline >= 0 && left <= 0)
		return false;
	poll(fds, 3, (int)left);
	if (fds[0].revents && read(ping->signal_fd, &signal, sizeof(signal)) > 0)
		ping->stop = true;
	if (fds[2].revents && ibv_get_cq_event(conn->channel, &cq, &context) == 0) {
		ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(cq, 0);
	}
	return true;
}

static bool is_reached(const struct ping *ping, enum step step)
{
	const struct conn *conn = &ping->conn;

	switch (step) {
	case STEP_REQUEST:
		return ping->n_waiting > 0 || ping->listener_removed;
	case STEP_SENT:
		return conn->n_sending == 0;
	case STEP_MESSAGE:
		return conn->n_sending == 0 && conn->received > 0;
	default:
		return conn->state >= step;
	}
}

enum outcome ping_await(struct ping *ping, enum step step)
{
	static const char *const awaited[] = {
		[STEP_RESOLVED] = "no route to ",
		[STEP_ESTABLISHED] = "no answer from ",
		[STEP_DISCONNECTED] = "no disconnect by ",
		[STEP_SENT] = "no acknowledgement of a message by ",
		[STEP_MESSAGE] = "no message from ",
		[STEP_REQUEST] = "no client connected",
	};
	const struct options *options = ping->options;
	bool is_endless = step == STEP_REQUEST && options->persistent;
	bool is_stopped_by_signal = step <= STEP_ESTABLISHED || step == STEP_REQUEST ||
				    (step == STEP_MESSAGE && options->serve);
	int64_t deadline = is_endless ? -1 : now_ms() + options->timeout_ms;
	const struct conn *conn = &ping->conn;

	for (;;) {
		if (ping->lost)
			return OUTCOME_FAILED;
		if (conn->outcome != OUTCOME_OK)
			return conn->outcome;
		if (ping->stop && is_stopped_by_signal)
			return OUTCOME_STOPPED;
		if (is_reached(ping, step))
			return OUTCOME_OK;
		if (conn->state == STEP_DISCONNECTED) {
			complain("%s disconnected after %llu rounds", conn->peer,
				 (unsigned long long)conn->n_verified);
			return OUTCOME_ENDED;
		}
		if (!pump(ping, deadline)) {
			complain("%s%s within %d s", awaited[step], conn->id ? conn->peer : "",
				 options->timeout_ms / 1000);
			return OUTCOME_FAILED;
		}
	}
}

void ping_pause(struct ping *ping, int ms)
{
	int64_t deadline = now_ms() + ms;

	while (!ping->stop && !ping->lost && ping->conn.outcome == OUTCOME_OK &&
	       ping->conn.state != STEP_DISCONNECTED && pump(ping, deadline))
		;
}
