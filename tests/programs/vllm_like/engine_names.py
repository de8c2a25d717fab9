# SPDX-License-Identifier: BSD-2-Clause
"""An engine with the names of vLLM's, in a process of its own, for serve.py; it can hold up others as that says (gc, rank)."""
import collections
import gc
import os
import sys
import time
import uuid

from serving import State, child, load, now, say
from vllm.v1.core.sched.scheduler import CachedRequestData, ModelRunnerOutput, NewRequestData, SchedulerOutput

PROMPT_ROWS = 64  # at most in a step
GARBAGE = 2_000_000  # objects that a collection looks at


class Request:
    def __init__(self, request_id, prompt, tokens, planted):
        self.request_id, self.planted = request_id, planted
        self.prompt, self.tokens, self.computed, self.got = prompt, tokens, 0, 0


class Scheduler:
    def __init__(self, slots):
        self.slots = slots
        self.requests, self.waiting, self.running, self.finished = {}, collections.deque(), [], set()

    def add_request(self, request):
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def schedule(self):
        new, budget, tokens = [], PROMPT_ROWS, {}
        known = list(self.running)
        for r in known:
            tokens[r.request_id] = 1 if r.got else min(r.prompt - r.computed, budget)
            budget -= 0 if r.got else tokens[r.request_id]
        while self.waiting and len(self.running) < self.slots and budget:
            new.append(self.waiting.popleft())
            self.running.append(new[-1])
            tokens[new[-1].request_id] = min(new[-1].prompt, budget)
            budget -= tokens[new[-1].request_id]
        return SchedulerOutput(
            [NewRequestData(r.request_id, [], [], None, ([],), 0) for r in new],
            CachedRequestData([r.request_id for r in known], set(), [], [r.computed for r in known]),
            tokens, sum(tokens.values()), {}, [0], self.finished)

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
    def __init__(self, slots):
        self.scheduler = Scheduler(slots)
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
                                 [[7] if r.computed + batch.num_scheduled_tokens[r.request_id] >= r.prompt else [] for r in whole])

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
    core = EngineCore(slots)
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
