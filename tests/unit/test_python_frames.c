// SPDX-License-Identifier: BSD-2-Clause
/* The lists of interpreters, threads and frames, in a memory image laid out as each known version does, and leading
 * anywhere. */
#include "stack/python_name.h"
#include "target/python.h"
#include "unit.h"

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

static int read_image(void *arg, uint32_t tgid, uint64_t address, void *buf, size_t len)
{
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
		p.walk.frame_owner = p.walk.gen_owner = 74;
		p.walk.frame_locals = 80;
	}
	p.walk.runtime = RUNTIME;
	return p.walk;
}

static unsigned int frames_of(const struct python_walk *w, uint64_t self, struct python_found *f)
{
	struct python_names *n = python_names_new(read_image, NULL);
	const struct python p = { .walk = *w };

	python_names_set(n, 1, &p);
	python_names_frames(n, 1, self, f);
	python_names_free(n);
	return f->n;
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

TEST(test_each_version)
{
	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_walk w = walk_of(minor);
		struct python_found f;
		bool marks = w.frame_owner != PYTHON_NO_OFFSET, each = w.flags & PYTHON_WALK_EACH;
		unsigned int n, at = 0;

		/* 0 is called by 1, 1 from C by 3 (or 2 is the mark of that), 3 from outside */
		put_process(&w, 5);
		put_frame(&w, 1, false, true);
		put_frame(&w, 2, marks, false);
		put_frame(&w, 3, false, true);
		put_frame(&w, 4, marks, false);
		put(FRAME(4) + w.frame_previous, 0, 8);
		n = frames_of(&w, SELF, &f);
		assert_false(f.cut);
		assert_int_equal(n, marks ? 3 : 5);
		for (unsigned int i = 0; i < 5; i++) {
			bool entry = each || i == 1 || i == 3;

			if (marks && (i == 2 || i == 4))
				continue;
			assert_int_equal(f.frames[at].code, CODE + 0x100 * i);
			assert_int_equal(f.frames[at].instr & ~PYTHON_F_ENTRY, 2 * i);
			assert_int_equal(!!(f.frames[at].instr & PYTHON_F_ENTRY), entry);
			at++;
		}
		assert_int_equal(frames_of(&w, SELF + 2, &f), 0);
		assert_int_equal(frames_of(&w, 0, &f), 0);
	}
}

TEST(test_more_than_fit)
{
	struct python_walk w = walk_of(11);
	struct python_found f;

	put_process(&w, FRAMES);
	assert_int_equal(frames_of(&w, SELF, &f), SAMPLE_PYTHON_MAX);
	assert_true(f.cut);
	put_process(&w, SAMPLE_PYTHON_MAX);
	assert_int_equal(frames_of(&w, SELF, &f), SAMPLE_PYTHON_MAX);
	assert_false(f.cut);
}

TEST(test_circles)
{
	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_walk w = walk_of(minor);
		struct python_found f;

		put_process(&w, 3);
		put(FRAME(2) + w.frame_previous, FRAME(0), 8);
		assert_int_equal(frames_of(&w, SELF, &f), SAMPLE_PYTHON_MAX);
		assert_true(f.cut);
		put_process(&w, 3);
		put(THREAD(1) + w.thread_self, 0, 8);
		put(THREAD(1) + w.thread_next, THREAD(0), 8);
		assert_int_equal(frames_of(&w, SELF, &f), 0);
		put(INTERP(1) + w.interp_threads, 0, 8);
		put(INTERP(1) + w.interp_next, INTERP(0), 8);
		assert_int_equal(frames_of(&w, SELF, &f), 0);
	}
}

TEST(test_junk)
{
	srand(3);
	for (unsigned int i = 0; i < 5000; i++) {
		struct python_walk w = walk_of(8 + i % 7);
		struct python_found f;

		put_process(&w, 1 + (unsigned int)rand() % 80);
		for (unsigned int j = 0; j < 20; j++) {
			uint64_t wild = (uint64_t)rand() << 33 | (uint32_t)rand(), near = BASE + (unsigned int)rand() % sizeof(memory);

			put(BASE + (unsigned int)rand() % (sizeof(memory) - 8), rand() % 4 ? near : wild, 8);
		}
		reads = 0;
		assert_true(frames_of(&w, SELF, &f) <= SAMPLE_PYTHON_MAX);
		assert_true(reads < 20000);
	}
}

#define OBJECT(i) (BASE + 0xf000u + 0x100u * (i))
#define END (BASE + sizeof(memory))

enum {
	HANDLE,
	CALLBACK,
	TASK,
	CODE_OBJECT,
	GENERATORS,
};

/* Makes the frame that of a generator or coroutine, and returns that. */
static uint64_t put_generator(const struct python_walk *w, unsigned int i)
{
	uint64_t object = OBJECT(GENERATORS + i / 4);

	if (w->frame_gen == PYTHON_NO_OFFSET) {
		put(FRAME(i) + w->gen_owner, PYTHON_OWNER_GENERATOR, 1);
		return FRAME(i) - w->gen_frame;
	}
	put(FRAME(i) + w->frame_gen, object, 8);
	return object;
}

/* A function, two coroutines, of which the outer one is the task's, the loop's function, and one more. They are further
 * apart than other frames, since these have variables. */
static void put_task(const struct python_walk *w, unsigned int place, uint64_t name)
{
	uint64_t gen;

	put_process(w, 17);
	for (unsigned int i = 0; i < 16; i += 4)
		put(FRAME(i) + w->frame_previous, FRAME(i + 4), 8);
	put_generator(w, 4);
	gen = put_generator(w, 8);
	put(FRAME(12) + w->frame_locals, OBJECT(HANDLE) | (w->cframe_frame == PYTHON_NO_OFFSET), 8);
	put(OBJECT(HANDLE) + PYTHON_HANDLE_CALLBACK, OBJECT(CALLBACK), 8);
	put(OBJECT(CALLBACK) + place, OBJECT(TASK), 8);
	put(OBJECT(TASK) + w->task_coro, gen, 8);
	put(OBJECT(TASK) + w->task_name, name, 8);
	memset(memory + (name - BASE), 'n', END - name < PYTHON_TASK_BYTES ? END - name : PYTHON_TASK_BYTES);
}

TEST(test_tasks)
{
	static const unsigned int places[] = { PYTHON_CALLBACK_STEP, PYTHON_CALLBACK_METHOD };
	struct python_found f;

	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_walk w = walk_of(minor);

		for (unsigned int i = 0; i < 2; i++) {
			put_task(&w, places[i], END - PYTHON_TASK_BYTES);
			assert_int_equal(frames_of(&w, SELF, &f), 5);
			assert_true(f.has_task);
			assert_int_equal(f.task.frames, 3);
			assert_int_equal(f.task.bytes, PYTHON_TASK_BYTES);
			assert_int_equal(f.task.name[PYTHON_TASK_BYTES - 1], 'n');
		}
		/* the name is at the end of what is there */
		put_task(&w, places[0], END - 64);
		frames_of(&w, SELF, &f);
		assert_true(f.has_task);
		assert_int_equal(f.task.bytes, 64);
		/* another one's coroutine, and no task at all */
		put(OBJECT(TASK) + w.task_coro, OBJECT(HANDLE), 8);
		frames_of(&w, SELF, &f);
		assert_false(f.has_task);
		put_task(&w, places[0], END - 64);
		put(FRAME(12) + w.frame_locals, 0, 8);
		frames_of(&w, SELF, &f);
		assert_false(f.has_task);
		assert_int_equal(f.n, 5);
		put_task(&w, places[0], END - 64);
		w.task_coro = PYTHON_NO_OFFSET;
		frames_of(&w, SELF, &f);
		assert_false(f.has_task);
	}
}

/* From 3.12 on a function may run another task's coroutine at once, whose name is not known. A plain generator is of the task. */
TEST(test_eager_tasks)
{
	struct python_found f;

	for (unsigned int minor = 8; minor <= 14; minor++) {
		for (unsigned int flags = 0; flags <= 0x80; flags += 0x80) {
			struct python_walk w = walk_of(minor);

			put_task(&w, PYTHON_CALLBACK_STEP, END - 64);
			put_generator(&w, 0);
			put_frame(&w, 4, false, false);
			put(FRAME(4) + w.frame_previous, FRAME(8), 8);
			if (w.frame_gen == PYTHON_NO_OFFSET)
				put(FRAME(4) + w.gen_owner, 0, 1);
			else
				put(FRAME(4) + w.frame_gen, 0, 8);
			put(FRAME(0) + w.frame_code, OBJECT(CODE_OBJECT), 8);
			if (w.code_flags != PYTHON_NO_OFFSET)
				put(OBJECT(CODE_OBJECT) + w.code_flags, flags, 4);
			frames_of(&w, SELF, &f);
			assert_int_equal(f.has_task, minor < 12 || !flags);
			assert_int_equal(f.n, 5);
		}
	}
}

RUN_TESTS(NULL, NULL)
