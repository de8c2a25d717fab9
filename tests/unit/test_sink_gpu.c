/* SPDX-License-Identifier: BSD-2-Clause */
/* What the formats make of GPU records. */
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
	struct out o;

	chrome_open(&o);
	feed(&o);
	chrome_expect(&o, NULL, "{'ph':'X','pid':5000000,'tid':5000001,'ts':10.000,'dur':1.234,'name':'cuLaunchKernel','cat':'launch','args':{'a':0}}\n"
				"{'ph':'X','pid':4195001,'tid':4196000,'ts':20.000,'dur':1.234,'name':'cutlass::Kernel','cat':'kernel','args':{'device':1,'context':3,"
				"'stream':7,'correlation':99,'pid':5000000,'grid':[4,5,6],'block':[128,2,1],'shared memory':1024,"
				"'kernel':'cutlass::Kernel<cutlass::gemm::kernel::Gemm>','queued_us':8.766}}\n"
				"{'ph':'s','id':1,'pid':5000000,'tid':5000001,'ts':10.000,'name':'ac2g','cat':'ac2g'}\n"
				"{'ph':'f','bp':'e','id':1,'pid':4195001,'tid':4196000,'ts':20.000,'name':'ac2g','cat':'ac2g'}\n"
				"{'ph':'X','pid':4195001,'tid':4196000,'ts':30.000,'dur':10.000,'name':'Memcpy HtoD','cat':'gpu_memcpy','args':{'device':1,'context':3,"
				"'stream':7,'correlation':0,'pid':5000000,'bytes':123400,'memory bandwidth (GB/s)':12.340,'kind':'host to device'}}\n"
				"{'ph':'X','pid':4195001,'tid':4196001,'ts':10.000,'dur':1.234,'name':'step 12','cat':'gpu_step','args':{'step':12,'pid':5000000,"
				"'kernels':1,'copies':0,'gpu_busy_us':0.000,'gpu_copy_us':0.001,'gpu_idle_launch_us':0.002,'gpu_idle_wait_us':0.003,"
				"'gpu_collective_us':0.004,'gpu_unknown_us':0.005,'residual_us':0.056}}\n"
				"{'ph':'X','pid':4195003,'tid':4196002,'ts':10.000,'dur':1.234,'name':'step 12','cat':'gpu_step','args':{'step':12,'pid':5000000,"
				"'kernels':0,'copies':0,'gpu_busy_us':0.000,'gpu_copy_us':0.000,'gpu_idle_launch_us':0.000,'gpu_idle_wait_us':0.000,"
				"'gpu_collective_us':0.000,'gpu_unknown_us':0.000,'residual_us':0.056}}\n"
				"{'ph':'C','pid':4195001,'tid':4195001,'ts':10.000,'name':'busy','cat':'gpu','args':{'%':50}}\n"
				"{'ph':'C','pid':4195001,'tid':4195001,'ts':10.000,'name':'launched, not done','cat':'gpu','args':{'launches':3}}\n"
				"{'ph':'C','pid':4195001,'tid':4195001,'ts':10.000,'name':'busy (pid 5000001)','cat':'gpu','args':{'%':50}}\n");
}

/* A flow waits for its slice, and is dropped with it. */
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

static void emit_call(struct out *o, uint32_t probe, uint64_t from, uint64_t to)
{
	struct rec_function r = { .h = hdr(REC_FUNCTION, probe) };

	r.h.start_ns = START + from;
	r.h.dur_ns = to - from;
	sink_record(o->s, &r.h, REC_FUNCTION_SIZE(1));
}

/* In Kineto's form a kernel has the number of the innermost operator around its launch, in whatever order their records come. */
TEST_WITH(test_kineto, set_up, tear_down)
{
	static const uint64_t launches[] = { 12000, 30000, 60000 };
	struct rec_gpu kernel = { .h = hdr(REC_GPU, GPU_KERNEL), .launch_tid = TID };
	struct out o;

	add_probe("op", ROLE_OP, PROBE_F_SPAN, NULL, "u64 arg1");
	rec.kineto = true;
	chrome_open(&o);
	rec.kineto = false;
	gpu_info_track(info, &(struct gpu_track){ .tgid = PID }, START, START, &kernel.track);
	for (uint32_t i = 0; i < 3; i++) {
		kernel.correlation = 11 + i;
		kernel.launch_ns = START + launches[i];
		kernel.launched_ns = kernel.launch_ns + 1000;
		EMIT(&o, &kernel);
	}
	emit_call(&o, 2, 10000, 20000); /* the 4th record */
	emit_call(&o, 1, launches[0], launches[0] + 1000);
	emit_call(&o, 1, launches[2], launches[2] + 1000);
	emit_call(&o, 2, 40000, 50000);
	emit_call(&o, 1, launches[1], launches[1] + 1000);
	emit_call(&o, 2, 25000, 55000); /* the 9th */
	assert_int_equal(o.s->ops->close(o.s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 }), 0);
	read_text(&o);
	assert_non_null(strstr(o.text, "\"correlation\":11,\"External id\":4,"));
	assert_non_null(strstr(o.text, "\"correlation\":12,\"External id\":9,"));
	assert_non_null(strstr(o.text, "\"correlation\":13,\"pid\""));
	profile_done(&o);
}

/* Many launches are kept apart, until their kernels come. */
TEST_WITH(test_kineto_launches, set_up, tear_down)
{
	enum { LAUNCHES = 4000 };
	struct rec_gpu kernel = { .h = hdr(REC_GPU, GPU_KERNEL), .launch_tid = TID };
	uint64_t at[LAUNCHES];
	struct out o;
	int n = 0;

	add_probe("op", ROLE_OP, PROBE_F_SPAN, NULL, "u64 arg1");
	rec.kineto = true;
	chrome_open(&o);
	rec.kineto = false;
	gpu_info_track(info, &(struct gpu_track){ .tgid = PID }, START, START, &kernel.track);
	for (uint64_t i = 0; i < LAUNCHES; i++) {
		at[i] = i * 1000 + i * i * 7919 % 797;
		emit_call(&o, 1, at[i], at[i] + 100);
		emit_call(&o, 2, at[i], at[i] + 200);
	}
	for (uint64_t i = 0; i < LAUNCHES; i++) {
		kernel.launch_ns = START + at[i];
		kernel.launched_ns = kernel.launch_ns + 100;
		EMIT(&o, &kernel);
	}
	assert_int_equal(o.s->ops->close(o.s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 }), 0);
	read_text(&o);
	for (const char *s = o.text; (s = strstr(s, "\"correlation\":0,\"External id\":")); s++)
		n++;
	assert_int_equal(n, LAUNCHES);
	profile_done(&o);
}

/* Each of several devices is reported. */
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

/* A line waits for what the GPU did; at the end it is written without it. */
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
