// SPDX-License-Identifier: BSD-2-Clause
#include "record/envhash.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/engine.h"
#include "target/elf.h"
#include "target/file.h"
#include "target/needed.h"
#include "target/process.h"
#include "util/fmt.h"
#include "util/secret.h"
#include "util/text.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define VARIABLES_MAX 4096
#define DELETED " (deleted)"
#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* Settings of engines and runtimes. */
static const char *const variables[] = { "*_VISIBLE_DEVICES", "OMP_*", "GGML_*", "LLAMA_*",
	"VLLM_*", "FERRUM_*", "CUDA_*", "NCCL_*", "PYTORCH_*" };

/* Labels, and where tools write: no matter for the speed. */
static const char *const labels[] = { "*_MODEL", "*_COMMIT_SHA", "*_CONCURRENCY", "*_JSONL", "*_OUT", "*_DIR", "FERRUM_*DEBUG",
	"VLLM_CHAKRA_*DEBUG", "*_ENV_HASH" };

/* That inftrace itself sets for a COMMAND. */
static bool is_own(const char *name, const char *value)
{
	size_t len = strlen(value), own = strlen("/inftrace-gpu.so");

	return !strcmp(name, "CUDA_INJECTION64_PATH") && len >= own && !strcmp(value + len - own, "/inftrace-gpu.so");
}

static bool matches_any(const char *const *globs, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!fnmatch(globs[i], name, 0))
			return true;
	return false;
}

/* Untrusted bytes as a JSON string; what is not UTF-8 becomes U+FFFD. NULL: no memory. */
static struct json_object *env_json_string(const char *s)
{
	size_t len = strlen(s);
	char *quoted = malloc(FMT_JSON_STR_MAX(len) + 1);
	struct json_object *obj;

	if (!quoted)
		return NULL;
	*fmt_json_str(quoted, s, len) = '\0';
	obj = json_tokener_parse(quoted);
	free(quoted);
	return obj;
}

/*
 * Both take over the value and keep the first error in *err, so that a caller can build a whole
 * tree and check once. json-c keeps the order of insertion: keys are added in their order.
 */
static void add(struct json_object *obj, const char *key, struct json_object *value, int *err)
{
	if (obj && value && !json_object_object_add(obj, key, value))
		return;
	json_object_put(value);
	*err = -ENOMEM;
}

static void append(struct json_object *array, struct json_object *value, int *err)
{
	if (array && value && !json_object_array_add(array, value))
		return;
	json_object_put(value);
	*err = -ENOMEM;
}

static const char *json_text(struct json_object *obj)
{
	return json_object_to_json_string_ext(obj, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static int cmp_json(const void *a, const void *b)
{
	return strcmp(json_text(*(struct json_object *const *)a), json_text(*(struct json_object *const *)b));
}

static void sort_unique(struct json_object *array)
{
	json_object_array_sort(array, cmp_json);
	for (size_t i = json_object_array_length(array); i-- > 1;)
		if (json_object_equal(json_object_array_get_idx(array, i), json_object_array_get_idx(array, i - 1)))
			json_object_array_del_idx(array, i, 1);
}

static void read_build_id(int fd, char hex[ELF_BUILD_ID_MAX])
{
	if (fd < 0 || build_id_read(fd, hex, ELF_BUILD_ID_MAX))
		strcpy(hex, "none");
}

/* x86 has a model name; arm64 only the numbers that identify one. */
static void cpu_model(char *model, size_t size)
{
	static const char *const keys[] = { "model name", "CPU implementer", "CPU variant", "CPU part" };
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[512];
	size_t len = 0;

	model[0] = '\0';
	if (!f)
		return;
	/* only the first processor: its block ends at the first empty line */
	while (fgets(line, sizeof(line), f) && line[0] != '\n') {
		char *value = strstr(line, ": ");

		if (!value)
			continue;
		line[strcspn(line, "\n")] = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(keys) && len < size; i++)
			if (!strncmp(line, keys[i], strlen(keys[i])))
				len += (size_t)snprintf(model + len, size - len, "%s%s", len ? " " : "", value + 2);
	}
	fclose(f);
}

static struct json_object *libraries_json(const struct env_program *p, int *err)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < p->n; i++) {
		struct json_object *obj = json_object_new_object();

		add(obj, "build_id", json_object_new_string(p->libraries[i].build_id), err);
		add(obj, "name", env_json_string(p->libraries[i].name), err);
		append(array, obj, err);
	}
	if (!*err)
		sort_unique(array);
	return array;
}

static bool claims(const struct engine *e, const char *name)
{
	return matches_any((const char *const *)e->mapped, e->n_mapped, name);
}

/* The presets that claim one of the libraries. */
static struct json_object *presets_json(const struct env_program *p, const struct probe_table *presets, int *err)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; presets && i < presets->n_engines; i++) {
		const struct engine *e = presets->engines[i];
		struct json_object *obj;
		size_t k = 0;

		while (k < p->n && !claims(e, p->libraries[k].name))
			k++;
		if (k == p->n)
			continue;
		obj = json_object_new_object();
		add(obj, "name", env_json_string(e->name), err);
		add(obj, "version", json_object_new_int64(e->version), err);
		append(array, obj, err);
	}
	if (!*err)
		sort_unique(array);
	return array;
}

static bool counts(const char *name, const char *value)
{
	/* no setting has any other name, and it would have to be escaped */
	return !name[strspn(name, NAME_CHARS)] && matches_any(variables, ARRAY_SIZE(variables), name) &&
	       !matches_any(labels, ARRAY_SIZE(labels), name) &&
	       !secret_name(name) && !secret_value(value) && !is_own(name, value);
}

bool env_is_setting(const char *variable)
{
	size_t len = strcspn(variable, "=");
	char name[NAME_MAX + 1];

	if (!variable[len] || len > NAME_MAX)
		return false;
	memcpy(name, variable, len);
	name[len] = '\0';
	return counts(name, variable + len + 1);
}

static int cmp_key(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the members of `from` sorted by key. */
static int add_sorted(struct json_object *from, struct json_object *obj)
{
	const char **keys = calloc((size_t)json_object_object_length(from) + 1, sizeof(*keys));
	int err = keys ? 0 : -ENOMEM;
	size_t n = 0;

	json_object_object_foreach(from, name, unused)
	{
		(void)unused;
		if (keys)
			keys[n++] = name;
	}
	qsort(keys, n, sizeof(*keys), cmp_key);
	for (size_t i = 0; i < n; i++)
		add(obj, keys[i], json_object_get(json_object_object_get(from, keys[i])), &err);
	free(keys);
	return err;
}

int env_add_settings(const struct process_text *environ, struct json_object *obj)
{
	struct json_object *found = json_object_new_object();
	int err = found ? 0 : -ENOMEM;

	for (const char *s = process_text_next(environ, NULL); s && !err; s = process_text_next(environ, s)) {
		size_t len = strcspn(s, "=");
		char name[NAME_MAX + 1];

		if (json_object_object_length(found) == VARIABLES_MAX || !env_is_setting(s))
			continue;
		memcpy(name, s, len);
		name[len] = '\0';
		if (!json_object_object_get_ex(found, name, NULL)) /* the first one counts, as for getenv(3) */
			add(found, name, env_json_string(s + len + 1), &err);
	}
	if (!err)
		err = add_sorted(found, obj);
	json_object_put(found);
	return err;
}

static struct json_object *env_json(const struct env_program *p, const struct process_text *environ, const struct probe_table *presets,
	int *err)
{
	struct json_object *obj = json_object_new_object(), *env = json_object_new_object(), *cpu = json_object_new_object();
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct utsname uts;
	char model[256];

	if (uname(&uts))
		*err = -errno;
	if (environ && env && env_add_settings(environ, env))
		*err = -ENOMEM;
	cpu_model(model, sizeof(model));
	add(cpu, "count", json_object_new_int64(sysconf(_SC_NPROCESSORS_ONLN)), err);
	add(cpu, "model", env_json_string(model), err);
	add(obj, "cpu", cpu, err);
	add(obj, "env", env, err);
	add(obj, "exe", json_object_new_string(p->exe), err);
	add(obj, "kernel", json_object_new_string(uts.release), err);
	add(obj, "libraries", libraries_json(p, err), err);
	add(obj, "machine", json_object_new_string(uts.machine), err);
	/* whole MiB: what the kernel reserves at boot varies by some pages */
	add(obj, "memory_mib", json_object_new_int64((int64_t)(memory >> 20)), err);
	add(obj, "presets", presets_json(p, presets, err), err);
	return obj;
}

static int hash_text(const char *text, char hash[ENV_HASH_MAX])
{
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned int len;

	if (!EVP_Digest(text, strlen(text), md, &len, EVP_sha256(), NULL) || len != 32)
		return -EIO;
	strcpy(hash, "sha256:");
	for (unsigned int i = 0; i < len; i++)
		sprintf(hash + strlen("sha256:") + 2 * i, "%02x", md[i]);
	return 0;
}

bool env_hash_ok(const char *text)
{
	if (!strncmp(text, "sha256:", 7))
		text += 7;
	return strlen(text) == 64 && strspn(text, "0123456789abcdefABCDEF") == 64;
}

int env_hash(const struct env_program *p, const struct process_text *environ, const struct probe_table *presets, char **ret_json,
	char hash[ENV_HASH_MAX])
{
	char found[ENV_HASH_MAX], *json = NULL;
	struct json_object *obj;
	int err = 0;

	if (hash)
		strcpy(hash, ENV_HASH_UNKNOWN);
	obj = env_json(p, environ, presets, &err);
	if (err)
		goto out;
	json = strdup(json_text(obj));
	err = json ? hash_text(json, found) : -ENOMEM;
	if (err)
		goto out;
	if (hash)
		strcpy(hash, found);
	if (ret_json) {
		*ret_json = json;
		json = NULL;
	}
out:
	free(json);
	json_object_put(obj);
	return err;
}

/* ---- the program ---- */

struct collect {
	pid_t pid;
	const struct probe_table *pt;
	struct env_program *to;
};

struct replaced {
	const char *name;
	int fd;
	pid_t pid;
};

static int find_replaced(const struct mapped_file *m, void *arg)
{
	struct replaced *r = arg;
	const char *slash = strrchr(m->path, '/');

	return slash && !strncmp(slash + 1, r->name, strlen(r->name)) && text_has_suffix(m->path, DELETED) &&
	       !file_open_mapped(r->pid, m, &r->fd);
}

/* fd: what its path leads to; -1: nothing. */
static int collect_file(const char *name, int fd, void *arg)
{
	struct collect *c = arg;
	struct replaced r = { .name = name, .pid = c->pid };
	struct env_library *l = &c->to->libraries[c->to->n];
	size_t i = 0;

	while (i < c->pt->n_engines && !claims(c->pt->engines[i], name))
		i++;
	if (i == c->pt->n_engines || c->to->n == ENV_LIBRARIES_MAX)
		return 0;
	l->name = strdup(name);
	if (!l->name)
		return -ENOMEM;
	c->to->n++;
	/* an upgrade may have put another one in its place */
	if (process_each_mapped(c->pid, find_replaced, &r) == 1) {
		read_build_id(r.fd, l->build_id);
		close(r.fd);
	} else {
		read_build_id(fd, l->build_id);
	}
	return 0;
}

static int open_program(pid_t pid, const char *path, char real[PATH_MAX], int *ret_fd)
{
	char link[32];
	ssize_t n;

	if (path) {
		*ret_fd = realpath(path, real) ? open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
		return *ret_fd < 0 ? -errno : 0;
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, real, PATH_MAX - 1);
	if (n < 0)
		return -errno;
	real[n] = 0;
	if (text_has_suffix(real, DELETED))
		real[(size_t)n - strlen(DELETED)] = 0;
	return file_open_exe(pid, ret_fd);
}

int env_program_read(pid_t pid, const char *path, const struct process_text *environ, const struct probe_table *pt,
	struct env_program *ret_program)
{
	struct env_program p = { .exe = "none" };
	struct collect c = { .pid = pid, .pt = pt, .to = &p };
	char real[PATH_MAX];
	int fd = -1, err;

	err = open_program(pid, path, real, &fd);
	if (err == -ENOENT && !path) /* also for a zombie or a kernel thread */
		return -ESRCH;
	if (err == -EACCES || err == -EPERM)
		return err;
	if (!err) {
		const char *slash = strrchr(real, '/');

		read_build_id(fd, p.exe);
		err = collect_file(slash ? slash + 1 : real, fd, &c);
		if (!err)
			err = needed_each(pid, real, fd, process_text_variable(environ, "LD_LIBRARY_PATH"), collect_file, &c);
		close(fd);
	}
	if (err == -ENOMEM)
		env_program_free(&p);
	else
		*ret_program = p;
	return err == -ENOMEM ? err : 0;
}

void env_program_free(struct env_program *p)
{
	while (p->n)
		free(p->libraries[--p->n].name);
}

int env_hash_process(pid_t pid, const struct probe_table *pt, char **ret_json, char hash[ENV_HASH_MAX])
{
	struct process_text environ = { 0 };
	struct env_program p;
	int err;

	if (hash)
		strcpy(hash, ENV_HASH_UNKNOWN);
	/* the environment of a process that ends is empty, but then it has no program either */
	err = process_environ(pid, &environ);
	if (!err)
		err = env_program_read(pid, NULL, &environ, pt, &p);
	if (err == -ESRCH && process_exists(pid))
		err = -EACCES; /* the kernel does not say which of the two it was */
	if (!err) {
		err = env_hash(&p, &environ, pt, ret_json, hash);
		env_program_free(&p);
	}
	process_text_free(&environ);
	return err;
}
