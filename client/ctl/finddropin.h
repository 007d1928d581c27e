/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Where the drop-in for librdmacm is installed, for the verbs cdi, dropin and run. */

#include <limits.h>
#include <stdbool.h>

#define DROPIN "librdmabroker-rdmacm.so"

/* Looks for the drop-in in the folder rdmabroker/ beside the library in use, else in the library's own folder. */
bool dropin_find(char ret[PATH_MAX]);
/* The folder in which the drop-in at PATH has librdmacm's names. False: there is none. */
bool dropin_find_folder(const char *path, char ret[PATH_MAX]);
