// SPDX-License-Identifier: BSD-2-Clause
/*
 * planter CAUSE TIMES SEED ENGINE-CPU OTHER-CPU [CGROUP]
 *
 * Plants one cause again and again, at random steps of an engine that has libplant_hook.so loaded,
 * then ends the engine. Prints "ready" when the engine may be started, reads its process id from
 * stdin, and prints a line of JSON for each plant:
 *
 *   {"cause":"sleep","step":57,"start_ns":1,"end_ns":2,"cpu_ns":0,"delay_ns":0}
 *
 * step: the one it was planted into; what acts from outside has none, and neither what follows:
 * the thread's time on the CPU and waiting for it in between.
 */
#include "../program.h"

#include "external.h"

#include <sys/un.h>

#define GAP 24    /* steps between two plants, and as many again at random */
#define NODES 100 /* the first of the graph; it has more */
#define EVICTED (24 << 20)

/* In milliseconds: the least, and how much is added at random. */
static const struct {
	uint16_t least, more;
} sizes[PLANT_MAX] = {
	[PLANT_hog] = { 60, 40 },
	[PLANT_quota] = { 180, 60 },
	[PLANT_stop] = { 200, 0 },
	[PLANT_mutex] = { 15, 60 },
	[PLANT_pipe] = { 15, 60 },
	[PLANT_socket] = { 15, 60 },
	[PLANT_sleep] = { 15, 60 },
	[PLANT_fsync] = { 20, 40 },
	[PLANT_storm] = { 15, 40 },
	[PLANT_debugger] = { 15, 60 },
	[PLANT_softirq] = { 40, 40 },
};

struct planter {
	enum plant_cause cause;
	struct plant_shared *shared;
	struct target target;
	struct plant_range model;
	struct rival *rival;
	int peer;
};

static const bool by_hook[PLANT_MAX] = {
#define HOOK(name, hook) [PLANT_##name] = hook,
	PLANT_CAUSES(HOOK)
#undef HOOK
};

static uint64_t chance(uint64_t n)
{
	return n ? (uint64_t)random() % n : 0;
}

static int peer_make(struct planter *p)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *dir = getenv("PLANT_DIR");
	char path[PATH_MAX];

	if (p->cause == PLANT_pipe) {
		snprintf(path, sizeof(path), "%s/pipe", dir);
		if (mkfifo(path, 0600) && errno != EEXIST)
			return plant_fail(path);
		p->peer = open(path, O_RDWR | O_CLOEXEC);
		return p->peer < 0 ? plant_fail(path) : 0;
	}
	if ((size_t)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/socket", dir) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return plant_fail(dir);
	}
	unlink(addr.sun_path);
	p->peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->peer < 0 || bind(p->peer, (struct sockaddr *)&addr, sizeof(addr)) || listen(p->peer, 1))
		return plant_fail(addr.sun_path);
	return 0;
}

/* The peer of the hook's wish, slow by the given time. */
static int pipe_drain(struct planter *p, uint64_t size_ns)
{
	static char buf[1 << 16];
	uint32_t wish = p->shared->wanted;

	if (plant_wait(&p->shared->ready, wish))
		return -1;
	sleep_for(size_ns);
	for (size_t left = PIPE_BYTES; left;) {
		ssize_t n = read(p->peer, buf, left < sizeof(buf) ? left : sizeof(buf));

		if (n <= 0)
			return plant_fail("pipe");
		left -= (size_t)n;
	}
	return 0;
}

static int socket_answer(struct planter *p, uint64_t size_ns)
{
	char byte;

	if (recv(p->peer, &byte, 1, 0) != 1)
		return plant_fail("socket");
	sleep_for(size_ns);
	return send(p->peer, &byte, 1, 0) != 1 ? plant_fail("socket") : 0;
}

static int drop(struct planter *p)
{
	struct plant_shared *s = p->shared;

	if (plant_wait(&s->ready, s->wanted) || caches_drop())
		return -1;
	plant_set(&s->go, s->wanted);
	return 0;
}

static uint64_t model_part(const struct planter *p)
{
	uint64_t n = p->model.length;

	return n > EVICTED ? chance(n - EVICTED) & ~(uint64_t)0xfff : 0;
}

static int hook_plant(struct planter *p, uint32_t step, uint64_t size_ns)
{
	struct plant_shared *s = p->shared;
	uint32_t wish = s->wanted + 1;
	int err = 0;

	s->step = step;
	s->node = (uint32_t)chance(NODES);
	s->size_ns = size_ns;
	s->from = p->model.start + model_part(p);
	s->length = EVICTED;
	__atomic_store_n(&s->wanted, wish, __ATOMIC_RELEASE);
	if (p->cause == PLANT_pipe)
		err = pipe_drain(p, size_ns);
	else if (p->cause == PLANT_socket)
		err = socket_answer(p, size_ns);
	else if (p->cause == PLANT_drop)
		err = drop(p);
	if (err || plant_wait(&s->done, wish))
		return -1;
	printf("{\"cause\":\"%s\",\"step\":%u,\"start_ns\":%lu,\"end_ns\":%lu,\"cpu_ns\":%lu,\"delay_ns\":%lu}\n",
		plant_cause_name(p->cause), step, s->start_ns, s->end_ns, s->cpu_ns, s->delay_ns);
	return 0;
}

static int outside_plant(struct planter *p, uint64_t size_ns)
{
	const struct target *t = &p->target;
	uint64_t start = 0, end = 0;
	int err;

	switch (p->cause) {
	case PLANT_hog:
		err = rival_run(p->rival, size_ns, &start, &end);
		break;
	case PLANT_softirq:
		err = softirq_plant(t, p->rival, size_ns, &start, &end);
		break;
	case PLANT_quota:
		err = quota_plant(t, size_ns, &start, &end);
		break;
	case PLANT_stop:
		err = stop_plant(t, size_ns, &start, &end);
		break;
	case PLANT_debugger:
		err = debugger_plant(t, size_ns, &start, &end);
		break;
	default:
		errno = EINVAL;
		return plant_fail("cause");
	}
	if (!err)
		printf("{\"cause\":\"%s\",\"start_ns\":%lu,\"end_ns\":%lu}\n", plant_cause_name(p->cause), start, end);
	return err;
}

static int plant_all(struct planter *p, int times)
{
	struct plant_shared *s = p->shared;
	int err = plant_wait(&s->begun, GAP);

	for (int i = 0; i < times && !err; i++) {
		uint32_t step = __atomic_load_n(&s->begun, __ATOMIC_SEQ_CST) + GAP + (uint32_t)chance(GAP);
		uint64_t size = (sizes[p->cause].least + chance(sizes[p->cause].more + 1ull)) * MS;

		if (by_hook[p->cause]) {
			err = hook_plant(p, step, size);
			continue;
		}
		err = plant_wait(&s->begun, step + 1);
		sleep_for(chance(3 * MS)); /* into the step */
		if (!err)
			err = outside_plant(p, size);
	}
	if (!err)
		err = plant_wait(&s->ended, s->begun + GAP);
	return err;
}

static int planter_init(struct planter *p, char **argv)
{
	int cause = plant_cause_find(argv[1]);

	if (cause < 0) {
		errno = EINVAL;
		return plant_fail(argv[1]);
	}
	p->cause = (enum plant_cause)cause;
	p->target.cpu = atoi(argv[4]);
	p->target.other_cpu = atoi(argv[5]);
	p->target.cgroup = argv[6];
	p->shared = plant_map(1);
	if (!p->shared)
		return -1;
	pin_to(p->target.other_cpu);
	p->shared->cause = (uint32_t)cause;
	if ((cause == PLANT_pipe || cause == PLANT_socket) && peer_make(p))
		return -1;
	if (cause == PLANT_hog || cause == PLANT_softirq) {
		p->rival = rival_start(p->cause, &p->target);
		if (!p->rival)
			return -1;
	}
	return 0;
}

static int engine_meet(struct planter *p)
{
	char line[64];
	int fd;

	say("ready");
	if (!fgets(line, sizeof(line), stdin) || atoi(line) <= 0) {
		errno = ESRCH;
		return plant_fail("the engine");
	}
	p->target.pid = atoi(line);
	if (p->cause == PLANT_socket) {
		fd = accept4(p->peer, NULL, NULL, SOCK_CLOEXEC);
		close(p->peer);
		p->peer = fd;
		if (fd < 0)
			return plant_fail("socket");
	}
	return plant_wait(&p->shared->begun, 1) || plant_model_find(p->target.pid, &p->model);
}

int main(int argc, char **argv)
{
	static struct planter p;
	int err;

	if (argc < 6 || argc > 7) {
		fputs("usage: planter CAUSE TIMES SEED ENGINE-CPU OTHER-CPU [CGROUP]\n", stderr);
		return 2;
	}
	srandom((unsigned int)atoi(argv[3]));
	err = planter_init(&p, argv) || engine_meet(&p) || plant_all(&p, atoi(argv[2]));
	rival_stop(p.rival);
	if (p.target.pid)
		kill(p.target.pid, SIGTERM);
	return err ? 1 : 0;
}
