/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Output for users: errors, colours, names and addresses. */

#include <rdmabroker-admin.h>
#include <stddef.h>
#include <stdint.h>

struct jsonout;
struct word_guess;

/* Prints a line to stderr, after the program's name. */
__attribute__((format(printf, 1, 2))) void complain(const char *fmt, ...);

/*
 * Prints 'unknown WHAT "WORD", did you mean "BEST"?', with PREFIX, such as "--", before each word. If there is no
 * BEST, lists WORDS instead, unless WORDS is NULL.
 */
void complain_unknown(const char *what, const char *prefix, const struct word_guess *guess,
		      const char *const *words);

enum colour {
	COLOUR_NONE,
	COLOUR_RED,
	COLOUR_GREEN,
	COLOUR_YELLOW,
};
/* Returns the escape sequence for COLOUR; "": stdout is no terminal, or colours are disabled. */
const char *colour(enum colour colour);
/* Returns the number of columns; 0: stdout is no terminal, or its size is not known. */
unsigned terminal_width(void);

/* Clears the terminal and prints TEXT, which is changed, cut to the terminal's lines and columns. */
void print_screen(char *text);
/* Writes a time with its two largest units: "12s", "4m05s", "3h04m", "12d03h". */
#define AGE_TEXT_MAX 32
void age_text(char ret[AGE_TEXT_MAX], unsigned long seconds);

const char *user_name(uint32_t uid); /* NULL: UID has no entry; valid until the next call */
/*
 * Prints the column WORKLOAD of a table: the pod and the container, or else the job, or else the unit. Ids of containers
 * are cut to 12 digits, as other programs do. "-": nothing is known.
 */
#define WORKLOAD_TEXT_MAX 264
void workload_text(char ret[WORKLOAD_TEXT_MAX], const char *unit, const char *container,
		   const char *pod, const char *job);
/*
 * Prints who a peer is, "alice, storage.service", or why that is not known, "unknown: 10.9.0.9 is silent". "-": both WHO
 * and WHY are NULL, because it was not asked.
 */
#define PEER_TEXT_MAX 600
void peer_text(char ret[PEER_TEXT_MAX], const struct rdmabroker_peer_identity *who,
	       const char *why);
/* Adds the members "peer_identity" and "peer_unknown". */
void json_peer(struct jsonout *json, const struct rdmabroker_peer_identity *who, const char *why);
void json_addr(struct jsonout *json, const char *key, const struct sockaddr_storage *addr);
