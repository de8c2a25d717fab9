// SPDX-License-Identifier: BSD-2-Clause
/* env_hash, on real processes that the tests start with chosen environments. */
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "engine/spec.h"
#include "record/metadata.h"
#include "target/file.h"
#include "util/alloc.h"
#include "unit.h"

/* A process with this environment: cat, which is past the dynamic linker once it has echoed. */
static pid_t start(char *const env[])
{
	char *const argv[] = { "cat", NULL };
	int to[2], from[2];
	char byte = 'x';
	pid_t pid;

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		/* the write end of its own input must stay open, or it would end before stop() */
		if (dup(to[1]) >= 0)
			execve("/bin/cat", argv, env);
		_exit(127);
	}
	assert_true(pid > 0);
	close(to[0]);
	close(from[1]);
	assert_int_equal(write(to[1], &byte, 1), 1);
	assert_int_equal(read(from[0], &byte, 1), 1);
	close(to[1]);
	close(from[0]);
	return pid;
}

static void stop(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static struct json_object *get(struct json_object *obj, const char *key)
{
	struct json_object *value;

	assert_true(json_object_object_get_ex(obj, key, &value));
	return value;
}

static const char *get_string(struct json_object *obj, const char *key)
{
	return json_object_get_string(get(obj, key));
}

/* The result of env_hash_process() for a process with this environment; the caller frees json. */
static void hash_with(char *const env[], char **json, char hash[ENV_HASH_MAX])
{
	struct probe_table none = { 0 };
	pid_t pid = start(env);
	int err = env_hash_process(pid, &none, json, hash);

	stop(pid);
	assert_int_equal(err, 0);
}

/* The JSON of such a process, and its text, which the caller frees. */
static struct json_object *json_with(char *const env[], char **text)
{
	struct json_object *obj;

	hash_with(env, text, NULL);
	obj = json_tokener_parse(*text);
	assert_non_null(obj);
	return obj;
}

/* Whether the hashes of two such processes are the same. */
static bool are_same(char *const env[], char *const other[])
{
	char a[ENV_HASH_MAX], b[ENV_HASH_MAX];

	hash_with(env, NULL, a);
	hash_with(other, NULL, b);
	return !strcmp(a, b);
}

TEST(test_variables)
{
	char *const env[] = { "OMP_NUM_THREADS=8", "HOME=/root", "CUDA_VISIBLE_DEVICES=0,1",
		"ROCR_VISIBLE_DEVICES=", "XOMP_A=1", "OMP_NUM_THREADS=9", "VLLM_API_KEY=hush",
		"LLAMA_ARG_HF_TOKEN=hush", "GGML_PATH=a=b\"\\\n\xff", "OMP_\x1b[=1", "NCCL_DEBUG",
		"omp_num_threads=3", "VLLM_DB_PASS=hush", "NCCL_AUTH=hush", "CUDA_CREDENTIALS=hush",
		"VLLM_PROXY=http://me:hush@proxy:80", NULL };
	struct json_object *obj, *vars;
	char *json;

	obj = json_with(env, &json);
	assert_null(strstr(json, "hush"));
	vars = get(obj, "env");
	assert_int_equal(json_object_object_length(vars), 4);
	assert_string_equal(get_string(vars, "OMP_NUM_THREADS"), "8"); /* the first one, as with getenv */
	assert_string_equal(get_string(vars, "CUDA_VISIBLE_DEVICES"), "0,1");
	assert_string_equal(get_string(vars, "ROCR_VISIBLE_DEVICES"), "");
	assert_string_equal(get_string(vars, "GGML_PATH"), "a=b\"\\\n\xef\xbf\xbd");
	json_object_put(obj);
	free(json);
}

TEST(test_system)
{
	char *const env[] = { NULL };
	struct json_object *obj, *cpu;
	struct utsname uts;
	char *json;

	assert_int_equal(uname(&uts), 0);
	obj = json_with(env, &json);
	assert_string_equal(get_string(obj, "kernel"), uts.release);
	assert_string_equal(get_string(obj, "machine"), uts.machine);
	cpu = get(obj, "cpu");
	assert_int_equal(json_object_get_int64(get(cpu, "count")), sysconf(_SC_NPROCESSORS_ONLN));
	assert_true(strlen(get_string(cpu, "model")) > 0);
	assert_true(json_object_get_int64(get(obj, "memory_mib")) > 0);
	json_object_put(obj);
	free(json);
}

/* Keys ascend at every level. */
static void check_sorted(struct json_object *obj)
{
	const char *last = "";

	if (json_object_is_type(obj, json_type_array))
		for (size_t i = 0; i < json_object_array_length(obj); i++)
			check_sorted(json_object_array_get_idx(obj, i));
	if (!json_object_is_type(obj, json_type_object))
		return;
	json_object_object_foreach(obj, key, value)
	{
		assert_true(strcmp(last, key) < 0);
		last = key;
		check_sorted(value);
	}
}

/* The hash as anyone can compute it from the JSON. */
TEST(test_canonical)
{
	char *const env[] = { "VLLM_B=2 3", "VLLM_A=1", "CUDA_C=/x/y", NULL };
	struct json_object *obj;
	char hash[ENV_HASH_MAX], *json, path[] = "/tmp/inftrace-env-XXXXXX", cmd[128], sum[65];
	FILE *pipe;
	int fd;

	hash_with(env, &json, hash);
	obj = json_tokener_parse(json);
	check_sorted(obj);
	assert_string_equal(json, json_object_to_json_string_ext(obj,
					  JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(obj);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, json, strlen(json)), strlen(json));
	close(fd);
	snprintf(cmd, sizeof(cmd), "sha256sum %s", path);
	pipe = popen(cmd, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%64s", sum), 1);
	assert_int_equal(pclose(pipe), 0);
	unlink(path);
	assert_memory_equal(hash, "sha256:", 7);
	assert_string_equal(hash + 7, sum);
	free(json);
}

TEST(test_equal_and_not)
{
	char *const one[] = { "OMP_NUM_THREADS=4", "GGML_X=1", "PATH=/bin", NULL };
	char *const reordered[] = { "GGML_X=1", "LANG=C", "OMP_NUM_THREADS=4", NULL };
	char *const changed[] = { "GGML_X=1", "OMP_NUM_THREADS=5", NULL };
	char *const fewer[] = { "OMP_NUM_THREADS=4", NULL };

	assert_true(are_same(one, reordered));
	assert_false(are_same(one, changed));
	assert_false(are_same(one, fewer));
}

TEST(test_libraries)
{
	struct env_program program = { .exe = "none", .n = 4, .libraries = { { "z.so", "5e1f" }, { "a.so", "77" }, { "gone.so", "none" }, { "z.so", "5e1f" } } };
	char *z[] = { "z*" }, *others[] = { "x*", "gone.so" }, *none[] = { "b*" };
	struct engine llama = { .name = "llama.cpp", .version = 2, .mapped = z, .n_mapped = 1 };
	struct engine cuda = { .name = "cuda", .version = 1, .mapped = others, .n_mapped = 2 };
	struct engine absent = { .name = "absent", .version = 1, .mapped = none, .n_mapped = 1 };
	struct engine *engines[] = { &llama, &cuda, &absent };
	const struct probe_table presets = { .engines = engines, .n_engines = 3 };
	char hash[ENV_HASH_MAX], again[ENV_HASH_MAX], *json;
	struct env_library swap;
	struct json_object *obj;

	assert_int_equal(env_hash(&program, NULL, &presets, &json, hash), 0);
	obj = json_tokener_parse(json);
	assert_string_equal(json_object_to_json_string_ext(get(obj, "libraries"), JSON_C_TO_STRING_PLAIN),
		"[{\"build_id\":\"5e1f\",\"name\":\"z.so\"},{\"build_id\":\"77\",\"name\":\"a.so\"},"
		"{\"build_id\":\"none\",\"name\":\"gone.so\"}]");
	assert_string_equal(json_object_to_json_string_ext(get(obj, "presets"), JSON_C_TO_STRING_PLAIN),
		"[{\"name\":\"cuda\",\"version\":1},{\"name\":\"llama.cpp\",\"version\":2}]");
	json_object_put(obj);
	free(json);

	swap = program.libraries[0];
	program.libraries[0] = program.libraries[2];
	program.libraries[2] = swap;
	program.n = 3;
	assert_int_equal(env_hash(&program, NULL, &presets, NULL, again), 0);
	assert_string_equal(hash, again);
	strcpy(program.libraries[2].build_id, "none");
	assert_int_equal(env_hash(&program, NULL, &presets, NULL, again), 0);
	assert_string_not_equal(hash, again);
}

/* Labels and output paths of tools are no settings. */
TEST(test_labels)
{
	char *const plain[] = { "FERRUM_ATTENTION=1", "GGML_SCHED_DEBUG=1", NULL };
	char *const labelled[] = { "FERRUM_ATTENTION=1", "GGML_SCHED_DEBUG=1", "FERRUM_PROFILE_MODEL=m", "FERRUM_PROFILE_COMMIT_SHA=1",
		"FERRUM_PROFILE_CONCURRENCY=4", "FERRUM_PROFILE_JSONL=/x", "FERRUM_TRACE_OUT=/y", "VLLM_CHAKRA_TRACE_DIR=/z", "VLLM_CHAKRA_DEBUG=1",
		NULL };

	assert_true(are_same(plain, labelled));
}

struct loaded {
	const char *names[64];
	ino_t inodes[64];
	size_t n, found;
};

static int note_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct loaded *l = arg;
	struct stat st;

	/* not the program, [vdso], or what valgrind adds */
	if (l->n == 64 || *info->dlpi_name != '/' || strstr(info->dlpi_name, "/vgpreload_") || stat(info->dlpi_name, &st))
		return 0;
	l->names[l->n] = strrchr(info->dlpi_name, '/') + 1;
	l->inodes[l->n++] = st.st_ino;
	return 0;
}

static int check_needed(const char *name, int fd, void *arg)
{
	struct loaded *l = arg;
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->names[i], name))
			continue;
		assert_int_equal(l->inodes[i], st.st_ino);
		l->found++;
	}
	return 0;
}

/* The loader that started this program is the oracle; it passes over libraries for another machine. */
TEST(test_needed)
{
	char exe[PATH_MAX], dir[] = "/tmp/neededXXXXXX", *foreign, *paths;
	int fd = open("/proc/self/exe", O_RDONLY), foreign_fd;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	struct loaded l = { 0 };
	Elf64_Ehdr eh;

	assert_true(fd >= 0 && n > 0);
	exe[n] = 0;
	dl_iterate_phdr(note_loaded, &l);
	assert_true(l.n > 3 && elf_header_read(fd, &eh));
	eh.e_machine = EM_S390;
	foreign = xasprintf("%s/%s", mkdtemp(dir), l.names[0]);
	foreign_fd = open(foreign, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_int_equal(write(foreign_fd, &eh, sizeof(eh)), sizeof(eh));
	close(foreign_fd);
	paths = xasprintf("%s:%s", dir, getenv("LD_LIBRARY_PATH") ?: "");
	assert_int_equal(needed_each(getpid(), exe, fd, paths, check_needed, &l), 0);
	assert_int_equal(l.found, l.n);
	unlink(foreign);
	rmdir(dir);
	free(paths);
	free(foreign);
	close(fd);
}

TEST(test_process)
{
	char *const env[] = { "OMP_PLACES=cores", NULL };
	char *libc_globs[] = { "nothing*", "libc.so*", "libc-*.so" }, *other_globs[] = { "libxyz*" };
	struct engine match = { .name = "matching", .version = 7, .mapped = libc_globs, .n_mapped = 3 };
	struct engine other = { .name = "other", .version = 1, .mapped = other_globs, .n_mapped = 1 };
	struct engine *engines[] = { &other, &match };
	struct probe_table pt = { .engines = engines, .n_engines = 2 };
	char hash[ENV_HASH_MAX], *json;
	struct json_object *obj;
	pid_t pid = start(env);
	int err;

	err = env_hash_process(pid, &pt, &json, hash);
	stop(pid);
	assert_int_equal(err, 0);
	obj = json_tokener_parse(json);
	assert_int_equal(json_object_array_length(get(obj, "libraries")), 1);
	assert_string_equal(json_object_to_json_string_ext(get(obj, "presets"), JSON_C_TO_STRING_PLAIN), "[{\"name\":\"matching\",\"version\":7}]");
	assert_string_not_equal(get_string(obj, "exe"), "");
	json_object_put(obj);
	free(json);

	/* gone, reaped */
	json = NULL;
	assert_int_equal(env_hash_process(pid, &pt, &json, hash), -ESRCH);
	assert_string_equal(hash, ENV_HASH_UNKNOWN);
	assert_null(json);
}

TEST(test_zombie)
{
	struct probe_table none = { 0 };
	char hash[ENV_HASH_MAX];
	siginfo_t info;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(env_hash_process(pid, &none, NULL, hash), -ESRCH);
	assert_string_equal(hash, ENV_HASH_UNKNOWN);
	waitpid(pid, NULL, 0);
}

TEST(test_hash_ok)
{
	char text[] = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF";

	assert_true(env_hash_ok(text) && env_hash_ok(text + 7));
	assert_false(env_hash_ok(text + 8) || env_hash_ok("sha256:given") || env_hash_ok("sha256:unknown") || env_hash_ok(""));
	text[20] = 'x';
	assert_false(env_hash_ok(text));
}

RUN_TESTS(NULL, NULL)
