#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the shares of functions in samples of the same run by inftrace and by perf.

    compare_stacks.py [--callers] COLLAPSED PERF-SCRIPT

COLLAPSED: of inftrace export --collapsed. PERF-SCRIPT: of perf script -F ip,sym. For each of the 20 functions that are innermost most
often by either, the shares may differ by 2 points, or by what two random selections of so few samples differ by (4
standard deviations), if that is more. With --callers the script has call chains; then it is also about the 20 functions that are most
often anywhere in a stack, and there have to be so many samples that 2 points are beyond chance. Of perf only chains count for that
which reach the start of a thread: it does not find the callers of some. Prints lines as tests do, and the table as comments.
"""
import collections
import math
import re
import sys

TOP = 20
POINTS = 2.0
STARTS = ("_start", "clone", "clone3", "__clone", "__clone3")
ENOUGH = 10000  # then 2 points are three standard deviations, also of a function with a quarter or three quarters
ADDED = re.compile(r"\.(isra|constprop|part|lto_priv|llvm)\.[0-9a-f].*|\.cold.*|@.*|\.localalias.*")


def plain(name):
    """As in the source, without parameters; code without a name is one function."""
    name = name.strip().removesuffix("_[k]")
    if name.startswith("["):
        return "[unknown]"
    name = ADDED.sub("", name)
    return name[: name.index("(")] if "(" in name and not name.startswith("(") else name


class Shares:
    """In how many of the samples each function is innermost, and in how many of those that reach a start it is anywhere."""

    def __init__(self):
        self.leaves, self.all, self.n, self.n_whole = collections.Counter(), collections.Counter(), 0, 0

    def add(self, names, count=1):
        """names: innermost first."""
        self.leaves[names[0]] += count
        self.n += count
        if names[-1] in STARTS:
            self.all.update({f: count for f in names})
            self.n_whole += count


def read_collapsed(path):
    shares = Shares()
    with open(path, encoding="utf-8") as f:
        for line in f:
            frames, count = line.rstrip("\n").rsplit(" ", 1)
            # the first is the name of the thread
            shares.add([plain(name) for name in reversed(frames.split(";")[1:])] or ["[unknown]"], int(count))
    return shares


def read_perf(path, callers):
    """A line for each sample: address and name. With call chains it ends with an empty line."""
    shares, names = Shares(), []
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            words = line.split(None, 1)
            if words:
                names.append(plain(words[1] if len(words) > 1 else "[unknown]"))
            if names and not (words and callers):
                shares.add(names)
                names = []
    if names:
        shares.add(names)
    return shares


def compare(what, a, b, n_a, n_b, strict):
    """a, b: the number of samples of each function. Prints a result."""
    top = {f for counts in (a, b) for f in sorted(counts, key=counts.get, reverse=True)[:TOP]}
    bad, most = [], 0.0
    print(f"# {what}: {n_a} samples of inftrace, {n_b} of perf")
    for f in sorted(top, key=lambda f: -b[f]):
        share_a, share_b, p = 100 * a[f] / n_a, 100 * b[f] / n_b, (a[f] + b[f]) / (n_a + n_b)
        noise = 400 * math.sqrt(max(0, p * (1 - p)) * (1 / n_a + 1 / n_b))
        print(f"# {share_a:6.2f} {share_b:6.2f} {share_a - share_b:+6.2f} {f}")
        most = max(most, abs(share_a - share_b))
        if abs(share_a - share_b) > (POINTS if strict else max(POINTS, noise)):
            bad.append(f"{f}: {share_a:.1f} %, perf {share_b:.1f} %")
    if bad:
        print(f"not ok {what} - {'; '.join(bad)} ({n_a} and {n_b} samples)")
        return False
    print(f"# at most {most:.2f} points")
    print(f"ok {what}")
    return True


def main():
    callers = sys.argv[1] == "--callers"
    ours, theirs = read_collapsed(sys.argv[1 + callers]), read_perf(sys.argv[2 + callers], callers)
    enough = ENOUGH if callers else 1
    n = (ours.n_whole, theirs.n_whole) if callers else (ours.n, theirs.n)
    if min(n) < enough:
        print(f"not ok shares of functions - {n[0]} samples of inftrace, {n[1]} of perf: {enough} are needed")
        return 1
    ok = compare("shares of functions", ours.leaves, theirs.leaves, ours.n, theirs.n, callers)
    if callers:
        print(f"# to the start of a thread: {ours.n_whole} of inftrace, {theirs.n_whole} of perf")
        ok &= compare("shares of functions with what they call", ours.all, theirs.all, *n, True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
