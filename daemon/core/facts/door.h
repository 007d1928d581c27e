/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The sockets on which the daemon serves. Rights that need no rule belong to a socket that only their user can reach:
 * who has connected to it has proved that he may, because the file system has let him. On the common socket there are
 * no such rights, whoever the client is, because nothing there tells root of the host from root of every container.
 */
enum door {
	DOOR_COMMON, /* for everybody; policy decides */
	DOOR_ADMIN, /* root and the daemon's own user administer and observe; instances borrow devices */
	DOOR_HELPER, /* the user in Helper= answers who peers are */
	_DOOR_MAX,
};
