/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "output.h"
#include "proto/text.h"
#include "proto/word.h"

const char *escaped(const char *text)
{
	static char *texts[ESCAPED_MAX];
	static unsigned i;
	size_t size = TEXT_ESCAPED(strlen(text));

	i = (i + 1) % ESCAPED_MAX;
	free(texts[i]);
	texts[i] = malloc(size);
	if (!texts[i])
		return "?";
	text_escape(texts[i], size, text);
	return texts[i];
}

static char first[512];

const char *first_error(void)
{
	return first;
}

void remember_error(const char *text)
{
	if (!*first)
		text_escape(first, sizeof(first), strndupa(text, strcspn(text, "\n")));
}

void complain(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	remember_error(n < 0 ? "out of memory" : text);
	fprintf(stderr, "rdmabrokerctl: %s\n", n < 0 ? "out of memory" : escaped(text));
	if (n >= 0)
		free(text);
}

void complain_unknown(const char *what, const char *prefix, const struct word_guess *guess,
		      const char *const *words)
{
	const char *word = escaped(strndupa(guess->word, guess->len));

	fprintf(stderr, "rdmabrokerctl: unknown %s \"%s%s\"", what, prefix, word);
	if (guess->best)
		fprintf(stderr, ", did you mean \"%s%s\"?", prefix, guess->best);
	for (size_t i = 0; !guess->best && words && words[i]; i++)
		fprintf(stderr, "%s%s", i == 0 ? ": it must be one of " : ", ", words[i]);
	fputc('\n', stderr);
}

const char *path_from(const char *variable, const char *path)
{
	const char *given = getenv(variable);

	return given && *given ? given : path;
}

int wait_for(pid_t pid)
{
	int status;

	if (pid < 0) {
		complain("cannot start a process: %m");
		return -1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool wants_colours(void)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0) &&
	       isatty(STDOUT_FILENO);
}

const char *colour(enum colour colour)
{
	static const char *const codes[] = {
		[COLOUR_NONE] = "\033[0m",
		[COLOUR_RED] = "\033[31m",
		[COLOUR_GREEN] = "\033[32m",
		[COLOUR_YELLOW] = "\033[33m",
	};

	return wants_colours() ? codes[colour] : "";
}

static struct winsize terminal_size(void)
{
	struct winsize size = { 0 };

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
		size = (struct winsize){ 0 };
	return size;
}

unsigned terminal_width(void)
{
	return terminal_size().ws_col;
}

static unsigned terminal_lines(void)
{
	unsigned n = terminal_size().ws_row;

	/* The last two lines are for the number of lines that were left out, and for the cursor. */
	return n > 2 ? n - 2 : n;
}

/* Prints TEXT, which it changes, cut to the terminal's lines and columns. */
static void print_cut(char *text)
{
	unsigned n = 0, left = 0, lines = terminal_lines(), width = terminal_width();

	fputs("\033[H\033[2J", stdout);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (lines > 0 && ++n > lines)
			left++;
		else
			printf("%.*s\n", width > 0 ? (int)width : INT_MAX, line);
	}
	if (left > 0)
		printf("(and %u more line%s)\n", left, left == 1 ? "" : "s");
	fflush(stdout);
}

int print_on_screen(int (*print)(const void *arg, FILE *file), const void *arg)
{
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);
	int status = file ? print(arg, file) : EXIT_FAILURE;

	if (!file || fclose(file) != 0) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	print_cut(text);
	free(text);
	return status;
}

void age_text(char ret[AGE_TEXT_MAX], unsigned long s)
{
	if (s < 60)
		snprintf(ret, AGE_TEXT_MAX, "%lus", s);
	else if (s < 60 * 60)
		snprintf(ret, AGE_TEXT_MAX, "%lum%02lus", s / 60, s % 60);
	else if (s < 24 * 60 * 60)
		snprintf(ret, AGE_TEXT_MAX, "%luh%02lum", s / 3600, s / 60 % 60);
	else
		snprintf(ret, AGE_TEXT_MAX, "%lud%02luh", s / 86400, s / 3600 % 24);
}
