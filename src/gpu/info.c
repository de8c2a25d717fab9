// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/hand_over.h"
#include "stack/demangle.h"
#include "stack/intern.h"
#include "util/map.h"

struct name {
	UT_hash_handle hh;
	const char *mangled, *full, *brief;
	uint32_t number;
	bool is_collective;
};

struct gpu_info {
	struct intern *texts;
	struct name *by_text;
	struct name **names; /* by their number - 1 */
	uint32_t n_names, cap_names;
	const char *operators[GPU_OPERATORS_MAX]; /* by their number - 1 */
	uint32_t n_operators;
	struct gpu_track tracks[GPU_TRACKS_MAX];
	uint32_t n_tracks;
	uint32_t expected[GPU_PROCESSES_MAX]; /* processes; 0: none */
	struct gpu_devices devices;
	uint32_t used[GPU_DEVICES_MAX]; /* the process that used the device first */
};

int gpu_info_new(struct gpu_info **ret_info)
{
	struct gpu_info *info = calloc(1, sizeof(*info));

	if (!info)
		return -ENOMEM;
	if (intern_new(GPU_NAMES_MEMORY, &info->texts)) {
		free(info);
		return -ENOMEM;
	}
	info->devices.machine_dir = GPU_MACHINE_DIR;
	*ret_info = info;
	return 0;
}

void gpu_info_free(struct gpu_info *info)
{
	if (!info)
		return;
	HASH_CLEAR(hh, info->by_text);
	for (uint32_t i = 0; i < info->n_names; i++)
		free(info->names[i]);
	free(info->names);
	intern_free(info->texts);
	free(info);
}

/* ---- names ---- */

/* Leaves out what is between < and >, but not those of operators; and of a name that was demangled before, "void" and the
 * parameters. */
static void shorten(const char *full, char *to)
{
	unsigned int depth = 0;
	size_t n = 0;

	full += strncmp(full, "void ", 5) ? 0 : 5;
	for (const char *p = full; *p; p++) {
		bool is_operator = p - full >= 8 && !strncmp(p - 8, "operator", 8);

		if (*p == '(' && !depth && n && strncmp(p, "(anonymous", 10) && !is_operator)
			break;
		if (*p == '<' && !is_operator)
			depth++;
		else if (*p == '>' && depth)
			depth--;
		else if (!depth)
			to[n++] = *p;
	}
	to[n] = 0;
}

/* AMD's are those of kernel descriptors: "NAME.kd" */
static void demangle_kernel(const char *mangled, char *full, size_t size)
{
	size_t length = strlen(mangled);
	char plain[GPU_NAME_MAX + 1];

	if (length > 3 && length < sizeof(plain) && !strcmp(mangled + length - 3, ".kd")) {
		memcpy(plain, mangled, length - 3);
		plain[length - 3] = '\0';
		mangled = plain;
	}
	demangle(mangled, full, size);
}

static struct name *name_new(struct gpu_info *info, const char *mangled)
{
	char full[STACK_NAME_MAX], brief[STACK_NAME_MAX];
	struct name *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	demangle_kernel(mangled, full, sizeof(full));
	shorten(full, brief);
	e->mangled = mangled;
	e->is_collective = !strncmp(full, "ncclKernel", strlen("ncclKernel")) || !strncmp(full, "ncclDevKernel", strlen("ncclDevKernel"));
	e->full = intern_text(info->texts, full);
	e->brief = intern_text(info->texts, brief[0] ? brief : full);
	if (e->full && e->brief)
		HASH_ADD_KEYPTR(hh, info->by_text, e->mangled, strlen(mangled), e);
	if (!e->full || !e->brief || !e->hh.tbl) {
		free(e);
		return NULL;
	}
	return e;
}

uint32_t gpu_info_name(struct gpu_info *info, const char *mangled)
{
	const char *text = intern_text(info->texts, mangled);
	struct name *e;

	if (!text || !*text)
		return 0;
	HASH_FIND(hh, info->by_text, text, strlen(text), e);
	if (e)
		return e->number;
	if (info->n_names == info->cap_names) {
		uint32_t cap = info->cap_names ? 2 * info->cap_names : 256;
		struct name **names = cap <= GPU_NAMES_MAX ? realloc(info->names, cap * sizeof(struct name *)) : NULL;

		if (!names)
			return 0;
		info->names = names;
		info->cap_names = cap;
	}
	e = name_new(info, text);
	if (!e)
		return 0;
	info->names[info->n_names++] = e;
	e->number = info->n_names;
	return e->number;
}

static const struct name *get_name(const struct gpu_info *info, uint32_t name)
{
	return info && name && name <= info->n_names ? info->names[name - 1] : NULL;
}

const char *gpu_info_full_name(const struct gpu_info *info, uint32_t name)
{
	const struct name *e = get_name(info, name);

	return e ? e->full : "kernel";
}

bool gpu_info_is_collective(const struct gpu_info *info, uint32_t name)
{
	const struct name *e = get_name(info, name);

	return e && e->is_collective;
}

const char *gpu_info_short_name(const struct gpu_info *info, uint32_t name)
{
	const struct name *e = get_name(info, name);

	return e ? e->brief : "kernel";
}

const char *gpu_info_mangled_name(const struct gpu_info *info, uint32_t name)
{
	const struct name *e = get_name(info, name);

	return e ? e->mangled : "";
}

uint32_t gpu_info_operator(struct gpu_info *info, const char *name)
{
	const char *text = intern_text(info->texts, name);

	/* the same text is at the same place */
	for (uint32_t i = 0; i < info->n_operators; i++) {
		if (info->operators[i] == text)
			return i + 1;
	}
	if (!text || !*text || info->n_operators == GPU_OPERATORS_MAX)
		return 0;
	info->operators[info->n_operators] = text;
	return ++info->n_operators;
}

const char *gpu_info_operator_name(const struct gpu_info *info, uint32_t number)
{
	return info && number && number <= info->n_operators ? info->operators[number - 1] : NULL;
}

/* ---- processes ---- */

void gpu_info_expect(struct gpu_info *info, uint32_t tgid, bool expected)
{
	uint32_t *free_one = NULL;

	for (size_t i = 0; i < GPU_PROCESSES_MAX; i++) {
		uint32_t *p = &info->expected[i];

		if (*p == tgid) {
			*p = expected ? tgid : 0;
			return;
		}
		if (!*p)
			free_one = p;
	}
	if (free_one && expected)
		*free_one = tgid;
}

bool gpu_info_expects(const struct gpu_info *info, uint32_t tgid)
{
	for (size_t i = 0; i < GPU_PROCESSES_MAX; i++) {
		if (info->expected[i] == tgid)
			return true;
	}
	return false;
}

/* ---- tracks ---- */

static bool is_same_stream(const struct gpu_track *a, const struct gpu_track *b)
{
	return a->device == b->device && a->tgid == b->tgid && a->context == b->context && a->stream == b->stream;
}

/* Streams have numbers of their own in each process and context. */
static void name_track(const struct gpu_info *info, struct gpu_track *t)
{
	bool other_process = info->used[t->device] != t->tgid, other_context = false;
	char lane[16] = "", process[32] = "", context[32] = "";

	for (uint32_t i = 0; i < info->n_tracks; i++) {
		const struct gpu_track *o = &info->tracks[i];

		other_context |= !gpu_track_is_steps(o) && o->device == t->device && o->tgid == t->tgid && o->context != t->context;
	}
	if (other_process)
		snprintf(process, sizeof(process), " of process %u", t->tgid);
	if (other_context)
		snprintf(context, sizeof(context), " in context %u", t->context);
	if (t->lane)
		snprintf(lane, sizeof(lane), " (%u)", t->lane + 1);
	if (gpu_track_is_steps(t))
		snprintf(t->name, sizeof(t->name), "steps%s%s", process, lane);
	else
		snprintf(t->name, sizeof(t->name), "stream %u%s%s%s", t->stream, context, process, lane);
}

bool gpu_info_track(struct gpu_info *info, const struct gpu_track *of, uint64_t start_ns, uint64_t end_ns, uint32_t *ret_track)
{
	struct gpu_track *t;
	uint32_t lane = 0;

	for (uint32_t i = 0; i < info->n_tracks; i++) {
		t = &info->tracks[i];
		if (!is_same_stream(t, of))
			continue;
		lane++;
		if (t->end_ns > start_ns)
			continue;
		t->end_ns = end_ns;
		*ret_track = i;
		return true;
	}
	if (info->n_tracks == GPU_TRACKS_MAX || of->device >= GPU_DEVICES_MAX)
		return false;
	if (!info->used[of->device])
		info->used[of->device] = of->tgid;
	t = &info->tracks[info->n_tracks];
	*t = *of;
	t->lane = lane;
	t->end_ns = end_ns;
	name_track(info, t);
	*ret_track = info->n_tracks++;
	return true;
}

const struct gpu_track *gpu_info_get_track(const struct gpu_info *info, uint32_t track)
{
	return info && track < info->n_tracks ? &info->tracks[track] : NULL;
}

struct gpu_devices *gpu_info_devices(struct gpu_info *info)
{
	return &info->devices;
}

const struct gpu_identity *gpu_info_device(const struct gpu_info *info, uint32_t device)
{
	return info ? gpu_devices_get(&info->devices, device) : NULL;
}

uint32_t gpu_info_devices_known(const struct gpu_info *info)
{
	return info->devices.n_known;
}

const char *gpu_copy_name(uint32_t kind)
{
	switch (kind) {
	case GPU_COPY_HOST_TO_DEVICE:
		return "host to device";
	case GPU_COPY_DEVICE_TO_HOST:
		return "device to host";
	case GPU_COPY_DEVICE_TO_DEVICE:
		return "device to device";
	case GPU_COPY_HOST_TO_HOST:
		return "host to host";
	case GPU_COPY_PEER_TO_PEER:
		return "between devices";
	default:
		return "other";
	}
}

bool gpu_info_is_used(const struct gpu_info *info, uint32_t device)
{
	return device < GPU_DEVICES_MAX && info->used[device];
}

bool gpu_info_is_first(const struct gpu_info *info, uint32_t device, uint32_t tgid)
{
	return device < GPU_DEVICES_MAX && info->used[device] == tgid;
}
