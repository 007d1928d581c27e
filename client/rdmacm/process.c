/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm.h"

/*
 * What happens to the drop-in in a child process, and when a program that has loaded it with dlopen(3) gives it back.
 */

/* Of libc: HOOK is called by exit(3), or by __cxa_finalize(WHOSE), whichever is first. */
int __cxa_atexit(void (*hook)(void *arg), void *arg, void *whose);
void __cxa_finalize(void *whose);

static bool is_exit;

static void note_exit(void *arg)
{
	is_exit = true;
}

/*
 * In the child, a lock that another thread of the parent held at the fork is never released. The child does not use what
 * the locks guard: it begins anew.
 */
static void begin_in_child(void)
{
	real_begin_in_child();
	broker_begin_in_child();
	devices_begin_in_child();
	channels_begin_in_child();
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(NULL, NULL, begin_in_child);
	__cxa_atexit(note_exit, NULL, &is_exit);
}

/*
 * After dlclose(3), which the program calls when it has destroyed its ids and channels, close what the process still has. At
 * exit(3) the kernel does so, and other threads can be in calls.
 */
__attribute__((destructor)) static void end(void)
{
	if (is_exit)
		return;
	/* The hook must not outlive the drop-in. */
	__cxa_finalize(&is_exit);
	devices_end();
	broker_end();
	channels_end();
	real_end();
}
