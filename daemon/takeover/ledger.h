/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The ledger: what the next process has to know about the sessions and their ids. It is a file in memory (memfd) that
 * systemd keeps, and that the daemon has mapped. The daemon writes each change in place, so that the ledger is true
 * whenever the daemon is killed.
 *
 * Layout: a header, then tables. The header says where each table begins, and how long its rows are. A row whose first
 * member is 0 is free.
 *
 * Daemons of different versions read each other's ledgers: a new member is added at the end of its row, and 0 in it
 * means that it is not known. If a row is shorter than the reader expects, the rest is 0; what is longer is not read.
 * Only if a member gets another place or another meaning, LEDGER_VERSION changes. A process does not read a ledger of
 * another version, and then nothing is taken over.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define LEDGER_VERSION 2
#define LEDGER_SESSIONS 32768
#define LEDGER_IDS (1u << 20)
#define LEDGER_GROUPS (1u << 18)
#define LEDGER_REQUESTS (1u << 18)
#define LEDGER_LEASES (1u << 17)
#define LEDGER_DEVICE_LEN 64
#define LEDGER_REFUSED_GIDS 16
#define LEDGER_PACKETS (1u << 17)
#define LEDGER_RESTRICTIONS 32768
#define LEDGER_PUBLISHED 4096
#define LEDGER_REFUSED 4096
#define LEDGER_SIGHTINGS 1024
#define LEDGER_RULES 1024 /* the text of a restriction's rules, with its NUL */
#define LEDGER_NAME 40 /* the name of a published socket, with its NUL */
#define LEDGER_PART 480 /* bytes of a packet in one row */
#define LEDGER_ASIDES (1u << 16)
#define LEDGER_ASIDE 488 /* longest packet of a request that is set aside */
#define LEDGER_PACKET 1024 /* longest packet of a request that is kept */

struct fdstore;
struct ledger;

/* Only an older daemon has written these, into the row of a session and into struct ledger_old_leases. */
#define LEDGER_OLD_LEASES 8
#define LEDGER_MORE_OLD_LEASES 24
struct ledger_old_lease {
	char device[LEDGER_DEVICE_LEN]; /* "": free */
	uint32_t n_opens;
	uint32_t access; /* enum policy_access */
};

/* A struct mmsghdr, of which only the length counts: the system call that receives or sends the packet sets it. */
struct ledger_note {
	uint64_t header[8];
};

enum ledger_sent {
	LEDGER_SENT_NOTHING,
	LEDGER_SENT_REPLY, /* to the request in ledger_session.packet */
	LEDGER_SENT_EVENT, /* the event of the id with the handle SENT_NUMBER, see ledger_id.untold */
	LEDGER_SENT_PACKET, /* the packet whose first part has the number SENT_NUMBER, see struct ledger_packet */
};

struct ledger_session {
	uint64_t number; /* 0: the row is free */
	uint64_t since_ms; /* CLOCK_MONOTONIC */
	uint32_t permits; /* enum session_permit; 0: Hello has not succeeded */
	uint32_t
		n_queued; /* packets that the client's socket has not accepted yet, and that are lost */
	uint8_t proven; /* identity.proven */
	uint8_t watches; /* the session watches, so it cannot be taken over */
	uint8_t unit_known;
	uint8_t repeated; /* the request in PACKET is carried out for the second time */
	char unit[256];
	/*
	 * The packet that was received last, whose request was not answered. It is written by the system call that
	 * receives it. Its length is that of RECEIVED; 0: there is none. If it is longer than LEDGER_PACKET, only its
	 * beginning is here.
	 */
	struct ledger_note received;
	uint8_t packet[LEDGER_PACKET];
	/* What was sent last. If the length of SENT is 0, it was not sent. */
	struct ledger_note sent;
	uint32_t sent_what; /* enum ledger_sent */
	uint32_t sent_number;
	struct ledger_old_lease old_leases[LEDGER_OLD_LEASES];
	uint8_t container_known, pod_known, job_known, cgroup_known;
	char container[128], pod[128], job[128], cgroup[1024];
	uint8_t released; /* see session_release() */
	uint8_t confirms; /* session.confirms */
	uint8_t keeps_leases; /* session.keeps_leases; 0 if an older daemon has written the row */
	uint8_t reserved;
	uint64_t restriction; /* the number of its restriction; 0: none */
	/*
	 * The permits of a restricted session. They are not in PERMITS, because a daemon that does not know of
	 * restrictions must not take such a session over.
	 */
	uint32_t restricted_permits;
	uint32_t door; /* enum door; DOOR_COMMON if an older daemon has written the row */
	uint32_t charged_uid,
		charged_range; /* its owner; RANGE 0: an older daemon has written the row */
	uint64_t replies_to; /* session.replies_to; 0 if an older daemon has written the row */
	/*
	 * The permits of a session with REPLIES_TO. They are not in the members above, because a daemon that does not
	 * know of REPLIES_TO would send replies where the client does not expect them, and must not take it over.
	 */
	uint32_t apart_permits;
	uint32_t n_sent; /* outbox.n_sent */
	uint32_t n_sent_next; /* the same, when what SENT is about was sent */
	uint32_t reserved3;
};

struct ledger_id {
	uint64_t session; /* the number of its session; 0: the row is free */
	uint32_t handle;
	uint32_t qpn;
	uint64_t since_ms; /* CLOCK_MONOTONIC */
	uint32_t backlog; /* of a listener */
	int16_t tos_asked, tos, afonly, ack_timeout; /* -1: not set */
	uint16_t ps; /* enum rdma_port_space */
	uint8_t state; /* enum id_state */
	/* the type of the event, plus 1, that the kernel has given and the client has perhaps not got; 0: none */
	uint8_t untold;
	uint8_t passive, reuseaddr_asked, reuseaddr;
	uint8_t qp_timeout;
	uint8_t port_num;
	uint8_t told; /* of a connection request: the client knows of the id */
	uint8_t route; /* the route is to be resolved after the address, see ResolveAddr.route */
	uint8_t ahead; /* the same, see ResolveAddr.ahead */
	uint8_t held; /* the connect or accept is held back, see core/object/timewait.h: the kernel does not know of it */
	uint8_t state_before, route_before, ahead_before; /* before the event that is UNTOLD */
	char device[LEDGER_DEVICE_LEN];
	struct sockaddr_storage local, peer; /* ss_family 0: none */
	uint8_t was_asked; /* it was asked who the peer is; if that is not known, it counts as false: nothing is allowed by it */
	uint8_t unconfirmed; /* handshake.unconfirmed */
	uint8_t ended_from; /* handshake.ended_from */
	uint8_t min_rnr_timer; /* the option, plus 1; 0: not set */
	uint8_t any_port; /* the kernel has chosen its port */
	uint8_t qp_type; /* the option, plus 1; 0: not set */
	uint16_t path_pkey; /* route.path_pkey; 0 if an older daemon has written the row */
};

/* Whether the client has got the outcome of a join. */
enum ledger_answer {
	LEDGER_UNANSWERED,
	LEDGER_ANSWERED,
	LEDGER_BEING_ANSWERED, /* see the UNTOLD of its id */
};

/* A multicast group that an id has joined. */
struct ledger_group {
	uint64_t session; /* the number of its session; 0: the row is free */
	uint32_t id; /* the id's handle */
	uint32_t join_flags; /* as in JoinMulticast */
	uint8_t answer; /* enum ledger_answer */
	uint8_t reserved[7];
	struct sockaddr_storage addr;
};

/* What a connection request contains that was not answered yet. */
struct ledger_request {
	uint64_t
		session; /* the number of the session that has got the request; 0: the row is free */
	uint32_t id; /* the handle of the request's id */
	uint32_t qpn, qkey;
	uint32_t ece_vendor, ece_options;
	uint8_t responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count,
		srq;
	uint8_t reserved;
	uint8_t data_len;
	uint8_t data[256];
};

/* A request that is set aside, see rpc/kept.h. An older daemon does not read these: the request is lost. */
struct ledger_aside {
	uint64_t session; /* the number of its session; 0: the row is free */
	uint32_t id; /* the id's handle */
	uint16_t len;
	uint8_t repeated; /* as in struct ledger_session */
	uint8_t reserved;
	uint8_t packet[LEDGER_ASIDE];
};

/* A part of a packet that the client's socket has not accepted yet. */
struct ledger_packet {
	uint64_t session; /* the number of its session; 0: the row is free */
	uint32_t number; /* the parts of a session's packets are numbered in their order */
	uint32_t
		next; /* the row of the packet's next part, plus 1; 0: none; only for the process itself */
	uint64_t serial; /* serial of the request that the packet answers; 0: it is no reply */
	uint32_t
		id; /* handle of the id whose charge covers the packet; 0: it is charged as bytes */
	uint32_t type; /* the type of its event, if ID is not 0 */
	uint16_t len;
	uint8_t goes_on; /* the packet has another part */
	uint8_t reserved[5];
	uint8_t data[LEDGER_PART];
};

/* See core/object/restriction.h. */
struct ledger_restriction {
	uint64_t number; /* 0: the row is free */
	uint64_t parent; /* the number of its parent; 0: none */
	uint32_t max_ids;
	uint32_t reserved;
	char text[LEDGER_RULES];
};

struct ledger_old_leases {
	uint64_t session; /* the number of the session; 0: the row is free */
	struct ledger_old_lease leases[LEDGER_MORE_OLD_LEASES];
};

/* An older daemon does not read these: what it takes over has no leases. */
struct ledger_lease {
	uint64_t session; /* the number of its session; 0: the row is free */
	uint32_t n_opens;
	uint32_t access; /* enum policy_access */
	char device[LEDGER_DEVICE_LEN];
};

/* See rpc/published.h. */
struct ledger_published {
	uint64_t number; /* 0: the row is free */
	uint64_t session; /* the number of the session that has published it */
	char name[LEDGER_NAME];
};

struct ledger_prefix {
	uint8_t family; /* 4, 6 or ADDR_KIND_GID of proto/addr.h; 0: not known */
	uint8_t bits; /* the length of the prefix */
	uint8_t reserved[6];
	uint8_t address[16];
};

/* See core/admit/refused.h. What is not known is empty. */
struct ledger_refused {
	uint64_t number; /* 0: the row is free */
	uint64_t first_ms, last_ms; /* CLOCK_REALTIME */
	uint64_t n; /* how often */
	uint32_t uid;
	uint16_t port, ps;
	uint8_t operation; /* enum policy_operation */
	uint8_t outcome; /* enum refused_outcome */
	uint8_t port_kind; /* enum refused_port */
	uint8_t n_gids;
	uint8_t reserved[4];
	struct ledger_prefix local, peer;
	char device[LEDGER_DEVICE_LEN];
	char name[32]; /* of the program, which it has chosen itself */
	char unit[256], container[128], pod[128], job[128];
	char rule[256]; /* "file:line" */
	uint32_t gids[LEDGER_REFUSED_GIDS]; /* groups that all these processes were in; sorted */
	uint32_t charged_uid, charged_range; /* as in struct ledger_session */
	uint16_t
		pkey; /* the partition that was named; 0: none, or an older daemon has written the row */
	uint8_t reserved2[6];
};

/* How much of what was refused is in the rows of struct ledger_refused. */
struct ledger_learned {
	uint64_t since_ms; /* CLOCK_REALTIME: rows are kept since then */
	uint64_t n_left; /* rows that have left since then, because there were too many */
	uint64_t left_ms; /* CLOCK_REALTIME: the first of them has left; 0: none has */
};

/* See core/facts/sighting.h. */
struct ledger_sighting {
	uint64_t number; /* 0: the row is free */
	uint64_t first_ms, last_ms; /* CLOCK_REALTIME */
	uint32_t uid;
	uint32_t charged_uid, charged_range; /* as in struct ledger_session */
	uint8_t had_ids;
	uint8_t reserved[3];
	char name[32]; /* of the program, which it has chosen itself */
	char unit[256];
};

struct ledger_sampling {
	uint64_t since_ms, last_ms; /* CLOCK_REALTIME: the first sample, and the last one */
};

/*
 * Makes a new ledger and stores it. Without a store, *RET is NULL: nothing is kept, and the functions below do
 * nothing.
 */
int ledger_new(struct ledger **ret, struct fdstore *store);
struct ledger *ledger_free(struct ledger *ledger); /* what is stored stays stored */

/*
 * The tables, in the order of the file; a new one comes last. A table has at most MAX rows of struct ledger_NAME. The next
 * process finds the used ones in the members ROWS and N of its struct old_ledger, sorted as struct ledger_key is: they begin
 * as it does, or no two of them have the same first member. So a restriction comes after its parent.
 */
#define LEDGER_TABLES(TABLE)                                                  \
	TABLE(session, LEDGER_SESSIONS, sessions, n_sessions)                 \
	TABLE(id, LEDGER_IDS, ids, n_ids)                                     \
	TABLE(group, LEDGER_GROUPS, groups, n_groups)                         \
	TABLE(request, LEDGER_REQUESTS, requests, n_requests)                 \
	TABLE(packet, LEDGER_PACKETS, packets, n_packets)                     \
	TABLE(restriction, LEDGER_RESTRICTIONS, restrictions, n_restrictions) \
	TABLE(published, LEDGER_PUBLISHED, published_sockets, n_published)    \
	TABLE(old_leases, 0, old_leases, n_old_leases)                        \
	TABLE(refused, LEDGER_REFUSED, refused, n_refused)                    \
	TABLE(lease, LEDGER_LEASES, leases, n_leases)                         \
	TABLE(learned, 1, learned, n_learned)                                 \
	TABLE(sighting, LEDGER_SIGHTINGS, sightings, n_sightings)             \
	TABLE(sampling, 1, samplings, n_samplings)                            \
	TABLE(aside, LEDGER_ASIDES, asides, n_asides)

enum ledger_table {
#define TABLE(name, ...) LEDGER_TABLE_##name,
	LEDGER_TABLES(TABLE) _LEDGER_TABLES
#undef TABLE
};

void *ledger_add(struct ledger *ledger, enum ledger_table table);
void *ledger_remove(struct ledger *ledger, enum ledger_table table, void *row);
/*
 * ledger_add_NAME() returns a free row, all zero; NULL: the table is full, or there is no ledger. Set its first member to use it.
 * ledger_remove_NAME() frees the row. It takes NULL, and returns NULL.
 */
#define TABLE(name, ...)                                                                    \
	static inline struct ledger_##name *ledger_add_##name(struct ledger *ledger)        \
	{                                                                                   \
		return ledger_add(ledger, LEDGER_TABLE_##name);                             \
	}                                                                                   \
	static inline struct ledger_##name *ledger_remove_##name(struct ledger *ledger,     \
								 struct ledger_##name *row) \
	{                                                                                   \
		return ledger_remove(ledger, LEDGER_TABLE_##name, row);                     \
	}
LEDGER_TABLES(TABLE)
#undef TABLE

/* NEXT is the next part of PART's packet. */
void ledger_link_parts(struct ledger *ledger, struct ledger_packet *part,
		       const struct ledger_packet *next);
struct ledger_packet *ledger_next_part(struct ledger *ledger, const struct ledger_packet *part);
/* The number of the last session that was begun, so that no number is used twice. */
void ledger_set_last_session(struct ledger *ledger, uint64_t number);
/*
 * True while an event has been taken from the kernel, or is about to be, and its effect is not in the ledger yet. If
 * the process dies then, one event can be lost (old_ledger.event_lost). NULL: there is no ledger.
 */
uint32_t *ledger_get_reading(struct ledger *ledger);

struct mmsghdr *ledger_note_header(struct ledger_note *note);
uint32_t ledger_note_length(const struct ledger_note *note);
void ledger_note_set(struct ledger_note *note, uint32_t length);

/* True: the session's Hello has succeeded, or it was released. */
static inline bool ledger_session_is_open(const struct ledger_session *row)
{
	return row->permits != 0 || row->restricted_permits != 0 || row->apart_permits != 0 ||
	       row->released;
}

#define OLD_LEDGERS_MAX 16

/* The rows about a session begin in this way. ID: the id's handle; of a packet: its number. */
struct ledger_key {
	uint64_t session;
	uint32_t id;
};

/* What the previous process has left, copied. */
struct old_ledger {
	uint64_t last_session;
	uint64_t generation; /* 0: nothing was left */
#define TABLE(name, max, member, n)   \
	struct ledger_##name *member; \
	size_t n;
	LEDGER_TABLES(TABLE)
#undef TABLE
	bool tried; /* a process has died while it took this ledger over */
	/* An event can have been taken from the kernel that no ledger knows of, see ledger_get_reading(). */
	bool event_lost;
	unsigned old[OLD_LEDGERS_MAX]; /* the numbers of the ledgers in the store */
	unsigned n_old;
};

/*
 * Reads the newest ledger that is complete. -ENOENT: there is none; -EPROTO: it cannot be taken over, and *RET_WHY says
 * why: it is of another version, or damaged, or three processes have begun to take it over and none has come to the
 * end. *RET has to be freed with old_ledger_free(), also on failure.
 */
int old_ledger_read(struct old_ledger *ret, struct fdstore *store, const char **ret_why);
void old_ledger_free(struct old_ledger *old);
/*
 * The first of N rows of an old_ledger, of SIZE bytes each, that is not before SESSION and ID. N: there is none. Only
 * for rows that begin as struct ledger_key.
 */
size_t old_ledger_find(const void *rows, size_t n, size_t size, uint64_t session, uint32_t id);
/* Nothing is taken over. ledger_complete() still removes the ledgers from the store. */
void old_ledger_forget(struct old_ledger *old);
/*
 * LEDGER is complete: all that is still needed of OLD is in it. Removes OLD from the store. LEDGER's generation is that
 * of OLD plus 1. To be called also if there was nothing to take over.
 */
void ledger_complete(struct ledger *ledger, const struct old_ledger *old);
uint64_t ledger_get_generation(const struct ledger *ledger); /* from 1; 0: there is no ledger */
