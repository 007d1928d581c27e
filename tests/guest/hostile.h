/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_GUEST_HOSTILE_H
#define TESTS_GUEST_HOSTILE_H

/*
 * Clients that do not keep to the protocol, or do and want too much. Each attack is a subcommand; it says
 * what came of it in one line, and more only of what should not be. Whether the daemon lives on, and what
 * it does for others meanwhile, is for the suite to see.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"

/* No answer of the daemon's takes longer. */
#define DEADLINE_MS 60000

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME

enum end {
	END_CLOSED, /* dropped */
	END_REFUSED, /* a reply with a failure */
	END_DONE, /* a reply without one */
	END_SILENCE,
	END_GARBAGE, /* not something that a daemon sends, or not now */
};
#define N_ENDS (END_GARBAGE + 1)
#define ALLOW(end) (1u << (end))

struct answer {
	enum end end;
	uint32_t serial;
	uint32_t status; /* of END_REFUSED */
	char proof[64]; /* that a reply to hello asks for; empty: none */
};

/* hostile.c: what all use */

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
/* Something is wrong with the daemon; the attack goes on, as far as that makes sense. */
__attribute__((format(printf, 1, 2))) void failed(const char *fmt, ...);
int64_t now_ms(void);
uint32_t random_next(void);
void fill_random(uint8_t *buf, size_t len);
unsigned number(const char *text);

/* FLAGS of socket(2). -1: not taken, see errno. */
int try_connect(int flags);
int must_connect(void);
/* With an honest hello, serial 1. */
int greeted_connect(void);

/* To a connection that has ended too: that shows when the answer is awaited. */
void send_bytes(int sock, const void *buf, size_t len);
/* Never blocks. False: not now; *ret_gone: nor ever. */
bool try_send(int sock, const void *buf, size_t len, bool *ret_gone);
size_t pack_request(uint8_t buf[PACKET_MAX], Rdmabroker__Request *request);
size_t pack_hello(uint8_t buf[PACKET_MAX], uint32_t version);

/* The next reply, within TIMEOUT_MS; events are passed over. */
struct answer await_answer(int sock, int timeout_ms);
/* The same, which has to be to this request. */
enum end await_end(int sock, uint32_t serial);
/* Counts a trial by its END, which has to be one of those allowed. */
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

/* hostile-load.c */
void attack_unread(char **argv);
void attack_crowd(char **argv);
void attack_slow(char **argv);
void attack_flood(char **argv);

#endif
