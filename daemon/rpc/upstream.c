/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "proto/codec.h"
#include "proto/packet.h"
#include "proto/proof.h"
#include "proto/rdmabroker.pb-c.h"
#include "proto/timer.h"
#include "proto/unixsock.h"
#include "rpc/upstream.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/log.h"
#include "util/util.h"

#define RETRY_USEC (500 * 1000ULL)
/* How long a request waits for a connection, or for its answer. At its start the initial instance can wait for 10 s. */
#define WAIT_MS 15000
#define HELLO_SERIAL 1

enum state {
	IDLE, /* no connection */
	GREETING, /* connected, and Hello is not answered yet */
	READY,
};

struct upstream {
	sd_event *loop;
	struct fabric *fabric;
	char *path;
	enum state state;
	int sock; /* -1: IDLE */
	sd_event_source *io;
	sd_event_source *
		timer; /* connects, and gives up requests; enabled while there is something to do */
	struct list loans; /* fabric_loan.link, in the order of the requests; SERIAL 0: not sent */
	uint32_t last_serial;
	bool complained; /* that there is no connection */
};

static void answer(struct fabric_loan *loan, int r)
{
	list_remove(&loan->link);
	fabric_lent(loan, r);
}

/* The initial instance forgets the loans of a connection that is lost. */
static void disconnect(struct upstream *upstream)
{
	struct list *l, *n;

	upstream->io = sd_event_source_disable_unref(upstream->io);
	closep(&upstream->sock);
	upstream->sock = -1;
	upstream->state = IDLE;
	list_for_each_safe(l, n, &upstream->loans) {
		struct fabric_loan *loan = container_of(l, struct fabric_loan, link);

		loan->serial = 0;
		if (!loan->allow)
			answer(loan, 0);
	}
	timer_start(upstream->timer, RETRY_USEC);
}

static int send_request(struct upstream *upstream, Rdmabroker__Request *request, int fd)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	uint8_t buf[256];
	size_t len;

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	len = codec_pack(&frame, buf, sizeof(buf));
	if (len == 0)
		return -EMSGSIZE;
	return packet_send(upstream->sock, buf, len, &fd, fd >= 0);
}

static int send_hello(struct upstream *upstream, int proof)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;

	hello.version = 1;
	hello.features = RDMABROKER__FEATURE__FEATURE_PROOF;
	request.serial = HELLO_SERIAL;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	upstream->last_serial = HELLO_SERIAL;
	return send_request(upstream, &request, proof);
}

static int send_loan(struct upstream *upstream, struct fabric_loan *loan)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__LendDevice lend = RDMABROKER__LEND_DEVICE__INIT;
	int r;

	lend.name = (char *)loan->device;
	lend.uid = loan->uid;
	lend.end = !loan->allow;
	request.serial = upstream->last_serial + 1;
	request.op_case = RDMABROKER__REQUEST__OP_LEND_DEVICE;
	request.lend_device = &lend;
	r = send_request(upstream, &request, -1);
	if (r == 0)
		loan->serial = ++upstream->last_serial;
	return r;
}

/* Sends what was not sent yet. If the socket is full, the rest follows when it has room. */
static void flush(struct upstream *upstream)
{
	struct list *l;
	int r = 0;

	if (upstream->state != READY)
		return;
	list_for_each(l, &upstream->loans) {
		struct fabric_loan *loan = container_of(l, struct fabric_loan, link);

		if (loan->serial == 0 && r == 0)
			r = send_loan(upstream, loan);
	}
	if (r < 0 && r != -EAGAIN)
		disconnect(upstream);
	else
		sd_event_source_set_io_events(upstream->io,
					      r == -EAGAIN ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static int on_hello(struct upstream *upstream, const Rdmabroker__Reply *reply)
{
	const char *proof_name;
	int proof, r;

	if (reply->result_case != RDMABROKER__REPLY__RESULT_HELLO) {
		log_error("The initial instance of the broker refuses this one: %s.",
			  reply->failure ? reply->failure->text : "it sends no reason");
		return -EPROTO;
	}
	proof_name = reply->hello->proof;
	if (proof_name[0]) {
		proof = proof_new(proof_name, PROOF_OPENS);
		r = send_hello(upstream, proof);
		closep(&proof);
		return r;
	}
	upstream->state = READY;
	if (upstream->complained)
		log_info("The initial instance of the broker serves again.");
	upstream->complained = false;
	fabric_lend_again(upstream->fabric);
	flush(upstream);
	return 0;
}

static void on_reply(struct upstream *upstream, const Rdmabroker__Reply *reply)
{
	struct list *l;

	list_for_each(l, &upstream->loans) {
		struct fabric_loan *loan = container_of(l, struct fabric_loan, link);

		if (loan->serial != reply->serial)
			continue;
		if (reply->failure && loan->allow)
			log_warning("The initial instance of the broker refuses uid %u access to "
				    "device %s: %s.",
				    loan->uid, loan->device, reply->failure->text);
		answer(loan, reply->failure ? -(reply->failure->error ?: EIO) : 0);
		return;
	}
}

static int receive(struct upstream *upstream)
{
	Rdmabroker__Frame *frame;
	uint8_t buf[PACKET_MAX];
	int fds[2], r = 0;
	size_t n_fds;
	ssize_t n = packet_recv(upstream->sock, buf, fds, 2, &n_fds);

	while (n_fds > 0)
		close(fds[--n_fds]);
	if (n <= 0)
		return (int)n;
	frame = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
	if (!frame)
		return -EPROTO;
	if (frame->body_case == RDMABROKER__FRAME__BODY_REPLY) {
		if (upstream->state == GREETING)
			r = on_hello(upstream, frame->reply);
		else
			on_reply(upstream, frame->reply);
	}
	rdmabroker__frame__free_unpacked(frame, NULL);
	return r;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct upstream *upstream = userdata;
	int r = receive(upstream);

	if (r < 0 && r != -EAGAIN)
		disconnect(upstream);
	else
		flush(upstream);
	return 0;
}

static int connect_to(struct upstream *upstream)
{
	int r;

	upstream->sock = unixsock_connect(upstream->path, SOCK_SEQPACKET);
	if (upstream->sock < 0)
		return upstream->sock;
	r = sd_event_add_io(upstream->loop, &upstream->io, upstream->sock, EPOLLIN, on_io,
			    upstream);
	if (r < 0)
		return r;
	upstream->state = GREETING;
	return send_hello(upstream, /* proof= */ -1);
}

static void try_to_connect(struct upstream *upstream)
{
	int r = connect_to(upstream);

	if (r == 0)
		return;
	disconnect(upstream);
	if (!upstream->complained)
		log_warning("The initial instance of the broker does not serve on %s: %s. Until it "
			    "does, programs get no access to devices.",
			    upstream->path, strerror(-r));
	upstream->complained = true;
}

static struct fabric_loan *first_loan(const struct upstream *upstream)
{
	struct list *l = list_first(&upstream->loans);

	return l ? container_of(l, struct fabric_loan, link) : NULL;
}

/*
 * Refuses the requests that have waited too long. If one was sent, it can be carried out later, so the connection ends:
 * then the initial instance forgets all loans, and those that are needed are requested again.
 */
static void give_up(struct upstream *upstream)
{
	uint64_t now = clock_ms();
	struct fabric_loan *loan;

	while ((loan = first_loan(upstream)) && loan->until_ms <= now) {
		if (upstream->state == IDLE) {
			answer(loan, loan->allow ? -ETIMEDOUT : 0);
			continue;
		}
		log_warning("The initial instance of the broker does not answer in time.");
		disconnect(upstream);
	}
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct upstream *upstream = userdata;

	give_up(upstream);
	if (upstream->state == IDLE)
		try_to_connect(upstream);
	flush(upstream);
	if (upstream->state == IDLE || !list_is_empty(&upstream->loans))
		timer_start(upstream->timer, RETRY_USEC);
	return 0;
}

/* The request is sent from the loop, because a loan must not be answered from here. */
static void on_lend(void *userdata, struct fabric_loan *loan)
{
	struct upstream *upstream = userdata;

	loan->until_ms = clock_ms() + WAIT_MS;
	list_insert(&upstream->loans, &loan->link);
	timer_start(upstream->timer, 0);
}

static const struct fabric_lender lender = {
	.lend = on_lend,
};

DEFINE_CLEANUP(struct upstream *, upstream_free)

int upstream_new(struct upstream **ret, sd_event *loop, const char *path, struct fabric *fabric)
{
	_cleanup_(upstream_freep) struct upstream *upstream = calloc(1, sizeof(*upstream));
	int r;

	if (!upstream)
		return -ENOMEM;
	upstream->loop = sd_event_ref(loop);
	upstream->fabric = fabric;
	upstream->sock = -1;
	list_init(&upstream->loans);
	upstream->path = strdup(path);
	if (!upstream->path)
		return -ENOMEM;
	r = timer_new(&upstream->timer, loop, 0, on_timer, upstream);
	if (r == 0)
		r = timer_start(upstream->timer, 0);
	if (r < 0)
		return r;
	fabric_set_lender(fabric, &lender, upstream);
	*ret = TAKE_PTR(upstream);
	return 0;
}

struct upstream *upstream_free(struct upstream *upstream)
{
	struct fabric_loan *loan;

	if (!upstream)
		return NULL;
	fabric_set_lender(upstream->fabric, NULL, NULL);
	while ((loan = first_loan(upstream)))
		answer(loan, loan->allow ? -ESHUTDOWN : 0);
	sd_event_source_disable_unref(upstream->io);
	sd_event_source_disable_unref(upstream->timer);
	closep(&upstream->sock);
	sd_event_unref(upstream->loop);
	free(upstream->path);
	free(upstream);
	return NULL;
}
