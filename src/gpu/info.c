// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/info.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/hand_over.h"
#include "stack/intern.h"
#include "stack/lookup.h"
#include "util/list.h"
#include "util/map.h"

/* Parses "0000:1b:00.0", hex digits of either case, into a number that sorts like the address. */
static bool parse_pci(const char *text, uint64_t *ret_address)
{
	unsigned int domain, bus, slot, function;
	int end = 0;

	if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) != 4 || !end || text[end])
		return false;
	*ret_address = (uint64_t)domain << 24 | bus << 16 | slot << 8 | function;
	return true;
}

static void print_uuid(const struct gpu_device *about, char ret[GPU_UUID_MAX])
{
	char *p = ret + sprintf(ret, "%s-", about->uuid_kind == GPU_UUID_MIG ? "MIG" : "GPU");

	for (size_t i = 0; i < sizeof(about->uuid); i++)
		p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", about->uuid[i]);
}

/* Returns whether anything is known. */
static bool gpu_identity_fill(const struct gpu_device *about, struct gpu_identity *ret)
{
	uint64_t pci;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i + 1 < sizeof(ret->name) && about->name[i]; i++)
		ret->name[i] = about->name[i] >= ' ' && about->name[i] <= '~' ? about->name[i] : '?';
	if (parse_pci(about->pci, &pci))
		snprintf(ret->pci, sizeof(ret->pci), "%04x:%02x:%02x.%x", (unsigned int)(pci >> 24), (unsigned int)(pci >> 16 & 0xff),
			(unsigned int)(pci >> 8 & 0xff), (unsigned int)(pci & 0xff));
	if (about->uuid_kind == GPU_UUID_DEVICE || about->uuid_kind == GPU_UUID_MIG) {
		memcpy(ret->uuid_bytes, about->uuid, sizeof(ret->uuid_bytes));
		print_uuid(about, ret->uuid);
	}
	return ret->name[0] || ret->pci[0] || ret->uuid[0];
}

/* Gives how many of the machine's devices have a lower address; false: it is none of them. */
static bool pci_find_place(const char *dir, const char *pci, uint32_t *ret_place)
{
	uint64_t address, other;
	const struct dirent *e;
	bool found = false;
	DIR *list;

	if (!parse_pci(pci, &address))
		return false;
	list = opendir(dir);
	if (!list)
		return false;
	*ret_place = 0;
	while ((e = readdir(list))) {
		if (!parse_pci(e->d_name, &other))
			continue;
		found |= other == address;
		*ret_place += other < address;
	}
	closedir(list);
	return found;
}

static bool device_is_free(const struct gpu_devices *d, uint32_t device)
{
	return device < GPU_DEVICES_MAX && !d->list[device].is_taken;
}

static bool devices_find_free(const struct gpu_devices *d, const struct gpu_identity *is, uint32_t own, uint32_t *ret_device)
{
	uint32_t at;

	if (!is || !d->machine_dir || !pci_find_place(d->machine_dir, is->pci, &at) || !device_is_free(d, at))
		at = own;
	if (!device_is_free(d, at)) {
		for (at = 0; at < GPU_DEVICES_MAX && !device_is_free(d, at); at++)
			;
	}
	if (at == GPU_DEVICES_MAX)
		return false;
	*ret_device = at;
	return true;
}

/* false: the UUID is empty or new */
static bool devices_find_uuid(const struct gpu_devices *d, const char *uuid, uint32_t *ret_device)
{
	for (uint32_t i = 0; *uuid && i < GPU_DEVICES_MAX; i++) {
		if (!strcmp(d->list[i].is.uuid, uuid)) {
			*ret_device = i;
			return true;
		}
	}
	return false;
}

static void devices_set_identity(struct gpu_devices *d, uint32_t device, const struct gpu_identity *is)
{
	d->list[device].is = *is;
	d->list[device].is_known = true;
	d->list[device].is_shared = false;
	d->n_known++;
}

bool gpu_devices_add(struct gpu_devices *d, const struct gpu_device *about, uint32_t own, bool shared, uint32_t *ret_device)
{
	struct gpu_identity is;
	bool known = about && gpu_identity_fill(about, &is);

	if (known && devices_find_uuid(d, is.uuid, ret_device))
		return true;
	shared = shared && !known;
	if (shared && own < GPU_DEVICES_MAX && d->list[own].is_shared) {
		*ret_device = own;
		return true;
	}
	if (!devices_find_free(d, known ? &is : NULL, own, ret_device))
		return false;
	d->list[*ret_device].is_taken = true;
	d->list[*ret_device].is_shared = shared;
	if (known)
		devices_set_identity(d, *ret_device, &is);
	return true;
}

void gpu_devices_set(struct gpu_devices *d, uint32_t device, const struct gpu_device *about)
{
	struct gpu_identity is;

	if (device < GPU_DEVICES_MAX && d->list[device].is_taken && !d->list[device].is_known && gpu_identity_fill(about, &is))
		devices_set_identity(d, device, &is);
}

const struct gpu_identity *gpu_devices_get(const struct gpu_devices *d, uint32_t device)
{
	return device < GPU_DEVICES_MAX && d->list[device].is_known ? &d->list[device].is : NULL;
}

struct gpu_info_name {
	UT_hash_handle hh;
	struct gpu_kernel_name is;
	uint32_t number;
};

struct gpu_info {
	struct intern *texts;
	struct gpu_info_name *by_text;
	struct gpu_info_name **names; /* by id - 1 */
	size_t n_names, cap_names;
	const char *operators[GPU_OPERATORS_MAX]; /* by id - 1 */
	uint32_t n_operators;
	struct gpu_track tracks[GPU_TRACKS_MAX];
	uint32_t n_tracks;
	uint32_t expected[GPU_PROCESSES_MAX]; /* processes; 0: none */
	struct gpu_devices devices;
	uint32_t used[GPU_DEVICES_MAX]; /* the process that used the device first */
};

struct gpu_info *gpu_info_new(void)
{
	struct gpu_info *info = xcalloc(1, sizeof(*info));

	info->texts = intern_new(GPU_NAMES_MEMORY);
	info->devices.machine_dir = GPU_MACHINE_DIR;
	return info;
}

void gpu_info_free(struct gpu_info *info)
{
	if (!info)
		return;
	HASH_CLEAR(hh, info->by_text);
	for (size_t i = 0; i < info->n_names; i++)
		free(info->names[i]);
	free(info->names);
	intern_free(info->texts);
	free(info);
}

/* ---- names ---- */

/* Leaves out template arguments, and, if the name came demangled, "void" and the parameters. */
static void kernel_shorten_name(const char *full, char *to)
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

/* AMD kernels are named after their descriptors: "NAME.kd" */
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

/* NULL: there is no room for its texts. */
static struct gpu_info_name *name_new(struct gpu_info *info, const char *mangled)
{
	char full[STACK_NAME_MAX], brief[STACK_NAME_MAX];
	struct gpu_info_name *e = xcalloc(1, sizeof(*e));

	demangle_kernel(mangled, full, sizeof(full));
	kernel_shorten_name(full, brief);
	e->is.mangled = mangled;
	e->is.is_collective = !strncmp(full, "ncclKernel", strlen("ncclKernel")) || !strncmp(full, "ncclDevKernel", strlen("ncclDevKernel"));
	e->is.full = intern_text(info->texts, full);
	e->is.brief = intern_text(info->texts, brief[0] ? brief : full);
	if (!e->is.full || !e->is.brief) {
		free(e);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, info->by_text, e->is.mangled, strlen(mangled), e);
	return e;
}

uint32_t gpu_info_name(struct gpu_info *info, const char *mangled)
{
	const char *text = intern_text(info->texts, mangled);
	struct gpu_info_name *e;

	if (!text || !*text)
		return 0;
	HASH_FIND(hh, info->by_text, text, strlen(text), e);
	if (e)
		return e->number;
	e = info->n_names < GPU_NAMES_MAX ? name_new(info, text) : NULL;
	if (!e)
		return 0;
	*list_push(info->names, info->n_names, info->cap_names) = e;
	e->number = (uint32_t)info->n_names;
	return e->number;
}

const struct gpu_kernel_name *gpu_info_kernel(const struct gpu_info *info, uint32_t name)
{
	static const struct gpu_kernel_name unknown = { .mangled = "", .full = "kernel", .brief = "kernel" };

	return info && name && name <= info->n_names ? &info->names[name - 1]->is : &unknown;
}

uint32_t gpu_info_operator(struct gpu_info *info, const char *name)
{
	const char *text = intern_text(info->texts, name);

	/* interned texts are equal if their addresses are */
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
	size_t unused = GPU_PROCESSES_MAX;

	for (size_t i = 0; i < GPU_PROCESSES_MAX; i++) {
		if (info->expected[i] == tgid) {
			info->expected[i] = expected ? tgid : 0;
			return;
		}
		if (!info->expected[i])
			unused = i;
	}
	if (unused < GPU_PROCESSES_MAX && expected)
		info->expected[unused] = tgid;
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

/* Stream numbers are per process and context. */
static void track_format_name(const struct gpu_info *info, struct gpu_track *t)
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
		if (t->device != of->device || t->tgid != of->tgid || t->context != of->context || t->stream != of->stream)
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
	track_format_name(info, t);
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
	static const char *const names[] = {
		[GPU_COPY_HOST_TO_DEVICE] = "host to device",
		[GPU_COPY_DEVICE_TO_HOST] = "device to host",
		[GPU_COPY_DEVICE_TO_DEVICE] = "device to device",
		[GPU_COPY_HOST_TO_HOST] = "host to host",
		[GPU_COPY_PEER_TO_PEER] = "between devices",
	};

	return kind < sizeof(names) / sizeof(*names) && names[kind] ? names[kind] : "other";
}

bool gpu_info_is_used(const struct gpu_info *info, uint32_t device)
{
	return device < GPU_DEVICES_MAX && info->used[device];
}

bool gpu_info_is_first(const struct gpu_info *info, uint32_t device, uint32_t tgid)
{
	return device < GPU_DEVICES_MAX && info->used[device] == tgid;
}

struct gpu_info_device {
	uint32_t device;
	uint64_t until_ns; /* activity up to then has been counted */
	uint64_t busy_ns[GPU_LOAD_SLOTS];
	bool was_told; /* the last known interval was not 0 */
};

struct gpu_load {
	uint32_t tgid;
	uint64_t next_ns;             /* start of the first interval not yet emitted */
	size_t first;                 /* its slot */
	int64_t open;                 /* launched before next_ns, and not done */
	int64_t more[GPU_LOAD_SLOTS]; /* change of open in each interval */
	struct gpu_info_device *devices[GPU_LOAD_DEVICES];
	size_t n_devices;
};

struct gpu_load *gpu_load_new(uint32_t tgid, uint64_t now_ns)
{
	struct gpu_load *l = xcalloc(1, sizeof(*l));

	l->tgid = tgid;
	l->next_ns = now_ns - now_ns % GPU_LOAD_NS;
	return l;
}

void gpu_load_free(struct gpu_load *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n_devices; i++)
		free(l->devices[i]);
	free(l);
}

/* NULL: there are too many */
static struct gpu_info_device *load_get_device(struct gpu_load *l, uint32_t device)
{
	struct gpu_info_device *d;

	for (size_t i = 0; i < l->n_devices; i++) {
		if (l->devices[i]->device == device)
			return l->devices[i];
	}
	if (l->n_devices == GPU_LOAD_DEVICES)
		return NULL;
	d = xcalloc(1, sizeof(*d));
	d->device = device;
	l->devices[l->n_devices++] = d;
	return d;
}

/* Returns the interval of a time, counted from the first one not emitted; earlier times are in that one, later ones in the last. */
static size_t load_find_interval(const struct gpu_load *l, uint64_t ns)
{
	uint64_t i = ns < l->next_ns ? 0 : (ns - l->next_ns) / GPU_LOAD_NS;

	return i < GPU_LOAD_SLOTS ? (size_t)i : GPU_LOAD_SLOTS - 1;
}

static size_t load_interval_slot(const struct gpu_load *l, size_t interval)
{
	return (l->first + interval) % GPU_LOAD_SLOTS;
}

static void load_add_busy(struct gpu_load *l, struct gpu_info_device *d, uint64_t from_ns, uint64_t to_ns)
{
	if (from_ns < l->next_ns)
		from_ns = l->next_ns;
	while (from_ns < to_ns) {
		size_t i = load_find_interval(l, from_ns);
		uint64_t end_ns = l->next_ns + (i + 1) * GPU_LOAD_NS;

		if (i == GPU_LOAD_SLOTS - 1)
			return;
		if (end_ns > to_ns)
			end_ns = to_ns;
		d->busy_ns[load_interval_slot(l, i)] += end_ns - from_ns;
		from_ns = end_ns;
	}
}

void gpu_load_add(struct gpu_load *l, const struct rec_gpu *r)
{
	struct gpu_info_device *d = load_get_device(l, r->device);
	uint64_t end_ns = r->h.start_ns + r->h.dur_ns, launched_ns = r->launched_ns ? r->launched_ns : r->h.start_ns;
	size_t from, to;

	if (!d)
		return;
	load_add_busy(l, d, r->h.start_ns > d->until_ns ? r->h.start_ns : d->until_ns, end_ns);
	if (end_ns > d->until_ns)
		d->until_ns = end_ns;
	if (end_ns < l->next_ns)
		return;
	/* it waits or runs from the end of interval `from` to the end of `to` */
	from = load_find_interval(l, launched_ns < end_ns ? launched_ns : end_ns);
	to = load_find_interval(l, end_ns);
	l->more[load_interval_slot(l, from)]++;
	l->more[load_interval_slot(l, to)]--;
}

static void load_emit_interval(struct gpu_load *l, struct gpu_info_device *d, uint64_t waits, bool is_known, gpu_load_cb cb, void *arg)
{
	struct rec_gpu_load r = {
		.h = { .kind = REC_GPU_LOAD, .start_ns = l->next_ns, .dur_ns = GPU_LOAD_NS, .tgid = l->tgid, .tid = l->tgid },
		.busy_ns = d->busy_ns[l->first],
		.waits = (u32)waits,
		.has_waits = l->n_devices == 1,
	};
	bool any = r.busy_ns || (r.has_waits && waits);

	r.h.id = d->device;
	d->busy_ns[l->first] = 0;
	if (is_known && (any || d->was_told))
		cb(&r.h, sizeof(r), arg);
	d->was_told = is_known ? any : d->was_told;
}

void gpu_load_take(
	struct gpu_load *l, uint64_t until_ns, const struct gpu_load_ops *ops, void *ops_arg, gpu_load_cb cb, void *arg)
{
	for (; l->next_ns + GPU_LOAD_NS <= until_ns; l->next_ns += GPU_LOAD_NS) {
		uint64_t end_ns = l->next_ns + GPU_LOAD_NS, waits;
		bool is_known;

		l->open += l->more[l->first];
		l->more[l->first] = 0;
		if (!l->n_devices) { /* no activity yet: skip to the end */
			l->next_ns = until_ns - until_ns % GPU_LOAD_NS - GPU_LOAD_NS;
			continue;
		}
		is_known = ops->is_known(l->next_ns, end_ns, ops_arg);
		waits = (uint64_t)(l->open > 0 ? l->open : 0) + ops->pending(end_ns, ops_arg);
		for (size_t i = 0; i < l->n_devices; i++)
			load_emit_interval(l, l->devices[i], waits, is_known, cb, arg);
		l->first = (l->first + 1) % GPU_LOAD_SLOTS;
	}
}
