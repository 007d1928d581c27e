/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The names of port spaces, in rules and in rdmabrokerctl. */

#include <stddef.h>

extern const char *const portspace_names[]; /* ends with NULL */

/* The number of portspace_names[I], as in rdma_cma.h. */
int portspace_number(size_t i);
/* NULL: there is no such port space. */
const char *portspace_name(int number);
