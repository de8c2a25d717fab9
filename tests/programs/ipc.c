// SPDX-License-Identifier: BSD-2-Clause
/*
 * Passes data through pipes, sockets, eventfds and futexes, and through other files, and prints how
 * often: {"syscall kind way": count, ...}, where way is send, recv or slow.
 *
 * A slow call waits for a second thread, which serves it once the caller sleeps. No other call waits.
 *
 *	ipc		checks that the caller sleeps, which takes more system calls now and then
 *	ipc same	the same calls each time: naps instead, after which the caller usually sleeps
 */
#include "../program.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "section.h"

enum {
	FAST = 40,
	SLOW = 6,
	NAP_NS = 20000000,
	LOOK_NS = 1000000,
};

static struct count {
	char what[48];
	long n;
} counts[64];

static int pipe_fd[2], fifo_fd, unix_fd[2], dgram_fd[2], event_fd, tcp_fd[2], file_fd, done[2];
static uint32_t word;
static bool same_calls;

static void did(const char *what)
{
	struct count *c = counts;

	while (c->what[0] && strcmp(c->what, what))
		c++;
	must(c < counts + LENGTH(counts) - 1, "counts");
	snprintf(c->what, sizeof(c->what), "%s", what);
	c->n++;
}

static long futex(int op, uint32_t value)
{
	return syscall(SYS_futex, &word, op, value, NULL, NULL, 0);
}

/* Calls for which data, or room, is there already. */
static void fast(void)
{
	char buf[8] = "";
	struct iovec iov = { buf, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	uint64_t one = 1;

	must(write(pipe_fd[1], "x", 1) == 1, "pipe");
	did("write pipe send");
	must(read(pipe_fd[0], buf, sizeof(buf)) == 1, "pipe");
	did("read pipe recv");
	must(writev(fifo_fd, &iov, 1) == 1, "fifo");
	did("writev pipe send");
	must(readv(fifo_fd, &iov, 1) == 1, "fifo");
	did("readv pipe recv");

	must(write(unix_fd[0], "x", 1) == 1, "unix");
	did("write unix send");
	must(read(unix_fd[1], buf, sizeof(buf)) == 1, "unix");
	did("read unix recv");
	must(send(unix_fd[1], "x", 1, 0) == 1, "unix");
	did("sendto unix send");
	must(recv(unix_fd[0], buf, sizeof(buf), 0) == 1, "unix");
	did("recvfrom unix recv");
	must(sendmsg(dgram_fd[0], &msg, 0) == 1, "dgram");
	did("sendmsg unix send");
	must(recvmsg(dgram_fd[1], &msg, 0) == 1, "dgram");
	did("recvmsg unix recv");
	must(recv(unix_fd[0], buf, sizeof(buf), MSG_DONTWAIT) == -1 && errno == EAGAIN, "unix");
	did("recvfrom unix recv");

	must(write(event_fd, &one, 8) == 8, "eventfd");
	did("write eventfd send");
	must(read(event_fd, &one, 8) == 8, "eventfd");
	did("read eventfd recv");

	must(futex(FUTEX_WAKE_PRIVATE, 1) == 0, "futex");
	did("futex futex send");
	must(futex(FUTEX_WAKE_BITSET_PRIVATE, 1) == -1, "futex"); /* no bits */
	did("futex futex send");
	must(futex(FUTEX_WAIT, word + 1) == -1 && errno == EAGAIN, "futex");
	did("futex futex recv");

	/* none of these: a file, the network, nothing at all */
	must(pwrite(file_fd, "x", 1, 0) == 1, "file");
	must(lseek(file_fd, 0, SEEK_SET) == 0 && read(file_fd, buf, 1) == 1, "file");
	must(write(tcp_fd[0], "x", 1) == 1, "tcp");
	must(read(tcp_fd[1], buf, 1) == 1, "tcp");
	must(write(-1, "x", 1) == -1 && read(1000000, buf, 1) == -1, "no descriptor");
}

/* Waits until the main thread sleeps, which it only does in calls that this thread serves. */
static void await_sleep(void)
{
	char path[64], buf[512], *state = NULL;

	if (same_calls) {
		sleep_for(NAP_NS);
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	while (!state || state[2] != 'S') {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, buf, sizeof(buf) - 1);

		must(n > 0, path);
		close(fd);
		buf[n] = 0;
		state = strrchr(buf, ')');
		must(state, path);
		sleep_for(LOOK_NS);
	}
}

static void *serve(void *arg)
{
	uint64_t one = 1;

	for (int i = 0; i < SLOW; i++) {
		await_sleep();
		must(write(pipe_fd[1], "x", 1) == 1, "pipe");
		await_sleep();
		must(send(unix_fd[1], "x", 1, 0) == 1, "unix");
		await_sleep();
		must(write(event_fd, &one, 8) == 8, "eventfd");
		await_sleep();
		__atomic_store_n(&word, i + 1, __ATOMIC_SEQ_CST);
		must(futex(FUTEX_WAKE, 1) == 1 || same_calls, "futex");
	}
	must(write(done[1], "x", 1) == 1, "pipe");
	return arg;
}

static void slow(void)
{
	char buf[8];

	for (uint32_t i = 0; i < SLOW; i++) {
		must(read(pipe_fd[0], buf, 1) == 1, "pipe");
		did("read pipe slow");
		did("write pipe send");
		must(recv(unix_fd[0], buf, 1, 0) == 1, "unix");
		did("recvfrom unix slow");
		did("sendto unix send");
		must(read(event_fd, buf, 8) == 8, "eventfd");
		did("read eventfd slow");
		did("write eventfd send");
		must(futex(FUTEX_WAIT, i) == 0 || same_calls, "futex");
		did("futex futex slow");
		did("futex futex send");
	}
}

static void files_open(void)
{
	char path[64], fifo[80];

	/* not mkstemp(3), which calls for random numbers an unknown number of times */
	snprintf(path, sizeof(path), "/tmp/inftrace-ipc-%d", getpid());
	file_fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	must(file_fd >= 0, path);
	unlink(path);
	snprintf(fifo, sizeof(fifo), "%s.fifo", path);
	must(!mkfifo(fifo, 0600), fifo);
	fifo_fd = open(fifo, O_RDWR | O_CLOEXEC);
	must(fifo_fd >= 0, fifo);
	unlink(fifo);
	must(!pipe(pipe_fd) && !pipe(done), "pipe");
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, unix_fd), "socketpair");
	must(!socketpair(AF_UNIX, SOCK_DGRAM, 0, dgram_fd), "socketpair");
	event_fd = eventfd(0, EFD_CLOEXEC);
	must(event_fd >= 0, "eventfd");
	tcp_pair(tcp_fd); /* a socket, but to the network */
}

int main(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t thread;
	struct stat task;
	int ready = 0;
	char byte;

	same_calls = argc > 1 && !strcmp(argv[1], "same");
	files_open();
	for (int i = 0; i < FAST; i++)
		fast();
	/* pthread_join() may or may not wait on a futex; pthread_tryjoin_np() makes no system call */
	pthread_attr_init(&attr);
	if (!same_calls)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	must(!pthread_create(&thread, &attr, serve, NULL), "pthread_create");
	slow();
	while (!same_calls && !ioctl(done[0], FIONREAD, &ready) && !ready)
		sleep_for(LOOK_NS);
	must(read(done[0], &byte, 1) == 1, "pipe");
	did("write pipe send");
	did("read pipe recv");
	sleep_for(NAP_NS);
	while (same_calls && pthread_tryjoin_np(thread, NULL) == EBUSY)
		;
	while (!same_calls && !stat("/proc/self/task", &task) && task.st_nlink > 3) /* the thread is still there */
		sleep_for(LOOK_NS);
	for (struct count *c = counts; c->what[0]; c++)
		printf("%s\"%s\":%ld", c == counts ? "{" : ",", c->what, c->n);
	puts("}");
	return 0;
}
