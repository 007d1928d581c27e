/* SPDX-License-Identifier: BSD-2-Clause */

/* The specifications for containers, as Python reads their JSON, and what the verb cdi refuses. */

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/cdispec.h"
#include "tests/unit/program.h"
#include "tests/unit/tree.h"

static const struct cdispec_device devices[] = {
	{ "mlx5_0", "/dev/infiniband/uverbs0" },
	{ "rxe0", "/dev/infiniband/uverbs1" },
};

static FILE *begin(void)
{
	return fmemopen(got.out, sizeof(got.out), "w");
}

static void end(FILE *file)
{
	ck_assert_int_eq(fclose(file), 0);
	got.err[0] = 0;
}

START_TEST(devices_are_described)
{
	FILE *file = begin();

	cdispec_print_rdma(file, devices, 2, "/run/elsewhere/b.sock");
	end(file);
	assert_json("d[\"cdiVersion\"] == \"0.5.0\" and d[\"kind\"] == \"rdmabroker/rdma\"");
	assert_json("[x[\"name\"] for x in d[\"devices\"]] == [\"mlx5_0\", \"rxe0\", \"all\"]");
	assert_json("d[\"devices\"][1][\"containerEdits\"] == {\"deviceNodes\": [{\"path\": "
		    "\"/dev/infiniband/uverbs1\", \"permissions\": \"rw\", \"fileMode\": 438}]}");
	assert_json("len(d[\"devices\"][2][\"containerEdits\"][\"deviceNodes\"]) == 2");
	/* The folder of the socket is at the same place in every container. */
	assert_json("d[\"containerEdits\"][\"env\"] == "
		    "[\"RDMABROKER_SOCKET=/run/rdmabroker/b.sock\"]");
	assert_json("d[\"containerEdits\"][\"mounts\"] == [{\"hostPath\": \"/run/elsewhere\", "
		    "\"containerPath\": \"/run/rdmabroker\", "
		    "\"options\": [\"ro\", \"nosuid\", \"nodev\", \"rbind\", \"noexec\"]}]");
}
END_TEST

/* For containers that get the socket of a restricted session. */
START_TEST(nodes_are_described)
{
	FILE *file = begin();

	cdispec_print_rdma(file, devices, 2, NULL);
	end(file);
	assert_json("d[\"kind\"] == \"rdmabroker/node\" and \"containerEdits\" not in d");
	assert_json("[x[\"name\"] for x in d[\"devices\"]] == [\"mlx5_0\", \"rxe0\", \"all\"]");
	assert_json("d[\"devices\"][1][\"containerEdits\"][\"deviceNodes\"][0][\"path\"] == "
		    "\"/dev/infiniband/uverbs1\"");
}
END_TEST

START_TEST(the_dropin_is_described)
{
	static const struct cdispec_library libraries[] = { { "a.so.1", "/usr/lib/a.so.1.2" },
							    { "b.so", "/opt/b.so" } };
	FILE *file = begin();

	cdispec_print_dropin(file, libraries, 2);
	end(file);
	assert_json("d[\"kind\"] == \"rdmabroker/dropin\" and len(d[\"devices\"]) == 1");
	assert_json("d[\"devices\"][0][\"name\"] == \"all\"");
	assert_json("d[\"devices\"][0][\"containerEdits\"][\"env\"] == "
		    "[\"LD_PRELOAD=/usr/lib/rdmabroker/a.so.1:/usr/lib/rdmabroker/b.so\", "
		    "\"RDMABROKER_DEVICES=all\"]");
	assert_json("[(m[\"hostPath\"], m[\"containerPath\"]) for m in "
		    "d[\"devices\"][0][\"containerEdits\"][\"mounts\"]] == "
		    "[(\"/usr/lib/a.so.1.2\", \"/usr/lib/rdmabroker/a.so.1\"), "
		    "(\"/opt/b.so\", \"/usr/lib/rdmabroker/b.so\")]");
	assert_json("\"noexec\" not in "
		    "d[\"devices\"][0][\"containerEdits\"][\"mounts\"][0][\"options\"]");
}
END_TEST

START_TEST(names_that_cdi_does_not_allow)
{
	ck_assert(cdispec_is_name("mlx5_0"));
	ck_assert(cdispec_is_name("a"));
	ck_assert(cdispec_is_name("rocep1s0f0.1:2-3"));
	ck_assert(!cdispec_is_name(""));
	ck_assert(!cdispec_is_name("all"));
	ck_assert(!cdispec_is_name("_a"));
	ck_assert(!cdispec_is_name("a-"));
	ck_assert(!cdispec_is_name("a b"));
	ck_assert(!cdispec_is_name("a/b"));
	ck_assert(!cdispec_is_name("\xc3\xa4x"));
}
END_TEST

/* A container would see what is beside the socket. */
START_TEST(a_folder_with_other_files_is_refused)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/other", harness.dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(ctl("cdi"), 1);
	assert_has(got.err, "beside the socket, it has \"other\"");
	rmdir(path);
	ck_assert_int_eq(
		run((const char *const[]){ program, "--socket", "relative.sock", "cdi", NULL }), 1);
	assert_has(got.err, "the path must be absolute");
	snprintf(path, sizeof(path), "%s/none/x.sock", harness.dir);
	ck_assert_int_eq(run((const char *const[]){ program, "--socket", path, "cdi", NULL }), 1);
	assert_has(got.err, "cannot open the folder of the socket");
	/* A folder of its own. This host may have devices, or none. */
	snprintf(path, sizeof(path), "%s/own", harness.dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	strcat(path, "/x.sock");
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fclose(file);
	run((const char *const[]){ program, "--socket", path, "cdi", NULL });
	if (got.status == 0)
		assert_json("d[\"kind\"] == \"rdmabroker/rdma\"");
	else
		assert_has(got.err, "this host has no RDMA device now");
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
}
END_TEST

/* Who owns the directory does not choose another file that root overwrites. */
START_TEST(links_are_not_followed)
{
	char own[128], socket[160], dir[128], path[200], kept[160];
	struct stat st;
	FILE *file;

	snprintf(own, sizeof(own), "%s/own", harness.dir);
	snprintf(socket, sizeof(socket), "%s/x.sock", own);
	snprintf(dir, sizeof(dir), "%s/specs", harness.dir);
	snprintf(kept, sizeof(kept), "%s/kept", harness.dir);
	ck_assert_int_eq(mkdir(own, 0700), 0);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	file = fopen(socket, "w");
	ck_assert_ptr_nonnull(file);
	fclose(file);
	file = fopen(kept, "w");
	ck_assert_ptr_nonnull(file);
	fclose(file);
	/* The name that was used once, and that of the file itself. */
	snprintf(path, sizeof(path), "%s/.rdmabroker-dropin.json.new", dir);
	ck_assert_int_eq(symlink(kept, path), 0);
	snprintf(path, sizeof(path), "%s/rdmabroker-dropin.json", dir);
	ck_assert_int_eq(symlink(kept, path), 0);
	ck_assert_int_eq(run((const char *const[]){ program, "--socket", socket, "cdi",
						    "--directory", dir, NULL }),
			 0);
	ck_assert_int_eq(stat(kept, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert(S_ISREG(st.st_mode));
	ck_assert_uint_eq(st.st_mode & 07777, 0644);
	remove_tree(dir);
	remove_tree(own);
	unlink(kept);
}
END_TEST

START_TEST(options_that_do_not_fit)
{
	ck_assert_int_eq(ctl("cdi", "--watch"), 2);
	assert_has(got.err, "--watch needs --directory");
	ck_assert_int_eq(ctl("cdi", "--dropin", "--directory", "/tmp"), 2);
	assert_has(got.err,
		   "--dropin, --node and --directory, which writes all files, exclude each other");
	ck_assert_int_eq(ctl("cdi", "--dropin"), 0);
	assert_json("d[\"devices\"][0][\"containerEdits\"][\"mounts\"][2][\"containerPath\"] == "
		    "\"/usr/lib/rdmabroker/librdmabroker-rdmacm.so\"");
}
END_TEST

UNIT_MAIN("cdi", set_up_ctl, tear_down, devices_are_described, nodes_are_described,
	  the_dropin_is_described, names_that_cdi_does_not_allow,
	  a_folder_with_other_files_is_refused, links_are_not_followed, options_that_do_not_fit)
