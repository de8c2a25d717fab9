// SPDX-License-Identifier: BSD-2-Clause
/* Collapsed stacks: one line for each stack of threads of one name, COMM;OUTERMOST;...;INNERMOST and a number. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/samples.h"
#include "util/text.h"

#define PART_MAX (4 * SAMPLES_LABEL_MAX)

/*
 * Lines that are the same are one: threads can have the same name, and so can different functions of the kernel, such as
 * the programs of two recorders.
 */
struct lines {
	struct pool texts;
	uint64_t *values;
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

/* A line without its number. The caller frees it. */
static int line_of(const struct samples *s, const struct samples_key *k, char **ret_text)
{
	const uint32_t *frames;
	size_t n, size;
	char *text, buf[32];
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	put_part(thread_name(s, k->thread, buf), out);
	frames = samples_stack(s, k->stack, &n);
	for (size_t i = 0; i < n; i++)
		put_frame(s, frames[i], out);
	if (fclose(out))
		return -ENOMEM;
	*ret_text = text;
	return 0;
}

static int add_sums(const struct samples *s, bool off_cpu, struct lines *l)
{
	l->values = calloc(s->keys.n + 1, sizeof(*l->values));
	if (!l->values)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->keys.n; i++) {
		const struct samples_key *k = samples_key(s, i);
		int64_t number;
		char *text;
		int err;

		if (k->off_cpu != off_cpu)
			continue;
		err = line_of(s, k, &text);
		if (err)
			return err;
		number = pool_add(&l->texts, text, strlen(text) + 1);
		free(text);
		if (number < 0)
			return -ENOMEM;
		l->values[number] += off_cpu ? s->sums[i].ns : s->sums[i].n;
	}
	return 0;
}

int collapsed_write(const struct samples *s, bool off_cpu, FILE *out)
{
	struct lines l = { 0 };
	int err = add_sums(s, off_cpu, &l);

	for (uint32_t i = 0; !err && i < l.texts.n; i++) {
		/* of waits in microseconds, rounded up so that none is lost */
		fprintf(out, "%s %" PRIu64 "\n", (const char *)pool_get(&l.texts, i),
			off_cpu ? (l.values[i] + 999) / 1000 : l.values[i]);
	}
	if (!err && (fflush(out) || ferror(out)))
		err = -EIO;
	pool_clear(&l.texts);
	free(l.values);
	return err;
}
