/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_GUEST_CALLS_H
#define TESTS_GUEST_CALLS_H

/*
 * Programs of the suite calls: each is a subcommand, and ends at its first failure with status 1.
 */

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdmabroker.h>
#include <stdbool.h>
#include <stdint.h>

/* No wait of these programs is longer. */
#define DEADLINE_MS 60000

/* calls.c: what all use */

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
int64_t now_ms(void);
const char *error_name(int r);
int number(const char *text);
const char *argument(char **argv, int i); /* "" where there is none */

/* Tells NAME, and waits until the suite says to go on. */
void step(const char *name);
/* Whether the suite has said so: without waiting. */
bool step_is_over(void);

struct rdmabroker *open_session(unsigned flags);
/* R is what a call has returned: 0, or the end. */
void must(struct rdmabroker *session, const char *what, int r);
/* The same for a call that has to fail. Its words are printed. */
void must_fail(struct rdmabroker *session, const char *what, int r, int expected);

/* The next event, which has to be a TYPE, of ID unless that is NULL. */
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
/* With its address and its route. */
struct rdmabroker_id *resolve(struct rdmabroker *session, enum rdmabroker_port_space ps,
			      const union address *address);

/* calls-link.c: a QP with its memory */

enum link_mode {
	LINK_OWN, /* made by the library */
	LINK_SET, /* made here, and told to the library */
	LINK_EXTERNAL, /* made and moved here */
	LINK_RESET, /* made here, and offered without having been moved */
	LINK_SRQ, /* made by the library, with a shared receive queue */
};

#define LINK_RECEIVES 4
#define PATTERN_SIZE 960 /* with the rest of a message within a datagram */
#define PATTERN_WRITTEN 1000000000000u /* added to the round: what the server writes */

struct message {
	uint64_t round;
	uint64_t addr; /* where the server is to write, in the client's target */
	uint32_t rkey;
	uint32_t who; /* in answers: the server's number */
	uint8_t pattern[PATTERN_SIZE];
};

struct link_memory {
	uint8_t grh[40]; /* datagrams come with it, right before the message */
	struct message message;
};

struct link {
	struct rdmabroker_id *id;
	enum link_mode mode;
	struct ibv_pd *pd; /* the session's */
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
	uint64_t round; /* verified so far */
	bool is_answering; /* a server's: its last send has not completed */
	struct ibv_wc early[LINK_RECEIVES]; /* receives that came while another was waited for */
	unsigned n_early;
	/* Posted, and not completed well; n_failed have completed badly. */
	unsigned n_sends, n_writes, n_receives, n_failed;
	struct link *next; /* links in calls-stall.c */
};

enum link_mode link_mode(const char *name);
void link_init(struct link *link, struct rdmabroker_id *id, enum link_mode mode);
/* The same before the id has a device, on VERBS and with a PD of it. */
void link_init_on(struct link *link, struct rdmabroker_id *id, enum link_mode mode,
		  struct ibv_context *verbs, struct ibv_pd *pd);
struct ibv_qp_init_attr link_qp_attr(const struct link *link, enum ibv_qp_type type);
/* That the library has made meanwhile, with receives. */
void link_take_qp(struct link *link);
/* The QP, whose receives are posted. */
void link_make_qp(struct link *link, enum ibv_qp_type type);
/* A QP of LINK_EXTERNAL and LINK_RESET, which the library does not know. */
bool link_is_external(const struct link *link);
void link_move(struct link *link, enum ibv_qp_state state);
/* Before the id is destroyed. */
void link_done(struct link *link);

void link_post_receive(struct link *link, unsigned slot);
/* DEST: of a datagram. */
struct link_dest {
	struct ibv_ah *ah;
	uint32_t qpn;
	uint32_t qkey;
	struct ibv_ah_attr attr; /* of a group */
};
void link_post_send(struct link *link, const struct link_dest *dest);
void link_post_write(struct link *link, const struct message *request);

/*
 * The next completion of the wanted opcode within the time, others succeed silently; false: none,
 * or it failed, which *ret tells (IBV_WC_SUCCESS: it is the time that is over).
 */
bool link_try(struct link *link, enum ibv_wc_opcode opcode, int timeout_ms, struct ibv_wc *ret);
/* It has to come. */
void link_await(struct link *link, enum ibv_wc_opcode opcode, struct ibv_wc *ret);

void pattern_fill(uint8_t *bytes, uint64_t seed);
void pattern_check(const char *what, const uint8_t *bytes, uint64_t seed);

/* calls-stall.c: what there is to know when something that has to come does not come in time */

/* Done by link_init and link_done. */
void stall_add(struct link *link);
void stall_remove(struct link *link);
/*
 * Before the end: prints on stderr the QPs of this process and what is outstanding on them, what
 * netlink shows of the peers', and the counters of the devices and the network. Takes the session's
 * events and the link's completions, either may be NULL, and some seconds.
 */
void stall_tell(struct rdmabroker *session, struct link *link, const char *what);

/* calls-datagram.c: verifies what has come, and answers its sender at ATTR */
void datagram_answer(struct link *link, const struct ibv_wc *wc, struct ibv_ah_attr *attr);

/* calls-peer.c: the two ends of rounds. The client sends a pattern; the server verifies it, writes
 * another into the client's memory, and answers; the client verifies both. */

/* The ACK_TIMEOUT that all connections of this process ask for; -1: none. */
extern int ack_timeout;

/* Connects with _wait forms. */
void client_connect(struct link *link, struct rdmabroker *session, const union address *address,
		    enum link_mode mode);
/* A round in two steps; *ret_who may be NULL. */
enum answer {
	ANSWER_NONE, /* within the time */
	ANSWER_VERIFIED,
	ANSWER_FAILED, /* the connection is broken */
};
void client_ask(struct link *link);
enum answer client_take(struct link *link, int timeout_ms, uint32_t *ret_who);
/* Ask and take; who has answered. */
uint32_t client_round(struct link *link);
void client_disconnect(struct link *link);

struct server;
struct server *server_new(struct rdmabroker *session, uint32_t who, enum link_mode mode);
void server_accept(struct server *server, struct rdmabroker_id *request);
/* Until something comes, of the session, of a link, or from FD (-1: none): true if from that. */
bool server_wait(struct server *server, int fd);
unsigned server_n_links(const struct server *server);
unsigned server_n_ended(const struct server *server);
bool server_lost_device(const struct server *server);
void server_free(struct server *server);

/* The subcommands: argv[0] is the first argument after the name. */
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
int connect_to(char **argv);
int connect_to_refused(char **argv);
int removal_server(char **argv);
int removal_client(char **argv);
int threads_waiting(char **argv);
int threads_pumped(char **argv);
int binds(char **argv);
int options(char **argv);
int devices(char **argv);
int reloads(char **argv);

#endif
