/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Connection parameters, within the limits of the device and the peer. The broker checks them, and applies policy's caps. */

#include "client/rdmabroker.h"
#include "proto/rdmabroker.pb-c.h"

/*
 * Check PARAM (NULL: the defaults), and store what to send in RET, which points to the private data. NAME is the program's call, for failures.
 * The maximum of private data, in bytes, is MAX_DATA, or for a datagram id MAX_LOOKUP_DATA.
 */
int connparam_prepare(struct rdmabroker_id *id, const char *name,
		      const struct rdmabroker_conn_param *param, size_t max_data,
		      size_t max_lookup_data, Rdmabroker__ConnParam *ret);
