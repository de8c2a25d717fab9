#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what --py-step has read of arguments with what py_values.py says.

    check_py_values.py values TRACE LOG     each call is one step, with each argument that Python finds, and no other
    check_py_values.py requests PROFILE LOG each request is one, with its tokens, when it began, and when each came
    check_py_values.py windows LOG PROFILE...
                                            each request has its prompt, or began before its window
"""
import sys

from reading import ns, read_lines, read_trace

TEXT = 63 # bytes of a string
TIMES = ("first", "last", "before", "after")


def check_values(events, calls):
    steps = sorted((e for e in events if e.get("cat") == "step"), key=lambda e: ns(e["ts"]))
    start = next(int(e["args"]["boottime_ns"]) for e in events if e["name"] == "inftrace_clock")
    wrong = [f"{len(steps)} steps, {len(calls)} calls"] if len(steps) != len(calls) or not calls else []
    known = 0
    for n, (step, call) in enumerate(zip(steps, calls)):
        begin = start + ns(step["ts"])
        if not call["before"] - 2 <= begin <= call["first"] + 2:
            wrong.append(f"call {n}: a step at another time")
        for name in call.keys() - TIMES:
            want, got = call[name], step["args"].get(name)
            want = want[:TEXT] if isinstance(want, str) else want
            known += want is not None
            if got != want and not (got == "" and want is None):
                wrong.append(f"call {n}: {name} is {want!r}, it says {got!r}")
    if known < len(calls):
        wrong.append("too little is known")
    return wrong


def check_requests(profile, requests):
    lines = [e for e in profile if e["event"] == "request_prof"]
    by_id = {e["shape"].get("request_id"): e for e in lines}
    wrong = [f"{len(lines)} lines of {len(requests)} requests"] if len(lines) != len(requests) or not lines else []
    for r in requests:
        e = by_id.get(r["id"])
        if not e:
            wrong.append(f"{r['id']}: no line")
            continue
        shape, stage = e["shape"], e["stage_us"]
        want = {"prompt_tokens": r["prompt"], "output_tokens": len(r["ends"])}
        if {k: shape.get(k) for k in want} != want:
            wrong.append(f"{r['id']}: {want}, it says {shape}")
        before, first = r["start"]
        last, after = r["ends"][0]
        if not last - first - 2 <= ns(stage.get("ttft", 0)) <= after - before + 2:
            wrong.append(f"{r['id']}: its first token after {last - first} to {after - before} ns, it says {stage.get('ttft')} us")
        last, after = r["ends"][-1]
        if not last - first - 2 <= ns(stage.get("total", 0)) <= after - before + 2:
            wrong.append(f"{r['id']}: it took {last - first} to {after - before} ns, it says {stage.get('total')} us")
    return wrong


def check_windows(lines, requests):
    prompts = {r["id"]: r["prompt"] for r in requests}
    began = [e["shape"] for e in lines if e["shape"].get("began_before")]
    whole = [e["shape"] for e in lines if not e["shape"].get("began_before")]
    wrong = [f"{s.get('request_id')}: {s.get('prompt_tokens')} tokens" for s in whole if s.get("prompt_tokens") != prompts.get(s.get("request_id"))]
    wrong += [f"{s.get('request_id')}: it began before, and has a prompt" for s in began if "prompt_tokens" in s]
    return wrong + ([] if len(began) >= 3 and len(whole) >= 10 else [f"{len(began)} began before, {len(whole)} did not"])


if __name__ == "__main__" and sys.argv[1] == "windows":
    wrong = check_windows([e for path in sys.argv[3:] for e in read_lines(path, "request_prof")], read_lines(sys.argv[2]))
    print("\n".join(wrong[-5:]))
    sys.exit(bool(wrong))

if __name__ == "__main__":
    what, recorded, log = sys.argv[1:]
    said = read_lines(log)
    wrong = check_values(read_trace(recorded), said) if what == "values" else check_requests(read_lines(recorded), said)
    print("\n".join(wrong[-5:]))
    sys.exit(bool(wrong))
