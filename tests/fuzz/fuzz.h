/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the fuzz targets share: reading their input, and one of each side. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rdmabroker.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Must hold; as assert(), but in every build. */
#define must(x)                     \
	do {                        \
		if (!(x))           \
			broken(#x); \
	} while (0)

void broken(const char *what) __attribute__((noreturn));

/* Input is taken from the front; at its end all is 0. */
struct input {
	const uint8_t *data;
	size_t left;
};

uint8_t take(struct input *input);
/* 0 to 15: of the digits and of ':' to '?' what they say, so that a seed can be read. */
unsigned take_digit(struct input *input);
/* Of a few numbers that matter, those at the limits first. */
uint32_t take_number(struct input *input);
/* Up to MAX bytes, as many as a digit says times SCALE; *RET points into the input. */
size_t take_bytes(struct input *input, size_t scale, size_t max, const uint8_t **ret);

/*
 * A message of DESCRIPTOR in the wire's form, its fields as the input says. Returns its length; what does
 * not fit is left out.
 */
size_t make_message(struct input *input, const ProtobufCMessageDescriptor *descriptor, uint8_t *buf,
		    size_t size);

/* The daemon's log is kept quiet. */
void silence(void);
