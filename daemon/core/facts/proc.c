/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>

#include "core/facts/proc.h"

FILE *proc_open(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, "re");
}

int proc_scan(pid_t pid, const char *name, const char *format, ...)
{
	FILE *file = proc_open(pid, name);
	char line[256];
	va_list ap;
	int n = 0;

	if (!file)
		return 0;
	while (n <= 0 && fgets(line, sizeof(line), file)) {
		va_start(ap, format);
		n = vsscanf(line, format, ap);
		va_end(ap);
	}
	fclose(file);
	return n > 0 ? n : 0;
}
