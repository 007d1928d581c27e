/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "client/lib/wire/deadline.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/pending.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/wire.h"
#include "proto/abovestdio.h"
#include "proto/packet.h"

/*
 * In ms. A wait continues past its deadline while there are packets in the socket, because the packet that it waits
 * for can be among them, but at most this long.
 */
#define GRACE_MS 500

/* Handles a packet of LEN bytes, with which *FD came; takes *FD if it needs it. */
static void on_packet(struct wire *wire, const uint8_t *data, size_t len, int *fd)
{
	Rdmabroker__Frame *frame = frame_unpack(data, len);
	struct call *call = NULL;
	int r = 0;

	if (!frame) {
		wire_die(wire, -EBADMSG);
		return;
	}
	wire->n_received++;
	if (frame->body_case == RDMABROKER__FRAME__BODY_REPLY)
		call = pending_find(wire, frame->reply->serial);
	if (call) {
		if (call->ret_fd) {
			*call->ret_fd = above_stdio(*fd);
			*fd = -1;
		}
		r = pending_answer(wire, call, frame);
	} else if (frame->body_case == RDMABROKER__FRAME__BODY_EVENT) {
		r = wire->ops->on_event(wire->session, frame);
	} else if (frame->body_case == RDMABROKER__FRAME__BODY_NOTICE) {
		wire->ops->on_notice(wire->session, frame);
	} else {
		if (frame->body_case == RDMABROKER__FRAME__BODY_WOKEN)
			wire->woken = false;
		frame_free(frame);
	}
	if (r < 0)
		wire_die(wire, r);
	pending_settle_received(wire);
}

/* Handles what was received: N bytes, unless N is a negative errno, and the descriptors. */
static void handle(struct wire *wire, const uint8_t *buf, ssize_t n, int *fds, size_t n_fds)
{
	if (n_fds == 0)
		fds[0] = -1;
	if (n > 0)
		on_packet(wire, buf, (size_t)n, &fds[0]);
	else if (n != -EAGAIN && n != -EINTR && n != -ECONNRESET)
		wire_die(wire, (int)n);
	for (size_t i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Receives one packet. False: there is none now, or the session is dead. */
static bool receive(struct wire *wire)
{
	uint8_t *buf = wire->packet;
	int fds[PACKET_MAX_FDS] = { -1 };
	size_t n_fds = 0;
	ssize_t n;

	if (wire_check_socket(wire) < 0)
		return false;
	n = packet_recv(wire->sock.fd, buf, fds, PACKET_MAX_FDS, &n_fds);
	/* ECONNRESET is returned once, ahead of packets that are still queued; these can have the reason. */
	if (n == -ECONNRESET)
		n = packet_recv(wire->sock.fd, buf, fds, PACKET_MAX_FDS, &n_fds);
	if (n == -EAGAIN)
		return false;
	if (n < 0)
		wire_die(wire, (int)n);
	handle(wire, buf, n, fds, n_fds);
	return n >= 0;
}

bool pump_is_past(int64_t deadline, bool looked)
{
	int64_t left = deadline_left(deadline);

	return left <= 0 && (looked || left <= -GRACE_MS);
}

void pump_drain(struct wire *wire)
{
	int64_t begin = deadline_after(0);

	/* The thread that blocks in the socket can have a packet already, and events have to stay in their order. */
	if (wire->blocking)
		return;
	/*
	 * Another thread can be polling meanwhile, without the lock. It receives the packets that are left, if any.
	 */
	while (receive(wire) && !pump_is_past(begin, /* looked= */ false))
		;
	wire_wake(wire);
}

void pump_catch_up(struct wire *wire)
{
	int64_t deadline = deadline_after(wire->call_timeout_ms);

	while (wire_is_direct(wire) && !wire->dead &&
	       (int32_t)(wire->n_told - wire->n_received) > 0) {
		/* The thread that reads has the packet, or gets it at once. */
		if (wire->reading ? wire_wait_until(wire, deadline) < 0 : !receive(wire))
			break;
	}
	wire_wake(wire);
}

bool pump_try(struct wire *wire)
{
	bool received = receive(wire);

	wire_wake(wire);
	return received;
}

struct blocked {
	struct wire *wire;
	struct packet_in in;
};

/* Takes the lock. N: what recvmmsg() has returned. Returns 0 or a negative errno. */
static int leave(struct blocked *blocked, int n)
{
	int fds[PACKET_MAX_FDS] = { -1 };
	size_t n_fds;
	ssize_t len = packet_received(&blocked->in, n, fds, &n_fds);

	wire_lock(blocked->wire);
	blocked->wire->reading = blocked->wire->blocking = false;
	handle(blocked->wire, blocked->wire->packet, len, fds, n_fds);
	wire_wake(blocked->wire);
	return len < 0 ? (int)len : 0;
}

/* The thread was cancelled in the system call, and does not hold the lock. The next thread reads. */
static void leave_cancelled(void *userdata)
{
	struct blocked *blocked = userdata;

	errno = EAGAIN;
	leave(blocked, packet_was_received(&blocked->in) ? 1 : -1);
	wire_unlock(blocked->wire);
}

int pump_block(struct wire *wire, int cancel_state)
{
	struct blocked blocked;
	int ignored, n, r;

	blocked.wire = wire;
	packet_prepare(&blocked.in, wire->packet);
	wire->reading = wire->blocking = true;
	wire_unlock(wire);
	pthread_cleanup_push(leave_cancelled, &blocked);
	pthread_setcancelstate(cancel_state, &ignored);
	n = recvmmsg(wire->sock.fd, &blocked.in.msg, 1, MSG_CMSG_CLOEXEC, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
	pthread_cleanup_pop(0);
	r = leave(&blocked, n);
	/* It is returned once, ahead of packets that can still be in the socket. */
	return r == -ECONNRESET && pump_try(wire) ? 0 : r;
}

/*
 * In ms. The broker may not read requests before its own packets are read. So a thread that waits for room has to
 * receive if no other thread does, and it notices within this time that the thread which did has returned to its
 * program. Both cannot poll for packets at once: one of them would go on sleeping if the other received the packet.
 */
#define ROOM_SLICE_MS 20

#define BLOCK_LATE_MS 20 /* so much too late a wait can end */

static int block(struct wire *wire)
{
	int cancel_state, ignored, r;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	r = pump_block(wire, PTHREAD_CANCEL_DISABLE);
	pthread_setcancelstate(cancel_state, &ignored);
	return r == -EAGAIN || r == -ECONNRESET ? -ETIMEDOUT : r == -EINTR ? 0 : r;
}

/*
 * One thread at a time polls and receives, for all threads. The others wait until it has polled; those that need room
 * in the socket poll for it themselves.
 */
int pump_poll(struct wire *wire, short events, int64_t deadline)
{
	struct pollfd p = { .fd = wire->sock.fd, .events = events };
	bool reader = true;
	int64_t left;
	int n, r;

	if (wire->reading) {
		if (!(events & POLLOUT))
			return wire_wait_until(wire, deadline);
		/* Several threads can wait for room in the socket at once. */
		p.events = POLLOUT;
		reader = false;
	}

	left = deadline_left(deadline);
	/* Such a wait can be one system call. It can also end early. */
	if (reader && events == POLLIN && wire->block_ms > 0 && left > 0 &&
	    left >= wire->block_ms - BLOCK_LATE_MS)
		return block(wire);
	if (!reader && left > ROOM_SLICE_MS)
		left = ROOM_SLICE_MS;
	/* Without a wait, there is no need to ask first whether there is a packet. */
	if (left <= 0 && events == POLLIN)
		return pump_try(wire) ? 0 : -ETIMEDOUT;
	wire->reading |= reader;
	wire_unlock(wire);
	n = poll(&p, 1, left > 0 ? (int)left : 0);
	r = n == 0 || (n < 0 && errno != EINTR) ? -ETIMEDOUT : 0;
	wire_lock(wire);
	if (!reader)
		return r;
	wire->reading = false;
	/* After a poll that failed REVENTS is not valid: try to receive. */
	if ((n < 0 || (p.revents & ~POLLOUT)) && receive(wire))
		r = 0;
	wire_wake(wire);
	return r;
}

int pump_packet(struct wire *wire, int64_t deadline)
{
	int r = wire_check_socket(wire);

	return r < 0 ? r : pump_poll(wire, POLLIN, deadline);
}
