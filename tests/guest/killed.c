/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Programs that are killed at random moments, and peers that have to be told. Run as root:
 *
 *   killed clients ADDR PORT COUNT SPAN_MS SEED SERVER_USER CLIENT_USER
 *   killed servers ADDR PORT COUNT SPAN_MS SEED SERVER_USER CLIENT_USER
 *
 * Status 1: somebody was not told. What each process does and sees is in memory that all share.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pwd.h>
#include <rdmabroker.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM_SECONDS 280
#define DEADLINE_MS 20000
/* Who is told later than this is as good as not told. */
#define TOLD_MAX_MS 10000
#define TOLD_SOON_MS 1000
#define N_AT_A_TIME 8
#define N_EARLY 4 /* every fourth may be killed before it has a session */
#define CHILDREN_MAX 4096
#define LINKS_MAX 65536
#define N_WATCHED 4 /* connections to each server that is killed */
#define N_PORTS 40

/* How far a client was. */
enum state {
	STATE_STARTED, /* no session */
	STATE_SESSION, /* no request */
	STATE_REQUEST, /* not answered */
	STATE_ESTABLISHED,
	STATE_DISCONNECTING,
	N_STATES,
};

static const char *const state_names[N_STATES] = {
	[STATE_STARTED] = "before the session",  [STATE_SESSION] = "before the request",
	[STATE_REQUEST] = "with a request",      [STATE_ESTABLISHED] = "established",
	[STATE_DISCONNECTING] = "disconnecting",
};

#define NOBODY (~0u)
#define EVENT_NONE (-1)
#define EVENT_ACCEPT_FAILED (-2)
#define N_EVENTS 66

struct child {
	atomic_int state;
	int64_t killed_ns;
	atomic_uint n_done; /* connections from beginning to end */
	atomic_uint n_failed;
};

/* A connection, as the one sees it whose peer is killed. */
struct link {
	unsigned child; /* that is its peer; NOBODY: not one that is killed */
	atomic_llong seen_ns, told_ns; /* 0: not yet */
	atomic_bool established;
	atomic_int event; /* by which its end is told */
};

struct shared {
	atomic_int listening; /* the port */
	atomic_uint round; /* the last one that the watcher is done with */
	atomic_uint n_links;
	struct link links[LINKS_MAX];
	struct child children[CHILDREN_MAX];
};

static struct shared *shared;
static int shared_fd, bell_fd; /* whoever has changed what another waits for rings the bell */
static struct sockaddr_in address;
static uint64_t random_state;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("FAILED: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(1);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int ms_until(int64_t deadline_ns)
{
	int64_t left = (deadline_ns - now_ns() + 999999) / 1000000;

	return left > 0 ? (int)left : 0;
}

static int64_t in_ms(int64_t ms)
{
	return now_ns() + ms * 1000000;
}

static unsigned random_below(unsigned n)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (unsigned)(random_state >> 33) % n;
}

static unsigned number(const char *text, unsigned max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n > max)
		die("\"%s\" is not a number up to %u", text, max);
	return (unsigned)n;
}

static void make_address(const char *host, unsigned port)
{
	address.sin_family = AF_INET;
	address.sin_port = htons((uint16_t)port);
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
		die("\"%s\" is not an address", host);
}

static void share(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	if (shared == MAP_FAILED)
		die("mmap: %s", strerror(errno));
}

static void ring(void)
{
	uint64_t one = 1;

	if (write(bell_fd, &one, sizeof(one)) < 0)
		die("eventfd: %s", strerror(errno));
}

/* Whoever runs as a user: verbs objects that all connections of this process use */

static struct rdmabroker *session;
static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct ibv_comp_channel *completions;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char buffer[64];

static void must(const char *what, int r)
{
	struct rdmabroker_failure failure = { .text = "" };

	if (r == 0)
		return;
	if (session)
		rdmabroker_get_failure(session, &failure);
	die("%s: %s: %s", what, strerror(-r), failure.text);
}

static void open_session(void)
{
	int r = rdmabroker_open(&session, NULL);

	if (r < 0)
		die("open: %s: %s", strerror(-r), rdmabroker_open_error());
}

/* The device stays open when ID goes. */
static void open_verbs(struct rdmabroker_id *id)
{
	if (verbs)
		return;
	must("open_device", rdmabroker_open_device(session, rdmabroker_id_get_device(id), &verbs));
	pd = ibv_alloc_pd(verbs);
	completions = ibv_create_comp_channel(verbs);
	cq = ibv_create_cq(verbs, 512, NULL, completions, 0);
	mr = pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!pd || !completions || !cq || !mr || ibv_req_notify_cq(cq, 0) != 0)
		die("verbs objects cannot be made");
}

static void make_qp(struct rdmabroker_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	must("create_qp", rdmabroker_create_qp(id, pd, &attr));
}

static struct ibv_sge sge(void)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)buffer,
		.length = sizeof(buffer),
		.lkey = mr->lkey,
	};
}

static void post_receive(struct rdmabroker_id *id)
{
	struct ibv_sge s = sge();
	struct ibv_recv_wr wr = { .sg_list = &s, .num_sge = 1 }, *bad;

	if (ibv_post_recv(rdmabroker_get_qp(id), &wr, &bad) != 0)
		die("a receive cannot be posted");
}

static void drain_completions(void)
{
	struct ibv_wc wc[16];

	while (ibv_poll_cq(cq, 16, wc) > 0)
		;
}

static struct rdmabroker_id *find_peer(void)
{
	const struct sockaddr *peer = (const struct sockaddr *)&address;
	struct rdmabroker_id *id;

	must("create_id", rdmabroker_create_id(session, &id, NULL, RDMABROKER_PS_TCP));
	must("resolve_addr", rdmabroker_resolve_addr_wait(id, NULL, peer, DEADLINE_MS));
	must("resolve_route", rdmabroker_resolve_route_wait(id, DEADLINE_MS));
	open_verbs(id);
	make_qp(id);
	return id;
}

/* CHILD is told to the peer. */
static struct rdmabroker_conn_param conn_param(uint32_t *child)
{
	return (struct rdmabroker_conn_param){
		.private_data = child,
		.private_data_len = child ? sizeof(*child) : 0,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

/* The client that is killed: connects, sends and disconnects, for ever. */

static void send_once(struct rdmabroker_id *id)
{
	struct ibv_sge s = sge();
	struct ibv_send_wr wr = {
		.sg_list = &s,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct pollfd p = { .fd = completions->fd, .events = POLLIN };
	struct ibv_send_wr *bad;
	struct ibv_cq *of;
	void *context;

	if (ibv_post_send(rdmabroker_get_qp(id), &wr, &bad) != 0)
		die("a message cannot be posted");
	if (poll(&p, 1, DEADLINE_MS) != 1 || ibv_get_cq_event(completions, &of, &context) != 0)
		die("a message is not sent");
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0) != 0)
		die("no notification");
	drain_completions();
}

static void run_client(uint32_t number)
{
	struct child *child = &shared->children[number];

	open_session();
	child->state = STATE_SESSION;
	ring();
	for (;;) {
		struct rdmabroker_conn_param param = conn_param(&number);
		struct rdmabroker_id *id;
		int r;

		child->state = STATE_SESSION;
		id = find_peer();
		child->state = STATE_REQUEST;
		r = rdmabroker_connect_wait(id, &param, DEADLINE_MS);
		if (r < 0) {
			struct rdmabroker_failure failure;

			rdmabroker_get_failure(session, &failure);
			fprintf(stderr, "client %u: connect: %s: %s\n", number, strerror(-r),
				failure.text);
			child->n_failed++;
			rdmabroker_destroy_id(id);
			continue;
		}
		child->state = STATE_ESTABLISHED;
		send_once(id);
		child->state = STATE_DISCONNECTING;
		must("disconnect", rdmabroker_disconnect_wait(id, DEADLINE_MS));
		rdmabroker_destroy_id(id);
		child->n_done++;
	}
}

/* The server: takes every request, or every Nth. */

static struct link *new_link(unsigned child)
{
	unsigned i = atomic_fetch_add(&shared->n_links, 1);
	struct link *link = &shared->links[i];

	if (i >= LINKS_MAX)
		die("too many connections");
	link->child = child;
	link->event = EVENT_NONE;
	link->seen_ns = now_ns();
	return link;
}

static void tell_link(struct link *link, int event)
{
	link->event = event;
	link->told_ns = now_ns();
}

/* Whether it is over with the event's id. */
static bool is_end(const struct rdmabroker_event *event)
{
	switch (event->type) {
	case RDMABROKER_EVENT_DISCONNECTED:
	case RDMABROKER_EVENT_REJECTED:
	case RDMABROKER_EVENT_CONNECT_ERROR:
	case RDMABROKER_EVENT_UNREACHABLE:
		return true;
	case RDMABROKER_EVENT_ESTABLISHED:
	case RDMABROKER_EVENT_TIMEWAIT_EXIT:
		return false;
	default:
		die("%s: %s", rdmabroker_event_str(event->type), event->text ? event->text : "-");
	}
}

static unsigned n_serving; /* links that have not ended */
static bool is_victim; /* it is this server that is killed */

static void end_link(struct rdmabroker_id *id, int event)
{
	tell_link(rdmabroker_id_get_context(id), event);
	rdmabroker_destroy_id(id);
	n_serving--;
}

static void take_request(const struct rdmabroker_event *event, bool accepting)
{
	struct rdmabroker_conn_param param = conn_param(NULL);
	uint32_t child;

	if (event->conn.private_data_len < sizeof(child))
		die("a request without private data");
	memcpy(&child, event->conn.private_data, sizeof(child));
	rdmabroker_id_set_context(event->id, new_link(is_victim ? NOBODY : child));
	n_serving++;
	if (!accepting)
		return;
	open_verbs(event->id);
	make_qp(event->id);
	post_receive(event->id);
	if (rdmabroker_accept(event->id, &param) < 0)
		end_link(event->id, EVENT_ACCEPT_FAILED);
}

static void serve_event(const struct rdmabroker_event *event, unsigned every)
{
	static unsigned n_requests;
	struct link *link;

	if (event->type == RDMABROKER_EVENT_CONNECT_REQUEST) {
		take_request(event, ++n_requests % every == 0);
		return;
	}
	link = rdmabroker_id_get_context(event->id);
	if (is_end(event))
		end_link(event->id, (int)event->type);
	else if (event->type == RDMABROKER_EVENT_ESTABLISHED)
		link->established = true;
}

/* Until nobody comes any more, which stdin's end says, and all who came have gone. */
static void run_server(unsigned every)
{
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
	struct rdmabroker_event *event;
	struct rdmabroker_id *listener;
	int64_t deadline = 0;
	int r;

	is_victim = every > 1;
	open_session();
	must("create_id", rdmabroker_create_id(session, &listener, NULL, RDMABROKER_PS_TCP));
	must("bind_addr", rdmabroker_bind_addr(listener, (struct sockaddr *)&address));
	must("listen", rdmabroker_listen(listener, 0));
	open_verbs(listener);
	shared->listening = ntohs(address.sin_port);
	ring();
	p[0].fd = rdmabroker_get_fd(session);
	while (!deadline || n_serving > 0) {
		if (poll(p, 2, deadline ? ms_until(deadline) : -1) == 0)
			die("%u peers are dead, and nobody has told it", n_serving);
		while ((r = rdmabroker_get_event(session, &event, 0)) == 0) {
			serve_event(event, every);
			rdmabroker_free_event(event);
		}
		if (r != -EAGAIN)
			must("get_event", r);
		drain_completions();
		if (p[1].revents) {
			p[1].fd = -1;
			deadline = in_ms(TOLD_MAX_MS);
		}
	}
	rdmabroker_destroy_id(listener);
	rdmabroker_close(session);
}

/* The watcher: has connections to a server that is killed. A line "PORT" begins a round. */

static bool read_port(unsigned *ret)
{
	char line[16];
	ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);

	if (n <= 1)
		return false;
	line[n - 1] = 0;
	*ret = number(line, 65535);
	return true;
}

static void await_ends(unsigned n_left)
{
	int64_t deadline = in_ms(TOLD_MAX_MS + DEADLINE_MS);
	struct rdmabroker_event *event;

	while (n_left > 0) {
		struct link *link;
		int r = rdmabroker_get_event(session, &event, ms_until(deadline));

		if (r == -EAGAIN)
			die("the server is dead, and nobody has told %u of its peers", n_left);
		must("get_event", r);
		link = rdmabroker_id_get_context(event->id);
		if (event->type == RDMABROKER_EVENT_ESTABLISHED)
			link->established = true;
		if (is_end(event) && !link->told_ns) {
			tell_link(link, (int)event->type);
			n_left--;
		}
		rdmabroker_free_event(event);
	}
}

static void run_watcher(void)
{
	unsigned port;

	open_session();
	for (uint32_t round = 1; read_port(&port); round++) {
		struct rdmabroker_conn_param param = conn_param(&round);
		struct rdmabroker_id *ids[N_WATCHED];

		address.sin_port = htons((uint16_t)port);
		for (unsigned i = 0; i < N_WATCHED; i++) {
			ids[i] = find_peer();
			rdmabroker_id_set_context(ids[i], new_link(round));
			must("connect", rdmabroker_connect(ids[i], &param));
		}
		await_ends(N_WATCHED);
		for (unsigned i = 0; i < N_WATCHED; i++)
			rdmabroker_destroy_id(ids[i]);
		drain_completions();
		shared->round = round;
		ring();
	}
	rdmabroker_close(session);
}

/* The parent: starts, kills, and adds up. It is the only one that is root. */

static void become(const char *user)
{
	const struct passwd *pw = getpwnam(user);

	if (!pw)
		die("there is no user %s", user);
	if (initgroups(user, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 || setuid(pw->pw_uid) < 0)
		die("cannot become %s: %s", user, strerror(errno));
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		die("prctl: %s", strerror(errno));
}

/* ROLE with its ARGUMENT; STDIN is a descriptor, -1: none. */
static pid_t start(const char *user, const char *role, unsigned argument, unsigned port, int in)
{
	char texts[5][24], host[INET_ADDRSTRLEN];
	pid_t pid;

	snprintf(texts[0], sizeof(texts[0]), "%d", shared_fd);
	snprintf(texts[1], sizeof(texts[1]), "%d", bell_fd);
	snprintf(texts[2], sizeof(texts[2]), "%u", argument);
	snprintf(texts[3], sizeof(texts[3]), "%u", port);
	inet_ntop(AF_INET, &address.sin_addr, host, sizeof(host));
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid > 0)
		return pid;
	become(user);
	if (in >= 0)
		dup2(in, STDIN_FILENO);
	execl("/proc/self/exe", "killed", role, texts[0], texts[1], texts[2], host, texts[3],
	      (char *)NULL);
	die("exec: %s", strerror(errno));
}

/* Its peers may know before its parent does: the time is that of the signal. */
static void kill_now(pid_t pid, unsigned number)
{
	int status;

	shared->children[number].killed_ns = now_ns();
	if (kill(pid, SIGKILL) < 0 || waitpid(pid, &status, 0) != pid)
		die("kill: %s", strerror(errno));
	if (!WIFSIGNALED(status))
		die("process %u has ended by itself, with status %d", number, WEXITSTATUS(status));
}

static void await_end(pid_t pid, const char *who)
{
	int status;

	/* It has a deadline of its own. */
	if (waitpid(pid, &status, 0) != pid || status != 0)
		die("the %s has failed", who);
}

/* False: the time is over, and nobody has rung. */
static bool hear_until(int64_t due_ns)
{
	struct pollfd p = { .fd = bell_fd, .events = POLLIN };
	uint64_t n;

	if (poll(&p, 1, ms_until(due_ns)) == 0)
		return false;
	if (read(bell_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		die("eventfd: %s", strerror(errno));
	return true;
}

/* Until the condition holds, which somebody rings for. */
#define AWAIT(condition, what)                                                  \
	do {                                                                    \
		int64_t deadline_ = in_ms(DEADLINE_MS);                         \
		while (!(condition))                                            \
			if (!hear_until(deadline_))                             \
				die("%s: not within %d ms", what, DEADLINE_MS); \
	} while (0)

/* The other end reads: this end is given, which nobody inherits. */
static int make_pipe(int *ret_read)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		die("pipe: %s", strerror(errno));
	*ret_read = fds[0];
	return fds[1];
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* False: somebody was told too late, or not at all. */
static bool report(const char *who)
{
	static int64_t took[LINKS_MAX];
	unsigned n_events[N_EVENTS] = { 0 }, n_accept_failed = 0, n_before = 0, n_untold = 0;
	unsigned n = 0, n_late = 0, n_links = shared->n_links, n_seen = 0, n_waiting = 0;

	for (unsigned i = 0; i < n_links; i++) {
		const struct link *link = &shared->links[i];
		int64_t killed, since;

		if (link->child == NOBODY)
			continue;
		n_seen++;
		killed = shared->children[link->child].killed_ns;
		since = killed > link->seen_ns ? killed : link->seen_ns;
		if (!link->told_ns) {
			n_untold++;
			continue;
		}
		if (link->told_ns < killed) {
			n_before++;
			continue;
		}
		took[n] = link->told_ns - since;
		n_late += took[n] > TOLD_SOON_MS * 1000000LL;
		n_waiting += !link->established;
		n++;
		if (link->event == EVENT_ACCEPT_FAILED)
			n_accept_failed++;
		else
			n_events[link->event]++;
	}
	qsort(took, n, sizeof(took[0]), compare);
	printf("%s: %u connections, of which %u ended before the kill; %u were told (%u of them of "
	       "one that was not established)",
	       who, n_seen, n_before, n, n_waiting);
	for (unsigned i = 0; i < N_EVENTS; i++)
		if (n_events[i] > 0)
			printf(", %u by %s", n_events[i],
			       rdmabroker_event_str((enum rdmabroker_event_type)i) +
				       strlen("RDMABROKER_EVENT_"));
	if (n_accept_failed > 0)
		printf(", %u by a failing accept", n_accept_failed);
	printf("\n");
	if (n == 0)
		die("nobody was told anything");
	printf("%s: told after p50 %.1f ms, p99 %.1f ms, at most %.1f ms; %u later than %d ms; "
	       "%u never\n",
	       who, (double)took[n / 2] / 1e6, (double)took[n * 99 / 100] / 1e6,
	       (double)took[n - 1] / 1e6, n_late, TOLD_SOON_MS, n_untold);
	return n_untold == 0 && took[n - 1] <= TOLD_MAX_MS * 1000000LL;
}

struct victim {
	pid_t pid;
	unsigned number;
	bool with_session; /* its time is counted from when it has one */
	int64_t due_ns;
};

static int kill_clients(char **argv)
{
	unsigned port = number(argv[1], 65535), count = number(argv[2], CHILDREN_MAX);
	unsigned span = number(argv[3], 10000), seed = number(argv[4], ~0u);
	unsigned n_states[N_STATES] = { 0 }, n_started = 0, n_killed = 0, n_done = 0, n_failed = 0;
	struct victim victims[N_AT_A_TIME] = { 0 };
	int64_t begin = now_ns();
	int in, end = make_pipe(&in);
	pid_t server;

	random_state = seed;
	server = start(argv[5], "=serve", 1, port, in);
	close(in);
	AWAIT(shared->listening == (int)port, "the server listens");
	while (n_killed < count) {
		struct victim *next = NULL;

		for (unsigned i = 0; i < N_AT_A_TIME; i++) {
			struct victim *v = &victims[i];

			if (v->pid == 0 && n_started < count) {
				v->number = n_started++;
				v->with_session = v->number % N_EARLY != 0;
				v->due_ns = in_ms(v->with_session ? DEADLINE_MS :
								    random_below(span + 1));
				v->pid = start(argv[6], "=connect", v->number, port, -1);
			}
			if (v->pid > 0 && v->with_session &&
			    shared->children[v->number].state >= STATE_SESSION) {
				v->with_session = false;
				v->due_ns = in_ms(random_below(span + 1));
			}
			if (v->pid > 0 && (!next || v->due_ns < next->due_ns))
				next = v;
		}
		/* Somebody has a session, or somebody's time has come. */
		if (hear_until(next->due_ns))
			continue;
		kill_now(next->pid, next->number);
		n_states[shared->children[next->number].state]++;
		n_done += shared->children[next->number].n_done;
		n_failed += shared->children[next->number].n_failed;
		next->pid = 0;
		n_killed++;
	}
	close(end);
	await_end(server, "server");
	printf("clients: %u are killed, each within %u ms of its start or its session, seed %u, %d at a time, in "
	       "%lld s:",
	       n_killed, span, seed, N_AT_A_TIME, (long long)(now_ns() - begin) / 1000000000);
	for (unsigned i = 0; i < N_STATES; i++)
		printf(" %u %s%s", n_states[i], state_names[i], i + 1 < N_STATES ? "," : "\n");
	printf("clients: %u connections were made and ended by themselves, %u failed\n", n_done,
	       n_failed);
	return !report("servers of killed clients") || n_failed > 0;
}

static int kill_servers(char **argv)
{
	unsigned port = number(argv[1], 65535), count = number(argv[2], CHILDREN_MAX - 1);
	unsigned span = number(argv[3], 10000), seed = number(argv[4], ~0u);
	int64_t begin = now_ns();
	int in, lines = make_pipe(&in), never, no_end = make_pipe(&never);
	pid_t watcher;

	random_state = seed;
	watcher = start(argv[6], "=watch", 0, port, in);
	close(in);
	for (unsigned round = 1; round <= count; round++) {
		unsigned at = port + round % N_PORTS;
		pid_t server = start(argv[5], "=serve", 2, at, never);
		char line[16];

		AWAIT(shared->listening == (int)at, "the server listens");
		snprintf(line, sizeof(line), "%u\n", at);
		if (write(lines, line, strlen(line)) < 0)
			die("the watcher is gone");
		poll(NULL, 0, (int)random_below(span + 1));
		kill_now(server, round);
		AWAIT(shared->round == round, "the watcher is told");
	}
	close(lines);
	close(never);
	close(no_end);
	await_end(watcher, "watcher");
	printf("servers: %u are killed, each within %u ms of its first request, seed %u, in %lld s\n",
	       count, span, seed, (long long)(now_ns() - begin) / 1000000000);
	return !report("clients of killed servers");
}

static int run_parent(char **argv)
{
	shared_fd = memfd_create("killed", 0);
	bell_fd = eventfd(0, EFD_NONBLOCK);
	if (shared_fd < 0 || bell_fd < 0 || ftruncate(shared_fd, sizeof(*shared)) < 0)
		die("no memory to share: %s", strerror(errno));
	share();
	make_address(argv[1], number(argv[2], 65535));
	if (strcmp(argv[0], "clients") == 0)
		return kill_clients(argv + 1);
	if (strcmp(argv[0], "servers") == 0)
		return kill_servers(argv + 1);
	die("clients or servers are killed, not %s", argv[0]);
}

/* A role: of a process that the parent starts. */
static int run_role(char **argv)
{
	unsigned argument = number(argv[3], CHILDREN_MAX);

	shared_fd = (int)number(argv[1], 1024);
	bell_fd = (int)number(argv[2], 1024);
	share();
	make_address(argv[4], number(argv[5], 65535));
	if (strcmp(argv[0], "=serve") == 0)
		run_server(argument);
	else if (strcmp(argv[0], "=connect") == 0)
		run_client(argument);
	else
		run_watcher();
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(PROGRAM_SECONDS);
	if (argc == 7 && argv[1][0] == '=')
		return run_role(argv + 1);
	if (argc == 9)
		return run_parent(argv + 1);
	fprintf(stderr,
		"killed clients|servers ADDR PORT COUNT SPAN_MS SEED SERVER_USER CLIENT_USER\n");
	return 2;
}
