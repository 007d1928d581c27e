/* SPDX-License-Identifier: BSD-2-Clause */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/host/host.h"

/* The object files of the fake fabric call these functions, see module.mk. */

static struct fake_memory memory;

void *fake_calloc(size_t n, size_t size);
char *fake_strdup(const char *s);
void fake_free(void *p);

/* Includes the chunk's header, as mallinfo2() does. */
static size_t size_of(void *p)
{
	return p ? malloc_usable_size(p) + sizeof(size_t) : 0;
}

static void *note(void *p)
{
	memory.bytes += size_of(p);
	memory.allocations++;
	return p;
}

void *fake_calloc(size_t n, size_t size)
{
	void *p = note(malloc(n * size));

	return p ? memset(p, 0, n * size) : NULL;
}

char *fake_strdup(const char *s)
{
	return note(strdup(s));
}

void fake_free(void *p)
{
	memory.bytes -= size_of(p);
	free(p);
}

struct fake_memory fake_get_memory(void)
{
	return memory;
}
