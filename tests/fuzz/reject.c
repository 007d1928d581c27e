/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "client/rdmabroker.h"
#include "proto/status.h"
#include "tests/fuzz/hostile.h"
#include "util/diag.h"

/*
 * The input is the private data of a reject, from an untrusted peer. The decoded text must be printable, and the
 * library must decode what the broker encodes.
 */

static struct {
	struct rdmabroker *session;
	struct rdmabroker_id *ids[2];
	struct hostile hostile;
	struct input none;
} w;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	silence();
	w.session = hostile_open(&w.hostile, &w.none, 0);
	must(w.session);
	w.hostile.honest = true;
	must(rdmabroker_create_id(w.session, RDMABROKER_PS_TCP, NULL, &w.ids[0]) == 0);
	must(rdmabroker_create_id(w.session, RDMABROKER_PS_UDP, NULL, &w.ids[1]) == 0);
	return 0;
}

static void check_text(const char *text)
{
	must(strlen(text) <= REFUSAL_TEXT_MAX);
	for (; *text; text++)
		must((unsigned char)*text >= ' ' && *text != 0x7f);
}

static void pack_again(const struct refusal *refusal)
{
	struct refusal again;
	uint8_t buf[REFUSAL_MAX];
	size_t n;

	for (size_t max = REFUSAL_MAX_LOOKUP; max <= REFUSAL_MAX;
	     max += REFUSAL_MAX - REFUSAL_MAX_LOOKUP) {
		n = refusal_pack(buf, max, refusal->code, refusal->retry_after_ms, refusal->text);
		must(n >= REFUSAL_HEADER_LEN && n <= max);
		must(refusal_unpack(&again, buf, n));
		must(again.code == refusal->code);
		must(again.retry_after_ms == refusal->retry_after_ms);
		must(strncmp(again.text, refusal->text, strlen(again.text)) == 0);
	}
}

static void check_event(const struct rdmabroker_event *event, const uint8_t *data, size_t size)
{
	struct refusal refusal;

	must(event->conn->private_data_len == (size < 255 ? size : 255));
	must(memcmp(event->conn->private_data ?: "", data, event->conn->private_data_len) == 0);
	must(event->text && event->text[0]);
	if (!refusal_unpack(&refusal, data, event->conn->private_data_len)) {
		must(event->rejected_by == RDMABROKER_REJECTED_BY_PEER);
		return;
	}
	must(event->rejected_by == RDMABROKER_REJECTED_BY_POLICY);
	check_text(event->text);
}

/* LOOKUP: delivers the data with the reply to a look-up; false: with the reject of a connection. */
static void deliver(const uint8_t *data, size_t size, bool lookup)
{
	Rdmabroker__Event out = RDMABROKER__EVENT__INIT;
	Rdmabroker__ConnParam conn = RDMABROKER__CONN_PARAM__INIT;
	struct rdmabroker_event *event;

	out.id = lookup ? 2 : 1;
	out.type = lookup ? RDMABROKER_EVENT_UNREACHABLE : RDMABROKER_EVENT_REJECTED;
	out.status = lookup ? 2 : 28;
	conn.private_data.len = size;
	conn.private_data.data = (uint8_t *)data;
	out.conn = &conn;
	hostile_send_event(&w.hostile, &out);
	must(rdmabroker_get_event(w.session, 0, &event) == 0);
	must(event->id == w.ids[lookup]);
	check_event(event, data, size);
	rdmabroker_free_event(event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct refusal refusal;

	if (size > 300)
		return 0;
	if (refusal_unpack(&refusal, data, size)) {
		check_text(refusal.text);
		pack_again(&refusal);
	}
	deliver(data, size, false);
	deliver(data, size, true);
	return 0;
}
