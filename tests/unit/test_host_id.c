// SPDX-License-Identifier: BSD-2-Clause
/* Which boot of which host a recording is of: read, written into each format, and read from there. */
#include "sinks.h"

#include <json-c/json.h>

#include "link/link.h"
#include "link/ranks.h"
#include "util/clock.h"
#include "util/host_id.h"

#define ID "0123abcd-4567-89ef-0123-456789abcdef"
#define SHIFT INT64_C(-7000000000)

TEST(test_own)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[64], name[HOST_NAME_LEN + 1] = "";
	struct host_id h;

	host_id_read(&h);
	if (!f || !fgets(text, sizeof(text), f))
		skip();
	fclose(f);
	text[strcspn(text, "\n")] = 0;
	assert_string_equal(h.boot_id, text);
	assert_int_equal(gethostname(name, HOST_NAME_LEN), 0);
	assert_string_equal(h.name, name);
	assert_int_equal(h.shift_ns, clock_shift_read().boot_ns);
}

TEST(test_parse)
{
	static const struct {
		const char *boot_id, *shift;
		bool known;
		int64_t shift_ns;
	} table[] = {
		{ ID, NULL, true, 0 },
		{ ID, "0", true, 0 },
		{ ID, "-7000000000", true, SHIFT },
		{ "0123ABCD-4567-89ef-0123-456789abcdef", NULL, true, 0 },
		{ NULL, "5", false, 0 },
		{ "", NULL, false, 0 },
		{ ID "0", NULL, false, 0 },
		{ "0123abcd-4567-89ef-0123-456789abcde", NULL, false, 0 },
		{ "0123abcd-4567-89ef-0123-456789abcdeg", NULL, false, 0 },
		{ "0123abcd04567-89ef-0123-456789abcdef", NULL, false, 0 },
		/* the id alone would say that the clock is that of others */
		{ ID, "", false, 0 },
		{ ID, "-", false, 0 },
		{ ID, " 5", false, 0 },
		{ ID, "5s", false, 0 },
		{ ID, "9223372036854775807", false, 0 },
		{ ID, "-9223372036854775808", false, 0 },
		{ ID, "99999999999999999999", false, 0 },
	};
	static char name[200];
	struct host_id h;

	memset(name, 'n', sizeof(name) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		host_id_parse(&h, table[i].boot_id, i % 2 ? name : NULL, table[i].shift);
		if (!h.boot_id[0] == table[i].known)
			fail_msg("case %zu: \"%s\"", i, h.boot_id);
		assert_int_equal(h.shift_ns, table[i].shift_ns);
		assert_int_equal(strlen(h.name), table[i].known && i % 2 ? HOST_NAME_LEN : 0);
	}
}

/* ---- what the sinks write ---- */

static const struct host_id whole = { .boot_id = ID, .name = "no\"de\n\x1b[2J", .shift_ns = SHIFT };

static void assert_same(const struct host_id *a, const struct host_id *b)
{
	assert_string_equal(a->boot_id, b->boot_id);
	assert_string_equal(a->name, b->name);
	assert_int_equal(a->shift_ns, b->shift_ns);
}

static void write_trace(struct out *o, bool chrome, const struct host_id *host)
{
	rec.host = host;
	if (chrome)
		chrome_open(o);
	else
		out_open(o, WRITER_PACKETS, perfetto_sink_new);
	assert_int_equal(o->s->ops->close(o->s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 }), 0);
	rec.host = NULL;
}

/* Both readers of traces find it, and times are by the clock of the machine. */
static void check_reads(bool chrome, const struct host_id *host, const struct host_id *expected)
{
	char path[64], why[LINK_WHY_MAX];
	struct json_source source;
	struct collectives c;
	struct link_file f;
	struct out o;

	write_trace(&o, chrome, host);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", o.fd);
	assert_int_equal(link_file_read(&f, path, NULL, false, why), 0);
	assert_same(&f.id, expected);
	assert_int_equal(f.first_ns, (int64_t)START - expected->shift_ns);
	assert_int_equal(link_file_real(&f, f.first_ns), rec.start_real_ns);
	link_file_clear(&f);
	assert_int_equal(json_source_open(&source, path), 0);
	assert_int_equal(collectives_read(&source, &c, why), 0);
	assert_string_equal(c.id.boot_id, expected->boot_id);
	assert_int_equal(c.boot_ns, (int64_t)START - expected->shift_ns);
	collectives_clear(&c);
	json_source_close(&source);
	close(o.fd);
}

TEST_WITH(test_traces, setup, teardown)
{
	const struct host_id none = { 0 }, unknown = { .name = "node" }, plain_one = { .boot_id = ID };

	for (int chrome = 0; chrome < 2; chrome++) {
		check_reads(chrome, &whole, &whole);
		check_reads(chrome, &plain_one, &plain_one);
		check_reads(chrome, &unknown, &none);
		check_reads(chrome, NULL, &none);
	}
}

TEST_WITH(test_profile, setup, teardown)
{
	struct json_object *line, *shape;
	struct out o;

	rec.host = &whole;
	profile_open(&o, &plain);
	assert_int_equal(o.s->ops->close(o.s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 }), 0);
	rec.host = NULL;
	read_text(&o);
	line = json_tokener_parse(o.text);
	assert_true(json_object_object_get_ex(line, "shape", &shape));
	assert_string_equal(json_object_get_string(json_object_object_get(shape, "boot_id")), ID);
	assert_string_equal(json_object_get_string(json_object_object_get(shape, "hostname")), whole.name);
	assert_string_equal(json_object_get_string(json_object_object_get(shape, "boottime_shift_ns")), "-7000000000");
	json_object_put(line);
	profile_done(&o);
}

RUN_TESTS(NULL, NULL)
