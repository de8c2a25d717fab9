/* SPDX-License-Identifier: BSD-2-Clause */
/* Field numbers of a Perfetto trace, for its writer and its reader: from protos/perfetto/ in Perfetto's sources. */
#ifndef INFTRACE_PERFETTO_FIELDS_H
#define INFTRACE_PERFETTO_FIELDS_H

/* Trace */
#define TRACE_PACKET 1

/* TracePacket */
enum {
	PACKET_FTRACE = 1,
	PACKET_PROCESS_TREE = 2,
	PACKET_CLOCKS = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_CONFIG = 33,
	PACKET_CLEARED = 41, /* as SEQUENCE_F_CLEARED, from before there were flags */
	PACKET_DROPPED = 42,
	PACKET_SYSTEM = 45,
	PACKET_COMPRESSED = 50,
	PACKET_GPU_STAGE = 53,
	PACKET_CLOCK = 58,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK = 60,
	PACKET_PERF_SAMPLE = 66,
	PACKET_FIRST = 87,
	PACKET_UUID = 89,
	PACKET_GPU_INFO = 128,
};

/* Clocks: BuiltinClock, and from 64 on clocks of one sequence. */
#define CLOCK_OF_REALTIME 1
#define CLOCK_OF_MONOTONIC 3
#define CLOCK_OF_BOOTTIME 6
#define CLOCK_DELTAS 64 /* relative to the previous packet with this clock */

/* Packets of one sequence share interned names and the clock of deltas. */
#define SEQUENCE_EVENTS 1
#define SEQUENCE_FTRACE 2
#define SEQUENCE_SAMPLES 3 /* stacks of threads that run */
#define SEQUENCE_WAITS 4   /* stacks of threads that wait */
#define SEQUENCE_GPU 5
#define SEQUENCE_CALLS 6   /* and higher: one for each thread */
#define SEQUENCE_F_CLEARED 1
#define SEQUENCE_F_NEEDS 2

/* TrackDescriptor */
enum {
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS_FIELD = 3, /* pid 1, process_name 6 */
	TRACK_THREAD_FIELD = 4,	 /* pid 1, tid 2, thread_name 5 */
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	TRACK_DISALLOW_MERGING = 9,
	TRACK_CHILD_ORDERING = 11,
	TRACK_RANK = 12,
};

/* InternedData: what stacks consist of. Each has its iid as field 1, texts their text as field 2. */
enum {
	INTERNED_FUNCTION = 5,
	INTERNED_FRAME = 6,	/* function 2, mapping 3, rel_pc 4 */
	INTERNED_STACK = 7,	/* frames 2, the outermost first */
	INTERNED_BUILD_ID = 16, /* bytes */
	INTERNED_PATH = 17,
	INTERNED_MAPPING = 19, /* build_id 2, parts of the path 7 */
};

/* InternedData, and its extension GpuInternedData: what GpuRenderStageEvents refer to. Each has its iid as field 1. */
enum {
	INTERNED_GPU_CONTEXT = 23, /* pid 2, api 3 */
	INTERNED_GPU_SPEC = 24,	   /* name 2, description 3, category 4: a queue or a stage */
	INTERNED_GPU_KERNEL = 1000, /* name 2, demangled_name 3 */
	INTERNED_GPU_ARG = 1001,   /* name 2 */
};

/* GpuRenderStageEvent */
enum {
	GPU_STAGE_EVENT = 1,
	GPU_STAGE_DURATION = 2,
	GPU_STAGE_CONTEXT = 5,
	GPU_STAGE_SUBMISSION = 10,
	GPU_STAGE_GPU = 11,
	GPU_STAGE_QUEUE = 13,
	GPU_STAGE_STAGE = 14,
	GPU_STAGE_NAME = 17,
	GPU_STAGE_KERNEL_IID = 19,
	GPU_STAGE_NAME_IID = 20,
	GPU_STAGE_LAUNCH = 21,
};

/* GpuRenderStageEvent.ComputeKernelLaunch */
enum {
	GPU_LAUNCH_GRID = 1, /* x, y, z */
	GPU_LAUNCH_BLOCK = 2,
	GPU_LAUNCH_ARG = 3, /* name_iid 1, uint_value 4, string_value 6 */
};

/* InternedGpuRenderStageSpecification.category, InternedGraphicsContext.api */
#define GPU_CATEGORY_OTHER 0
#define GPU_CATEGORY_COMPUTE 2
#define GPU_API_CUDA 4
#define GPU_API_HIP 5

/* TrackEvent: the extension GpuTrackEvent.gpu_correlation, whose field 1 are the events that it submitted */
#define EVENT_GPU_CORRELATION 3000

/* PerfSample */
enum {
	SAMPLE_CPU_FIELD = 1,
	SAMPLE_PID = 2,
	SAMPLE_TID = 3,
	SAMPLE_STACK = 4,
	SAMPLE_MODE = 5,
	SAMPLE_COUNT = 6,	 /* of the timebase */
	SAMPLE_UNWIND_ERROR = 16,
	SAMPLE_KERNEL_LOST = 17, /* a packet with it is no sample */
	SAMPLE_SKIPPED = 18,	 /* likewise */
	SAMPLE_PRODUCER = 19,	 /* likewise */
};

/* Profiling.CpuMode, StackUnwindError */
#define SAMPLE_MODE_KERNEL 1
#define SAMPLE_MODE_USER 2
#define SAMPLE_UNWIND_MEMORY 2

/* TracePacketDefaults.perf_sample_defaults.timebase (PerfEvents.Timebase) */
#define DEFAULTS_PERF_SAMPLE 12
#define PERF_DEFAULTS_TIMEBASE 1
enum {
	TIMEBASE_PERIOD = 1,
	TIMEBASE_FREQUENCY = 2,
	TIMEBASE_TRACEPOINT = 3,
	TIMEBASE_COUNTER = 4,
	TIMEBASE_RAW = 5,
	TIMEBASE_NAME = 10,
	TIMEBASE_CLOCK = 11,
};

/* PerfEvents.Counter */
#define COUNTER_CPU_CLOCK 1
#define COUNTER_TASK_CLOCK 3

/* The names of inftrace's timebases. A counter is the time in nanoseconds that threads have run, or waited, up to each
 * sample, in the order of the file: a sample stands for what it adds. */
#define TIMEBASE_ON_CPU "CPU time"
#define TIMEBASE_OFF_CPU "off-CPU"

#endif
