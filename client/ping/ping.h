/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabroker-ping: both roles, client and server, over one session.
 *
 * The code of each role is a sequence of steps; each step starts an operation and waits for its outcome. Calls that
 * need the broker's reply, such as listen, wait for it, because the session is not RDMABROKER_NONBLOCK. ping_pump()
 * polls for everything else.
 */

#include <netinet/in.h>
#include <rdmabroker.h>
#include <stdbool.h>
#include <stdint.h>

#include "data.h"
#include "proto/clock.h"

#define PING_MAX_WAITING 16 /* connection requests that wait while one is served */
#define PING_ADDR_STRLEN (INET6_ADDRSTRLEN + 24) /* [ADDR%SCOPE]:PORT */

/* The outcome of a step. If it is FAILED or REFUSED, an error was printed. */
enum outcome {
	OUTCOME_OK = 0,
	OUTCOME_FAILED,
	OUTCOME_REFUSED, /* rejected by the broker, the peer or the connection manager */
	OUTCOME_GONE, /* the peer disconnected or gave up */
	OUTCOME_REMOVED, /* the device is gone */
	OUTCOME_STOPPED, /* stopped by a signal */
};

struct options {
	bool serve;
	struct sockaddr_storage addr; /* to listen on, or to connect to */
	struct sockaddr_storage source; /* ss_family 0: the broker chooses */
	uint64_t count;
	size_t size;
	int timeout_ms; /* for each step */
	int tos; /* -1: do not set */
	bool reuseaddr;
	bool keep;
	bool persistent;
	const char *reject; /* NULL: accept */
	bool verbose;
	bool quiet;
	bool use_qpn;
	uint32_t qpn;
};

/*
 *   IDLE ─> ADDR_RESOLVED ─> ROUTE_RESOLVED ─> ESTABLISHED ─> DISCONNECTED
 *    (the server's side of a connection starts in ROUTE_RESOLVED)
 *   any ─> ENDED
 */
enum conn_state {
	CONN_IDLE,
	CONN_ADDR_RESOLVED,
	CONN_ROUTE_RESOLVED,
	CONN_ESTABLISHED,
	CONN_DISCONNECTED,
	CONN_ENDED, /* ended otherwise than by a disconnect: see conn.outcome */
};

struct conn {
	struct rdmabroker_id *id;
	enum conn_state state;
	enum outcome outcome; /* CONN_ENDED: why it ended */
	bool has_data;
	struct data data;
	char peer[PING_ADDR_STRLEN];
};

struct request {
	struct rdmabroker_id *id;
	uint8_t data[RDMABROKER_CONNECT_DATA_MAX];
	size_t len;
};

struct ping {
	const struct options *options;
	struct rdmabroker *session;
	int signal_fd;
	bool stop;
	bool lost; /* the session cannot be used any more */
	struct conn *conn; /* the current connection; NULL: none */

	struct rdmabroker_id *listener;
	bool listener_removed;
	struct request waiting[PING_MAX_WAITING];
	size_t n_waiting;
};

/* Returns 0; else exit with *RET_EXIT: the help, the version or an error in the command line was printed. */
int options_parse(struct options *ret, int argc, char **argv, int *ret_exit);

/* True if the negative errno R means that the broker rejected the call (policy, a limit, draining). */
bool ping_is_refusal(int r);
const char *ping_addr_to_string(char buf[PING_ADDR_STRLEN], const struct sockaddr *addr);
/* Prints a line to stderr, after the program's name. */
__attribute__((format(printf, 1, 2))) void complain(const char *fmt, ...);
/* Prints a line to stdout, unless -q is given. */
__attribute__((format(printf, 2, 3))) void say(const struct ping *ping, const char *fmt, ...);
/* Prints the error of a call on the session that returned R, and returns its outcome. */
enum outcome ping_call_failed(int r);
/* Prints the error of a call on the connection's data, and returns its outcome. */
enum outcome ping_data_failed(const struct conn *conn);

/* Handles events and completions; waits if there are none. -ETIMEDOUT: DEADLINE is past. DEADLINE -1: no deadline. */
int ping_pump(struct ping *ping, int64_t deadline);
/*
 * Waits until the connection is in STATE. A signal ends the wait with OUTCOME_STOPPED, unless STATE is
 * CONN_DISCONNECTED. DOING: the step, for error messages.
 */
enum outcome ping_await(struct ping *ping, enum conn_state state, const char *doing);
/*
 * Waits until a message was received, and the last one that was sent has completed. OUTCOME_GONE: the peer has
 * disconnected, and a line says so. A signal ends only a server's wait.
 */
enum outcome ping_await_message(struct ping *ping);

/*
 * Gives the connection its memory and its QP, unless --qpn is given. *RET: the parameters of connect and accept, with
 * HELLO as private data.
 */
enum outcome ping_prepare(struct ping *ping, struct conn *conn, size_t size,
			  uint8_t hello[DATA_HELLO_LEN], struct rdmabroker_conn_param *ret);
/* If the connection is established, disconnects it, and waits until it has ended. */
enum outcome ping_disconnect(struct ping *ping, struct conn *conn);
/* Frees the connection, and all its objects on the device. */
void ping_conn_done(struct ping *ping, struct conn *conn);
void ping_print_result(const struct ping *ping, const struct conn *conn, int64_t start);

enum outcome client_run(struct ping *ping);
enum outcome server_run(struct ping *ping);
