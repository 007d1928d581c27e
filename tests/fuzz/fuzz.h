/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Shared by the fuzz targets: reading their input, and encoding messages from it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rdmabroker.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Like assert(), but in every build. */
#define must(x)                     \
	do {                        \
		if (!(x))           \
			broken(#x); \
	} while (0)

void broken(const char *what) __attribute__((noreturn));

/* Input is consumed from the front. After its end all values are 0. */
struct input {
	const uint8_t *data;
	size_t left;
};

uint8_t take(struct input *input);
/* Returns 0 to 15, from the characters '0' to '?', so that seeds are readable. */
unsigned take_digit(struct input *input);
/* Returns a number: that of a digit, one at or near a limit for 'a' to 'p', or else the byte itself. */
uint32_t take_number(struct input *input);
/*
 * Takes bytes from the input, and returns their number: a digit of the input times SCALE, but at most MAX and at most
 * what is left. *RET points into the input.
 */
size_t take_bytes(struct input *input, size_t scale, size_t max, const uint8_t **ret);

/*
 * Encodes a message of type DESCRIPTOR whose fields are taken from the input. Returns its length. Bytes that do not
 * fit into BUF are dropped, and the message is then cut.
 */
size_t make_message(struct input *input, const ProtobufCMessageDescriptor *descriptor, uint8_t *buf,
		    size_t size);

/* Suppresses the daemon's log. */
void silence(void);
