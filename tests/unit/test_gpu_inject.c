// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent is injected into running programs (tests/gpu/inject_target.c), which notice if anything of theirs is
 * not as it should be: 200 times, by processes that are killed meanwhile, and while the program ends or calls exec.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "gpu/inject.h"
#include "gpu_peer.h"
#include "../gpu/inject_target.h"

#ifdef __SANITIZE_ADDRESS__
#define OFTEN 40
#else
#define OFTEN 200
#endif

static char agent[PATH_MAX];

struct target {
	struct target_page *page;
	int fd;
	pid_t pid;
	char why[256];
};

static void begin(struct target *t, const char *program, const char *kind, const char *end, const char *rounds)
{
	char path[PATH_MAX + 64];

	memset(t, 0, sizeof(*t));
	t->fd = memfd_create("target", MFD_CLOEXEC);
	assert_int_equal(ftruncate(t->fd, sizeof(*t->page)), 0);
	t->page = mmap(NULL, sizeof(*t->page), PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	assert_ptr_not_equal(t->page, MAP_FAILED);
	t->pid = fork();
	if (!t->pid) {
		setenv(GPU_ENV_CUPTI, "/nonexistent", 1);
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
		dup2(t->fd, TARGET_FD);
		if (t->fd == TARGET_FD)
			fcntl(TARGET_FD, F_SETFD, 0);
		snprintf(path, sizeof(path), "%s/gpu/%s", peer_build(), program);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, program, kind, end, rounds, NULL);
		_exit(127);
	}
	PEER_WAIT(__atomic_load_n(&t->page->rounds, __ATOMIC_RELAXED) || (*end && waitid(P_PID, (id_t)t->pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT | WNOHANG)));
}

/* It goes on, and has found nothing. */
static void unharmed(const struct target *t)
{
	uint64_t rounds = __atomic_load_n(&t->page->rounds, __ATOMIC_RELAXED), work = __atomic_load_n(&t->page->work, __ATOMIC_RELAXED);

	PEER_WAIT(__atomic_load_n(&t->page->rounds, __ATOMIC_RELAXED) > rounds + 1);
	PEER_WAIT(__atomic_load_n(&t->page->work, __ATOMIC_RELAXED) > work + 1);
	assert_string_equal(t->page->what, "");
}

static void end(struct target *t)
{
	int status = -1;

	t->page->stop = 1;
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	assert_int_equal(status, 0);
	assert_string_equal(t->page->what, "");
	munmap(t->page, sizeof(*t->page));
	close(t->fd);
}

static int inject(struct target *t, const char *name)
{
	t->why[0] = '\0';
	return gpu_inject(t->pid, agent, name, t->why, sizeof(t->why));
}

/* Each kind of system call goes on as if nothing had happened, and the agent arrives. */
static void test_calls(void **state)
{
	static const char *const kinds[] = { "read", "nanosleep", "futex", "poll", "epoll" };
	struct gpu_hello h;
	struct target t;
	struct peer p;

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		peer_listen(&p, 64);
		begin(&t, "inject_target", kinds[k], "", "");
		for (int i = 0; i < OFTEN / 5; i++) {
			int err = inject(&t, p.name);

			assert_string_equal(t.why, "");
			assert_int_equal(err, 0);
			h = peer_accept(&p);
			assert_int_equal(h.attached, 1);
			peer_make_ring(&p);
			peer_send_welcome(&p, 0, p.ring_fd);
			PEER_WAIT(peer_state(&p) == GPU_STATE_NO_CUPTI);
			p.ring->reader.leave = 1;
			peer_change(&p);
			PEER_WAIT(peer_state(&p) == GPU_STATE_GONE);
			peer_drop_ring(&p);
			unharmed(&t);
		}
		end(&t);
		peer_end(&p);
	}
}

/* Whoever injects is killed at any moment. Not while in epoll_wait(), which ends with EINTR after any stop (signal(7)). */
static void test_killed(void **state)
{
	static const char *const kinds[] = { "read", "nanosleep", "poll", "futex" };
	struct target t;

	(void)state;
	srand(1);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		begin(&t, "inject_target", kinds[k], "", "");
		for (int i = 0; i < OFTEN / 8; i++) {
			pid_t injector = fork();
			int status;

			if (!injector) {
				for (;;)
					inject(&t, "@inftrace-test-nobody");
			}
			usleep((useconds_t)(rand() % 20000));
			kill(injector, SIGKILL);
			assert_int_equal(waitpid(injector, &status, 0), injector);
			unharmed(&t);
		}
		/* and it can be done still */
		assert_int_equal(inject(&t, "@inftrace-test-nobody"), 0);
		end(&t);
	}
}

/* It ends, or executes another program, meanwhile. */
static void test_ends(void **state)
{
	struct target t;
	char rounds[16];
	int err;

	(void)state;
	for (int i = 0; i < OFTEN / 10; i++) {
		snprintf(rounds, sizeof(rounds), "%d", i % 10 + 1);
		begin(&t, "inject_target", "nanosleep", "exit", rounds);
		do
			err = inject(&t, "@inftrace-test-nobody");
		while (err == 0);
		assert_true(*t.why);
		end(&t);

		begin(&t, "inject_target", "read", "exec", rounds);
		for (int k = 0; k < 20; k++)
			inject(&t, "@inftrace-test-nobody");
		unharmed(&t);
		end(&t);
	}
}

static void refused(struct target *t, int err, const char *why)
{
	assert_int_equal(inject(t, "@inftrace-test-nobody"), err);
	assert_non_null(strstr(t->why, why));
	unharmed(t);
	end(t);
}

static void test_refused(void **state)
{
	struct target t;
	int status;

	(void)state;
	begin(&t, "inject_static", "read", "", "");
	refused(&t, -EOPNOTSUPP, "linked statically");

	begin(&t, "inject_target", "spin", "", "");
	refused(&t, -EAGAIN, "none of its threads waits");

	/* under a debugger */
	begin(&t, "inject_target", "read", "", "");
	assert_int_equal(ptrace(PTRACE_SEIZE, t.pid, 0, 0), 0);
	assert_int_equal(inject(&t, "@x"), -EBUSY);
	assert_non_null(strstr(t.why, "debugger"));
	assert_int_equal(ptrace(PTRACE_INTERRUPT, t.pid, 0, 0), 0);
	assert_int_equal(waitpid(t.pid, &status, __WALL), t.pid);
	assert_int_equal(ptrace(PTRACE_DETACH, t.pid, 0, 0), 0);
	unharmed(&t);
	end(&t);

	/* stopped: it stays so */
	begin(&t, "inject_target", "read", "", "");
	assert_int_equal(kill(t.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(t.pid, &status, WUNTRACED), t.pid);
	assert_int_equal(inject(&t, "@inftrace-test-nobody"), -EAGAIN);
	assert_int_equal(kill(t.pid, SIGCONT), 0);
	unharmed(&t);
	end(&t);

	/* what is to be loaded is no library */
	begin(&t, "inject_target", "read", "", "");
	assert_int_equal(gpu_inject(t.pid, "/etc/passwd", "@x", t.why, sizeof(t.why)), -ENOEXEC);
	assert_non_null(strstr(t.why, "refuses"));
	unharmed(&t);
	assert_int_equal(gpu_inject(t.pid, "/nonexistent", "@x", t.why, sizeof(t.why)), -EXDEV);
	unharmed(&t);
	end(&t);

	t.pid = 0x7fffffff;
	assert_int_equal(inject(&t, "@x"), -ESRCH);
}

/* In another mount namespace; which only root can make. */
static void test_namespace(void **state)
{
	struct target t = { 0 };
	int ready[2];
	char c;

	(void)state;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	t.pid = fork();
	if (!t.pid) {
		c = unshare(CLONE_NEWNS) ? 'n' : 'y';
		if (write(ready[1], &c, 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	if (c == 'y') {
		assert_int_equal(inject(&t, "@x"), -EXDEV);
		assert_non_null(strstr(t.why, "mount namespace"));
	}
	kill(t.pid, SIGKILL);
	waitpid(t.pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	if (c != 'y')
		skip();
}

/* Without ptrace, or on another architecture, there is nothing to be tested. */
static bool possible(void)
{
#ifdef __x86_64__
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
#else
	return false;
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_namespace),
	};

	if (!possible()) {
		puts("skip injecting - ptrace is not allowed here, or this is not x86_64");
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	snprintf(agent, sizeof(agent), "%s/inftrace-gpu.so", peer_build());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
