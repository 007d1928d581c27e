/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/jsonout.h"
#include "proto/text.h"

static void put_string(FILE *file, const char *text)
{
	size_t len = strlen(text), n;
	uint32_t code;

	putc('"', file);
	for (size_t i = 0; i < len; i += n) {
		n = text_character(text + i, len - i, &code);
		if (n == 0) {
			fputs("\\ufffd", file);
			n = 1;
		} else if (code == '"' || code == '\\') {
			fprintf(file, "\\%c", (char)code);
		} else if (code > 0xffff) {
			fprintf(file, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (code >> 10)),
				(unsigned)(0xdc00 + (code & 0x3ff)));
		} else if (code < ' ' || code > '~') {
			fprintf(file, "\\u%04x", (unsigned)code);
		} else {
			putc((char)code, file);
		}
	}
	putc('"', file);
}

static void put_key(struct jsonout *json, const char *key)
{
	if (json->need_comma)
		fputs(", ", json->file);
	json->need_comma = true;
	if (key) {
		put_string(json->file, key);
		fputs(": ", json->file);
	}
}

void jsonout_open(struct jsonout *json, const char *key, char bracket)
{
	put_key(json, key);
	putc(bracket, json->file);
	json->need_comma = false;
}

void jsonout_close(struct jsonout *json, char bracket)
{
	putc(bracket, json->file);
	json->need_comma = true;
}

void jsonout_number(struct jsonout *json, const char *key, unsigned long long n)
{
	put_key(json, key);
	fprintf(json->file, "%llu", n);
}

void jsonout_signed(struct jsonout *json, const char *key, long long n)
{
	put_key(json, key);
	fprintf(json->file, "%lld", n);
}

void jsonout_bool(struct jsonout *json, const char *key, bool value)
{
	put_key(json, key);
	fputs(value ? "true" : "false", json->file);
}

void jsonout_null(struct jsonout *json, const char *key)
{
	put_key(json, key);
	fputs("null", json->file);
}

void jsonout_string(struct jsonout *json, const char *key, const char *text)
{
	if (!text) {
		jsonout_null(json, key);
		return;
	}
	put_key(json, key);
	put_string(json->file, text);
}
