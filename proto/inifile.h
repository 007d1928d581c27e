/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Configuration files: INI files whose keys a table describes. The daemon (config.c) and the programs
 * (client/common/conffile.c) each have their table, a struct that the values are written to, and a function that gets the
 * complaints. This module reads no file, and prints nothing.
 */

#include <stddef.h>

struct text_line;

/* A table ends with {}. The rows of a section follow each other. */
struct inifile_key {
	const char *section;
	const char *name;
	/* Writes VALUE to FIELD. Returns 0, or the position in VALUE, from 1, of what is not valid. */
	size_t (*parse)(const struct inifile_key *key, const char *value, void *field);
	size_t offset; /* of FIELD in the settings */
	unsigned long min, max;
	const char *def; /* NULL: the field is not written */
	const char *takes; /* valid values, for the message; NULL: a number from MIN to MAX */
};

/* The offset of a member, and the least and most bytes of the text that it can have. */
#define INIFILE_TEXT(type, member) offsetof(type, member), 1, sizeof(((type *)NULL)->member) - 1

/* char[]: a path of MIN to MAX bytes, which begins with '/'. */
size_t inifile_path(const struct inifile_key *key, const char *value, void *field);
/* unsigned: a decimal number from MIN to MAX */
size_t inifile_number(const struct inifile_key *key, const char *value, void *field);
/* int: the names in TAKES, "a, b or c", mean MIN, MIN + 1, ... */
size_t inifile_name(const struct inifile_key *key, const char *value, void *field);

/*
 * For parsers of lists: copies the word of VALUE that begins at *AT or after it, and moves *AT behind the word. Returns its
 * position in VALUE, from 1; 0: there is none.
 */
#define INIFILE_WORD_SIZE 4096
size_t inifile_word(const char *value, const char *separators, size_t *at,
		    char ret[INIFILE_WORD_SIZE]);

void inifile_set_defaults(const struct inifile_key *keys, void *settings);
/* Returns as KEY->parse(). */
size_t inifile_set(const struct inifile_key *key, const char *value, void *settings);

struct inifile {
	const struct inifile_key *keys;
	void *settings;
	/* COLUMN: from 1 */
	void (*complain)(void *userdata, const struct text_line *line, size_t column,
			 const char *message);
	void *userdata;
};

/* Goes on after an error, so that each one gets its complaint. Returns 0, or -EBADMSG: there were complaints. */
int inifile_parse(const struct inifile *file, const char *text, size_t size);
