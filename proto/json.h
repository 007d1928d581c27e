/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Prints JSON: commas and escapes are correct for any input. */

#include <stdbool.h>
#include <stdio.h>

struct json {
	FILE *file;
	bool need_comma;
};

/* KEY is NULL in an array and at the top. */
void json_open(struct json *json, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket); /* '}' or ']' */
void json_number(struct json *json, const char *key, unsigned long long n);
void json_signed(struct json *json, const char *key, long long n);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
/* NULL is printed as null. Bytes that are not UTF-8 become U+FFFD. */
void json_string(struct json *json, const char *key, const char *text);
