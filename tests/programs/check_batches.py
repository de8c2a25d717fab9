#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_batches.py LOG PROFILE TRACE REPORT-OF-PROFILE REPORT-OF-TRACE
check_batches.py junk OUTPUT PROFILE TRACE

Holds what inftrace has recorded of tests/engines/batch_driver against the driver's own log: the rows of
every step, the requests, and the numbers that inftrace report (--json) makes of them."""

import math
import sys

from reading import ns, read_lines, read_trace, require


def phase(step):
    if step["n_sequences"] > 1:
        return "mixed"
    if step["rows"] == 1:
        return "decode"
    if step["position"] != 0 and step["outputs"] == step["rows"]:
        return "decode"
    return "prefill"


def wanted_shape(step):
    shape = {"n_tokens": step["rows"], "n_outputs": step["outputs"], "n_sequences": step["n_sequences"]}
    if step["n_sequences"] == 1:
        shape["sequence"] = int(math.log2(step["sequences"]))
    else:
        shape["sequences"] = step["sequences"]
    if step["position"] >= 0:
        shape["position"] = step["position"]
    return shape


KEYS = ("n_tokens", "n_outputs", "n_sequences", "sequence", "sequences", "position", "rows_read")


def check_steps(log, profile, trace):
    steps = sorted((e["shape"] | {"total": e["stage_us"]["total"]} for e in profile if e["event"] == "token_prof"),
                   key=lambda s: s["step"])
    slices = sorted((e for e in trace if e.get("cat") == "step"), key=lambda e: e["args"]["step"])
    require("steps of the profile", len(steps), len(log))
    require("steps of the trace", len(slices), len(log))
    end = None
    for got, drawn, wanted in zip(steps, slices, log):
        name = f"step {wanted['step']}"
        require(name, {k: got[k] for k in KEYS if k in got}, wanted_shape(wanted))
        args = {k: drawn["args"][k] for k in KEYS if k in drawn["args"]}
        if "sequences" in args:
            args["sequences"] = int(args["sequences"], 16)
        require(f"{name} of the trace", args, wanted_shape(wanted))
        require(f"{name}: rows", got["rows"], wanted["rows"])
        # the sequences of one row have no order of their own
        require(f"{name}: its batch in the trace", sorted(drawn["args"].get("batch", "").split(", ")),
                sorted(wanted["batch"].split(", ")) if wanted["n_sequences"] > 1 else [""])
        before = drawn["args"].get("before_us")
        start = ns(drawn["ts"])
        require(f"{name}: the time since the step before", before and sum(map(ns, before.values())),
                start - end if end is not None else None)
        end = start + ns(drawn["dur"])
        require(f"{name}: phase", got["phase"], phase(wanted))
        require(f"{name}: phase in the trace", drawn["name"], phase(wanted))
    return [(ns(s["ts_us"]), ns(s["ts_us"]) + ns(s["total"])) for s in steps]


def parts_of(step):
    """{sequence: (rows, position)} of what the driver wrote down of a batch."""
    parts = {}
    for part in filter(None, step["batch"].split(", ")):
        sequence, rest = part.split(": ")
        rows, position = rest.split(" at ")
        parts[int(sequence)] = (int(rows), int(position))
    return parts


PAUSE = 10**9  # the report's: nobody asks for a token in so long a gap between steps


def times_of(request, steps, spans, pause=math.inf):
    """What a request's time is divided into, and the times of its tokens but for those after a pause, from the driver's steps alone."""
    spent = dict.fromkeys(("own_prefill", "own_decode", "others", "between"), 0)
    tpot, previous, own = [], None, []
    for step in steps[request["first_step"]:request["last_step"] + 1]:
        start, end = spans[step["step"]]
        if step["step"] != request["first_step"]:
            spent["between"] += start - spans[step["step"] - 1][1]
        parts = step["parts"]
        if request["sequence"] not in parts:
            spent["others"] += end - start
            continue
        own.append(step)
        rows, _ = parts[request["sequence"]]
        prompts = sum(r for s, (r, _) in parts.items() if s != request["sequence"] and s in step["prompts"])
        # rows that several sequences share are not in each other's way
        others = (end - start) * min(prompts, step["rows"] - rows) // step["rows"]
        spent["others"] += others
        spent["own_prefill" if request["sequence"] in step["prompts"] else "own_decode"] += end - start - others
    for k, step in enumerate(own):
        if step["step"] < request["first_token_step"]:
            continue
        rows, position = step["parts"][request["sequence"]]
        end, n = spans[step["step"]][1], 1
        if step["step"] > request["first_token_step"]:
            if rows > 1 and k + 1 < len(own):
                n = own[k + 1]["parts"][request["sequence"]][1] - position
            paused = spans[step["step"]][0] - spans[step["step"] - 1][1] > pause
            if (rows == 1 or k + 1 < len(own)) and not paused:
                tpot += [(end - previous) // n] * n
        previous = end
    return spent, tpot


def check_requests(log, steps, spans, profile):
    """Each of them, to the nanosecond."""
    got = sorted((e for e in profile if e["event"] == "request_prof"), key=lambda e: (e["shape"]["ts_us"], e["shape"]["sequence"]))
    log = sorted(log, key=lambda r: (r["first_step"], r["sequence"]))
    require("requests", len(got), len(log))
    for step in steps:
        step["parts"] = parts_of(step) or {step["sequences"].bit_length() - 1: (step["rows"], step["position"])}
        step["prompts"] = {r["sequence"] for r in log if r["first_step"] <= step["step"] <= r["first_token_step"]}
    numbers = {e["shape"]["ts_us"]: e["shape"].get("number") for e in got}
    require("the order of their numbers", list(numbers.values()), sorted(numbers.values(), key=lambda n: n or 0))
    tpot = []
    for e, r in zip(got, log):
        name = f"request {r['request']}"
        shape, stage = e["shape"], e["stage_us"]
        require(f"{name}: mixed", shape.get("mixed"), None)
        require(f"{name}: sequence", shape["sequence"], r["sequence"])
        require(f"{name}: prompt", shape["prompt_tokens"], r["prompt"])
        require(f"{name}: outputs", shape["output_tokens"], r["outputs"])
        require(f"{name}: ttft", ns(stage["ttft"]), spans[r["first_token_step"]][1] - spans[r["first_step"]][0])
        require(f"{name}: total", ns(stage["total"]), spans[r["last_step"]][1] - spans[r["first_step"]][0])
        spent, times = times_of(r, steps, spans)
        tpot += times
        require(f"{name}: times", {k: ns(v) for k, v in stage.items() if k in spent}, spent)
        if times:
            wanted = percentiles(times)
            require(f"{name}: times of tokens", {k: ns(stage[f"tpot_{k}"]) for k in ("p50", "p90", "p99", "max")},
                    {k: v for k, v in wanted.items() if k != "count"})
    return [spans[r["first_token_step"]][1] - spans[r["first_step"]][0] for r in log], tpot


def check_alone(log, steps, spans):
    """What is known of requests from the steps alone, as in a trace: of those that shared none with others."""
    alone = [r for r in log if not r["shared"]]
    tpot = []
    for r in alone:
        tpot += times_of(r, steps, spans, PAUSE)[1]
    return alone, [spans[r["first_token_step"]][1] - spans[r["first_step"]][0] for r in alone], tpot


def percentiles(values):
    values = sorted(values)
    at = lambda p: values[math.ceil(len(values) * p / 100) - 1]
    return {"count": len(values), "p50": at(50), "p90": at(90), "p99": at(99), "max": values[-1]}


def check_percentiles(name, p, key, values):
    got = p.get(key)
    if not values:
        require(f"{name}: {key}", got, None)
        return
    got = {k: v if k == "count" else ns(v) for k, v in got.items()}
    require(f"{name}: {key}", {k: got[k] for k in percentiles(values)}, percentiles(values))


def check_counts(name, r, steps, requests):
    shared = [s for s in steps if s["n_sequences"] > 1]
    require(f"{name}: requests", r["count"], len(requests))
    require(f"{name}: prompt tokens", r["prompt_tokens"], sum(q["prompt"] for q in requests))
    require(f"{name}: output tokens", r["output_tokens"], sum(q["outputs"] for q in requests))
    require(f"{name}: shared steps", r["shared_steps"], len(shared))
    require(f"{name}: sequences at once", r["max_sequences"], max([s["n_sequences"] for s in shared], default=0))
    return shared


def check_report(name, report, steps, requests, ttft, tpot_alone):
    """All requests, whether of a profile or of a trace."""
    p = report["processes"][0]
    check_percentiles(name, p, "first_step_to_first_token_us", ttft)
    shared = check_counts(name, p["requests"], steps, requests)
    require(f"{name}: tokens of shared steps", p["requests"]["shared_tokens"], sum(s["outputs"] for s in shared))
    if not shared:
        check_percentiles(name, p, "time_per_output_token_us", tpot_alone)
    else:
        require(f"{name}: of requests", p["mean_time_per_token_us"]["count"], sum(q["outputs"] > 1 for q in requests))
    require(f"{name}: none is left out", (p["requests"]["mixed"], "left_out" in p["requests"]), (0, False))


def check_parts(name, told, step, drawn):
    """A batch that is as it should be: what it has of each sequence, as far as the slice shows it."""
    parts = told["parts"]
    require(f"{name}: rows", (step["rows"], step["n_outputs"], step["n_sequences"], "rows_read" in step),
            (told["n_tokens"], told["n_outputs"], len(parts), False))
    batch = drawn["args"].get("batch")
    if len(parts) < 2:
        require(f"{name}: batch", batch, None)
        return
    shown = batch.split(", ")
    more = int(shown.pop().split()[1]) if shown[-1].startswith("and ") else 0
    require(f"{name}: {len(shown)} parts", shown, parts[:len(shown)])
    require(f"{name}: those that are not shown", more, len(parts) - len(shown))


def check_junk(told, profile, trace):
    """Batches of tests/engines/junk_batches: what it says is known of each."""
    keys = ("n_tokens",) + KEYS[1:] + ("phase",)
    # lines come in the order in which the rings are read: the thread may have changed its CPU
    steps = sorted((e["shape"] for e in profile if e["event"] == "token_prof"), key=lambda s: s["step"])
    require("steps", len(steps), len(told))
    slices = sorted((e for e in trace if e.get("cat") == "step"), key=lambda e: e["args"]["step"])
    require("slices", len(slices), len(told))
    for i, (got, wanted) in enumerate(zip(steps, told)):
        if "parts" in wanted:
            check_parts(f"step {i}", wanted, got, slices[i])
            continue
        if "rows_read" in got and "batch" in slices[i]["args"]:
            sys.exit(f"step {i}: parts of a batch that could not be read")
        got = {k: got[k] for k in keys if k in got}
        if "misfit" in wanted:
            require(f"step {i}, a count that cannot be", got, {"phase": wanted["misfit"]})
        elif wanted.pop("many", False):
            n = got.pop("n_sequences")
            require(f"step {i}: as many as were told apart", (got.pop("rows_read"), got.pop("n_outputs")), (n, n))
            require(f"step {i}: more than llama.cpp has", 256 < n <= 512, True)
            require(f"step {i}", got, wanted)
        else:
            require(f"step {i}", got, wanted)
    if any(e["stage_us"].get("ttft") for e in profile if e["event"] == "request_prof" and e["shape"].get("mixed")):
        sys.exit("a first token of a request that is mixed")


def main():
    if sys.argv[1] == "junk":
        check_junk(read_lines(sys.argv[2]), read_lines(sys.argv[3]), read_trace(sys.argv[4]))
        return
    log, profile = map(read_lines, sys.argv[1:3])
    trace = read_trace(sys.argv[3])
    (of_profile,), (of_trace,) = map(read_lines, sys.argv[4:])
    steps = [e for e in log if "rows" in e]
    requests = [e for e in log if "shared" in e]
    spans = check_steps(steps, profile, trace)
    requests.sort(key=lambda r: r["request"])
    ttft, tpot = check_requests(requests, steps, spans, profile)
    alone, _, tpot_alone = check_alone(requests, steps, spans)
    check_report("report of the profile", of_profile, steps, requests, ttft, tpot_alone)
    check_report("report of the trace", of_trace, steps, requests, ttft, tpot_alone)
    samples = [e for e in profile if e["event"] == "sample_prof"]
    require("samples", len(samples), log[-1]["samples"])
    print(f"{len(steps)} steps, {len(requests)} requests, {len(alone)} of them alone, {len(tpot)} times of tokens")


main()
