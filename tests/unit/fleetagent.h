/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Shared by the tests of the real rdmabroker-fleet, with a real etcd, the real rdmabrokerctl site, and the daemon on
 * the fake fabric. The test stands in for systemd: it runs rdmabroker-fleet-install.
 */

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "tests/unit/fleet.h"
#include "tests/unit/unit.h"

#define HOST "/rdmabroker/hosts/node7"

extern struct etcd *etcd; /* the test's own client */
extern struct etcd_watch *hosts; /* the states of the host, since the test began */
extern pid_t agent, broker; /* 0: not running */
extern json_t *state; /* the last one; NULL: the host has none */
extern const char *build, *source; /* absolute */

void set_up_fleet(void);
void tear_down_fleet(void);
/* Makes the test's directories, and starts etcd. False: the test has to return. */
bool begin(void);
bool begin_without_etcd(void);

/* Returns a path in the test's directory. Four of them are valid at a time. */
__attribute__((format(printf, 1, 2))) char *path(const char *fmt, ...);
void write_text(const char *name, const char *text);
const char *read_text(const char *name); /* empty: there is no such file */
void assert_has(const char *text, const char *part);
unsigned count(const char *text, const char *part);

/* Writes fleet.conf, with the lines MORE. */
void configure(const char *endpoint, const char *more);
void start_agent(void);
void stop_agent(void);
void start_broker(void);
void stop_broker(void);

/* The text of a member of the state, which can be in an object ("install.version"); "": null, or not there. */
const char *get(const char *name);
/* Waits for a change of the host's state. False: none came until END, of patience_end(). */
bool next_state(int64_t end);
/* Waits until the state's member NAME is TEXT ("": null). An error only has to begin with it. */
void await_state(const char *name, const char *text);
void await_no_state(void);

/* Puts the file NAME of VERSION. Returns its part of the manifest. */
json_t *put_file(const char *version, const char *name, const char *text);
void put_manifest(const char *version, json_t *file); /* takes the reference to FILE */
void publish(const char *version, const char *rules); /* a version of one file */
void roll_out(const char *label, const char *version); /* VERSION NULL: deletes the key */

extern const char *before_install; /* shell, run before root's part, such as "ulimit ...;" */
int install(void); /* what root's unit does; returns the exit status */
void assert_wanted(const char *version);
void assert_logged(unsigned n, const char *part); /* the agent's log contains PART N times */
void await_log(const char *part);
