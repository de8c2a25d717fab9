#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Calls of SGLang's names with batches that no scheduler makes, while another thread changes the last ones: junk.py. Prints for each step
what its rows must be: a dict, or None if it must have none; and "done".
"""
import json
import sys
import threading
from array import array

from sglang.srt.managers.schedule_batch import FINISH_LENGTH, ForwardMode, Req, ScheduleBatch


class Scheduler:
    def run_batch(self, batch):
        return batch

    def process_batch_result(self, batch, result):
        for r in getattr(batch, "reqs", ()):
            if isinstance(r, Req) and r.gets:
                r.gets(r)


def at(function, name):
    """The function as one of SGLang's."""
    return function.__code__.replace(co_name=name.rsplit(".", 1)[1], co_qualname=name, co_filename="/x/sglang/srt/managers/scheduler.py")


for name in ("run_batch", "process_batch_result"):
    function = getattr(Scheduler, name)
    function.__code__ = at(function, f"Scheduler.{name}")


def one_more(r):
    r.output_ids.append(7)


def req(rid, gets=one_more, **more):
    """gets: how it gets what it does in each step."""
    r = Req(rid, False)
    vars(r).update(gets=gets, **more)
    return r


def decode(reqs):
    return ScheduleBatch(reqs, ForwardMode.DECODE)


def extend(reqs, lens, total=None, **more):
    b = ScheduleBatch(reqs, ForwardMode.EXTEND)
    b.extend_lens, b.prefix_lens = lens, [0] * len(reqs) if isinstance(reqs, list) else None
    b.extend_num_tokens = total
    vars(b).update(more)
    return b


def many(n):
    return [req(f"many-{i}") for i in range(n)]


class Slots:
    __slots__ = ("reqs", "forward_mode")


circle = []
circle.append(circle)
long = "a" * 1_000_000
abc = [req("a"), req("b", None), req("c", None, finished_reason=FINISH_LENGTH(1))]


def becomes(value):
    def gets(r):
        r.output_ids = value
    return gets


# what is told of tokens: rows are known, and how many there were is not, if it is not. An int has a length where a list has it: it does no harm
TOLD = [(becomes(value), told) for value, told in ((None, None), (7, 0), (1.5, None), ({}, None), (circle, 0), ([], None))] + [
    (lambda r: vars(r).pop("output_ids"), None), (lambda r: r.output_ids.pop(), None), (becomes([7] * 5000), 4999), (becomes(array("q", [7] * 3)), 2)]
CASES = [  # batches to run, the one with results, rows of the step
    ([extend(abc, [5, 1, 2], 8)], 0, {"a": 5, "b": 1, "c": 2}),
    ([extend(abc, [5, 1, 2], 9)], 0, None),  # they do not add up
    ([extend(abc, [5, 1], 6)], 0, None),
    ([extend(abc, [5, None, 2], 8)], 0, None),
    ([extend(abc, [5, -1, 2], 6)], 0, None),
    ([extend(abc, [1 << 70, 1, 1], (1 << 70) + 2)], 0, None),
    ([extend(abc, "eight", 8)], 0, None),
    ([extend(abc, None, 8)], 0, None),
    ([extend((1, 2), [1, 2], 3)], 0, "no step ends"),
    ([decode([req(7)])], 0, None),
    ([decode([req(None)])], 0, None),
    ([decode([req("\xe9")])], 0, None),
    ([decode([req(long)])], 0, {long[:63]: 1}),
    ([decode([1, "two", None])], 0, None),
    ([decode(circle)], 0, None),
    ([decode([Slots()])], 0, None),
    ([decode([object(), abc[0]])], 0, None),
    ([extend(abc, [5, 1, 2], 8, forward_mode=None)], 0, {"a": 5, "b": 1, "c": 2}),
    ([extend(abc, [5, 1, 2], 8, forward_mode=1 << 90)], 0, {"a": 5, "b": 1, "c": 2}),
    ([decode(many(256))], 0, {f"many-{i}": 1 for i in range(256)}),
    ([decode(many(600))], 0, None),
    ([decode([])], 0, None),
    ([decode([abc[0]]), extend([abc[2]], [4], 4)], 1, {"c": 4}),  # the first one has no results
    ([], decode([abc[1]]), None),  # it was begun before
    ([decode([req("last")])], 0, {"last": 1}),
    *(([decode([req(f"told-{i}", gets, output_ids=[7])])], 0, {f"told-{i}": 1}) for i, (gets, _) in enumerate(TOLD)),
]


def main():
    scheduler = Scheduler()
    batches = [decode(list(abc)) for i in range(200)]
    try:
        import common_ops  # noqa: F401
    except ImportError:
        pass
    print("ready", flush=True)
    sys.stdin.readline()
    want = []
    for run, result, rows in CASES:
        for b in run:
            scheduler.run_batch(b)
        scheduler.process_batch_result((run[result] if isinstance(result, int) else result).copy(), None)
        if rows != "no step ends":
            want.append(rows)
    over = threading.Event()

    def change():
        while not over.is_set():
            for b in batches:
                b.reqs.append(b.reqs[0])
                vars(b.reqs[0])["rid"] = "other"
                del b.reqs[2:]
                vars(b.reqs[0])["rid"] = "a"

    changer = threading.Thread(target=change)
    changer.start()
    for b in batches:
        scheduler.run_batch(b)
        scheduler.process_batch_result(b.copy(), None)
    over.set()
    changer.join()
    print("outputs", json.dumps([n for _, n in TOLD]))
    for rows in want:
        print(json.dumps(rows))
    print("done")


main()
