// SPDX-License-Identifier: BSD-2-Clause
/* What the Perfetto sink writes about GPUs and their work. */
#include "gpu_info.h"
#include "pftrace.h"
#include "schema/perfetto_fields.h"

/* A kernel on a stream of a process. */
static void emit_kernel(struct out *o, uint32_t tgid, uint32_t device, uint32_t context, uint32_t stream)
{
	const struct gpu_track of = { .device = device, .tgid = tgid, .context = context, .stream = stream };
	struct rec_gpu r = { .h = hdr(REC_GPU, GPU_KERNEL), .device = device, .context = context, .stream = stream };

	r.h.tgid = r.h.tid = tgid;
	assert_true(gpu_info_track(info, &of, r.h.start_ns, r.h.start_ns, &r.track));
	EMIT(o, &r);
}

/* Returns the bytes of the first field with this number; NULL bytes: there is none. */
static struct bytes find_bytes(struct bytes in, uint32_t field)
{
	struct bytes found;
	uint32_t number;
	uint64_t v;

	while ((number = field_next(&in, &v, &found)) && number != field)
		;
	return number ? found : (struct bytes){ NULL, NULL };
}

/* Returns the first packet with this field in the file so far, and the field's content. */
static struct bytes find_packet(struct out *o, uint32_t field, size_t *ret_size)
{
	struct bytes file, packet, found = { NULL, NULL };
	uint64_t v;

	assert_int_equal(o->s->ops->close(o->s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 }), 0);
	read_text(o);
	file = (struct bytes){ (uint8_t *)o->text, (uint8_t *)o->text + o->len };
	while (!found.p && field_next(&file, &v, &packet)) {
		found = find_bytes(packet, field);
		*ret_size = (size_t)(packet.end - packet.p);
	}
	return found;
}

static void assert_bytes(struct bytes in, uint32_t field, const char *expected)
{
	struct bytes found = find_bytes(in, field);

	assert_non_null(found.p);
	assert_int_equal(found.end - found.p, strlen(expected));
	assert_memory_equal(found.p, expected, strlen(expected));
}

#define GPU_STAGE 53 /* TracePacket.gpu_render_stage_event */
#define GPU_INFO 128 /* TracePacket.gpu_info */

/* Reads the contexts of all events, in file order; returns how many there are. */
static size_t read_contexts(struct out *o, uint64_t *ret, size_t max)
{
	struct bytes file, packet, event, in;
	uint32_t number;
	size_t n = 0;
	uint64_t v;

	assert_int_equal(o->s->ops->close(o->s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 }), 0);
	read_text(o);
	file = (struct bytes){ (uint8_t *)o->text, (uint8_t *)o->text + o->len };
	while (field_next(&file, &v, &packet)) {
		event = find_bytes(packet, GPU_STAGE);
		while (event.p && (number = field_next(&event, &v, &in))) {
			if (number != GPU_STAGE_CONTEXT)
				continue;
			assert_true(n < max);
			ret[n++] = v;
		}
	}
	free(o->text);
	close(o->fd);
	return n;
}

/* CUDA's context 1 in two processes, in the files of two recordings: four 32-bit contexts. A process's context is the same
 * on all streams. */
TEST_WITH(test_contexts, set_up_info, tear_down)
{
	uint64_t got[2][4];

	for (int i = 0; i < 2; i++) {
		struct out o;

		perfetto_open(&o);
		emit_kernel(&o, PID + 1, 0, 1, 7);
		emit_kernel(&o, PID, 0, 1, 7);
		emit_kernel(&o, PID, 0, 1, 8);
		emit_kernel(&o, PID + 1, 1, 1, 9);
		assert_int_equal(read_contexts(&o, got[i], 4), 4);
		assert_int_equal(got[i][0], got[i][3]);
		assert_int_equal(got[i][1], got[i][2]);
		assert_int_not_equal(got[i][0], got[i][1]);
		assert_in_range(got[i][0], 1, UINT32_MAX);
		assert_in_range(got[i][1], 1, UINT32_MAX);
	}
	for (int i = 0; i < 2; i++)
		assert_true(got[0][i] != got[1][0] && got[0][i] != got[1][1]);
}

TEST_WITH(test_identity, set_up_info, tear_down)
{
	const struct gpu_device about = { .name = "NVIDIA H200", .pci = "0000:1B:00.0", .uuid = "0123456789abcde", .uuid_kind = GPU_UUID_DEVICE };
	struct bytes gpus, gpu;
	uint32_t device;
	struct out o;
	size_t size;
	uint64_t v;

	assert_true(gpu_devices_add(gpu_info_devices(info), &about, 1, false, &device));
	perfetto_open(&o);
	emit_kernel(&o, PID, 1, 1, 7);
	gpus = find_packet(&o, GPU_INFO, &size);
	assert_non_null(gpus.p);
	assert_int_equal(field_next(&gpus, &v, &gpu), 1);
	assert_true(gpu.p == gpu.end); /* device 0 is unknown */
	assert_int_equal(field_next(&gpus, &v, &gpu), 1);
	assert_bytes(gpu, 1, "NVIDIA H200");
	assert_bytes(gpu, 3, "NVIDIA H200");
	assert_bytes(gpu, 7, "0000:1b:00.0");
	gpu.p = find_bytes(gpu, 5).p; /* uuid, with a 0 at its end */
	assert_memory_equal(gpu.p, about.uuid, sizeof(about.uuid));
	assert_int_equal(field_next(&gpus, &v, &gpu), 0);
	free(o.text);
	close(o.fd);
}

/* As many devices as possible, with the longest names: as many as there is room for. */
TEST_WITH(test_many_devices, set_up_info, tear_down)
{
	size_t size = 0, told = 0;
	struct bytes gpus, gpu;
	struct out o;
	uint64_t v;

	for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++) {
		struct gpu_device about = { .pci = "FFFFFFFF:FF:FF.F", .uuid = { (uint8_t)i, 1 }, .uuid_kind = GPU_UUID_MIG };
		uint32_t device;

		memset(about.name, i % 2 ? '\xff' : '"', sizeof(about.name) - 1);
		assert_true(gpu_devices_add(gpu_info_devices(info), &about, i, false, &device));
	}
	perfetto_open(&o);
	emit_kernel(&o, PID, 0, 1, 7);
	gpus = find_packet(&o, GPU_INFO, &size);
	assert_non_null(gpus.p);
	assert_true(size + 8 <= WRITER_EVENT_MAX);
	while (field_next(&gpus, &v, &gpu) == 1)
		told++;
	assert_true(gpus.p == gpus.end);
	assert_in_range(told, 32, GPU_DEVICES_MAX - 1);
	free(o.text);
	close(o.fd);
}

RUN_TESTS(NULL, NULL)
