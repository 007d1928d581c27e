/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A policy is an ordered list of rules. It does not change once it is loaded.
 *
 * struct policy_question contains the known facts of a policy request. The peer, for example, is unknown at bind
 * time. If the decision depends on an unknown fact, the result depends on policy_question.early:
 *
 *   true   POLICY_DEFER: the caller decides again when it knows more.
 *   false  an allow rule that depends on the fact does not match, a reject rule does.
 *
 * An allow rule without 'pkey' does not match a question whose partition was named (policy_question.names_pkey). A warn
 * rule does: it stands for what the kernel alone would allow.
 *
 * Who the peer is can be asked, but that takes time. With policy_question.can_ask the result is POLICY_ASK if the
 * decision depends on that, and on no other unknown fact. If it was asked before, and the answer is lost,
 * policy_question.assume_who makes the decision as if the answer had favoured the client.
 *
 * Policies are reference counted. An id holds a reference to the policy whose rule admitted it, so that the rule can
 * be reported after a reload.
 */

#include <stdbool.h>
#include <stddef.h>

#include "policy/rule/question.h"

struct diag;
struct policy;

enum policy_answer {
	POLICY_REJECT,
	POLICY_ALLOW,
	POLICY_DEFER, /* only if policy_question.early is set */
	POLICY_ASK, /* only if policy_question.can_ask is set */
};

enum policy_reuseaddr {
	POLICY_REUSEADDR_DEFAULT, /* the rule does not say: NO for connect, CLIENT for listen */
	POLICY_REUSEADDR_NO, /* a request for REUSEADDR is refused */
	POLICY_REUSEADDR_YES, /* REUSEADDR is forced; for an exception see rdmabroker.rules(5) */
	POLICY_REUSEADDR_CLIENT, /* REUSEADDR is set if the client requests it */
};

enum policy_qp {
	POLICY_QP_OWN, /* the default: the client can offer only the QPN of its own QP */
	POLICY_QP_RESERVED, /* the client can also offer a QPN for which the kernel reports no QP */
};

enum policy_access {
	POLICY_ACCESS_DEFAULT, /* the rule does not say: that of rdmabrokerd.conf */
	POLICY_ACCESS_ACL, /* the client's user gets an entry in the ACL of the device's node */
	POLICY_ACCESS_OPEN, /* the client can open the device's node anyway, for example in its container */
};

/* A token bucket. Both numbers are 1..1000000, or both 0: no limit. */
struct policy_rate {
	unsigned per_second;
	unsigned burst; /* capacity of the bucket; PER_SECOND if the rule does not set it */
};

/*
 * The settings of an allow or a warn rule. RATE, MAX and PENDING count what the rule admits for all clients together; the other
 * limits count it for each user, or for each peer.
 *
 * words.c lists the operations to which a setting applies. A rule for "any" can have settings that do not apply to
 * the question's operation; the caller must ignore these settings.
 */
struct policy_settings {
	int tos; /* 0..255, forced; -1: not set */
	int tos_max; /* 0..255, upper limit for the TOS that the client requests; -1: not set */
	enum policy_reuseaddr reuseaddr;
	int backlog; /* 1..65535, default and maximum of a listener's backlog; -1: not set */
	enum policy_qp qp;
	enum policy_access access;
	int ack_timeout; /* 0..31, forced: 4.096 us * 2^n, 0 is no timeout; -1: not set */
	int min_rnr_timer; /* 0..31, forced: enum ibv_rnr_timer of infiniband/verbs.h; -1: not set */

	/* Upper limits for the values that the client requests; -1: not set. */
	int responder_resources; /* 0..255 */
	int initiator_depth; /* 0..255 */
	int retry_count; /* 0..7 */
	int rnr_retry_count; /* 0..7; 7: retries without end */

	struct policy_rate rate;
	struct policy_rate rate_per_user;
	struct policy_rate rate_per_peer; /* by address, without the port */

	/* Limits for the number of objects at one time, each 1..16777216; 0: no limit. */
	unsigned max; /* objects that the rule has admitted, see rdmabroker.rules(5) */
	unsigned max_per_user;
	unsigned pending; /* connection requests that wait for the client's accept */
};

/*
 * The part of a rule that other folders read. Lives as long as its policy.
 *
 * FILE and TEXT identify a rule, so that its counters can be kept over a reload. If two rules have the same FILE and
 * TEXT, the second never decides.
 */
struct policy_rule {
	size_t index; /* position of the rule in the policy, from 0 */
	/* the rule on one line, with one blank between tokens, no blanks around ',', and no comments */
	const char *text;
	const char *file; /* path of the file, as it was opened */
	unsigned line; /* number of the rule's first line, from 1 */
	unsigned column; /* where the rule begins in this line, from 1 */
	enum policy_operation operation; /* _POLICY_OPERATION_MAX: any except observe and admin */
	bool allow;
	bool warns; /* a warn rule: ALLOW is set too, and what it admits is told as a refusal would be */
	bool log;
	const char *reason; /* reason of a reject or warn rule; NULL: none given */
	struct policy_settings settings;
	bool names_port; /* the rule has a port match, see policy_check_port() */
};

struct policy_verdict {
	enum policy_answer answer;
	/* the rule that decided; NULL: no rule matched; on POLICY_DEFER and POLICY_ASK: the first rule that can still match */
	const struct policy_rule *rule;
	/*
	 * on POLICY_REJECT: the rule's reason; "denied": the rule has none; "no-rule": no rule matched; or a text
	 * from policy_check_port(); on POLICY_ALLOW: the reason of a warn rule; NULL: it has none
	 */
	const char *reason;
	/* the policy does not reject, but the restriction of the client's session does; RULE is NULL */
	bool by_restriction;
	size_t n_examined; /* what the decision has cost, in comparisons of the question with a rule */
};

/* What to do if the name of a user or group cannot be looked up. */
enum policy_names {
	POLICY_NAMES_MUST_EXIST, /* a missing name is an error */
	/*
	 * A missing name is a warning in DIAG. The result of a match with such a name is unknown for every client, even
	 * for one that the match names too.
	 */
	POLICY_NAMES_MAY_BE_MISSING,
};

/*
 * Loads the *.rules files of DIR in lexical order. Without such files the policy rejects everything. Complaints are
 * added to DIAG; there are warnings of files that are not read (see source_list_new()), and of rules that never decide
 * (see shadow.h).
 *
 * Returns 0, -EBADMSG (a rule has an error), -EPERM (owner or mode of DIR or a file, see source.h), or another
 * negative errno. On failure *ret is unchanged.
 */
int policy_load_dir(struct policy **ret, const char *dir, enum policy_names names,
		    struct diag *diag);
/* Rules that the host's admin has not written, but the admin of many hosts. */
struct policy_site {
	const char *
		dir; /* can be a symbolic link, which another process replaces; a missing DIR is no error */
	bool may_admin; /* its rules can have the operation admin */
};
/*
 * As policy_load_dir(), with the *.rules files of SITE too. The files of both are in the lexical order of their names;
 * of two with the same name, the one in DIR is first.
 */
int policy_load_dirs(struct policy **ret, const char *dir, const struct policy_site *site,
		     enum policy_names names, struct diag *diag);
/*
 * Makes a new policy from the texts of POLICY, which must have missing names, and looks the names up again. Another
 * thread can call this, because it reads only members of POLICY that never change. Returns 0 or a negative errno.
 */
int policy_load_again(struct policy **ret, const struct policy *policy, struct diag *diag);
/* Makes a policy that rejects everything, for use when no policy could be loaded. */
int policy_new_fallback(struct policy **ret);
/* As policy_load_dir(), from a list of files, for `rdmabrokerd --check FILE...`. */
int policy_load_files(struct policy **ret, const char *const *files, size_t n_files,
		      struct diag *diag);
/* As policy_load_dir(), from memory, with NAME as the file's name. TEXT need not end in NUL. */
int policy_load_text(struct policy **ret, const char *name, const char *text, size_t len,
		     struct diag *diag);
/*
 * As policy_load_text(), for rules that a client has written in order to narrow a session. They say what is done, not
 * who does it and with which settings: the only words are local, peer, port, device, ps, pkey, data and reason. They cannot
 * have sets either, so that a short text cannot make a large policy.
 */
int policy_load_restriction(struct policy **ret, const char *name, const char *text, size_t len,
			    struct diag *diag);

struct policy *policy_ref(struct policy *policy);
struct policy *policy_unref(struct policy *policy); /* takes NULL; returns NULL */

/* False: no rule depends on who the peer is, so no decision is POLICY_ASK. */
bool policy_asks(const struct policy *policy);
bool policy_is_fallback(const struct policy *policy);
size_t policy_n_warn_rules(const struct policy *policy);
/*
 * Returns the number of names that could not be looked up. *ret_first: the complaint about the first one; NULL: none.
 */
size_t policy_n_missing_names(const struct policy *policy, const char **ret_first);

size_t policy_n_rules(const struct policy *policy);
const struct policy_rule *policy_rule_at(const struct policy *policy, size_t i);

/* Cannot fail, and does not allocate memory. */
void policy_decide(const struct policy *policy, const struct policy_question *question,
		   struct policy_verdict *ret);

/* VERDICT allows, but only by a warn rule. */
static inline bool policy_warns(const struct policy_verdict *verdict)
{
	return verdict->answer == POLICY_ALLOW && verdict->rule && verdict->rule->warns;
}

/*
 * For a port below 1024 the kernel checks the broker's right to listen, not the client's. If VERDICT allows listening
 * on such a port by a rule without a port match, policy_check_port() turns VERDICT into a rejection. A warn rule also
 * admits root that the kernel alone would have admitted.
 */
bool policy_port_needs_name(int port);
void policy_check_port(const struct policy_question *question, struct policy_verdict *verdict);

/*
 * Whether a program may use REUSEADDR when RULE, which allows OPERATION, decides. Never POLICY_REUSEADDR_DEFAULT. For
 * listen YES means CLIENT: an id that listens shares its port with none.
 */
enum policy_reuseaddr policy_rule_reuseaddr(const struct policy_rule *rule,
					    enum policy_operation operation);

/*
 * Writes the next setting of RULE that applies to OPERATION to RET ("tos 32"). *I is 0 at first. False: there are no
 * more. A rule for "any" can have settings that apply to other operations only.
 */
bool policy_next_setting(const struct policy_rule *rule, enum policy_operation operation, size_t *i,
			 char *ret, size_t size);

const char *policy_operation_to_string(enum policy_operation operation);
