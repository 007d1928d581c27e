/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "grow.h"
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
	texts[i] = allocated(malloc(size));
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

void vcomplain(const char *fmt, va_list ap)
{
	char *text;

	allocated(vasprintf(&text, fmt, ap) < 0 ? NULL : text);
	remember_error(text);
	fprintf(stderr, "rdmabrokerctl: %s\n", escaped(text));
	free(text);
}

void complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcomplain(fmt, ap);
	va_end(ap);
}

void end(int status)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		complain("cannot write the output: %m");
		status = EXIT_FAILURE;
	}
	exit(status);
}

void die(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcomplain(fmt, ap);
	va_end(ap);
	end(status);
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

const char *time_to_text(char ret[TIME_TEXT_MAX], int64_t seconds)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!localtime_r(&t, &tm) || strftime(ret, TIME_TEXT_MAX, "%F %T", &tm) == 0)
		strcpy(ret, "?");
	return ret;
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

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	return size;
}

unsigned terminal_width(void)
{
	return terminal_size().ws_col;
}

void draw_screen(char *text)
{
	unsigned n = 0, left = 0, width = terminal_width(), lines = terminal_size().ws_row;

	/* The last two lines are for the number of lines that were left out, and for the cursor. */
	if (lines > 2)
		lines -= 2;
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
