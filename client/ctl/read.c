/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"
#include "output.h"
#include "proto/addr.h"
#include "proto/pkey.h"
#include "proto/word.h"
#include "read.h"

static bool is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

bool read_number(const char *text, unsigned long max, unsigned long *ret)
{
	errno = 0;
	*ret = strtoul(text, NULL, 10);
	return is_number(text) && errno == 0 && *ret <= max;
}

static int find_word(const char *what, const char *word, const char *const *words)
{
	struct word_guess guess = { .word = word, .len = strlen(word) };

	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], word) == 0)
			return i;
		word_guess(&guess, words[i]);
	}
	complain_unknown(what, /* prefix= */ "", &guess, words);
	return -1;
}

int read_action(const struct ctl *ctl)
{
	int i = find_word("action", ctl->arguments[0], ctl->verb->values);

	if (i < 0)
		ctl_see_help(ctl);
	return i;
}

int read_word(const char *what, const char *word, const char *const *words)
{
	int i = word ? find_word(what, word, words) : 0;

	if (i < 0)
		end(EXIT_USAGE);
	return i;
}

bool read_id(const char *what, const char *text, uint32_t *ret)
{
	unsigned long id;

	errno = 0;
	if (!is_number(text))
		return false;
	/* UINT32_MAX is (uid_t)-1, which is no id. */
	if (!read_number(text, UINT32_MAX - 1, &id))
		die(EXIT_USAGE, "invalid %s \"%s\": it must be a number from 0 to %u", what, text,
		    UINT32_MAX - 1);
	*ret = (uint32_t)id;
	return true;
}

void read_user(const char *name, uint32_t *ret)
{
	const struct passwd *entry;

	if (!name || read_id("uid", name, ret))
		return;
	entry = getpwnam(name);
	if (!entry)
		die(EXIT_FAILURE, "unknown user \"%s\"%s%s", name, errno ? ": " : "",
		    errno ? strerror(errno) : "");
	*ret = entry->pw_uid;
}

__attribute__((noreturn)) static void refuse_address(const char *text)
{
	bool is_name = *text && text[strspn(text, "0123456789abcdefABCDEF.:%")] != '\0';
	const char *scope = strchr(text, '%');
	char host[INET6_ADDRSTRLEN];
	struct in6_addr in6;

	/* Without a scope, the text can be a good address. */
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, "%"), text);
	if (strchr(text, '/'))
		die(EXIT_USAGE, "invalid address \"%s\": it is a prefix, give one address", text);
	if (scope && inet_pton(AF_INET6, host, &in6) == 1 &&
	    (IN6_IS_ADDR_LINKLOCAL(&in6) || IN6_IS_ADDR_MC_LINKLOCAL(&in6)))
		die(EXIT_USAGE, "invalid address \"%s\": there is no interface \"%s\" here", text,
		    scope + 1);
	if (scope)
		die(EXIT_USAGE,
		    "invalid address \"%s\": only link-local addresses are followed by %%INTERFACE",
		    text);
	die(EXIT_USAGE, "invalid address \"%s\": it must be IPv4 or IPv6 or gid:GID%s", text,
	    is_name ? "; host names are not resolved, give the address" : "");
}

void read_address(const char *text, struct sockaddr_storage *ret)
{
	/* For IPv6 addresses with a scope. For IPv4, getaddrinfo() would accept "10.1" as 10.0.0.1. */
	const struct addrinfo hints = { .ai_family = AF_INET6, .ai_flags = AI_NUMERICHOST };
	struct addrinfo *info;

	if (!text || addr_parse(ret, text, 0))
		return;
	if (getaddrinfo(text, NULL, &hints, &info) != 0)
		refuse_address(text);
	memcpy(ret, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
}

void read_port(const char *text, uint16_t *ret)
{
	unsigned long port;

	if (!text)
		return;
	if (!read_number(text, UINT16_MAX, &port))
		die(EXIT_USAGE, "invalid port \"%s\": it must be a number from 1 to 65535", text);
	if (port == 0)
		die(EXIT_USAGE,
		    "invalid port 0: it stands for any free port; give one from 1 to 65535");
	*ret = (uint16_t)port;
}

void read_pkey(const char *text, uint16_t *ret)
{
	uint32_t pkey;

	if (!text)
		return;
	if (!pkey_parse(text, strlen(text), &pkey) || pkey_partition((uint16_t)pkey) == 0)
		die(EXIT_USAGE,
		    "invalid P_Key \"%s\": it must be a number from 1 to 0x7fff, or with the bit "
		    "0x8000",
		    text);
	*ret = (uint16_t)pkey;
}

void read_positive(const char *option, const char *text, unsigned long *ret)
{
	if (text && (!read_number(text, ULONG_MAX, ret) || *ret == 0))
		die(EXIT_USAGE, "invalid --%s \"%s\": it must be a number of at least 1", option,
		    text);
}

static bool parse_day(const char *text, time_t *ret)
{
	static const char *const forms[] = { "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S" };

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct tm tm = { .tm_isdst = -1 };
		const char *end = strptime(text, forms[i], &tm);

		if (end && !*end && (*ret = mktime(&tm)) >= 0)
			return true;
	}
	return false;
}

static bool parse_ago(const char *text, time_t *ret)
{
	static const struct {
		char unit;
		unsigned seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	size_t digits = strspn(text, "0123456789");
	unsigned long n;
	char number[16];

	if (digits == 0 || digits >= sizeof(number) || !text[digits] || text[digits + 1])
		return false;
	memcpy(number, text, digits);
	number[digits] = 0;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (units[i].unit == text[digits] && read_number(number, 100000000, &n)) {
			*ret = time(NULL) - (time_t)(n * units[i].seconds);
			return *ret >= 0;
		}
	return false;
}

void read_since(const char *text, uint64_t *ret_ms)
{
	time_t at;

	if (!text)
		return;
	if (!parse_day(text, &at) && !parse_ago(text, &at))
		die(EXIT_USAGE,
		    "invalid --since \"%s\": it must be a day (2026-01-31), a day and a time "
		    "(\"2026-01-31 12:34\"), or a number with s, m, h or d",
		    text);
	*ret_ms = (uint64_t)at * 1000;
}
