// SPDX-License-Identifier: BSD-2-Clause
/* The outputs of a recording: names, files and sinks. */
#include "record/options.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/outfile.h"
#include "io/writer.h"
#include "record/metadata.h"
#include "record/rotate.h"
#include "target/process.h"
#include "util/log.h"
#include "util/text.h"

struct outputs {
	struct output out[OUTPUTS_MAX + 2]; /* a profile, a view */
	size_t n;
	const struct record_options *o;
	int err; /* of a file that could not follow another */
	bool by_time; /* named so */
	bool cut;     /* not all that belongs into the files is there */
};

#define PART_SUFFIX ".part"
#define NUMBERS_MAX 10000 /* of default names */

static char default_name[80 + TASK_COMM_LEN];

static bool is_stdout(const char *name)
{
	return !strcmp(name, "-");
}

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name), k = strlen(suffix);

	return n > k && !strcmp(name + n - k, suffix);
}

/* Of the process or the command; it comes from the traced side. */
static void name_target(const struct record_options *o, char comm[TASK_COMM_LEN])
{
	comm[0] = 0;
	if (o->command) {
		const char *base = strrchr(o->command[0], '/');

		snprintf(comm, TASK_COMM_LEN, "%.*s", TASK_COMM_LEN - 1, base ? base + 1 : o->command[0]);
	} else {
		process_comm(o->pids[0], comm);
	}
	for (char *c = comm; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '_';
	}
}

/* inftrace-COMM-PID.json, or .2.json and so on where that is the trace of an earlier run. */
static void make_default_name(const struct record_options *o)
{
	char comm[TASK_COMM_LEN], base[sizeof(default_name) - 16];
	struct stat st;

	if (!o->all)
		name_target(o, comm);
	if (o->all)
		snprintf(base, sizeof(base), "inftrace-system");
	else if (o->command)
		snprintf(base, sizeof(base), "inftrace-%s", comm);
	else
		snprintf(base, sizeof(base), "inftrace-%s-%d", comm, o->pids[0]);
	snprintf(default_name, sizeof(default_name), "%s.json", base);
	for (unsigned int n = 2; n < NUMBERS_MAX && !lstat(default_name, &st) && S_ISREG(st.st_mode); n++)
		snprintf(default_name, sizeof(default_name), "%s.%u.json", base, n);
}

static int check_file(const char *option, const char *name)
{
	char why[OUTFILE_WHY_MAX];
	struct stat st;
	int err;

	if (is_stdout(name))
		return 0;
	if (!stat(name, &st) && S_ISDIR(st.st_mode)) {
		log_error("%s: %s is a directory: give the name of a file in it", option, name);
		return -EINVAL;
	}
	err = outfile_check(name, why);
	if (!err)
		return 0;
	log_error("%s: cannot write %s: %s", option, name, why);
	return -EACCES;
}

/* Whatever the ways to it are called. Only regular files: two may go to /dev/null. */
static bool is_same_file(const char *a, const char *b)
{
	char dirs[2][PATH_MAX], path[PATH_MAX];
	const char *names[2] = { a, b }, *base[2];
	struct stat sa, sb;

	if (!stat(a, &sa) && !stat(b, &sb))
		return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
	for (int i = 0; i < 2; i++) {
		const char *slash = strrchr(names[i], '/');

		base[i] = slash ? slash + 1 : names[i];
		snprintf(path, sizeof(path), "%.*s", slash ? (int)(slash - names[i]) + 1 : 1, slash ? names[i] : ".");
		if (!realpath(path, dirs[i]))
			return !strcmp(a, b);
	}
	return !strcmp(dirs[0], dirs[1]) && !strcmp(base[0], base[1]);
}

static int check_twice(const char *option, const char *name, const struct record_options *o, size_t n_before)
{
	for (size_t i = 0; i < n_before && !is_stdout(name); i++) {
		const char *other = o->outputs[i];

		if (is_stdout(other) || !is_same_file(name, other))
			continue;
		if (!strcmp(name, other) && !strcmp(option, "-o"))
			log_error("-o: %s is given twice", name);
		else
			log_error("%s: %s is the same file as -o %s: give each its own", option, name, other);
		return -EINVAL;
	}
	return 0;
}

static int check_metadata(const struct record_options *o)
{
	if (o->model && text_is_blank(o->model, strlen(o->model))) {
		log_error("--model: must not be blank");
		return -EINVAL;
	}
	if (o->commit_sha && text_is_blank(o->commit_sha, strlen(o->commit_sha))) {
		log_error("--commit-sha: must not be blank");
		return -EINVAL;
	}
	if (!o->runtime_flags || metadata_flags_ok(o->runtime_flags))
		return 0;
	log_error("--runtime-flags: not a JSON object: %.60s", o->runtime_flags);
	return -EINVAL;
}

static int check_suffix(const char *name)
{
	struct stat st;

	if (is_stdout(name) || has_suffix(name, ".json") || has_suffix(name, ".json.gz") ||
		has_suffix(name, ".pftrace") || has_suffix(name, ".pftrace.gz"))
		return 0;
	if (!stat(name, &st) && S_ISDIR(st.st_mode))
		return 0; /* which is said instead */
	log_error("-o: %s: the name must end in .json, .json.gz, .pftrace or .pftrace.gz, or be - for stdout", name);
	return -EINVAL;
}

/* Its directory may be missing. */
static int check_profile(const struct record_options *o)
{
	char why[OUTFILE_WHY_MAX], dir[PATH_MAX];
	const char *slash = strrchr(o->profile, '/');
	int err;

	if (is_stdout(o->profile))
		return 0;
	if (!*o->profile) {
		log_error("--profile: the name is empty");
		return -EINVAL;
	}
	err = check_twice("--profile", o->profile, o, o->n_outputs);
	if (err)
		return err;
	err = outfile_check_parent(o->profile, why);
	if (err) {
		log_error("--profile: cannot create the directory of %s: %s", o->profile, why);
		return err;
	}
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - o->profile) + 1 : 1, slash ? o->profile : ".");
	return access(dir, F_OK) ? 0 : check_file("--profile", o->profile);
}

int outputs_check(struct record_options *o)
{
	unsigned int to_stdout = 0;
	int err = check_metadata(o);

	if (err)
		return err;
	if (!o->n_outputs && !o->profile && !o->view && !record_by_time(o)) {
		make_default_name(o);
		o->outputs[o->n_outputs++] = default_name;
	}
	for (size_t i = 0; i < o->n_outputs; i++) {
		const char *name = o->outputs[i];

		to_stdout += is_stdout(name);
		err = check_twice("-o", name, o, i);
		if (!err)
			err = check_suffix(name);
		if (!err)
			err = check_file("-o", name);
		if (err)
			return err;
	}
	if (o->profile)
		err = check_profile(o);
	to_stdout += o->profile && is_stdout(o->profile);
	if (!err && to_stdout > 1) {
		log_error("only one output can go to stdout");
		err = -EINVAL;
	}
	return err;
}

int outputs_prepare(const struct record_options *o)
{
	char why[OUTFILE_WHY_MAX];
	int err = 0;

	if (record_by_time(o)) {
		err = outfile_make_directory(o->output_dir, why);
		if (err)
			log_error("--output-dir: cannot write into %s: %s", o->output_dir, why);
	} else if (o->profile && !is_stdout(o->profile)) {
		err = outfile_make_parent(o->profile, why);
		if (err)
			log_error("--profile: cannot create the directory of %s: %s", o->profile, why);
	}
	return err;
}

/* ---- files ---- */

static int make_name(struct output *o, const char *name)
{
	o->name = strdup(name);
	return o->name ? 0 : -ENOMEM;
}

const char *output_part_name(const struct output *o, char buf[PATH_MAX])
{
	snprintf(buf, PATH_MAX, "%s%s", o->name, o->is_part ? PART_SUFFIX : "");
	return buf;
}

int output_create_part(const char *name, int flags)
{
	char part[PATH_MAX], why[OUTFILE_WHY_MAX] = "";
	bool created;
	int fd;

	if (snprintf(part, sizeof(part), "%s" PART_SUFFIX, name) >= (int)sizeof(part)) {
		fd = -ENAMETOOLONG;
		snprintf(why, sizeof(why), "%s", strerror(-fd));
	} else {
		fd = outfile_open(part, O_EXCL | flags, &created, why);
	}
	if (fd < 0) {
		if (fd != -EEXIST)
			log_error("cannot create %s" PART_SUFFIX ": %s", name, why);
		return fd;
	}
	if (!faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW)) {
		outfile_unlink(part);
		close(fd);
		return -EEXIST;
	}
	return fd;
}

static int open_file(const char *name, int flags, bool part, struct output *ret_out)
{
	char why[OUTFILE_WHY_MAX];
	int fd;

	*ret_out = (struct output){ 0 };
	if (make_name(ret_out, name))
		return -ENOMEM;
	if (part) {
		fd = output_create_part(name, flags);
		ret_out->created = ret_out->is_part = fd >= 0;
		return fd;
	}
	if (is_stdout(name))
		return STDOUT_FILENO;
	fd = outfile_open(name, flags, &ret_out->created, why);
	if (fd < 0) {
		log_error("cannot create %s: %s", name, why);
		return fd;
	}
	fcntl(fd, F_SETFL, flags); /* without the O_NONBLOCK it was opened with */
	return fd;
}

/* A trace is written anew, by one recording at a time. */
static int claim_file(int fd, const char *name)
{
	struct stat st;
	int err = 0;

	if (is_stdout(name) || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		log_error("cannot write %s: another recording is writing it", name);
		return -EBUSY;
	}
	if (ftruncate(fd, 0)) {
		err = -errno;
		log_error("cannot write %s: %s", name, strerror(-err));
	}
	return err;
}

int output_drop(struct output *o, int fd, int err)
{
	char part[PATH_MAX];

	if (fd >= 0 && fd != STDOUT_FILENO)
		close(fd);
	if (o->created && o->name)
		outfile_unlink(output_part_name(o, part));
	rotation_free(o->rotation);
	free(o->name);
	*o = (struct output){ 0 };
	return err;
}

static const char *message_name(const struct outputs *out, const struct output *o, char buf[PATH_MAX])
{
	if (is_stdout(o->name))
		return "stdout";
	return out->by_time ? output_part_name(o, buf) : o->name;
}

/* With --max-size what is a file goes on in others. */
static int set_rotation(struct outputs *out, struct output *o, int fd, enum writer_mode mode)
{
	struct stat st;

	if (!out->o->max_size)
		return 0;
	if (!is_stdout(o->name) && !fstat(fd, &st) && S_ISREG(st.st_mode))
		return rotation_new(out->o, o->name, mode, out->by_time, &o->rotation);
	log_warn("--max-size: %s is no regular file and cannot go on in another",
		is_stdout(o->name) ? "stdout" : o->name);
	return 0;
}

static int open_trace(const char *name, const struct recording *rec, struct outputs *out)
{
	struct output *o = &out->out[out->n];
	struct recording mine = *rec;
	bool gzip = has_suffix(name, ".gz");
	bool native = has_suffix(name, gzip ? ".pftrace.gz" : ".pftrace");
	enum writer_mode mode = native ? (gzip ? WRITER_PACKETS_GZIP : WRITER_PACKETS) :
					 (gzip ? WRITER_GZIP : WRITER_PLAIN);
	char part[PATH_MAX];
	int err, fd;

	fd = open_file(name, 0, out->by_time, o);
	if (fd < 0)
		return output_drop(o, -1, fd);
	err = claim_file(fd, name) ?: set_rotation(out, o, fd, mode);
	if (!err)
		err = writer_new(fd, message_name(out, o, part), mode, &o->w);
	if (err)
		return output_drop(o, fd, err);
	writer_keep_free(o->w, &out->o->min_free);
	mine.output = (unsigned int)out->n;
	err = native ? perfetto_sink_new(o->w, &mine, &o->sink) : chrome_sink_new(o->w, &mine, &o->sink);
	if (err)
		return output_drop(o, -1, err);
	out->n++;
	return 0;
}

/* A run that was killed may have left half a line: what is appended begins a new one. */
static int end_last_line(int fd)
{
	char last = '\n';
	struct stat st;
	int in;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	in = outfile_reopen(fd);
	if (in < 0)
		return 0; /* writable, but not ours to read */
	if (pread(in, &last, 1, st.st_size - 1) != 1)
		last = '\n';
	close(in);
	return last == '\n' || write(fd, "\n", 1) == 1 ? 0 : -errno;
}

/* One that was there may have its size already. Returns the descriptor to write to. */
static int behind_profile(struct output *o, int fd, uint64_t max_size)
{
	struct output next;
	struct stat st;

	if (fstat(fd, &st) || (uint64_t)st.st_size < max_size) {
		rotation_keep_first(o->rotation);
		return fd;
	}
	close(fd);
	fd = rotation_create(o->rotation, &next);
	if (fd < 0)
		return fd;
	free(o->name);
	o->name = next.name;
	o->is_part = o->created = true;
	return fd;
}

static int open_profile(const char *name, const struct recording *rec, struct outputs *out)
{
	struct output *o = &out->out[out->n];
	char part[PATH_MAX];
	int err, fd;

	fd = open_file(name, O_APPEND, out->by_time, o);
	if (fd < 0)
		return output_drop(o, -1, fd);
	err = set_rotation(out, o, fd, WRITER_LINES);
	if (!err && o->rotation && !o->created)
		fd = behind_profile(o, fd, out->o->max_size);
	if (fd < 0)
		return output_drop(o, -1, fd);
	if (!err)
		err = end_last_line(fd);
	if (err)
		log_error("cannot write %s: %s", name, strerror(-err));
	else
		err = writer_new(fd, message_name(out, o, part), WRITER_LINES, &o->w);
	if (err)
		return output_drop(o, fd, err);
	writer_keep_free(o->w, &out->o->min_free);
	err = profile_sink_new(o->w, rec, rec->meta, &o->sink);
	if (err)
		return output_drop(o, -1, err);
	out->n++;
	return 0;
}

static int open_view(struct view *v, const struct recording *rec, struct outputs *out)
{
	struct output *o = &out->out[out->n];
	int err;

	*o = (struct output){ 0 };
	err = make_name(o, "-");
	if (!err)
		err = v->ops->open(v, rec, &o->sink);
	if (err)
		return output_drop(o, -1, err);
	out->n++;
	return 0;
}

int output_finish(struct output *o, bool keep)
{
	char part[PATH_MAX];
	int err = 0;

	output_part_name(o, part);
	if (!keep && o->created)
		outfile_unlink(part);
	else if (o->is_part)
		err = outfile_rename(part, o->name);
	if (err)
		log_error("cannot rename %s to %s: %s", part, o->name, strerror(-err));
	return err;
}

static void drop_outputs(struct outputs *out)
{
	for (size_t i = 0; i < out->n; i++) {
		struct output *o = &out->out[i];

		o->sink->ops->close(o->sink, NULL);
		output_finish(o, false);
		rotation_free(o->rotation);
		free(o->name);
	}
	out->n = 0;
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

static int open_at(const struct record_options *o, const struct recording *rec, uint64_t ms, struct outputs *out)
{
	int err = 0;

	for (size_t i = 0; i <= o->n_formats && !err; i++) {
		bool trace = i < o->n_formats;
		char *name = name_by_time(o, trace ? "trace" : "profile", rec->tgid, ms,
			trace ? o->formats[i] : "jsonl");

		if (!name)
			return -ENOMEM;
		err = trace ? open_trace(name, rec, out) : open_profile(name, rec, out);
		free(name);
	}
	return err;
}

/* Nothing that exists is overwritten: the time in the names is moved on until all are free. */
static int open_by_time(const struct record_options *o, const struct recording *rec, struct outputs *out)
{
	uint64_t ms = rec->name_real_ns / 1000000;
	int err;

	while ((err = open_at(o, rec, ms, out)) == -EEXIST) {
		drop_outputs(out);
		ms++;
	}
	return err;
}

int outputs_open(const struct record_options *o, const struct recording *rec, struct outputs **ret_out)
{
	struct outputs *out = calloc(1, sizeof(*out));
	int err = 0;

	if (!out)
		return -ENOMEM;
	out->o = o;
	out->by_time = record_by_time(o);
	if (out->by_time)
		err = open_by_time(o, rec, out);
	for (size_t i = 0; i < o->n_outputs && !err; i++)
		err = open_trace(o->outputs[i], rec, out);
	if (!err && o->profile)
		err = open_profile(o->profile, rec, out);
	if (!err && o->view)
		err = open_view(o->view, rec, out);
	if (!err)
		err = outputs_flush(out);
	if (err) {
		outputs_close(out, NULL, NULL, NULL);
		return err;
	}
	*ret_out = out;
	return 0;
}

void outputs_record(struct outputs *out, const struct rec_hdr *rec)
{
	for (size_t i = 0; i < out->n; i++) {
		struct output *o = &out->out[i];

		if (o->w && writer_full(o->w) && rec->kind != REC_TASK)
			o->dropped[rec->kind]++;
		else
			o->sink->ops->record(o->sink, rec);
		if (o->rotation && !out->err)
			out->err = output_rotate(o, false);
	}
}

void outputs_loss(struct outputs *out, const struct loss *l)
{
	for (size_t i = 0; i < out->n; i++)
		out->out[i].sink->ops->loss(out->out[i].sink, l);
}

void outputs_mark(struct outputs *out, const struct mark *m)
{
	for (size_t i = 0; i < out->n; i++) {
		if (out->out[i].sink->ops->mark)
			out->out[i].sink->ops->mark(out->out[i].sink, m);
	}
}

uint64_t outputs_pending(const struct outputs *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < out->n; i++) {
		n += out->out[i].w ? writer_pending(out->out[i].w) : 0;
		n += rotation_pending(&out->out[i]);
	}
	return n;
}

void outputs_dropped(const struct outputs *out, uint64_t counts[REC_KIND_MAX])
{
	for (size_t i = 0; i < out->n; i++) {
		for (int k = 0; k < REC_KIND_MAX; k++)
			counts[k] += out->out[i].dropped[k];
	}
}

void outputs_settled(struct outputs *out)
{
	for (size_t i = 0; i < out->n; i++) {
		if (out->out[i].sink->ops->settled)
			out->out[i].sink->ops->settled(out->out[i].sink);
	}
}

int outputs_flush(struct outputs *out)
{
	int err = 0;

	for (size_t i = 0; i < out->n; i++) {
		struct output *o = &out->out[i];
		int e = o->sink->ops->flush(o->sink);

		err = err ? err : e;
		if (o->rotation && !out->err)
			out->err = output_rotate(o, true);
	}
	return err ? err : out->err;
}

uint64_t outputs_bytes(const struct outputs *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < out->n; i++)
		n += out->out[i].sink->ops->bytes(out->out[i].sink) + rotation_bytes(&out->out[i]);
	return n;
}

const char *outputs_name(const struct outputs *out, size_t i)
{
	return i < out->n ? out->out[i].name : NULL;
}

int outputs_reopen(const struct outputs *out, size_t i)
{
	return i < out->n && out->out[i].w ? writer_reopen(out->out[i].w) : -ENOENT;
}

static void report_file(const struct output *o, void (*cb)(const char *name, uint64_t bytes, void *arg), void *arg)
{
	struct stat st;

	if (cb)
		rotation_report(o, cb, arg);
	if (cb && !is_stdout(o->name) && !stat(o->name, &st))
		cb(o->name, (uint64_t)st.st_size, arg);
}

void outputs_cut(struct outputs *out)
{
	out->cut = true;
}

int outputs_close(struct outputs *out, const struct window_totals *t,
	void (*cb)(const char *name, uint64_t bytes, void *arg), void *arg)
{
	int err = 0;

	if (!out)
		return 0;
	for (size_t i = 0; i < out->n; i++) {
		struct output *o = &out->out[i];
		int old_err = rotation_close(o);
		int e = o->sink->ops->close(o->sink, t);

		err = err ? err : old_err;
		if (t && !e)
			e = rotation_end(o);
		else if (t)
			rotation_end(o);
		if (!e && !(o->is_part && out->cut))
			e = output_finish(o, t);
		err = err ? err : e;
		if (t && !e)
			report_file(o, cb, arg);
		rotation_free(o->rotation);
		free(o->name);
	}
	free(out);
	return err;
}
