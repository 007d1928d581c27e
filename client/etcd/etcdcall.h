/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the files of the etcd client share; see etcd.h for the client. */

#include <curl/curl.h>
#include <jansson.h>
#include <stdarg.h>

#include "etcd.h"

struct etcd {
	char *endpoints[ETCD_ENDPOINTS_MAX];
	size_t n_endpoints;
	size_t current; /* the endpoint that answered last */
	unsigned moves; /* how often another endpoint became the current one */
	char *ca, *certificate, *key, *user, *password;
	bool (*read_password)(const void *password_arg, char *ret, size_t size);
	const void *password_arg;
	unsigned call_ms;
	size_t answer_max;
	char *token; /* NULL: none yet, or it has expired */
	bool is_open; /* etcd has said that it needs no authentication */
	CURL *curl; /* of the calls */
	CURLM *multi; /* has CURL while a call is under way, and keeps its connection for the next one */
	char curl_error[CURL_ERROR_SIZE];
	char error[512];
};

/* Sets the text of etcd_error(). Returns R. */
__attribute__((format(printf, 3, 4))) int etcd_fail(struct etcd *etcd, int r, const char *fmt, ...);
/* Sets on CURL what a request of TEXT to PATH of the current endpoint needs. HEADERS: the caller frees it afterwards. */
int etcd_prepare(struct etcd *etcd, CURL *curl, const char *path, const char *text,
		 struct curl_slist **ret_headers);
/* Sets the text for CODE, a failure of a transfer. */
int etcd_fail_transfer(struct etcd *etcd, CURLcode code, const char *curl_error);
/* Sets the text for MESSAGE, with which etcd refuses a request. -EKEYEXPIRED: a new token is needed. */
int etcd_fail_refused(struct etcd *etcd, const char *message);
void etcd_use_next_endpoint(struct etcd *etcd);
/* The time that is left for a call, which can be several requests. */
struct etcd_budget {
	int64_t silent_ms; /* the time in which nothing moves */
	int64_t end_ms; /* when the call ends even if something moves now and then */
};

struct etcd_budget etcd_begin_budget(const struct etcd *etcd);
/* Gets a token, if the client has a user and no token. */
int etcd_authenticate(struct etcd *etcd, struct etcd_budget *budget);
/* The next call gets another token. */
void etcd_forget_token(struct etcd *etcd);
/*
 * Sends REQUEST, whose reference is taken, to PATH; NULL: out of memory. CAN_REPEAT: it can be sent to another endpoint when it is not known
 * whether the first one has carried it out. *RET: an object.
 */
int etcd_call(struct etcd *etcd, const char *path, json_t *request, bool can_repeat, json_t **ret);

/* Sends REQUEST, whose reference is taken, to the endpoint INDEX only. */
int etcd_call_one(struct etcd *etcd, size_t index, const char *path, json_t *request, json_t **ret);

/* Numbers are texts in the gateway's JSON, and are missing if they are 0. -EPROTO: it is something else. */
int etcd_get_number(const json_t *object, const char *name, int64_t *ret);
/*
 * Returns REQUEST, whose reference is taken, with KEY (and, for a prefix, the end of the interval). NULL: out of memory, as
 * REQUEST can be.
 */
json_t *etcd_with_key(json_t *request, const char *key, bool is_prefix);
bool etcd_is_within(const char *key, const char *interval, bool is_prefix);
/* -ENOENT: the key has a NUL byte. Call etcd_entry_done() in any case. */
int etcd_get_entry(const json_t *kv, struct etcd_entry *ret);
void etcd_entry_done(struct etcd_entry *entry);
