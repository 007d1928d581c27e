/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "reason.h"

const char *reason_without_call(const char *text)
{
	size_t call = strspn(text, "abcdefghijklmnopqrstuvwxyz_");

	return call > 0 && strncmp(text + call, ": ", 2) == 0 ? text + call + 2 : text;
}
