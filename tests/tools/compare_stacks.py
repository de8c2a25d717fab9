#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the shares of functions in samples of the same run by inftrace and by perf.

    compare_stacks.py COLLAPSED PERF-SCRIPT

COLLAPSED: of inftrace export --collapsed. PERF-SCRIPT: of perf script -F ip,sym. For each of the 20 functions that are innermost most
often by either, the shares may differ by 2 points, or by what two random selections of so few samples differ by (4
standard deviations), if that is more. Prints lines as tests do, and the table as comments.
"""
import collections
import math
import re
import sys

TOP = 20
POINTS = 2.0
ADDED = re.compile(r"\.(isra|constprop|part|lto_priv|llvm)\.[0-9a-f].*|\.cold.*|@.*|\.localalias.*")


def plain(name):
    """As in the source, without parameters; code without a name is one function."""
    name = name.strip().removesuffix("_[k]")
    if name.startswith("["):
        return "[unknown]"
    name = ADDED.sub("", name)
    return name[: name.index("(")] if "(" in name and not name.startswith("(") else name


def read_collapsed(path):
    leaves, n = collections.Counter(), 0
    with open(path, encoding="utf-8") as f:
        for line in f:
            frames, count = line.rstrip("\n").rsplit(" ", 1)
            leaves[plain(frames.split(";")[-1])] += int(count)
            n += int(count)
    return leaves, n


def read_perf(path):
    """A line for each sample: address and name."""
    leaves = collections.Counter()
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            words = line.split(None, 1)
            if words:
                leaves[plain(words[1] if len(words) > 1 else "[unknown]")] += 1
    return leaves, sum(leaves.values())


def main():
    ours, n_ours = read_collapsed(sys.argv[1])
    theirs, n_theirs = read_perf(sys.argv[2])
    if not n_ours or not n_theirs:
        print(f"not ok shares of functions - {n_ours} samples of inftrace, {n_theirs} of perf")
        return 1
    share_a = {f: 100 * v / n_ours for f, v in ours.items()}
    share_b = {f: 100 * v / n_theirs for f, v in theirs.items()}
    top = {f for s in (share_a, share_b) for f in sorted(s, key=s.get, reverse=True)[:TOP]}
    bad, most = [], 0.0
    print(f"# {n_ours} samples of inftrace, {n_theirs} of perf")
    for f in sorted(top, key=lambda f: -share_b.get(f, 0)):
        a, b = share_a.get(f, 0), share_b.get(f, 0)
        p = (a * n_ours + b * n_theirs) / (n_ours + n_theirs) / 100
        noise = 400 * math.sqrt(p * (1 - p) * (1 / n_ours + 1 / n_theirs))
        print(f"# {a:6.2f} {b:6.2f} {a - b:+6.2f} {f}")
        most = max(most, abs(a - b))
        if abs(a - b) > max(POINTS, noise):
            bad.append(f"{f}: {a:.1f} %, perf {b:.1f} %")
    if bad:
        print(f"not ok shares of functions - {'; '.join(bad)} ({n_ours} and {n_theirs} samples)")
        return 1
    print(f"# at most {most:.2f} points")
    print("ok shares of functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
