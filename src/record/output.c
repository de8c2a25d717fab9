// SPDX-License-Identifier: BSD-2-Clause
#include "record/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/writer.h"
#include "record/out_file.h"
#include "record/rotate.h"
#include "record/view.h"
#include "sink/by_process.h"
#include "sink/request_feed.h"
#include "sink/tee.h"
#include "util/log.h"
#include "util/text.h"

#define DROPS_MAX 32
#define DROPS_APART_NS 10000000 /* drops that are closer to each other are one interval */

/* Records that were dropped because the writer was behind. */
struct drop {
	uint64_t from_ns, to_ns;
	uint32_t n;
};

struct output {
	struct sink sink;
	struct sink *format;
	struct out_file file;
	struct rotation *rotation; /* NULL: a single file */
	int err;		   /* from a file that could not continue another */
	uint64_t dropped[REC_KIND_MAX];
	struct drop drops[DROPS_MAX]; /* the last ones */
	unsigned int n_drops;
	void (*on_file)(const char *name, uint64_t bytes, void *arg);
	void *on_file_arg;
};

/* ---- the sink ---- */

/* These are few, and others make no sense without them: they may use the room that bulk records leave free (WRITER_SLACK). */
static bool is_vital(const struct rec_hdr *h)
{
	return h->kind == REC_TASK || h->kind == REC_STEP || h->kind == REC_REQUEST || h->kind == REC_GPU_STEP;
}

static void drop_record(struct output *o, const struct rec_hdr *h)
{
	struct drop *d = &o->drops[(o->n_drops - 1) % DROPS_MAX];
	uint64_t end = h->start_ns + h->dur_ns;

	o->dropped[h->kind]++;
	if (!o->n_drops || end > d->to_ns + DROPS_APART_NS || end + DROPS_APART_NS < d->from_ns) {
		d = &o->drops[o->n_drops++ % DROPS_MAX];
		*d = (struct drop){ .from_ns = end, .to_ns = end };
	}
	d->from_ns = end < d->from_ns ? end : d->from_ns;
	d->to_ns = end > d->to_ns ? end : d->to_ns;
	d->n++;
}

/* Adds to a step's lost records those that this file lacks: dropped while it ran, or some milliseconds before or after. */
static const struct rec_hdr *with_drops(const struct output *o, const struct rec_hdr *h, size_t size)
{
	static struct rec_step_parts copy;
	uint32_t n = 0;

	for (unsigned int i = 0; i < DROPS_MAX && i < o->n_drops; i++) {
		if (o->drops[i].to_ns >= h->start_ns && o->drops[i].from_ns <= h->start_ns + h->dur_ns)
			n += o->drops[i].n;
	}
	if (!n)
		return h;
	memcpy(&copy, h, size);
	copy.s.lost += n;
	return &copy.s.h;
}

static void output_record(struct sink *s, const struct rec_hdr *h, size_t size)
{
	struct output *o = (struct output *)s;

	if (writer_full(o->file.w) && !is_vital(h))
		drop_record(o, h);
	else
		sink_record(o->format, h->kind == REC_STEP && o->n_drops ? with_drops(o, h, size) : h, size);
	if (o->rotation && !o->err)
		o->err = rotation_turn(o->rotation, &o->file, o->format, false);
}

static void output_loss(struct sink *s, const struct loss *l)
{
	sink_loss(((struct output *)s)->format, l);
}

static void output_mark(struct sink *s, const struct mark *m)
{
	sink_mark(((struct output *)s)->format, m);
}

static void output_settled(struct sink *s)
{
	sink_settled(((struct output *)s)->format);
}

static int output_flush(struct sink *s)
{
	struct output *o = (struct output *)s;
	int err = sink_flush(o->format);

	if (o->rotation && !o->err)
		o->err = rotation_turn(o->rotation, &o->file, o->format, true);
	return err ? err : o->err;
}

static uint64_t output_bytes(const struct sink *s)
{
	const struct output *o = (const struct output *)s;

	return sink_bytes(o->format) + rotation_bytes(o->rotation);
}

static uint64_t output_pending(const struct sink *s)
{
	const struct output *o = (const struct output *)s;

	return writer_pending(o->file.w) + rotation_pending(o->rotation);
}

static void output_dropped(const struct sink *s, uint64_t counts[REC_KIND_MAX])
{
	for (int k = 0; k < REC_KIND_MAX; k++)
		counts[k] += ((const struct output *)s)->dropped[k];
}

static void report_files(const struct output *o)
{
	struct stat st;

	if (!o->on_file)
		return;
	rotation_report(o->rotation, o->on_file, o->on_file_arg);
	if (!out_file_is_stdout(o->file.name) && !stat(o->file.name, &st))
		o->on_file(o->file.name, (uint64_t)st.st_size, o->on_file_arg);
}

static void output_free(struct output *o)
{
	rotation_free(o->rotation);
	free(o->file.name);
	free(o);
}

static int output_close(struct sink *s, const struct window_totals *t)
{
	struct output *o = (struct output *)s;
	int old_err = rotation_close(o->rotation), end_err = 0;
	int err = sink_close(o->format, t);

	if (t)
		end_err = rotation_end(o->rotation, &o->file);
	err = err ? err : end_err;
	if (!err && !(o->file.is_part && t && t->cut))
		err = out_file_finish(&o->file, t);
	if (t && !err)
		report_files(o);
	output_free(o);
	return old_err ? old_err : err;
}

static const struct sink_ops output_ops = {
	.record = output_record,
	.loss = output_loss,
	.mark = output_mark,
	.settled = output_settled,
	.flush = output_flush,
	.close = output_close,
	.bytes = output_bytes,
	.pending = output_pending,
	.dropped = output_dropped,
};

static const struct output *nth_output(const struct sink *s, size_t i)
{
	s = s ? tee_nth(request_feed_inner(s), i) : NULL;
	return s && s->ops == &output_ops ? (const struct output *)s : NULL;
}

const char *outputs_name(const struct sink *s, size_t i)
{
	const struct output *o = nth_output(s, i);

	return o ? o->file.name : NULL;
}

int outputs_reopen(const struct sink *s, size_t i)
{
	const struct output *o = nth_output(s, i);

	return o ? writer_reopen(o->file.w) : -ENOENT;
}

/* ---- one output ---- */

static const char *message_name(const struct output *o, bool by_time, char buf[PATH_MAX])
{
	if (out_file_is_stdout(o->file.name))
		return "stdout";
	return by_time ? out_file_part_name(&o->file, buf) : o->file.name;
}

/* With --max-size an output continues in further files, if it is a regular file. */
static int set_rotation(const struct record_options *opt, struct output *o, int fd, enum writer_mode mode)
{
	const char *name = o->file.name;
	struct stat st;

	if (!opt->max_size)
		return 0;
	if (!out_file_is_stdout(name) && !fstat(fd, &st) && S_ISREG(st.st_mode))
		return rotation_new(opt, name, mode, record_by_time(opt), &o->rotation);
	log_warn("--max-size: %s is not a regular file and cannot continue in another",
		out_file_is_stdout(name) ? "stdout" : name);
	return 0;
}

/* Opens a trace from its beginning. Returns its descriptor. */
static int open_trace(const struct record_options *opt, struct output *o, const char *name, enum writer_mode mode)
{
	int fd = out_file_open(name, 0, record_by_time(opt), &o->file);
	int err = fd < 0 ? 0 : out_file_claim(fd, name) ?: set_rotation(opt, o, fd, mode);

	if (err)
		out_file_drop(&o->file, fd);
	return err ? err : fd;
}

/* An existing profile may have reached its size already. Returns the descriptor to write to. */
static int behind_profile(struct output *o, int fd, uint64_t max_size)
{
	struct out_file next;
	struct stat st;

	if (fstat(fd, &st) || (uint64_t)st.st_size < max_size) {
		rotation_keep_first(o->rotation);
		return fd;
	}
	close(fd);
	fd = rotation_create(o->rotation, &next);
	if (fd < 0)
		return fd;
	free(o->file.name);
	o->file = next;
	return fd;
}

/* Opens a profile to append to. Returns its descriptor. */
static int open_profile(const struct record_options *opt, struct output *o, const char *name)
{
	int fd = out_file_open(name, O_APPEND, record_by_time(opt), &o->file);
	int err = fd < 0 ? 0 : set_rotation(opt, o, fd, WRITER_LINES);

	if (!err && fd >= 0 && o->rotation && !o->file.created)
		fd = behind_profile(o, fd, opt->max_size);
	if (!err && fd >= 0) {
		err = out_file_end_last_line(fd);
		if (err)
			log_error("cannot write %s: %s", name, strerror(-err));
	}
	if (err)
		out_file_drop(&o->file, fd);
	return err ? err : fd;
}

static int profile_new(struct writer *w, const struct recording *rec, struct sink **ret_sink)
{
	return profile_sink_new(w, rec, rec->meta, ret_sink);
}

/* What a file's name ends in says what is in it. */
struct format {
	const char *suffix;
	enum writer_mode mode;
	int (*open)(struct writer *w, const struct recording *rec, struct sink **ret_sink);
	bool kineto; /* in the form of PyTorch's profiler */
};

static const struct format traces[] = {
	{ ".pftrace", WRITER_PACKETS, perfetto_sink_new, false },
	{ ".pftrace.gz", WRITER_PACKETS_GZIP, perfetto_sink_new, false },
	{ ".et", WRITER_PACKETS, chakra_sink_new, false },
	{ ".et.json", WRITER_PLAIN, chakra_sink_new, true },
	{ ".kineto.json", WRITER_PLAIN, chrome_sink_new, true },
	{ ".kineto.json.gz", WRITER_GZIP, chrome_sink_new, true },
	{ ".gz", WRITER_GZIP, chrome_sink_new, false },
	{ "", WRITER_PLAIN, chrome_sink_new, false },
};
static const struct format profiles = { "", WRITER_LINES, profile_new, false };

static const struct format *format_of(const char *name, bool profile)
{
	const struct format *f = traces;

	if (profile)
		return &profiles;
	while (!text_has_suffix(name, f->suffix))
		f++;
	return f;
}

/* number: the index of the output in the recording. */
static int output_new(const struct record_options *opt, const struct recording *rec, const char *name, bool profile,
	unsigned int number, struct sink **ret_sink)
{
	struct output *o = calloc(1, sizeof(*o));
	struct recording mine = *rec;
	const struct format *format = format_of(name, profile);
	char part[PATH_MAX];
	int err = 0, fd;

	if (!o)
		return -ENOMEM;
	o->sink.ops = &output_ops;
	o->on_file = rec->on_file;
	o->on_file_arg = rec->on_file_arg;
	mine.output = number;
	mine.et_steps = opt->et_steps;
	mine.kineto = format->kineto;
	fd = profile ? open_profile(opt, o, name) : open_trace(opt, o, name, format->mode);
	if (fd >= 0)
		err = writer_new(fd, message_name(o, record_by_time(opt), part), format->mode, &o->file.w);
	else
		err = fd;
	if (!err) {
		fd = -1; /* now owned by the writer, and later by the format */
		writer_keep_free(o->file.w, &opt->min_free);
		err = format->open(o->file.w, &mine, &o->format);
	}
	if (err) {
		out_file_drop(&o->file, fd);
		output_free(o);
		return err;
	}
	*ret_sink = &o->sink;
	return 0;
}

/* ---- a set of outputs ---- */

struct set {
	struct sink *list[OUTPUTS_MAX + 2]; /* plus a profile and a view */
	size_t n;
};

static void drop_set(struct set *set)
{
	for (size_t i = 0; i < set->n; i++)
		sink_close(set->list[i], NULL);
	set->n = 0;
}

static int add_output(struct set *set, const struct record_options *o, const struct recording *rec, const char *name,
	bool profile)
{
	int err = output_new(o, rec, name, profile, (unsigned int)set->n, &set->list[set->n]);

	set->n += !err;
	return err;
}

/* DIR/WHAT_pid<pid>_<ms>.SUFFIX, WHAT_others_, or with -a WHAT_system_; NULL without memory. */
static char *name_by_time(
	const struct record_options *o, const char *what, uint32_t tgid, uint64_t ms, const char *suffix)
{
	char *name, whose[16];

	if (tgid)
		snprintf(whose, sizeof(whose), "pid%u", tgid);
	else
		snprintf(whose, sizeof(whose), o->all ? "system" : "others");
	if (asprintf(&name, "%s/%s_%s_%" PRIu64 ".%s", o->output_dir, what, whose, ms, suffix) < 0)
		return NULL;
	return name;
}

static int add_at(struct set *set, const struct record_options *o, const struct recording *rec, uint64_t ms)
{
	int err = 0;

	for (size_t i = 0; i <= o->n_formats && !err; i++) {
		bool profile = i == o->n_formats;
		const char *suffix = profile ? "jsonl" : o->formats[i];
		const char *trace = !o->chakra_names ? "trace" : strncmp(suffix, "et", 2) ? "kineto" : "chakra_trace";
		char *name = name_by_time(o, profile ? "profile" : trace, rec->tgid, ms, suffix);

		if (!name)
			return -ENOMEM;
		err = add_output(set, o, rec, name, profile);
		free(name);
	}
	return err;
}

/* Nothing that exists is overwritten: increases the time in the names until all of them are free. */
static int add_by_time(struct set *set, const struct record_options *o, const struct recording *rec)
{
	uint64_t ms = rec->name_real_ns / 1000000;
	int err;

	while ((err = add_at(set, o, rec, ms)) == -EEXIST) {
		drop_set(set);
		ms++;
	}
	return err;
}

static int add_view(struct set *set, struct view *v, const struct recording *rec)
{
	int err = v->ops->open(v, rec, &set->list[set->n]);

	set->n += !err;
	return err;
}

/* requests: what the outputs tell of them. */
static int open_all(const struct recording *rec, const struct record_options *o, struct request_feed *requests,
	struct sink **ret_sink)
{
	struct recording own = *rec;
	struct set set = { .n = 0 };
	int err = 0;

	own.requests = requests;
	if (record_by_time(o))
		err = add_by_time(&set, o, &own);
	for (size_t i = 0; i < o->n_outputs && !err; i++)
		err = add_output(&set, o, &own, o->outputs[i], false);
	if (!err && o->profile)
		err = add_output(&set, o, &own, o->profile, true);
	if (!err && o->view) /* which keeps the pointer */
		err = add_view(&set, o->view, rec);
	for (size_t i = 0; i < set.n && !err; i++)
		err = sink_flush(set.list[i]);
	if (err) {
		drop_set(&set);
		return err;
	}
	return tee_new(set.list, set.n, ret_sink);
}

/* Of one recording, or of one process of it. */
static int open_set(const struct recording *rec, void *arg, struct sink **ret_sink)
{
	struct request_feed *requests;
	struct sink *all;
	int err = request_feed_new(rec, &requests);

	if (err)
		return err;
	err = open_all(rec, arg, requests, &all);
	if (err)
		request_feed_free(requests);
	else
		*ret_sink = request_feed_sink(requests, all);
	return err;
}

int outputs_open_of(const struct record_options *o, const struct recording *rec, const uint32_t *tgids, size_t n,
	struct sink **ret_sink)
{
	const struct by_process_config c = {
		.open = open_set,
		.arg = (void *)o,
		.all_cpus = o->events & EVENT_CPU,
		.tgids = tgids,
		.n_tgids = n,
	};

	tasks_forget_outputs(rec->tasks);
	return record_by_time(o) && !o->all ? by_process_new(&c, rec, ret_sink) : open_set(rec, (void *)o, ret_sink);
}

int outputs_open(const struct record_options *o, const struct recording *rec, struct sink **ret_sink)
{
	return outputs_open_of(o, rec, NULL, 0, ret_sink);
}
