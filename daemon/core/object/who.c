/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "core/facts/peerid.h"
#include "core/object/who.h"
#include "takeover/ledger.h"
#include "util/util.h"

void who_done(struct who *who)
{
	who->peerid = peerid_free(who->peerid);
}

void who_set(struct who *who, struct peerid *peerid)
{
	who->state = WHO_ANSWERED;
	who->peerid = peerid;
}

void who_forget(struct who *who)
{
	who->state = WHO_UNASKED;
	who->peerid = peerid_free(who->peerid);
}

void who_move(struct who *to, struct who *from)
{
	to->state = from->state;
	to->peerid = TAKE_PTR(from->peerid);
}

void who_save(const struct who *who, struct ledger_id *row)
{
	row->was_asked = who->state != WHO_UNASKED;
}

void who_load(struct who *who, const struct ledger_id *row)
{
	who->state = row->was_asked ? WHO_LOST : WHO_UNASKED;
}
