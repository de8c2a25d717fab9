/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of a GPU's agent: read as written, and read without harm when a malicious process writes it. */
#include <fcntl.h>
#include <pthread.h>

#include "cases.h"
#include "gpu/info.h"
#include "gpu_agent.h"
#include "record/gpu.h"

#define CAPACITY 64
#define NOW UINT64_C(1000000000000)
#define MS UINT64_C(1000000)

static struct {
	unsigned int activities, names, devices;
	struct gpu_record last;
	uint32_t id;
	char name[GPU_NAME_MAX + 1];
} got;

/* What is passed on is always within these bounds. */
static void on_activity(const struct gpu_record *r, void *arg)
{
	got.activities++;
	got.last = *r;
	assert_true(r->start <= r->end && r->end <= NOW + 10 * MS && r->start >= NOW - 1000 * MS);
	assert_true(r->device < GPU_DEVICES_MAX);
}

static void on_name(uint32_t id, const char *text, void *arg)
{
	got.names++;
	got.id = id;
	assert_true(strnlen(text, GPU_NAME_MAX + 1) <= GPU_NAME_MAX);
	strcpy(got.name, text);
}

static void on_device(uint32_t device, const struct gpu_device *about, void *arg)
{
	got.devices++;
	assert_true(device < GPU_DEVICES_MAX);
	assert_true(strnlen(about->name, GPU_DEVICE_NAME_MAX) < GPU_DEVICE_NAME_MAX);
	assert_true(strnlen(about->pci, sizeof(about->pci)) < sizeof(about->pci));
	strcpy(got.name, about->name);
}

static const struct gpu_feed_ops ops = { .activity = on_activity, .name = on_name, .device = on_device };

static struct gpu_info *info;
static struct gpu_feed *feed;
static struct fake_agent agent;

static int set_up(void **state)
{
	memset(&got, 0, sizeof(got));
	info = gpu_info_new();
	if (gpu_feed_new(CAPACITY, NOW, &feed))
		return -1;
	agent = agent_open(feed);
	return 0;
}

static int tear_down(void **state)
{
	agent_close(&agent);
	gpu_feed_free(feed);
	gpu_info_free(info);
	return 0;
}

static bool drain(void)
{
	return gpu_feed_drain(feed, NOW, CAPACITY, &ops, NULL);
}

TEST_WITH(test_records, set_up, tear_down)
{
	struct gpu_record r = agent_kernel(NOW - 2 * MS, NOW - MS, 7, 42);
	char name[GPU_NAME_MAX];

	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = (char)('a' + i % 26);
	agent_name(&agent, 3, "short", 5);
	agent_write(&agent, &r);
	assert_false(drain());
	assert_string_equal(got.name, "short");
	assert_int_equal(got.id, 3);
	assert_int_equal(got.activities, 1);
	assert_int_equal(got.last.correlation, 42);
	for (size_t len = 0; len <= 3 * GPU_NAME_CHUNK; len++) {
		agent_name(&agent, 4, name, len);
		drain();
		assert_int_equal(strlen(got.name), len);
		assert_memory_equal(got.name, name, len);
	}
	assert_int_equal(feed->bad, 0);
}

/* A turn takes this many records; a full ring goes on. */
TEST_WITH(test_bounds, set_up, tear_down)
{
	struct gpu_record r = agent_kernel(NOW, NOW, 7, 1);
	struct gpu_feed_state st;

	assert_int_equal(gpu_feed_fill(feed), 0);
	for (int i = 0; i < CAPACITY + 5; i++) {
		if (i == CAPACITY / 2)
			assert_int_equal(gpu_feed_fill(feed), 50);
		agent_write(&agent, &r);
	}
	assert_int_equal(gpu_feed_fill(feed), 100);
	assert_true(gpu_feed_drain(feed, NOW, 10, &ops, NULL));
	assert_int_equal(got.activities, 10);
	assert_false(drain());
	assert_int_equal(got.activities, CAPACITY);
	assert_int_equal(gpu_feed_fill(feed), 0);
	gpu_feed_state(feed, NOW, &st);
	assert_int_equal(st.dropped, 5);
	for (int i = 0; i < CAPACITY; i++)
		agent_write(&agent, &r);
	drain();
	assert_int_equal(got.activities, 2 * CAPACITY);
}

static void bad(struct gpu_record r)
{
	uint64_t before = feed->bad;

	agent_write(&agent, &r);
	drain();
	assert_int_equal(got.activities + got.names, 0);
	assert_int_equal(feed->bad, before + 1);
}

TEST_WITH(test_bad_records, set_up, tear_down)
{
	struct gpu_record r = agent_kernel(NOW - 2, NOW - 1, 7, 1), n = { .kind = GPU_RECORD_NAME };

	r.kind = GPU_RECORD_NONE;
	bad(r);
	r.kind = GPU_RECORD_KIND_MAX;
	bad(r);
	r.kind = 0xffff;
	bad(r);
	bad(agent_kernel(NOW, NOW - 1, 7, 1));
	bad(agent_kernel(0, 0, 7, 1));
	bad(agent_kernel(0, NOW, 7, 1));
	bad(agent_kernel(NOW, UINT64_MAX, 7, 1));
	bad(agent_kernel(UINT64_MAX, UINT64_MAX, 7, 1));
	r = agent_kernel(NOW - 2, NOW - 1, 7, 1);
	r.device = GPU_DEVICES_MAX;
	bad(r);
	r.device = 0;
	r.flags = GPU_RECORD_F_CLOCK;
	bad(r);
	n.name.length = 5;
	bad(n); /* no number */
	n.name.id = 1;
	n.name.length = GPU_NAME_MAX + 1;
	bad(n);
	n.name.length = 2 * GPU_NAME_CHUNK;
	n.name.offset = GPU_NAME_CHUNK;
	bad(n); /* its beginning is missing */
	n.name.offset = 1;
	bad(n);
	n.name.offset = 0xffff;
	bad(n);
}

/* The description of a device; a text without an end and too large a number are bad. */
TEST_WITH(test_device, set_up, tear_down)
{
	struct gpu_record r = { .kind = GPU_RECORD_DEVICE, .device = GPU_DEVICES_MAX - 1, .about = { .name = "No Such GPU" } };

	agent_write(&agent, &r);
	assert_false(gpu_feed_drain(feed, NOW, UINT32_MAX, &ops, NULL));
	assert_int_equal(got.devices, 1);
	assert_string_equal(got.name, "No Such GPU");
	r.device++;
	agent_write(&agent, &r);
	r.device = 0;
	memset(r.about.pci, '0', sizeof(r.about.pci));
	agent_write(&agent, &r);
	r.about.pci[0] = 0;
	memset(r.about.name, 'x', sizeof(r.about.name));
	agent_write(&agent, &r);
	assert_false(gpu_feed_drain(feed, NOW, UINT32_MAX, &ops, NULL));
	assert_int_equal(got.devices, 1);
	assert_int_equal(feed->bad, 3);
}

TEST_WITH(test_broken_head, set_up, tear_down)
{
	agent.ring->writer.head = CAPACITY + 1;
	assert_false(drain());
	assert_true(feed->broken);
	agent.ring->writer.head = 1;
	assert_false(drain());
	assert_int_equal(got.activities, 0);
}

TEST_WITH(test_state, set_up, tear_down)
{
	struct gpu_ring_writer *w = &agent.ring->writer;
	struct gpu_feed_state st;

	w->state = 77;
	w->failed_call = 77;
	w->dropped_cupti = w->dropped_ring = UINT64_MAX - 1;
	w->flushed_until = UINT64_MAX;
	agent.ring->clock.residual_ns = agent.ring->clock.bend_ns = UINT64_MAX;
	gpu_feed_state(feed, NOW, &st);
	assert_int_equal(st.state, GPU_STATE_FAILED);
	assert_true(st.failed_call == GPU_CALL_NONE && st.flushed_until == NOW);
	/* bounded, so that sums of them as written still fit 63 bits */
	assert_true(st.dropped == UINT64_C(1) << 50 && st.residual_ns == UINT64_C(1) << 50);
	w->dropped_cupti = w->dropped_ring = 0;
	w->flushed_until = 0;
	gpu_feed_state(feed, NOW, &st);
	assert_true(st.dropped == UINT64_C(1) << 50 && st.flushed_until == NOW);
	assert_true(st.settled);
	gpu_feed_want(feed, GPU_WANT_KERNELS, 100);
	gpu_feed_state(feed, NOW, &st);
	assert_false(st.settled);
	w->wanted_seen = agent.ring->reader.wanted_change;
	gpu_feed_state(feed, NOW, &st);
	assert_true(st.settled);
}

TEST_WITH(test_sealed, set_up, tear_down)
{
	assert_int_equal(ftruncate(feed->fd, 4096), -1);
	assert_int_equal(ftruncate(feed->fd, 1 << 30), -1);
}

static bool stop;

/* Writes anything anywhere, all the time. */
static void *scribble(void *arg)
{
	uint64_t *ring = (uint64_t *)agent.ring, seed = 88172645463325252ull;
	size_t words = GPU_RING_SIZE(CAPACITY) / sizeof(*ring);

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint64_t what = next_random(&seed), word = next_random(&seed) % words;

		if (!(what % 5))
			what = NOW - what % (2000 * MS);
		else if (!(what % 3))
			what %= GPU_RECORD_KIND_MAX;
		__atomic_store_n(&ring[word], what, __ATOMIC_RELAXED);
		if (!(what % 7))
			__atomic_store_n(&agent.ring->writer.head, agent.ring->reader.tail + what % (CAPACITY + 1), __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST_WITH(test_hostile, set_up, tear_down)
{
	const unsigned int n = cases(20000, 2000);
	pthread_t thread;

	stop = false;
	assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
	for (unsigned int i = 0; i < n; i++) {
		struct gpu_feed_state st, before;

		gpu_feed_state(feed, NOW, &before);
		drain();
		gpu_feed_state(feed, NOW, &st);
		assert_true(st.dropped >= before.dropped && st.flushed_until >= before.flushed_until);
		if (feed->broken) { /* a new process */
			struct gpu_feed *next;

			__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
			pthread_join(thread, NULL);
			assert_int_equal(gpu_feed_new(CAPACITY, NOW, &next), 0);
			agent_close(&agent);
			gpu_feed_free(feed);
			feed = next;
			agent = agent_open(feed);
			stop = false;
			assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
		}
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

/* ---- names and tracks ---- */

TEST_WITH(test_info, set_up, tear_down)
{
	static const struct {
		const char *mangled, *brief, *full;
	} names[] = {
		{ "_Z7rmsnormPKfS0_Pfif", "rmsnorm", "rmsnorm" },
		{ "_ZN7cutlass6KernelINS_4gemm6kernel4GemmEEEvNT_6ParamsE", "cutlass::Kernel", "cutlass::Kernel<cutlass::gemm::kernel::Gemm>" },
		{ "void ns::f<A<1, 2>, (B)3>(Params<C>)", "ns::f", "void ns::f<A<1, 2>, (B)3>(Params<C>)" },
		{ "void (anonymous namespace)::f(int)", "(anonymous namespace)::f", "void (anonymous namespace)::f(int)" },
		{ "sgemm_128x64", "sgemm_128x64", "sgemm_128x64" },
		{ "a\x1b[2J\nb\xff", "a?[2J?b?", "a?[2J?b?" },
		{ "<<<", "<<<", "<<<" },
		{ ">>>", ">>>", ">>>" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t n = gpu_info_name(info, names[i].mangled);

		assert_int_equal(n, i + 1);
		assert_int_equal(gpu_info_name(info, names[i].mangled), n);
		assert_string_equal(gpu_info_kernel(info, n)->brief, names[i].brief);
		assert_string_equal(gpu_info_kernel(info, n)->full, names[i].full);
	}
	assert_int_equal(gpu_info_name(info, ""), 0);
	assert_string_equal(gpu_info_kernel(info, 0)->brief, "kernel");
	assert_string_equal(gpu_info_kernel(info, UINT32_MAX)->brief, "kernel");
}

/* NCCL's kernels by their names, mangled and not, of its older and newer releases. */
TEST_WITH(test_collectives, set_up, tear_down)
{
	static const struct {
		const char *name;
		bool is;
	} names[] = {
		{ "_Z34ncclDevKernel_AllReduce_Sum_f16_LLP24ncclDevKernelArgsStorageILm4096EE", true },
		{ "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true },
		{ "_Z31ncclKernel_AllReduce_RING_LL_Sum11ncclWorkElem", true },
		{ "ncclKernel_SendRecv", true },
		{ "_Z14not_ncclKernelv", false },
		{ "nccl", false },
		{ "", false },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (gpu_info_kernel(info, gpu_info_name(info, names[i].name))->is_collective != names[i].is)
			fail_msg("%s", names[i].name);
	}
	assert_false(gpu_info_kernel(info, UINT32_MAX)->is_collective);
}

/* A CUDA call launches; an NCCL call does not, though its preset has the same role and arguments. */
TEST(test_launches)
{
	struct probe_spec specs[] = {
		{ .symbol = (char *)"cuLaunchKernel", .role = ROLE_LAUNCH },
		{ .symbol = (char *)"ncclAllReduce", .role = ROLE_LAUNCH },
	};
	struct rec_function r = { .h = { .start_ns = 1000, .dur_ns = 10, .tgid = 1, .tid = 2 } };
	struct gpu_launches *launches;
	struct launch l;

	launches = gpu_launches_new();
	for (uint32_t i = 0; i < 2; i++) {
		r.h.id = i;
		assert_int_equal(gpu_launch_get(launches, &specs[i], &r, &l), !i);
	}
	gpu_launches_free(launches);
}

/* Overlapping work is on different tracks, whatever comes. */
TEST_WITH(test_tracks, set_up, tear_down)
{
	static uint64_t ends[GPU_TRACKS_MAX];
	uint64_t seed = 1;
	unsigned int refused = 0;

	memset(ends, 0, sizeof(ends));
	for (unsigned int i = 0; i < 20000; i++) {
		struct gpu_track of = { .device = (uint32_t)(next_random(&seed) % 3), .tgid = 1 + (uint32_t)(next_random(&seed) % 2), .context = (uint32_t)(next_random(&seed) % 2), .stream = (uint32_t)(next_random(&seed) % 20) };
		uint64_t start = NOW + i * 10 - next_random(&seed) % 100, end = start + next_random(&seed) % 50;
		uint32_t track;

		if (!gpu_info_track(info, &of, start, end, &track)) {
			refused++;
			continue;
		}
		assert_true(track < GPU_TRACKS_MAX && start >= ends[track]);
		ends[track] = end;
		assert_int_equal(gpu_info_get_track(info, track)->stream, of.stream);
		assert_int_equal(gpu_info_get_track(info, track)->device, of.device);
	}
	assert_int_equal(refused, 0);
	for (uint32_t i = 0; i < 2 * GPU_TRACKS_MAX; i++) {
		uint32_t track;

		refused += !gpu_info_track(info, &(struct gpu_track){ .stream = i, .tgid = 3 }, NOW, NOW, &track);
	}
	assert_true(refused >= GPU_TRACKS_MAX);
	assert_null(gpu_info_get_track(info, GPU_TRACKS_MAX));
}

RUN_TESTS(NULL, NULL)
