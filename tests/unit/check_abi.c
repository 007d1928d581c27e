/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/abi/layout-2.0.h"
#include "tests/unit/program.h"

/* Programs that were built with headers of another version than the library's. */

#define LONGEST 4096 /* the largest size that a call accepts */

static struct rdmabroker *session;

/* Each give_ function passes GIVEN to a call, and returns the result. */

static int give_options(void *given)
{
	struct rdmabroker_options *options = given;
	struct rdmabroker *second;
	int r;

	options->socket = harness.socket_path;
	r = rdmabroker_open(options, &second);
	if (r == 0)
		rdmabroker_close(second);
	return r;
}

static int give_conn_param(void *given)
{
	struct rdmabroker_conn_param *param = given;
	struct rdmabroker *server = open_session(0);
	static uint32_t last_qpn = 16; /* QP numbers are not used again, because of timewait */
	struct rdmabroker_id *id;
	int r;

	start_listening(server, 7471);
	id = resolve(session, 7471);
	param->qp_num = ++last_qpn;
	r = rdmabroker_connect(id, param);
	if (r == 0)
		rdmabroker_free_event(expect(server, RDMABROKER_EVENT_CONNECT_REQUEST));
	rdmabroker_destroy_id_wait(id, T);
	rdmabroker_close(server);
	return r;
}

static int give_ud_param(void *given)
{
	struct rdmabroker_id *id;
	int r;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_UDP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	r = rdmabroker_join_multicast_wait(id, addr(1), 1, T, given);
	rdmabroker_destroy_id(id);
	return r;
}

#define END(type, last) (offsetof(struct type, last) + sizeof(((struct type *)NULL)->last))

/* A struct must end with its member LAST, without padding: see client/lib/wire/sized.h. */
#define FILLED(type, last) _Static_assert(END(type, last) == sizeof(struct type), #type)
FILLED(rdmabroker_options, replies);
FILLED(rdmabroker_conn_param, unused);
FILLED(rdmabroker_ud_param, ah_attr);
FILLED(rdmabroker_event, arg);
FILLED(rdmabroker_failure, rule);

static const struct {
	const char *name;
	int (*give)(void *given);
	size_t first; /* bytes up to the end of the last member that version 2.0 has */
	size_t known; /* size of the struct in the library that is tested */
	bool is_output; /* the call fills the struct, and reads only its size */
} structs[] = {
	{ "rdmabroker_options", give_options, END(rdmabroker_options, call_timeout_ms),
	  sizeof(struct rdmabroker_options), false },
	{ "rdmabroker_conn_param", give_conn_param, END(rdmabroker_conn_param, srq),
	  sizeof(struct rdmabroker_conn_param), false },
	{ "rdmabroker_ud_param", give_ud_param, END(rdmabroker_ud_param, ah_attr),
	  sizeof(struct rdmabroker_ud_param), true },
};

#define N_STRUCTS (sizeof(structs) / sizeof(structs[0]))

/*
 * Returns a new struct of exactly LEN bytes, so that sanitizers find reads past its end. SAID becomes its size
 * member, and TAIL its last byte but one.
 */
static void *make(size_t len, size_t said, uint8_t tail)
{
	uint8_t *bytes = calloc(1, len);

	ck_assert_ptr_nonnull(bytes);
	bytes[len - 2] = tail;
	memcpy(bytes, &said, sizeof(said));
	return bytes;
}

static void expect_success(size_t i, size_t size)
{
	void *given = make(size, size, 0);

	ck_assert_msg(structs[i].give(given) == 0, "%s of %zu bytes: %s", structs[i].name, size,
		      rdmabroker_last_failure()->text);
	free(given);
}

static void set_up_session(void)
{
	set_up_ctl();
	session = open_session(0);
}

static void tear_down_session(void)
{
	rdmabroker_close(session);
	tear_down();
}

/* Structs of later versions are accepted if their new members are 0. */
START_TEST(structs_of_other_versions)
{
	for (size_t i = 0; i < N_STRUCTS; i++) {
		expect_success(i, structs[i].first);
		expect_success(i, structs[i].known);
		expect_success(i, structs[i].known + 24);
		expect_success(i, LONGEST);
	}
}
END_TEST

static void expect_refusal(size_t i, size_t len, size_t said, uint8_t tail, int error,
			   const char *text)
{
	void *given = make(len, said, tail);

	expect_failure(structs[i].give(given), error, text);
	free(given);
}

START_TEST(structs_that_are_refused)
{
	char text[128];

	for (size_t i = 0; i < N_STRUCTS; i++) {
		const size_t sizes[] = { 0, 1, structs[i].first - 1, LONGEST + 1, SIZE_MAX };
		size_t known = structs[i].known;

		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			snprintf(text, sizeof(text), "the size of struct %s is %zu",
				 structs[i].name, sizes[k]);
			expect_refusal(i, known, sizes[k], 0, EINVAL, text);
		}
		/* A program of a later version sets a member that this library does not know. */
		if (structs[i].is_output) {
			void *given = make(known + 24, known + 24, 1);

			ck_assert_int_eq(structs[i].give(given), 0);
			free(given);
		} else {
			snprintf(text, sizeof(text), "struct %s has a member at byte %zu",
				 structs[i].name, known + 22);
			expect_refusal(i, known + 24, known + 24, 1, EOPNOTSUPP, text);
		}
		expect_success(i, known);
	}
}
END_TEST

/* The library does not write past the end of the program's struct. */
START_TEST(a_result_for_an_older_program)
{
	struct rdmabroker_ud_param *ud, whole = RDMABROKER_UD_PARAM_INIT;
	uint8_t bytes[sizeof(whole) + 32];
	struct rdmabroker_id *id;

	memset(bytes, 0xaa, sizeof(bytes));
	ud = (struct rdmabroker_ud_param *)(void *)bytes;
	*ud = whole;
	ud->qp_num = ud->qkey = 0xaaaa;
	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_UDP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	/* No group is joined if the result cannot be returned. */
	ud->size = 1;
	ck_assert_int_eq(rdmabroker_join_multicast_wait(id, addr(1), 1, T, ud), -EINVAL);
	ck_assert_int_eq(rdmabroker_leave_multicast(id, addr(1)), -EADDRNOTAVAIL);
	ud->size = sizeof(whole);
	ck_assert_int_eq(rdmabroker_join_multicast_wait(id, addr(1), 1, T, ud), 0);
	ck_assert_uint_eq(ud->size, sizeof(whole));
	ck_assert_uint_ne(ud->qp_num, 0xaaaa);
	ck_assert_uint_ne(ud->qkey, 0xaaaa);
	for (size_t i = sizeof(whole); i < sizeof(bytes); i++)
		ck_assert_uint_eq(bytes[i], 0xaa);
	ck_assert(RDMABROKER_HAS(ud, ah_attr));
	ud->size = offsetof(struct rdmabroker_ud_param, ah_attr);
	ck_assert(RDMABROKER_HAS(ud, qkey));
	ck_assert(!RDMABROKER_HAS(ud, ah_attr));
	rdmabroker_destroy_id(id);
}
END_TEST

#ifdef __x86_64__
#define IS_X86_64 1
#else
#define IS_X86_64 0
#endif

/* Unused members must be 0, so that a later version can use them. */
START_TEST(unused_members)
{
	struct rdmabroker_conn_param param = RDMABROKER_CONN_PARAM_INIT;

	param.unused[0] = 1;
	expect_failure(give_conn_param(&param), EOPNOTSUPP,
		       "struct rdmabroker_conn_param has a member");
}
END_TEST

/* A program can clean up before it prints the failure of a call. */
START_TEST(failures_outlive_cleanup)
{
	struct rdmabroker *other = open_session(0);
	struct rdmabroker_id *id = start_listening(other, 7471);
	struct rdmabroker_notice *notice;

	expect_failure(rdmabroker_get_notice(other, 0, &notice), EINVAL, "watch");
	stop_server();
	rdmabroker_destroy_qp(id);
	rdmabroker_destroy_id(id);
	rdmabroker_close(other);
	ck_assert_int_eq(rdmabroker_last_failure()->error, -EINVAL);
	ck_assert_ptr_nonnull(strstr(rdmabroker_last_failure()->text, "watch"));
}
END_TEST

/* The expected output of tests/abi/program.c. */
static const char expected[] =
	"calls: 64\n"
	"open: ENOENT, failure 1, text 1, rule 0, retry 0\n"
	"listens: port 7471, context 1, session 1, tos 32, device fake0\n"
	"resolved: device fake0, peer 1\n"
	"connect without parameters: -22\n"
	"  \"from the client\", responder_resources 3, initiator_depth 2, flow_control 0, "
	"retry_count 5, rnr_retry_count 6, srq 0, qp_num 1001\n"
	"event RDMABROKER_EVENT_CONNECT_RESPONSE, status 0\n"
	"  of the client: 1\n"
	"  \"from the server\", responder_resources 3, initiator_depth 2, flow_control 0, "
	"retry_count 5, rnr_retry_count 6, srq 0, qp_num 1002\n"
	"event RDMABROKER_EVENT_ESTABLISHED, status 0\n"
	"joined: size 1\n"
	"event RDMABROKER_EVENT_MULTICAST_JOIN, status 0\n"
	"  the same parameters: 1, context 1\n";

/* The program was built without sanitizers. If the library was built with them, their runtime must be preloaded. */
static void preload_sanitizers(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "__asan_init");
	Dl_info info;

	if (symbol && dladdr(symbol, &info))
		setenv("LD_PRELOAD", info.dli_fname, /* overwrite= */ 1);
}

START_TEST(a_program_of_version_2_0)
{
	const char *src = getenv("SRCDIR") ?: ".";
	char path[4096];

	if (!IS_X86_64) {
		fprintf(stderr, "skipped: the program is one for x86-64\n");
		return;
	}
	snprintf(path, sizeof(path), "%s/tests/abi/program-2.0-x86_64", src);
	set_policy("allow any\n");
	setenv("RDMABROKER_SOCKET", harness.socket_path, /* overwrite= */ 1);
	preload_sanitizers();
	/* This program is not in the build directory, and does not look for the library there. */
	setenv("LD_LIBRARY_PATH", build_dir(), /* overwrite= */ 1);
	run((const char *const[]){ path, "10.9.0.1", "7471", "239.0.0.1", NULL });
	unsetenv("LD_PRELOAD");
	ck_assert_str_eq(got.err, "");
	ck_assert_str_eq(got.out, expected);
	ck_assert_int_eq(got.status, 0);
}
END_TEST

UNIT_MAIN("abi", set_up_session, tear_down_session, structs_of_other_versions,
	  structs_that_are_refused, a_result_for_an_older_program, unused_members,
	  failures_outlive_cleanup, a_program_of_version_2_0)
