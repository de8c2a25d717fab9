// SPDX-License-Identifier: BSD-2-Clause
#include "capture/preempt.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"

#ifdef __aarch64__

int preempt_count_place(int64_t *ret_off, int *ret_anchor)
{
	return -ENOENT;
}

int preempt_count_offset(int64_t *ret_off)
{
	*ret_off = 0;
	return 0;
}

#else

#define VMLINUX_BTF "/sys/kernel/btf/vmlinux"
#define ANCHOR "bpf_prog_active"

/* A variable that is in BTF still cannot be used if the kernel does not find its symbol: symbols of
 * data are kept only with CONFIG_KALLSYMS_ALL. Loading a program is the test, since reading all of
 * /proc/kallsyms takes a third of the time of a start. */
static bool can_load(int var_id)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .src_reg = BPF_PSEUDO_BTF_ID, .imm = var_id },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "inftrace_probe", "Dual BSD/GPL", insns,
		sizeof(insns) / sizeof(insns[0]), NULL);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* The kernel's BTF, parsed here: libbpf would index all its types, a tenth of the start-up time, and does so once later. */
struct types {
	void *data;
	size_t size;
	bool mapped;          /* the kernel lets it be mapped since 6.16 */
	const char *at, *end; /* the types */
	const char *strings;
	size_t strings_size;
};

static void types_close(struct types *t)
{
	if (t->mapped)
		munmap(t->data, t->size);
	else
		free(t->data);
}

static int types_find(struct types *t)
{
	const struct btf_header *h = t->data;
	size_t body;

	if (t->size < sizeof(*h) || h->magic != BTF_MAGIC || h->hdr_len > t->size)
		return -EINVAL;
	body = t->size - h->hdr_len;
	if (h->type_off > body || h->type_len > body - h->type_off || h->str_off > body ||
		h->str_len > body - h->str_off || !h->str_len)
		return -EINVAL;
	t->at = (const char *)t->data + h->hdr_len + h->type_off;
	t->end = t->at + h->type_len;
	t->strings = (const char *)t->data + h->hdr_len + h->str_off;
	t->strings_size = h->str_len;
	return t->strings[h->str_len - 1] ? -EINVAL : 0;
}

static int types_open(struct types *t)
{
	int fd = open(VMLINUX_BTF, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;
	size_t got = 0;
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size <= 0) {
		err = -EIO;
		goto out;
	}
	t->size = (size_t)st.st_size;
	t->data = mmap(NULL, t->size, PROT_READ, MAP_PRIVATE, fd, 0);
	t->mapped = t->data != MAP_FAILED;
	if (!t->mapped) {
		t->data = xmalloc(t->size);
		for (; got < t->size && n > 0; got += n > 0 ? (size_t)n : 0)
			n = read(fd, (char *)t->data + got, t->size - got);
		err = got == t->size ? 0 : -EIO;
	}
	err = err ?: types_find(t);
	if (err)
		types_close(t);
out:
	close(fd);
	return err;
}

/* The bytes after a type, or -1 for a kind that is newer than this program. */
static ssize_t type_tail(const struct btf_type *b)
{
	size_t n = BTF_INFO_VLEN(b->info);

	switch (BTF_INFO_KIND(b->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return sizeof(uint32_t);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return (ssize_t)(n * sizeof(struct btf_member));
	case BTF_KIND_ENUM:
		return (ssize_t)(n * sizeof(struct btf_enum));
	case BTF_KIND_ENUM64:
		return (ssize_t)(n * sizeof(struct btf_enum64));
	case BTF_KIND_FUNC_PROTO:
		return (ssize_t)(n * sizeof(struct btf_param));
	case BTF_KIND_DATASEC:
		return (ssize_t)(n * sizeof(struct btf_var_secinfo));
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	default:
		return -1;
	}
}

/* All per-CPU variables of the kernel proper are in one section, and each CPU has a copy of it. */
static int find_offset(const struct types *t, int64_t *ret_off, int *ret_anchor)
{
	const struct btf_type *section = NULL;
	uint32_t anchor_id = 0, count_id = 0;
	int64_t anchor = -1, count = -1;
	const char *at = t->at;

	for (uint32_t id = 1; (size_t)(t->end - at) >= sizeof(*section); id++) {
		const struct btf_type *b = (const void *)at;
		ssize_t tail = type_tail(b);
		const char *name;

		at += sizeof(*b);
		if (tail < 0 || tail > t->end - at || b->name_off >= t->strings_size)
			return -EINVAL;
		at += tail;
		name = t->strings + b->name_off;
		if (BTF_INFO_KIND(b->info) == BTF_KIND_DATASEC && !strcmp(name, ".data..percpu"))
			section = b;
		else if (BTF_INFO_KIND(b->info) != BTF_KIND_VAR)
			continue;
		else if (!strcmp(name, ANCHOR))
			anchor_id = id;
		else if (!strcmp(name, "__preempt_count") || !strcmp(name, "pcpu_hot"))
			count_id = id;
	}
	for (uint32_t i = 0; section && i < BTF_INFO_VLEN(section->info); i++) {
		const struct btf_var_secinfo *v = &((const struct btf_var_secinfo *)(section + 1))[i];

		if (v->type == anchor_id)
			anchor = v->offset;
		else if (v->type == count_id)
			count = v->offset;
	}
	if (anchor < 0 || count < 0)
		return -ENOENT;
	*ret_off = count - anchor;
	*ret_anchor = (int)anchor_id;
	return 0;
}

int preempt_count_place(int64_t *ret_off, int *ret_anchor)
{
	struct types types = { 0 };
	int err = types_open(&types);

	if (err)
		return err;
	err = find_offset(&types, ret_off, ret_anchor);
	types_close(&types);
	return err;
}

int preempt_count_offset(int64_t *ret_off)
{
	int64_t off;
	int anchor, err = preempt_count_place(&off, &anchor);

	if (err)
		return err;
	if (!can_load(anchor))
		return -ENOENT;
	*ret_off = off;
	return 0;
}

#endif
