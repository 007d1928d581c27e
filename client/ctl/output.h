/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Output for persons: errors, colours, text of others, and screens that are drawn again. All verbs use this; tables are in
 * table.h.
 */

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct word_guess;

/*
 * TEXT as text_escape() has it. Whatever others can choose is printed by this, complain(), or a table: names, paths, reasons.
 * Good for the next ESCAPED_MAX - 1 calls.
 */
#define ESCAPED_MAX 8
const char *escaped(const char *text);
/* Prints a line to stderr, after the program's name, escaped. */
__attribute__((format(printf, 1, 2))) void complain(const char *fmt, ...);
__attribute__((format(printf, 1, 0))) void vcomplain(const char *fmt, va_list ap);
/* Ends the program. If the output is incomplete, that is a failure, whatever STATUS is. */
__attribute__((noreturn)) void end(int status);
/* As complain() and end(). */
__attribute__((noreturn, format(printf, 2, 3))) void die(int status, const char *fmt, ...);
/* The first line that was complained about, or remembered as if it had been; empty: none. All its characters are printable. */
const char *first_error(void);
void remember_error(const char *text);

/*
 * Prints 'unknown WHAT "WORD", did you mean "BEST"?', with PREFIX, such as "--", before each word. If there is no
 * BEST, lists WORDS instead, unless WORDS is NULL.
 */
void complain_unknown(const char *what, const char *prefix, const struct word_guess *guess,
		      const char *const *words);

/* Writes the local time as "2026-01-31 12:34:56"; "?": there is no such time. Returns RET. */
#define TIME_TEXT_MAX 32
const char *time_to_text(char ret[TIME_TEXT_MAX], int64_t seconds);

/* The path that the environment has as VARIABLE, or else PATH. */
const char *path_from(const char *variable, const char *path);

/* Waits for the process PID. Returns its exit status; -1: it was not started, or a signal has ended it. */
int wait_for(pid_t pid);

enum colour {
	COLOUR_NONE,
	COLOUR_RED,
	COLOUR_GREEN,
	COLOUR_YELLOW,
};
/* Returns the escape sequence for COLOUR; "": stdout is no terminal, or colours are disabled. */
const char *colour(enum colour colour);
/* Returns the number of columns; 0: stdout is no terminal, or its size is not known. */
unsigned terminal_width(void);

/* Clears the terminal, and prints TEXT, which it changes, cut to the terminal's lines and columns. */
void draw_screen(char *text);
