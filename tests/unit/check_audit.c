/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/helper.h"
#include "tests/unit/journald.h"
#include "tests/unit/program.h"
#include "util/log.h"

/* What the journal says about decisions, by which journalctl(1) can select entries. */

static const char rules[] = "allow session\nallow listen\nallow connect\n"
			    "allow accept port 7471 peer-user 1234 log\n"
			    "reject accept port 7472 reason \"not here\"\n"
			    "warn accept port 7473 reason \"no rule yet\"\n";

static bool has_journald;

static void set_up_audit(void)
{
	has_journald = take_place_of_journald();
	if (has_journald)
		log_init();
	set_up();
}

static void tear_down_audit(void)
{
	tear_down();
	log_end();
}

/* Returns the next entry about a decision. */
static const char *next_decision(void)
{
	const char *entry;

	do
		entry = next_entry();
	while (entry && !strstr(entry, "\nRDMABROKER_CODE="));
	ck_assert_ptr_nonnull(entry);
	return entry;
}

static void connect_and_answer(struct rdmabroker *helper, struct rdmabroker *c,
			       const struct rdmabroker_who *who)
{
	connect_to(c, 7471);
	answer_question(helper, "accept", who);
}

START_TEST(decisions)
{
	struct rdmabroker *helper, *s, *c;
	char long_text[400] = "", field[64];
	struct rdmabroker_who longest = somebody;
	const char *entry;

	if (!has_journald)
		return;
	set_policy(rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	start_listening(s, 7472);
	start_listening(s, 7473);

	connect_to(c, 7473);
	entry = next_decision();
	assert_has(entry, " allowed with a warning by test.rules:6: no rule yet\n");
	assert_has(entry, "\nMESSAGE_ID=0b5f3e4d27c94c0a9a4e6b8f1d2c7a35\n");
	assert_has(entry, "\nRDMABROKER_CODE=warned\n");
	assert_has(entry, "\nRDMABROKER_RULE=test.rules:6\n");
	assert_has(entry, "\nRDMABROKER_REASON=no rule yet\n");

	connect_to(c, 7472);
	entry = next_decision();
	assert_has(entry, " rejected by test.rules:5: not here\n");
	assert_has(entry, "\nMESSAGE_ID=");
	assert_has(entry, "\nRDMABROKER_CODE=denied\n");
	assert_has(entry, "\nRDMABROKER_OPERATION=accept\n");
	snprintf(field, sizeof(field), "\nRDMABROKER_UID=%u\n", geteuid());
	assert_has(entry, field);
	snprintf(field, sizeof(field), "\nRDMABROKER_PID=%d\n", getpid());
	assert_has(entry, field);
	assert_has(entry, "\nRDMABROKER_SESSION=2\n");
	assert_has(entry, "\nRDMABROKER_LOCAL=10.9.0.1:7472\n");
	assert_has(entry, "\nRDMABROKER_PEER=10.9.0.1:");
	assert_has(entry, "\nRDMABROKER_PORT=7472\n");
	assert_has(entry, "\nRDMABROKER_DEVICE=fake0\n");
	assert_has(entry, "\nRDMABROKER_RULE=test.rules:5\n");
	assert_has(entry, "\nRDMABROKER_REASON=not here\n");
	/* Nobody has asked who the peer is. */
	assert_lacks(entry, "\nRDMABROKER_PEER_");

	connect_and_answer(helper, c, &somebody);
	entry = next_decision();
	assert_has(entry, " allowed by test.rules:4; the peer is uid 1234 in storage-a.service\n");
	assert_has(entry, "\nRDMABROKER_CODE=allowed\n");
	assert_has(entry, "\nRDMABROKER_PEER_UID=1234\n");
	assert_has(entry, "\nRDMABROKER_PEER_UNIT=storage-a.service\n");
	assert_has(entry, "\nRDMABROKER_PEER_JOB=4711\n");
	assert_lacks(entry, "\nRDMABROKER_PEER_UNKNOWN=");

	connect_and_answer(helper, c, NULL);
	entry = next_decision();
	assert_has(entry, "; who the peer is, is not known: 10.9.0.9 is silent\n");
	assert_has(entry, "\nRDMABROKER_CODE=no-rule\n");
	assert_has(entry, "\nRDMABROKER_PEER_UNKNOWN=10.9.0.9 is silent\n");
	assert_lacks(entry, "\nRDMABROKER_PEER_UID=");

	/* Long names are cut, so that there is room for the other fields. */
	memset(long_text, 'x', sizeof(long_text) - 1);
	longest.unit = longest.job = long_text;
	connect_and_answer(helper, c, &longest);
	entry = next_decision();
	ck_assert_uint_eq(strspn(strstr(entry, "\nRDMABROKER_PEER_UNIT=") + 22, "x"), 255);
	ck_assert_uint_eq(strspn(strstr(entry, "\nRDMABROKER_PEER_JOB=") + 21, "x"), 127);

	/* Other hosts choose names, too. */
	longest.unit = "\xe2\x80\xae.service";
	longest.job = "\xef\xbb\xbf";
	connect_and_answer(helper, c, &longest);
	entry = next_decision();
	assert_has(entry, "; the peer is uid 1234 in \\u202e.service\n");
	assert_has(entry, "\nRDMABROKER_PEER_UNIT=\\u202e.service\n");
	assert_has(entry, "\nRDMABROKER_PEER_JOB=\\ufeff\n");
	rdmabroker_close(s);
	rdmabroker_close(c);
	rdmabroker_close(helper);
}
END_TEST

UNIT_MAIN("audit", set_up_audit, tear_down_audit, decisions)
