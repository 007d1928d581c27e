/* SPDX-License-Identifier: BSD-2-Clause */
#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "tests/unit/fleet.h"
#include "tests/unit/httpliar.h"
#include "tests/unit/unit.h"

/* The client of etcd, with a server that lies, or says nothing. */

static struct etcd *etcd;

static void set_up_client(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void tear_down_client(void)
{
	etcd = etcd_free(etcd);
}

static unsigned ms_since(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)((now.tv_sec - since->tv_sec) * 1000 +
			  (now.tv_nsec - since->tv_nsec) / 1000000);
}

static struct etcd_watch *watch_from(const char *prefix, int64_t revision)
{
	const struct etcd_interval interval = { prefix, true };
	struct etcd_watch *watch = NULL;

	must(etcd, etcd_watch_new(&watch, etcd, &interval, 1, revision));
	return watch;
}

static int await_end(struct etcd_watch *watch)
{
	struct etcd_event event;
	int r;

	while ((r = etcd_watch_next(watch, PATIENCE_MS, NULL, 0, &event)) == 0)
		;
	return r;
}

START_TEST(a_server_that_never_answers)
{
	static const struct lie silence[] = { { .path = "/" } };
	const char *endpoints[1];
	struct etcd_options options = { .endpoints = endpoints,
					.n_endpoints = 1,
					.call_ms = 200,
					.answer_max = 1 << 20,
					.user = "u",
					.password = "p" };
	struct httpliar liar;
	struct etcd_range *range;
	struct etcd_watch *watch;
	struct timespec begun;
	int64_t n;

	httpliar_start(&liar, silence, 1);
	endpoints[0] = liar.endpoint;
	for (int i = 0; i < 2; i++) {
		options.user = i == 0 ? "u" : NULL;
		etcd_free(etcd);
		ck_assert_int_eq(etcd_new(&etcd, &options), 0);
		clock_gettime(CLOCK_MONOTONIC, &begun);
		ck_assert_int_eq(etcd_range(etcd, "/", true, 0, &range), -ETIMEDOUT);
		ck_assert_int_eq(etcd_put(etcd, "/", "", 0, 0, NULL), -ETIMEDOUT);
		ck_assert_int_eq(etcd_put_if(etcd, "/", 0, "", 0, 0, NULL), -ETIMEDOUT);
		ck_assert_int_eq(etcd_delete(etcd, "/", false, &n), -ETIMEDOUT);
		ck_assert_int_eq(etcd_grant(etcd, 1, &n), -ETIMEDOUT);
		ck_assert_int_eq(etcd_keep_alive(etcd, 1, NULL), -ETIMEDOUT);
		ck_assert_int_eq(etcd_revoke(etcd, 1), -ETIMEDOUT);
		watch = watch_from("/", 1);
		ck_assert_int_eq(await_end(watch), -ETIMEDOUT);
		etcd_watch_free(watch);
		ck_assert_uint_ge(ms_since(&begun), 8 * 200);
	}
	httpliar_stop(&liar);
}
END_TEST

/* Returns what etcd_range() returns for an answer that comes piece by piece. */
static int range_of_pieces(const struct lie *lie, unsigned call_ms)
{
	const char *endpoints[1];
	struct etcd_options options = {
		.endpoints = endpoints, .n_endpoints = 1, .call_ms = call_ms, .answer_max = 1 << 20
	};
	struct etcd_range *range = NULL;
	struct httpliar liar;
	int r;

	httpliar_start(&liar, lie, 1);
	endpoints[0] = liar.endpoint;
	etcd_free(etcd);
	ck_assert_int_eq(etcd_new(&etcd, &options), 0);
	r = etcd_range(etcd, "/", true, 0, &range);
	etcd_range_free(range);
	httpliar_stop(&liar);
	return r;
}

/* The limit of a call is one of silence, because a large answer takes long on a slow machine. But it does not last for ever. */
START_TEST(an_answer_that_comes_slowly)
{
	static char blanks[10001];
	const struct lie whole = { .path = "/",
				   .status = 200,
				   .body = "     {\"header\":{\"revision\":\"7\"}}",
				   .pause_ms = 1000 };
	const struct lie endless = {
		.path = "/", .status = 200, .body = blanks, .stays = true, .pause_ms = 20
	};

	memset(blanks, ' ', sizeof(blanks) - 1);
	ck_assert_msg(range_of_pieces(&whole, 4000) == 0, "%s", etcd_error(etcd));
	/* All its bytes would take 200 s. */
	ck_assert_int_eq(range_of_pieces(&endless, 500), -ETIMEDOUT);
}
END_TEST

/* What etcd_range(), for the prefix "/a/", returns for an answer with STATUS and BODY. */
static int range_of(unsigned status, const char *body)
{
	const struct lie lie = { .path = "/v3/kv/range", .status = status, .body = body };
	struct etcd_range *range = NULL;
	struct httpliar liar;
	int r;

	httpliar_start(&liar, &lie, 1);
	etcd = new_client(liar.endpoint);
	r = etcd_range(etcd, "/a/", true, 4, &range);
	if (r == 0)
		etcd_range_free(range);
	else
		ck_assert_ptr_nonnull(strstr(etcd_error(etcd), liar.endpoint));
	ck_assert_ptr_null(strpbrk(etcd_error(etcd), "\n\033"));
	etcd = etcd_free(etcd);
	httpliar_stop(&liar);
	return r;
}

#define HEADER "\"header\":{\"revision\":\"7\"}"
#define KV(key, value) "{\"key\":\"" key "\",\"mod_revision\":\"5\",\"value\":\"" value "\"}"

START_TEST(lies)
{
	static const char *const not_valid[] = {
		"",
		"nothing",
		"[]",
		"{",
		"{}",
		"{\"header\":7}",
		"{\"header\":{\"revision\":\"-7\"}}",
		"{\"header\":{\"revision\":\"7x\"}}",
		"{\"header\":{\"revision\":\"99999999999999999999\"}}",
		"{\"header\":{\"revision\":true}}",
		"{" HEADER ",\"kvs\":7}",
		"{" HEADER ",\"kvs\":[7]}",
		"{" HEADER ",\"kvs\":[" KV("L2EvMQ", "MQ==") "]}",
		"{" HEADER ",\"kvs\":[" KV("L2EvMQ==", "M Q==") "]}",
		"{" HEADER ",\"kvs\":[{\"key\":7}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"L2EvMQ==\",\"mod_revision\":\" 5\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"L2EvMQ==\",\"lease\":[]}]}",
		/* "/b/1", which was not requested; the same key twice; more than the limit */
		"{" HEADER ",\"kvs\":[" KV("L2IvMQ==", "MQ==") "]}",
		"{" HEADER ",\"kvs\":[" KV("L2EvMQ==", "MQ==") "," KV("L2EvMQ==", "MQ==") "]}",
		"{" HEADER ",\"kvs\":[{},{},{},{},{}]}",
	};
	char *huge = malloc((2 << 20) + 1);

	ck_assert_int_eq(range_of(200, "{" HEADER ",\"kvs\":[" KV("L2EvMQ==", "MQ==") "]}"), 0);
	/* "/a/" and a NUL byte */
	ck_assert_int_eq(range_of(200, "{" HEADER ",\"kvs\":[" KV("L2EvAA==", "MQ==") "]}"), 0);
	for (size_t i = 0; i < sizeof(not_valid) / sizeof(not_valid[0]); i++)
		ck_assert_msg(range_of(200, not_valid[i]) == -EPROTO, "%s", not_valid[i]);
	ck_assert_int_eq(range_of(404, "none"), -EPROTO);
	ck_assert_int_eq(range_of(302, ""), -EPROTO);
	ck_assert_int_eq(range_of(503, ""), -ECONNREFUSED);
	ck_assert_int_eq(range_of(500, "{\"error\":\"etcdserver: mvcc: database space exceeded\"}"),
			 -ENOSPC);
	ck_assert_int_eq(range_of(500, "{\"error\":\"a\\n\\u001b[31mb\"}"), -EREMOTEIO);
	ck_assert_int_eq(range_of(500, "{\"error\":{\"message\":\"other\"}}"), -EREMOTEIO);
	memset(huge, ' ', 2 << 20);
	huge[2 << 20] = 0;
	ck_assert_int_eq(range_of(200, huge), -EMSGSIZE);
	free(huge);
}
END_TEST

/* What a watch of "/a/" from revision 5 returns for the stream BODY. */
static int watch_of(const char *body)
{
	const struct lie lie = { .path = "/v3/watch", .status = 200, .body = body, .stays = true };
	struct etcd_event event = {};
	struct etcd_watch *watch;
	struct httpliar liar;
	int r;

	httpliar_start(&liar, &lie, 1);
	etcd = new_client(liar.endpoint);
	watch = watch_from("/a/", 5);
	while ((r = etcd_watch_next(watch, PATIENCE_MS, NULL, 0, &event)) == 0)
		;
	etcd_event_done(&event);
	etcd_watch_free(watch);
	etcd = etcd_free(etcd);
	httpliar_stop(&liar);
	return r;
}

#define CREATED "{\"result\":{" HEADER ",\"watch_id\":\"1\",\"created\":true}}\n"
#define EVENT(kv) "{\"result\":{" HEADER ",\"watch_id\":\"1\",\"events\":[{\"kv\":" kv "}]}}\n"

START_TEST(lies_of_a_watch)
{
	static const char *const not_valid[] = {
		"nothing\n",
		"{}\n",
		"[]\n",
		CREATED "{\n",
		CREATED "{\"result\":7}\n",
		CREATED "{\"result\":{}}\n",
		"{\"result\":{" HEADER ",\"watch_id\":\"2\",\"created\":true}}\n",
		CREATED EVENT("7"),
		CREATED EVENT(KV("L2EvMQ==", "M")),
		CREATED EVENT(KV("L2IvMQ==", "MQ==")),
		/* Before the revision that was requested. */
		CREATED EVENT("{\"key\":\"L2EvMQ==\",\"mod_revision\":\"4\"}"),
	};
	char *huge = malloc((2 << 20) + 1);

	ck_assert_int_eq(watch_of(CREATED EVENT(KV("L2EvMQ==", "MQ=="))), ETCD_EVENT);
	for (size_t i = 0; i < sizeof(not_valid) / sizeof(not_valid[0]); i++)
		ck_assert_msg(watch_of(not_valid[i]) == -EPROTO, "%s", not_valid[i]);
	ck_assert_int_eq(watch_of("{\"error\":{\"message\":\"permission denied\"}}\n"), -EACCES);
	ck_assert_int_eq(watch_of("{\"result\":{\"canceled\":true}}\n"), -EREMOTEIO);
	memset(huge, ' ', 2 << 20);
	huge[2 << 20] = 0;
	ck_assert_int_eq(watch_of(huge), -EMSGSIZE);
	free(huge);
}
END_TEST

UNIT_MAIN("fleet_liar", set_up_client, tear_down_client, a_server_that_never_answers,
	  an_answer_that_comes_slowly, lies, lies_of_a_watch)
