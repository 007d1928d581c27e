/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A path that a program sets itself, in place of the one that the kernel finds (librdmacm's RDMA_OPTION_IB_PATH). Rules
 * decide by the addresses, so the path must lead from the id's own GID to that of the peer whose address was resolved. On
 * InfiniBand the packets go to a LID, whatever the GIDs are, so the LIDs must be those of a path that the subnet manager
 * has told, but for the low bits that the port's LMC leaves free; and the service level must be that path's. A path also
 * has a traffic class, so a program whose rule sets or limits the TOS cannot set one. It has a partition: if that is not
 * the id's anyway, a rule has to allow it with 'pkey' (route.path_pkey).
 */

#include <stddef.h>
#include <stdint.h>

struct failure;
struct id;

/*
 * Keeps the path for ID: DATA is a PathRecord of InfiniBand's subnet administration. Returns
 * 0, a status that FAILURE explains, or a negative errno.
 */
int own_path_keep(struct id *id, const uint8_t *data, size_t len, struct failure *failure);
void own_path_forget(struct id *id);
/*
 * Compares the LIDs and the service level of the path of ID with those of its route. To be called before the route is replaced. Returns as
 * own_path_keep(); -EINPROGRESS: the route is being resolved, and the client's request waits for that.
 */
int own_path_compare(struct id *id, struct failure *failure);
/*
 * Checks the path of ID, if it has one, against its rule, its addresses and its GIDs, as they are now. To be called
 * whenever the path is used. Returns as own_path_keep().
 */
int own_path_check(const struct id *id, struct failure *failure);
