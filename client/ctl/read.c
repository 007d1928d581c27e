/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "proto/addr.h"
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

int read_word(const char *what, const char *word, const char *const *words)
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

int read_id(const char *what, const char *text, uint32_t *ret)
{
	unsigned long id;

	errno = 0;
	if (!is_number(text))
		return -1;
	/* UINT32_MAX is (uid_t)-1, which is no id. */
	if (!read_number(text, UINT32_MAX - 1, &id)) {
		complain("invalid %s \"%s\": it must be a number from 0 to %u", what, text,
			 UINT32_MAX - 1);
		return EXIT_USAGE;
	}
	*ret = (uint32_t)id;
	return 0;
}

int read_user(const char *name, uint32_t *ret)
{
	const struct passwd *entry;
	int r = name ? read_id("uid", name, ret) : 0;

	if (r >= 0)
		return r;
	entry = getpwnam(name);
	if (!entry) {
		complain("unknown user \"%s\"%s%s", name, errno ? ": " : "",
			 errno ? strerror(errno) : "");
		return EXIT_FAILURE;
	}
	*ret = entry->pw_uid;
	return 0;
}

static void complain_address(const char *text)
{
	bool is_name = *text && text[strspn(text, "0123456789abcdefABCDEF.:%")] != '\0';
	const char *scope = strchr(text, '%');
	char host[INET6_ADDRSTRLEN];
	struct in6_addr in6;

	/* Without a scope, the text can be a good address. */
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, "%"), text);
	if (strchr(text, '/'))
		complain("invalid address \"%s\": it is a prefix, give one address", text);
	else if (scope && inet_pton(AF_INET6, host, &in6) == 1 &&
		 (IN6_IS_ADDR_LINKLOCAL(&in6) || IN6_IS_ADDR_MC_LINKLOCAL(&in6)))
		complain("invalid address \"%s\": there is no interface \"%s\" here", text,
			 scope + 1);
	else if (scope)
		complain(
			"invalid address \"%s\": only link-local addresses are followed by %%INTERFACE",
			text);
	else
		complain("invalid address \"%s\": it must be IPv4 or IPv6 or gid:GID%s", text,
			 is_name ? "; host names are not resolved, give the address" : "");
}

int read_address(const char *text, struct sockaddr_storage *ret)
{
	/* For IPv6 addresses with a scope. For IPv4, getaddrinfo() would accept "10.1" as 10.0.0.1. */
	const struct addrinfo hints = { .ai_family = AF_INET6, .ai_flags = AI_NUMERICHOST };
	struct addrinfo *info;

	if (!text)
		return 0;
	if (addr_parse(ret, text, 0))
		return 0;
	if (getaddrinfo(text, NULL, &hints, &info) != 0) {
		complain_address(text);
		return EXIT_USAGE;
	}
	memcpy(ret, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	return 0;
}

int read_port(const char *text, uint16_t *ret)
{
	unsigned long port;

	if (!text)
		return 0;
	if (read_number(text, UINT16_MAX, &port) && port == 0) {
		complain("invalid port 0: it stands for any free port; give one from 1 to 65535");
		return EXIT_USAGE;
	}
	if (!read_number(text, UINT16_MAX, &port)) {
		complain("invalid port \"%s\": it must be a number from 1 to 65535", text);
		return EXIT_USAGE;
	}
	*ret = (uint16_t)port;
	return 0;
}

int read_positive(const char *option, const char *text, unsigned long *ret)
{
	unsigned long number;

	if (!text)
		return 0;
	if (!read_number(text, ULONG_MAX, &number) || number == 0) {
		complain("invalid --%s \"%s\": it must be a number of at least 1", option, text);
		return EXIT_USAGE;
	}
	*ret = number;
	return 0;
}
