/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Parsers of arguments that several verbs have. They print errors to stderr. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

bool is_number(const char *text); /* decimal, nothing else */
bool read_number(const char *text, unsigned long max,
		 unsigned long *ret); /* false: prints nothing */
/* The index of WORD in WORDS, which end with NULL; -1: it is not there, which is printed. */
int read_word(const char *what, const char *word, const char *const *words);

/* These return 0, or an exit status after printing why. */
int read_user(const char *name, uint32_t *ret); /* a name or a uid, with or without an entry */
int read_address(const char *text, struct sockaddr_storage *ret); /* numeric; its port is 0 */
int read_port(const char *text, uint16_t *ret);
