/* SPDX-License-Identifier: BSD-2-Clause */
#include <munge.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "seal.h"

__attribute__((format(printf, 2, 3))) static char *fail(char error[SEAL_ERROR_MAX], const char *fmt,
							...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error, SEAL_ERROR_MAX, fmt, ap);
	va_end(ap);
	return NULL;
}

/* NULL: out of memory, or MUNGE does not take an option. */
static munge_ctx_t new_context(const struct seal *seal)
{
	munge_ctx_t context = munge_ctx_create();

	if (context && seal->socket &&
	    munge_ctx_set(context, MUNGE_OPT_SOCKET, seal->socket) != EMUNGE_SUCCESS) {
		munge_ctx_destroy(context);
		return NULL;
	}
	return context;
}

/* Only this process's user can open it, on each host: other users of the host learn nothing. */
static bool set_options(munge_ctx_t context)
{
	return munge_ctx_set(context, MUNGE_OPT_TTL, SEAL_SECONDS) == EMUNGE_SUCCESS &&
	       munge_ctx_set(context, MUNGE_OPT_ZIP_TYPE, MUNGE_ZIP_NONE) == EMUNGE_SUCCESS &&
	       munge_ctx_set(context, MUNGE_OPT_UID_RESTRICTION, geteuid()) == EMUNGE_SUCCESS;
}

char *seal_close(const struct seal *seal, const char *text, char error[SEAL_ERROR_MAX])
{
	munge_ctx_t context = new_context(seal);
	char *sealed = NULL;
	munge_err_t e;

	if (!context || !set_options(context)) {
		munge_ctx_destroy(context);
		return fail(error, "MUNGE cannot be used: out of memory");
	}
	e = munge_encode(&sealed, context, text, (int)strlen(text));
	if (e != EMUNGE_SUCCESS) {
		fail(error, "MUNGE cannot seal: %s",
		     munge_ctx_strerror(context) ?: munge_strerror(e));
		free(sealed);
		sealed = NULL;
	}
	munge_ctx_destroy(context);
	return sealed;
}

/* NULL: the seal is right. */
static const char *find_fault(munge_ctx_t context, munge_err_t e, uid_t uid)
{
	int cipher = MUNGE_CIPHER_NONE;

	switch (e) {
	case EMUNGE_SUCCESS:
		break;
	case EMUNGE_CRED_REPLAYED:
		return "its seal was used before";
	case EMUNGE_CRED_EXPIRED:
		return "its seal is too old; if the host is no attacker, the clocks differ too much";
	case EMUNGE_CRED_REWOUND:
		return "its seal is from the future; if the host is no attacker, the clocks differ too much";
	case EMUNGE_CRED_UNAUTHORIZED:
		return "its seal is for another uid; rdmabroker-peerd must have the same uid on all hosts";
	default:
		return munge_ctx_strerror(context) ?: munge_strerror(e);
	}
	if (uid != geteuid())
		return "its seal is from another uid; rdmabroker-peerd must have the same uid on all hosts";
	if (munge_ctx_get(context, MUNGE_OPT_CIPHER_TYPE, &cipher) != EMUNGE_SUCCESS ||
	    cipher == MUNGE_CIPHER_NONE)
		return "its seal is not encrypted";
	return NULL;
}

char *seal_open(const struct seal *seal, const char *sealed, char error[SEAL_ERROR_MAX])
{
	munge_ctx_t context = new_context(seal);
	void *payload = NULL;
	const char *fault;
	char *text = NULL;
	int len = 0;
	munge_err_t e;
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;

	if (!context)
		return fail(error, "MUNGE cannot be used: out of memory");
	e = munge_decode(sealed, context, &payload, &len, &uid, &gid);
	fault = find_fault(context, e, uid);
	if (fault)
		fail(error, "%s", fault);
	else if (len == 0 || memchr(payload, 0, (size_t)len))
		fail(error, "it is no text");
	else if (!(text = strndup(payload, (size_t)len)))
		fail(error, "out of memory");
	free(payload);
	munge_ctx_destroy(context);
	return text;
}
