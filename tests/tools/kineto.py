#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Holds an execution trace in PyTorch's form against the Kineto trace of the same recording: kineto.py HOST.et.json TRACE.kineto.json[.gz]

What PyTorch's observer and profiler write, and what Chakra's trace linker goes by. Prints what is wrong; the last line is JSON: what there was.
"""

import collections
import gzip
import json
import sys
from decimal import Decimal

ROOT, THREAD = (f"[pytorch|profiler|execution_trace|{what}]" for what in ("process", "thread"))


def load(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as f:
        return json.load(f, parse_float=Decimal)


def check_host(host, problem):
    nodes = {n["id"]: n | {"attrs": {a["name"]: a["value"] for a in n["attrs"]}} for n in host["nodes"]}
    ops = {i: n for i, n in nodes.items() if n["name"] not in (ROOT, THREAD)}
    if host["schema"] != "1.1.0-chakra.0.0.4" or host["finish_ts"] < host["start_ts"] or not host["time"]:
        problem(f"{ {k: v for k, v in host.items() if k != 'nodes'} }")
    if len(nodes) != len(host["nodes"]) or nodes[1]["name"] != ROOT or len({n["attrs"]["rf_id"] for n in ops.values()} - {0}) != len(ops):
        problem("ids, or numbers of operators, that are not unique, or no process with the id 1")
    for i, n in nodes.items():
        parent = nodes.get(n["ctrl_deps"])
        wanted = [ROOT] if n["name"] in (ROOT, THREAD) else [THREAD, parent and parent["name"]]
        if not parent or parent["name"] not in wanted or parent["id"] >= i + (n["name"] == ROOT):
            problem(f"node {i}, {n['name']}, is called by {n['ctrl_deps']}")
        elif i in ops and (n["attrs"]["tid"] != parent["attrs"]["tid"] or n["attrs"]["op_schema"].split(".")[0] not in (n["name"], "")):
            problem(f"{n} is called by {parent}")
        empty = {"values": [], "shapes": [], "types": []}
        if n["outputs"] != empty or (i not in ops and n["inputs"] != empty) or sorted(n["inputs"]) != sorted(empty) or \
                len({len(v) for v in n["inputs"].values()}) != 1:
            problem(f"node {i} has {n['inputs']}, {n['outputs']}")
    return nodes, ops


def innermost(spans, start, end):
    return max((s for s in spans if s[0] <= start and end <= s[1]), key=lambda s: (s[0], -s[1]), default=None)


def check_launches(events, spans, problem):
    """Each kernel and copy has the call that launched it, and the number of the innermost operator around that."""
    launches = {e["args"]["correlation"]: e for e in events if e["cat"] == "cuda_runtime"}
    if len(launches) != sum(e["cat"] == "cuda_runtime" for e in events):
        problem("two calls have one correlation")
    work = [e for e in events if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    for e in work:
        launch = launches.get(e["args"]["correlation"])
        if not launch or launch["ts"] > e["ts"]:
            problem(f"{e} has {launch}")
            continue
        around = innermost(spans[launch["tid"]], launch["ts"], launch["ts"] + launch["dur"])
        want = around and around[2]["args"]["External id"]
        if e["args"].get("External id") != want or launch["args"].get("External id") != want:
            problem(f"{e} was launched by {launch}, within {want}")
    return len(work)


def main():
    problems = []
    problem = problems.append
    host, kineto = load(sys.argv[1]), load(sys.argv[2])
    nodes, ops = check_host(host, problem)
    events = [e for e in kineto["traceEvents"] if e["ph"] == "X"]
    if kineto["schemaVersion"] != 1 or kineto["baseTimeNanoseconds"] < 10**18:
        problem(f"{ {k: v for k, v in kineto.items() if k != 'traceEvents'} }")
    cpu, spans, steps = {}, collections.defaultdict(list), collections.defaultdict(list)
    for e in events:
        if e["cat"] == "cpu_op":
            number = e["args"]["Record function id"]
            if not number or number != e["args"]["External id"] or number in cpu:
                problem(f"{e}: its number")
            cpu[number] = e
            spans[e["tid"]].append((e["ts"], e["ts"] + e["dur"], e))
        elif e["cat"] == "user_annotation":
            if e["name"] != f"ProfilerStep#{e['args']['step']}":
                problem(f"{e} is no step")
            steps[e["tid"]].append((e["ts"], e["ts"] + e["dur"], e))
    for i, n in ops.items():
        e = cpu.get(n["attrs"]["rf_id"])
        if not e or (e["name"], e["tid"]) != (n["name"], n["attrs"]["tid"]):
            problem(f"node {i}, {n['name']} of {n['attrs']}, is {e}")
            continue
        if not innermost(steps[e["tid"]], e["ts"], e["ts"] + e["dur"]):
            problem(f"{e} is in no step")
        parent = cpu.get(nodes[n["ctrl_deps"]]["attrs"]["rf_id"])
        around = innermost([s for s in spans[e["tid"]] if s[2] is not e], e["ts"], e["ts"] + e["dur"]) if len(ops) < 2000 or i % 20 == 0 else (0, 0, parent)
        if parent is not (around and around[2]):
            problem(f"node {i}, {e}, is within {parent}; by its time within {around and around[2]}")
    for tid, list_ in spans.items():
        open_ = []
        for start, end, e in sorted(list_, key=lambda s: (s[0], -s[1])):
            while open_ and open_[-1] <= start:
                open_.pop()
            if open_ and end > open_[-1]:
                problem(f"{e} goes beyond what it is within, on {tid}")
            open_.append(end)
    work = check_launches(events, spans, problem)
    for p in problems[:20]:
        print(p)
    print(json.dumps({"nodes": len(ops), "cpu_ops": len(cpu), "threads": len(nodes) - len(ops) - 1, "steps": sum(map(len, steps.values())),
                      "work": work, "pid": host["pid"], "problems": len(problems)}))
    return bool(problems or not ops)


if __name__ == "__main__":
    sys.exit(main())
