#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_request_tracks.py [--some] [--profile PROFILE] [--log LOG] [--parts] TRACE ...

The process `requests` of the traces of a recording (.json, .pftrace). Against the PROFILE of the same: every request_prof
that is told of a sequence has its slices, on its slot and at the same times to the nanosecond, and no slice has no
line; arrows come from the slices of the steps that the args name; counters are those of the steps and of the slices.
Against the LOG of tests/engines/serve_driver, where that is of all steps: who waited, and the steps of each request.
--parts: the traces are the files of one recording. --some: there have to be requests."""

import argparse
import collections
import json
import os
import sys

from reading import ns, read_lines, read_trace, require

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import pftrace  # noqa: E402

REQUESTS = 4194600
SPANS = ("own_prefill", "own_decode", "others", "between")
FLAGS = ("cancelled", "began_before", "unfinished", "end_not_seen", "lost_steps")


class Slice:
    def __init__(self, track, name, start, end, args):
        self.track, self.name, self.start, self.end, self.args, self.file = track, name, start, end, args, 0


class Chrome:
    """Times since the start of the recording."""

    def __init__(self, path):
        events = read_trace(path)
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.process, self.origin = processes.get(REQUESTS), 0
        self.slices, self.steps, self.counters, ends = [], {}, collections.defaultdict(list), {}
        self.arrows = []
        for e in events:
            if e["ph"] == "X":
                start = ns(e["ts"])
                s = Slice(names.get((e["pid"], e["tid"])), e["name"], start, start + ns(e["dur"]), self.args(e))
                if e["pid"] == REQUESTS:
                    self.slices.append(s)
                elif e["cat"] == "steps":
                    self.steps[s.args["step"]] = s
            elif e["ph"] == "C" and e["pid"] == REQUESTS:
                self.counters[e["name"]].append((ns(e["ts"]), *e["args"].values()))
            elif e["ph"] == "f":
                ends[e["id"]] = e
        for e in events:
            if e["ph"] == "s" and e["cat"] == "batch":
                end = ends[e["id"]]
                require("an arrow's end", (end["pid"], end["name"]), (REQUESTS, e["name"]))
                self.arrows.append((e["name"], names[e["pid"], e["tid"]], ns(e["ts"]), names[end["pid"], end["tid"]],
                                    ns(end["ts"])))

    @staticmethod
    def args(e):
        """Times in nanoseconds, under names without their unit."""
        return {k[:-3] if k.endswith("_us") else k: ns(v) if k.endswith("_us") and not isinstance(v, dict) else v
                for k, v in e.get("args", {}).items()}


class Perfetto:
    def __init__(self, path, origin):
        trace = pftrace.Trace(pftrace.read(path))
        self.origin = origin = origin or trace.clocks[0][6]
        self.process = "requests" if any(where[0] == REQUESTS for where in trace.tracks.values()) else None
        self.slices, self.steps, self.counters, self.arrows = [], {}, collections.defaultdict(list), []
        for (pid, name), what, category, start, end, args in trace.slices():
            args = {k[:-3] if k.endswith("_ns") else k: v if k != "context" else hex(v) for k, v in args.items()}
            args = {k: bool(v) if k in FLAGS else v for k, v in args.items()}
            s = Slice(name, what, start - origin, end - origin, args)
            if pid == REQUESTS:
                self.slices.append(s)
            elif name == "steps":
                self.steps[args["step"]] = s
        for t, _, where, kind, _, _, value in trace.events:
            if kind == pftrace.COUNTER and trace.tracks[where][0] == REQUESTS:
                self.counters[trace.tracks[where][1]].append((t - origin, value))
        for flow in trace.flows.values():
            (_, a, start), (pid, b, end) = flow[pftrace.FLOW], flow[pftrace.FLOW_END]
            if pid == REQUESTS:
                self.arrows.append((None, a, start - origin, b, end - origin))


def told(line):
    """Whether the process has it: its rows are known, and not mixed with those of others."""
    return (line["event"] == "request_prof" and line["shape"]["source_kind"] != "socket" and
            "sequence" in line["shape"] and not line["shape"].get("mixed"))


def check_args(name, args, line):
    shape, stages = line["shape"], line["stage_us"]
    wanted = {k: shape[k] for k in ("pid", "sequence", "prompt_tokens", "output_tokens") if k in shape}
    if shape["source_kind"] == "sequence":
        wanted |= {k: shape[k] for k in ("number", "steps", "steps_shared", "cached_tokens") if k in shape}
    if "context" in shape:
        wanted["context"] = hex(shape["context"])
    # what only the socket shows is known when the slice was written long ago
    wanted |= {k: True for k in FLAGS if shape.get(k) and not (k == "cancelled" and shape.get("joined") and k not in args)}
    wanted |= {k: ns(stages[k]) for k in (*SPANS, "ttft") if stages.get(k)}
    for i in range(1, 9):
        if f"waited{i}_for" in shape:
            wanted |= {f"waited{i}_for": shape[f"waited{i}_for"], f"waited{i}": ns(shape[f"waited{i}_us"])}
    if shape.get("waited_others_us"):
        wanted["waited_others"] = ns(shape["waited_others_us"])
    got = {k: v for k, v in args.items() if k in wanted or k in FLAGS or k in SPANS or k.startswith("waited")}
    require(f"{name}: args", got, wanted)


def check_request(trace, line, outer):
    """The slices of one request; returns which arrows it has to have."""
    shape, stages, name = line["shape"], line["stage_us"], outer.name
    queued = ns(stages.get("queued", 0))
    start, end = ns(shape["ts_us"]) + queued, ns(shape["ts_us"]) + ns(stages["total"])
    if shape.get("began_before") and not start:  # a trace has of it what is in the recording
        end = trace.steps[outer.args["last_step"]].end
    require(f"{name}: times", (outer.start, outer.end), (start, end))
    if not outer.track.startswith("other slots"):
        require(f"{name}: its slot", outer.track.split(",")[0], f"slot {shape['sequence']}")
    check_args(name, outer.args, line)
    inner = [s for s in trace.slices if s.track == outer.track and s is not outer and start <= s.start and s.end <= end]
    if "ttft" in stages:
        first = start + ns(stages["ttft"])
        wanted = [("prefill", start, first)] + ([("decode", first, end)] if end > first else [])
        require(f"{name}: what it is made of", [(s.name, s.start, s.end) for s in inner], wanted)
    steps = [("first step", "first_step", lambda s: s.start), ("first token", "first_token_step", lambda s: s.end - 1),
             ("last step", "last_step", lambda s: s.end - 1)]
    if outer.args["last_step"] in (outer.args["first_step"], outer.args.get("first_token_step")):
        steps.pop()
    require(f"{name}: its first step", trace.steps[outer.args["first_step"]].start, start)
    require(f"{name}: its last step", trace.steps[outer.args["last_step"]].end, end)
    return [(outer.track, at(trace.steps[outer.args[key]])) for _, key, at in steps if key in outer.args
            if trace.steps[outer.args[key]].file == outer.file]


def value_at(counter, t):
    """What the last change of a counter before the time has left; several may be of one time."""
    return next((v for at, v in reversed(counter) if at <= t), 0)


def check_waiting(trace, log):
    """Each request waits from the start of the first step without it to the end of the last one before its next."""
    steps = [[part[0] for part in step["parts"]] for step in log if "step" in step]
    changes, before = collections.Counter(), {}
    for n, requests in enumerate(steps):
        for r in requests:
            if n - before.get(r, n) > 1:
                changes[trace.steps[before[r] + 1].start] += 1
                changes[trace.steps[n - 1].end] -= 1
            before[r] = n
    value, wanted = 0, []
    for t, change in sorted(changes.items()):
        value += change
        wanted += [(t, value)] if change else []
    require("waiting requests", trace.counters["waiting requests"], wanted)
    return len(wanted)


def check_counters(trace, origin_steps):
    """Of one context."""
    wanted = []
    for e in origin_steps:
        start, end = ns(e["shape"]["ts_us"]), ns(e["shape"]["ts_us"]) + ns(e["stage_us"]["total"])
        if e["shape"].get("began_before"):
            end = trace.steps[e["shape"]["step"]].end
        wanted += [(start, e["shape"]["n_tokens"]), (end, 0)]
    require("batch size", sorted(trace.counters["batch size"]), sorted(wanted))
    changes = collections.Counter()
    for s in trace.slices:
        if s.name.startswith("request "):
            changes[s.start] += 1
            changes[s.end] -= 1
    value, wanted = 0, []
    for t, change in sorted(changes.items()):
        value += change
        wanted += [(t, value)] if change else []
    require("active requests", trace.counters["active requests"], wanted)
    for t, value in trace.counters["waiting requests"]:
        require(f"waiting at {t}", 0 <= value <= value_at(wanted, t), True)


def requests_of(trace):
    return sorted((s for s in trace.slices if s.name.startswith("request ")), key=lambda s: s.args["number"])


def check_queued(trace, outer, lines):
    """Requests that are joined with their socket: the time from there to their first step, and an arrow to it."""
    wanted = sorted((ns(e["shape"]["ts_us"]), ns(e["shape"]["ts_us"]) + ns(e["stage_us"]["queued"]), e["shape"]["pid"])
                    for e in lines if e["stage_us"].get("queued"))
    queued = [s for s in trace.slices if s.name == "queued"]
    require("queued slices", sorted((s.start, s.end, s.args["pid"]) for s in queued), wanted)
    require("their track", {s.track.split(",")[0] for s in queued} <= {"queue"}, True)
    tracks = {s.args["number"]: s.track for s in outer}
    require("arrows from the queue", sorted((t, to, end) for _, track, t, to, end in trace.arrows if track == "queue"),
            sorted((s.end - 1, tracks[s.args["number"]], s.end) for s in queued))
    return len(queued)


def check_profile(trace, outer, profile):
    wanted, by_start = [], collections.defaultdict(list)
    for s in outer:
        by_start[s.start, s.args["pid"], s.args["sequence"]].append(s)
    told_of = [e for e in profile if told(e)]
    require("requests", len(outer), len(told_of))
    for line in told_of:
        shape = line["shape"]
        start = ns(shape["ts_us"]) + ns(line["stage_us"].get("queued", 0))
        found = by_start[start, shape["pid"], shape["sequence"]]
        require(f"a slice for {shape}", len(found), 1)
        wanted += check_request(trace, line, found.pop())
    arrows = [(to, t) for _, track, t, to, _ in trace.arrows if track == "steps"]
    require("arrows", sorted(arrows), sorted(wanted))
    check_counters(trace, [e for e in profile if e["event"] == "token_prof" and "n_sequences" in e["shape"]])
    return check_queued(trace, outer, told_of)


def check_log(outer, log):
    keys = ("sequence", "first_step", "last_step", "steps")
    require("requests of the log", sorted(tuple(s.args[k] for k in keys) for s in outer),
            sorted(tuple(r[k] for k in keys) for r in log if "request" in r))


def read(path, origin):
    return Perfetto(path, origin) if path.endswith(".pftrace") else Chrome(path)


def read_parts(paths):
    """The files of one recording, as one."""
    origin = None
    for n, path in enumerate(paths):
        trace = read(path, origin)
        for s in (*trace.slices, *trace.steps.values()):
            s.file = n
        if not n:
            whole, origin = trace, trace.origin
            continue
        whole.process = whole.process or trace.process
        whole.slices += trace.slices
        whole.steps |= trace.steps
        whole.arrows += trace.arrows
        for name, values in trace.counters.items():
            whole.counters[name] += values
    return whole


def main(args):
    profile, log = [read_lines(path) if path else None for path in (args.profile, args.log)]
    traces = [read_parts(args.trace)] if args.parts else [read(path, None) for path in args.trace]
    for trace in traces:
        outer = requests_of(trace)
        require("process", trace.process, "requests" if outer else None)
        queued = check_profile(trace, outer, profile) if profile else 0
        if log:
            check_log(outer, log)
            check_waiting(trace, log)
        print(f"{len(outer)} requests, {queued} queued, {len(trace.slices)} slices, {len(trace.arrows)} arrows, "
              f"{sum(map(len, trace.counters.values()))} values of counters")
    same = [sorted((s.track, s.name, s.start, s.end, json.dumps(s.args, sort_keys=True)) for s in trace.slices)
            for trace in traces]
    require("the slices of all", all(s == same[0] for s in same), True)
    if args.some:
        require("some requests", len(outer) > 0, True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile")
    parser.add_argument("--log")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--some", action="store_true", help="there have to be requests")
    parser.add_argument("trace", nargs="+")
    main(parser.parse_args())
