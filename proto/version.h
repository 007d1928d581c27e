/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The version of the project. The Makefile reads it from this file. */
#define RDMABROKER_VERSION "0.2.0"
