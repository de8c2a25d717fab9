// SPDX-License-Identifier: BSD-2-Clause
/* The samples of a profile. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/samples.h"
#include "read/profile.h"

#define FRAMES_MAX 4096 /* of one stack; further ones are left out */

struct profile_loader {
	struct samples *s;
	const struct samples_filter *filter;
	samples_problem problem;
	void *arg;
	struct pool ids;   /* of stacks whose frames were there, as in the file */
	uint32_t *numbers; /* of each */
	uint32_t numbers_size;
};

static bool is(const struct json_node *node, const char *text)
{
	const char *s = node_string(node);

	return s && !strcmp(s, text);
}

/* NAME [WHERE], NAME (FILE:LINE), or a name alone. *buf has a copy, which is cut into its parts. */
static int64_t add_frame(struct samples *s, char *buf)
{
	struct samples_source f = { .name = buf, .mapping = "", .build_id = "", .file = "" };
	size_t len = strlen(buf);
	char *open = NULL, *colon = NULL;

	for (char *p = buf; len && (p = strpbrk(p, " :")); p++) {
		if (p[0] == ':')
			colon = p;
		else if (p[1] == (buf[len - 1] == ')' ? '(' : '['))
			open = p;
	}
	if (open && buf[len - 1] == ')' && colon > open) {
		f.line = (uint32_t)strtoul(colon + 1, NULL, 10);
		*colon = 0;
		f.file = f.mapping = open + 2;
		*open = 0;
	} else if (open && buf[len - 1] == ']') {
		f.mapping = open + 1;
		*open = 0;
		if (strcmp(f.mapping, "[kernel]") && strcmp(f.mapping, "[jit]")) {
			buf[len - 1] = 0;
			f.mapping++;
		}
	}
	f.name_len = strlen(buf);
	return samples_add_frame(s, &f);
}

/* The stack of a line with frames, which are the innermost first. */
static int64_t add_stack(struct profile_loader *l, const struct json_node *list)
{
	uint32_t frames[FRAMES_MAX];
	size_t n = FRAMES_MAX;

	json_for_each (frame, list) {
		const char *text = node_string(frame);
		char *copy = text && n ? strndup(text, SAMPLES_LABEL_MAX) : NULL;
		int64_t number = copy ? add_frame(l->s, copy) : -ENOMEM;

		free(copy);
		if (number < 0) {
			if (text && n)
				return number;
			break;
		}
		frames[--n] = (uint32_t)number;
	}
	return samples_add_stack(l->s, frames + n, FRAMES_MAX - n);
}

/* Remembers the stack of an id. */
static int keep(struct profile_loader *l, uint64_t id, uint32_t stack)
{
	int64_t number = pool_add(&l->ids, &id, sizeof(id));

	if (number < 0)
		return -ENOMEM;
	if (number >= l->numbers_size) {
		uint32_t size = 2 * (uint32_t)number + 256;
		uint32_t *numbers = realloc(l->numbers, size * sizeof(*numbers));

		if (!numbers)
			return -ENOMEM;
		l->numbers = numbers;
		l->numbers_size = size;
	}
	l->numbers[number] = stack;
	return 0;
}

/* Its number, or -errno; the stack of a line without one is empty. */
static int64_t stack_of(struct profile_loader *l, const struct profile_line *line, const struct json_node *shape)
{
	const struct json_node *id = node_get(shape, "stack"), *frames = node_get(line->object, "frames");
	uint64_t key = node_u64(id);
	int64_t stack;
	int err;

	if (id && !frames) {
		stack = pool_find(&l->ids, &key, sizeof(key));
		if (stack >= 0)
			return l->numbers[stack];
		l->problem(l->arg, line->number, "the frames of its stack were in no line before");
	}
	stack = id && frames ? add_stack(l, frames) : samples_add_stack(l->s, NULL, 0);
	err = id && frames && stack >= 0 ? keep(l, key, (uint32_t)stack) : 0;
	return err ? err : stack;
}

static bool is_wanted(const struct samples_filter *f, const struct json_node *shape)
{
	const struct json_node *step = node_get(shape, "step");

	return (!f->phase || is(node_get(shape, "phase"), f->phase)) && (!f->state || is(node_get(shape, "state"), f->state)) &&
	       (f->step < 0 || (step && node_s64(step) == f->step));
}

static int take_line(void *ctx, const struct profile_line *line)
{
	const struct json_node *shape = line->values[PROFILE_KEY_shape];
	struct samples_thread t = { (uint32_t)node_u64(node_get(shape, "pid")), 0 };
	const char *comm = node_string(node_get(shape, "comm"));
	struct profile_loader *l = ctx;
	struct samples_sum sum;
	int64_t stack, ns;

	if (!is(line->values[PROFILE_KEY_event], "stack_prof"))
		return comm && t.pid && comm[0] ? samples_add_name(l->s, &t, comm, strlen(comm)) : 0;
	t.tid = (uint32_t)node_u64(node_get(shape, "tid"));
	sum.n = node_u64(node_get(shape, "samples"));
	if (node_us_to_ns(node_get(line->values[PROFILE_KEY_stage_us], "total"), &ns) || ns < 0 || sum.n - 1 >= UINT32_MAX) {
		l->problem(l->arg, line->number, "stack_prof without samples or total");
		return 0;
	}
	sum.ns = (uint64_t)ns;
	stack = stack_of(l, line, shape); /* its frames may be needed even if the line is not */
	if (stack < 0)
		return (int)stack;
	if (!is_wanted(l->filter, shape))
		return 0;
	return samples_add(l->s, &t, is(node_get(shape, "kind"), "wait"), (uint32_t)stack, line->number, &sum);
}

static void pass_problem(void *ctx, uint64_t number, const char *why)
{
	struct profile_loader *l = ctx;

	l->problem(l->arg, number, why);
}

int samples_read_profile(struct samples *s, struct json_source *source, const struct samples_filter *filter,
	samples_problem problem, void *arg)
{
	static const struct profile_reader_ops ops = { .line = take_line, .bad = pass_problem };
	struct profile_loader l = { .s = s, .filter = filter, .problem = problem, .arg = arg };
	int err = profile_read(source, &ops, &l);

	pool_clear(&l.ids);
	free(l.numbers);
	return err;
}
