# SPDX-License-Identifier: BSD-2-Clause
"""What a closed window and the flight recorder cost; how soon a window is open."""

import glob
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from llama import SETUPS, Engine, run_setup, token_table
from rounds import neighbours_text, table
from tracers import INFTRACE, TMPFS, Tracer, untraced, wait_until

OPENINGS = 20


def by_time(name, *args, **kw):
    def command(t):
        return [INFTRACE, "record", *args, "--output-dir", t.dir, "-p", t.pid]
    return Tracer(name, command, **kw)


def variants(_):
    again = untraced()
    again.name = "untraced, again"
    return [
        untraced(),
        again,
        by_time("closed window", "--window", "manual", settle_s=2),
        by_time("flight recorder, 64 MB", "--flight-recorder", "64MB"),
        by_time("flight recorder, steps and operators only", "--flight-recorder", "64MB", "-e", "functions"),
    ]


def first_record(path):
    """Nanoseconds of CLOCK_MONOTONIC at which the first record of a trace was sent: its end."""
    with open(path) as f:
        events = json.load(f)
    clock = next(e for e in events if e["name"] == "inftrace_clock")["args"]
    ends = [e["ts"] + e["dur"] for e in events if e["ph"] == "X"]
    return int(clock["monotonic_ns"]) + min(ends) * 1000 if ends else None


def openings(engine, closed_s):
    """From the creation of the flag file to the first record, in ms."""
    folder = tempfile.mkdtemp(prefix="inftrace-bench-", dir=TMPFS)
    flag, found = os.path.join(folder, "flag"), []
    log = os.path.join(folder, "log")
    with open(log, "w") as out:
        proc = subprocess.Popen([INFTRACE, "record", "--window-flag", flag, "--output-dir", folder, "-p",
                                 str(engine.pid)], stderr=out)
    try:
        wait_until(lambda: "waiting" in open(log).read(), "inftrace")
        for _ in range(OPENINGS):
            time.sleep(closed_s)
            before = set(glob.glob(os.path.join(folder, "trace_*.json")))
            at = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            open(flag, "w").close()
            time.sleep(0.2)
            os.unlink(flag)
            wait_until(lambda: set(glob.glob(os.path.join(folder, "trace_*.json"))) - before, "the window")
            trace = (set(glob.glob(os.path.join(folder, "trace_*.json"))) - before).pop()
            first = first_record(trace)
            if first:
                found.append((first - at) / 1e6)
    finally:
        proc.send_signal(signal.SIGINT)
        proc.wait()
        shutil.rmtree(folder)
    return found


def windows(o):
    for model, threads, pool in SETUPS:
        title = f"llama.cpp, {model} model, {threads} thread{'s' * (threads > 1)}"
        if (threads > 1 and not pool) or o.model not in title:
            continue
        results = run_setup(model, threads, pool, o, variants)
        print(f"\n### Windows: {title}\n\n{neighbours_text(results)}\n")
        print(token_table(results))
    rows = []
    with Engine("tiny", 1, False) as engine:
        engine.go()
        for what, closed_s in (("closed for 0.1 s", 0.1), ("closed for 3 s", 3)):
            ms = openings(engine, closed_s)
            rows.append([what, f"{statistics.median(ms):.1f}", f"{max(ms):.1f}"])
    print("\n### From the making of the flag file to the first record, ms\n")
    print(table(["", "median", f"highest of {OPENINGS}"], rows))
