/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server that uses calls with deadlines. One thread takes connection requests. Each connection has a thread, which
 * waits until the client disconnects, and prints the text that the client has sent. If COUNT is given, the server
 * ends after COUNT requests, with status 1 if a connection has failed.
 *
 * cc -pthread -o blocking-server blocking-server.c $(pkg-config --cflags --libs rdmabroker libibverbs)
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdmabroker.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_MS 60000

struct conn {
	struct rdmabroker_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char text[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_conns; /* connections whose threads have not ended; protected by lock */
static int n_failed; /* connections that have failed; protected by lock */

static void count_conns(int n)
{
	pthread_mutex_lock(&lock);
	n_conns += n;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

static void await_conns(void)
{
	pthread_mutex_lock(&lock);
	while (n_conns > 0)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void count_failed(void)
{
	pthread_mutex_lock(&lock);
	n_failed++;
	pthread_mutex_unlock(&lock);
}

static int failed(const char *what)
{
	const struct rdmabroker_failure *f = rdmabroker_last_failure();

	fprintf(stderr, "%s: %s%s%s\n", what, f->text, f->rule ? ", rule " : "",
		f->rule ? f->rule : "");
	return -1;
}

static int make_qp(struct conn *conn)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_recv_wr *bad, wr = { .num_sge = 1 };
	struct ibv_context *verbs;
	struct ibv_sge sge;
	struct ibv_pd *pd;

	if (rdmabroker_get_verbs(conn->id, &verbs) < 0)
		return failed("open the device");
	if (rdmabroker_get_pd(conn->id, &pd) < 0)
		return failed("get the protection domain");
	conn->cq = ibv_create_cq(verbs, 2, NULL, NULL, 0);
	conn->mr = ibv_reg_mr(pd, conn->text, sizeof(conn->text), IBV_ACCESS_LOCAL_WRITE);
	if (!conn->cq || !conn->mr) {
		perror("make a completion queue and a memory region");
		return -1;
	}
	attr.send_cq = attr.recv_cq = conn->cq;
	if (rdmabroker_create_qp(conn->id, pd, &attr) < 0)
		return failed("make a QP");

	/* The client can send as soon as it is accepted, so post the receive before the accept. */
	sge = (struct ibv_sge){
		.addr = (uintptr_t)conn->text,
		.length = sizeof(conn->text),
		.lkey = conn->mr->lkey,
	};
	wr.sg_list = &sge;
	return ibv_post_recv(rdmabroker_get_qp(conn->id), &wr, &bad) == 0 ? 0 : -1;
}

static int print_text(struct conn *conn)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(conn->cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "the client has sent no text\n");
		return -1;
	}
	printf("%.*s\n", (int)wc.byte_len, conn->text);
	fflush(stdout);
	return 0;
}

static int talk(struct conn *conn)
{
	int r;

	if (make_qp(conn) < 0)
		return -1;
	/* NULL: the RDMA reads of the request, within the device's limits; seven retries; unlimited RNR retries. */
	if (rdmabroker_accept_wait(conn->id, NULL, TIMEOUT_MS) < 0)
		return failed("accept");
	do
		r = rdmabroker_wait_disconnected(conn->id, TIMEOUT_MS);
	while (r == -ETIMEDOUT);
	return r < 0 ? failed("wait for the end") : print_text(conn);
}

static void *run_conn(void *arg)
{
	struct conn *conn = arg;

	if (talk(conn) < 0)
		count_failed();
	/* The QP uses the CQ and the memory, and the id holds the device: destroy them in this order. */
	rdmabroker_destroy_qp(conn->id);
	if (conn->mr)
		ibv_dereg_mr(conn->mr);
	if (conn->cq)
		ibv_destroy_cq(conn->cq);
	rdmabroker_destroy_id(conn->id); /* disconnects, or rejects a pending request */
	free(conn);
	count_conns(-1);
	return NULL;
}

static int start_conn(struct rdmabroker_id *id)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	pthread_t thread;

	if (!conn)
		return -1;
	conn->id = id;
	count_conns(1);
	if (pthread_create(&thread, NULL, run_conn, conn) == 0) {
		pthread_detach(thread);
		return 0;
	}
	count_conns(-1);
	free(conn);
	return -1;
}

/* Negative: the server cannot continue. */
static int serve_one(struct rdmabroker_id *listener)
{
	struct rdmabroker_id *id;
	int r;

	do
		r = rdmabroker_get_request(listener, TIMEOUT_MS, &id);
	while (r == -ETIMEDOUT);
	if (r < 0)
		return failed("wait for a request");
	if (start_conn(id) < 0) {
		fprintf(stderr, "no memory or no thread for a connection\n");
		rdmabroker_destroy_id(id);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int count = argc > 2 ? atoi(argv[2]) : 0, r = 0;
	struct rdmabroker_id *listener;
	struct rdmabroker *session;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: %s PORT [COUNT]\n", argv[0]);
		return 2;
	}
	addr.sin_port = htons((uint16_t)atoi(argv[1]));
	if (rdmabroker_open(NULL, &session) < 0) {
		failed("open a session");
		return 1;
	}
	if (rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &listener) < 0 ||
	    rdmabroker_bind_addr(listener, (struct sockaddr *)&addr) < 0 ||
	    rdmabroker_listen(listener, 0) < 0) {
		failed("listen");
		rdmabroker_close(session);
		return 1;
	}
	printf("listening on port %u\n", rdmabroker_get_local_port(listener));
	fflush(stdout);
	for (int i = 0; r == 0 && (count == 0 || i < count); i++)
		r = serve_one(listener);
	/* Destroy ids before their session. No other thread must be inside a call on either. */
	rdmabroker_destroy_id(listener);
	await_conns();
	rdmabroker_close(session);
	return r < 0 || n_failed > 0;
}
