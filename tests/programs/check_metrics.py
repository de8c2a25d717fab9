#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_metrics.py TRACE OUT: the counters of a trace against what metrics_server.py has printed: of each page all of its values, once,
after it was asked for and before the next one was."""
import collections
import sys

from check import Differences, events_of, start
from reading import read_lines

OWN = {"up", "scrape_duration_seconds"}


def main(trace, out):
    d = Differences()
    events = events_of(trace)
    clock = next(e for e in events if e["name"] == "inftrace_clock")
    origin = int(clock["args"]["boottime_ns"]) - start(clock)
    pages = read_lines(out)
    got = collections.defaultdict(list)  # by the number of the page
    for e in events:
        if e.get("cat") == "metrics":
            at = origin + start(e)
            got[sum(p["from"] <= at for p in pages) - 1].append((e["name"], *e["args"].values()))
    for n, values in got.items():
        names = [name for name, _ in values]
        d.equal(f"page {n}: own values", {name for name in names if name in OWN}, OWN)
        d.equal(f"page {n}: it is up", ("up", 1) in values, True)
        d.equal(f"page {n}: each once", len(names), len(set(names)))
        d.equal(f"page {n}", {name: value for name, value in values if name not in OWN}, pages[n]["values"] if n >= 0 else None)
    numbers = sorted(got)
    d.equal("pages that are missing", [n for n in range(numbers[0], numbers[-1]) if n not in got] if numbers else None, [])
    d.equal("there are pages", len(got) > 1, True)
    print(f"{len(got)} of {len(pages)} pages")
    sys.exit(d.n > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
