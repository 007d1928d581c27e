/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/exporter.h"

/* The metrics of the site's policy, which the exporter makes of two files. */

static char site_dir[128], pull_dir[128], state[160], status[160];

static void set_up_site(void)
{
	char text[512];

	set_up_service();
	snprintf(site_dir, sizeof(site_dir), "%s/site", harness.dir);
	snprintf(pull_dir, sizeof(pull_dir), "%s/pull", harness.dir);
	snprintf(state, sizeof(state), "%s/state", site_dir);
	snprintf(status, sizeof(status), "%s/status", pull_dir);
	ck_assert_int_eq(mkdir(site_dir, 0755), 0);
	ck_assert_int_eq(mkdir(pull_dir, 0755), 0);
	snprintf(text, sizeof(text), "[Exporter]\nSiteDir=%s\nPullDir=%s\n", site_dir, pull_dir);
	write_text(service.settings, text);
}

static void tear_down_site(void)
{
	unlink(state);
	unlink(status);
	rmdir(site_dir);
	rmdir(pull_dir);
	tear_down_service();
}

/* The exporter gives all requests of a second the same answer, but not a new exporter. */
static void scrape(void)
{
	start_exporter(service.metrics);
	ask(service.metrics, GET_1_0);
	assert_metrics();
	stop_exporter();
}

START_TEST(what_is_in_force)
{
	start_broker();
	scrape();
	assert_lacks(answer.body, "rdmabroker_site");
	assert_lacks(answer.body, "rdmabroker_pull");
	write_text(
		state,
		"state in-force\nversion v1\nsha256 0123abcd\nwanted v1\nwanted_sha256 0123abcd\ncode ok\nsince 1795872605\n");
	scrape();
	assert_has(answer.body, "\n# TYPE rdmabroker_site info\n");
	assert_has(
		answer.body,
		"\nrdmabroker_site_info{version=\"v1\",sha256=\"0123abcd\",wanted=\"v1\",state=\"in-force\",code=\"ok\",branch=\"\"} 1\n");
	assert_has(answer.body, "\nrdmabroker_site_in_force 1\n");
	assert_has(answer.body, "\nrdmabroker_site_since_timestamp_seconds 1795872605\n");
	assert_lacks(answer.body, "rdmabroker_pull");
	write_text(
		state,
		"state refused\nversion v1\nwanted v2\ncode rules\nerror version v3\nsince 1795872606\n");
	write_text(
		status,
		"branch main\ncommit 1a2b\nsucceeded 1795872600\ncode 75\nerror no route to host\n");
	scrape();
	assert_has(
		answer.body,
		"\nrdmabroker_site_info{version=\"v1\",sha256=\"\",wanted=\"v2\",state=\"refused\",code=\"rules\",branch=\"main\"} 1\n");
	assert_has(answer.body, "\nrdmabroker_site_in_force 0\n");
	assert_has(answer.body, "\nrdmabroker_pull_success_timestamp_seconds 1795872600\n");
	assert_has(answer.body, "\nrdmabroker_pull_code 75\n");
	write_text(state, "state drift-put-back\nversion v1\nwanted v1\nsince 1\n");
	scrape();
	assert_has(answer.body, "\nrdmabroker_site_in_force 1\n");
	/* Prometheus' older format, and a broker that is away. */
	stop_broker();
	start_exporter(service.metrics);
	ask(service.metrics, "GET /metrics HTTP/1.0\r\n\r\n");
	assert_has(answer.body, "\nrdmabroker_up 0\n");
	assert_has(answer.body, "\n# TYPE rdmabroker_site_info gauge\n");
	assert_has(answer.body, "\nrdmabroker_site_in_force 1\n");
	stop_exporter();
}
END_TEST

/* The file of rdmabroker-pull belongs to a user who is not trusted. */
START_TEST(hostile_files)
{
	static char large[1 << 20];

	start_broker();
	write_text(state, "state in-force\nversion v1\n");
	write_text(status, "branch a\"} 1\\\x80\nsucceeded 99999999999999999999\ncode x\n");
	scrape();
	assert_has(answer.body, ",branch=\"a??\?1??\"} 1\n");
	assert_has(answer.body,
		   "\nrdmabroker_pull_success_timestamp_seconds 9223372036854775807\n");
	assert_has(answer.body, "\nrdmabroker_pull_code 0\n");
	memset(large, 'b', sizeof(large) - 1);
	memcpy(large, "branch ", 7);
	write_text(status, large);
	scrape();
	assert_has(answer.body, ",branch=\"bbb");
	ck_assert_int_eq(unlink(status), 0);
	ck_assert_int_eq(symlink("/etc/passwd", status), 0);
	scrape();
	assert_lacks(answer.body, "rdmabroker_pull");
	ck_assert_int_eq(unlink(status), 0);
	ck_assert_int_eq(mkfifo(status, 0666), 0);
	scrape();
	assert_lacks(answer.body, "rdmabroker_pull");
	ck_assert_int_eq(unlink(status), 0);
	write_text(status, "");
	scrape();
	assert_lacks(answer.body, "rdmabroker_pull");
	stop_broker();
}
END_TEST

UNIT_MAIN("exporter_site", set_up_site, tear_down_site, what_is_in_force, hostile_files)
