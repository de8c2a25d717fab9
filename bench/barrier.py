# SPDX-License-Identifier: BSD-2-Clause
"""What a barrier costs each thread that meets there, and how exact the reported waits are."""

import json
import os
import signal
import statistics
import subprocess
import tempfile

from rounds import Sample, interleave, neighbours_text, number, table
from tracers import BENCH, CPUS, Failed, Neighbours, inftrace, prepare, untraced

PROGRAM = os.path.join(BENCH, "barrier")
ROUNDS = 20000
OVER_ROUNDS = 3200  # times threads, with more of them than CPUs: a round then takes milliseconds, all spin while one works
WORK_NS = 5000


def preset(path, once):
    meet = {"symbol": "bench_meet", "role": "barrier", "group": "ptr arg1"}
    if once:
        meet["past_early_return"] = True
    with open(path, "w") as f:
        json.dump({"name": "barrier", "match": {"mapped": ["barrier"]},
                   "probes": [{"symbol": "bench_step", "role": "step"}, meet]}, f)
    return path


def told(path):
    """Nanoseconds at the barrier, of all threads, as the profile has them."""
    with open(path) as f:
        lines = [json.loads(line) for line in f]
    us = sum(p["stage_us"].get(key, 0) for p in lines if p["event"] == "token_prof"
             for key in ("barrier", "workers_barrier"))
    return us * 1000


def measure(threads, tracer):
    args = [PROGRAM, str(threads), str(WORK_NS), str(ROUNDS if threads <= len(CPUS) else OVER_ROUNDS // threads)]
    program = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               preexec_fn=lambda: prepare(CPUS))
    n = None
    try:
        program.stdout.readline()
        if tracer.weight:
            tracer.start(program.pid)
            n = Neighbours(program.pid, tracer.proc.pid)
        else:
            n = Neighbours(program.pid)
        program.stdin.write("\n")
        program.stdin.flush()
        out = json.loads(program.stdout.readline())
        s = Sample(out["round_ns"], 0)
        s.neighbours = n.share()
        s.error = None
        if tracer.weight:
            tracer.stop()
            if not tracer.out and threads <= len(CPUS):  # else most of a wait is for a CPU
                s.error = (out["wait_ns"] - told(tracer.path("p.jsonl"))) / max(out["waits"], 1)
        return s
    except (ValueError, KeyError) as e:
        raise Failed(f"{tracer.name}: {e}") from e
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
        if tracer.weight:
            tracer.clean()


def barrier(o):
    with tempfile.TemporaryDirectory() as d:
        once, twice = (preset(os.path.join(d, f"{name}.json"), name == "once") for name in ("once", "twice"))
        for threads in (2, 4, 8, 32):
            variants = [
                untraced(),
                inftrace("profile only, seen once", "--engine", once, out=None),
                inftrace("profile only, entry and return", "--engine", twice, out=None),
                inftrace("timeline, seen once", "--engine", once),
                inftrace("timeline, entry and return", "--engine", twice),
            ]
            results = interleave(variants, o, lambda v: measure(threads, v), [])
            print(f"\n### {threads} threads on {len(CPUS)} CPUs, {WORK_NS / 1000:g} us of work between two barriers\n\n"
                  f"{neighbours_text(results)}\n")
            print(table(["", "a round, us", "x untraced", "waits: own clock - reported, ns"], [
                [name, number(statistics.median(s.wall for s in samples) / 1000),
                 f"{statistics.median(s.wall / b.wall for s, b in zip(samples, results['untraced'])):.2f}",
                 "" if samples[0].error is None else number(statistics.median(s.error for s in samples))]
                for name, samples in results.items()]))
