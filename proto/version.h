/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The Makefile reads the version from this file. */
#define RDMABROKER_VERSION "0.2.0"
