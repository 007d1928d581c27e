/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The descriptors that outlive this process. systemd keeps copies of them (FileDescriptorStoreMax=) and passes them to
 * the next process of the service after a restart, a crash or an upgrade. After `systemctl stop` it closes them.
 *
 * Each descriptor has a name. A name is "KIND-N", so that a new descriptor can be stored before an old one of the
 * same kind is removed, and the next process finds at least one of the two whenever this process is killed.
 *
 * Without a service manager that keeps descriptors, the store is absent: nothing is kept, and the other functions have
 * no effect.
 */

#include <stdbool.h>
#include <stddef.h>

struct notifier;
struct fdstore;

/* Takes over the descriptors that systemd has passed, except listening sockets. NOTIFIER tells systemd what to keep. */
int fdstore_new(struct fdstore **ret, struct notifier *notifier);
/* Closes the descriptors that nobody has taken. What systemd keeps, it keeps. */
struct fdstore *fdstore_free(struct fdstore *store);
/* True: what is added is passed to the next process. */
bool fdstore_is_present(const struct fdstore *store);

/* The number of descriptors that systemd has passed from its store; they follow the listening sockets. */
unsigned fdstore_count(const struct fdstore *store);
/*
 * Takes the next descriptor of KIND that the previous process has left, which the caller has to close. Returns -1 if
 * there is no more. *RET_N is the number in its name.
 */
int fdstore_take(struct fdstore *store, const char *kind, unsigned *ret_n);
/* Adds a copy of FD with the name "KIND-N". Returns 0 or a negative errno. Without a store, returns 0. */
int fdstore_add(struct fdstore *store, const char *kind, unsigned n, int fd);
/* True: systemd has not read all that it was told. What fdstore_add() has added can be lost with this process. */
bool fdstore_is_behind(const struct fdstore *store);
/* Waits until systemd has read it, for ten seconds at most. For the time in which nobody is served. */
void fdstore_settle(struct fdstore *store);
void fdstore_remove(struct fdstore *store, const char *kind, unsigned n);
/* The highest N of the descriptors of KIND that systemd has passed; 0: there was none. */
unsigned fdstore_last(const struct fdstore *store, const char *kind);
