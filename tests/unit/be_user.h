/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "core/object/session.h"

/* SESSION is one of the user UID from now on. What was charged until now stays charged to the user before. */
static inline void be_user(struct session *session, uid_t uid)
{
	session->identity.uid = uid;
	session->identity.owner = owner_of(uid);
}
