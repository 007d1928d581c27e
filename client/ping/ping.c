/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ping.h"
#include "proto/text.h"

const char *ping_addr_to_string(char buf[PING_ADDR_STRLEN], const struct sockaddr *addr)
{
	socklen_t len = addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
						      sizeof(struct sockaddr_in);
	char host[INET6_ADDRSTRLEN + 17], port[6];

	if (getnameinfo(addr, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(buf, PING_ADDR_STRLEN, "an unknown address");
	else
		snprintf(buf, PING_ADDR_STRLEN, addr->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
			 host, port);
	return buf;
}

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

void say(const struct ping *ping, const char *fmt, ...)
{
	va_list ap;

	if (ping->options->quiet)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

bool ping_is_refusal(int r)
{
	return r == -EACCES || r == -EPERM || r == -EBUSY || r == -EDQUOT || r == -ESHUTDOWN;
}

enum outcome ping_call_failed(int r)
{
	const struct rdmabroker_failure *failure = rdmabroker_last_failure();
	const char *name = strerrorname_np(-r);

	if (!ping_is_refusal(r)) {
		complain("%s (%s)", failure->text, name ? name : "unknown error");
		return OUTCOME_FAILED;
	}
	if (failure->rule)
		complain("refused by the broker: %s (rule %s)", failure->text, failure->rule);
	else
		complain("refused by the broker: %s (%s)", failure->text, name);
	return OUTCOME_REFUSED;
}

enum outcome ping_data_failed(const struct conn *conn)
{
	complain("connection with %s: %s", conn->peer, conn->data.error);
	return OUTCOME_FAILED;
}

static enum outcome lost(struct ping *ping)
{
	if (!ping->lost)
		complain("the broker is gone");
	ping->lost = true;
	return OUTCOME_FAILED;
}

/* Prints the data in hexadecimal and as text, without the zero bytes with which the transport pads it. */
static void complain_private_data(const uint8_t *data, size_t len)
{
	char hex[2 * UINT8_MAX + 1], text[UINT8_MAX + 1];

	while (len > 0 && data[len - 1] == 0)
		len--;
	if (len == 0) {
		complain("rejected by the peer program, private data: none");
		return;
	}
	for (size_t i = 0; i < len; i++) {
		snprintf(hex + 2 * i, 3, "%02x", data[i]);
		text[i] = data[i] >= ' ' && data[i] <= '~' ? (char)data[i] : '.';
	}
	text[len] = '\0';
	complain("rejected by the peer program, private data: %s \"%s\"", hex, text);
}

static void explain_reject(const struct conn *conn, const struct rdmabroker_event *event)
{
	static const char *const codes[] = {
		[RDMABROKER_REJECT_NONE] = "no code",      [RDMABROKER_REJECT_DENIED] = "denied",
		[RDMABROKER_REJECT_BUSY] = "busy",         [RDMABROKER_REJECT_NO_RULE] = "no-rule",
		[RDMABROKER_REJECT_DRAINING] = "draining",
	};
	size_t code = event->reject_code;
	const char *text = event->text ? event->text : "";

	switch (event->rejected_by) {
	case RDMABROKER_REJECTED_BY_PEER:
		complain_private_data(event->conn->private_data, event->conn->private_data_len);
		break;
	case RDMABROKER_REJECTED_BY_POLICY:
		complain("rejected by policy of the peer's broker (%s): %s",
			 code < sizeof(codes) / sizeof(codes[0]) ? codes[code] : "unknown code",
			 text);
		if (event->reject_code == RDMABROKER_REJECT_BUSY)
			complain("try again after %u ms, as the peer's broker requests",
				 event->retry_after_ms);
		break;
	case RDMABROKER_REJECTED_NO_LISTENER:
		complain("rejected: nobody listens on %s", conn->peer);
		break;
	case RDMABROKER_REJECTED_STALE:
		complain("rejected: the peer still has an earlier connection of this QP number; "
			 "try again");
		break;
	default:
		complain("rejected by the connection manager, reason %d%s%s", event->status,
			 *text ? ": " : "", text);
	}
}

static void end_conn(struct conn *conn, enum outcome outcome)
{
	if (conn->state == CONN_ENDED)
		return;
	conn->state = CONN_ENDED;
	conn->outcome = outcome;
}

static enum outcome explain_error(const struct conn *conn, const struct rdmabroker_event *event)
{
	const char *text = event->text;

	if (ping_is_refusal(event->status)) {
		complain("refused by the broker: %s", text ? text : "no reason given");
		return OUTCOME_REFUSED;
	}
	if (!text)
		text = event->status < 0 ? strerror(-event->status) :
					   rdmabroker_event_str(event->type);
	switch (event->type) {
	case RDMABROKER_EVENT_ADDR_ERROR:
		complain("cannot resolve %s: %s", conn->peer, text);
		break;
	case RDMABROKER_EVENT_ROUTE_ERROR:
		complain("no route to %s: %s", conn->peer, text);
		break;
	case RDMABROKER_EVENT_UNREACHABLE:
		complain("no answer from %s: %s", conn->peer, text);
		break;
	default:
		complain("the connection with %s failed: %s", conn->peer, text);
	}
	return OUTCOME_FAILED;
}

/* If policy or an admin ends an id, the event is the same, but has a status. */
static void say_removed(const struct ping *ping, const struct rdmabroker_event *event)
{
	if (event->status == 0)
		say(ping, "device removed");
	else
		complain("the broker has ended the id: %s",
			 event->text ?: strerror(-event->status));
}

static void handle_conn_event(struct ping *ping, struct conn *conn,
			      const struct rdmabroker_event *event)
{
	const struct rdmabroker_conn_param *param = event->conn;
	size_t size;

	switch (event->type) {
	case RDMABROKER_EVENT_ADDR_RESOLVED:
		conn->state = CONN_ADDR_RESOLVED;
		break;
	case RDMABROKER_EVENT_ROUTE_RESOLVED:
		conn->state = CONN_ROUTE_RESOLVED;
		break;
	case RDMABROKER_EVENT_CONNECT_RESPONSE:
		/*
		 * With --qpn the library has no QP, so it reports this event. The broker should have rejected the
		 * number.
		 */
		complain(
			"the broker accepted QP number 0x%x, which only a rule with 'qp reserved' allows",
			ping->options->qpn);
		end_conn(conn, OUTCOME_FAILED);
		break;
	case RDMABROKER_EVENT_ESTABLISHED:
		if (!ping->options->serve &&
		    (data_unpack_hello(&size, param->private_data, param->private_data_len) < 0 ||
		     size != ping->options->size)) {
			complain("the program at %s is not rdmabroker-ping", conn->peer);
			end_conn(conn, OUTCOME_FAILED);
			break;
		}
		conn->state = CONN_ESTABLISHED;
		if (ping->options->verbose)
			say(ping, "established with %s", conn->peer);
		break;
	case RDMABROKER_EVENT_DISCONNECTED:
		if (conn->state < CONN_DISCONNECTED)
			conn->state = CONN_DISCONNECTED;
		if (ping->options->verbose)
			say(ping, "disconnected");
		break;
	case RDMABROKER_EVENT_REJECTED:
		explain_reject(conn, event);
		end_conn(conn, OUTCOME_REFUSED);
		break;
	case RDMABROKER_EVENT_ADDR_ERROR:
	case RDMABROKER_EVENT_ROUTE_ERROR:
	case RDMABROKER_EVENT_CONNECT_ERROR:
	case RDMABROKER_EVENT_UNREACHABLE:
		end_conn(conn, explain_error(conn, event));
		break;
	case RDMABROKER_EVENT_DEVICE_REMOVAL:
		say_removed(ping, event);
		end_conn(conn, OUTCOME_REMOVED);
		break;
	default:
		break;
	}
}

static void add_request(struct ping *ping, const struct rdmabroker_event *event)
{
	static const char busy[] = "too many clients are waiting";
	const struct rdmabroker_conn_param *param = event->conn;
	struct request *request;

	if (ping->n_waiting == PING_MAX_WAITING) {
		rdmabroker_reject(event->id, busy, sizeof(busy) - 1);
		rdmabroker_destroy_id(event->id);
		return;
	}
	request = &ping->waiting[ping->n_waiting++];
	*request = (struct request){ .id = event->id, .len = param->private_data_len };
	if (request->len > sizeof(request->data))
		request->len = sizeof(request->data);
	if (request->len > 0)
		memcpy(request->data, param->private_data, request->len);
}

/* Removes a waiting connection request: its client has given up, or the device is gone. */
static void drop_request(struct ping *ping, struct rdmabroker_id *id)
{
	for (size_t i = 0; i < ping->n_waiting; i++) {
		if (ping->waiting[i].id != id)
			continue;
		ping->n_waiting--;
		memmove(&ping->waiting[i], &ping->waiting[i + 1],
			(ping->n_waiting - i) * sizeof(ping->waiting[0]));
		rdmabroker_destroy_id(id);
		return;
	}
}

static void handle_event(struct ping *ping, struct rdmabroker_event *event)
{
	struct rdmabroker_id *id = event->id;

	if (ping->options->verbose)
		say(ping, "event: %s", rdmabroker_event_str(event->type));

	if (event->type == RDMABROKER_EVENT_LOST) {
		lost(ping);
	} else if (event->type == RDMABROKER_EVENT_CONNECT_REQUEST) {
		add_request(ping, event);
	} else if (ping->conn && id == ping->conn->id) {
		handle_conn_event(ping, ping->conn, event);
	} else if (id == ping->listener) {
		if (event->type == RDMABROKER_EVENT_DEVICE_REMOVAL) {
			say_removed(ping, event);
			ping->listener_removed = true;
		}
	} else if (event->type != RDMABROKER_EVENT_TIMEWAIT_EXIT) {
		rdmabroker_free_event(event);
		drop_request(ping, id);
		return;
	}
	rdmabroker_free_event(event);
}

/* Returns 1: there were events; 0: there were none; or a negative errno. */
static int take_events(struct ping *ping)
{
	struct rdmabroker_event *event;
	int r, done = 0;

	while (!ping->lost && (r = rdmabroker_get_event(ping->session, 0, &event)) != -EAGAIN) {
		if (r == 0)
			handle_event(ping, event);
		else if (r == -ECONNRESET)
			lost(ping);
		else
			return r;
		done = 1;
	}
	return done;
}

/* Returns 1 if something has completed or failed. Then the caller has to check its condition before it polls. */
static int take_completions(struct conn *conn)
{
	struct data *data = &conn->data;
	bool had_received = data->has_received;
	unsigned n_sending = data->n_sending;
	int r;

	r = data_poll(data);
	if (r == 0)
		return data->has_received != had_received || data->n_sending != n_sending;
	if (conn->state < CONN_DISCONNECTED)
		end_conn(conn, ping_data_failed(conn));
	return 1;
}

static void take_signal(struct ping *ping)
{
	struct signalfd_siginfo info;

	if (read(ping->signal_fd, &info, sizeof(info)) == sizeof(info))
		ping->stop = true;
}

int ping_pump(struct ping *ping, int64_t deadline)
{
	struct pollfd fds[3] = {
		{ .fd = ping->signal_fd, .events = POLLIN },
		{ .fd = ping->lost ? -1 : rdmabroker_get_fd(ping->session), .events = POLLIN },
		{ .fd = -1, .events = POLLIN },
	};
	int64_t left = -1;
	int r;

	r = take_events(ping);
	if (r < 0) {
		complain("cannot receive an event: %s", strerror(-r));
		ping->lost = true;
		return 0;
	}
	if (ping->conn && ping->conn->has_data) {
		/*
		 * Take completions after events, because work that ended before a disconnect event has its completion
		 * by now.
		 */
		if (take_completions(ping->conn) > 0)
			return 0;
		fds[2].fd = data_get_fd(&ping->conn->data);
	}
	if (r > 0)
		return 0;

	if (deadline >= 0) {
		left = deadline - now_ms();
		if (left <= 0)
			return -ETIMEDOUT;
	}
	if (poll(fds, 3, (int)left) < 0 && errno != EINTR) {
		complain("cannot poll: %m");
		ping->lost = true;
	}
	if (fds[0].revents)
		take_signal(ping);
	if (fds[2].revents && data_wakeup(&ping->conn->data) < 0) {
		complain("%s", ping->conn->data.error);
		end_conn(ping->conn, OUTCOME_FAILED);
	}
	return 0;
}

enum outcome ping_await(struct ping *ping, enum conn_state state, const char *doing)
{
	struct conn *conn = ping->conn;
	int64_t deadline = now_ms() + ping->options->timeout_ms;

	while (conn->state < state) {
		if (ping->lost)
			return OUTCOME_FAILED;
		/* After a signal, wait for the disconnect all the same. */
		if (ping->stop && state != CONN_DISCONNECTED)
			return OUTCOME_STOPPED;
		if (ping_pump(ping, deadline) == -ETIMEDOUT) {
			complain("%s: no answer within %d s", doing,
				 ping->options->timeout_ms / 1000);
			return OUTCOME_FAILED;
		}
	}
	if (conn->state == CONN_ENDED)
		return conn->outcome;
	if (conn->state > state) {
		complain("%s: %s disconnected", doing, conn->peer);
		return OUTCOME_GONE;
	}
	return OUTCOME_OK;
}

enum outcome ping_await_message(struct ping *ping)
{
	struct conn *conn = ping->conn;
	int64_t deadline = now_ms() + ping->options->timeout_ms;

	for (;;) {
		if (conn->state == CONN_ENDED)
			return conn->outcome;
		if (data_is_ready(&conn->data))
			return OUTCOME_OK;
		if (conn->state == CONN_DISCONNECTED) {
			complain("%s disconnected after %llu rounds", conn->peer,
				 (unsigned long long)conn->data.n_verified);
			return OUTCOME_GONE;
		}
		if (ping->lost)
			return OUTCOME_FAILED;
		if (ping->stop && ping->options->serve)
			return OUTCOME_STOPPED;
		if (ping_pump(ping, deadline) == -ETIMEDOUT) {
			complain("received nothing from %s for %d s after %llu rounds", conn->peer,
				 ping->options->timeout_ms / 1000,
				 (unsigned long long)conn->data.n_verified);
			return OUTCOME_FAILED;
		}
	}
}

/* Gives the connection its memory and its QP. */
static enum outcome make_data(struct ping *ping, struct conn *conn, size_t size)
{
	struct ibv_qp_init_attr attr;
	struct ibv_context *verbs;
	int r;

	r = rdmabroker_get_verbs(conn->id, &verbs);
	if (r < 0)
		return ping_call_failed(r);
	conn->has_data = true;
	if (data_init(&conn->data, verbs, size) < 0) {
		complain("%s", conn->data.error);
		return OUTCOME_FAILED;
	}
	data_get_qp_attr(&conn->data, &attr);
	r = rdmabroker_create_qp(conn->id, conn->data.pd, &attr);
	if (r < 0)
		return ping_call_failed(r);
	if (data_start(&conn->data, rdmabroker_get_qp(conn->id)) < 0) {
		complain("%s", conn->data.error);
		return OUTCOME_FAILED;
	}
	if (ping->options->verbose)
		say(ping, "QP number %u on %s", conn->data.qp->qp_num,
		    ibv_get_device_name(verbs->device));
	return OUTCOME_OK;
}

enum outcome ping_prepare(struct ping *ping, struct conn *conn, size_t size,
			  uint8_t hello[DATA_HELLO_LEN], struct rdmabroker_conn_param *ret)
{
	data_pack_hello(hello, size);
	*ret = (struct rdmabroker_conn_param){
		.size = sizeof(*ret),
		.private_data = hello,
		.private_data_len = DATA_HELLO_LEN,
		.responder_resources = 1,
		.initiator_depth = 1,
		.rnr_retry_count = 7,
		.qp_num = ping->options->qpn,
	};
	return ping->options->use_qpn ? OUTCOME_OK : make_data(ping, conn, size);
}

enum outcome ping_disconnect(struct ping *ping, struct conn *conn)
{
	int r;

	if (ping->lost || conn->state != CONN_ESTABLISHED)
		return OUTCOME_OK;
	r = rdmabroker_disconnect(conn->id);
	if (r < 0)
		return ping_call_failed(r);
	return ping_await(ping, CONN_DISCONNECTED, "disconnecting");
}

void ping_conn_done(struct ping *ping, struct conn *conn)
{
	if (ping->conn == conn)
		ping->conn = NULL;
	/* Destroy the QP before its CQ and PD, and the id last, because that closes the device. */
	if (conn->has_data) {
		rdmabroker_destroy_qp(conn->id);
		data_done(&conn->data);
	}
	rdmabroker_destroy_id(conn->id);
	*conn = (struct conn){ 0 };
}

void ping_print_result(const struct ping *ping, const struct conn *conn, int64_t start)
{
	const struct data *data = &conn->data;

	say(ping, "%llu rounds of %zu bytes verified in %.3f s",
	    (unsigned long long)data->n_verified, data->size, (double)(now_ms() - start) / 1000);
}
