/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The largest private data, in bytes, that InfiniBand's connection manager can carry for a program. rdmabroker.h has
 * the same numbers.
 */
#define PRIVATE_DATA_CONNECT 56
#define PRIVATE_DATA_ACCEPT 196
#define PRIVATE_DATA_REJECT 148
/* For service look-ups (SIDR): */
#define PRIVATE_DATA_LOOKUP 180
#define PRIVATE_DATA_LOOKUP_ANSWER 136
