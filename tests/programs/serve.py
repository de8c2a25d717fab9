#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
A server whose engine, in a process of its own, has the names of a real one's, those of the engine_names.py beside it:
serve.py SLOTS [PLANT EVERY]. It prints its port and "ready", answers
requests of tests/programs/serve_client.py with the headers, ids and events of the OpenAI API, as uvicorn writes them, and ends by
SIGTERM. Each EVERYth request is the begin of something that holds up others, and it prints from when to when, and when it passed each
request on; of garbage also for how long it was on a CPU:

  hold     a large JSON is parsed in the event loop
  gil      the same in another thread of the API process, which keeps the interpreter's lock
  gc       the engine collects garbage in the step after its first token
  rank     the same in one of two ranks, which are processes of their own
  kv       it takes nearly all of the engine's KV cache, for 60 tokens
  starve   another process takes the CPU of the tokenizer, which is a process of its own here
"""
import asyncio
import collections
import itertools
import json
import os
import signal
import sys
import threading
import urllib.parse
import uuid

from engine_names import engine, inner_id, pass_on
from serving import child, now, say

LARGE = {"prompt": 100, "tokens": 60}
HOGGED_NS = 200_000_000


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
    say("held", begin, now(), threading.get_native_id())


class Api:
    def __init__(self, pipe, plant, every):
        self.pipe = pipe
        self.plant, self.every = plant, every
        self.large = json.dumps([{f"key {i}": list(range(20))} for i in range(60000)]) if plant in ("hold", "gil") else ""
        self.states = {}
        self.asked = collections.deque()
        self.tokenizer, self.hog = (child(f)[1] for f in (tokenizer, hog)) if plant == "starve" else (None, None)

    def take(self, told):
        for request_id, over in told:
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

    async def begin(self, name, asked, text):
        """Passes a request on. Returns the id that its client sees, and what is kept of it."""
        planted = self.every and int(name) % self.every == self.every - 1
        if planted:
            self.begin_plant()
            asked = LARGE if self.plant == "kv" else asked
        await self.tokenize(text)
        request_id = "cmpl-" + (name or uuid.uuid4().hex)
        inner = inner_id(request_id)
        state = self.states[inner] = pass_on(self.pipe, inner, asked, planted)
        if self.every:
            say("passed", name, now())
        return request_id, inner, state

    async def events(self, request_id, inner, state):
        for n in itertools.count():
            over = await state.queue.get()
            yield "data: " + json.dumps({"id": request_id, "object": "text_completion", "choices": [{"index": 0, "text": f"{n}"}]},
                                        separators=(",", ":")) + " x\n"
            if over:
                break
        del self.states[inner]

    async def answer(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        url = urllib.parse.urlsplit(head.split(" ", 2)[1])
        asked = {k: int(v) for k, v in urllib.parse.parse_qsl(url.query)}
        request = await self.begin(url.path[1:], asked, head)
        writer.write(b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n")
        async for event in self.events(*request):
            writer.write(f"{len(event):x}\r\n{event}\r\n".encode())
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()


def say_ready(port):
    print(port, "ready", sep="\n", flush=True)


async def serve(api):
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(api.pipe.fileno(), lambda: api.take(api.pipe.recv()))
    if api.tokenizer:
        loop.add_reader(api.tokenizer.fileno(), api.take_words)
    loop.add_signal_handler(signal.SIGTERM, over.set)
    server = await asyncio.start_server(api.answer, "127.0.0.1", 0)
    say_ready(server.sockets[0].getsockname()[1])
    await over.wait()
    server.close()
    api.pipe.send(None)


def main(start, run):
    """start: makes the engine's process; run: answers with what it says until the end."""
    slots, plant, every, *_ = (*sys.argv[1:], None, 0)
    process, pipe = start(engine, int(slots), plant)
    pipe.recv()
    api = Api(pipe, plant, int(every))
    asyncio.run(run(api))
    for other in (api.tokenizer, api.hog):
        if other:
            other.send(None)
    process.join()


if __name__ == "__main__":
    main(child, serve)
