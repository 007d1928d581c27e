/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Output for persons: errors, colours, text of others, and screens that are drawn again. All verbs use this; tables are in
 * table.h.
 */

#include <stddef.h>
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
/* The first line that was complained about, or remembered as if it had been; empty: none. All its characters are printable. */
const char *first_error(void);
void remember_error(const char *text);

/*
 * Prints 'unknown WHAT "WORD", did you mean "BEST"?', with PREFIX, such as "--", before each word. If there is no
 * BEST, lists WORDS instead, unless WORDS is NULL.
 */
void complain_unknown(const char *what, const char *prefix, const struct word_guess *guess,
		      const char *const *words);

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

/*
 * Clears the terminal, and prints what PRINT writes to FILE, cut to the terminal's lines and columns. Returns the exit status
 * that PRINT returns.
 */
int print_on_screen(int (*print)(const void *arg, FILE *file), const void *arg);
/* Writes a time with its two largest units: "12s", "4m05s", "3h04m", "12d03h". */
#define AGE_TEXT_MAX 32
void age_text(char ret[AGE_TEXT_MAX], unsigned long seconds);
