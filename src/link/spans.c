// SPDX-License-Identifier: BSD-2-Clause
#include "link/spans.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/list_room.h"

/* What the names of the functions of CUDA begin with in all their variants: LaunchKernel, LaunchKernelExC. */
#define CUDA_KEY_CHARS 12

/* The name without "cuda" or "cu"; NULL: it is not CUDA's. */
static const char *cuda_part(const char *name)
{
	if (!strncmp(name, "cuda", 4) && isupper((unsigned char)name[4]))
		return name + 4;
	if (!strncmp(name, "cu", 2) && isupper((unsigned char)name[2]))
		return name + 2;
	return NULL;
}

static const char *aten_part(const char *name)
{
	return strncmp(name, "aten::", 6) ? name : name + 6;
}

/* The driver has several versions of a function. */
static size_t cuda_len(const char *part)
{
	size_t len = strlen(part);

	if (len > 5 && !strcmp(part + len - 5, "_ptsz"))
		len -= 5;
	if (len > 3 && part[len - 3] == '_' && part[len - 2] == 'v' && isdigit((unsigned char)part[len - 1]))
		len -= 3;
	return len;
}

uint64_t span_key(const char *name)
{
	const char *part = cuda_part(name);
	size_t lead, len;

	if (part) {
		len = cuda_len(part);
		return name_hash(part, len < CUDA_KEY_CHARS ? len : CUDA_KEY_CHARS) ^ 1;
	}
	/* an overload follows an underscore: mul_Tensor; so does nothing at all: mul_ */
	part = aten_part(name);
	lead = strspn(part, "_");
	return name_hash(part, lead + strcspn(part + lead, "_"));
}

int span_compare_keys(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return a < b ? -1 : a > b;
}

/* The runtime's function for C, cudaLaunchKernelExC, calls the driver's cuLaunchKernelEx. */
static size_t runtime_len(const char *part)
{
	size_t len = cuda_len(part);

	return len > 3 && !strncmp(part + len - 3, "ExC", 3) ? len - 1 : len;
}

uint64_t span_class(const char *theirs)
{
	const char *part = cuda_part(theirs);

	if (!part)
		return name_hash(theirs, strlen(theirs));
	return name_hash(part, part - theirs == 4 ? runtime_len(part) : cuda_len(part)) ^ 1;
}

static enum span_relation relate_cuda(const char *ours, const char *theirs)
{
	const char *a = cuda_part(ours), *b = cuda_part(theirs);
	bool runtime_ours = a - ours == 4, runtime_theirs = b - theirs == 4;
	size_t len = runtime_ours ? runtime_len(a) : cuda_len(a), len_b = runtime_theirs ? runtime_len(b) : cuda_len(b);

	if ((runtime_ours && !runtime_theirs) || len != len_b || strncmp(a, b, len))
		return SPAN_UNRELATED;
	return runtime_ours == runtime_theirs ? SPAN_AROUND : SPAN_WITHIN;
}

enum span_relation span_relate(const char *ours, const char *theirs)
{
	const char *name = aten_part(theirs);
	size_t len = strlen(name);

	if (cuda_part(ours) && cuda_part(theirs))
		return relate_cuda(ours, theirs);
	if (name == theirs)
		return SPAN_UNRELATED;
	ours = aten_part(ours);
	return !strncmp(ours, name, len) && (!ours[len] || ours[len] == '_') ? SPAN_AROUND : SPAN_UNRELATED;
}

static int add_name(struct spans *s, const char *text, size_t len, struct span_name **ret)
{
	uint32_t size = s->names_size ? 2 * s->names_size : 256;
	struct span_name *n, **list;

	if (s->n_names == s->names_size) {
		list = realloc(s->names, size * sizeof(*list));
		if (!list)
			return -ENOMEM;
		s->names = list;
		s->names_size = size;
	}
	n = calloc(1, sizeof(*n) + len + 1);
	if (!n)
		return -ENOMEM;
	memcpy(n->text, text, len);
	n->id = s->n_names;
	n->key = span_key(n->text);
	HASH_ADD_KEYPTR(hh, s->by_text, n->text, len, n);
	if (!n->hh.tbl) {
		free(n);
		return -ENOMEM;
	}
	s->names[s->n_names++] = n;
	*ret = n;
	return 0;
}

int spans_add(struct spans *s, const char *name, uint32_t tid, int64_t start_ns, int64_t end_ns)
{
	size_t len = strnlen(name, 4096);
	struct span_name *n;
	int err;

	HASH_FIND(hh, s->by_text, name, len, n);
	if (s->n == SPANS_MAX || (!n && s->n_names == SPAN_NAMES_MAX)) {
		s->left_out++;
		return 0;
	}
	if (!n) {
		err = add_name(s, name, len, &n);
		if (err)
			return err;
	}
	if (list_room((void **)&s->list, s->n, &s->size, sizeof(*s->list)))
		return -ENOMEM;
	s->list[s->n++] = (struct span){ start_ns, end_ns, n->id, tid };
	return 0;
}

void spans_clear(struct spans *s)
{
	HASH_CLEAR(hh, s->by_text);
	for (uint32_t i = 0; i < s->n_names; i++)
		free(s->names[i]);
	free(s->names);
	free(s->list);
	memset(s, 0, sizeof(*s));
}
