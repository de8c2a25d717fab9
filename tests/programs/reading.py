# SPDX-License-Identifier: BSD-2-Clause
"""Traces, profiles and logs, as the checks read them."""
import gzip
import json
import sys


def read_lines(path, event=None):
    """The lines that are JSON objects; of a profile those of an event."""
    found = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            try:
                found += [json.loads(line)] if line.startswith("{") else []
            except ValueError:
                if line.endswith("\n"):  # else it is not whole yet
                    raise
    return [line for line in found if event in (None, line.get("event"))]


def read_trace(path):
    """The events of a trace, also of one without its end; those without arguments have an empty "args"."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
        text = f.read().rstrip()
    return json.loads(text if text.endswith("]") else text.rstrip(",") + "]",
                      object_hook=lambda d: {"args": {}, **d} if "ph" in d else d)


def ns(us):
    """Of microseconds with three decimals, which a double holds up to years."""
    return round(us * 1000)


def rank(values, percent):
    """The percentile that is one of the values."""
    return sorted(values)[(len(values) * percent + 99) // 100 - 1]


def require(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got}, wanted {wanted}")
