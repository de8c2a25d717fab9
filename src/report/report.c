// SPDX-License-Identifier: BSD-2-Clause
#include "report/report.h"

#include <string.h>

#include "report/read.h"
#include "report/words.h"

static void make_summaries(struct report *r)
{
	struct model *m = &r->model;

	r->phases = (struct phase_names){ model_name(m, "prefill"), model_name(m, "decode") };
	model_finish(m);
	r->summaries = xcalloc(m->n_processes, sizeof(*r->summaries));
	for (size_t i = 0; i < m->n_processes; i++) {
		struct summary *sum = &r->summaries[i];
		struct process *p = m->processes[i];

		typical_find(p);
		summary_make(p, m, &r->phases, sum);
		code_summary_make(m, p, sum->slow, sum->n_slow, &sum->code);
	}
	late_find(m, r->summaries, &r->late);
}

void report_make(struct report *r, const char *const *files, size_t n_files,
	void (*problem)(void *ctx, const char *text), void (*note)(void *ctx, const char *text), void *ctx)
{
	struct read_notes notes = { note, ctx };
	char path[256], text[768], more[64] = "";

	*r = (struct report){ .files = files, .n_files = n_files };
	model_init(&r->model);
	for (size_t i = 0; i < n_files; i++) {
		struct read_problems problems = { 0 };

		read_file(&r->model, files[i], &problems, &notes);
		if (!problems.count)
			continue;
		snprintf(more, sizeof(more), problems.count > 1 ? " (and %llu more)" : "", LLU(problems.count - 1));
		snprintf(text, sizeof(text), "%s: %s%s", text_printable(path, sizeof(path), files[i]), problems.first,
			more);
		problem(ctx, text);
	}
	make_summaries(r);
}

void report_slo(struct report *r, const struct slo *slo)
{
	for (size_t i = 0; i < r->model.n_processes; i++)
		slo_judge(r->model.processes[i], slo, &r->summaries[i].batches.slo);
}

void report_free(struct report *r)
{
	late_free(&r->late);
	for (size_t i = 0; i < r->model.n_processes; i++)
		summary_free(&r->summaries[i]);
	free(r->summaries);
	model_free(&r->model);
}

bool report_empty(const struct report *r)
{
	for (size_t i = 0; i < r->model.n_processes; i++) {
		if (!process_empty(r->model.processes[i]))
			return false;
	}
	return !r->late.n_groups && !r->late.alone && !r->model.n_families;
}
