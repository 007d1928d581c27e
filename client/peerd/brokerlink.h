/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The connection to this host's broker: two sessions. One gets the broker's questions in the loop's thread; in the
 * other one, threads find out who has an address of this host. Both are opened again when they are lost.
 * Only an answer for the broker can keep the loop waiting, and only once: then the sessions are lost.
 */

#include <systemd/sd-event.h>

#include "common/work.h"
#include "message.h"

struct brokerlink;
struct notifier;

/* NOTICE is a question of the broker, which is freed after the call. */
typedef void brokerlink_asked(void *userdata, const struct rdmabroker_notice *notice);

/*
 * SOCKET NULL: the library's default. A broker that is not there (yet) is no error. The sessions are opened in a thread of
 * WORK.
 */
int brokerlink_new(struct brokerlink **ret, sd_event *loop, struct notifier *notifier,
		   struct work *work, const char *socket, brokerlink_asked *asked, void *userdata);
struct brokerlink *brokerlink_free(struct brokerlink *link); /* no thread may use it any more */
/* WHO NULL: it is not known, because of WHY. An answer that is too late is dropped. */
void brokerlink_answer(struct brokerlink *link, uint64_t number, const struct rdmabroker_who *who,
		       const char *why);
/*
 * Who has QUESTION's port at the address TO of this host, and connects to FROM? Returns the answer for the other host;
 * NULL: out of memory. Any thread can call this. It can take a second, and then HANGS is set: if it is, nobody is asked.
 */
json_t *brokerlink_find(struct brokerlink *link, const struct message_head *head,
			const struct question *question, bool *hangs);
