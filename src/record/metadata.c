// SPDX-License-Identifier: BSD-2-Clause
#include "record/metadata.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/spec.h"
#include "target/command.h"
#include "target/elf.h"
#include "target/file.h"
#include "target/process.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/fmt.h"
#include "util/json.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/text.h"
#include "util/user.h"

/* ==== the hash of the environment ==== */

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define VARIABLES_MAX 4096
#define DELETED " (deleted)"
#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* Settings of engines and runtimes. */
static const char *const variables[] = { "*_VISIBLE_DEVICES", "OMP_*", "GGML_*", "LLAMA_*",
	"VLLM_*", "FERRUM_*", "CUDA_*", "NCCL_*", "PYTORCH_*" };

/* Labels and output paths, which do not affect the speed. */
static const char *const labels[] = { "*_MODEL", "*_COMMIT_SHA", "*_CONCURRENCY", "*_JSONL", "*_OUT", "*_DIR", "FERRUM_*DEBUG",
	"VLLM_CHAKRA_*DEBUG", "*_ENV_HASH" };

static bool matches_any(const char *const *globs, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!fnmatch(globs[i], name, 0))
			return true;
	return false;
}

/* Untrusted bytes as a JSON string; what is not UTF-8 becomes U+FFFD. */
static struct json_object *env_json_string(const char *s)
{
	size_t len = strlen(s);
	char *quoted = xmalloc(FMT_JSON_STR_MAX(len) + 1);
	struct json_object *obj;

	*fmt_json_str(quoted, s, len) = '\0';
	obj = json_tokener_parse(quoted);
	free(quoted);
	return obj;
}

static const char *env_json_text(struct json_object *obj)
{
	return json_object_to_json_string_ext(obj, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static int cmp_json(const void *a, const void *b)
{
	return strcmp(env_json_text(*(struct json_object *const *)a), env_json_text(*(struct json_object *const *)b));
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

static struct json_object *libraries_json(const struct env_program *p)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < p->n; i++) {
		struct json_object *obj = json_object_new_object();

		json_object_object_add(obj, "build_id", json_object_new_string(p->libraries[i].build_id));
		json_object_object_add(obj, "name", env_json_string(p->libraries[i].name));
		json_object_array_add(array, obj);
	}
	sort_unique(array);
	return array;
}

static bool engine_claims_mapping(const struct engine *e, const char *name)
{
	return !e->runtime && matches_any((const char *const *)e->mapped, e->n_mapped, name);
}

/* The presets that claim one of the libraries. */
static struct json_object *presets_json(const struct env_program *p, const struct probe_table *presets)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; presets && i < presets->n_engines; i++) {
		const struct engine *e = presets->engines[i];
		struct json_object *obj;
		size_t k = 0;

		while (k < p->n && !engine_claims_mapping(e, p->libraries[k].name))
			k++;
		if (k == p->n)
			continue;
		obj = json_object_new_object();
		json_object_object_add(obj, "name", env_json_string(e->name));
		json_object_object_add(obj, "version", json_object_new_int64(e->version));
		json_object_array_add(array, obj);
	}
	sort_unique(array);
	return array;
}

static bool env_variable_counts(const char *name, const char *value)
{
	/* settings have no other characters in their names, and those would have to be escaped */
	return !name[strspn(name, NAME_CHARS)] && matches_any(variables, ARRAY_SIZE(variables), name) &&
	       !matches_any(labels, ARRAY_SIZE(labels), name) && !secret_name(name) && !secret_value(value) &&
	       (strcmp(name, "CUDA_INJECTION64_PATH") || !text_has_suffix(value, "/inftrace-gpu.so")); /* set by inftrace itself */
}

/* Whether "NAME=VALUE" is a setting that goes into the hash. */
static bool env_is_setting(const char *variable)
{
	size_t len = strcspn(variable, "=");
	char name[NAME_MAX + 1];

	if (!variable[len] || len > NAME_MAX)
		return false;
	memcpy(name, variable, len);
	name[len] = '\0';
	return env_variable_counts(name, variable + len + 1);
}

/* Orders by name, then by position. */
static int cmp_variable(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	size_t n = strcspn(x, "="), k = strcspn(y, "=");
	int order = memcmp(x, y, n < k ? n : k);

	if (!order && n == k)
		return (x > y) - (x < y);
	return order ? order : n < k ? -1
				     : 1;
}

/* Adds the variables that configure engines, sorted by name, without secrets. */
static void env_add_settings(const struct process_text *environ, struct json_object *obj)
{
	const char **list = xcalloc(VARIABLES_MAX, sizeof(*list));
	char name[NAME_MAX + 1] = "";
	size_t n = 0, len;

	for (const char *s = NULL; n < VARIABLES_MAX && (s = process_text_next(environ, s));) {
		if (env_is_setting(s))
			list[n++] = s;
	}
	qsort(list, n, sizeof(*list), cmp_variable);
	for (size_t i = 0; i < n; i++) {
		len = strcspn(list[i], "=");
		if (strlen(name) == len && !memcmp(name, list[i], len)) /* the first one counts, as for getenv(3) */
			continue;
		memcpy(name, list[i], len);
		name[len] = '\0';
		json_object_object_add(obj, name, env_json_string(list[i] + len + 1));
	}
	free(list);
}

/* Adds the keys in sorted order, since json-c keeps their order. */
static struct json_object *env_json(const struct env_program *p, const struct process_text *environ, const struct probe_table *presets)
{
	struct json_object *obj = json_object_new_object(), *env = json_object_new_object(), *cpu = json_object_new_object();
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct utsname uts;
	char model[256];

	uname(&uts);
	if (environ)
		env_add_settings(environ, env);
	cpu_model(model, sizeof(model));
	json_object_object_add(cpu, "count", json_object_new_int64(sysconf(_SC_NPROCESSORS_ONLN)));
	json_object_object_add(cpu, "model", env_json_string(model));
	json_object_object_add(obj, "cpu", cpu);
	json_object_object_add(obj, "env", env);
	json_object_object_add(obj, "exe", json_object_new_string(p->exe));
	json_object_object_add(obj, "kernel", json_object_new_string(uts.release));
	json_object_object_add(obj, "libraries", libraries_json(p));
	json_object_object_add(obj, "machine", json_object_new_string(uts.machine));
	/* whole MiB: what the kernel reserves at boot varies by some pages */
	json_object_object_add(obj, "memory_mib", json_object_new_int64((int64_t)(memory >> 20)));
	json_object_object_add(obj, "presets", presets_json(p, presets));
	return obj;
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
	struct json_object *obj = env_json(p, environ, presets);
	const char *json = env_json_text(obj);
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned int len = 0;
	bool ok = EVP_Digest(json, strlen(json), md, &len, EVP_sha256(), NULL) && len == 32;

	if (hash)
		strcpy(hash, ok ? "sha256:" : ENV_HASH_UNKNOWN);
	for (unsigned int i = 0; ok && hash && i < len; i++)
		sprintf(hash + strlen("sha256:") + 2 * i, "%02x", md[i]);
	if (ok && ret_json)
		*ret_json = xstrdup(json);
	json_object_put(obj);
	return ok ? 0 : -EIO;
}

/* ---- the program ---- */

struct metadata_collect {
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

/* fd: of the file at its path; -1: none. */
static int collect_file(const char *name, int fd, void *arg)
{
	struct metadata_collect *c = arg;
	struct replaced r = { .name = name, .pid = c->pid };
	struct env_library *l = &c->to->libraries[c->to->n];
	size_t i = 0;

	while (i < c->pt->n_engines && !engine_claims_mapping(c->pt->engines[i], name))
		i++;
	if (i == c->pt->n_engines || c->to->n == ENV_LIBRARIES_MAX)
		return 0;
	l->name = xstrdup(name);
	c->to->n++;
	/* an upgrade may have replaced the mapped file */
	if (process_each_mapped(c->pid, find_replaced, &r) == 1) {
		read_build_id(r.fd, l->build_id);
		close(r.fd);
	} else {
		read_build_id(fd, l->build_id);
	}
	return 0;
}

static void env_program_free(struct env_program *p)
{
	while (p->n)
		free(p->libraries[--p->n].name);
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

/* path: the program that the process will run; NULL: its current one. -ESRCH, -EACCES, -EPERM. */
static int env_program_read(pid_t pid, const char *path, const struct process_text *environ, const struct probe_table *pt,
	struct env_program *ret_program)
{
	struct metadata_collect c = { .pid = pid, .pt = pt, .to = ret_program };
	char real[PATH_MAX];
	int fd = -1, err;

	*ret_program = (struct env_program){ .exe = "none" };
	err = open_program(pid, path, real, &fd);
	if (err == -ENOENT && !path) /* also for a zombie or a kernel thread */
		return -ESRCH;
	if (err == -EACCES || err == -EPERM)
		return err;
	if (!err) {
		read_build_id(fd, ret_program->exe);
		collect_file(basename(real), fd, &c);
		needed_each(pid, real, fd, process_text_variable(environ, "LD_LIBRARY_PATH"), collect_file, &c);
		close(fd);
	}
	return 0;
}

int env_hash_process(pid_t pid, const struct probe_table *pt, char **ret_json, char hash[ENV_HASH_MAX])
{
	struct process_text environ = { 0 };
	struct env_program p;
	int err;

	if (hash)
		strcpy(hash, ENV_HASH_UNKNOWN);
	/* an exiting process has an empty environment, but no program either */
	err = process_environ(pid, &environ);
	if (!err)
		err = env_program_read(pid, NULL, &environ, pt, &p);
	if (err == -ESRCH && process_exists(pid))
		err = -EACCES; /* the kernel does not tell the two apart */
	if (!err) {
		err = env_hash(&p, &environ, pt, ret_json, hash);
		env_program_free(&p);
	}
	process_text_free(&environ);
	return err;
}

/* ---- settings from the environment ---- */

static const char *unless_blank(const char *value)
{
	return value && !text_is_blank(value, strlen(value)) ? value : NULL;
}

const char *environment_ours(const char *name)
{
	return unless_blank(getenv(name));
}

const char *environment_theirs(const struct environment *e, const char *name)
{
	return unless_blank(process_text_variable(&e->text, name));
}

static bool same_link(pid_t pid, pid_t other, const char *name)
{
	char path[64], links[2][PATH_MAX];
	ssize_t n, k;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	n = readlink(path, links[0], PATH_MAX);
	snprintf(path, sizeof(path), "/proc/%d/%s", other, name);
	k = readlink(path, links[1], PATH_MAX);
	return n > 0 && n == k && !memcmp(links[0], links[1], (size_t)n);
}

/* A process of another user must choose neither where root writes nor what it waits for. */
static bool environment_may_choose(pid_t pid)
{
	uid_t uid;

	return !process_user(pid, &uid) && (!uid || uid == user_calling()) && same_link(pid, getpid(), "ns/mnt");
}

void environment_read(pid_t pid, struct environment *ret)
{
	*ret = (struct environment){ .pid = pid };
	if (!pid || process_environ(pid, &ret->text))
		return;
	ret->may_choose = environment_may_choose(pid);
}

void environment_free(struct environment *e)
{
	process_text_free(&e->text);
	*e = (struct environment){ 0 };
}

bool environment_is_on(const char *value)
{
	static const char *const words[] = { "1", "true", "yes", "y", "on" };
	size_t len;

	value += strspn(value, " \t\n");
	len = strcspn(value, " \t\n");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i]) == len && !strncasecmp(value, words[i], len))
			return true;
	}
	return false;
}

/* The other tool's tracing is off, so its other variables do not count. */
static bool is_off(const char *name, const char *value)
{
	return !strncmp(name, "VLLM_CHAKRA_", strlen("VLLM_CHAKRA_")) && value && !environment_is_on(value);
}

bool environment_find(const struct environment *e, const char *const names[2], struct variable *ret)
{
	const char *ours = environment_ours("VLLM_CHAKRA_TRACE"), *theirs = environment_theirs(e, "VLLM_CHAKRA_TRACE");

	for (int i = 0; i < 4; i++) {
		const char *name = names[i % 2];
		struct variable v = { .name = name };

		if (is_off(name, ours) || (i > 1 && is_off(name, theirs)))
			continue;
		v.value = i < 2 ? environment_ours(name) : environment_theirs(e, name);
		v.pid = i < 2 ? 0 : e->pid;
		if (!v.value)
			continue;
		*ret = v;
		return true;
	}
	return false;
}

char *environment_path(const struct variable *v)
{
	char link[64], cwd[PATH_MAX] = "";
	ssize_t n;

	if (!v->pid || *v->value == '/')
		return xstrdup(v->value);
	snprintf(link, sizeof(link), "/proc/%d/cwd", v->pid);
	n = readlink(link, cwd, sizeof(cwd) - 1);
	cwd[n > 0 ? n : 0] = 0;
	return xasprintf("%s/%s", cwd, v->value);
}

const char *environment_whose(const struct variable *v, char buf[32])
{
	if (!v->pid)
		return "in the environment";
	snprintf(buf, 32, "of process %d", v->pid);
	return buf;
}

/* ---- the command line ---- */

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,+@%"

struct metadata_line {
	char *text;
	size_t len;
	bool cut;
};

static void line_append(struct metadata_line *l, const char *s, size_t n)
{
	l->cut |= l->len + n > COMMAND_LINE_MAX - sizeof(" ...");
	if (l->cut)
		return;
	memcpy(l->text + l->len, s, n);
	l->len += n;
}

static void put_word(struct metadata_line *l, const char *word)
{
	bool plain = *word && !word[strspn(word, PLAIN)];
	size_t before = l->len;

	if (l->len)
		line_append(l, " ", 1);
	if (!plain)
		line_append(l, "'", 1);
	for (const char *p = word; *p && !l->cut; p++)
		line_append(l, *p == '\'' ? "'\\''" : p, *p == '\'' ? 4 : 1);
	if (!plain)
		line_append(l, "'", 1);
	if (l->cut) /* no partial words */
		l->len = before;
}

const char *command_line_text(char *const argv[], char *const *command, char text[COMMAND_LINE_MAX])
{
	struct metadata_line l = { .text = text };
	const char *option = "";

	/* argv[0] is "inftrace record", or the path that the shell found */
	line_append(&l, "inftrace", strlen("inftrace"));
	if (!strncmp(argv[0], "inftrace ", strlen("inftrace ")))
		put_word(&l, argv[0] + strlen("inftrace "));
	for (char *const *arg = argv + 1; *arg && arg != command && !l.cut; arg++) {
		const char *equals = **arg == '-' ? strchr(*arg, '=') : NULL, *value = equals ? equals + 1 : *arg;

		if (**arg == '-')
			option = *arg;
		if (!strcmp(*arg, "--"))
			continue;
		/* the place of a function looks like a URL with a user: LIB:SYMBOL@ROLE */
		if (!strncmp(option, "-u", 2) || !strncmp(option, "--uprobe", 8) || !secret_value(value)) {
			put_word(&l, *arg);
			continue;
		}
		line_append(&l, " ", 1);
		line_append(&l, *arg, (size_t)(value - *arg));
		line_append(&l, "***", 3);
	}
	if (command) {
		put_word(&l, "--");
		put_word(&l, *command);
		if (command[1])
			line_append(&l, " ...", 4);
	}
	if (l.cut) {
		memcpy(text + l.len, " ...", 4);
		l.len += 4;
	}
	text[l.len] = 0;
	return text;
}

/* ---- metadata of processes ---- */

#define PROCESSES_MAX 1024          /* the least recently used one is replaced */
#define THEIRS_MAX 256              /* bytes of a value chosen by a process */
#define THEIR_FLAGS_MAX (16u << 10) /* of its runtime flags */
#define FLAGS_MAX 1024              /* bytes of its settings, which are in every line */
#define KEPT_MAX (64u << 10)        /* bytes of its environment */
#define WARNINGS_MAX 16
#define PARENTS_MAX 4
#define AGAIN_NS UINT64_C(1000000000) /* what is not known yet is looked up again after this time */

struct metadata_process {
	uint32_t tgid;
	uint64_t used; /* counter of uses */
	/* at its beginning */
	bool read, will_exec;
	bool may_choose;                      /* see environment_may_choose() */
	struct process_text environ, cmdline; /* only what matters of the environment */
	struct process_text service;          /* command line of the ancestor that started it, if it is the same program */
	struct env_program program;
	/* for its lines */
	bool made, complete;
	uint64_t made_ns;
	char *commit_sha, *model, *flags; /* owned, for meta, where no model is "unknown" */
	char hash[ENV_HASH_MAX];
	struct profile_meta meta;
};

struct metadata {
	const struct record_options *o;
	const struct probe_table *probes;
	struct metadata_process *list[PROCESSES_MAX];
	size_t n;
	uint64_t uses;
	uint32_t only; /* the only target; 0: none, or there are others */
	unsigned int warnings;
	char *hash; /* from our environment; NULL: not given */
};

static const char *const commit_names[] = { "INFTRACE_COMMIT_SHA", "FERRUM_PROFILE_COMMIT_SHA" };
static const char *const model_names[] = { "INFTRACE_MODEL", "FERRUM_PROFILE_MODEL" };
static const char *const hash_names[] = { "INFTRACE_ENV_HASH", "FERRUM_PROFILE_ENV_HASH" };
static const char *const flags_names[] = { "INFTRACE_RUNTIME_FLAGS_JSON", "FERRUM_PROFILE_RUNTIME_FLAGS_JSON" };
static const char *const concurrency_names[] = { "INFTRACE_CONCURRENCY", "FERRUM_PROFILE_CONCURRENCY" };

/* Targets may come and go all day, each with something to warn about. */
static bool metadata_may_warn(struct metadata *m)
{
	return m->warnings++ < WARNINGS_MAX;
}

/* The value of the first name that is set, in our environment, then in the environment of the process. */
static const char *metadata_find_variable(struct metadata *m, const struct metadata_process *p, const char *const names[2], bool *ret_theirs)
{
	size_t max = names == flags_names ? THEIR_FLAGS_MAX : THEIRS_MAX;

	*ret_theirs = false;
	for (int i = 0; i < 2; i++) {
		if (environment_ours(names[i]))
			return environment_ours(names[i]);
	}
	*ret_theirs = true;
	for (int i = 0; i < 2 && p; i++) {
		const char *value = unless_blank(process_text_variable(&p->environ, names[i]));

		if (value && strlen(value) <= max)
			return value;
		if (value && metadata_may_warn(m))
			log_warn("%s of process %u is longer than %zu bytes and is left out", names[i], p->tgid, max);
	}
	return NULL;
}

static char *metadata_get_text(struct metadata *m, const struct metadata_process *p, const char *option, const char *const names[2])
{
	bool theirs;
	const char *value = option ? option : metadata_find_variable(m, p, names, &theirs);

	return value ? xstrdup(value) : NULL;
}

/* json-c accepts what is not JSON, and changes large numbers. */
bool metadata_flags_ok(const char *text)
{
	struct json_nodes nodes = { 0 };
	char *copy = xstrdup(text);
	struct json_scan scan;
	size_t used = 0;
	int ret;

	json_scan_init(&scan, &nodes);
	ret = json_scan_feed(&scan, (const unsigned char *)copy, strlen(copy), &used) ?: json_scan_end(&scan);
	if (ret == 1 && copy[used + strspn(copy + used, " \t\r\n")])
		ret = -EBADMSG;
	if (ret == 1)
		ret = json_nodes_finish(&nodes, copy) ?: nodes.list->kind == JSON_OBJECT;
	json_nodes_free(&nodes);
	free(copy);
	return ret == 1;
}

/* Returns the text of an object on one line; malloc()ed. */
static char *json_on_one_line(const char *text)
{
	char *line = xmalloc(strlen(text) + 1), *p = line;
	bool in_string = false;

	for (; *text; text++) {
		if (!in_string && strchr(" \t\r\n", *text))
			continue;
		*p++ = *text;
		if (in_string && *text == '\\')
			*p++ = *++text;
		else if (*text == '"')
			in_string = !in_string;
	}
	*p = 0;
	return line;
}

/* The settings on its command line and in its environment, as many as fit. */
static char *process_settings_json(const struct metadata_process *p)
{
	struct json_object *all = json_object_new_object(), *few = json_object_new_object();
	size_t bytes = 0, left_out = 0;
	char *text;

	if (p) {
		model_add_options(&p->cmdline, all);
		env_add_settings(&p->environ, all);
	}
	json_object_object_foreach(all, key, value)
	{
		size_t n = strlen(key) + strlen(json_object_to_json_string(value)) + 4;

		if (bytes + n > FLAGS_MAX) {
			left_out++;
			continue;
		}
		bytes += n;
		json_object_object_add(few, key, json_object_get(value));
	}
	if (left_out)
		json_object_object_add(few, "left_out", json_object_new_int64((int64_t)left_out));
	text = xstrdup(env_json_text(few));
	json_object_put(all);
	json_object_put(few);
	return text;
}

static char *process_flags_json(struct metadata *m, const struct metadata_process *p)
{
	bool theirs = false;
	const char *text = m->o->runtime_flags ? m->o->runtime_flags : metadata_find_variable(m, p, flags_names, &theirs);
	bool ok = text && metadata_flags_ok(text);

	if (text && !ok && metadata_may_warn(m))
		log_warn("the runtime flags%s are not a JSON object and are left out", theirs ? " of a process" : "");
	return ok ? json_on_one_line(text) : process_settings_json(p);
}

/* Returns 0 if unknown. *ret_configured: it is a setting of the process. */
static uint32_t process_concurrency(struct metadata *m, const struct metadata_process *p, bool *ret_configured)
{
	uint32_t n = m->o->concurrency;
	const char *text, *slots;
	bool theirs;

	*ret_configured = false;
	text = n ? NULL : metadata_find_variable(m, p, concurrency_names, &theirs);
	if (text && (parse_u32(text, &n) || !n)) {
		n = 0;
		if (metadata_may_warn(m))
			log_warn("the concurrency%s is not a number above 0 and is left out", theirs ? " of a process" : "");
	}
	if (n || !p)
		return n;
	*ret_configured = true;
	n = model_concurrency(&p->cmdline);
	slots = n ? NULL : process_text_variable(&p->environ, "LLAMA_ARG_N_PARALLEL");
	if (slots && parse_u32(slots, &n))
		n = 0;
	return n ? n : model_concurrency(&p->service);
}

static char *process_model_name(struct metadata *m, const struct metadata_process *p, bool alive)
{
	char name[MODEL_NAME_MAX], *model = metadata_get_text(m, p, m->o->model, model_names);

	if (model || !p)
		return model;
	/* the command line comes first: files are known only while it lives, and the name must not change */
	if (!model_of_cmdline(&p->cmdline, name) || (alive && !model_of_files((pid_t)p->tgid, name)) ||
		!model_of_cmdline(&p->service, name))
		return xstrdup(name);
	return NULL;
}

/* ---- the hash ---- */

static void make_hash(struct metadata *m, struct metadata_process *p)
{
	bool theirs = false;
	const char *given = m->hash ? NULL : metadata_find_variable(m, p, hash_names, &theirs);
	/* the hash says where numbers come from: another user's process must not set it */
	bool counts = given && theirs && p->may_choose, ok = counts && env_hash_ok(given);

	strcpy(p->hash, ENV_HASH_UNKNOWN);
	if (ok)
		snprintf(p->hash, sizeof(p->hash), "sha256:%.64s", given + (strncmp(given, "sha256:", 7) ? 0 : 7));
	else if (p->read && !m->hash)
		env_hash(&p->program, &p->environ, m->probes, NULL, p->hash);
	if (counts && !ok && metadata_may_warn(m))
		log_warn("the hash in the environment of process %u is not one of 64 digits and is left out", p->tgid);
}

/* ---- processes ---- */

static void process_clear_made(struct metadata_process *p)
{
	free(p->commit_sha);
	free(p->model);
	free(p->flags);
	p->commit_sha = p->model = p->flags = NULL;
	p->made = p->complete = false;
}

static void process_clear(struct metadata_process *p)
{
	process_clear_made(p);
	process_text_free(&p->environ);
	process_text_free(&p->cmdline);
	process_text_free(&p->service);
	env_program_free(&p->program);
	p->read = p->will_exec = p->may_choose = false;
}

static struct metadata_process *metadata_get_process(struct metadata *m, uint32_t tgid)
{
	struct metadata_process *p = NULL, *oldest = NULL;

	for (size_t i = 0; i < m->n && !p; i++) {
		if (m->list[i]->tgid == tgid)
			p = m->list[i];
		if (!oldest || m->list[i]->used < oldest->used)
			oldest = m->list[i];
	}
	if (!p && m->n < PROCESSES_MAX) {
		p = m->list[m->n++] = xcalloc(1, sizeof(*p));
	} else if (!p) {
		p = oldest;
		process_clear(p);
	}
	p->tgid = tgid;
	p->used = ++m->uses;
	return p;
}

/* Keeps the variables that are used later, and drops the others. */
static void env_keep_used_variables(struct process_text *t)
{
	size_t len = 0;

	for (const char *s = process_text_next(t, NULL), *next; s; s = next) {
		bool meta = !strncmp(s, "INFTRACE_", 9) || !strncmp(s, "FERRUM_PROFILE_", 15);
		size_t n = strlen(s);

		next = process_text_next(t, s);
		if (meta && n > THEIR_FLAGS_MAX + 64)
			n = THEIR_FLAGS_MAX + 64; /* still too long, and reported as such */
		if ((!meta && !env_is_setting(s) && strncmp(s, "LD_LIBRARY_PATH=", 16)) || len + n + 1 > KEPT_MAX)
			continue;
		memmove(t->data + len, s, n);
		t->data[len + n] = 0;
		len += n + 1;
	}
	t->len = len;
	if (t->data) {
		t->data = xreallocarray(t->data, len + 1, 1);
		t->data[len] = 0;
	}
}

/* Reads the command line of the server: its workers have lost it, or have one of their own. */
static void read_service(pid_t pid, struct process_text *ret)
{
	pid_t parent = pid;

	*ret = (struct process_text){ 0 };
	for (int i = 0; i < PARENTS_MAX && !process_parent(parent, &parent) && parent; i++) {
		struct process_text text;

		if (!same_link(pid, parent, "exe") || process_cmdline(parent, &text))
			return;
		process_text_free(ret);
		*ret = text;
	}
}

/* Reads everything at once: later the process may have changed some of it, or be gone. */
static bool read_process(const struct metadata *m, struct metadata_process *p, pid_t pid)
{
	struct process_text env = { 0 }, cmdline = { 0 };
	struct env_program program;

	/* the program last: the texts of an exiting process are empty, but this fails then */
	if (process_environ(pid, &env) || process_cmdline(pid, &cmdline) ||
		env_program_read(pid, NULL, &env, m->probes, &program)) {
		process_text_free(&env);
		process_text_free(&cmdline);
		return false;
	}
	process_clear(p);
	env_keep_used_variables(&env);
	p->environ = env;
	p->cmdline = cmdline;
	p->program = program;
	p->may_choose = environment_may_choose(pid);
	read_service(pid, &p->service);
	return p->read = true;
}

void metadata_process(struct metadata *m, pid_t pid)
{
	struct metadata_process *p;

	if (!m)
		return;
	p = metadata_get_process(m, (uint32_t)pid);
	/* our COMMAND is known already; if another process is gone, what is known is of its previous program */
	if (!p->will_exec && !read_process(m, p, pid))
		process_clear(p);
	p->will_exec = false;
}

/* Joins strings with NULs, as in /proc. */
static void strings_join(char *const *strings, struct process_text *ret)
{
	size_t len = 0, at = 0;

	*ret = (struct process_text){ 0 };
	for (size_t i = 0; strings[i]; i++)
		len += strlen(strings[i]) + 1;
	ret->data = xmalloc(len + 1);
	for (size_t i = 0; strings[i]; i++)
		at += (size_t)sprintf(ret->data + at, "%s", strings[i]) + 1;
	ret->data[ret->len = len] = 0;
}

void metadata_command(struct metadata *m, pid_t pid, char **argv)
{
	char path[PATH_MAX];
	struct metadata_process *p;

	if (!m)
		return;
	p = metadata_get_process(m, (uint32_t)pid);
	process_clear(p);
	m->only = (uint32_t)pid;
	strings_join(environ, &p->environ);
	env_keep_used_variables(&p->environ);
	strings_join(argv, &p->cmdline);
	p->may_choose = true;
	p->read = p->will_exec = !command_program(argv[0], path) && !env_program_read(pid, path, &p->environ, m->probes, &p->program);
}

/* ---- lines ---- */

static void process_make_meta(struct metadata *m, struct metadata_process *p)
{
	bool alive = p->tgid && process_exists((pid_t)p->tgid), configured;
	uint32_t concurrency;

	if (!alive && p->made) { /* there is nothing more to learn */
		p->complete = true;
		p->meta.incomplete = false;
		return;
	}
	if (alive && !p->read)
		read_process(m, p, (pid_t)p->tgid);
	process_clear_made(p);
	p->commit_sha = metadata_get_text(m, p, m->o->commit_sha, commit_names);
	p->model = process_model_name(m, p, alive);
	p->flags = process_flags_json(m, p);
	concurrency = process_concurrency(m, p, &configured);
	make_hash(m, p);
	p->made = true;
	p->made_ns = clock_mono_ns();
	p->complete = !alive || p->model;
	p->meta = (struct profile_meta){
		.commit_sha = p->commit_sha,
		.model = p->model ? p->model : "unknown",
		.concurrency = concurrency,
		.configured = configured,
		.runtime_flags = p->flags,
		.env_hash = m->hash ? m->hash : p->hash,
		.incomplete = !p->complete,
	};
}

const struct profile_meta *metadata_of(void *arg, uint32_t tgid)
{
	struct metadata *m = arg;
	struct metadata_process *p = metadata_get_process(m, tgid ? tgid : m->only);

	if (!p->made || (!p->complete && clock_mono_ns() - p->made_ns >= AGAIN_NS))
		process_make_meta(m, p);
	return &p->meta;
}

struct metadata *metadata_new(const struct record_options *o, const struct probe_table *probes)
{
	struct metadata *m = xcalloc(1, sizeof(*m));

	m->o = o;
	m->probes = probes;
	m->only = o->n_pids == 1 ? (uint32_t)o->pids[0] : 0;
	for (int i = 0; i < 2 && !m->hash; i++) { /* like the other tool, accepts any name after "sha256:" */
		const char *value = environment_ours(hash_names[i]);
		bool named = value && !strncmp(value, "sha256:", 7) && value[7];

		if (value && !named && !env_hash_ok(value))
			log_warn("%s in the environment is left out: it is neither sha256:NAME nor 64 hexadecimal digits", hash_names[i]);
		else if (value)
			m->hash = xasprintf("%s%s", named ? "" : "sha256:", value);
	}
	return m;
}

void metadata_free(struct metadata *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++) {
		process_clear(m->list[i]);
		free(m->list[i]);
	}
	free(m->hash);
	free(m);
}
