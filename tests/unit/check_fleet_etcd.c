/* SPDX-License-Identifier: BSD-2-Clause */
#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "etcd/backoff.h"
#include "etcd/base64.h"
#include "tests/unit/fleet.h"
#include "tests/unit/httpliar.h"
#include "tests/unit/unit.h"

/* The client of etcd, with a real etcd, and with a server that lies. */

static struct etcd *etcd;

static void set_up_client(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void tear_down_client(void)
{
	etcd = etcd_free(etcd);
	tear_down_etcd();
}

static bool begin(void)
{
	if (!set_up_etcd())
		return false;
	start_etcd();
	etcd = new_client(NULL);
	return true;
}

static void assert_text(const char *key, const char *text)
{
	struct etcd_range *range;

	must(etcd, etcd_range(etcd, key, false, 0, &range));
	ck_assert_uint_eq(range->n, text ? 1 : 0);
	if (text) {
		ck_assert_str_eq(range->entries[0].key, key);
		ck_assert_str_eq(range->entries[0].value, text);
	}
	etcd_range_free(range);
}

/* The next event of WATCH has to be KEY with TEXT (NULL: it is deleted). Lost connections are made again. */
static void expect_event(struct etcd_watch *watch, const char *key, const char *text)
{
	struct etcd_event event;
	int r;

	AWAIT((r = etcd_watch_next(watch, 1000, NULL, 0, &event)) > 0, "%s of etcd", key);
	ck_assert_int_eq(r, ETCD_EVENT);
	ck_assert_str_eq(event.entry.key, key);
	ck_assert_int_eq(event.is_delete, !text);
	if (text)
		ck_assert_str_eq(event.entry.value, text);
	etcd_event_done(&event);
}

static struct etcd_watch *watch_from(const char *prefix, int64_t revision)
{
	const struct etcd_interval interval = { prefix, true };
	struct etcd_watch *watch = NULL;

	must(etcd, etcd_watch_new(&watch, etcd, &interval, 1, revision));
	return watch;
}

START_TEST(base64)
{
	static const char *const pairs[][2] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "\xff\xfe\xfb", "//77" },
	};
	static const char *const bad[] = { "Z",    "Zg",       "Zg=",  "Zh==", "Zm9=",   "=",
					   "====", "Zg==Zg==", "Z===", "Zm 9", "Zm9v\n", "Zm-_" };
	char *text;
	size_t len;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		text = base64_encode(pairs[i][0], strlen(pairs[i][0]));
		ck_assert_str_eq(text, pairs[i][1]);
		free(text);
		ck_assert_int_eq(base64_decode(pairs[i][1], strlen(pairs[i][1]), &text, &len), 0);
		ck_assert_uint_eq(len, strlen(pairs[i][0]));
		ck_assert_str_eq(text, pairs[i][0]);
		free(text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(base64_decode(bad[i], strlen(bad[i]), &text, &len) == -EPROTO, "%s",
			      bad[i]);
}
END_TEST

START_TEST(pauses)
{
	struct backoff backoff = {};
	unsigned longest = BACKOFF_FIRST_MS, ms;

	for (int i = 0; i < 20; i++) {
		ms = backoff_fail(&backoff);
		ck_assert_uint_le(ms, longest);
		ck_assert_uint_ge(ms, longest / 2);
		longest = longest * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : longest * 2;
	}
	ck_assert_uint_eq(backoff.ms, BACKOFF_MAX_MS);
	backoff_reset(&backoff);
	ck_assert_uint_le(backoff_fail(&backoff), BACKOFF_FIRST_MS);
}
END_TEST

START_TEST(keys_and_values)
{
	static const char binary[] = { 0, 1, '\n', (char)0xff, 0, '"' };
	struct etcd_range *range;
	int64_t first, n;

	if (!begin())
		return;
	first = put_text(etcd, "/a/1", "one");
	ck_assert_int_eq(put_text(etcd, "/a/2", ""), first + 1);
	must(etcd, etcd_put(etcd, "/a/3", binary, sizeof(binary), 0, NULL));
	put_text(etcd, "/b", "other");

	must(etcd, etcd_range(etcd, "/a/", true, 0, &range));
	ck_assert_int_eq(range->revision, first + 3);
	ck_assert_uint_eq(range->n, 3);
	ck_assert(!range->has_more);
	ck_assert_str_eq(range->entries[0].value, "one");
	ck_assert_int_eq(range->entries[0].mod_revision, first);
	ck_assert_uint_eq(range->entries[1].len, 0);
	ck_assert_uint_eq(range->entries[2].len, sizeof(binary));
	ck_assert_mem_eq(range->entries[2].value, binary, sizeof(binary));
	etcd_range_free(range);

	must(etcd, etcd_range(etcd, "/a/", true, 2, &range));
	ck_assert_uint_eq(range->n, 2);
	ck_assert(range->has_more);
	etcd_range_free(range);
	assert_text("/a", NULL);
	must(etcd, etcd_delete(etcd, "/a/", true, &n));
	ck_assert_int_eq(n, 3);
	must(etcd, etcd_delete(etcd, "/a/1", false, &n));
	ck_assert_int_eq(n, 0);
	assert_text("/a/1", NULL);
	assert_text("/b", "other");
}
END_TEST

START_TEST(writes_on_a_condition)
{
	int64_t revision, later;

	if (!begin())
		return;
	must(etcd, etcd_put_if(etcd, "/k", 0, "1", 1, 0, &revision));
	ck_assert_int_eq(etcd_put_if(etcd, "/k", 0, "2", 1, 0, &later), ETCD_CHANGED);
	assert_text("/k", "1");
	must(etcd, etcd_put_if(etcd, "/k", revision, "2", 1, 0, &later));
	ck_assert_int_gt(later, revision);
	assert_text("/k", "2");
	ck_assert_int_eq(etcd_put_if(etcd, "/k", later, "3", 1, 4711, &later), ETCD_NO_LEASE);
	assert_text("/k", "2");
}
END_TEST

START_TEST(a_watch)
{
	static const struct etcd_interval two[] = { { "/a/", true }, { "/c", false } };
	struct pollfd fd = { .fd = eventfd(1, EFD_CLOEXEC), .events = POLLIN };
	struct etcd_watch *watch = NULL;
	struct etcd_event event;
	struct timespec begun;
	unsigned total = 0, worst = 0;
	int r;
	int64_t revision;
	char text[16];

	if (!begin())
		return;
	revision = put_text(etcd, "/a/1", "one");
	put_text(etcd, "/b", "not watched");
	put_text(etcd, "/c", "c");
	must(etcd, etcd_delete(etcd, "/a/1", false, NULL));
	/* What was before, from the revision on. */
	must(etcd, etcd_watch_new(&watch, etcd, two, 2, revision + 1));
	/* The two intervals have no common order. */
	for (unsigned seen = 0; seen != 3;) {
		r = etcd_watch_next(watch, PATIENCE_MS, NULL, 0, &event);
		ck_assert_int_eq(r, ETCD_EVENT);
		seen += strcmp(event.entry.key, "/c") == 0 ? 1 : 2;
		ck_assert_int_eq(event.is_delete, strcmp(event.entry.key, "/a/1") == 0);
		ck_assert_uint_le(seen, 3);
		etcd_event_done(&event);
	}
	ck_assert(etcd_watch_is_connected(watch));
	put_text(etcd, "/cc", "not watched");
	put_text(etcd, "/a/2", "now");
	expect_event(watch, "/a/2", "now");
	/* A descriptor that is ready ends the wait. */
	ck_assert_int_eq(etcd_watch_next(watch, INT_MAX, &fd, 1, &event), 0);
	ck_assert_int_eq(fd.revents, POLLIN);
	close(fd.fd);
	ck_assert_int_eq(etcd_watch_next(watch, 0, NULL, 0, &event), 0);
	for (int i = 0; i < 100; i++) {
		struct timespec now;
		unsigned us;

		snprintf(text, sizeof(text), "%d", i);
		clock_gettime(CLOCK_MONOTONIC, &begun);
		put_text(etcd, "/a/x", text);
		expect_event(watch, "/a/x", text);
		clock_gettime(CLOCK_MONOTONIC, &now);
		us = (unsigned)((now.tv_sec - begun.tv_sec) * 1000000 +
				(now.tv_nsec - begun.tv_nsec) / 1000);
		total += us;
		worst = us > worst ? us : worst;
	}
	printf("from the request of a put to its event: %u us, at most %u us\n", total / 100,
	       worst);
	etcd_watch_free(watch);
}
END_TEST

START_TEST(a_watch_resumes_when_etcd_is_restarted)
{
	struct etcd_watch *watch;
	struct etcd_event event;
	int64_t revision;
	int r;

	if (!begin())
		return;
	revision = put_text(etcd, "/a/1", "1");
	watch = watch_from("/a/", revision);
	expect_event(watch, "/a/1", "1");
	put_text(etcd, "/a/2", "2");
	expect_event(watch, "/a/2", "2");
	kill_etcd();
	while ((r = etcd_watch_next(watch, PATIENCE_MS, NULL, 0, &event)) == 0)
		;
	ck_assert_int_eq(r, -ECONNREFUSED);
	ck_assert(!etcd_watch_is_connected(watch));
	ck_assert_str_ne(etcd_error(etcd), "");
	ck_assert_int_eq(etcd_put(etcd, "/a/3", "3", 1, 0, NULL), -ECONNREFUSED);
	start_etcd();
	put_text(etcd, "/a/3", "3");
	put_text(etcd, "/a/4", "4");
	/* Neither 1 and 2 again, nor 3 lost. */
	expect_event(watch, "/a/3", "3");
	expect_event(watch, "/a/4", "4");
	etcd_watch_free(watch);
}
END_TEST

static void compact(int64_t revision)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "curl -sf -o /dev/null %s/v3/kv/compaction -d '{\"revision\":%lld}'",
		 etcd_service.endpoint, (long long)revision);
	ck_assert_int_eq(system(command), 0);
}

static int await_end(struct etcd_watch *watch)
{
	struct etcd_event event;
	int r;

	while ((r = etcd_watch_next(watch, PATIENCE_MS, NULL, 0, &event)) == 0)
		;
	return r;
}

START_TEST(what_is_compacted)
{
	struct etcd_watch *watch;
	struct etcd_range *range;
	int64_t first, last = 0;

	if (!begin())
		return;
	first = put_text(etcd, "/a/1", "1");
	for (int i = 0; i < 5; i++)
		last = put_text(etcd, "/a/1", "more");
	compact(last);
	watch = watch_from("/a/", first);
	ck_assert_int_eq(await_end(watch), ETCD_COMPACTED);
	ck_assert_ptr_nonnull(strstr(etcd_error(etcd), "are gone"));
	watch = etcd_watch_free(watch);
	/* The way on, as the header says. */
	must(etcd, etcd_range(etcd, "/a/", true, 0, &range));
	ck_assert_str_eq(range->entries[0].value, "more");
	watch = watch_from("/a/", range->revision + 1);
	etcd_range_free(range);
	put_text(etcd, "/a/1", "after");
	expect_event(watch, "/a/1", "after");
	/* A compaction does not end a watch that has all events. */
	compact(last + 1);
	put_text(etcd, "/a/1", "last");
	expect_event(watch, "/a/1", "last");
	etcd_watch_free(watch);
}
END_TEST

/* The data of etcd are lost, and it begins with revision 1 again. */
START_TEST(an_etcd_that_forgets)
{
	struct etcd_watch *watch;
	char command[128];
	int r;

	if (!begin())
		return;
	for (int i = 0; i < 5; i++)
		put_text(etcd, "/a/1", "1");
	watch = watch_from("/a/", 3);
	expect_event(watch, "/a/1", "1");
	kill_etcd();
	snprintf(command, sizeof(command), "rm -r %s/data", etcd_service.dir);
	ck_assert_int_eq(system(command), 0);
	start_etcd();
	do {
		struct etcd_event event = {};

		r = etcd_watch_next(watch, PATIENCE_MS, NULL, 0, &event);
		etcd_event_done(&event);
	} while (r <= 0 || r == ETCD_EVENT);
	ck_assert_int_eq(r, ETCD_COMPACTED);
	ck_assert_ptr_nonnull(strstr(etcd_error(etcd), "has gone back"));
	etcd_watch_free(watch);
}
END_TEST

#define LEASE_S 6 /* long enough for a slow machine, which renews it all the time */

START_TEST(leases)
{
	struct etcd_watch *watch;
	int64_t lease, other, end;
	unsigned seconds = 0;

	if (!begin())
		return;
	watch = watch_from("/l/", put_text(etcd, "/x", "") + 1);
	must(etcd, etcd_grant(etcd, LEASE_S, &lease));
	must(etcd, etcd_put(etcd, "/l/1", "1", 1, lease, NULL));
	must(etcd, etcd_grant(etcd, LEASE_S, &other));
	must(etcd, etcd_put(etcd, "/l/2", "2", 1, other, NULL));
	expect_event(watch, "/l/1", "1");
	expect_event(watch, "/l/2", "2");
	/* The first lease is kept for longer than it lasts, and the second expires meanwhile. */
	end = patience_end();
	for (;;) {
		struct etcd_event event;
		int r = etcd_watch_next(watch, 300, NULL, 0, &event);

		ck_assert_int_ge(r, 0);
		if (r == ETCD_EVENT) {
			ck_assert_str_eq(event.entry.key, "/l/2");
			ck_assert(event.is_delete);
			etcd_event_done(&event);
			break;
		}
		must(etcd, etcd_keep_alive(etcd, lease, &seconds));
		ck_assert_uint_eq(seconds, LEASE_S);
		if (patience_now_ms() >= end)
			WAITED("the end of a lease");
	}
	assert_text("/l/1", "1");
	ck_assert_int_eq(etcd_keep_alive(etcd, other, NULL), ETCD_NO_LEASE);
	ck_assert_int_eq(etcd_put(etcd, "/l/3", "3", 1, other, NULL), ETCD_NO_LEASE);
	ck_assert_int_eq(etcd_revoke(etcd, other), ETCD_NO_LEASE);
	must(etcd, etcd_revoke(etcd, lease));
	expect_event(watch, "/l/1", NULL);
	etcd_watch_free(watch);
}
END_TEST

static void gateway(const char *path, const char *body)
{
	char command[512];

	snprintf(command, sizeof(command), "curl -sf -o /dev/null %s/v3/%s -d '%s'",
		 etcd_service.endpoint, path, body);
	ck_assert_msg(system(command) == 0, "%s", command);
}

static struct etcd *new_user(const char *user, const char *password)
{
	const char *endpoints[] = { etcd_service.endpoint };
	const struct etcd_options options = { .endpoints = endpoints,
					      .n_endpoints = 1,
					      .user = user,
					      .password = password,
					      .call_ms = PATIENCE_MS,
					      .answer_max = 1 << 20 };
	struct etcd *client = NULL;

	ck_assert_int_eq(etcd_new(&client, &options), 0);
	return client;
}

START_TEST(users_and_passwords)
{
	struct etcd *nobody, *wrong, *early;
	struct etcd_watch *watch;
	struct etcd_event event;
	int r;

	if (!begin())
		return;
	nobody = etcd;
	early = new_user("host", "secret");
	/* No password is needed yet. */
	put_text(early, "/a/0", "0");
	gateway("auth/user/add", "{\"name\":\"root\",\"password\":\"r\"}");
	gateway("auth/user/add", "{\"name\":\"host\",\"password\":\"secret\"}");
	gateway("auth/role/add", "{\"name\":\"root\"}");
	gateway("auth/role/add", "{\"name\":\"hosts\"}");
	/* All keys that begin with "/a/". */
	gateway("auth/role/grant", "{\"name\":\"hosts\",\"perm\":{\"permType\":\"READWRITE\","
				   "\"key\":\"L2Ev\",\"range_end\":\"L2Ew\"}}");
	gateway("auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
	gateway("auth/user/grant", "{\"user\":\"host\",\"role\":\"hosts\"}");
	gateway("auth/enable", "{}");

	ck_assert_int_eq(etcd_put(nobody, "/a/1", "1", 1, 0, NULL), -EACCES);
	wrong = new_user("host", "wrong");
	ck_assert_int_eq(etcd_put(wrong, "/a/1", "1", 1, 0, NULL), -EACCES);
	ck_assert_ptr_nonnull(strstr(etcd_error(wrong), "authentication failed"));
	put_text(early, "/a/1", "1");
	etcd = new_user("host", "secret");
	put_text(etcd, "/a/1", "1");
	ck_assert_int_eq(etcd_put(etcd, "/b", "1", 1, 0, NULL), -EACCES);
	ck_assert_ptr_nonnull(strstr(etcd_error(etcd), "permission denied"));
	watch = watch_from("/a/", put_text(etcd, "/a/1", "now"));
	expect_event(watch, "/a/1", "now");
	/* etcd forgets the tokens when it is restarted. */
	kill_etcd();
	start_etcd();
	put_text(etcd, "/a/1", "again");
	expect_event(watch, "/a/1", "again");
	watch = etcd_watch_free(watch);
	/* A watch that is not permitted is a failure, and not silence. */
	watch = watch_from("/b", 1);
	while ((r = etcd_watch_next(watch, PATIENCE_MS, NULL, 0, &event)) == 0)
		;
	ck_assert_int_eq(r, -EACCES);
	etcd_watch_free(watch);
	etcd_free(nobody);
	etcd_free(wrong);
	etcd_free(early);
}
END_TEST

static int try_tls(const char *endpoint, const char *ca, bool has_certificate)
{
	char ca_path[128], certificate[128], key[128];
	const char *endpoints[] = { endpoint };
	struct etcd_options options = {
		.endpoints = endpoints,
		.n_endpoints = 1,
		.call_ms = PATIENCE_MS,
		.answer_max = 1 << 20,
	};
	int r;

	snprintf(ca_path, sizeof(ca_path), "%s/%s", etcd_service.dir, ca);
	snprintf(certificate, sizeof(certificate), "%s/client.pem", etcd_service.dir);
	snprintf(key, sizeof(key), "%s/client.key", etcd_service.dir);
	options.ca = ca_path;
	options.certificate = has_certificate ? certificate : NULL;
	options.key = has_certificate ? key : NULL;
	etcd = etcd_free(etcd);
	ck_assert_int_eq(etcd_new(&etcd, &options), 0);
	r = etcd_put(etcd, "/a", "1", 1, 0, NULL);
	return r;
}

START_TEST(tls)
{
	char other[64], command[256];
	struct etcd_watch *watch;

	if (!set_up_etcd() || !make_certificates())
		return;
	etcd_service.has_tls = true;
	start_etcd();
	ck_assert_int_eq(try_tls(etcd_service.endpoint, "ca.pem", false), -ECONNREFUSED);
	snprintf(command, sizeof(command),
		 "cd %s && openssl req -x509 -newkey ec -pkeyopt "
		 "ec_paramgen_curve:P-256 -nodes -keyout other.key -out other.pem -subj /CN=ca "
		 "-days 2 2>/dev/null",
		 etcd_service.dir);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(try_tls(etcd_service.endpoint, "other.pem", true), -ECONNREFUSED);
	ck_assert_ptr_nonnull(strcasestr(etcd_error(etcd), "certificate"));
	/* The certificate is not for this name. */
	snprintf(other, sizeof(other), "https://localhost:%u", etcd_service.port);
	ck_assert_int_eq(try_tls(other, "ca.pem", true), -ECONNREFUSED);
	ck_assert_int_eq(try_tls(etcd_service.endpoint, "none.pem", true), -ECONNREFUSED);
	must(etcd, try_tls(etcd_service.endpoint, "ca.pem", true));
	watch = watch_from("/a", put_text(etcd, "/a", "2"));
	expect_event(watch, "/a", "2");
	etcd_watch_free(watch);
}
END_TEST

START_TEST(several_endpoints)
{
	static const struct lie silence[] = { { .path = "/" } };
	struct httpliar liar;
	const char *endpoints[3];
	struct etcd_options options = {
		.endpoints = endpoints, .n_endpoints = 3, .call_ms = 6000, .answer_max = 1 << 20
	};
	static const char *const bad[] = { "",           "127.0.0.1:1",    "ftp://a",
					   "http://",    "http://a/path",  "http://u:p@a",
					   "https://:1", "http://a b:2379" };
	struct etcd_watch *watch;

	if (!set_up_etcd())
		return;
	start_etcd();
	httpliar_start(&liar, silence, 1);
	endpoints[0] = "http://127.0.0.1:1";
	endpoints[1] = liar.endpoint;
	endpoints[2] = etcd_service.endpoint;
	ck_assert_int_eq(etcd_new(&etcd, &options), 0);
	/* The endpoint that is silent gets a part of the time, and leaves enough for the one that answers. */
	put_text(etcd, "/a", "1");
	ck_assert_uint_eq(liar.n_requests, 1);
	/* The one that answered is the first one now. */
	for (int i = 0; i < 10; i++)
		put_text(etcd, "/a", "2");
	ck_assert_uint_eq(liar.n_requests, 1);
	etcd_free(etcd);
	ck_assert_int_eq(etcd_new(&etcd, &options), 0);
	watch = watch_from("/a", 2);
	expect_event(watch, "/a", "1");
	etcd_watch_free(watch);
	httpliar_stop(&liar);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct etcd *none = NULL;

		endpoints[1] = bad[i];
		ck_assert_msg(etcd_new(&none, &options) == -EINVAL, "%s", bad[i]);
	}
}
END_TEST

UNIT_MAIN("fleet_etcd", set_up_client, tear_down_client, base64, pauses, keys_and_values,
	  writes_on_a_condition, a_watch, a_watch_resumes_when_etcd_is_restarted, what_is_compacted,
	  an_etcd_that_forgets, leases, users_and_passwords, tls, several_endpoints)
