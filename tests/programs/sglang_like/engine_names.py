# SPDX-License-Identifier: BSD-2-Clause
"""An engine with the names of SGLang's, in a process of its own, for serve.py. Its ids are those of the answers."""
import collections
import os
import time

from serving import load
from sglang.srt.managers.schedule_batch import ForwardMode, ScheduleBatch
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.tokenizer_manager import (GenerateReqInput, ReqState, TokenizedGenerateReqInput, TokenizerManager,
                                                   TokenizerManagerOf2026)


class Slots(Scheduler):
    """It decides by itself, without chunks."""

    def __init__(self, slots):
        super().__init__([], {}, "is_chunked", 0)
        self.slots, self.waiting, self.running = slots, collections.deque(), []

    def take(self, asked):
        self.outputs[asked.rid] = asked.tokens
        self.handle_generate_request(asked)
        self.waiting.append((self.reqs[asked.rid], asked.prompt))

    def get_next_batch_to_run(self):
        new = []
        while self.waiting and len(self.running) < self.slots:
            new.append(self.waiting.popleft())
            self.running.append(new[-1][0])
        if not new:
            return ScheduleBatch(list(self.running), ForwardMode.DECODE)
        batch = ScheduleBatch([r for r, _ in new], ForwardMode.EXTEND)
        batch.extend_lens, batch.prefix_lens = [n for _, n in new], [0] * len(new)
        batch.extend_num_tokens = sum(batch.extend_lens)
        return batch

    def step(self):
        batch = self.get_next_batch_to_run()
        result = self.run_batch(batch)
        time.sleep(0.001 + 0.00002 * sum(batch.extend_lens or [1] * len(batch.reqs)))
        given = self.process_batch_result(batch, result)
        self.running = [r for r in self.running if not r.finished()]
        return [(rid, self.reqs[rid].finished()) for rid in given]


def engine(pipe, slots, plant):
    load("common_ops")
    scheduler = Slots(slots)
    pipe.send("ready")
    while True:
        while pipe.poll(0 if scheduler.running or scheduler.waiting else None):
            asked = pipe.recv()
            if not asked:
                return
            scheduler.take(asked)
        told = scheduler.step()
        if told:
            pipe.send(told)


def inner_id(request_id):
    return request_id


def pass_on(pipe, inner, asked, planted):
    """To the engine; returns what is kept of it."""
    obj = GenerateReqInput(inner, asked["prompt"], asked["tokens"])
    if "NEWER" not in os.environ:
        return TokenizerManager(pipe)._send_one_request(obj, TokenizedGenerateReqInput(obj))
    TokenizerManagerOf2026(pipe)._send_one_request(TokenizedGenerateReqInput(obj))
    return ReqState(obj)
