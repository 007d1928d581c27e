/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Other hosts, which the test plays, ask rdmabroker-peerd. */

#include "tests/unit/peerd.h"

#define OTHER "10.9.0.7"

extern struct rdmabroker *server, *client;
extern struct rdmabroker_id *connecting; /* from HOST to port 7479 of HOST */

void set_up_answering(void);
void tear_down_answering(void);

struct question question_about_client(void);
/* Who has the address that is in QUESTION? The caller frees the result. */
char *make_question(const char *from, const char *to, const struct question *question);
/* Sends QUESTIONS through FD, sealed. Returns the answer, whose seal was opened; NULL: there was none. */
char *ask_through(int fd, const char *questions);
/* The same, from the address FROM, through a connection of its own. */
char *ask(const char *from, const char *questions);
/* Asks from FROM about QUESTION. The answer must contain PART. */
void expect_answer(const char *from, const struct question *question, const char *part);
const char *my_uid(void); /* a part of the answer about a program of the test */
/* HOST is the other end of its own connection. */
void expect_right_answer(void);
/* Sends a right question through FD, a connection from OTHER. True: it is answered. */
bool is_answered(int fd);
