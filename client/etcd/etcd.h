/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A small client of etcd v3, by the JSON gateway that etcd serves on the same port as gRPC.
 *
 * Every call blocks, but nothing is awaited for longer than the client's limit of silence: etcd is tried at one endpoint
 * after the other, and each gets its part of the silence that is left. While data move, a call can take up to four times
 * as long, so that a slow machine can send a large answer, and a server that sends a byte now and then holds nobody up.
 * The endpoint that answered is the first one next time. A client belongs to one thread.
 *
 * Nothing that etcd sends is trusted: answers are limited in size, base64 and numbers are checked, and keys that were not
 * requested are an error.
 *
 * Unless a call says otherwise, it returns 0, or a negative errno, and then etcd_error() has a text:
 *   -ETIMEDOUT     no answer, or not the whole answer, in time
 *   -ECONNREFUSED  no endpoint can be reached, which includes failures of TLS
 *   -EACCES        the user or the password is wrong, or the user lacks a permission
 *   -ENOSPC        etcd's database is full
 *   -EMSGSIZE      the answer is too large
 *   -EPROTO        the answer is not what etcd would send
 *   -EREMOTEIO     etcd reports another error
 *   -ENOMEM
 * Positive values are conditions, not failures: see enum etcd_status.
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETCD_ENDPOINTS_MAX 16

enum etcd_status {
	ETCD_COMPACTED = 1, /* the revision is gone: read everything again */
	ETCD_NO_LEASE, /* the lease has expired, or was never granted */
	ETCD_CHANGED, /* the key does not have the expected revision, so nothing was written */
	ETCD_EVENT, /* an event was returned */
};

/* What is copied: everything. */
struct etcd_options {
	const char *const *endpoints; /* http://HOST:PORT or https://HOST:PORT */
	size_t n_endpoints; /* 1 to ETCD_ENDPOINTS_MAX */
	const char *
		ca; /* file of certificates (PEM) that endpoints are checked against; NULL: the system's */
	const char *certificate, *key; /* files (PEM) of the client's certificate; NULL: none */
	const char *user, *password; /* NULL: no authentication by password */
	/*
	 * Called when the password is refused, because another one can be valid by now: writes it to RET. False: it is not
	 * known. NULL: none. PASSWORD_ARG is not copied.
	 */
	bool (*read_password)(const void *password_arg, char *ret, size_t size);
	const void *password_arg;
	unsigned call_ms; /* the limit of silence of each call, in ms */
	size_t answer_max; /* the most bytes of an answer, or of one message of a watch, as JSON */
};

struct etcd;

/* curl_global_init() has to be called before. -EINVAL: an endpoint is not valid. */
int etcd_new(struct etcd **ret, const struct etcd_options *options);
struct etcd *etcd_free(struct etcd *etcd);
/* The text of the last failure, with the endpoint, without a line break; valid until the next call. */
const char *etcd_error(const struct etcd *etcd);

struct etcd_entry {
	char *key; /* has no NUL byte: entries with such keys are left out */
	char *value; /* LEN bytes, and a NUL byte that does not count */
	size_t len;
	int64_t mod_revision; /* of the last change of the key */
	int64_t create_revision;
	int64_t lease; /* 0: none */
};

struct etcd_range {
	int64_t revision; /* of the whole store when it was read */
	bool has_more; /* there are more keys than the limit */
	size_t n;
	struct etcd_entry entries[]; /* in the order of their keys */
};

/*
 * Reads KEY, or all keys that begin with KEY, at most LIMIT (0: no limit, but that of the answer's size). A key that does
 * not exist gives an empty range. Free *RET with etcd_range_free().
 */
int etcd_range(struct etcd *etcd, const char *key, bool is_prefix, unsigned limit,
	       struct etcd_range **ret);
struct etcd_range *etcd_range_free(struct etcd_range *range);

/* A part of the keys that begin with a prefix. */
struct etcd_page {
	const char *prefix;
	const char *after; /* only keys after this one; NULL: from the first one on */
	int64_t revision; /* as the store was at this revision; 0: as it is now */
	unsigned limit; /* at most so many keys; 0: no limit */
	bool keys_only; /* the entries have no values */
};

/* As etcd_range(). ETCD_COMPACTED: etcd has forgotten the revision. */
int etcd_read_page(struct etcd *etcd, const struct etcd_page *page, struct etcd_range **ret);

/*
 * Writes KEY, which exists as long as LEASE (0: for ever). RET_REVISION: the new revision of the key; can be NULL.
 * ETCD_NO_LEASE: nothing was written.
 */
int etcd_put(struct etcd *etcd, const char *key, const void *value, size_t len, int64_t lease,
	     int64_t *ret_revision);
/*
 * The same, if the key has this mod_revision (0: if it does not exist); else ETCD_CHANGED. It is sent once only: after
 * -ETIMEDOUT or -ECONNREFUSED it is not known whether the key was written.
 */
int etcd_put_if(struct etcd *etcd, const char *key, int64_t mod_revision, const void *value,
		size_t len, int64_t lease, int64_t *ret_revision);
/* One of the changes that etcd makes together, or not at all. */
struct etcd_change {
	enum {
		ETCD_PUT, /* writes VALUE, if the key has REVISION as its mod_revision (0: if it does not exist) */
		ETCD_DELETE, /* deletes KEY, or all keys that begin with KEY; nothing is compared */
		ETCD_EXISTS, /* changes nothing: KEY has to exist */
		ETCD_UNCHANGED, /* changes nothing: no key that begins with KEY was written after REVISION */
	} kind;
	const char *key;
	bool is_prefix; /* of ETCD_DELETE */
	int64_t revision;
	const void *value;
	size_t len;
	int64_t lease; /* of ETCD_PUT; 0: none */
};

/*
 * As etcd_put_if(). ETCD_CHANGED: a key is not as expected, so nothing was changed. RET_REVISION: the new revision of what
 * was written; can be NULL.
 */
int etcd_change(struct etcd *etcd, const struct etcd_change *changes, size_t n,
		int64_t *ret_revision);

/* Deletes KEY, or all keys that begin with KEY. RET_N: how many there were; can be NULL. */
int etcd_delete(struct etcd *etcd, const char *key, bool is_prefix, int64_t *ret_n);

/* The state of one endpoint. */
struct etcd_member {
	char version[32];
	bool has_leader; /* false: this part of the cluster has no majority */
	int64_t db_size; /* bytes */
	char alarms[256]; /* empty: none */
};

/* Asks the endpoint INDEX, and no other. */
int etcd_get_member(struct etcd *etcd, size_t index, struct etcd_member *ret);

/* Grants a lease of SECONDS, which etcd can make longer. */
int etcd_grant(struct etcd *etcd, unsigned seconds, int64_t *ret_lease);
/* Makes LEASE begin anew. ETCD_NO_LEASE: it has expired. RET_SECONDS: its length; can be NULL. */
int etcd_keep_alive(struct etcd *etcd, int64_t lease, unsigned *ret_seconds);
/* Ends LEASE, which deletes its keys. ETCD_NO_LEASE: it has ended before. */
int etcd_revoke(struct etcd *etcd, int64_t lease);

/* A watch */

struct etcd_interval {
	const char *key;
	bool is_prefix;
};

#define ETCD_INTERVALS_MAX 4

struct etcd_event {
	bool is_delete; /* the entry has no value and no lease */
	struct etcd_entry entry;
};

struct etcd_watch;

/*
 * Watches the changes from REVISION on (that of a range + 1) in up to ETCD_INTERVALS_MAX intervals, which are copied. Uses
 * ETCD, which has to exist longer, and whose other calls can be made meanwhile. Connects in etcd_watch_next().
 */
int etcd_watch_new(struct etcd_watch **ret, struct etcd *etcd,
		   const struct etcd_interval *intervals, size_t n_intervals, int64_t revision);
struct etcd_watch *etcd_watch_free(struct etcd_watch *watch);
/*
 * Waits for the next event, for at most TIMEOUT_MS, or until one of the N_FDS descriptors in FDS is ready, whose revents
 * are set. To connect can take as long as a call, if it needs a password.
 *
 * A connection that ends is made again, at the next endpoint, and the watch resumes after the last event. The pauses
 * between grow from 0.1 s to 30 s. If a call goes to another endpoint, the watch follows. No event is lost or repeated. Those of one interval come in the order of their
 * revisions.
 *
 * Returns ETCD_EVENT: an event is in *RET, see etcd_event_done(); 0: no event; ETCD_COMPACTED: events are lost, because
 * etcd has forgotten the revision, or is another etcd than before: free the watch, read everything, and watch from there;
 * a negative errno: the connection ended, or could not be made. The next call tries again.
 */
int etcd_watch_next(struct etcd_watch *watch, int timeout_ms, struct pollfd *fds, size_t n_fds,
		    struct etcd_event *ret);
/* Whether etcd has confirmed the watch, since the connection was made last. */
bool etcd_watch_is_connected(const struct etcd_watch *watch);
void etcd_event_done(struct etcd_event *event);
