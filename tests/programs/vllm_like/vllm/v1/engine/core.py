# SPDX-License-Identifier: BSD-2-Clause
"""An engine with the names of vLLM's."""
import collections
import time

from vllm.v1.core.sched.scheduler import ModelRunnerOutput, Scheduler


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class EngineCore:
    def __init__(self, log, outputs, release):
        self.scheduler = Scheduler(log, outputs, release)
        self.queue = collections.deque()

    def execute_model(self, step):
        """The order of the outputs is the model runner's own."""
        ids = list(reversed(step["tokens"]))
        samples = set(step["samples"])
        sum(range(200 * len(ids)))
        self.scheduler.abort(step)
        return ModelRunnerOutput(ids, {i: n for n, i in enumerate(ids)}, [[7] if i in samples else [] for i in ids])

    def step(self):
        begin = now()
        step, batch = self.scheduler.schedule()
        self.scheduler.update_from_output(batch, self.execute_model(step))
        return begin, step["n"], now()

    def step_with_batch_queue(self):
        """Schedules a batch before the results of the one before it are there."""
        begin = now()
        number = None
        try:
            self.queue.append(self.scheduler.schedule())
        except StopIteration:
            pass
        if len(self.queue) == 2 or not self.scheduler.log.__length_hint__():
            step, batch = self.queue.popleft()
            self.scheduler.update_from_output(batch, self.execute_model(step))
            number = step["n"]
        return begin, number, now()
