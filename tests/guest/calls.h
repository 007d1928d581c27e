/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_GUEST_CALLS_H
#define TESTS_GUEST_CALLS_H

/* The programs of the suite "calls": subcommands of the binary calls. A failure ends a program with status 1. */

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdmabroker.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/patience.h"

#define DEADLINE_MS PATIENCE_MS /* the longest timeout of a call or wait */

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
int64_t now_ms(void);
const char *error_name(int r);
int number(const char *text);
const char *argument(char **argv, int i); /* "": none */

/* Prints NAME, and waits for a line from the suite. If no line comes in time, the program fails. */
void step(const char *name);
/* Returns whether the suite has sent a line, and consumes the line. Does not wait. */
bool step_is_over(void);

struct rdmabroker *open_session(unsigned flags);
/* R: the result of a call. If it is not 0, prints the error, and fails. */
void must(struct rdmabroker *session, const char *what, int r);
/* The call must have failed with EXPECTED. Prints its error text. */
void must_fail(const char *what, int r, int expected);

/* The next event must have TYPE, and belong to ID unless ID is NULL. */
struct rdmabroker_event *await_event(struct rdmabroker *session, struct rdmabroker_id *id,
				     enum rdmabroker_event_type type);
void drop_event(struct rdmabroker *session, struct rdmabroker_id *id,
		enum rdmabroker_event_type type);

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};
union address make_address(const char *host, const char *port);
struct rdmabroker_id *new_id(struct rdmabroker *session, enum rdmabroker_port_space ps);
struct rdmabroker_id *listen_on(struct rdmabroker *session, enum rdmabroker_port_space ps,
				const union address *address);
struct rdmabroker_id *resolve(struct rdmabroker *session, enum rdmabroker_port_space ps,
			      const union address *address);

/* calls-link.c: a QP with its memory */

enum link_mode {
	LINK_OWN, /* the library makes and moves the QP */
	LINK_SET, /* the program makes the QP, and the library moves it */
	LINK_EXTERNAL, /* the program makes and moves the QP, and offers the library only its number */
	LINK_RESET, /* as LINK_EXTERNAL, but the QP is still in RESET when the id connects */
	LINK_SRQ, /* the library makes the QP, with a shared receive queue */
};

#define LINK_RECEIVES 4
#define PATTERN_SIZE 960 /* a whole message fits into a datagram */
#define PATTERN_WRITTEN 1000000000000u /* plus the round: seed of the server's write */

struct message {
	uint64_t round;
	uint64_t addr; /* address of the client's target, to which the server writes */
	uint32_t rkey;
	uint32_t who; /* in answers: number of the server */
	uint8_t pattern[PATTERN_SIZE];
};

struct link_memory {
	uint8_t grh[40]; /* only of datagrams, immediately before the message */
	struct message message;
};

struct link {
	struct rdmabroker_id *id;
	enum link_mode mode;
	struct ibv_pd *pd; /* the PD of the QP and the memory; not owned */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct {
		struct link_memory receives[LINK_RECEIVES];
		struct link_memory send;
		uint8_t target[PATTERN_SIZE];
	} * memory;
	struct ibv_mr *mr;
	uint64_t round; /* the last round that was verified */
	bool is_answering; /* a server's last send has not completed */
	struct ibv_wc early[LINK_RECEIVES]; /* receives that completed before they were awaited */
	unsigned n_early;
	/* Posted operations that have not completed with success; N_FAILED: completions with an error. */
	unsigned n_sends, n_writes, n_receives, n_failed;
	struct link *next; /* list of links in calls-stall.c */
};

enum link_mode link_mode(const char *name);
void link_init(struct link *link, struct rdmabroker_id *id, enum link_mode mode);
/* For an id without a device: uses the device of VERBS, and PD. */
void link_init_on(struct link *link, struct rdmabroker_id *id, enum link_mode mode,
		  struct ibv_context *verbs, struct ibv_pd *pd);
struct ibv_qp_init_attr link_qp_attr(const struct link *link, enum ibv_qp_type type);
/* Stores the QP that the library has made for the id, and posts its receives. */
void link_take_qp(struct link *link);
/* Makes the QP and posts its receives, except with LINK_RESET: a QP in RESET accepts none. */
void link_make_qp(struct link *link, enum ibv_qp_type type);
/* Whether the library does not know the QP: LINK_EXTERNAL and LINK_RESET. */
bool link_is_external(const struct link *link);
void link_move(struct link *link, enum ibv_qp_state state);
/* Frees all that the link has made. The caller destroys the id. */
void link_done(struct link *link);

void link_post_receive(struct link *link, unsigned slot);
struct link_dest {
	struct ibv_ah *ah;
	uint32_t qpn;
	uint32_t qkey;
	struct ibv_ah_attr attr; /* attributes of ah, if the destination is a group */
};
void link_post_send(struct link *link, const struct link_dest *dest);
void link_post_write(struct link *link, const struct message *request);

/*
 * Waits for a completion with OPCODE. Skips other successful completions, but keeps receives for a later call.
 * Returns false if a completion failed or the timeout passed. RET then has the failed status (IBV_WC_SUCCESS:
 * timeout).
 */
bool link_try(struct link *link, enum ibv_wc_opcode opcode, int timeout_ms, struct ibv_wc *ret);
/* Like link_try(), but the program fails where link_try() returns false. */
void link_await(struct link *link, enum ibv_wc_opcode opcode, struct ibv_wc *ret);

void pattern_fill(uint8_t *bytes, uint64_t seed);
void pattern_check(const char *what, const uint8_t *bytes, uint64_t seed);

/* calls-stall.c: prints the state if something does not happen in time */

/* Called by link_init_on() and link_done(). */
void stall_add(struct link *link);
void stall_remove(struct link *link);
/*
 * Prints to stderr WHAT did not happen, the state of the QPs, and counters of the devices and the network. Takes some
 * seconds. Consumes the events of SESSION and the completions of LINK (NULL: none), so the caller has to fail.
 */
void stall_tell(struct rdmabroker *session, struct link *link, const char *what);

/* Verifies a received datagram, and answers its sender at ATTR. */
void datagram_answer(struct link *link, const struct ibv_wc *wc, struct ibv_ah_attr *attr);

/*
 * calls-peer.c: both ends of a round. The client sends a pattern. The server verifies it, writes a second pattern to
 * the client's memory, and answers with a third. The client verifies the second and the third.
 */

/* The option ACK_TIMEOUT that client_connect() and server_accept() set; -1: none. */
extern int ack_timeout;

void client_connect(struct link *link, struct rdmabroker *session, const union address *address,
		    enum link_mode mode);
/*
 * A round has two steps: client_ask() sends, and client_take() verifies the answer. RET_WHO: set to the server's
 * number; NULL: not needed.
 */
enum answer {
	ANSWER_NONE, /* no answer within the timeout */
	ANSWER_VERIFIED,
	ANSWER_FAILED, /* the connection has failed */
};
void client_ask(struct link *link);
enum answer client_take(struct link *link, int timeout_ms, uint32_t *ret_who);
/* Makes a round, and fails without an answer. Returns the server's number. */
uint32_t client_round(struct link *link);
void client_disconnect(struct link *link);

struct server;
struct server *server_new(struct rdmabroker *session, uint32_t who, enum link_mode mode);
void server_accept(struct server *server, struct rdmabroker_id *request);
/*
 * Waits for an event, a completion or input from FD (-1: none), and handles events and completions. Returns true if
 * FD has input, which is not read.
 */
bool server_wait(struct server *server, int fd);
unsigned server_n_links(const struct server *server);
unsigned server_n_ended(const struct server *server);
bool server_lost_device(const struct server *server);
void server_free(struct server *server);

/* The subcommands. ARGV begins after the subcommand's name. */
int datagram_server(char **argv);
int datagram_client(char **argv);
int datagram_refuser(char **argv);
int datagram_refused(char **argv);
int multicast_receive(char **argv);
int multicast_send(char **argv);
int multicast_denied(char **argv);
int workers(char **argv);
int many(char **argv);
int forking(char **argv);
int fork_too_late(char **argv);
int list_fds(char **argv);
int deadline_broker(char **argv);
int deadline_silent(char **argv);
int deadline_connect(char **argv);
int deadline_accept(char **argv);
int deadline_disconnect(char **argv);
int disconnect_stopped(char **argv);
int serve(char **argv);
int client(char **argv);
int client_leaves(char **argv);
int client_reset(char **argv);
int number_server(char **argv);
int number_client(char **argv);
int connect_to(char **argv);
int removal_server(char **argv);
int removal_client(char **argv);
int threads_waiting(char **argv);
int threads_pumped(char **argv);
int binds(char **argv);
int options(char **argv);
int devices(char **argv);
int reloads(char **argv);

#endif
