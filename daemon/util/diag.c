/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"
#include "util/diag.h"

#define DIAG_EXCERPT 120 /* bytes of a source line that are shown */

int diag_new(struct diag **ret)
{
	struct diag *diag = calloc(1, sizeof(*diag));

	if (!diag)
		return -ENOMEM;
	*ret = diag;
	return 0;
}

static void complaints_done(struct complaints *complaints)
{
	for (size_t i = 0; i < complaints->n_kept; i++) {
		free(complaints->kept[i].message);
		free(complaints->kept[i].file);
		free(complaints->kept[i].excerpt);
	}
}

struct diag *diag_free(struct diag *diag)
{
	if (!diag)
		return NULL;

	complaints_done(&diag->errors);
	complaints_done(&diag->warnings);
	free(diag);
	return NULL;
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
	/* A complaint quotes the file, which can contain control sequences for a terminal or the journal. */
	text_make_printable(message, strlen(message));
	return message;
}

void complaints_add(struct complaints *complaints, const char *file, unsigned line, unsigned column,
		    const char *text, size_t text_len, const char *fmt, ...)
{
	struct complaint *complaint = &complaints->kept[complaints->n_kept];
	size_t at = 0;
	va_list args;

	complaints->n++;
	if (complaints->n_kept == DIAG_KEPT)
		return;

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
	complaints->n_kept++;
}

const char *complaints_at(const struct complaints *complaints, size_t i)
{
	return i < complaints->n_kept ? complaints->kept[i].message : NULL;
}

/* Prints the complaints with KIND, for example "warning: ", between the place and the text. */
static void print(const struct complaints *complaints, const char *kind, const char *more, FILE *f)
{
	for (size_t i = 0; i < complaints->n_kept; i++) {
		const struct complaint *complaint = &complaints->kept[i];

		fprintf(f, "%.*s%s%s\n", (int)(complaint->text - complaint->message),
			complaint->message, kind, complaint->text);
		if (complaint->excerpt)
			fputs(complaint->excerpt, f);
	}
	if (complaints->n > complaints->n_kept)
		fprintf(f, "and %zu more%s\n", complaints->n - complaints->n_kept, more);
}

void diag_print(const struct diag *diag, FILE *f)
{
	print(&diag->errors, "", "", f);
}

void diag_print_warnings(const struct diag *diag, FILE *f)
{
	print(&diag->warnings,
	      "warning: ", diag->warnings.n == diag->warnings.n_kept + 1 ? " warning" : " warnings",
	      f);
}
