// SPDX-License-Identifier: BSD-2-Clause
#include "report/report.h"

#include <string.h>

#include "report/read.h"
#include "report/words.h"

static int make_summaries(struct report *r)
{
	struct model *m = &r->model;

	if (model_name(m, "prefill", &r->phases.prefill) || model_name(m, "decode", &r->phases.decode) || model_finish(m))
		return -ENOMEM;
	r->summaries = calloc(m->n_processes + 1, sizeof(*r->summaries));
	if (!r->summaries)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_processes; i++) {
		struct summary *sum = &r->summaries[i];
		struct process *p = m->processes[i];

		if (typical_find(p) || summary_make(p, m, &r->phases, sum) ||
			code_summary_make(m, p, sum->slow, sum->n_slow, &sum->code))
			return -ENOMEM;
	}
	return late_find(m, r->summaries, &r->late);
}

int report_make(struct report *r, const char *const *files, size_t n_files,
	void (*problem)(void *ctx, const char *text), void (*note)(void *ctx, const char *text), void *ctx)
{
	struct read_notes notes = { note, ctx };
	char path[256], text[768], more[64] = "";
	int err;

	*r = (struct report){ .files = files, .n_files = n_files };
	err = model_init(&r->model);
	for (size_t i = 0; !err && i < n_files; i++) {
		struct read_problems problems = { 0 };

		err = read_file(&r->model, files[i], &problems, &notes);
		if (err || !problems.count)
			continue;
		snprintf(more, sizeof(more), problems.count > 1 ? " (and %llu more)" : "", LLU(problems.count - 1));
		snprintf(text, sizeof(text), "%s: %s%s", text_printable(path, sizeof(path), files[i]), problems.first,
			more);
		problem(ctx, text);
	}
	return err ?: make_summaries(r);
}

void report_slo(struct report *r, const struct slo *slo)
{
	for (size_t i = 0; i < r->model.n_processes; i++)
		slo_judge(r->model.processes[i], slo, &r->summaries[i].batches.slo);
}

void report_free(struct report *r)
{
	late_free(&r->late);
	for (size_t i = 0; r->summaries && i < r->model.n_processes; i++)
		summary_free(&r->summaries[i]);
	free(r->summaries);
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
