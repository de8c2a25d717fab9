// SPDX-License-Identifier: BSD-2-Clause
#include "export/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "read/pftrace.h"

struct loader {
	struct samples *s;
	samples_problem problem;
	void *arg;
};

static size_t bytes_of(const struct samples *s)
{
	return s->texts.bytes + s->frames.bytes + s->stacks.bytes + s->threads.bytes + s->keys.bytes + s->named.bytes +
	       s->n_events * sizeof(*s->events);
}

static int64_t text_add_len(struct samples *s, const char *text, size_t len)
{
	char buf[SAMPLES_LABEL_MAX];

	len = len < sizeof(buf) ? len : sizeof(buf) - 1;
	memcpy(buf, text, len);
	buf[len] = 0;
	return pool_add(&s->texts, buf, strlen(buf) + 1);
}

static int64_t text_add(struct samples *s, const char *text)
{
	return text_add_len(s, text, strnlen(text, SAMPLES_LABEL_MAX));
}

const char *samples_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Where " (FILE:LINE)" begins at the end of a name, if FILE is the last part of what is mapped. NULL: it does not. */
static const char *find_line(const char *name, const char *mapping, uint32_t *ret_line)
{
	const char *base = samples_base(mapping), *open = NULL, *next = name;
	size_t len = strlen(base);
	unsigned long line;
	char *end;

	while ((next = strstr(next, " (")))
		open = next++;
	if (!open || !len || strncmp(open + 2, base, len) || open[2 + len] != ':')
		return NULL;
	if (open[3 + len] < '0' || open[3 + len] > '9')
		return NULL;
	errno = 0;
	line = strtoul(open + 3 + len, &end, 10);
	if (errno || line > UINT32_MAX || strcmp(end, ")"))
		return NULL;
	*ret_line = (uint32_t)line;
	return open;
}

int64_t samples_add_frame(struct samples *s, const struct samples_source *from)
{
	struct samples_frame f = { .pc = from->pc, .line = from->line };
	const char *const texts[] = { from->mapping, from->build_id, from->line ? from->file : "" };
	uint32_t *const to[] = { &f.mapping, &f.build_id, &f.file };
	int64_t number = text_add_len(s, from->name, from->name_len);

	f.name = (uint32_t)number;
	for (size_t i = 0; number >= 0 && i < 3; i++) {
		number = text_add(s, texts[i]);
		*to[i] = (uint32_t)number;
	}
	return number < 0 ? number : pool_add(&s->frames, &f, sizeof(f));
}

static int64_t frame_add(struct samples *s, const struct pftrace_frame *from)
{
	struct samples_source f = { from->name, strlen(from->name), from->mapping, from->build_id, "", 0, from->rel_pc };
	const char *line = find_line(from->name, from->mapping, &f.line);

	if (line) {
		f.name_len = (size_t)(line - from->name);
		f.file = from->mapping;
	}
	return samples_add_frame(s, &f);
}

int64_t samples_add_stack(struct samples *s, const uint32_t *frames, size_t n)
{
	static const struct samples_source none = { "[no stack]", 10, "", "", "", 0, 0 };
	uint32_t only;
	int64_t number = 0;

	if (!n) {
		number = samples_add_frame(s, &none);
		only = (uint32_t)number;
		frames = &only;
		n = 1;
	}
	return number < 0 ? number : pool_add(&s->stacks, frames, n * sizeof(frames[0]));
}

static int64_t stack_add(struct samples *s, struct pftrace_stack *from)
{
	uint32_t frames[PFTRACE_FRAMES_MAX];
	size_t n = from ? from->n : 0;
	int64_t number = 0;

	if (from && from->user)
		return from->user - 1;
	for (size_t i = 0; i < n && number >= 0; i++) {
		number = frame_add(s, from->frames[i]);
		frames[i] = (uint32_t)number;
	}
	number = number < 0 ? number : samples_add_stack(s, n ? frames : NULL, n);
	if (from && number >= 0)
		from->user = (uint32_t)number + 1;
	return number;
}

/* Room for `n` elements of a list that grows with a pool. */
static int list_reserve(void *list, uint32_t *size, size_t element, uint32_t n)
{
	void *p;

	if (n <= *size)
		return 0;
	n = n < 256 ? 256 : 2 * n;
	p = realloc(*(void **)list, n * element);
	if (!p)
		return -ENOMEM;
	memset((char *)p + *size * element, 0, (n - *size) * element);
	*(void **)list = p;
	*size = n;
	return 0;
}

static int event_add(struct samples *s, uint64_t at_ns, uint64_t ns, uint32_t key)
{
	if (s->n_events == s->events_size) {
		size_t size = s->events_size ? 2 * s->events_size : 4096;
		struct samples_event *list = realloc(s->events, size * sizeof(*list));

		if (!list)
			return -ENOMEM;
		s->events = list;
		s->events_size = size;
	}
	s->events[s->n_events++] = (struct samples_event){ .at_ns = at_ns, .ns = ns, .key = key };
	return 0;
}

int samples_add(struct samples *s, const struct samples_thread *t, bool off_cpu, uint32_t stack, uint64_t at_ns,
	const struct samples_sum *sum)
{
	struct samples_key key = { .stack = stack, .off_cpu = off_cpu };
	int64_t thread = pool_add(&s->threads, t, sizeof(*t)), number;

	if (bytes_of(s) > SAMPLES_BYTES_MAX)
		return -E2BIG;
	key.thread = (uint32_t)thread;
	number = thread < 0 ? thread : pool_add(&s->keys, &key, sizeof(key));
	if (number < 0 || list_reserve(&s->sums, &s->sums_size, sizeof(*s->sums), s->keys.n))
		return -ENOMEM;
	s->sums[number].n += sum->n;
	s->sums[number].ns += sum->ns;
	s->n[off_cpu] += sum->n;
	s->ns[off_cpu] += sum->ns;
	return s->each ? event_add(s, at_ns, sum->ns, (uint32_t)number) : 0;
}

static int add_sample(void *ctx, const struct pftrace_sample *from)
{
	struct loader *l = ctx;
	int64_t stack = stack_add(l->s, from->stack);

	return stack < 0 ? (int)stack
			 : samples_add(l->s, &(struct samples_thread){ from->pid, from->tid }, from->off_cpu, (uint32_t)stack,
				   from->ns, &(struct samples_sum){ 1, from->weight_ns });
}

int samples_add_name(struct samples *s, const struct samples_thread *t, const char *text, size_t len)
{
	int64_t number = pool_add(&s->named, t, sizeof(*t)), name = text_add_len(s, text, len);

	if (bytes_of(s) > SAMPLES_BYTES_MAX)
		return -E2BIG;
	if (number < 0 || name < 0 || list_reserve(&s->names, &s->names_size, sizeof(*s->names), s->named.n))
		return -ENOMEM;
	s->names[number] = (uint32_t)name + 1;
	return 0;
}

static int add_name(void *ctx, uint32_t pid, uint32_t tid, const char *text, size_t len)
{
	struct loader *l = ctx;

	return samples_add_name(l->s, &(struct samples_thread){ pid, tid }, text, len);
}

static void pass_problem(void *ctx, uint64_t offset, const char *why)
{
	struct loader *l = ctx;

	l->problem(l->arg, offset, why);
}

int samples_read(struct samples *s, struct json_source *source, samples_problem problem, void *arg, bool *ret_torn)
{
	static const struct pftrace_ops ops = { .sample = add_sample, .name = add_name, .bad = pass_problem };
	struct loader l = { .s = s, .problem = problem, .arg = arg };

	return pftrace_read(source, &ops, &l, ret_torn);
}

void samples_clear(struct samples *s)
{
	pool_clear(&s->texts);
	pool_clear(&s->frames);
	pool_clear(&s->stacks);
	pool_clear(&s->threads);
	pool_clear(&s->keys);
	pool_clear(&s->named);
	free(s->names);
	free(s->sums);
	free(s->events);
	*s = (struct samples){ 0 };
}

const char *samples_text(const struct samples *s, uint32_t text)
{
	return pool_get(&s->texts, text);
}

const struct samples_frame *samples_frame(const struct samples *s, uint32_t frame)
{
	return pool_get(&s->frames, frame);
}

const uint32_t *samples_stack(const struct samples *s, uint32_t stack, size_t *ret_n)
{
	*ret_n = pool_len(&s->stacks, stack) / sizeof(uint32_t);
	return pool_get(&s->stacks, stack);
}

const struct samples_key *samples_key(const struct samples *s, uint32_t key)
{
	return pool_get(&s->keys, key);
}

const struct samples_thread *samples_thread(const struct samples *s, uint32_t thread)
{
	return pool_get(&s->threads, thread);
}

const char *samples_name(const struct samples *s, uint32_t pid, uint32_t tid)
{
	struct samples_thread t = { pid, tid };
	int64_t number = pool_find(&s->named, &t, sizeof(t));

	if (number < 0 && tid) {
		t.tid = 0;
		number = pool_find(&s->named, &t, sizeof(t));
	}
	return number < 0 ? "" : samples_text(s, s->names[number] - 1);
}

const char *samples_label(const struct samples *s, const struct samples_frame *f, char buf[SAMPLES_LABEL_MAX])
{
	const char *name = samples_text(s, f->name), *base = samples_base(samples_text(s, f->mapping));

	if (f->line)
		snprintf(buf, SAMPLES_LABEL_MAX, "%s (%s:%u)", name, samples_base(samples_text(s, f->file)), f->line);
	else if (name[0] && (strcmp(name, "[unknown]") || !base[0]))
		snprintf(buf, SAMPLES_LABEL_MAX, "%s", name);
	else if (base[0] == '[')
		snprintf(buf, SAMPLES_LABEL_MAX, "%s", base);
	else
		snprintf(buf, SAMPLES_LABEL_MAX, "[%s]", base[0] ? base : "unknown");
	return buf;
}
