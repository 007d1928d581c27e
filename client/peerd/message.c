/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "message.h"
#include "proto/addr.h"
#include "proto/text.h"

#define VERSION 1
#define GIDS_MAX 1024
#define NAME_MAX_LEN 255 /* bytes, of a unit and so on */

#define fail(error, ...) (snprintf(error, MESSAGE_ERROR_MAX, __VA_ARGS__), false)

const char *message_address(const struct sockaddr *addr, char ret[64])
{
	const struct in6_addr *in6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;

	if (addr->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(in6))
		return addr_host_to_string(addr, ret);
	return inet_ntop(AF_INET, &in6->s6_addr[12], ret, 64);
}

bool message_set_nonce(struct message_head *head)
{
	uint8_t random[(NONCE_MAX - 1) / 2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return false;
	for (size_t i = 0; i < sizeof(random); i++)
		sprintf(head->nonce + 2 * i, "%02x", random[i]);
	return true;
}

/* Takes the reference to LIST. */
static char *pack(const struct message_head *head, const char *kind, json_t *list)
{
	json_t *message = json_pack("{s:i, s:s, s:s, s:s, s:s, s:o}", "version", VERSION, "kind",
				    kind, "nonce", head->nonce, "from", head->from, "to", head->to,
				    kind, list);
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

	json_decref(message);
	return text;
}

char *message_ask(const struct message_head *head, const struct question *questions, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:i, s:i, s:i, s:I}", "who",
						questions[i].listens ? "listens" : "connects", "ps",
						questions[i].ps, "port", questions[i].port,
						"peer_port", questions[i].peer_port, "qpn",
						(json_int_t)questions[i].qpn));
	if (json_array_size(list) != n) {
		json_decref(list);
		return NULL;
	}
	return pack(head, "questions", list);
}

/* Copies the member NAME, a text that fits, to RET. */
static bool get_text(const json_t *object, const char *name, char *ret, size_t size)
{
	const char *text = json_string_value(json_object_get(object, name));

	if (!text || strlen(text) >= size)
		return false;
	strcpy(ret, text);
	return true;
}

/* False: ERROR says what is wrong with MESSAGE besides its list KIND. */
static bool read_head(const json_t *message, const char *kind, struct message_head *ret,
		      char error[MESSAGE_ERROR_MAX])
{
	if (!json_is_object(message))
		return fail(error, "it is no JSON object");
	if (json_integer_value(json_object_get(message, "version")) != VERSION)
		return fail(error, "its version is not %d; install the same version on both hosts",
			    VERSION);
	if (strcmp(json_string_value(json_object_get(message, "kind")) ?: "", kind) != 0)
		return fail(error, "its kind is not %s", kind);
	if (!get_text(message, "nonce", ret->nonce, sizeof(ret->nonce)) ||
	    !get_text(message, "from", ret->from, sizeof(ret->from)) ||
	    !get_text(message, "to", ret->to, sizeof(ret->to)))
		return fail(error, "it has no nonce, from and to");
	return true;
}

/* The message, whose list KIND is in *RET_LIST. NULL: ERROR says what is wrong. */
static json_t *unpack(const char *text, const char *kind, struct message_head *ret,
		      const json_t **ret_list, char error[MESSAGE_ERROR_MAX])
{
	json_t *message = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	bool good = read_head(message, kind, ret, error);

	*ret_list = json_object_get(message, kind);
	if (good && (!json_is_array(*ret_list) || json_array_size(*ret_list) > QUESTIONS_MAX))
		good = fail(error, "it has no list of at most %d %s", QUESTIONS_MAX, kind);
	if (good)
		return message;
	json_decref(message);
	return NULL;
}

static bool read_question(json_t *from, struct question *ret)
{
	json_int_t ps, port, peer_port, qpn;
	const char *who;

	if (json_unpack(from, "{s:s, s:I, s:I, s:I, s:I}", "who", &who, "ps", &ps, "port", &port,
			"peer_port", &peer_port, "qpn", &qpn) < 0)
		return false;
	*ret = (struct question){ .listens = strcmp(who, "listens") == 0,
				  .ps = (int)ps,
				  .port = (uint16_t)port,
				  .peer_port = (uint16_t)peer_port,
				  .qpn = (uint32_t)qpn };
	return ps >= 0 && ret->ps == ps && ret->port == port && ret->peer_port == peer_port &&
	       ret->qpn == qpn && (ret->listens || strcmp(who, "connects") == 0);
}

bool message_read_questions(const char *text, struct message_head *ret_head,
			    struct question ret[QUESTIONS_MAX], size_t *ret_n,
			    char error[MESSAGE_ERROR_MAX])
{
	const json_t *list;
	json_t *message = unpack(text, "questions", ret_head, &list, error);
	bool good = message;

	*ret_n = 0;
	for (size_t i = 0; good && i < json_array_size(list); i++) {
		good = read_question(json_array_get(list, i), &ret[i]) ||
		       fail(error, "question %zu is not valid", i + 1);
		++*ret_n;
	}
	json_decref(message);
	return good;
}

/* Texts reach the journal and terminals. */
static bool is_printable(const char *text)
{
	size_t len = strlen(text), n;

	for (; len > 0; text += n, len -= n) {
		n = text_printable(text, len);
		if (n == 0)
			return false;
	}
	return true;
}

static bool is_name(const char *text)
{
	return !text || (strlen(text) <= NAME_MAX_LEN && is_printable(text));
}

/*
 * Users choose the names of control groups, from which these come. What the other host would refuse is not known here, and
 * not none.
 */
static bool has_names(const struct rdmabroker_who *who)
{
	return who->knows_workload && is_name(who->unit) && is_name(who->container) &&
	       is_name(who->pod) && is_name(who->job);
}

json_t *message_new_answer(const struct rdmabroker_who *who)
{
	json_t *gids = json_array();

	for (size_t i = 0; i < who->n_gids; i++)
		json_array_append_new(gids, json_integer(who->gids[i]));
	if (!has_names(who))
		return json_pack("{s:I, s:o, s:n}", "uid", (json_int_t)who->uid, "gids", gids,
				 "unit");
	/* A name that is NULL has no member. */
	return json_pack("{s:I, s:o, s:s*, s:s*, s:s*, s:s*}", "uid", (json_int_t)who->uid, "gids",
			 gids, "unit", who->unit, "container", who->container, "pod", who->pod,
			 "job", who->job);
}

json_t *message_new_unknown(const char *why)
{
	return json_pack("{s:s}", "unknown", why);
}

char *message_answer(const struct message_head *head, json_t *answers)
{
	return pack(head, "answers", answers);
}

static bool read_gids(const json_t *list, struct answer *ret)
{
	size_t n = json_array_size(list), i;
	json_t *gid;

	if (!json_is_array(list) || n > GIDS_MAX)
		return false;
	ret->gids = calloc(n + 1, sizeof(*ret->gids));
	if (!ret->gids)
		return false;
	json_array_foreach(list, i, gid) {
		ret->gids[i] = (uint32_t)json_integer_value(gid);
		if (!json_is_integer(gid) || ret->gids[i] != json_integer_value(gid) ||
		    ret->gids[i] == UINT32_MAX)
			return false;
	}
	ret->who.gids = ret->gids;
	ret->who.n_gids = n;
	return true;
}

static bool read_answer(json_t *from, struct answer *ret)
{
	struct rdmabroker_who *who = &ret->who;
	json_int_t uid;
	json_t *gids;

	ret->unknown = json_string_value(json_object_get(from, "unknown"));
	if (ret->unknown)
		return is_printable(ret->unknown);
	if (json_unpack(from, "{s:I, s:o}", "uid", &uid, "gids", &gids) < 0 || uid < 0 ||
	    uid >= UINT32_MAX || !read_gids(gids, ret))
		return false;
	who->uid = (uint32_t)uid;
	who->knows_workload = !json_is_null(json_object_get(from, "unit"));
	if (!who->knows_workload)
		return true;
	return json_unpack(from, "{s?s, s?s, s?s, s?s}", "unit", &who->unit, "container",
			   &who->container, "pod", &who->pod, "job", &who->job) == 0 &&
	       has_names(who);
}

bool message_read_answers(const char *text, const struct message_head *head, size_t n,
			  struct answers *ret, char error[MESSAGE_ERROR_MAX])
{
	struct message_head is;
	const json_t *list;

	*ret = (struct answers){ .message = unpack(text, "answers", &is, &list, error) };
	if (!ret->message)
		return false;
	if (strcmp(is.nonce, head->nonce) != 0)
		return fail(error, "it answers other questions");
	if (strcmp(is.from, head->from) != 0 || strcmp(is.to, head->to) != 0)
		return fail(error, "it is about other hosts");
	if (json_array_size(list) != n)
		return fail(error, "it has %zu answers to %zu questions", json_array_size(list), n);
	/* An answer that is not valid says nothing about the others. */
	for (; ret->n < n; ret->n++) {
		struct answer *one = &ret->list[ret->n];

		if (read_answer(json_array_get(list, ret->n), one))
			continue;
		one->who = (struct rdmabroker_who){ .uid = 0 };
		one->unknown = "something that is not valid";
	}
	return true;
}

void answers_done(struct answers *answers)
{
	for (size_t i = 0; i < answers->n; i++)
		free(answers->list[i].gids);
	json_decref(answers->message);
	*answers = (struct answers){};
}
