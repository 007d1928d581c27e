/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Shared by the tests of the real rdmabroker-peerd. The server of harness.h is its broker, and munged its engine. The
 * test has a network namespace of its own, in which all addresses of 10.0.0.0/8 are this host's: it can be any other
 * host.
 */

#include "peerd/message.h"
#include "peerd/seal.h"
#include "tests/unit/harness.h"

#define PEERD_PORT 9472
#define HOST "10.9.0.1" /* the fake device's address */

extern struct peerd_test {
	char folder[128]; /* of the program and its library */
	char log[128]; /* the program's stderr */
	struct seal seal; /* of the cluster */
	struct seal stranger; /* of another munged, with another key */
	pid_t munged[2], peerd;
	bool is_root; /* outside of the test's namespaces, too: it can become any user */
} peerd_test;

void set_up_peerd(void);
void tear_down_peerd(void);
/* Listens on HOST only, so that the test can listen on other addresses. */
void start_peerd(void);
/* The same, with a socket that systemd would pass. */
void start_peerd_with_socket(int listening);
void stop_peerd(void); /* its exit status must be 0 */
void start_munged(int which); /* 0: the cluster's, 1: the stranger's */
void stop_munged(int which);
/* Runs rdmabroker-peerd with these arguments until it ends by itself. Returns its exit status; its stderr is in the log. */
int run_peerd(const char *const *arguments);

unsigned n_logged(const char *part);
void assert_logged(const char *part);

struct sockaddr_storage address_of(const char *host, uint16_t port);
/* Connects from the address FROM to the program. */
int dial_peerd(const char *from);
void send_all(int fd, const void *data, size_t len);
/* Sends TEXT with its length before it. */
void send_text(int fd, const char *text);
/* Returns the next text, which the caller frees; NULL: the other end has closed the connection. */
char *receive_text(int fd);
/* Listens on HOST as the helper of another host. */
int listen_as(const char *host);
/* Accepts a connection, and returns it. *RET: the questions in it, whose seal was opened; the caller frees them. */
int accept_questions(int listening, char **ret);

struct message_head make_head(const char *from, const char *to);
/* Seals TEXT, with the cluster's key. The caller frees the result. */
char *seal_text(const char *text);

/* As unit_run(). Without munged, or if no network namespace can be made, each test is skipped, and says why. */
int peerd_run(const char *name, SFun begin, SFun end, const TTest *const *tests, size_t n);

#define PEERD_MAIN(name, set_up, tear_down, ...)                    \
	int main(void)                                              \
	{                                                           \
		const TTest *const tests[] = { __VA_ARGS__ };       \
		return peerd_run(name, set_up, tear_down, tests,    \
				 sizeof(tests) / sizeof(tests[0])); \
	}
