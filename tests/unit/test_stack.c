// SPDX-License-Identifier: BSD-2-Clause
/* From a thread's registers and copied stack to its function names, with children that run this program. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "stack/python_name.h"
#include "stack/stack.h"
#include "stack_sample.h"

#define PLAIN __attribute__((noinline, optimize("omit-frame-pointer", "no-optimize-sibling-calls")))

static int ready = -1;

/* Waits for ever. */
PLAIN static int inner_wait(int n)
{
	char byte = (char)n;
	pid_t tid = (pid_t)syscall(SYS_gettid);

	if (write(ready, &tid, sizeof(tid)) != sizeof(tid))
		_exit(1);
	while (ready >= 0)
		byte += (char)pause();
	return byte;
}

PLAIN static int middle_wait(int n)
{
	volatile char buf[300];

	buf[0] = (char)inner_wait(n);
	return buf[0] + n;
}

/* A frame of variable size, with a realigned stack. */
PLAIN static int outer_wait(int n)
{
	volatile char buf[n] __attribute__((aligned(64)));

	buf[0] = (char)middle_wait(n);
	return buf[0] + n;
}

PLAIN static int compare_wait(const void *a, const void *b)
{
	return outer_wait(17) + (a < b);
}

PLAIN static void run_plain(void)
{
	outer_wait(100);
}

PLAIN static void run_through_library(void)
{
	int some[2] = { 1, 0 };

	qsort(some, 2, sizeof(some[0]), compare_wait);
}

PLAIN static void *thread_wait(void *arg)
{
	outer_wait(5);
	return arg;
}

PLAIN static void run_thread(void)
{
	pthread_t t;

	if (!pthread_create(&t, NULL, thread_wait, NULL))
		pthread_join(t, NULL);
}

PLAIN static void on_signal(int sig)
{
	outer_wait(sig);
}

PLAIN static void run_signal(void)
{
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
}

/* Stands for the interpreter: its function for Python frames calls an extension, which calls it again. */
int _PyEval_EvalFrameDefault(int n);

PLAIN static int extension(int n)
{
	return _PyEval_EvalFrameDefault(n - 1) + 1;
}

PLAIN int _PyEval_EvalFrameDefault(int n)
{
	return (n ? extension(n) : outer_wait(3)) + 1;
}

PLAIN static void run_python(void)
{
	_PyEval_EvalFrameDefault(1);
}

/* Of the running test: a child, a sample of it, and the reader of its files. */
static struct {
	pid_t pid, tid;
	struct rec_sample *r;
	size_t size;
	struct stacks *s;
} t;

static void start(void (*run)(void), const struct stacks_config *config)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	t.pid = fork();
	assert_true(t.pid >= 0);
	if (!t.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ready = fds[1];
		run();
		_exit(1);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &t.tid, sizeof(t.tid)), sizeof(t.tid));
	close(fds[0]);
	t.r = sample_take(t.pid, t.tid, &t.size);
	assert_non_null(t.r);
	if (!t.s)
		assert_int_equal(stacks_new(config, &t.s), 0);
}

static void end_child(void)
{
	kill(t.pid, SIGKILL);
	while (waitpid(t.pid, NULL, 0) < 0)
		assert_int_equal(errno, EINTR);
	free(t.r);
	t.r = NULL;
}

static int tear_down(void **state)
{
	if (t.r)
		end_child();
	stacks_free(t.s);
	t.s = NULL;
	return 0;
}

static struct stacks_stats stats(void)
{
	struct stacks_stats st;

	stacks_stats(t.s, &st);
	return st;
}

static void print_stack(uint32_t id)
{
	const uint32_t *frames;
	unsigned int n = stacks_get(t.s, id, &frames);

	for (unsigned int i = 0; i < n; i++) {
		const struct frame *f = stacks_frame(t.s, frames[i]);

		print_message("# %2u %s [%s] %lx kind %d\n", i, f->name, f->file ? f->file : "", (unsigned long)f->rel_pc, f->kind);
	}
}

/* The stack has these functions in this order, with others between them. */
static void assert_frames(uint32_t id, const char *const *names)
{
	const uint32_t *frames;
	unsigned int n = stacks_get(t.s, id, &frames), found = 0;

	for (unsigned int i = 0; i < n && names[found]; i++)
		found += !strcmp(stacks_frame(t.s, frames[i])->name, names[found]);
	if (!names[found])
		return;
	print_stack(id);
	fail_msg("%s is missing", names[found]);
}

/* The sample with kernel and Python frames before it, and this many bytes of stack. */
static uint32_t take_with(const uint64_t *kernel, uint16_t n_kernel, const struct python_frame *python, uint16_t n_python,
	const struct python_task *task, uint32_t stack_bytes)
{
	size_t size = REC_SAMPLE_SIZE(n_kernel, n_python, stack_bytes) + (task ? sizeof(*task) : 0);
	struct rec_sample *r = calloc(1, size);
	char *at = (char *)(r + 1);
	uint32_t id;

	assert_non_null(r);
	*r = *t.r;
	r->kernel_n = n_kernel;
	r->python_n = n_python;
	r->task = task != NULL;
	r->stack_bytes = stack_bytes;
	if (kernel)
		at = mempcpy(at, kernel, n_kernel * sizeof(*kernel));
	if (python)
		at = mempcpy(at, python, n_python * sizeof(*python));
	if (task)
		at = mempcpy(at, task, sizeof(*task));
	memcpy(at, t.r + 1, stack_bytes);
	id = stacks_take(t.s, r, size);
	if (task)
		assert_int_equal(stacks_take(t.s, r, size - 8), STACK_NONE);
	free(r);
	return id;
}

static const struct stacks_config plain_config;
static const char *const plain[] = { "inner_wait", "middle_wait", "outer_wait", "run_plain", "main", NULL };

TEST_WITH(unwinds, NULL, tear_down)
{
	static const struct {
		void (*run)(void);
		const char *wanted[7];
	} list[] = {
		{ run_plain, { "inner_wait", "middle_wait", "outer_wait", "run_plain", "main" } },
		{ run_through_library, { "inner_wait", "middle_wait", "outer_wait", "compare_wait", "run_through_library", "main" } },
		{ run_thread, { "inner_wait", "middle_wait", "outer_wait", "thread_wait" } },
		{ run_signal, { "inner_wait", "outer_wait", "on_signal", "run_signal", "main" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		struct stacks_stats before, after;
		uint32_t id;

		start(list[i].run, &plain_config);
		before = stats();
		id = stacks_take(t.s, t.r, t.size);
		after = stats();
		assert_frames(id, list[i].wanted);
		if (after.complete != before.complete + 1)
			print_stack(id);
		assert_int_equal(after.complete, before.complete + 1);
		/* the same again */
		assert_int_equal(stacks_take(t.s, t.r, t.size), id);
		assert_int_equal(stats().stacks, after.stacks);
		assert_int_equal(stats().lookups, after.lookups);
		end_child();
	}
}

/* ---- Python ---- */

static int name_python(void *arg, uint32_t tgid, uint64_t code, uint64_t instr, struct python_name *ret_name)
{
	static char name[32];

	assert_string_equal(arg, "arg");
	assert_true(tgid);
	if (code == 99)
		return -ENOENT;
	snprintf(name, sizeof(name), "py%lu", (unsigned long)code);
	*ret_name = (struct python_name){ .name = name, .file = "m.py", .line = (uint32_t)instr };
	return 0;
}

static const char *name_task(void *arg, uint32_t tgid, const struct python_task *task)
{
	assert_string_equal(arg, "arg");
	assert_true(tgid);
	return task->bytes ? "[task t]" : NULL;
}

#define ENTRY PYTHON_F_ENTRY
#define EVAL "_PyEval_EvalFrameDefault"

static const struct stacks_config python = {
	.python = name_python, .python_task = name_task, .python_arg = (void *)"arg"
};

TEST_WITH(python_is_merged, NULL, tear_down)
{
	static const struct {
		struct python_frame frames[6];
		uint16_t n;
		const char *wanted[12];
	} cases[] = {
		{ { { 1, 7 }, { 2, 8 | ENTRY }, { 3, 9 }, { 4, 10 | ENTRY } }, 4,
			{ "outer_wait", "py1", "py2", "extension", "py3", "py4", "run_python", "main" } },
		/* one for each without markers, and the innermost gets the rest */
		{ { { 1, 7 }, { 2, 8 } }, 2, { "outer_wait", "py1", "extension", "py2", "run_python" } },
		{ { { 1, 7 }, { 2, 8 }, { 3, 9 } }, 3, { "outer_wait", "py1", "py2", "extension", "py3", "run_python" } },
		/* fewer than the interpreter has, too many, unknown, none */
		{ { { 1, 7 } }, 1, { "outer_wait", "py1", "extension", EVAL, "run_python" } },
		{ { { 1, ENTRY }, { 2, ENTRY }, { 3, ENTRY } }, 3,
			{ "outer_wait", "py1", "extension", "py2", "py3", "run_python" } },
		{ { { 99, ENTRY }, { 2, ENTRY } }, 2, { "outer_wait", "[python]", "extension", "py2", "run_python" } },
		{ {}, 0, { "outer_wait", EVAL, "extension", EVAL, "run_python" } },
	};

	start(run_python, &python);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_frames(take_with(NULL, 0, cases[i].frames, cases[i].n, NULL, t.r->stack_bytes), cases[i].wanted);
	/* the native part ends first */
	assert_frames(take_with(NULL, 0, cases[0].frames, 1, NULL, 64), (const char *const[]){ "[cut]", "py1", NULL });
}

/* The task's frame is outside its own frames, wherever the native functions are. */
TEST_WITH(tasks_are_merged, NULL, tear_down)
{
	static const struct python_frame frames[] = { { 1, 7 }, { 2, 8 | ENTRY }, { 3, 9 }, { 4, 10 | ENTRY } };
	static const struct {
		uint32_t within, bytes;
		const char *wanted[12];
	} cases[] = {
		{ 1, 8, { "outer_wait", "py1", "[task t]", "py2", "extension", "py3", "py4", "run_python", "main" } },
		{ 2, 8, { "outer_wait", "py1", "py2", "[task t]", "extension", "py3", "py4", "run_python", "main" } },
		{ 3, 8, { "outer_wait", "py1", "py2", "extension", "py3", "[task t]", "py4", "run_python", "main" } },
		{ 4, 8, { "outer_wait", "py1", "py2", "extension", "py3", "py4", "[task t]", "run_python", "main" } },
		/* wrong, and without a name */
		{ 0, 8, { "outer_wait", "py1", "py2", "extension", "py3", "py4", "run_python", "main" } },
		{ 5, 8, { "outer_wait", "py1", "py2", "extension", "py3", "py4", "run_python", "main" } },
		{ 2, 0, { "outer_wait", "py1", "py2", "extension", "py3", "py4", "run_python", "main" } },
	};

	start(run_python, &python);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct python_task task = { .frames = cases[i].within, .bytes = cases[i].bytes };

		assert_frames(take_with(NULL, 0, frames, 4, &task, t.r->stack_bytes), cases[i].wanted);
	}
}

/* ---- all kinds ---- */

/* A child that makes code and names it, as engines do. */
static void run_made_code(void)
{
	/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	f = fopen(path, "w");
	if (at == MAP_FAILED || !f)
		_exit(1);
	fprintf(f, "%lx %zx made code\n", (unsigned long)at, sizeof(code));
	fclose(f);
	memcpy(at, code, sizeof(code));
	((void (*)(void (*)(void)))at)(run_plain);
}

TEST_WITH(all_kinds, NULL, tear_down)
{
	static const char *const wanted[] = { "inner_wait", "run_plain", "made code", NULL };
	static const uint64_t kernel[] = { 0xfff, 0x1000 };
	static const enum frame_kind kinds[] = { FRAME_KERNEL, FRAME_KERNEL, FRAME_NATIVE };
	const uint32_t *frames;
	char path[64];
	uint32_t id;

	start(run_made_code, &plain_config);
	assert_frames(stacks_take(t.s, t.r, t.size), wanted);
	id = take_with(kernel, 2, NULL, 0, NULL, t.r->stack_bytes);
	assert_frames(id, wanted);
	assert_true(stacks_get(t.s, id, &frames) > 5);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_int_equal(stacks_frame(t.s, frames[i])->kind, kinds[i]);
	assert_int_equal(stats().made, 0);
	stacks_free(t.s);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", t.pid);
	unlink(path);
	/* code with an unknown name is counted */
	assert_int_equal(stacks_new(&plain_config, &t.s), 0);
	stacks_take(t.s, t.r, t.size);
	assert_int_equal(stats().made, 1);
	assert_true(stats().places > 3);
}

/* What is known of a process stays after its exit, until it is forgotten; later mappings are found. */
TEST_WITH(processes_end, NULL, tear_down)
{
	struct rec_sample *r;
	uint32_t id, again;

	start(run_plain, &plain_config);
	stacks_know_process(t.s, (uint32_t)t.pid);
	id = stacks_take(t.s, t.r, t.size);
	assert_frames(id, plain);
	r = t.r;
	t.r = NULL;
	end_child();
	stacks_remap_process(t.s, (uint32_t)t.pid);
	assert_int_equal(stacks_take(t.s, r, t.size), id);
	stacks_forget_process(t.s, (uint32_t)t.pid);
	assert_int_equal(stats().processes, 0);
	again = stacks_take(t.s, r, t.size);
	assert_int_not_equal(again, id);
	assert_frames(again, (const char *const[]){ "[unknown]", NULL });
	free(r);
}

RUN_TESTS(NULL, NULL)
