/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <glob.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "holding.h"
#include "newfile.h"
#include "proto/nodes.h"
#include "read.h"
#include "sightings.h"
#include "table.h"
#include "who.h"

/*
 * The verb nodes: whether programs can open rdma_cm and uverbs* without the broker, and who uses RDMA without it. udev sets
 * owner and mode of the nodes; a file of rules in /etc makes it leave them alone.
 */

#define DAEMON_USER "rdmabroker"
#define ACL_ATTRIBUTE "system.posix_acl_access"
#define EVERYBODY (S_IROTH | S_IWOTH)

static const char rules[] =
	"# Written by \"rdmabrokerctl nodes open\"; \"rdmabrokerctl nodes close\" removes it. As long as it exists, the\n"
	"# device nodes stay as the distribution has them, and programs can use RDMA without the broker.\n"
	"SUBSYSTEM==\"misc|infiniband_verbs\", ENV{RDMABROKER_NODES}=\"open\"\n";

enum { OPEN, CLOSE, STATUS };
const char *const nodes_actions[] = { "open", "close", "status", NULL };

static const char *since, *yes;

const struct verb_option nodes_options[] = {
	{ "since", "TIME|AGO", "status: who was seen since then, too: 2026-01-31, 12h, 7d",
	  .given = &since },
	{ "yes", NULL, "close: also if programs are known to use RDMA without the broker",
	  .given = &yes },
	{ NULL },
};

/* The nodes */

struct node {
	const char *path;
	uint32_t uid;
	unsigned mode;
};

/* Calls USE for each node. True: it has returned true for all. */
static bool each_node(bool (*use)(const struct node *node, void *arg), void *arg)
{
	glob_t paths = { 0 };
	bool good = true;
	struct stat st;

	glob("/dev/infiniband/rdma_cm", 0, NULL, &paths);
	glob("/dev/infiniband/uverbs*", GLOB_APPEND, NULL, &paths);
	for (size_t i = 0; i < paths.gl_pathc; i++)
		if (stat(paths.gl_pathv[i], &st) == 0)
			good = use(&(struct node){ paths.gl_pathv[i], st.st_uid,
						   st.st_mode & 07777 },
				   arg) &&
			       good;
	globfree(&paths);
	return good;
}

static uint32_t find_daemon_uid(void)
{
	const struct passwd *entry = getpwnam(DAEMON_USER);

	if (!entry)
		die(EXIT_FAILURE,
		    "there is no user " DAEMON_USER ", so the broker is not installed here");
	return entry->pw_uid;
}

/* udev */

static bool run(const char *const *argv)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execvp(argv[0], (char *const *)argv);
		complain("cannot run %s: %m", argv[0]);
		_exit(EXIT_FAILURE);
	}
	if (wait_for(pid) == 0)
		return true;
	complain("\"%s %s\" has failed", argv[0], argv[1]);
	return false;
}

static bool apply_rules(void)
{
	static const char *const reload[] = { "udevadm", "control", "--reload", NULL };
	static const char *const cm[] = { "udevadm",
					  "trigger",
					  "--settle",
					  "--subsystem-match=misc",
					  "--sysname-match=rdma_cm",
					  NULL };
	static const char *const verbs[] = { "udevadm", "trigger", "--settle",
					     "--subsystem-match=infiniband_verbs", NULL };

	return run(reload) && run(cm) && run(verbs);
}

/* The file of rules, with TEXT. Empty: there is none. */
static bool put_rules(const char *text)
{
	if (!*text)
		return newfile_remove(NODES_OPEN_FILE);
	newfile_configure(NODES_OPEN_FOLDER, NODES_OPEN_NAME, "%s", text);
	return true;
}

/* A change that udev has not applied must not wait for the next boot. */
static void change_rules(const char *text)
{
	char before[NEWFILE_TEXT_MAX];

	newfile_read(NODES_OPEN_FOLDER, NODES_OPEN_NAME, before);
	if (put_rules(text) && apply_rules())
		return;
	if (put_rules(before))
		complain("udev has not applied the change, so it was taken back: " NODES_OPEN_FILE
			 " is as it was before");
	end(EXIT_FAILURE);
}

/* The kernel has no owner for the nodes, so udev leaves the daemon's user, and the entries of ACLs that the daemon made. */
static bool give_back(const struct node *node, void *arg)
{
	uint32_t daemon_uid = *(const uint32_t *)arg;

	if (node->uid == daemon_uid && chown(node->path, 0, 0) < 0) {
		complain("cannot give %s to root: %m", node->path);
		return false;
	}
	if (removexattr(node->path, ACL_ATTRIBUTE) < 0 && errno != ENODATA && errno != EOPNOTSUPP) {
		complain("cannot remove the ACL of %s: %m", node->path);
		return false;
	}
	return true;
}

static int open_nodes(void)
{
	uint32_t uid = find_daemon_uid();
	bool done;

	change_rules(rules);
	done = each_node(give_back, &uid);
	if (done)
		puts("The nodes are open, and stay so after reboots: programs can use RDMA without the broker.\n"
		     "\"rdmabrokerctl nodes status\" shows who does, \"rdmabrokerctl nodes close\" ends it.");
	return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool is_closed(const struct node *node, void *arg)
{
	if (node->uid == *(const uint32_t *)arg && !(node->mode & EVERYBODY))
		return true;
	complain("%s has owner %u and mode %04o: is 90-rdmabroker.rules installed, and does no "
		 "later file of udev rules override it?",
		 node->path, node->uid, node->mode);
	return false;
}

/* Who was seen */

static void print_time(const void *at, FILE *file)
{
	char text[TIME_TEXT_MAX];

	fputs(time_to_text(text, (int64_t)(*(const uint64_t *)at / 1000)), file);
}

static void json_time(const void *at, struct jsonout *json, const char *key)
{
	jsonout_number(json, key, *(const uint64_t *)at);
}

static const char *get_what(const void *at, char space[ADDR_STRLEN])
{
	return *(const bool *)at ? "ids" : "verbs";
}

#define SEEN(member) .type = COLUMN_TEXT, .offset = offsetof(struct rdmabroker_sighting, member)

static const struct column sighting_columns[] = {
	{ "PROGRAM", "name", SEEN(name) },
	{ NULL, "uid", COLUMN_OF(struct rdmabroker_sighting, who.uid) },
	{ "USER", "user", SEEN(who.uid), .text = who_print_user, .json = who_json_user },
	{ "UNIT", "unit", SEEN(who.unit) },
	{ "WITH", "with", SEEN(had_ids), .get = get_what },
	{ "FIRST", "first_ms", SEEN(first_ms), .text = print_time, .json = json_time },
	{ "LAST", "last_ms", SEEN(last_ms), .text = print_time, .json = json_time },
	{ NULL },
};

/* JSON not NULL: as an array "seen" there. */
static void print_sightings(const struct rdmabroker_sightings *sightings, struct jsonout *json,
			    FILE *file)
{
	struct table table;

	table_begin(&table, sighting_columns, json, "seen");
	for (size_t i = 0; i < sightings->n; i++)
		table_add(&table, &sightings->list[i]);
	if (table.n_rows > 0 || json) {
		table_end(&table, file);
	} else {
		table_done(&table);
		fputs("none\n", file);
	}
}

static uint64_t now_ms(void)
{
	return (uint64_t)time(NULL) * 1000;
}

/* Whom the broker has seen since SINCE_MS. NULL: it does not say, and errno is set. */
static struct rdmabroker_sightings *get_sightings(struct ctl *ctl, uint64_t since_ms)
{
	struct rdmabroker_sightings *sightings;
	int r = ctl->session ? 0 : ctl_connect(ctl, /* as_admin= */ true);

	if (r >= 0)
		r = rdmabroker_get_sightings(ctl->session, &sightings);
	if (r < 0) {
		errno = -r;
		return NULL;
	}
	sightings_select(sightings, since_ms);
	return sightings;
}

/*
 * Whether programs can break if the nodes are closed: why, in RET. RET_LATELY: who was seen within the last day, to be freed;
 * NULL: not known.
 */
static bool find_doubt(struct ctl *ctl, struct rdmabroker_sightings **ret_lately,
		       char ret[DOUBT_MAX])
{
	*ret_lately = get_sightings(ctl, now_ms() - DAY_MS);
	if (*ret_lately)
		return sightings_doubt(*ret_lately, now_ms(), ret);
	snprintf(ret, DOUBT_MAX, "the broker does not say who uses RDMA without it: %m");
	return true;
}

/* Ends the program if closing the nodes can break programs, unless the admin knows. */
static void ask_about_programs(struct ctl *ctl)
{
	struct rdmabroker_sightings *sightings;
	char doubt[DOUBT_MAX];

	if (yes || access(NODES_OPEN_FILE, F_OK) < 0 || !find_doubt(ctl, &sightings, doubt))
		return;
	if (sightings && sightings->n > 0)
		print_sightings(sightings, NULL, stderr);
	die(EXIT_FAILURE,
	    "the nodes stay open: %s. \"rdmabrokerctl nodes close --yes\" closes them all the same",
	    doubt);
}

static int close_nodes(struct ctl *ctl)
{
	uint32_t uid = find_daemon_uid();
	bool done;

	ask_about_programs(ctl);
	change_rules("");
	done = each_node(is_closed, &uid);
	if (done)
		puts("The nodes are the broker's. A program that has opened one keeps it open until the program ends;\n"
		     "\"rdmabrokerctl nodes status\" shows who uses RDMA without the broker.");
	return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Status */

struct row {
	const char *name;
	struct holder of;
};

static const struct column holder_columns[] = {
	{ "PROGRAM", "name", COLUMN_OF(struct row, name) },
	{ "PID", "pid", COLUMN_OF(struct row, of.who.pid), .flags = COLUMN_NO_ZERO },
	{ NULL, "uid", COLUMN_OF(struct row, of.who.uid), .flags = COLUMN_NO_MAX },
	{ "USER", "user", COLUMN_TEXT, offsetof(struct row, of.who.uid), .text = who_print_user,
	  .json = who_json_user },
	{ "UNIT", "unit", COLUMN_OF(struct row, of.who.unit) },
	{ "IDS", "ids", COLUMN_OF(struct row, of.n_ids) },
	{ "QPS", "qps", COLUMN_OF(struct row, of.n_qps) },
	{ NULL },
};

static const char *get_mode(const void *at, char text[ADDR_STRLEN])
{
	sprintf(text, "%04o", *(const unsigned *)at);
	return text;
}

static void print_owner(const void *at, FILE *file)
{
	const uint32_t uid = *(const uint32_t *)at;

	who_print_user(&(struct rdmabroker_who){ .uid = uid, .charged_uid = uid }, file);
}

static const struct column node_columns[] = {
	{ "NODE", "node", COLUMN_OF(struct node, path) },
	{ NULL, "uid", COLUMN_OF(struct node, uid) },
	{ "OWNER", "owner", COLUMN_TEXT, offsetof(struct node, uid), .text = print_owner,
	  .json = who_json_user },
	{ "MODE", "mode", COLUMN_TEXT, offsetof(struct node, mode), .get = get_mode },
	{ NULL },
};

static bool has_session(const struct rdmabroker_list *list, pid_t pid)
{
	for (size_t i = 0; list && i < list->n_sessions; i++)
		if (list->sessions[i].who.pid == pid)
			return true;
	return false;
}

/* A client of the broker has QPs of its own, but no ids. */
static bool is_apart(const struct rdmabroker_list *list, const struct holder *holder)
{
	return holder->n_ids > 0 || !has_session(list, holder->who.pid);
}

static bool add_node(const struct node *node, void *table)
{
	table_add(table, node);
	return true;
}

static void add_holders(struct table *table, const struct holding *holding,
			const struct rdmabroker_list *list)
{
	for (size_t i = 0; i < holding->n_holders; i++) {
		const struct holder *holder = &holding->holders[i];

		if (!holder->is_daemon && is_apart(list, holder))
			table_add(table, &(struct row){ holder->name, *holder });
	}
}

/* What is printed. */
struct shown {
	const struct holding *holding;
	const struct rdmabroker_list *list; /* NULL: the broker does not say who its clients are */
	const struct rdmabroker_sightings *sightings; /* NULL: not asked for, or not known */
	bool is_open;
	const char *doubt; /* see sightings_doubt(); NULL: there is none, or the nodes are closed */
};

static void print_sampling(const struct rdmabroker_sightings *sightings)
{
	char first[TIME_TEXT_MAX], last[TIME_TEXT_MAX];

	printf("\nPrograms seen without the broker since %s, in samples every ten seconds", since);
	if (sightings->sampled_ms > 0)
		printf(" (%s to %s)", time_to_text(first, (int64_t)(sightings->since_ms / 1000)),
		       time_to_text(last, (int64_t)(sightings->sampled_ms / 1000)));
	else
		printf(" (none was taken yet)");
	puts(":");
	print_sightings(sightings, NULL, stdout);
}

static void print_text(const struct shown *shown)
{
	struct table table;

	printf("nodes: %s\n\n", shown->is_open ? "open (" NODES_OPEN_FILE ")" : "the broker's");
	table_begin(&table, node_columns, NULL, NULL);
	each_node(add_node, &table);
	table_end(&table, stdout);
	if (!shown->list)
		puts("\nThe broker does not say which programs are its clients, so all are listed that use RDMA:");
	else
		puts("\nPrograms and modules of the kernel that use RDMA without the broker:");
	table_begin(&table, holder_columns, NULL, NULL);
	add_holders(&table, shown->holding, shown->list);
	if (table.n_rows > 0) {
		table_end(&table, stdout);
	} else {
		table_done(&table);
		puts("none");
	}
	if (shown->holding->n_nameless > 0)
		printf("\n%u ids and QPs are of threads that have ended; the kernel does not say of which program.\n",
		       shown->holding->n_nameless);
	if (since && shown->sightings)
		print_sampling(shown->sightings);
	if (shown->is_open)
		printf("\n\"rdmabrokerctl nodes close\" %s%s.\n",
		       shown->doubt ? "asks for --yes: " :
				      "is safe: for a day, no program was seen without the broker",
		       shown->doubt ?: "");
}

static void print_as_json(const struct shown *shown)
{
	struct jsonout json;
	struct table table;

	json_begin(&json);
	jsonout_bool(&json, "open", shown->is_open);
	table_begin(&table, node_columns, &json, "nodes");
	each_node(add_node, &table);
	table_end(&table, stdout);
	table_begin(&table, holder_columns, &json, "without_broker");
	add_holders(&table, shown->holding, shown->list);
	table_end(&table, stdout);
	jsonout_bool(&json, "knows_clients", shown->list);
	jsonout_number(&json, "nameless", shown->holding->n_nameless);
	if (since && shown->sightings) {
		jsonout_number(&json, "sampled_since_ms", shown->sightings->since_ms);
		jsonout_number(&json, "sampled_ms", shown->sightings->sampled_ms);
		print_sightings(shown->sightings, &json, stdout);
	}
	if (shown->is_open)
		jsonout_string(&json, "doubt", shown->doubt);
	json_end(&json);
}

static int print_status(struct ctl *ctl)
{
	struct shown shown = { .is_open = access(NODES_OPEN_FILE, F_OK) == 0 };
	struct rdmabroker_list *list = NULL;
	struct rdmabroker_sightings *sightings = NULL, *lately = NULL;
	struct holding holding;
	uint64_t since_ms = 0;
	char doubt[DOUBT_MAX];
	const char *failed;

	read_since(since, &since_ms);
	failed = holding_read(&holding, 0, 0);
	if (failed && errno != EPROTONOSUPPORT)
		die(EXIT_FAILURE, "cannot %s: %m", failed);
	if (ctl_connect(ctl, /* as_admin= */ true) == 0 &&
	    rdmabroker_get_list(ctl->session, 0, &list) < 0)
		list = NULL;
	if (since && !(sightings = get_sightings(ctl, since_ms)))
		die(EXIT_FAILURE, "the broker does not say who uses RDMA without it: %m");
	if (shown.is_open && find_doubt(ctl, &lately, doubt))
		shown.doubt = doubt;
	shown.holding = &holding;
	shown.list = list;
	shown.sightings = sightings;
	(ctl->json ? print_as_json : print_text)(&shown);
	rdmabroker_free(lately);
	rdmabroker_free(sightings);
	rdmabroker_free(list);
	holding_done(&holding);
	return EXIT_SUCCESS;
}

int verb_nodes(struct ctl *ctl)
{
	int action = read_action(ctl);

	if (geteuid() != 0)
		die(EXIT_FAILURE, "nodes has to be used by root");
	if (since && action != STATUS)
		die(EXIT_USAGE, "only status has --since");
	if (yes && action != CLOSE)
		die(EXIT_USAGE, "only close has --yes");
	return action == OPEN  ? open_nodes() :
	       action == CLOSE ? close_nodes(ctl) :
				 print_status(ctl);
}
