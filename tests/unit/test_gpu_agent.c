// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent for processes that use a GPU, in programs on mock GPUs (tests/gpu/mock.h, mock_rocm.h): what it writes into the
 * ring is compared with what the mock did. What must be alike for all vendors is checked with each (struct vendor).
 */
#include "../gpu/mock.h"
#include "gpu_peer.h"
#include "util/clock.h"

#ifdef __SANITIZE_ADDRESS__
#define MANY 100000
#define MANY_OF_AMD 50000
#else
#define MANY 1000000
#define MANY_OF_AMD 200000
#endif

struct vendor {
	const char *program;
	enum gpu_vendor id;
	struct {
		uint32_t capacity;
		const char *environment;
		size_t kernels, piece;
	} many;
	const char *work[9]; /* for each version, */
	size_t records;      /* which makes this many records */
	struct {
		const char *environment;
		uint32_t number;
	} versions[6];
	uint32_t wanted; /* the kernels and copies that are collected */
	uint64_t told;   /* of 500 that the library lost, at least this many are reported */
	struct {
		const char *environment;
		enum gpu_state state;
		int32_t error;
		enum gpu_call call;
	} refused[3];
	const char *fork;
};

static const struct vendor nvidia = {
	.program = "mock_driver",
	.id = GPU_VENDOR_NVIDIA,
	.many = { 1u << 18, "MOCK_CUPTI=13.4 MOCK_CLOCK_OFFSET_NS=1700000000000000000 MOCK_CLOCK_DRIFT_PPM=50", MANY, 100000 },
	.work = { "kernel-ns 300", "launch 3000", "copies 40", "launch 3000", "names 300", "sync" },
	.records = 6340,
	.versions = {
		{ "MOCK_CUPTI=12.0", 19 },
		{ "MOCK_CUPTI=12.8 MOCK_SHUFFLE=1", 26 },
		{ "MOCK_CUPTI=13.0 MOCK_CLOCK_DRIFT_PPM=-200", 130000 },
		{ "MOCK_CUPTI=13.1 MOCK_CLOCK_OFFSET_NS=-70000000000", 130100 },
		{ "MOCK_CUPTI=13.3 MOCK_COMPLETE_MS=5", 130300 },
		{ "MOCK_CUPTI=13.4 MOCK_SHUFFLE=1 MOCK_CLOCK_DRIFT_PPM=200", 130400 },
	},
	.wanted = GPU_WANT_KERNELS | GPU_WANT_COPIES,
	.told = 500,
	.refused = {
		{ "MOCK_ERROR39=1", GPU_STATE_OTHER_USER, 39, GPU_CALL_ENABLE },
		{ "MOCK_FAIL_ENABLE=35", GPU_STATE_FAILED, 35, GPU_CALL_ENABLE },
		{ "INFTRACE_CUPTI=/nonexistent", GPU_STATE_NO_CUPTI, -ENOENT, GPU_CALL_NONE },
	},
	.fork = "fork launch 50",
};

static const struct vendor amd = {
	.program = "mock_hip_driver",
	.id = GPU_VENDOR_AMD,
	.many = { 1u << 16, "MOCK_CLOCK_OFFSET_NS=1700000000000000000 MOCK_CLOCK_DRIFT_PPM=50", MANY_OF_AMD, 25000 },
	/* the CPU makes one in five copies */
	.work = { "kernel-ns 300", "launch 1500", "copies 50", "threads 4 500", "names 300", "graph 4", "sync" },
	.records = 1500 + 40 + 2000 + 300 + 20,
	.versions = {
		{ "MOCK_ROCPROFILER=0.5", 500 },
		{ "MOCK_ROCPROFILER=0.5 MOCK_SHUFFLE=1 MOCK_CLOCK_OFFSET_NS=-70000000000", 500 },
		{ "MOCK_ROCPROFILER=1.1 MOCK_CLOCK_DRIFT_PPM=-200", 10100 },
		{ "MOCK_ROCPROFILER=1.3 MOCK_SHUFFLE=1", 10300 },
		{ "MOCK_ROCPROFILER=1.3 MOCK_COMPLETE_MS=5", 10300 },
	},
	.wanted = GPU_WANT_ALL,
	.told = 499, /* the count comes with the records: losses after the last record are not known yet */
	.refused = {
		{ "MOCK_FAIL_START=12", GPU_STATE_FAILED, 12, GPU_CALL_ENABLE },
		{ "MOCK_FAIL_CONFIGURE=39", GPU_STATE_FAILED, 39, GPU_CALL_REGISTER },
	},
	.fork = "fork sleep 1",
};

/* Of the test that runs. */
static struct peer p;

#define LAUNCHES (GPU_WANT_KERNELS | GPU_WANT_COPIES)

/* The truth about launches so far, from an offset in its file on; by correlation id. */
struct truth {
	struct mock_work *list;
	size_t count;
	off_t at;
};

static void truth_read(struct truth *t)
{
	off_t size;
	size_t bytes;

	peer_do(&p, "truth");
	size = lseek(p.truth_fd, 0, SEEK_END);
	bytes = (size_t)(size - t->at);
	free(t->list);
	t->list = malloc(bytes + 1);
	t->count = bytes / sizeof(*t->list);
	assert_int_equal(pread(p.truth_fd, t->list, bytes, t->at), bytes);
	t->at = size;
	/* it may be much */
	fallocate(p.truth_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size);
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* How far a time may be off, according to the agent's own clock error. */
static uint64_t tolerance(void)
{
	return 2 * p.ring->clock.residual_ns + p.ring->clock.bend_ns + 2;
}

static void compare(const struct gpu_record *r, const struct mock_work *w)
{
	static const uint16_t kinds[] = { GPU_RECORD_KERNEL, GPU_RECORD_COPY, GPU_RECORD_SET, GPU_RECORD_GRAPH };
	const char *name;

	assert_int_equal(r->kind, kinds[w->kind]);
	assert_int_equal(r->flags, 0);
	assert_int_equal(r->correlation, w->correlation);
	assert_int_equal(r->stream, w->stream);
	assert_int_equal(r->context, w->context);
	assert_int_equal(r->device, w->device);
	assert_in_range(apart(r->start, w->start), 0, tolerance());
	assert_in_range(apart(r->end, w->end), 0, tolerance());
	if (r->kind == GPU_RECORD_KERNEL) {
		assert_memory_equal(r->kernel.grid, w->grid, sizeof(w->grid));
		assert_memory_equal(r->kernel.block, w->block, sizeof(w->block));
		assert_int_equal(r->kernel.shared_static + r->kernel.shared_dynamic, w->shared);
		assert_int_equal(r->kernel.registers, p.ring->writer.vendor == GPU_VENDOR_AMD ? 48 : 40); /* of the mocks */
		assert_int_equal(r->kernel.graph, w->graph);
		assert_int_equal(r->kernel.graph_node, w->graph_node);
		assert_in_range(r->kernel.name, 1, PEER_NAMES_MAX - 1);
		name = p.names[r->kernel.name];
		assert_true(mock_hash(name, strlen(name)) == (uint64_t)(uintptr_t)w->name);
	} else if (r->kind == GPU_RECORD_GRAPH) {
		assert_int_equal(r->graph.graph, w->graph);
	} else {
		assert_int_equal(r->copy.bytes, w->bytes);
		assert_int_equal(r->copy.kind, w->copy_kind);
	}
}

/* Takes all records, and compares each with its part of the truth; returns how many. Without graphs a correlation id is one
 * piece of work. */
static size_t take_all(const struct truth *t)
{
	struct gpu_record *taken = malloc((p.capacity + 1) * sizeof(*taken));
	uint8_t *seen = calloc(t->count + 1, 1);
	size_t count = 0;

	while (peer_take(&p, &taken[count]))
		count++;
	for (size_t i = 0; i < count; i++) {
		uint32_t at = taken[i].correlation - t->list[0].correlation;

		assert_in_range(at, 0, t->count - 1);
		assert_int_equal(seen[at]++, 0);
		compare(&taken[i], &t->list[at]);
	}
	free(seen);
	free(taken);
	assert_int_equal(p.bad, 0);
	return count;
}

static size_t read_and_take(struct truth *t)
{
	truth_read(t);
	return take_all(t);
}

/* Starts a program with the agent, which collects. */
static void begin(uint32_t capacity, uint32_t wanted, const char *environment)
{
	peer_listen(&p, capacity);
	peer_start(&p, true, environment);
	peer_tell(&p, "init");
	peer_serve(&p, wanted);
	peer_done(&p);
}

/* The program does something with the GPU, and waits for it. */
static void peer_run(const char *line)
{
	peer_do(&p, line);
	peer_do(&p, "sync");
}

/* Turns collecting off, so that all work so far is recorded. AMD's library has no flush to confirm that, and a busy machine
 * may take long. */
static void settle(uint64_t records)
{
	if (p.ring->writer.vendor == GPU_VENDOR_AMD)
		PEER_WAIT(__atomic_load_n(&p.ring->writer.records, __ATOMIC_ACQUIRE) >= records);
	peer_want(&p, 0);
}

/* How many records there are. */
static size_t take_rest(void)
{
	struct gpu_record r;
	size_t n = 0;

	while (peer_take(&p, &r))
		n++;
	return n;
}

/* Takes exactly n records. */
static void take_records(size_t n)
{
	assert_int_equal(take_rest(), n);
}

/* ---- of each vendor ---- */

static void test_many(void **state)
{
	const struct vendor *v = *state;
	struct truth t = { 0 };
	char line[64];
	size_t seen = 0;

	begin(v->many.capacity, LAUNCHES, v->many.environment);
	assert_int_equal(peer_state(&p), GPU_STATE_ON);
	assert_int_equal(p.ring->writer.vendor, v->id);
	peer_do(&p, "kernel-ns 100");
	snprintf(line, sizeof(line), "launch %zu", v->many.piece);
	for (size_t count = 0; count < v->many.kernels; count += v->many.piece) {
		peer_run(line);
		settle(count + v->many.piece);
		seen += read_and_take(&t);
		peer_want(&p, LAUNCHES);
	}
	assert_int_equal(seen, v->many.kernels);
	assert_int_equal(p.ring->writer.records, v->many.kernels);
	assert_int_equal(p.ring->writer.dropped_ring + p.ring->writer.dropped_cupti + p.ring->writer.dropped_clock, 0);
	print_message("# agent: %zu kernels, %.0f ns of CPU time for each; clocks: %.2f us, of which %.2f us drift\n", v->many.kernels,
		(double)p.ring->writer.own_ns / (double)v->many.kernels, (double)tolerance() / 1e3, (double)p.ring->clock.bend_ns / 1e3);
	free(t.list);
	peer_end(&p);
}

/* Each version has records of other sizes, or another layout. */
static void test_versions(void **state)
{
	const struct vendor *v = *state;
	struct truth t = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(v->versions) && v->versions[i].environment; i++) {
		print_message("# %s\n", v->versions[i].environment);
		t.at = 0;
		begin(1u << 14, LAUNCHES, v->versions[i].environment);
		assert_int_equal(p.ring->writer.version, v->versions[i].number);
		for (const char *const *work = v->work; *work; work++)
			peer_do(&p, *work);
		settle(v->records);
		assert_int_equal(peer_state(&p), GPU_STATE_OFF);
		truth_read(&t);
		assert_int_equal(t.count, v->records);
		assert_int_equal(take_all(&t), v->records);
		peer_end(&p);
	}
	free(t.list);
}

/* Exactly what was launched while collecting was on is there, also when contexts go and names change, if the program can do that. */
static void test_windows(void **state)
{
	const struct vendor *v = *state;
	struct truth t = { 0 };

	begin(1u << 12, 0, "MOCK_SHUFFLE=1");
	assert_int_equal(peer_state(&p), GPU_STATE_OFF);
	peer_do(&p, "kernel-ns 300");
	for (int i = 0; i < 50; i++) {
		peer_do(&p, "launch 20");
		peer_want(&p, i % 2 ? GPU_WANT_KERNELS : v->wanted);
		assert_int_equal(p.ring->writer.collected, i % 2 ? GPU_WANT_KERNELS : LAUNCHES);
		truth_read(&t);
		peer_do(&p, "launch 100");
		if (i % 7 == 0)
			peer_do(&p, "context");
		peer_do(&p, "sync");
		settle(100 * (uint64_t)(i + 1));
		assert_int_equal(read_and_take(&t), 100);
		assert_int_equal(p.ring->writer.buffers_open, 0);
		if (i == 25)
			peer_do(&p, "rename");
	}
	free(t.list);
	peer_end(&p);
}

/* Records that the vendor's library lost, that have no times, or that the ring had no room for are counted. */
static void test_lost(void **state)
{
	const struct vendor *v = *state;
	struct truth t = { 0 };
	size_t taken;

	begin(1u << 13, LAUNCHES, "MOCK_DROP_EVERY=10");
	peer_run("launch 5000");
	settle(4500);
	assert_int_equal(read_and_take(&t), 4500);
	assert_in_range(p.ring->writer.dropped_cupti, v->told, 500);
	assert_int_equal(p.marked_cupti, p.ring->writer.dropped_cupti);
	peer_end(&p);

	t.at = 0;
	begin(1u << 13, LAUNCHES, "MOCK_ZERO_EVERY=4");
	peer_run("launch 1000");
	/* of the records that a forced flush yields, those without times were not done */
	PEER_WAIT(__atomic_load_n(&p.ring->writer.records, __ATOMIC_ACQUIRE) >= 1000);
	settle(1000);
	assert_int_equal(read_and_take(&t), 750);
	assert_int_equal(p.ring->writer.records, 1000);
	assert_int_equal(p.ring->writer.dropped_clock, 250);
	peer_end(&p);

	/* a ring that is too small even for the first names */
	t.at = 0;
	begin(8, LAUNCHES, "");
	for (int i = 0; i < 20; i++) {
		uint64_t dropped = p.ring->writer.dropped_ring;

		peer_run("launch 200");
		settle(200 * (uint64_t)(i + 1));
		taken = read_and_take(&t);
		assert_int_equal(taken + p.ring->writer.dropped_ring - dropped, 200);
		peer_want(&p, LAUNCHES);
	}
	peer_want(&p, 0);
	take_all(&t);
	assert_int_equal(p.marked_ring, p.ring->writer.dropped_ring);
	peer_end(&p);
	free(t.list);
}

/* The agent leaves and says why, and the program goes on. */
static void test_refused(void **state)
{
	const struct vendor *v = *state;

	for (size_t i = 0; i < ARRAY_SIZE(v->refused) && v->refused[i].environment; i++) {
		print_message("# %s\n", v->refused[i].environment);
		begin(64, LAUNCHES, v->refused[i].environment);
		assert_int_equal(peer_state(&p), v->refused[i].state);
		assert_int_equal(p.ring->writer.error, v->refused[i].error);
		assert_int_equal(p.ring->writer.failed_call, v->refused[i].call);
		peer_run("launch 100");
		peer_want(&p, 0);
		assert_int_equal(peer_state(&p), v->refused[i].state);
		take_records(0);
		peer_end(&p);
	}
}

/* The reader goes away while there is something to do. */
static void check_reader_goes(void)
{
	close(p.connection);
	p.connection = -1;
	PEER_WAIT(peer_state(&p) == GPU_STATE_GONE);
	take_rest();
	peer_run("launch 1000");
	take_records(0);
	peer_end(&p);
}

/* A reader that wants no agent, and one that is not there. */
static void check_no_reader(void)
{
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

/* A reader that misbehaves. */
static void test_readers(void **state)
{
	check_no_reader();
	if (*state == &amd) {
		begin(1u << 10, LAUNCHES, "");
		peer_do(&p, "launch 100");
		check_reader_goes();
		return;
	}

	/* it hands over something that is no ring */
	peer_listen(&p, 64);
	peer_start(&p, true, "");
	peer_tell(&p, "launch 10");
	peer_accept(&p);
	peer_make_ring(&p);
	p.ring->fixed.capacity = 128;
	peer_send_welcome(&p, 0, p.ring_fd);
	peer_done(&p);
	peer_end(&p);

	/* its tail is junk: nothing is written out of place */
	begin(64, LAUNCHES, "");
	p.ring->reader.tail = UINT64_MAX / 2;
	peer_run("launch 1000");
	peer_want(&p, 0);
	assert_in_range(p.ring->writer.head, 0, 64);
	p.ring->reader.tail = 0;

	peer_want(&p, LAUNCHES);
	check_reader_goes();

	/* it says goodbye */
	begin(1u << 12, LAUNCHES, "");
	peer_run("launch 1000");
	p.ring->reader.leave = 1;
	peer_change(&p);
	PEER_WAIT(peer_state(&p) == GPU_STATE_GONE);
	take_records(1000);
	peer_do(&p, "launch 1000");
	peer_end(&p);
}

#define PEER_WAIT_HUNG_UP() PEER_WAIT(poll(&(struct pollfd){ .fd = p.connection, .events = POLLRDHUP }, 1, 0) == 1)

/* A program that does what programs do: fork, exec, exit. */
static void test_programs(void **state)
{
	const struct vendor *v = *state;
	struct truth t = { 0 };

	/* a child does not touch its parent's ring */
	begin(1u << 12, LAUNCHES, "");
	peer_run("launch 100");
	peer_do(&p, v->fork);
	peer_run("launch 100");
	settle(200);
	take_records(200);

	/* another program in the same process: a new agent with a ring of its own */
	peer_tell(&p, "exec");
	PEER_WAIT_HUNG_UP();
	peer_drop_ring(&p);
	peer_tell(&p, "launch 70"); /* the records it had read before are gone with it */
	peer_serve(&p, LAUNCHES);
	peer_done(&p);
	peer_do(&p, "sync");
	settle(70);
	take_records(70);

	/* it closes what it does not know */
	peer_want(&p, LAUNCHES);
	peer_do(&p, "close-all");
	PEER_WAIT(peer_state(&p) == GPU_STATE_GONE);
	peer_do(&p, "launch 10");
	peer_end(&p);

	/* it ends: all work until then is recorded */
	begin(1u << 12, LAUNCHES, "");
	p.ring->reader.flush_ms = 1000000;
	peer_run("launch 100");
	truth_read(&t);
	peer_tell(&p, "exit");
	PEER_WAIT_HUNG_UP();
	assert_int_equal(take_all(&t), 100);
	assert_int_equal(peer_state(&p), GPU_STATE_GONE);
	peer_end(&p);

	/* it ends while the GPU works */
	begin(1u << 12, LAUNCHES, "");
	peer_do(&p, "kernel-ns 100000000000");
	peer_do(&p, "launch 100");
	peer_tell(&p, "exit");
	peer_end(&p);
	free(t.list);
}

/* ---- of one vendor ---- */

static void test_graphs(void **state)
{
	struct gpu_record r;
	int nodes = 0, graphs = 0, kernels = 0;

	begin(1u << 12, GPU_WANT_KERNELS, "");
	peer_run("graph 20");
	peer_want(&p, 0);
	for (; peer_take(&p, &r); nodes++) {
		assert_int_equal(r.kind, GPU_RECORD_KERNEL);
		assert_int_equal(r.kernel.graph, 1);
		assert_int_equal(r.kernel.graph_node, UINT64_C(1) << 32 | (uint64_t)(nodes % 5 + 1));
	}
	assert_int_equal(nodes, 100);
	peer_want(&p, GPU_WANT_KERNELS | GPU_WANT_GRAPHS);
	peer_do(&p, "graph 20");
	peer_run("launch 30");
	peer_want(&p, 0);
	while (peer_take(&p, &r)) {
		graphs += r.kind == GPU_RECORD_GRAPH;
		kernels += r.kind == GPU_RECORD_KERNEL;
	}
	assert_int_equal(graphs, 20);
	assert_int_equal(kernels, 30);
	peer_end(&p);
}

static uint64_t flushed_until(void)
{
	return __atomic_load_n(&p.ring->writer.flushed_until, __ATOMIC_ACQUIRE);
}

/* How far the records are complete is reported meanwhile, and never beyond what is still in one of CUPTI's buffers. */
static void test_flushed(void **state)
{
	struct truth t = { 0 };
	uint32_t comparisons;
	uint64_t at;

	begin(1u << 12, LAUNCHES, "MOCK_KEEP=1");
	peer_do(&p, "kernel-ns 1000");
	for (int i = 0; i < 3; i++) {
		peer_run("launch 100");
		at = clock_boot_ns();
		PEER_WAIT(flushed_until() > at);
		assert_int_equal(read_and_take(&t), 100);
	}
	/* the first of them takes very long */
	peer_do(&p, "kernel-ns 3600000000000");
	peer_do(&p, "launch 1");
	peer_do(&p, "kernel-ns 1000");
	at = clock_boot_ns();
	peer_do(&p, "launch 32");
	comparisons = p.ring->clock.comparisons;
	PEER_WAIT(__atomic_load_n(&p.ring->clock.comparisons, __ATOMIC_ACQUIRE) > comparisons + 3);
	take_records(0);
	assert_true(flushed_until() < at);
	peer_want(&p, 0);
	assert_true(flushed_until() > at);
	take_records(16); /* those that do not wait for it */
	assert_int_equal(p.devices, 1);
	assert_string_equal(p.about[0].name, "Mock H100");
	free(t.list);
	peer_end(&p);
}

/* What each device is, by the process's numbers; also where the driver lacks a function, or one fails. */
static void test_devices(void **state)
{
	static const struct {
		const char *environment;
		uint32_t kind;
		unsigned char third, last; /* of the bytes of the UUID */
	} cases[] = {
		{ "MOCK_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0", GPU_UUID_DEVICE, 2, 0 },
		{ "MOCK_DEVICES=3 CUDA_VISIBLE_DEVICES=GPU-00000002,0", GPU_UUID_DEVICE, 2, 0 },
		{ "MOCK_DEVICES=3 MOCK_MIG=1 CUDA_VISIBLE_DEVICES=MIG-00000002,MIG-00000000", GPU_UUID_MIG, 2, 1 },
		{ "MOCK_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0 MOCK_FAIL_UUID=999", GPU_UUID_NONE, 0, 0 },
		{ "MOCK_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0 LD_LIBRARY_PATH=%s/gpu/old", GPU_UUID_DEVICE, 2, 0 },
	};
	char environment[PATH_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gpu_device *d = p.about;

		snprintf(environment, sizeof(environment), cases[i].environment, peer_build());
		begin(1u << 8, LAUNCHES, environment);
		peer_do(&p, "launch 1");
		peer_want(&p, 0);
		take_rest();
		assert_int_equal(p.devices, 2);
		assert_string_equal(d[0].name, cases[i].kind == GPU_UUID_MIG ? "Mock H100 MIG 1g.10gb" : "Mock H100");
		assert_string_equal(d[0].pci, cases[i].kind == GPU_UUID_MIG ? "FFFF:1B:00.0" : "FFFF:1D:00.0");
		assert_string_equal(d[1].pci, "FFFF:1B:00.0");
		assert_int_equal(d[0].uuid_kind, cases[i].kind);
		assert_int_equal(d[0].uuid[3], cases[i].third);
		assert_int_equal(d[0].uuid[15], cases[i].last);
		peer_end(&p);
	}
}

/* It waits for a slow reader so that nothing is lost, but not long for one that has stopped. */
static void test_waits(void **state)
{
	const int wanted = 20000;
	struct gpu_record r;
	int n = 0;

	begin(1u << 8, 0, "");
	p.ring->reader.wait_ms = 3600000;
	peer_want(&p, LAUNCHES);
	peer_do(&p, "kernel-ns 100");
	peer_run("launch 20000");
	while (n < wanted) {
		PEER_WAIT(peer_take(&p, &r));
		n++;
		if (n % 1000 == 0)
			usleep(1000);
	}
	peer_want(&p, 0);
	assert_false(peer_take(&p, &r));
	assert_int_equal(p.ring->writer.records, wanted);
	assert_int_equal(p.ring->writer.dropped_ring + p.ring->writer.dropped_cupti, 0);
	assert_true(p.ring->writer.waited_ns > 0);

	p.ring->reader.wait_ms = 5;
	peer_want(&p, LAUNCHES);
	peer_run("launch 20000");
	peer_want(&p, 0);
	n = (int)take_rest();
	assert_int_equal(p.ring->writer.records, 2 * wanted);
	assert_int_equal(n + (int)p.ring->writer.dropped_ring, wanted);
	assert_true(p.ring->writer.dropped_ring > 0);

	/* it leaves */
	p.ring->reader.wait_ms = 3600000;
	peer_want(&p, LAUNCHES);
	peer_run("launch 20000");
	p.ring->reader.wait_ms = 1;
	peer_drop_ring(&p);
	peer_run("launch 100");
	peer_end(&p);
}

/* Attached late, detached, and attached again, with kernels all the time. */
static void test_attach(void **state)
{
	char attach[PATH_MAX + 128];

	peer_listen(&p, 1u << 10);
	peer_start(&p, false, "");
	snprintf(attach, sizeof(attach), "attach %s/inftrace-gpu.so %s", peer_build(), p.name);
	for (int i = 0; i < 200; i++) {
		peer_do(&p, "launch 10");
		peer_tell(&p, attach);
		peer_serve(&p, LAUNCHES);
		peer_done(&p);
		PEER_WAIT(peer_state(&p) == GPU_STATE_ON);
		peer_run("launch 10");
		if (i % 2) {
			p.ring->reader.leave = 1;
			peer_change(&p);
			PEER_WAIT(peer_state(&p) == GPU_STATE_GONE);
		} else {
			peer_want(&p, 0);
		}
		take_records(10);
		peer_drop_ring(&p);
	}
	peer_end(&p);
}

/* What costs too much is turned off, and reported. */
static void test_budget(void **state)
{
	begin(1u << 10, 0, "");
	p.ring->reader.budget_ppm = 1;
	peer_want(&p, LAUNCHES);
	PEER_WAIT(peer_state(&p) == GPU_STATE_OVER_BUDGET);
	assert_int_equal(p.ring->writer.collected, 0);
	p.ring->reader.budget_ppm = 0;
	peer_want(&p, LAUNCHES);
	assert_int_equal(peer_state(&p), GPU_STATE_ON);
	/* turned on again by itself once allowed */
	p.ring->reader.budget_ppm = 1;
	PEER_WAIT(peer_state(&p) == GPU_STATE_OVER_BUDGET);
	p.ring->reader.budget_ppm = 0;
	PEER_WAIT(peer_state(&p) == GPU_STATE_ON);
	assert_int_equal(p.ring->writer.collected, LAUNCHES);
	assert_true(p.ring->writer.own_ns > 0);
	peer_end(&p);
}

/* At least two more comparisons, one of which began after the call. */
static void launch_until_compared(void)
{
	uint32_t comparisons = __atomic_load_n(&p.ring->clock.comparisons, __ATOMIC_ACQUIRE);

	peer_run("launch 100");
	PEER_WAIT(__atomic_load_n(&p.ring->clock.comparisons, __ATOMIC_ACQUIRE) > comparisons + 1);
}

/* CUPTI's clock steps, as CLOCK_REALTIME does: each record is right, or says that it may not be. */
static void test_clock_steps(void **state)
{
	static const char *const steps[] = { "step-clock 3600000000000", "step-clock -7000000", "step-clock -5000000000000", "step-clock 400000",
		"step-clock -60000000" };
	struct truth t = { 0 };
	size_t seen = 0, sure = 0;

	begin(1u << 14, LAUNCHES, "");
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		for (int k = 0; k < 5; k++)
			peer_run("launch 20");
		peer_do(&p, steps[i]);
		/* until the step is noticed, and then some more */
		launch_until_compared();
		peer_run("launch 100");
	}
	/* the last step went 60 ms back: wait until the clock has passed its old value, also if a disturbed comparison looks
	 * like a step */
	for (int k = 0; k < 10; k++)
		launch_until_compared();
	peer_want(&p, 0);
	truth_read(&t);
	assert_true(p.ring->clock.steps >= sizeof(steps) / sizeof(*steps));
	for (struct gpu_record r; peer_take(&p, &r); seen++) {
		uint32_t at = r.correlation - t.list[0].correlation;

		assert_in_range(at, 0, t.count - 1);
		if (r.flags & GPU_RECORD_F_CLOCK)
			continue;
		sure++;
		compare(&r, &t.list[at]);
	}
	assert_int_equal(seen + p.ring->writer.dropped_clock, t.count);
	/* those after the last step cannot be all that are */
	assert_true(sure > 0);
	free(t.list);
	peer_end(&p);
}

/* Records without memory for them are counted, and the program goes on; later there is memory again. */
static void test_no_memory(void **state)
{
	char attach[PATH_MAX + 128];
	const struct gpu_ring_writer *w;

	begin(1u << 12, 0, "");
	w = &p.ring->writer;
	peer_do(&p, "no-memory 1");
	peer_want(&p, LAUNCHES);
	peer_run("launch 1000");
	peer_want(&p, 0);
	take_records(0);
	assert_int_equal(w->dropped_cupti, 1000);
	assert_int_equal(p.marked_cupti, 1000);
	peer_do(&p, "no-memory 0");
	peer_want(&p, LAUNCHES);
	peer_run("launch 1000");
	peer_want(&p, 0);
	take_records(1000);
	peer_end(&p);

	/* not even for the ring */
	peer_listen(&p, 64);
	peer_start(&p, false, "");
	peer_do(&p, "launch 10");
	peer_do(&p, "no-memory 1");
	snprintf(attach, sizeof(attach), "attach %s/inftrace-gpu.so %s", peer_build(), p.name);
	peer_tell(&p, attach);
	peer_serve(&p, LAUNCHES);
	peer_done(&p);
	PEER_WAIT_HUNG_UP();
	peer_drop_ring(&p);
	peer_do(&p, "launch 10");
	peer_do(&p, "no-memory 0");
	peer_tell(&p, attach);
	peer_serve(&p, LAUNCHES);
	peer_done(&p);
	PEER_WAIT(peer_state(&p) == GPU_STATE_ON);
	peer_end(&p);
}

/* Each record names the thread and the time of its launch. */
static void test_launches(void **state)
{
	struct gpu_record r;
	uint64_t before;

	begin(1u << 10, LAUNCHES, "");
	before = clock_boot_ns();
	peer_do(&p, "launch 100");
	peer_do(&p, "copies 5");
	peer_do(&p, "sync");
	settle(104);
	for (int i = 0; i < 104; i++) {
		assert_true(peer_take(&p, &r));
		assert_int_equal(r.thread, p.pid);
		assert_in_range(r.launched, before, r.start);
	}
	assert_false(peer_take(&p, &r));
	peer_do(&p, "threads 2 3");
	peer_end(&p);
}

static int set_up(void **state)
{
	peer_program = ((const struct vendor *)*state)->program;
	return 0;
}

#define OF(vendor, name)                                                  \
	{                                                                 \
#name " of " #vendor, name, set_up, NULL, (void *)&vendor \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		OF(nvidia, test_many),
		OF(nvidia, test_versions),
		OF(nvidia, test_windows),
		OF(nvidia, test_graphs),
		OF(nvidia, test_lost),
		OF(nvidia, test_flushed),
		OF(nvidia, test_devices),
		OF(nvidia, test_waits),
		OF(nvidia, test_refused),
		OF(nvidia, test_readers),
		OF(nvidia, test_programs),
		OF(nvidia, test_attach),
		OF(nvidia, test_budget),
		OF(nvidia, test_clock_steps),
		OF(nvidia, test_no_memory),
		OF(amd, test_many),
		OF(amd, test_versions),
		OF(amd, test_launches),
		OF(amd, test_windows),
		OF(amd, test_lost),
		OF(amd, test_refused),
		OF(amd, test_readers),
		OF(amd, test_programs),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
