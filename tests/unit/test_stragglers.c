// SPDX-License-Identifier: BSD-2-Clause
/* Who is late for collectives, from archives made here: two hosts with clocks 5 s apart, known to within 10 us. */
#include "report.h"

#include "cases.h"
#include "io/zip_writer.h"
#include "report/report.h"

#define MS INT64_C(1000000)
#define BOOT_A INT64_C(5000000000000)
#define BOOT_B (BOOT_A + 5000 * MS)
#define REAL INT64_C(1795147200000000000)
#define N 60
#define STEP_MS 10

/* A rank's recording: steps of 10 ms with a collective 8 ms after the begin, except in one step. */
struct options {
	bool made;         /* its communicator was made while recording */
	int slow, slow_us; /* the step that is late for its collective, and by how much */
	const char *state; /* the extra time is in this state, and in poll */
	int state_us, poll_us;
	int loss; /* step in which records are lost */
	uint64_t bytes;
};

/* All wait for the late rank. */
static int late_step = -1, late_us;

static int begin_us(int step)
{
	return 1000 + step * STEP_MS * 1000 + (step > late_step ? late_us : 0);
}

/* What files also say about their hosts, as JSON members after a comma. */
static const char *host_args[2] = { "", "" };
/* Both hosts were booted at the same time. */
static bool together;
/* What the time namespace of the second host's recorder adds to the clock. */
static int64_t shift;

/* The first clock snapshot of the host with this boot time. */
static void put_clocks(FILE *f, int64_t boot)
{
	bool b = boot == BOOT_B;

	fprintf(f, "\"boottime_ns\":\"%lld\",\"realtime_ns\":\"%lld\"%s", (long long)(boot + (b ? shift : 0)),
		(long long)(REAL + (b ? together ? BOOT_B - BOOT_A : 3 * MS : 0)), host_args[b]);
}

static char *trace_of(int64_t boot, uint32_t pid, const struct options *o)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	fputs("[{\"ph\":\"i\",\"name\":\"inftrace_clock\",\"pid\":1,\"tid\":1,\"ts\":0,\"args\":{", f);
	put_clocks(f, boot);
	fputs("}}", f);
	if (o->made)
		fprintf(f,
			",\n{\"ph\":\"X\",\"name\":\"ncclCommInitRank\",\"cat\":\"other\",\"pid\":%u,\"tid\":%u,\"ts\":1,\"dur\":10,"
			"\"args\":{\"ranks\":2,\"rank\":%u,\"id\":\"0xabcdef\",\"comm\":\"0x7000\"}}",
			pid, pid, pid - 10);
	if (o->loss)
		fprintf(f,
			",\n{\"ph\":\"X\",\"name\":\"lost records\",\"cat\":\"loss\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":100,\"args\":{\"function\":3}}",
			begin_us(o->loss));
	for (int i = 0; i < N; i++)
		fprintf(f,
			",\n{\"ph\":\"X\",\"name\":\"ncclAllReduce\",\"cat\":\"transfer\",\"pid\":%u,\"tid\":%u,\"ts\":%d,\"dur\":5,"
			"\"args\":{\"count\":64,\"type\":\"float16\",\"comm\":\"0x7000\",\"bytes\":%llu}}",
			pid, pid, begin_us(i) + 8000 + (i == o->slow ? o->slow_us : 0), (unsigned long long)o->bytes);
	fputs("]\n", f);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* clock: with the times at which the recording began. */
static char *profile_of(int64_t boot, uint32_t pid, const struct options *o, bool clock)
{
	struct profile p;

	profile_begin(&p);
	for (int i = 0; i < N; i++) {
		int more = i == o->slow ? o->state_us : 0, poll = i == o->slow ? o->poll_us : 0;

		fprintf(p.out,
			"{\"event\":\"token_prof\"," HEAD ",\"shape\":{\"step\":%d,\"pid\":%u,\"tid\":%u,\"phase\":\"decode\",\"n_tokens\":1,"
			"\"ts_us\":%d.000},\"stage_us\":{\"total\":%d.000,\"cpu\":9000.000,\"blocked_poll\":%d.000,\"%s\":%d.000}}\n",
			i, pid, pid, begin_us(i), 9000 + more + poll, poll, o->state, more);
	}
	fprintf(p.out, "{\"event\":\"window_prof\"," HEAD ",\"shape\":{\"window\":0,\"records\":1,\"lost\":0,\"steps\":%d", N);
	if (clock) {
		fputc(',', p.out);
		put_clocks(p.out, boot);
	}
	fputs("},\"stage_us\":{\"total\":1000000.000}}\n", p.out);
	profile_end(&p);
	return p.text;
}

static char *manifest_of(int64_t residual)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	fputs("{\"perfetto_manifest\":{\"version\":1,\"trace_time\":{\"clock\":\"BOOTTIME\",\"file\":\"a/t.json\"},\"files\":["
	      "{\"path\":\"a/t.json\",\"machine\":{\"name\":\"a\"}},{\"path\":\"b/t.json\",\"machine\":{\"name\":\"b\"}}],\"attributes\":{",
		f);
	if (residual >= 0)
		fprintf(f,
			"\"inftrace.boottime_first_ns.b/t.json\":%lld,\"inftrace.boottime_last_ns.b/t.json\":%lld,"
			"\"inftrace.boottime_ahead_first_ns.b/t.json\":%lld,\"inftrace.boottime_ahead_last_ns.b/t.json\":%lld,"
			"\"inftrace.boottime_residual_ns.b/t.json\":%lld",
			(long long)BOOT_B, (long long)BOOT_B + 2000 * MS, (long long)(BOOT_B - BOOT_A), (long long)(BOOT_B - BOOT_A),
			(long long)residual);
	fputs("}}}", f);
	assert_int_equal(fclose(f), 0);
	return text;
}

struct member {
	const char *name;
	char *text;
};

static FILE *archive_of(const struct member *list, size_t n, char path[64])
{
	char why[ZIP_WHY_MAX];
	struct zip_writer *zip;
	FILE *f = tmpfile();

	assert_non_null(f);
	zip = zip_writer_new(fileno(f));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(zip_writer_text(zip, list[i].name, list[i].text, strlen(list[i].text), 0, why), 0);
	assert_int_equal(zip_writer_finish(zip, why), 0);
	zip_writer_free(zip);
	snprintf(path, 64, "/proc/self/fd/%d", fileno(f));
	return f;
}

static char problems[1024];

static void problem(void *ctx, const char *text)
{
	snprintf(problems, sizeof(problems), "%s", text);
	for (const char *p = text; *p; p++)
		assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
}

/* Returns the report's object, which the caller frees; NULL: no collectives in it. */
static struct json_object *report_of(const struct member *list, size_t n)
{
	struct json_object *o;
	char path[64], *text;
	const char *file = path;
	FILE *f = archive_of(list, n, path), *out;
	struct report r;
	size_t len;

	problems[0] = 0;
	report_make(&r, &file, 1, problem, NULL, NULL);
	o = report_object(&r, 20, false);
	assert_non_null(o);
	out = open_memstream(&text, &len);
	report_text(&r, 20, out);
	fclose(out);
	free(text);
	report_free(&r);
	fclose(f);
	return o;
}

#define MEMBERS 5

/* Makes the files of both ranks. named: profiles have host names; clock: they say when they began. */
static void members_of(struct member list[MEMBERS], const struct options *a, const struct options *b, int64_t residual, bool named, bool clock)
{
	late_step = b->slow;
	late_us = b->slow_us;
	list[0] = (struct member){ ARCHIVE_MANIFEST, manifest_of(residual) };
	list[1] = (struct member){ "a/t.json", trace_of(BOOT_A, 10, a) };
	list[2] = (struct member){ "b/t.json", trace_of(BOOT_B, 11, b) };
	list[3] = (struct member){ named ? ARCHIVE_BESIDE "a/p.jsonl" : ARCHIVE_BESIDE "a.jsonl", profile_of(BOOT_A, 10, a, clock) };
	list[4] = (struct member){ named ? ARCHIVE_BESIDE "b/p.jsonl" : ARCHIVE_BESIDE "b.jsonl", profile_of(BOOT_B, 11, b, clock) };
}

static void members_free(struct member list[MEMBERS])
{
	for (size_t i = 0; i < MEMBERS; i++)
		free(list[i].text);
}

static struct json_object *both(const struct options *a, const struct options *b, int64_t residual, bool named, bool clock)
{
	struct member list[MEMBERS];
	struct json_object *o;

	members_of(list, a, b, residual, named, clock);
	o = report_of(list, MEMBERS);
	members_free(list);
	return o;
}

static const struct options usual = { .made = true, .slow = -1, .state = "runnable", .bytes = 128 };

static struct options slow_at(int step, int us, const char *state)
{
	struct options o = usual;

	o.slow = step;
	o.slow_us = o.state_us = us;
	o.state = state;
	return o;
}

#define GROUP "collectives.0."
#define LATEST "collectives.0.latest.0."

/* ---- who, and why ---- */

static void check_one(struct json_object *o)
{
	JSON_IS(o,
		{ "collectives#", "1" },
		{ GROUP "compared", "60" },
		{ GROUP "stragglers", "1" },
		{ GROUP "by", "host" },
		{ LATEST "host", "b" },
		{ LATEST "after_host", "a" },
		{ LATEST "collective", "30" },
		{ LATEST "late_us", "20000.000" },
		{ LATEST "step", "30" },
		{ LATEST "state", "blocked_io" },
		{ LATEST "text", "b, pid 11: 20.0 ms after a at ncclAllReduce of 128 bytes: step 30, 29.0 ms instead of 9.00 ms: the calling "
				 "thread waited 20.0 ms for a disk" });
}

/* Checks what is said about the latest rank. */
static void check_latest(struct json_object *o, const char *text)
{
	assert_contains(json_object_get_string(at_path(o, LATEST "text")), text);
	json_object_put(o);
}

TEST(test_straggler)
{
	struct options b = slow_at(30, 20000, "blocked_io");

	check_one(both(&usual, &b, 10000, true, true));
	/* by the clock alone: the wall clocks' leads over CLOCK_BOOTTIME differ by 5 s */
	check_one(both(&usual, &b, 10000, false, true));
}

TEST(test_no_clock)
{
	struct options b = slow_at(30, 20000, "blocked_io");

	check_latest(both(&usual, &b, 10000, true, false), "its steps do not show why");
	check_latest(both(&usual, &b, 10000, false, false), "there is no profile of it");
}

/* Hosts booted together are told apart only by their boot ids. The profiles have no host names here. */
TEST(test_booted_together)
{
	struct options b = slow_at(30, 20000, "blocked_io");

	together = true;
	check_latest(both(&usual, &b, 10000, false, true), "there is no profile of it");
	host_args[0] = ",\"boot_id\":\"00000001-1111-2222-3333-444444444444\",\"hostname\":\"n1\"";
	host_args[1] = ",\"boot_id\":\"00000002-1111-2222-3333-444444444444\"";
	check_one(both(&usual, &b, 10000, false, true));
	/* one of them is older */
	host_args[0] = "";
	check_one(both(&usual, &b, 10000, false, true));
	/* two names for one boot: it may be either */
	host_args[0] = host_args[1];
	check_latest(both(&usual, &b, 10000, false, true), "there is no profile of it");
	host_args[0] = host_args[1] = "";
	together = false;
}

/* A time namespace shifts the clock that the second host's recorder reads: the manifest has the machine's clock. */
TEST(test_namespace)
{
	struct options b = slow_at(30, 20000, "blocked_io");

	host_args[1] = ",\"boot_id\":\"00000002-1111-2222-3333-444444444444\",\"boottime_shift_ns\":\"-7000000000\"";
	shift = -7000 * MS;
	check_one(both(&usual, &b, 10000, true, true));
	check_one(both(&usual, &b, 10000, false, true));
	host_args[1] = "";
	shift = 0;
}

/* Most of the time in the state may come after the call, where it waits for the others. */
TEST(test_behind_the_call)
{
	struct options b = slow_at(30, 20000, "blocked_net");

	b.state_us = 24000;
	b.poll_us = 16000;
	check_latest(both(&usual, &b, 10000, true, true), "its steps do not show why");
	b.poll_us = 0;
	check_latest(both(&usual, &b, 10000, true, true), "waited 24.0 ms for the network");
}

/* ---- what cannot be compared ---- */

/* A delay within the residual does not count, nor as the last one. */
TEST(test_residual)
{
	struct options b = slow_at(30, 20000, "blocked_io");

	JSON_IS(both(&usual, &b, 20 * MS + 10000, true, true), { "collectives#", "1" }, { GROUP "stragglers", "0" }, { GROUP "within_residual", "60" });
}

TEST(test_unknown_clock)
{
	struct options b = slow_at(30, 20000, "blocked_io");

	JSON_IS(both(&usual, &b, -1, true, true), { "collectives#", "1" }, { GROUP "compared", "0" }, { GROUP "clock_unknown", "60" });
}

TEST(test_lost)
{
	struct options b = slow_at(30, 20000, "blocked_io");

	b.loss = 20;
	JSON_IS(both(&usual, &b, 10000, true, true), { "collectives#", "1" }, { GROUP "compared", "20" }, { GROUP "incomplete", "40" },
		{ GROUP "stragglers", "0" });
}

TEST(test_mismatch)
{
	struct options b = usual;

	b.bytes = 256;
	JSON_IS(both(&usual, &b, 10000, true, true), { "collectives#", "1" }, { GROUP "compared", "0" }, { GROUP "mismatched", "1" });
}

TEST(test_alone)
{
	struct options a = usual, b = usual;

	a.made = b.made = false;
	JSON_IS(both(&a, &b, 10000, true, true), { "collectives", NULL }, { "ranks_not_compared", "2" });
}

/* ---- junk ---- */

static uint64_t seed = 1;

static uint32_t draw(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(seed >> 33) % n;
}

/* Replaces digits and names, so that most of it stays JSON. */
static void damage(char *text)
{
	static const char *const junk[] = { "9", "99999999999999999999", "-1", "\"", "}", "null", "nccl", "\\u0000", "\x1b[2J", "1e300" };
	size_t len = strlen(text);

	for (uint32_t k = 1 + draw(4); k; k--) {
		size_t at = draw((uint32_t)len);
		const char *with = junk[draw(10)];

		for (size_t i = 0; with[i] && at + i < len; i++)
			text[at + i] = with[i];
	}
	if (!draw(8))
		text[draw((uint32_t)len)] = '\0';
}

TEST(test_junk)
{
	struct options b = slow_at(30, 20000, "blocked_io");
	unsigned int with = 0;

	for (unsigned int i = 0; i < cases(2000, 20); i++) {
		struct member list[MEMBERS];
		struct json_object *o;

		members_of(list, &usual, &b, 10000, true, true);
		damage(list[i % MEMBERS].text);
		o = report_of(list, MEMBERS);
		with += json_object_object_get_ex(o, "collectives", NULL);
		json_object_put(o);
		members_free(list);
	}
	assert_true(with > 0);
}

RUN_TESTS(NULL, NULL)
