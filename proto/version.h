/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Of the whole project; the Makefile reads it here. */
#define RDMABROKER_VERSION "0.1.0"
