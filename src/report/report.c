// SPDX-License-Identifier: BSD-2-Clause
#include "report/report.h"

#include <string.h>

#include "report/read.h"

static void tell_problems(const char *path, const struct read_problems *problems,
	void (*problem)(void *ctx, const char *text), void *ctx)
{
	char printable[256], text[768], more[64] = "";

	if (problems->count > 1)
		snprintf(more, sizeof(more), " (and %llu more)", (unsigned long long)problems->count - 1);
	snprintf(text, sizeof(text), "%s: %s%s", text_printable(printable, sizeof(printable), path),
		problems->first, more);
	problem(ctx, text);
}

struct note_to {
	void (*note)(void *ctx, const char *text);
	void *ctx;
};

static void tell_note(void *ctx, const char *path, const char *member, const char *why)
{
	const struct note_to *to = ctx;
	char printable[256], text[768];

	if (!to->note)
		return;
	snprintf(text, sizeof(text), "%s: %s is not in the report: %s", text_printable(printable, sizeof(printable), path), member, why);
	to->note(to->ctx, text);
}

static int make_summaries(struct report *r)
{
	struct model *m = &r->model;
	int err;

	err = model_name(m, "prefill", &r->phases.prefill) ?: model_name(m, "decode", &r->phases.decode);
	if (err)
		return err;
	err = model_finish(m);
	if (err)
		return err;
	r->summaries = calloc(m->n_processes + 1, sizeof(*r->summaries));
	if (!r->summaries)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_processes; i++) {
		err = typical_find(m->processes[i]) ?: summary_make(m->processes[i], m, &r->phases, &r->summaries[i]) ?:
			code_summary_make(m, m->processes[i], r->summaries[i].slow, r->summaries[i].n_slow, &r->summaries[i].code);
		if (err)
			return err;
	}
	return late_find(m, r->summaries, &r->late);
}

int report_make(struct report *r, const char *const *files, size_t n_files,
	void (*problem)(void *ctx, const char *text), void (*note)(void *ctx, const char *text), void *ctx)
{
	struct note_to to = { note, ctx };
	struct read_notes notes = { tell_note, &to };
	int err;

	memset(r, 0, sizeof(*r));
	r->files = files;
	r->n_files = n_files;
	err = model_init(&r->model);
	for (size_t i = 0; !err && i < n_files; i++) {
		struct read_problems problems = { 0 };

		err = read_file(&r->model, files[i], &problems, &notes);
		if (!err && problems.count)
			tell_problems(files[i], &problems, problem, ctx);
	}
	return err ?: make_summaries(r);
}

void report_slo(struct report *r, const struct slo *slo)
{
	for (size_t i = 0; i < r->model.n_processes; i++)
		slo_judge(r->model.processes[i], slo, &r->summaries[i].seqs.slo);
}

void report_free(struct report *r)
{
	late_free(&r->late);
	if (r->summaries) {
		for (size_t i = 0; i < r->model.n_processes; i++)
			summary_free(&r->summaries[i]);
		free(r->summaries);
	}
	model_free(&r->model);
	memset(r, 0, sizeof(*r));
}

bool report_empty(const struct report *r)
{
	for (size_t i = 0; i < r->model.n_processes; i++) {
		if (!process_empty(r->model.processes[i]))
			return false;
	}
	return !r->late.n && !r->late.alone && !r->model.n_families;
}
