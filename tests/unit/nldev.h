/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Simulates the kernel's side of RDMA netlink in place of libmnl's sockets: one device with ids and QPs. Like the
 * kernel, it creates the next piece of a dump when the previous one is read.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define PIECES_MAX 200
#define IDS_MAX 64 /* ids in a piece */

/* An id as the kernel reports it. */
struct id {
	uint32_t tid; /* 0: the thread that made the id has ended */
	const char *kernel; /* the name of the kernel module that made the id; NULL: a process */
	uint8_t state;
	const char *local, *peer; /* IPv4, or IPv4:PORT; without a port: 7471; NULL: none */
	uint32_t qpn; /* 0: none */
};

/* A QP as the kernel has it. */
struct qp {
	uint32_t qpn;
	uint32_t port; /* 0: none */
	uint32_t tid; /* 0: the thread has ended */
	uint32_t pdn; /* its protection domain, which the thread PD_TID made; 0: not reported */
	const char *kernel; /* the kernel module that made it; NULL: a process */
	uint8_t type; /* the kernel's ib_qp_type */
	int error; /* with which a dump ends that comes to it: 0 or a negative errno */
};

enum { CONTEXTS_MAX = 1500 };
enum { QPS_MAX = 256, QPS_A_PIECE = 64, PD_TID = 77 };
enum { CONNECT = 5, ADDR_BOUND = 7, LISTEN = 8 };

/* By so many seconds CLOCK_MONOTONIC is ahead of the kernel's. */
extern time_t skipped;

/* A process with this name that waits for its end. */
pid_t start_process(const char *name);
void stop_process(pid_t pid);

extern struct kernel {
	char name[16];
	struct id ids[PIECES_MAX][IDS_MAX];
	size_t n_ids[PIECES_MAX];
	unsigned n_pieces; /* pieces past PIECES_MAX repeat the earlier ones */
	int error; /* the error with which the dump of ids ends: 0 or a negative errno */
	unsigned n_ports;
	unsigned n_replaced; /* how often the device was replaced by another one of its name */
	struct qp qps[QPS_MAX];
	unsigned n_qps;
	int qp_error; /* the error of the next dump of QPs: 0 or a negative errno */
	uint32_t contexts[CONTEXTS_MAX]; /* the thread that has made each; 0: it has ended */
	unsigned n_contexts;
	int context_error; /* the error of each dump of contexts: 0 or a negative errno */
	unsigned skips; /* number of QPs at the beginning that the next dump of QPs leaves out */
	/* Called before each dump of QPs, in the thread that requests it; NULL: not called. */
	void (*on_qp_dump)(void);
	/* Counts of the requests, and of the messages that were read. */
	unsigned n_device_dumps, n_dumps, n_read;
	atomic_uint n_qp_asked, n_qp_dumps, n_context_dumps;
	/* The dump of ids that is being read. */
	bool dumping;
	unsigned next;
} kernel;
