#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
#
#   unknown_steps.py PRESET LIBRARY
#
# Prints the C functions that a library of an engine exports, from which ggml's computing of a graph is reached, by calls
# and jumps in its code, other than through a step of the preset. They may be steps of a newer release. Calls through tables
# of virtual functions are not followed, so it is an error if a step of the preset does not seem to compute either.
import bisect
import fnmatch
import json
import re
import subprocess
import sys

COMPUTES = re.compile(r"ggml_\w*graph_\w*compute\w*|ggml_opt_(eval|epoch|fit)")

NO_STEPS = {
    "llama_opt_epoch": "training",
}

# a call or jump of x86 or arm64, and what objdump says about where it leads
CALL = re.compile(r"(?m)^ *(\w+):\t(?:bnd |notrack )?(?:call|j\w+|bl?|b\.\w+|cbn?z|tbn?z)\s.*?(# )?\b(\w+) <([^>@]+)(@plt>)?")


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def symbols(path, *option):
    lines = (line.split() for line in output("nm", "--defined-only", *option, path).splitlines())
    return {name.split("@")[0]: int(at, 16) for at, kind, name in lines if kind in "tTwWi"}


def steps(preset, names):
    for probe in json.load(open(preset))["probes"]:
        if probe["role"] == "step" and not probe.get("stand_in"):
            listed = probe.get("symbol", probe.get("begin", probe.get("instant")))
            for glob in [listed] if isinstance(listed, str) else listed:
                yield from fnmatch.filter(names, glob)


def callers_of(path, names):
    """By the address of a function, or the name of one that is not of this library: where those begin that call it."""
    frames = output("readelf", "--debug-dump=frames", path)
    starts = sorted({int(at, 16) for at in re.findall(r" pc=(\w+)\.\.", frames)} | set(names.values()))

    def function(at):
        return starts[bisect.bisect(starts, at) - 1]

    callers = {}
    for at, table, to, name, plt in CALL.findall(output("objdump", "-d", "--no-show-raw-insn", path)):
        callee = names.get(name, name) if table or plt else function(int(to, 16))
        callers.setdefault(callee, set()).add(function(int(at, 16)))
    return callers


preset, path = sys.argv[1:]
exported = symbols(path, "-D")
names = exported | symbols(path)
callers = callers_of(path, names)
known = {names[step] for step in steps(preset, names)}
computes, todo = set(), [f for f in callers if isinstance(f, str) and COMPUTES.fullmatch(f)]
while todo:
    new = callers.get(todo.pop(), set()) - computes
    computes |= new
    todo += new - known
if not known or known - computes:
    sys.exit("error: no call of ggml is found that computes a graph for %s" % (
        ", ".join(n for n in exported if exported[n] in known - computes) or "any step of the preset"))
print(*sorted(n for n in exported if exported[n] in computes - known and not n.startswith("_Z") and n not in NO_STEPS), sep="\n")
