# SPDX-License-Identifier: BSD-2-Clause
"""Calls of Python functions that --py-step is to find, and when each of them was.

    py_steps.py CASE [N [PAUSE]]

Says "ready", waits for a line on standard input, makes N calls as the function CASE below does, with PAUSE seconds before each, and prints a
line "BEFORE FIRST LAST AFTER TID" for each: when the caller called, when the function had begun, when it was about to
end, and when the caller was back, in nanoseconds of CLOCK_BOOTTIME. Of modules, which call one another, the class comes last.
"""
import contextlib
import os
import sys
import threading
import time

calls = []
inner = threading.local()
pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def logged(function, *args):
    if pause:
        time.sleep(pause)
    inner.times = []
    before = now()
    with contextlib.suppress(KeyError, StopIteration):
        function(*args)
    after = now()
    if inner.times:
        calls.append((before, inner.times[0], inner.times[-1], after, threading.get_native_id()))


def work(n=300):
    inner.times.append(now())
    s = 0
    for i in range(n):
        s = (s * 31 + i) & 0xFFFF
    inner.times.append(now())
    return s


class Pause:
    def __await__(self):
        yield


class Model:
    def step(self, ids):
        work()
        return len(ids)

    def recursive(self, depth):
        work()
        if depth:
            self.recursive(depth - 1)
        work()

    def fails(self, i):
        work()
        if i % 2:
            raise KeyError(i)

    def tokens(self):
        while True:
            work()
            yield

    async def awaits(self):
        work()
        await Pause()
        work()


def generate(n):
    model, ids = Model(), []
    for _ in range(n):
        ids.append(logged(model.step, ids))


def forward(ids, past=None):
    work()


def loop(n):
    """Prompts of five, and five tokens of each."""
    for i in range(n):
        logged(forward, [0] * (1 if i % 6 else 5), {} if i % 6 else None)


def recursing(n):
    for _ in range(n):
        logged(Model().recursive, 5)


def failing(n):
    for i in range(n):
        logged(Model().fails, i)


def resuming(n):
    made = Model().tokens()
    for _ in range(n):
        logged(next, made)


def awaiting(n):
    for _ in range(n // 2):
        made = Model().awaits()
        logged(made.send, None)
        logged(made.send, None)


def threads(n):
    all_of_them = [threading.Thread(target=generate, args=(n // 4,)) for _ in range(4)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()


def twin():
    work()


def other(n):
    """Calls two functions of one name, in two files."""
    space = {"work": work}
    exec(compile("def twin():\n    work()\n", "/nowhere/other.py", "exec"), space)
    for _ in range(n):
        logged(twin)
        inner.times = []
        space["twin"]()


def called_by_c(n):
    model = Model()
    list(map(lambda i: logged(model.step, [i]), range(n)))


def forking(n):
    """Half of the calls are those of a child."""
    generate(n // 2)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    calls.clear()
    generate(n // 2)
    for call in calls:
        print(*call)
    sys.stdout.flush()
    os._exit(0)


def later(n):
    time.sleep(1)
    generate(n)


def execing(n):
    """Half of the calls are those of the program that follows."""
    generate(n // 2)
    for call in calls:
        print(*call)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, __file__, "later", str(n // 2), str(pause)])


def inside(n):
    """A call is under way as the recording begins."""

    def inlined(depth):
        if not depth:
            wait()
            generate(n)
            return
        inlined(depth - 1)

    Model.fails = lambda self, f: f(1)
    Model().fails(inlined)


def torch(n):
    import torch as t

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = t.nn.Linear(64, 64)

        def forward(self, x):
            inner.times.append(now())
            x = t.relu(self.layer(x))
            inner.times.append(now())
            return x

    net, x = Net(), t.zeros(1, 64)
    with t.no_grad():
        inner.times = []
        net(x)
        wait()
        for _ in range(n):
            logged(net, x)


class Module:
    """As PyTorch's: what a module computes, it computes in other ones."""

    def __init__(self, depth):
        self.depth = depth

    def __call__(self, *args):
        times, before = [], now()
        try:
            return self.call(times, *args)
        finally:
            calls.append((before, *times, now(), threading.get_native_id(), type(self).__name__))

    def call(self, times, *args):
        times.append(now())
        try:
            return self.forward(*args)
        finally:
            times.append(now())

    def within(self, times, *args):
        """The same; an inner function uses self."""
        times.append(now())
        try:
            return (lambda: self.forward(*args))()
        finally:
            times.append(now())


class Leaf(Module):
    def forward(self):
        return sum(range(100))


class Fails(Module):
    def forward(self):
        raise KeyError(self.depth)


class Tower(Module):
    def forward(self):
        return Tower(self.depth - 1)() if self.depth else 0


class Tree(Module):
    def children(self):
        yield Leaf(0)()
        if self.depth:
            yield Tree(self.depth - 1)()

    def forward(self):
        list(self.children())
        sorted([3, 1, 2], key=lambda n: (Leaf if n > 1 else Tree)(self.depth - n)() if self.depth >= n else n)
        with contextlib.suppress(KeyError):
            Tree.fails(self)
        return Tower(3)()

    def fails(self):
        Fails(self.depth)()


def modules(n):
    for i in range(n):
        Tree(i % 4)()


def cells(n):
    Module.call = Module.within
    modules(n)


def modules_of_threads(n):
    all_of_them = [threading.Thread(target=modules, args=(n // 4,)) for _ in range(4)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()


def link(depth):
    first = now()
    if depth:
        linked(depth - 1)
    return first, now()


def linked(depth):
    before = now()
    first, last = link(depth)
    calls.append((before, first, last, now(), threading.get_native_id(), "link"))


def links(n):
    """Functions that call one another without the help of C, as modules are called."""
    for i in range(n):
        linked(i % 6)


def tower(n):
    """More of them than have a slice."""
    for _ in range(n):
        Tower(39)()


def wait():
    print("ready", flush=True)
    sys.stdin.readline()


def main():
    case, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    if case not in ("torch", "inside", "later"):
        wait()
    globals()[case](n)
    for call in calls:
        print(*call)


main()
