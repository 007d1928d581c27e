/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Shared by the tests of rdmabroker-fleet: a real etcd of one member, in a directory of its own. */

#include <stdbool.h>
#include <sys/types.h>

#include "etcd/etcd.h"
#include "tests/patience.h"

extern struct etcd_service {
	char dir[64]; /* of the test; etcd's data are in DIR/data */
	char endpoint[64];
	unsigned port, peer_port;
	pid_t pid; /* 0: not running */
	int notify; /* gets etcd's message to systemd that it is ready */
	bool has_tls; /* etcd wants certificates of the CA in DIR/ca.pem */
} etcd_service;

unsigned free_port(void); /* a port of 127.0.0.1 on which nobody listens */
/* Makes the directory. False: etcd is not installed, which has been printed, so that the test returns. */
bool set_up_etcd(void);
void start_etcd(void); /* returns when it is ready; can be repeated, with the same data and port */
void kill_etcd(void); /* without notice */
void tear_down_etcd(void);

/* Makes DIR/ca.pem, and server.pem, server.key, client.pem and client.key with certificates of it. False: no openssl. */
bool make_certificates(void);

/* A client of ENDPOINT; NULL: of the service. */
struct etcd *new_client(const char *endpoint);
void must(struct etcd *etcd, int r); /* fails the test with the client's text if R is not 0 */
int64_t put_text(struct etcd *etcd, const char *key, const char *text);
