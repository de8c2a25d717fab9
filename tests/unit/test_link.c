// SPDX-License-Identifier: BSD-2-Clause
/* How files are put on one timeline: their clocks, the calls they have in common, and what is refused. */
#include <json-c/json.h>

#include "cases.h"
#include "format/chakra.h"
#include "link/link.h"
#include "schema/proto.h"
#include "trace_builder.h"
#include "unit.h"

#define BOOT INT64_C(5000000000000)
#define REAL INT64_C(1795147200000000000)

static struct link l;

/* A file with this text, by its name. */
struct text_file {
	FILE *f;
	char path[64];
};

static struct text_file *file_of(const char *text, size_t len)
{
	struct text_file *t = calloc(1, sizeof(*t));

	t->f = tmpfile();
	assert_non_null(t->f);
	assert_int_equal(fwrite(text, 1, len, t->f), len);
	fflush(t->f);
	snprintf(t->path, sizeof(t->path), "/proc/self/fd/%d", fileno(t->f));
	return t;
}

static struct text_file *files[16];
static size_t n_files;

static int add_binary(const char *bytes, size_t len, const char *host, bool is_et)
{
	files[n_files] = file_of(bytes, len);
	return link_add(&l, files[n_files++]->path, host, is_et);
}

static int add(const char *text, const char *host, bool is_et)
{
	return add_binary(text, strlen(text), host, is_et);
}

static void add_good(const char *text, const char *host)
{
	assert_int_equal(add(text, host, false), 0);
}

static int clear(void **state)
{
	link_clear(&l);
	while (n_files) {
		fclose(files[--n_files]->f);
		free(files[n_files]);
	}
	return 0;
}

/* What the next recordings say about their host, as JSON members after a comma. */
static const char *host_args = "";

/* inftrace's JSON: from BOOT + from, for a second, with a wall clock `ahead` of REAL there. */
static char *own_json(int64_t from, int64_t ahead, const char *events)
{
	static char text[8][4096];
	static unsigned int n;
	char *p = text[n++ % 8];

	snprintf(p, 4096,
		"[\n{\"ph\":\"i\",\"name\":\"inftrace_clock\",\"pid\":1,\"tid\":1,\"ts\":0.000,\"args\":{\"boottime_ns\":\"%lld\",\"monotonic_ns\":\"1\",\"realtime_ns\":\"%lld\"%s}},\n%s{\"ph\":\"i\",\"name\":\"inftrace_clock\",\"pid\":1,\"tid\":1,\"ts\":1000000.000,\"args\":{\"boottime_ns\":\"%lld\",\"monotonic_ns\":\"1\",\"realtime_ns\":\"%lld\"}}\n]\n",
		(long long)(BOOT + from), (long long)(REAL + from + ahead), host_args, events, (long long)(BOOT + from) + 1000000000,
		(long long)(REAL + from + ahead) + 1000000000);
	return p;
}

/* ---- names ---- */

TEST(test_relations)
{
	static const struct {
		const char *ours, *theirs;
		enum span_relation relation;
	} table[] = {
		{ "mul_Tensor", "aten::mul", SPAN_AROUND },
		{ "mul__Tensor", "aten::mul_", SPAN_AROUND },
		{ "aten::mul", "aten::mul", SPAN_AROUND },
		{ "_softmax", "aten::_softmax", SPAN_AROUND },
		{ "multinomial", "aten::mul", SPAN_UNRELATED },
		{ "mul_Tensor", "mul", SPAN_UNRELATED },
		{ "cuLaunchKernel", "cudaLaunchKernel", SPAN_WITHIN },
		{ "cuLaunchKernelEx", "cudaLaunchKernelExC", SPAN_WITHIN },
		{ "cuLaunchKernel", "cudaLaunchKernelExC", SPAN_UNRELATED },
		{ "cuLaunchKernel_ptsz", "cuLaunchKernel", SPAN_AROUND },
		{ "cudaLaunchKernel", "cudaLaunchKernel", SPAN_AROUND },
		{ "cudaLaunchKernel", "cuLaunchKernel", SPAN_UNRELATED },
		{ "cuMemFree_v2", "cudaMemFree", SPAN_WITHIN },
		{ "current", "cudaMemFree", SPAN_UNRELATED },
		{ "", "aten::", SPAN_AROUND },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_int_equal(span_relate(table[i].ours, table[i].theirs), table[i].relation);
		/* related names have equal keys */
		if (table[i].relation != SPAN_UNRELATED)
			assert_int_equal(span_key(table[i].ours), span_key(table[i].theirs));
	}
}

/* ---- calls in common ---- */

static uint32_t chance;

static uint32_t draw(uint32_t below)
{
	chance = chance * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)chance * below >> 32);
}

/* n calls of theirs with ours around them, `ahead` behind; every lost-th of ours is missing (0: none). */
static void make_calls(struct spans *ours, struct spans *theirs, unsigned int n, int64_t ahead, unsigned int lost, uint32_t tid)
{
	static const char *const names[] = { "mul", "add", "linear", "copy_" };
	int64_t at = REAL;
	char name[32];

	chance = 7;
	for (unsigned int i = 0; i < n; i++) {
		const char *base = names[draw(4)];
		int64_t dur = 2000 + draw(20000);

		snprintf(name, sizeof(name), "aten::%s", base);
		spans_add(theirs, name, 1, at, at + dur);
		snprintf(name, sizeof(name), "%s_Tensor", base);
		if (!lost || i % lost)
			spans_add(ours, name, tid, at - ahead - 200 - draw(1000), at + dur - ahead + 200 + draw(1000));
		at += dur + 1000 + draw(200000);
	}
}

TEST(test_match)
{
	static const int64_t offsets[] = { 0, 1, -700, 3000000, -2000000000, 9000000000 };
	const unsigned int n = cases(4000, 500);

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		for (unsigned int lost = 0; lost <= 5; lost += 5) {
			struct spans ours = { 0 }, theirs = { 0 };
			struct match match;

			make_calls(&ours, &theirs, n, offsets[i], lost, lost ? 9 : 1);
			match_find(&ours, &theirs, &match);
			assert_true(match.pairs > n / 2);
			assert_true(match.low_ns <= offsets[i] && offsets[i] <= match.high_ns);
			assert_true(match.high_ns - match.low_ns <= 2400); /* the widest interval that two calls leave open */
			assert_int_equal(match.calls, n);
			spans_clear(&ours);
			spans_clear(&theirs);
		}
	}
}

TEST(test_match_nothing)
{
	struct spans ours = { 0 }, theirs = { 0 }, none = { 0 };
	struct match match;

	make_calls(&ours, &theirs, 500, 0, 0, 1);
	match_find(&none, &theirs, &match);
	assert_int_equal(match.pairs, 0);
	match_find(&ours, &none, &match);
	assert_int_equal(match.pairs, 0);
	/* calls of the same names at other times: another run */
	for (size_t i = 0; i < ours.n; i++)
		ours.list[i].start_ns = REAL + draw(1000000000);
	for (size_t i = 0; i < ours.n; i++)
		ours.list[i].end_ns = ours.list[i].start_ns + 30000;
	match_find(&ours, &theirs, &match);
	assert_true(match.pairs < 100);
	spans_clear(&ours);
	spans_clear(&theirs);
}

TEST(test_match_contradiction)
{
	struct spans ours = { 0 }, theirs = { 0 };
	struct match match;

	make_calls(&ours, &theirs, 2000, 1000000, 0, 1);
	for (size_t i = 1000; i < ours.n; i++) {
		ours.list[i].start_ns -= 4000000;
		ours.list[i].end_ns -= 4000000;
	}
	match_find(&ours, &theirs, &match);
	assert_in_range(match.low_ns - match.high_ns, 4000000 - 2400, 4000000 + 2400);
	assert_true(match.parts[match.low_part].at_ns > match.parts[match.high_part].at_ns);
	spans_clear(&ours);
	spans_clear(&theirs);
}

/* ---- clocks ---- */

TEST(test_clock)
{
	struct link_clock c = { 0 };

	assert_int_equal(link_clock_ahead(&c, 5), 0);
	assert_int_equal(link_clock_add(&c, 2000, 2000 + 300), 0);
	assert_int_equal(link_clock_add(&c, 1000, 1000 + 100), 0);
	assert_int_equal(link_clock_add(&c, 3000, 3000 - 50), 0);
	link_clock_sort(&c);
	assert_int_equal(link_clock_ahead(&c, 0), 100);
	assert_int_equal(link_clock_ahead(&c, 1500), 200);
	assert_int_equal(link_clock_ahead(&c, 2000), 300);
	assert_int_equal(link_clock_ahead(&c, 9000), -50);
	assert_int_equal(link_clock_spread(&c, 1100, 1200), 200);
	assert_int_equal(link_clock_spread(&c, 0, 500), 0);
	assert_int_equal(link_clock_spread(&c, 1100, 2500), 350);
	link_clock_clear(&c);
}

static void check_refused(int err, const char *what)
{
	assert_true(err < 0);
	assert_non_null(strstr(l.error, what));
	assert_null(strchr(l.error, '\n'));
}

TEST_WITH(test_own, NULL, clear)
{
	add_good(own_json(0, 0, ""), NULL);
	assert_int_equal(l.list[0]->file.kind, LINK_CHROME);
	assert_int_equal(l.list[0]->file.first_ns, BOOT);
	assert_int_equal(l.list[0]->file.last_ns, BOOT + 1000000000);
	assert_int_equal(link_file_real(&l.list[0]->file, BOOT + 7), REAL + 7);
	/* another recording of the same boot, one of another host, and one that is said to be of the first host */
	add_good(own_json(500000000, 1000000, ""), NULL);
	add_good(own_json(-77000000000, 77000000000, ""), NULL);
	add_good(own_json(-90000000000, 90000000000, ""), "host 1");
	assert_int_equal(link_relate(&l), 0);
	assert_int_equal(l.n_hosts, 2);
	assert_int_equal(l.list[1]->host, 0);
	assert_int_equal(l.list[2]->host, 1);
	assert_int_equal(l.list[3]->host, 0);
	assert_int_equal(l.list[1]->by, LINK_BY_ITSELF);
	assert_int_equal(l.list[2]->by, LINK_BY_WALL);
}

#define ID(digit) ",\"boot_id\":\"0000000" #digit "-1111-2222-3333-444444444444\""
#define NAMED(name) ",\"hostname\":\"" name "\""
#define SHIFT(ns) ",\"boottime_shift_ns\":\"" #ns "\""
#define SECOND INT64_C(1000000000)

/* A recording with these args that begins at BOOT + from and REAL + from + ahead, and its expected host. */
struct placed {
	const char *args, *given;
	int64_t from, ahead;
	unsigned int host; /* equal for files of one host */
	const char *name;  /* of the host; NULL: any */
};

static void check_placed(const struct placed *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		host_args = list[i].args;
		add_good(own_json(list[i].from, list[i].ahead, ""), list[i].given);
	}
	host_args = "";
	if (link_relate(&l))
		fail_msg("%s", l.error);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < n; j++)
			assert_int_equal(list[i].host == list[j].host, l.list[i]->host == l.list[j]->host);
		if (list[i].name)
			assert_string_equal(l.hosts[l.list[i]->host], list[i].name);
	}
	clear(NULL);
}

TEST_WITH(test_boots, NULL, clear)
{
	/* two hosts that were booted together, with recordings of a container on each */
	static const struct placed together[] = {
		{ ID(1) NAMED("a"), NULL, 0, 0, 0, "a" },
		{ ID(2) NAMED("b"), NULL, 0, 1000, 1, "b" },
		{ ID(1) NAMED("pod-7"), NULL, 0, 10, 0, "a" },
		{ ID(2) NAMED("pod-8"), NULL, 0, 1010, 1, "b" },
	};
	/* a host name alone does not make a host, and no file can take another one's name */
	static const struct placed names[] = {
		{ ID(1) NAMED("localhost"), NULL, 0, 0, 0, "localhost" },
		{ ID(2) NAMED("localhost"), NULL, 0, 0, 1, "host 1" },
		{ ID(3) NAMED("gpu1"), NULL, 0, 0, 2, "host 2" },
		{ ID(4), "gpu1", 0, 0, 3, "gpu1" },
		{ ID(5) NAMED("host 1"), NULL, 0, 0, 4, "host 3" },
		{ ID(6) NAMED("\\u001b\\n"), NULL, 0, 0, 5, "\\x1b\\x0a" },
		{ ID(7), NULL, 0, 0, 6, "host 4" },
	};
	/* the boot id counts even if the wall clock was set during a recording; HOST= counts for recordings without one */
	static const struct placed named[] = {
		{ ID(1), "a", 0, 0, 0, "a" },
		{ ID(1), NULL, 0, 0, 0, NULL },
		{ ID(2), "b", 0, 0, 1, "b" },
		{ "", "b", 0, 0, 1, NULL },
		{ ID(3), NULL, 0, 0, 2, NULL },
	};
	/* older versions: placed by their clocks */
	static const struct placed older[] = {
		{ ID(1) NAMED("a"), NULL, 0, 0, 0, "a" },
		{ "", NULL, 0, 900000000, 0, NULL },
		{ ID(2) NAMED("b"), NULL, -77 * SECOND, 77 * SECOND, 1, "b" },
		{ "", NULL, -77 * SECOND, 77 * SECOND, 1, NULL },
		{ "", NULL, -90 * SECOND, 90 * SECOND, 2, "host 1" },
		{ ",\"boot_id\":\"\"", NULL, -90 * SECOND, 90 * SECOND, 2, NULL },
	};
	/* one boot named as two machines, and a container with a boot id of its own */
	static const struct placed believed[] = {
		{ ID(1), "a", 0, 0, 0, NULL },
		{ ID(1), "b", 0, 0, 1, NULL },
		{ ID(2), "c", 0, 0, 2, NULL },
		{ ID(3), "c", 0, 0, 2, NULL },
		{ ID(4), "d", 0, 0, 3, NULL },
		{ ID(4), "d", 0, 5 * SECOND, 3, NULL }, /* the wall clock was set */
	};

	check_placed(together, 4);
	check_placed(names, 7);
	check_placed(named, 5);
	check_placed(older, 6);
	check_placed(believed, 6);
}

/* Adds recordings that begin together, the second with a wall clock that is further ahead, and expects a refusal. */
static void check_two(const char *one, const char *other, int64_t ahead, const char *host, const char *why)
{
	host_args = one;
	add_good(own_json(0, 0, ""), host);
	host_args = other;
	add_good(own_json(0, ahead, ""), host);
	host_args = "";
	check_refused(link_relate(&l), why);
	clear(NULL);
}

TEST_WITH(test_boots_refused, NULL, clear)
{
	check_two(ID(1), ID(1), 2 * SECOND, NULL, "have one boot id (00000001-1111-2222-3333-444444444444), but clocks that are 2.000000 s apart");
	check_two(ID(1), ID(1) SHIFT(5), -2 * SECOND, NULL, "have one boot id");
	check_two(ID(1), ID(1) SHIFT(2000000000), 0, NULL, "have one boot id");
	check_two(ID(1), ID(2), 2 * SECOND, "a", "are said to be of a, but are of two boots (00000001-1111-2222-3333-444444444444 and 00000002-");
	/* an older recording that fits either */
	host_args = ID(1);
	add_good(own_json(0, 0, ""), NULL);
	host_args = ID(2);
	add_good(own_json(0, 0, ""), NULL);
	check_two("", "", 0, NULL, "may be of several of the hosts, by its clocks: name its host");
	/* a recording of a boot that is said to be two machines */
	host_args = ID(1);
	add_good(own_json(0, 0, ""), "a");
	add_good(own_json(0, 0, ""), "b");
	check_two(ID(1), "", 0, NULL, "may be of several of the hosts, by its boot id: name its host");
}

TEST_WITH(test_apart, NULL, clear)
{
	add_good(own_json(0, 0, ""), NULL);
	add_good(own_json(60000000000, 0, ""), NULL);
	check_refused(link_relate(&l), "no time in common");
	assert_non_null(strstr(l.error, "2026-11-20 04:00:00.000 to 2026-11-20 04:00:01.000"));
	assert_non_null(strstr(l.error, "2026-11-20 04:01:00.000 to 2026-11-20 04:01:01.000"));
}

TEST_WITH(test_unknown, NULL, clear)
{
	check_refused(add("[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":1}]", NULL, false), "its clock is unknown");
	check_refused(add("", NULL, false), "is empty");
	check_refused(add("hello", NULL, false), "neither a profile");
	check_refused(add("{\"traceEvents\":[]}", NULL, false), "its clock is unknown");
	check_refused(add("{\"baseTimeNanoseconds\":1,\"traceEvents\":[]}", NULL, false), "nothing in it that has a time");
	check_refused(link_add(&l, "/nowhere", NULL, false), "/nowhere: cannot open");
	check_refused(link_add(&l, "/", NULL, false), "is a directory");
	check_refused(link_add(&l, "-", NULL, false), "must be a file");
	check_refused(link_add(&l, "/dev/null", NULL, false), "must be a file");
}

/* ---- Kineto ---- */

#define KINETO_BASE "1795147000000000000" /* 200 s before REAL */
#define KINETO_EVENTS                                                                                                          \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mul\",\"pid\":4,\"tid\":4,\"ts\":200000001.500,\"dur\":9.25,"       \
	"\"args\":{\"Record function id\":3}},"                                                                                \
	"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":4,\"tid\":4,\"ts\":200000002,\"dur\":3," \
	"\"args\":{\"correlation\":8}},"                                                                                       \
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":200000004.125,\"dur\":3,"                  \
	"\"args\":{\"correlation\":8}},"                                                                                       \
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":200000001.9,\"dur\":3,"                    \
	"\"args\":{\"correlation\":8}},"                                                                                       \
	"{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"p\",\"pid\":\"Spans\",\"tid\":\"PyTorch Profiler\",\"ts\":200000000,\"dur\":30}"

#define KINETO "{\"traceEvents\":[" KINETO_EVENTS "],\"baseTimeNanoseconds\":" KINETO_BASE "}"

static void check_kineto(const struct link_file *f)
{
	assert_int_equal(f->kind, LINK_KINETO);
	assert_int_equal(f->first_ns, REAL);
	assert_int_equal(f->last_ns, REAL + 30000);
	assert_int_equal(f->spans.n, 2);
	assert_int_equal(f->spans.list[0].start_ns, REAL + 1500);
	assert_int_equal(f->spans.list[0].end_ns, REAL + 1500 + 9250);
	assert_non_null(numbereds_find(&f->operators, 3));
	assert_null(numbereds_find(&f->operators, 4));
	assert_int_equal(f->launches.kernels, 2);
	assert_int_equal(f->launches.early, 1);
	assert_int_equal(f->launches.least_ns, -100);
}

TEST_WITH(test_kineto, NULL, clear)
{
	assert_int_equal(add("{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0}],\"baseTimeNanoseconds\":" KINETO_BASE
			     ",\"traceEvents\":[" KINETO_EVENTS "],\"traceName\":\"x\"}",
				 NULL, false),
		0);
	check_kineto(&l.list[0]->file);
	/* its base may follow the events */
	add_good(KINETO, NULL);
	check_kineto(&l.list[1]->file);
	/* without a file of ours: the others are shifted to the first */
	assert_int_equal(link_relate(&l), 0);
	assert_int_equal(l.list[0]->by, LINK_BY_WALL);
	assert_int_equal(l.list[0]->host, l.list[1]->host);
}

/* Any prefix and any changed byte: read, or refused with one line. */
TEST_WITH(test_kineto_damaged, NULL, clear)
{
	static const char whole[] = "{\"schemaVersion\":1,\"baseTimeNanoseconds\":" KINETO_BASE ",\"traceEvents\":[" KINETO_EVENTS "]}";
	static char text[sizeof(whole)];

	for (size_t n = 1; n + 1 < sizeof(whole); n += 1 + sizeof(whole) / cases(2000, 30)) {
		memcpy(text, whole, n);
		text[n] = 0;
		check_refused(add(text, NULL, false), "");
		clear(NULL);
	}
	for (size_t n = 0; n + 1 < sizeof(whole); n += 1 + sizeof(whole) / cases(2000, 30)) {
		memcpy(text, whole, sizeof(whole));
		text[n] = (char)(text[n] ^ (1 << n % 8));
		if (add(text, NULL, false))
			check_refused(-1, "");
		else
			link_relate(&l);
		clear(NULL);
	}
}

TEST_WITH(test_junk, NULL, clear)
{
	static const char *const table[] = {
		"{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":9223372036854775807,\"dur\":1}]}",
		"{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"k\",\"ts\":1e300,\"dur\":1}]}",
		"{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":7,\"ts\":1,\"dur\":1}]}",
		"{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"k\",\"ts\":1,\"dur\":-1}]}",
		"{\"traceEvents\":[{\"ph\":{},\"cat\":[],\"name\":\"k\"},7,null,\"x\",[]]}",
		"{\"baseTimeNanoseconds\":\"x\",\"traceEvents\":[{}]}",
		"{\"baseTimeNanoseconds\":99999999999999999999999,\"traceEvents\":[{}]}",
		"[{\"ph\":\"i\",\"name\":\"inftrace_clock\",\"ts\":0,\"args\":{\"boottime_ns\":\"-1\",\"realtime_ns\":\"5\"}}]",
		"[{\"ph\":\"i\",\"name\":\"inftrace_clock\",\"ts\":0,\"args\":{\"boottime_ns\":\"99999999999999999999\",\"realtime_ns\":\"5\"}}]",
		"[{\"ph\":\"i\",\"name\":\"inftrace_clock\",\"ts\":0,\"args\":7}]",
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		check_refused(add(table[i], NULL, false), "");
	/* a base that no clock can have is ignored */
	assert_int_equal(add("{\"baseTimeNanoseconds\":9223372036854775807,\"traceEvents\":[" KINETO_EVENTS "]}", NULL, false), 0);
	assert_int_equal(l.list[l.n - 1]->file.begin_ns, 0);
}

/* ---- Perfetto ---- */

TEST_WITH(test_pftrace, NULL, clear)
{
	static struct builder b;

	b.p = b.data;
	b.depth = 0;
	begin_packet(&b, 1, SEQUENCE_F_CLEARED);
	add_number(&b, PACKET_TIMESTAMP, BOOT);
	open_message(&b, PACKET_CLOCKS);
	for (int i = 0; i < 2; i++) {
		open_message(&b, 1);
		add_number(&b, 1, i ? CLOCK_OF_REALTIME : CLOCK_OF_BOOTTIME);
		add_number(&b, 2, i ? REAL : BOOT);
		b.depth--;
		b.p = proto_close(b.marks[b.depth], b.p);
	}
	close_messages(&b);
	begin_packet(&b, 1, SEQUENCE_F_NEEDS);
	add_number(&b, PACKET_TIMESTAMP, BOOT + 5000);
	close_messages(&b);
	assert_int_equal(add_binary(b.data, (size_t)(b.p - b.data), "a\nb", false), 0);
	assert_int_equal(l.list[0]->file.kind, LINK_PFTRACE);
	assert_int_equal(l.list[0]->file.first_ns, BOOT);
	assert_int_equal(l.list[0]->file.last_ns, BOOT + 5000);
	assert_false(l.list[0]->file.torn);
	/* cut off within the second packet */
	assert_int_equal(add_binary(b.data, (size_t)(b.p - b.data) - 3, NULL, false), 0);
	assert_true(l.list[1]->file.torn);
	assert_int_equal(link_relate(&l), 0);
	assert_string_equal(l.hosts[0], "a\\x0ab");
	assert_int_equal(l.list[1]->host, 0);
	/* without a reading of the wall clock */
	check_refused(add_binary(b.p - 20, 20, NULL, false), "");
}

/* ---- execution traces ---- */

#define ET_NODE(id, deps, rf, name)                                                                    \
	"{\"id\":" #id ",\"name\":\"" name "\",\"ctrl_deps\":" deps ",\"attrs\":[{\"name\":\"rf_id\"," \
	"\"type\":\"uint64\",\"value\":" #rf "}]}"
#define ET_ROOT ET_NODE(1, "1", 0, "[pytorch|profiler|execution_trace|process]")
#define ET_OF(nodes) "{\"schema\":\"1.1.1-chakra.0.0.4\",\"pid\":4,\"nodes\":[" nodes "],\"finish_ts\":1}"

/* What is in the execution trace, the second file. */
static void check_et(uint64_t nodes, uint64_t operators, uint64_t found)
{
	assert_int_equal(l.list[1]->et.nodes, nodes);
	assert_int_equal(l.list[1]->et.operators, operators);
	assert_int_equal(l.list[1]->et.found, found);
}

static int link_et(const char *text)
{
	return add(text, NULL, true) ?: link_relate(&l);
}

TEST_WITH(test_et, NULL, clear)
{
	add_good(KINETO, NULL);
	assert_int_equal(link_et(ET_OF(ET_ROOT "," ET_NODE(2, "1", 3, "aten::mul") "," ET_NODE(9, "[2,1]", 0, "x"))), 0);
	check_et(3, 1, 1);
	assert_int_equal(l.list[1]->to, 0);
}

/* Chakra's linker adds kernels, which copy all of their operator's attributes. */
TEST_WITH(test_et_linked, NULL, clear)
{
	add_good(KINETO, NULL);
	assert_int_equal(link_et(ET_OF(ET_ROOT "," ET_NODE(2, "1", 3, "aten::mul") ",{\"cat\":\"kernel\",\"id\":3,\"name\":\"k\",\"ctrl_deps\":2,"
										   "\"attrs\":[{\"name\":\"rf_id\",\"type\":\"uint64\",\"value\":3}]}")),
		0);
	check_et(3, 1, 1);
}

/* One of inftrace's own recordings has such operators, too. */
TEST_WITH(test_et_own, NULL, clear)
{
	assert_int_equal(add("{\"traceEvents\":[{\"ph\":\"i\",\"s\":\"g\",\"name\":\"inftrace_clock\",\"pid\":1,\"tid\":1,\"ts\":0.000,\"args\":{\"boottime_ns\":\"1000\",\"realtime_ns\":\"1700000000000000000\"}},{\"ph\":\"X\",\"pid\":2,\"tid\":2,\"ts\":5.000,\"dur\":1.000,\"name\":\"aten::mul\",\"cat\":\"cpu_op\",\"args\":{\"External id\":7,\"Record function id\":7}},{\"ph\":\"X\",\"pid\":2,\"tid\":2,\"ts\":2.000,\"dur\":1.000,\"name\":\"aten::add\",\"cat\":\"cpu_op\",\"args\":{\"External id\":3,\"Record function id\":3}}]}",
				 NULL, false),
		0);
	assert_int_equal(link_et(ET_OF(ET_ROOT "," ET_NODE(2, "1", 3, "aten::add") "," ET_NODE(3, "1", 7, "aten::mul"))), 0);
	assert_int_equal(l.list[0]->file.kind, LINK_CHROME);
	assert_int_equal(l.list[1]->et.operators, 2);
	assert_int_equal(l.list[1]->et.found, 2);
}

TEST_WITH(test_et_refused, NULL, clear)
{
	static const struct {
		const char *text, *why;
	} table[] = {
		{ ET_OF(ET_ROOT "," ET_NODE(2, "3", 3, "aten::mul") "," ET_NODE(3, "2", 0, "x") "," ET_NODE(4, "3", 0, "y")), "form a cycle" },
		{ ET_OF(ET_NODE(2, "2", 3, "aten::mul")), "form a cycle: node 2 needs node 2" },
		{ ET_OF(ET_NODE(2, "[1,3]", 3, "a") "," ET_NODE(3, "[4]", 3, "a") "," ET_NODE(4, "[2]", 3, "a")), "form a cycle" },
		{ ET_OF(ET_NODE(2, "1", 3, "a") "," ET_NODE(2, "1", 3, "a")), "two nodes have the id 2" },
		{ ET_OF("{\"name\":\"a\"}"), "a node without an id" },
		{ ET_OF("7"), "a node without an id" },
		{ ET_OF(ET_ROOT "," ET_NODE(2, "1", 3, "aten::add")), "is of another run" },
		{ ET_OF(ET_ROOT "," ET_NODE(2, "1", 77, "aten::mul")), "is of another run" },
		{ "{\"schema\":\"1.1.1-chakra.0.0.4\"}", "it has no nodes" },
		{ "{\"schema\":\"1\",\"nodes\":[{\"id\":1}", "the file ends inside nodes" },
		{ "{\"schema\":\"1\",\"nodes\":[{\"id\":1", "the file ends inside an event" },
		{ "\x0a\x05", "" },
		{ "", "" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		add_good(KINETO, NULL);
		check_refused(link_et(table[i].text), table[i].why);
		clear(NULL);
	}
}

/* A node of Chakra's converter; cpu: not a kernel, which has its launch's number. */
static char *converted_node(char *p, uint64_t id, const char *name, uint64_t rf_id, bool cpu)
{
	char *begin = p, *attr;

	p = proto_u64(p + 2, 1, id);
	p = proto_text(p, 2, name, strlen(name));
	p = proto_u64(p, 3, 4);
	p = proto_open(p, 10, &attr);
	p = proto_text(p, 1, "rf_id", 5);
	p = proto_u64(p, 9, rf_id);
	p = proto_close(attr, p);
	p = proto_open(p, 10, &attr);
	p = proto_text(p, 1, "is_cpu_op", 9);
	p = proto_u64(p, 27, cpu);
	p = proto_close(attr, p);
	return proto_close(begin, p);
}

/* Links a file without its last `cut` bytes with the Kineto trace. */
static int link_bytes(const char *text, const char *end, size_t cut)
{
	add_good(KINETO, NULL);
	return add_binary(text, (size_t)(end - text) - cut, NULL, true) ?: link_relate(&l);
}

TEST_WITH(test_et_protobuf, NULL, clear)
{
	static const char metadata[] = "\5\x0a\0031.0";
	const struct et_context c = { .phase = "decode" };
	struct et_node own = { .id = 1, .t.name = "n" };
	char text[1024], *p;

	memcpy(text, metadata, 6);
	p = converted_node(text + 6, 1, "aten::mul", 3, true);
	p = converted_node(p, 2, "a_kernel", 3, false);
	assert_int_equal(link_bytes(text, p, 0), 0);
	check_et(2, 1, 1);
	clear(NULL);
	check_refused(link_bytes(text, p, 1), "the file ends inside a node");
	clear(NULL);
	p = converted_node(text + 6, 1, "aten::add", 3, true);
	check_refused(link_bytes(text, p, 0), "is of another run");
	clear(NULL);
	text[8] = 0x0f; /* a field of an unknown wire type */
	check_refused(link_bytes(text, p, 0), "message 2: is damaged");
	clear(NULL);
	/* inftrace's has no Kineto numbers, and may be cut off */
	p = et_write_node(et_write_metadata(text, "test"), &own, &c);
	own.id = 2;
	own.data[0] = own.n_data = 1;
	p = et_write_node(p, &own, &c);
	for (size_t cut = 0; cut < 2; cut++) {
		assert_int_equal(link_bytes(text, p, cut), 0);
		check_et(2 - cut, 0, 0);
		clear(NULL);
	}
	own.id = 1;
	p = et_write_node(p, &own, &c);
	check_refused(link_bytes(text, p, 0), "two nodes have the id 1");
	clear(NULL);
	/* without --et */
	check_refused(add_binary(text, (size_t)(p - text), NULL, false), "is an execution trace: inftrace validate checks it, and inftrace link takes it with --et");
}

/* ---- the manifest ---- */

/* Checks what the manifest adds to the numbers in the files to get the first host's BOOTTIME. */
static void check_offsets(const int64_t *offsets, size_t n)
{
	char *text = link_manifest(&l);
	struct json_object *root = json_tokener_parse(text), *manifest, *list, *clocks, *offset;

	assert_int_equal(strncmp(text, "{\"perfetto_manifest\"", 20), 0);
	assert_true(json_object_object_get_ex(root, "perfetto_manifest", &manifest));
	assert_true(json_object_object_get_ex(manifest, "files", &list));
	assert_int_equal(json_object_array_length(list), n);
	for (size_t i = 0; i < n; i++) {
		assert_true(json_object_object_get_ex(json_object_array_get_idx(list, i), "clocks", &clocks));
		assert_true(json_object_object_get_ex(clocks, "offset_ns", &offset));
		assert_int_equal(json_object_get_int64(offset), offsets[i]);
	}
	json_object_put(root);
	free(text);
}

TEST_WITH(test_manifest, NULL, clear)
{
	/* the second host's clock is a second ahead of the first's, and its BOOTTIME 77 s behind */
	add_good(own_json(0, 0, ""), "a");
	add_good(own_json(-77000000000, 77000000000, ""), "b");
	add_good(KINETO, "a");
	assert_int_equal(link_relate(&l), 0);
	check_offsets((const int64_t[]){ BOOT, BOOT, BOOT - 200000000000 }, 3);
}

/* Recordings of one machine; a time namespace shifts the second one's clock. */
TEST_WITH(test_manifest_namespaces, NULL, clear)
{
	host_args = ID(1);
	add_good(own_json(0, 0, ""), NULL);
	host_args = ID(1) SHIFT(-77000000000);
	add_good(own_json(-77 * SECOND, 77 * SECOND, ""), NULL);
	host_args = "";
	assert_int_equal(link_relate(&l), 0);
	assert_int_equal(l.n_hosts, 1);
	assert_int_equal(l.list[1]->by, LINK_BY_ITSELF);
	assert_int_equal(l.list[1]->file.first_ns, BOOT);
	assert_int_equal(link_file_real(&l.list[1]->file, BOOT + 7), REAL + 7);
	check_offsets((const int64_t[]){ BOOT, BOOT }, 2);
}

RUN_TESTS(NULL, NULL)
