/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "core/admit/rule_settings.h"
#include "core/object/id.h"
#include "core/verbs/bind.h"
#include "core/verbs/option.h"

/* _OPTION_MAX: there is none with this number. FAILURE says so. */
static enum option find(int number, struct failure *failure)
{
	enum option option = 0;

	while (option < _OPTION_MAX && option_kinds[option].number != number)
		option++;
	if (option == _OPTION_MAX)
		failure_set_error(failure, STATUS_BAD_REQUEST, ENOSYS, "unknown option %d", number);
	return option;
}

static int set_in_kernel(struct id *id, enum option option, int value, struct failure *failure)
{
	int r = id_set_option(id, option, value);

	return r < 0 ? failure_set_fabric(failure, r, "set %s to %d", option_kinds[option].name,
					  value) :
		       0;
}

/* Policy decides about TOS and REUSEADDR; before it has decided, their values are only stored. */
static int set(struct id *id, int number, int value, struct failure *failure)
{
	enum option option = find(number, failure);
	const struct option_kind *kind;

	if (option == _OPTION_MAX)
		return STATUS_BAD_REQUEST;
	kind = &option_kinds[option];
	if (kind->max == 1)
		value = value != 0;
	if (value < 0 || value > kind->max)
		return failure_set(failure, STATUS_BAD_REQUEST, "%s %d is out of range 0..%d",
				   kind->name, value, kind->max);
	if (!(IN(id->state) & kind->states))
		return id_refuse_state(id, "set_option", failure);
	switch (option) {
	case OPTION_TOS:
		id->options.asked[option] = value;
		return rule_settings_apply(id, failure);
	case OPTION_REUSEADDR:
		if (id->state != ID_IDLE)
			return bind_late_reuseaddr(id, value, failure);
		id->options.asked[option] = value;
		return 0;
	default:
		/* If the id's rule sets the option, the client's value is ignored. */
		if (rule_settings_force(id, option))
			return 0;
		return set_in_kernel(id, option, value, failure);
	}
}

int option_set(struct id *id, int number, int value, struct failure *failure)
{
	int r = set(id, number, value, failure);

	id_save(id);
	return r;
}

int option_get(struct id *id, int number, int *ret, struct failure *failure)
{
	const struct options *options = &id->options;
	enum option option = find(number, failure);

	switch (option) {
	case _OPTION_MAX:
		return STATUS_BAD_REQUEST;
	case OPTION_TOS:
		*ret = id->grant.rule ? options->now[option] : options->asked[option];
		break;
	case OPTION_REUSEADDR:
		*ret = options_has_reuseaddr(options) || options_wants_reuseaddr(options);
		break;
	default:
		*ret = options->now[option];
	}
	return 0;
}
