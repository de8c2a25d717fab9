#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Calls of vLLM's names with batches that no scheduler makes, while another thread changes them: junk.py. Prints for each step what
its rows must be: a dict, or None if it must have none; and "done".
"""
import json
import sys
import threading

from vllm.v1.core.sched.scheduler import (CachedRequestData, CachedRequestDataOf0_9_1, CachedRequestDataOf0_9_2, ModelRunnerOutput, NewRequestData,
                                       SchedulerOutput)


def many(n, rows=1):
    return {f"many-{i}": rows for i in range(n)}


class Scheduler:
    def __init__(self):
        self.requests = {"one": 1, "two": 2, **many(256)}

    def update_from_output(self, scheduler_output, model_runner_output):
        return scheduler_output, model_runner_output


class Slots:
    __slots__ = ("num_scheduled_tokens", "total_num_scheduled_tokens")


class RequestState:
    def __init__(self, request_id=None):
        self.request_id = request_id


class EngineCore:
    def step(self, batch, results, scheduler):
        scheduler.update_from_output(batch, results)


def at(function, name, path):
    """The function as one of vLLM's."""
    return function.__code__.replace(co_name=name.rsplit(".", 1)[1], co_qualname=name, co_filename="/x/" + path)


Scheduler.update_from_output.__code__ = at(Scheduler.update_from_output, "Scheduler.update_from_output", "vllm/v1/core/sched/scheduler.py")
RequestState.__init__.__code__ = at(RequestState.__init__, "RequestState.__init__", "vllm/v1/engine/output_processor.py")
EngineCore.step.__code__ = at(EngineCore.step, "EngineCore.step", "vllm/v1/engine/core.py")


def batch(tokens, total, new=(), finished=(), **more):
    b = SchedulerOutput(list(new), None, tokens, total, {}, [], set(finished))
    vars(b).update(more)
    return b


def slots():
    s = Slots()
    s.num_scheduled_tokens, s.total_num_scheduled_tokens = {"slot": 1}, 1
    return s


def results(ids, lists):
    return ModelRunnerOutput(ids, {i: n for n, i in enumerate(ids)}, lists)


circle = []
circle.append(circle)
own = {}
# what is told of requests that go on after a preemption
KNOWN = [circle, own, 7, "text", CachedRequestData(circle, circle, circle, circle), CachedRequestData(["one", "two"], {"one"}, [], []),
         CachedRequestData([None, 7, "one"] * 1000, {"one", 7, None, 1 << 80}, [], [1 << 80, -1, None] * 1000), CachedRequestData(None, None, None, None),
         CachedRequestData("one", {f"x{i}" for i in range(5000)}, [], "two"), CachedRequestDataOf0_9_2(["one", "two"], [True], [], [], [1]),
         CachedRequestDataOf0_9_2(["one", "two"], [7, circle], [], [], [None, circle]),
         [CachedRequestDataOf0_9_1(i, f, [], [], n) for i, f, n in ((None, True, 1), ("one", circle, circle), ("two", True, None))] * 500]
own["own"] = own
long = "a" * 1_000_000
removed = {f"r{i}": 1 for i in range(40)}
for i in range(0, 40, 2):
    del removed[f"r{i}"]
whole = {"one": 3, "two": 1}
IDS = [None, 7, 1 << 80, 1.5, b"bytes", circle, own, long, "", "\u00e9\u4e2d", type("Id", (str,), {})("of a class"), object(), "plain"]
CASES = [
    (batch(whole, 4), results(["two", "one"], [[1], []]), whole),
    (batch(whole, 5), results(["one"], [[1]]), None),  # they do not add up
    (None, None, None),
    (7, "text", None),
    (batch(None, 1), None, None),
    (batch([1, 2], 2), circle, None),
    (batch({1: 1, 2: 1}, 2), None, None),  # no ids
    (batch({("t",): 1}, 1), None, None),
    (batch({"a": -1, "b": 2}, 1), None, None),
    (batch({"a": 1 << 70}, 1 << 70), None, None),
    (batch({"a": 1.5}, 1.5), None, None),
    (batch({"a": None}, 9), None, None),
    (batch(own, 1), None, None),
    (batch(whole, 4, new=[circle, None, 7, NewRequestData("one", [], [], None, (), 1 << 80)]), circle, whole),
    (batch(whole, 4, finished={"x", "one", 7, None, circle and "y"}), ModelRunnerOutput(circle, circle, circle), whole),
    (batch(removed, 20), None, removed),
    (batch({long: 1}, 1), None, {long[:63]: 1}),
    (batch({"\u00e9\u4e2d": 1}, 1), None, None),  # not ASCII
    (batch({"": 1}, 1), None, None),
    (batch(many(256), 256), results(list(many(256)), [[1]] * 256), many(256)),
    (batch(many(300, 2), 600), None, many(300, 2)),
    (batch(many(5000), 5000), None, None),
    (batch({**whole}, 4, **{f"more_{i}": i for i in range(60)}), None, whole),
    (slots(), slots(), None),
    (batch(whole, 4), results(["one", "two"], [(1, 2, 3), (1,)]), whole),  # no lists: what they gave is not known
    (batch(whole, 4), results(["one", "two"], [[1], [2]] * 100_000), whole),
    *((batch(whole, 4, scheduled_cached_reqs=known), results(["two", "one"], [[1], []]), whole) for known in KNOWN),
]


def disturb(shared, stop):
    while not stop.is_set():
        shared.clear()
        for i in range(100):
            shared[f"shared-{i}"] = i
        for i in range(0, 100, 3):
            shared.pop(f"shared-{i}", None)


def main():
    try:
        import _C  # noqa: F401
    except ImportError:
        pass
    print("ready", flush=True)
    sys.stdin.readline()
    core, scheduler = EngineCore(), Scheduler()
    for b, r, _ in CASES:
        core.step(b, r, scheduler)
    for request_id in IDS:
        RequestState(request_id)
    RequestState()
    shared, stop = {}, threading.Event()
    thread = threading.Thread(target=disturb, args=(shared, stop))
    thread.start()
    b = batch(shared, 67)
    sys.setswitchinterval(1e-5)
    for i in range(2000):
        b.total_num_scheduled_tokens = i
        core.step(b, results([f"shared-{i}"], [[1]]), scheduler)
    stop.set()
    thread.join()
    for _, _, rows in CASES:
        print(json.dumps(rows))
    print("done")


main()
