/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/inifile.h"
#include "proto/text.h"
#include "proto/word.h"

struct reading {
	const struct inifile *file;
	struct text_line line;
	char copy[TEXT_LINE_MAX + 1]; /* of LINE, with a NUL; its parts get NULs of their own */
	const char *section; /* of FILE->keys; NULL: none yet; empty: an unknown one */
	bool has_failed;
};

size_t inifile_path(const struct inifile_key *key, const char *value, void *field)
{
	size_t len = strlen(value);

	if (value[0] != '/' || len < key->min || len > key->max)
		return 1;
	memcpy(field, value, len + 1);
	return 0;
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

/* AT: in READING->copy. BEST: what was probably meant, or NULL. */
__attribute__((format(printf, 4, 5))) static void complain(struct reading *reading, const char *at,
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
	reading->file->complain(reading->file->userdata, &reading->line,
				(size_t)(at - reading->copy) + 1, message);
	reading->has_failed = true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static char *skip_blanks(char *text)
{
	return text + strspn(text, " \t");
}

/* Ends the text that begins at FROM at END, without the blanks before END. */
static void cut(const char *from, char *end)
{
	while (end > from && is_blank(end[-1]))
		end--;
	*end = '\0';
}

/* NAME follows the bracket. */
static void read_section(struct reading *reading, char *name)
{
	const struct inifile_key *keys = reading->file->keys, *key;
	struct word_guess guess = { .word = name };
	char *end = strchr(name, ']');

	reading->section = "";
	if (!end) {
		complain(reading, name + strlen(name), NULL, "expected ']'");
		return;
	}
	if (*skip_blanks(end + 1)) {
		complain(reading, skip_blanks(end + 1), NULL,
			 "nothing may follow a section's name");
		return;
	}

	*end = '\0';
	guess.len = strlen(name);
	for (key = keys; key->name; key++) {
		word_guess(&guess, key->section);
		if (!strcmp(name, key->section))
			reading->section = key->section;
	}
	/* The only section is meant in any case. */
	if (!strcmp(keys[0].section, key[-1].section))
		guess.best = keys[0].section;
	if (!*reading->section)
		complain(reading, name, guess.best, "unknown section [%.64s]", name);
}

static void complain_key(struct reading *reading, const char *name)
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
		complain(reading, name, NULL, "key '%.64s' belongs to section [%s]", name,
			 elsewhere);
	else
		complain(reading, name, guess.best, "unknown key '%.64s' in section [%s]", name,
			 reading->section);
}

static void set_key(struct reading *reading, const char *name, const char *value)
{
	const struct inifile_key *key = reading->file->keys;
	size_t bad;

	while (key->name && (strcmp(key->section, reading->section) || strcmp(key->name, name)))
		key++;
	if (!key->name) {
		complain_key(reading, name);
		return;
	}
	bad = inifile_set(key, value, reading->file->settings);
	if (!bad)
		return;
	if (key->takes)
		complain(reading, value + bad - 1, NULL, "%s= takes %s", key->name, key->takes);
	else
		complain(reading, value + bad - 1, NULL, "%s= takes a number from %lu to %lu",
			 key->name, key->min, key->max);
}

/* NAME: the whole assignment. */
static void read_key(struct reading *reading, char *name)
{
	char *equals = strpbrk(name, "=:"), *value, *comment = name;

	while (*comment && !(*comment == ';' && is_blank(comment[-1])))
		comment++;
	if (!equals || equals > comment) {
		complain(reading, name, NULL, "expected Key=Value");
	} else if (!reading->section) {
		complain(reading, name, NULL, "a [Section] must come before the first key");
	} else if (*reading->section) {
		cut(name, equals);
		value = skip_blanks(equals + 1);
		cut(value, comment);
		set_key(reading, name, value);
	}
}

static void read_line(struct reading *reading)
{
	const struct text_line *line = &reading->line;
	size_t at;
	const char *fault = text_line_fault(line, &at);
	char *text;

	if (fault) {
		complain(reading, reading->copy + at, NULL, "%s", fault);
		return;
	}
	memcpy(reading->copy, line->text, line->len);
	reading->copy[line->len] = '\0';
	text = skip_blanks(reading->copy);
	if (*text == '[')
		read_section(reading, text + 1);
	else if (*text && *text != '#' && *text != ';')
		read_key(reading, text);
}

int inifile_parse(const struct inifile *file, const char *text, size_t size)
{
	struct reading reading = { .file = file };

	while (text_next_line(text, size, &reading.line))
		read_line(&reading);
	return reading.has_failed ? -EBADMSG : 0;
}
