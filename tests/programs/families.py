#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the families of a profile that come from function calls with what other sources say about them.

  families.py contexts TRACE PROFILE OUT   request_prof with what contexts.c printed
  families.py alike TRACE PROFILE OUT      the same where the contexts are not told apart
  families.py requests PROFILE             request_prof with the steps of the same profile
  families.py ops PROFILE NODES LOG        op_prof by step with the graphs that llama.cpp reported itself
  families.py window TRACE PROFILE         op_prof by window with the operators of the trace
  families.py calls TRACE PROFILE          graph_prof and sample_prof with the slices of the trace
  families.py sockets TRACE PROFILE LOG CLIENT...   request_prof of sockets with what sse_server.py and
                                           sse_client.py measured themselves
  families.py served PROFILE               requests of sockets with those of the steps that served them

Prints one line for each difference, and exits with 1 when there was one.
"""
import collections
import os
import sys
import time

from reading import ns, rank, read_lines, read_trace

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
from lanes import own_threads  # noqa: E402

# ggml_op_is_empty() of ggml-impl.h: they do no work
EMPTY = {"none", "reshape", "view", "permute", "transpose"}

problems = 0


def equal(name, got, wanted):
    global problems
    if got != wanted:
        problems += 1
        print(f"{name}: got {got}, wanted {wanted}")


def between(name, low, got, high):
    global problems
    if got is None or not low <= got <= high:
        problems += 1
        print(f"{name}: {got} is not within {low} .. {high}")


def events_of(path):
    return own_threads(read_trace(path))


PERCENTILES = (("tpot_p50", 50), ("tpot_p90", 90), ("tpot_p99", 99), ("tpot_max", 100))


def start_of(trace):
    clock = [e for e in events_of(trace) if e["name"] == "inftrace_clock"][0]
    return int(clock["args"]["boottime_ns"])


def two_at_once(calls, start, end):
    """Whether calls of two contexts were in progress at one instant within, and had returned by `end`: only then
    does a reader of the returns know of both."""
    busy_until = 0
    for c in sorted((c for c in calls if c["last"] >= start and c["after"] <= end), key=lambda c: c["first"]):
        if c["first"] <= busy_until:
            return True  # not of the same one: its calls follow each other
        busy_until = max(busy_until, c["last"])
    return False


def alike(trace, profile, out):
    zero, mixed = start_of(trace), 0
    calls = [{"first": s[2], "last": s[3], "after": s[4]} for r in read_lines(out) for s in r["steps"]]
    for e in read_lines(profile, "request_prof"):
        start = zero + ns(e["shape"]["ts_us"])
        if two_at_once(calls, start, start + ns(e["stage_us"]["total"])):
            mixed += 1
            equal(f"request at {start} of several contexts: mixed", e["shape"].get("mixed"), True)
    between("requests of several contexts", 1, mixed, len(calls))


def contexts(trace, profile, out):
    zero = start_of(trace)
    found = collections.defaultdict(list)
    for e in read_lines(profile, "request_prof"):
        found[e["shape"].get("context")].append(e)
    told = collections.defaultdict(list)
    for r in read_lines(out):
        told[r["context"]].append(r["steps"])
    equal("contexts", sorted(found), sorted(told))
    for context, requests in told.items():
        lines = sorted(found[context], key=lambda e: e["shape"]["ts_us"])
        equal(f"context {context}: requests", len(lines), len(requests))
        for i, (line, steps) in enumerate(zip(lines, requests)):
            shape, stages, name = line["shape"], line["stage_us"], f"context {context}, request {i}: "
            prompt = [s for s in steps if s[0] > 1]
            decodes = steps[len(prompt):]
            equal(f"{name}prompt_tokens", shape.get("prompt_tokens"), sum(s[0] for s in prompt))
            equal(f"{name}output_tokens", shape["output_tokens"], len(decodes) + 1)
            equal(f"{name}prefill_steps", shape["prefill_steps"], len(prompt))
            equal(f"{name}marks", [k for k in ("mixed", "began_before", "unfinished") if k in shape], [])
            start = zero + ns(shape["ts_us"])
            between(f"{name}start", steps[0][1], start, steps[0][2])
            between(f"{name}first token", prompt[-1][3], start + ns(stages["ttft"]), prompt[-1][4])
            between(f"{name}end", steps[-1][3], start + ns(stages["total"]), steps[-1][4])
            ends = [prompt[-1]] + decodes
            least = [b[3] - a[4] for a, b in zip(ends, ends[1:])]
            most = [b[4] - a[3] for a, b in zip(ends, ends[1:])]
            for key, percent in PERCENTILES:
                between(name + key, rank(least, percent), ns(stages[key]), rank(most, percent))


def requests_of(steps):
    """What follows from the steps of one context, in order: [start, prompt, output, ttft, intervals]."""
    requests = []
    for e in steps:
        shape, end = e["shape"], ns(e["shape"]["ts_us"]) + ns(e["stage_us"]["total"])
        if shape["phase"] == "prefill":
            if not requests or requests[-1]["decodes"]:
                requests.append({"start": ns(shape["ts_us"]), "prompt": 0, "decodes": 0, "gaps": []})
            requests[-1]["prompt"] += shape["n_tokens"]
            requests[-1]["first"] = end
        elif requests:
            requests[-1]["decodes"] += 1
            requests[-1]["gaps"].append(end - requests[-1]["end"])
        if requests:
            requests[-1]["end"] = end
    return requests


PARTS = ("own_prefill", "own_decode", "others", "between")


def requests(profile):
    steps, found = collections.defaultdict(list), collections.defaultdict(list)
    for e in sorted(read_lines(profile, "token_prof"), key=lambda e: e["shape"]["step"]):
        steps[e["shape"]["pid"], e["shape"].get("context")].append(e)
    for e in read_lines(profile, "request_prof"):
        found[e["shape"]["pid"], e["shape"].get("context")].append(e)
    for lines in found.values():
        lines.sort(key=lambda e: e["shape"]["ts_us"])
    for key, list_of_steps in steps.items():
        wanted = requests_of(list_of_steps)
        equal(f"{key}: requests", len(found[key]), len(wanted))
        for e, r in zip(found[key], wanted):
            stages = {"total": r["end"] - r["start"], "ttft": r["first"] - r["start"]}
            if r["gaps"]:
                stages.update((name, rank(r["gaps"], percent)) for name, percent in PERCENTILES)
            equal(f"{key}: prompt_tokens", e["shape"]["prompt_tokens"], r["prompt"])
            equal(f"{key}: output_tokens", e["shape"]["output_tokens"], r["decodes"] + 1)
            got = {k: ns(v) for k, v in e["stage_us"].items()}
            if "own_prefill" in got:  # and by what the engine did meanwhile: that is all of the time
                equal(f"{key}: parts", sum(got.get(k, 0) for k in PARTS), got["total"])
                got = {k: v for k, v in got.items() if k in stages}
            equal(f"{key}: stages", got, stages)
    print(f"{sum(map(len, found.values()))} requests")


def counts_of(line):
    return {k[2:]: v for k, v in line["shape"].items() if k.startswith("n_")}


def stages_of(line):
    stages = {k: ns(v) for k, v in line["stage_us"].items()}
    equal("total", stages.pop("total"), sum(stages.values()))
    equal("ops", line["shape"]["ops"], sum(counts_of(line).values()))
    return stages


def run_of(nodes):
    """How many of each operator run for these nodes: a norm and its product are one."""
    n = collections.Counter(node["op"] for node in nodes if node["op"] not in EMPTY)
    for node, after in zip(nodes, nodes[1:]):
        if (node["op"], after["op"]) == ("rms_norm", "mul") and after["src0"]["name"] == node["name"]:
            n.update({"rms_norm": -1, "mul": -1, "rms_norm_mul": 1})
    return +n


def ops(profile, nodes, log):
    threads = read_lines(log)[-1]["threads"]
    told, found, spent = collections.defaultdict(list), collections.defaultdict(collections.Counter), {}
    for n in read_lines(nodes):
        told[n["step"]].append(n)
    for e in read_lines(profile, "op_prof"):
        equal("a line of a step", "step" in e["shape"], True)
        found[e["shape"].get("step")].update(counts_of(e))
        spent[e["shape"].get("step")] = sum(stages_of(e).values())
    equal("steps", sorted(found), sorted(told))
    for step, list_of_nodes in told.items():
        equal(f"step {step}", dict(found[step]), {k: v * threads for k, v in run_of(list_of_nodes).items()})
    for e in read_lines(profile, "token_prof"):
        total = ns(e["stage_us"]["total"])
        between(f"step {e['shape']['step']}: time of operators", 1, spent.get(e["shape"]["step"]), total * threads)
    print(f"{len(found)} steps, {sum(sum(c.values()) for c in found.values())} operators")


def window(trace, profile):
    n, spent = collections.Counter(), collections.Counter()
    for e in events_of(trace):
        if e.get("cat") == "op" and e["ph"] in "Xi":
            n[e["name"]] += 1
            spent[e["name"]] += ns(e.get("dur", 0))
    lines = read_lines(profile, "op_prof")
    equal("lines", [e["shape"].get("window") for e in lines], [0])
    equal("operators", counts_of(lines[0]), dict(n))
    equal("time", stages_of(lines[0]), dict(spent))
    print(f"{sum(n.values())} operators")


def calls(trace, profile):
    events = [e for e in events_of(trace) if e["ph"] == "X"]
    steps = {e["args"]["step"]: (e["pid"], ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]))
             for e in events if e.get("cat") == "step"}
    for role in ("graph", "sample"):
        lines = read_lines(profile, role + "_prof")
        got = sorted((e["shape"]["call"], e["shape"]["pid"], e["shape"]["tid"], ns(e["shape"]["ts_us"]),
                      ns(e["stage_us"]["total"])) for e in lines)
        wanted = sorted((e["name"], e["pid"], e["tid"], ns(e["ts"]), ns(e["dur"]))
                        for e in events if e.get("cat") == role)
        equal(role, got, wanted)
        for e in lines:
            start = ns(e["shape"]["ts_us"])
            within = [n for n, (pid, begin, end) in steps.items()
                      if pid == e["shape"]["pid"] and begin <= start < end]
            equal(f"step of the {role} at {start}", e["shape"].get("step"), within[0] if within else None)
        print(f"{len(lines)} {role}")


BURST = 100000  # of bpf/requests.bpf.c
PLACE = 1.017  # the precision of an interval
TICK = int(1e9 * time.clock_getres(6))  # CLOCK_MONOTONIC_COARSE: what is known of when unread data came


def parts_of(writes):
    """The writes that begin a part of the answer, and how many more may: [kind, bytes, before, after]."""
    parts, unsure = [], 0
    for last, w in zip([None] + writes, writes):
        if w[0] not in ("chunk", "more"):
            continue
        if not parts or w[2] - last[3] >= BURST:
            parts.append(w)
        elif w[3] - last[2] >= BURST:
            unsure += 1
    return parts, unsure


def check_socket(name, line, told, zero):
    shape, stages, writes = line["shape"], line["stage_us"], told["writes"]
    start = zero + ns(shape["ts_us"])
    equal(f"{name}: request", shape["request"], told["request"])
    equal(f"{name}: bytes", (shape["bytes_read"], shape["bytes_written"]),
          (told["bytes_read"], sum(w[1] for w in writes)))
    equal(f"{name}: writes", shape["writes"], len(writes))
    between(f"{name}: its first bytes were read", told["read"][0], start + ns(stages.get("unread", 0)), told["read"][1])
    if "seen" in told:
        between(f"{name}: start", 0, start, told["seen"] + 2 * TICK)
    between(f"{name}: first byte", writes[0][2], start + ns(stages["first_byte"]), writes[0][3])
    between(f"{name}: end", writes[-1][2], start + ns(stages["total"]), writes[-1][3])
    parts, unsure = parts_of(writes)
    between(f"{name}: chunks", len(parts), shape["chunks"], len(parts) + unsure)
    between(f"{name}: ttft", parts[0][2], start + ns(stages["ttft"]), parts[0][3])
    equal(f"{name}: unfinished", "unfinished" in shape, False)
    if "/" in told["request"] and "length" not in told["request"]:
        equal(f"{name}: its end was seen", "end_not_seen" in shape, False)
    if unsure or len(parts) < 2:
        return
    least = [b[2] - a[3] for a, b in zip(parts, parts[1:])]
    most = [b[3] - a[2] for a, b in zip(parts, parts[1:])]
    for key, percent in PERCENTILES:
        place = 1 if percent == 100 else PLACE
        between(f"{name}: {key}", rank(least, percent) / place, ns(stages[key]), rank(most, percent) * place)
    between(f"{name}: tpot_mean", (parts[-1][2] - parts[0][3]) / len(least) - 1, ns(stages["tpot_mean"]),
            (parts[-1][3] - parts[0][2]) / len(least))


def sockets(trace, profile, log, *clients):
    zero, told, differences = start_of(trace), read_lines(log), []
    lines = [e for e in read_lines(profile, "request_prof") if e["shape"]["source_kind"] == "socket"]
    asked = [r for path in clients for r in read_lines(path) if "request" in r]
    for line in lines:
        shape, start = line["shape"], zero + ns(line["shape"]["ts_us"])
        read = start + ns(line["stage_us"].get("unread", 0))
        found = [r for r in told if r["fd"] == shape["fd"] and r["read"][0] <= read <= r["read"][1]]
        name = f"{shape['request']} at {start}"
        equal(f"{name}: requests of the server", len(found), 1)
        if len(found) != 1:
            continue
        told.remove(found[0])
        check_socket(name, line, found[0], zero)
        client = [r for r in asked if r["request"] == shape["request"] and r["sent"] <= start and read <= r["first"]]
        if len(client) == 1:
            first = parts_of(found[0]["writes"])[0][0]
            difference = client[0]["chunks"][0] - client[0]["sent"] - ns(line["stage_us"]["ttft"])
            between(f"{name}: shorter than for the client", -(first[3] - first[2]), difference, 1e12)
            differences.append(difference)
    equal("requests that were not seen", told, [])
    spans = [e for e in events_of(trace) if e.get("cat") == "requests" and e["name"] != "ttft"]
    equal("slices", sorted((e["args"]["fd"], ns(e["ts"]), ns(e["dur"]), e["name"]) for e in spans),
          sorted((e["shape"]["fd"], ns(e["shape"]["ts_us"]), ns(e["stage_us"]["total"]), e["shape"]["request"])
                 for e in lines))
    if clients:
        between("what clients wait longer for the first part, at least, ms", 0, min(differences) / 1e6 + 1, 6)
        print(f"clients wait {rank(differences, 50) / 1e6:.3f} ms longer for the first part, in the middle")
    print(f"{len(lines)} requests")


def served(profile):
    by_kind = collections.defaultdict(list)
    for e in sorted(read_lines(profile, "request_prof"), key=lambda e: e["shape"]["ts_us"]):
        start = ns(e["shape"]["ts_us"])
        by_kind[e["shape"]["source_kind"]].append((start, start + ns(e["stage_us"]["total"]), e))
    inside = by_kind["sequence"] or by_kind["steps"]
    joined = [e for _, _, e in inside if e["shape"].get("joined")]
    alone = [r for r in inside if not r[2]["shape"].get("joined")]
    equal("requests, but for those whose socket is in their line", len(by_kind["socket"]), len(alone))
    for (start, end, outer), (begin, stop, inner) in zip(by_kind["socket"], alone):
        between(f"request at {start}: its steps begin", start, begin, end)
        # the last token is not evaluated
        between(f"request at {start}: its last token", begin, stop, end)
        between(f"request at {start}: first token", begin + ns(inner["stage_us"]["ttft"]),
                start + ns(outer["stage_us"]["ttft"]), end)
        equal(f"request at {start}: tokens", outer["shape"]["chunks"], inner["shape"]["output_tokens"])
    for e in joined:
        shape, stages = e["shape"], e["stage_us"]
        first = ns(stages["queued"]) + ns(stages["ttft"])
        between(f"joined request at {shape['ts_us']}: first token", first, ns(stages["ttft_client"]), float("inf"))
        equal(f"joined request at {shape['ts_us']}: tokens", shape["chunks"], shape["output_tokens"])
    equal("any request", bool(inside), True)
    print(f"{len(inside)} requests, {len(joined)} joined with their sockets")


command = {f.__name__: f for f in (contexts, alike, requests, ops, window, calls, sockets, served)}[sys.argv[1]]
command(*sys.argv[2:])
sys.exit(problems > 0)
