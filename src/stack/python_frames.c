// SPDX-License-Identifier: BSD-2-Clause
#include "stack/python_frames.h"

struct memory {
	python_frames_read read;
	void *arg;
	const struct python_walk *w;
};

/* 0 also if it cannot be read. */
static uint64_t get(const struct memory *m, uint64_t address, size_t len)
{
	uint64_t v = 0;

	return m->read(m->arg, address, &v, len) ? 0 : v;
}

static uint64_t innermost(const struct memory *m, uint64_t thread)
{
	uint64_t frame = get(m, thread + m->w->thread_frame, 8);

	if (frame && m->w->cframe_frame != PYTHON_NO_OFFSET)
		frame = get(m, frame + m->w->cframe_frame, 8);
	return frame;
}

/* The innermost frame of the thread; 0: it has none. */
static uint64_t find(const struct memory *m, uint64_t self)
{
	uint64_t interp = get(m, m->w->runtime + m->w->interpreters, 8), thread = 0;

	for (unsigned int i = 0; i < PYTHON_THREADS_MAX; i++) {
		uint64_t frame;

		if (!thread) {
			if (!interp)
				break;
			thread = get(m, interp + m->w->interp_threads, 8);
			interp = get(m, interp + m->w->interp_next, 8);
			continue;
		}
		frame = get(m, thread + m->w->thread_self, 8) == self ? innermost(m, thread) : 0;
		if (frame)
			return frame;
		thread = get(m, thread + m->w->thread_next, 8);
	}
	return 0;
}

static struct python_frame read_frame(const struct memory *m, uint64_t frame)
{
	const struct python_walk *w = m->w;
	struct python_frame f = {
		.code = get(m, frame + w->frame_code, 8) & ~PYTHON_TAGS,
		.instr = get(m, frame + w->frame_instr, w->flags & PYTHON_WALK_LASTI ? 4 : 8) & ~PYTHON_F_ENTRY,
	};

	if (w->flags & PYTHON_WALK_EACH || (w->frame_entry != PYTHON_NO_OFFSET && get(m, frame + w->frame_entry, 1)))
		f.instr |= PYTHON_F_ENTRY;
	return f;
}

/* The generator or coroutine that a frame belongs to; 0: none. */
static uint64_t generator_of(const struct memory *m, uint64_t frame)
{
	if (m->w->frame_gen != PYTHON_NO_OFFSET)
		return get(m, frame + m->w->frame_gen, 8);
	return get(m, frame + m->w->gen_owner, 1) == PYTHON_OWNER_GENERATOR ? frame - m->w->gen_frame : 0;
}

static void copy_task(const struct memory *m, uint64_t name, struct python_found *f)
{
	const uint32_t step = 32;

	f->task.frames = f->n;
	f->task.bytes = 0;
	while (f->task.bytes < PYTHON_TASK_BYTES && !m->read(m->arg, name + f->task.bytes, f->task.name + f->task.bytes, step))
		f->task.bytes += step;
	f->has_task = f->task.bytes > 0;
}

/* See python_task_look() in bpf/python.bpf.h. Returns whether no task is to be looked for any further. */
static bool look_for_task(const struct memory *m, uint64_t frame, uint64_t gen, struct python_found *f)
{
	uint64_t self = get(m, frame + m->w->frame_locals, 8) & ~PYTHON_TAGS, callback, task;

	callback = self ? get(m, self + PYTHON_HANDLE_CALLBACK, 8) : 0;
	for (int i = 0; callback && i < 2; i++) {
		task = get(m, callback + (i ? PYTHON_CALLBACK_METHOD : PYTHON_CALLBACK_STEP), 8);
		if (!task || get(m, task + m->w->task_coro, 8) != gen)
			continue;
		copy_task(m, get(m, task + m->w->task_name, 8), f);
		return true;
	}
	return m->w->code_flags != PYTHON_NO_OFFSET && f->n &&
	       get(m, f->frames[f->n - 1].code + m->w->code_flags, 4) & PYTHON_CODE_ASYNC;
}

void python_frames(python_frames_read read, void *arg, const struct python_walk *w, uint64_t self, struct python_found *ret)
{
	const struct memory m = { read, arg, w };
	uint64_t frame = self ? find(&m, self) : 0, previous, gen, inner = 0;
	bool looks = w->task_coro != PYTHON_NO_OFFSET;

	ret->n = 0;
	ret->has_task = false;
	for (unsigned int i = 0; frame && i < PYTHON_STEPS_MAX; i++) {
		if (read(arg, frame + w->frame_previous, &previous, sizeof(previous)))
			break;
		if (w->frame_owner != PYTHON_NO_OFFSET && get(&m, frame + w->frame_owner, 1) >= w->owner_shim) {
			if (ret->n)
				ret->frames[ret->n - 1].instr |= PYTHON_F_ENTRY;
		} else {
			if (ret->n == SAMPLE_PYTHON_MAX)
				break;
			gen = looks ? generator_of(&m, frame) : 0;
			if (!gen && inner)
				looks = !look_for_task(&m, frame, inner, ret);
			inner = gen;
			ret->frames[ret->n++] = read_frame(&m, frame);
		}
		frame = previous;
	}
	ret->cut = frame != 0;
}
