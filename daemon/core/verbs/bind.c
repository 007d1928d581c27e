/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "core/admit/decide.h"
#include "core/admit/intent.h"
#include "core/admit/rule_settings.h"
#include "core/object/wait.h"
#include "core/verbs/bind.h"
#include "core/verbs/id_life.h"
#include "proto/addr.h"
#include "proto/names.h"

/*
 * At a bind, it is not known whether the program will listen or connect. So policy decides about both, and the bind
 * is refused if policy rejects both.
 */
struct purposes {
	struct policy_verdict listen;
	struct policy_verdict connect;
};

int bind_check_port(struct session *session, enum rdma_port_space ps, const struct sockaddr *addr,
		    const char *verb, struct failure *failure)
{
	struct intent intent = {
		.question = { .operation = POLICY_LISTEN,
			      .local = addr,
			      .port = addr_port(addr),
			      .port_space = ps },
		.what = verb,
		.addrs[0] = addr,
	};
	struct policy_verdict verdict;
	char text[ADDR_STRLEN];

	if (!policy_port_needs_name(intent.question.port))
		return 0;
	policy_set_partition(&intent.question, /* pkey= */ 0, /* path_pkey= */ 0);
	decide_ask(session, &intent, &verdict);
	if (policy_warns(&verdict))
		intent.question.may_bind_low = identity_may_bind_low(&session->identity);
	policy_check_port(&intent.question, &verdict);
	if (verdict.answer == POLICY_ALLOW)
		return 0;
	decide_audit(session, &intent, &verdict, /* overflow= */ NULL);
	return failure_set(
		failure, STATUS_DENIED,
		"%s %s: a port below 1024 needs a rule that allows listen and names the port", verb,
		addr_to_string(addr, text));
}

int bind_check_service(const struct id *id, const struct sockaddr *addr, bool is_peer,
		       const char *verb, struct failure *failure)
{
	char text[ADDR_STRLEN];

	if (addr_is_of_port_space(addr, id->ps, is_peer))
		return 0;
	return failure_set_error(
		failure, STATUS_BAD_REQUEST, EPROTONOSUPPORT,
		"%s %s: the service id is not one of the port space %s, so no rule can decide "
		"about it",
		verb, addr_to_string(addr, text), portspace_name(id->ps));
}

/*
 * Decides whether SESSION can bind ID to ADDR, or import ID, which is bound to ADDR. Returns 0, or STATUS_DENIED
 * if both decisions reject. WHAT ("bind") is for messages.
 */
static int decide_purposes(struct session *session, const struct id *id,
			   const struct sockaddr *addr, const char *what, struct purposes *ret,
			   struct failure *failure)
{
	char text[ADDR_STRLEN];
	struct intent intent = {
		.question = { .operation = POLICY_CONNECT,
			      .early = true,
			      .local = addr,
			      .port = -1,
			      .port_space = id->ps },
		.what = what,
		.addrs[0] = addr,
		.id = session == id->session ? id : NULL,
	};

	policy_set_partition(&intent.question, /* pkey= */ 0, /* path_pkey= */ 0);
	decide_ask(session, &intent, &ret->connect);
	intent.question.operation = POLICY_LISTEN;
	if (addr_port(addr) > 0)
		intent.question.port = addr_port(addr);
	decide_ask(session, &intent, &ret->listen);
	if (ret->listen.answer != POLICY_REJECT || ret->connect.answer != POLICY_REJECT)
		return 0;
	decide_audit(session, &intent, &ret->listen, /* overflow= */ NULL);
	return failure_set_denied(
		failure, &ret->listen,
		"%s %s: uid %u may neither listen on this address nor connect from it", what,
		addr_to_string(addr, text), session->identity.uid);
}

int bind_decide_over(struct session *session, const struct id *id, const char *what,
		     struct failure *failure)
{
	struct fabric_id_info info;
	struct purposes purposes;
	int r;

	fabric_id_get_info(id->fabric, &info);
	r = bind_check_port(session, id->ps, (struct sockaddr *)&info.local, what, failure);
	if (r != 0)
		return r;
	return decide_purposes(session, id, (struct sockaddr *)&info.local, what, &purposes,
			       failure);
}

/* Whether an id with REUSEADDR may listen later, as far as it is known now. */
static bool may_listen_with_reuseaddr(const struct policy_verdict *listen)
{
	if (listen->answer != POLICY_ALLOW)
		return listen->answer == POLICY_DEFER;
	return policy_rule_reuseaddr(listen->rule, POLICY_LISTEN) != POLICY_REUSEADDR_NO;
}

/*
 * Decides whether a bind to ADDR sets REUSEADDR (*RET), by the first rules that can match a later connect and a later
 * listen. rule_settings_check_reuseaddr() decides again when the program connects or listens.
 */
static int decide_reuseaddr(struct id *id, const struct sockaddr *addr,
			    const struct purposes *purposes, bool *ret, struct failure *failure)
{
	char text[ADDR_STRLEN];
	const struct policy_verdict *refusal = &purposes->connect;
	const struct policy_rule *rule = purposes->connect.rule;
	enum policy_reuseaddr mode = POLICY_REUSEADDR_NO;
	bool may_listen = purposes->listen.answer != POLICY_REJECT && addr_port(addr) > 0;

	if (rule && rule->allow)
		mode = policy_rule_reuseaddr(rule, POLICY_CONNECT);
	/*
	 * With REUSEADDR others could bind the port too, and then nobody could listen on it. So the rule cannot force
	 * REUSEADDR on a port on which policy can allow a listen.
	 */
	if (mode == POLICY_REUSEADDR_YES && !may_listen) {
		*ret = true;
		return 0;
	}
	if (options_wants_reuseaddr(&id->options) && mode == POLICY_REUSEADDR_NO &&
	    purposes->connect.answer != POLICY_DEFER &&
	    !may_listen_with_reuseaddr(&purposes->listen)) {
		/* The failure names the rule for listen that has the value no: it is written there, not the default. */
		if (purposes->listen.answer == POLICY_ALLOW)
			refusal = &purposes->listen;
		return failure_set_denied(failure, refusal,
					  "bind %s: policy does not allow REUSEADDR",
					  addr_to_string(addr, text));
	}
	*ret = options_wants_reuseaddr(&id->options);
	return 0;
}

/* The kernel lets REUSEADDR of a bound id be set, but not cleared. */
int bind_late_reuseaddr(struct id *id, bool reuseaddr, struct failure *failure)
{
	struct fabric_id_info info;
	struct purposes purposes;
	bool allowed;
	int r;

	if (!reuseaddr)
		return id_refuse_state(id, "set_option", failure);
	fabric_id_get_info(id->fabric, &info);
	r = decide_purposes(id->session, id, (struct sockaddr *)&info.local, "bind", &purposes,
			    failure);
	if (r != 0)
		return r;
	id->options.asked[OPTION_REUSEADDR] = 1;
	r = decide_reuseaddr(id, (struct sockaddr *)&info.local, &purposes, &allowed, failure);
	if (r == 0) {
		r = id_set_option(id, OPTION_REUSEADDR, 1);
		if (r < 0)
			r = failure_set_fabric(failure, r, "set REUSEADDR");
	}
	if (r != 0)
		id->options.asked[OPTION_REUSEADDR] = -1;
	return r;
}

int bind_addr(struct id *id, const struct sockaddr *addr, struct failure *failure)
{
	struct sockaddr_storage own = { 0 };
	struct purposes purposes;
	bool reuseaddr = false;
	int r;

	if (id->state != ID_IDLE)
		return id_refuse_state(id, "bind", failure);
	r = bind_check_service(id, addr, /* is_peer= */ false, "bind", failure);
	if (r != 0)
		return r;
	r = wait_for_devices(id->session, "bind", failure);
	if (r == 0)
		r = bind_check_port(id->session, id->ps, addr, "bind", failure);
	if (r == 0)
		r = decide_purposes(id->session, id, addr, "bind", &purposes, failure);
	if (r == 0)
		r = decide_reuseaddr(id, addr, &purposes, &reuseaddr, failure);
	if (r != 0)
		return r;

	if (reuseaddr != options_has_reuseaddr(&id->options)) {
		r = id_set_option(id, OPTION_REUSEADDR, reuseaddr);
		if (r < 0)
			return failure_set_fabric(failure, r, "set REUSEADDR");
	}
	memcpy(&own, addr, addr_len(addr));
	rule_settings_cap_address(purposes.connect.rule, &own);
	r = fabric_id_bind(id->fabric, (struct sockaddr *)&own);
	if (r == -EINPROGRESS) {
		r = wait_for_fabric(id->session, htons((uint16_t)addr_port(addr)));
		if (r < 0)
			return r;
		r = -EADDRINUSE;
	} else if ((r == -EADDRINUSE || r == -EADDRNOTAVAIL) && addr_port(addr) > 0 &&
		   wait_for_others(id->session) < 0) {
		return -EINPROGRESS;
	}
	if (r < 0)
		return failure_set_bind(failure, r, "bind", addr);
	id->any_port = addr_port(addr) == 0;
	id_set_state(id, ID_BOUND);
	return 0;
}
