/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "fabric/no_rdma.h"
#include "tests/fake/fake.h"

static const char *absent;

void fake_set_no_rdma(const char *text)
{
	absent = text;
}

static bool lacks_port_mapper;

void fake_set_port_mapper_missing(bool missing)
{
	lacks_port_mapper = missing;
}

bool fabric_device_is_iwarp(const struct fabric_device *device)
{
	return lacks_port_mapper;
}

bool no_rdma_lacks_port_mapper(const char *root, const char *device)
{
	return lacks_port_mapper;
}

bool no_rdma_explain(const char *root, char *ret, size_t size)
{
	if (absent)
		snprintf(ret, size, "%s", absent);
	return absent != NULL;
}
