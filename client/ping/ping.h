/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabroker-ping: the example of a whole program with the library, which tests use, too.
 *
 * Each role, client and server, is a sequence of steps. A step starts an operation, and ping_await() waits for its
 * outcome. Calls that the broker answers at once, such as listen, wait for the answer themselves, because the session is
 * not RDMABROKER_NONBLOCK.
 *
 *   client                                          server
 *     connect, with the hello              ───────>   accept, with the hello
 *     SEND round n, SIZE bytes of pattern  ───────>   verifies every byte
 *     verifies every byte                  <───────   RDMA WRITE: the pattern inverted
 *     verifies the message                 <───────   SEND done n
 *   ... and at the end
 *     SEND bye, number of rounds           ───────>   verifies the number
 */

#include <endian.h>
#include <rdmabroker.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/addr.h"
#include "proto/clock.h"

#define PING_MAX_SIZE ((size_t)1 << 20)
#define PING_MAX_WAITING 16 /* connection requests that wait while one is served */
/* The private data of connect and accept: these two and the size of the pattern, in network order. */
#define PING_HELLO_LEN 3
#define PING_MAGIC htobe32(0x70696e67) /* "ping" */
#define PING_VERSION htobe32(1)

/* The outcome of a step. If it is FAILED or REFUSED, an error was printed. */
enum outcome {
	OUTCOME_OK,
	OUTCOME_FAILED,
	OUTCOME_REFUSED, /* by the broker, the peer or the connection manager */
	OUTCOME_ENDED, /* the peer has disconnected or given up, or the device is gone */
	OUTCOME_STOPPED, /* by a signal */
};

/* What is awaited. The first ones are also the states of a connection, in their order; the server's begins RESOLVED. */
enum step {
	STEP_NONE,
	STEP_RESOLVED,
	STEP_ESTABLISHED,
	STEP_DISCONNECTED,
	STEP_SENT, /* what was sent has completed */
	STEP_MESSAGE, /* the same, and a message was received */
	STEP_REQUEST, /* a connection request waits, or the listener is gone */
};

struct options {
	bool serve;
	struct sockaddr_storage addr; /* to listen on, or to connect to */
	struct sockaddr_storage source; /* ss_family 0: the broker chooses */
	uint64_t count, size;
	int timeout_ms; /* for each step */
	uint64_t tos, qpn;
	bool keep, reuseaddr, has_tos, persistent, verbose, use_qpn;
	const char *reject; /* NULL: accept */
};

struct conn {
	struct rdmabroker_id *id; /* NULL: there is no connection */
	enum step state;
	enum outcome outcome; /* not OK: it has ended otherwise than by a disconnect */
	char peer[ADDR_STRLEN];

	/* What data.c has. */
	size_t size; /* of the pattern of a round, in bytes */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uint8_t *memory;
	struct ibv_mr *mr;
	unsigned n_sending;
	size_t received; /* bytes of the message that was received; 0: none */
	uint64_t n_verified; /* number of rounds with correct data */
};

struct ping {
	const struct options *options;
	struct rdmabroker *session;
	int signal_fd;
	bool stop;
	bool lost; /* the session cannot be used any more */
	struct conn conn;

	struct rdmabroker_id *listener;
	bool listener_removed;
	struct conn waiting[PING_MAX_WAITING]; /* by age */
	unsigned n_waiting;
};

/* Returns 0; else exit with *RET_EXIT: the help, the version or an error in the command line was printed. */
int options_parse(struct options *ret, int argc, char **argv, int *ret_exit);

/* Prints a line to stderr, after the program's name. */
__attribute__((format(printf, 1, 2))) void complain(const char *fmt, ...);
/* True if the negative errno R means that the broker rejected the call (policy, a limit, draining). */
bool ping_is_refusal(int r);
/* Prints the error of a call on the session that returned R, and returns its outcome. */
enum outcome ping_call_failed(int r);
/* A signal ends the wait, except that for a disconnect, and a client's wait for the end of a round. */
enum outcome ping_await(struct ping *ping, enum step step);
/* Waits so long, or until a signal comes, or the session or the connection ends. */
void ping_pause(struct ping *ping, int ms);

enum message_type {
	MESSAGE_ROUND = 1, /* from the client: the pattern, and where to write the inverted one */
	MESSAGE_DONE = 2, /* from the server: the inverted pattern is written */
	MESSAGE_BYE = 3, /* from the client: the last message */
};

/* The size of the pattern by the hello in DATA, which padding can follow; 0: this is no hello of rdmabroker-ping. */
size_t data_hello_size(const void *data, size_t len);
/* Makes the connection's QP, and its other objects on the device. */
enum outcome data_open(struct conn *conn);
void data_close(struct conn *conn);
/* Takes completions. False: there were none. */
bool data_poll(struct conn *conn);
enum outcome data_send(struct conn *conn, enum message_type type, uint64_t round);
/* Verify the message that was received. The server answers it, unless it was the last one (*RET_BYE). */
enum outcome data_verify_done(struct conn *conn);
enum outcome data_serve(struct conn *conn, bool *ret_bye);
