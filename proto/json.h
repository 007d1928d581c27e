/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Prints JSON, with correct commas and escapes for any input. */

#include <stdbool.h>
#include <stdio.h>

struct json {
	FILE *file;
	bool need_comma;
};

/* KEY is the name of an object's member; NULL: in an array, or at the top level. */
void json_open(struct json *json, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket); /* '}' or ']' */
void json_number(struct json *json, const char *key, unsigned long long n);
void json_signed(struct json *json, const char *key, long long n);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
/* TEXT NULL is printed as null. Bytes that are not UTF-8 become U+FFFD. */
void json_string(struct json *json, const char *key, const char *text);
