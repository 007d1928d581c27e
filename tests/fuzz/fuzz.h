/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rdmabroker.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Like assert(), but also in builds with NDEBUG. */
#define must(x)                     \
	do {                        \
		if (!(x))           \
			broken(#x); \
	} while (0)

void broken(const char *what) __attribute__((noreturn));

/* After the end of the input, all values are 0. */
struct input {
	const uint8_t *data;
	size_t left;
};

uint8_t take(struct input *input);
/* Returns 0 to 15: the characters '0' to '?', so that seeds are readable. */
unsigned take_digit(struct input *input);
/* Returns 0 to 9 for a digit, a number at or near a limit for 'a' to 'p', else the byte itself. */
uint32_t take_number(struct input *input);
/*
 * Takes a digit of the input, and then this number times SCALE bytes: at most MAX, and at most what is left. Returns
 * the number of bytes. RET points into the input.
 */
size_t take_bytes(struct input *input, size_t scale, size_t max, const uint8_t **ret);

/*
 * Encodes a message of type DESCRIPTOR with fields from the input. Returns its length. Cuts a message that does not
 * fit into BUF.
 */
size_t make_message(struct input *input, const ProtobufCMessageDescriptor *descriptor, uint8_t *buf,
		    size_t size);

/* Suppresses the daemon's log. */
void silence(void);
