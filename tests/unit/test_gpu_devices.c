/* SPDX-License-Identifier: BSD-2-Clause */
/* Which devices of several processes are the same, and the numbers and names that they have. */
#include <sys/stat.h>

#include "gpu/process.h"
#include "gpu_agent.h"

static struct gpu_devices devices;

static int set_up(void **state)
{
	memset(&devices, 0, sizeof(devices));
	return 0;
}

/* What a process calls `own`, with a UUID of its own for each number. */
static uint32_t add(unsigned char uuid, const char *pci, uint32_t own)
{
	struct gpu_device about = { .name = "A GPU", .uuid = { uuid }, .uuid_kind = GPU_UUID_DEVICE };
	uint32_t device = UINT32_MAX;

	snprintf(about.pci, sizeof(about.pci), "%s", pci);
	assert_true(gpu_devices_add(&devices, &about, own, false, &device));
	return device;
}

TEST_WITH(test_uuid, set_up, NULL)
{
	assert_int_equal(add(1, "", 0), 0);
	assert_int_equal(add(2, "", 1), 1);
	assert_int_equal(add(2, "", 0), 1); /* another process does not see the first */
	assert_int_equal(add(3, "", 0), 2); /* its number is taken */
	assert_int_equal(add(4, "", 7), 7);
	assert_int_equal(add(3, "", 5), 2);
	assert_int_equal(devices.n_known, 4);
}

/* The numbers of the machine's, by their addresses, are theirs whatever a process sees. */
TEST_WITH(test_machine, set_up, NULL)
{
	static const char *const entries[] = { "0000:1b:00.0", "0000:c1:00.0", "0001:02:00.0", "none" };
	char dir[] = "/tmp/inftrace-devices-XXXXXX", path[PATH_MAX];

	assert_non_null(mkdtemp(dir));
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	devices.machine_dir = dir;
	assert_int_equal(add(1, "0001:02:00.0", 0), 2);
	assert_int_equal(add(2, "0000:1B:00.0", 1), 0);
	assert_int_equal(add(3, "0000:C1:00.0", 0), 1);
	assert_string_equal(gpu_devices_get(&devices, 0)->pci, "0000:1b:00.0");
	assert_int_equal(add(4, "0000:c1:00.0", 0), 3); /* an instance of the same */
	assert_int_equal(add(5, "0000:c2:00.0", 9), 9); /* it is not there */
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]);
		rmdir(path);
	}
	rmdir(dir);
	assert_int_equal(add(6, "0000:1c:00.0", 11), 11);
}

/* Of one that says nothing nobody knows whether it is another process's, but where numbers are those of the machine. */
TEST_WITH(test_unknown, set_up, NULL)
{
	const struct gpu_device about = { .name = "A GPU", .pci = "nonsense" };
	uint32_t device;

	assert_true(gpu_devices_add(&devices, NULL, 0, false, &device) && device == 0);
	assert_true(gpu_devices_add(&devices, NULL, 0, false, &device) && device == 1);
	assert_true(gpu_devices_add(&devices, NULL, 3, true, &device) && device == 3);
	assert_true(gpu_devices_add(&devices, NULL, 3, true, &device) && device == 3);
	assert_null(gpu_devices_get(&devices, 0));
	gpu_devices_set(&devices, 0, &about);
	assert_string_equal(gpu_devices_get(&devices, 0)->name, "A GPU");
	assert_string_equal(gpu_devices_get(&devices, 0)->pci, "");
	assert_int_equal(add(1, "", 0), 2);
	gpu_devices_set(&devices, 2, &about); /* it is known what it is */
	assert_string_equal(gpu_devices_get(&devices, 2)->uuid, "GPU-01000000-0000-0000-0000-000000000000");
	gpu_devices_set(&devices, 5, &about); /* there is none */
	assert_null(gpu_devices_get(&devices, 5));
	assert_null(gpu_devices_get(&devices, GPU_DEVICES_MAX));
	assert_int_equal(devices.n_known, 2);
}

TEST_WITH(test_full, set_up, NULL)
{
	struct gpu_device about = { .uuid_kind = GPU_UUID_MIG + 1 };
	uint32_t device = 77;

	memset(about.name, '\x1b', sizeof(about.name)); /* without an end, too */
	assert_true(gpu_devices_add(&devices, &about, UINT32_MAX, true, &device) && device == 0);
	assert_int_equal(strlen(gpu_devices_get(&devices, 0)->name), GPU_DEVICE_NAME_MAX - 1);
	assert_int_equal(gpu_devices_get(&devices, 0)->name[0], '?');
	assert_string_equal(gpu_devices_get(&devices, 0)->uuid, "");
	for (unsigned char i = 1; i < GPU_DEVICES_MAX; i++)
		assert_int_equal(add(i, "", 0), i);
	device = 77;
	assert_false(gpu_devices_add(&devices, NULL, 0, false, &device));
	assert_int_equal(device, 77);
	assert_int_equal(add(5, "", 0), 5);
}

/* ---- of processes ---- */

#define PID 4711
#define NOW UINT64_C(1000000000000)
#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

/* Processes, and what they handed over. */
static struct {
	struct gpu_info *info;
	struct gpu_process *list[2];
	struct fake_agent agents[2];
	unsigned int n, steps;
	uint32_t devices[16]; /* of what ran */
	struct rec_gpu_step step;
} processes;

static void on_record(const struct rec_hdr *h, size_t size, void *arg)
{
	if (h->kind == REC_GPU && processes.n < 16)
		processes.devices[processes.n++] = ((const struct rec_gpu *)h)->device;
	if (h->kind == REC_GPU_STEP) {
		memcpy(&processes.step, h, size);
		processes.steps++;
	}
}

static int set_up_processes(void **state)
{
	memset(&processes, 0, sizeof(processes));
	processes.info = gpu_info_new();
	for (uint32_t i = 0; i < 2; i++) {
		if (gpu_process_new(PID + i, processes.info, NOW, &processes.list[i]))
			return -1;
		processes.agents[i] = agent_open(gpu_process_feed(processes.list[i]));
		processes.agents[i].ring->writer.on_since = NOW;
		processes.agents[i].ring->writer.state = GPU_STATE_ON;
	}
	return 0;
}

static int tear_down_processes(void **state)
{
	for (int i = 0; i < 2; i++) {
		agent_close(&processes.agents[i]);
		gpu_process_free(processes.list[i]);
	}
	gpu_info_free(processes.info);
	return 0;
}

static void drain(int process, uint64_t ns)
{
	agent_flushed(&processes.agents[process], ns);
	assert_false(gpu_process_drain(processes.list[process], ns, on_record, NULL));
}

static void say(int process, uint32_t own, const char *name, uint8_t uuid)
{
	struct gpu_record r = { .kind = GPU_RECORD_DEVICE, .device = own, .about = { .uuid = { 1, uuid }, .uuid_kind = GPU_UUID_DEVICE } };

	snprintf(r.about.name, sizeof(r.about.name), "%s", name);
	agent_write(&processes.agents[process], &r);
}

static void kernel(int process, uint32_t own, uint64_t start)
{
	struct gpu_record r = agent_kernel(start, start + US, 7, 1);

	r.device = own;
	agent_write(&processes.agents[process], &r);
}

/* Each has a device 0 of its own, and they share one; of one it is said late what it is, of one never. */
TEST_WITH(test_visible, set_up_processes, tear_down_processes)
{
	static const uint32_t expected[] = { 0 /* A */, 1 /* B */, 2, 1 /* B */, 3 /* C */, 4 };
	const uint64_t t = NOW + MS;

	kernel(0, 0, t); /* before it is said what that is */
	say(0, 0, "A", 10);
	say(0, 1, "B", 11);
	say(1, 0, "B", 11);
	say(1, 1, "C", 12);
	kernel(0, 1, t + 2 * US);
	kernel(0, 2, t + 4 * US);
	for (uint32_t own = 0; own < 3; own++)
		kernel(1, own, t + own * US);
	/* their launches are not seen, and no longer waited for */
	drain(0, t + 1100 * MS);
	drain(1, t + 1100 * MS);
	assert_int_equal(processes.n, 6);
	assert_memory_equal(processes.devices, expected, sizeof(expected));
	assert_string_equal(gpu_info_device(processes.info, 3)->name, "C");
	assert_null(gpu_info_device(processes.info, 4));
	say(1, 2, "D", 13);
	drain(1, t + 1200 * MS);
	assert_string_equal(gpu_info_device(processes.info, 4)->name, "D");
}

/* A step in which nothing ran is of a device of its process, though another has the number. */
TEST_WITH(test_idle, set_up_processes, tear_down_processes)
{
	const uint64_t t = NOW + MS;
	const struct rec_step r = { .h = { .kind = REC_STEP, .tgid = PID + 1, .tid = PID + 1, .start_ns = t, .dur_ns = 100 * US } };

	say(0, 0, "A", 10);
	say(1, 0, "B", 11);
	drain(0, t);
	assert_true(gpu_process_step(processes.list[1], &r));
	drain(1, t + 300 * MS);
	assert_int_equal(processes.steps, 1);
	assert_int_equal(processes.step.h.flags & GPU_STEP_F_LOST, 0);
	assert_int_equal(processes.step.device, 1);
	assert_int_equal(processes.step.n_devices, 1);
	assert_int_equal(processes.step.devices[0].device, 1);
	assert_int_equal(processes.step.ns[GPU_PART_IDLE_LAUNCH], 100 * US);
}

RUN_TESTS(NULL, NULL)
