/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Parsers for arguments that several verbs have. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct ctl;

bool read_number(const char *text, unsigned long max,
		 unsigned long *ret); /* prints no error if it fails */

/*
 * These print an error and end the program if the argument is not valid. An argument that is NULL was not given: RET does
 * not change.
 */
/* Returns the index of the verb's argument in the verb's values. */
int read_action(const struct ctl *ctl);
/* Returns the index of WORD in WORDS, which end with NULL. */
int read_word(const char *what, const char *word, const char *const *words);
/* A uid or gid, as WHAT says. False: TEXT is no number but a name, and errno is 0. */
bool read_id(const char *what, const char *text, uint32_t *ret);
void read_user(const char *name,
	       uint32_t *ret); /* a name, or a uid, which need not have an entry */
void read_address(const char *text, struct sockaddr_storage *ret); /* numeric; its port is 0 */
void read_port(const char *text, uint16_t *ret);
/* A day, a day with a time, or how long ago: "2026-01-31", "2026-01-31 12:34", "90m". In milliseconds since 1970. */
void read_since(const char *text, uint64_t *ret_ms);
void read_pkey(const char *text, uint16_t *ret);
/* The argument TEXT of --OPTION. */
void read_positive(const char *option, const char *text, unsigned long *ret);
