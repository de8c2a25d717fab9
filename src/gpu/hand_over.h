/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What inftrace and its agent in a traced process (src/gpu/agent/) share: the messages that hand over a ring, and the
 * layout of that ring. Plain C that needs nothing but the compiler, since the agent is built alone.
 *
 * inftrace listens on an abstract SOCK_SEQPACKET Unix socket. The agent learns its name (a text that begins with
 * '@') from the environment, INFTRACE_GPU, when it is loaded at the start of CUDA or ROCm, or from the argument of
 * inftrace_gpu_attach() when it is injected into a running process. Each process connects for itself:
 *
 *	agent    -> inftrace   struct gpu_hello     (SO_PEERCRED says who it is, never the message)
 *	inftrace -> agent      struct gpu_welcome   with one descriptor, SCM_RIGHTS: the memfd of a ring
 *
 * After that neither side sends anything. The connection stays open as long as both live: its end tells inftrace that
 * the process is gone, or has called exec, and tells the agent that nobody reads any more. A target that closes
 * descriptors it does not know also ends it; then the agent stops, too.
 *
 * The memfd is GPU_RING_SIZE(capacity) bytes: a page for the head, then the records. inftrace makes it, sets
 * struct gpu_ring_fixed, and seals it with F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, so that no access to it can
 * fault. It has one writer, the agent of that process, and one reader, inftrace.
 *
 * Writer: a record goes to index head & (capacity - 1) when head - tail < capacity, then head is stored with
 * release; otherwise the writer waits, up to wait_ms in all between two flushes, then drops the record and counts it
 * in dropped_ring. Only threads that have nothing else to do wait. Reader: loads head with acquire, reads
 * (copies first, then checks) the records from its own tail on, then stores tail with release. There is no wake-up: the
 * reader polls at each tick, and the capacity covers what may arrive between two.
 *
 * Everything that the traced process can write is hostile to the reader, which therefore
 *  - keeps capacity, record size and tail in memory of its own and never reads them from the ring;
 *  - takes head - tail > capacity as the end of that ring (a broken or malicious writer);
 *  - copies a record before it looks at it, since it can change at any time;
 *  - checks each value as the comment beside it says; what fails is counted as bad and left out.
 * Times are of the clock in the traced process's time namespace; the reader removes that namespace's offset.
 * The agent in turn trusts inftrace, but does not depend on it: it works on with any tail, and when wanted becomes 0.
 */
#ifndef INFTRACE_GPU_HAND_OVER_H
#define INFTRACE_GPU_HAND_OVER_H

#include <stdint.h>

#define GPU_HAND_OVER_MAGIC UINT32_C(0x47464e49) /* "INFG" */
#define GPU_HAND_OVER_VERSION 2
#define GPU_ENV_SOCKET "INFTRACE_GPU"	/* the name of the socket, with '@' before it */
#define GPU_ENV_CUPTI "INFTRACE_CUPTI"	/* path of libcupti, if the agent should not search for it */
#define GPU_ATTACH_ENTRY "inftrace_gpu_attach" /* int (const char *socket_name), called by an injector */
#define GPU_AGENT_SONAME "inftrace-gpu.so.2"   /* with GPU_HAND_OVER_VERSION; finds an agent already in a process */
#define GPU_SOCKET_NAME_MAX 100		/* with '@', without NUL */

struct gpu_hello {
	uint32_t magic;
	uint32_t version;	/* if it differs, inftrace ends the connection */
	uint32_t record_size;	/* sizeof(struct gpu_record) */
	uint32_t attached;	/* 1: injected into a running process, 0: loaded by the driver */
};

struct gpu_welcome {
	uint32_t magic;
	uint32_t version;
	int32_t error;		/* 0, or a negative errno without a descriptor: the agent goes away quietly */
	uint32_t reserved;
};

/* What the agent is doing. The reader takes an unknown value as GPU_STATE_FAILED. */
enum gpu_state {
	GPU_STATE_STARTING,	/* also while CUPTI is searched for */
	GPU_STATE_OFF,		/* ready; nothing is collected, no function of CUPTI is called */
	GPU_STATE_ON,		/* collects what is in .collected */
	GPU_STATE_OVER_BUDGET,	/* collects nothing for 1 to 60 s, or until wanted changes: it has cost more than budget_ppm allows */
	GPU_STATE_NO_CUPTI,	/* libcupti was not found; final. The CPU side remains. */
	GPU_STATE_OTHER_USER,	/* the process has another user of CUPTI (its error 39): the agent leaves it alone; final */
	GPU_STATE_FAILED,	/* .failed_call of CUPTI failed with .error; final */
	GPU_STATE_GONE,		/* the agent has left and writes nothing any more; final */
	GPU_STATE_MAX
};

/* Whose library collects. Comments on CUPTI here hold for rocprofiler-sdk, too. */
enum gpu_vendor {
	GPU_VENDOR_NVIDIA,	/* CUPTI */
	GPU_VENDOR_AMD,		/* rocprofiler-sdk */
	GPU_VENDOR_MAX
};

/* .failed_call */
enum gpu_call {
	GPU_CALL_NONE,
	GPU_CALL_SYMBOLS,	/* a function is missing in this libcupti */
	GPU_CALL_REGISTER,	/* cuptiActivityRegisterCallbacks */
	GPU_CALL_ENABLE,	/* cuptiActivityEnable */
	GPU_CALL_TIMESTAMP,	/* cuptiGetTimestamp */
	GPU_CALL_FLUSH,		/* cuptiActivityFlushAll */
	GPU_CALL_MEMORY,	/* no memory, or no thread could be made: .error is an errno */
	GPU_CALL_MAX
};

/* .wanted and .collected */
#define GPU_WANT_KERNELS 0x1u	/* each kernel, those of CUDA graphs node by node */
#define GPU_WANT_COPIES 0x2u	/* memory copies and memory sets */
#define GPU_WANT_GRAPHS 0x4u	/* one record per graph launch instead of one per node: far cheaper */
#define GPU_WANT_ALL 0x7u

/* Set by inftrace before the memfd is handed over, and not changed after that. */
struct gpu_ring_fixed {
	uint32_t magic;
	uint32_t version;
	uint32_t record_size;
	uint32_t capacity;	/* in records, a power of two */
};

/* Written by the agent alone. Counters only grow; the reader shows them as the process's own claims. */
struct gpu_ring_writer {
	uint64_t head __attribute__((aligned(64)));

	uint64_t records __attribute__((aligned(64))); /* kernels, copies, sets, graph launches that CUPTI gave, kept or dropped */
	uint64_t dropped_ring;	/* of records: not written, since the ring was full */
	uint64_t dropped_cupti;	/* lost by CUPTI, by its own count; not in records */
	uint64_t dropped_clock;	/* of records: without a start or an end (zero timestamps), or ending before they start */
	uint64_t dropped_memory; /* of records: no memory for a name or buffer */
	uint64_t unknown;	/* of records: of an unknown kind, left out */
	uint64_t own_ns;	/* CPU time of the agent: its thread, and its callbacks on CUPTI's threads */
	uint64_t waited_ns;	/* time that all threads waited for room in the ring */

	uint64_t on_since __attribute__((aligned(64))); /* CLOCK_BOOTTIME ns of the last enabling; 0: never */
	uint64_t flushed_until;	/* CLOCK_BOOTTIME ns: what ended before it has been written, or counted as dropped. Only grows, with each
				 * flush as far as is known then */
	uint32_t wanted_seen;	/* the last wanted_change carried out, flush included */
	uint32_t state;		/* enum gpu_state */
	uint32_t collected;	/* GPU_WANT_*: being collected now; at most what is wanted */
	int32_t error;		/* CUPTI's error (positive) or errno (negative) behind state; 0: none */
	uint32_t failed_call;	/* enum gpu_call */
	uint32_t version;	/* cuptiGetVersion: 16 = 11.5, 19 = 12.0, ..., 130000 = 13.0; rocprofiler-sdk: 10000 for 1.0.0; 0: not loaded */
	uint32_t buffers_open;	/* buffers that CUPTI has at present */
	uint32_t vendor;	/* enum gpu_vendor; the reader takes others as the first */
	uint64_t off_since;	/* CLOCK_BOOTTIME ns of the last disabling; 0: never. Written before on_since is written again */
};

/*
 * The agent's last comparison of CUPTI's clock with CLOCK_BOOTTIME. Records carry CLOCK_BOOTTIME already: only the
 * agent knows the comparisons before and after each record, between which it interpolates to remove drift and steps of
 * CLOCK_REALTIME (which CUPTI's clock follows). This states the clock uncertainty: after the next comparison, a time is
 * known to be off by at most 2 * residual_ns + bend_ns, unless it has the flag GPU_RECORD_F_CLOCK.
 * generation is odd during a write; the reader retries a few times, then does without.
 */
struct gpu_ring_clock {
	uint32_t generation __attribute__((aligned(64)));
	uint32_t comparisons;	/* so far */
	int64_t offset_ns;	/* CLOCK_BOOTTIME - CUPTI's clock */
	uint64_t at_ns;		/* CLOCK_BOOTTIME of the comparison */
	uint64_t residual_ns;	/* largest so far: half of the time between the two CLOCK_BOOTTIME readings around CUPTI's */
	uint64_t bend_ns;	/* largest so far: distance from where the two comparisons before it pointed */
	uint32_t steps;		/* how often the clocks moved against each other by more than drift explains */
	uint32_t reserved;
};

/* Written by inftrace alone. */
struct gpu_ring_reader {
	uint64_t tail __attribute__((aligned(64)));

	uint32_t wanted_change __attribute__((aligned(64))); /* a futex (shared): add 1 and wake after changing what follows */
	uint32_t wanted;	/* GPU_WANT_*; 0: collect nothing */
	uint32_t budget_ppm;	/* own_ns per elapsed time, in millionths; 0: no limit */
	uint32_t flush_ms;	/* interval of flushes; 0: the agent chooses */
	uint32_t leave;		/* 1: stop, flush and go away for good */
	uint32_t wait_ms;	/* total wait for room in the ring between two flushes; 0: none */
};

struct gpu_ring {
	struct gpu_ring_fixed fixed;
	struct gpu_ring_writer writer;
	struct gpu_ring_clock clock;
	struct gpu_ring_reader reader;
};

#define GPU_RING_HEAD_SIZE 4096u
#define GPU_RING_SIZE(capacity) (GPU_RING_HEAD_SIZE + (uint64_t)(capacity) * sizeof(struct gpu_record))
#define GPU_RING_RECORDS(ring) ((struct gpu_record *)((char *)(ring) + GPU_RING_HEAD_SIZE))

enum gpu_record_kind {
	GPU_RECORD_NONE,	/* never written: the reader counts it as bad */
	GPU_RECORD_KERNEL,
	GPU_RECORD_COPY,
	GPU_RECORD_SET,
	GPU_RECORD_GRAPH,	/* a launch of a graph as a whole */
	GPU_RECORD_NAME,	/* a piece of a name; all pieces come before the first record that uses it */
	GPU_RECORD_DROPPED,	/* records are missing here: .dropped */
	GPU_RECORD_DEVICE,	/* .about describes .device; mostly before its first record */
	GPU_RECORD_KIND_MAX
};

/* .flags */
#define GPU_RECORD_F_CLOCK 0x1u	/* the clocks were stepped nearby: start and end are unreliable */

#define GPU_NAME_CHUNK 104
#define GPU_NAME_MAX 8192	/* longer names are cut by the agent; the reader ignores pieces beyond */

/* enum gpu_copy_kind follows CUPTI's numbers; the reader shows others as "other" */
enum gpu_copy_kind {
	GPU_COPY_HOST_TO_DEVICE = 1,
	GPU_COPY_DEVICE_TO_HOST = 2,
	GPU_COPY_DEVICE_TO_DEVICE = 8,
	GPU_COPY_HOST_TO_HOST = 9,
	GPU_COPY_PEER_TO_PEER = 10,
};

struct gpu_kernel {
	uint32_t grid[3];	/* any value: products can overflow */
	uint32_t block[3];
	uint32_t shared_static;	/* bytes */
	uint32_t shared_dynamic;
	uint64_t graph_node;	/* 0: not of a graph */
	uint32_t graph;		/* 0: not of a graph, or not known to this CUPTI */
	uint32_t registers;	/* per thread */
	uint32_t name;		/* id of a GPU_RECORD_NAME; the reader shows an id it has not seen as unknown */
	uint32_t reserved;
};

struct gpu_copy {
	uint64_t bytes;		/* any value */
	uint32_t kind;		/* of a copy: enum gpu_copy_kind; of a set: the value that is written */
	uint32_t source;	/* of a copy: CUPTI's kind of memory (1 pageable, 2 pinned, 3 device, ...) */
	uint32_t destination;	/* of a copy, and of a set */
	uint32_t graph;
	uint64_t graph_node;
};

struct gpu_graph {
	uint32_t graph;
	uint32_t reserved;
};

struct gpu_name {
	uint32_t id;		/* from 1 on; the reader bounds how many it keeps, and their bytes */
	uint16_t length;	/* of the whole name, at most GPU_NAME_MAX */
	uint16_t offset;	/* of this piece, a multiple of GPU_NAME_CHUNK */
	char text[GPU_NAME_CHUNK]; /* no NUL at the end; any bytes: to be escaped */
};

struct gpu_dropped {
	uint64_t ring;		/* growth of gpu_ring_writer's counters since the previous mark */
	uint64_t cupti;
};

#define GPU_DEVICE_NAME_MAX 72

enum gpu_uuid_kind {
	GPU_UUID_NONE,   /* not known; the reader treats unknown values alike */
	GPU_UUID_DEVICE, /* "GPU-...", as in nvidia-smi and CUDA_VISIBLE_DEVICES */
	GPU_UUID_MIG,    /* "MIG-...": an instance of a partitioned device */
};

/* From the driver. Texts are NUL-terminated; "": not known. */
struct gpu_device {
	char name[GPU_DEVICE_NAME_MAX]; /* any bytes: to be escaped */
	char pci[20];                   /* PCI address, "0000:1B:00.0"; the reader takes no other form */
	uint8_t uuid[16];
	uint32_t uuid_kind; /* enum gpu_uuid_kind */
};

/*
 * Records of one stream come in the order of CUPTI's buffers, which is not always the order of time. start and end
 * are CLOCK_BOOTTIME ns; the reader leaves out end < start, end beyond now, and start before the ring was made.
 */
struct gpu_record {
	uint16_t kind;		/* enum gpu_record_kind; others are bad */
	uint16_t flags;
	uint32_t device;	/* CUPTI's number; the reader bounds how many devices, contexts and streams it tells apart */
	union {
		struct gpu_name name; /* GPU_RECORD_NAME: in place of all that follows */
		struct gpu_dropped dropped;
		struct gpu_device about;
		struct {
			uint64_t start;
			uint64_t end;
			uint32_t context;
			uint32_t stream;
			uint32_t correlation; /* of the launch; unique within a process while it is on */
			uint32_t thread;      /* that launched it; 0: not known, as always with CUPTI */
			union {
				struct gpu_kernel kernel;
				struct gpu_copy copy; /* GPU_RECORD_COPY and GPU_RECORD_SET */
				struct gpu_graph graph;
			};
		};
	};
	uint64_t launched; /* CLOCK_BOOTTIME ns within the launch call of .thread; 0: not known. Any value */
};

_Static_assert(sizeof(struct gpu_hello) == 16 && sizeof(struct gpu_welcome) == 16, "messages");
_Static_assert(sizeof(struct gpu_record) == 128, "two cache lines");
_Static_assert(__builtin_offsetof(struct gpu_record, start) == 8, "record: start");
_Static_assert(__builtin_offsetof(struct gpu_record, kernel) == 40, "record: kernel");
_Static_assert(__builtin_offsetof(struct gpu_record, name.text) == 16, "record: text");
_Static_assert(__builtin_offsetof(struct gpu_ring, writer) == 64, "ring: writer");
_Static_assert(__builtin_offsetof(struct gpu_ring, writer.records) == 128, "ring: counters");
_Static_assert(__builtin_offsetof(struct gpu_ring, writer.on_since) == 192, "ring: state");
_Static_assert(__builtin_offsetof(struct gpu_ring, clock) == 256, "ring: clock");
_Static_assert(__builtin_offsetof(struct gpu_ring, reader) == 320, "ring: reader");
_Static_assert(__builtin_offsetof(struct gpu_ring, reader.wanted_change) == 384, "ring: wanted");
_Static_assert(sizeof(struct gpu_ring) <= GPU_RING_HEAD_SIZE, "ring: head");

#endif
