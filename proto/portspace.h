/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The words for port spaces, in the rules and in what rdmabrokerctl prints. */

#include <stddef.h>

extern const char *const portspace_names[]; /* ends with NULL */

/* The number in rdma_cma.h and rdmabroker.h of portspace_names[I]. */
int portspace_number(size_t i);
/* NULL: there is no such port space. */
const char *portspace_name(int number);
