#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what inftrace recorded of llama_driver with what the engine says of itself.

  compare_llama.py NAME TRACE --log LOG --nodes NODES [--calls CALLS] [--detail]

LOG ends with the driver's own counts, NODES is what its -N writes, CALLS what count_calls.so
counted; with --detail the trace was recorded with --op-detail. Prints "ok" and "not ok" lines.
"""
import argparse
import collections
import json
import struct
import sys

# ggml_op_is_empty() of ggml-impl.h: they make no work
EMPTY = {"none", "reshape", "view", "permute", "transpose"}
FUSED = "rms_norm_mul"
failed = False


def same(name, got, wanted):
    global failed
    if got == wanted:
        print("ok %s: %s" % (args.name, name))
        return
    failed = True
    if isinstance(got, list) and isinstance(wanted, list):
        at = next((i for i, (g, w) in enumerate(zip(got, wanted)) if g != w),
                  min(len(got), len(wanted)))
        got = "%d entries, at %d %s" % (len(got), at, got[at:at + 1])
        wanted = "%d, %s" % (len(wanted), wanted[at:at + 1])
    print("not ok %s: %s - got %s, wanted %s" % (args.name, name, got, wanted))


def read_trace(path):
    with open(path) as f:
        text = f.read().rstrip()
    return json.loads(text if text.endswith("]") else text.rstrip(",") + "]")


def expected_ops(nodes):
    """The operators that run for these nodes: [name, node] each, a fused pair by its second."""
    ops, i = [], 0
    while i < len(nodes):
        node = nodes[i]
        after = nodes[i + 1] if i + 1 < len(nodes) else {}
        if (node["op"] == "rms_norm" and after.get("op") == "mul" and
                after["src0"]["name"] == node["name"]):
            ops.append([FUSED, after])
            i += 2
            continue
        if node["op"] not in EMPTY:
            ops.append([node["op"], node])
        i += 1
    return ops


def op_details(e):
    a = e["args"]
    return [e["name"], a["tensor"], a["type"], [a["ne%d" % i] for i in range(4)],
            a["src0_type"], a["src0_ne0"]]


def node_details(name, node):
    return [name, node["name"][:63], node["type"], node["ne"],
            node["src0"]["type"], node["src0"]["ne"][0]]


class Step:
    """One step of the trace, with what ran in it in the order of time: by thread, but of at most
    two. Without a pool each graph has a worker of its own; all of a step's are one here."""
    def __init__(self, event):
        self.event = event
        self.start, self.end = event["ts"], event["ts"] + event["dur"]
        self.ops = collections.defaultdict(list)
        self.experts = collections.defaultdict(list)
        self.barriers = collections.Counter()


def split_into_steps(trace):
    steps = [Step(e) for e in trace if e.get("cat") == "step" and e["ph"] == "X"]
    steps.sort(key=lambda s: s.start)
    others, at = 0, 0
    for e in sorted((e for e in trace if e.get("cat") in ("op", "barrier")),
                    key=lambda e: e["ts"]):
        while at < len(steps) and e["ts"] > steps[at].end:
            at += 1
        if at == len(steps) or e["ts"] < steps[at].start:
            others += 1
            continue
        worker = e["tid"] != steps[at].event["tid"]
        if e["cat"] == "barrier":
            steps[at].barriers[worker] += 1
        elif e["name"] == "experts":
            steps[at].experts[worker].append(e)
        else:
            steps[at].ops[worker].append(e)
    return steps, others


def check_ops(steps, nodes):
    wanted = [expected_ops(n) for n in nodes]
    threads = counts["threads"]
    same("operators of each step, by thread", [[[e["name"] for e in ops] for ops in s.ops.values()]
                                               for s in steps],
         [[[name for name, _ in w]] * threads for w in wanted])
    if args.detail:
        same("name, type and shape of the tensors of every operator",
             [[op_details(e) for e in ops if e["name"] != FUSED]
              for s in steps for ops in s.ops.values()],
             [[node_details(*op) for op in w if op[0] != FUSED] for w in wanted
              for _ in range(threads)])


def check_experts(steps, nodes):
    """The ids that operators were given, against those that the engine chose before."""
    got, wanted = [], []
    for step, step_nodes in zip(steps, nodes):
        ids, uses = None, []
        for node in step_nodes:
            ids = node.get("ids", ids)
            if node["op"] == "mul_mat_id":
                uses.append([node["name"], len(ids[0]), ids[0][:4]])
        for worker in step.ops:
            got.append([[e["args"]["tensor"], e["args"]["n"],
                         [v for k, v in e["args"].items() if k.startswith("expert")]]
                        for e in step.experts[worker]])
            wanted.append(uses)
    same("the experts of every mul_mat_id", got, wanted)
    same("there are experts to compare", bool(wanted and wanted[0]), True)


def check_calls(steps, trace):
    with open(args.calls, "rb") as f:
        barriers, forwards = struct.unpack("<QQ", f.read(16))
    same("barrier calls", sum(sum(s.barriers.values()) for s in steps), barriers)
    same("calls of ggml_cpu_extra_compute_forward",
         sum(e["name"] != FUSED for s in steps for ops in s.ops.values() for e in ops), forwards)


def read_nodes(path):
    """The nodes of each step, as the engine's -N writes them."""
    by_step = collections.defaultdict(list)
    with open(path) as f:
        for line in f:
            n = json.loads(line)
            by_step[n["step"]].append(n)
    return [by_step[i] for i in sorted(by_step)]


def main():
    global args, counts
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("trace")
    parser.add_argument("--log", required=True)
    parser.add_argument("--nodes", required=True)
    parser.add_argument("--calls")
    parser.add_argument("--detail", action="store_true")
    args = parser.parse_args()

    with open(args.log) as f:
        counts = json.loads([line for line in f if line.startswith("{")][-1])
    assert counts["threads"] <= 2
    graphs = read_nodes(args.nodes)
    events = read_trace(args.trace)
    steps, outside = split_into_steps(events)

    same("tokens of each step", [s.event["args"]["n_tokens"] for s in steps],
         counts["step_n_tokens"])
    same("names of the steps", [s.event["name"] for s in steps],
         ["decode" if n == 1 else "prefill" for n in counts["step_n_tokens"]])
    same("operators and barriers outside of steps", outside, 0)
    check_ops(steps, graphs)
    if args.calls:
        check_calls(steps, events)
    if args.detail and any("ids" in n for g in graphs for n in g):
        check_experts(steps, graphs)
    sys.exit(failed)


if __name__ == "__main__":
    main()
