/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "proto/text.h"
#include "util/clock.h"
#include "util/journal.h"
#include "util/log.h"

#define FIELDS_MAX 24

static int log_level = LOG_INFO;
static struct journal *journal; /* NULL: log lines go to stderr */

void log_init(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	/* A process can inherit JOURNAL_STREAM while its stderr is another file, see systemd.exec(5). */
	if (stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	    fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino)
		journal = journal_new();
}

void log_end(void)
{
	journal = journal_free(journal);
}

void log_set_level(int level)
{
	log_level = level;
}

void log_msg(int level, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	if (level > log_level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_fields(level, text, NULL, 0);
}

void log_fields(int level, const char *text, const struct iovec *fields, size_t n_fields)
{
	struct iovec all[FIELDS_MAX + 2];
	char message[4096], *shown = stpcpy(message, "MESSAGE="), priority[16];
	size_t n = 0;

	if (level > log_level)
		return;
	/* Clients and peers have chosen some of the names in it. */
	text_escape(shown, sizeof(message) - (size_t)(shown - message), text);
	snprintf(priority, sizeof(priority), "PRIORITY=%d", level);
	all[n++] = (struct iovec){ message, strlen(message) };
	all[n++] = (struct iovec){ priority, strlen(priority) };
	for (size_t i = 0; i < n_fields && i < FIELDS_MAX; i++)
		all[n++] = fields[i];
	if (journal)
		journal_write(journal, all, n);
	else
		fprintf(stderr, "%s\n", shown);
}

static uint64_t now_usec(void)
{
	return clock_ns() / 1000;
}

void ratelimit_mute(struct ratelimit *limit)
{
	*limit = (struct ratelimit){ .begin_usec = now_usec(), .n = RATELIMIT_BURST };
}

bool ratelimit_is_over(const struct ratelimit *limit)
{
	return limit->n == 0 || now_usec() - limit->begin_usec > 10 * 1000000ULL;
}

bool ratelimit_pass(struct ratelimit *limit, unsigned *ret_suppressed)
{
	return ratelimit_pass_burst(limit, RATELIMIT_BURST, ret_suppressed);
}

bool ratelimit_pass_burst(struct ratelimit *limit, unsigned burst, unsigned *ret_suppressed)
{
	*ret_suppressed = 0;
	if (ratelimit_is_over(limit)) {
		*ret_suppressed = limit->n_suppressed;
		*limit = (struct ratelimit){ .begin_usec = now_usec() };
	}
	if (limit->n >= burst) {
		limit->n_suppressed++;
		return false;
	}
	limit->n++;
	return true;
}
