/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The kernel's side of RDMA netlink, in the place of libmnl's sockets: one device, and ids on it. Like the
 * real one it makes the next piece of a dump when one is read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIECES_MAX 200
#define IDS_MAX 64 /* in a piece */

/* An id as the kernel has it. */
struct id {
	uint32_t tid; /* 0: of a thread that has ended */
	const char *kernel; /* its name, where it is the kernel's own */
	uint8_t state;
	const char *local, *peer; /* IPv4; NULL: none */
};

enum { CONNECT = 5, ADDR_BOUND = 7, LISTEN = 8 };

extern struct kernel {
	char name[16];
	struct id ids[PIECES_MAX][IDS_MAX];
	size_t n_ids[PIECES_MAX];
	unsigned n_pieces; /* past PIECES_MAX they are the same again */
	int error; /* what the dump ends with: 0 or a negative errno */
	uint32_t qp_port; /* where the QP is that is asked for */
	unsigned n_ports;
	/* What was asked. */
	unsigned n_device_dumps, n_dumps, n_read;
	/* Of the dump that is being read. */
	bool dumping;
	unsigned next;
	uint32_t seq;
} kernel;
