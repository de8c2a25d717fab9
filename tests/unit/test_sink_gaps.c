// SPDX-License-Identifier: BSD-2-Clause
/* What the traces make of gaps between steps. */
#include <arpa/inet.h>
#include <asm/unistd.h>

#include "format/derive.h"
#include "pftrace.h"
#include "wait_log.h"

static struct rec_gap gap;

/* A gap of `us` from `at` us after the start of the recording, without causes or segments. */
static void gap_begin(uint64_t context, uint64_t at, uint64_t us)
{
	gap = (struct rec_gap){ .h = hdr(REC_GAP, 0), .context = context, .step = 7 };
	gap.h.start_ns = START + at * 1000;
	gap.h.dur_ns = us * 1000;
}

/* Adds a segment before those that it has. */
static struct gap_segment *gap_add(const char *comm, uint32_t tid, enum time_state state, uint64_t us)
{
	struct gap_segment *s = &gap.seg[gap.n_causes + gap.n];
	uint64_t end = gap.n ? s[-1].start_ns : gap.h.start_ns + gap.h.dur_ns;

	*s = (struct gap_segment){
		.start_ns = end - us * 1000, .dur_ns = us * 1000, .tid = tid, .tgid = PID, .call = CALL_NONE, .state = (uint8_t)state
	};
	memcpy(s->comm, comm, strnlen(comm, sizeof(s->comm)));
	gap.n++;
	return s;
}

static void emit_gap(struct out *o)
{
	sink_record(o->s, &gap.h, REC_GAP_SIZE(gap.n_causes + gap.n));
}

/* Names may have no NUL. */
static bool fd_name(const void *arg, uint64_t key, struct fd_name *ret)
{
	assert_null(arg);
	*ret = (struct fd_name){};
	memset(ret->name, 'n', sizeof(ret->name));
	memcpy(ret->directory, "\"", 2);
	return key == 5;
}

/* One with a segment of each form. */
static void emit_forms(struct out *o)
{
	struct gap_segment *s;

	gap_begin(0x10, 100, 100);
	gap.n_causes = 1; /* a cause is no part of the timeline */
	gap.seg[0] = (struct gap_segment){ .dur_ns = 100000, .tid = 1, .state = ST_CPU };
	gap_add("server", TID, ST_CPU, 10)->file = 6; /* forgotten */
	s = gap_add("server", TID, ST_RUNNABLE, 20);
	s->by_tid = 77;
	memcpy(s->by, "a name, 16 bytes", sizeof(s->by));
	gap_add("server", TID, ST_RUNNABLE, 5);
	gap_add("server", TID, ST_RUNNABLE, 5)->flags = GAP_SEGMENT_F_LIMITED;
	s = gap_add("up\"\xff", 78, ST_BLOCKED_SLEEP, 30);
	s->call = __NR_clock_nanosleep;
	s->file = 5;
	s->flags = GAP_SEGMENT_F_WAKES;
	gap_add("", 79, ST_CPU, 10)->tgid = 0;
	s = gap_add("", 0, ST_MAX, 20);
	s->tgid = 0;
	emit_gap(o);
}

TEST_WITH(test_chrome, setup, teardown)
{
	struct out o;

	rec.fd_name = fd_name; /* the sinks copy it */
	chrome_open(&o);
	emit_forms(&o);
	chrome_expect(&o, NULL,
		"{'ph':'X','pid':5000000,'tid':4194330,'ts':100.000,'dur':20.000,'name':'unknown','cat':'gap','args':{'step':7}}\n"
		"{'ph':'X','pid':5000000,'tid':4194330,'ts':120.000,'dur':10.000,'name':'79: cpu','cat':'gap','args':{'tid':79,'step':7}}\n"
		"{'ph':'X','pid':5000000,'tid':4194330,'ts':130.000,'dur':30.000,'name':'up\\'\xef\xbf\xbd: blocked_sleep','cat':'gap',"
		"'args':{'tid':78,'pid':5000000,'call':'clock_nanosleep',"
		"'file':'\\'/nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn','wakes':true,'step':7}}\n"
		"{'ph':'X','pid':5000000,'tid':4194330,'ts':160.000,'dur':5.000,'name':'server: runnable','cat':'gap',"
		"'args':{'tid':5000001,'pid':5000000,'behind':'cpu.max','behind_tid':0,'step':7}}\n"
		"{'ph':'X','pid':5000000,'tid':4194330,'ts':165.000,'dur':5.000,'name':'server: runnable','cat':'gap',"
		"'args':{'tid':5000001,'pid':5000000,'behind':'idle','behind_tid':0,'step':7}}\n"
		"{'ph':'X','pid':5000000,'tid':4194330,'ts':170.000,'dur':20.000,'name':'server: runnable','cat':'gap',"
		"'args':{'tid':5000001,'pid':5000000,'behind':'a name, 16 bytes','behind_tid':77,'step':7}}\n"
		"{'ph':'X','pid':5000000,'tid':4194330,'ts':190.000,'dur':10.000,'name':'server: cpu','cat':'gap',"
		"'args':{'tid':5000001,'pid':5000000,'step':7}}\n");
}

/* The slices of the same name as the JSON's, in the same order; each ends where the next one begins. */
TEST_WITH(test_perfetto, setup, teardown)
{
	static const char *const names[] = { "unknown", "79: cpu", "up\"\xef\xbf\xbd: blocked_sleep", "server: runnable",
		"server: runnable", "server: runnable", "server: cpu" };
	static const uint64_t begins[] = { 100, 120, 130, 160, 165, 170, 190, 200 };
	struct reader *r;
	struct out o;

	rec.fd_name = fd_name;
	perfetto_open(&o);
	emit_forms(&o);
	r = perfetto_read(&o);
	assert_int_equal(r->n, 2 * ARRAY_SIZE(names));
	for (size_t i = 0; i < r->n; i++) {
		assert_int_equal(r->events[i].type, i % 2 ? 2 : 1);
		assert_int_equal(r->events[i].ns, START + 1000 * begins[(i + 1) / 2]);
		assert_int_equal(tid_of(r, r->events[i].track, "critical path"), 0);
		if (i % 2)
			continue;
		assert_string_equal(r->events[i].text, names[i / 2]);
		assert_string_equal(r->events[i].category_text, "gap");
	}
	reader_free(r);
}

static const struct fd_name *name_given;

static bool name_give(const void *arg, uint64_t key, struct fd_name *ret)
{
	(void)arg;
	*ret = *name_given;
	return key == 5;
}

TEST(names)
{
	static const struct {
		struct fd_name name;
		const char *text;
	} cases[] = {
		{ { .name = "f", .directory = "/" }, "/f" },
		{ { .name = "f", .directory = "d" }, "d/f" },
		{ { .family = AF_INET, .port = 8080, .words = { 0, 0x0500000affff0000 } }, "10.0.0.5:8080" },
		{ { .family = AF_INET6, .port = 65535, .words = { 0, 1ull << 56 } }, "[::1]:65535" },
		{ { .family = AF_INET6, .port = 1, .words = { ~0ull, ~0ull } }, "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:1" },
		{ { .family = AF_UNIX, .tgid = 7, .comm = "server", .path = "/run/x" }, "server (7) /run/x" },
		{ { .family = AF_UNIX, .tgid = 7, .comm = "server" }, "server (7)" },
		{ { .family = AF_UNIX, .tgid = 7, .path = "@x" }, "process 7 @x" },
		{ { .family = AF_UNIX, .path = "/run/x" }, "/run/x" },
	};
	struct recording of = { .fd_name = name_give };
	struct fd_name full = { .family = AF_UNIX, .tgid = ~0u };
	struct gap_segment s = { .file = 5 };
	char text[GAP_FD_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		name_given = &cases[i].name;
		assert_string_equal(gap_segment_fd(&of, &s, text), cases[i].name.family ? "peer" : "file");
		assert_string_equal(text, cases[i].text);
	}
	memset(full.words, 'n', sizeof(full.words)); /* without a NUL */
	name_given = &full;
	assert_non_null(gap_segment_fd(&of, &s, text));
	assert_int_equal(strlen(text), sizeof(full.comm) + strlen(" (4294967295) ") + sizeof(full.path));
	s.file = 6;
	assert_null(gap_segment_fd(&of, &s, text));
	of.fd_name = NULL;
	assert_null(gap_segment_fd(&of, &s, text));
}

/* What a record has no room for is one slice, and a timeline without it has none. */
TEST_WITH(test_cut, setup, teardown)
{
	struct out o;

	chrome_open(&o);
	gap_begin(0x10, 1000, 1000);
	for (int i = 0; i < GAP_SEGMENTS_MAX; i++)
		gap_add(i % 2 ? "a" : "b", TID, ST_CPU, 3);
	emit_gap(&o);
	chrome_read(&o);
	assert_span(get(&o, "X", "earlier"), "gap", "1000.000", "232.000");
	assert_span(find(&o, "X", "a: cpu", 0), "gap", "1232.000", "3.000");
	assert_span(find(&o, "X", "b: cpu", GAP_SEGMENTS_MAX / 2 - 1), "gap", "1997.000", "3.000");
	chrome_done(&o);
}

/* Each context of a process has a track, by number in the order of their first gaps, in each file. */
TEST_WITH(test_contexts, setup, teardown)
{
	static const uint64_t contexts[] = { 0x20, 0x10, 0x20 };
	static const uint32_t tracks[] = { 4194330, 4194331, 4194330 };
	struct out o, first;

	chrome_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(contexts); i++) {
		gap_begin(contexts[i], 100 * i, 150); /* those of different contexts overlap */
		gap_add("server", TID, ST_CPU, 150);
		emit_gap(&o);
	}
	flush(&o);
	first = out_rotate(&o, WRITER_PLAIN);
	validate(&first, false);
	assert_non_null(strstr(first.text, "4194330,\"args\":{\"name\":\"critical path\"}"));
	assert_non_null(strstr(first.text, "4194331,\"args\":{\"name\":\"critical path 2\"}"));
	free(first.text);
	close(first.fd);
	for (size_t i = 0; i < ARRAY_SIZE(contexts); i++) {
		gap_begin(contexts[i], 1000 + 100 * i, 150);
		gap_add("server", TID, ST_CPU, 150);
		emit_gap(&o);
	}
	chrome_read(&o);
	for (unsigned int i = 0; i < ARRAY_SIZE(tracks); i++)
		assert_track(find(&o, "X", "server: cpu", i), PID, tracks[i]);
	assert_non_null(strstr(o.text, "4194331,\"args\":{\"name\":\"critical path 2\"}"));
	chrome_done(&o);
}

/* More contexts than tracks: the first ones keep theirs. */
TEST_WITH(test_many_contexts, setup, teardown)
{
	struct out o;

	chrome_open(&o);
	for (uint64_t i = 0; i <= 64; i++) {
		gap_begin(i, 100, 10);
		gap_add("server", TID, ST_CPU, 10);
		emit_gap(&o);
	}
	chrome_read(&o);
	assert_track(find(&o, "X", "server: cpu", 63), PID, 4194330 + 63);
	assert_null(find(&o, "X", "server: cpu", 64));
	chrome_done(&o);
}

RUN_TESTS(NULL, NULL)
