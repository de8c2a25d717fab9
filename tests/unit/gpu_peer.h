/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace's side of the hand-over (gpu/hand_over.h), and a program (in tests/gpu/) with the agent in it. */
#ifndef INFTRACE_TESTS_GPU_PEER_H
#define INFTRACE_TESTS_GPU_PEER_H

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "gpu/hand_over.h"
#include "unit.h"

#define PEER_PATIENCE_MS 60000
#define PEER_DEVICES_MAX 4
#define PEER_NAMES_MAX 4096

static const char *peer_program = "mock_driver"; /* or mock_hip_driver */

struct peer {
	char name[64];		/* of the socket */
	int listener, connection, ring_fd;
	struct gpu_ring *ring;
	uint32_t capacity;
	uint64_t tail;
	char (*names)[GPU_NAME_MAX + 1];
	uint64_t marked_ring, marked_cupti; /* sums of the marks */
	int devices; /* devices that were described */
	struct gpu_device about[PEER_DEVICES_MAX];
	uint64_t bad;
	/* the program */
	pid_t pid;
	FILE *to, *from;
	int truth_fd;
};

/* The build directory, relative to this test. */
static inline const char *peer_build(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = '\0';
	for (int up = 0; up < 2; up++)
		if (strrchr(path, '/'))
			*strrchr(path, '/') = '\0';
	return path;
}

#define PEER_WAIT(condition)                                                 \
	do {                                                                 \
		int peer_ms = 0;                                             \
		for (; !(condition) && peer_ms < PEER_PATIENCE_MS; peer_ms++) \
			usleep(1000);                                        \
		assert_true(peer_ms < PEER_PATIENCE_MS);                     \
	} while (0)

static inline void peer_listen(struct peer *p, uint32_t capacity)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	static int count;

	memset(p, 0, sizeof(*p));
	p->listener = p->connection = p->ring_fd = p->truth_fd = -1;
	p->capacity = capacity;
	snprintf(p->name, sizeof(p->name), "@inftrace-test-gpu-%d-%d", (int)getpid(), count++);
	memcpy(a.sun_path + 1, p->name + 1, strlen(p->name) - 1);
	p->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->listener, (struct sockaddr *)&a, (socklen_t)(sizeof(sa_family_t) + strlen(p->name))), 0);
	assert_int_equal(listen(p->listener, 8), 0);
	p->names = mmap(NULL, PEER_NAMES_MAX * sizeof(*p->names), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(p->names, MAP_FAILED);
}

static inline void peer_make_ring(struct peer *p)
{
	size_t size = GPU_RING_SIZE(p->capacity);

	p->ring_fd = memfd_create("inftrace-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(p->ring_fd, (off_t)size), 0);
	assert_int_equal(fcntl(p->ring_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	p->ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, p->ring_fd, 0);
	assert_ptr_not_equal(p->ring, MAP_FAILED);
	p->ring->fixed = (struct gpu_ring_fixed){ GPU_HAND_OVER_MAGIC, GPU_HAND_OVER_VERSION, sizeof(struct gpu_record), p->capacity };
	p->tail = 0;
}

static inline void peer_send_welcome(struct peer *p, int32_t error, int fd)
{
	struct gpu_welcome w = { GPU_HAND_OVER_MAGIC, GPU_HAND_OVER_VERSION, error, 0 };
	struct iovec iov = { &w, sizeof(w) };
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .space = { 0 } };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof(fd));
	}
	assert_int_equal(sendmsg(p->connection, &m, MSG_NOSIGNAL), sizeof(w));
}

/* Waits for an agent and its hello. */
static inline struct gpu_hello peer_accept(struct peer *p)
{
	struct pollfd ready = { .fd = p->listener, .events = POLLIN };
	struct gpu_hello h = { 0 };

	assert_int_equal(poll(&ready, 1, PEER_PATIENCE_MS), 1);
	p->connection = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(recv(p->connection, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(h.magic, GPU_HAND_OVER_MAGIC);
	assert_int_equal(h.version, GPU_HAND_OVER_VERSION);
	assert_int_equal(h.record_size, sizeof(struct gpu_record));
	return h;
}

static inline void peer_drop_ring(struct peer *p)
{
	if (p->ring)
		munmap(p->ring, GPU_RING_SIZE(p->capacity));
	p->ring = NULL;
	if (p->ring_fd >= 0)
		close(p->ring_fd);
	if (p->connection >= 0)
		close(p->connection);
	p->ring_fd = p->connection = -1;
}

/* Accepts an agent, and hands over a ring with what is wanted from the beginning. */
static inline void peer_serve(struct peer *p, uint32_t wanted)
{
	peer_accept(p);
	peer_make_ring(p);
	p->ring->reader.wanted = wanted;
	p->ring->reader.flush_ms = 5;
	peer_send_welcome(p, 0, p->ring_fd);
}

static inline uint32_t peer_state(const struct peer *p)
{
	return __atomic_load_n(&p->ring->writer.state, __ATOMIC_ACQUIRE);
}

static inline void peer_change(struct peer *p)
{
	uint32_t *word = &p->ring->reader.wanted_change;

	__atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Changes what is wanted, and waits until that is in effect. */
static inline void peer_want(struct peer *p, uint32_t wanted)
{
	__atomic_store_n(&p->ring->reader.wanted, wanted, __ATOMIC_RELAXED);
	peer_change(p);
	PEER_WAIT(__atomic_load_n(&p->ring->writer.wanted_seen, __ATOMIC_ACQUIRE) == p->ring->reader.wanted_change);
}

static inline void peer_keep_name(struct peer *p, const struct gpu_name *n)
{
	size_t length = n->length - n->offset;

	if (n->id >= PEER_NAMES_MAX || n->length > GPU_NAME_MAX || n->offset > n->length) {
		p->bad++;
		return;
	}
	memcpy(p->names[n->id] + n->offset, n->text, length < GPU_NAME_CHUNK ? length : GPU_NAME_CHUNK);
	p->names[n->id][n->length] = '\0';
}

/* Takes the next record that is no name (of a device either) and no mark. */
static inline bool peer_take(struct peer *p, struct gpu_record *ret)
{
	for (;;) {
		uint64_t head = __atomic_load_n(&p->ring->writer.head, __ATOMIC_ACQUIRE);

		assert_true(head - p->tail <= p->capacity);
		if (head == p->tail)
			return false;
		*ret = GPU_RING_RECORDS(p->ring)[p->tail & (p->capacity - 1)];
		__atomic_store_n(&p->ring->reader.tail, ++p->tail, __ATOMIC_RELEASE);
		if (ret->kind == GPU_RECORD_NAME) {
			peer_keep_name(p, &ret->name);
		} else if (ret->kind == GPU_RECORD_DROPPED) {
			p->marked_ring += ret->dropped.ring;
			p->marked_cupti += ret->dropped.cupti;
		} else if (ret->kind == GPU_RECORD_DEVICE) {
			assert_true(ret->device < PEER_DEVICES_MAX);
			p->about[ret->device] = ret->about;
			p->devices++;
		} else {
			return true;
		}
	}
}

/* Starts the program; environment: "NAME=VALUE NAME=VALUE"; agent: loaded by the driver at its start. */
static inline void peer_start(struct peer *p, bool agent, const char *environment)
{
	int to[2], from[2];

	p->truth_fd = memfd_create("truth", 0);
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	p->pid = fork();
	if (!p->pid) {
		static char text[512], path[PATH_MAX + 64];
		char *save, *word;

		dup2(to[0], 0);
		dup2(from[1], 1);
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getppid(), p->truth_fd);
		setenv("MOCK_TRUTH", path, 1);
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
		if (agent) {
			snprintf(path, sizeof(path), "%s/inftrace-gpu.so", peer_build());
			setenv("CUDA_INJECTION64_PATH", path, 1);
			setenv("ROCP_TOOL_LIBRARIES", path, 1);
			setenv(GPU_ENV_SOCKET, p->name, 1);
		}
		snprintf(path, sizeof(path), "%s/gpu/libcupti.so", peer_build());
		setenv(GPU_ENV_CUPTI, path, 1);
		snprintf(text, sizeof(text), "%s", environment);
		for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
			putenv(word);
		snprintf(path, sizeof(path), "%s/gpu/%s", peer_build(), peer_program);
		execl(path, peer_program, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	p->to = fdopen(to[1], "we");
	p->from = fdopen(from[0], "re");
}

/* Tells the program to do something; peer_done() waits until it has. */
static inline void peer_tell(struct peer *p, const char *line)
{
	fprintf(p->to, "%s\n", line);
	fflush(p->to);
}

static inline void peer_done(struct peer *p)
{
	char line[64] = "";

	assert_non_null(fgets(line, sizeof(line), p->from));
	assert_string_equal(line, "ok\n");
}

static inline void peer_do(struct peer *p, const char *line)
{
	peer_tell(p, line);
	peer_done(p);
}

/* Ends the program, which must be unharmed, and everything else. */
static inline void peer_end(struct peer *p)
{
	int status = -1;

	if (p->pid) {
		fclose(p->to);
		assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
		assert_int_equal(status, 0);
		fclose(p->from);
		close(p->truth_fd);
	}
	peer_drop_ring(p);
	close(p->listener);
	munmap(p->names, PEER_NAMES_MAX * sizeof(*p->names));
}

#endif
