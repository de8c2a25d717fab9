# SPDX-License-Identifier: BSD-2-Clause
"""Interleaved rounds of measurements, and the tables made of them."""

import os
import statistics
import sys
import time

from tracers import DRAIN_S, QUIET, Failed, Neighbours, have, tracers_attached, wait_for_quiet


class Sample:
    """One variant in one round: nanoseconds per operation, and what the tracer itself took."""

    def __init__(self, wall, cpu, own=None, kept=None, size=None, peak=None, lost=""):
        self.wall, self.cpu, self.own, self.kept = wall, cpu, own, kept
        self.size, self.peak, self.lost = size, peak, lost
        self.neighbours = 0  # of a CPU


BATCHES = 5


def batches(load, what, ops):
    """The medians of a few runs: one that other work on the machine disturbed does not count."""
    load.run(what, ops // BATCHES)
    runs = [load.run(what, ops // BATCHES) for _ in range(BATCHES)]
    return statistics.median(w for w, _ in runs), statistics.median(c for _, c in runs)


def measure(load, tracer, what, ops, bystander_pid):
    """Attaches the tracer, has the load do it, and takes the tracer away again."""
    if tracer.weight == 0:
        n = Neighbours(load.pid)
        s = Sample(*batches(load, what, ops))
        s.neighbours = n.share()
        return s
    ops = max(ops // tracer.weight, 1000)
    done = ops // BATCHES * (BATCHES + 1)
    try:
        tracer.start(bystander_pid if tracer.bystander else load.pid)
        before, n = tracer.own_cpu_ns(), Neighbours(load.pid, tracer.proc.pid)
        wall, cpu = batches(load, what, ops)
        neighbours = n.share()
        time.sleep(DRAIN_S)
        own = (tracer.own_cpu_ns() - before) / done
        peak = tracer.peak_kib()
        tracer.stop()
        kept, size = tracer.kept()
        if kept is not None and kept < done / 2:
            raise Failed(f"{tracer.name}: has {kept} of {done} records")
        if kept is not None:
            kept /= done
        if size is not None:
            size /= done
        s = Sample(wall, cpu, own, kept, size, peak, tracer.lost())
        s.neighbours = neighbours
        return s
    finally:
        tracer.clean()


def measure_quietly(one, variant, o, pids):
    """The quietest of a few tries; the first one that is quiet enough ends them."""
    best = failed = None
    for _ in range(o.tries):
        wait_for_quiet(o.wait, *pids)
        traced = tracers_attached()
        try:
            s = one(variant)
            s.neighbours += traced  # as bad as a CPU less
        except Failed as e:
            failed = e
            continue
        if best is None or s.neighbours < best.neighbours:
            best = s
        if best.neighbours < QUIET:
            break
    if best is None:
        raise failed
    return best


def interleave(variants, o, one, pids):
    """one(variant) measures once; pids: the processes that run all the time. Returns a list of
    samples per variant, round by round; a variant that cannot be measured is reported and left out."""
    results = {v.name: [] for v in variants}
    broken = set()
    for v in variants:
        if v.needs and not have(v.needs):
            print(f"skip {v.name} - {v.needs} is not installed", file=sys.stderr)
            broken.add(v.name)
    for r in range(o.rounds):
        begin = time.monotonic()
        for v in variants:
            if v.name in broken:
                continue
            try:
                results[v.name].append(measure_quietly(one, v, o, pids))
            except Failed as e:
                print(f"left out: {e}", file=sys.stderr)
                broken.add(v.name)
        print(f"  round {r + 1} of {o.rounds}: {time.monotonic() - begin:.0f} s, "
              f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return {name: s for name, s in results.items() if s and name not in broken}


def neighbours_text(results):
    shares = sorted(s.neighbours for samples in results.values() for s in samples)
    return (f"{len(next(iter(results.values())))} rounds; other processes took {statistics.median(shares):.0%} "
            f"of a CPU in the median measurement, {shares[-1]:.0%} at most.")


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


def signed(v):
    return ("+" if v >= 0 else "-") + number(abs(v))


def table(headers, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(headers) + " |",
             "|" + "|".join("---" if i == 0 else "---:" for i in range(len(headers))) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def cost_table(results, floor, per=1):
    """ns per operation; per: how many of them each operation of the load has. floor: the variant
    that the others are compared with, in CPU time, which the neighbours disturb less."""
    rows = []
    for name, samples in results.items():
        kept, own, size = (median(samples, key) for key in ("kept", "own", "size"))
        row = [name, number(median(samples, "wall") / per)]
        if name == "untraced":
            row += [""] * 4
        else:
            low, high = spread(results, name)
            row += [signed(added(results, name) / per), f"{signed(low / per)} to {signed(high / per)}",
                    signed(added(results, name, "cpu") / per),
                    number(added(results, name, "cpu") / added(results, floor, "cpu"))
                    if floor in results else ""]
        row += [number(own / per) if own is not None else "", f"{kept / per:.1%}" if kept is not None else "",
                number(size / per) if size else ""]
        rows.append(row)
    return table(["ns", "each", "added", "quartiles", "added CPU time", "x floor", "tracer's own CPU", "kept",
                  "bytes each"], rows)
