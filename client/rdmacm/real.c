/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "rdmacm.h"

const struct real *_Atomic real_has_all;

/* Exported, see librdmabroker-rdmacm.map. */
extern const char rdmabroker_dropin[];
const char rdmabroker_dropin[] = "rdmabroker's drop-in for librdmacm";

static struct real real;
static bool is_loaded;

/* This drop-in can be installed under librdmacm's path. */
static bool is_own(void *lib)
{
	void *function = dlsym(lib, "rdma_create_id");
	Dl_info found, own;

	return function && dladdr(function, &found) && dladdr((void *)real_get, &own) &&
	       found.dli_fbase == own.dli_fbase;
}

/*
 * Loads librdmacm by its path, because dlopen() would find this drop-in by the name. librdmacm is usually in
 * libibverbs's folder. With RTLD_DEEPBIND librdmacm's internal calls use its own functions, not the drop-in's.
 */
static void *open_real(void)
{
	static const char *const folders[] = { "/usr/lib64", "/usr/lib", "/lib64", "/lib" };
	char path[PATH_MAX];
	const char *slash;
	Dl_info info;
	void *lib = NULL;

	if (dladdr((void *)ibv_get_device_list, &info) && (slash = strrchr(info.dli_fname, '/'))) {
		snprintf(path, sizeof(path), "%.*s/librdmacm.so.1", (int)(slash - info.dli_fname),
			 info.dli_fname);
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	}
	for (size_t i = 0; !lib && i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%s/librdmacm.so.1", folders[i]);
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	}
	if (lib && is_own(lib)) {
		dlclose(lib);
		lib = NULL;
	}
	if (!lib)
		report_debug("cannot load librdmacm itself");
	return lib;
}

static void load(void)
{
	void *lib = open_real();
	bool all = true;

	if (!lib)
		return;
#define CALL(name)                                            \
	real.name = (__typeof__(real.name))dlsym(lib, #name); \
	all = all && real.name;
#define NEWER(name) real.name = (__typeof__(real.name))dlsym(lib, #name);
#include "real-calls.inc"
#undef CALL
#undef NEWER
	if (!all) {
		dlclose(lib);
		return;
	}
	is_loaded = true;
}

const struct real *real_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	if (is_loaded)
		return &real;
	errno = ENOSYS;
	return NULL;
}
