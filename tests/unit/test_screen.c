// SPDX-License-Identifier: BSD-2-Clause
/* Frames of inftrace top as text: what fits, what is cut, and that no name controls the terminal. */
#include <locale.h>
#include <wchar.h>

#include "cases.h"
#include "top/screen.h"
#include "unit.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define LINES_MAX 8000

static const char hostile[] = "\x1b[2J\a\xc2\x9b"
			      "1m\xff\xe2\x80\xae日本e\xcc\x81";

/* A run with a bit of everything, whose names come from outside. */
static struct live *make_live(const char *name)
{
	static const uint8_t states[] = { ST_CPU, ST_BARRIER, ST_SYSCALL, ST_FAULT, ST_RUNNABLE,
		ST_BLOCKED_FUTEX, ST_BLOCKED_IO, ST_BLOCKED_NET, ST_STOPPED };
	struct process_call calls[3] = { { { 1, 202 }, { 100, 31 * 1000000 } },
		{ { 1, 0 }, { 7, 5000 } }, { { 1, 501 }, { 1, 3 } } };
	struct live *l = live_new();

	for (uint32_t i = 0; i < 100; i++) {
		struct live_step s = {
			.pid = 4711,
			.workers = 3,
			.live_phase = i % 50 ? LIVE_DECODE : LIVE_PREFILL,
			.step = { .number = i,
				.tid = 4711,
				.ts = i * 10 * MS,
				.n_tokens = i % 50 ? 1 : 64 },
		};

		strcpy(s.phase, i % 50 ? "decode" : "prefill");
		for (unsigned int k = 0; k < sizeof(states); k++) {
			s.step.own[states[k]] = (9 - k) * MS / 5;
			s.step.workers[states[k]] = 3 * (9 - k) * MS / 5;
			s.step.total += s.step.own[states[k]];
			s.step.workers_total += s.step.workers[states[k]];
		}
		if (i % 20 == 7) {
			s.step.own[ST_RUNNABLE] += 183 * MS;
			s.step.total += 183 * MS;
			s.wait.row = (struct wait_info){ .ns = 183 * MS, .tid = 4711, .state = ST_RUNNABLE, .behind_tid = 990 };
			snprintf(s.wait.behind, sizeof(s.wait.behind), "%s", name);
		}
		live_step(l, &s);
	}
	for (int i = 0; i < 40; i++) {
		char op[64];

		snprintf(op, sizeof(op), "%s%d", name, i);
		live_op(l, op, 1000u * (unsigned int)i);
		live_gap(l, op, 1000000u * (unsigned int)i);
	}
	live_syscalls(l, calls, 3);
	live_lost(l, 17);
	return l;
}

/* The last screen drawn. */
static struct drawn {
	char *text;
	const char *lines[LINES_MAX];
	size_t n;
} d;

/* Returns the columns that a line takes; fails on anything that must not go to a screen. */
static unsigned int check_line(const char *line, bool ansi, bool utf8)
{
	unsigned int columns = 0;
	mbstate_t mbs = { 0 };
	wchar_t w;
	size_t n;

	while (*line) {
		static const char *const sequences[] = { "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[7m", "\x1b[K" };
		size_t known = ansi ? list_find(5, i, !strncmp(line, sequences[i], strlen(sequences[i]))) : 5;

		if (known < 5) {
			line += strlen(sequences[known]);
			continue;
		}
		if (!utf8 && (unsigned char)*line >= 0x80)
			fail_msg("not ASCII: %s", line);
		n = mbrtowc(&w, line, MB_CUR_MAX, &mbs);
		if (n == (size_t)-1 || n == (size_t)-2 || wcwidth(w) < 1)
			fail_msg("not printable: %s", line);
		columns += (unsigned int)wcwidth(w);
		line += n;
	}
	return columns;
}

static void draw(const struct screen *s, const struct live_frame *f)
{
	const char *end = s->ansi ? "\r\n" : "\n";
	char *line;
	size_t len;

	free(d.text);
	d = (struct drawn){ .text = screen_render(s, f, &len) };
	assert_int_equal(len, strlen(d.text));
	for (line = d.text; line;) {
		char *next = strstr(line, end);

		if (next) {
			*next = '\0';
			next += strlen(end);
		}
		if (!next && !s->ansi) {
			assert_int_equal(*line, 0); /* the last line ends, too */
			break;
		}
		assert_true(d.n < LINES_MAX);
		d.lines[d.n++] = line;
		if (check_line(line, s->ansi, s->utf8) > s->width)
			fail_msg("wider than %u: %s", s->width, line);
		line = next;
	}
	if (s->height && d.n != s->height)
		fail_msg("%zu lines of %u", d.n, s->height);
}

/* All sizes, even silly ones: exactly that many lines, none too wide. */
TEST(test_sizes)
{
	static const char *const names[] = { hostile, "cc1plus", "" };
	const struct live_frame *f;

	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
		struct live *l = make_live(names[k]);

		f = live_frame(l, SECOND, true);
		for (unsigned int width = 1; width <= 200;
			width += cases(width < 90 ? 3 : 17, 29)) {
			for (unsigned int height = 0; height <= 60;
				height += height < 30 ? 2 : 15) {
				for (unsigned int flags = 0; flags < 8; flags++) {
					struct screen s = {
						.width = width,
						.height = height,
						.utf8 = flags & 1,
						.ansi = height && flags & 2,
						.run_only = flags & 4,
						.first = (width + height) % PART_MAX,
						.ops = true,
						.target = names[k],
						.engines = width % 2 ? names[k] : NULL,
						.message = height % 4 ? NULL : names[k],
						.keys = "q quit",
					};

					draw(&s, f);
				}
			}
		}
		live_free(l);
	}
}

static bool has_line(const char *part)
{
	for (size_t i = 0; i < d.n; i++) {
		if (strstr(d.lines[i], part))
			return true;
	}
	return false;
}

static void expect_line(const char *line)
{
	for (size_t i = 0; i < d.n; i++) {
		if (!strcmp(d.lines[i], line))
			return;
	}
	for (size_t i = 0; i < d.n; i++)
		print_message("# |%s|\n", d.lines[i]);
	fail_msg("missing: |%s|", line);
}

/* 80 x 24, in a terminal without UTF-8. */
TEST(test_80x24)
{
	struct screen s = { .width = 80,
		.height = 24,
		.target = "llama-server 4711",
		.engines = "llama.cpp",
		.keys = "q quit" };
	struct live *l = make_live("cc1plus");
	const struct live_frame *f;

	f = live_frame(l, 125 * SECOND, true);
	draw(&s, f);
	assert_string_equal(d.lines[0],
		"llama-server 4711, llama.cpp                                                2:05");
	assert_string_equal(d.lines[1],
		"steps/s 0.8  tokens/s 0.8  prompt tokens/s 1.0  steps 100  tokens 98  workers 3");
	assert_string_equal(d.lines[2], "lost 17  (17 just now)"); /* values that no step has are not shown */
	expect_line("Slow steps of the last minute: none");
	expect_line(
		"Time of steps       125 s                    run  workers                    run");
	expect_line("q quit");
	live_free(l);

	l = make_live("cc1plus");
	f = live_frame(l, SECOND, true);
	s.first = PART_SYSCALLS;
	draw(&s, f);
	expect_line("TTFT in steps 9.00 ms (64 tokens)");
	expect_line(
		"  futex                        100   31.0 ms    310 us  #######################");
	/* 180 of 1825 ms: 100 steps of 9 ms, five times 183 ms more, ten gaps of 1 ms; 540 of 2700 ms */
	expect_line(
		"cpu                9.86 % #               9.86 %  20.00 % ###            20.00 %");
	s.first = PART_GAPS;
	draw(&s, f);
	expect_line("Between steps                               gaps/s    time/s      each");
	expect_line("  cc1plus39                                    1.0   39.0 ms   39.0 ms");
	live_free(l);
}

/* How busy GPUs were: late reports count for the time that they are about, and never exceed it. */
TEST(test_gpus)
{
	struct screen s = { .width = 100, .target = "x" };
	const struct live_frame *f;
	struct live *l = live_new();

	live_gpu(l, 0, 7, SECOND / 2, SECOND / 2);
	f = live_frame(l, SECOND, false);
	draw(&s, f);
	expect_line("steps/s 0.0  steps 0  GPU 0 busy 50 %  lost 0");
	live_gpu(l, 0, 7, 2 * SECOND, 3 * SECOND / 2); /* also about the time before the last frame */
	live_gpu(l, 1, 7, 2 * SECOND, SECOND / 4);
	live_gpu(l, 1, 8, 2 * SECOND, SECOND / 8);
	f = live_frame(l, 2 * SECOND, false);
	draw(&s, f);
	expect_line("steps/s 0.0  steps 0  GPU 0 busy 100 %  GPU 1 (pid 7) busy 25 %  GPU 1 (pid 8) busy 12 %  lost 0");
	f = live_frame(l, 4 * SECOND, true);
	draw(&s, f);
	expect_line("steps/s 0.0  steps 0  GPU 0 busy 0 %  GPU 1 (pid 7) busy 0 %  GPU 1 (pid 8) busy 0 %  lost 0");
	s.run_only = true;
	draw(&s, f);
	expect_line("steps/s 0.0  steps 0  GPU 0 busy 50 %  GPU 1 (pid 7) busy 6 %  GPU 1 (pid 8) busy 3 %  lost 0");
	for (uint32_t i = 0; i < 2 * LIVE_GPUS; i++)
		live_gpu(l, 2 + i, 7, 5 * SECOND, 1);
	f = live_frame(l, 5 * SECOND, true);
	assert_int_equal(f->n_gpus, LIVE_GPUS);
	live_free(l);
}

/* Narrow: no bars, three columns of shares, sentences over several lines. */
TEST(test_40_columns)
{
	struct screen s = { .width = 40,
		.utf8 = true,
		.target = "a program of a long name 4711",
		.engines = "llama.cpp" };
	struct live *l = make_live("cc1plus");
	const struct live_frame *f;

	f = live_frame(l, SECOND, true);
	draw(&s, f);
	assert_string_equal(d.lines[0], "a program of a long name 4711, llam 0:01");
	expect_line("Time of steps  last 1 s     run workers");
	expect_line("  futex                    100   31.0 ms");
	expect_line("  step 7, 192 ms instead of 9.00 ms: the");
	expect_line("    calling thread waited 183 ms for a");
	expect_line("    CPU behind pid 990 `cc1plus`");
	live_free(l);
}

/* Four shares without bars: only numbers are left of such a line. */
static bool read_shares(const char *line, double v[4])
{
	char text[256];

	snprintf(text, sizeof(text), "%s", strlen(line) > 16 ? line + 16 : "");
	for (char *c = text; *c; c++) {
		if (*c == '#')
			*c = ' ';
	}
	return sscanf(text, "%lf %% %lf %% %lf %% %lf %%", v, v + 1, v + 2, v + 3) == 4;
}

/* The shares of a column add up, with all rows and with some merged for lack of room. */
TEST(test_shares)
{
	static const unsigned int heights[] = { 0, 60, 24, 16, 12 };
	struct live *l = make_live("x");
	const struct live_frame *f;

	f = live_frame(l, SECOND, true);
	for (size_t i = 0; i < 5; i++) {
		struct screen s = {
			.width = 100, .height = heights[i], .target = "x", .engines = "y"
		};
		double v[4], sum[4] = { 0 };
		unsigned int rows = 0;

		draw(&s, f);
		for (size_t k = 0; k < d.n; k++) {
			if (!read_shares(d.lines[k], v))
				continue;
			rows++;
			for (int c = 0; c < 4; c++)
				sum[c] += v[c];
		}
		assert_true(heights[i] ? rows >= 3 : rows == 10);
		for (int c = 0; c < 4; c++)
			assert_true(sum[c] > 99.94 && sum[c] < 100.06);
	}
	live_free(l);
}

/* Bars: none, all, by eighths. */
TEST(test_bars)
{
	static const struct {
		double share;
		bool utf8;
		const char *bar;
	} bars[] = {
		{ 0, true, "|        |" },
		{ 1, true, "|████████|" },
		{ 2, true, "|████████|" },
		{ -1, true, "|        |" },
		{ 0.5, true, "|████    |" },
		{ 0.25 + 1.0 / 64, true, "|██▏     |" },
		{ 1.0 / 64, true, "|▏       |" },
		{ 0.5, false, "|####    |" },
		{ 1, false, "|########|" },
		{ 1.0 / 64, false, "|        |" },
	};

	for (size_t i = 0; i < sizeof(bars) / sizeof(bars[0]); i++) {
		struct canvas c = { .width = 10, .utf8 = bars[i].utf8 };

		canvas_text(&c, "|");
		canvas_bar(&c, bars[i].share, 8);
		canvas_text(&c, "|");
		assert_string_equal(c.text, bars[i].bar);
		free(c.text);
	}
}

/* What is cut, and what replaces it. */
TEST(test_text)
{
	struct canvas c = { .width = 8, .utf8 = true };

	canvas_text(&c, "a\x1b[m");
	canvas_text(&c, "\xc2\x9b\xff");
	canvas_text(&c, "日本"); /* two columns each: the second one does not fit */
	canvas_line(&c);
	assert_string_equal(c.text, "a?[m??日\n");
	assert_int_equal(canvas_width(&c, "日本e\xcc\x81"), 6);
	free(c.text);

	c = (struct canvas){ .width = 8 };
	canvas_text(&c, "ü日x");
	canvas_line(&c);
	assert_string_equal(c.text, "??x\n");
	free(c.text);

	c = (struct canvas){ .width = 10, .height = 3 };
	canvas_wrap(&c, "one two three four five six seven", 2);
	canvas_line(&c);
	canvas_text(&c, "dropped");
	canvas_line(&c);
	assert_string_equal(c.text, "one two\n  three\n  four\n");
	free(c.text);
}

/* Requests in batches, from two processes; narrow screens need more lines for them. */
TEST(test_batches)
{
	const struct percentiles ttft = { .n = 17, .p50 = 240 * MS, .p90 = 400 * MS, .p99 = 2 * SECOND };
	struct live_process one = { .pid = 100, .active = 3, .waiting = 1, .ttft = ttft };
	struct live_frame f = { .now = SECOND, .interval = SECOND, .processes = 2, .has_batches = true, .ttft = 7 * MS };
	struct screen s = { .width = 90, .utf8 = true };

	f.batches.all = f.batches.processes[0] = f.batches.processes[1] = one;
	f.batches.all.active = 5;
	f.batches.processes[1].pid = 101;
	f.batches.processes[1].ttft.n = 0;
	f.batches.n_processes = 2;
	draw(&s, &f);
	assert_string_equal(d.lines[2],
		"requests:  5 active, 1 waiting  TTFT in steps (17):  p50 240 ms  p90 400 ms  p99 2.00 s");
	assert_string_equal(d.lines[3],
		"  pid 100:  3 active, 1 waiting  TTFT in steps (17):  p50 240 ms  p90 400 ms  p99 2.00 s");
	assert_string_equal(d.lines[4], "  pid 101:  3 active, 1 waiting");

	f.batches.processes[1].scheduler[SCHEDULER_WAITING] = 1 + 12;
	draw(&s, &f);
	assert_string_equal(d.lines[4], "  pid 101:  3 active, 1 waiting  scheduler: 12 wait");
	f.batches.processes[1].scheduler[SCHEDULER_RUNNING] = f.batches.processes[1].scheduler[SCHEDULER_SLOTS] = 1 + 4;
	f.batches.processes[1].scheduler[SCHEDULER_KV_FREE] = 1;
	f.batches.processes[1].scheduler[SCHEDULER_KV_BLOCKS] = 1 + 512;
	s.width = 140;
	draw(&s, &f);
	assert_string_equal(d.lines[4],
		"  pid 101:  3 active, 1 waiting  scheduler: 12 wait, 4 of 4 slots taken, 0 of 512 blocks of the KV cache free");
	s.width = 90;

	/* at the end nothing is active any more */
	s.run_only = true;
	f.batches.n_processes = 1;
	draw(&s, &f);
	assert_string_equal(d.lines[2], "requests:  TTFT in steps (17):  p50 240 ms  p90 400 ms  p99 2.00 s");

	s.width = 30;
	draw(&s, &f);
}

/* Nothing is known yet, and there is no engine. */
TEST(test_empty)
{
	struct screen s = {
		.width = 80, .height = 24, .target = "sleep 1", .message = "no preset fits"
	};
	const struct live_frame *f;
	struct live *l = live_new();

	f = live_frame(l, 0, false);
	draw(&s, f);
	assert_true(has_line("sleep 1, no engine found"));
	assert_true(has_line("steps 0"));
	assert_false(has_line("Slow steps"));
	assert_false(has_line("%"));
	assert_true(has_line("no preset fits"));
	live_free(l);
}

static int use_utf8(void **state)
{
	return !setlocale(LC_CTYPE, "C.UTF-8");
}

RUN_TESTS(use_utf8, NULL)
