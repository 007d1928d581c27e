/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The maximum of private data in each message of InfiniBand's connection manager, in bytes, without what rdma_cm takes
 * of it itself. rdmabroker.h has the same numbers for programs.
 */
#define PRIVATE_DATA_CONNECT 56
#define PRIVATE_DATA_ACCEPT 196
#define PRIVATE_DATA_REJECT 148
/* Of look-ups (SIDR). */
#define PRIVATE_DATA_LOOKUP 180
#define PRIVATE_DATA_LOOKUP_ANSWER 136
