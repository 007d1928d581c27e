/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "fabric/no_rdma.h"
#include "tests/fake/fake.h"

static const char *absent;

void fake_set_no_rdma(const char *text)
{
	absent = text;
}

bool no_rdma_explain(const char *root, char *ret, size_t size)
{
	if (absent)
		snprintf(ret, size, "%s", absent);
	return absent != NULL;
}
