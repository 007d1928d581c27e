/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdbool.h>

#include "proto/rdmabroker.pb-c.h"

/*
 * Returns whether REQUEST is known to take at most PACKET_MAX bytes. Then its size need not be computed before it is
 * packed, which takes nearly as long as packing. False: the size is not known. Only the requests of a connection's
 * life are known here.
 */
bool bounded_request(const Rdmabroker__Request *request);
