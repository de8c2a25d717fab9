// SPDX-License-Identifier: BSD-2-Clause
/* What /proc says about this process, and about a child that runs this program again. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "cases.h"
#include "target/file.h"
#include "target/process.h"
#include "unit.h"

#define NO_PID 5000000 /* above PID_MAX_LIMIT */

/* ---- children ---- */

struct child {
	pid_t pid;
	int in;  /* it waits for a byte here */
	int out; /* it writes a byte when it is ready */
	char byte;
};

static void child_start(struct child *c, void (*run)(int in, int out))
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (!c->pid) {
		close(in[1]);
		close(out[0]);
		run(in[0], out[1]);
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	c->out = out[0];
	assert_int_equal(read(c->out, &c->byte, 1), 1);
}

static void child_end(struct child *c)
{
	int status;

	close(c->in);
	close(c->out);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void wait_for_end(int in, int out)
{
	char byte = 'r';

	if (write(out, &byte, 1) != 1)
		_exit(1);
	_exit(read(in, &byte, 1) != 0);
}

/* ---- existence ---- */

TEST(test_exists)
{
	struct child c;

	assert_true(process_exists(getpid()));
	assert_true(process_exists(1));
	assert_false(process_exists(NO_PID));
	assert_false(process_exists(0));
	assert_false(process_exists(-1));
	assert_true(process_main_thread_lives(getpid()));
	assert_false(process_main_thread_lives(NO_PID));

	child_start(&c, wait_for_end);
	assert_true(process_exists(c.pid));
	close(c.in);
	/* a zombie has nothing left to record */
	assert_int_equal(waitid(P_PID, (id_t)c.pid, &(siginfo_t){}, WEXITED | WNOWAIT), 0);
	assert_false(process_exists(c.pid));
	c.in = -1;
	child_end(&c);
	assert_false(process_exists(c.pid));
}

static int main_thread_ends[2];

static void *outlive_main_thread(void *arg)
{
	char path[64], line[64] = "";

	/* until the main thread is a zombie */
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	while (!strstr(line, ") Z ")) {
		FILE *f = fopen(path, "re");

		if (!f || !fgets(line, sizeof(line), f))
			_exit(1);
		fclose(f);
	}
	wait_for_end(main_thread_ends[0], main_thread_ends[1]);
	return NULL;
}

static void end_main_thread(int in, int out)
{
	pthread_t t;

	main_thread_ends[0] = in;
	main_thread_ends[1] = out;
	if (pthread_create(&t, NULL, outlive_main_thread, NULL))
		_exit(1);
	syscall(SYS_exit, 0); /* ends this thread only */
}

/* State Z, and yet it runs. */
TEST(test_exists_without_main_thread)
{
	struct child c;

	child_start(&c, end_main_thread);
	assert_true(process_exists(c.pid));
	assert_false(process_main_thread_lives(c.pid));
	child_end(&c);
}

/* ---- names ---- */

TEST(test_comm)
{
	static const char *const names[] = { "plain", "fifteen_bytes_x", "a b", "a\nb", "a) S 1",
		"State:\tZ", "x\nState:\tZ", "Tgid:\t1", "\x1b[2J\xff\xfe", "%s%n" };
	char before[TASK_COMM_LEN], comm[TASK_COMM_LEN];
	pid_t tgid;

	assert_int_equal(process_comm(getpid(), before), 0);
	assert_true(before[0]);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(prctl(PR_SET_NAME, names[i]), 0);
		memset(comm, 'x', sizeof(comm));
		assert_int_equal(process_comm(getpid(), comm), 0);
		assert_string_equal(comm, names[i]);
		/* a name cannot fake another state or process */
		assert_true(process_exists(getpid()));
		assert_int_equal(process_tgid(getpid(), &tgid), 0);
		assert_int_equal(tgid, getpid());
	}
	assert_int_equal(prctl(PR_SET_NAME, ""), 0);
	assert_int_equal(process_comm(getpid(), comm), 0);
	assert_string_equal(comm, "");
	assert_int_equal(prctl(PR_SET_NAME, before), 0);
	assert_int_equal(process_comm(NO_PID, comm), -ESRCH);
}

/* ---- threads ---- */

struct threads {
	pthread_barrier_t begin, end;
	pid_t tids[4];
	pthread_mutex_t lock;
	unsigned int n;
};

static void *run_thread(void *arg)
{
	struct threads *t = arg;

	pthread_mutex_lock(&t->lock);
	t->tids[t->n++] = (pid_t)syscall(SYS_gettid);
	pthread_mutex_unlock(&t->lock);
	pthread_barrier_wait(&t->begin);
	pthread_barrier_wait(&t->end);
	return NULL;
}

static int find_thread(pid_t tid, void *arg)
{
	struct threads *t = arg;

	for (unsigned int i = 0; i < 4; i++) {
		if (t->tids[i] == tid)
			t->n++;
	}
	return 0;
}

static int stop_at_second(pid_t tid, void *arg)
{
	assert_true(tid > 0);
	return ++*(int *)arg == 2 ? 42 : 0;
}

static int find_self(pid_t pid, void *arg)
{
	*(int *)arg += pid == getpid();
	return 0;
}

TEST(test_threads)
{
	struct threads t = { .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t threads[4];
	int calls = 0;
	pid_t tgid;

	assert_int_equal(pthread_barrier_init(&t.begin, NULL, 5), 0);
	assert_int_equal(pthread_barrier_init(&t.end, NULL, 5), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_thread, &t), 0);
	pthread_barrier_wait(&t.begin);

	for (int i = 0; i < 4; i++) {
		assert_int_not_equal(t.tids[i], getpid());
		assert_int_equal(process_tgid(t.tids[i], &tgid), 0);
		assert_int_equal(tgid, getpid());
	}
	t.n = 0;
	assert_int_equal(process_each_thread(getpid(), find_thread, &t), 0);
	assert_int_equal(t.n, 4);
	assert_int_equal(process_each_thread(getpid(), stop_at_second, &calls), 42);
	assert_int_equal(calls, 2);

	pthread_barrier_wait(&t.end);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&t.begin);
	pthread_barrier_destroy(&t.end);
	tgid = 7;
	assert_int_equal(process_tgid(NO_PID, &tgid), -ESRCH);
	assert_int_equal(tgid, 7);
	assert_int_equal(process_each_thread(NO_PID, stop_at_second, &calls), -ESRCH);
	calls = 0;
	assert_int_equal(process_each(find_self, &calls), 0);
	assert_int_equal(calls, 1);
}

/* ---- mapped files ---- */

struct wanted {
	uintptr_t address; /* in the mapping */
	unsigned int n, all;
	struct mapped_file m;
	char path[PATH_MAX];
};

static int find_mapping(const struct mapped_file *m, void *arg)
{
	struct wanted *w = arg;

	w->all++;
	assert_true(m->start < m->end && m->ino && m->path[0] == '/');
	assert_null(strchr(m->path, '\n'));
	if (w->address < m->start || w->address >= m->end)
		return 0;
	w->n++;
	w->m = *m;
	snprintf(w->path, sizeof(w->path), "%s", m->path);
	w->m.path = w->path;
	return 0;
}

static int stop_at_mapping(const struct mapped_file *m, void *arg)
{
	++*(int *)arg;
	return -7;
}

/* Lives in a time namespace of its own; makes another one for its children when told to. */
static int live_in_time(int in, int out)
{
	const char offsets[] = "boottime 5000 7\nmonotonic 3000 0\n";
	int fd = unshare(CLONE_NEWTIME) ? -1 : open("/proc/self/timens_offsets", O_WRONLY);
	pid_t child = -1;
	char c;

	if (fd >= 0 && write(fd, offsets, sizeof(offsets) - 1) == sizeof(offsets) - 1)
		child = fork();
	if (child && write(out, &child, sizeof(child)) != sizeof(child))
		return 1;
	if (child)
		return child > 0 && waitpid(child, NULL, 0) != child;
	return read(in, &c, 1) != 1 || unshare(CLONE_NEWTIME) || write(out, "x", 1) != 1 || read(in, &c, 1);
}

TEST(test_clock_shift)
{
	struct clock_shift own = clock_shift_read(), shift = { 1, 1 };
	pid_t maker, child = 0;
	int to[2], from[2];
	char c;

	assert_int_equal(process_clock_shift(NO_PID, &shift), -ESRCH);
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	maker = fork();
	if (!maker) {
		close(to[1]);
		_exit(live_in_time(to[0], from[1]));
	}
	assert_int_equal(read(from[0], &child, sizeof(child)), sizeof(child));
	if (child > 0) {
		/* its clock is still ours */
		assert_int_equal(process_clock_shift(maker, &shift), 0);
		assert_true(shift.boot_ns == own.boot_ns && shift.mono_ns == own.mono_ns);
		assert_int_equal(process_clock_shift(child, &shift), 0);
		assert_true(shift.boot_ns == own.boot_ns + 5000 * (int64_t)NSEC_PER_SEC + 7);
		assert_true(shift.mono_ns == own.mono_ns + 3000 * (int64_t)NSEC_PER_SEC);
		assert_int_equal(write(to[1], "x", 1), 1);
		assert_int_equal(read(from[0], &c, 1), 1);
		assert_int_equal(process_clock_shift(child, &shift), -EOPNOTSUPP);
	}
	close(to[0]);
	close(to[1]);
	close(from[0]);
	close(from[1]);
	assert_int_equal(waitpid(maker, NULL, 0), maker);
	if (child <= 0)
		skip(); /* only root can make one */
}

/* Only a listening socket counts, of either kind, while it exists. */
TEST(test_listens)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un name = { .sun_family = AF_UNIX }; /* the kernel finds a name */
	int tcp = socket(AF_INET, SOCK_STREAM, 0), local = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_false(process_listens(getpid()));
	assert_int_equal(bind(tcp, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(bind(local, (struct sockaddr *)&name, sizeof(sa_family_t)), 0);
	assert_false(process_listens(getpid()));
	assert_int_equal(listen(tcp, 1), 0);
	assert_true(process_listens(getpid()));
	close(tcp);
	assert_false(process_listens(getpid()));
	assert_int_equal(listen(local, 1), 0);
	assert_true(process_listens(getpid()));
	close(local);
	assert_false(process_listens(getpid()));
	assert_false(process_listens(0));
}

TEST(test_mapped_self)
{
	struct wanted w = { .address = (uintptr_t)test_mapped_self };
	struct stat st;
	int fd, calls = 0;
	void *anon;

	assert_int_equal(process_each_mapped(getpid(), find_mapping, &w), 0);
	assert_int_equal(w.n, 1);
	assert_true(w.all >= 3); /* this program, the C library, cmocka, ... */
	assert_int_equal(stat(w.path, &st), 0);
	assert_int_equal(w.m.ino, st.st_ino);
	assert_int_equal(file_open_mapped(getpid(), &w.m, &fd), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(w.m.ino, st.st_ino);
	close(fd);
	assert_int_equal(file_open_mapped(NO_PID, &w.m, &fd), -ENOENT);
	assert_int_equal(file_open_exe(NO_PID, &fd), -ENOENT);
	assert_int_equal(file_open_exe(getpid(), &fd), 0);
	close(fd);

	assert_int_equal(process_each_mapped(getpid(), stop_at_mapping, &calls), -7);
	assert_int_equal(calls, 1);
	assert_int_equal(process_each_mapped(NO_PID, stop_at_mapping, &calls), -ESRCH);

	/* code that is in no file does not count as a file */
	anon = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(anon, MAP_FAILED);
	w = (struct wanted){ .address = (uintptr_t)anon };
	assert_int_equal(process_each_mapped(getpid(), find_mapping, &w), 0);
	assert_int_equal(w.n, 0);
	munmap(anon, 4096);
}

static void *map_file(int fd, int prot)
{
	void *p = mmap(NULL, 8192, prot, MAP_PRIVATE, fd, 4096);

	return p == MAP_FAILED ? NULL : p;
}

/* Names that a hostile program may choose; mapped data does not count. */
TEST(test_mapped_names)
{
	static const char *const names[] = { "/plain", "/with space", "/line\nfeed", "/x (deleted)",
		"/00400000-00401000 r-xp 00000000 00:01 1 \xff" };
	char dir[] = "/tmp/test_process.XXXXXX", path[PATH_MAX];

	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct wanted w = {};
		struct stat st;
		void *code, *data;
		int fd, found;

		snprintf(path, sizeof(path), "%s%s", dir, names[i]);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, 3 * 4096), 0);
		assert_int_equal(fstat(fd, &st), 0);
		code = map_file(fd, PROT_READ | PROT_EXEC);
		data = map_file(fd, PROT_READ);
		close(fd);
		if (!code) {
			unlink(path);
			rmdir(dir);
			SKIP("/tmp is mounted noexec");
		}
		w.address = (uintptr_t)data;
		assert_int_equal(process_each_mapped(getpid(), find_mapping, &w), 0);
		assert_int_equal(w.n, 0);
		w.address = (uintptr_t)code;
		assert_int_equal(process_each_mapped(getpid(), find_mapping, &w), 0);
		assert_int_equal(w.n, 1);
		assert_int_equal(w.m.ino, st.st_ino);
		assert_int_equal(w.m.offset, 4096);
		assert_int_equal(w.m.start, (uintptr_t)code);
		assert_int_equal(w.m.end, (uintptr_t)code + 8192);
		if (!strchr(names[i], '\n')) {
			assert_string_equal(w.path, path);
			assert_int_equal(file_open_mapped(getpid(), &w.m, &found), 0);
			close(found);
		}
		/* deleted, or replaced by another file: /proc/PID/map_files leads to the mapped one, for those who may use
		 * it (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE) */
		assert_int_equal(unlink(path), 0);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
		assert_true(fd >= 0);
		if (file_open_mapped(getpid(), &w.m, &found)) {
			assert_int_not_equal(geteuid(), 0);
		} else {
			assert_int_equal(fstat(found, &st), 0);
			assert_int_equal(st.st_ino, w.m.ino);
			close(found);
		}
		close(fd);
		unlink(path);
		munmap(code, 8192);
		munmap(data, 8192);
	}
	rmdir(dir);
}

/* The mapped file is not regular, or its replacement is not. Also called in a child, which must not assert. */
static bool opens_what_is_mapped(void)
{
	char dir[] = "/tmp/test_process.XXXXXX", path[PATH_MAX];
	struct mapped_file m = { .start = 1, .end = 2, .path = path }; /* no such mapping */
	struct stat st;
	bool right;
	int fd;

	if (!mkdtemp(dir))
		return false;
	snprintf(path, sizeof(path), "%s/fifo", dir);
	right = !mkfifo(path, 0600) && !stat(path, &st);
	m.ino = st.st_ino;
	m.dev = st.st_dev;
	right &= file_open_mapped(getpid(), &m, &fd) == -ENOENT;
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	right &= fd >= 0 && !fstat(fd, &st);
	close(fd);
	m.ino = st.st_ino;
	right &= !file_open_mapped(getpid(), &m, &fd) && !close(fd);
	m.ino++;
	right &= file_open_mapped(getpid(), &m, &fd) == -ENOENT;
	unlink(path);
	rmdir(dir);
	return right;
}

TEST(test_open_irregular)
{
	assert_true(opens_what_is_mapped());
}

/* As systemd's RestrictSUIDSGID= does: the system call seems not to exist. */
static int forbid_openat2(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = ARRAY_SIZE(filter), .filter = filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) ? -1 : 0;
}

TEST(test_open_without_openat2)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(forbid_openat2() ? 2 : !opens_what_is_mapped());
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		SKIP("no seccomp filters here (valgrind does not know them)");
	assert_int_equal(status, 0);
}

/* ---- the environment ---- */

#define LONG_VALUE (100 << 10)

static void exec_self(int in, int out)
{
	static char lang[LONG_VALUE + 8] = "LONG=", self[PATH_MAX];
	char *env[] = { "FIRST=1", "FIRST_LONGER=2", "EMPTY=", "SIGNS=a=b c", "TWICE=1", "TWICE=2",
		"BARE", "=nameless", "BYTES=\xff\x01\n", lang, "LAST=9", NULL };
	char *argv[] = { self, "wait_for_end", NULL };

	memset(lang + 5, 'x', LONG_VALUE);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
		readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		_exit(1);
	execve(self, argv, env);
}

TEST(test_environ)
{
	static const struct {
		const char *name, *value;
	} cases[] = {
		{ "FIRST", "1" }, { "FIRST_LONGER", "2" }, { "EMPTY", "" }, { "SIGNS", "a=b c" },
		{ "TWICE", "1" }, /* as getenv(3) would find it */
		{ "BYTES", "\xff\x01\n" }, { "LAST", "9" }, { "FIRS", NULL }, { "BARE", NULL }, { "BAR", NULL },
		{ "NO_SUCH", NULL },
	};
	struct process_text env, cmdline;
	struct child c;

	child_start(&c, exec_self);
	assert_int_equal(process_environ(c.pid, &env), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *value = process_text_variable(&env, cases[i].name);

		if (cases[i].value)
			assert_string_equal(value, cases[i].value);
		else
			assert_null(value);
	}
	assert_int_equal(strlen(process_text_variable(&env, "LONG")), LONG_VALUE);
	process_text_free(&env);
	assert_int_equal(process_cmdline(c.pid, &cmdline), 0);
	assert_string_equal(process_text_next(&cmdline, process_text_next(&cmdline, NULL)), "wait_for_end");
	process_text_free(&cmdline);
	child_end(&c);
	assert_int_equal(process_environ(c.pid, &env), -ESRCH);
}

#define HUGE_ENV (64u << 20)

/* Moves the environment elsewhere; needs no privileges where the kernel supports it. */
static int move_environ(void *start, void *end)
{
	struct prctl_mm_map map = { .exe_fd = (__u32)-1, .brk = (__u64)(uintptr_t)sbrk(0) };
	unsigned long long v[52] = { 0 };
	char text[4096], *p, *save;
	int fd = open("/proc/self/stat", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return -1;
	text[n] = 0;
	p = strrchr(text, ')') + 2;
	p = strtok_r(p, " ", &save);
	for (int i = 3; p && i < 52; i++, p = strtok_r(NULL, " ", &save))
		v[i] = strtoull(p, NULL, 10); /* numbered as in proc(5) */
	map.start_code = v[26];
	map.end_code = v[27];
	map.start_stack = v[28];
	map.start_data = v[45];
	map.end_data = v[46];
	map.start_brk = v[47];
	map.arg_start = v[48];
	map.arg_end = v[49];
	map.env_start = (__u64)(uintptr_t)start;
	map.env_end = (__u64)(uintptr_t)end;
	return prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0);
}

/* An environment without a NUL: the kernel shows whatever the process claims. */
static void huge_environ(int in, int out)
{
	char *map = mmap(NULL, HUGE_ENV, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char no = 'n';

	if (map == MAP_FAILED)
		_exit(1);
	memset(map, 'A', HUGE_ENV);
	memcpy(map, "FIRST=1", 8);
	if (move_environ(map, map + HUGE_ENV))
		_exit(write(out, &no, 1) != 1);
	wait_for_end(in, out);
}

TEST(test_environ_huge)
{
	struct process_text env;
	struct child c;

	child_start(&c, huge_environ);
	if (c.byte == 'n')
		SKIP("this kernel has no PR_SET_MM_MAP");
	assert_int_equal(process_environ(c.pid, &env), 0);
	assert_true(env.len <= 4u << 20);
	assert_string_equal(process_text_variable(&env, "FIRST"), "1");
	/* the cut one is dropped */
	assert_null(process_text_next(&env, process_text_next(&env, NULL)));
	process_text_free(&env);
	child_end(&c);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "wait_for_end"))
		wait_for_end(STDIN_FILENO, STDOUT_FILENO);
	return unit_tests_run(NULL, NULL);
}
