/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The version of the project; the Makefile reads it from here. */
#define RDMABROKER_VERSION "0.2.0"
