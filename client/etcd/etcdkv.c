/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "etcd.h"
#include "etcdcall.h"
#include "proto/text.h"

/* The calls of the client that read and write keys, and those of leases. */

int etcd_get_number(const json_t *object, const char *name, int64_t *ret)
{
	const json_t *value = json_object_get(object, name);
	const char *text = json_string_value(value);
	char *end;

	if (!value || json_is_integer(value)) {
		*ret = value ? json_integer_value(value) : 0;
		return 0;
	}
	/* strtoll() would accept blanks before it. */
	if (!text || !(*text == '-' || (*text >= '0' && *text <= '9')))
		return -EPROTO;
	errno = 0;
	*ret = strtoll(text, &end, 10);
	return errno || *end ? -EPROTO : 0;
}

static bool set_base64(json_t *object, const char *name, const void *data, size_t len)
{
	char *text = base64_encode(data, len);
	bool good = text && json_object_set_new(object, name, json_string(text)) == 0;

	free(text);
	return good;
}

json_t *etcd_with_key(json_t *request, const char *key, bool is_prefix)
{
	size_t n = strlen(key);
	bool good = n > 0 && set_base64(request, "key", key, n);

	if (good && is_prefix) {
		/* The end is the first key that does not begin with the prefix. */
		char *end = strdup(key);

		if (end)
			end[n - 1]++;
		good = end && set_base64(request, "range_end", end, n);
		free(end);
	}
	if (good)
		return request;
	json_decref(request);
	return NULL;
}

bool etcd_is_within(const char *key, const char *interval, bool is_prefix)
{
	return is_prefix ? strncmp(key, interval, strlen(interval)) == 0 :
			   strcmp(key, interval) == 0;
}

static int get_base64(const json_t *object, const char *name, char **ret, size_t *ret_len)
{
	const json_t *text = json_object_get(object, name);

	/* An empty value is left out. */
	if (!text)
		return base64_decode("", 0, ret, ret_len);
	if (!json_is_string(text))
		return -EPROTO;
	return base64_decode(json_string_value(text), json_string_length(text), ret, ret_len);
}

int etcd_get_entry(const json_t *kv, struct etcd_entry *ret)
{
	size_t key_len = 0;
	int r;

	*ret = (struct etcd_entry){};
	r = get_base64(kv, "key", &ret->key, &key_len);
	if (r == 0)
		r = get_base64(kv, "value", &ret->value, &ret->len);
	if (r == 0)
		r = etcd_get_number(kv, "mod_revision", &ret->mod_revision);
	if (r == 0)
		r = etcd_get_number(kv, "create_revision", &ret->create_revision);
	if (r == 0)
		r = etcd_get_number(kv, "lease", &ret->lease);
	if (r == 0 && strlen(ret->key) != key_len)
		r = -ENOENT;
	return r;
}

void etcd_entry_done(struct etcd_entry *entry)
{
	free(entry->key);
	free(entry->value);
	*entry = (struct etcd_entry){};
}

struct etcd_range *etcd_range_free(struct etcd_range *range)
{
	for (size_t i = 0; range && i < range->n; i++)
		etcd_entry_done(&range->entries[i]);
	free(range);
	return NULL;
}

static int get_revision(const json_t *answer, int64_t *ret)
{
	int r = etcd_get_number(json_object_get(answer, "header"), "revision", ret);

	return r == 0 && *ret <= 0 ? -EPROTO : r;
}

static int add_entry(struct etcd_range *range, const json_t *kv, const char *key, bool is_prefix)
{
	struct etcd_entry *entry = &range->entries[range->n];
	int r = etcd_get_entry(kv, entry);

	if (r == 0 && (!etcd_is_within(entry->key, key, is_prefix) ||
		       (range->n > 0 && strcmp(entry[-1].key, entry->key) >= 0)))
		r = -EPROTO;
	if (r == 0)
		range->n++;
	else
		etcd_entry_done(entry);
	return r == -ENOENT ? 0 : r;
}

static int read_range(const json_t *answer, const char *key, bool is_prefix, unsigned limit,
		      struct etcd_range **ret)
{
	const json_t *kvs = json_object_get(answer, "kvs");
	size_t n = json_array_size(kvs);
	struct etcd_range *range;
	int r;

	if ((kvs && !json_is_array(kvs)) || (limit > 0 && n > limit))
		return -EPROTO;
	range = calloc(1, sizeof(*range) + n * sizeof(range->entries[0]));
	if (!range)
		return -ENOMEM;
	range->has_more = json_is_true(json_object_get(answer, "more"));
	r = get_revision(answer, &range->revision);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_entry(range, json_array_get(kvs, i), key, is_prefix);
	if (r < 0)
		range = etcd_range_free(range);
	else
		*ret = range;
	return r;
}

static int call_range(struct etcd *etcd, json_t *request, const char *key, bool is_prefix,
		      unsigned limit, struct etcd_range **ret)
{
	json_t *answer;
	int r = etcd_call(etcd, "/v3/kv/range", request, /* can_repeat= */ true, &answer);

	if (r != 0)
		return r;
	r = read_range(answer, key, is_prefix, limit, ret);
	json_decref(answer);
	if (r < 0)
		etcd_fail(etcd, r, "the answer to a request for %.100s is not valid", key);
	return r;
}

int etcd_range(struct etcd *etcd, const char *key, bool is_prefix, unsigned limit,
	       struct etcd_range **ret)
{
	json_t *request = json_pack("{s:I}", "limit", (json_int_t)limit);

	return call_range(etcd, etcd_with_key(request, key, is_prefix), key, is_prefix, limit, ret);
}

int etcd_read_page(struct etcd *etcd, const struct etcd_page *page, struct etcd_range **ret)
{
	json_t *request = json_pack("{s:I, s:I, s:b}", "limit", (json_int_t)page->limit, "revision",
				    (json_int_t)page->revision, "keys_only", page->keys_only);
	int r;

	request = etcd_with_key(request, page->prefix, /* is_prefix= */ true);
	/* The first key after another one is that key with a NUL byte. */
	if (page->after && !set_base64(request, "key", page->after, strlen(page->after) + 1)) {
		json_decref(request);
		request = NULL;
	}
	r = call_range(etcd, request, page->prefix, /* is_prefix= */ true, page->limit, ret);
	if (r != 0)
		return r;
	/* The next page begins after the last key of this one, so there has to be one, and it has to be new. */
	if (((*ret)->n == 0 && (*ret)->has_more) ||
	    ((*ret)->n > 0 && page->after && strcmp((*ret)->entries[0].key, page->after) <= 0)) {
		*ret = etcd_range_free(*ret);
		return etcd_fail(etcd, -EPROTO,
				 "the keys that begin with %.100s cannot be read page by page",
				 page->prefix);
	}
	return 0;
}

static void add_alarms(const json_t *errors, struct etcd_member *ret)
{
	size_t len = 0;

	for (size_t i = 0; i < json_array_size(errors) && len < sizeof(ret->alarms) - 1; i++) {
		const char *text = json_string_value(json_array_get(errors, i));
		int n = snprintf(ret->alarms + len, sizeof(ret->alarms) - len, "%s%s",
				 len > 0 ? ", " : "", text ?: "unknown");

		len += n > 0 ? (size_t)n : 0;
	}
}

int etcd_get_member(struct etcd *etcd, size_t index, struct etcd_member *ret)
{
	const char *version, *leader;
	json_t *answer;
	int r = etcd_call_one(etcd, index, "/v3/maintenance/status", json_object(), &answer);

	if (r != 0)
		return r;
	*ret = (struct etcd_member){};
	version = json_string_value(json_object_get(answer, "version"));
	text_copy(ret->version, sizeof(ret->version), version ?: "");
	/* An id; it is left out if there is none. */
	leader = json_string_value(json_object_get(answer, "leader"));
	ret->has_leader = leader && strcmp(leader, "0") != 0;
	r = etcd_get_number(answer, "dbSize", &ret->db_size);
	add_alarms(json_object_get(answer, "errors"), ret);
	json_decref(answer);
	return r < 0 ? etcd_fail(etcd, r, "the state of the endpoint is not valid") : 0;
}

/* {"key", "value", "lease"} */
static json_t *new_put(const char *key, const void *value, size_t len, int64_t lease)
{
	json_t *put = etcd_with_key(json_pack("{s:I}", "lease", (json_int_t)lease), key,
				    /* is_prefix= */ false);

	if (set_base64(put, "value", value, len))
		return put;
	json_decref(put);
	return NULL;
}

/* Takes the reference to ANSWER. */
static int take_revision(struct etcd *etcd, json_t *answer, int64_t *ret)
{
	int64_t revision;
	int r = get_revision(answer, &revision);

	json_decref(answer);
	if (r < 0)
		return etcd_fail(etcd, r, "the answer has no revision");
	if (ret)
		*ret = revision;
	return 0;
}

int etcd_put(struct etcd *etcd, const char *key, const void *value, size_t len, int64_t lease,
	     int64_t *ret_revision)
{
	json_t *answer;
	int r = etcd_call(etcd, "/v3/kv/put", new_put(key, value, len, lease),
			  /* can_repeat= */ true, &answer);

	return r != 0 ? r : take_revision(etcd, answer, ret_revision);
}

/* What has to be true before CHANGE, which is no ETCD_DELETE. */
static json_t *new_compare(const struct etcd_change *change)
{
	static const struct {
		const char *target, *result, *member;
	} compares[] = {
		[ETCD_PUT] = { "MOD", "EQUAL", "mod_revision" },
		[ETCD_EXISTS] = { "CREATE", "GREATER", "create_revision" },
		[ETCD_UNCHANGED] = { "MOD", "LESS", "mod_revision" },
	};
	bool is_unchanged = change->kind == ETCD_UNCHANGED;
	json_int_t revision = change->kind == ETCD_EXISTS ? 0 : change->revision + is_unchanged;
	json_t *compare = json_pack("{s:s, s:s, s:I}", "target", compares[change->kind].target,
				    "result", compares[change->kind].result,
				    compares[change->kind].member, revision);

	return etcd_with_key(compare, change->key, /* is_prefix= */ is_unchanged);
}

static json_t *new_operation(const struct etcd_change *change)
{
	if (change->kind == ETCD_PUT)
		return json_pack("{s:o}", "request_put",
				 new_put(change->key, change->value, change->len, change->lease));
	return json_pack("{s:o}", "request_delete_range",
			 etcd_with_key(json_object(), change->key, change->is_prefix));
}

int etcd_change(struct etcd *etcd, const struct etcd_change *changes, size_t n,
		int64_t *ret_revision)
{
	json_t *compares = json_array(), *operations = json_array(), *answer;
	bool good = compares && operations;
	int r;

	for (size_t i = 0; good && i < n; i++) {
		if (changes[i].kind != ETCD_DELETE)
			good = json_array_append_new(compares, new_compare(&changes[i])) == 0;
		if (good && (changes[i].kind == ETCD_PUT || changes[i].kind == ETCD_DELETE))
			good = json_array_append_new(operations, new_operation(&changes[i])) == 0;
	}
	if (!good) {
		json_decref(compares);
		json_decref(operations);
		return etcd_fail(etcd, -ENOMEM, "out of memory");
	}
	r = etcd_call(etcd, "/v3/kv/txn",
		      json_pack("{s:o, s:o}", "compare", compares, "success", operations),
		      /* can_repeat= */ false, &answer);
	if (r != 0)
		return r;
	if (json_is_true(json_object_get(answer, "succeeded")))
		return take_revision(etcd, answer, ret_revision);
	json_decref(answer);
	return etcd_fail(etcd, ETCD_CHANGED, "%.100s%s has changed", changes[0].key,
			 n > 1 ? ", or another key," : "");
}

int etcd_put_if(struct etcd *etcd, const char *key, int64_t mod_revision, const void *value,
		size_t len, int64_t lease, int64_t *ret_revision)
{
	const struct etcd_change change = { .kind = ETCD_PUT,
					    .key = key,
					    .revision = mod_revision,
					    .value = value,
					    .len = len,
					    .lease = lease };

	return etcd_change(etcd, &change, 1, ret_revision);
}

int etcd_delete(struct etcd *etcd, const char *key, bool is_prefix, int64_t *ret_n)
{
	json_t *answer;
	int64_t n;
	int r = etcd_call(etcd, "/v3/kv/deleterange", etcd_with_key(json_object(), key, is_prefix),
			  /* can_repeat= */ true, &answer);

	if (r != 0)
		return r;
	r = etcd_get_number(answer, "deleted", &n);
	json_decref(answer);
	if (r < 0)
		return etcd_fail(etcd, r, "the answer has no number of deleted keys");
	if (ret_n)
		*ret_n = n;
	return 0;
}

int etcd_grant(struct etcd *etcd, unsigned seconds, int64_t *ret_lease)
{
	json_t *answer;
	int64_t lease;
	int r = etcd_call(etcd, "/v3/lease/grant",
			  json_pack("{s:I, s:I}", "TTL", (json_int_t)seconds, "ID", (json_int_t)0),
			  /* can_repeat= */ true, &answer);

	if (r != 0)
		return r;
	r = etcd_get_number(answer, "ID", &lease);
	json_decref(answer);
	if (r < 0 || lease == 0)
		return etcd_fail(etcd, -EPROTO, "the answer has no lease");
	*ret_lease = lease;
	return 0;
}

int etcd_keep_alive(struct etcd *etcd, int64_t lease, unsigned *ret_seconds)
{
	json_t *answer;
	int64_t id, seconds;
	int r = etcd_call(etcd, "/v3/lease/keepalive", json_pack("{s:I}", "ID", (json_int_t)lease),
			  /* can_repeat= */ true, &answer);

	if (r != 0)
		return r;
	if (etcd_get_number(answer, "ID", &id) < 0 || id != lease ||
	    etcd_get_number(answer, "TTL", &seconds) < 0 || seconds > UINT32_MAX)
		r = etcd_fail(etcd, -EPROTO, "the answer is not about the lease");
	else if (seconds <= 0)
		/* etcd does not report an expired lease as an error here. */
		r = etcd_fail(etcd, ETCD_NO_LEASE, "the lease has expired");
	else if (ret_seconds)
		*ret_seconds = (unsigned)seconds;
	json_decref(answer);
	return r;
}

int etcd_revoke(struct etcd *etcd, int64_t lease)
{
	json_t *answer;
	int r = etcd_call(etcd, "/v3/lease/revoke", json_pack("{s:I}", "ID", (json_int_t)lease),
			  /* can_repeat= */ true, &answer);

	if (r == 0)
		json_decref(answer);
	return r;
}
