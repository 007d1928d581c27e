/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Parsers for arguments that several verbs have. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

bool read_number(const char *text, unsigned long max,
		 unsigned long *ret); /* prints no error if it fails */
/* Returns the index of WORD in WORDS, which end with NULL; -1: none, and an error was printed. */
int read_word(const char *what, const char *word, const char *const *words);

/*
 * These return 0, or print an error and return an exit status. An argument that is NULL was not given: RET does not
 * change.
 */
/* A uid or gid, as WHAT says. -1: TEXT is no number but a name, and errno is 0. */
int read_id(const char *what, const char *text, uint32_t *ret);
int read_user(const char *name, uint32_t *ret); /* a name, or a uid, which need not have an entry */
int read_address(const char *text, struct sockaddr_storage *ret); /* numeric; its port is 0 */
int read_port(const char *text, uint16_t *ret);
/* The argument TEXT of --OPTION. */
int read_positive(const char *option, const char *text, unsigned long *ret);
