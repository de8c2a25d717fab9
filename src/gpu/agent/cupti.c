// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finds libcupti in the traced process, in this order: where INFTRACE_CUPTI points; the one that is mapped already;
 * beside libcudart, and where pip puts it relative to that; by the search path of the process; in /usr/local/cuda*.
 */
#include "gpu/agent/cupti.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/agent/symbols.h"
#include "gpu/hand_over.h"

#define PATH_SIZE 1024

/* The number behind "libcupti.so", which may have several parts: 12 of libcupti.so.12, 2024.1 of ...; 0: none */
static long library_version(const char *name)
{
	const char *dot = strstr(name, ".so.");

	return dot ? strtol(dot + strlen(".so."), NULL, 10) : 0;
}

/* Opens the library with the highest version in a directory. */
static void *open_in(const char *directory)
{
	char best[256] = "", path[PATH_SIZE + sizeof(best) + 1];
	struct dirent *e;
	DIR *d = opendir(directory);

	if (!d)
		return NULL;
	while ((e = readdir(d))) {
		if (strncmp(e->d_name, "libcupti.so", strlen("libcupti.so")) || strlen(e->d_name) >= sizeof(best))
			continue;
		if (!*best || library_version(e->d_name) > library_version(best))
			strcpy(best, e->d_name);
	}
	closedir(d);
	if (!*best)
		return NULL;
	snprintf(path, sizeof(path), "%s/%s", directory, best);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_below(const char *directory, const char *below)
{
	char path[PATH_SIZE];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, below) >= sizeof(path))
		return NULL;
	return open_in(path);
}

/* Beside libcudart: the toolkit's lib64, pip's nvidia/cuda_runtime/lib (12), nvidia/cu13/lib, torch/lib. */
static void *open_near(const char *cudart)
{
	static const char *const places[] = {
		".", "../../cuda_cupti/lib", "../extras/CUPTI/lib64", "../../nvidia/cuda_cupti/lib", "../../nvidia/cu13/lib"
	};
	char directory[PATH_SIZE];
	void *library = NULL;
	char *slash;

	snprintf(directory, sizeof(directory), "%s", cudart);
	slash = strrchr(directory, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places) && !library; i++)
		library = open_below(directory, places[i]);
	return library;
}

/* Opens what the mapped files lead to: itself, where it is libcupti, or what is near to it. */
static void *open_by_maps(const char *name, void *(*open_it)(const char *path))
{
	char line[PATH_SIZE + 256], *path, *base;
	void *library = NULL;
	FILE *f = fopen("/proc/self/maps", "re");

	if (!f)
		return NULL;
	while (!library && fgets(line, sizeof(line), f)) {
		path = strchr(line, '/');
		if (!path)
			continue;
		path[strcspn(path, "\n")] = '\0';
		base = strrchr(path, '/') + 1;
		if (!strncmp(base, name, strlen(name)) && strlen(path) < PATH_SIZE)
			library = open_it(path);
	}
	fclose(f);
	return library;
}

static void *open_mapped(const char *path)
{
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

static void *open_by_name(void)
{
	static const char *const names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11", "libcupti.so" };
	void *library = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

static void *open_installed(void)
{
	static const char *const below[] = { "extras/CUPTI/lib64", "lib64", "lib" };
	char directory[PATH_SIZE];
	void *library = NULL;
	struct dirent *e;
	DIR *d = opendir("/usr/local");

	for (size_t i = 0; i < sizeof(below) / sizeof(*below) && !library; i++)
		library = open_below("/usr/local/cuda", below[i]);
	while (d && !library && (e = readdir(d))) {
		if (strncmp(e->d_name, "cuda-", strlen("cuda-")))
			continue;
		snprintf(directory, sizeof(directory), "/usr/local/%s", e->d_name);
		for (size_t i = 0; i < sizeof(below) / sizeof(*below) && !library; i++)
			library = open_below(directory, below[i]);
	}
	if (d)
		closedir(d);
	return library;
}

int cupti_load(struct cupti *ret_cupti)
{
	const char *given = secure_getenv(GPU_ENV_CUPTI);
	struct cupti c = { 0 };
	void *library;
	int err;
	const struct symbol functions[] = {
		{ "cuptiGetVersion", &c.get_version },
		{ "cuptiGetTimestamp", &c.get_timestamp },
		{ "cuptiSubscribe", &c.subscribe },
		{ "cuptiUnsubscribe", &c.unsubscribe },
		{ "cuptiActivityRegisterCallbacks", &c.register_callbacks },
		{ "cuptiActivityEnable", &c.enable },
		{ "cuptiActivityDisable", &c.disable },
		{ "cuptiActivityFlushAll", &c.flush },
		{ "cuptiActivityGetNextRecord", &c.next_record },
		{ "cuptiActivityGetNumDroppedRecords", &c.dropped },
	};

	/* one that was named is not replaced by another */
	if (given && *given) {
		library = dlopen(given, RTLD_NOW | RTLD_LOCAL);
	} else {
		library = open_by_maps("libcupti.so", open_mapped);
		library = library ? library : open_by_maps("libcudart", open_near);
		library = library ? library : open_by_name();
		library = library ? library : open_installed();
	}
	if (!library)
		return -ENOENT;
	err = symbols_find(library, functions, sizeof(functions) / sizeof(*functions));
	if (err)
		return err;
	c.get_version(&c.version);
	*ret_cupti = c;
	return 0;
}
