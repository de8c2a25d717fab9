// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "export/message.h"
#include "export/samples.h"
#include "util/fmt.h"

/* pprof's format: profile.proto of https://github.com/google/pprof, compressed with gzip. */

/* Profile */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_DEFAULT_TYPE = 14,
};

/* Texts that are not from the trace. */
enum word {
	WORD_NONE,
	WORD_SAMPLES,
	WORD_COUNT,
	WORD_CPU,
	WORD_NANOSECONDS,
	WORD_WAITS,
	WORD_OFF_CPU,
	WORD_THREAD,
	WORD_PID,
	WORD_TID,
	WORDS,
};

static const char *const words[WORDS] = { "", "samples", "count", "cpu", "nanoseconds", "waits", "off_cpu", "thread", "pid",
	"tid" };

struct pprof {
	const struct samples *s;
	gzFile gz;
	struct message message, inner, packed;
	struct pool strings;   /* with their NUL; first the words */
	struct pool mappings;  /* struct pprof_mapping; numbered from 1 in the file */
	struct pool functions; /* struct function */
	bool failed;
};

struct pprof_mapping {
	uint32_t file, build_id; /* strings */
};

struct function {
	uint32_t name, file;
};

static void put_varint(struct message *m, uint64_t v)
{
	char buf[10];

	message_add(m, buf, (size_t)(proto_varint(buf, v) - buf));
}

static void put_number_field(struct message *m, uint32_t field, uint64_t v)
{
	char buf[PROTO_U64_MAX];

	if (v)
		message_add(m, buf, (size_t)(proto_u64(buf, field, v) - buf));
}

/* Writes a finished field of the profile. */
static void pprof_write_message(struct pprof *p)
{
	p->failed |= p->message.len && gzwrite(p->gz, p->message.buf, (unsigned int)p->message.len) <= 0;
	p->message.len = 0;
}

static uint32_t pprof_add_string(struct pprof *p, const char *text)
{
	char utf8[3 * SAMPLES_LABEL_MAX + 1], *end = utf8;
	size_t len = strnlen(text, SAMPLES_LABEL_MAX);

	/* readers refuse what is not UTF-8 */
	while (len) {
		int n = fmt_utf8_scan((const unsigned char *)text, len);
		size_t part = n > 0 ? (size_t)n : (size_t)-n;

		end = n > 0 ? fmt_str(end, text, part) : fmt_lit(end, "\xef\xbf\xbd");
		text += part;
		len -= part;
	}
	*end = 0;
	return pool_add(&p->strings, utf8, (size_t)(end - utf8) + 1);
}

static uint32_t pprof_add_text(struct pprof *p, uint32_t number)
{
	return pprof_add_string(p, samples_text(p->s, number));
}

/* ---- samples ---- */

static void pprof_write_type(struct pprof *p, uint32_t field, uint32_t type, uint32_t unit)
{
	put_number_field(&p->inner, 1, type);
	put_number_field(&p->inner, 2, unit);
	message_close(&p->message, field, &p->inner);
	pprof_write_message(p);
}

static void pprof_write_types(struct pprof *p)
{
	const struct samples *s = p->s;
	enum word shown = WORD_CPU;

	if (s->n[0] || !s->n[1]) {
		pprof_write_type(p, PROFILE_SAMPLE_TYPE, WORD_SAMPLES, WORD_COUNT);
		pprof_write_type(p, PROFILE_SAMPLE_TYPE, WORD_CPU, WORD_NANOSECONDS);
	}
	if (s->n[1]) {
		pprof_write_type(p, PROFILE_SAMPLE_TYPE, WORD_WAITS, WORD_COUNT);
		pprof_write_type(p, PROFILE_SAMPLE_TYPE, WORD_OFF_CPU, WORD_NANOSECONDS);
	}
	if (s->n[0] && s->ns[0]) {
		pprof_write_type(p, PROFILE_PERIOD_TYPE, WORD_CPU, WORD_NANOSECONDS);
		put_number_field(&p->message, PROFILE_PERIOD, s->ns[0] / s->n[0]);
	}
	/* where the time of samples is unknown, it would show nothing */
	if (!s->n[0])
		shown = WORD_OFF_CPU;
	else if (!s->ns[0])
		shown = WORD_SAMPLES;
	put_number_field(&p->message, PROFILE_DEFAULT_TYPE, shown);
	pprof_write_message(p);
}

static void pprof_add_label(struct pprof *p, uint32_t key, uint32_t str, uint64_t num)
{
	struct message label = { 0 };

	put_number_field(&label, 1, key);
	put_number_field(&label, 2, str);
	put_number_field(&label, 3, num);
	message_close(&p->inner, 3, &label);
	free(label.buf);
}

static void pprof_write_sample(struct pprof *p, uint32_t number)
{
	const struct samples *s = p->s;
	const struct samples_key *k = pool_get(&s->keys, number);
	const struct samples_thread *t = pool_get(&s->threads, k->thread);
	const uint32_t *frames;
	size_t n;

	frames = samples_stack(s, k->stack, &n);
	while (n)
		put_varint(&p->packed, (uint64_t)frames[--n] + 1);
	message_close(&p->inner, 1 /* location_id */, &p->packed);
	for (unsigned int off_cpu = 0; off_cpu < 2; off_cpu++) {
		if (!s->n[off_cpu])
			continue;
		put_varint(&p->packed, k->off_cpu == off_cpu ? s->sums[number].n : 0);
		put_varint(&p->packed, k->off_cpu == off_cpu ? s->sums[number].ns : 0);
	}
	message_close(&p->inner, 2 /* value */, &p->packed);
	pprof_add_label(p, WORD_THREAD, pprof_add_string(p, samples_name(s, t->pid, t->tid)), 0);
	pprof_add_label(p, WORD_PID, 0, t->pid);
	pprof_add_label(p, WORD_TID, 0, t->tid);
	message_close(&p->message, PROFILE_SAMPLE, &p->inner);
	pprof_write_message(p);
}

/* ---- what samples refer to ---- */

/* Returns the mapping's number, from 0; -1: it has no file. */
static int64_t pprof_add_mapping(struct pprof *p, const struct samples_frame *f)
{
	struct pprof_mapping m = { pprof_add_text(p, f->mapping), pprof_add_text(p, f->build_id) };

	return m.file ? (int64_t)pool_add(&p->mappings, &m, sizeof(m)) : -1;
}

/* Readers take the first mapping for the program's: adds the first that is neither a library nor a script nor made up. */
static void pprof_find_program(struct pprof *p)
{
	for (uint32_t i = 0; i < p->s->frames.n; i++) {
		const struct samples_frame *f = pool_get(&p->s->frames, i);
		const char *path = samples_text(p->s, f->mapping);

		if (!path[0] || path[0] == '[' || f->line || strstr(samples_base(path), ".so"))
			continue;
		pprof_add_mapping(p, f);
		return;
	}
}

static void pprof_write_location(struct pprof *p, uint32_t number)
{
	const struct samples_frame *f = pool_get(&p->s->frames, number);
	struct function fn = { .file = pprof_add_text(p, f->file) };
	char label[SAMPLES_LABEL_MAX];
	int64_t mapping = pprof_add_mapping(p, f);

	fn.name = f->line ? pprof_add_text(p, f->name) : pprof_add_string(p, samples_label(p->s, f, label));
	put_number_field(&p->packed, 1 /* function_id */, (uint64_t)pool_add(&p->functions, &fn, sizeof(fn)) + 1);
	put_number_field(&p->packed, 2 /* line */, f->line);
	put_number_field(&p->inner, 1 /* id */, (uint64_t)number + 1);
	put_number_field(&p->inner, 2 /* mapping_id */, (uint64_t)(mapping + 1));
	put_number_field(&p->inner, 3 /* address */, f->pc);
	message_close(&p->inner, 4 /* line */, &p->packed);
	message_close(&p->message, PROFILE_LOCATION, &p->inner);
	pprof_write_message(p);
}

static void pprof_write_mapping(struct pprof *p, uint32_t number)
{
	const struct pprof_mapping *m = pool_get(&p->mappings, number);

	put_number_field(&p->inner, 1 /* id */, (uint64_t)number + 1);
	put_number_field(&p->inner, 5 /* filename */, m->file);
	put_number_field(&p->inner, 6 /* build_id */, m->build_id);
	put_number_field(&p->inner, 7 /* has_functions */, 1); /* so that nobody looks for symbols */
	message_close(&p->message, PROFILE_MAPPING, &p->inner);
	pprof_write_message(p);
}

static void pprof_write_function(struct pprof *p, uint32_t number)
{
	const struct function *f = pool_get(&p->functions, number);

	put_number_field(&p->inner, 1 /* id */, (uint64_t)number + 1);
	put_number_field(&p->inner, 2 /* name */, f->name);
	put_number_field(&p->inner, 3 /* system_name */, f->name);
	put_number_field(&p->inner, 4 /* filename */, f->file);
	message_close(&p->message, PROFILE_FUNCTION, &p->inner);
	pprof_write_message(p);
}

static void pprof_write_strings(struct pprof *p)
{
	for (uint32_t i = 0; i < p->strings.n; i++) {
		message_nest(&p->message, PROFILE_STRING, pool_get(&p->strings, i), pool_len(&p->strings, i) - 1);
		pprof_write_message(p);
	}
}

static void pprof_write_all(struct pprof *p)
{
	for (int i = 0; i < WORDS; i++)
		pprof_add_string(p, words[i]);
	pprof_write_types(p);
	for (uint32_t i = 0; i < p->s->keys.n && !p->failed; i++)
		pprof_write_sample(p, i);
	pprof_find_program(p);
	for (uint32_t i = 0; i < p->s->frames.n && !p->failed; i++)
		pprof_write_location(p, i);
	for (uint32_t i = 0; i < p->mappings.n && !p->failed; i++)
		pprof_write_mapping(p, i);
	for (uint32_t i = 0; i < p->functions.n && !p->failed; i++)
		pprof_write_function(p, i);
	pprof_write_strings(p);
}

int pprof_write(const struct samples *s, FILE *out)
{
	struct pprof p = { .s = s };
	int fd = dup(fileno(out));

	p.gz = fd < 0 ? NULL : gzdopen(fd, "wb6");
	p.failed = !p.gz;
	if (p.gz)
		pprof_write_all(&p);
	else if (fd >= 0)
		close(fd);
	if (p.gz && gzclose(p.gz) != Z_OK)
		p.failed = true;
	free(p.message.buf);
	free(p.inner.buf);
	free(p.packed.buf);
	pool_clear(&p.strings);
	pool_clear(&p.mappings);
	pool_clear(&p.functions);
	return p.failed ? -EIO : 0;
}
