# SPDX-License-Identifier: BSD-2-Clause
"""Calls of a Python function with arguments that --py-step is to read.

    py_values.py values SEED N ARGUMENTS [PAUSE]
                                           ARGUMENTS as of --py-step: what Python itself finds is said of each call; with a pause in s before it
    py_values.py tensors SEED N ARGUMENTS  the same of tensors of PyTorch and arrays of NumPy
    py_values.py requests SEED N           steps of N requests, of several at a time, in turn
    py_values.py junk SEED N               arguments that no program should have

Says "ready", waits for a line on standard input, and prints a line of JSON for each call, or each request.
"""
import collections
import copy
import json
import pickle
import random
import re
import sys
import time


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Thing:
    pass


class Large:
    def __init__(self):
        for i in range(40):
            setattr(self, f"attribute_{i}", i)


class set_of_mine(set):
    pass


class Named:
    """Its length is none that can be known, whatever its name is."""

    def __init__(self):
        self.a, self.b, self.c = 1, 2, 3


Named.__name__ = "set"
Derived = type("frozenset", (frozenset,), {"__qualname__": "Derived"})


class Slots:
    __slots__ = ("n", "meta", "name", "cfg")


NUMBERS = [0, 1, -1, 7, 255, -70000, 1 << 29, (1 << 30) - 1, 1 << 30, -(1 << 31), (1 << 59) + 12345, (1 << 60) - 1, 1 << 60, -(1 << 70), True, False]


def number():
    return random.choice(NUMBERS + [random.getrandbits(random.randrange(1, 60))])


class Heap:
    def __init__(self, n):
        self.kept = list(range(n))


def sized():
    n = random.choice([0, 1, 2, 5, 100])
    if random.random() < 0.1:
        return Heap(n)
    return random.choice([list, tuple, set, frozenset, collections.deque, bytes, bytearray])(bytes(range(n))) if random.random() < 0.6 else \
        random.choice([set_of_mine(range(n)), Derived(range(n)), Named(), {i: i for i in range(n)}, "x" * n, "\u20ac" * n, dict.fromkeys(range(n)), collections.OrderedDict.fromkeys(range(n))])


def request():
    r = Large() if random.random() < 0.5 else Thing()
    r.n, r.big, r.name = number(), number(), random.choice(["tiny", "", "x" * 200, "a b\"c\\"])
    r.meta = {"list": [number(), number()], "deep": (1, [2, number()]), "more": {"a": number()}}
    if random.random() < 0.3:
        r.meta = {i: i for i in range(20)} | r.meta
    r.queue = sized()
    r.cfg = copy.copy(r)
    how = random.randrange(4)
    if how == 0:
        r.__dict__["other"] = 1
    elif how == 1:
        r = pickle.loads(pickle.dumps(r))
    elif how == 2:
        del r.queue
        r.late, r.queue = 1, sized()
    if random.random() < 0.1:
        del r.big
    return r


# what Python finds, as far as a recorder is to
def found(text, variables):
    text = re.sub(r"([\w.]+)\.(\w+)\?", r"getattr(\1, '\2', \1)", text)
    try:
        value = eval(text, {}, variables)
        compared = re.match(r"(.*) [=!<>]+ ", text)
        if compared and abs(eval(compared[1], {}, variables)) >= 1 << 60:
            return None
    except (AttributeError, LookupError, TypeError):
        return None
    if isinstance(value, str):
        return value if text.startswith("str(") else None
    return int(value) if isinstance(value, int) and abs(value) < 1 << 60 else None


class Model:
    def __init__(self):
        self.seen, self.neg, self.past = set(), -123456789012, None

    def forward(self, ids, req, past=None, *rest, key=3, **others):
        first = now()
        here = dict(locals())
        said = {name: found(text, here) for name, text in ARGUMENTS}
        self.seen.add(len(self.seen))
        said["last"] = now()
        said["first"] = first
        calls.append(said)


def values(model, n):
    for _ in range(n):
        time.sleep(float(sys.argv[5]) if len(sys.argv) > 5 else 0)
        ids, req, key = sized(), request(), random.choice([3, None, 5 << 40])
        past = random.choice([None, {}, 0])
        before = now()
        model.forward(ids, req, past, key=key) if random.random() < 0.5 else model.forward(ids=ids, req=req, key=key)
        calls[-1].update(before=before, after=now())
    for c in calls:
        print(json.dumps(c))


def tensors(model, n):
    import numpy
    import torch

    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(n):
        sizes = [random.randrange(5) for _ in range(random.randrange(8))]
        req = Thing()
        req.array, req.meta = numpy.zeros(sizes[:3]), {"deep": (1, [2, torch.nn.Parameter(torch.zeros(sizes[2:]))])}
        before = now()
        model.forward(torch.zeros(sizes), req)
        calls[-1].update(before=before, after=now())
    for c in calls:
        print(json.dumps(c))


def requests(model, n):
    waiting = [(f"request {i}" if i % 2 else f"r-{i:x}", random.randrange(2, 50), random.randrange(1, 9)) for i in range(n)]
    active, done = [], []
    while waiting or active:
        if waiting and len(active) < 3:
            name, prompt, tokens = waiting.pop()
            active.append({"id": name, "prompt": prompt, "left": tokens, "ends": []})
        r = random.choice(active)
        t = Thing()
        t.rid = r["id"]
        before = now()
        model.forward([0] * (1 if r["ends"] else r["prompt"]), t)
        if not r["ends"]:
            r["start"] = [before, calls[-1]["first"]]
        r["ends"].append([calls[-1]["last"], now()])
        r["left"] -= 1
        if not r["left"]:
            active.remove(r)
            done.append(r)
        time.sleep(0.001)
    for r in done:
        print(json.dumps(r))


class Weird(str):
    pass


def junk(model, n):
    circle = Thing()
    circle.meta, circle.cfg, circle.n, circle.name = circle, circle, circle, circle
    huge = Thing()
    huge.meta, huge.name, huge.n, huge.cfg = {f"k{i}": i for i in range(100_000)}, "x" * (1 << 20), 1 << 100_000, [0] * 1_000_000
    slots = Slots()
    slots.n, slots.name, slots.meta, slots.cfg = 1, "a", {}, slots
    odd = Thing()
    odd.meta, odd.name, odd.n, odd.cfg = Weird("m"), "\ud800\udfff", 1.5, Thing
    things = [circle, huge, slots, odd, None, 0, Thing, Model.forward, sys, b"", (), [], {}, {1: 2}, range(5), lambda: 0, type, NotImplemented]
    for _ in range(n):
        model.forward(random.choice(things), random.choice(things), random.choice(things), key=random.choice(things))
    print(json.dumps({"calls": len(calls)}))


if __name__ == "__main__":
    what, seed, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ARGUMENTS = re.findall(r"(\w+)=(.*?)(?:, (?=\w+=[^=])|$)", sys.argv[4]) if len(sys.argv) > 4 else []
    random.seed(seed)
    calls, model = [], Model()
    if what != "tensors":  # once all is imported
        print("ready", flush=True)
        sys.stdin.readline()
    {"values": values, "tensors": tensors, "requests": requests, "junk": junk}[what](model, n)
