// SPDX-License-Identifier: BSD-2-Clause
/* The Chrome trace, from records as the BPF programs send them: every field of every kind. */
#include "sinks.h"

#include <sys/syscall.h>

#define CPUS 4194305 /* the pseudo process of the CPU tracks */

TEST_WITH(test_chrome_empty, setup, teardown)
{
	struct json_object *clock;
	struct out o;

	chrome_open(&o);
	/* valid from the first flush on, with the target's name and the clocks */
	flush(&o);
	read_text(&o);
	assert_memory_equal(
		o.text, "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5000000,", 48);
	assert_true(o.text[o.len - 1] == '}');
	assert_int_equal(sink_bytes(o.s), o.len);
	validate(&o, false);

	chrome_read(&o);
	assert_text(arg(find(&o, "M", "process_name", 0), "name"), "server");
	assert_text(arg(find(&o, "M", "process_name", 1), "name"), "inftrace");
	clock = find(&o, "i", "inftrace_clock", 0);
	assert_span(clock, "inftrace", "0.000", NULL);
	assert_text(arg(clock, "boottime_ns"), "1000000000");
	assert_text(arg(clock, "monotonic_ns"), "900000000007");
	assert_text(arg(clock, "realtime_ns"), "1763616000000000001");
	assert_true(json_object_is_type(
		json_object_object_get(json_object_object_get(clock, "args"), "realtime_ns"),
		json_type_string));
	assert_non_null(find(&o, "i", "inftrace_clock", 1));
	assert_null(find(&o, "i", "inftrace_clock", 2));
	chrome_done(&o);
}

/* ts and dur, to the nanosecond. */
TEST_WITH(test_chrome_times, setup, teardown)
{
	static const struct {
		uint64_t start, dur;
		const char *ts, *dur_us;
	} times[] = {
		{ START, 0, "0.000", "0.000" },
		{ START, 1, "0.000", "0.001" },
		{ START + 1, 999, "0.001", "0.999" },
		{ START + 999, 1000, "0.999", "1.000" },
		{ START + 1000, 1001, "1.000", "1.001" },
		{ START + 123456789012345, 60, "123456789012.345", "0.060" },
		/* seven years: a double can no longer hold nanoseconds */
		{ START + 220898664123456789, 100000000000000007, "220898664123456.789",
			"100000000000000.007" },
		/* in flight when the recording began */
		{ START - 500, 1500, "0.000", "1.000" },
		{ START - 500, 500, "0.000", "0.000" },
		{ START - 500, 100, "0.000", "0.000" },
		{ 0, START + 42, "0.000", "0.042" },
	};
	struct out o;

	chrome_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct rec_syscall r = { .h = hdr(REC_SYSCALL, SYS_getpid) };

		r.h.start_ns = times[i].start;
		r.h.dur_ns = times[i].dur;
		r.h.tid = TID + (uint32_t)i;
		EMIT(&o, &r);
	}
	chrome_read(&o);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct json_object *e = find(&o, "X", "getpid", (unsigned int)i);

		assert_span(e, "syscall", times[i].ts, times[i].dur_us);
		assert_track(e, PID, TID + (uint32_t)i);
	}
	chrome_done(&o);
}

TEST_WITH(test_chrome_syscalls, setup, teardown)
{
	static const struct {
		uint32_t nr;
		int64_t ret;
		uint64_t arg0;
		uint8_t flags;
		const char *name, *ret_text, *fd, *bytes, *path;
	} calls[] = {
		{ SYS_read, 4096, 5, 0, "read", "4096", "5", "4096", NULL },
		{ SYS_read, 0, (uint64_t)-1, 0, "read", "0", "-1", NULL, NULL },
		{ SYS_read, -11, 7, 0, "read", "EAGAIN", "7", NULL, NULL },
		{ SYS_write, -32, 0xffffffff00000001, SYSCALL_F_BLOCKED, "write", "EPIPE", "1", NULL,
			"slow" },
		{ SYS_futex, -110, 0x7f0000001000, SYSCALL_F_BLOCKED, "futex", "ETIMEDOUT", NULL, NULL,
			"slow" },
		{ SYS_futex, -512, 0, 0, "futex", "ERESTARTSYS", NULL, NULL, NULL },
		{ SYS_getpid, -4095, 0, 0, "getpid", "-4095", NULL, NULL, NULL },
		{ SYS_getpid, -4096, 0, 0, "getpid", "-4096", NULL, NULL, NULL },
		{ SYS_getpid, INT64_MIN, 0, 0, "getpid", "-9223372036854775808", NULL, NULL, NULL },
		{ SYS_getpid, 0xffffffff, 0, 0, "getpid", "4294967295", NULL, NULL, NULL },
		{ SYS_getpid, 0x100000000, 0, 0, "getpid", "0x100000000", NULL, NULL, NULL },
		{ SYS_mmap, 0x7f1234567000, 0, 0, "mmap", "0x7f1234567000", NULL, NULL, NULL },
		{ SYS_mmap, INT64_MAX, 0, 0, "mmap", "0x7fffffffffffffff", NULL, NULL, NULL },
		{ 511, 3, 0, 0, "syscall_511", "3", NULL, NULL, NULL },
		{ UINT32_MAX, 3, 0, 0, "syscall_4294967295", "3", NULL, NULL, NULL },
		/* numbers of the 32-bit table are other calls */
		{ SYS_read, 3, 9, SYSCALL_F_COMPAT, NULL, "3", NULL, NULL, NULL },
		/* its result is not known yet */
		{ SYS_read, 0, 5, REC_F_OPEN_END | SYSCALL_F_BLOCKED, "read", NULL, "5", NULL, "slow" },
		{ SYS_read, 1, 5, REC_F_OPEN_START, "read", "1", "5", "1", NULL },
	};
	struct out o;
	size_t n = 0;

	chrome_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct rec_syscall r = { .h = hdr(REC_SYSCALL, calls[i].nr),
			.ret = calls[i].ret,
			.arg0 = calls[i].arg0 };

		r.h.start_ns = START + i * 10000;
		r.h.flags = calls[i].flags;
		EMIT(&o, &r);
	}
	chrome_read(&o);
	for (size_t i = 0; i < json_object_array_length(o.events); i++) {
		struct json_object *e = json_object_array_get_idx(o.events, i);
		char compat[32];

		if (strcmp(field(e, "ph"), "X"))
			continue;
		assert_true(n < ARRAY_SIZE(calls));
		snprintf(compat, sizeof(compat), "compat_%u", calls[n].nr);
		assert_text(field(e, "name"), calls[n].name ? calls[n].name : compat);
		assert_text(arg(e, "ret"), calls[n].ret_text);
		assert_text(arg(e, "fd"), calls[n].fd);
		assert_text(arg(e, "bytes"), calls[n].bytes);
		assert_text(arg(e, "path"), calls[n].path);
		assert_text(arg(e, "cpu"), calls[n].flags & REC_F_OPEN_END ? NULL : "3");
		assert_text(
			arg(e, "began_before"), calls[n].flags & REC_F_OPEN_START ? "true" : NULL);
		assert_text(arg(e, "unfinished"), calls[n].flags & REC_F_OPEN_END ? "true" : NULL);
		n++;
	}
	assert_int_equal(n, ARRAY_SIZE(calls));
	chrome_done(&o);
}

TEST_WITH(test_chrome_cpus_and_faults, setup, teardown)
{
	struct rec_fault fault = { .h = hdr(REC_FAULT, 0), .addr = 0x7fff0000beef };
	struct rec_on_cpu on = { .h = hdr(REC_ON_CPU, 0) };
	struct json_object *e;
	struct out o;

	chrome_open(&o);
	EMIT(&o, &on);
	on.h.start_ns += 10000;
	on.h.flags = REC_F_OPEN_START | REC_F_OPEN_END;
	EMIT(&o, &on);
	on.h.cpu = 65535; /* an impossible CPU: no name, but no harm */
	EMIT(&o, &on);
	EMIT(&o, &fault);
	fault.h.start_ns += 10000;
	fault.h.flags = FAULT_F_MAJOR | REC_F_OPEN_START | REC_F_OPEN_END;
	EMIT(&o, &fault);
	fault.h.flags = FAULT_F_KERNEL;
	fault.addr = 0;
	EMIT(&o, &fault);
	chrome_read(&o);
	e = find(&o, "M", "thread_name", 0);
	assert_track(e, CPUS, 3);
	assert_text(arg(e, "name"), "CPU 3");
	assert_events(&o, NULL, "{'ph':'X','pid':4194305,'tid':3,'ts':10.000,'dur':1.234,'name':'worker','cat':'cpu','args':{'pid':5000000,'tid':5000001}}\n"
				"{'ph':'X','pid':4194305,'tid':3,'ts':20.000,'dur':1.234,'name':'worker','cat':'cpu','args':{'pid':5000000,'tid':5000001,"
				"'began_before':true,'unfinished':true}}\n"
				"{'ph':'X','pid':4194305,'tid':65535,'ts':20.000,'dur':1.234,'name':'worker','cat':'cpu','args':{'pid':5000000,'tid':5000001,"
				"'began_before':true,'unfinished':true}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':10.000,'dur':1.234,'name':'page_fault_minor','cat':'fault',"
				"'args':{'address':'0x7fff0000beef','cpu':3}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':20.000,'dur':1.234,'name':'page_fault_major','cat':'fault',"
				"'args':{'address':'0x7fff0000beef','began_before':true,'unfinished':true}}\n"
				"{'ph':'i','s':'t','pid':5000000,'tid':5000001,'ts':20.000,'name':'page_fault_minor','cat':'fault','args':{'address':'0x0','cpu':3,"
				"'kernel':true}}\n");
	chrome_done(&o);
}

TEST_WITH(test_chrome_functions, setup, teardown)
{
	static const char ugly[] = "ns::f<\"\\\t\x01\x7f\xff\xc3\xa9>";
	static const uint64_t vals[] = { 1, 0xdeadbeef0000, (uint64_t)-5, INT64_MAX, UINT64_MAX,
		(uint64_t)INT64_MIN };
	struct rec_function r = { .h = hdr(REC_FUNCTION, 0) };
	struct out o;

	add_probe("compute", ROLE_OP, PROBE_F_SPAN, "$a",
		"op arg1,ptr arg2,s32 arg3,u64 arg4,u64 arg5,s64 arg6");
	add_probe("mark", ROLE_LAUNCH, PROBE_F_INSTANT, NULL, "");
	add_probe(ugly, ROLE_OTHER, PROBE_F_SPAN, NULL, "");
	chrome_open(&o);
	memcpy(r.vals, vals, sizeof(vals));
	EMIT(&o, &r);
	r.vals[0] = 2; /* a number without a name */
	r.h.start_ns += 10000;
	r.h.flags = REC_F_OPEN_START | REC_F_OPEN_END;
	EMIT(&o, &r);
	r.h.flags = 0;
	r.h.id = 1;
	EMIT(&o, &r);
	r.h.id = 2;
	r.h.start_ns += 10000;
	r.h.flags = REC_F_OPEN_END;
	EMIT(&o, &r);
	r.h.id = 3; /* no such probe */
	EMIT(&o, &r);
	r.h.id = UINT32_MAX;
	EMIT(&o, &r);
	chrome_expect(&o, NULL, "{'ph':'X','pid':5000000,'tid':5000001,'ts':10.000,'dur':1.234,'name':'mul_mat','cat':'op','args':{'a':'mul_mat','b':'0xdeadbeef0000',"
				"'c':-5,'d':9223372036854775807,'e':'18446744073709551615','f':-9223372036854775808}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':20.000,'dur':1.234,'name':'compute','cat':'op','args':{'b':'0xdeadbeef0000','c':-5,"
				"'d':9223372036854775807,'e':'18446744073709551615','f':-9223372036854775808,'began_before':true,'unfinished':true}}\n"
				"{'ph':'i','s':'t','pid':5000000,'tid':5000001,'ts':20.000,'name':'mark','cat':'launch'}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':30.000,'dur':1.234,'name':'ns::f<\\'\\\\\\t\\u0001\177\357\277\275\303\251>','cat':'other',"
				"'args':{'unfinished':true}}\n");
}

TEST_WITH(test_chrome_tasks, setup, teardown)
{
	static const char hostile[TASK_COMM_LEN] = "\x1b[2J\"\\\n\xff\xed\xa0\x80"
						   "x%s";
	struct rec_task r = { .h = hdr(REC_TASK, TASK_FORK), .arg = PID };
	struct json_object *e;
	struct out o;

	chrome_open(&o);
	memcpy(r.comm, "fifteen bytes..", 15);
	for (r.h.id = TASK_FORK; r.h.id <= TASK_COMM + 1; r.h.id++) {
		tasks_update(rec.tasks, &r);
		EMIT(&o, &r);
	}
	/* a new name; the thread does something before and after it */
	memcpy(r.comm, hostile, sizeof(hostile));
	r.h.id = TASK_COMM;
	tasks_update(rec.tasks, &r);
	EMIT(&o, &r);
	/* and the name of the process, which is its main thread's */
	r.h.tid = PID;
	memcpy(r.comm, "renamed\0", 8);
	tasks_update(rec.tasks, &r);
	EMIT(&o, &r);
	chrome_read(&o);
	assert_events(&o, NULL, "{'ph':'i','s':'t','pid':5000000,'tid':5000001,'ts':10.000,'name':'fork','cat':'task','args':{'comm':'fifteen bytes..',"
				"'parent':5000000}}\n"
				"{'ph':'i','s':'t','pid':5000000,'tid':5000001,'ts':10.000,'name':'exec','cat':'task','args':{'comm':'fifteen bytes..'}}\n"
				"{'ph':'i','s':'t','pid':5000000,'tid':5000001,'ts':10.000,'name':'exit','cat':'task','args':{'comm':'fifteen bytes..',"
				"'code':5000000}}\n"
				"{'ph':'i','s':'t','pid':5000000,'tid':5000001,'ts':10.000,'name':'rename','cat':'task','args':{'comm':'fifteen bytes..'}}\n"
				"{'ph':'i','s':'t','pid':5000000,'tid':5000001,'ts':10.000,'name':'rename','cat':'task',"
				"'args':{'comm':'\\u001b[2J\\'\\\\\\n\357\277\275\357\277\275\357\277\275\357\277\275x%s'}}\n"
				"{'ph':'i','s':'t','pid':5000000,'tid':5000000,'ts':10.000,'name':'rename','cat':'task','args':{'comm':'renamed'}}\n");
	assert_text(arg(find(&o, "M", "thread_name", 0), "name"), "fifteen bytes..");
	for (unsigned int i = 1; (e = find(&o, "M", "thread_name", i)); i++) {
		if (strcmp(arg(e, "name"), "fifteen bytes.."))
			break;
	}
	assert_text(
		arg(e, "name"), "\x1b[2J\"\\\n\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx%s");
	assert_track(e, PID, TID);
	e = find(&o, "M", "process_name", 2);
	assert_track(e, PID, PID);
	assert_text(arg(e, "name"), "renamed");
	chrome_done(&o);
}

/* The last memory counters of a process come at the end of the recording, when its name may be forgotten. */
TEST_WITH(test_chrome_forgotten, setup, teardown)
{
	struct rec_memory memory = { .h = hdr(REC_MEMORY, 0), .rss_bytes = 1 };
	struct rec_task task = { .h = { .kind = REC_TASK, .id = TASK_EXIT, .tgid = PID, .tid = PID, .flags = TASK_F_LAST } };
	struct json_object *e;
	struct out o;

	chrome_open(&o);
	memory.h.tid = PID;
	EMIT(&o, &memory);
	tasks_update(rec.tasks, &task);
	tasks_find(rec.tasks, PID)->exit_ns = 1; /* long ago */
	for (uint32_t i = 1; i < 5000; i++) {
		task.h.id = i % 2 ? TASK_FORK : TASK_EXIT;
		task.h.tgid = task.h.tid = PID + 10 + i / 2;
		tasks_update(rec.tasks, &task);
	}
	assert_null(tasks_find(rec.tasks, PID));
	memory.h.start_ns = START;
	EMIT(&o, &memory);
	chrome_read(&o);
	for (size_t i = 0; i < json_object_array_length(o.events); i++) {
		e = json_object_array_get_idx(o.events, i);
		if (!strcmp(field(e, "ph"), "M") && arg(e, "name") && json_object_get_int(json_object_object_get(e, "pid")) == PID)
			assert_text(arg(e, "name"), "server");
	}
	chrome_done(&o);
}

TEST_WITH(test_chrome_loss, setup, teardown)
{
	struct loss l = { .from_ns = START - 5, .to_ns = START + 1000 };
	struct out o;

	chrome_open(&o);
	l.count[REC_SYSCALL] = 3;
	l.count[REC_STEP] = UINT64_MAX / 2;
	sink_loss(o.s, &l);
	l.from_ns = l.to_ns;
	l.to_ns += 7;
	memset(l.count, 0, sizeof(l.count));
	l.count[REC_MAPPED] = 1;
	sink_loss(o.s, &l);
	chrome_expect(&o, NULL, "{'ph':'X','pid':4194306,'tid':4194306,'ts':0.000,'dur':1.000,'name':'lost records','cat':'loss','args':{'syscall':3,"
				"'step':9223372036854775807}}\n"
				"{'ph':'X','pid':4194306,'tid':4194306,'ts':1.000,'dur':0.007,'name':'lost records','cat':'loss','args':{'mapped':1}}\n");
}

TEST_WITH(test_chrome_mark, setup, teardown)
{
	struct mark m = { .name = "window_close", .ns = START + 2500, .number = 4294967295u, .reason = "\"x\"" };
	struct out o;

	chrome_open(&o);
	sink_mark(o.s, &m);
	chrome_expect(&o, NULL, "{'ph':'i','s':'g','pid':4194306,'tid':4194306,'ts':2.500,'name':'window_close','cat':'inftrace','args':{'number':4294967295,"
				"'reason':'\\'x\\''}}\n");
}

/* Texts kept from one event to the next belong to the right thread, time and name. */
TEST_WITH(test_chrome_kept, setup, teardown)
{
	static const uint32_t tids[] = { TID, TID + 256, TID + 512, 7, 0 };
	struct out o;

	chrome_open(&o);
	for (unsigned int i = 0; i < 300; i++) {
		struct rec_hdr h = hdr(REC_HOLD, HOLD_READY);
		char ts[32], dur[32], expect[256];
		const char *line;

		h.tid = tids[draw() % ARRAY_SIZE(tids)];
		h.tgid = h.tid ? PID : 0;
		/* back and forth around the tenths of a second whose text is kept */
		h.start_ns = START + draw() % 40 * 50000000 + draw() % 3 - 1;
		h.dur_ns = draw() >> draw() % 64;
		sink_record(o.s, &h, sizeof(h));
		flush(&o);
		read_text(&o);
		line = strrchr(o.text, '\n');
		if (h.start_ns < START) {
			h.dur_ns = h.dur_ns ? h.dur_ns - 1 : 0;
			h.start_ns = START;
		}
		snprintf(ts, sizeof(ts), "%llu.%03llu", (h.start_ns - START) / 1000ull, (h.start_ns - START) % 1000ull);
		snprintf(dur, sizeof(dur), "%llu.%03llu", h.dur_ns / 1000ull, h.dur_ns % 1000ull);
		snprintf(expect, sizeof(expect), "\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%s,\"dur\":%s,\"name\":", h.tgid,
			h.tid, ts, dur);
		assert_memory_equal(line, expect, strlen(expect));
	}
	chrome_read_any(&o); /* times that do not fit */
	chrome_done(&o);
}

RUN_TESTS(NULL, NULL)
