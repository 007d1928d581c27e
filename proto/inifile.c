/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/inifile.h"
#include "proto/text.h"
#include "proto/word.h"

/*
 * libinih reports no columns and only the first bad line. So read_line() passes one trimmed line at a time to
 * it, and keeps that line in LINE for the error messages.
 */
struct reading {
	const struct inifile *file;
	const char *text;
	size_t size;

	struct text_line line;
	bool is_assignment; /* libinih should call handle() for LINE */
	const char *section; /* of FILE->keys; NULL: none yet; empty: an unknown one */
	bool has_failed;
};

size_t inifile_text(const struct inifile_key *key, const char *value, void *field)
{
	size_t len = strlen(value);

	if (len < key->min || len > key->max)
		return 1;
	memcpy(field, value, len + 1);
	return 0;
}

size_t inifile_path(const struct inifile_key *key, const char *value, void *field)
{
	return value[0] == '/' ? inifile_text(key, value, field) : 1;
}

size_t inifile_number(const struct inifile_key *key, const char *value, void *field)
{
	unsigned long n;
	char *end;

	/* strtoul() would also accept blanks and signs. */
	if (value[0] < '0' || value[0] > '9')
		return 1;
	errno = 0;
	n = strtoul(value, &end, 10);
	if (errno || *end || n < key->min || n > key->max)
		return 1;

	*(unsigned *)field = n;
	return 0;
}

size_t inifile_name(const struct inifile_key *key, const char *value, void *field)
{
	int n = (int)key->min;
	size_t len;

	for (const char *name = key->takes; *name; name += len + strspn(name + len, ", "), n++) {
		if (!strncmp(name, "or ", 3))
			name += 3;
		len = strcspn(name, ", ");
		if (len == strlen(value) && !memcmp(name, value, len)) {
			*(int *)field = n;
			return 0;
		}
	}
	return 1;
}

size_t inifile_word(const char *value, const char *separators, size_t *at,
		    char ret[INIFILE_WORD_SIZE])
{
	size_t from = *at + strspn(value + *at, separators);
	size_t len = strcspn(value + from, separators);

	*at = from + len;
	snprintf(ret, INIFILE_WORD_SIZE, "%.*s", (int)len, value + from);
	return len > 0 ? from + 1 : 0;
}

void inifile_set_defaults(const struct inifile_key *keys, void *settings)
{
	for (const struct inifile_key *key = keys; key->name; key++)
		if (key->def)
			inifile_set(key, key->def, settings);
}

size_t inifile_set(const struct inifile_key *key, const char *value, void *settings)
{
	return key->parse(key, value, (char *)settings + key->offset);
}

/* BEST: what was probably meant, or NULL. */
__attribute__((format(printf, 4, 5))) static void complain(struct reading *reading, size_t at,
							   const char *best, const char *fmt, ...)
{
	char message[512], guess[128] = "";
	va_list ap;

	if (best)
		snprintf(guess, sizeof(guess), ", did you mean '%s'?", best);
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message) - sizeof(guess), fmt, ap);
	va_end(ap);
	strcat(message, guess);
	reading->file->complain(reading->file->userdata, &reading->line, at + 1, message);
	reading->has_failed = true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Returns the position of the first non-blank from AT on, or the length of LINE. */
static size_t skip_blanks(const struct text_line *line, size_t at)
{
	while (at < line->len && is_blank(line->text[at]))
		at++;
	return at;
}

static void read_section(struct reading *reading, size_t from)
{
	const struct text_line *line = &reading->line;
	const struct inifile_key *keys = reading->file->keys, *key;
	const char *name = line->text + from + 1;
	const char *end = memchr(name, ']', line->len - from - 1);
	struct word_guess guess = { .word = name };
	size_t rest;

	reading->section = "";
	if (!end) {
		complain(reading, line->len, NULL, "expected ']'");
		return;
	}
	rest = skip_blanks(line, end + 1 - line->text);
	if (rest < line->len) {
		complain(reading, rest, NULL, "nothing may follow a section's name");
		return;
	}

	guess.len = end - name;
	for (key = keys; key->name; key++) {
		word_guess(&guess, key->section);
		if (guess.len == strlen(key->section) && !memcmp(name, key->section, guess.len))
			reading->section = key->section;
	}
	/* The only section is meant in any case. */
	if (!strcmp(keys[0].section, key[-1].section))
		guess.best = keys[0].section;
	if (!*reading->section)
		complain(reading, from + 1, guess.best, "unknown section [%.*s]",
			 (int)(guess.len < 64 ? guess.len : 64), name);
}

/* Called by libinih in place of fgets(). It gets an empty line in place of one that it must not parse. */
static char *read_line(char *buffer, int size, void *userdata)
{
	struct reading *reading = userdata;
	struct text_line *line = &reading->line;
	const char *fault;
	size_t from, to, at;

	/* libinih does not call handle() for a line that it cannot parse. */
	if (reading->is_assignment)
		complain(reading, skip_blanks(line, 0), NULL, "expected Key=Value");
	reading->is_assignment = false;
	if (!text_next_line(reading->text, reading->size, line))
		return NULL;

	strcpy(buffer, "\n");
	fault = text_line_fault(line, &at);
	if (fault) {
		complain(reading, at, NULL, "%s", fault);
		return buffer;
	}
	/* libinih would treat a line that begins with a blank as the continuation of a value. */
	from = skip_blanks(line, 0);
	for (to = line->len; to > from && is_blank(line->text[to - 1]);)
		to--;
	if (from == to || line->text[from] == '#' || line->text[from] == ';')
		return buffer;
	if (to - from + 2 > (size_t)size) {
		complain(reading, from + size - 2, NULL, "the line is too long");
		return buffer;
	}

	if (line->text[from] == '[')
		read_section(reading, from);
	else
		reading->is_assignment = true;
	memcpy(buffer, line->text + from, to - from);
	strcpy(buffer + (to - from), "\n");
	return buffer;
}

static void complain_value(struct reading *reading, const struct inifile_key *key, size_t at)
{
	if (key->takes)
		complain(reading, at, NULL, "%s= takes %s", key->name, key->takes);
	else
		complain(reading, at, NULL, "%s= takes a number from %lu to %lu", key->name,
			 key->min, key->max);
}

static void complain_key(struct reading *reading, const char *name, size_t at)
{
	struct word_guess guess = { .word = name, .len = strlen(name) };
	const char *elsewhere = NULL;

	for (const struct inifile_key *key = reading->file->keys; key->name; key++) {
		if (!strcmp(key->section, reading->section))
			word_guess(&guess, key->name);
		else if (!strcmp(key->name, name))
			elsewhere = key->section;
	}
	if (elsewhere)
		complain(reading, at, NULL, "key '%.64s' belongs to section [%s]", name, elsewhere);
	else
		complain(reading, at, guess.best, "unknown key '%.64s' in section [%s]", name,
			 reading->section);
}

/* Called by libinih for each key. Returns 1 (success), because failures are recorded in READING. */
static int handle(void *userdata, const char *section, const char *name, const char *value)
{
	struct reading *reading = userdata;
	const struct text_line *line = &reading->line;
	size_t key_at = skip_blanks(line, 0), value_at = key_at, bad;

	reading->is_assignment = false;
	if (!reading->section)
		complain(reading, key_at, NULL, "a [Section] must come before the first key");
	if (!reading->section || !*reading->section)
		return 1;

	while (value_at < line->len && !strchr("=:", line->text[value_at]))
		value_at++;
	value_at = skip_blanks(line, value_at + 1);

	for (const struct inifile_key *key = reading->file->keys; key->name; key++) {
		if (strcmp(key->section, reading->section) || strcmp(key->name, name))
			continue;
		bad = inifile_set(key, value, reading->file->settings);
		if (bad)
			complain_value(reading, key, value_at + bad - 1);
		return 1;
	}

	complain_key(reading, name, key_at);
	return 1;
}

int inifile_parse(const struct inifile *file, const char *text, size_t size)
{
	struct reading reading = { .file = file, .text = text, .size = size };
	int r = ini_parse_stream(read_line, &reading, handle, &reading);

	if (r == -2)
		return -ENOMEM;
	/* Should not happen, because read_line() and handle() have reported each error. */
	if (r != 0 && !reading.has_failed)
		complain(&reading, 0, NULL, "cannot be parsed");
	return reading.has_failed ? -EBADMSG : 0;
}
