// SPDX-License-Identifier: BSD-2-Clause
/*
 *	floor OBJECT PROGRAM ... [-u FILE OFFSET]
 *
 * Attaches the named programs of floor.bpf.o, prints "recording" and waits for a signal. -u: where
 * function_entry and function_return go, the offset in the file.
 */
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *uprobe_file;
static size_t uprobe_offset;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* On every CPU, as inftrace does. */
static void attach_minor_faults(struct bpf_program *prog)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
		.sample_period = 1,
	};

	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++) {
		int fd =
			(int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd >= 0 && !bpf_program__attach_perf_event(prog, fd))
			die("attach to minor faults");
	}
}

static void attach(struct bpf_program *prog)
{
	const char *sec = bpf_program__section_name(prog);
	struct bpf_link *link;

	if (!strcmp(sec, "perf_event")) {
		attach_minor_faults(prog);
		return;
	}
	if (strstr(sec, "probe")) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = !strcmp(sec, "uretprobe"));

		link = bpf_program__attach_uprobe_opts(prog, -1, uprobe_file, uprobe_offset, &opts);
	} else {
		link = bpf_program__attach(prog);
	}
	if (!link)
		die(bpf_program__name(prog));
}

static int print_warnings(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, fmt, ap) : 0;
}

int main(int argc, char **argv)
{
	struct bpf_program *prog;
	struct bpf_object *obj;
	int end = argc;

	if (argc > 4 && !strcmp(argv[argc - 3], "-u")) {
		end = argc - 3;
		uprobe_file = argv[end + 1];
		uprobe_offset = strtoul(argv[end + 2], NULL, 0);
	}
	if (end < 3) {
		fprintf(stderr, "floor OBJECT PROGRAM ... [-u FILE OFFSET]\n");
		return 2;
	}
	libbpf_set_print(print_warnings);
	obj = bpf_object__open_file(argv[1], NULL);
	if (!obj)
		die(argv[1]);
	bpf_object__for_each_program(prog, obj)
	{
		bool wanted = false;

		for (int i = 2; i < end; i++)
			wanted |= !strcmp(argv[i], bpf_program__name(prog));
		bpf_program__set_autoload(prog, wanted);
	}
	if (bpf_object__load(obj))
		die("load");
	bpf_object__for_each_program(prog, obj)
	{
		if (bpf_program__autoload(prog))
			attach(prog);
	}
	fprintf(stderr, "recording\n");
	pause();
	return 0;
}
