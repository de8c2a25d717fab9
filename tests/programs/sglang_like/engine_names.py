# SPDX-License-Identifier: BSD-2-Clause
"""An engine with the names of SGLang's, in a process of its own, for serve.py, with its plant kv. Its ids are those of the answers."""
import os
import time

from serving import Refusals, load
from sglang.srt.managers.schedule_batch import ForwardMode, ScheduleBatch
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.tokenizer_manager import (GenerateReqInput, ReqState, TokenizedGenerateReqInput, TokenizerManager,
                                                   TokenizerManagerOf2026)


PREFILL_TOKENS = 64  # of a batch with several prompts
KV_TOKENS = 176  # few, for the plant that takes most of them


class Slots(Scheduler):
    """It decides by itself, without chunks."""

    def __init__(self, slots, kv_tokens):
        super().__init__([], {})
        self.max_running_requests, self.kv_tokens = slots, kv_tokens
        self.waiting_queue, self.running_batch, self.last = [], ScheduleBatch([], ForwardMode.DECODE), []
        self.running_batch.batch_is_full = False
        self.prompts = {}
        self.refusals, self.why = Refusals(), None

    def take(self, asked):
        self.outputs[asked.rid], self.prompts[asked.rid] = asked.tokens, asked.prompt
        self.handle_generate_request(asked)
        self.waiting_queue.append(self.reqs[asked.rid])

    def refuse(self, req, new):
        """Why there is no room for it."""
        there = self.running_batch.reqs + new
        if len(there) >= self.max_running_requests:
            return "slot"
        if sum(self.prompts[r.rid] + self.outputs[r.rid] for r in [*there, req]) > self.kv_tokens:
            return "kv"
        return "tokens" if new and sum(self.prompts[r.rid] for r in [*new, req]) > PREFILL_TOKENS else None

    def admit(self):
        new = []
        if self.running_batch.batch_is_full or not self.waiting_queue:
            return new
        self.why = None
        while self.waiting_queue and not self.why:
            self.why = self.refuse(self.waiting_queue[0], new)
            if not self.why:
                new.append(self.waiting_queue.pop(0))
        self.running_batch.batch_is_full = self.why in ("slot", "kv")
        return new

    def get_next_batch_to_run(self):
        running = self.running_batch
        running.reqs += [r for r in self.last if not r.finished()]
        self.last = self.admit()
        if not self.last and any(r.finished() for r in running.reqs):
            running.reqs = [r for r in running.reqs if not r.finished()]
            running.batch_is_full = False
        if not self.last:
            return ScheduleBatch(list(running.reqs), ForwardMode.DECODE) if running.reqs else None
        batch = ScheduleBatch(list(self.last), ForwardMode.EXTEND)
        batch.extend_lens, batch.prefix_lens = [self.prompts[r.rid] for r in self.last], [0] * len(self.last)
        batch.extend_num_tokens = sum(batch.extend_lens)
        return batch

    def step(self):
        batch = self.get_next_batch_to_run()
        if not batch:
            return []
        self.refusals.begin()  # nothing is between these two: the process may be held up there
        result = self.run_batch(batch)
        for r in self.last:
            self.refusals.admit(r.rid)
        self.refusals.end(self.why, [r.rid for r in self.waiting_queue])
        time.sleep(0.001 + 0.00002 * sum(batch.extend_lens or [1] * len(batch.reqs)))
        given = self.process_batch_result(batch, result)
        return [(rid, self.reqs[rid].finished()) for rid in given]


def engine(pipe, slots, plant):
    load("common_ops")
    scheduler = Slots(slots, KV_TOKENS if plant == "kv" else 100000)
    pipe.send("ready")
    while True:
        while pipe.poll(0 if scheduler.running_batch.reqs or scheduler.last or scheduler.waiting_queue else None):
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
