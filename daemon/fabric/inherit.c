/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/heir.h"
#include "fabric/internal.h"
#include "proto/addr.h"
#include "util/util.h"

/* Ids that a previous process has made, as the layers above see them. heir.c does what the kernel is asked for. */

struct inherited {
	struct heir *heir; /* NULL: the kernel has no such id any more */
	struct fabric_id_info info; /* its device is fabric_id.device */
};

int fabric_inherit(struct fabric *fabric, const int *files, size_t n_files, size_t n_expected,
		   const void *busy, size_t busy_len)
{
	return n_files == 0 ?
		       0 :
		       heirs_take(&fabric->heirs, files, n_files, n_expected, busy, busy_len);
}

static void on_heir_event(void *userdata, struct fabric_id *id, struct fabric_event *event)
{
	(void)userdata;
	fabric_id_on_event(id, event);
}

int fabric_inherit_rest(struct fabric *fabric, const void *busy, size_t busy_len)
{
	struct fabric_device *device = NULL;

	fabric->inherits = false;
	while ((device = fabric_next_device(fabric, device))) {
		fabric_clear_entries(device);
		fabric_look_at(device);
	}
	return fabric->heirs ? heirs_start(fabric->heirs, fabric->loop, busy, busy_len,
					   on_heir_event, NULL) :
			       0;
}

int fabric_get_files(struct fabric *fabric, int *ret_cm, int *ret_inherited)
{
	int r = fabric_open_channel(fabric);

	*ret_cm = r == 0 ? fabric->cm->fd : -1;
	*ret_inherited = fabric->heirs ? heirs_get_file(fabric->heirs) : -1;
	return r;
}

int fabric_id_inherit(struct fabric_id **ret, struct fabric *fabric, uid_t uid,
		      enum rdma_port_space ps, const struct fabric_id_info *info,
		      fabric_event_fn on_event, void *userdata)
{
	struct inherited *inherited = calloc(1, sizeof(*inherited));
	struct fabric_id *id;
	int r;

	if (!inherited)
		return -ENOMEM;
	r = fabric_id_alloc(&id, fabric, uid, /* is_request= */ false);
	if (r < 0) {
		free(inherited);
		return r;
	}
	if (fabric->heirs)
		inherited->heir = heirs_claim(fabric->heirs, &info->local, &info->peer, id);
	inherited->info = *info;
	id->inherited = inherited;
	id->on_event = on_event;
	id->userdata = userdata;
	id->ps = ps;
	if (info->device)
		snprintf(id->device, sizeof(id->device), "%s", info->device);
	if (fabric_id_is_connected(id) && ps != RDMA_PS_UDP && ps != RDMA_PS_IPOIB)
		id->stage = STAGE_ESTABLISHED;
	*ret = id;
	return 0;
}

bool fabric_id_exists(const struct fabric_id *id)
{
	return id->inherited->heir;
}

bool fabric_id_is_connected(const struct fabric_id *id)
{
	return id->inherited->heir && heir_is_connected(id->inherited->heir);
}

void inherited_get_info(const struct fabric_id *id, struct fabric_id_info *ret)
{
	*ret = id->inherited->info;
	ret->device = id->device[0] ? id->device : NULL;
}

int inherited_establish(const struct fabric_id *id)
{
	return id->inherited->heir ? heir_establish(id->inherited->heir) : -EINVAL;
}

int inherited_reject(const struct fabric_id *id, const void *data, size_t len)
{
	return id->inherited->heir ? heir_reject(id->inherited->heir, data, len) : -EINVAL;
}

int inherited_disconnect(const struct fabric_id *id)
{
	return id->inherited->heir ? heir_disconnect(id->inherited->heir) : 0;
}

void inherited_destroy(const struct fabric_id *id)
{
	if (!id->inherited->heir)
		return;
	if (id->disconnects)
		heir_disconnect(id->inherited->heir);
	heir_destroy(id->inherited->heir);
}

void inherited_free(struct fabric_id *id)
{
	if (!id->inherited)
		return;
	if (id->inherited->heir)
		heir_forget(id->inherited->heir);
	free(id->inherited);
	id->inherited = NULL;
}

unsigned inherited_count(const struct fabric_device *device)
{
	const struct heirs *heirs = device->fabric->heirs;
	size_t position = 0;
	struct fabric_id *id;
	unsigned n = 0;

	while (heirs && (id = heirs_next(heirs, &position)))
		n += strcmp(id->device, device->name) == 0;
	return n;
}
