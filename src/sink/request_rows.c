// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>

#include "sink/request_track_inner.h"

/* ---- names ---- */

uint32_t request_group_of(struct request_tracks *t, uint32_t tgid, uint64_t context)
{
	unsigned int nth = 1;
	uint32_t i;

	for (i = 0; i < t->n_groups; i++) {
		if (t->groups[i].tgid != tgid)
			continue;
		if (t->groups[i].context == context)
			return i;
		nth++;
	}
	if (i == REQUEST_GROUPS)
		return i;
	t->groups[t->n_groups++] = (struct request_group){ .tgid = tgid, .context = context, .nth = nth };
	return i;
}

/* Nearly always there is only the first context, which is not mentioned. */
static size_t put_group(struct request_tracks *t, uint32_t group, char name[REQUEST_NAME_MAX], size_t len)
{
	const struct request_group *g = group < REQUEST_GROUPS ? &t->groups[group] : NULL;
	const struct task *task;

	if (!group || !g)
		return len;
	if (g->tgid != t->groups[0].tgid) {
		task = tasks_get(t->rec->tasks, g->tgid, g->tgid);
		len += (size_t)snprintf(name + len, REQUEST_NAME_MAX - len, ", %.*s %u", TASK_COMM_LEN,
			task && task->comm[0] ? task->comm : "pid", g->tgid);
	}
	if (g->nth > 1)
		len += (size_t)snprintf(name + len, REQUEST_NAME_MAX - len, ", context %u", g->nth);
	return len;
}

/* After the counters: the row of waiting requests, then slots by context and sequence, then the others. */
void request_tracks_row_name(struct request_tracks *t, uint32_t row, char name[REQUEST_NAME_MAX], int64_t *ret_rank)
{
	const struct request_slot *s;
	size_t len;

	if (row >= REQUEST_SLOTS) {
		bool queue = row >= REQUEST_SLOTS + REQUEST_LANES;

		snprintf(name, REQUEST_NAME_MAX, "%s", queue ? "queue" : "other slots");
		*ret_rank = queue ? 1 : INT32_MAX;
		return;
	}
	s = &t->slots[row];
	len = (size_t)snprintf(name, REQUEST_NAME_MAX, "slot %llu", (unsigned long long)s->sequence);
	put_group(t, s->group, name, len);
	*ret_rank = 2 + (int64_t)s->group * 100000 + (s->sequence < 100000 ? (int64_t)s->sequence : 99999);
}

void request_tracks_counter_name(struct request_tracks *t, uint32_t group, enum request_counter counter,
	char name[REQUEST_NAME_MAX], const char **ret_unit)
{
	static const struct {
		const char *name, *unit;
	} counters[REQUEST_COUNTERS] = {
		[REQUEST_BATCH_SIZE] = { "batch size", "rows" },
		[REQUEST_TOKENS] = { "tokens per step", "tokens" },
		[REQUEST_ACTIVE] = { "active requests", "requests" },
		[REQUEST_WAITING] = { "waiting requests", "requests" },
	};

	put_group(t, group, name, (size_t)snprintf(name, REQUEST_NAME_MAX, "%s", counters[counter].name));
	*ret_unit = counters[counter].unit;
}

uint32_t *request_tracks_row_id(struct request_tracks *t, uint32_t row)
{
	return &t->row_ids[row];
}

uint32_t *request_tracks_counter_id(struct request_tracks *t, uint32_t group, enum request_counter counter)
{
	return &t->groups[group].ids[counter];
}

/* ---- rows ---- */

uint32_t request_lane_take(struct request_tracks *t, uint32_t first, uint64_t start, uint64_t end)
{
	uint64_t *ends = t->lane_ends + (first - REQUEST_SLOTS);

	for (uint32_t i = 0; i < REQUEST_LANES; i++) {
		if (ends[i] > start)
			continue;
		ends[i] = end;
		return first + i;
	}
	return NO_ROW;
}

uint32_t request_row_take(struct request_tracks *t, const struct step_request *r)
{
	struct request_slot *s = t->slots;

	for (; s < t->slots + t->n_slots; s++) {
		if (s->tgid == r->tgid && s->context == r->context && s->sequence == r->sequence)
			break;
	}
	if (s == t->slots + REQUEST_SLOTS || s->busy_until > r->start)
		return request_lane_take(t, REQUEST_SLOTS, r->start, r->last_end);
	if (s == t->slots + t->n_slots) {
		*s = (struct request_slot){
			.tgid = r->tgid,
			.context = r->context,
			.sequence = r->sequence,
			.group = request_group_of(t, r->tgid, r->context),
		};
		t->n_slots++;
	}
	s->busy_until = r->last_end;
	return (uint32_t)(s - t->slots);
}
