// SPDX-License-Identifier: BSD-2-Clause
/* Reading Perfetto traces, and the formats that they are exported to. */
#include <sys/mman.h>
#include <zlib.h>
#include <json-c/json.h>

#include "cases.h"
#include "export/samples.h"
#include "read/proto.h"
#include "trace_builder.h"
#include "unit.h"

#define SAMPLES 3
#define WAITS 4
#define PERIOD UINT64_C(10000000)

struct load {
	struct samples s;
	int err;
	bool torn;
	uint64_t problems, first_offset;
	char first[128];
};

static void problem(void *arg, uint64_t offset, const char *why)
{
	struct load *l = arg;

	if (!l->problems++) {
		l->first_offset = offset;
		snprintf(l->first, sizeof(l->first), "%s", why);
	}
}

static void load_bytes(struct load *l, const void *data, size_t len, bool each)
{
	struct json_source source;

	memset(l, 0, sizeof(*l));
	l->s.each = each;
	assert_int_equal(json_source_open_mem(&source, data, len), 0);
	l->err = samples_read(&l->s, &source, problem, l, &l->torn);
	json_source_close(&source);
}

static struct builder b;

static void builder_clear(void)
{
	b.p = b.data;
	b.depth = 0;
}

static void load(struct load *l)
{
	load_bytes(l, b.data, (size_t)(b.p - b.data), true);
}

/* Two threads of a process, with Python above C above the kernel, and a wait. */
static void build_trace(void)
{
	builder_clear();
	add_thread(&b, 7, 7, "main;x\n");
	add_thread(&b, 7, 8, "worker");
	add_defaults(&b, SAMPLES, PERIOD, NULL);
	add_frame(&b, SAMPLES, 1, "_start", "usr/bin/python3");
	add_frame(&b, SAMPLES, 2, "serve.<locals>.f (api.py:212)", "srv/api.py");
	add_frame(&b, SAMPLES, 3, "mat;mul<float>(int, int)", "lib/libx.so");
	add_frame(&b, SAMPLES, 4, "__schedule", "[kernel]");
	add_frame(&b, SAMPLES, 5, "", "lib/libx.so");
	add_stack(&b, SAMPLES, 1, (const uint64_t[]){ 1, 2, 3, 0 });
	add_stack(&b, SAMPLES, 2, (const uint64_t[]){ 1, 5, 4, 0 });
	add_defaults(&b, WAITS, 0, TIMEBASE_OFF_CPU);
	add_frame(&b, WAITS, 1, "main", "usr/bin/python3");
	add_frame(&b, WAITS, 2, "futex_wait", "[kernel]");
	add_stack(&b, WAITS, 1, (const uint64_t[]){ 1, 2, 0 });
	add_sample(&b, SAMPLES, 3000, 7, 7, 1, 0);
	add_sample(&b, SAMPLES, 1000, 7, 7, 2, 0);
	add_sample(&b, SAMPLES, 2000, 7, 7, 1, 0);
	add_sample(&b, SAMPLES, 1500, 7, 8, 1, 0);
	add_sample(&b, WAITS, 1500, 7, 8, 1, 5001);
	add_sample(&b, WAITS, 1600, 7, 8, 1, 5001 + 2000000);
	add_sample(&b, SAMPLES, 1700, 7, 9, 0, 0);
}

static char *read_back(FILE *f)
{
	long len;
	char *text;

	fseek(f, 0, SEEK_END);
	len = ftell(f);
	rewind(f);
	text = calloc(1, (size_t)len + 1);
	assert_int_equal(fread(text, 1, (size_t)len, f), len);
	return text;
}

static void assert_collapsed(const struct samples *s, bool off_cpu, const char *expected)
{
	FILE *f = tmpfile();
	char *text;

	assert_int_equal(collapsed_write(s, off_cpu, f), 0);
	text = read_back(f);
	fclose(f);
	assert_string_equal(text, expected);
	free(text);
}

/* Two functions of one name, as from two libraries or two recorders' programs, are one line. */
TEST(test_collapsed_same)
{
	struct load l;

	builder_clear();
	add_thread(&b, 7, 7, "main");
	add_thread(&b, 7, 8, "main");
	add_defaults(&b, SAMPLES, PERIOD, NULL);
	add_frame(&b, SAMPLES, 1, "init", "lib/libx.so");
	add_frame(&b, SAMPLES, 2, "init", "lib/liby.so");
	add_stack(&b, SAMPLES, 1, (const uint64_t[]){ 1, 0 });
	add_stack(&b, SAMPLES, 2, (const uint64_t[]){ 2, 0 });
	add_sample(&b, SAMPLES, 1000, 7, 7, 1, 0);
	add_sample(&b, SAMPLES, 1100, 7, 7, 2, 0);
	add_sample(&b, SAMPLES, 1200, 7, 8, 2, 0);
	load(&l);
	assert_int_equal(l.err, 0);
	assert_collapsed(&l.s, false, "main;init 3\n");
	samples_clear(&l.s);
}

TEST(test_collapsed)
{
	struct load l;

	build_trace();
	load(&l);
	assert_int_equal(l.err, 0);
	assert_false(l.torn);
	assert_int_equal(l.problems, 0);
	assert_collapsed(&l.s, false, "main:x\\x0a;_start;serve.<locals>.f (api.py:212);mat:mul<float>(int, int) 2\n"
				      "main:x\\x0a;_start;[libx.so];__schedule_[k] 1\n"
				      "worker;_start;serve.<locals>.f (api.py:212);mat:mul<float>(int, int) 1\n"
				      "pid 7;[no stack] 1\n");
	assert_collapsed(&l.s, true, "worker;main;futex_wait_[k] 2006\n");
	samples_clear(&l.s);
}

/* Threads with the same name share a line for the same stack. */
TEST(test_same_name)
{
	struct load l;

	builder_clear();
	add_defaults(&b, SAMPLES, PERIOD, NULL);
	add_frame(&b, SAMPLES, 1, "f", "a");
	add_stack(&b, SAMPLES, 1, (const uint64_t[]){ 1, 0 });
	for (uint32_t tid = 10; tid < 20; tid++)
		add_sample(&b, SAMPLES, 1, 10, tid, 1, 0);
	for (uint32_t tid = 10; tid < 20; tid++)
		add_thread(&b, 10, tid, tid < 15 ? "one" : "two");
	load(&l);
	assert_collapsed(&l.s, false, "one;f 5\ntwo;f 5\n");
	samples_clear(&l.s);
}

/* A cleared sequence reuses its numbers with new meanings; other sequences keep theirs. */
TEST(test_cleared)
{
	struct load l;

	builder_clear();
	for (int i = 0; i < 3; i++) {
		add_defaults(&b, SAMPLES, PERIOD, NULL);
		add_frame(&b, SAMPLES, 1, i == 1 ? "g" : "f", "lib/a.so");
		add_stack(&b, SAMPLES, 1, (const uint64_t[]){ 1, 0 });
		if (!i) {
			add_defaults(&b, WAITS, PERIOD, NULL);
			add_frame(&b, WAITS, 1, "other", "lib/a.so");
			add_stack(&b, WAITS, 1, (const uint64_t[]){ 1, 0 });
		}
		add_sample(&b, SAMPLES, 1, 5, 5, 1, 0);
		add_sample(&b, WAITS, 1, 5, 5, 1, 0);
	}
	load(&l);
	assert_collapsed(&l.s, false, "pid 5;f 2\npid 5;other 3\npid 5;g 1\n");
	samples_clear(&l.s);
}

/* ---- pprof, with a reader of its own ---- */

struct profile {
	struct proto_bytes strings[64], samples[64];
	uint64_t function_of[64], line_of[64], name_of[64], file_of[64], mapping_of[64], path_of[64];
	size_t n_strings, n_samples, n_types;
	uint64_t types[8][2];
	uint64_t default_type;
};

/* Reads the varints of a packed field. */
static size_t packed(struct proto_bytes in, uint64_t *list, size_t max)
{
	size_t n = 0;

	while (n < max && proto_read_varint(&in, &list[n]) == 1)
		n++;
	assert_ptr_equal(in.p, in.end);
	return n;
}

static void numbers(struct proto_bytes in, uint64_t values[16])
{
	struct proto_field f;

	memset(values, 0, 16 * sizeof(*values));
	while (proto_next(&in, &f) == 1)
		values[f.number] = f.value;
}

static void parse_profile(struct profile *p, struct proto_bytes in)
{
	uint64_t v[16];
	struct proto_field f, g;
	int ret;

	memset(p, 0, sizeof(*p));
	while ((ret = proto_next(&in, &f)) == 1) {
		numbers(f.bytes, v);
		switch (f.number) {
		case 1:
			memcpy(p->types[p->n_types++], v + 1, 2 * sizeof(*v));
			break;
		case 2:
			p->samples[p->n_samples++] = f.bytes;
			break;
		case 3:
			p->path_of[v[1]] = v[5];
			assert_int_equal(v[7], 1);
			break;
		case 4:
			p->mapping_of[v[1]] = v[2];
			while (proto_next(&f.bytes, &g) == 1) {
				uint64_t line[16];

				if (g.number != 4)
					continue;
				numbers(g.bytes, line);
				p->function_of[v[1]] = line[1];
				p->line_of[v[1]] = line[2];
			}
			break;
		case 5:
			p->name_of[v[1]] = v[2];
			p->file_of[v[1]] = v[4];
			break;
		case 6:
			p->strings[p->n_strings++] = f.bytes;
			break;
		case 14:
			p->default_type = f.value;
			break;
		}
	}
	assert_int_equal(ret, 0);
}

static const char *string_at(const struct profile *p, uint64_t i)
{
	static char text[8][256];
	static unsigned int next;
	char *to = text[next++ % 8];

	assert_true(i < p->n_strings);
	snprintf(to, sizeof(text[0]), "%.*s", (int)proto_len(p->strings[i]), (const char *)p->strings[i].p);
	return to;
}

TEST(test_pprof)
{
	uint64_t sums[4] = { 0 }, v[4], locations[8];
	char data[16384];
	struct profile p;
	struct load l;
	FILE *f = tmpfile();
	gzFile gz;
	int n;

	build_trace();
	load(&l);
	assert_int_equal(pprof_write(&l.s, f), 0);
	lseek(fileno(f), 0, SEEK_SET);
	gz = gzdopen(dup(fileno(f)), "rb");
	n = gzread(gz, data, sizeof(data));
	assert_in_range(n, 1, sizeof(data) - 1);
	gzclose(gz);
	fclose(f);

	parse_profile(&p, (struct proto_bytes){ (unsigned char *)data, (unsigned char *)data + n });
	assert_string_equal(string_at(&p, 0), "");
	assert_int_equal(p.n_types, 4);
	assert_string_equal(string_at(&p, p.types[0][0]), "samples");
	assert_string_equal(string_at(&p, p.types[0][1]), "count");
	assert_string_equal(string_at(&p, p.types[1][0]), "cpu");
	assert_string_equal(string_at(&p, p.types[1][1]), "nanoseconds");
	assert_string_equal(string_at(&p, p.types[3][0]), "off_cpu");
	assert_string_equal(string_at(&p, p.default_type), "cpu");
	assert_int_equal(p.n_samples, 5);
	for (size_t i = 0; i < p.n_samples; i++) {
		struct proto_bytes in = p.samples[i];
		struct proto_field field;

		while (proto_next(&in, &field) == 1) {
			if (field.number == 2)
				assert_int_equal(packed(field.bytes, v, 4), 4);
			if (field.number == 1 && !i)
				assert_int_equal(packed(field.bytes, locations, 8), 3);
		}
		for (int k = 0; k < 4; k++)
			sums[k] += v[k];
	}
	assert_int_equal(sums[0], 5);
	assert_int_equal(sums[1], 5 * PERIOD);
	assert_int_equal(sums[2], 2);
	assert_int_equal(sums[3], 2005001);
	/* the innermost first */
	assert_string_equal(string_at(&p, p.name_of[p.function_of[locations[0]]]), "mat;mul<float>(int, int)");
	assert_string_equal(string_at(&p, p.name_of[p.function_of[locations[1]]]), "serve.<locals>.f");
	assert_string_equal(string_at(&p, p.file_of[p.function_of[locations[1]]]), "/srv/api.py");
	assert_int_equal(p.line_of[locations[1]], 212);
	assert_string_equal(string_at(&p, p.path_of[p.mapping_of[locations[2]]]), "/usr/bin/python3");
	samples_clear(&l.s);
}

/* by time: the one at 1000 first */

static struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *v;

	assert_true(json_object_object_get_ex(o, key, &v));
	return v;
}

TEST(test_speedscope)
{
	struct json_object *doc, *frames, *profiles, *p;
	struct load l;
	FILE *f = tmpfile();
	char *text;

	build_trace();
	load(&l);
	assert_int_equal(speedscope_write(&l.s, "x\"y.pftrace", f), 0);
	text = read_back(f);
	fclose(f);
	doc = json_tokener_parse(text);
	assert_non_null(doc);
	assert_string_equal(json_object_get_string(get(doc, "name")), "x\"y.pftrace");
	frames = get(get(doc, "shared"), "frames");
	profiles = get(doc, "profiles");
	assert_int_equal(json_object_array_length(profiles), 4);
	for (size_t i = 0; i < json_object_array_length(profiles); i++) {
		struct json_object *samples, *weights;
		uint64_t sum = 0;

		p = json_object_array_get_idx(profiles, i);
		assert_string_equal(json_object_get_string(get(p, "type")), "sampled");
		assert_string_equal(json_object_get_string(get(p, "unit")), "nanoseconds");
		samples = get(p, "samples");
		weights = get(p, "weights");
		assert_int_equal(json_object_array_length(samples), json_object_array_length(weights));
		for (size_t k = 0; k < json_object_array_length(samples); k++) {
			struct json_object *stack = json_object_array_get_idx(samples, k);

			sum += (uint64_t)json_object_get_int64(json_object_array_get_idx(weights, k));
			for (size_t m = 0; m < json_object_array_length(stack); m++)
				assert_in_range(json_object_get_int(json_object_array_get_idx(stack, m)), 0,
					json_object_array_length(frames) - 1);
		}
		assert_int_equal(sum, json_object_get_int64(get(p, "endValue")));
	}
	/* in the order of time: the one at 1000 first */
	p = json_object_array_get_idx(get(json_object_array_get_idx(profiles, 0), "samples"), 0);
	p = json_object_array_get_idx(frames, (size_t)json_object_get_int(json_object_array_get_idx(p, 2)));
	assert_string_equal(json_object_get_string(get(p, "name")), "__schedule");
	json_object_put(doc);
	free(text);
	samples_clear(&l.s);
}

/* ---- profiles ---- */

#define LINE(shape, total, frames)                                                                                                    \
	"{\"event\":\"stack_prof\",\"commit_sha\":null,\"env_hash\":\"sha256:0\",\"model\":\"m\",\"concurrency\":1,\"shape\":{" shape \
	"},\"stage_us\":{\"total\":" total "}" frames ",\"graph_enabled\":false,\"runtime_flags\":{},\"source\":\"native\"}\n"
#define CPU_SHAPE "\"pid\":7,\"tid\":8,\"step\":5,\"phase\":\"decode\",\"state\":\"cpu\",\"kind\":\"sample\",\"samples\":"
#define WAIT_SHAPE "\"pid\":7,\"tid\":8,\"state\":\"blocked_io\",\"kind\":\"wait\",\"samples\":"

static const char profile_text[] =
	LINE(CPU_SHAPE "3,\"stack\":0", "30.000", ",\"frames\":[\"operator[] [libx.so]\",\"f (a) (b c.py:12)\",\"main [server]\"]")
		LINE(CPU_SHAPE "1,\"stack\":1", "10.000", ",\"frames\":[\"run(int) [jit]\",\"[unknown] [libx.so]\",\"[unknown]\",\"[cut]\"]")
			LINE(WAIT_SHAPE "2,\"stack\":9", "1500.001", ",\"frames\":[\"io_schedule [kernel]\",\"[\",\")\",\" (:)\"]")
				LINE(WAIT_SHAPE "1,\"stack\":0", "500.000", "")
					LINE(CPU_SHAPE "1", "10.000", "");

static void load_profile(struct load *l, const char *text, const struct samples_filter *filter)
{
	struct json_source source;

	memset(l, 0, sizeof(*l));
	assert_int_equal(json_source_open_mem(&source, text, strlen(text)), 0);
	l->err = samples_read_profile(&l->s, &source, filter, problem, l);
	json_source_close(&source);
}

static void assert_profile(const struct samples_filter *filter, bool off_cpu, const char *expected)
{
	struct load l;

	load_profile(&l, profile_text, filter);
	assert_int_equal(l.err, 0);
	assert_int_equal(l.problems, 0);
	assert_collapsed(&l.s, off_cpu, expected);
	samples_clear(&l.s);
}

TEST(test_profile)
{
	assert_profile(&(struct samples_filter){ .step = -1 }, false,
		"pid 7;main;f (a) (b c.py:12);operator[] 3\npid 7;[cut];[unknown];[libx.so];run(int) 1\npid 7;[no stack] 1\n");
	assert_profile(&(struct samples_filter){ .step = -1 }, true,
		"pid 7;[unknown];);[;io_schedule_[k] 1501\npid 7;main;f (a) (b c.py:12);operator[] 500\n");
	assert_profile(&(struct samples_filter){ .step = -1, .state = "blocked_io" }, false, "");
	assert_profile(&(struct samples_filter){ .step = 4 }, false, "");
	/* the frames are in a line of another phase */
	assert_profile(&(struct samples_filter){ .step = -1, .state = "blocked_io" }, true,
		"pid 7;[unknown];);[;io_schedule_[k] 1501\npid 7;main;f (a) (b c.py:12);operator[] 500\n");
}

TEST(test_profile_problems)
{
	struct load l;

	load_profile(&l, LINE(CPU_SHAPE "1,\"stack\":3", "1.000", ""), &(struct samples_filter){ .step = -1 });
	assert_string_equal(l.first, "the frames of its stack were in no line before");
	assert_int_equal(l.s.n[0], 1);
	samples_clear(&l.s);
	load_profile(&l, LINE(CPU_SHAPE "0", "1.000", "") "{}\n", &(struct samples_filter){ .step = -1 });
	assert_string_equal(l.first, "stack_prof without samples or total");
	assert_int_equal(l.problems, 2);
	samples_clear(&l.s);
}

/* ---- damaged and hostile files ---- */

/* A file cut anywhere is read up to its last whole packet. */
TEST(test_torn)
{
	uint64_t last = 0;
	struct load l;
	size_t len;

	build_trace();
	len = (size_t)(b.p - b.data);
	for (size_t n = 1; n <= len; n += cases(1, 13)) {
		load_bytes(&l, b.data, n, false);
		assert_int_equal(l.err, 0);
		assert_int_equal(l.problems, 0);
		assert_true(l.s.n[0] + l.s.n[1] >= last);
		last = l.s.n[0] + l.s.n[1];
		if (n == len)
			assert_false(l.torn);
		samples_clear(&l.s);
	}
	assert_int_equal(last, 7);
}

/* Whatever the bytes, reading ends and reports what was left out. */
TEST(test_random_damage)
{
	static char copy[BUILDER_BYTES];
	struct load l;
	size_t len;

	build_trace();
	len = (size_t)(b.p - b.data);
	srandom(1);
	for (unsigned int i = 0; i < cases(20000, 200); i++) {
		FILE *out = NULL;

		memcpy(copy, b.data, len);
		for (long n = random() % 8; n >= 0; n--)
			copy[(size_t)random() % len] = (char)random();
		load_bytes(&l, copy, len, true);
		if (l.err)
			assert_true(l.problems > 0);
		if (i % 64 == 0) {
			out = fopen("/dev/null", "w");
			collapsed_write(&l.s, false, out);
			speedscope_write(&l.s, "x", out);
			pprof_write(&l.s, out);
			fclose(out);
		}
		samples_clear(&l.s);
	}
}

static void expect_problem(const char *text, uint64_t offset)
{
	struct load l;

	load(&l);
	assert_true(l.problems > 0);
	assert_string_equal(l.first, text);
	assert_int_equal(l.first_offset, offset);
	samples_clear(&l.s);
}

TEST(test_problems)
{
	uint64_t many[5000], at;
	struct load l;

	builder_clear();
	add_sample(&b, SAMPLES, 1, 5, 5, 9, 0);
	expect_problem("a sample has a stack, and its sequence of packets has none", 0);

	builder_clear();
	add_defaults(&b, SAMPLES, PERIOD, NULL);
	add_stack(&b, SAMPLES, 1, (const uint64_t[]){ 77, 0 });
	at = (uint64_t)(b.p - b.data);
	add_sample(&b, SAMPLES, 1, 5, 5, 9, 0);
	expect_problem("a sample has stack 9, which is not there", at);
	add_sample(&b, SAMPLES, 1, 5, 5, 1, 0);
	load(&l);
	assert_int_equal(l.problems, 2);
	assert_int_equal(l.s.n[0], 2); /* both are counted, without a stack */
	samples_clear(&l.s);

	builder_clear();
	add_defaults(&b, SAMPLES, PERIOD, NULL);
	add_frame(&b, SAMPLES, 1, "f", "a");
	for (size_t i = 0; i < 4999; i++)
		many[i] = 1;
	many[4999] = 0;
	add_stack(&b, SAMPLES, 1, many);
	at = (uint64_t)(b.p - b.data);
	add_sample(&b, SAMPLES, 1, 5, 5, 1, 0);
	expect_problem("a sample has stack 1, which has too many frames", at);

	builder_clear();
	add_thread(&b, 1, 1, "x");
	at = (uint64_t)(b.p - b.data);
	b.p = fmt_str(b.p, "junk", 4);
	expect_problem("no packet begins here", at);
}

/* A packet of 96 MB is skipped; one of absurd length is not buffered while waiting for it. */
TEST(test_long_packet)
{
	static const char head[] = "\x0a\x80\x80\x80\x30"; /* 96 MB */
	static const char endless[] = "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f...";
	size_t size = (96 << 20) + 4096;
	char *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct load l;
	size_t len;

	assert_true(data != MAP_FAILED);
	memcpy(data, head, sizeof(head) - 1);
	build_trace();
	len = (size_t)(b.p - b.data);
	assert_true(len <= 4000);
	memcpy(data + sizeof(head) - 1 + (96 << 20), b.data, len);
	load_bytes(&l, data, sizeof(head) - 1 + (96 << 20) + len, false);
	assert_int_equal(l.problems, 1);
	assert_int_equal(l.first_offset, 0);
	assert_int_equal(l.s.n[0], 5);
	samples_clear(&l.s);
	load_bytes(&l, endless, sizeof(endless) - 1, false);
	assert_true(l.torn);
	samples_clear(&l.s);
	munmap(data, size);
}

RUN_TESTS(NULL, NULL)
