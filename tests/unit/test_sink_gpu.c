/* SPDX-License-Identifier: BSD-2-Clause */
/* What the formats make of records of GPUs. */
#include "gpu/hand_over.h"
#include "gpu_info.h"

static int set_up(void **state)
{
	if (set_up_info(state))
		return -1;
	add_probe("mock_step", ROLE_STEP, PROBE_F_SPAN, NULL, "u64 arg1");
	add_probe("cuLaunchKernel", ROLE_LAUNCH, PROBE_F_SPAN, NULL, "u64 arg1");
	return 0;
}

static void feed(struct out *o)
{
	struct rec_function launch = { .h = hdr(REC_FUNCTION, 1) };
	struct rec_gpu kernel = {
		.h = hdr(REC_GPU, GPU_KERNEL),
		.device = 1,
		.context = 3,
		.stream = 7,
		.correlation = 99,
		.grid = { 4, 5, 6 },
		.block = { 128, 2, 1 },
		.shared = 1024,
		.launch_tid = TID,
		.launch_ns = START + 10000,
		.launched_ns = START + 11234,
	};
	struct rec_gpu copy = { .h = hdr(REC_GPU, GPU_COPY), .device = 1, .context = 3, .stream = 7, .bytes = 123400 };
	struct rec_gpu_load load = { .h = hdr(REC_GPU_LOAD, 1), .busy_ns = 617, .waits = 3, .has_waits = 1 };
	struct rec_gpu_step step = {
		.h = hdr(REC_GPU_STEP, 0),
		.step = 12,
		.device = 1,
		.kernels = 1,
		.residual_ns = 56,
		.n_devices = 2,
		.devices = { { .device = 1, .kernels = 1 }, { .device = 3 } },
	};
	const struct gpu_track stream = { .device = 1, .tgid = PID, .context = 3, .stream = 7 };

	kernel.name = gpu_info_name(info, "_ZN7cutlass6KernelINS_4gemm6kernel4GemmEEEvNT_6ParamsE");
	kernel.h.flags = GPU_F_FIRST;
	kernel.h.start_ns = START + 20000;
	copy.copy_kind = GPU_COPY_HOST_TO_DEVICE;
	copy.h.start_ns = START + 30000;
	copy.h.dur_ns = 10000;
	for (int i = 0; i < GPU_PART_MAX; i++)
		step.devices[0].ns[i] = (uint64_t)i;
	gpu_info_track(info, &stream, kernel.h.start_ns, kernel.h.start_ns + kernel.h.dur_ns, &kernel.track);
	gpu_info_track(info, &stream, copy.h.start_ns, copy.h.start_ns + copy.h.dur_ns, &copy.track);
	for (int i = 0; i < 2; i++) {
		const struct gpu_track steps = { .device = step.devices[i].device, .tgid = PID, .stream = GPU_STREAM_STEPS };

		gpu_info_track(info, &steps, step.h.start_ns, step.h.start_ns + step.h.dur_ns, &step.devices[i].track);
	}
	sink_record(o->s, &launch.h, REC_FUNCTION_SIZE(1));
	EMIT(o, &kernel);
	EMIT(o, &copy);
	EMIT(o, &step);
	EMIT(o, &load);
	load.h.tgid++; /* another process on it */
	load.has_waits = 0;
	EMIT(o, &load);
}

TEST_WITH(test_chrome, set_up, tear_down)
{
	struct json_object *e;
	struct out o;

	chrome_open(&o);
	feed(&o);
	chrome_read(&o);
	e = get(&o, "X", "cutlass::Kernel");
	assert_span(e, "kernel", "20.000", "1.234");
	assert_text(arg(e, "kernel"), "cutlass::Kernel<cutlass::gemm::kernel::Gemm>");
	assert_text(arg(e, "device"), "1");
	assert_text(arg(e, "stream"), "7");
	assert_text(arg(e, "correlation"), "99");
	assert_string_equal(arg(e, "grid"), "[ 4, 5, 6 ]");
	assert_text(arg(e, "queued_us"), "8.766");
	e = get(&o, "X", "Memcpy HtoD");
	assert_span(e, "gpu_memcpy", "30.000", "10.000");
	assert_text(arg(e, "bytes"), "123400");
	assert_text(arg(e, "memory bandwidth (GB/s)"), "12.340");
	e = find(&o, "X", "step 12", 0);
	assert_text(arg(e, "gpu_idle_launch_us"), "0.002");
	assert_text(arg(e, "kernels"), "1");
	assert_text(arg(find(&o, "X", "step 12", 1), "kernels"), "0"); /* of the other device */
	e = get(&o, "C", "busy");
	assert_text(field(e, "ts"), "10.000");
	assert_text(arg(e, "%"), "50");
	assert_text(arg(get(&o, "C", "launched, not done"), "launches"), "3");
	get(&o, "C", "busy (pid 5000001)");
	assert_null(find(&o, "C", "launched, not done (pid 5000001)", 0));
	e = get(&o, "s", "ac2g");
	assert_track(e, PID, TID);
	assert_text(field(e, "ts"), "10.000");
	e = get(&o, "f", "ac2g");
	assert_text(field(e, "ts"), "20.000");
	chrome_done(&o);
}

/* An arrow waits for its slice, and is left out with it. */
TEST_WITH(test_no_slice, set_up, tear_down)
{
	struct rec_gpu kernel = { .h = hdr(REC_GPU, GPU_KERNEL), .launch_tid = TID, .launch_ns = START + 1, .launched_ns = START + 2 };
	struct out o;

	kernel.h.flags = GPU_F_FIRST;
	gpu_info_track(info, &(struct gpu_track){ .tgid = PID }, START, START, &kernel.track);
	chrome_open(&o);
	EMIT(&o, &kernel);
	chrome_read(&o);
	assert_null(find(&o, "s", "ac2g", 0));
	get(&o, "X", "kernel");
	chrome_done(&o);
}

/* Of several devices each is told. */
TEST_WITH(test_devices, set_up, tear_down)
{
	struct rec_step step = { .h = hdr(REC_STEP, 0), .number = 1 };
	struct rec_gpu_step gpu = { .h = hdr(REC_GPU_STEP, 0), .step = 1, .device = 7, .kernels = 3, .n_devices = 40 };
	struct out o;

	share_out(&step, 1234);
	profile_open(&o, &plain);
	gpu_info_expect(info, PID, true);
	EMIT(&o, &step);
	gpu.ns[GPU_PART_BUSY] = 1234;
	for (uint32_t i = 0; i < GPU_STEP_DEVICES; i++)
		gpu.devices[i] = (struct gpu_step_device){ .device = i, .kernels = i, .ns = { [GPU_PART_COPY] = 1000, [GPU_PART_IDLE_WAIT] = 234 } };
	gpu.devices[7].after_ns = 77;
	EMIT(&o, &gpu);
	flush(&o);
	o.s->ops->close(o.s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 });
	read_text(&o);
	assert_non_null(strstr(o.text, "\"gpu_devices\":40,\"gpu_device0_kernels\":0,\"gpu_device0_copies\":0,\"gpu_device0_copy_us\":1.000,"
				       "\"gpu_device0_idle_wait_us\":0.234,\"gpu_device1_kernels\":1,"));
	assert_non_null(strstr(o.text, "\"gpu_device7_idle_wait_us\":0.234,\"gpu_device7_after_us\":0.077,\"gpu_device8_kernels\":8,"));
	assert_non_null(strstr(o.text, "\"gpu_device15_idle_wait_us\":0.234},"));
	validate(&o, true);
	profile_done(&o);
}

/* A line waits for what the GPU did, and is written without it at the end. */
TEST_WITH(test_profile, set_up, tear_down)
{
	struct rec_step step = { .h = hdr(REC_STEP, 0) };
	struct rec_gpu_step gpu = { .h = hdr(REC_GPU_STEP, 0), .device = 2, .kernels = 3 };
	const struct gpu_device about = { .name = "No \"Such\" GPU", .pci = "0000:1B:00.0", .uuid = { 0xab, 0x01, [15] = 0xcd }, .uuid_kind = GPU_UUID_DEVICE };
	uint32_t track;
	struct out o;

	share_out(&step, 1234);
	profile_open(&o, &plain);
	gpu_info_expect(info, PID, true);
	for (uint32_t i = 0; i < 4; i++) {
		step.number = i;
		EMIT(&o, &step);
	}
	flush(&o);
	read_text(&o);
	assert_int_equal(o.len, 0);
	gpu.step = 1;
	gpu.ns[GPU_PART_IDLE_WAIT] = 1234;
	EMIT(&o, &gpu);
	gpu.step = 2;
	gpu.h.flags = GPU_STEP_F_LOST;
	EMIT(&o, &gpu);
	flush(&o);
	read_text(&o);
	assert_non_null(strstr(o.text, "\"step\":1,"));
	assert_non_null(strstr(o.text, "\"gpu_device\":2,\"gpu_kernels\":3,\"gpu_copies\":0,\"gpu_busy_us\":0.000,\"gpu_copy_us\":0.000,"
				       "\"gpu_idle_launch_us\":0.000,\"gpu_idle_wait_us\":1.234,\"gpu_unknown_us\":0.000,"
				       "\"gpu_residual_us\":0.000},\"stage_us\":{"));
	assert_non_null(strstr(o.text, "\"gpu_lost\":true}"));
	assert_null(strstr(o.text, "\"step\":0,"));
	gpu_info_expect(info, PID, false);
	assert_true(gpu_devices_add(gpu_info_devices(info), &about, 2, false, &track) && track == 2);
	assert_true(gpu_info_track(info, &(struct gpu_track){ .device = 2, .tgid = PID }, START, START, &track));
	step.number = 4;
	EMIT(&o, &step); /* is written at once */
	flush(&o);
	read_text(&o);
	assert_non_null(strstr(o.text, "\"step\":4,"));
	o.s->ops->close(o.s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 });
	read_text(&o);
	assert_non_null(strstr(o.text, "\"step\":0,"));
	assert_non_null(strstr(o.text, "\"step\":3,"));
	assert_non_null(strstr(o.text, ",\"gpu_device2_name\":\"No \\\"Such\\\" GPU\",\"gpu_device2_pci\":\"0000:1b:00.0\","
				       "\"gpu_device2_uuid\":\"GPU-ab010000-0000-0000-0000-0000000000cd\"},"));
	validate(&o, true);
	profile_done(&o);
}

RUN_TESTS(NULL, NULL)
