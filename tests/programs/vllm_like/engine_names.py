# SPDX-License-Identifier: BSD-2-Clause
"""
An engine with the names of vLLM's, in a process of its own, for serve.py; it can hold up others as that says (gc, rank, kv). It prints of
each request for how long it was refused: for want of a slot, of tokens in the step, and of room in the KV cache.
"""
import collections
import gc
import os
import sys
import time
import uuid

from serving import Refusals, State, child, load, now, say
from vllm.v1.core.sched.scheduler import CachedRequestData, ModelRunnerOutput, NewRequestData, SchedulerOutput

STEP_TOKENS = 64  # at most
BLOCK = 16  # tokens
KV_BLOCKS = 11  # few, for the plant that takes most of them
GARBAGE = 2_000_000  # objects that a collection looks at


class Request:
    def __init__(self, request_id, prompt, tokens, planted):
        self.request_id, self.planted = request_id, planted
        self.prompt, self.tokens, self.computed, self.got, self.blocks = prompt, tokens, 0, 0, 0
        self.known = False


class FreeKVCacheBlockQueue:
    def __init__(self, blocks):
        self.num_free_blocks = blocks


class BlockPool:
    def __init__(self, blocks):
        self.num_gpu_blocks, self.free_block_queue = blocks, FreeKVCacheBlockQueue(blocks)


class KVCacheManager:
    def __init__(self, blocks):
        self.block_pool = BlockPool(blocks)


class Scheduler:
    def __init__(self, slots, blocks):
        self.max_num_running_reqs, self.max_num_scheduled_tokens, self.block_size = slots, STEP_TOKENS, BLOCK
        self.requests, self.waiting, self.running, self.finished = {}, collections.deque(), [], set()
        self.kv_cache_manager = KVCacheManager(blocks)
        self.queue = self.kv_cache_manager.block_pool.free_block_queue
        self.refusals = Refusals()
        for i in range(33):  # more attributes than an object keeps without a dict
            setattr(self, f"setting_{i}", i)

    def add_request(self, request):
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def allocate(self, r, tokens):
        more = -(-(r.computed + tokens) // BLOCK) - r.blocks
        if more > self.queue.num_free_blocks:
            return False
        self.queue.num_free_blocks -= more
        r.blocks += more
        return True

    def free(self, r):
        self.queue.num_free_blocks += r.blocks
        r.blocks = 0

    def preempt(self, r):
        self.running.remove(r)
        self.free(r)
        r.computed = 0
        self.waiting.appendleft(r)
        say("preempted", r.request_id)
        return r.request_id

    def schedule(self):
        self.refusals.begin()
        new, budget, tokens = [], STEP_TOKENS, {}
        known, preempted, resumed = [], set(), set()
        for r in list(self.running):
            n = min(r.prompt + r.got - r.computed, budget)
            while r in self.running and n and not self.allocate(r, n):
                preempted.add(self.preempt(self.running[-1]))
            if r in self.running and n:
                known.append(r)
                tokens[r.request_id] = n
                budget -= n
        why = "kv" if preempted else None
        while self.waiting and not preempted:
            r = self.waiting[0]
            n = min(r.prompt + r.got, budget)
            why = ("slot" if len(self.running) == self.max_num_running_reqs else "tokens" if not budget else
                   "kv" if not self.allocate(r, n) else None)
            if why:
                break
            self.running.append(self.waiting.popleft())
            tokens[r.request_id] = n
            budget -= n
            if r.known:  # it was preempted
                known.append(r)
                resumed.add(r.request_id)
                continue
            r.known = True
            new.append(r)
            self.refusals.admit(r.request_id)
        self.refusals.end(why, [r.request_id for r in self.waiting if not r.known])
        return SchedulerOutput(
            [NewRequestData(r.request_id, [], [], None, ([],), 0) for r in new],
            CachedRequestData([r.request_id for r in known], resumed, [], [r.computed for r in known]),
            tokens, sum(tokens.values()), {}, [0], self.finished, preempted_req_ids=preempted)

    def update_from_output(self, scheduler_output, model_runner_output):
        told, self.finished = [], set()
        for request_id, rows in scheduler_output.num_scheduled_tokens.items():
            r = self.requests[request_id]
            r.computed += rows
            got = model_runner_output.sampled_token_ids[model_runner_output.req_id_to_index[request_id]]
            r.got += len(got)
            over = r.got == r.tokens
            told += [(request_id, over)] * len(got)
            if over:
                del self.requests[request_id]
                self.running.remove(r)
                self.free(r)
                self.finished.add(request_id)
        return told


def compute(rows, collects):
    time.sleep(0.001 + 0.00002 * rows)
    if collects:
        begin, cpu = now(), time.thread_time_ns()
        gc.collect()
        say("held", begin, now(), time.thread_time_ns() - cpu)


class Worker:
    def execute_model(self, rows, collects):
        compute(rows, collects)


class EngineCore:
    def __init__(self, slots, blocks):
        self.scheduler = Scheduler(slots, blocks)
        self.collects = None  # whether the next step does; None: none does
        self.ranks = []

    def execute_model(self, batch):
        if self.ranks:
            for n, rank in enumerate(self.ranks):
                rank.send((batch.total_num_scheduled_tokens, bool(self.collects) and n == 1))
            for rank in self.ranks:
                rank.recv()
        else:
            compute(batch.total_num_scheduled_tokens, self.collects)
        ids = list(batch.num_scheduled_tokens)
        whole = [self.scheduler.requests[i] for i in ids]
        return ModelRunnerOutput(ids, {i: n for n, i in enumerate(ids)},
                                 [[7] if r.computed + batch.num_scheduled_tokens[r.request_id] >= r.prompt + r.got else [] for r in whole])

    def step(self):
        batch = self.scheduler.schedule()
        told = self.scheduler.update_from_output(batch, self.execute_model(batch))
        if self.collects is not None:
            left = [self.scheduler.requests[i] for i in batch.num_scheduled_tokens if i in self.scheduler.requests]
            self.collects = any(r.planted and r.got == 1 for r in left)
        return told


class RequestState(State):
    def __init__(self, request_id):
        super().__init__()
        self.request_id = request_id


def at(function, name, path):
    """Makes the function one of vLLM's."""
    function.__code__ = function.__code__.replace(co_name=name.rsplit(".", 1)[1], co_filename="/x/vllm/v1/" + path,
                                                  **({"co_qualname": name} if sys.version_info >= (3, 11) else {}))


at(Scheduler.add_request, "Scheduler.add_request", "core/sched/scheduler.py")
at(Scheduler.update_from_output, "Scheduler.update_from_output", "core/sched/scheduler.py")
at(EngineCore.step, "EngineCore.step", "engine/core.py")
at(Worker.execute_model, "Worker.execute_model", "worker/gpu_worker.py")
at(RequestState.__init__, "RequestState.__init__", "engine/output_processor.py")


def make_garbage():
    gc.disable()
    return [[] for _ in range(GARBAGE)]


def rank(pipe, number):
    load("_C")
    garbage = make_garbage() if number else None  # noqa: F841
    worker = Worker()
    pipe.send(os.getpid())
    while asked := pipe.recv():
        worker.execute_model(*asked)
        pipe.send("done")


def engine(pipe, slots, plant):
    load("_C")
    core = EngineCore(slots, KV_BLOCKS if plant == "kv" else 4096)
    if plant == "gc":
        core.garbage = make_garbage()
    if plant in ("gc", "rank"):
        core.collects = False
    if plant == "rank":
        core.ranks = [child(rank, n)[1] for n in range(2)]
        say("rank", [r.recv() for r in core.ranks][1])
    pipe.send("ready")
    while True:
        while pipe.poll(None if not core.scheduler.requests else 0):
            asked = pipe.recv()
            if not asked:
                for r in core.ranks:
                    r.send(None)
                return
            core.scheduler.add_request(Request(*asked))
        told = core.step()
        if told:
            pipe.send(told)


def inner_id(request_id):
    return f"{request_id}-0-{uuid.uuid4().hex[:8]}"


def pass_on(pipe, inner, asked, planted):
    """To the engine; returns what is kept of it."""
    state = RequestState(inner)
    pipe.send((inner, asked["prompt"], asked["tokens"], planted))
    return state
