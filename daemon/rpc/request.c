/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/object/id.h"
#include "core/object/table.h"
#include "core/verbs/conn.h"
#include "core/verbs/id_life.h"
#include "core/verbs/session_life.h"
#include "proto/codec.h"
#include "rpc/call.h"
#include "rpc/convert.h"
#include "rpc/operations.h"
#include "rpc/request.h"
#include "util/util.h"

static const struct operation {
	const char *name;
	unsigned permits; /* the session needs one of these */
	int (*handler)(struct call *call);
	unsigned work; /* see turns.h */
	bool is_about_id;
} operations[] = {
#define ROW(op, name, permits, work) \
	[RDMABROKER__REQUEST__OP_##op] = { #name, permits, do_##name, work, false },
#define ID_ROW(op, name, work) \
	[RDMABROKER__REQUEST__OP_##op] = { #name, SESSION_PERMIT_CLIENT, do_##name, work, true },
	OPERATIONS(ROW, ID_ROW)
#undef ROW
#undef ID_ROW
};

static const struct operation *find_operation(Rdmabroker__Request__OpCase op)
{
	return op < ELEMENTS_OF(operations) && operations[op].name ? &operations[op] : NULL;
}

uint32_t request_get_handle(const Rdmabroker__Request *request)
{
	switch (request->op_case) {
#define NO_CASE(op, name, permits, work)
#define CASE(op, name, work)               \
	case RDMABROKER__REQUEST__OP_##op: \
		return request->name->id;
		OPERATIONS(NO_CASE, CASE)
#undef NO_CASE
#undef CASE
	default:
		return 0;
	}
}

unsigned request_work(const Rdmabroker__Request *request)
{
	const struct operation *op = find_operation(request->op_case);

	return op ? op->work : 1;
}

bool request_takes_fd(const struct session *session, const Rdmabroker__Request *request)
{
	if (request->op_case == RDMABROKER__REQUEST__OP_HELLO)
		return session_get_question(session)[0] && !session_get_permits(session);
	if (request->op_case == RDMABROKER__REQUEST__OP_ADOPT_SESSION)
		return session_is_released(session);
	return request->op_case == RDMABROKER__REQUEST__OP_IMPORT_ID;
}

static int handle(struct call *call, const struct operation *op)
{
	int r = 0;

	if (op->is_about_id)
		r = table_find(call->session, request_get_handle(call->request), &call->id,
			       &call->failure);
	return r != 0 ? r : op->handler(call);
}

/* Creates the id of Request.first, and then carries out the operation. If that fails, the id is freed again. */
static int carry_out_with_first(struct call *call, const struct operation *op)
{
	const Rdmabroker__CreateId *first = call->request->first;
	struct failure ignored;
	struct id *id;
	int r;

	/* Before it had to wait, the request has created the id, or could not do that yet. */
	if (call->attempt != REQUEST_AGAIN ||
	    table_find(call->session, first->id, &id, &ignored) != 0) {
		r = do_client_create_id(call, first);
		if (r != 0)
			return r;
	}
	r = handle(call, op);
	if (r == 0 || r == -EINPROGRESS)
		return r;
	if (table_find(call->session, first->id, &id, &ignored) == 0)
		id_free(id);
	return r;
}

static const char *why_not(unsigned permits)
{
	if (permits & SESSION_PERMIT_ADMIN)
		return "only root and the daemon's own user on the socket for administration, and "
		       "users whom a rule allows the operation admin, may do this";
	if (permits & SESSION_PERMIT_OBSERVE)
		return "only root and the daemon's own user on the socket for administration, and "
		       "users whom a rule allows the operation observe or admin, may do this";
	return "only the user in Helper= of rdmabrokerd.conf may do this, on the socket for the "
	       "helper";
}

/* Returns 0: the session has a permit that OP needs. */
static int check_permits(struct call *call, const struct operation *op)
{
	if (op->permits & session_get_permits(call->session))
		return 0;
	if (op->permits & SESSION_PERMIT_CLIENT)
		return session_become_client(call->session, &call->failure);
	return failure_set(&call->failure, STATUS_NOT_PERMITTED, "%s", why_not(op->permits));
}

static int carry_out(struct call *call)
{
	const struct operation *op = find_operation(call->request->op_case);
	enum request_stage *stage = &call->progress->stage;
	struct failure *failure = &call->failure;
	int r;

	if (!op)
		return failure_set(failure, STATUS_UNKNOWN_OPERATION,
				   "the broker does not support this operation");
	if (op->permits == 0) {
		if (*stage == REQUEST_SERVING && call->attempt != REQUEST_REPEATED)
			return failure_set(failure, STATUS_BAD_STATE, "%s: already sent", op->name);
		r = handle(call, op);
		/*
		 * Hello has succeeded only if the session has permits. Without permits, Hello was refused or still
		 * waits, or its reply requires a proof. After a reply that requires a proof, the client sends
		 * Hello again.
		 */
		if (*stage != REQUEST_CLOSING)
			*stage = session_get_permits(call->session) ? REQUEST_SERVING :
								      REQUEST_GREETING;
		return r;
	}
	if (*stage != REQUEST_SERVING)
		return failure_set(failure, STATUS_BAD_STATE, "%s: a hello must be sent first",
				   op->name);
	r = check_permits(call, op);
	if (r != 0)
		return r;
	if (!call->request->first)
		return handle(call, op);
	if (op->permits != SESSION_PERMIT_CLIENT)
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "%s: cannot be combined with create_id", op->name);
	return carry_out_with_first(call, op);
}

static void set_internal(struct failure *failure, int r)
{
	failure_set(failure, STATUS_INTERNAL, "the broker cannot carry out the request: %s",
		    strerror(-r));
	failure->error = -r;
}

static void log_failure(const struct call *call, int r)
{
	const struct operation *op = find_operation(call->request->op_case);
	const struct origin *origin = &call->failure.origin;
	char where[64] = "";

	if (origin->file && origin->error == r)
		snprintf(where, sizeof(where), " (%s:%d)", origin->file, origin->line);
	log_limited(session_log_limit(call->session), LOG_ERR,
		    "Session %llu: cannot carry out the request %s: %s%s.",
		    (unsigned long long)session_get_number(call->session), op ? op->name : "",
		    strerror(-r), where);
}

/* Counts and logs that R, which is not 0, is the outcome. Returns a status, which call.failure explains. */
static int count_refusal(struct call *call, int r)
{
	struct failure *failure = &call->failure;

	if (r == -ETOOMANYREFS) {
		failure_set(
			failure, STATUS_QUOTA,
			"the kernel refuses to send a descriptor: too many are not received yet");
		failure->error = -r;
		r = STATUS_QUOTA;
	} else if (r < 0) {
		log_failure(call, r);
		set_internal(failure, r);
		r = STATUS_INTERNAL;
	}
	session_count_refusal(call->session, (enum status)r);
	return r;
}

/* Makes R, which is not 0, the reply. */
static void refuse(struct call *call, int r, Rdmabroker__Failure *ret)
{
	Rdmabroker__Reply *reply = call->reply;

	count_refusal(call, r);
	out_failure(ret, &call->failure);
	reply->failure = ret;
	reply->result_case = RDMABROKER__REPLY__RESULT__NOT_SET;
	reply->init = NULL;
}

size_t request_pack_reply(uint64_t serial, uint32_t n_sent, int r, uint8_t *buf, size_t size)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__Failure out;
	struct failure failure;

	if (r < 0) {
		set_internal(&failure, r);
		out_failure(&out, &failure);
		reply.failure = &out;
	}
	reply.serial = (uint32_t)serial;
	reply.n_sent = n_sent;
	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = &reply;
	return codec_pack(&frame, buf, size);
}

enum request_outcome request_dispatch(struct control *control, struct session *session,
				      struct request_progress *progress,
				      const Rdmabroker__Request *request,
				      enum request_attempt attempt, int fd,
				      int (*send)(void *userdata, const Rdmabroker__Frame *frame,
						  int fd, struct failure *failure),
				      void *userdata)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Failure failure;
	/* CALL is not cleared as a whole, because SPACE is large, and each handler clears the part that it uses. */
	struct call call;
	enum request_outcome outcome;
	int r;

	call.control = control;
	call.session = session;
	call.id = NULL;
	call.progress = progress;
	call.request = request;
	call.attempt = attempt;
	call.fd = fd;
	call.reply = &reply;
	call.failure.origin.file = NULL;
	call.reply_fd = -1;
	reply.serial = request->serial;
	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = &reply;
	if (attempt != REQUEST_AGAIN && attempt != REQUEST_ASIDE)
		session_begin_request(session);
	r = carry_out(&call);
	if (r == -EINPROGRESS)
		return REQUEST_WAIT;
	if (r != 0 && attempt == REQUEST_ASIDE) {
		r = count_refusal(&call, r);
		if (call.id)
			conn_refuse(call.id, r, &call.failure);
		return REQUEST_GO_ON;
	}
	/* A refusal before Hello has succeeded ends the connection. A reply that requires a proof is no refusal. */
	outcome = progress->stage == REQUEST_SERVING ||
				  (progress->stage == REQUEST_GREETING && r == 0) ?
			  REQUEST_GO_ON :
			  REQUEST_CLOSE;
	if (r != 0)
		refuse(&call, r, &failure);
	else if (request->quiet && call.reply_fd < 0 && progress->stage == REQUEST_SERVING)
		return REQUEST_GO_ON;
	r = send(userdata, &frame, call.reply_fd, &call.failure);
	/* If this descriptor was not sent, nobody else has it, and closing it ends the export. */
	closep(&call.reply_fd);
	if (r != 0) {
		refuse(&call, r, &failure);
		send(userdata, &frame, /* fd= */ -1, &call.failure);
	}
	return outcome;
}
