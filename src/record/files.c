// SPDX-License-Identifier: BSD-2-Clause
#include "record/files.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct json_object *file_path_json(const char *name)
{
	char cwd[PATH_MAX], path[2 * PATH_MAX];

	if (name[0] == '/' || !strcmp(name, "-") || !getcwd(cwd, sizeof(cwd)))
		return json_object_new_string(name);
	if (!strcmp(name, "."))
		return json_object_new_string(cwd);
	snprintf(path, sizeof(path), "%s/%s", cwd, strncmp(name, "./", 2) ? name : name + 2);
	return json_object_new_string(path);
}

void left_files_add(struct left_files *f, const char *name, uint64_t bytes)
{
	struct json_object *o;

	f->n++;
	f->bytes += bytes;
	if (!f->list)
		return;
	o = json_object_new_object();
	json_object_object_add(o, "name", file_path_json(name));
	json_object_object_add(o, "bytes", json_object_new_int64((int64_t)bytes));
	json_object_array_add(f->list, o);
}
