// SPDX-License-Identifier: BSD-2-Clause
#include "record/output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
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
#include "record/options.h"
#include "requests/request_feed.h"
#include "sink/tee.h"
#include "target/process.h"
#include "util/alloc.h"
#include "util/list.h"
#include "util/log.h"
#include "util/text.h"

/* ---- one file ---- */

#define PART_SUFFIX ".part"

struct out_file {
	struct writer *w; /* NULL: not yet */
	char *name;
	bool is_part; /* its name has ".part" appended */
	bool created; /* by us: removed again if nothing was recorded */
};

static bool out_file_is_stdout(const char *name)
{
	return !strcmp(name, "-");
}

static const char *out_file_part_name(const struct out_file *f, char buf[PATH_MAX])
{
	snprintf(buf, PATH_MAX, "%s%s", f->name, f->is_part ? PART_SUFFIX : "");
	return buf;
}

/* -EEXIST: the name is taken, perhaps by a part of another recording. Prints one line on any other failure. */
static int out_file_create_part(const char *name, int flags)
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

/* part: opens it under the name of a part, which must not exist. Returns a descriptor, -EEXIST, or another error,
 * for which one line has been printed. Drop *ret_file in any case. */
static int out_file_open(const char *name, int flags, bool part, struct out_file *ret_file)
{
	char why[OUTFILE_WHY_MAX];
	int fd;

	*ret_file = (struct out_file){ .name = xstrdup(name) };
	if (part) {
		fd = out_file_create_part(name, flags);
		ret_file->created = ret_file->is_part = fd >= 0;
		return fd;
	}
	if (out_file_is_stdout(name))
		return STDOUT_FILENO;
	fd = outfile_open(name, flags, &ret_file->created, why);
	if (fd < 0)
		return log_fail(fd, "cannot create %s: %s", name, why);
	fcntl(fd, F_SETFL, flags); /* removes the O_NONBLOCK that it was opened with */
	return fd;
}

/* Locks a trace, for one recording at a time, and truncates it. Prints one line on failure. */
static int out_file_claim(int fd, const char *name)
{
	struct stat st;
	int err = 0;

	if (out_file_is_stdout(name) || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return log_fail(-EBUSY, "cannot write %s: another recording is writing it", name);
	if (ftruncate(fd, 0)) {
		err = -errno;
		log_error("cannot write %s: %s", name, strerror(-err));
	}
	return err;
}

/* Makes appended lines begin on a new line, since a run that was killed may have left half a line, or half a gzip member. -errno. */
static int out_file_end_last_line(int fd, enum writer_mode mode)
{
	char last = '\n';
	struct stat st;
	int in;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	if (mode == WRITER_LINES_GZIP) /* a part of a member may be what another recording is writing */
		return flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK ? -EBUSY : writer_cut_member(fd);
	if (!st.st_size)
		return 0;
	in = outfile_reopen(fd);
	if (in < 0)
		return 0; /* it may be written, but not read */
	if (pread(in, &last, 1, st.st_size - 1) != 1)
		last = '\n';
	close(in);
	return last == '\n' || write(fd, "\n", 1) == 1 ? 0 : -errno;
}

/* Gives a written file its own name; keep false: removes it if it was created. Errors of writing have been reported. */
static int out_file_finish(struct out_file *f, bool keep)
{
	char part[PATH_MAX];
	int err = 0;

	out_file_part_name(f, part);
	if (!keep && f->created)
		outfile_unlink(part);
	else if (f->is_part)
		err = outfile_rename(part, f->name);
	if (err)
		log_error("cannot rename %s to %s: %s", part, f->name, strerror(-err));
	return err;
}

/* Closes the descriptor (if not -1), removes a file that was created, and frees the name. */
static void out_file_drop(struct out_file *f, int fd)
{
	char part[PATH_MAX];

	if (fd >= 0 && fd != STDOUT_FILENO)
		close(fd);
	if (f->created && f->name)
		outfile_unlink(out_file_part_name(f, part));
	free(f->name);
	*f = (struct out_file){ 0 };
}

/* ---- files for clients ---- */

struct json_object *file_path_json(const char *name)
{
	char cwd[PATH_MAX], path[2 * PATH_MAX];

	if (name[0] == '/' || !strcmp(name, "-") || !getcwd(cwd, sizeof(cwd)))
		return json_object_new_string(name);
	if (!strcmp(name, "."))
		return json_object_new_string(cwd);
	snprintf(path, sizeof(path), "%s/%s", cwd, strncmp(name, "./", 2) ? name : name + 2);
	return json_object_new_string(path);
}

void left_files_add(struct left_files *f, const char *name, uint64_t bytes)
{
	struct json_object *o;

	f->n++;
	f->bytes += bytes;
	if (!f->list)
		return;
	o = json_object_new_object();
	json_object_object_add(o, "name", file_path_json(name));
	json_object_object_add(o, "bytes", json_object_new_int64((int64_t)bytes));
	json_object_array_add(f->list, o);
}

/* ---- checks ---- */

#define NUMBERS_MAX 10000 /* tried for default names */

static char default_name[80 + TASK_COMM_LEN];

/* The name of the process or the command, made safe for a file name: it comes from the traced side. */
static void name_target(const struct record_options *o, char comm[TASK_COMM_LEN])
{
	comm[0] = 0;
	if (o->command)
		snprintf(comm, TASK_COMM_LEN, "%.*s", TASK_COMM_LEN - 1, basename(o->command[0]));
	else
		process_comm(o->pids[0], comm);
	for (char *c = comm; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '_';
	}
}

/* inftrace-COMM-PID.json, or .2.json and so on if an earlier run has left that one. Samples need a .pftrace. */
static void make_default_name(const struct record_options *o)
{
	const char *suffix = o->events & EVENT_SAMPLES ? "pftrace" : "json";
	char comm[TASK_COMM_LEN], base[sizeof(default_name) - 16];
	struct stat st;

	if (!o->all && !record_finds(o))
		name_target(o, comm);
	if (o->all)
		snprintf(base, sizeof(base), "inftrace-system");
	else if (o->discover)
		snprintf(base, sizeof(base), "inftrace-discovered");
	else if (o->cgroup)
		snprintf(base, sizeof(base), "inftrace-cgroup");
	else if (o->command)
		snprintf(base, sizeof(base), "inftrace-%s", comm);
	else
		snprintf(base, sizeof(base), "inftrace-%s-%d", comm, o->pids[0]);
	snprintf(default_name, sizeof(default_name), "%s.%s", base, suffix);
	for (unsigned int n = 2; n < NUMBERS_MAX && !lstat(default_name, &st) && S_ISREG(st.st_mode); n++)
		snprintf(default_name, sizeof(default_name), "%s.%u.%s", base, n, suffix);
}

static int output_check_file(const char *option, const char *name)
{
	char why[OUTFILE_WHY_MAX];
	struct stat st;
	int err;

	if (out_file_is_stdout(name))
		return 0;
	if (!stat(name, &st) && S_ISDIR(st.st_mode))
		return log_fail(-EINVAL, "%s: %s is a directory: give the name of a file in it", option, name);
	err = outfile_check(name, why);
	if (!err)
		return 0;
	return log_fail(-EACCES, "%s: cannot write %s: %s", option, name, why);
}

/* Compares the files, not their paths. Regular files only: two outputs may go to /dev/null. */
static bool is_same_file(const char *a, const char *b)
{
	char dirs[2][PATH_MAX], path[PATH_MAX];
	const char *names[2] = { a, b }, *base[2];
	struct stat sa, sb;
	int n;

	if (!stat(a, &sa) && !stat(b, &sb))
		return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
	for (int i = 0; i < 2; i++) {
		base[i] = basename(names[i]);
		n = (int)(base[i] - names[i]);
		snprintf(path, sizeof(path), "%.*s", n ? n : 1, n ? names[i] : ".");
		if (!realpath(path, dirs[i]))
			return !strcmp(a, b);
	}
	return !strcmp(dirs[0], dirs[1]) && !strcmp(base[0], base[1]);
}

/* Checks that the file is neither another output nor a preset that is read. */
static int check_other(const char *option, const char *name, const struct record_options *o, size_t n_before)
{
	for (size_t i = 0; i < n_before && !out_file_is_stdout(name); i++) {
		const char *other = o->outputs[i];

		if (out_file_is_stdout(other) || !is_same_file(name, other))
			continue;
		if (!strcmp(name, other) && !strcmp(option, "-o"))
			log_error("-o: %s is given twice", name);
		else
			log_error("%s: %s is the same file as -o %s: give each its own", option, name, other);
		return -EINVAL;
	}
	for (size_t i = 0; i < o->n_engines && !out_file_is_stdout(name); i++) {
		if (access(o->engines[i], F_OK) || !is_same_file(name, o->engines[i]))
			continue;
		return log_fail(-EINVAL, "%s: %s is the preset of --engine %s, which would be replaced: choose another name", option, name, o->engines[i]);
	}
	return 0;
}

static int check_metadata(const struct record_options *o)
{
	const char *const texts[][2] = { { "--model", o->model }, { "--commit-sha", o->commit_sha } };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i][1] && text_is_blank(texts[i][1], strlen(texts[i][1])))
			return log_fail(-EINVAL, "%s: must not be blank", texts[i][0]);
	}
	if (!o->runtime_flags || metadata_flags_ok(o->runtime_flags))
		return 0;
	return log_fail(-EINVAL, "--runtime-flags: not a JSON object: %.60s", o->runtime_flags);
}

static int check_suffix(const char *name)
{
	static const char *const known[] = { ".json", ".json.gz", ".pftrace", ".pftrace.gz", ".et" };
	struct stat st;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (text_has_suffix(name, known[i]))
			return 0;
	}
	if (out_file_is_stdout(name))
		return 0;
	if (!stat(name, &st) && S_ISDIR(st.st_mode))
		return 0; /* which is reported instead */
	return log_fail(-EINVAL, "-o: %s: the name must end in .json, .json.gz, .pftrace, .pftrace.gz or .et, or be - for stdout", name);
}

/* The directory of the profile may be missing. */
static int output_check_profile(const struct record_options *o)
{
	char why[OUTFILE_WHY_MAX], dir[PATH_MAX];
	const char *slash = strrchr(o->profile, '/');
	int err;

	if (out_file_is_stdout(o->profile))
		return 0;
	if (!*o->profile)
		return log_fail(-EINVAL, "--profile: the name is empty");
	err = check_other("--profile", o->profile, o, o->n_outputs);
	if (err)
		return err;
	err = outfile_check_parent(o->profile, why);
	if (err)
		return log_fail(err, "--profile: cannot create the directory of %s: %s", o->profile, why);
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - o->profile) + 1 : 1, slash ? o->profile : ".");
	return access(dir, F_OK) ? 0 : output_check_file("--profile", o->profile);
}

/* Says which files will have no samples. */
static void report_missing_samples(const struct record_options *o)
{
	const char *json = NULL;
	bool perfetto = false;

	if (!(o->events & EVENT_SAMPLES) || o->view || record_by_time(o))
		return;
	for (size_t i = 0; i < o->n_outputs; i++) {
		if (text_has_suffix(o->outputs[i], ".pftrace") || text_has_suffix(o->outputs[i], ".pftrace.gz"))
			perfetto = true;
		else
			json = o->outputs[i];
	}
	if (!perfetto && !o->profile)
		log_warn("-e samples: no output has samples: add -o FILE.pftrace or --profile FILE");
	else if (json)
		log_info("samples are in .pftrace files and profiles, not in %s", json);
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

		to_stdout += out_file_is_stdout(name);
		err = check_other("-o", name, o, i);
		if (!err)
			err = check_suffix(name);
		if (!err)
			err = output_check_file("-o", name);
		if (err)
			return err;
	}
	if (o->profile)
		err = output_check_profile(o);
	to_stdout += o->profile && out_file_is_stdout(o->profile);
	if (!err && to_stdout > 1) {
		log_error("only one output can go to stdout");
		err = -EINVAL;
	}
	if (!err && record_wants_nodes(o, false) && !(o->events & EVENT_FUNCTIONS)) {
		log_error("-o: an execution trace is made of function calls: record them, too (-e +functions)");
		err = -EINVAL;
	}
	if (!err && o->et_steps && !record_wants_nodes(o, false)) {
		log_error("--et-steps needs an execution trace: -o FILE.et, or --format et");
		err = -EINVAL;
	}
	if (!err)
		report_missing_samples(o);
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
	} else if (o->profile && !out_file_is_stdout(o->profile)) {
		err = outfile_make_parent(o->profile, why);
		if (err)
			log_error("--profile: cannot create the directory of %s: %s", o->profile, why);
	}
	return err;
}

/* ---- the sink of an output ---- */

#define DROPS_MAX 32
#define DROPS_APART_NS 10000000 /* drops that are closer to each other are one interval */

/* These are few, and others make no sense without them: they may use the room that bulk records leave free (WRITER_SLACK). */
#define KINDS_VITAL (1u << REC_TASK | 1u << REC_STEP | 1u << REC_REQUEST | 1u << REC_GPU_STEP | 1u << REC_GAP | 1u << REC_SENT)

/* Records that were dropped because the writer was behind. */
struct drop {
	uint64_t from_ns, to_ns;
	uint32_t n;
};

struct output {
	struct sink sink;
	const struct record_options *o;
	enum writer_mode mode;
	struct sink *format;
	struct out_file file;
	/* --max-size: continues in a new file when one has reached that size */
	bool continues;
	char *base;          /* the name of the first file, which has number 1 */
	bool keep_first;     /* it held something before, which is not ours to delete */
	uint32_t number;     /* of the file being written */
	unsigned int looked; /* records since the last check of the size */
	struct out_file old; /* the previous file, until all of it is written; w NULL: it is */
	uint32_t *files;     /* numbers of the files before, oldest first */
	size_t n_files, cap_files;
	uint64_t files_bytes; /* of the finished ones */
	int err;              /* of a failed continuation */
	uint64_t dropped[REC_KIND_MAX];
	struct drop drops[DROPS_MAX]; /* the last ones */
	unsigned int n_drops;
	void (*on_file)(const char *name, uint64_t bytes, void *arg);
	void *on_file_arg;
};

/* ---- --max-size ---- */

#define LOOK_RECORDS 32 /* records between two checks of the size: some KB */
#define NUMBER_MAX 1000000

static bool is_profile(const struct output *o)
{
	return o->mode == WRITER_LINES || o->mode == WRITER_LINES_GZIP;
}

/* trace.json, trace.2.json, trace.3.json, ...; trace.2.json.gz */
static char *numbered_name(const struct output *o, uint32_t number)
{
	const char *file = basename(o->base), *dot;
	size_t len = strlen(file), stem = len, at;

	if (number == 1)
		return xstrdup(o->base);
	if (len > 3 && !strcmp(file + len - 3, ".gz"))
		stem -= 3;
	dot = memrchr(file, '.', stem);
	at = (size_t)((dot ? dot : file + stem) - o->base);
	return xasprintf("%.*s.%u%s", (int)at, o->base, number, o->base + at);
}

/* Creates the next file: numbers that are taken are skipped, and nothing is overwritten. Returns its descriptor. Prints one line on
 * failure. */
static int create_next(struct output *o, struct out_file *ret_file)
{
	int fd, flags = is_profile(o) ? O_APPEND : 0;
	uint32_t number = o->number;
	char *name = NULL;

	do {
		free(name);
		name = numbered_name(o, ++number);
		fd = out_file_create_part(name, flags);
	} while (fd == -EEXIST && number < NUMBER_MAX);
	if (fd < 0) {
		if (fd == -EEXIST)
			log_error("cannot create %s: all numbers are taken", name);
		free(name);
		return fd;
	}
	flock(fd, LOCK_EX | LOCK_NB); /* so that no other inftrace claims it */
	o->number = number;
	*ret_file = (struct out_file){ .name = name, .is_part = true, .created = true };
	return fd;
}

/* Writes what is left of the previous file, if any, and finishes it. Deletes the oldest files beyond --max-files, which includes the
 * one being written. */
static int finish_old(struct output *o)
{
	size_t kept = o->n_files && o->keep_first && o->files[0] == 1;
	int err, finish_err;

	if (!o->old.w)
		return 0;
	o->files_bytes += writer_bytes(o->old.w);
	err = writer_close(o->old.w);
	finish_err = out_file_finish(&o->old, true);
	free(o->old.name);
	o->old = (struct out_file){ 0 };
	while (o->o->max_files && o->n_files - kept >= o->o->max_files) {
		char *name = numbered_name(o, o->files[kept]);
		int unlink_err = outfile_unlink(name);

		if (unlink_err && unlink_err != -ENOENT)
			log_warn("--max-files: cannot delete %s: %s", name, strerror(-unlink_err));
		free(name);
		o->n_files--;
		memmove(o->files + kept, o->files + kept + 1, (o->n_files - kept) * sizeof(*o->files));
	}
	return err ? err : finish_err;
}

static int output_open_next(struct output *o)
{
	uint32_t number = o->number;
	struct out_file next;
	char part[PATH_MAX];
	int err, fd;

	err = writer_flush(o->file.w);
	if (err)
		return err;
	fd = create_next(o, &next);
	if (fd < 0)
		return fd;
	next.w = writer_new(fd, record_by_time(o->o) ? out_file_part_name(&next, part) : next.name, o->mode);
	writer_keep_free(next.w, &o->o->min_free);
	*list_push(o->files, o->n_files, o->cap_files) = number;
	o->format->ops->rotate(o->format, next.w);
	/* errors are reported later */
	writer_flush(o->file.w);
	writer_flush(next.w);
	o->old = o->file;
	o->file = next;
	return 0;
}

/* Gives the file its own name, now that there is something in it. */
static int out_file_publish(struct out_file *f)
{
	int err = out_file_finish(f, true);

	f->is_part = f->is_part && err;
	return err;
}

/* For each record, and with `flush` several times a second: continues in the next file when it is time to, while the rest of the
 * previous one is written. After an error, which may be that of a previous file, nothing more is done. */
static void output_rotate(struct output *o, bool flush)
{
	if (!o->continues || o->err || (!flush && ++o->looked < LOOK_RECORDS))
		return;
	o->looked = 0;
	if (o->old.w && !writer_pending(o->old.w))
		o->err = finish_old(o);
	/* files of a window or a dump have the name of a part until they are complete */
	if (!o->err && o->file.is_part && !record_by_time(o->o) && writer_bytes(o->file.w))
		o->err = out_file_publish(&o->file);
	/* a slow disk gets larger files, so that at most two wait in memory */
	if (!o->err && !o->old.w && writer_size(o->file.w, o->format->ops->held ? o->format->ops->held(o->format) : 0) >= o->o->max_size)
		o->err = writer_stalls(o->file.w) ? writer_flush(o->file.w) : output_open_next(o);
}

/* The last file has been closed: gives it its own name, or removes it if nothing could be written to it. */
static int output_end_last_file(struct output *o)
{
	char part[PATH_MAX];
	struct stat st;

	if (!o->continues || record_by_time(o->o) || !o->file.is_part)
		return 0;
	if (!stat(out_file_part_name(&o->file, part), &st) && st.st_size)
		return out_file_publish(&o->file);
	outfile_unlink(part);
	o->file.is_part = false;
	return 0;
}

/* ---- the records of an output ---- */

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

/* Adds to a step's lost records what this file lacks: records dropped while it ran, or some milliseconds around it. */
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

	if (writer_full(o->file.w) && !(1u << h->kind & KINDS_VITAL))
		drop_record(o, h);
	else
		sink_record(o->format, h->kind == REC_STEP && o->n_drops ? with_drops(o, h, size) : h, size);
	output_rotate(o, false);
}

static void output_loss(struct sink *s, const struct loss *l)
{
	sink_loss(((struct output *)s)->format, l);
}

static int output_flush(struct sink *s)
{
	struct output *o = (struct output *)s;
	int err = sink_flush(o->format);

	output_rotate(o, true);
	return err ? err : o->err;
}

static uint64_t output_bytes(const struct sink *s)
{
	const struct output *o = (const struct output *)s;

	return sink_bytes(o->format) + o->files_bytes + (o->old.w ? writer_bytes(o->old.w) : 0);
}

static uint64_t output_pending(const struct sink *s)
{
	const struct output *o = (const struct output *)s;

	return writer_pending(o->file.w) + (o->old.w ? writer_pending(o->old.w) : 0);
}

static void output_dropped(const struct sink *s, uint64_t counts[REC_KIND_MAX])
{
	for (int k = 0; k < REC_KIND_MAX; k++)
		counts[k] += ((const struct output *)s)->dropped[k];
}

static void output_free(struct output *o)
{
	free(o->files);
	free(o->base);
	free(o->file.name);
	free(o);
}

static int output_close(struct sink *s, const struct window_totals *t)
{
	struct output *o = (struct output *)s;
	int old_err = finish_old(o), err = sink_close(o->format, t), end_err = t ? output_end_last_file(o) : 0;
	struct stat st;

	err = err ? err : end_err;
	if (!err && !(o->file.is_part && t && t->cut))
		err = out_file_finish(&o->file, t);
	if (t && !err && o->on_file) {
		for (size_t i = 0; i < o->n_files; i++) {
			char *name = numbered_name(o, o->files[i]);

			if (!stat(name, &st))
				o->on_file(name, (uint64_t)st.st_size, o->on_file_arg);
			free(name);
		}
		if (!out_file_is_stdout(o->file.name) && !stat(o->file.name, &st))
			o->on_file(o->file.name, (uint64_t)st.st_size, o->on_file_arg);
	}
	output_free(o);
	return old_err ? old_err : err;
}

static const struct sink_ops output_ops = {
	.record = output_record,
	.loss = output_loss,
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

/* With --max-size an output continues in further files, if it is a regular file. */
static void set_continues(struct output *o, int fd)
{
	const char *name = o->file.name;
	struct stat st;

	if (!o->o->max_size)
		return;
	o->continues = !out_file_is_stdout(name) && !fstat(fd, &st) && S_ISREG(st.st_mode);
	if (!o->continues)
		log_warn("--max-size: %s is not a regular file and cannot continue in another", out_file_is_stdout(name) ? "stdout" : name);
}

/* Opens a trace from its beginning. Returns its descriptor. */
static int open_trace(struct output *o)
{
	int fd = out_file_open(o->base, 0, record_by_time(o->o), &o->file);
	int err = fd < 0 ? fd : out_file_claim(fd, o->base);

	if (!err) {
		set_continues(o, fd);
		return fd;
	}
	if (fd >= 0)
		out_file_drop(&o->file, fd);
	return err;
}

/* Opens a profile to append to. Returns its descriptor. */
static int open_profile(struct output *o)
{
	int fd = out_file_open(o->base, O_APPEND, record_by_time(o->o), &o->file), err;
	struct out_file next;
	struct stat st;

	if (fd < 0)
		return fd;
	set_continues(o, fd);
	o->keep_first = !o->file.created;
	if (o->continues && o->keep_first && !fstat(fd, &st) && (uint64_t)st.st_size >= o->o->max_size) { /* it is full already */
		close(fd);
		fd = create_next(o, &next);
		if (fd < 0)
			return fd;
		free(o->file.name);
		o->file = next;
	}
	err = out_file_end_last_line(fd, o->mode);
	if (!err)
		return fd;
	log_error("cannot write %s: %s", o->base,
		err == -EBADMSG ? "it exists, and is damaged or was not compressed by inftrace: choose another name"
		: err == -EBUSY ? "another recording is writing it"
				: strerror(-err));
	out_file_drop(&o->file, fd);
	return err;
}

/* A file's suffix says what is in it. */
struct format {
	const char *suffix;
	enum writer_mode mode;
	struct sink *(*open)(struct writer *w, const struct recording *rec);
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
static const struct format profiles[] = {
	{ ".gz", WRITER_LINES_GZIP, profile_sink_new, false },
	{ "", WRITER_LINES, profile_sink_new, false },
};

/* number: the index of the output in the recording. */
static int output_new(const struct record_options *opt, const struct recording *rec, const char *name, bool profile,
	unsigned int number, struct sink **ret_sink)
{
	struct output *o = xcalloc(1, sizeof(*o));
	struct recording mine = *rec;
	const struct format *format = profile ? profiles : traces;
	char part[PATH_MAX];
	const char *shown;
	int err, fd;

	while (!text_has_suffix(name, format->suffix))
		format++;
	*o = (struct output){
		.sink.ops = &output_ops,
		.o = opt,
		.mode = format->mode,
		.base = xstrdup(name),
		.number = 1,
		.on_file = rec->on_file,
		.on_file_arg = rec->on_file_arg,
	};
	mine.output = number;
	mine.et_steps = opt->et_steps;
	mine.kineto = format->kineto;
	fd = profile ? open_profile(o) : open_trace(o);
	err = fd < 0 ? fd : 0;
	if (!err) {
		shown = record_by_time(opt) ? out_file_part_name(&o->file, part) : o->file.name;
		o->file.w = writer_new(fd, out_file_is_stdout(name) ? "stdout" : shown, format->mode);
		fd = -1; /* now owned by the writer, and later by the format */
		writer_keep_free(o->file.w, &opt->min_free);
		o->format = o->sink.inner = format->open(o->file.w, &mine);
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

static void set_drop(struct set *set)
{
	for (size_t i = 0; i < set->n; i++)
		sink_close(set->list[i], NULL);
	set->n = 0;
}

static int set_add_output(struct set *set, const struct record_options *o, const struct recording *rec, const char *name,
	bool profile)
{
	int err = output_new(o, rec, name, profile, (unsigned int)set->n, &set->list[set->n]);

	set->n += !err;
	return err;
}

/* DIR/WHAT_pid<pid>_<ms>.SUFFIX, WHAT_others_, or with -a WHAT_system_. */
static int set_add_files_of_time(struct set *set, const struct record_options *o, const struct recording *rec, uint64_t ms)
{
	char whose[16];
	int err = 0;

	if (rec->tgid)
		snprintf(whose, sizeof(whose), "pid%u", rec->tgid);
	else
		snprintf(whose, sizeof(whose), o->all ? "system" : "others");
	for (size_t i = 0; i <= o->n_formats && !err; i++) {
		bool profile = i == o->n_formats;
		const char *suffix = profile ? o->profile_format ?: "jsonl" : o->formats[i];
		const char *trace = !o->chakra_names ? "trace" : strncmp(suffix, "et", 2) ? "kineto"
											  : "chakra_trace";
		char *name;

		name = xasprintf("%s/%s_%s_%" PRIu64 ".%s", o->output_dir, profile ? "profile" : trace, whose, ms, suffix);
		err = set_add_output(set, o, rec, name, profile);
		free(name);
	}
	return err;
}

/* Nothing that exists is overwritten: increases the time in the names until all of them are free. */
static int set_add_by_time(struct set *set, const struct record_options *o, const struct recording *rec)
{
	uint64_t ms = rec->name_real_ns / 1000000;
	int err;

	while ((err = set_add_files_of_time(set, o, rec, ms)) == -EEXIST) {
		set_drop(set);
		ms++;
	}
	return err;
}

/* requests: as the outputs show them. */
static int set_open_outputs(const struct recording *rec, const struct record_options *o, struct request_feed *requests,
	struct sink **ret_sink)
{
	struct recording own = *rec;
	struct set set = { .n = 0 };
	int err;

	own.requests = requests;
	err = record_by_time(o) ? set_add_by_time(&set, o, &own) : 0;
	for (size_t i = 0; i < o->n_outputs && !err; i++)
		err = set_add_output(&set, o, &own, o->outputs[i], false);
	if (!err && o->profile)
		err = set_add_output(&set, o, &own, o->profile, true);
	if (!err && o->view) { /* which keeps the pointer */
		err = o->view->ops->open(o->view, rec, &set.list[set.n]);
		set.n += !err;
	}
	for (size_t i = 0; i < set.n && !err; i++)
		err = sink_flush(set.list[i]);
	if (err) {
		set_drop(&set);
		return err;
	}
	*ret_sink = tee_new(set.list, set.n);
	return 0;
}

/* Opens the outputs of a recording, or of one process of it. */
static int outputs_open_set(const struct recording *rec, void *arg, struct sink **ret_sink)
{
	struct request_feed *requests = request_feed_new(rec);
	struct sink *all;
	int err = set_open_outputs(rec, arg, requests, &all);

	if (err)
		request_feed_free(requests);
	else
		*ret_sink = request_feed_sink(requests, all);
	return err;
}

int outputs_open(const struct record_options *o, const struct recording *rec, const uint32_t *tgids, size_t n,
	struct sink **ret_sink)
{
	const struct by_process_config c = {
		.open = outputs_open_set,
		.arg = (void *)o,
		.all_cpus = o->events & EVENT_CPU,
		.tgids = tgids,
		.n_tgids = n,
	};

	tasks_forget_outputs(rec->tasks);
	return record_by_time(o) && !o->all ? by_process_new(&c, rec, ret_sink) : outputs_open_set(rec, (void *)o, ret_sink);
}
