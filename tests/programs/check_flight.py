#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the dumps of a flight recorder hold.

check_flight.py newest TRACE COUNTS    the numbered calls of closes.c: the newest, all of them, up to the COUNTS
                                       calls of each thread that had returned before the dump was asked for
check_flight.py counts DIR N           as many records as the profiles say, and N in all; one trigger at one instant
check_flight.py hung TRACE             spans of hung.c: each is there up to the dump, unfinished
check_flight.py free TRACE             they have ended since: each is there once
check_flight.py cause DIR TIMES STATE WHO     as many dumps, the last step of each slow in STATE, by WHO
check_flight.py names DIR PIDS NAME    each process of the file PIDS has a trace, and NAME is its name at last
check_flight.py threads TRACE NAME...  those threads, also when they have exited since
check_flight.py peeks DIR             of relay.c: what each thread has in flight ends at one instant, once each, and nothing
                                       of the thread is later
check_flight.py within PROFILE SECONDS MORE   the dump goes back SECONDS, or a little less or MORE

All but the first: .json.
"""
import collections
import glob
import json
import os
import re
import subprocess
import sys

from reading import read_lines, read_trace

FIRST, STRIDE = 100000, 200000000  # see closes.c
ROUNDING = 0.002  # of times in microseconds


def trigger(events):
    marks = [e for e in events if e["name"] == "trigger"]
    assert len(marks) == 1 and marks[0]["ph"] == "i", marks
    return marks[0]


def spans(events):
    return [e for e in events if e["ph"] == "X"]


def end_of(e):
    return e["ts"] + e["dur"]


def began_before(e):
    return e["args"].get("began_before", False)


def newest(path, counts):
    """Where numbers are missing, a mark of loss says so, and how many."""
    events = read_trace(path)
    trigger(events)
    lost = [e for e in spans(events) if e["name"] == "lost records"]
    calls = collections.defaultdict(dict)
    missing = 0
    for e in spans(events):
        if e["name"] != "close" or e["args"].get("fd", 0) < FIRST or e["args"].get("unfinished"):
            continue
        assert e["ts"] == 0 or not began_before(e), e
        thread, n = divmod(e["args"]["fd"] - FIRST, STRIDE)
        assert n not in calls[thread], f"twice: {e}"
        calls[thread][n] = e
    for thread, returned in enumerate(map(int, counts.split())):
        mine = calls.pop(thread)
        first, last = min(mine), max(mine)
        until = end_of(mine[last])
        assert last >= returned - 1 or any(l["ts"] <= until <= end_of(l) for l in lost), (
            f"thread {thread}: {last} is the last, {returned} had returned before"
        )
        for n in range(first + 1, last + 1):
            if n not in mine:
                missing += 1
        previous = mine[first]
        for n in sorted(mine)[1:]:
            e = mine[n]
            end, begin = end_of(previous), e["ts"]
            if n != previous["args"]["fd"] - FIRST - thread * STRIDE + 1:
                assert any(l["ts"] <= begin and end_of(l) >= end for l in lost), f"a gap before {e}"
            assert begin >= end - ROUNDING, f"{e} overlaps with {previous}"
            previous = e
        assert last - first > 1000, f"thread {thread}: only {last - first} calls"
    assert not calls, sorted(calls)
    assert missing <= sum(l["args"].get("syscall", 0) for l in lost), f"{missing} calls are missing"
    print(f"{sum(1 for e in spans(events) if e['name'] == 'close')} calls, {missing} missing and marked")


def shown(events):
    """What stands for a record."""
    own = ("steps", "batch", "inftrace", "loss")
    return [e for e in events if e["ph"] in "Xi" and e.get("cat") not in own]


def traces(folder):
    paths = sorted(glob.glob(f"{folder}/trace_*.json"))
    assert paths
    return paths


def profile_of(trace):
    return re.sub(r"trace_(.*)\.json$", r"profile_\1.jsonl", trace)


def counts(folder, wanted):
    instants, total = set(), 0
    for path in traces(folder):
        events, windows = read_trace(path), read_lines(profile_of(path), "window_prof")
        assert len(windows) == 1, windows
        records = len(shown(events))
        assert records == windows[0]["shape"]["records"], (path, records, windows)
        pids = {e["pid"] for e in shown(events)}
        assert pids <= {int(path.split("_pid")[1].split("_")[0])} | {4194305}, (path, pids)
        instants.add((trigger(events)["ts"], json.dumps(trigger(events)["args"])))
        total += records
    assert len(instants) == 1, instants
    assert total == int(wanted), (total, wanted)


# ---- spans that are open ----


def thread_names(events):
    return {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}


def of_thread(events, name):
    tids = {tid for tid, n in thread_names(events).items() if n == name}
    return [e for e in spans(events) if e["tid"] in tids]


def no_twins(events):
    seen = collections.Counter((e["tid"], e["name"], e["ts"]) for e in spans(events) if e["ts"] > 0)
    # none at all where no thread had a CPU since the recording began
    assert max(seen.values(), default=1) == 1, seen.most_common(1)


def unfinished(events):
    return [e for e in events if e["args"].get("unfinished")]


def what(e):
    return e["args"].get("syscall", e["name"])


def hung(path):
    events = read_trace(path)
    no_twins(events)
    at = trigger(events)["ts"]
    for thread, wanted in {
        "hung_read": ["outer", "inner", "read", "blocked: ipc"],
        "hung_step": ["decode", "futex", "blocked: futex"],
    }.items():
        stack = unfinished(of_thread(events, thread))
        assert [what(e) for e in stack] == wanted, (thread, stack)
        for outer, inner in zip(stack, stack[1:]):
            assert outer["ts"] <= inner["ts"] and end_of(outer) >= end_of(inner) - ROUNDING, stack
        assert all(end_of(e) >= at - ROUNDING for e in stack), (at, stack)
        if thread == "hung_step":
            times = stack[0]["args"]["breakdown_us"]
            assert sum(times.values()) >= stack[0]["dur"] - ROUNDING, stack[0]
            assert times["blocked_futex"] >= stack[-1]["dur"] - ROUNDING, stack
    mine = of_thread(events, "hung_spin")
    assert unfinished(mine)[0]["name"] == "spin", mine
    # it was on a CPU or, on a busy machine, waited for one
    mine = [e for e in mine if e["name"] == "runnable"]
    mine += [e for e in spans(events) if e.get("cat") == "cpu" and e["name"] == "hung_spin"]
    assert any(end_of(e) >= at - ROUNDING for e in mine), (at, mine)
    ring = of_thread(events, "hung_ring")
    assert len({e["tid"] for e in ring}) == 2 and len(ring) > 1000, len(ring)
    assert len(unfinished(ring)) <= 8, unfinished(ring)


def free(path):
    events = read_trace(path)
    no_twins(events)
    for thread, wanted in {
        "hung_read": ["outer", "inner", "read", "blocked: ipc"],
        "hung_step": ["decode", "futex", "blocked: futex"],
        "hung_spin": ["spin"],
    }.items():
        mine = of_thread(events, thread)
        mine = [e for e in mine if e["name"] != "exit"]  # of which no thread returns
        assert not unfinished(mine), unfinished(mine)
        for name in wanted:
            n = len([e for e in mine if what(e) == name])
            assert n == 1 or (n and "futex" in name), (thread, name, mine)


def peeks(folder):
    n = 0
    for path in traces(folder):
        events = read_trace(path)
        no_twins(events)
        for tid, name in thread_names(events).items():
            mine = [e for e in spans(events) if e["tid"] == tid and e.get("cat") in ("syscall", "ipc", "other", "step", "sched")]
            stack = unfinished(mine)
            assert name != "relay" or len({what(e) for e in stack}) == len(stack) <= 5, (path, tid, stack)
            if not stack or name != "relay":
                continue
            at = end_of(stack[0])
            assert all(abs(end_of(e) - at) < ROUNDING for e in stack), (path, tid, stack)
            assert all(end_of(e) <= at + ROUNDING for e in mine), (path, tid, at)
            n += len(stack)
    assert n > len(traces(folder)), n
    print(f"{n} spans in flight")


# ---- causes ----


TOO_LONG_US = 150_000  # the trigger
QUICK_STEPS = 20  # of planted.c, before each that is held up


def cause(folder, times, state, who):
    """Other steps may be too long, too, where others use the CPUs, even by more than what was planted."""
    left, named_right = set(range(QUICK_STEPS, int(times) * (QUICK_STEPS + 1), QUICK_STEPS + 1)), 0
    for path in [p for p in traces(folder) if any(e.get("cat") == "step" for e in read_trace(p))]:
        events = read_trace(path)
        at = trigger(events)["ts"]
        # steps between it and the dump, which may be late, come after it
        ended = [e for e in events if e.get("cat") == "step" and abs(end_of(e) - at) < ROUNDING]
        assert len(ended) == 1, (path, ended, at)
        step = ended[0]
        assert step["dur"] > TOO_LONG_US, step
        number, times_us = step["args"]["step"], step["args"]["breakdown_us"]
        if number not in left:
            print(f"step {number} was too long, too: {times_us}")
            continue
        left.remove(number)
        if max(times_us, key=times_us.get) != state:
            print(f"step {number} was disturbed: {times_us}")
            continue
        run = subprocess.run(
            [os.environ["INFTRACE"], "report", "--json", "--all-steps", profile_of(path)],
            stdout=subprocess.PIPE,
            check=True,
        )
        named = [s for s in json.loads(run.stdout)["steps"] if s["step"] == step["args"]["step"]]
        assert len(named) == 1 and named[0]["state"] == state, (path, named)
        if "by" not in named[0] and any("by" not in b for b in named[0].get("behind", ())):
            # others switched so often that the log of the CPU does not reach back
            print(f"step {number}: who was in the way has no name: {named[0]['behind']}")
            continue
        assert named[0]["by"] == who, (path, named)
        named_right += 1
    assert not left, f"without a dump: {left}"
    assert named_right, "all were disturbed"


# ---- names ----


def names(folder, pids, name):
    with open(pids) as f:
        wanted = set(map(int, f.read().split()))
    found = set()
    for path in traces(folder):
        events = read_trace(path)
        pid = int(path.split("_pid")[1].split("_")[0])
        last = {e["name"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["pid"] == pid and "name" in e["args"]}
        if pid in wanted:
            assert (last["process_name"], last["thread_name"]) == (name, name), (path, last)
            assert {e["name"] for e in events if e.get("cat") == "task"} >= {"exec", "exit"}, path
            found.add(pid)
    assert found == wanted, wanted - found


def threads(path, *wanted):
    events = read_trace(path)
    got = set(thread_names(events).values())
    assert got >= set(wanted), got
    for name in wanted:
        assert any(e["name"] == "getppid" for e in of_thread(events, name)), name


# ---- a recorder of so many seconds ----


def within(path, seconds, more):
    took = read_lines(path, "window_prof")[0]["stage_us"]["total"] / 1e6
    assert float(seconds) * 0.9 <= took <= float(seconds) + float(more), took


if __name__ == "__main__":
    functions = (newest, counts, hung, free, peeks, cause, names, threads, within)
    {f.__name__: f for f in functions}[sys.argv[1]](*sys.argv[2:])
