/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fleet/converge.h"
#include "tests/unit/fleetctl.h"

/*
 * A host converges: what another program has put in force is mended, what can pass is tried again, and what somebody asks
 * for is done at once. The table of states is tested alone, and then the real agent.
 */

/* The table */

static struct converge converge;
static struct converge_facts facts;

static void wants(const char *wanted, const char *staged, const char *in_force)
{
	facts = (struct converge_facts){ wanted, staged, in_force, false };
}

static void decides(int64_t now, enum converge_action action, enum converge_state after)
{
	ck_assert_int_eq(converge_decide(&converge, &facts, now), action);
	ck_assert_str_eq(converge_names[converge.state], converge_names[after]);
}

START_TEST(from_etcd_to_the_host)
{
	converge_init(&converge);
	wants("", "", "");
	decides(0, CONVERGE_REST, CONVERGE_NONE);
	wants("v1", "", "");
	decides(1, CONVERGE_TAKE, CONVERGE_WAITING);
	converge_asked(&converge, 1);
	wants("v1", "v1", "");
	decides(2, CONVERGE_REST, CONVERGE_WAITING);
	converge_installed(&converge);
	wants("v1", "v1", "v1");
	decides(3, CONVERGE_REST, CONVERGE_IN_FORCE);
	ck_assert_int_eq(converge.next_ms, INT64_MAX);
	/* Back, before the next one was installed: root's part has to be told. */
	wants("v2", "v1", "v1");
	decides(4, CONVERGE_TAKE, CONVERGE_WAITING);
	converge_asked(&converge, 4);
	wants("v1", "v2", "v1");
	decides(5, CONVERGE_TAKE, CONVERGE_WAITING);
	/* Nothing is wanted any more. */
	wants("", "v2", "v1");
	decides(6, CONVERGE_REST, CONVERGE_NONE);
}
END_TEST

START_TEST(drift_and_hold)
{
	converge_init(&converge);
	wants("v2", "v2", "v2");
	decides(0, CONVERGE_TAKE, CONVERGE_WAITING); /* verified once, after the start */
	converge_taken(&converge);
	decides(0, CONVERGE_REST, CONVERGE_IN_FORCE);
	wants("v2", "v2", "v1");
	decides(1, CONVERGE_INSTALL, CONVERGE_WAITING);
	converge_asked(&converge, 1);
	decides(2, CONVERGE_REST, CONVERGE_WAITING);
	/* Held while root's part works: its answer does not count. */
	facts.is_held = true;
	decides(3, CONVERGE_REST, CONVERGE_HELD);
	ck_assert(!converge.is_asked);
	facts.is_held = false;
	decides(4, CONVERGE_INSTALL, CONVERGE_WAITING);
	wants("v2", "v2", "v2");
	decides(5, CONVERGE_REST, CONVERGE_IN_FORCE);
	facts.is_held = true;
	decides(6, CONVERGE_REST, CONVERGE_IN_FORCE);
	/* No version at all is drift, too. */
	wants("v2", "v2", "");
	decides(7, CONVERGE_INSTALL, CONVERGE_WAITING);
}
END_TEST

/* Fails N times. Returns the longest pause. */
static int64_t fails(enum converge_failure failure, unsigned n)
{
	int64_t now = 1000000, pause, longest = 0;

	for (unsigned i = 0; i < n; i++) {
		converge_fail(&converge, failure, "why", now);
		pause = converge.next_ms - now;
		ck_assert_int_ge(pause, longest / 2);
		longest = pause > longest ? pause : longest;
		decides(converge.next_ms - 1, CONVERGE_REST,
			failure == CONVERGE_CHECK || failure == CONVERGE_SOURCE ? CONVERGE_REFUSED :
										  CONVERGE_TRYING);
		now = converge.next_ms;
		decides(now, CONVERGE_TAKE, converge.state);
	}
	ck_assert_uint_eq(converge.n_failed, n);
	ck_assert_int_gt(converge.since_s, 0);
	return longest;
}

START_TEST(pauses_grow_and_have_a_limit)
{
	static const struct {
		enum converge_failure failure;
		int64_t from_ms, to_ms;
	} limits[] = {
		{ CONVERGE_HOST, 150000, 300000 },
		{ CONVERGE_ETCD, 15000, 30000 },
		{ CONVERGE_SOURCE, 300000, 300000 },
		{ CONVERGE_CHECK, 3600000, 3600000 },
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		int64_t longest;

		converge_init(&converge);
		wants("v1", "v1", "v0");
		decides(0, CONVERGE_TAKE, CONVERGE_WAITING);
		longest = fails(limits[i].failure, 20);
		ck_assert_int_ge(longest, limits[i].from_ms);
		ck_assert_int_le(longest, limits[i].to_ms);
		ck_assert_str_eq(converge.why, "why");
		/* Somebody asks: at once, and the next pause is a short one. */
		converge_retry(&converge);
		decides(0, CONVERGE_TAKE, CONVERGE_WAITING);
		converge_fail(&converge, CONVERGE_HOST, "why", 0);
		ck_assert_int_le(converge.next_ms, 1000);
		/* Another version begins without the failures of this one. */
		wants("v2", "v1", "v0");
		decides(1, CONVERGE_TAKE, CONVERGE_WAITING);
		ck_assert_uint_eq(converge.n_failed, 0);
	}
}
END_TEST

/* The daemon refuses the version after it was in force for a moment: that is no reason to begin at once, and anew. */
START_TEST(in_force_for_a_moment)
{
	converge_init(&converge);
	wants("v2", "v2", "v1");
	decides(0, CONVERGE_TAKE, CONVERGE_WAITING);
	for (int i = 1; i <= 4; i++) {
		converge_asked(&converge, 0);
		wants("v2", "v2", "v2");
		decides(1, CONVERGE_REST, i == 1 ? CONVERGE_WAITING : CONVERGE_TRYING);
		wants("v2", "v2", "v1");
		decides(1, CONVERGE_REST, i == 1 ? CONVERGE_WAITING : CONVERGE_TRYING);
		converge_fail(&converge, CONVERGE_HOST, "the daemon hangs", 1);
		decides(2, CONVERGE_REST, CONVERGE_TRYING);
		ck_assert_uint_eq(converge.n_failed, i);
		decides(converge.next_ms, CONVERGE_TAKE, CONVERGE_TRYING);
	}
	/* If the answer is lost, it counts after a while. */
	converge_asked(&converge, 0);
	wants("v2", "v2", "v2");
	decides(converge.next_ms - 1, CONVERGE_REST, CONVERGE_TRYING);
	decides(converge.next_ms, CONVERGE_REST, CONVERGE_IN_FORCE);
}
END_TEST

/* Root's part gives no result: it is asked again, and the state says so. */
START_TEST(no_answer)
{
	converge_init(&converge);
	wants("v1", "v1", "");
	decides(0, CONVERGE_TAKE, CONVERGE_WAITING);
	converge_asked(&converge, 0);
	decides(60000, CONVERGE_REST, CONVERGE_WAITING);
	ck_assert_int_eq(converge.next_ms, 90000);
	for (int64_t now = 90000; now < 3000000; now = converge.next_ms) {
		decides(now, CONVERGE_INSTALL, CONVERGE_TRYING);
		converge_asked(&converge, now);
		ck_assert_int_ge(converge.next_ms - now, 90000);
		ck_assert_int_le(converge.next_ms - now, 300000);
		decides(now + 1, CONVERGE_REST, CONVERGE_TRYING);
	}
	ck_assert_ptr_nonnull(strstr(converge.why, "rdmabroker-fleet-install.path"));
	converge_installed(&converge);
	wants("v1", "v1", "v1");
	decides(4000000, CONVERGE_REST, CONVERGE_IN_FORCE);
}
END_TEST

/* What has failed because of etcd is tried when it is back; a pause of the host goes on. */
START_TEST(etcd_comes_back)
{
	converge_init(&converge);
	wants("v1", "", "");
	decides(0, CONVERGE_TAKE, CONVERGE_WAITING);
	fails(CONVERGE_ETCD, 9);
	converge_fail(&converge, CONVERGE_ETCD, "why", 0);
	decides(1, CONVERGE_REST, CONVERGE_TRYING);
	converge_etcd_is_back(&converge);
	decides(1, CONVERGE_TAKE, CONVERGE_TRYING);
	converge_taken(&converge);
	converge_fail(&converge, CONVERGE_HOST, "why", 0);
	converge_etcd_is_back(&converge);
	decides(1, CONVERGE_REST, CONVERGE_TRYING);
}
END_TEST

/* The agent */

static ino_t seen; /* of the last file `wanted` */

/* Waits until root's part is asked, which is when the file is replaced. */
static void await_question(void)
{
	struct stat st = { 0 };
	char name[4096];

	snprintf(name, sizeof(name), "%s", path("state/wanted"));
	AWAIT(stat(name, &st) == 0 && st.st_ino != seen, "root's part to be asked, in %s",
	      read_text(path("agent.log")));
	seen = st.st_ino;
}

static bool is_asked(void)
{
	struct stat st = { 0 };

	return stat(path("state/wanted"), &st) == 0 && st.st_ino != seen;
}

/* The host has v1 and v2, and v2 in force. */
static bool begin_with_two(void)
{
	if (!begin())
		return false;
	start_broker();
	start_agent();
	publish("v1", "allow listen user 1\n");
	publish("v2", "allow listen user 2\n");
	for (int i = 1; i <= 2; i++) {
		roll_out("all", i == 1 ? "v1" : "v2");
		await_question();
		ck_assert_msg(install() == 0, "%s", read_text(path("results/result")));
		await_state("in_force", i == 1 ? "v1" : "v2");
		await_state("converge.state", "in-force");
	}
	return true;
}

static void end(void)
{
	stop_agent();
	stop_broker();
}

START_TEST(drift_is_mended)
{
	if (!begin_with_two())
		return;
	must_site("use v1");
	await_question();
	assert_wanted("v2");
	await_state("in_force", "v1");
	ck_assert_str_eq(get("converge.state"), "waiting");
	ck_assert_int_eq(install(), 0);
	await_state("in_force", "v2");
	await_state("converge.state", "in-force");
	assert_logged(1, "Version v1 is in force here, but the fleet wants version v2");
	/* Nothing is in force. */
	ck_assert_int_eq(unlink(path("site/current")), 0);
	await_question();
	ck_assert_int_eq(install(), 0);
	await_state("converge.state", "in-force");
	/* While the agent did not run. */
	stop_agent();
	must_site("use v1");
	start_agent();
	await_question();
	ck_assert_int_eq(install(), 0);
	await_state("converge.state", "in-force");
	ck_assert_str_eq(get("in_force"), "v2");
	end();
}
END_TEST

START_TEST(an_admin_holds_a_version)
{
	if (!begin_with_two())
		return;
	must_site("hold 'an experiment'");
	assert_has(out, "held: the fleet changes nothing on this host");
	await_state("hold.why", "an experiment");
	assert_has(get("hold.by"), "@");
	must_site("use v1");
	await_state("converge.state", "held");
	ck_assert_str_eq(get("in_force"), "v1");
	must_site("status");
	assert_has(out, "in force: v1\nheld: by ");
	assert_has(out, ": an experiment\n");
	must_ctl("list");
	squeeze(out);
	assert_has(out, "\nnode7 all held v1 v2 ");
	assert_has(out, ": an experiment\n");
	/* Neither another version of the fleet nor a question changes that. */
	publish("v3", "allow listen user 3\n");
	roll_out("all", "v3");
	await_state("wanted", "v3");
	must_ctl("retry", "node7");
	await_log("A new attempt was asked for.");
	ck_assert(!is_asked());
	/* Not even if root's part is started by hand. */
	ck_assert_int_eq(install(), 75);
	ck_assert_str_eq(get("converge.state"), "held");
	must_site("release");
	await_question();
	assert_wanted("v3");
	ck_assert_int_eq(install(), 0);
	await_state("converge.state", "in-force");
	ck_assert_str_eq(get("in_force"), "v3");
	must_site("release");
	assert_has(out, "nothing was held\n");
	end();
}
END_TEST

START_TEST(a_lock_is_held)
{
	char lock[4096];
	int fd;

	if (!begin_with_two())
		return;
	snprintf(lock, sizeof(lock), "%s", path("site/.lock"));
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	roll_out("all", "v1");
	for (int i = 1; i <= 2; i++) {
		await_question();
		ck_assert_int_eq(install(), 75);
		await_state("converge.attempts", i == 1 ? "1" : "2");
		ck_assert_str_eq(get("converge.state"), "trying");
	}
	assert_has(get("converge.why"), "another process changes the versions");
	must_ctl("status");
	squeeze(out);
	assert_has(out, "hosts: 1: 1 trying\n");
	assert_has(out, "\nnode7 trying v2 ");
	assert_has(out, "s cannot lock ");
	assert_has(out, ": another process changes the versions (2 attempts since 2");
	/* The cause is gone. */
	close(fd);
	await_question();
	ck_assert_int_eq(install(), 0);
	await_state("converge.state", "in-force");
	ck_assert_str_eq(get("in_force"), "v1");
	ck_assert_str_eq(get("converge.why"), "");
	end();
}
END_TEST

/* It has not refused the version, so that is tried again. */
START_TEST(the_daemon_hangs)
{
	if (!begin_with_two())
		return;
	roll_out("all", "v1");
	await_question();
	kill(broker, SIGSTOP);
	ck_assert_int_eq(install(), 75);
	kill(broker, SIGCONT);
	await_state("converge.state", "trying");
	assert_has(get("converge.why"), "rdmabrokerctl: ");
	await_question();
	ck_assert_int_eq(install(), 0);
	await_state("converge.state", "in-force");
	ck_assert_str_eq(get("in_force"), "v1");
	end();
}
END_TEST

/* In root's part, and in the agent's. */
START_TEST(no_space)
{
	static char rules[4096];

	if (!begin_with_two())
		return;
	memset(rules, '#', sizeof(rules) - 1);
	publish("v3", rules);
	roll_out("all", "v3");
	await_question();
	before_install = "trap '' XFSZ; ulimit -f 1;";
	ck_assert_int_eq(install(), 75);
	await_state("converge.state", "trying");
	assert_has(get("converge.why"), "cannot write ");
	before_install = "";
	await_question();
	ck_assert_int_eq(install(), 0);
	await_state("converge.state", "in-force");
	/* The directory of the staged versions cannot be made. */
	ck_assert_int_eq(rename(path("state/staged"), path("state/away")), 0);
	write_text(path("state/staged"), "");
	publish("v4", "allow listen user 4\n");
	roll_out("all", "v4");
	await_state("converge.state", "trying");
	ck_assert_int_eq(unlink(path("state/staged")), 0);
	await_question();
	assert_wanted("v4");
	ck_assert_int_eq(install(), 0);
	await_state("converge.state", "in-force");
	end();
}
END_TEST

START_TEST(somebody_asks)
{
	if (!begin_with_two())
		return;
	/* A local rule that does not go with the version. */
	write_text(path("policy.d/60.rules"), "nonsense\n");
	roll_out("all", "v1");
	await_question();
	ck_assert_int_eq(install(), 1);
	await_state("converge.state", "refused");
	must_ctl("list");
	squeeze(out);
	assert_has(out, "\nnode7 all refused v2 v1 ");
	unlink(path("policy.d/60.rules"));
	ck_assert(!is_asked());
	must_ctl("retry", "node7");
	ck_assert_str_eq(out, "host node7 is asked to try again\n");
	await_question();
	ck_assert_int_eq(install(), 0);
	await_state("converge.state", "in-force");
	/* All hosts, and who rolls the same version out again. */
	for (int i = 0; i < 2; i++) {
		write_text(path("policy.d/60.rules"), "nonsense\n");
		roll_out("all", i == 0 ? "v2" : "v1");
		await_question();
		ck_assert_int_eq(install(), 1);
		await_state("converge.state", "refused");
		unlink(path("policy.d/60.rules"));
		if (i == 0) {
			must_ctl("retry");
			ck_assert_str_eq(out, "all hosts are asked to try again; 1 of 1 does not "
					      "have its version\n");
		} else {
			must_ctl("use", "v1");
		}
		await_question();
		ck_assert_int_eq(install(), 0);
		await_state("converge.state", "in-force");
	}
	ck_assert_int_eq(ctl("retry", "nobody"), 1);
	assert_has(err, "no host nobody is known");
	end();
}
END_TEST

UNIT_MAIN("fleet_converge", set_up_fleet, tear_down_fleet, from_etcd_to_the_host, drift_and_hold,
	  pauses_grow_and_have_a_limit, no_answer, etcd_comes_back, drift_is_mended,
	  an_admin_holds_a_version, a_lock_is_held, no_space, somebody_asks, in_force_for_a_moment,
	  the_daemon_hangs)
