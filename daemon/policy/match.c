/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <grp.h>
#include <pwd.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parser.h"
#include "policy/rules.h"
#include "policy/words.h"
#include "proto/names.h"
#include "proto/pkey.h"
#include "proto/private_data.h"
#include "util/diag.h"

/*
 * The matches of rules: for each kind of them, how it is parsed, and whether the facts of a question match. A fact
 * that is not known gives UNKNOWN, and never a guess; what UNKNOWN means for a rule, evaluate.c says. words.c says which
 * word has which match.
 */

#define LIST_MAX 1024 /* members of a list of users, groups or ports */
#define NAME_MAX_LEN 255 /* length of the name of a user or a group, or of a pattern */
#define LOOKUP_BUFFER_MAX (1024 * 1024)

static enum ternary ternary(bool yes)
{
	return yes ? TERNARY_YES : TERNARY_NO;
}

/* Reads the name of a user or a group, or a pattern. NAME has space for NAME_MAX_LEN + 1 bytes. */
static int take_name(struct parser *parser, const char *what, const struct token **ret_token,
		     char *name)
{
	const struct token *token = parser_take(parser);

	if (token->type != TOKEN_WORD && token->type != TOKEN_STRING)
		return parser_complain(parser, token, "expected a %s", what);
	if (!token->len || token->len > NAME_MAX_LEN)
		return parser_complain(parser, token, "a %s has 1 to %u bytes", what, NAME_MAX_LEN);

	token_unescape(token, name);
	*ret_token = token;
	return 0;
}

/* These return 0, -ESRCH or -ENOENT (no such name), or another negative errno. */
static int look_up_user(const char *name, char *buffer, size_t size, uint32_t *ret)
{
	struct passwd entry, *found;
	int error;

	error = getpwnam_r(name, &entry, buffer, size, &found);
	if (found)
		*ret = entry.pw_uid;
	return found ? 0 : error ? -error : -ESRCH;
}

static int look_up_group(const char *name, char *buffer, size_t size, uint32_t *ret)
{
	struct group entry, *found;
	int error;

	error = getgrnam_r(name, &entry, buffer, size, &found);
	if (found)
		*ret = entry.gr_gid;
	return found ? 0 : error ? -error : -ESRCH;
}

static int look_up(int (*in)(const char *, char *, size_t, uint32_t *), const char *name,
		   uint32_t *ret)
{
	char *buffer = NULL, *grown;
	int r = -ERANGE;

	/* The members of a group must fit into the buffer, and their number is not known. */
	for (size_t size = 1024; r == -ERANGE && size <= LOOKUP_BUFFER_MAX; size *= 4) {
		grown = realloc(buffer, size);
		if (!grown) {
			free(buffer);
			return -ENOMEM;
		}
		buffer = grown;
		r = in(name, buffer, size, ret);
	}

	free(buffer);
	return r;
}

/* Complains about a name that cannot be looked up. With POLICY_NAMES_MAY_BE_MISSING this is a warning. */
static int complain_missing(struct parser *parser, const struct token *token, const char *what,
			    const char *name, int r)
{
	struct policy *policy = parser->policy;
	char text[NAME_MAX_LEN + 80], *first;

	if (r == -ESRCH || r == -ENOENT)
		snprintf(text, sizeof(text), "unknown %s '%.64s'", what, name);
	else
		snprintf(text, sizeof(text), "cannot look up %s '%.64s': %s", what, name,
			 strerror(-r));
	if (parser->names == POLICY_NAMES_MUST_EXIST) {
		parser_complain(parser, token, "%s", text);
		return 0;
	}

	diag_warn(parser->diag, parser->file, token->line.number, token->column, token->line.text,
		  token->line.len, "%s", text);
	if (policy->n_missing++ > 0)
		return 0;
	if (asprintf(&first, "%s:%u:%u: %s", parser->file, token->line.number, token->column,
		     text) < 0)
		return -ENOMEM;
	policy->first_missing = policy_strdup(policy, first);
	free(first);
	return policy->first_missing ? 0 : -ENOMEM;
}

/* Reads a user or group, by name or id. If the id is not known, *ret is unchanged. */
static int take_id(struct parser *parser, const char *what,
		   int (*in)(const char *, char *, size_t, uint32_t *),
		   const struct token **ret_token, uint32_t *ret)
{
	char name[NAME_MAX_LEN + 1];
	int r;

	r = take_name(parser, what, ret_token, name);
	if (r < 0)
		return r;

	/* A number in quotes is a name. UINT32_MAX is no valid id. */
	if ((*ret_token)->type == TOKEN_WORD && strspn(name, "0123456789") == strlen(name)) {
		if (!parser_is_number(name, strlen(name), ret) || *ret == UINT32_MAX)
			parser_complain(parser, *ret_token, "a %s id is a number from 0 to %u",
					what, UINT32_MAX - 1);
		return 0;
	}

	r = look_up(in, name, ret);
	if (r == 0 || r == -ENOMEM)
		return r;
	return complain_missing(parser, *ret_token, what, name, r);
}

static bool take_comma(struct parser *parser)
{
	if (parser->token->type != TOKEN_COMMA)
		return false;
	parser_take(parser);
	return true;
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int parse_ids(struct parser *parser, const char *what,
		     int (*in)(const char *, char *, size_t, uint32_t *), union policy_value *ret)
{
	const struct token *token;
	struct policy_ids *list;
	uint32_t ids[LIST_MAX];
	size_t n = 0;
	int r;

	do {
		uint32_t id = UINT32_MAX;

		r = take_id(parser, what, in, &token, &id);
		if (r < 0)
			return r;
		if (n == LIST_MAX)
			return parser_complain(parser, token, "more than %u values in one list",
					       LIST_MAX);
		for (size_t i = 0; i < n; i++) {
			if (id == ids[i] && id != UINT32_MAX) {
				parser_complain(parser, token, "this %s is named twice", what);
				break;
			}
		}
		ids[n++] = id;
	} while (take_comma(parser));

	list = policy_alloc(parser->policy, sizeof(*list) + n * sizeof(ids[0]));
	if (!list)
		return -ENOMEM;
	qsort(ids, n, sizeof(ids[0]), compare_ids);
	/* Unknown ids are UINT32_MAX, so they are at the end. */
	list->is_incomplete = ids[n - 1] == UINT32_MAX;
	memcpy(list->ids, ids, n * sizeof(ids[0]));
	list->n = n;
	ret->ids = list;
	return 0;
}

int match_parse_user(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	return parse_ids(parser, "user", look_up_user, ret);
}

int match_parse_group(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	return parse_ids(parser, "group", look_up_group, ret);
}

void policy_sort_gids(gid_t *gids, size_t n)
{
	size_t i = 1;

	while (i < n && gids[i - 1] <= gids[i])
		i++;
	if (i < n)
		qsort(gids, n, sizeof(*gids), compare_ids);
}

static bool has_id(const struct policy_ids *list, uint32_t id)
{
	return bsearch(&id, list->ids, list->n, sizeof(list->ids[0]), compare_ids);
}

enum ternary match_user(const struct policy_match *match, const struct policy_facts *facts)
{
	if (match->value.ids->is_incomplete)
		return TERNARY_UNKNOWN;
	return ternary(has_id(match->value.ids, facts->question->uid));
}

static bool has_common(const uint32_t *few, size_t n_few, const uint32_t *many, size_t n_many)
{
	for (size_t i = 0; i < n_few; i++)
		if (bsearch(&few[i], many, n_many, sizeof(many[0]), compare_ids))
			return true;
	return false;
}

static enum ternary match_gids(const struct policy_ids *ids, const gid_t *gids, size_t n)
{
	if (ids->is_incomplete)
		return TERNARY_UNKNOWN;
	/* Both are sorted, so the shorter list is looked up in the longer one. */
	if (n <= ids->n)
		return ternary(has_common(gids, n, ids->ids, ids->n));
	return ternary(has_common(ids->ids, ids->n, gids, n));
}

enum ternary match_group(const struct policy_match *match, const struct policy_facts *facts)
{
	if (facts->question->too_many_gids)
		return TERNARY_UNKNOWN;
	return match_gids(match->value.ids, facts->question->gids, facts->question->n_gids);
}

enum ternary match_peer_user(const struct policy_match *match, const struct policy_facts *facts)
{
	if (!facts->question->who || match->value.ids->is_incomplete)
		return TERNARY_UNKNOWN;
	return ternary(has_id(match->value.ids, facts->question->who->uid));
}

enum ternary match_peer_group(const struct policy_match *match, const struct policy_facts *facts)
{
	const struct policy_peer *who = facts->question->who;

	return who ? match_gids(match->value.ids, who->gids, who->n_gids) : TERNARY_UNKNOWN;
}

int match_parse_prefix(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	return set_take(parser, "this match", &ret->prefixes);
}

static enum ternary match_address(const struct prefix_set *set, bool known,
				  const struct prefix *address)
{
	if (!known)
		return TERNARY_UNKNOWN;
	if (prefix_set_contains(set, address))
		return TERNARY_YES;
	return prefix_set_lacks(set, address) ? TERNARY_NO : TERNARY_UNKNOWN;
}

enum ternary match_local(const struct policy_match *match, const struct policy_facts *facts)
{
	return match_address(match->value.prefixes, facts->knows_local, &facts->local);
}

enum ternary match_peer(const struct policy_match *match, const struct policy_facts *facts)
{
	return match_address(match->value.prefixes, facts->knows_peer, &facts->peer);
}

/* What a list of numbers and ranges consists of. Numbers are from 1 to 65535. */
struct number_kind {
	bool (*read)(const char *text, size_t len, uint32_t *ret);
	const char *expected; /* for complaints */
	bool is_hex; /* as people write it */
};

static bool parse_range(const struct token *token, const struct number_kind *kind,
			uint32_t *ret_first, uint32_t *ret_last)
{
	const char *dash = memchr(token->text, '-', token->len);
	size_t len = dash ? (size_t)(dash - token->text) : token->len;

	if (!kind->read(token->text, len, ret_first))
		return false;
	*ret_last = *ret_first;
	return !dash || kind->read(dash + 1, token->len - len - 1, ret_last);
}

struct range_text {
	char text[32];
};

static struct range_text range_text(const struct number_kind *kind, uint32_t first, uint32_t last)
{
	struct range_text ret;

	snprintf(ret.text, sizeof(ret.text), kind->is_hex ? "0x%x-0x%x" : "%u-%u", first, last);
	return ret;
}

/* The numbers of KIND, with the ranges that are given by their first and last one. */
static int parse_ranges(struct parser *parser, const struct number_kind *kind,
			union policy_value *ret)
{
	struct policy_ports *list;
	struct {
		uint32_t first, last;
	} ranges[LIST_MAX];
	const struct token *token;
	size_t n = 0;

	do {
		uint32_t first, last;

		token = parser_take(parser);
		if (token->type != TOKEN_WORD || !parse_range(token, kind, &first, &last))
			return parser_complain(parser, token, "%s", kind->expected);
		if (n == LIST_MAX)
			return parser_complain(parser, token, "more than %u values in one list",
					       LIST_MAX);
		if (first > last)
			parser_complain(parser, token, "the range is reversed, did you mean %s?",
					range_text(kind, last, first).text);
		for (size_t i = 0; i < n && first <= last; i++) {
			if (first <= ranges[i].last && last >= ranges[i].first) {
				parser_complain(
					parser, token, "this overlaps %s in the same list",
					range_text(kind, ranges[i].first, ranges[i].last).text);
				break;
			}
		}
		ranges[n].first = first;
		ranges[n++].last = last;
	} while (take_comma(parser));

	list = policy_alloc(parser->policy, sizeof(*list) + n * sizeof(list->ranges[0]));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		list->ranges[i].first = ranges[i].first;
		list->ranges[i].last = ranges[i].last;
	}
	list->n = n;
	ret->ports = list;
	return 0;
}

static enum ternary match_ranges(const struct policy_ports *list, int number)
{
	for (size_t i = 0; i < list->n; i++)
		if (number >= list->ranges[i].first && number <= list->ranges[i].last)
			return TERNARY_YES;
	return TERNARY_NO;
}

static bool read_port(const char *text, size_t len, uint32_t *ret)
{
	return parser_is_number(text, len, ret) && *ret >= 1 && *ret <= UINT16_MAX;
}

int match_parse_port(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	static const struct number_kind ports = {
		.read = read_port,
		.expected = "expected a port N or a range N-M, from 1 to 65535",
	};
	int r = parse_ranges(parser, &ports, ret);

	if (r == 0)
		rule->names_port = true;
	return r;
}

enum ternary match_port(const struct policy_match *match, const struct policy_facts *facts)
{
	int port = facts->question->port;

	/* 0 requests any free port, so the port is not known yet. */
	if (port <= 0)
		return TERNARY_UNKNOWN;
	return match_ranges(match->value.ports, port);
}

static bool read_pkey(const char *text, size_t len, uint32_t *ret)
{
	if (!pkey_parse(text, len, ret))
		return false;
	*ret = pkey_partition((uint16_t)*ret);
	return *ret != 0;
}

int match_parse_pkey(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	static const struct number_kind pkeys = {
		.read = read_pkey,
		.expected = "expected a P_Key N or a range N-M, from 1 to 0x7fff, or with the bit "
			    "0x8000, which makes no difference",
		.is_hex = true,
	};

	return parse_ranges(parser, &pkeys, ret);
}

enum ternary match_pkey(const struct policy_match *match, const struct policy_facts *facts)
{
	return facts->question->pkey == 0 ? TERNARY_UNKNOWN :
					    match_ranges(match->value.ports, facts->question->pkey);
}

/* True if a '[' is not closed. fnmatch() treats such a '[' as a plain character, which the admin did not mean. */
static bool has_open_bracket(const char *glob)
{
	for (; *glob; glob++) {
		if (*glob == '\\' && glob[1]) {
			glob++;
		} else if (*glob == '[') {
			glob += 1 + (glob[1] == '!' || glob[1] == '^');
			/* In "[]...]" the first ']' is a member of the bracket expression. */
			glob = *glob ? strchr(glob + 1, ']') : NULL;
			if (!glob)
				return true;
		}
	}
	return false;
}

int match_parse_glob(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *word = parser->token - 1, *token;
	char name[NAME_MAX_LEN + 1], what[64], *glob;
	int r;

	snprintf(what, sizeof(what), "%.*s pattern", (int)word->len, word->text);
	r = take_name(parser, what, &token, name);
	if (r < 0)
		return r;
	if (has_open_bracket(name))
		parser_complain(parser, token, "the '[' in this pattern is not closed");
	if (parser->token->type == TOKEN_COMMA)
		return parser_complain(
			parser, parser->token,
			"'%.*s' takes one pattern: write two rules, or one pattern that matches both; "
			"put a pattern that contains ',' in double quotes",
			(int)word->len, word->text);

	glob = policy_alloc(parser->policy, strlen(name) + 1);
	if (!glob)
		return -ENOMEM;
	ret->glob = strcpy(glob, name);
	return 0;
}

/* A unit without a suffix is none that systemd has. */
int match_parse_unit(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *token = parser->token;
	int r = match_parse_glob(parser, rule, ret);

	if (r == 0 && !parser->is_line_bad && !strpbrk(ret->glob, ".*?["))
		diag_warn(
			parser->diag, parser->file, token->line.number, token->column,
			token->line.text, token->line.len,
			"'%.64s' matches no unit: the names of units have a suffix, as in %.64s.service",
			ret->glob, ret->glob);
	return r;
}

enum ternary match_device(const struct policy_match *match, const struct policy_facts *facts)
{
	if (!facts->question->device)
		return TERNARY_UNKNOWN;
	return ternary(!fnmatch(match->value.glob, facts->question->device, 0));
}

int match_parse_cgroup(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *token = parser->token;
	int r;

	r = match_parse_glob(parser, rule, ret);
	if (r == 0 && !parser->is_line_bad &&
	    (ret->glob[0] != '/' || (ret->glob[1] && ret->glob[strlen(ret->glob) - 1] == '/')))
		parser_complain(parser, token,
				"'cgroup' takes a path from the root of the hierarchy, such as "
				"/system.slice, without a slash at its end");
	return r;
}

/* A pattern such as "*" matches only clients that belong to something. */
static enum ternary match_name(const char *glob, const char *name, int flags)
{
	if (!name)
		return TERNARY_UNKNOWN;
	return ternary(*name && !fnmatch(glob, name, flags));
}

/* The name of a container, pod or job that a user has chosen begins with "user-UID/". No wildcard matches the slash. */
enum ternary match_workload(const struct policy_match *match, const struct policy_facts *facts)
{
	enum workload_name workload = fact_workload(match->word->fact);

	return match_name(match->value.glob, facts->question->workload[workload],
			  workload == WORKLOAD_UNIT ? 0 : FNM_PATHNAME);
}

enum ternary match_peer_unit(const struct policy_match *match, const struct policy_facts *facts)
{
	const struct policy_peer *who = facts->question->who;

	return match_name(match->value.glob, who ? who->workload[WORKLOAD_UNIT] : NULL, 0);
}

/* What 'peer-same' compares. */
static const char *const same_names[] = { "user", "unit", "job", NULL };

int match_parse_same(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	ret->number = parser_take_word(parser, same_names, "'peer-same' takes user, unit or job");
	return ret->number < 0 ? ret->number : 0;
}

/*
 * Two processes that belong to no unit, or to no job, have not the same one. If the client belongs to none, nobody has
 * to be asked who the peer is.
 */
static enum ternary match_same_workload(const struct policy_question *question,
					enum workload_name workload)
{
	const char *own = question->workload[workload];
	const char *peers = question->who ? question->who->workload[workload] : NULL;

	if ((own && !*own) || (peers && !*peers))
		return TERNARY_NO;
	return own && peers ? ternary(strcmp(own, peers) == 0) : TERNARY_UNKNOWN;
}

enum ternary match_peer_same(const struct policy_match *match, const struct policy_facts *facts)
{
	const struct policy_question *question = facts->question;

	if (strcmp(same_names[match->value.number], "user") == 0)
		return question->who ? ternary(question->uid == question->who->uid) :
				       TERNARY_UNKNOWN;
	return match_same_workload(question, strcmp(same_names[match->value.number], "unit") == 0 ?
						     WORKLOAD_UNIT :
						     WORKLOAD_JOB);
}

/* The pattern of a control group matches those below it too. */
enum ternary match_cgroup(const struct policy_match *match, const struct policy_facts *facts)
{
	const char *cgroup = facts->question->workload[WORKLOAD_CGROUP];

	if (strcmp(match->value.glob, "/") == 0)
		return cgroup ? TERNARY_YES : TERNARY_UNKNOWN;
	return match_name(match->value.glob, cgroup, FNM_PATHNAME | FNM_LEADING_DIR);
}

int match_parse_ps(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	int i = parser_take_word(parser, portspace_names, "'ps' takes tcp, udp, ib or ipoib");

	if (i < 0)
		return i;
	ret->number = portspace_number((size_t)i);
	return 0;
}

enum ternary match_ps(const struct policy_match *match, const struct policy_facts *facts)
{
	if (!facts->question->port_space)
		return TERNARY_UNKNOWN;
	return ternary(match->value.number == facts->question->port_space);
}

size_t match_data_max(int port_space)
{
	return port_space == RDMA_PS_TCP || port_space == RDMA_PS_IB ? PRIVATE_DATA_CONNECT :
								       PRIVATE_DATA_LOOKUP;
}

/*
 * Converts "0x" and pairs of hexadecimal digits. BYTES has space for TOKEN->len / 2. False: TOKEN has another form.
 */
static bool parse_hex(const struct token *token, uint8_t *bytes, size_t *ret_len)
{
	if (token->len < 2 || token->len % 2 || memcmp(token->text, "0x", 2))
		return false;

	*ret_len = token->len / 2 - 1;
	for (size_t i = 0; i < *ret_len; i++) {
		const char pair[] = { token->text[2 + 2 * i], token->text[3 + 2 * i], 0 };

		if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]))
			return false;
		bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return true;
}

int match_parse_data(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *token = parser_take(parser);
	struct policy_data *data;

	data = policy_alloc(parser->policy, sizeof(*data) + token->len + 1);
	if (!data)
		return -ENOMEM;

	if (token->type == TOKEN_STRING) {
		token_unescape(token, (char *)data->bytes);
		data->len = strlen((char *)data->bytes);
	} else if (token->type != TOKEN_WORD || !parse_hex(token, data->bytes, &data->len)) {
		return parser_complain(parser, token,
				       "'data' takes a text in double quotes, or 0x followed by "
				       "pairs of hexadecimal digits");
	}
	if (!data->len || data->len > PRIVATE_DATA_LOOKUP)
		parser_complain(parser, token, "'data' takes 1 to %u bytes, but this is %zu",
				PRIVATE_DATA_LOOKUP, data->len);
	ret->data = data;
	return 0;
}

enum ternary match_data(const struct policy_match *match, const struct policy_facts *facts)
{
	const struct policy_question *question = facts->question;
	const struct policy_data *data = match->value.data;

	if (!question->knows_data)
		return TERNARY_UNKNOWN;
	return ternary(question->data_len >= data->len &&
		       !memcmp(question->data, data->bytes, data->len));
}
