// SPDX-License-Identifier: BSD-2-Clause
#include "../program.h"

#include "counts.h"

int counts_init(struct counts *c, const char *stages_path)
{
	const uint64_t *(*count_calls)(void);

	memset(c, 0, sizeof(*c));
	*(void **)&count_calls = dlsym(RTLD_DEFAULT, "count_calls");
	c->calls = count_calls ? count_calls() : NULL;
	if (stages_path) {
		c->stages = fopen(stages_path, "we");
		if (!c->stages)
			return -errno;
	}
	return 0;
}

void counts_fini(struct counts *c)
{
	if (c->stages)
		fclose(c->stages);
	free(c->steps);
	memset(c, 0, sizeof(*c));
}

static void steps_reserve(struct counts *c)
{
	if (c->n_steps < c->steps_cap)
		return;
	c->steps_cap = c->steps_cap ? 2 * c->steps_cap : 1024;
	c->steps = reallocarray(c->steps, c->steps_cap, sizeof(*c->steps));
	must(c->steps, "memory");
}

static uint64_t calls_now(const struct counts *c, int i)
{
	return c->calls ? __atomic_load_n(&c->calls[i], __ATOMIC_RELAXED) : 0;
}

void counts_step_begin(struct counts *c, int32_t n_tokens)
{
	struct step *s;
	int i;

	steps_reserve(c);
	s = &c->steps[c->n_steps];
	s->n_tokens = n_tokens;
	for (i = 0; i < COUNT_CALLS; i++)
		s->calls[i] = calls_now(c, i);
	/* The last to be opened has the narrowest interval: CPU time is compared within 1 %. */
	getrusage(RUSAGE_THREAD, &c->before);
	s->start_ns = clock_ns(CLOCK_BOOTTIME);
	c->cpu_before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void counts_step_end(struct counts *c)
{
	struct step *s = &c->steps[c->n_steps];
	struct rusage after;
	int i;

	s->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - c->cpu_before;
	s->wall_ns = clock_ns(CLOCK_BOOTTIME) - s->start_ns;
	getrusage(RUSAGE_THREAD, &after);
	c->minflt += (uint64_t)(after.ru_minflt - c->before.ru_minflt);
	c->majflt += (uint64_t)(after.ru_majflt - c->before.ru_majflt);
	c->nvcsw += (uint64_t)(after.ru_nvcsw - c->before.ru_nvcsw);
	c->nivcsw += (uint64_t)(after.ru_nivcsw - c->before.ru_nivcsw);
	for (i = 0; i < COUNT_CALLS; i++)
		s->calls[i] = calls_now(c, i) - s->calls[i];
	c->n_steps++;
	if (c->stages)
		fprintf(c->stages,
			"{\"stage\":\"decode\",\"start_ns\":%llu,\"dur_ns\":%llu,\"n_tokens\":%d}"
			"\n",
			(unsigned long long)s->start_ns, (unsigned long long)s->wall_ns,
			s->n_tokens);
}

uint64_t counts_stage(struct counts *c, const char *stage, uint64_t start_ns)
{
	uint64_t dur_ns = clock_ns(CLOCK_BOOTTIME) - start_ns;

	if (c->stages)
		fprintf(c->stages,
			"{\"stage\":\"%s\",\"start_ns\":%llu,\"dur_ns\":%llu,\"n_tokens\":0}\n",
			stage, (unsigned long long)start_ns, (unsigned long long)dur_ns);
	return dur_ns;
}

static void member_print(const char *key, uint64_t value)
{
	printf(",\"%s\":%llu", key, (unsigned long long)value);
}

static void calls_print(const struct counts *c, const char *key, int call)
{
	size_t i;

	if (!c->calls)
		return;
	printf(",\"%s\":[", key);
	for (i = 0; i < c->n_steps; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)c->steps[i].calls[call]);
	putchar(']');
}

void counts_print(const struct counts *c, const char *engine, int threads, const char *extra)
{
	uint64_t n_tokens = 0, wall_ns = 0, cpu_ns = 0;
	size_t i;

	for (i = 0; i < c->n_steps; i++) {
		n_tokens += (uint64_t)c->steps[i].n_tokens;
		wall_ns += c->steps[i].wall_ns;
		cpu_ns += c->steps[i].cpu_ns;
	}
	printf("{\"engine\":\"%s\",\"pid\":%d,\"tid\":%d,\"threads\":%d", engine, getpid(),
		gettid(), threads);
	member_print("steps", c->n_steps);
	member_print("n_tokens", n_tokens);
	member_print("prompts", c->prompts);
	member_print("prompt_tokens", c->prompt_tokens);
	member_print("generated", c->generated);
	member_print("load_ns", c->load_ns);
	member_print("wall_ns", wall_ns);
	member_print("cpu_ns", cpu_ns);
	member_print("minflt", c->minflt);
	member_print("majflt", c->majflt);
	member_print("nvcsw", c->nvcsw);
	member_print("nivcsw", c->nivcsw);
	printf("%s,\"step_n_tokens\":[", extra ? extra : "");
	for (i = 0; i < c->n_steps; i++)
		printf("%s%d", i ? "," : "", c->steps[i].n_tokens);
	printf("],\"step_ns\":[");
	for (i = 0; i < c->n_steps; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)c->steps[i].wall_ns);
	printf("],\"step_cpu_ns\":[");
	for (i = 0; i < c->n_steps; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)c->steps[i].cpu_ns);
	putchar(']');
	calls_print(c, "step_barriers", COUNT_BARRIERS);
	calls_print(c, "step_forwards", COUNT_FORWARDS);
	puts("}");
	fflush(stdout);
}
