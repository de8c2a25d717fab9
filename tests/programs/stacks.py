#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Python stacks that a test knows. Prints "ready", waits for a line of input, does one of these, prints "done" and waits until it is killed.

    stacks.py plant N       the function slow_N of ten takes ten times the others' time
    stacks.py extension     C code (hashlib) that Python code calls, and C code (sorted) that calls Python code
    stacks.py deadlock      two threads wait for each other's lock, for ever
    stacks.py locks         two threads wait for each other's lock, with a timeout, again and again
    stacks.py fork          a child does the work, of functions that the parent has not called
    stacks.py exec          runs "stacks.py plant 3" in the same process
    stacks.py junk          the code objects of functions that run are overwritten with junk meanwhile
    stacks.py jit           machine code that is made at run time, and 10,000 names of it a second in perf-PID.map (x86-64)
    stacks.py tasks         asyncio tasks with names, each with functions of its own, and functions that are in none
    stacks.py eager         a task that runs at once as another one makes it (from 3.12 on)
    stacks.py task_junk     what an asyncio task consists of is overwritten with junk meanwhile
    stacks.py circle KIND   the list of frames is made to lead somewhere else meanwhile (CPython 3.11 only)
"""
import asyncio
import ctypes
import gc
import hashlib
import mmap
import os
import random
import signal
import sys
import threading
import time


def work(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def repeat(seconds, f):
    end = time.process_time() + seconds
    while time.process_time() < end:
        f()


def plant(chosen):
    # each its own code object, and its own line
    for i in range(10):
        exec(f"def slow_{i}(n):\n    return work(n)\n", globals())
    functions = [globals()[f"slow_{i}"] for i in range(10)]

    def step():
        for i, f in enumerate(functions):
            f(20000 if i == chosen else 2000)

    repeat(0.6, step)


def digest():
    return hashlib.pbkdf2_hmac("sha256", b"x" * 100, b"salt", 10000)


def key(x):
    return work(2000)


def extension():
    repeat(0.4, digest)
    repeat(0.4, lambda: sorted(range(20), key=key))


def locks(timeout):
    first, second = threading.Lock(), threading.Lock()
    gate = threading.Barrier(2)

    def one():
        with first:
            gate.wait()
            return second.acquire(timeout=timeout)

    def other():
        with second:
            gate.wait()
            return first.acquire(timeout=timeout)

    threads = [threading.Thread(target=f, daemon=True) for f in (one, other)]
    for t in threads:
        t.start()
    return threads


def deadlock():
    locks(-1)
    # both have their first lock, and soon wait for the other one
    while sum(f.f_code.co_name in ("one", "other") for f in sys._current_frames().values()) < 2:
        time.sleep(0.01)


NAMES = ["alpha", "b\u00e9ta \u0394", "gamma; delta", "Task-77x"]


def own_functions():
    for i in range(len(NAMES)):
        exec(f"def own_{i}(n):\n    return work(n)\n", globals())
    return [globals()[f"own_{i}"] for i in range(len(NAMES))]


def of_no_task():
    work(20000)


async def resumed(own, future):
    own(20000)
    await asyncio.sleep(0)
    own(20000)
    await asyncio.sleep(0.001)
    sum(own(20000) for _ in range(1))
    await future
    own(20000)


async def task_of(own):
    loop = asyncio.get_running_loop()
    end = time.process_time() + 0.5
    while time.process_time() < end:
        future = loop.create_future()
        loop.call_later(0.001, future.set_result, None)
        await resumed(own, future)


async def tasks():
    loop = asyncio.get_running_loop()
    made = [asyncio.create_task(task_of(own), name=name) for name, own in zip(NAMES, own_functions())]
    while not all(t.done() for t in made):
        loop.call_soon(of_no_task)
        await asyncio.sleep(0.002)
    for t in made:
        t.result()


async def eager():
    def in_eager():
        work(20000)

    async def started():
        in_eager()
        await asyncio.sleep(0)

    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    end = time.process_time() + 0.6
    while time.process_time() < end:
        await asyncio.create_task(started(), name="started")


def task_junk():
    chooser = random.Random(1)

    def scribbled(objects):
        kept = []
        for address, size in objects:
            kept.append((address, ctypes.string_at(address, size)))
            new = b"".join(chooser.choice([chooser.getrandbits(64), chooser.getrandbits(40), address, 0, 2**63 - 1]).to_bytes(8, "little")
                           for _ in range(size // 8))
            ctypes.memmove(address, new, size)
        hashlib.pbkdf2_hmac("sha256", b"x" * 100, b"salt", 10000)
        for address, old in kept:
            ctypes.memmove(address, old, len(old))

    async def victim():
        task, frame = asyncio.current_task(), sys._getframe()
        while frame.f_code.co_name != "_run":
            frame = frame.f_back
        handle, name = frame.f_locals["self"], task.get_name()
        del frame
        end = time.process_time() + 0.8
        while time.process_time() < end:
            which = chooser.choice(["name", "text", "handle"])
            if which == "name":  # all of it but its count and, mostly, its type
                scribbled([(id(name) + chooser.choice([8, 16, 16, 16]), 32)])
            elif which == "text":
                scribbled([(id(name) + 16, 16), (id(name) + 40, 8)])
            else:  # its callback
                scribbled([(id(handle) + 24, 8)])

    async def run():
        await asyncio.create_task(victim(), name="victim of " + "x" * 40)

    gc.disable()
    asyncio.run(run())


def finish():
    print("done", flush=True)
    while True:
        signal.pause()


def in_child():
    repeat(0.5, lambda: work(2000))
    os._exit(finish())


def fork():
    pid = os.fork()
    if not pid:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with its parent
        in_child()
    os.waitpid(pid, 0)


def circle(kind):
    def word(address):
        return ctypes.c_uint64.from_address(address)

    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    cframe = word(ctypes.pythonapi.PyThreadState_Get() + 56)

    def caller():
        return word(word(cframe.value + 8).value + 48).value

    def changed():
        frame = caller()
        previous = word(frame + 48)
        kept = previous.value
        previous.value = {"circle": frame, "wild": 0x4141414141414141, "kernel": 0xffffffff81000000,
                          "odd": frame + 8, "stack": cframe.value}[kind]
        hashlib.pbkdf2_hmac("sha256", b"x" * 100, b"salt", 100000)
        previous.value = kept

    repeat(0.4, changed)


def junk():
    header = object.__basicsize__ + 8  # the interpreter counts references meanwhile
    chooser = random.Random(1)
    gc.disable()

    def scribbled(victim):
        """Runs C code while the code object of its caller is junk. Nothing else looks at it until it is whole again."""
        address, size = id(victim) + header, type(victim).__basicsize__ - header
        kept = ctypes.string_at(address, size)
        words = [chooser.choice([chooser.getrandbits(64), chooser.getrandbits(40), id(victim), address, 0, 2**63 - 1,
                                 id(kept)]) for _ in range(size // 8)]
        new = b"".join(w.to_bytes(8, "little") for w in words)
        ctypes.memmove(address, new, len(new))
        hashlib.pbkdf2_hmac("sha256", b"x" * 100, b"salt", 10000)
        ctypes.memmove(address, kept, size)

    def once():
        made = {}
        exec("def victim(scribbled):\n    return sorted([0], key=lambda _: scribbled(victim.__code__))\n", made)
        made["victim"](scribbled)

    repeat(0.8, once)


def jit():
    size, slots = 64, 65536
    # mov $100000, %ecx; 1: dec %ecx; jne 1b; ret
    code = bytes.fromhex("b9a0860100" "ffc9" "75fc" "c3")
    room = mmap.mmap(-1, size * slots, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    path = f"/tmp/perf-{os.getpid()}.map"
    named = 0
    for i in range(slots):
        room[i * size:i * size + len(code)] = code
    with open(path, "w") as f:
        begun = time.monotonic()

        def once():
            nonlocal named
            due = int(10000 * (time.monotonic() - begun)) + 1
            for n in range(named, due):
                f.write(f"{start + n % slots * size:x} {size:x} jit_{n}\n")
            f.flush()
            named = max(named, due)
            ctypes.CFUNCTYPE(None)(start + random.randrange(min(named, slots)) * size)()

        repeat(1.5, once)
    os.unlink(path)


def main():
    mode, args = sys.argv[1], sys.argv[2:]
    print("ready", flush=True)
    if not os.environ.get("STARTED"):
        sys.stdin.readline()
    if mode == "plant":
        plant(int(args[0]))
    elif mode == "extension":
        extension()
    elif mode == "locks":
        for _ in range(10):
            for t in locks(0.05):
                t.join()
    elif mode == "deadlock":
        deadlock()
    elif mode == "fork":
        fork()
    elif mode == "exec":
        os.environ["STARTED"] = "1"
        os.execv(sys.executable, [sys.executable, sys.argv[0], "plant", "3"])
    elif mode == "tasks":
        asyncio.run(tasks())
    elif mode == "eager":
        asyncio.run(eager())
    elif mode == "task_junk":
        task_junk()
    elif mode == "junk":
        junk()
    elif mode == "jit":
        jit()
    elif mode == "circle":
        circle(args[0])
    finish()


main()
