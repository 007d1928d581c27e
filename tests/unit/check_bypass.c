/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/unit/program.h"

/* Programs that the drop-in does not reach, or that load librdmacm themselves. */

static char file[PATH_MAX];

/* A program without sanitizers cannot load a library with them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

/* A program that does nothing, with TEXT in its file. */
static void make_program(const char *text)
{
	char command[3 * PATH_MAX];

	snprintf(file, sizeof(file), "%s/program", harness.dir);
	snprintf(command, sizeof(command), "cp /bin/true %s && printf '\\0%s\\0' >> %s", file, text,
		 file);
	ck_assert_int_eq(system(command), 0);
}

START_TEST(what_a_file_names)
{
	make_program("librdmacm.so.1");
	ck_assert_int_eq(ctl("dropin", "status", file), 0);
	assert_has(got.out, "gets past the drop-in.\n");
	ck_assert_int_eq(ctl("--json", "dropin", "status", file), 0);
	assert_json("d[\"bypasses\"] == [] and d[\"not_preloaded\"] is None");

	make_program("/opt/mpi/lib/librdmacm.so.1");
	ck_assert_int_eq(ctl("--json", "dropin", "status", file), 0);
	assert_json(
		"[(b[\"way\"], b[\"copy\"]) for b in d[\"bypasses\"]] == [(\"path\", \"/opt/mpi/lib/librdmacm.so.1\")]");
	ck_assert_int_eq(ctl("dropin", "status", file), 0);
	assert_has(got.out, "It can get librdmacm itself, past the drop-in:\n");

	make_program("class/misc/rdma_cm/abi_version");
	ck_assert_int_eq(ctl("--json", "dropin", "status", file), 0);
	assert_json(
		"[(b[\"way\"], b[\"copy\"] == b[\"file\"]) for b in d[\"bypasses\"]] == [(\"static\", True)]");
	unlink(file);
}
END_TEST

START_TEST(what_the_loader_finds)
{
	char command[3 * PATH_MAX], daemon[PATH_MAX];

	snprintf(command, sizeof(command), "cp -L %s/tests/unit/librdmacm.so.1 %s/librdmacm.so.1",
		 build_dir(), harness.dir);
	ck_assert_int_eq(system(command), 0);
	snprintf(daemon, sizeof(daemon), "%s/rdmabrokerd", build_dir());
	setenv("LD_LIBRARY_PATH", harness.dir, 1);
	ck_assert_int_eq(ctl("--json", "dropin", "status", daemon), 0);
	unsetenv("LD_LIBRARY_PATH");
	snprintf(file, sizeof(file), "%s/librdmacm.so.1", harness.dir);
	assert_json("[b[\"way\"] for b in d[\"bypasses\"]] == [\"needed\"]");
	assert_has(got.out, file);
	unlink(file);
}
END_TEST

START_TEST(bad_arguments)
{
	ck_assert_int_eq(ctl("dropin", "status", "/none"), 1);
	assert_has(got.err, "cannot read /none: No such file or directory");
	ck_assert_int_eq(ctl("--json", "dropin", "status", "/none"), 1);
	assert_has(got.out, "\"bypasses\": []}\n");
	snprintf(file, sizeof(file), "%s/program", harness.dir);

	ck_assert_int_eq(symlink("/dev/null", file), 0);
	ck_assert_int_eq(ctl("dropin", "status", file), 1);
	assert_has(got.err, "is no ELF file: for a script, name its interpreter");
	unlink(file);
	ck_assert_int_eq(ctl("dropin", "enable", "ping"), 2);
	assert_has(got.err, "unexpected argument \"ping\": dropin enable takes none");
}
END_TEST

/* ld.so compares files: the name without a version is another one of the library that was preloaded. */
START_TEST(run_reaches_a_program_that_loads_librdmacm)
{
	if (is_sanitized)
		return;
	ck_assert_int_eq(
		ctl("run", "--", "python3", "-IS", "-c",
		    "import ctypes\nfor name in \"librdmacm.so\", \"librdmacm.so.1\": ctypes.CDLL(name)\n"
		    "print(\" \".join({l.split()[-1] for l in open(\"/proc/self/maps\") if \"rdmacm\" in l}))"),
		0);
	assert_has(got.out, "/librdmabroker-rdmacm.so\n");
	assert_lacks(got.out, "/librdmacm.so");
}
END_TEST

START_TEST(run_says_what_it_does_not_reach)
{
	/* CAP_NET_RAW, as vfs_cap_data has it. */
	static const uint32_t capabilities[] = { 0x02000001, 1 << 13, 0, 0, 0 };
	char command[3 * PATH_MAX];

	if (is_sanitized || !run_as_nobody())
		return;
	snprintf(command, sizeof(command), "cp %s/librdmabroker-rdmacm.so %s", build_dir(),
		 harness.dir);
	ck_assert_int_eq(system(command), 0);
	make_program("");
	ck_assert_int_eq(chmod(file, 0755), 0);
	ck_assert_int_eq(ctl("run", file), 0);
	ck_assert_str_eq(got.err, "");
	ck_assert_int_eq(chmod(file, 04755), 0);
	ck_assert_int_eq(ctl("run", file), 0);
	assert_has(got.err, "program is set-user-ID, so ld.so does not load the drop-in into it");
	assert_has(got.err, "\"rdmabrokerctl dropin enable\" gives it the drop-in");
	ck_assert_int_eq(chmod(file, 02755), 0);
	ck_assert_int_eq(ctl("run", file), 0);
	assert_has(got.err, "program is set-group-ID, so");
	ck_assert_int_eq(chmod(file, 0755), 0);
	if (setxattr(file, "security.capability", capabilities, sizeof(capabilities), 0) == 0) {
		ck_assert_int_eq(ctl("run", file), 0);
		assert_has(got.err, "program has file capabilities, so");
	}
	unlink(file);
	snprintf(file, sizeof(file), "%s/librdmabroker-rdmacm.so", harness.dir);
	unlink(file);
	end_nobody();
}
END_TEST

UNIT_MAIN("bypass", set_up_ctl, tear_down, what_a_file_names, what_the_loader_finds, bad_arguments,
	  run_reaches_a_program_that_loads_librdmacm, run_says_what_it_does_not_reach)
