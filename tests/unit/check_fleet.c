/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/rdmabroker-admin.h"
#include "fleet/sha256.h"
#include "fleet/version.h"
#include "tests/unit/fleetagent.h"
#include "tests/unit/httpliar.h"

/* rdmabroker-fleet: its settings, versions and the roll-out, with etcd as it is, away, and lying. */

START_TEST(checksums)
{
	static const unsigned lengths[] = {
		0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 100000
	};
	char *data = malloc(100001), line[128], hex[65];
	uint8_t sum[SHA256_SIZE];
	char file[] = "/tmp/rdmabroker-sum-XXXXXX", command[64];
	int fd = mkstemp(file);

	for (int i = 0; i <= 100000; i++)
		data[i] = (char)(i * 7);
	snprintf(command, sizeof(command), "sha256sum %s", file);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		FILE *pipe;

		ck_assert_int_eq(ftruncate(fd, 0), 0);
		ck_assert_int_eq(pwrite(fd, data, lengths[i], 0), (ssize_t)lengths[i]);
		sha256(data, lengths[i], sum);
		for (size_t j = 0; j < SHA256_SIZE; j++)
			snprintf(hex + 2 * j, 3, "%02x", sum[j]);
		pipe = popen(command, "r");
		ck_assert_ptr_nonnull(fgets(line, sizeof(line), pipe));
		pclose(pipe);
		ck_assert_msg(strncmp(line, hex, 64) == 0, "%u bytes: %s, not %s", lengths[i], hex,
			      line);
	}
	close(fd);
	unlink(file);
	free(data);
}
END_TEST

#define SUM "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define FILE_OF(name, size, sum) "{\"name\":\"" name "\",\"size\":" size ",\"sha256\":\"" sum "\"}"

START_TEST(manifests)
{
	static const struct {
		const char *text, *reason;
	} bad[] = {
		{ "", "not JSON" },
		{ "{\"files\":[]}x", "not JSON" },
		{ "[]", "no \"files\"" },
		{ "{\"files\":{}}", "no \"files\"" },
		{ "{\"files\":[]}", "no \"files\"" },
		{ "{\"files\":[7]}", "not NAME.rules" },
		{ "{\"files\":[" FILE_OF("../a.rules", "3", SUM) "]}", "not NAME.rules" },
		{ "{\"files\":[" FILE_OF(".a.rules", "3", SUM) "]}", "not NAME.rules" },
		{ "{\"files\":[" FILE_OF("a.rules\\u0000", "3", SUM) "]}", "not" },
		{ "{\"files\":[" FILE_OF("a.sh", "3", SUM) "]}", "not NAME.rules" },
		{ "{\"files\":[" FILE_OF(".rules", "3", SUM) "]}", "not NAME.rules" },
		{ "{\"files\":[" FILE_OF("a.rules", "-1", SUM) "]}", "no valid size" },
		{ "{\"files\":[" FILE_OF("a.rules", "\"3\"", SUM) "]}", "no valid size" },
		{ "{\"files\":[" FILE_OF("a.rules", "4194305", SUM) "]}", "no valid size" },
		{ "{\"files\":[" FILE_OF("a.rules", "4194304", SUM) "," FILE_OF("b.rules", "1",
										SUM) "]}",
		  "b.rules has no valid size" },
		{ "{\"files\":[" FILE_OF("a.rules", "3", "ba78") "]}", "no valid sha256" },
		{ "{\"files\":[" FILE_OF("a.rules", "3", SUM) "," FILE_OF("a.rules", "3", SUM) "]}",
		  "listed twice" },
	};
	char reason[VERSION_REASON_MAX], *many, *end;
	struct manifest *manifest = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(manifest_parse(bad[i].text, strlen(bad[i].text), &manifest, reason) ==
				      -EBADMSG,
			      "%s", bad[i].text);
		assert_has(i == 8 ? "not" : reason, bad[i].reason);
	}
	end = many = malloc(257 * 128);
	end += sprintf(end, "{\"files\":[");
	for (int i = 0; i < 257; i++)
		end += sprintf(end, "%s{\"name\":\"%d.rules\",\"size\":3,\"sha256\":\"" SUM "\"}",
			       i == 0 ? "" : ",", i);
	strcpy(end, "]}");
	ck_assert_int_eq(manifest_parse(many, strlen(many), &manifest, reason), -EBADMSG);
	free(many);
	static const char good[] = "{\"x\":1,\"files\":[" FILE_OF("a.rules", "3", SUM) "]}";
	ck_assert_int_eq(manifest_parse(good, strlen(good), &manifest, reason), 0);
	ck_assert_uint_eq(manifest->n, 1);
	ck_assert(manifest_verify(&manifest->files[0], "abc", 3, reason));
	ck_assert(!manifest_verify(&manifest->files[0], "abd", 3, reason));
	ck_assert(!manifest_verify(&manifest->files[0], "ab", 2, reason));
	free(manifest);
}
END_TEST

static int run_agent(const char *arguments)
{
	char command[1024];
	int status;

	snprintf(command, sizeof(command), "%s/rdmabroker-fleet %s >%s 2>&1", build, arguments,
		 path("out"));
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void refused(const char *text, const char *words)
{
	char arguments[512];

	write_text(path("fleet.conf"), text);
	snprintf(arguments, sizeof(arguments), "--config %s", path("fleet.conf"));
	ck_assert_msg(run_agent(arguments) == 78, "%s", text);
	assert_has(read_text(path("out")), words);
}

#define ENDPOINTS "[Fleet]\nEndpoints=http://127.0.0.1:1\n"

START_TEST(options_and_settings)
{
	if (!begin_without_etcd())
		return;
	ck_assert_int_eq(run_agent("--help"), 0);
	assert_has(read_text(path("out")), "rdmabroker-fleet [OPTION ...]\n");
	ck_assert_int_eq(run_agent("--version"), 0);
	ck_assert_int_eq(run_agent("--no-such"), 2);
	ck_assert_int_eq(run_agent("extra"), 2);
	ck_assert_int_eq(run_agent("--socket relative"), 2);
	ck_assert_int_eq(run_agent("--config /no/such"), 78);
	refused("[Fleet]\n", "Endpoints= has to be set");
	refused("[Fleet]\nEndpoints=127.0.0.1:1\n", "Endpoints= is not valid");
	refused("[Other]\nLabels=a\n",
		"fleet.conf:1:2: unknown section [Other], did you mean 'Fleet'?");
	refused(ENDPOINTS "Label=a\n",
		"fleet.conf:3:1: unknown key 'Label' in section [Fleet], did you mean 'Labels'?");
	refused(ENDPOINTS "Prefix=a/\n", "fleet.conf:3:8: Prefix= takes");
	refused(ENDPOINTS "Prefix=/a b\n", "fleet.conf:3:10: Prefix= takes");
	refused(ENDPOINTS "Host=a/b\n", "fleet.conf:3:7: Host= takes");
	refused(ENDPOINTS "Host=\n", "fleet.conf:3:6: Host= takes");
	refused(ENDPOINTS "Labels=a,b/c\n", "fleet.conf:3:10: Labels= takes at most 16 labels");
	refused(ENDPOINTS "TTLSec=4\n", "fleet.conf:3:8: TTLSec= takes a number from 5 to 3600");
	refused(ENDPOINTS "TTLSec=30s\n", "fleet.conf:3:8: TTLSec= takes");
	refused(ENDPOINTS "CA=ca.pem\n",
		"fleet.conf:3:4: CA= takes an absolute path of at most 255 bytes");
	refused(ENDPOINTS "Key=/k\n", "Certificate= and Key= belong together");
	refused(ENDPOINTS "User=u\n", "User= and PasswordFile= belong together");
	refused(ENDPOINTS "User=u\nPasswordFile=/no/such\n",
		"Cannot read a password from /no/such");
	refused(ENDPOINTS "User=u\nPasswordFile=/dev/null\n", "its first line is empty");
}
END_TEST

START_TEST(takes_a_version)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rdmabroker *session;
	struct rdmabroker_reload_result *result;

	if (!begin())
		return;
	start_broker();
	start_agent();
	await_state("host", "node7");
	ck_assert_str_eq(get("wanted"), "");
	ck_assert_str_eq(get("in_force"), "");
	publish("v1", "allow listen user 1000 port 7471\n");
	roll_out("all", "v1");
	await_state("staged", "v1");
	assert_wanted("v1");
	ck_assert_str_eq(read_text(path("state/staged/v1/10-site.rules")),
			 "allow listen user 1000 port 7471\n");
	ck_assert_str_eq(get("in_force"), "");
	ck_assert_msg(install() == 0, "%s", read_text(path("results/result")));
	await_state("install.version", "v1");
	ck_assert_str_eq(get("install.installed"), "true");
	ck_assert_str_eq(get("in_force"), "v1");
	await_state("daemon.rules", "3");
	ck_assert_str_eq(get("daemon.answers"), "true");
	ck_assert_str_eq(get("error"), "");

	/* What the host refuses. */
	publish("v2", "allow listen\nallow lisen\n");
	roll_out("all", "v2\n");
	await_state("staged", "v2");
	ck_assert_int_eq(install(), 1);
	await_state("install.version", "v2");
	ck_assert_str_eq(get("install.installed"), "false");
	assert_has(get("install.text"), "10-site.rules:2:7: unknown operation 'lisen'");
	ck_assert_str_eq(get("in_force"), "v1");
	assert_logged(1, "Version v2 was refused: ");

	/* The roll-back takes what is here already. */
	roll_out("all", "v1");
	await_state("staged", "v1");
	assert_wanted("v1");
	ck_assert_int_eq(install(), 0);
	await_state("install.version", "v1");
	/* The rules are in force: a client with uid 0 has none for this port. */
	options.socket = path("socket");
	ck_assert_int_eq(rdmabroker_open(&options, &session), 0);
	ck_assert_int_eq(rdmabroker_reload(session, &result), 0);
	ck_assert_uint_eq(result->n_rules, 3);
	rdmabroker_free_reload_result(result);
	rdmabroker_close(session);
	stop_agent();
	await_no_state();
	stop_broker();
}
END_TEST

START_TEST(labels)
{
	struct timespec begun, now;

	if (!begin())
		return;
	configure(etcd_service.endpoint, "Labels=canary, rack7\n");
	for (int i = 1; i <= 4; i++) {
		char name[16];

		snprintf(name, sizeof(name), "v%d", i);
		publish(name, "allow listen\n");
	}
	roll_out("all", "v1");
	roll_out("rack7", "v2");
	roll_out("other", "v4");
	start_agent();
	await_state("staged", "v2");
	clock_gettime(CLOCK_MONOTONIC, &begun);
	roll_out("canary", "v3");
	await_state("staged", "v3");
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("from a change of the roll-out to the version on the host, and its state in etcd: %ld ms\n",
	       (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000);
	roll_out("rack7", "v4");
	roll_out("canary", NULL);
	await_state("staged", "v4");
	roll_out("rack7", NULL);
	await_state("staged", "v1");
	/* Without a key, and with one that is not a name, the host keeps what it has. */
	roll_out("all", NULL);
	await_state("wanted", "");
	assert_wanted("v1");
	roll_out("canary", "v2");
	await_state("staged", "v2");
	/* Only now, so that the agent sees it once. */
	roll_out("all", "../v2");
	roll_out("canary", NULL);
	await_state("wanted", "");
	assert_wanted("v2");
	assert_logged(1, "rollout/ has no key for this host");
	assert_logged(1, "rollout/all does not have the name of a version");
	stop_agent();
}
END_TEST

static void assert_not_taken(const char *error)
{
	await_state("error", error);
	ck_assert_str_eq(get("staged"), "good");
	assert_wanted("good");
	ck_assert_int_eq(access(path("state/staged/good/10-site.rules"), F_OK), 0);
	ck_assert_int_eq(access(path("state/staged/%s", get("wanted")), F_OK), -1);
	ck_assert_int_eq(access(path("state/staged/.new"), F_OK), -1);
}

START_TEST(versions_that_are_not_right)
{
	static char huge[200 * 1024];
	json_t *file;

	if (!begin())
		return;
	publish("good", "allow listen\n");
	roll_out("all", "good");
	start_agent();
	await_state("staged", "good");

	/* It is incomplete, and then it is not. */
	file = put_file("late", "10-site.rules", "allow listen\n");
	roll_out("all", "late");
	await_state("wanted", "late");
	assert_not_taken("there is no /rdmabroker/versions/late");
	put_manifest("late", file);
	await_state("staged", "late");
	roll_out("all", "good");
	await_state("staged", "good");

	file = put_file("sum", "10-site.rules", "allow listen\n");
	put_manifest("sum", file);
	put_text(etcd, "/rdmabroker/versions/sum/10-site.rules", "allow listeN\n");
	roll_out("all", "sum");
	assert_not_taken("10-site.rules does not have the sha256");
	put_text(etcd, "/rdmabroker/versions/sum/10-site.rules", "allow\n");
	put_manifest("size", put_file("size", "10-site.rules", "allow listen\n"));
	put_text(etcd, "/rdmabroker/versions/size/10-site.rules", "allow\n");
	roll_out("all", "size");
	assert_not_taken("10-site.rules has 6 bytes, but 13 in the manifest");
	put_manifest("file", put_file("file", "10-site.rules", "allow listen\n"));
	must(etcd, etcd_delete(etcd, "/rdmabroker/versions/file/", true, NULL));
	roll_out("all", "file");
	assert_not_taken("there is no /rdmabroker/versions/file/10-site.rules");
	put_text(etcd, "/rdmabroker/versions/json", "{");
	roll_out("all", "json");
	assert_not_taken("the manifest is not JSON");
	memset(huge, ' ', sizeof(huge) - 1);
	put_text(etcd, "/rdmabroker/versions/huge", huge);
	roll_out("all", "huge");
	assert_not_taken("/rdmabroker/versions/huge is too large");

	/* A version that changes. */
	roll_out("all", "good");
	await_state("error", "");
	publish("good", "allow connect\n");
	await_state("error", path("state/staged/good has other files"));
	assert_wanted("good");
	ck_assert_str_eq(read_text(path("state/staged/good/10-site.rules")), "allow listen\n");
	/* A change back. */
	publish("good", "allow listen\n");
	await_state("error", "");
	assert_logged(1, "Cannot take version sum: ");
	assert_logged(1, "Cannot take version late: ");
	stop_agent();
}
END_TEST

/* Only the newest are kept, and the wanted one. */
START_TEST(old_versions)
{
	char name[16];

	if (!begin())
		return;
	start_agent();
	for (int i = 1; i <= 10; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		publish(name, "allow listen\n");
		roll_out("all", name);
		await_state("staged", name);
	}
	ck_assert_int_eq(access(path("state/staged/v2"), F_OK), -1);
	ck_assert_int_eq(access(path("state/staged/v3"), F_OK), 0);
	/* What was forgotten comes from etcd again. */
	roll_out("all", "v1");
	await_state("staged", "v1");
	ck_assert_int_eq(access(path("state/staged/v1/10-site.rules"), F_OK), 0);
	stop_agent();
}
END_TEST

START_TEST(etcd_is_away)
{
	if (!begin())
		return;
	publish("v1", "allow listen\n");
	publish("v2", "allow listen\n");
	roll_out("all", "v1");
	start_agent();
	await_state("staged", "v1");
	for (int i = 0; i < 2; i++) {
		kill_etcd();
		start_etcd();
		roll_out("all", i == 0 ? "v2" : "v1");
		await_state("staged", i == 0 ? "v2" : "v1");
	}
	/* The agent comes when etcd is away, and when it has lost everything. */
	stop_agent();
	kill_etcd();
	start_agent();
	start_etcd();
	roll_out("all", "v2");
	await_state("staged", "v2");
	ck_assert_int_eq(waitpid(agent, NULL, WNOHANG), 0);
	stop_agent();
}
END_TEST

START_TEST(etcd_has_lost_everything)
{
	const struct etcd_interval interval = { "/rdmabroker/hosts/", true };
	char command[256];

	if (!begin())
		return;
	publish("v1", "allow listen\n");
	roll_out("all", "v1");
	start_agent();
	await_state("staged", "v1");
	kill_etcd();
	snprintf(command, sizeof(command), "rm -r %s", path("data"));
	ck_assert_int_eq(system(command), 0);
	start_etcd();
	hosts = etcd_watch_free(hosts);
	must(etcd, etcd_watch_new(&hosts, etcd, &interval, 1, 1));
	/* The lease is gone, too, and the agent gets another one. */
	await_state("wanted", "");
	assert_wanted("v1");
	ck_assert_int_eq(access(path("state/staged/v1/10-site.rules"), F_OK), 0);
	publish("v2", "allow listen\n");
	roll_out("all", "v2");
	await_state("staged", "v2");
	stop_agent();
}
END_TEST

static void etcd_by_tls(const char *call, const char *body)
{
	char command[1024];

	snprintf(
		command, sizeof(command),
		"cd %s && curl -sf -o /dev/null --cacert ca.pem --cert client.pem --key client.key "
		"%s/v3/%s -d '%s'",
		etcd_service.dir, etcd_service.endpoint, call, body);
	ck_assert_msg(system(command) == 0, "%s", command);
}

START_TEST(tls_and_a_password)
{
	char more[1024];

	if (!begin_without_etcd() || !make_certificates())
		return;
	etcd_service.has_tls = true;
	start_etcd();
	etcd_by_tls("auth/user/add", "{\"name\":\"root\",\"password\":\"r\"}");
	etcd_by_tls("auth/role/add", "{\"name\":\"root\"}");
	etcd_by_tls("auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
	/* rollout/all is "v1", which is not there. */
	etcd_by_tls("kv/put", "{\"key\":\"L3JkbWFicm9rZXIvcm9sbG91dC9hbGw=\",\"value\":\"djE=\"}");
	etcd_by_tls("auth/enable", "{}");
	snprintf(more, sizeof(more),
		 "CA=%s/ca.pem\nCertificate=%s/client.pem\nKey=%s/client.key\nUser=root\n"
		 "PasswordFile=%s/password\n",
		 etcd_service.dir, etcd_service.dir, etcd_service.dir, etcd_service.dir);
	write_text(path("password"), "wrong\n");
	configure(etcd_service.endpoint, more);
	start_agent();
	await_log("authentication failed");
	/* The file is read again when the password is refused. */
	write_text(path("password"), "r\n");
	await_log("there is no /rdmabroker/versions/v1");
	stop_agent();
	assert_logged(1, "Cannot use etcd: ");
}
END_TEST

static void await_requests(const struct httpliar *liar, unsigned n)
{
	AWAIT(__atomic_load_n(&liar->n_requests, __ATOMIC_SEQ_CST) >= n, "%u requests", n);
}

#define HEADER "\"header\":{\"revision\":\"7\"}"

/* etcd that lies, and one that is full. */
START_TEST(a_lying_etcd)
{
	static const struct lie nonsense[] = {
		{ .path = "/v3", .status = 200, .body = "nonsense" }
	};
	static const struct lie full[] = {
		{ .path = "/v3/lease/grant", .status = 200, .body = "{" HEADER ",\"ID\":\"9\"}" },
		{ .path = "/v3/lease/keepalive",
		  .status = 200,
		  .body = "{\"result\":{" HEADER ",\"ID\":\"9\",\"TTL\":\"5\"}}" },
		{ .path = "/v3/kv/put",
		  .status = 500,
		  .body = "{\"error\":\"etcdserver: mvcc: database space exceeded\"}" },
		/* rollout/all has a value that is not base64. */
		{ .path = "/v3/kv/range",
		  .status = 200,
		  .body = "{" HEADER ",\"kvs\":[{\"key\":\"L3JkbWFicm9rZXIvcm9sbG91dC9hbGw=\","
			  "\"mod_revision\":\"3\",\"value\":\"@@@@\"}]}" },
	};
	struct httpliar liar;

	if (!begin_without_etcd())
		return;
	httpliar_start(&liar, nonsense, 1);
	configure(liar.endpoint, "");
	start_agent();
	await_log("the answer is not JSON");
	await_requests(&liar, 12);
	assert_logged(1, "Cannot use etcd: ");
	stop_agent();
	httpliar_stop(&liar);
	unlink(path("agent.log"));

	httpliar_start(&liar, full, 4);
	configure(liar.endpoint, "");
	start_agent();
	await_log("database space exceeded");
	await_log("/rdmabroker/rollout/ is not valid");
	await_requests(&liar, 16);
	assert_logged(1, "database space exceeded");
	assert_logged(1, "is not valid");
	ck_assert_int_eq(access(path("state/wanted"), F_OK), -1);
	ck_assert_int_eq(access(path("state/staged"), F_OK), -1);
	stop_agent();
	httpliar_stop(&liar);
}
END_TEST

UNIT_MAIN("fleet", set_up_fleet, tear_down_fleet, checksums, manifests, options_and_settings,
	  takes_a_version, labels, versions_that_are_not_right, old_versions, etcd_is_away,
	  etcd_has_lost_everything, tls_and_a_password, a_lying_etcd)
