# SPDX-License-Identifier: BSD-2-Clause
"""Whether a token costs what inftrace says that it costs."""

import json

from llama import run_setup
from rounds import added, median, neighbours_text, number, table
from tracers import INFTRACE, Tracer, untraced

SETUPS = [("tiny", 1, False), ("tiny", 2, True), ("198 MB", 2, True)]


def told(path):
    """For each step of one token, the time reported as lost and the whole time. Means in ns."""
    with open(path) as f:
        lines = [json.loads(line) for line in f if line.endswith("\n")]
    steps = [x for x in lines if x["event"] == "token_prof" and x["shape"].get("n_tokens") == 1 and
             "tracer_us" in x["shape"]]
    if not steps:
        return 0, 0
    return (sum(s["shape"]["tracer_us"] for s in steps) * 1000 / len(steps),
            sum(s["stage_us"]["total"] for s in steps) * 1000 / len(steps))


class Told(Tracer):
    """inftrace, whose profile is read before its files are removed."""

    def __init__(self, name, *args, out=None):
        def command(t):
            return [INFTRACE, "record", *args, *(["-o", t.path(out)] if out else []),
                    "--profile", t.path("p.jsonl"), "-p", t.pid]
        super().__init__(name, command, out=out)
        self.told = []

    def stop(self):
        super().stop()
        self.told.append(told(self.path("p.jsonl")))


def weight(o):
    for model, threads, pool in SETUPS:
        title = f"llama.cpp, {model} model, {threads} thread{'s' * (threads > 1)}"
        if o.model not in title:
            continue
        tracers = [Told("--profile only"), Told("timeline", out="t.json")]
        results = run_setup(model, threads, pool, o, lambda engine: [untraced(), *tracers])
        print(f"\n### {title}: what is reported for a token, and what was measured\n\n{neighbours_text(results)}\n")
        rows = []
        for t in tracers:
            says = sorted(a for a, _ in t.told)[len(t.told) // 2]
            is_ns = added(results, t.name)
            rows.append([t.name, number(median(results["untraced"], "wall") / 1000), number(is_ns / 1000),
                         number(says / 1000), f"{says / is_ns:.2f}" if is_ns > 0 else ""])
        print(table(["", "us per token", "added us, measured", "reported", "reported / measured"], rows))
