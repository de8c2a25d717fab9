// SPDX-License-Identifier: BSD-2-Clause
#include "format/derive.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "gpu/hand_over.h"
#include "util/fmt.h"
#include "util/names.h"
#include "wait_log.h"

bool counts_ipc(const struct counters *c, const uint64_t *n, uint64_t *ret_ipc)
{
	if (c->set != COUNTERS_HARDWARE || !counters_have(c, COUNTER_INSTRUCTIONS) || !counters_have(c, COUNTER_CYCLES) || !n[COUNTER_CYCLES])
		return false;
	*ret_ipc = (uint64_t)((unsigned __int128)n[COUNTER_INSTRUCTIONS] * 1000 / n[COUNTER_CYCLES]);
	return true;
}

static char *fmt_key(char *p, const char *name)
{
	return fmt_lit(fmt_json_str(fmt_comma(p), name, strlen(name)), ":");
}

char *counts_fmt(char *p, const struct counters *c, const uint64_t *n)
{
	uint64_t ipc;

	for (unsigned int i = 0; i < PMU_MAX; i++) {
		if (counters_have(c, i))
			p = fmt_u64(fmt_key(p, counter_name(c->set, i)), n[i]);
	}
	/* in thousandths, as fmt_us() writes them */
	return counts_ipc(c, n, &ipc) ? fmt_us(fmt_key(p, "ipc"), ipc) : p;
}

const char *ipc_name(const struct rec_hdr *h)
{
	uint32_t kind = (h->flags & SYSCALL_IPC_MASK) >> SYSCALL_IPC_SHIFT;
	enum transfer way;

	if (!kind || kind >= IPC_MAX)
		return NULL;
	if (h->flags & SYSCALL_F_BLOCKED)
		return "ipc_slow";
	way = syscall_transfer(h->id);
	if (!way)
		way = kind == IPC_FUTEX_WAKE ? TRANSFER_SEND : TRANSFER_RECEIVE;
	return way == TRANSFER_SEND ? "ipc_fast_send" : "ipc_fast_recv";
}

const char *ipc_kind_name(const struct rec_hdr *h)
{
	static const char *const kinds[IPC_MAX] = {
		[IPC_PIPE] = "pipe",
		[IPC_UNIX] = "unix",
		[IPC_EVENTFD] = "eventfd",
		[IPC_FUTEX_WAIT] = "futex",
		[IPC_FUTEX_WAKE] = "futex",
	};

	return kinds[(h->flags & SYSCALL_IPC_MASK) >> SYSCALL_IPC_SHIFT];
}

const char *message_name(const struct rec_message *r)
{
	return r->h.flags & MESSAGE_F_RECEIVED ? MESSAGE_RECEIVED : MESSAGE_SENT;
}

const char *message_address(char buf[MESSAGE_ADDRESS_MAX], const uint32_t address[4], uint16_t port)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr in6;

	memcpy(&in6, address, sizeof(in6));
	if (IN6_IS_ADDR_V4MAPPED(&in6)) {
		inet_ntop(AF_INET, &address[3], text, sizeof(text));
		snprintf(buf, MESSAGE_ADDRESS_MAX, "%s:%u", text, port);
	} else {
		inet_ntop(AF_INET6, &in6, text, sizeof(text));
		snprintf(buf, MESSAGE_ADDRESS_MAX, "[%s]:%u", text, port);
	}
	return buf;
}

const char *request_name(const struct rec_request *r, char buf[REQUEST_NAME_LEN])
{
	size_t len, method;

	if (!r->http)
		return "request";
	memcpy(buf, r->head, REQUEST_HEAD_LEN);
	buf[REQUEST_HEAD_LEN] = 0;
	method = strcspn(buf, " \r\n");
	len = method + (buf[method] == ' ' ? 1 + strcspn(buf + method + 1, " ?\r\n") : 0);
	buf[len] = 0;
	return buf;
}

/* The middle of the range that the index stands for. */
static uint64_t gap_bucket_ns(unsigned int place)
{
	unsigned int octave = REQUEST_GAP_LOW + place / REQUEST_GAP_PARTS;
	uint64_t part = UINT64_C(1) << (octave - REQUEST_GAP_BITS);

	return (REQUEST_GAP_PARTS + place % REQUEST_GAP_PARTS) * part + part / 2;
}

uint64_t request_gap_ns(const struct rec_request *r, unsigned int percent)
{
	uint64_t n = 0, seen = 0, rank;

	for (unsigned int i = 0; i < REQUEST_GAPS; i++)
		n += r->gaps[i];
	rank = (n * percent + 99) / 100;
	for (unsigned int i = 0; i < REQUEST_GAPS && rank; i++) {
		uint64_t ns = gap_bucket_ns(i);

		seen += r->gaps[i];
		if (seen >= rank)
			return ns < r->longest_ns ? ns : r->longest_ns;
	}
	return 0;
}

static void behind_row_fill(struct behind_row *row, const struct behind *b)
{
	memset(row, 0, sizeof(*row));
	row->ns = b->ns;
	if (b->tid && b->tid != BEHIND_LIMIT) {
		row->tid = b->tid;
		row->tgid = b->tgid;
		memcpy(row->by, b->comm, sizeof(b->comm));
	} else {
		row->limit = b->tid;
		strcpy(row->by, b->tid ? "cpu.max" : "idle");
	}
}

size_t behind_rows(const struct behind_table *table, uint64_t waited_ns,
	struct behind_row rows[BEHIND_MAX], uint64_t *ret_others)
{
	uint64_t sum = 0;
	size_t n = 0, at;

	for (size_t i = 0; i < BEHIND_MAX; i++) {
		const struct behind *b = &table->slots[i];

		if (!b->ns)
			continue;
		for (at = n++; at && rows[at - 1].ns < b->ns; at--)
			rows[at] = rows[at - 1];
		behind_row_fill(&rows[at], b);
		sum += b->ns;
	}
	if (sum > waited_ns) {
		*ret_others = waited_ns;
		return 0;
	}
	*ret_others = waited_ns - sum;
	return n;
}

const char *gpu_category(const struct rec_gpu *r)
{
	return r->h.id == GPU_KERNEL ? "kernel" : r->h.id == GPU_COPY ? "gpu_memcpy"
								      : "gpu_memset";
}

const char *gpu_name(const struct gpu_info *info, const struct rec_gpu *r)
{
	if (r->h.id == GPU_KERNEL)
		return gpu_info_kernel(info, r->name)->brief;
	if (r->h.id == GPU_SET)
		return "Memset (Device)";
	switch (r->copy_kind) {
	case GPU_COPY_HOST_TO_DEVICE:
		return "Memcpy HtoD";
	case GPU_COPY_DEVICE_TO_HOST:
		return "Memcpy DtoH";
	case GPU_COPY_DEVICE_TO_DEVICE:
		return "Memcpy DtoD";
	case GPU_COPY_HOST_TO_HOST:
		return "Memcpy HtoH";
	case GPU_COPY_PEER_TO_PEER:
		return "Memcpy PtoP";
	default:
		return "Memcpy";
	}
}

uint64_t gpu_megabytes_per_s(const struct rec_gpu *r)
{
	if (!r->h.dur_ns || r->bytes > UINT64_MAX / 1000)
		return 0;
	return r->bytes * 1000 / r->h.dur_ns; /* a byte a nanosecond is 1000 MB/s */
}

const char *gpu_label(const struct gpu_info *info, uint32_t device, char buf[GPU_LABEL_MAX])
{
	const struct gpu_identity *is = gpu_info_device(info, device);
	const char *pci = is ? is->pci : "", *uuid = is && (!*pci || !strncmp(is->uuid, "MIG", 3)) ? is->uuid : "";
	char *p = buf + sprintf(buf, "GPU %u", device);

	if (is && is->name[0])
		p += sprintf(p, ": %s", is->name);
	if (*pci || *uuid)
		sprintf(p, " (%s%s%s)", pci, *pci && *uuid ? ", " : "", uuid);
	return buf;
}

static const struct {
	const char *key, *name; /* name: without the unit */
} parts[GPU_PART_MAX] = {
	[GPU_PART_BUSY] = { "gpu_busy_us", "gpu_busy" },
	[GPU_PART_COPY] = { "gpu_copy_us", "gpu_copy" },
	[GPU_PART_IDLE_LAUNCH] = { "gpu_idle_launch_us", "gpu_idle_launch" },
	[GPU_PART_IDLE_WAIT] = { "gpu_idle_wait_us", "gpu_idle_wait" },
	[GPU_PART_COLLECTIVE] = { "gpu_collective_us", "gpu_collective" },
	[GPU_PART_UNKNOWN] = { "gpu_unknown_us", "gpu_unknown" },
};

const char *gpu_part_key(int part)
{
	return parts[part].key;
}

const char *gpu_part_name(int part)
{
	return parts[part].name;
}

const char *gpu_counter_name(const struct gpu_info *info, enum gpu_counter c, const struct rec_gpu_load *r, char buf[GPU_COUNTER_NAME_MAX])
{
	const char *name = c == GPU_COUNTER_BUSY ? "busy" : "launched, not done";

	if (gpu_info_is_first(info, r->h.id, r->h.tgid))
		snprintf(buf, GPU_COUNTER_NAME_MAX, "%s", name);
	else
		snprintf(buf, GPU_COUNTER_NAME_MAX, "%s (pid %u)", name, r->h.tgid);
	return buf;
}

const char *gpu_counter_unit(enum gpu_counter c)
{
	return c == GPU_COUNTER_BUSY ? "%" : "launches";
}

bool gpu_counter_value(enum gpu_counter c, const struct rec_gpu_load *r, uint64_t *ret_value)
{
	if (c == GPU_COUNTER_WAITS)
		*ret_value = r->waits;
	else
		*ret_value = r->h.dur_ns ? (r->busy_ns * 100 + r->h.dur_ns / 2) / r->h.dur_ns : 0;
	return c != GPU_COUNTER_WAITS || r->has_waits;
}

const char *gap_segment_fd(const struct recording *rec, const struct gap_segment *s, char buf[GAP_FD_MAX])
{
	struct fd_name n;
	int len = 0;

	if (!s->file || !rec->fd_name || !rec->fd_name(rec->fd_name_arg, s->file, &n))
		return NULL;
	if (!n.family) { /* the root's name is "/" */
		snprintf(buf, GAP_FD_MAX, "%.*s%s%.*s", (int)sizeof(n.directory), n.directory, strcmp(n.directory, "/") ? "/" : "", (int)sizeof(n.name), n.name);
		return "file";
	}
	if (n.family != AF_UNIX) {
		message_address(buf, n.address, n.port);
		return "peer";
	}
	if (n.tgid)
		len = snprintf(buf, GAP_FD_MAX, "%.*s%s%u%s", (int)sizeof(n.comm), n.comm, n.comm[0] ? " (" : "process ", n.tgid, n.comm[0] ? ")" : "");
	snprintf(buf + len, GAP_FD_MAX - (size_t)len, "%s%.*s", n.tgid && n.path[0] ? " " : "", (int)sizeof(n.path), n.path);
	return "peer";
}
