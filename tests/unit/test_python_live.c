// SPDX-License-Identifier: BSD-2-Clause
/*
 * Python frames of a real interpreter: a program with threads, generators, classes and a C extension on its stacks prints
 * its frames and waits; they are found and named from outside, and compared. All interpreters at hand are tried: python3,
 * the distribution's by version, and pyenv's. INFTRACE_TEST_PYTHON="COMMAND" tries only this one, such as "chroot /srv/sid
 * python3.14".
 */
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/wait.h>

#include "stack/python_name.h"
#include "target/python.h"
#include "unit.h"

#define FRAMES_MAX 64
#define THREADS_MAX 8

/* Prints for each thread "T <pthread_self>" and its frames, innermost first, as "F <name>|<file>|<line>". */
static const char script[] =
	"import functools, sys, threading\n"
	"stop, ready = threading.Lock(), threading.Lock()\n"
	"stop.acquire(); ready.acquire()\n"
	"def wait():\n"
	"    ready.release(); stop.acquire()\n"
	"class Engine:\n"
	"    class Inner:\n"
	"        @staticmethod\n"
	"        def go(): wait()\n"
	"    def run(self):\n"
	"        return (lambda: self.Inner.go())()\n"
	"def numbers():\n"
	"    yield 1\n"
	"    wait()\n"
	"    yield 2\n"
	"def generator():\n"
	"    for i in numbers():\n"
	"        pass\n"
	"def compare(a, b):\n"
	"    wait()\n"
	"    return 0\n"
	"def below_c():\n"
	"    sorted([2, 1],\n"
	"        key=functools.cmp_to_key(compare))\n"
	"def deep(n):\n"
	"    if n:\n"
	"        return deep(n - 1)\n"
	"    wait()\n"
	"def \xc3\xa4rger_\xce\xa3(): wait()\n"
	"code = compile('\\n' * 70000 + 'wait()', 'far \\U0001f40d.py', 'exec')\n"
	"for f in (Engine().run, generator, below_c, lambda: deep(20), \xc3\xa4rger_\xce\xa3, lambda: exec(code)):\n"
	"    threading.Thread(target=f, daemon=True).start()\n"
	"    ready.acquire()\n"
	"def tell():\n"
	"    for ident, f in sys._current_frames().items():\n"
	"        while f and ident == threading.get_ident() and f.f_code.co_name in ('tell', 'put'):\n"
	"            f = f.f_back\n"
	"        print('T', ident)\n"
	"        while f:\n"
	"            c = f.f_code\n"
	"            print('F', getattr(c, 'co_qualname', c.co_name) + '|' + c.co_filename + '|' + str(f.f_lineno))\n"
	"            f = f.f_back\n"
	"    print('.', flush=True)\n"
	"def main():\n"
	"    sys.stdout.reconfigure(encoding='utf-8'); tell(); sys.stdin.read()\n"
	"main()\n";

/* Prints its thread and the name of the task that waits in C code, called by a coroutine of its coroutine. */
static const char tasks_script[] =
	"import asyncio, sys, threading\n"
	"def wait():\n"
	"    print('T', threading.get_ident())\n"
	"    print('F', asyncio.current_task().get_name())\n"
	"    print('.', flush=True); sys.stdin.read()\n"
	"async def inner():\n"
	"    await asyncio.sleep(0.001)\n"
	"    list(wait() for _ in range(1))\n"
	"async def outer(): await inner()\n"
	"async def other(): await asyncio.sleep(100)\n"
	"async def main():\n"
	"    others = [asyncio.create_task(other(), name='other') for _ in range(9)]\n"
	"    await asyncio.create_task(outer(), name='\xc3\xa4rger \xce\xa3')\n"
	"sys.stdout.reconfigure(encoding='utf-8'); asyncio.run(main())\n";

struct expected {
	unsigned long self;
	unsigned int n;
	char frames[FRAMES_MAX][256];
};

struct child {
	pid_t pid;
	int in; /* it ends when this is closed */
	struct expected threads[THREADS_MAX];
	unsigned int n;
};

static void run_python(const char *command, const char *text_of, int in, int out)
{
	char text[512], *argv[16], *save = NULL;
	int n = 0;

	snprintf(text, sizeof(text), "%s", command);
	for (char *p = strtok_r(text, " ", &save); p && n < 13; p = strtok_r(NULL, " ", &save))
		argv[n++] = p;
	argv[n++] = "-c";
	argv[n++] = (char *)text_of;
	argv[n] = NULL;
	dup2(in, 0);
	dup2(out, 1);
	if (!freopen("/dev/null", "w", stderr)) /* pyenv lacks this version */
		_exit(1);
	execvp(argv[0], argv);
	_exit(127);
}

static void read_expected(struct child *c, FILE *f)
{
	struct expected *t = NULL;
	char line[512];

	while (fgets(line, sizeof(line), f) && line[0] != '.') {
		line[strcspn(line, "\n")] = 0;
		if (line[0] == 'T') {
			assert_true(c->n < THREADS_MAX);
			t = &c->threads[c->n++];
			t->self = strtoul(line + 2, NULL, 10);
			continue;
		}
		assert_non_null(t);
		assert_true(t->n < FRAMES_MAX);
		snprintf(t->frames[t->n++], sizeof(t->frames[0]), "%.255s", line + 2);
	}
}

/* Waits until the main thread, which has printed everything, is in the function it named. */
static void wait_asleep(pid_t pid)
{
	char path[64], line[512], *state = NULL;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (int i = 0; i < 60000; i++) {
		FILE *f = fopen(path, "r");

		state = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		if (f)
			fclose(f);
		if (state && !strncmp(state, ") S", 3))
			return;
		usleep(1000);
	}
	fail_msg("%s: does not wait: %s", path, state ? state : "gone");
}

static struct child *start(const char *command, const char *text_of)
{
	struct child *c = calloc(1, sizeof(*c));
	int in[2], out[2];
	FILE *f;

	assert_non_null(c);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (!c->pid)
		run_python(command, text_of, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	f = fdopen(out[0], "r");
	read_expected(c, f);
	fclose(f);
	if (c->n)
		wait_asleep(c->pid);
	return c;
}

static void end(struct child *c)
{
	close(c->in);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	free(c);
}

static struct python_names *names_of(const struct child *c, const struct python *p)
{
	struct python_names *names = python_names_new(NULL, NULL);

	python_names_set(names, (uint32_t)c->pid, p);
	return names;
}

static void compare_thread(const struct child *c, struct python_names *names, const struct expected *t)
{
	struct python_found f;
	char found[1024];

	python_names_frames(names, (uint32_t)c->pid, t->self, &f);
	assert_false(f.cut);
	for (unsigned int i = 0; i < f.n && i < t->n; i++) {
		struct python_name named;

		assert_int_equal(python_names_get(names, (uint32_t)c->pid, f.frames[i].code, f.frames[i].instr & ~PYTHON_F_ENTRY, &named), 0);
		snprintf(found, sizeof(found), "%s|%s|%u", named.name, named.file, named.line);
		assert_string_equal(found, t->frames[i]);
	}
	assert_int_equal(f.n, t->n);
}

static void compare_process(const struct child *c, const struct python *p)
{
	struct python_names_stats stats;
	struct python_names *names = names_of(c, p);
	uint64_t read;

	assert_int_equal(c->n, 7);
	for (unsigned int i = 0; i < c->n; i++)
		compare_thread(c, names, &c->threads[i]);
	python_names_stats(names, &stats);
	read = stats.read;
	for (unsigned int i = 0; i < c->n; i++) /* now they are known */
		compare_thread(c, names, &c->threads[i]);
	python_names_stats(names, &stats);
	assert_int_equal(stats.read, read);
	assert_int_equal(stats.failed, 0);
	python_names_free(names);
}

/* The task has its name, and only the frames of its coroutines and their callees are within it. */
static void compare_task(const struct child *c, const struct python *p)
{
	struct python_names *names = names_of(c, p);
	struct python_found f;
	char expected[300];

	python_names_frames(names, (uint32_t)c->pid, c->threads[0].self, &f);
	assert_true(f.has_task);
	assert_int_equal(f.task.frames, 4);
	snprintf(expected, sizeof(expected), "[task %s]", c->threads[0].frames[0]);
	assert_string_equal(python_names_task(names, (uint32_t)c->pid, &f.task), expected);
	python_names_free(names);
}

/* With its own finder state: addresses differ from process to process. */
static void try_task(struct python_finder *finder, const char *command)
{
	struct child *c = start(command, tasks_script);
	struct python p = {};

	assert_int_equal(c->n, 1);
	assert_int_equal(python_find(finder, c->pid, &p), 0);
	compare_task(c, &p);
	end(c);
}

/* Returns whether it exists and its version is known. */
static bool try_python(const char *command)
{
	struct child *c = start(command, script);
	struct python_finder *finder;
	struct python p = {};
	int err, status;

	if (!c->n) {
		close(c->in);
		waitpid(c->pid, &status, 0);
		free(c);
		assert_int_equal(WEXITSTATUS(status), 127); /* no such program, or pyenv says so */
		return false;
	}
	finder = python_finder_new();
	err = python_find(finder, c->pid, &p);
	if (!err) {
		compare_process(c, &p);
		try_task(finder, command);
	}
	python_finder_free(finder);
	/* an error is allowed for unsupported versions */
	if (err && (err != -ENOTSUP || (p.major == 3 && p.minor >= 8 && p.minor <= 14)))
		fail_msg("%s, Python %u.%u: %s", command, p.major, p.minor, strerror(-err));
	print_message("%s: Python %u.%u%s\n", command, p.major, p.minor, err ? " is not known" : "");
	end(c);
	return !err;
}

TEST(test_frames)
{
	static const char *const plain[] = { "python3", "/usr/bin/python3", "python3.8", "python3.9", "python3.10", "python3.11",
		"python3.12", "python3.13", "python3.14" };
	const char *command = getenv("INFTRACE_TEST_PYTHON"), *home = getenv("HOME");
	unsigned int tried = 0;
	char pattern[512];
	glob_t found;

	if (command) {
		assert_true(try_python(command));
		return;
	}
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		tried += try_python(plain[i]);
	snprintf(pattern, sizeof(pattern), "%s/.pyenv/versions/3.{8,9,1[0-9]}.*/bin/python3", home ? home : "");
	if (!glob(pattern, GLOB_BRACE, NULL, &found)) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			tried += try_python(found.gl_pathv[i]);
		globfree(&found);
	}
	if (!tried)
		skip();
}

TEST(test_no_python)
{
	struct python_finder *finder;
	struct python p;
	pid_t pid = fork();

	if (!pid) {
		execlp("sleep", "sleep", "60", NULL);
		_exit(127);
	}
	finder = python_finder_new();
	assert_int_equal(python_find(finder, pid, &p), -ENOENT);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(python_find(finder, pid, &p), -ESRCH);
	python_finder_free(finder);
}

RUN_TESTS(NULL, NULL)
