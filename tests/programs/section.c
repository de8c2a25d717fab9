// SPDX-License-Identifier: BSD-2-Clause
#include "section.h"

#define MARK_TRIES 1000

/* The descriptors of the two markers. */
#define FD_BEGIN(id) (-1000 - 2 * (id))
#define FD_END(id) (-1001 - 2 * (id))

static long status_number(const char *text, const char *key)
{
	const char *line = strstr(text, key);

	return line ? strtol(line + strlen(key), NULL, 10) : -1;
}

char status_read(int fd, struct usage *ret_usage)
{
	char text[4096];
	const char *state;
	ssize_t n;

	n = pread(fd, text, sizeof(text) - 1, 0);
	must(n > 0, "/proc/TID/status");
	text[n] = '\0';
	ret_usage->voluntary = status_number(text, "\nvoluntary_ctxt_switches:");
	ret_usage->involuntary = status_number(text, "\nnonvoluntary_ctxt_switches:");
	state = strstr(text, "\nState:\t");
	return state ? state[strlen("\nState:\t")] : '?';
}

int status_open(int tid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, path);
	return fd;
}

void pin_thread(void)
{
	cpu_set_t all;
	int cpu = 0;

	must(!sched_getaffinity(0, sizeof(all), &all), "sched_getaffinity");
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	pin_to(cpu);
}

/* One pread64 and one getrusage. */
static void usage_read(const struct section *s, struct usage *ret_usage)
{
	struct rusage ru;

	status_read(s->status_fd, ret_usage);
	must(!syscall(SYS_getrusage, RUSAGE_THREAD, &ru), "getrusage");
	ret_usage->minor = ru.ru_minflt;
	ret_usage->major = ru.ru_majflt;
}

/*
 * Reads the usage at the marker. A switch or fault between a reading and the marker might belong to
 * either side: then the marker is repeated, and the last one counts. Returns the number of tries,
 * which is 1 with SECTION_ONCE in the environment: under strace every call is a switch.
 */
static int mark(struct section *s, int fd, struct usage *ret_usage)
{
	struct usage before = { 0 }, after = { 0 };
	bool once = getenv("SECTION_ONCE");
	int tries = 0;

	do {
		usage_read(s, &before);
		syscall(SYS_close, fd);
		usage_read(s, &after);
		if (++tries == MARK_TRIES) {
			fprintf(stderr, "%s: no marker without a switch or fault beside it\n",
				program_invocation_short_name);
			exit(1);
		}
	} while (!once && memcmp(&before, &after, sizeof(before)));
	*ret_usage = before;
	s->retries += tries - 1;
	return tries;
}

void section_begin(struct section *s, int id)
{
	memset(s, 0, sizeof(*s));
	s->id = id;
	s->tid = gettid();
	s->status_fd = status_open(s->tid);
	mark(s, FD_BEGIN(id), &s->begin);
}

void section_end(struct section *s)
{
	int tries = mark(s, FD_END(s->id), &s->end);
	int i;

	/* From the begin marker to the end marker: the second reading of the first, both readings
	 * of the others, the first of the last; and the markers that did not count. */
	for (i = 0; i < 2 * tries; i++) {
		section_did(s, "pread64", -2);
		section_did(s, "getrusage", 0);
	}
	for (i = 0; i < tries - 1; i++)
		section_did(s, "close", -1);
	close(s->status_fd);
}

long section_did(struct section *s, const char *name, long ret)
{
	struct call *c = s->calls;

	while (c < s->calls + s->n_calls && strcmp(c->name, name))
		c++;
	if (c == s->calls + SECTION_CALLS_MAX) {
		fputs("a section has too many kinds of calls\n", stderr);
		exit(1);
	}
	if (c == s->calls + s->n_calls) {
		s->n_calls++;
		c->name = name;
	}
	c->n++;
	c->errors += ret == -1;
	if (ret >= 0 && ret <= 1000000)
		c->sum += ret;
	return ret;
}

void section_print(const struct section *s)
{
	char line[8192];
	int i, n;

	n = snprintf(line, sizeof(line),
		"{\"section\":%d,\"skip_calls\":%s,\"tid\":%d,\"retries\":%d,\"signals\":%d,\"from_birth\":%s,"
		"\"voluntary\":%ld,\"involuntary\":%ld,\"minor\":%ld,\"populated\":%ld,\"major\":%ld,\"calls\":{",
		s->id, s->skip_calls ? "true" : "false", s->tid, s->retries, s->signals,
		s->from_birth ? "true" : "false",
		s->end.voluntary - (s->from_birth ? 0 : s->begin.voluntary),
		s->end.involuntary - (s->from_birth ? 0 : s->begin.involuntary),
		s->end.minor - s->begin.minor, s->populated, s->end.major - s->begin.major);
	for (i = 0; i < s->n_calls; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "%s\"%s\":[%ld,%ld,%ld]",
			i ? "," : "", s->calls[i].name, s->calls[i].n, s->calls[i].errors,
			s->calls[i].sum);
	n += snprintf(line + n, sizeof(line) - (size_t)n, "}}\n");
	must(n < (int)sizeof(line) && write(STDOUT_FILENO, line, (size_t)n) == n, "stdout");
}
