// SPDX-License-Identifier: BSD-2-Clause
/* The offset between the clocks of two hosts: offsets and drifts planted in made-up messages, 20 seeds each. */
#include "sinks.h"

#include <json-c/json.h>

#include "cases.h"
#include "link/host_clock.h"
#include "link/hosts.h"
#include "link/link.h"
#include "link/ranks.h"
#include "unit.h"
#include "util/clock.h"
#include "util/host_id.h"

#define SEEDS 20
#define BEGIN INT64_C(5000000000000)
#define SECOND INT64_C(1000000000)

static uint64_t chance;

static int64_t some(int64_t below)
{
	chance = chance * 6364136223846793005 + 1442695040888963407;
	return (int64_t)((unsigned __int128)chance * (uint64_t)below >> 64);
}

/* Two hosts that exchange messages. */
struct plan {
	int64_t offset_ns; /* theirs - ours at BEGIN */
	int64_t ppb;       /* how much faster theirs is */
	int64_t seconds;
	unsigned int messages;
	int64_t there_ns, back_ns; /* the least time that a message takes ... */
	int64_t more_ns;           /* ... and how much longer it may take, due to scheduling on the other side */
	unsigned int lost;         /* every lost-th message is not recorded; 0: none */
};

static int64_t planted(const struct plan *p, int64_t ours_ns)
{
	return p->offset_ns + (int64_t)((__int128)(ours_ns - BEGIN) * p->ppb / SECOND);
}

static int64_t theirs(const struct plan *p, int64_t ours_ns)
{
	return ours_ns + planted(p, ours_ns);
}

static void add_messages(struct host_messages *m, const struct plan *p, bool there, bool back)
{
	for (unsigned int i = 0; i < p->messages; i++) {
		int64_t at = BEGIN + some(p->seconds * SECOND), took = p->more_ns ? some(p->more_ns) : 0;
		bool from_us = i & 1;

		if (p->lost && !some(p->lost))
			continue;
		if (from_us && there)
			host_messages_add(m, true, at, theirs(p, at + p->there_ns + took), i);
		if (!from_us && back)
			host_messages_add(m, false, theirs(p, at), at + p->back_ns + took, i);
	}
}

/* The line satisfies every message, up to rounding. */
static void assert_allowed(const struct host_messages *m, const struct host_clock *c)
{
	for (size_t i = 0; i < m->low.n; i++)
		assert_true(host_clock_ahead(c, m->low.list[i].at_ns) >= m->low.list[i].ns - 2);
	for (size_t i = 0; i < m->high.n; i++)
		assert_true(host_clock_ahead(c, m->high.list[i].at_ns) <= m->high.list[i].ns + 2);
}

/* What was planted is always within the residual of what was found. Returns the residual. */
static int64_t find_planted(const struct plan *p)
{
	struct host_messages m = { 0 }, all = { 0 };
	int64_t to = BEGIN + p->seconds * SECOND;
	uint64_t seed = chance;
	struct host_clock c;

	add_messages(&m, p, true, true);
	chance = seed;
	add_messages(&all, p, true, true);
	assert_int_equal(host_clock_find(&m, BEGIN, to, &c), 0);
	assert_int_equal(c.known, HOST_BOTH);
	for (int i = 0; i <= 16; i++) {
		int64_t at = BEGIN + (to - BEGIN) / 16 * i, wrong = llabs(host_clock_ahead(&c, at) - planted(p, at));

		assert_true(wrong <= c.residual_ns);
	}
	assert_allowed(&all, &c);
	assert_true(c.low_ns[0] <= planted(p, BEGIN) && planted(p, BEGIN) <= c.high_ns[0]);
	assert_true(c.low_ns[1] <= planted(p, to) && planted(p, to) <= c.high_ns[1]);
	host_messages_clear(&m);
	host_messages_clear(&all);
	return c.residual_ns;
}

TEST(test_planted)
{
	static const struct plan plans[] = {
		{ 0, 0, 10, 2000, 30000, 30000, 2000000, 0 },
		{ 3000000, 0, 10, 2000, 30000, 30000, 2000000, 0 },
		{ -2 * SECOND, 0, 10, 2000, 30000, 30000, 2000000, 0 },
		{ 0, 50000, 10, 2000, 30000, 30000, 2000000, 0 },
		{ 3000000, -50000, 600, 2000, 30000, 30000, 2000000, 0 },
		{ -2 * SECOND, 50000, 86400, 20000, 30000, 30000, 2000000, 0 },
		/* other boots, and a path that is slower in one direction: the middle is off by half of that */
		{ 123456 * SECOND, 20000, 60, 2000, 20000, 900000, 500000, 0 },
		{ -123456 * SECOND, 20000, 60, 2000, 900000, 20000, 500000, 0 },
		/* many losses, and a zero delay */
		{ 3000000, 50000, 10, 4000, 30000, 30000, 2000000, 2 },
		{ 3000000, 50000, 10, 400, 0, 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		const struct plan *p = &plans[i];

		for (unsigned int seed = 0; seed < cases(SEEDS, 2); seed++) {
			int64_t residual;

			chance = seed * 1000 + i;
			residual = find_planted(p);
			/* no wider than the delays explain: among so many messages some are close to the least delay */
			assert_true(residual <= (p->there_ns + p->back_ns) / 2 + p->more_ns / 5 + 4);
		}
	}
}

/* A pair of messages does not tell the drift: uncertainty grows with the distance from it. */
TEST(test_few)
{
	struct host_messages m = { 0 };
	struct host_clock c;

	host_messages_add(&m, true, BEGIN, BEGIN + 3000100, 1);
	host_messages_add(&m, false, BEGIN + 2999900, BEGIN, 2);
	assert_int_equal(host_clock_find(&m, BEGIN, BEGIN, &c), 0);
	assert_int_equal(c.known, HOST_BOTH);
	assert_int_equal(c.ahead_ns[0], 3000000);
	assert_in_range(c.residual_ns, 101, 103);
	assert_int_equal(host_clock_ahead(&c, BEGIN + SECOND), 3000000);
	assert_int_equal(host_clock_find(&m, BEGIN - SECOND, BEGIN + SECOND, &c), 0);
	assert_in_range(c.residual_ns, 1000101, 1000103);
	assert_int_equal(c.low_message, 2);
	assert_int_equal(c.high_message, 1);
	host_messages_clear(&m);
}

TEST(test_one_way)
{
	static const struct plan plan = { 3000000, 0, 10, 500, 30000, 30000, 2000000, 0 };
	struct host_messages m = { 0 };
	struct host_clock c;

	assert_int_equal(host_clock_find(&m, BEGIN, BEGIN + SECOND, &c), 0);
	assert_int_equal(c.known, HOST_NOTHING);
	for (unsigned int seed = 0; seed < cases(SEEDS, 2); seed++) {
		chance = seed;
		add_messages(&m, &plan, true, false);
		assert_int_equal(host_clock_find(&m, BEGIN, BEGIN + 10 * SECOND, &c), 0);
		assert_int_equal(c.known, HOST_AT_MOST);
		assert_in_range(c.high_ns[0], 3030000, 3030000 + 200000);
		assert_int_equal(c.high_ns[0], c.high_ns[1]);
		host_messages_clear(&m);
		add_messages(&m, &plan, false, true);
		assert_int_equal(host_clock_find(&m, BEGIN, BEGIN + 10 * SECOND, &c), 0);
		assert_int_equal(c.known, HOST_AT_LEAST);
		assert_in_range(c.low_ns[0], 2970000 - 200000, 2970000);
		host_messages_clear(&m);
	}
}

/* One message was read 5 ms before all others allow it to have been sent. */
TEST(test_contradiction)
{
	static const struct plan plan = { 3000000, 50000, 10, 2000, 30000, 30000, 2000000, 0 };
	struct host_messages m = { 0 };
	struct host_clock c;

	for (unsigned int seed = 0; seed < cases(SEEDS, 2); seed++) {
		int64_t at = BEGIN + SECOND + (int64_t)seed * SECOND / 5;

		chance = seed;
		add_messages(&m, &plan, true, true);
		host_messages_add(&m, true, at, theirs(&plan, at) - 5000000, 77777);
		assert_int_equal(host_clock_find(&m, BEGIN, BEGIN + 10 * SECOND, &c), 0);
		assert_int_equal(c.known, HOST_CONTRADICTS);
		assert_int_equal(c.high_message, 77777);
		assert_true(c.low_message != 77777);
		/* a line of another rate would need less, but not much: it is bounded on both sides */
		assert_in_range(c.apart_ns, 4000000, 5000000);
		host_messages_clear(&m);
	}
	/* the same as a clock set meanwhile, which no drift explains */
	host_messages_add(&m, true, BEGIN, BEGIN + 10, 1);
	host_messages_add(&m, false, BEGIN, BEGIN + 10, 2);
	host_messages_add(&m, false, BEGIN + 2 * SECOND, BEGIN + SECOND, 3);
	assert_int_equal(host_clock_find(&m, BEGIN, BEGIN + SECOND, &c), 0);
	assert_int_equal(c.known, HOST_CONTRADICTS);
	assert_int_equal(c.low_message, 3);
	assert_int_equal(c.high_message, 1);
	assert_in_range(c.apart_ns, 998990000, 999010000);
	host_messages_clear(&m);
}

/* Times from damaged files: no overflow, and the result agrees with the messages of that instant. */
TEST(test_hostile)
{
	static const int64_t times[] = { INT64_MIN, -LINK_NS_MAX, 1 - LINK_NS_MAX, -1, 0, 1, BEGIN, LINK_NS_MAX - 1, LINK_NS_MAX, INT64_MAX };
	struct host_messages m = { 0 };
	struct host_clock c;

	assert_int_equal(host_clock_find(&m, 1, 0, &c), -EINVAL);
	assert_int_equal(host_clock_find(&m, 0, INT64_MAX, &c), -EINVAL);
	for (unsigned int i = 0; i < cases(4000, 200); i++) {
		int64_t low = INT64_MIN, high = INT64_MAX, at = 0;

		chance = i;
		for (int64_t n = some(6); n >= 0; n--) {
			int64_t sent = times[some(10)], received = times[some(10)];
			bool from_us = some(2), fits = link_time_fits(sent) && link_time_fits(received);

			host_messages_add(&m, from_us, sent, received, i);
			at = fits && from_us ? sent : at;
		}
		for (size_t k = 0; k < m.low.n; k++)
			low = m.low.list[k].at_ns == at && m.low.list[k].ns > low ? m.low.list[k].ns : low;
		for (size_t k = 0; k < m.high.n; k++)
			high = m.high.list[k].at_ns == at && m.high.list[k].ns < high ? m.high.list[k].ns : high;
		assert_int_equal(host_clock_find(&m, at, at, &c), 0);
		if (c.known == HOST_BOTH) {
			assert_true(low <= high);
			assert_true(c.low_ns[0] <= c.high_ns[0] && c.residual_ns >= 1);
		}
		assert_int_equal(host_clock_find(&m, 1 - LINK_NS_MAX, LINK_NS_MAX - 1, &c), 0);
		assert_true(c.known != HOST_NOTHING || !(m.low.n + m.high.n));
		host_messages_clear(&m);
	}
}

/* ---- the boot and host of a recording: read, written into each format, and read back ---- */

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
		/* the id alone would make the clock seem to be the one of others */
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

/* Both readers of traces find it, and times are in the machine's clock. */
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
