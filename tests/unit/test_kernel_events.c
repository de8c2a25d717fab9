// SPDX-License-Identifier: BSD-2-Clause
/* IPC, interrupts and memory in the Chrome trace, the sums per process in the profile, and the lookups of both. */
#include "sinks.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "target/irq.h"
#include "target/process.h"

static uint8_t ipc(enum ipc_kind kind)
{
	return (uint8_t)(kind << SYSCALL_IPC_SHIFT);
}

TEST_WITH(test_ipc, setup, teardown)
{
	static const struct {
		uint32_t nr;
		int64_t ret;
		uint64_t arg0;
		enum ipc_kind kind;
		uint8_t flags;
		const char *name, *syscall, *kind_text, *ret_text, *fd, *bytes;
	} calls[] = {
		{ SYS_write, 5, 3, IPC_PIPE, 0, "ipc_fast_send", "write", "pipe", "5", "3", "5" },
		{ SYS_read, 5, 4, IPC_PIPE, 0, "ipc_fast_recv", "read", "pipe", "5", "4", "5" },
		{ SYS_read, 5, 4, IPC_PIPE, SYSCALL_F_BLOCKED, "ipc_slow", "read", "pipe", "5", "4",
			"5" },
		{ SYS_recvfrom, -11, 4, IPC_UNIX, 0, "ipc_fast_recv", "recvfrom", "unix", "EAGAIN",
			"4", NULL },
		{ SYS_sendmsg, 9, 4, IPC_UNIX, 0, "ipc_fast_send", "sendmsg", "unix", "9", "4",
			"9" },
		{ SYS_splice, 9, 4, IPC_PIPE, 0, "ipc_fast_recv", "splice", "pipe", "9", "4", "9" },
		{ SYS_write, 8, 7, IPC_EVENTFD, 0, "ipc_fast_send", "write", "eventfd", "8", "7",
			"8" },
		{ SYS_futex, 1, 7, IPC_FUTEX_WAKE, 0, "ipc_fast_send", "futex", "futex", "1", NULL,
			NULL },
		{ SYS_futex, -11, 7, IPC_FUTEX_WAIT, 0, "ipc_fast_recv", "futex", "futex", "EAGAIN",
			NULL, NULL },
		{ SYS_futex, 0, 7, IPC_FUTEX_WAIT, SYSCALL_F_BLOCKED, "ipc_slow", "futex", "futex", "0",
			NULL, NULL },
		/* for newer calls the number alone says whether they wake */
		{ 454 /* futex_wake */, 1, 0, IPC_FUTEX_WAIT, 0, "ipc_fast_send", "futex_wake",
			"futex", "1", NULL, NULL },
		{ 449 /* futex_waitv */, 0, 0, IPC_FUTEX_WAIT, 0, "ipc_fast_recv", "futex_waitv",
			"futex", "0", NULL, NULL },
		/* still in flight: blocked, or not yet */
		{ SYS_read, 0, 4, IPC_UNIX, SYSCALL_F_BLOCKED | REC_F_OPEN_END, "ipc_slow", "read",
			"unix", NULL, "4", NULL },
		/* an unknown kind */
		{ SYS_read, 1, 4, 7, 0, "read", NULL, NULL, "1", "4", "1" },
		{ SYS_read, 1, 4, IPC_NONE, 0, "read", NULL, NULL, "1", "4", "1" },
	};
	struct out o;
	size_t n = 0;

	chrome_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct rec_syscall r = { .h = hdr(REC_SYSCALL, calls[i].nr),
			.ret = calls[i].ret,
			.arg0 = calls[i].arg0 };

		r.h.start_ns = START + i * 10000;
		r.h.flags = calls[i].flags | ipc(calls[i].kind);
		EMIT(&o, &r);
	}
	chrome_read(&o);
	for (size_t i = 0; i < json_object_array_length(o.events); i++) {
		struct json_object *e = json_object_array_get_idx(o.events, i);

		if (strcmp(field(e, "ph"), "X"))
			continue;
		assert_true(n < ARRAY_SIZE(calls));
		assert_text(field(e, "name"), calls[n].name);
		assert_text(field(e, "cat"), calls[n].syscall ? "ipc" : "syscall");
		assert_text(arg(e, "syscall"), calls[n].syscall);
		assert_text(arg(e, "kind"), calls[n].kind_text);
		assert_text(arg(e, "ret"), calls[n].ret_text);
		assert_text(arg(e, "fd"), calls[n].fd);
		assert_text(arg(e, "bytes"), calls[n].bytes);
		assert_text(arg(e, "path"), NULL);
		assert_text(arg(e, "cpu"), calls[n].flags & REC_F_OPEN_END ? NULL : "3");
		n++;
	}
	assert_int_equal(n, ARRAY_SIZE(calls));
	chrome_done(&o);
}

TEST_WITH(test_irqs, setup, teardown)
{
	static const struct {
		uint32_t id;
		uint8_t flags;
		const char *name, *type, *number;
	} irqs[] = {
		{ 3, IRQ_F_SOFT, "NET_RX", "softirq", "3" },
		{ 0, IRQ_F_SOFT, "HI", "softirq", "0" },
		{ 9, IRQ_F_SOFT | REC_F_OPEN_END, "RCU", "softirq", "9" },
		{ 10, IRQ_F_SOFT, "softirq", "softirq", "10" },
		{ VECTOR_LOCAL_TIMER, IRQ_F_VECTOR, "local_timer", "vector", NULL },
		{ VECTOR_MAX, IRQ_F_VECTOR, "vector", "vector", NULL },
		{ 4000000000u, 0, "irq_4000000000", "handler", "4000000000" },
		{ 16000, 0, "irq_16000", "handler", "16000" },
		{ 16000, 0, "irq_16000", "handler", "16000" },
	};
	struct out o;

	chrome_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(irqs); i++) {
		struct rec_irq r = { .h = hdr(REC_IRQ, irqs[i].id) };

		r.h.start_ns = START + i * 10000;
		r.h.flags = irqs[i].flags;
		EMIT(&o, &r);
	}
	chrome_read(&o);
	for (size_t i = 0, n = 0; i < json_object_array_length(o.events); i++) {
		struct json_object *e = json_object_array_get_idx(o.events, i);

		if (strcmp(field(e, "ph"), "X"))
			continue;
		assert_text(field(e, "name"), irqs[n].name);
		assert_text(field(e, "cat"), "irq");
		assert_track(e, PID, TID);
		assert_text(arg(e, "type"), irqs[n].type);
		assert_text(arg(e, "number"), irqs[n].number);
		assert_text(arg(e, "cpu"), "3");
		assert_text(arg(e, "unfinished"), irqs[n].flags & REC_F_OPEN_END ? "true" : NULL);
		n++;
	}
	chrome_done(&o);
}

TEST_WITH(test_memory, setup, teardown)
{
	struct rec_memory r = { .h = hdr(REC_MEMORY, 0),
		.rss_bytes = UINT64_C(1) << 40,
		.pages_allocated = 7,
		.pages_freed = INT64_MAX };
	struct json_object *e;
	struct out o;

	r.h.tid = PID;
	chrome_open(&o);
	EMIT(&o, &r);
	chrome_read(&o);
	e = get(&o, "C", "rss");
	assert_span(e, "memory", "10.000", NULL);
	assert_track(e, PID, PID);
	assert_text(arg(e, "bytes"), "1099511627776");
	assert_text(arg(get(&o, "C", "pages_allocated"), "pages"), "7");
	assert_text(arg(get(&o, "C", "pages_freed"), "pages"), "9223372036854775807");
	chrome_done(&o);
}

TEST_WITH(test_holds, setup, teardown)
{
	struct rec_hold h = { .h = hdr(REC_HOLD, HOLD_READY) };
	struct rec_placed p = { .h = hdr(REC_PLACED, 0), .file = "lib\"\n.so" };
	struct json_object *e;
	struct out o;

	p.h.dur_ns = 53103426;
	chrome_open(&o);
	EMIT(&o, &h);
	EMIT(&o, &p);
	chrome_read(&o);
	e = get(&o, "X", "waiting for probes");
	assert_text(field(e, "cat"), "inftrace");
	assert_track(e, PID, TID);
	assert_null(arg(e, "expired"));
	e = get(&o, "i", "probes placed late");
	assert_text(field(e, "ts"), "53113.426");
	assert_text(arg(e, "file"), "lib\"\n.so");
	assert_text(arg(e, "after_us"), "53103.426");
	chrome_done(&o);

	h.h.id = HOLD_EXPIRED;
	memset(p.file, 'x', sizeof(p.file)); /* no NUL */
	chrome_open(&o);
	EMIT(&o, &h);
	EMIT(&o, &p);
	chrome_read(&o);
	assert_text(arg(get(&o, "X", "waiting for probes"), "expired"), "true");
	assert_int_equal(strlen(arg(get(&o, "i", "probes placed late"), "file")), sizeof(p.file));
	chrome_done(&o);
}

/* ---- the profile ---- */

static struct json_object *line_of(struct out *o, const char *event, unsigned int nth)
{
	char *copy = strdup(o->text), *save = NULL;
	struct json_object *found = NULL;

	for (char *l = strtok_r(copy, "\n", &save); l && !found; l = strtok_r(NULL, "\n", &save)) {
		struct json_object *line = json_tokener_parse(l);

		if (!strcmp(field(line, "event"), event) && !nth--)
			found = line;
		else
			json_object_put(line);
	}
	free(copy);
	return found;
}

static void profile_write(struct out *o, struct process_totals *processes, size_t n)
{
	struct window_totals t = {
		.open_ns = START,
		.close_ns = START + 1000,
		.processes = processes,
		.n_processes = n,
	};

	profile_open(o, &plain);
	assert_int_equal(o->s->ops->close(o->s, &t), 0);
	read_text(o);
}

/* A line's text from shape to the end of stage_us. */
static void assert_body(
	struct out *o, const char *event, unsigned int nth, const char *shape, const char *stages)
{
	struct json_object *line = line_of(o, event, nth);

	assert_non_null(line);
	assert_string_equal(json_object_to_json_string_ext(
				    json_object_object_get(line, "shape"), JSON_C_TO_STRING_PLAIN),
		shape);
	assert_string_equal(json_object_to_json_string_ext(json_object_object_get(line, "stage_us"),
				    JSON_C_TO_STRING_PLAIN),
		stages);
	json_object_put(line);
}

TEST_WITH(test_sums, setup, teardown)
{
	struct syscall_total calls[] = {
		{ SYS_read, { 3, 1001 } },
		{ SYS_getpid, { 1, 1 } },
		{ 511, { 2, 20 } },
		{ 5 | SYSCALL_SUM_COMPAT, { 4, 0 } },
	};
	struct process_totals processes[] = {
		{ .tgid = PID,
			.sums = { .switches_voluntary = 1,
				.switches_involuntary = 2,
				.faults_minor = 5,
				.faults_major = 4,
				.faults_kernel = 3,
				.fault_minor_ns = 1500,
				.fault_major_ns = 2500001,
				.threads = 6,
				.pages_allocated = 8,
				.pages_freed = 9 },
			.calls = calls,
			.n_calls = ARRAY_SIZE(calls),
			.pages = true,
			.lives = true,
			.rss_bytes = 4096,
			.rss_peak_bytes = 8192 },
		{ .tgid = PID + 7 },
	};
	struct out o;

	processes[0].sums.ns[ST_CPU] = 1000;
	processes[0].sums.ns[ST_IRQ] = 1;
	processes[0].sums.ns[ST_STOPPED] = 234;
	tell_task(TASK_COMM, PID, PID, "a\"b\n\xff");
	profile_write(&o, processes, ARRAY_SIZE(processes));
	assert_body(&o, "syscall_prof", 0,
		"{\"pid\":5000000,\"comm\":\"a\\\"b\\n\xef\xbf\xbd\",\"calls\":10,\"n_read\":3,\"n_"
		"getpid\":1,"
		"\"n_syscall_511\":2,\"n_compat_5\":4}",
		"{\"total\":1.022,\"read\":1.001,\"getpid\":0.001,\"syscall_511\":0.020,\"compat_"
		"5\":0.000}");
	assert_null(line_of(&o, "syscall_prof", 1)); /* it made none */
	assert_body(&o, "fault_prof", 0,
		"{\"pid\":5000000,\"comm\":\"a\\\"b\\n\xef\xbf\xbd\",\"n_minor\":5,\"n_major\":4,"
		"\"n_kernel\":3}",
		"{\"total\":2501.501,\"minor\":1.500,\"major\":2500.001}");
	assert_body(&o, "sched_prof", 0,
		"{\"pid\":5000000,\"comm\":\"a\\\"b\\n\xef\xbf\xbd\",\"switches_voluntary\":1,"
		"\"switches_involuntary\":2,\"threads\":6}",
		"{\"total\":1.235,\"cpu\":1.000,\"irq\":0.001,\"stopped\":0.234}");
	assert_body(&o, "memory_prof", 0,
		"{\"pid\":5000000,\"comm\":\"a\\\"b\\n\xef\xbf\xbd\",\"rss_bytes\":4096,\"rss_peak_"
		"bytes\":8192,"
		"\"pages_allocated\":8,\"pages_freed\":9}",
		"{}");
	/* only its existence is known */
	assert_body(&o, "sched_prof", 1,
		"{\"pid\":5000007,\"comm\":\"\",\"switches_voluntary\":0,\"switches_involuntary\":"
		"0,\"threads\":0}",
		"{\"total\":0.000}");
	assert_body(&o, "memory_prof", 1, "{\"pid\":5000007,\"comm\":\"\"}", "{}");
	free(o.text);
	close(o.fd);
}

/* A program may use any call numbers: the line is bounded. */
TEST_WITH(test_many_calls, setup, teardown)
{
	static struct syscall_total calls[SYSCALL_SUMS_MAX];
	struct process_totals p = { .tgid = PID, .calls = calls, .n_calls = ARRAY_SIZE(calls) };
	struct json_object *line;
	struct out o;

	for (uint32_t i = 0; i < ARRAY_SIZE(calls); i++)
		calls[i] = (struct syscall_total){ UINT32_MAX - i,
			{ UINT64_MAX / 65536, UINT64_MAX / 65536 } };
	profile_write(&o, &p, 1);
	line = line_of(&o, "syscall_prof", 0);
	assert_non_null(line);
	assert_true(json_object_object_length(json_object_object_get(line, "stage_us")) > 512);
	json_object_put(line);
	free(o.text);
	close(o.fd);
}

/* ---- lookups ---- */

TEST_WITH(test_irq_names, setup, teardown)
{
	struct irq_names *names = NULL;
	char buf[IRQ_NAME_LEN], first[IRQ_NAME_LEN], path[300], line[256];
	DIR *dir = opendir("/sys/kernel/irq");
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		FILE *f;

		snprintf(path, sizeof(path), "/sys/kernel/irq/%s/actions", d->d_name);
		f = d->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (f && fgets(line, sizeof(line), f) && line[0] != '\n') {
			line[strcspn(line, "\n")] = '\0';
			line[IRQ_NAME_LEN - 1] = '\0';
			assert_string_equal(irq_name(&names, (uint32_t)atoi(d->d_name), buf), line);
		}
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	snprintf(first, sizeof(first), "%s", irq_name(&names, 1, buf));
	assert_string_equal(irq_name(&names, UINT32_MAX, buf), "irq_4294967295");
	assert_string_equal(irq_name(&names, 1, buf), first);
	irq_names_free(names);
	irq_names_free(NULL);
}

TEST_WITH(test_rss, setup, teardown)
{
	const size_t size = 64 << 20;
	uint64_t before, during, after, peak, untouched = 42;
	pid_t zombie;
	char *p;

	assert_int_equal(rss_read(getpid(), &before), 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p != MAP_FAILED);
	memset(p, 1, size);
	assert_int_equal(rss_read(getpid(), &during), 0);
	munmap(p, size);
	assert_int_equal(rss_read(getpid(), &after), 0);
	assert_int_equal(rss_peak_read(getpid(), &peak), 0);
	assert_true(during > before + size / 2);
	assert_true(after < during - size / 2);
	assert_true(peak >= during - size / 2 && peak > after);

	assert_int_equal(rss_read((pid_t)PID, &untouched), -ESRCH);
	assert_int_equal(rss_peak_read((pid_t)PID, &untouched), -ESRCH);
	zombie = fork();
	if (!zombie)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)zombie, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	assert_int_equal(rss_read(zombie, &untouched), -ESRCH);
	assert_int_equal(rss_peak_read(zombie, &untouched), -ESRCH);
	waitpid(zombie, NULL, 0);
	assert_int_equal(untouched, 42);
}

RUN_TESTS(NULL, NULL)
