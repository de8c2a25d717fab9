// SPDX-License-Identifier: BSD-2-Clause
/* NCCL calls: the sinks' output is read back, equally from both formats. */
#include "sinks.h"

#include "link/ranks.h"

#define CALLS 40
#define COMM UINT64_C(0x7f0012345678)
#define ID UINT64_C(0xf123456789abcdef)

static char *type_names[] = { "float16", "float32", NULL };
static uint8_t type_bytes[] = { 2, 4 };
static const struct enum_table types = { .name = "dtype", .names = type_names, .n = 2, .bytes = type_bytes };

static struct probe_spec *add_function(const char *symbol, const char *const args[][2])
{
	struct probe_spec *s = spec_append(&probes, NULL, symbol);
	const char *why;

	assert_non_null(s);
	s->role = ROLE_TRANSFER;
	s->flags = PROBE_F_SPAN;
	for (; (*args)[0]; args++)
		assert_int_equal(spec_add_arg(s, (*args)[0], (*args)[1], &types, 1, &why), 0);
	return s;
}

static int add_functions(void **state)
{
	static const char *const reduce[][2] = { { "count", "u64 arg3" }, { "type", "dtype arg4" }, { "comm", "ptr arg6" }, { NULL, NULL } };
	static const char *const init[][2] = {
		{ "ranks", "s32 arg2" }, { "rank", "s32 arg3" }, { "id", "ptr *(sp+8)" }, { "comm", "ptr *(arg1) at return" }, { NULL, NULL }
	};
	struct probe_spec *s;

	if (setup(state))
		return -1;
	s = add_function("ncclAllReduce", reduce);
	s->bytes_count = 1;
	s->bytes_type = 1;
	add_function("ncclCommInitRank", init);
	add_function("ncclGroupStart", reduce + 3);
	add_function("ncclBcast", reduce);
	add_function("ncclBroadcast", reduce);
	return 0;
}

static struct rec_function function(uint16_t id, uint64_t start, uint64_t dur, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct rec_function r = { .h = hdr(REC_FUNCTION, 0), .vals = { a, b, c, d } };

	r.h.id = id;
	r.h.start_ns = START + start;
	r.h.dur_ns = dur;
	return r;
}

/* In order of end, as they are recorded. */
static void emit(struct out *o, struct rec_function r)
{
	EMIT(o, &r);
}

static struct collectives written(bool chrome)
{
	struct loss l = { .from_ns = START + 500000, .to_ns = START + 600000 };
	char why[COLLECTIVES_WHY_MAX], path[64];
	struct json_source source;
	struct collectives c;
	struct out o;

	if (chrome)
		chrome_open(&o);
	else
		out_open(&o, WRITER_PACKETS, perfetto_sink_new);
	emit(&o, function(1, 1000, 500, 4, 3, ID, COMM));
	for (unsigned int i = 0; i < CALLS; i++) {
		if (i == CALLS / 2) {
			l.count[REC_FUNCTION] = 3;
			sink_loss(o.s, &l);
		}
		emit(&o, function(2, 10000 * (i + 1) - 100, 50, 0, 0, 0, 0));
		emit(&o, function(0, 10000 * (i + 1) + (i >= CALLS / 2 ? 400000 : 0), 700, 64 + i, i % 2, COMM, 0));
	}
	/* a collective that calls another one counts once */
	emit(&o, function(4, 900100, 100, 8, 0, COMM, 0));
	emit(&o, function(3, 900000, 300, 8, 0, COMM, 0));
	/* without a communicator */
	emit(&o, function(0, 950000, 300, 8, 0, 0, 0));
	assert_int_equal(o.s->ops->close(o.s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000000 }), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", o.fd);
	assert_int_equal(json_source_open(&source, path), 0);
	assert_int_equal(collectives_read(&source, &c, why), 0);
	json_source_close(&source);
	close(o.fd);
	return c;
}

TEST(test_written)
{
	for (int chrome = 0; chrome < 2; chrome++) {
		struct collectives c = written(chrome);

		assert_int_equal(c.n_calls, CALLS + 1);
		for (unsigned int i = 0; i < CALLS; i++) {
			const struct collective_call *call = &c.calls[i];

			assert_string_equal(collective_name(call->function), "ncclAllReduce");
			assert_int_equal(call->from_ns, START + 10000 * (i + 1) + (i >= CALLS / 2 ? 400000 : 0));
			assert_int_equal(call->to_ns - call->from_ns, 700);
			assert_int_equal(call->comm, COMM);
			assert_int_equal(call->bytes, (64 + i) * (i % 2 ? 4 : 2));
			assert_int_equal(call->pid, PID);
		}
		assert_string_equal(collective_name(c.calls[CALLS].function), "ncclBcast");
		assert_int_equal(c.n_made, 1);
		assert_int_equal(c.made[0].id, ID);
		assert_int_equal(c.made[0].comm, COMM);
		assert_int_equal(c.made[0].ranks, 4);
		assert_int_equal(c.made[0].rank, 3);
		assert_int_equal(c.made[0].ns, START + 1500);
		assert_int_equal(c.n_losses, 1);
		assert_int_equal(c.losses[0].from_ns, START + 500000);
		assert_int_equal(c.losses[0].to_ns, START + 600000);
		assert_true(c.has_clock);
		assert_int_equal(c.boot_ns, START);
		collectives_clear(&c);
	}
}

/* Calls of one size have equal keys in both formats, others have not. */
TEST(test_keys)
{
	struct collectives a = written(false), b = written(true);

	for (unsigned int i = 0; i < CALLS; i++) {
		assert_int_equal(a.calls[i].key, b.calls[i].key);
		for (unsigned int k = 0; k < i; k++)
			assert_int_not_equal(a.calls[i].key, a.calls[k].key);
	}
	collectives_clear(&a);
	collectives_clear(&b);
}

RUN_TESTS(add_functions, teardown)
