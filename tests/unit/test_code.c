// SPDX-License-Identifier: BSD-2-Clause
/* What the report says about stacks: where samples and waits were, and in which function slow steps took longer. */
#include "report.h"

#include "report/stacks.h"

#define PERIOD 10101010LL /* ns, at 99 Hz */
#define MS 1000000LL

/* --- a profile with stacks --- */

struct stacked {
	struct profile p;
	uint64_t random;
	int step;
	int64_t now, cpu, next; /* time, CPU time, and the time of the next sample */
	int64_t period;
	const char *left_out; /* of the steps that follow; NULL: nothing */
	bool told[64];        /* stacks whose frames are in the profile */
};

static void stacked_begin(struct stacked *s, uint64_t seed, int64_t period)
{
	memset(s, 0, sizeof(*s));
	profile_begin(&s->p);
	s->random = seed * 2654435761u + 1;
	s->period = period;
	s->next = period / 3;
}

static uint32_t random_below(struct stacked *s, uint32_t n)
{
	s->random = s->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(s->random >> 33) % n;
}

static int64_t about(struct stacked *s, int64_t ns, int percent)
{
	return ns + ns * ((int64_t)random_below(s, 2 * (uint32_t)percent + 1) - percent) / 100;
}

static void put_us(struct stacked *s, const char *key, int64_t ns)
{
	fprintf(s->p.out, "\"%s\":%lld.%03lld", key, (long long)(ns / 1000), (long long)(ns % 1000));
}

/* frames: NULL once they are in the profile. */
static void add_stack(struct stacked *s, const char *state, const char *kind, unsigned int n, int id, const char *frames,
	int64_t ns)
{
	fprintf(s->p.out,
		"{\"event\":\"stack_prof\"," HEAD ",\"shape\":{\"pid\":1,\"tid\":1,\"step\":%d,\"phase\":\"decode\","
		"\"state\":\"%s\",\"kind\":\"%s\",\"samples\":%u,\"stack\":%d},\"stage_us\":{",
		s->step, state, kind, n, id);
	put_us(s, "total", ns);
	fputs("}", s->p.out);
	if (frames && !s->told[id])
		fprintf(s->p.out, ",\"frames\":[%s]", frames);
	s->told[id] |= frames != NULL;
	fputs("}\n", s->p.out);
}

/* A part of a step. */
struct part {
	const char *frames;
	int64_t ns;
};

/* Runs the parts one after the other, with a sample whenever one is due, then waits. */
static void add_step(struct stacked *s, const struct part *parts, int n, const char *wait, int64_t waited,
	const char *wait_frames)
{
	int64_t total = 0;

	for (int i = 0; i < n; i++) {
		unsigned int samples = 0;

		for (; s->next < s->cpu + parts[i].ns; s->next += s->period)
			samples++;
		s->cpu += parts[i].ns;
		total += parts[i].ns;
		if (samples)
			add_stack(s, "cpu", "sample", samples, i, parts[i].frames, samples * s->period);
	}
	if (wait_frames)
		add_stack(s, wait, "wait", 1, 40, wait_frames, waited);
	fprintf(s->p.out,
		"{\"event\":\"token_prof\"," HEAD ",\"shape\":{\"step\":%d,\"pid\":1,\"tid\":1,\"phase\":\"decode\","
		"\"n_tokens\":1,",
		s->step);
	put_us(s, "ts_us", s->now);
	if (s->left_out)
		fprintf(s->p.out, ",\"left_out\":\"%s\"", s->left_out);
	fputs("},\"stage_us\":{", s->p.out);
	put_us(s, "total", total + waited);
	fputs(",", s->p.out);
	put_us(s, "cpu", total);
	fputs(",", s->p.out);
	put_us(s, wait, waited);
	fputs("}}\n", s->p.out);
	s->now += total + waited + 300000;
	s->step++;
}

#define C_FRAMES(leaf) leaf ",\"step [steps]\",\"main [steps]\",\"__libc_start_main [libc.so.6]\",\"_start [steps]\""
#define PY_FRAMES(leaf) leaf ",\"run (engine.py:40)\",\"<module> (engine.py:99)\",\"_start [python3.11]\""

static struct json_object *report_of(struct stacked *s)
{
	return profile_json(&s->p, ARGV("--json", "-"));
}

#define STACKED_SAYS(s, ...) PROFILE_SAYS(&(s)->p, ARGV("-"), __VA_ARGS__)

/* Steps of 10 ms; in 5 % of them one function takes three times as long, partly itself, partly in the C library. */
static void add_planted(struct stacked *s, int n)
{
	for (int i = 0; i < n; i++) {
		int64_t slower = random_below(s, 20) ? 1 : 3;
		const struct part parts[] = {
			{ C_FRAMES("\"attend [steps]\""), about(s, 4 * MS, 3) },
			{ C_FRAMES("\"sample_token [steps]\""), slower * about(s, 3 * MS / 2, 3) },
			{ C_FRAMES("\"memcpy [libc.so.6]\",\"sample_token [steps]\""), slower * about(s, 3 * MS / 2, 3) },
			{ C_FRAMES("\"project [steps]\""), about(s, 3 * MS, 3) },
		};

		add_step(s, parts, 4, "blocked_futex", about(s, 40000, 30), NULL);
	}
}

#define CODE "processes.0.code.0."
#define SLOW "processes.0.slow_code."

/* Expects that slow steps are longer in this function. */
static void expect_sampler(struct stacked *s)
{
	JSON_IS(report_of(s),
		{ SLOW "0.phase", "decode" },
		{ SLOW "0.state", "cpu" },
		{ SLOW "0.clear", "true" },
		{ SLOW "0.functions.0.function", "sample_token [steps]" });
}

TEST(test_planted)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct stacked s;

		stacked_begin(&s, seed, PERIOD);
		add_planted(&s, 2000);
		expect_sampler(&s);
	}
}

/* Waits for CPUs in use by others, scattered so much that no step is slow: what a thread computed is known all the same. */
TEST(test_planted_under_load)
{
	struct stacked s;

	stacked_begin(&s, 3, PERIOD);
	for (int i = 0; i < 2000; i++) {
		int64_t slower = random_below(&s, 20) ? 1 : 3;
		const struct part parts[] = {
			{ C_FRAMES("\"attend [steps]\""), about(&s, 7 * MS, 3) },
			{ C_FRAMES("\"sample_token [steps]\""), slower * about(&s, 3 * MS, 3) },
		};

		add_step(&s, parts, 2, "runnable", random_below(&s, 40) * MS, NULL);
	}
	expect_sampler(&s);
}

/* All steps alike: none is slow, and nothing is said about slow ones. */
TEST(test_nothing_planted)
{
	struct stacked s;

	stacked_begin(&s, 7, PERIOD);
	for (int i = 0; i < 1000; i++) {
		const struct part parts[] = { { C_FRAMES("\"attend [steps]\""), about(&s, 10 * MS, 2) } };

		add_step(&s, parts, 1, "blocked_futex", 1000, NULL);
	}
	JSON_IS(report_of(&s), { "processes.0.slow_code#", "0" }, { CODE "functions.0.function", "attend [steps]" });
}

/* 200 steps, the middle one slow: usual and slow times of their parts, and of a wait. */
struct one_slow {
	int samples; /* in each PERIOD */
	struct {
		const char *frames;
		int64_t usual, slow; /* slow 0: as usual */
	} parts[3];
	const char *wait, *wait_frames; /* NULL: a short one for a lock; frames: only in the slow step */
	int64_t slow_wait;
	bool left_out; /* no samples in the other steps */
};

static void add_one_slow(struct stacked *s, const struct one_slow *o)
{
	stacked_begin(s, 1, PERIOD / o->samples);
	for (int i = 0; i < 200; i++) {
		bool slow = i == 100;
		struct part parts[3];
		int64_t next = s->next;
		int n = 0;

		for (; n < 3 && o->parts[n].frames; n++) {
			int64_t ns = slow ? o->parts[n].slow : 0;

			if (!ns && o->parts[n].usual)
				ns = about(s, o->parts[n].usual, 2);
			parts[n] = (struct part){ o->parts[n].frames, ns };
		}
		s->left_out = o->left_out && !slow ? "samples" : NULL;
		if (s->left_out)
			s->next = INT64_MAX; /* no sample is taken */
		add_step(s, parts, n, o->wait ? o->wait : "blocked_futex", slow && o->slow_wait ? o->slow_wait : 20000,
			slow ? o->wait_frames : NULL);
		if (s->left_out)
			s->next = next > s->cpu ? next : s->cpu + s->period / 2;
	}
}

/* What the report then says; `one` is an initializer in parentheses. */
#define UNPACK(...) __VA_ARGS__
#define ONE_SLOW_SAYS(one, ...)                                           \
	do {                                                              \
		struct stacked s;                                         \
                                                                          \
		add_one_slow(&s, &(const struct one_slow){ UNPACK one }); \
		STACKED_SAYS(&s, __VA_ARGS__);                            \
	} while (0)
#define PART(leaf, usual_ms, slow_ms)                                                   \
	{                                                                               \
		.frames = PY_FRAMES(leaf), .usual = (usual_ms)*MS, .slow = (slow_ms)*MS \
	}
#define MUL_MAT PART("\"mul_mat [libggml.so]\",\"decode (llama.py:7)\"", 30, 0)
#define DECODE(ms) PART("\"decode (llama.py:7)\"", ms, 0)

TEST(test_sentence_samples)
{
	ONE_SLOW_SAYS((.samples = 1, .parts = { MUL_MAT, PART("\"long_add [python3.11]\",\"pick (sched.py:207)\",\"schedule (sched.py:212)\"", 0, 90) }),
		"the calling thread computed 90.6 ms longer, about ", " ms of it in `pick (sched.py:207)` (9 samples, usually 0.0)\n");
}

/* Steps without samples do not tell what is usual: around the slow step most time goes to a function that would otherwise
 * seem new. */
TEST(test_samples_left_out)
{
	for (int left_out = 0; left_out < 2; left_out++)
		ONE_SLOW_SAYS((.samples = 10, .parts = { DECODE(30), PART("\"schedule (sched.py:212)\"", 0, 30) }, .left_out = left_out),
			left_out ? "! of it in `" : " ms of it in `schedule (sched.py:212)` (");
}

/* One sample proves nothing, however far it is from the usual. */
TEST(test_sentence_too_few)
{
	ONE_SLOW_SAYS((.samples = 1, .parts = { MUL_MAT, PART("\"pick (sched.py:207)\"", 0, 12) }), "the calling thread computed 12.6 ms longer\n",
		"these samples do not show that one function holds most of it");
}

/* A function of a library, called from Python. */
TEST(test_sentence_called_from)
{
	ONE_SLOW_SAYS(
		(.samples = 10, .parts = { MUL_MAT, PART("\"memset [libc.so.6]\",\"clear_cache [libllama.so]\",\"forget (cache.py:31)\"", 0, 40) }),
		"of it in `clear_cache [libllama.so]`, called from `forget (cache.py:31)` (", "    called from forget (cache.py:31)\n");
}

/* A Python function that typical steps also call for others does not tell what was slow; one that only the slow function
 * calls does. */
TEST(test_sentence_helper)
{
#define LINEAR "\"sgemm [libblas.so.3]\",\"linear [libtorch.so]\",\"forward (linear.py:114)\","
	for (int shared = 0; shared < 2; shared++)
		ONE_SLOW_SAYS((.samples = 10,
				      .parts = { DECODE(20), PART(LINEAR "\"attend (llama.py:30)\"", shared * 8, 0), PART(LINEAR "\"rank (rank.py:12)\"", 2, 40) }),
			shared ? "in `sgemm [libblas.so.3]`, called from `rank (rank.py:12)` (" : "in `sgemm [libblas.so.3]`, called from `forward (linear.py:114)` (",
			shared ? "    called from rank (rank.py:12)\n" : "    called from forward (linear.py:114)\n");
}

/* The same with the helper as the innermost named function. */
TEST(test_sentence_python_helper)
{
#define ENCODE "\"encode (tokenize.py:5)\","
	ONE_SLOW_SAYS((.samples = 10, .parts = { DECODE(20), PART(ENCODE "\"decode (llama.py:7)\"", 8, 0), PART(ENCODE "\"log (log.py:30)\"", 2, 40) }),
		"in `encode (tokenize.py:5)`, called from `log (log.py:30)` (");
}

/* For a package, the function outside that used it is named, too; for the program's own functions nothing more. */
TEST(test_sentence_package)
{
	ONE_SLOW_SAYS((.samples = 10, .parts = { MUL_MAT, PART("\"sgemm [libblas.so.3]\",\"forward (torch/nn/modules/linear.py:114)\","
							       "\"call (torch/nn/modules/module.py:1194)\",\"rank (rank.py:12)\",\"plan (sched.py:7)\"",
								  0, 40) }),
		"in `sgemm [libblas.so.3]`, called from `forward (torch/nn/modules/linear.py:114)`, for `rank (rank.py:12)` (",
		"    called from forward (torch/nn/modules/linear.py:114)\n    for rank (rank.py:12)\n");
	ONE_SLOW_SAYS((.samples = 10, .parts = { MUL_MAT, PART("\"sub (python3.11/re/__init__.py:185)\",\"rank (rank.py:12)\",\"plan (sched.py:7)\"", 0, 40) }),
		"in `sub (python3.11/re/__init__.py:185)`, for `rank (rank.py:12)` (");
}

/* It waited even longer for a CPU: the additional computing is reported, too, with its function. */
TEST(test_sentence_second)
{
	ONE_SLOW_SAYS((.samples = 10, .parts = { DECODE(30), PART("\"schedule (sched.py:212)\"", 0, 30) }, .wait = "runnable", .slow_wait = 50 * MS),
		"waited 50.0 ms for a CPU, and computed 30.", " ms longer, about ", " ms of it in `schedule (sched.py:212)` (");
}

/* The length of waits is known: one is enough. */
TEST(test_sentence_wait)
{
	ONE_SLOW_SAYS((.samples = 1, .parts = { DECODE(30) }, .slow_wait = 20 * MS,
			      .wait_frames = PY_FRAMES("\"__schedule [kernel]\",\"futex_wait [kernel]\",\"pthread_cond_wait [libc.so.6]\","
						       "\"get (queue.py:171)\"")),
		"the calling thread waited 20.0 ms for a lock, 20.0 ms of it in `get (queue.py:171)`\n",
		"Waits of decode\n  blocked_futex: 1, 20.0 ms\n  get (queue.py:171) ");
}

/* Lines of one function count as one function, and the line with the most time is named. */
TEST(test_lines)
{
	struct stacked s;

	stacked_begin(&s, 1, PERIOD);
	add_stack(&s, "cpu", "sample", 3, 1, PY_FRAMES("\"f (a.py:10)\""), 3 * PERIOD);
	add_stack(&s, "cpu", "sample", 5, 2, PY_FRAMES("\"f (a.py:12)\""), 5 * PERIOD);
	add_stack(&s, "cpu", "sample", 2, 3, PY_FRAMES("\"f (b.py:12)\""), 2 * PERIOD);
	JSON_IS(report_of(&s),
		{ CODE "functions.0.function", "f (a.py)" },
		{ CODE "functions.0.line", "12" },
		{ CODE "functions.0.self_us", "80808.080" });
}

/* A function that calls itself counts once. */
TEST(test_recursion)
{
	struct stacked s;

	stacked_begin(&s, 1, PERIOD);
	add_stack(&s, "cpu", "sample", 4, 1, "\"f [x]\",\"g [x]\",\"f [x]\",\"f [x]\",\"main [x]\"", 4 * PERIOD);
	add_stack(&s, "cpu", "sample", 1, 2, "\"g [x]\",\"main [x]\"", PERIOD);
	JSON_IS(report_of(&s),
		{ CODE "functions#", "2" },
		{ CODE "functions.0.total_us", "40404.040" },
		{ CODE "functions.1.total_us", "50505.050" });
}

/* --- frames --- */

static void assert_frame(const char *text, const char *function, uint32_t line, enum code_kind kind)
{
	struct code_frame f;

	code_frame_parse(text, strlen(text), &f);
	assert_string_equal(f.text, function);
	assert_int_equal(f.line, line);
	assert_int_equal(f.kind, kind);
}

TEST(test_frames)
{
	char text[2000];
	struct code_frame f;

	assert_frame("main [steps]", "main [steps]", 0, CODE_NATIVE);
	assert_frame("operator()(int) const [libx.so]", "operator()(int) const [libx.so]", 0, CODE_NATIVE);
	assert_frame("sched.schedule (scheduler.py:212)", "sched.schedule (scheduler.py)", 212, CODE_PYTHON);
	assert_frame("<lambda> (<string>:1)", "<lambda> (<string>)", 1, CODE_PYTHON);
	assert_frame("f (a.py:99999999999)", "f (a.py:99999999999)", 0, CODE_PYTHON);
	assert_frame("f (a.py:)", "f (a.py:)", 0, CODE_PYTHON);
	assert_frame("do_syscall_64 [kernel]", "do_syscall_64 [kernel]", 0, CODE_KERNEL);
	assert_frame("memcpy [libc.so.6]", "memcpy [libc.so.6]", 0, CODE_SYSTEM);
	assert_frame("memcpy [libc-2.36.so]", "memcpy [libc-2.36.so]", 0, CODE_SYSTEM);
	assert_frame("f [libcuda.so.1]", "f [libcuda.so.1]", 0, CODE_NATIVE);
	assert_frame("f [libpython3.11.so.1.0]", "f [libpython3.11.so.1.0]", 0, CODE_SYSTEM);
	assert_frame("f [[vdso]]", "f [[vdso]]", 0, CODE_SYSTEM);
	assert_frame("[unknown]", "[unknown]", 0, CODE_UNKNOWN);
	assert_frame("[unknown] [libx.so]", "[unknown] [libx.so]", 0, CODE_UNKNOWN);
	assert_frame("", "[unknown]", 0, CODE_UNKNOWN);
	assert_frame("]", "]", 0, CODE_NATIVE);
	assert_frame(")", ")", 0, CODE_NATIVE);
	assert_frame(" (x)", " (x)", 0, CODE_PYTHON);

	/* the ends of long names stay, and characters are whole */
	memset(text, 'x', sizeof(text));
	strcpy(text + 1500, " [libx.so]");
	code_frame_parse(text, strlen(text), &f);
	assert_true(strlen(f.text) <= CODE_NAME_MAX);
	assert_contains(f.text, "xxx... [libx.so]");
}

/* --- hostile --- */

#define LINE(shape, more) "{\"event\":\"stack_prof\"," HEAD ",\"shape\":{\"pid\":1," shape "},\"stage_us\":{\"total\":10.000}" more "}\n"
#define CPU "\"state\":\"cpu\",\"kind\":\"sample\","

/* Checks which function is named for the operator of these samples, and of how many; NULL: none. */
static void assert_hottest(const char *samples, const char *function, const char *of)
{
	char *lines;

	assert_true(asprintf(&lines, "%s{\"event\":\"op_prof\"," HEAD ",\"shape\":{\"window\":0,\"pid\":1,\"comm\":\"e\",\"ops\":2,\"n_mul\":1,\"n_add\":1},"
				     "\"stage_us\":{\"total\":30.000,\"mul\":20.000,\"add\":10.000}}\n",
			    samples) > 0);
	JSON_IS(run_json(lines, ARGV("--json", "-")),
		{ "processes.0.operators.0.name", "mul" },
		{ "processes.0.operators.1.name", "add" },
		{ "processes.0.operators.1.hottest", NULL },
		{ "processes.0.operators.0.hottest.function", function },
		{ "processes.0.operators.0.hottest.of", of });
	REPORT_SAYS(lines, ARGV("-"), function ? "samples in" : "!samples in");
	free(lines);
}

#define IN_OP(state, n, stack, frames)                                                                                  \
	LINE("\"tid\":1,\"state\":\"" state "\",\"kind\":\"sample\",\"op\":\"mul\",\"samples\":" n ",\"stack\":" stack, \
		",\"frames\":[" frames ",\"main [x]\"]")

#define WAIT(stack, more) LINE("\"state\":\"blocked_futex\",\"kind\":\"wait\"," more "\"samples\":1,\"stack\":" stack, \
	",\"frames\":[\"futex_wait [kernel]\",\"take [x]\",\"main [x]\"]")

/* Who ended most of a function's waits. */
TEST(test_wakers)
{
	const char *lines = WAIT("1", "\"waker_tid\":2,\"waker\":\"w\",\"woken_by\":\"give (pool.py:31)\",")
		WAIT("1", "\"waker_tid\":3,\"waker\":\"w\",\"woken_by\":\"give (pool.py:32)\",")
			WAIT("1", "\"waker\":\"interrupt\",") WAIT("2", "");

	JSON_IS(run_json(lines, ARGV("--json", "-")),
		{ CODE "functions.0.woken_by.function", "give (pool.py)" },
		{ CODE "functions.0.woken_by.thread", "w" },
		{ CODE "functions.0.woken_by.total_us", "20.000" });
	REPORT_SAYS(lines, ARGV("-"), "    woken by give (pool.py) of w: 50 %\n");
	REPORT_SAYS(WAIT("1", "\"waker\":\"interrupt\",") WAIT("2", ""), ARGV("-"), "    woken by interrupt: 50 %\n");
	REPORT_SAYS(WAIT("1", ""), ARGV("-"), "!woken by");
}

/* The function of an operator is named if its lead over the next one in samples is no chance. */
TEST(test_operators)
{
	assert_hottest(IN_OP("cpu", "6", "1", "\"dot [x]\""), "dot [x]", "6");
	assert_hottest(IN_OP("cpu", "5", "1", "\"dot [x]\""), NULL, NULL);
	assert_hottest(IN_OP("cpu", "4", "1", "\"dot [x]\",\"f [x]\"") IN_OP("fault", "3", "2", "\"dot [x]\",\"g [x]\""), "dot [x]", "7");
	assert_hottest(IN_OP("cpu", "60", "1", "\"dot [x]\"") IN_OP("cpu", "50", "2", "\"gemm [x]\",\"dot [x]\""), NULL, NULL);
	assert_hottest(IN_OP("cpu", "60", "1", "\"dot [x]\"") IN_OP("cpu", "35", "2", "\"gemm [x]\",\"dot [x]\""), "dot [x]", "95");
	/* waiting at a barrier says nothing about its code, and unnamed code is not named */
	assert_hottest(IN_OP("cpu", "8", "1", "\"dot [x]\"") IN_OP("barrier", "90", "2", "\"spin [x]\""), "dot [x]", "8");
	assert_hottest(IN_OP("cpu", "8", "1", "\"dot [x]\"") IN_OP("cpu", "90", "2", "\"[unknown]\""), "dot [x]", "98");
}

TEST(test_bad_lines)
{
	static const char *const bad[][2] = {
		{ LINE(CPU "\"samples\":1,\"stack\":7", ""), "line 1: no line before this one has the frames of its stack" },
		{ LINE(CPU "\"samples\":1,\"stack\":\"x\"", ""), "line 1: shape.stack is not a number" },
		{ LINE(CPU "\"samples\":-1,\"stack\":7", ",\"frames\":[]"), "line 1: shape.samples is not a number > 0" },
		{ LINE(CPU "\"samples\":0,\"stack\":7", ",\"frames\":[]"), "line 1: shape.samples is not a number > 0" },
		{ LINE("\"kind\":\"sample\",\"stack\":7", ",\"frames\":[]"), "line 1: shape.state is not a string" },
		{ LINE(CPU "\"stack\":7,\"step\":\"x\"", ",\"frames\":[]"), "line 1: shape.step is not a number >= 0" },
		{ LINE(CPU "\"stack\":7", ",\"frames\":7"), "line 1: frames is not an array of strings" },
		{ LINE(CPU "\"stack\":7", ",\"frames\":[7]"), "line 1: frames is not an array of strings" },
		/* samples without a stack count, too */
		{ LINE(CPU "\"stack\":7", ",\"frames\":[\"f [x]\"]") LINE(CPU "\"stack\":8", ""),
			"line 2: no line before this one has the frames of its stack" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		REPORT_FAILS(bad[i][0], ARGV("-"), EXIT_RUN, bad[i][1], NULL);
}

/* A number that appears again is a different stack from then on, as in a file of two recordings. */
TEST(test_same_number)
{
	const char *lines = LINE(CPU "\"samples\":3,\"stack\":1", ",\"frames\":[\"f [x]\"]")
		LINE(CPU "\"samples\":1,\"stack\":1", ",\"frames\":[\"g [x]\"]") LINE(CPU "\"samples\":1,\"stack\":1", "");

	REPORT_SAYS(lines, ARGV("-"), "Code outside of steps: 5 samples", "  f [x]                                            33.33 %",
		"  g [x]                                            66.67 %");
}

/* Samples without a stack, and without their step's phase, which may not have been known when they were written. */
TEST(test_unknown)
{
	struct stacked s;

	stacked_begin(&s, 1, PERIOD);
	fputs(LINE(CPU "\"samples\":2,\"tid\":1,\"step\":0", ""), s.p.out);
	fputs(LINE(CPU "\"samples\":1,\"tid\":2,\"step\":0", ""), s.p.out);
	fputs(LINE(CPU "\"samples\":2,\"tid\":1,\"step\":99", ""), s.p.out);
	add_step(&s, &(struct part){ C_FRAMES("\"attend [steps]\""), MS }, 1, "blocked_futex", 1000, NULL);
	JSON_IS(report_of(&s),
		{ CODE "phase", "decode" },
		{ CODE "count", "3" },
		{ CODE "functions.0.function", "[unknown stack]" },
		{ "processes.0.code.1.phase", "unknown" },
		{ "processes.0.code.1.count", "2" });
}

/* A stack of this many calls, with empty names. */
static void deep_stack(struct profile *p, int calls)
{
	profile_begin(p);
	fputs("{\"event\":\"stack_prof\"," HEAD ",\"shape\":{\"pid\":1," CPU "\"stack\":1},\"stage_us\":{\"total\":10.000},"
	      "\"frames\":[\"f [x]\"",
		p->out);
	for (int i = 0; i < calls; i++)
		fputs(",\"\"", p->out);
	fputs("]}\n", p->out);
	fputs(LINE(CPU "\"stack\":2", ",\"frames\":[\"g [x]\"]"), p->out);
}

TEST(test_deep)
{
	struct profile p;

	deep_stack(&p, 60000);
	PROFILE_SAYS(&p, ARGV("-"), "  f [x]                                            50.00 %",
		"Stacks: of 1 that were deeper, only the innermost 512 calls are told apart\n");
	/* a line of a million values is refused as a whole; the next one is read */
	deep_stack(&p, 1000000);
	REPORT_FAILS(profile_end(&p), ARGV("-"), EXIT_RUN, "line 1: more than ", "  g [x]                                           100.00 %");
	free(p.text);
}

TEST(test_huge)
{
	char line[] = "{\"event\":\"stack_prof\"," HEAD ",\"shape\":{\"pid\":1," CPU
		      "\"stack\":18446744073709551615,\"samples\":99999999999999999999,\"step\":99999999999,\"tid\":-1,"
		      "\"phase\":\"</script>\"},\"stage_us\":{\"total\":1e300},\"frames\":[\"<img src=x>\\n\\u0000\",\"\\ud83d\\ude00\"]}\n";
	struct output result;

	REPORT_FAILS(line, ARGV("-"), EXIT_RUN, NULL, NULL); /* 1e300 is no time */
	memcpy(strstr(line, "1e300"), "9e12 ", 5);
	run_input(&result, line, ARGV("--html", "-", "-"));
	assert_null(strstr(result.out, "<img src=x>"));
	output_free(&result);
}

/* More stacks than are kept. */
TEST(test_too_many)
{
	struct profile *p = profile_new();

	for (uint32_t i = 0; i < STACK_FUNCTIONS_MAX + 10; i++)
		fprintf(p->out, LINE(CPU "\"stack\":%u", ",\"frames\":[\"f%u [x]\"]"), i, i);
	PROFILE_SAYS(p, ARGV("-"), "were too many, and are `[left out]`\n");
}

RUN_TESTS(NULL, NULL)
