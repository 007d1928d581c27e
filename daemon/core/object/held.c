/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/object/held.h"
#include "core/object/id.h"
#include "util/util.h"

int held_new(struct id *id, const struct rdma_conn_param *param, bool accept)
{
	struct held *held = calloc(1, sizeof(*held));

	if (!held)
		return -ENOMEM;
	list_init(&held->link);
	held->id = id;
	held->accept = accept;
	held->request = TAKE_PTR(id->handshake.request);
	held->param = *param;
	if (param->private_data) {
		memcpy(held->private_data, param->private_data, param->private_data_len);
		held->param.private_data = held->private_data;
	}
	id->handshake.held = held;
	return 0;
}

struct held *held_free(struct held *held)
{
	if (!held)
		return NULL;
	list_remove(&held->link);
	fabric_lookup_cancel(held->lookup);
	if (held->id->handshake.held == held)
		held->id->handshake.held = NULL;
	free(held->request);
	free(held);
	return NULL;
}
