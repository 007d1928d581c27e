/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>

#include "core/watch.h"
#include "tests/unit/watch.h"

const char watch_rules[] = "allow session\nallow listen port 7471-7479 max 2\n"
			   "reject listen port 7480-7999 reason \"not here\"\nallow connect\n"
			   "allow accept\n";

int try_to_listen(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id;
	int r;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	r = rdmabroker_bind_addr(id, addr(port));
	if (r == 0)
		r = rdmabroker_listen(id, 0);
	rdmabroker_destroy_id(id);
	return r;
}

static void do_count_watches(void *arg)
{
	struct list *l;

	*(unsigned *)arg = 0;
	list_for_each(l, &harness.core->watches)
		++*(unsigned *)arg;
}

void await_watches(unsigned wanted)
{
	unsigned n;

	for (int i = 0; i < T; i++) {
		in_server(do_count_watches, &n);
		if (n == wanted)
			return;
		poll(NULL, 0, 1);
	}
	ck_abort_msg("%u watches instead of %u", n, wanted);
}
