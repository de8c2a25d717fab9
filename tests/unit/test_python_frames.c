// SPDX-License-Identifier: BSD-2-Clause
/* The lists of interpreters, threads and frames, in a memory image laid out as each known version does, and leading
 * anywhere. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stack/python_frames.h"
#include "target/python.h"

#define BASE 0x10000u
#define RUNTIME BASE
#define INTERP(i) (BASE + 0x1000u * (1 + (i)))
#define THREAD(i) (BASE + 0x4000u + 0x1000u * (i))
#define FRAME(i) (BASE + 0x8000u + 0x100u * (i))
#define FRAMES 100
#define CODE 0x5000000000u
#define SELF 0x7f0000001000u

static uint8_t memory[0x10000];
static unsigned int reads;

static int read_image(void *arg, uint64_t address, void *buf, size_t len)
{
	(void)arg;
	reads++;
	if (address < BASE || address - BASE > sizeof(memory) || len > sizeof(memory) - (address - BASE))
		return -EFAULT;
	memcpy(buf, memory + (address - BASE), len);
	return 0;
}

static void put(uint64_t address, uint64_t value, size_t len)
{
	memcpy(memory + (address - BASE), &value, len);
}

/* For 3.13 and later: what an interpreter's own table says comes to this. */
static struct python_walk walk_of(unsigned int minor)
{
	struct python p;

	if (minor < 13) {
		assert_int_equal(python_layout_known(3, minor, &p), 0);
	} else {
		assert_int_equal(python_layout_known(3, 12, &p), 0);
		p.walk.thread_frame = 72;
		p.walk.cframe_frame = PYTHON_NO_OFFSET;
		p.walk.frame_owner = 74;
	}
	p.walk.runtime = RUNTIME;
	return p.walk;
}

/* A frame, or the mark of a call from C. Frame i calls frame i - 1. */
static void put_frame(const struct python_walk *w, unsigned int i, bool shim, bool entry)
{
	put(FRAME(i) + w->frame_code, (CODE + 0x100 * i) | 1, 8); /* with a tag, as 3.14 has them */
	put(FRAME(i) + w->frame_instr, 2 * i, w->flags & PYTHON_WALK_LASTI ? 4 : 8);
	put(FRAME(i) + w->frame_previous, FRAME(i + 1), 8);
	if (w->frame_owner != PYTHON_NO_OFFSET)
		put(FRAME(i) + w->frame_owner, shim ? w->owner_shim : 0, 1);
	if (w->frame_entry != PYTHON_NO_OFFSET)
		put(FRAME(i) + w->frame_entry, entry, 1);
}

/* Two interpreters; the second one has two threads, of which the second is ours, with n frames. */
static void put_process(const struct python_walk *w, unsigned int n)
{
	memset(memory, 0, sizeof(memory));
	put(RUNTIME + w->interpreters, INTERP(0), 8);
	put(INTERP(0) + w->interp_next, INTERP(1), 8);
	put(INTERP(1) + w->interp_threads, THREAD(0), 8);
	put(THREAD(0) + w->thread_next, THREAD(1), 8);
	put(THREAD(0) + w->thread_self, SELF + 1, 8);
	put(THREAD(1) + w->thread_self, SELF, 8);
	if (w->cframe_frame != PYTHON_NO_OFFSET) {
		put(THREAD(1) + w->thread_frame, THREAD(2), 8);
		put(THREAD(2) + w->cframe_frame, FRAME(0), 8);
	} else {
		put(THREAD(1) + w->thread_frame, FRAME(0), 8);
	}
	for (unsigned int i = 0; i < n; i++)
		put_frame(w, i, false, false);
	put(FRAME(n - 1) + w->frame_previous, 0, 8);
}

static void test_each_version(void **state)
{
	(void)state;
	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_walk w = walk_of(minor);
		struct python_frame f[SAMPLE_PYTHON_MAX];
		bool marks = w.frame_owner != PYTHON_NO_OFFSET, each = w.flags & PYTHON_WALK_EACH, cut = true;
		unsigned int n, at = 0;

		/* 0 is called by 1, 1 from C by 3 (or 2 is the mark of that), 3 from outside */
		put_process(&w, 5);
		put_frame(&w, 1, false, true);
		put_frame(&w, 2, marks, false);
		put_frame(&w, 3, false, true);
		put_frame(&w, 4, marks, false);
		put(FRAME(4) + w.frame_previous, 0, 8);
		n = python_frames(read_image, NULL, &w, SELF, f, &cut);
		assert_false(cut);
		assert_int_equal(n, marks ? 3 : 5);
		for (unsigned int i = 0; i < 5; i++) {
			bool entry = each || i == 1 || i == 3;

			if (marks && (i == 2 || i == 4))
				continue;
			assert_int_equal(f[at].code, CODE + 0x100 * i);
			assert_int_equal(f[at].instr & ~PYTHON_F_ENTRY, 2 * i);
			assert_int_equal(!!(f[at].instr & PYTHON_F_ENTRY), entry);
			at++;
		}
		assert_int_equal(python_frames(read_image, NULL, &w, SELF + 2, f, &cut), 0);
		assert_int_equal(python_frames(read_image, NULL, &w, 0, f, &cut), 0);
	}
}

static void test_more_than_fit(void **state)
{
	struct python_walk w = walk_of(11);
	struct python_frame f[SAMPLE_PYTHON_MAX];
	bool cut = false;

	(void)state;
	put_process(&w, FRAMES);
	assert_int_equal(python_frames(read_image, NULL, &w, SELF, f, &cut), SAMPLE_PYTHON_MAX);
	assert_true(cut);
	put_process(&w, SAMPLE_PYTHON_MAX);
	assert_int_equal(python_frames(read_image, NULL, &w, SELF, f, &cut), SAMPLE_PYTHON_MAX);
	assert_false(cut);
}

static void test_circles(void **state)
{
	(void)state;
	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_walk w = walk_of(minor);
		struct python_frame f[SAMPLE_PYTHON_MAX];
		bool cut = false;

		put_process(&w, 3);
		put(FRAME(2) + w.frame_previous, FRAME(0), 8);
		assert_int_equal(python_frames(read_image, NULL, &w, SELF, f, &cut), SAMPLE_PYTHON_MAX);
		assert_true(cut);
		put_process(&w, 3);
		put(THREAD(1) + w.thread_self, 0, 8);
		put(THREAD(1) + w.thread_next, THREAD(0), 8);
		assert_int_equal(python_frames(read_image, NULL, &w, SELF, f, &cut), 0);
		put(INTERP(1) + w.interp_threads, 0, 8);
		put(INTERP(1) + w.interp_next, INTERP(0), 8);
		assert_int_equal(python_frames(read_image, NULL, &w, SELF, f, &cut), 0);
	}
}

static void test_junk(void **state)
{
	(void)state;
	srand(3);
	for (unsigned int i = 0; i < 5000; i++) {
		struct python_walk w = walk_of(8 + i % 7);
		struct python_frame f[SAMPLE_PYTHON_MAX];
		bool cut;

		put_process(&w, 1 + (unsigned int)rand() % 80);
		for (unsigned int j = 0; j < 20; j++) {
			uint64_t wild = (uint64_t)rand() << 33 | (uint32_t)rand(), near = BASE + (unsigned int)rand() % sizeof(memory);

			put(BASE + (unsigned int)rand() % (sizeof(memory) - 8), rand() % 4 ? near : wild, 8);
		}
		reads = 0;
		assert_true(python_frames(read_image, NULL, &w, SELF, f, &cut) <= SAMPLE_PYTHON_MAX);
		assert_true(reads < 20000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_version),
		cmocka_unit_test(test_more_than_fit),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_junk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
