#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The blocks of text that inftrace top prints, as JSON, a line each.

    top_blocks.py FILE

facts: "steps 12" and the like; states: NAME -> shares of each column; rows: NAME -> calls of the
tables; slow: the sentences; title."""
import json
import re
import sys


def parse(block):
    lines = block.splitlines()
    out = {"title": lines[0], "facts": {}, "states": {}, "rows": {}, "slow": []}
    part = "facts"
    for line in lines[1:]:
        if line.startswith(("Time of steps", "System calls", "Operators", "Slow steps")):
            part = {"T": "states", "S": "rows", "O": "rows"}[line[0]]
            if line.startswith("Slow"):
                part = "slow"
        elif part == "facts":
            for name, value in re.findall(r"([A-Za-z/][A-Za-z/ ]*?) ([0-9.]+)(?: %)?(?=  |$)", line):
                out["facts"][name.strip()] = float(value)
        elif part == "states":
            shares = re.findall(r"([0-9.]+) %|(-)(?: |$)", line[16:])
            out["states"][line[:16].strip()] = [float(share or 0) for share, _ in shares]
        elif part == "rows":
            name, calls = line.split()[:2]
            out["rows"][name] = float(calls)
        elif line.startswith("    "):
            out["slow"][-1] += " " + line.strip()
        else:
            out["slow"].append(line.strip())
    return out


with open(sys.argv[1], encoding="utf-8") as f:
    for text in f.read().split("\n\n"):
        print(json.dumps(parse(text)))
