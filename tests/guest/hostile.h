/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_GUEST_HOSTILE_H
#define TESTS_GUEST_HOSTILE_H

/*
 * Clients that break the protocol, or that use too many resources. Each attack is a subcommand, which prints a
 * summary and a line for each failure. The suite checks that the daemon goes on, and serves other clients.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/patience.h"

/* The longest time for a reply of the daemon. */
#define DEADLINE_MS PATIENCE_MS

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME

enum end {
	END_CLOSED, /* the connection was closed */
	END_REFUSED, /* a reply that reports a failure */
	END_DONE, /* a reply that reports success */
	END_SILENCE,
	END_GARBAGE, /* a packet that the daemon never sends, or not at this time */
};
#define N_ENDS (END_GARBAGE + 1)
#define ALLOW(end) (1u << (end))

struct answer {
	enum end end;
	uint32_t serial;
	uint32_t status; /* only with END_REFUSED */
	char proof[64]; /* name that a proof's socket must have; empty: no proof is needed */
};

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
/* Reports an error of the daemon. The attack goes on, but a certain number of errors ends it. */
__attribute__((format(printf, 1, 2))) void failed(const char *fmt, ...);
int64_t now_ms(void);
uint32_t random_next(void);
void fill_random(uint8_t *buf, size_t len);
unsigned number(const char *text);

/* FLAGS: for socket(2). Returns -1 and sets errno if it cannot connect. */
int try_connect(int flags);
int must_connect(void);
/*
 * Says hello with serial 1. PROVES: this process proves who it is, if the daemon asks for it; otherwise its unit and its
 * workload are not known.
 */
struct answer greet(int sock, bool proves);
/* The session has proven who it is, and is admitted. */
int greeted_connect(void);

/* Sends one packet. If the connection has ended, await_answer() reports it. */
void send_bytes(int sock, const void *buf, size_t len);
/* Sends one packet without blocking. Returns false if the socket is full or closed. RET_GONE: it is closed. */
bool try_send(int sock, const void *buf, size_t len, bool *ret_gone);
size_t pack_request(uint8_t buf[PACKET_MAX], Rdmabroker__Request *request);
size_t pack_hello(uint8_t buf[PACKET_MAX], uint32_t version);

/* Waits for the next reply or the connection's end. Skips events and notices. */
struct answer await_answer(int sock, int timeout_ms);
/* Waits DEADLINE_MS. A reply to a request other than SERIAL is END_GARBAGE. */
enum end await_end(int sock, uint32_t serial);
/* Counts one attempt. END must be among ALLOWED. */
void judge(const char *what, enum end end, unsigned allowed);

/* hostile-protocol.c */
void attack_raw(char **argv);
void attack_fds(char **argv);
void attack_protocol(char **argv);
void attack_fields(char **argv);
void attack_flipped(char **argv);
void attack_cut(char **argv);
void attack_limits(char **argv);
void attack_keep(char **argv);
void attack_linger(char **argv);
void attack_requests(char **argv);
void attack_strangers(char **argv);

/* hostile-identity.c */
void attack_pid(char **argv);
void attack_rights(char **argv);

/* hostile-load.c */
void attack_unread(char **argv);
void attack_crowd(char **argv);
void attack_slow(char **argv);
void attack_flood(char **argv);
void attack_groups(char **argv);

#endif
