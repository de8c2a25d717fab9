// SPDX-License-Identifier: BSD-2-Clause
#include "stack/python_frames.h"

/* As in bpf/python.bpf.h. */
#define THREADS_MAX 2048
#define STEPS_MAX (3 * SAMPLE_PYTHON_MAX)

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

	for (unsigned int i = 0; i < THREADS_MAX; i++) {
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

unsigned int python_frames(python_frames_read read, void *arg, const struct python_walk *w, uint64_t self,
	struct python_frame ret_frames[SAMPLE_PYTHON_MAX], bool *ret_cut)
{
	const struct memory m = { read, arg, w };
	uint64_t frame = self ? find(&m, self) : 0, previous;
	unsigned int n = 0;

	for (unsigned int i = 0; frame && i < STEPS_MAX; i++) {
		if (read(arg, frame + w->frame_previous, &previous, sizeof(previous)))
			break;
		if (w->frame_owner != PYTHON_NO_OFFSET && get(&m, frame + w->frame_owner, 1) >= w->owner_shim) {
			if (n)
				ret_frames[n - 1].instr |= PYTHON_F_ENTRY;
		} else {
			if (n == SAMPLE_PYTHON_MAX)
				break;
			ret_frames[n++] = read_frame(&m, frame);
		}
		frame = previous;
	}
	*ret_cut = frame != 0;
	return n;
}
