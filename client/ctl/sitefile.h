/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Small files of text beside the versions of a site, which are replaced as a whole. */

#include <stdbool.h>
#include <stddef.h>

#define SITEFILE_MAX 8192 /* bytes of a file, with the NUL */

/* Reads the beginning of DIR/NAME. False: it cannot be read. RET is a string in any case. */
bool sitefile_read(const char *dir, const char *name, char ret[SITEFILE_MAX]);
/* 0 or a negative errno. */
int sitefile_write(const char *dir, const char *name, const char *text);
