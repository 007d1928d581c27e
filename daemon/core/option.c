/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "core/bind.h"
#include "core/id.h"
#include "core/option.h"
#include "core/record.h"
#include "core/settings.h"

#define IN(state) (1u << (state))
#define ANY (~(IN(ID_MOVED) | IN(ID_REVOKED)))

/*
 * The options that a client can set, and the states in which the kernel allows that. Policy decides about TOS and
 * REUSEADDR; before it has decided, their values are only stored.
 */
static const struct option {
	int option;
	const char *name;
	int max; /* 1: a boolean, every number but 0 is true */
	unsigned states;
} options[] = {
	{ RDMA_OPTION_ID_TOS, "TOS", 255, ANY },
	{ RDMA_OPTION_ID_REUSEADDR, "REUSEADDR", 1, ANY & ~IN(ID_LISTENING) },
	{ RDMA_OPTION_ID_AFONLY, "AFONLY", 1, IN(ID_IDLE) | IN(ID_BOUND) },
	{ RDMA_OPTION_ID_ACK_TIMEOUT, "ACK_TIMEOUT", 255, ANY },
};

static int find(int option, const struct option **ret, struct failure *failure)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].option == option) {
			*ret = &options[i];
			return 0;
		}
	failure_set(failure, STATUS_BAD_REQUEST, "unknown option %d", option);
	failure->error = ENOSYS;
	return STATUS_BAD_REQUEST;
}

static int set_in_kernel(struct id *id, const struct option *option, int value, int *in_force,
			 struct failure *failure)
{
	int r = fabric_id_set_option(id->fabric, option->option, value);

	if (r < 0)
		return failure_set_fabric(failure, r, "set %s to %d", option->name, value);
	*in_force = value;
	return 0;
}

static int set(struct id *id, int number, int value, struct failure *failure)
{
	const struct option *option = NULL;
	int r;

	r = find(number, &option, failure);
	if (r != 0)
		return r;
	if (option->max == 1)
		value = value != 0;
	if (value < 0 || value > option->max)
		return failure_set(failure, STATUS_BAD_REQUEST, "%s %d is out of range 0..%d",
				   option->name, value, option->max);
	if (!(IN(id->state) & option->states))
		return id_refuse_state(id, "set_option", failure);
	switch (number) {
	case RDMA_OPTION_ID_TOS:
		id->tos_asked = value;
		return settings_apply(id, failure);
	case RDMA_OPTION_ID_REUSEADDR:
		if (id->state != ID_IDLE)
			return bind_late_reuseaddr(id, value, failure);
		id->reuseaddr_asked = value;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		return set_in_kernel(id, option, value, &id->afonly, failure);
	default:
		/* If the id's rule sets the ACK timeout, the client's value is ignored. */
		if (id->rule && !id->listener && id->rule->settings.ack_timeout >= 0)
			return 0;
		return set_in_kernel(id, option, value, &id->ack_timeout, failure);
	}
}

int option_set(struct id *id, int number, int value, struct failure *failure)
{
	int r = set(id, number, value, failure);

	record_id(id);
	return r;
}

int option_get(struct id *id, int number, int *ret, struct failure *failure)
{
	const struct option *option;
	int r;

	r = find(number, &option, failure);
	if (r != 0)
		return r;
	switch (number) {
	case RDMA_OPTION_ID_TOS:
		*ret = id->rule ? id->tos : id->tos_asked;
		break;
	case RDMA_OPTION_ID_REUSEADDR:
		*ret = id->reuseaddr || id->reuseaddr_asked;
		break;
	case RDMA_OPTION_ID_AFONLY:
		*ret = id->afonly;
		break;
	default:
		*ret = id->ack_timeout;
	}
	return 0;
}
