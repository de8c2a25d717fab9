// SPDX-License-Identifier: BSD-2-Clause
/* Checks that everything can be written, before anything is attached, and chooses the default name. */
#include "record/output.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/outfile.h"
#include "record/metadata.h"
#include "record/out_file.h"
#include "target/process.h"
#include "util/log.h"
#include "util/text.h"

#define NUMBERS_MAX 10000 /* tried for default names */

static char default_name[80 + TASK_COMM_LEN];

/* The name of the process or the command; it comes from the traced side. */
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

static int check_file(const char *option, const char *name)
{
	char why[OUTFILE_WHY_MAX];
	struct stat st;
	int err;

	if (out_file_is_stdout(name))
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

/* Compares the files, not their paths. Regular files only: two outputs may go to /dev/null. */
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

/* Neither another output, nor what is read. */
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
		log_error("%s: %s is the preset of --engine %s, which would be replaced: choose another name", option, name, o->engines[i]);
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

	if (out_file_is_stdout(name) || text_has_suffix(name, ".json") || text_has_suffix(name, ".json.gz") ||
		text_has_suffix(name, ".pftrace") || text_has_suffix(name, ".pftrace.gz") || text_has_suffix(name, ".et"))
		return 0;
	if (!stat(name, &st) && S_ISDIR(st.st_mode))
		return 0; /* which is reported instead */
	log_error("-o: %s: the name must end in .json, .json.gz, .pftrace, .pftrace.gz or .et, or be - for stdout", name);
	return -EINVAL;
}

/* Its directory may be missing. */
static int check_profile(const struct record_options *o)
{
	char why[OUTFILE_WHY_MAX], dir[PATH_MAX];
	const char *slash = strrchr(o->profile, '/');
	int err;

	if (out_file_is_stdout(o->profile))
		return 0;
	if (!*o->profile) {
		log_error("--profile: the name is empty");
		return -EINVAL;
	}
	err = check_other("--profile", o->profile, o, o->n_outputs);
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

static bool is_perfetto(const char *name)
{
	return text_has_suffix(name, ".pftrace") || text_has_suffix(name, ".pftrace.gz");
}

/* Says which files will have no samples. */
static void tell_samples(const struct record_options *o)
{
	const char *json = NULL;
	bool perfetto = false;

	if (!(o->events & EVENT_SAMPLES) || o->view || record_by_time(o))
		return;
	for (size_t i = 0; i < o->n_outputs; i++) {
		if (is_perfetto(o->outputs[i]))
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
			err = check_file("-o", name);
		if (err)
			return err;
	}
	if (o->profile)
		err = check_profile(o);
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
		tell_samples(o);
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
