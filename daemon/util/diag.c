/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"
#include "util/diag.h"

#define DIAG_KEPT 20
#define DIAG_EXCERPT 120 /* bytes of a source line that are shown */

struct complaint {
	char *message;
	const char *text; /* points into MESSAGE, after "file:line:column: " */
	char *file; /* NULL: none */
	unsigned line, column;
	char *excerpt; /* source line and caret line, ready to print; NULL: none */
};

struct diag {
	struct complaint kept[DIAG_KEPT];
	size_t n_kept;
	size_t n;
};

int diag_new(struct diag **ret)
{
	struct diag *diag;

	diag = calloc(1, sizeof(*diag));
	if (!diag)
		return -ENOMEM;

	*ret = diag;
	return 0;
}

struct diag *diag_free(struct diag *diag)
{
	if (!diag)
		return NULL;

	for (size_t i = 0; i < diag->n_kept; i++) {
		free(diag->kept[i].message);
		free(diag->kept[i].file);
		free(diag->kept[i].excerpt);
	}
	free(diag);
	return NULL;
}

/* A complaint quotes the file, which can contain control sequences for a terminal or the journal. */
static void make_printable(char *text)
{
	size_t len = strlen(text);
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = text_printable(text + i, len - i);
		if (!n) {
			text[i] = '?';
			n = 1;
		}
	}
}

static char *excerpt_new(const char *text, size_t len, unsigned column)
{
	const char *newline;
	size_t from = 0, to, size, n;
	char *excerpt = NULL;
	FILE *f;

	newline = memchr(text, '\n', len);
	if (newline)
		len = newline - text;

	to = len;
	if (len > DIAG_EXCERPT) {
		if (column > DIAG_EXCERPT * 3 / 4)
			from = column - DIAG_EXCERPT * 3 / 4;
		if (from > len)
			from = len;
		while (from < len && (text[from] & 0xc0) == 0x80)
			from++;
		to = len - from > DIAG_EXCERPT ? from + DIAG_EXCERPT : len;
		while (to > from && to < len && (text[to] & 0xc0) == 0x80)
			to--;
	}

	f = open_memstream(&excerpt, &size);
	if (!f)
		return NULL;

	fputs(from ? "    ..." : "    ", f);
	for (size_t i = from; i < to; i += n) {
		n = text_printable(text + i, to - i);
		if (n) {
			fwrite(text + i, 1, n, f);
		} else {
			fputc(text[i] == '\t' ? '\t' : '?', f);
			n = 1;
		}
	}
	fputs(to < len ? "...\n" : "\n", f);

	if (column) {
		fputs(from ? "       " : "    ", f);
		/* COLUMN counts bytes, but the caret needs one space for each character. */
		for (size_t i = from; i < column - 1; i += n) {
			n = i < to ? text_printable(text + i, to - i) : 1;
			fputc(i < to && text[i] == '\t' ? '\t' : ' ', f);
			if (!n)
				n = 1;
		}
		fputs("^\n", f);
	}

	if (fclose(f)) {
		free(excerpt);
		return NULL;
	}
	return excerpt;
}

__attribute__((format(printf, 5, 0))) static char *message_new(const char *file, unsigned line,
							       unsigned column, size_t *ret_text,
							       const char *fmt, va_list args)
{
	char *message = NULL;
	size_t size;
	FILE *f;

	f = open_memstream(&message, &size);
	if (!f)
		return NULL;

	if (file)
		fprintf(f, "%s:", file);
	if (file && line)
		fprintf(f, "%u:", line);
	if (file && line && column)
		fprintf(f, "%u:", column);
	if (file)
		fputc(' ', f);
	*ret_text = (size_t)ftell(f);
	vfprintf(f, fmt, args);

	if (fclose(f)) {
		free(message);
		return NULL;
	}
	make_printable(message);
	return message;
}

void diag_add(struct diag *diag, const char *file, unsigned line, unsigned column, const char *text,
	      size_t text_len, const char *fmt, ...)
{
	struct complaint *complaint;
	size_t at = 0;
	va_list args;

	diag->n++;
	if (diag->n_kept == DIAG_KEPT)
		return;

	complaint = &diag->kept[diag->n_kept];
	va_start(args, fmt);
	complaint->message = message_new(file, line, column, &at, fmt, args);
	va_end(args);
	if (!complaint->message)
		return;
	complaint->text = complaint->message + at;
	complaint->line = line;
	complaint->column = column;

	/* If memory runs out, the message is kept without FILE or EXCERPT. */
	complaint->file = file ? strdup(file) : NULL;
	complaint->excerpt = text ? excerpt_new(text, text_len, column) : NULL;
	diag->n_kept++;
}

size_t diag_count(const struct diag *diag)
{
	return diag->n;
}

const char *diag_first(const struct diag *diag)
{
	return diag_at(diag, 0);
}

const char *diag_at(const struct diag *diag, size_t i)
{
	return i < diag->n_kept ? diag->kept[i].message : NULL;
}

bool diag_get(const struct diag *diag, size_t i, struct diag_parts *ret)
{
	const struct complaint *complaint;

	if (i >= diag->n_kept)
		return false;
	complaint = &diag->kept[i];
	*ret = (struct diag_parts){
		.file = complaint->file,
		.line = complaint->line,
		.column = complaint->column,
		.text = complaint->text,
	};
	return true;
}

void diag_print(const struct diag *diag, FILE *f)
{
	for (size_t i = 0; i < diag->n_kept; i++) {
		fprintf(f, "%s\n", diag->kept[i].message);
		if (diag->kept[i].excerpt)
			fputs(diag->kept[i].excerpt, f);
	}
	if (diag->n > diag->n_kept)
		fprintf(f, "and %zu more\n", diag->n - diag->n_kept);
}
