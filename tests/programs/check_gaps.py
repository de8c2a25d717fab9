#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what a profile says of the time between steps with what the program `gaps` had planted there.

    check_gaps.py PROFILE TRUTH [--most SHARE]
    check_gaps.py --sums PROFILE...
    check_gaps.py --track TRACE PROFILE

The same of asyncio_gaps.py, api_gaps.py and node_gaps.mjs. A line of TRUTH is for one step, in order: the plant, the thread in the
way, for how long at least and at most (ns), and the peer of its socket. The profile is right about a step if most of the gap is put down to that thread, in the
state that the plant causes, and for as long: within 5 %, or what the thread and its wakers then waited for a CPU. --within: the
plants are in the steps, and the parts sum to their time off the CPU. --sums: only that each gap reaches from the end of one step to
the begin of the next, and that its parts sum to it. --track: in the trace, the slices before a step touch each other and cover its
gap, and what the profile says of a thread is the sum of that thread's slices.
"""
import argparse
import collections
import json
import sys

# What the culprit does meanwhile; besides, it waits for a CPU.
STATES = {
    "spin": {"cpu"}, "sleep": {"blocked_sleep"}, "lock": {"cpu"}, "upstream": {"blocked_sleep"}, "unix": {"blocked_sleep"},
    "pipe": {"blocked_sleep"}, "client": {"blocked_sleep"}, "child": {"cpu", "fault"}, "stop": {"stopped"}, "faults": {"fault", "cpu"}, "none": set(),
    "cold": {"blocked_io"}, "limit": {"runnable"}, "timer": {"blocked_poll"}, "collection": {"cpu", "fault", "gc"},
    "silent": {"blocked_net", "blocked_ipc"}, "tokenizer": {"cpu"},
}


def read_steps(path):
    """The shapes of the steps with their lengths, in order."""
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    steps = [line["shape"] | {"total_us": line["stage_us"]["total"], "off_us": sum(
        us for state, us in line["stage_us"].items() if state.startswith(("runnable", "blocked", "stopped")))}
             for line in lines if line["event"] == "token_prof"]
    return sorted(steps, key=lambda s: s["step"])


def check_sums(files):
    """Exits with 1 if the gaps of a recording, or of a window, are not between its steps."""
    gaps = 0
    for path in files:
        end = None
        for s in read_steps(path):
            if "gap_us" in s:
                gaps += 1
                since = None if end is None else s["ts_us"] - end
                if bad_sum(s) or since is None or round(since * 1000) != round(s["gap_us"] * 1000):
                    sys.exit(f"{path}: step {s['step']}: a gap of {s['gap_us']} us, {since} us after the previous step; {bad_sum(s)}")
            elif end is not None:
                sys.exit(f"{path}: step {s['step']}: no gap")
            end = s["ts_us"] + s["total_us"]
    print(f"{gaps} gaps")
    sys.exit(not gaps)


def paths(shape):
    """The listed causes: (tid, state, us)."""
    n = 1
    while f"path{n}_us" in shape:
        yield shape[f"path{n}_tid"], shape[f"path{n}_state"], shape[f"path{n}_us"]
        n += 1


def of_each(shape, key):
    """What a key says of each listed cause."""
    n = 1
    while f"path{n}_us" in shape:
        yield shape.get(f"path{n}_{key}")
        n += 1


def within(shape):
    """The same, with what the step waited for in place of the gap before it."""
    return {k: v for k, v in shape.items() if not k.startswith(("path", "gap"))} | {
        k.replace("wait", "path", 1): v for k, v in shape.items() if k.startswith("wait")} | {"gap_us": shape["off_us"]}


def bad_sum(shape):
    """What is wrong with the sum of a gap; None: nothing. Each part is a whole number of ns."""
    total = sum(p[2] for p in paths(shape)) + shape.get("path_rest_us", 0) + shape.get("path_unknown_us", 0)
    return None if round(total * 1000) == round(shape["gap_us"] * 1000) else f"the parts sum to {total:.3f} us, not {shape['gap_us']:.3f}"


def check_track(trace, profile):
    """Exits with 1 if the track of a trace has other gaps than the profile."""
    with open(trace, encoding="utf-8") as f:
        slices = [e for e in json.load(f) if e.get("cat") == "gap" and "within" not in e["args"]]
    shapes = {s["step"]: s for s in read_steps(profile) if "gap_us" in s}
    by_step = collections.defaultdict(list)
    for e in sorted(slices, key=lambda e: e["ts"]):
        by_step[e["args"]["step"]].append(e)
    if not shapes or set(shapes) != set(by_step):
        sys.exit(f"gaps in the profile: {sorted(shapes)}; in the trace: {sorted(by_step)}")
    for step, parts in by_step.items():
        at = shapes[step]["ts_us"] - shapes[step]["gap_us"]
        sums = collections.Counter()
        for e in parts:
            if round((e["ts"] - at) * 1000):
                sys.exit(f"step {step}: a slice begins at {e['ts']}, not at {at}")
            at = e["ts"] + e["dur"]
            sums[e["args"].get("tid"), e["name"].split(": ")[-1]] += round(e["dur"] * 1000)
        if round((shapes[step]["ts_us"] - at) * 1000):
            sys.exit(f"step {step}: the slices end at {at}, not at {shapes[step]['ts_us']}")
        listed = collections.Counter()
        for tid, state, us in paths(shapes[step]):
            listed[tid, state] += round(us * 1000)
        # what is not listed, or has no slice of its own, may be more
        if (None, "earlier") not in sums and any(ns > sums[k] for k, ns in listed.items()):
            sys.exit(f"step {step}: {dict(listed)} in the profile, {dict(sums)} in the trace")
    print(f"{len(by_step)} gaps, {len(slices)} slices")


def judge(plant, tid, us, us_most, peer, shape):
    """What is wrong with a step's line; None: nothing."""
    listed = list(paths(shape))
    if "gap_us" not in shape or bad_sum(shape):
        return bad_sum(shape) if "gap_us" in shape else "no gap"
    if plant == "none":
        return None
    if plant == "limit":
        listed = [(who, what, t) for (who, what, t), by in zip(listed, of_each(shape, "behind")) if what != "runnable" or by == "cpu.max"]
    peers = {p for (_, what, _), p in zip(listed, of_each(shape, "peer")) if what.startswith("blocked")} - {None}
    if plant == "silent" and peers != ({peer} if peer else set()):
        return f"{peers} is waited for, not {peer}"
    state = sum(t for who, what, t in listed if what in STATES[plant] and (who == tid or plant == "stop"))
    waits = sum(t for _, what, t in listed if what == "runnable") if plant not in ("spin", "limit") else 0
    if plant == "stop" and state > 5000:  # it stops the thread of the steps, too, which may wait until the other one runs again
        waits += sum(t for who, what, t in listed if what == "blocked_futex")
    # the clock of a thread leaves out interrupts, and what a hypervisor takes away
    most = 2 * us_most + 2000 if "cpu" in STATES[plant] else 1.05 * us_most + 100
    # and the truth of `cold`, the time in which it did not compute, includes both
    if not (0.7 if plant == "cold" else 0.95) * us - waits <= state <= most:
        return f"{state:.0f} us in {'/'.join(STATES[plant])}, {waits:.0f} us for a CPU, of {us:.0f}"
    first = next((p for p in listed if p[1] != "runnable"), None)
    # it also computes, and is traced; and a hypervisor without nested paging takes most of a fault's time outside of the kernel's part
    if plant == "faults" and not any(what == "fault" and t >= us / 20 for _, what, t in listed):
        return f"mostly {first and first[1]}"
    return None if first and (first[0] == tid or plant == "stop") else f"thread {first and first[0]} is in the way, not {tid}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("profile")
    p.add_argument("truth", nargs="*")
    p.add_argument("--most", type=float, default=0.98)
    p.add_argument("--within", action="store_true")
    p.add_argument("--sums", action="store_true")
    p.add_argument("--track", action="store_true")
    args = p.parse_args()
    if args.track:
        return check_track(args.profile, args.truth[0])
    if args.sums:
        check_sums([args.profile, *args.truth])
    steps = read_steps(args.profile)
    with open(args.truth[0], encoding="utf-8") as f:
        truth = [line.rstrip().split(" ", 4) for line in f]
    if len(steps) != len(truth) + 1:
        sys.exit(f"{len(steps)} steps in the profile, {len(truth) + 1} were made")
    right, of = collections.Counter(), collections.Counter()
    for (plant, tid, ns, *more), shape in zip(truth, steps[1:]):
        most, peer = more + [ns, ""][len(more):]
        shape = within(shape) if args.within else shape
        wrong = judge(plant, int(tid), int(ns) / 1000, int(most) / 1000, peer, shape)
        of[plant] += 1
        right[plant] += wrong is None
        if wrong:
            print(f"step {shape['step']}: {plant} by {tid}: {wrong}: "
                  f"{ {k: v for k, v in shape.items() if k.startswith(('path', 'gap'))} }", file=sys.stderr)
    print(" ".join(f"{plant} {right[plant]}/{of[plant]}" for plant in of))
    sys.exit(any(right[plant] < args.most * of[plant] for plant in of))


if __name__ == "__main__":
    main()
