// SPDX-License-Identifier: BSD-2-Clause
/* Collapsed stacks: one line for each stack of threads of one name, COMM;OUTERMOST;...;INNERMOST and a number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/samples.h"
#include "util/text.h"

#define PART_MAX (4 * SAMPLES_LABEL_MAX)

/* Sums of threads with the same name. */
struct lines {
	struct pool keys; /* struct line */
	uint64_t *values;
	uint32_t size;
};

struct line {
	uint32_t thread, stack; /* the first one with its name */
};

/* A part of a line: no semicolon, no control character, no line break. */
static void put_part(const char *text, FILE *out)
{
	char buf[PART_MAX];

	text_printable(buf, sizeof(buf), text);
	for (char *p = buf; (p = strchr(p, ';')); p++)
		*p = ':';
	fputs(buf, out);
}

static void put_frame(const struct samples *s, uint32_t frame, FILE *out)
{
	const struct samples_frame *f = samples_frame(s, frame);
	char label[SAMPLES_LABEL_MAX];

	fputc(';', out);
	put_part(samples_label(s, f, label), out);
	if (!strncmp(samples_text(s, f->mapping), "[kernel", 7))
		fputs("_[k]", out);
}

/* What a line begins with. */
static const char *thread_name(const struct samples *s, uint32_t thread, char buf[32])
{
	const struct samples_thread *t = samples_thread(s, thread);
	const char *name = samples_name(s, t->pid, t->tid);

	snprintf(buf, 32, "pid %u", t->pid);
	return name[0] ? name : buf;
}

static void put_line(const struct samples *s, const struct line *line, uint64_t value, FILE *out)
{
	const uint32_t *frames;
	char buf[32];
	size_t n;

	put_part(thread_name(s, line->thread, buf), out);
	frames = samples_stack(s, line->stack, &n);
	for (size_t i = 0; i < n; i++)
		put_frame(s, frames[i], out);
	fprintf(out, " %llu\n", (unsigned long long)value);
}

/* The first thread with the same name. */
static int64_t first_thread(const struct samples *s, struct pool *names, uint32_t *first, uint32_t thread)
{
	char buf[32];
	const char *name = thread_name(s, thread, buf);
	uint32_t n = names->n;
	int64_t number = pool_add(names, name, strlen(name) + 1);

	if (number >= 0 && names->n > n)
		first[number] = thread;
	return number < 0 ? number : first[number];
}

static int add_sums(const struct samples *s, bool off_cpu, struct lines *l)
{
	uint32_t *first = calloc(s->threads.n + 1, sizeof(*first));
	struct pool names = { 0 };
	int err = first ? 0 : -ENOMEM;

	l->values = calloc(s->keys.n + 1, sizeof(*l->values));
	if (!l->values)
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < s->keys.n; i++) {
		const struct samples_key *k = samples_key(s, i);
		struct line line = { .stack = k->stack };
		int64_t number;

		if (k->off_cpu != off_cpu)
			continue;
		number = first_thread(s, &names, first, k->thread);
		line.thread = (uint32_t)number;
		number = number < 0 ? number : pool_add(&l->keys, &line, sizeof(line));
		if (number < 0)
			err = -ENOMEM;
		else
			l->values[number] += off_cpu ? s->sums[i].ns : s->sums[i].n;
	}
	pool_clear(&names);
	free(first);
	return err;
}

int collapsed_write(const struct samples *s, bool off_cpu, FILE *out)
{
	struct lines l = { 0 };
	int err = add_sums(s, off_cpu, &l);

	for (uint32_t i = 0; !err && i < l.keys.n; i++) {
		/* of waits in microseconds, rounded up so that none is lost */
		put_line(s, pool_get(&l.keys, i), off_cpu ? (l.values[i] + 999) / 1000 : l.values[i], out);
	}
	if (!err && (fflush(out) || ferror(out)))
		err = -EIO;
	pool_clear(&l.keys);
	free(l.values);
	return err;
}
