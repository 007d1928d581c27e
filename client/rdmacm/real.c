/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

const struct real *_Atomic real_has_all;

/* Exported, see librdmabroker-rdmacm.map. */
extern const char rdmabroker_dropin[];
const char rdmabroker_dropin[] = "rdmabroker's drop-in for librdmacm";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct real real;
static void *loaded; /* NULL: not yet, or it cannot be loaded */
static bool cannot_load, calls_dropin;

/* This drop-in can be installed under librdmacm's path. LEN: of FOLDER. */
static void *open_in(const char *folder, size_t len, int flags)
{
	static const char name[] = "/librdmacm.so.1";
	char *path = malloc(len + sizeof(name));
	void *lib;

	if (!path)
		return NULL;
	memcpy(path, folder, len);
	memcpy(path + len, name, sizeof(name));
	lib = dlopen(path, flags);
	free(path);
	if (lib && bound_is_own(dlsym(lib, "rdma_create_id"))) {
		dlclose(lib);
		lib = NULL;
	}
	return lib;
}

/*
 * Loads librdmacm by its path, because dlopen() would find this drop-in by the name. librdmacm is usually in
 * libibverbs's folder.
 */
static void *open_real(int flags)
{
	static const char *const folders[] = { "/usr/lib64", "/usr/lib", "/lib64", "/lib" };
	const char *slash;
	Dl_info info;
	void *lib = NULL;

	if (dladdr((void *)ibv_get_device_list, &info) && (slash = strrchr(info.dli_fname, '/')))
		lib = open_in(info.dli_fname, (size_t)(slash - info.dli_fname), flags);
	for (size_t i = 0; !lib && i < sizeof(folders) / sizeof(folders[0]); i++)
		lib = open_in(folders[i], strlen(folders[i]), flags);
	if (!lib)
		report_debug("cannot load librdmacm itself");
	return lib;
}

static bool look_up(void *lib)
{
	bool all = true;

#define CALL(name)                                            \
	real.name = (__typeof__(real.name))dlsym(lib, #name); \
	all = all && real.name;
#define NEWER(name) real.name = (__typeof__(real.name))dlsym(lib, #name);
#include "real-calls.inc"
#undef CALL
#undef NEWER
	return all;
}

/* Takes LIB, which can be NULL. */
static void use(void *lib)
{
	if (lib && look_up(lib))
		loaded = lib;
	else if (lib)
		dlclose(lib);
}

/* With RTLD_DEEPBIND librdmacm's internal calls use its own functions, not the drop-in's. */
const struct real *real_get(void)
{
	bool has_it;

	pthread_mutex_lock(&lock);
	if (!loaded && !cannot_load) {
		use(open_real(RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
		cannot_load = !loaded;
	}
	has_it = loaded != NULL;
	pthread_mutex_unlock(&lock);
	if (has_it)
		return &real;
	errno = ENOSYS;
	return NULL;
}

/* Other libraries do not find the drop-in's functions if the program has loaded it with dlopen(). */
static void become_global(void)
{
	Dl_info own;

	if (dladdr((void *)become_global, &own))
		dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/* Without RTLD_DEEPBIND librdmacm's internal calls use what the dynamic loader finds first. */
static void load_calling_dropin(void)
{
	void *lib;

	become_global();
	lib = open_real(RTLD_NOW | RTLD_LOCAL);
	if (lib && !bound_rsockets(lib)) {
		report_debug("the rsockets of this librdmacm do not call the drop-in");
		dlclose(lib);
		lib = NULL;
	}
	use(lib);
	calls_dropin = loaded != NULL;
}

const struct real *real_get_calling_dropin(void)
{
	bool so;

	pthread_mutex_lock(&lock);
	if (!loaded)
		load_calling_dropin();
	so = calls_dropin;
	pthread_mutex_unlock(&lock);
	return so ? &real : NULL;
}

void real_begin_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

void real_end(void)
{
	if (loaded)
		dlclose(loaded);
}
