/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The rules that are installed and documented: the default policy, the example files, and the examples of the man
 * page.
 */

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/words.h"
#include "tests/unit/check_policy.h"

#define PAGE "daemon/rdmabroker.rules.5"

enum { ROOT = 0, NVMF = 900, RDMA = 901, HPC = 902, ADM = 903, SOMEBODY = 1000 };

static const struct {
	const char *name;
	unsigned id;
} names[] = {
	{ "root", ROOT }, { "nvmf", NVMF }, { "rdma", RDMA }, { "hpc", HPC }, { "adm", ADM }
};

static const unsigned *find_id(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i].name, name))
			return &names[i].id;
	return NULL;
}

/* These functions replace the C library's, because the examples' users and groups need not exist on this host. */
int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size,
	       struct passwd **ret)
{
	const unsigned *id = find_id(name);

	*ret = NULL;
	if (!id)
		return 0;
	memset(entry, 0, sizeof(*entry));
	entry->pw_uid = *id;
	*ret = entry;
	return 0;
}

int getgrnam_r(const char *name, struct group *entry, char *buffer, size_t size, struct group **ret)
{
	const unsigned *id = find_id(name);

	*ret = NULL;
	if (!id)
		return 0;
	memset(entry, 0, sizeof(*entry));
	entry->gr_gid = *id;
	*ret = entry;
	return 0;
}

static struct policy_question question;
static struct policy_verdict verdict;
static struct sockaddr_storage peer, local;
static gid_t gids[2];

/* Sets QUESTION for a user who has the groups 100 and GID. */
static void ask(enum policy_operation operation, uid_t uid, gid_t gid)
{
	gids[0] = 100;
	gids[1] = gid;
	policy_sort_gids(gids, 2);
	question = (struct policy_question){
		.operation = operation,
		.uid = uid,
		.gids = gids,
		.n_gids = 2,
		.port = -1,
		.device = "mlx5_0",
		.port_space = RDMA_PS_TCP,
		.workload[WORKLOAD_UNIT] = "",
		.knows_data = true,
	};
}

static const struct sockaddr *address(struct sockaddr_storage *ret, const char *text)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	ret->ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	ck_assert_int_eq(inet_pton(ret->ss_family, text,
				   ret->ss_family == AF_INET ? (void *)&in->sin_addr :
							       (void *)&in6->sin6_addr),
			 1);
	return (struct sockaddr *)ret;
}

static void assert_allowed(const char *text)
{
	policy_decide(policy, &question, &verdict);
	ck_assert_msg(verdict.answer == POLICY_ALLOW, "%s", verdict.reason);
	ck_assert_msg(!strncmp(verdict.rule->text, text, strlen(text)), "%s", verdict.rule->text);
}

static void assert_rejected(const char *reason)
{
	policy_decide(policy, &question, &verdict);
	ck_assert_msg(verdict.answer == POLICY_REJECT, "%s",
		      verdict.rule ? verdict.rule->text : "");
	ck_assert_str_eq(verdict.reason, reason);
}

static FILE *open_file(const char *name)
{
	const char *top = getenv("SRCDIR");
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", top ? top : ".", name);
	f = fopen(path, "r");
	ck_assert_msg(f, "%s", path);
	return f;
}

/* Loads the rules in the file NAME. UNCOMMENT: also the rules that are commented out. */
static void load_file(const char *name, bool uncomment)
{
	char line[1024], *text;
	size_t size;
	FILE *f = open_file(name), *out = open_memstream(&text, &size);

	while (fgets(line, sizeof(line), f)) {
		bool is_rule = uncomment && line[0] == '#' && line[1] >= 'a' && line[1] <= 'z';

		fputs(line + is_rule, out);
	}
	fclose(f);
	fclose(out);
	load(text);
	free(text);
}

START_TEST(the_shipped_policy_allows_nothing)
{
	load_file("conf/policy.d/50-default.rules", false);
	ck_assert_uint_eq(policy_n_rules(policy), 0);
	for (int i = 0; i < _POLICY_OPERATION_MAX; i++) {
		ask(i, ROOT, ROOT);
		assert_rejected("no-rule");
	}
}
END_TEST

START_TEST(the_shipped_examples_decide_as_commented)
{
	load_file("conf/policy.d/50-default.rules", true);
	ck_assert_uint_eq(policy_n_rules(policy), 17);
	ask(POLICY_OBSERVE, SOMEBODY, RDMA);
	assert_rejected("no-rule");
	ask(POLICY_OBSERVE, SOMEBODY, ADM);
	assert_allowed("allow observe group adm");
	ask(POLICY_ADMIN, SOMEBODY, ADM);
	assert_rejected("no-rule");

	ask(POLICY_SESSION, SOMEBODY, RDMA);
	assert_allowed("allow session group rdma");
	ask(POLICY_SESSION, SOMEBODY, 0);
	assert_rejected("no rule allows this");
	ask(POLICY_ACCEPT, NVMF, 0);
	question.port = 4420;
	question.peer = address(&peer, "10.1.0.1");
	assert_allowed("allow accept user nvmf");
	ck_assert_int_eq(verdict.rule->settings.tos, 104);
	question.peer = address(&peer, "10.2.0.1");
	assert_rejected("not a storage host");
	ask(POLICY_CONNECT, SOMEBODY, HPC);
	question.peer = address(&peer, "10.2.3.4");
	question.port = 1;
	assert_allowed("allow connect group hpc");
	ck_assert_int_eq(verdict.rule->settings.reuseaddr, POLICY_REUSEADDR_CLIENT);
	question.n_gids = 0;
	assert_rejected("no rule allows this");
}
END_TEST

static void assert_admin_is_root(void)
{
	ask(POLICY_ADMIN, ROOT, 0);
	assert_allowed("allow admin user root");
	ask(POLICY_ADMIN, SOMEBODY, RDMA);
	assert_rejected("denied");
	ask(POLICY_ADMIN, SOMEBODY, HPC);
	assert_rejected("denied");
}

START_TEST(a_single_host)
{
	static const char *const reason = "only members of the group rdma may use RDMA here";

	load_file("conf/examples/single-host.rules", false);
	assert_admin_is_root();
	for (int i = 0; i < POLICY_OBSERVE; i++) {
		ask(i, SOMEBODY, RDMA);
		question.local = address(&local, "10.0.0.1");
		question.peer = address(&peer, "fd00::1");
		question.port = 7174;
		assert_allowed("allow ");
		ask(i, ROOT, HPC);
		assert_rejected(reason);
		ck_assert(verdict.rule->log);
	}
	ask(POLICY_LISTEN, SOMEBODY, RDMA);
	question.port = 1024;
	assert_allowed("allow listen");
	ck_assert(verdict.rule->names_port);
	question.port = 1023;
	assert_rejected(reason);
	/* Before the port is known, a rule can still allow the request. */
	question.port = 0;
	question.early = true;
	policy_decide(policy, &question, &verdict);
	ck_assert_int_eq(verdict.answer, POLICY_DEFER);
}
END_TEST

START_TEST(a_storage_target)
{
	const struct policy_settings *s;

	load_file("conf/examples/storage-target.rules", false);
	assert_admin_is_root();
	ask(POLICY_SESSION, NVMF, 0);
	assert_allowed("allow session user nvmf");
	ask(POLICY_SESSION, SOMEBODY, RDMA);
	assert_rejected("denied");
	ask(POLICY_DEVICE, NVMF, 0);
	assert_allowed("allow device user nvmf");

	ask(POLICY_LISTEN, NVMF, 0);
	question.port = 4420;
	assert_allowed("allow listen user nvmf port 4420");
	ck_assert_int_eq(verdict.rule->settings.backlog, 512);
	question.port = 4421;
	assert_rejected("denied");

	ask(POLICY_ACCEPT, NVMF, 0);
	question.port = 4420;
	question.peer = address(&peer, "10.1.255.1");
	assert_allowed("allow accept user nvmf");
	s = &verdict.rule->settings;
	ck_assert_int_eq(s->tos, 104);
	ck_assert_uint_eq(s->rate.per_second, 200);
	ck_assert_uint_eq(s->rate.burst, 400);
	ck_assert_uint_eq(s->rate_per_peer.per_second, 50);
	ck_assert_uint_eq(s->rate_per_peer.burst, 100);
	ck_assert_uint_eq(s->max, 4096);
	ck_assert_uint_eq(s->pending, 64);
	question.peer = address(&peer, "fd00:1::5");
	assert_allowed("allow accept user nvmf");
	question.peer = address(&peer, "10.2.0.1");
	assert_rejected("not a storage host");
	ck_assert(verdict.rule->log);
	question.uid = SOMEBODY;
	question.peer = address(&peer, "10.1.0.1");
	assert_rejected("denied");

	ask(POLICY_CONNECT, NVMF, 0);
	question.peer = address(&peer, "10.1.0.1");
	question.port = 4420;
	assert_rejected("denied");
}
END_TEST

START_TEST(a_cluster)
{
	const struct policy_settings *s;

	load_file("conf/examples/hpc-cluster.rules", false);
	assert_admin_is_root();
	ask(POLICY_SESSION, SOMEBODY, HPC);
	assert_allowed("allow session group hpc");
	ck_assert_uint_eq(verdict.rule->settings.max_per_user, 1024);
	ask(POLICY_SESSION, SOMEBODY, RDMA);
	assert_rejected("denied");

	ask(POLICY_LISTEN, SOMEBODY, HPC);
	question.port = 29999;
	assert_allowed("allow listen group hpc port 20000-29999");
	ck_assert_uint_eq(verdict.rule->settings.max_per_user, 4096);
	question.port = 30000;
	assert_rejected("a port of the cluster is 20000 to 29999");

	ask(POLICY_ACCEPT, SOMEBODY, HPC);
	question.port = 20000;
	question.peer = address(&peer, "10.2.3.4");
	assert_allowed("allow accept group hpc");
	s = &verdict.rule->settings;
	ck_assert_uint_eq(s->rate_per_user.per_second, 1000);
	ck_assert_uint_eq(s->pending, 1024);
	question.peer = address(&peer, "10.3.3.4");
	assert_rejected("not in the cluster");

	ask(POLICY_CONNECT, SOMEBODY, HPC);
	question.port = 20000;
	question.peer = address(&peer, "10.2.3.4");
	assert_allowed("allow connect group hpc");
	s = &verdict.rule->settings;
	ck_assert_int_eq(s->tos_max, 32);
	ck_assert_int_eq(s->reuseaddr, POLICY_REUSEADDR_CLIENT);
	ck_assert_uint_eq(s->max, 65536);
	ck_assert_uint_eq(s->max_per_user, 16384);
	question.peer = address(&peer, "8.8.8.8");
	assert_rejected("not in the cluster");

	ask(POLICY_JOIN, SOMEBODY, HPC);
	question.local = address(&local, "10.2.0.1");
	question.peer = address(&peer, "239.1.2.3");
	assert_allowed("allow join group hpc");
	question.local = address(&local, "10.3.0.1");
	assert_rejected("denied");
}
END_TEST

/* Loads the rules in README's section CONTAINERS. */
static void load_containers_of_readme(void)
{
	char line[1024], *text;
	bool is_there = false;
	size_t size;
	FILE *f = open_file("README"), *out = open_memstream(&text, &size);

	while (fgets(line, sizeof(line), f)) {
		if (line[0] >= 'A' && line[0] <= 'Z')
			is_there = !strcmp(line, "CONTAINERS\n");
		if (is_there && !strncmp(line, "      allow ", 12))
			fputs(line, out);
	}
	fclose(f);
	fclose(out);
	load(text);
	free(text);
}

/* The rules admit the containers that README says, without other rules. */
START_TEST(containers_of_readme)
{
	static const struct {
		const char *container;
		int first, last; /* the ports that the container may use */
	} rows[] = {
		{ "4f2a", 1024, 65535 },
		{ "user-1000/4f2a", 20000, 29999 },
		{ "user-1001/4f2a", 0, 0 },
		{ "", 0, 0 },
	};

	load_containers_of_readme();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int operation = 0; operation < POLICY_OBSERVE; operation++) {
			if (operation == POLICY_JOIN)
				continue;
			ask(operation, SOMEBODY, 0);
			question.workload[WORKLOAD_CONTAINER] = rows[i].container;
			question.local = address(&local, "10.2.0.1");
			question.peer = address(&peer, "10.2.3.4");
			if (rows[i].last == 0) {
				question.port = 20000;
				assert_rejected("no-rule");
				continue;
			}
			question.port = rows[i].first;
			assert_allowed("allow ");
			question.port = rows[i].last;
			assert_allowed("allow ");
			ck_assert_msg(operation != POLICY_DEVICE || rows[i].first != 1024 ||
					      strstr(verdict.rule->text, "access open"),
				      "%s", verdict.rule->text);
			question.port = 30000;
			if (rows[i].last < 30000 && operation != POLICY_SESSION &&
			    operation != POLICY_DEVICE)
				assert_rejected("no-rule");
		}
	}
}
END_TEST

/* Writes LINE of the page's source as man(1) displays it. */
static void put_shown(FILE *f, const char *line)
{
	for (; *line; line++) {
		if (!strncmp(line, "\\e", 2) || !strncmp(line, "\\&", 2)) {
			if (line[1] == 'e')
				fputc('\\', f);
			line++;
		} else if (!strncmp(line, "\\(dq", 4)) {
			fputc('"', f);
			line += 3;
		} else {
			fputc(*line, f);
		}
	}
}

/* Returns literal display N, counted from 0, in SECTION of the page; NULL: there is none. The caller frees it. */
static char *display_of(const char *section, unsigned n)
{
	char line[1024], heading[64], *text = NULL;
	bool is_there = false;
	FILE *f = open_file(PAGE), *out = NULL;
	size_t size;

	snprintf(heading, sizeof(heading), ".Sh %s\n", section);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, ".Sh ", 4))
			is_there = !strcmp(line, heading);
		if (is_there && !strncmp(line, ".Bd -literal", 12) && n-- == 0)
			out = open_memstream(&text, &size);
		else if (out && !strncmp(line, ".Ed", 3))
			break;
		else if (out)
			put_shown(out, line);
	}
	if (out)
		fclose(out);
	fclose(f);
	return text;
}

START_TEST(examples_of_the_page_are_rules)
{
	unsigned n = 0;
	char *text;

	for (; (text = display_of("EXAMPLES", n)); n++) {
		load(text);
		ck_assert_uint_gt(policy_n_rules(policy), 0);
		free(text);
	}
	ck_assert_uint_ge(n, 7);
}
END_TEST

START_TEST(lines_of_the_page_are_rules)
{
	char line[1024];
	FILE *f = open_file(PAGE);
	unsigned n = 0;

	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, ".Dl allow", 9) && strncmp(line, ".Dl reject", 10))
			continue;
		rule(line + 4);
		n++;
	}
	fclose(f);
	ck_assert_uint_eq(n, 3);
}
END_TEST

/* The page shows an error: file:7: message, the line, the caret. The line must cause exactly this output. */
START_TEST(the_error_of_the_page_is_current)
{
	char *text = display_of("DIAGNOSTICS", 0), *line, *end, *printed, *source;
	size_t size;
	FILE *f;

	ck_assert_ptr_nonnull(text);
	line = strstr(text, "\n    ");
	ck_assert_ptr_nonnull(line);
	line += 5;
	end = strchr(line, '\n');
	ck_assert_int_ge(asprintf(&source, "\n\n\n\n\n\n%.*s\n", (int)(end - line), line), 0);
	ck_assert_int_eq(policy_load_text(&policy, "50-default.rules", source, strlen(source),
					  diag),
			 -EBADMSG);
	f = open_memstream(&printed, &size);
	diag_print(diag, f);
	fclose(f);
	ck_assert_str_eq(printed, text);
	free(printed);
	free(source);
	free(text);
}
END_TEST

/* Returns the operations that a line such as ".It Cm WORD ... Pq listen , connect" names; if it names none, all. */
static unsigned operations_of(const char *line)
{
	const char *at = strstr(line, " Pq ");
	unsigned operations = 0;
	char name[32];
	int n;

	if (!at)
		return POLICY_ALL_OPERATIONS;
	for (at += 4; sscanf(at, " %31s%n", name, &n) == 1; at += n)
		for (int i = 0; i < _POLICY_OPERATION_MAX; i++)
			if (!strcmp(name, policy_operation_to_string(i)))
				operations |= 1u << i;
	return operations;
}

/*
 * Reads the page's line that lists WORD into RET; false: there is none. END: the character after the word, ' ' before
 * a value, otherwise '\n'.
 */
static bool find_item(const char *word, char end, char *ret, size_t size)
{
	char start[64];
	size_t len = snprintf(start, sizeof(start), ".It Cm %s", word);
	FILE *f = open_file(PAGE);
	bool found = false;

	while (!found && fgets(ret, size, f))
		found = !strncmp(ret, start, len) && ret[len] == end;
	fclose(f);
	return found;
}

START_TEST(the_page_documents_every_word)
{
	const struct policy_word *word;
	char line[1024];

	for (size_t i = 0; (word = policy_word_at(i)); i++) {
		/* The page documents burst together with the rates. */
		if (!strcmp(word->name, "burst"))
			continue;
		ck_assert_msg(find_item(word->name, strcmp(word->name, "log") ? ' ' : '\n', line,
					sizeof(line)),
			      "%s", word->name);
		ck_assert_msg(operations_of(line) == word->operations, "%s", line);
	}
	for (int i = 0; i <= _POLICY_OPERATION_MAX; i++)
		ck_assert_msg(find_item(policy_operation_to_string(i), '\n', line, sizeof(line)),
			      "%s", policy_operation_to_string(i));
}
END_TEST

UNIT_MAIN("policy_examples", policy_set_up, policy_tear_down, the_shipped_policy_allows_nothing,
	  the_shipped_examples_decide_as_commented, a_single_host, a_storage_target, a_cluster,
	  containers_of_readme, examples_of_the_page_are_rules, lines_of_the_page_are_rules,
	  the_error_of_the_page_is_current, the_page_documents_every_word)
