// SPDX-License-Identifier: BSD-2-Clause
#include "capture/misfit.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/inspect.h"
#include "sink/sink.h"
#include "target/file.h"
#include "target/process.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/log.h"
#include "util/text.h"

#define LOOK_NS (NSEC_PER_SEC / 4)
#define WORK_NS NSEC_PER_SEC /* the engine has to work this long without a step */
#define CODES_MAX 16
#define STACK_MAX (64u << 10) /* bytes between a step's frame and what it calls */
#define NAMED_MAX 2
#define TOLD_MAX 16 /* processes with a warning; further ones are only in the outputs */
#define RETRIES_MAX 16 /* over all processes, where files cannot be read, or not in time */

/* A process without steps. */
struct suspect {
	struct engine_key key; /* tgid 0: it is gone */
	uint64_t told_ns;      /* 0: not reported, as it may be within a step that began before */
	uint64_t within_ns;    /* when the engine was last seen within such a step */
	struct {
		uint64_t from, to;
	} codes[CODES_MAX]; /* addresses of step functions in its memory */
	size_t n_codes;
	char like[160]; /* "libllama.so.0 has llama_process" */
	char text[512];
};

struct misfits {
	int fd;
	struct probe_table *pt;
	struct inspector *inspector;
	struct suspect **list;
	size_t n, size;
	uint64_t next_ns;
	unsigned int told, retries;
};

struct misfits *misfits_new(int steps_fd, struct probe_table *pt, struct inspector *ins)
{
	struct misfits *m = xcalloc(1, sizeof(*m));

	m->fd = steps_fd;
	m->pt = pt;
	m->inspector = ins;
	return m;
}

void misfits_free(struct misfits *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++)
		free(m->list[i]);
	free(m->list);
	free(m);
}

/* ---- what its files say ---- */

struct misfit_look {
	struct misfits *m;
	struct suspect *s;
	const struct mapped_file *file;
	bool unread; /* a file could not be read, or not in time */
};

static bool spec_is_step(const struct probe_spec *s)
{
	return s->role == ROLE_STEP && !s->stand_in;
}

static int suspect_add_code(const struct probe_site *ps, void *arg)
{
	struct misfit_look *l = arg;
	const struct mapped_file *f = l->file;
	uint64_t at = ps->symbol->offset - f->offset;
	struct suspect *s = l->s;

	if (!spec_is_step(&l->m->pt->specs[ps->spec]) || at >= f->end - f->start || s->n_codes == CODES_MAX)
		return 0;
	s->codes[s->n_codes].from = f->start + at;
	s->codes[s->n_codes++].to = f->start + at + ps->symbol->size;
	return 0;
}

static int suspect_inspect_file(const struct mapped_file *f, void *arg)
{
	char names[160], shown[64], shown_names[128];
	struct misfit_look *l = arg;
	struct probe_table *pt = l->m->pt;
	struct suspect *s = l->s;
	size_t any = pt->n, own = pt->n;
	int fd;

	for (size_t i = 0; i < pt->n; i++) {
		if (!pt->specs[i].engine || pt->specs[i].from || !spec_is_step(&pt->specs[i]) || !probe_spec_matches(&pt->specs[i], f->path))
			continue;
		any = i;
		own = own == pt->n && pt->specs[i].engine->number == s->key.engine ? i : own;
	}
	if (any == pt->n)
		return 0;
	if (file_open_mapped((pid_t)s->key.tgid, f, &fd)) {
		l->unread = true;
		return 0;
	}
	l->file = f;
	pt->reading.dev = f->dev;
	pt->reading.ino = f->ino;
	l->unread |= inspector_sites(l->m->inspector, fd, f->path, true, INSPECT_MS_MAX, NULL, suspect_add_code, l) < 0;
	if (own < pt->n && !*s->like && !inspector_steps(l->m->inspector, fd, own, names, sizeof(names)) && *names)
		snprintf(s->like, sizeof(s->like), "; %s has %s", text_printable(shown, sizeof(shown), strrchr(f->path, '/') + 1),
			text_printable(shown_names, sizeof(shown_names), names));
	close(fd);
	return 0;
}

/* Names steps, as "f or g"; with stand_in, the first stand-in that is attached. */
static void misfits_name_functions(const struct misfits *m, uint32_t engine, bool stand_in, char *buf, size_t size)
{
	size_t len = 0;
	int n = 0;

	*buf = '\0';
	for (size_t i = 0; i < m->pt->n && n < (stand_in ? 1 : NAMED_MAX); i++) {
		const struct probe_spec *s = &m->pt->specs[i];

		if (!s->engine || s->engine->number != engine || s->from || s->role != ROLE_STEP || s->stand_in != stand_in ||
			(stand_in && !s->attached))
			continue;
		len += (size_t)snprintf(buf + len, size - len, "%s%.60s", n++ ? " or " : "", s->symbol);
	}
}

/* ---- what it does ---- */

/* Whether the stack at sp has a return address in a step, which then began before its function had a probe. True if the
 * stack cannot be read. */
static bool within_step(const struct suspect *s, uint64_t sp)
{
	static uint64_t words[STACK_MAX / sizeof(uint64_t)];
	char path[64];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/mem", s->key.tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = sp <= INT64_MAX ? pread(fd, words, sizeof(words), (off_t)sp) : 0;
		close(fd);
	}
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(*words); i++) {
		for (size_t k = 0; k < s->n_codes; k++) {
			if (words[i] > s->codes[k].from && words[i] < s->codes[k].to)
				return true;
		}
	}
	return n <= 0;
}

static struct suspect *misfits_find_suspect(const struct misfits *m, const struct engine_key *key)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->list[i]->key.tgid == key->tgid && m->list[i]->key.engine == key->engine)
			return m->list[i];
	}
	return NULL;
}

/* Returns NULL if the process ended meanwhile, or its files could not be read: once more at the next turn. */
static struct suspect *misfits_get_suspect(struct misfits *m, const struct engine_key *key)
{
	const struct engine *e = m->pt->engines[key->engine - 1];
	struct engine_key gone = { 0 };
	struct suspect *s = misfits_find_suspect(m, key);
	struct misfit_look l = { .m = m };
	char steps[128], stand_in[64];

	if (s)
		return s;
	s = misfits_find_suspect(m, &gone);
	if (!s)
		s = *list_push(m->list, m->n, m->size) = xmalloc(sizeof(*s));
	*s = (struct suspect){ .key = *key };
	l.s = s;
	if (process_each_mapped((pid_t)key->tgid, suspect_inspect_file, &l))
		l.unread = true;
	if (!s->key.tgid) /* a record that was taken meanwhile */
		return NULL;
	if (l.unread && m->retries++ < RETRIES_MAX) { /* a step that began before would not be recognised */
		s->key.tgid = 0;
		return NULL;
	}
	misfits_name_functions(m, key->engine, false, steps, sizeof(steps));
	misfits_name_functions(m, key->engine, true, stand_in, sizeof(stand_in));
	snprintf(s->text, sizeof(s->text), "the preset %.63s does not fit: %s%s, since %s is not called%s%s%.100s", e->name,
		*stand_in ? "steps are calls of " : "no steps", stand_in, steps, s->like, e->advice ? "; " : "", e->advice ?: "");
	return s;
}

static void suspect_mark(const struct suspect *s, struct sink *sink, uint64_t ns)
{
	struct mark mark = { .name = MISFIT_MARK, .ns = ns, .number = s->key.tgid, .tgid = s->key.tgid, .reason = s->text };

	sink_mark(sink, &mark);
}

static void misfits_check_engine(struct misfits *m, const struct engine_key *key, struct sink *sink, uint64_t now_ns)
{
	struct engine_steps e;
	struct suspect *s;

	if (bpf_map_lookup_elem(m->fd, key, &e) || e.called || e.missing || e.last_ns - e.since_ns < WORK_NS ||
		key->engine - 1 >= m->pt->n_engines)
		return;
	s = misfits_get_suspect(m, key);
	if (!s || e.last_ns - s->within_ns < WORK_NS)
		return;
	for (int i = 0; i < ENGINE_STACKS; i++) {
		if (e.sp[i] && within_step(s, e.sp[i])) {
			s->within_ns = e.last_ns; /* when that step has ended, the next one may be a while off */
			return;
		}
	}
	if (bpf_map_lookup_elem(m->fd, key, &e) || e.called)
		return;
	e.missing = 1; /* a step that is called right now may be overwritten; the next one is not */
	if (bpf_map_update_elem(m->fd, key, &e, BPF_EXIST))
		return;
	s->told_ns = now_ns;
	if (m->told++ < TOLD_MAX)
		log_warn("process %u: %s (give one that fits with --engine FILE: docs/engines.md)", s->key.tgid, s->text);
	if (sink)
		suspect_mark(s, sink, now_ns);
}

void misfits_turn(struct misfits *m, struct sink *s, uint64_t now_ns)
{
	struct engine_key key, *last = NULL;

	if (!m || now_ns < m->next_ns)
		return;
	m->next_ns = now_ns + LOOK_NS;
	for (int i = 0; i < ENGINE_STEPS_MAX && !bpf_map_get_next_key(m->fd, last, &key); i++) {
		misfits_check_engine(m, &key, s, now_ns);
		last = &key;
	}
}

void misfits_forget(struct misfits *m, uint32_t tgid)
{
	for (size_t i = 0; m && i < m->pt->n_engines; i++) {
		struct engine_key key = { .tgid = tgid, .engine = (uint32_t)i + 1 };
		struct suspect *s = misfits_find_suspect(m, &key);

		bpf_map_delete_elem(m->fd, &key);
		if (s)
			*s = (struct suspect){ 0 };
	}
}

void misfits_marks(const struct misfits *m, struct sink *s, uint64_t from_ns)
{
	for (size_t i = 0; m && i < m->n; i++) {
		uint64_t ns = m->list[i]->told_ns;

		if (ns)
			suspect_mark(m->list[i], s, ns > from_ns ? ns : from_ns);
	}
}
