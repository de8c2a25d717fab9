#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
A server whose engine has the names of vLLM's, in a process of its own: serve.py SLOTS [PLANT EVERY]. It prints its port and "ready", answers
requests of tests/programs/serve_client.py with the headers, ids and events of the OpenAI API, as uvicorn writes them, and ends by
SIGTERM. Each EVERYth request is the begin of something that holds up others, and it prints from when to when, and when it passed each
request on; of garbage also for how long it was on a CPU:

  hold     a large JSON is parsed in the event loop
  gil      the same in another thread of the API process, which keeps the interpreter's lock
  gc       the engine collects garbage in the step after its first token
  rank     the same in one of two ranks, which are processes of their own
  starve   another process takes the CPU of the tokenizer, which is a process of its own here
"""
import asyncio
import collections
import gc
import itertools
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import urllib.parse
import uuid

from vllm.v1.engine.core import now
from vllm.v1.core.sched.scheduler import CachedRequestData, ModelRunnerOutput, NewRequestData, SchedulerOutput

PROMPT_ROWS = 64  # at most in a step
GARBAGE = 2_000_000  # objects that a collection looks at
HOGGED_NS = 200_000_000


def say(*words):
    """A line, at once: threads and processes do so."""
    print(" ".join(map(str, words)) + "\n", end="", flush=True)


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


class RequestState:
    """What the API process keeps of a request that it passes on."""

    def __init__(self, request_id):
        self.request_id, self.queue = request_id, asyncio.Queue()


def at(function, name, path):
    """Makes the function one of vLLM's."""
    function.__code__ = function.__code__.replace(co_name=name.rsplit(".", 1)[1], co_filename="/x/vllm/v1/" + path,
                                                  **({"co_qualname": name} if sys.version_info >= (3, 11) else {}))


at(Scheduler.add_request, "Scheduler.add_request", "core/sched/scheduler.py")
at(Scheduler.update_from_output, "Scheduler.update_from_output", "core/sched/scheduler.py")
at(EngineCore.step, "EngineCore.step", "engine/core.py")
at(Worker.execute_model, "Worker.execute_model", "worker/gpu_worker.py")
at(RequestState.__init__, "RequestState.__init__", "engine/output_processor.py")


def child(function, *args):
    """Returns the process and its pipe."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=function, args=(theirs, *args))
    process.start()
    return process, ours


def map_kernels():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import _C  # noqa: F401
    except ImportError:
        pass  # it is no Python module


def make_garbage():
    gc.disable()
    return [[] for _ in range(GARBAGE)]


def rank(pipe, number):
    map_kernels()
    garbage = make_garbage() if number else None  # noqa: F841
    worker = Worker()
    pipe.send(os.getpid())
    while asked := pipe.recv():
        worker.execute_model(*asked)
        pipe.send("done")


def engine(pipe, slots, plant):
    map_kernels()
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


def last_cpu():
    return {max(os.sched_getaffinity(0))}


def tokenizer(pipe):
    """Answers each text with its words."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, last_cpu())
    while text := pipe.recv():
        pipe.send(len(text.split()))


def hog(pipe):
    """Takes the tokenizer's CPU each time that it is told for how long."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, last_cpu())
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    with open("/proc/self/comm", "w") as f:
        f.write("hog")
    while ns := pipe.recv():
        begin = now()
        while now() < begin + ns:
            pass
        say("held", begin, now())


def parse_large(text):
    begin = now()
    json.loads(text)
    say("held", begin, now())


class Api:
    def __init__(self, pipe, plant, every):
        self.pipe = pipe
        self.plant, self.every = plant, every
        self.large = json.dumps([{f"key {i}": list(range(20))} for i in range(60000)]) if plant in ("hold", "gil") else ""
        self.states = {}
        self.asked = collections.deque()
        self.tokenizer, self.hog = (child(f)[1] for f in (tokenizer, hog)) if plant == "starve" else (None, None)

    def take(self):
        for request_id, over in self.pipe.recv():
            self.states[request_id].queue.put_nowait(over)

    def take_words(self):
        self.asked.popleft().set_result(self.tokenizer.recv())

    async def tokenize(self, text):
        if not self.tokenizer:
            sum(range(20000))
            return
        self.asked.append(asyncio.get_running_loop().create_future())
        self.tokenizer.send(text)
        await self.asked[-1]

    def begin_plant(self):
        if self.plant == "hold":
            parse_large(self.large)
        elif self.plant == "gil":
            threading.Thread(target=parse_large, args=(self.large,)).start()
        elif self.plant == "starve":
            self.hog.send(HOGGED_NS)

    async def answer(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        url = urllib.parse.urlsplit(head.split(" ", 2)[1])
        asked = {k: int(v) for k, v in urllib.parse.parse_qsl(url.query)}
        planted = self.every and int(url.path[1:]) % self.every == self.every - 1
        if planted:
            self.begin_plant()
        await self.tokenize(head)
        request_id = "cmpl-" + (url.path[1:] or uuid.uuid4().hex)
        inner = f"{request_id}-0-{uuid.uuid4().hex[:8]}"
        state = self.states[inner] = RequestState(inner)
        self.pipe.send((inner, asked["prompt"], asked["tokens"], planted))
        if self.every:
            say("passed", url.path[1:], now())
        writer.write(b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n")
        for n in itertools.count():
            over = await state.queue.get()
            event = "data: " + json.dumps({"id": request_id, "object": "text_completion", "choices": [{"index": 0, "text": f"{n}"}]},
                                          separators=(",", ":")) + " x\n"
            writer.write(f"{len(event):x}\r\n{event}\r\n".encode())
            if over:
                break
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()
        del self.states[inner]


async def serve(api):
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(api.pipe.fileno(), api.take)
    if api.tokenizer:
        loop.add_reader(api.tokenizer.fileno(), api.take_words)
    loop.add_signal_handler(signal.SIGTERM, over.set)
    server = await asyncio.start_server(api.answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], "ready", sep="\n", flush=True)
    await over.wait()
    server.close()


def main():
    plant, every = (sys.argv[2], int(sys.argv[3])) if len(sys.argv) > 3 else (None, 0)
    process, pipe = child(engine, int(sys.argv[1]), plant)
    pipe.recv()
    api = Api(pipe, plant, every)
    asyncio.run(serve(api))
    for other in (pipe, api.tokenizer, api.hog):
        if other:
            other.send(None)
    process.join()


if __name__ == "__main__":
    main()
