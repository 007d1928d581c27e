/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Sends and receives texts over a TCP connection: 4 bytes with the length, in network order, and the text. */

#include <stdint.h>
#include <systemd/sd-event.h>

struct transfer;

/* R: 0 or a negative errno. It can free the transfer. */
typedef void transfer_done(void *userdata, int r);

/*
 * Takes over FD, a socket that does not block, and may still be connecting. DONE is called once for each transfer_send(),
 * transfer_receive() and transfer_watch(); MS after this call it gets -ETIMEDOUT.
 */
int transfer_new(struct transfer **ret, sd_event *loop, int fd, uint64_t ms, transfer_done *done,
		 void *userdata);
/* Moves the deadline: DONE gets -ETIMEDOUT MS after this call. */
void transfer_set_timeout(struct transfer *transfer, uint64_t ms);
/* TRANSFER gets another owner: MS and DONE replace those of transfer_new(). */
void transfer_pass(struct transfer *transfer, uint64_t ms, transfer_done *done, void *userdata);
struct transfer *transfer_free(struct transfer *transfer); /* takes NULL; returns NULL */
void transfer_send(struct transfer *transfer, char *text); /* takes TEXT */
/* A text that is longer than MAX is -EMSGSIZE; the end of the connection is -ECONNRESET. */
void transfer_receive(struct transfer *transfer, size_t max);
/* Nothing should come: if anything does, it is -EPROTO; the end of the connection is -ECONNRESET. */
void transfer_watch(struct transfer *transfer);
/* From now on, what the other end does not acknowledge within MS is -ETIMEDOUT. */
void transfer_limit_silence(struct transfer *transfer, unsigned ms);
/* The text that was received, which the caller frees. */
char *transfer_take(struct transfer *transfer);
