/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>

#include "proto/json.h"

/* The length of the well-formed UTF-8 sequence at TEXT (RFC 3629), or 0. */
static size_t utf8_length(const unsigned char *text)
{
	static const struct {
		unsigned char first, last, min, max; /* of the first byte; of the second */
		size_t length;
	} forms[] = {
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 },
		{ 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	if (text[0] < 0x80)
		return 1;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (text[0] < forms[i].first || text[0] > forms[i].last)
			continue;
		if (text[1] < forms[i].min || text[1] > forms[i].max)
			return 0;
		for (size_t k = 2; k < forms[i].length; k++)
			if (text[k] < 0x80 || text[k] > 0xbf)
				return 0;
		return forms[i].length;
	}
	return 0;
}

static void put_string(FILE *file, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	putc('"', file);
	while (*p) {
		size_t n = utf8_length(p);

		if (n == 0) {
			fputs("\\ufffd", file);
			n = 1;
		} else if (*p == '"' || *p == '\\') {
			fprintf(file, "\\%c", *p);
		} else if (*p < 0x20 || *p == 0x7f) {
			fprintf(file, "\\u%04x", *p);
		} else {
			fwrite(p, 1, n, file);
		}
		p += n;
	}
	putc('"', file);
}

static void begin(struct json *json, const char *key)
{
	if (json->need_comma)
		fputs(", ", json->file);
	json->need_comma = true;
	if (key) {
		put_string(json->file, key);
		fputs(": ", json->file);
	}
}

void json_open(struct json *json, const char *key, char bracket)
{
	begin(json, key);
	putc(bracket, json->file);
	json->need_comma = false;
}

void json_close(struct json *json, char bracket)
{
	putc(bracket, json->file);
	json->need_comma = true;
}

void json_number(struct json *json, const char *key, unsigned long long n)
{
	begin(json, key);
	fprintf(json->file, "%llu", n);
}

void json_bool(struct json *json, const char *key, bool value)
{
	begin(json, key);
	fputs(value ? "true" : "false", json->file);
}

void json_null(struct json *json, const char *key)
{
	begin(json, key);
	fputs("null", json->file);
}

void json_string(struct json *json, const char *key, const char *text)
{
	if (!text) {
		json_null(json, key);
		return;
	}
	begin(json, key);
	put_string(json->file, text);
}
