/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Prints JSON, with correct commas and escapes for any input. */

#include <stdbool.h>
#include <stdio.h>

struct jsonout {
	FILE *file;
	bool need_comma;
};

/* KEY is the name of an object's member; NULL: in an array, or at the top level. */
void jsonout_open(struct jsonout *json, const char *key, char bracket); /* '{' or '[' */
void jsonout_close(struct jsonout *json, char bracket); /* '}' or ']' */
void jsonout_number(struct jsonout *json, const char *key, unsigned long long n);
void jsonout_signed(struct jsonout *json, const char *key, long long n);
void jsonout_bool(struct jsonout *json, const char *key, bool value);
void jsonout_null(struct jsonout *json, const char *key);
/*
 * TEXT NULL is printed as null. Bytes that are not UTF-8 become U+FFFD. The output is ASCII: a program that reads it gets the
 * text as it was, and a terminal on which it is printed gets no character of another alphabet, or direction.
 */
void jsonout_string(struct jsonout *json, const char *key, const char *text);
