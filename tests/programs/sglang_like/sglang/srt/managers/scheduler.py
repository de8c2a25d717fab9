# SPDX-License-Identifier: BSD-2-Clause
"""A scheduler with the names of SGLang's, which decides what a log of the real one says."""
import collections
import time

from sglang.srt.managers.schedule_batch import FINISH_LENGTH, ForwardMode, Req, ScheduleBatch


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Scheduler:
    def __init__(self, log, outputs, pause=0, newer=False, several=False):
        self.log = collections.deque(log)
        self.outputs = outputs  # how many results each request takes
        self.newer = newer
        self.several = several  # tokens of a decode; in newer releases it has them with the results, else before
        self.pause = pause
        self.reqs = {}
        self.taken = collections.Counter()  # tokens of each request, with those of which the results are not there
        self.over = []  # requests that the last batch ends
        self.told = []  # of each step: its begin, rows, which were computed before, who got tokens, and its end
        self.begin = None
        for i in range(64):
            setattr(self, f"setting_{i}", i)

    def handle_generate_request(self, recv_req):
        self._add_request_to_queue(Req(recv_req.rid, self.newer))

    def _add_request_to_queue(self, req):
        self.reqs[req.rid] = req

    def get_next_batch_to_run(self, unknown=False):
        """unknown: the results of the last batch are, so that it does not know which requests are over."""
        if not self.log:
            return None
        step = self.log.popleft()
        reqs = [self.reqs[i] for i in step["tokens"]]
        mode = ForwardMode[step["mode"]]
        if mode == ForwardMode.DECODE and unknown:
            reqs += [r for r in self.over if r not in reqs]
        self.taken.update(step["samples"])
        self.over = [self.reqs[i] for i in step["samples"] if self.taken[i] == self.outputs[i]]
        batch = ScheduleBatch(reqs, mode)
        if mode != ForwardMode.DECODE:
            batch.extend_lens = list(step["tokens"].values())
            batch.prefix_lens = [step["computed"][r.rid] for r in reqs]
            batch.extend_num_tokens = step["total"]
            for r in reqs:
                if r.rid not in step["samples"]:
                    r.is_chunked += 1
        else:
            batch.extend_num_tokens = 12345  # of an earlier batch
        self.waiting_queue = [None] * (len(self.log) % 7)
        batch.rows = {"tokens": {r.rid: step["tokens"].get(r.rid, 1) for r in reqs}, "again": step.get("again", {}),
                      "waiting": len(self.waiting_queue)}
        return batch

    def run_batch(self, batch):
        sum(range(200 * len(batch.reqs)))
        decodes = self.several and batch.forward_mode == ForwardMode.DECODE
        tokens = [[7] * (1 + len(r.output_ids) % 3 if decodes else 1) for r in batch.reqs]
        if decodes and not self.newer:
            for req, more in zip(batch.reqs, tokens):
                req.output_ids.extend(more)
        return tokens

    def process_batch_result(self, batch, result):
        given = {}
        for req, tokens in zip(batch.reqs, result):
            if req.finished():
                continue
            if req.is_chunked:
                req.is_chunked -= 1
                continue
            if self.newer or not (self.several and batch.forward_mode == ForwardMode.DECODE):
                req.output_ids.extend(tokens)
            given[req.rid] = len(tokens)
            req.results += 1
            if req.results == self.outputs[req.rid]:
                req.finished_reason = FINISH_LENGTH(len(req.output_ids))
        return given

    def launch(self, batch):
        self.begin = self.begin or now()
        return self.run_batch(batch)

    def finish(self, batch, rows, result):
        begin = self.begin or now()
        given = self.process_batch_result(batch, result)
        self.told.append({"begin": begin, "end": now(), **rows, "given": given})
        self.begin = None

    def event_loop_normal(self, receive):
        while self.log:
            receive(self.log[0]["begin"])
            batch = self.get_next_batch_to_run()
            self.finish(batch, batch.rows, self.launch(batch))
            time.sleep(self.pause)

    def event_loop_overlap(self, receive):
        """Runs a batch before the results of the one before it are there."""
        queue = collections.deque()
        while self.log or queue:
            last = bool(queue)
            if self.log:
                receive(self.log[0]["begin"])
            batch = self.get_next_batch_to_run(last)
            if batch:
                queue.append((batch.copy(), batch.rows, self.launch(batch)))
            if last:
                self.finish(*queue.popleft())
            time.sleep(self.pause)
