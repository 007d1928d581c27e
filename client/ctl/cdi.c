/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-device.h>
#include <systemd/sd-event.h>

#include "cdispec.h"
#include "ctl.h"
#include "finddropin.h"
#include "newfile.h"
#include "output.h"
#include "proto/notifier.h"

/*
 * The verb cdi: which nodes and libraries a container needs for RDMA, as files of the Container Device Interface. It
 * finds the devices in /sys, and asks the daemon nothing.
 */

#define SOCKET_DEFAULT "/run/rdmabroker/rdmabroker.sock"
#define SUBSYSTEM "infiniband_verbs"
#define FILE_RDMA "rdmabroker-rdma.json"
#define FILE_NODE "rdmabroker-node.json"
#define FILE_DROPIN "rdmabroker-dropin.json"

static const char *of_dropin, *of_node, *directory, *watches;

const struct verb_option cdi_options[] = {
	{ "dropin", NULL, "describe the drop-in for librdmacm instead", .given = &of_dropin },
	{ "node", NULL, "describe only the nodes, without the socket", .given = &of_node },
	{ "directory", "DIR", "write all files to DIR, such as /run/cdi", .given = &directory },
	{ "watch", NULL, "write them again when devices come or go, until interrupted",
	  .given = &watches },
	{ NULL },
};

struct devices {
	struct cdispec_device *devices; /* to be freed */
	size_t n;
};

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct cdispec_device *)a)->name,
		      ((const struct cdispec_device *)b)->name);
}

/* Returns 0 or -ENOMEM. A device that cannot be described is left out. */
static int add_device(struct devices *devices, sd_device *d)
{
	struct cdispec_device *more, *device;
	const char *node, *name;

	if (sd_device_get_devname(d, &node) < 0 ||
	    sd_device_get_sysattr_value(d, "ibdev", &name) < 0)
		return 0;
	if (!cdispec_is_name(name) || strlen(name) >= sizeof(device->name) ||
	    strlen(node) >= sizeof(device->node)) {
		complain("cannot describe the RDMA device \"%s\": CDI does not allow its name",
			 name);
		return 0;
	}
	more = reallocarray(devices->devices, devices->n + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	devices->devices = more;
	device = &more[devices->n++];
	strcpy(device->name, name);
	strcpy(device->node, node);
	return 0;
}

/* Returns 0, or prints an error and returns an exit status. */
static int find_devices(struct devices *ret)
{
	sd_device_enumerator *e = NULL;
	int r;

	*ret = (struct devices){ 0 };
	r = sd_device_enumerator_new(&e);
	if (r >= 0)
		r = sd_device_enumerator_add_match_subsystem(e, SUBSYSTEM, true);
	for (sd_device *d = r < 0 ? NULL : sd_device_enumerator_get_device_first(e); d && r >= 0;
	     d = sd_device_enumerator_get_device_next(e))
		r = add_device(ret, d);
	sd_device_enumerator_unref(e);
	if (r < 0) {
		free(ret->devices);
		complain("cannot list the RDMA devices: %s", strerror(-r));
		return EXIT_FAILURE;
	}
	if (ret->n > 0)
		qsort(ret->devices, ret->n, sizeof(ret->devices[0]), compare);
	return 0;
}

/* Containers see the whole folder of the socket, so it must have nothing else. */
static void check_socket(const char *path)
{
	const char *slash = strrchr(path, '/');
	const struct dirent *entry;
	char folder[4096];
	DIR *dir;

	if (path[0] != '/' || slash == path)
		die(EXIT_FAILURE,
		    "cannot mount the folder of the socket \"%s\" in containers: the path must "
		    "be absolute, and not in the root folder",
		    path);
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	dir = opendir(folder);
	if (!dir)
		die(EXIT_FAILURE, "cannot open the folder of the socket %s: %m", path);
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    strcmp(entry->d_name, slash + 1) != 0)
			die(EXIT_FAILURE,
			    "cannot mount %s in containers: beside the socket, it has \"%s\", which "
			    "they would see",
			    folder, entry->d_name);
	closedir(dir);
}

static int take_path(struct dl_phdr_info *info, size_t size, void *userdata)
{
	struct cdispec_library *library = userdata;
	const char *slash = strrchr(info->dlpi_name, '/');

	if (!slash || strcmp(slash + 1, library->name) != 0)
		return 0;
	return realpath(info->dlpi_name, library->path) != NULL;
}

/*
 * The drop-in needs librdmabroker, and that needs libprotobuf-c. Both are loaded in this process. Returns false if the
 * drop-in is not installed.
 */
static bool find_libraries(struct cdispec_library ret[3])
{
	char path[PATH_MAX];

	ret[0].name = "libprotobuf-c.so.1";
	ret[1].name = "librdmabroker.so.2";
	ret[2].name = DROPIN;
	return dl_iterate_phdr(take_path, &ret[0]) && dl_iterate_phdr(take_path, &ret[1]) &&
	       dropin_find(path) && realpath(path, ret[2].path);
}

static int remove_file(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return newfile_remove(path) ? 0 : EXIT_FAILURE;
}

/*
 * CDI allows no specification without devices, so there is no file as long as there is no device. For SOCKET see
 * cdispec_print_rdma().
 */
static int write_devices(const char *name, const struct devices *devices, const char *socket)
{
	struct newfile file;

	if (devices->n == 0) {
		printf("%s/%s: no RDMA device\n", escaped(directory), name);
		return remove_file(name);
	}
	if (!newfile_begin(&file, directory, name))
		return EXIT_FAILURE;
	cdispec_print_rdma(file.file, devices->devices, devices->n, socket);
	printf("%s/%s:", escaped(directory), name);
	for (size_t i = 0; i < devices->n; i++)
		printf(" %s", devices->devices[i].name);
	putchar('\n');
	return newfile_end(&file) ? 0 : EXIT_FAILURE;
}

/* Returns 0, or prints an error and returns an exit status. */
static int write_rdma(const char *socket)
{
	struct devices devices;
	int status = find_devices(&devices);

	if (status != 0)
		return status;
	status = write_devices(FILE_NODE, &devices, /* socket= */ NULL);
	if (status == 0)
		status = write_devices(FILE_RDMA, &devices, socket);
	free(devices.devices);
	return status;
}

static void write_dropin(void)
{
	struct cdispec_library libraries[3];
	struct newfile file;

	if (!find_libraries(libraries)) {
		if (remove_file(FILE_DROPIN) != 0)
			end(EXIT_FAILURE);
		return;
	}
	if (!newfile_begin(&file, directory, FILE_DROPIN))
		end(EXIT_FAILURE);
	cdispec_print_dropin(file.file, libraries, 3);
	if (!newfile_end(&file))
		end(EXIT_FAILURE);
}

static int on_uevent(sd_device_monitor *monitor, sd_device *d, void *socket)
{
	/* A failure is printed, and the next change tries again. */
	write_rdma(socket);
	fflush(stdout);
	return 0;
}

static void must(int r)
{
	if (r < 0)
		die(EXIT_FAILURE, "cannot watch the RDMA devices: %s", strerror(-r));
}

static int watch_devices(const char *socket)
{
	sd_event *loop = NULL;
	sd_device_monitor *monitor = NULL;
	struct notifier *notifier = NULL;
	sigset_t set;
	int status;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	must(sd_event_new(&loop));
	must(notifier_new(&notifier, loop));
	/* Without a handler, the loop ends at these signals. */
	must(sd_event_add_signal(loop, NULL, SIGTERM, NULL, NULL));
	must(sd_event_add_signal(loop, NULL, SIGINT, NULL, NULL));
	must(sd_device_monitor_new(&monitor));
	must(sd_device_monitor_filter_add_match_subsystem_devtype(monitor, SUBSYSTEM, NULL));
	must(sd_device_monitor_attach_event(monitor, loop));
	must(sd_device_monitor_start(monitor, on_uevent, (void *)socket));
	/* The monitor runs already, so no change between the first file and the monitor is missed. */
	status = write_rdma(socket);
	fflush(stdout);
	if (status == 0) {
		notifier_tell(notifier, "READY=1");
		must(sd_event_loop(loop));
	}
	sd_device_monitor_unref(monitor);
	notifier_free(notifier);
	sd_event_unref(loop);
	return status;
}

static int print_dropin(void)
{
	struct cdispec_library libraries[3];

	if (!find_libraries(libraries))
		die(EXIT_FAILURE, "%s is not installed", DROPIN);
	cdispec_print_dropin(stdout, libraries, 3);
	return EXIT_SUCCESS;
}

/* For SOCKET see cdispec_print_rdma(). */
static int print_devices(const char *socket)
{
	struct devices devices;
	int status = find_devices(&devices);

	if (status != 0)
		return status;
	if (devices.n == 0)
		die(EXIT_FAILURE, "this host has no RDMA device now");
	cdispec_print_rdma(stdout, devices.devices, devices.n, socket);
	free(devices.devices);
	return 0;
}

int verb_cdi(struct ctl *ctl)
{
	const char *socket = ctl->socket ?: path_from("RDMABROKER_SOCKET", SOCKET_DEFAULT);

	if (watches && !directory)
		ctl_misused(ctl, "--watch needs --directory");
	if (!!of_dropin + !!of_node + !!directory > 1)
		ctl_misused(ctl, "--dropin, --node and --directory, which writes all files, "
				 "exclude each other");
	if (of_dropin)
		return print_dropin();
	if (of_node)
		return print_devices(/* socket= */ NULL);
	check_socket(socket);
	if (!directory)
		return print_devices(socket);
	write_dropin();
	return watches ? watch_devices(socket) : write_rdma(socket);
}
