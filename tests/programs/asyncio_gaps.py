#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""An asynchronous server's loop that has a thread of a pool make each step, and before it does something else. As `gaps`:

    asyncio_gaps.py N [PLANT...]

Prints a line for each step but the first: the plant, the thread of the loop, and for how long that was in the way (ns).
"""
import asyncio
import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor


def step():
    time.sleep(0.002)


async def none():
    return 0


async def sleep():
    """A callback that blocks the loop."""
    start = time.monotonic_ns()
    time.sleep(0.01)
    return time.monotonic_ns() - start


async def timer():
    """The loop waits; nobody blocks it."""
    start = time.monotonic_ns()
    await asyncio.sleep(0.01)
    return time.monotonic_ns() - start


async def collection():
    start = time.thread_time_ns()
    gc.collect()
    return time.thread_time_ns() - start


async def orders():
    loop, pool, tid = asyncio.get_running_loop(), ThreadPoolExecutor(1), threading.get_native_id()
    garbage = [[i] for i in range(300_000)]  # something to look at
    await loop.run_in_executor(pool, step)
    for _ in range(int(sys.argv[1])):
        for plant in sys.argv[2:]:
            ns = await {"none": none, "sleep": sleep, "timer": timer, "collection": collection}[plant]()
            await loop.run_in_executor(pool, step)
            print(plant, tid, ns, ns)
    del garbage


async def main():
    await asyncio.create_task(orders(), name="orders")


asyncio.run(main())
