// SPDX-License-Identifier: BSD-2-Clause
#include "target/model.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "target/process.h"
#include "util/parse.h"
#include "util/secret.h"
#include "util/text.h"

#define SUFFIX ".gguf"
#define FILES_MAX 16   /* models of one process that are distinguished */
#define FDS_MAX 4096   /* descriptors that are checked */
#define LINES_MAX 65536 /* lines of maps: the kernel's default limit of mappings */
#define VALUE_MAX 64
#define OPTIONS_MAX 32

/* Takes the name of a model's file from a path, without " (deleted)"; false: it is not one. */
static bool file_name(const char *path, char name[MODEL_NAME_MAX])
{
	static const char deleted[] = " (deleted)";
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t len = strlen(base), tail = strlen(deleted), suffix = strlen(SUFFIX);

	if (len > tail && !strcmp(base + len - tail, deleted))
		len -= tail;
	if (len <= suffix || len >= MODEL_NAME_MAX || strncasecmp(base + len - suffix, SUFFIX, suffix))
		return false;
	memcpy(name, base, len);
	name[len] = 0;
	return true;
}

struct model_file {
	char name[MODEL_NAME_MAX];
	uint64_t bytes;
};

struct model_files {
	struct model_file list[FILES_MAX];
	size_t n;
};

static void add_file(struct model_files *f, const char *name, uint64_t bytes)
{
	size_t i = 0;

	while (i < f->n && strcmp(f->list[i].name, name))
		i++;
	if (i == FILES_MAX)
		return;
	if (i == f->n) {
		f->list[f->n++].bytes = 0;
		memcpy(f->list[i].name, name, strlen(name) + 1);
	}
	f->list[i].bytes += bytes;
}

static int read_maps(pid_t pid, struct model_files *files)
{
	char path[64], *line = NULL, name[MODEL_NAME_MAX];
	unsigned int lines = 0;
	size_t cap = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return errno == EACCES || errno == EPERM ? -EACCES : -ESRCH;
	while (lines++ < LINES_MAX && getline(&line, &cap, f) > 0) {
		char *slash = strchr(line, '/');
		uint64_t start, end;

		if (!slash)
			continue;
		slash[strcspn(slash, "\n")] = 0;
		if (file_name(slash, name) && sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2)
			add_file(files, name, end - start);
	}
	free(line);
	fclose(f);
	return 0;
}

/* Only the links are read: opening or stat() of what they lead to may take for ever. */
static void read_fds(pid_t pid, struct model_files *files)
{
	char path[64], target[PATH_MAX], name[MODEL_NAME_MAX];
	unsigned int seen = 0;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return;
	while (seen++ < FDS_MAX && (d = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), d->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = 0;
		if (target[0] == '/' && file_name(target, name))
			add_file(files, name, 0);
	}
	closedir(dir);
}

int model_of_files(pid_t pid, char name[MODEL_NAME_MAX])
{
	struct model_files *files = calloc(1, sizeof(*files));
	const struct model_file *best;
	int err;

	if (!files)
		return -ENOMEM;
	err = read_maps(pid, files);
	if (!err && !files->n)
		read_fds(pid, files);
	best = files->list;
	for (size_t i = 1; i < files->n; i++) {
		const struct model_file *m = &files->list[i];

		if (m->bytes > best->bytes || (m->bytes == best->bytes && strcmp(m->name, best->name) < 0))
			best = m;
	}
	if (!err && !files->n)
		err = -ENOENT;
	if (!err)
		memcpy(name, best->name, sizeof(best->name));
	free(files);
	return err;
}

/* ---- the command line ---- */

/* The value of the option at *s, in the same string or the next one; moves *s to the last string that
 * belongs to the option. */
static const char *option_value(const struct process_text *t, const char **s, char name[VALUE_MAX])
{
	size_t len = strcspn(*s, "=");
	const char *next;

	name[0] = 0;
	if (len >= VALUE_MAX)
		return NULL;
	memcpy(name, *s, len);
	name[len] = 0;
	if ((*s)[len] == '=')
		return *s + len + 1;
	next = process_text_next(t, *s);
	/* a negative number is a value, not an option */
	if (!next || (next[0] == '-' && !isdigit((unsigned char)next[1]) && next[1] != '.'))
		return NULL;
	*s = next;
	return next;
}

static bool is_number(const char *value)
{
	char *end;

	strtod(value, &end);
	return *value && !*end && !isspace((unsigned char)*value);
}

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	size_t i = 0;

	while (i < n && strcmp(name, names[i]))
		i++;
	return i < n;
}

static bool is_model_option(const char *name, const char *value)
{
	static const char *const names[] = { "--model", "--model-path", "--model_path", "--model-id", "--hf-repo", "-hf", "-hfr" };
	size_t len = strlen(value), suffix = strlen(SUFFIX);

	if (!strcmp(name, "-m")) /* for Python -m is a module */
		return len > suffix && !strcasecmp(value + len - suffix, SUFFIX);
	return is_one_of(name, names, sizeof(names) / sizeof(names[0]));
}

/* For a file its name; for a repository, "org/name", both parts. */
static bool set_model(const char *value, char name[MODEL_NAME_MAX])
{
	const char *slash = strrchr(value, '/'), *base = value;
	size_t len;

	if (slash && (strchr("/.~", value[0]) || strchr(value, '/') != slash))
		base = slash + 1;
	len = strlen(base);
	if (text_is_blank(base, len) || len >= MODEL_NAME_MAX || secret_value(value))
		return false;
	memcpy(name, base, len + 1);
	return true;
}

int model_of_cmdline(const struct process_text *cmdline, char name[MODEL_NAME_MAX])
{
	static const char *const servers[] = { "vllm", "ferrum" };
	const char *s = process_text_next(cmdline, NULL), *before = s;

	for (; s && (s = process_text_next(cmdline, s)); before = s) {
		const char *slash = strrchr(before, '/'), *value = NULL;
		char option[VALUE_MAX];

		if (s[0] == '-')
			value = option_value(cmdline, &s, option);
		if (value && is_model_option(option, value) && set_model(value, name))
			return 0;
		if (strcmp(s, "serve") || !is_one_of(slash ? slash + 1 : before, servers, 2))
			continue;
		value = process_text_next(cmdline, s);
		if (value && *value != '-' && set_model(value, name))
			return 0;
	}
	return -ENOENT;
}

uint32_t model_concurrency(const struct process_text *cmdline)
{
	static const char *const names[] = { "-np", "--parallel", "--max-num-seqs", "--max_num_seqs", "--max-running-requests",
		"--max-concurrent-requests" };
	const char *s = process_text_next(cmdline, NULL);
	uint32_t n = 0, last = 0;

	while (s && (s = process_text_next(cmdline, s))) {
		char option[VALUE_MAX];
		const char *value = s[0] == '-' ? option_value(cmdline, &s, option) : NULL;

		if (value && is_one_of(option, names, sizeof(names) / sizeof(names[0])) && !parse_u32(value, &n) && n)
			last = n; /* as parsers of command lines do */
	}
	return last;
}

/* Letters, digits and the characters that occur in words, lists and file names. */
static bool is_plain(const char *text)
{
	for (const char *p = text; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("_.,:/+-", *p))
			return false;
	}
	return *text && strlen(text) < VALUE_MAX;
}

static bool is_secret(const char *name, const char *value)
{
	size_t len = strlen(name);
	bool counts = len > 6 && !strcasecmp(name + len - 6, "tokens"); /* --max-num-batched-tokens */

	if (counts && (!value || is_number(value)))
		return false;
	return secret_name(name) || (value && secret_value(value));
}

static bool is_text(const char *name)
{
	return strcasestr(name, "prompt") || strcasestr(name, "user") || strcasestr(name, "text") ||
	       strcasestr(name, "message");
}

int model_add_options(const struct process_text *cmdline, struct json_object *obj)
{
	const char *s = process_text_next(cmdline, NULL);
	unsigned int n = 0;

	while (s && n < OPTIONS_MAX && (s = process_text_next(cmdline, s))) {
		char name[VALUE_MAX];
		struct json_object *v;
		const char *value;

		if (!strcmp(s, "--"))
			break;
		if (s[0] != '-' || !s[1] || isdigit((unsigned char)s[1]))
			continue;
		value = option_value(cmdline, &s, name);
		if (!name[0] || !is_plain(name) || is_secret(name, value) || is_text(name) ||
			(value && (!is_plain(value) || (name[1] != '-' && !is_number(value)))))
			continue;
		v = value ? json_object_new_string(value) : json_object_new_boolean(1);
		if (!v || json_object_object_add(obj, name, v)) {
			json_object_put(v);
			return -ENOMEM;
		}
		n++;
	}
	return 0;
}
