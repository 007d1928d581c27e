/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "rdmacm.h"

/*
 * Whether the calls inside librdmacm come to the drop-in. The dynamic loader decides this when it relocates librdmacm.
 * A librdmacm that was linked with -Bsymbolic-functions has no relocations for its own functions, and calls them directly.
 */

#if __ELF_NATIVE_CLASS == 64
#define SYMBOL_OF ELF64_R_SYM
#else
#define SYMBOL_OF ELF32_R_SYM
#endif

struct library {
	ElfW(Addr) base;
	ElfW(Addr) dynamic[DT_NUM]; /* by tag; 0: there is none */
};

/* On some architectures the loader leaves addresses in the dynamic section as they are in the file. */
static const void *find_table(const struct library *lib, int tag)
{
	ElfW(Addr) addr = lib->dynamic[tag];

	return (const void *)(addr && addr < lib->base ? lib->base + addr : addr);
}

bool bound_is_own(const void *function)
{
	Dl_info found, own;

	return function && dladdr(function, &found) && dladdr((void *)bound_is_own, &own) &&
	       found.dli_fbase == own.dli_fbase;
}

/*
 * Looks for NAME in a table of relocations, of ENTRY bytes each. Adds to *N how many there are. False: one of them is bound to
 * another library.
 */
static bool check_table(const struct library *lib, int tag, int size_tag, size_t entry,
			const char *name, unsigned *n)
{
	const ElfW(Sym) *symbols = find_table(lib, DT_SYMTAB);
	const char *names = find_table(lib, DT_STRTAB);
	const char *table = find_table(lib, tag);
	size_t size = table ? lib->dynamic[size_tag] : 0;
	const ElfW(Rel) * relocation; /* an ElfW(Rela) begins with the same members */

	for (size_t at = 0; at + entry <= size; at += entry) {
		relocation = (const ElfW(Rel) *)(const void *)(table + at);
		if (strcmp(names + symbols[SYMBOL_OF(relocation->r_info)].st_name, name) != 0)
			continue;
		(*n)++;
		if (!bound_is_own(*(void *const *)(lib->base + relocation->r_offset)))
			return false;
	}
	return true;
}

static bool is_bound(const struct library *lib, const char *name)
{
	size_t plt_entry = lib->dynamic[DT_PLTREL] == DT_RELA ? sizeof(ElfW(Rela)) :
								sizeof(ElfW(Rel));
	unsigned n = 0;

	return check_table(lib, DT_JMPREL, DT_PLTRELSZ, plt_entry, name, &n) &&
	       check_table(lib, DT_RELA, DT_RELASZ, sizeof(ElfW(Rela)), name, &n) &&
	       check_table(lib, DT_REL, DT_RELSZ, sizeof(ElfW(Rel)), name, &n) && n > 0;
}

/* The calls that librdmacm's rsockets make. */
bool bound_rsockets(void *handle)
{
	static const char *const calls[] = {
		"rdma_accept",       "rdma_ack_cm_event",  "rdma_bind_addr",  "rdma_connect",
		"rdma_create_id",    "rdma_create_qp",     "rdma_destroy_id", "rdma_destroy_qp",
		"rdma_get_cm_event", "rdma_get_request",   "rdma_listen",     "rdma_reject",
		"rdma_resolve_addr", "rdma_resolve_route", "rdma_set_option",
	};
	struct link_map *map;
	struct library lib;

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
		return false;
	lib = (struct library){ .base = map->l_addr };
	for (const ElfW(Dyn) *dyn = map->l_ld; dyn->d_tag != DT_NULL; dyn++)
		if (dyn->d_tag > 0 && dyn->d_tag < DT_NUM)
			lib.dynamic[dyn->d_tag] = dyn->d_un.d_ptr;
	if (!lib.dynamic[DT_SYMTAB] || !lib.dynamic[DT_STRTAB])
		return false;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!is_bound(&lib, calls[i]))
			return false;
	return true;
}
