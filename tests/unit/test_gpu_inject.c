// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent is injected into running programs (tests/gpu/inject_target.c), which notice any damage: 200 times, by processes
 * that are killed meanwhile, and while the program ends or calls exec.
 */
#include <dirent.h>
#include <elf.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "../gpu/inject_target.h"
#include "engine/inspect.h"
#include "gpu/inject.h"
#include "gpu/inject_call.h"
#include "gpu_peer.h"

/* Complete injections; an emulated machine takes a hundred times as long for each. */
#ifdef __SANITIZE_ADDRESS__
#define OFTEN 40
#else
#define OFTEN (getenv("OFTEN") ? atoi(getenv("OFTEN")) : 200)
#endif

static char agent[PATH_MAX + 32];
static struct probe_table no_probes;
static struct inspector *inspector;

static int (*prepare)(void); /* what the program does before it begins */

/* Of the test that runs. */
static struct {
	struct target_page *page;
	int fd;
	pid_t pid;
	char why[256];
} t;

static void begin(const char *program, const char *kind, const char *end, const char *rounds)
{
	char path[PATH_MAX + 64];

	memset(&t, 0, sizeof(t));
	t.fd = memfd_create("target", MFD_CLOEXEC);
	assert_int_equal(ftruncate(t.fd, sizeof(*t.page)), 0);
	t.page = mmap(NULL, sizeof(*t.page), PROT_READ | PROT_WRITE, MAP_SHARED, t.fd, 0);
	assert_ptr_not_equal(t.page, MAP_FAILED);
	t.pid = fork();
	if (!t.pid) {
		setenv(GPU_ENV_CUPTI, "/nonexistent", 1);
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
		dup2(t.fd, TARGET_FD);
		if (t.fd == TARGET_FD)
			fcntl(TARGET_FD, F_SETFD, 0);
		snprintf(path, sizeof(path), "%s/gpu/%s", peer_build(), program);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (prepare && prepare())
			_exit(126);
		execl(path, program, kind, end, rounds, NULL);
		_exit(127);
	}
	PEER_WAIT(__atomic_load_n(&t.page->rounds, __ATOMIC_RELAXED) || (*end && waitid(P_PID, (id_t)t.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT | WNOHANG)));
}

/* The program goes on, and has found no damage. */
static void unharmed(void)
{
	uint64_t rounds = __atomic_load_n(&t.page->rounds, __ATOMIC_RELAXED), work = __atomic_load_n(&t.page->work, __ATOMIC_RELAXED);

	PEER_WAIT(__atomic_load_n(&t.page->rounds, __ATOMIC_RELAXED) > rounds + 1);
	PEER_WAIT(__atomic_load_n(&t.page->work, __ATOMIC_RELAXED) > work + 1);
	assert_string_equal(t.page->what, "");
}

static void end(void)
{
	int status = -1;

	t.page->stop = 1;
	assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
	assert_int_equal(status, 0);
	assert_string_equal(t.page->what, "");
	munmap(t.page, sizeof(*t.page));
	close(t.fd);
}

static void end_unharmed(void)
{
	unharmed();
	end();
}

static int inject_library(const char *library, const char *name)
{
	static const struct injected_library what = { GPU_ATTACH_ENTRY, GPU_AGENT_SONAME };
	struct gpu_injection i;
	int err = gpu_injection_begin(inspector, t.pid, &what, library, name, NULL, &i);

	t.why[0] = '\0';
	while (!err && (err = gpu_injection_result(&i, t.why, sizeof(t.why))) == -EINPROGRESS)
		err = usleep(200);
	return err;
}

/* On a busy machine an injection may take too long; then it is tried again. */
static int inject(const char *name)
{
	int err;

	do
		err = inject_library(agent, name);
	while (err == -ETIMEDOUT);
	return err;
}

/* The agent arrives, and leaves again. */
static void come_and_go(struct peer *p)
{
	int err = inject(p->name);

	assert_string_equal(t.why, "");
	assert_int_equal(err, 0);
	assert_int_equal(peer_accept(p).attached, 1);
	peer_make_ring(p);
	peer_send_welcome(p, 0, p->ring_fd);
	PEER_WAIT(peer_state(p) == GPU_STATE_NO_CUPTI);
	p->ring->reader.leave = 1;
	peer_change(p);
	PEER_WAIT(peer_state(p) == GPU_STATE_GONE);
	peer_drop_ring(p);
	unharmed();
}

/* Each kind of system call goes on as if nothing had happened, and the agent arrives. */
static void test_calls(void **state)
{
	static const char *const kinds[] = { "read", "nanosleep", "futex", "poll", "epoll" };
	struct peer p;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		peer_listen(&p, 64);
		begin("inject_target", kinds[k], "", "");
		for (int i = 0; i < OFTEN / 5; i++)
			come_and_go(&p);
		assert_true(t.page->interrupted < (uint64_t)OFTEN / 5);
		end();
		peer_end(&p);
	}
}

/* The injector is killed at any moment, but not while the target is in epoll_wait(), which ends with EINTR after any stop
 * (signal(7)). */
static void test_killed(void **state)
{
	static const char *const kinds[] = { "read", "nanosleep", "poll", "futex" };
	int err;

	srand(1);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		begin("inject_target", kinds[k], "", "");
		for (int i = 0; i < OFTEN / 8; i++) {
			pid_t injector = fork();
			int status;

			if (!injector) {
				for (;;)
					inject("@inftrace-test-nobody");
			}
			usleep((useconds_t)(rand() % 20000));
			kill(injector, SIGKILL);
			assert_int_equal(waitpid(injector, &status, 0), injector);
			unharmed();
		}
		/* and injecting still works once the helper of the last one has ended */
		do
			err = inject("@inftrace-test-nobody");
		while (err == -EBUSY);
		assert_int_equal(err, 0);
		end();
	}
}

/* The program ends, or executes another one, meanwhile. */
static void test_ends(void **state)
{
	char rounds[16];
	int err;

	for (int i = 0; i < OFTEN / 10; i++) {
		snprintf(rounds, sizeof(rounds), "%d", i % 10 + 1);
		begin("inject_target", "nanosleep", "exit", rounds);
		do
			err = inject("@inftrace-test-nobody");
		while (err == 0);
		assert_true(*t.why);
		end();

		begin("inject_target", "read", "exec", rounds);
		for (int k = 0; k < 20; k++)
			inject("@inftrace-test-nobody");
		end_unharmed();
	}
}

static void refused(int err, const char *why)
{
	assert_int_equal(inject("@inftrace-test-nobody"), err);
	assert_non_null(strstr(t.why, why));
	end_unharmed();
}

static void test_refused(void **state)
{
	int status;

	begin("inject_static", "read", "", "");
	refused(-EOPNOTSUPP, "linked statically");

	begin("inject_target", "spin", "", "");
	assert_int_equal(inject_library(agent, "@x"), -ETIMEDOUT);
	assert_non_null(strstr(t.why, "none of its threads waits"));
	end_unharmed();

	/* under a debugger */
	begin("inject_target", "read", "", "");
	assert_int_equal(ptrace(PTRACE_SEIZE, t.pid, 0, 0), 0);
	assert_int_equal(inject("@x"), -EBUSY);
	assert_non_null(strstr(t.why, "debugger"));
	assert_int_equal(ptrace(PTRACE_INTERRUPT, t.pid, 0, 0), 0);
	assert_int_equal(waitpid(t.pid, &status, __WALL), t.pid);
	assert_int_equal(ptrace(PTRACE_DETACH, t.pid, 0, 0), 0);
	end_unharmed();

	/* stopped: it stays stopped */
	begin("inject_target", "read", "", "");
	assert_int_equal(kill(t.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(t.pid, &status, WUNTRACED), t.pid);
	assert_int_equal(inject_library(agent, "@x"), -ETIMEDOUT);
	assert_int_equal(kill(t.pid, SIGCONT), 0);
	end_unharmed();

	/* the file to load is no library */
	begin("inject_target", "read", "", "");
	assert_int_equal(inject_library("/etc/passwd", "@x"), -ENOEXEC);
	assert_non_null(strstr(t.why, "refuses"));
	unharmed();
	assert_int_equal(inject_library("/nonexistent", "@x"), -ENOENT);
	end_unharmed();

	t.pid = 0x7fffffff;
	assert_int_equal(inject("@x"), -ESRCH);
}

/* In a container without the agent's file: what its program does before it begins. */
static int hide_agent(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("/dev/null", agent, NULL, MS_BIND, NULL))
		return -errno;
	return 0;
}

static int open_count(pid_t pid)
{
	char path[64];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* It gets a copy of the library in memory, once, and no descriptor is left over. */
static void test_container(void **state)
{
	struct peer p;
	int before, copies = 0, status;
	pid_t child = fork();
	char path[64], line[512];
	FILE *f;

	/* only root can make one */
	if (!child)
		_exit(hide_agent() ? 1 : 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status)
		skip();
	peer_listen(&p, 64);
	prepare = hide_agent;
	begin("inject_target", "read", "", "");
	prepare = NULL;
	before = open_count(t.pid);
	for (int i = 0; i < 5; i++)
		come_and_go(&p);
	PEER_WAIT(open_count(t.pid) == before);
	snprintf(path, sizeof(path), "/proc/%d/maps", t.pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		copies += strstr(line, "r-xp") && strstr(line, "/memfd:" GPU_AGENT_SONAME);
	fclose(f);
	assert_int_equal(copies, 1);
	end();
	peer_end(&p);
}

/* ---- seccomp ---- */

/* Allows all system calls but filter_call, for which the filter returns filter_says. */
static int filter_call;
static uint32_t filter_says;

static int set_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)filter_call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, filter_says),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return -errno;
	return 0;
}

/* The same, in a container. */
static int hide_and_filter(void)
{
	return hide_agent() ?: set_filter();
}

static void test_seccomp(void **state)
{
	static const struct {
		int call;
		uint32_t says;
		bool hidden;
		int err;
		const char *why;
	} cases[] = {
		{ SYS_mount, SECCOMP_RET_KILL_PROCESS, false, 0, "" },
		{ SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS, false, 0, "" },
		{ SYS_socketpair, SECCOMP_RET_KILL_PROCESS, false, 0, "" },
		{ SYS_socketpair, SECCOMP_RET_KILL_PROCESS, true, -EPERM, "would end it for socketpair" },
		{ SYS_socketpair, SECCOMP_RET_ERRNO | EPERM, true, -EPERM, "forbids socketpair" },
		{ SYS_socket, SECCOMP_RET_ERRNO | EPERM, false, -EPERM, "forbids socket" },
		{ SYS_connect, SECCOMP_RET_TRAP, false, -EPERM, "would end it for connect" },
		{ SYS_setsockopt, SECCOMP_RET_KILL_THREAD, false, -EPERM, "would end it for setsockopt" },
	};
	struct sock_filter sums[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_MEM, 3),
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct seccomp_data data = { .args = { 0, 0x123 } };
	pid_t child = fork();
	int status;

	assert_int_equal(inject_seccomp_run(sums, sizeof(sums) / sizeof(*sums), &data), 0x103);
	assert_int_equal(inject_seccomp_run(sums, 3, &data), SECCOMP_RET_KILL_PROCESS);
	/* only root may read filters, or make a container */
	filter_call = -1;
	if (!child)
		_exit(hide_and_filter() || geteuid() ? 1 : 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status)
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		filter_call = cases[i].call;
		filter_says = cases[i].says;
		prepare = cases[i].hidden ? hide_and_filter : set_filter;
		begin("inject_target", "nanosleep", "", "");
		prepare = NULL;
		status = inject("@inftrace-test-nobody");
		if (!*cases[i].why)
			assert_string_equal(t.why, "");
		assert_non_null(strstr(t.why, cases[i].why));
		assert_int_equal(status, cases[i].err);
		end_unharmed();
	}
}

/* ---- others ---- */

static int give_rights(void)
{
	return setresuid(65534, 65534, 0) ? -errno : 0;
}

/* A 32-bit program, of which only the header matters; it waits. */
static bool write_program_32(const char *path)
{
	static const struct {
		Elf32_Ehdr h;
		Elf32_Phdr p;
		uint8_t code[8];
	} file = {
		.h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_EXEC, .e_machine = EM_386, .e_version = 1, .e_entry = 0x10000 + sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr), .e_phoff = sizeof(Elf32_Ehdr), .e_ehsize = sizeof(Elf32_Ehdr), .e_phentsize = sizeof(Elf32_Phdr), .e_phnum = 1 },
		.p = { .p_type = PT_LOAD, .p_vaddr = 0x10000, .p_filesz = sizeof(file), .p_memsz = sizeof(file), .p_flags = PF_R | PF_X, .p_align = 4096 },
		.code = { 0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xf4 }, /* pause() */
	};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	bool written = fd >= 0 && write(fd, &file, sizeof(file)) == sizeof(file);

	close(fd);
	return written;
}

static void test_others(void **state)
{
	char path[] = "/tmp/inftrace-test-32-XXXXXX";
	int status, fd;

	/* with the rights of another user */
	if (!geteuid()) {
		t.pid = fork();
		if (!t.pid) {
			if (give_rights())
				_exit(1);
			for (;;)
				pause();
		}
		PEER_WAIT(inject("@x") == -EPERM && strstr(t.why, "setuid"));
		kill(t.pid, SIGKILL);
		waitpid(t.pid, &status, 0);
	}

	/* of another architecture, if the kernel runs such programs */
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_true(write_program_32(path));
	t.pid = fork();
	if (!t.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, path, NULL);
		_exit(127);
	}
	PEER_WAIT(waitpid(t.pid, &status, WNOHANG) == t.pid || (inject("@x") == -EOPNOTSUPP && strstr(t.why, "not a 64-bit program")));
	kill(t.pid, SIGKILL);
	waitpid(t.pid, &status, 0);
	unlink(path);
}

/* One thread keeps forking meanwhile: its children do no harm. */
static void test_forks(void **state)
{
	begin("inject_target", "read", "fork", "1000000000");
	for (int i = 0; i < OFTEN / 10; i++) {
		assert_int_equal(inject("@inftrace-test-nobody"), 0);
		unharmed();
	}
	assert_true(__atomic_load_n(&t.page->forks, __ATOMIC_RELAXED) > 0);
	end();
}

/* Without ptrace there is nothing to test. */
static bool possible(void)
{
	pid_t child = fork();
	bool can;

	if (!child) {
		pause();
		_exit(0);
	}
	can = !ptrace(PTRACE_SEIZE, child, 0, 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return can;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_container),
		cmocka_unit_test(test_seccomp),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_forks),
	};
	int r;

	if (!possible()) {
		puts("skip injecting - ptrace is not allowed here");
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	snprintf(agent, sizeof(agent), "%s/inftrace-gpu.so", peer_build());
	if (inspector_new(&no_probes, &inspector))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	inspector_free(inspector);
	return r;
}
