// SPDX-License-Identifier: BSD-2-Clause
/* Presets by name: where they are installed. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "util/log.h"

/* The directory of installed presets: beside the binary in a build tree, else where make install puts them. */
static int engines_dir(char *buf, size_t size)
{
	const char *env = getenv("INFTRACE_ENGINES");
	char exe[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (env) {
		snprintf(buf, size, "%s", env);
		return 0;
	}
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n > 0) {
		exe[n] = 0;
		*strrchr(exe, '/') = 0;
		if (snprintf(buf, size, "%s/../engines", exe) < (int)size && !stat(buf, &st))
			return 0;
		if (snprintf(buf, size, "%s/../share/inftrace/engines", exe) < (int)size && !stat(buf, &st))
			return 0;
	}
	snprintf(buf, size, "%s", ENGINES_DIR);
	return stat(buf, &st) ? -ENOENT : 0;
}

int engine_load(struct probe_table *pt, const char *name)
{
	char dir[PATH_MAX + 32], path[PATH_MAX + 300];
	size_t len = strlen(name);

	if (strchr(name, '/') || (len > 5 && !strcmp(name + len - 5, ".json")))
		return engine_load_file(pt, name);
	if (engines_dir(dir, sizeof(dir)) ||
		snprintf(path, sizeof(path), "%s/%s.json", dir, name) >= (int)sizeof(path) ||
		access(path, R_OK)) {
		log_error("--engine: no preset named %.80s in %s; inftrace engines lists them; or give its file, or none", name,
			dir);
		return -EINVAL;
	}
	return engine_load_file(pt, path);
}

bool engine_is_named(const struct probe_table *pt, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(pt->engines[i]->name, name))
			return true;
	}
	return false;
}

static int is_preset(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return d->d_name[0] != '.' && len > 5 && !strcmp(d->d_name + len - 5, ".json");
}

int engine_load_all(struct probe_table *pt)
{
	char dir[PATH_MAX + 32], path[PATH_MAX + 300];
	size_t given = pt->n_engines;
	struct dirent **list;
	int n, err = 0;

	if (engines_dir(dir, sizeof(dir))) {
		log_warn("no presets in %s: no engine is detected (set INFTRACE_ENGINES)", dir);
		return 0;
	}
	n = scandir(dir, &list, is_preset, alphasort);
	if (n < 0)
		log_warn("cannot read the presets in %s: %s; no engine is detected", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		*strrchr(list[i]->d_name, '.') = '\0';
		if (!err && !engine_is_named(pt, given, list[i]->d_name))
			err = engine_load_file(pt, path);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return err;
}
