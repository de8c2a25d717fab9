// SPDX-License-Identifier: BSD-2-Clause
/*
 * NVIDIA: CUPTI collects. The driver loads the agent while CUDA starts, where CUDA_INJECTION64_PATH names it, or it is
 * injected into a process that runs. CUPTI hands over buffers on threads of its own, or on the one that asks for them; of
 * its functions only the two that read a buffer are called under the lock.
 */
#include <stdlib.h>

#include "gpu/agent/agent.h"
#include "gpu/agent/cupti.h"
#include "gpu/agent/ring.h"
#include "gpu/agent/symbols.h"

int InitializeInjection(void);

/* Which kinds of CUPTI's each wish needs; those that may be missing come after the first. */
static const struct wish {
	uint32_t want;
	int kinds[3];
} wishes[] = {
	{ GPU_WANT_KERNELS, { CUPTI_KIND_CONCURRENT_KERNEL } },
	{ GPU_WANT_COPIES, { CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMSET, CUPTI_KIND_MEMCPY2 } },
	{ GPU_WANT_GRAPHS, { CUPTI_KIND_GRAPH_TRACE } },
};

static struct cupti cupti;
static void *subscriber;
static struct buffers buffers; /* under the lock, */
static bool forced;            /* too: a flush is under way that does not wait for what runs */

static int read_time(uint64_t *ns)
{
	return cupti.get_timestamp(ns);
}

static void on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	pthread_mutex_lock(&agent_lock);
	*buffer = agent_is_here() ? buffer_take(&buffers, clocks_boot_ns()) : NULL;
	pthread_mutex_unlock(&agent_lock);
	*size = *buffer ? BUFFER_SIZE : 0;
	*max_records = 0;
}

/* Under the lock, which it gives up while it waits for room in the ring. */
static void read_buffer(bool stepped, uint8_t *buffer, size_t valid)
{
	const struct clocks *clocks;
	struct ring *ring = agent_ring(&clocks);
	uint32_t generation = ring ? ring->generation : 0;
	bool patient = true, done = !ring;
	void *at = NULL;

	while (!done) {
		struct reading r = reading_begin(clocks, stepped, ring);

		r.forced = forced;
		done = buffer_read(&cupti, &r, buffer, valid, !patient, &at);
		if (done)
			break;
		ring_show(ring);
		patient = agent_wait_for_room();
		ring = agent_ring(&clocks);
		done = !ring || ring->generation != generation;
	}
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	const struct arrival arrival = agent_arrival();
	const struct clocks *clocks;
	size_t dropped = 0;
	struct ring *ring;

	pthread_mutex_lock(&agent_lock);
	ring = agent_ring(&clocks);
	if (ring) {
		if (cupti.dropped(context, stream, &dropped) == CUPTI_OK)
			ring->said.dropped_cupti += dropped;
		if (buffer)
			read_buffer(arrival_stepped(&arrival, clocks), buffer, valid);
		ring = agent_ring(&clocks);
		if (ring)
			agent_show(ring, &arrival);
	}
	if (buffer)
		buffer_return(&buffers, buffer);
	pthread_mutex_unlock(&agent_lock);
}

/* Nothing is asked of CUPTI's callbacks: to be subscribed keeps other users away, and finds them. */
static void on_callback(void *user, int domain, uint32_t id, const void *data)
{
	(void)user, (void)domain, (void)id, (void)data;
}

static int load(uint32_t *ret_version, uint32_t *ret_call)
{
	int err = cupti_load(&cupti);

	*ret_call = GPU_CALL_SYMBOLS;
	if (err)
		return err;
	atexit(agent_exit); /* after CUPTI has been loaded, so that it runs before CUPTI's own */
	*ret_version = cupti.version;
	return 0;
}

static void end(void)
{
	cupti.unsubscribe(subscriber);
	subscriber = NULL;
}

static int begin(uint32_t *ret_call)
{
	int r = cupti.subscribe(&subscriber, on_callback, NULL);

	*ret_call = GPU_CALL_ENABLE;
	if (r) {
		subscriber = NULL;
		return r;
	}
	*ret_call = GPU_CALL_REGISTER;
	r = cupti.register_callbacks(on_request, on_complete);
	if (r)
		end();
	return r;
}

static void disable(uint32_t want)
{
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		for (int k = 0; k < 3 && wishes[i].want == want && wishes[i].kinds[k]; k++)
			cupti.disable(wishes[i].kinds[k]);
}

static int enable(uint32_t want)
{
	int r = 0;

	for (size_t i = 0; !r && i < sizeof(wishes) / sizeof(*wishes); i++) {
		if (wishes[i].want != want)
			continue;
		r = cupti.enable(wishes[i].kinds[0]);
		for (int k = 1; !r && k < 3 && wishes[i].kinds[k]; k++)
			cupti.enable(wishes[i].kinds[k]);
	}
	return r;
}

/* What was dropped where no buffer has been handed over since then. */
static void count_dropped(void)
{
	const struct clocks *clocks;
	size_t dropped = 0;
	struct ring *ring;

	if (cupti.dropped(NULL, 0, &dropped) != CUPTI_OK || !dropped)
		return;
	pthread_mutex_lock(&agent_lock);
	ring = agent_ring(&clocks);
	if (ring) {
		ring->said.dropped_cupti += dropped;
		ring_show(ring);
	}
	pthread_mutex_unlock(&agent_lock);
}

/*
 * The last one is forced: what is still running on the GPU is not waited for. A buffer stays with CUPTI as long as something that was
 * launched while it was in use is not done. So what ended before the oldest of them was handed out is in those that have come back.
 */
static int flush(bool last, uint64_t *ret_until_ns)
{
	uint64_t before_ns = clocks_boot_ns(), since_ns;
	int r;

	pthread_mutex_lock(&agent_lock);
	forced = last;
	pthread_mutex_unlock(&agent_lock);
	r = cupti.flush(last);
	count_dropped();
	pthread_mutex_lock(&agent_lock);
	forced = false;
	since_ns = buffers_since(&buffers);
	pthread_mutex_unlock(&agent_lock);
	*ret_until_ns = since_ns < before_ns ? since_ns : before_ns;
	return r == CUPTI_MAX_LIMIT_REACHED ? 0 : r;
}

/* The driver's functions need no context, and fail until CUDA has been initialised. */
struct driver {
	int (*get_count)(int *n);
	int (*get)(int *device, int ordinal);
	int (*get_name)(char *name, int size, int device);
	int (*get_pci)(char *pci, int size, int device);
	int (*get_uuid)(uint8_t uuid[16], int device);
	int (*get_instance)(uint8_t uuid[16], int device); /* from 11.4 on; NULL: there are no instances for it */
};

/* That of an instance is its own, while the older function has that of the device which it is a part of. */
static void get_uuid(const struct driver *d, int device, struct gpu_device *ret)
{
	uint8_t whole[sizeof(ret->uuid)] = { 0 };
	static const uint8_t none[sizeof(ret->uuid)];
	bool known = d->get_uuid && !d->get_uuid(whole, device);

	ret->uuid_kind = GPU_UUID_DEVICE;
	if (!d->get_instance || d->get_instance(ret->uuid, device))
		memcpy(ret->uuid, whole, sizeof(ret->uuid));
	else if (known && memcmp(ret->uuid, whole, sizeof(whole)) != 0)
		ret->uuid_kind = GPU_UUID_MIG;
	if (!memcmp(ret->uuid, none, sizeof(none)))
		ret->uuid_kind = GPU_UUID_NONE;
}

/* Its number is that of CUPTI's records, too. What is not known is left out; false: nothing is. */
static bool get_device(const struct driver *d, int number, struct gpu_device *ret)
{
	int device;

	memset(ret, 0, sizeof(*ret));
	if (d->get(&device, number))
		return false;
	if (!d->get_name || d->get_name(ret->name, sizeof(ret->name), device))
		ret->name[0] = '\0';
	if (!d->get_pci || d->get_pci(ret->pci, sizeof(ret->pci), device))
		ret->pci[0] = '\0';
	ret->name[sizeof(ret->name) - 1] = ret->pci[sizeof(ret->pci) - 1] = '\0';
	get_uuid(d, device, ret);
	return true;
}

static bool describe(bool (*tell)(uint32_t device, const struct gpu_device *about))
{
	struct driver d;
	const struct symbol needed[] = { { "cuDeviceGetCount", &d.get_count }, { "cuDeviceGet", &d.get } };
	const struct symbol optional[] = {
		{ "cuDeviceGetName", &d.get_name },
		{ "cuDeviceGetPCIBusId", &d.get_pci },
		{ "cuDeviceGetUuid", &d.get_uuid },
		{ "cuDeviceGetUuid_v2", &d.get_instance },
	};
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	struct gpu_device about;
	bool done = true;
	int n = 0;

	if (!driver)
		return true;
	memset(&d, 0, sizeof(d));
	for (size_t i = 0; i < sizeof(optional) / sizeof(*optional); i++)
		symbols_find(driver, &optional[i], 1);
	if (!symbols_find(driver, needed, sizeof(needed) / sizeof(*needed))) {
		done = !d.get_count(&n);
		for (int i = 0; done && i < n; i++)
			done = !get_device(&d, i, &about) || tell((uint32_t)i, &about);
	}
	dlclose(driver);
	return done;
}

static uint32_t count_buffers(void)
{
	return buffers.open;
}

static void release(void)
{
	buffers_free(&buffers);
}

const struct backend cuda_backend = {
	.vendor = GPU_VENDOR_NVIDIA,
	.can = GPU_WANT_ALL,
	.other_user = CUPTI_MULTIPLE_SUBSCRIBERS,
	.time = read_time,
	.load = load,
	.begin = begin,
	.end = end,
	.enable = enable,
	.disable = disable,
	.flush = flush,
	.describe = describe,
	.buffers = count_buffers,
	.release = release,
};

/* Called by the driver, while CUDA starts. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
	agent_start(&cuda_backend);
	return 1;
}
