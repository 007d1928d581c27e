/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * libibverbs with one device, fake0, whose QPs are all in this process and carry data: RDMA writes, with or without
 * immediate data, and datagrams. It replaces libibverbs for the libraries of a program that exports its symbols.
 */

#include <stdint.h>

#define LOOPVERBS_MAX_QP_WR 96 /* of the device */

unsigned loopverbs_n_qps(void); /* that exist */
unsigned loopverbs_n_datagrams(void); /* that have come */
uint32_t loopverbs_largest_queue(void); /* the most send requests that a QP was created for */
