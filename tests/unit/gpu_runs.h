/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent must do alike for both vendors: test_gpu_agent.c and test_gpu_rocm.c check it with their programs. */
#ifndef INFTRACE_TESTS_GPU_RUNS_H
#define INFTRACE_TESTS_GPU_RUNS_H

#include "gpu_truth.h"

/* The program does something with the GPU, and waits for it. */
static inline void peer_run(struct peer *p, const char *line)
{
	peer_do(p, line);
	peer_do(p, "sync");
}

/* Turns collecting off: all that has run so far is there then. AMD's library has no flush that says so, and a busy machine may take long. */
static inline void settle(struct peer *p, uint64_t records)
{
	if (p->ring->writer.vendor == GPU_VENDOR_AMD)
		PEER_WAIT(__atomic_load_n(&p->ring->writer.records, __ATOMIC_ACQUIRE) >= records);
	peer_want(p, 0);
}

static inline void check_many(uint32_t capacity, uint32_t vendor, const char *environment, size_t many, size_t piece)
{
	struct truth t = { 0 };
	struct peer p;
	char line[64];
	size_t seen = 0;

	begin(&p, capacity, LAUNCHES, environment);
	assert_int_equal(peer_state(&p), GPU_STATE_ON);
	assert_int_equal(p.ring->writer.vendor, vendor);
	peer_do(&p, "kernel-ns 100");
	snprintf(line, sizeof(line), "launch %zu", piece);
	for (size_t count = 0; count < many; count += piece) {
		peer_run(&p, line);
		settle(&p, count + piece);
		truth_read(&p, &t);
		seen += take_all(&p, &t);
		peer_want(&p, LAUNCHES);
	}
	assert_int_equal(seen, many);
	assert_int_equal(p.ring->writer.records, many);
	assert_int_equal(p.ring->writer.dropped_ring + p.ring->writer.dropped_cupti + p.ring->writer.dropped_clock, 0);
	print_message("# agent: %zu kernels, %.0f ns of CPU time for each; clocks: %.2f us, of which %.2f us drift\n", many,
		(double)p.ring->writer.own_ns / (double)many, (double)tolerance(&p) / 1e3, (double)p.ring->clock.bend_ns / 1e3);
	free(t.list);
	peer_end(&p);
}

/* A version of the vendor's library, by its number; `work` ends with NULL, and makes so many records. */
static inline void check_version(const char *environment, uint32_t number, const char *const *work, size_t records)
{
	struct truth t = { 0 };
	struct peer p;

	print_message("# %s\n", environment);
	begin(&p, 1u << 14, LAUNCHES, environment);
	assert_int_equal(p.ring->writer.version, number);
	for (; *work; work++)
		peer_do(&p, *work);
	settle(&p, records);
	assert_int_equal(peer_state(&p), GPU_STATE_OFF);
	truth_read(&p, &t);
	assert_int_equal(t.count, records);
	assert_int_equal(take_all(&p, &t), records);
	free(t.list);
	peer_end(&p);
}

/* What was launched while it was on is there, and nothing else; also where contexts go and names change, if the program can do that. */
static inline void check_windows(uint32_t wanted)
{
	struct truth t = { 0 };
	struct peer p;

	begin(&p, 1u << 12, 0, "MOCK_SHUFFLE=1");
	assert_int_equal(peer_state(&p), GPU_STATE_OFF);
	peer_do(&p, "kernel-ns 300");
	for (int i = 0; i < 50; i++) {
		peer_do(&p, "launch 20");
		peer_want(&p, i % 2 ? GPU_WANT_KERNELS : wanted);
		assert_int_equal(p.ring->writer.collected, i % 2 ? GPU_WANT_KERNELS : LAUNCHES);
		truth_read(&p, &t);
		peer_do(&p, "launch 100");
		if (i % 7 == 0)
			peer_do(&p, "context");
		peer_do(&p, "sync");
		settle(&p, 100 * (uint64_t)(i + 1));
		truth_read(&p, &t);
		assert_int_equal(take_all(&p, &t), 100);
		assert_int_equal(p.ring->writer.buffers_open, 0);
		if (i == 25)
			peer_do(&p, "rename");
	}
	free(t.list);
	peer_end(&p);
}

/* What the vendor's library lost, of which it tells so many at least; what has no times; and what the ring had no room for is counted. */
static inline void check_lost(uint64_t told)
{
	struct truth t = { 0 };
	struct peer p;
	size_t taken;

	begin(&p, 1u << 13, LAUNCHES, "MOCK_DROP_EVERY=10");
	peer_run(&p, "launch 5000");
	settle(&p, 4500);
	truth_read(&p, &t);
	taken = take_all(&p, &t);
	assert_int_equal(taken, 4500);
	assert_in_range(p.ring->writer.dropped_cupti, told, 500);
	assert_int_equal(p.marked_cupti, p.ring->writer.dropped_cupti);
	peer_end(&p);

	t.at = 0;
	begin(&p, 1u << 13, LAUNCHES, "MOCK_ZERO_EVERY=4");
	peer_run(&p, "launch 1000");
	/* of what comes when it is forced at the end, what has no times was not done */
	PEER_WAIT(__atomic_load_n(&p.ring->writer.records, __ATOMIC_ACQUIRE) >= 1000);
	settle(&p, 1000);
	truth_read(&p, &t);
	assert_int_equal(take_all(&p, &t), 750);
	assert_int_equal(p.ring->writer.records, 1000);
	assert_int_equal(p.ring->writer.dropped_clock, 250);
	peer_end(&p);

	/* a ring that is too small, even for the names at first */
	t.at = 0;
	begin(&p, 8, LAUNCHES, "");
	for (int i = 0; i < 20; i++) {
		uint64_t dropped = p.ring->writer.dropped_ring;

		peer_run(&p, "launch 200");
		settle(&p, 200 * (uint64_t)(i + 1));
		truth_read(&p, &t);
		taken = take_all(&p, &t);
		assert_int_equal(taken + p.ring->writer.dropped_ring - dropped, 200);
		peer_want(&p, LAUNCHES);
	}
	peer_want(&p, 0);
	take_all(&p, &t);
	assert_int_equal(p.marked_ring, p.ring->writer.dropped_ring);
	peer_end(&p);
	free(t.list);
}

/* It leaves, says why, and the program goes on. */
static inline void check_refused(const char *environment, uint32_t state, int32_t error, uint32_t call)
{
	struct gpu_record r;
	struct peer p;

	print_message("# %s\n", environment);
	begin(&p, 64, LAUNCHES, environment);
	assert_int_equal(peer_state(&p), state);
	assert_int_equal(p.ring->writer.error, error);
	assert_int_equal(p.ring->writer.failed_call, call);
	peer_run(&p, "launch 100");
	peer_want(&p, 0);
	assert_int_equal(peer_state(&p), state);
	assert_false(peer_take(&p, &r));
	peer_end(&p);
}

/* The reader goes away while there is something to do. */
static inline void check_reader_goes(struct peer *p)
{
	struct gpu_record r;

	close(p->connection);
	p->connection = -1;
	PEER_WAIT(peer_state(p) == GPU_STATE_GONE);
	while (peer_take(p, &r))
		;
	peer_run(p, "launch 1000");
	assert_false(peer_take(p, &r));
	peer_end(p);
}

/* A reader that wants no agent, and one that is not there. */
static inline void check_no_reader(void)
{
	struct peer p;

	peer_listen(&p, 64);
	peer_start(&p, true, "");
	peer_tell(&p, "launch 10");
	peer_accept(&p);
	peer_send_welcome(&p, -EBUSY, -1);
	peer_done(&p);
	peer_end(&p);

	peer_listen(&p, 64);
	close(p.listener);
	peer_start(&p, true, "");
	peer_do(&p, "launch 10");
	peer_end(&p);
}

#define PEER_WAIT_HUNG_UP(p) PEER_WAIT(poll(&(struct pollfd){ .fd = (p)->connection, .events = POLLRDHUP }, 1, 0) == 1)

/* So many records, and no more. */
static inline void take_records(struct peer *p, int n)
{
	struct gpu_record r;

	for (int i = 0; i < n; i++)
		assert_true(peer_take(p, &r));
	assert_false(peer_take(p, &r));
}

/* A program that has begun does what programs do. */
static inline void check_program(struct peer *p)
{
	struct truth t = { 0 };

	/* another program in the same process: a new agent, which gets a ring of its own */
	peer_tell(p, "exec");
	PEER_WAIT_HUNG_UP(p);
	peer_drop_ring(p);
	peer_tell(p, "launch 70"); /* what it had read before is gone with it */
	peer_serve(p, LAUNCHES);
	peer_done(p);
	peer_do(p, "sync");
	settle(p, 70);
	take_records(p, 70);

	/* it closes what it does not know */
	peer_want(p, LAUNCHES);
	peer_do(p, "close-all");
	PEER_WAIT(peer_state(p) == GPU_STATE_GONE);
	peer_do(p, "launch 10");
	peer_end(p);

	/* it ends: what has run until then is there */
	begin(p, 1u << 12, LAUNCHES, "");
	p->ring->reader.flush_ms = 1000000;
	peer_run(p, "launch 100");
	truth_read(p, &t);
	peer_tell(p, "exit");
	PEER_WAIT_HUNG_UP(p);
	assert_int_equal(take_all(p, &t), 100);
	assert_int_equal(peer_state(p), GPU_STATE_GONE);
	peer_end(p);

	/* it ends while the GPU works */
	begin(p, 1u << 12, LAUNCHES, "");
	peer_do(p, "kernel-ns 100000000000");
	peer_do(p, "launch 100");
	peer_tell(p, "exit");
	peer_end(p);
	free(t.list);
}

#endif
