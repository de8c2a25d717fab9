#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares who ran while threads waited for a CPU, by a profile, with a trace with -e +cpu of the same recording.

  check_behind.py hogs TRACE PROFILE OUT own|workers     OUT: of rivals
  check_behind.py share TRACE PROFILE OUT
Exits with 0, or prints every difference and exits with 1; with 3: too much else ran on that CPU for a result.
"""
import collections
import sys

from check import Differences, end, events_of, start
from reading import ns, read_lines

CPUS = 4194305
ROWS = 8
DISTURBED = 3


def run_queue(e):
    """From when to when a slice of time off the CPU waited for one."""
    if e["name"] == "runnable":
        return start(e), end(e)
    return end(e) - ns(e["args"].get("run_queue_us", 0)), end(e)


def truth(events, tid, cpu, begin, stop):
    """Time by tid (0: idle) that others ran on the CPU while the thread waited for it; the sum; and the last wait."""
    ran = sorted((start(e), end(e), e["args"]["tid"]) for e in events
                 if e.get("pid") == CPUS and e.get("tid") == cpu and e.get("ph") == "X")
    waits = [run_queue(e) for e in events if e.get("tid") == tid and e.get("cat") == "sched" and e.get("ph") == "X"]
    by, whole, last = collections.Counter(), 0, 0
    for w0, w1 in waits:
        w0, w1 = max(w0, begin), min(w1, stop)
        if w1 <= w0:
            continue
        last = w1 - w0
        whole += last
        idle = w1 - w0
        for r0, r1, who in ran:
            part = min(r1, w1) - max(r0, w0)
            if part > 0:
                by[who] += part
                idle -= part
        by[0] += idle
    return by, whole, last


def rows(shape, prefix):
    return {shape[f"{prefix}{i}_tid"]: (ns(shape[f"{prefix}{i}_us"]), shape[f"{prefix}{i}_by"], shape[f"{prefix}{i}_pid"])
            for i in range(1, ROWS + 1) if f"{prefix}{i}_tid" in shape}


def check_step(diff, name, line, prefix, state, by, whole, last):
    """The rows of a step are parts of the expected ones; together with the others they are all of them. last: of this
    step and of the one before, a worker's wait that may have been in the middle of being added (docs/time-keeping.md):
    then it is in the next step."""
    shape, mine = line["shape"], rows(line["shape"], prefix)
    waited = ns(line["stage_us"].get(state, 0))
    others = ns(shape.get(f"{prefix}_others_us", 0))
    if not mine:
        diff.equal(f"{name}: rows", waited < 100000, True)
        return
    diff.equal(f"{name}: rows and others", sum(r[0] for r in mine.values()) + others, waited)
    if line["shape"]["step"]:  # in the first, workers join at a barrier
        could = [whole, whole - last[0], whole + last[1], whole - last[0] + last[1]] if prefix == "workers_behind" else [whole]
        diff.equal(f"{name}: waited {waited} of {whole} ns", any(abs(waited - w) < 5000000 for w in could), True)
    for tid, (part, comm, _) in mine.items():
        # the trace begins a moment after the first wait, perhaps
        diff.equal(f"{name}: {comm} {tid} has {part} ns of {by[tid]}", part <= by[tid] + 1000, True)


def hogs(trace, profile, out, whose):
    diff, events, team = Differences(), events_of(trace), read_lines(out)[-1]
    prefix, state, tid = (("behind", "runnable", team["leader"]) if whose == "own" else
                          ("workers_behind", "workers_runnable", team["worker"]))
    named, real, wait, before = collections.Counter(), collections.Counter(), 0, 0
    for line in read_lines(profile, "token_prof"):
        begin = ns(line["shape"]["ts_us"])
        stop = begin + ns(line["stage_us"]["total"])
        by, whole, last = truth(events, tid, team["cpu"], begin, stop)
        check_step(diff, f"step {line['shape']['step']}", line, prefix, state, by, whole, (last, before))
        before = last
        if not line["shape"]["step"]:  # workers join it at a barrier, and what they waited for before is in no row
            continue
        real.update(by)
        wait += whole
        for who, (part, _, _) in rows(line["shape"], prefix).items():
            named[who] += part
    if sum(real[h] for h in team["hogs"]) < 0.7 * wait or min(real[h] for h in team["hogs"]) < 0.1 * wait:
        print(f"# of {wait} ns the hogs have {[real[h] for h in team['hogs']]}")
        return DISTURBED
    for hog in team["hogs"]:
        diff.equal(f"hog {hog} has {named[hog]} of {real[hog]} ns", named[hog] > 0.95 * real[hog], True)
    return min(diff.n, 1)


def share(trace, profile, out):
    diff, events, team = Differences(), events_of(trace), read_lines(out)[-1]
    wait, behind, before = 0, 0, {}
    for line in read_lines(profile, "token_prof"):
        shape = line["shape"]
        begin = ns(shape["ts_us"])
        stop = begin + ns(line["stage_us"]["total"])
        name = f"step {shape['step']}"
        diff.equal(f"{name}: CPUs", (shape.get("cpus_allowed"), shape["workers"]), (1, 1))
        for prefix, state, tid, other in (("behind", "runnable", team["leader"], team["worker"]),
                                          ("workers_behind", "workers_runnable", team["worker"], team["leader"])):
            by, whole, last = truth(events, tid, team["cpu"], begin, stop)
            check_step(diff, f"{name}, {prefix}", line, prefix, state, by, whole, (last, before.get(tid, 0)))
            before[tid] = last
            row = rows(shape, prefix).get(other)
            wait += whole
            behind += by[other]
            if by[other] > whole / 4:
                diff.equal(f"{name}: {prefix} the other of both", row and row[2], shape["pid"])
    if behind < 0.5 * wait:
        return DISTURBED
    return min(diff.n, 1)


if __name__ == "__main__":
    sys.exit({"hogs": hogs, "share": share}[sys.argv[1]](*sys.argv[2:]))
