# SPDX-License-Identifier: BSD-2-Clause
"""Interleaved rounds of measurements, and what is made of them."""

import os
import statistics
import sys
import time

from tracers import DRAIN_S, Failed, have


class Sample:
    """One variant in one round: nanoseconds per operation, and what the tracer itself took."""

    def __init__(self, wall, cpu, own=None, kept=None, size=None, peak=None, lost=""):
        self.wall, self.cpu, self.own, self.kept = wall, cpu, own, kept
        self.size, self.peak, self.lost = size, peak, lost
        self.ready = self.stop = None


def measure(load, tracer, what, ops, bystander_pid):
    """Attaches the tracer, has the load do it, and takes the tracer away again."""
    if tracer.weight == 0:
        load.run(what, ops // 10)
        return Sample(*load.run(what, ops))
    ops = max(ops // tracer.weight, 1000)
    try:
        tracer.start(bystander_pid if tracer.bystander else load.pid)
        load.run(what, ops // 10)
        time.sleep(DRAIN_S)
        before = tracer.own_cpu_ns()
        wall, cpu = load.run(what, ops)
        time.sleep(DRAIN_S)
        own = (tracer.own_cpu_ns() - before) / ops
        peak = tracer.peak_kib()
        tracer.stop()
        kept, size = tracer.kept()
        if kept is not None:
            kept /= ops + ops // 10
        if size is not None:
            size /= ops + ops // 10
        s = Sample(wall, cpu, own, kept, size, peak, tracer.lost())
        s.ready, s.stop = tracer.ready_s, tracer.stop_s
        return s
    finally:
        tracer.clean()


def interleave(variants, rounds, one):
    """one(variant) measures once. Returns a list of samples per variant, round by round; a variant
    that cannot be measured is said and left out."""
    results = {v.name: [] for v in variants}
    broken = set()
    for v in variants:
        if v.needs and not have(v.needs):
            print(f"skip {v.name} - {v.needs} is not installed", file=sys.stderr)
            broken.add(v.name)
    for r in range(rounds):
        begin = time.monotonic()
        for v in variants:
            if v.name in broken:
                continue
            try:
                results[v.name].append(one(v))
            except Failed as e:
                print(f"left out: {e}", file=sys.stderr)
                broken.add(v.name)
        print(f"  round {r + 1} of {rounds}: {time.monotonic() - begin:.0f} s, "
              f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return {name: s for name, s in results.items() if s and name not in broken}


def median(samples, key):
    values = [getattr(s, key) for s in samples if getattr(s, key) is not None]
    return statistics.median(values) if values else None


def added(results, name, key="wall", base="untraced"):
    """The median over the rounds of what it adds to the untraced run of the same round."""
    return statistics.median(getattr(a, key) - getattr(b, key)
                             for a, b in zip(results[name], results[base]))


def spread(results, name, base="untraced"):
    """The quartiles of what it adds."""
    d = sorted(a.wall - b.wall for a, b in zip(results[name], results[base]))
    return d[len(d) // 4], d[-1 - len(d) // 4]


def number(v):
    if v is None:
        return ""
    if abs(v) >= 10000:
        return f"{v:,.0f}"
    if abs(v) >= 100:
        return f"{v:.0f}"
    return f"{v:.1f}" if abs(v) >= 10 else f"{v:.2f}"


def table(headers, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(headers) + " |",
             "|" + "|".join("---" if i == 0 else "---:" for i in range(len(headers))) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def cost_table(results, unit, floor=None, per=1, scale=1):
    """per: operations of the load in each; scale: ns per unit. floor: the variant to compare with."""
    headers = ["", f"{unit}", "added", "quartiles"]
    headers += ["x floor"] if floor in results else []
    headers += ["own CPU, ns", "kept", "bytes each"]
    rows = []
    for name, samples in results.items():
        row = [name, number(median(samples, "wall") / per / scale)]
        if name == "untraced":
            row += ["", ""] + ([""] if floor in results else [])
        else:
            low, high = spread(results, name)
            plus = added(results, name)
            row += ["+" + number(plus / per / scale), f"{number(low / per / scale)} to {number(high / per / scale)}"]
            if floor in results:
                row.append(number(plus / added(results, floor)))
        kept = median(samples, "kept")
        own, size = median(samples, "own"), median(samples, "size")
        row += [number(own / per) if own is not None else "", f"{kept / per:.1%}" if kept is not None else "",
                number(size / per) if size else ""]
        rows.append(row)
    return table(headers, rows)
