/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What a verb prints, as a table for persons and as JSON for programs, by one description. A row is a C struct, and its
 * columns are an array that ends with an empty one: the heading, the key in JSON, and the member of the struct. All verbs
 * that print rows use this; libsmartcols aligns the columns. What is in a cell is escaped, whoever has written it. A table
 * never has blanks at the end of a line.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "output.h"
#include "proto/addr.h"
#include "proto/jsonout.h"

enum column_type {
	COLUMN_TEXT, /* const char *; NULL: none */
	COLUMN_INT,
	COLUMN_UNSIGNED,
	COLUMN_INT64,
	COLUMN_UINT64,
	COLUMN_ADDRESS, /* struct sockaddr_storage; AF_UNSPEC: none */
	COLUMN_PORT_SPACE, /* enum rdmabroker_port_space */
	/* The others are only in JSON. */
	COLUMN_BOOL,
	COLUMN_TEXTS, /* const char *const *, after a size_t: their number */
	COLUMN_OBJECTS, /* a pointer to rows of .columns, each of .size bytes, after a size_t: their number */
	COLUMN_OBJECT, /* a row of .columns, within this one */
};

enum column_flags {
	COLUMN_NO_ZERO = 1, /* the number 0 means none */
	COLUMN_NO_NEGATIVE = 2, /* a negative number means none */
	COLUMN_NO_MAX = 4, /* UINT32_MAX means none */
	COLUMN_NOT = 8, /* false means true */
	COLUMN_IF_ANY = 16, /* the table has the column only if a cell is not empty */
};

struct column {
	const char *head; /* NULL: only in JSON */
	const char *key; /* NULL: only in the table */
	enum column_type type;
	size_t offset; /* of the value in the row */
	unsigned flags;
	unsigned width; /* that the column has at least */
	const struct column *columns;
	size_t size;
	/* In place of what TYPE says; AT is the value. A text that is empty is printed as "-". */
	void (*text)(const void *at, FILE *file);
	void (*json)(const void *at, struct jsonout *json, const char *key);
	/* In place of both, in SPACE or elsewhere. NULL: none. */
	const char *(*get)(const void *at, char space[ADDR_STRLEN]);
	enum colour (*colour)(const void *row); /* NULL: none */
	enum colour hue; /* of a number that is not 0 */
};

/* The type and the offset of MEMBER. */
#define COLUMN_OF(row, member) \
	.type = _Generic(((row *)0)->member, \
		 const char *: COLUMN_TEXT, \
		 bool: COLUMN_BOOL, \
		 int: COLUMN_INT, \
		 unsigned: COLUMN_UNSIGNED, \
		 int64_t: COLUMN_INT64, \
		 uint64_t: COLUMN_UINT64, \
		 struct sockaddr_storage: COLUMN_ADDRESS, \
		 const char *const *: COLUMN_TEXTS), \
		.offset = offsetof(row, member)
/* The rows to which MEMBER points. */
#define COLUMN_ROWS(row, member) \
	.type = COLUMN_OBJECTS, .offset = offsetof(row, member), .size = sizeof(*((row *)0)->member)

/* A P_Key, as a text in hexadecimal; 0: none. For .json of a column. */
void table_json_pkey(const void *at, struct jsonout *json, const char *key);
void json_texts(struct jsonout *json, const char *key, const char *const *texts, size_t n);
/* The members of ROW, in an object of JSON that is open. */
void json_members(struct jsonout *json, const struct column *columns, const void *row);
/* ROW as an object. */
void json_row(struct jsonout *json, const char *key, const struct column *columns, const void *row);
/* An object on a line of stdout. */
void json_begin(struct jsonout *ret);
void json_end(struct jsonout *json);
/* ROW as such an object. */
void print_json(const struct column *columns, const void *row);

struct table {
	const struct column *columns;
	struct jsonout *json; /* NULL: it is a table */
	struct libscols_table *scols;
	unsigned width; /* of the terminal, to which the last column is cut; 0: it is not cut */
	size_t n_rows;
};

/* Begins a table with its headings. With JSON, it is an array KEY in the object that is open there. */
void table_begin(struct table *ret, const struct column *columns, struct jsonout *json,
		 const char *key);
void table_add(struct table *table, const void *row);
/* Prints what was added to a table since the last call. No column gets narrower. */
void table_print(struct table *table, FILE *file);
/* Prints the rest, or closes the array, and frees the table. */
void table_end(struct table *table, FILE *file);
void table_done(struct table *table); /* frees it, without printing */
/* N rows of SIZE bytes, on stdout: as a table of at most WIDTH, or, if KEY is not NULL, as an array KEY in an object of JSON. */
void print_rows(const char *key, const struct column *columns, const void *rows, size_t n,
		size_t size, unsigned width);
