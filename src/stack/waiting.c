// SPDX-License-Identifier: BSD-2-Clause
#include "stack/waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stack/python_frames.h"

/* Whether the thread is off the CPU with these registers: proc(5), /proc/PID/syscall, ends with stack pointer and
 * program counter. */
static bool still_waits(const struct rec_sample *r)
{
	char path[64], text[256], *sp, *pc;
	bool same = false;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/syscall", r->h.tgid, r->h.tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	pc = strrchr(text, ' ');
	if (pc) {
		*pc++ = 0;
		sp = strrchr(text, ' ');
		same = sp && strtoull(sp, NULL, 16) == r->regs[SAMPLE_REG_SP] && strtoull(pc, NULL, 16) == r->regs[SAMPLE_REG_PC];
	}
	return same;
}

static size_t read_stack(const struct rec_sample *r, uint8_t *buf)
{
	char path[64];
	ssize_t n;
	int fd;

	if (r->regs[SAMPLE_REG_SP] > INT64_MAX)
		return 0;
	snprintf(path, sizeof(path), "/proc/%u/mem", r->h.tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = pread(fd, buf, SAMPLE_STACK_MAX, (off_t)r->regs[SAMPLE_REG_SP]);
	close(fd);
	return n > 0 ? (size_t)n & ~(size_t)7 : 0;
}

size_t waiting_complete(const struct stacks_config *c, const struct rec_sample *r, size_t size, struct rec_sample *room)
{
	struct python_found found = { 0 };
	struct python_frame pointer;
	size_t head, n;

	if (size < sizeof(*r) || r->kernel_n > SAMPLE_KERNEL_MAX || r->python_n != 1 || r->stack_bytes ||
		size < REC_SAMPLE_SIZE(r->kernel_n, 1, 0))
		return 0;
	head = REC_SAMPLE_SIZE(r->kernel_n, 0, 0);
	memcpy(room, r, head);
	memcpy(&pointer, (const uint8_t *)r + head, sizeof(pointer));
	room->flags &= (u8)~SAMPLE_F_WAITS;
	room->python_n = 0;
	room->task = 0;
	if (still_waits(r)) {
		if (c->python_frames)
			c->python_frames(c->python_arg, r->h.tgid, pointer.code, &found);
		memcpy((uint8_t *)room + head, found.frames, found.n * sizeof(found.frames[0]));
		room->python_n = (u16)found.n;
		room->task = found.has_task;
		head = REC_SAMPLE_SIZE(r->kernel_n, room->python_n, 0);
		if (room->task)
			memcpy((uint8_t *)room + head, &found.task, sizeof(found.task));
		head += SAMPLE_TASK_SIZE(room);
		n = read_stack(r, (uint8_t *)room + head);
		/* whatever was read meanwhile is of one instant if it has not moved */
		if (still_waits(r)) {
			room->stack_bytes = (u32)n;
			room->flags |= SAMPLE_F_TRUNCATED | (found.cut ? SAMPLE_F_PYTHON_CUT : 0);
			return head + n;
		}
	}
	room->python_n = room->task = 0;
	room->flags |= SAMPLE_F_NO_USER;
	return REC_SAMPLE_SIZE(r->kernel_n, 0, 0);
}
