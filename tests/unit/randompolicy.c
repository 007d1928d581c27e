/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/rule/prefix.h"
#include "proto/addr.h"
#include "proto/pkey.h"
#include "tests/unit/randompolicy.h"
#include "util/diag.h"

#define RULES_MAX 2000
#define SETS 6
#define PKEYS 20

uint64_t random_state;

static unsigned long next_random(void)
{
	/* splitmix64, because rand() differs between C libraries */
	uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

int pick(int n)
{
	return next_random() % n;
}

bool one_in(int n)
{
	return pick(n) == 0;
}

struct shape shape;

static const char *const operations[] = { "session", "device",  "listen", "connect", "accept",
					  "join",    "observe", "admin",  "any" };
static const char *const port_spaces[] = { "tcp", "udp", "ib", "ipoib" };
static const int port_space_numbers[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB };
static const char *const data_texts[] = {
	"\"NVMe\"",
	"\"NVMe-of\"",
	"\"\\\"quoted\\\\\"",
	"0x00",
	"0x0000ff",
	"\"0123456789abcdef0123456789abcdef\"",
	"\"0123456789abcdefX\"",
	"0x4e564d",
};
static const char *const data_values[] = {
	"NVMe",
	"NVMe-offload",
	"\"quoted\\ and more",
	"NV",
	"0123456789abcdef0123456789abcdef and more",
	"0123456789abcdefXYZ",
	"other",
};

struct shape random_shape(void)
{
	static const int many[] = { 1, 2, 5, 20, 100, 1000 };

	return (struct shape){
		.users = many[pick(6)],
		.groups = many[pick(6)],
		.ports = many[pick(6)],
		.hosts = many[pick(6)],
		.devices = many[pick(4)],
		.units = many[pick(6)],
		.common = 1 + pick(4),
		.has_any = one_in(2),
		.has_gids = one_in(3),
	};
}

static int random_size(void)
{
	switch (pick(10)) {
	case 0:
		return pick(20);
	case 1:
		return pick(RULES_MAX + 1);
	case 2:
	case 3:
		return pick(600);
	default:
		return pick(400);
	}
}

/* Writes the address of host number HOST to RET, as IPv6 or IPv4. */
static void address_of(int host, bool is_ipv6, char *ret, size_t size)
{
	if (is_ipv6)
		snprintf(ret, size, "fd00:%x:%x::%x", host % 3, host / 3 % 7, host);
	else
		snprintf(ret, size, "10.%d.%d.%d", host % 3, host / 3 % 50, host % 200 + 1);
}

static void print_prefix(FILE *f)
{
	static const int lengths4[] = { 0, 8, 16, 20, 24, 31, 32, 32 };
	static const int lengths6[] = { 0, 16, 32, 48, 64, 65, 127, 128 };
	bool is_ipv6 = one_in(3), is_gid = is_ipv6 && shape.has_gids && one_in(2);
	int length = is_ipv6 ? lengths6[pick(8)] : lengths4[pick(8)];
	struct prefix prefix;
	char text[128], address[64];

	address_of(pick(shape.hosts), is_ipv6, address, sizeof(address));
	snprintf(text, sizeof(text), "%s%s/%d", is_gid ? "gid:" : "", address, length);
	/* prefix_parse() clears the bits after the prefix. */
	prefix_parse(&prefix, text, strlen(text));
	fputs(prefix_to_string(&prefix, text), f);
}

static void print_set(FILE *f, int number)
{
	/* Sometimes the last set has many members. */
	int n = number == SETS - 1 && one_in(20) ? 3000 : 1 + pick(30);

	fprintf(f, "set s%d = { \\\n", number);
	for (int i = 0; i < n; i++) {
		if (number > 0 && one_in(15))
			fprintf(f, "@s%d", pick(number));
		else if (n > 1000)
			fprintf(f, "11.%d.%d.%d", i / 2000, i / 200 % 10, i % 200 * 1);
		else
			print_prefix(f);
		fputs(i < n - 1 ? ",\\\n" : " }\n", f);
	}
}

static void print_addresses(FILE *f, const char *word)
{
	fprintf(f, " %s ", word);
	if (one_in(4))
		fprintf(f, "@s%d", pick(SETS));
	else
		print_prefix(f);
}

static void print_ids(FILE *f, const char *word, int n)
{
	int id = 1000 + pick(n);

	fprintf(f, " %s %d", word, id);
	for (int more = one_in(4) ? pick(6) : 0; more > 0; more--)
		fprintf(f, ",%d", id += 1 + pick(9));
}

static void print_ports(FILE *f)
{
	int port = 1 + pick(shape.ports) * 7;

	fprintf(f, " port %d", port);
	if (one_in(3))
		fprintf(f, "-%d", port += pick(one_in(10) ? 50000 : 300));
	for (int more = one_in(5) ? pick(3) : 0; more > 0; more--)
		fprintf(f, ",%d", port += 1 + pick(20));
}

static void print_pkeys(FILE *f)
{
	int pkey = 1 + pick(PKEYS);

	fprintf(f, one_in(2) ? " pkey %d" : " pkey 0x%x", pkey | (one_in(2) ? PKEY_FULL : 0));
	if (one_in(3))
		fprintf(f, "-%d", pkey += pick(10));
	if (one_in(5))
		fprintf(f, ",0x%x", pkey + 1 + pick(10));
}

static void print_device(FILE *f)
{
	static const char *const globs[] = { "*", "rxe*", "mlx5_?", "mlx[45]_1*", "?xe1", "m*" };

	if (one_in(3))
		fprintf(f, " device %s", globs[pick(6)]);
	else
		fprintf(f, " device %s%d", one_in(2) ? "rxe" : "mlx5_", pick(shape.devices));
}

static void print_unit(FILE *f)
{
	int n = pick(shape.units);

	switch (pick(5)) {
	case 0:
		fprintf(f, " unit user@%d.*", n);
		break;
	case 1:
		fputs(one_in(2) ? " unit *.service" : " unit user@*", f);
		break;
	case 2:
		fprintf(f,
			" unit a-unit-whose-name-is-longer-than-sixty-three-bytes-until-it-"
			"ends-%d*",
			n);
		break;
	default:
		fprintf(f, " unit user@%d.service", n);
	}
}

static void print_cgroup(FILE *f)
{
	int n = pick(shape.units);

	switch (pick(4)) {
	case 0:
		fputs(one_in(2) ? " cgroup /" : " cgroup /*/a-*", f);
		break;
	case 1:
		fprintf(f, " cgroup /user.slice/user-%d*", n);
		break;
	default:
		fprintf(f, " cgroup /user.slice/user-%d.slice", n);
	}
}

static void print_container(FILE *f)
{
	int n = pick(shape.units);

	if (one_in(3))
		fputs(one_in(2) ? " container *" : " container user-*/*", f);
	else
		fprintf(f, " container %s%d", one_in(2) ? "user-" : "c", n);
}

static void print_who(FILE *f)
{
	static const char *const same[] = { "user", "unit", "job" };

	switch (pick(4)) {
	case 0:
		print_ids(f, "peer-user", shape.users);
		break;
	case 1:
		print_ids(f, "peer-group", shape.groups);
		break;
	case 2:
		fprintf(f, " peer-unit user@%d%s", pick(shape.units), one_in(2) ? "*" : ".scope");
		break;
	default:
		fprintf(f, " peer-same %s", same[pick(3)]);
	}
}

/* Most rules get a match, because otherwise the first few rules would decide everything. */
static void print_rule(FILE *f)
{
	int operation = pick(_POLICY_OPERATION_MAX + shape.has_any), common = shape.common;
	bool is_any = operation == _POLICY_OPERATION_MAX;
	bool is_cm = operation >= POLICY_LISTEN && operation <= POLICY_JOIN;
	bool has_peer = is_cm && operation != POLICY_LISTEN;
	long start;

	fprintf(f, "%s %s",
		one_in(3) ? "reject" :
		one_in(5) ? "warn" :
			    "allow",
		operations[operation]);
	start = ftell(f);
	if ((has_peer || (is_any && one_in(3))) && one_in(common))
		print_addresses(f, "peer");
	if (is_cm && operation != POLICY_JOIN && one_in(common))
		print_ports(f);
	if (one_in(common + 1))
		print_ids(f, "group", shape.groups);
	if (one_in(common + 2))
		print_unit(f);
	if (one_in(common + 4))
		print_cgroup(f);
	if (one_in(common + 4))
		print_container(f);
	if (is_cm && one_in(common + 1))
		print_addresses(f, "local");
	if ((is_cm || operation == POLICY_DEVICE) && one_in(common + 1))
		print_device(f);
	if (is_cm && one_in(common + 2))
		fprintf(f, " ps %s", port_spaces[pick(4)]);
	if ((is_cm || (is_any && one_in(3))) && one_in(common + 2))
		print_pkeys(f);
	if (operation == POLICY_ACCEPT && one_in(common + 2))
		fprintf(f, " data %s", data_texts[pick(8)]);
	if ((operation == POLICY_CONNECT || operation == POLICY_ACCEPT) && one_in(common + 1))
		print_who(f);
	if (one_in(common) || (ftell(f) == start && !one_in(50)))
		print_ids(f, "user", shape.users);
	fputc('\n', f);
}

struct policy *random_policy(size_t *ret_n)
{
	size_t n = random_size(), size;
	struct policy *policy;
	struct diag *diag;
	char *text;
	FILE *f;
	int r;

	f = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(f);
	for (int i = 0; i < SETS; i++)
		print_set(f, i);
	for (size_t i = 0; i < n; i++)
		print_rule(f);
	ck_assert_int_eq(fclose(f), 0);

	ck_assert_int_eq(diag_new(&diag), 0);
	r = policy_load_text(&policy, "random", text, size, diag);
	ck_assert_msg(r == 0, "%s", complaints_at(&diag->errors, 0));
	diag_free(diag);
	free(text);
	ck_assert_uint_eq(policy_n_rules(policy), n);
	*ret_n = n;
	return policy;
}

static const struct sockaddr *random_address(struct sockaddr_storage *ret, bool is_known)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	bool is_ipv6 = one_in(3), is_mapped = one_in(4);
	char text[64], mapped[80];

	memset(ret, 0, sizeof(*ret));
	if (!is_known && one_in(2))
		return NULL;
	if (!is_known) {
		ret->ss_family = one_in(2) ? AF_INET : AF_INET6;
		return (struct sockaddr *)ret;
	}

	address_of(pick(shape.hosts), is_ipv6, text, sizeof(text));
	if (is_ipv6 && shape.has_gids && one_in(2)) {
		snprintf(mapped, sizeof(mapped), "gid:%s", text);
		ck_assert(addr_parse(ret, mapped, 0));
		return (struct sockaddr *)ret;
	}
	if (one_in(8))
		snprintf(text, sizeof(text), "11.0.%d.%d", pick(10), pick(256));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1 && !is_mapped) {
		ret->ss_family = AF_INET;
		return (struct sockaddr *)ret;
	}
	memset(ret, 0, sizeof(*ret));
	snprintf(mapped, sizeof(mapped), "%s%s", strchr(text, ':') ? "" : "::ffff:", text);
	ck_assert_int_eq(inet_pton(AF_INET6, mapped, &in6->sin6_addr), 1);
	ret->ss_family = AF_INET6;
	return (struct sockaddr *)ret;
}

static const char *random_unit(struct facts *facts)
{
	static const char long_name[] =
		"a-unit-whose-name-is-longer-than-sixty-three-bytes-until-it-ends-";
	int n = pick(shape.units);

	switch (pick(6)) {
	case 0:
		facts->unit[0] = '\0';
		break;
	case 1:
		snprintf(facts->unit, sizeof(facts->unit), "%s%d.scope", long_name, n);
		break;
	case 2:
		snprintf(facts->unit, sizeof(facts->unit), "user@%d.scope", n);
		break;
	default:
		snprintf(facts->unit, sizeof(facts->unit), "user@%d.service", n);
		break;
	}
	return facts->unit;
}

static const char *random_cgroup(struct facts *facts)
{
	static const char *const below[] = { "", "/a-b", "/user.slice", "/a/b/c" };
	int n = pick(shape.units);

	if (one_in(6))
		return "/";
	snprintf(facts->cgroup, sizeof(facts->cgroup), "/user.slice/user-%d.slice%s", n,
		 below[pick(4)]);
	return facts->cgroup;
}

static const char *random_container(struct facts *facts)
{
	int n = pick(shape.units);

	if (one_in(3))
		return "";
	snprintf(facts->container, sizeof(facts->container), one_in(2) ? "c%d" : "user-%d/c", n);
	return facts->container;
}

static const char *random_job(char job[16])
{
	if (one_in(3))
		return "";
	snprintf(job, 16, "%d", pick(3));
	return job;
}

const struct policy_peer *random_who(struct facts *facts)
{
	struct policy_peer *who = &facts->who;

	*who = (struct policy_peer){
		.uid = 1000 + pick(shape.users),
		.gids = facts->peer_gids,
		.n_gids = pick(5),
	};
	for (size_t i = 0; i < who->n_gids; i++)
		facts->peer_gids[i] = 1000 + pick(shape.groups + 1);
	policy_sort_gids(facts->peer_gids, who->n_gids);
	/* What the peer belongs to can be unknown. */
	if (one_in(4))
		return who;
	snprintf(facts->peer_unit, sizeof(facts->peer_unit), "user@%d.%s", pick(shape.units),
		 one_in(2) ? "scope" : "service");
	who->workload[WORKLOAD_UNIT] = one_in(6) ? "" : facts->peer_unit;
	who->workload[WORKLOAD_JOB] = random_job(facts->peer_job);
	return who;
}

static size_t random_n_gids(void)
{
	switch (pick(100)) {
	case 0:
		return GIDS_MAX;
	case 1:
	case 2:
		return 20 + pick(400);
	default:
		return pick(4);
	}
}

/* UNKNOWN 0: no fact is missing. */
static bool is_missing(int unknown)
{
	return unknown > 0 && one_in(unknown);
}

bool random_question(struct policy_question *ret, struct facts *facts)
{
	int unknown = one_in(2) ? 0 : 2 + pick(8);
	const char *data = data_values[pick(7)];

	*ret = (struct policy_question){
		.operation = pick(_POLICY_OPERATION_MAX),
		.early = one_in(2),
		.uid = 1000 + pick(shape.users),
		.gids = facts->gids,
		.n_gids = random_n_gids(),
		.local = random_address(&facts->local, !is_missing(unknown)),
		.peer = random_address(&facts->peer, !is_missing(unknown)),
		.port = is_missing(unknown) ? -pick(2) : 1 + pick(shape.ports) * 7 + pick(3),
		.port_space = is_missing(unknown) ? 0 : port_space_numbers[pick(4)],
		.workload[WORKLOAD_UNIT] = is_missing(unknown) ? NULL : random_unit(facts),
		.workload[WORKLOAD_CGROUP] = is_missing(unknown) ? NULL : random_cgroup(facts),
		.workload[WORKLOAD_CONTAINER] = is_missing(unknown) ? NULL :
								      random_container(facts),
		.workload[WORKLOAD_JOB] = is_missing(unknown) ? NULL : random_job(facts->job),
		.pkey = is_missing(unknown) ? 0 : (uint16_t)(1 + pick(PKEYS)),
		.knows_data = !is_missing(unknown),
		.who = one_in(3) ? random_who(facts) : NULL,
		.can_ask = !one_in(4),
		.assume_who = one_in(8),
	};
	for (size_t i = 0; i < ret->n_gids; i++)
		facts->gids[i] = 1000 + pick(shape.groups + 1);
	policy_sort_gids(facts->gids, ret->n_gids);
	ret->names_pkey = ret->pkey != 0 && one_in(4) && ret->operation >= POLICY_LISTEN &&
			  ret->operation <= POLICY_JOIN;
	ret->too_many_gids = is_missing(unknown);
	if (!is_missing(unknown)) {
		snprintf(facts->device, sizeof(facts->device), "%s%d", one_in(2) ? "rxe" : "mlx5_",
			 pick(shape.devices));
		ret->device = facts->device;
	}
	if (ret->knows_data && !one_in(8)) {
		ret->data = data;
		ret->data_len = strlen(data);
	}
	return unknown == 0 && !shape.has_gids;
}

unsigned long number_from(const char *variable, unsigned long otherwise)
{
	const char *text = getenv(variable);

	return text && *text ? strtoul(text, NULL, 0) : otherwise;
}
