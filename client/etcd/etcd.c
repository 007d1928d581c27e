/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "etcd.h"
#include "etcdcall.h"
#include "proto/clock.h"
#include "proto/text.h"

/* While data move, a call can take longer than a silent one: so many times. */
#define MOVING_FACTOR 4

struct body {
	char *text;
	size_t len, size, max; /* SIZE: allocated */
	bool is_too_large;
};

int etcd_fail(struct etcd *etcd, int r, const char *fmt, ...)
{
	int n = snprintf(etcd->error, sizeof(etcd->error), "%s: ", etcd->endpoints[etcd->current]);
	va_list ap;

	if (n < 0 || (size_t)n >= sizeof(etcd->error))
		n = 0;
	va_start(ap, fmt);
	vsnprintf(etcd->error + n, sizeof(etcd->error) - (size_t)n, fmt, ap);
	va_end(ap);
	/* Part of the text comes from etcd. It has to stay one line, and must not control a terminal. */
	text_make_printable(etcd->error, strlen(etcd->error));
	return r;
}

const char *etcd_error(const struct etcd *etcd)
{
	return etcd->error;
}

static bool is_endpoint(const char *text)
{
	const char *host = NULL;

	if (strncmp(text, "http://", 7) == 0)
		host = text + 7;
	else if (strncmp(text, "https://", 8) == 0)
		host = text + 8;
	/* No path, and no user, which would be in the messages. */
	return host && *host && strlen(host) < 256 && !strpbrk(host, "/@?# \t\\") && *host != ':';
}

static bool copy(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return !text || *ret;
}

int etcd_new(struct etcd **ret, const struct etcd_options *options)
{
	struct etcd *etcd;
	bool good = true;

	if (options->n_endpoints == 0 || options->n_endpoints > ETCD_ENDPOINTS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < options->n_endpoints; i++)
		if (!is_endpoint(options->endpoints[i]))
			return -EINVAL;
	etcd = calloc(1, sizeof(*etcd));
	if (!etcd)
		return -ENOMEM;
	etcd->call_ms = options->call_ms;
	etcd->answer_max = options->answer_max;
	etcd->read_password = options->read_password;
	etcd->password_arg = options->password_arg;
	for (size_t i = 0; good && i < options->n_endpoints; i++) {
		good = copy(&etcd->endpoints[i], options->endpoints[i]);
		etcd->n_endpoints++;
	}
	good = good && copy(&etcd->ca, options->ca) &&
	       copy(&etcd->certificate, options->certificate) && copy(&etcd->key, options->key) &&
	       copy(&etcd->user, options->user) && copy(&etcd->password, options->password) &&
	       (etcd->curl = curl_easy_init()) && (etcd->multi = curl_multi_init());
	if (!good) {
		etcd_free(etcd);
		return -ENOMEM;
	}
	*ret = etcd;
	return 0;
}

static void free_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

struct etcd *etcd_free(struct etcd *etcd)
{
	if (!etcd)
		return NULL;
	curl_easy_cleanup(etcd->curl);
	curl_multi_cleanup(etcd->multi);
	for (size_t i = 0; i < etcd->n_endpoints; i++)
		free(etcd->endpoints[i]);
	free(etcd->ca);
	free(etcd->certificate);
	free(etcd->key);
	free(etcd->user);
	free_secret(etcd->password);
	free_secret(etcd->token);
	free(etcd);
	return NULL;
}

void etcd_forget_token(struct etcd *etcd)
{
	free_secret(etcd->token);
	etcd->token = NULL;
	etcd->is_open = false;
}

void etcd_use_next_endpoint(struct etcd *etcd)
{
	etcd->current = (etcd->current + 1) % etcd->n_endpoints;
	if (etcd->n_endpoints > 1)
		etcd->moves++;
}

static size_t take_body(char *data, size_t size, size_t n, void *userdata)
{
	struct body *body = userdata;
	char *text;

	n *= size;
	if (n > body->max - body->len) {
		body->is_too_large = true;
		return 0;
	}
	if (body->len + n + 1 > body->size) {
		body->size = 2 * (body->len + n + 1);
		text = realloc(body->text, body->size);
		if (!text)
			return 0;
		body->text = text;
	}
	memcpy(body->text + body->len, data, n);
	body->len += n;
	body->text[body->len] = 0;
	return n;
}

static bool add_header(struct curl_slist **headers, const char *text)
{
	struct curl_slist *more = curl_slist_append(*headers, text);

	if (more)
		*headers = more;
	return more;
}

int etcd_prepare(struct etcd *etcd, CURL *curl, const char *path, const char *text,
		 struct curl_slist **ret_headers)
{
	struct curl_slist *headers = NULL;
	char url[512], token[1024];
	bool good;

	snprintf(url, sizeof(url), "%s%s", etcd->endpoints[etcd->current], path);
	snprintf(token, sizeof(token), "Authorization: %s", etcd->token ?: "");
	good = add_header(&headers, "Content-Type: application/json") &&
	       /* No pause for "100 Continue" before a large request. */
	       add_header(&headers, "Expect:") &&
	       /* A member without a majority ends a watch, instead of keeping it silent. */
	       (strcmp(path, "/v3/watch") != 0 ||
		add_header(&headers, "Grpc-Metadata-hasleader: true")) &&
	       (!etcd->token || add_header(&headers, token));
	explicit_bzero(token, sizeof(token));
	good = good && curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK &&
	       curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
	       curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(text)) == CURLE_OK &&
	       curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, text) == CURLE_OK &&
	       curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
	       curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) == CURLE_OK &&
	       curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
	       /* The environment does not choose another way. */
	       curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
	       curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
	       curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, 10L) == CURLE_OK &&
	       curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, 5L) == CURLE_OK &&
	       (!etcd->ca || (curl_easy_setopt(curl, CURLOPT_CAINFO, etcd->ca) == CURLE_OK &&
			      curl_easy_setopt(curl, CURLOPT_CAPATH, NULL) == CURLE_OK)) &&
	       (!etcd->certificate ||
		curl_easy_setopt(curl, CURLOPT_SSLCERT, etcd->certificate) == CURLE_OK) &&
	       (!etcd->key || curl_easy_setopt(curl, CURLOPT_SSLKEY, etcd->key) == CURLE_OK);
	if (!good) {
		curl_slist_free_all(headers);
		return etcd_fail(etcd, -ENOMEM, "out of memory");
	}
	*ret_headers = headers;
	return 0;
}

int etcd_fail_transfer(struct etcd *etcd, CURLcode code, const char *curl_error)
{
	const char *text = *curl_error ? curl_error : curl_easy_strerror(code);

	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return etcd_fail(etcd, -ETIMEDOUT, "%s", text);
	case CURLE_OUT_OF_MEMORY:
		return etcd_fail(etcd, -ENOMEM, "out of memory");
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
		return etcd_fail(etcd, -ECONNRESET, "%s", text);
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL:
		return etcd_fail(etcd, -EPROTO, "%s", text);
	default:
		return etcd_fail(etcd, -ECONNREFUSED, "%s", text);
	}
}

int etcd_fail_refused(struct etcd *etcd, const char *message)
{
	static const struct {
		const char *part;
		int r;
	} known[] = {
		{ "required revision has been compacted", ETCD_COMPACTED },
		{ "requested lease not found", ETCD_NO_LEASE },
		{ "database space exceeded", -ENOSPC },
		{ "invalid auth token", -EKEYEXPIRED },
		{ "revision of auth store is old", -EKEYEXPIRED },
		/* Authentication was enabled after this client began. */
		{ "user name is empty", -EKEYEXPIRED },
		{ "authentication is not enabled", -ENOTSUP },
		{ "authentication failed", -EACCES },
		{ "permission denied", -EACCES },
		{ "no leader", -EHOSTDOWN },
		{ "leader changed", -EHOSTDOWN },
		{ "server stopped", -EHOSTDOWN },
		{ "request timed out", -EHOSTDOWN },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(message, known[i].part))
			return etcd_fail(etcd, known[i].r, "%.200s", message);
	return etcd_fail(etcd, -EREMOTEIO, "%.200s", message);
}

/*
 * What etcd says against a call: {"error": "...", "code": ...}, of a stream {"error": {"message": ...}}, and since etcd 3.5
 * {"code": ..., "message": "..."}. NULL: nothing.
 */
static const char *find_refusal(const json_t *answer, long status)
{
	const json_t *error = json_object_get(answer, "error");
	const json_t *message = json_object_get(error ?: answer, "message");

	if (error)
		return json_string_value(error)           ?:
			       json_string_value(message) ?:
							    "an error without a message";
	return status != 200 && json_object_get(answer, "code") ? json_string_value(message) : NULL;
}

/* The answer of a stream with one message, {"result": ...}, is the same as that of a call. */
static int read_answer(struct etcd *etcd, const struct body *body, long status, json_t **ret)
{
	json_t *answer, *part;
	json_error_t error;
	const char *refusal;
	int r;

	answer = json_loadb(body->text ?: "", body->len, JSON_DISABLE_EOF_CHECK, &error);
	refusal = find_refusal(answer, status);
	if (refusal) {
		r = etcd_fail_refused(etcd, refusal);
	} else if (status == 503 || status == 502 || status == 504) {
		r = etcd_fail(etcd, -EHOSTDOWN, "HTTP status %ld", status);
	} else if (status != 200) {
		int n = body->text ? (int)strcspn(body->text, "\r\n") : 0;

		r = etcd_fail(etcd, -EPROTO, "HTTP status %ld%s%.*s", status, n > 0 ? ": " : "",
			      n < 150 ? n : 150, body->text ?: "");
	} else if (!json_is_object(answer)) {
		r = etcd_fail(etcd, -EPROTO, "the answer is not JSON: %s", error.text);
	} else {
		part = json_object_get(answer, "result");
		*ret = json_incref(json_is_object(part) ? part : answer);
		r = 0;
	}
	json_decref(answer);
	return r;
}

struct etcd_budget etcd_begin_budget(const struct etcd *etcd)
{
	return (struct etcd_budget){
		.silent_ms = etcd->call_ms,
		.end_ms = now_ms() + (int64_t)etcd->call_ms * MOVING_FACTOR,
	};
}

static int64_t bytes_moved(CURL *curl)
{
	curl_off_t sent = 0, received = 0;

	curl_easy_getinfo(curl, CURLINFO_SIZE_UPLOAD_T, &sent);
	curl_easy_getinfo(curl, CURLINFO_SIZE_DOWNLOAD_T, &received);
	return sent + received;
}

/*
 * Ends if nothing moves for SILENT_MS, because then the endpoint does not answer. An answer of many megabytes takes longer
 * on a slow machine, but moves. Only the silence at the end is charged to BUDGET.
 */
static CURLcode transfer(struct etcd *etcd, int64_t silent_ms, struct etcd_budget *budget)
{
	int64_t moved = 0, moved_ms = now_ms(), now;
	CURLcode code = CURLE_OK;
	CURLMsg *message = NULL;
	CURLMcode multi_code;
	int running, left;

	multi_code = curl_multi_add_handle(etcd->multi, etcd->curl);
	while (multi_code == CURLM_OK && !message && code == CURLE_OK) {
		multi_code = curl_multi_perform(etcd->multi, &running);
		message = curl_multi_info_read(etcd->multi, &left);
		if (multi_code != CURLM_OK || message)
			continue;
		now = now_ms();
		if (bytes_moved(etcd->curl) != moved) {
			moved = bytes_moved(etcd->curl);
			moved_ms = now;
		}
		if (now >= moved_ms + silent_ms || now >= budget->end_ms) {
			snprintf(etcd->curl_error, sizeof(etcd->curl_error),
				 now >= budget->end_ms ? "the answer was not complete in time" :
							 "no answer within %lld ms",
				 (long long)silent_ms);
			code = CURLE_OPERATION_TIMEDOUT;
		} else {
			now = MIN(moved_ms + silent_ms, budget->end_ms) - now;
			multi_code = curl_multi_poll(etcd->multi, NULL, 0, (int)now, NULL);
		}
	}
	if (message)
		code = message->data.result;
	else if (multi_code != CURLM_OK)
		code = CURLE_OUT_OF_MEMORY;
	budget->silent_ms -= now_ms() - moved_ms;
	curl_multi_remove_handle(etcd->multi, etcd->curl);
	return code;
}

static int send_once(struct etcd *etcd, const char *path, const char *text, int64_t silent_ms,
		     struct etcd_budget *budget, json_t **ret)
{
	struct body body = { .max = etcd->answer_max };
	struct curl_slist *headers;
	curl_off_t sent_us = 0;
	CURLcode code;
	long status = 0;
	int r;

	curl_easy_reset(etcd->curl);
	r = etcd_prepare(etcd, etcd->curl, path, text, &headers);
	if (r < 0)
		return r;
	*etcd->curl_error = 0;
	curl_easy_setopt(etcd->curl, CURLOPT_ERRORBUFFER, etcd->curl_error);
	curl_easy_setopt(etcd->curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(etcd->curl, CURLOPT_WRITEDATA, &body);
	code = transfer(etcd, silent_ms, budget);
	curl_easy_getinfo(etcd->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(etcd->curl, CURLINFO_PRETRANSFER_TIME_T, &sent_us);
	if (body.is_too_large)
		r = etcd_fail(etcd, -EMSGSIZE, "the answer has more than %zu bytes",
			      etcd->answer_max);
	else if (code == CURLE_OPERATION_TIMEDOUT && sent_us == 0)
		r = etcd_fail(etcd, -ECONNREFUSED, "no connection within %lld ms",
			      (long long)silent_ms);
	else if (code != CURLE_OK)
		r = etcd_fail_transfer(etcd, code, etcd->curl_error);
	else
		r = read_answer(etcd, &body, status, ret);
	curl_easy_setopt(etcd->curl, CURLOPT_ERRORBUFFER, NULL);
	curl_slist_free_all(headers);
	free(body.text);
	return r;
}

/* Whether another endpoint may do better. */
static bool is_of_endpoint(int r)
{
	return r == -ECONNREFUSED || r == -ETIMEDOUT || r == -ECONNRESET || r == -EHOSTDOWN ||
	       r == -EPROTO;
}

/* What callers need not tell apart. */
static int outward(int r)
{
	return r == -EHOSTDOWN || r == -ECONNRESET ? -ECONNREFUSED :
	       r == -EKEYEXPIRED                   ? -EACCES :
	       r == -ENOTSUP                       ? -EREMOTEIO :
						     r;
}

static int send_anywhere(struct etcd *etcd, const char *path, const char *text, bool can_repeat,
			 struct etcd_budget *budget, json_t **ret)
{
	int r = -ETIMEDOUT;

	for (size_t left = etcd->n_endpoints; left > 0; left--) {
		if (budget->silent_ms <= 0 || now_ms() >= budget->end_ms)
			return etcd_fail(etcd, -ETIMEDOUT, "no answer within %u ms", etcd->call_ms);
		r = send_once(etcd, path, text, budget->silent_ms / (int64_t)left, budget, ret);
		if (!is_of_endpoint(r))
			return r;
		etcd_use_next_endpoint(etcd);
		/* What was not sent can be sent elsewhere, and what was sent only if it may be carried out twice. */
		if (!can_repeat && r != -ECONNREFUSED)
			return r;
	}
	return r;
}

static bool is_token(const char *text)
{
	size_t n = strlen(text);

	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p > '~')
			return false;
	return n > 0 && n < 900;
}

static int ask_for_token(struct etcd *etcd, struct etcd_budget *budget, json_t **ret)
{
	json_t *request =
		json_pack("{s:s, s:s}", "name", etcd->user, "password", etcd->password ?: "");
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	int r;

	json_decref(request);
	if (!text)
		return etcd_fail(etcd, -ENOMEM, "the user or the password is not UTF-8");
	r = send_anywhere(etcd, "/v3/auth/authenticate", text, /* can_repeat= */ true, budget, ret);
	free_secret(text);
	return r;
}

/* Whether there is another password than the one that was refused. */
static bool change_password(struct etcd *etcd)
{
	char password[512] = "";
	bool changed = etcd->read_password &&
		       etcd->read_password(etcd->password_arg, password, sizeof(password)) &&
		       strcmp(password, etcd->password ?: "") != 0;
	char *copied = changed ? strdup(password) : NULL;

	explicit_bzero(password, sizeof(password));
	if (!copied)
		return false;
	free_secret(etcd->password);
	etcd->password = copied;
	return true;
}

int etcd_authenticate(struct etcd *etcd, struct etcd_budget *budget)
{
	json_t *answer = NULL;
	const char *token;
	int r;

	if (!etcd->user || etcd->token || etcd->is_open)
		return 0;
	r = ask_for_token(etcd, budget, &answer);
	if (r == -EACCES && change_password(etcd))
		r = ask_for_token(etcd, budget, &answer);
	if (r == -ENOTSUP) {
		etcd->is_open = true;
		return 0;
	}
	if (r != 0)
		return r;
	token = json_string_value(json_object_get(answer, "token"));
	if (!token || !is_token(token))
		r = etcd_fail(etcd, -EPROTO, "the answer has no valid token");
	else if (!copy(&etcd->token, token))
		r = etcd_fail(etcd, -ENOMEM, "out of memory");
	json_decref(answer);
	return r;
}

int etcd_call(struct etcd *etcd, const char *path, json_t *request, bool can_repeat, json_t **ret)
{
	struct etcd_budget budget = etcd_begin_budget(etcd);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	int r = 0;

	json_decref(request);
	if (!text)
		return etcd_fail(etcd, -ENOMEM, "out of memory");
	/* A token expires some minutes after its last use, or when etcd is restarted. */
	for (int i = 0; i < 2; i++) {
		r = etcd_authenticate(etcd, &budget);
		if (r == 0)
			r = send_anywhere(etcd, path, text, can_repeat, &budget, ret);
		if (r != -EKEYEXPIRED || !etcd->user)
			break;
		etcd_forget_token(etcd);
	}
	free(text);
	return outward(r);
}

int etcd_call_one(struct etcd *etcd, size_t index, const char *path, json_t *request, json_t **ret)
{
	struct etcd_budget budget = etcd_begin_budget(etcd);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	size_t was = etcd->current;
	int r;

	json_decref(request);
	etcd->current = index;
	r = text ? send_once(etcd, path, text, etcd->call_ms, &budget, ret) :
		   etcd_fail(etcd, -ENOMEM, "out of memory");
	etcd->current = was;
	free(text);
	return outward(r);
}
