#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes a function in Python slow in one step of 20, records the program with samples, and tells whether the sentences of
slow steps name that function. Needs root, and a checkout that is built.

A plant is one run of slow_python.py, or with --torch of slow_torch.py, whose steps are calls of a Python function
(--py-step), with another function or in other steps. It is found if the first row of the
difference between slow and typical steps names it. Of the steps: `right` are planted ones
whose sentence names it, as the function or as that which called it, `missed` planted ones that name nothing or something
else, `false` others that name a function of the program. Planted ones that waited for a CPU for most of their time
are not judged unless they are right: `disturbed`. The exit code is 1 when a plant is not found,
or when precision or recall are below the target.
"""

import argparse
import collections
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))

from engine import INFTRACE, PLANT, TIMEOUT_S, Failed, Processes, line_from, lines_of, wait_recording  # noqa: E402

STEP = "slow_torch.py:Model.forward"
LIBRARY = os.path.join(PLANT, "libplant_call.so")
TARGET = float(os.environ.get("PLANT_TARGET", "0.98"))
COLUMNS = ("seed", "slow", "found", "planted", "right", "missed", "others", "false", "disturbed")


def with_torch():
    """The first interpreter that has it; one of another origin may be first in PATH."""
    for python in (sys.executable, "/usr/bin/python3"):
        if not subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
            return python
    raise Failed("no python3 has torch (apt-get install --no-install-recommends python3-torch)")


class Program:
    def __init__(self, torch):
        self.name = "slow_torch.py" if torch else "slow_python.py"
        self.command = [with_torch() if torch else sys.executable, os.path.join(HERE, self.name)]
        self.command += [] if torch else [LIBRARY]
        self.step = ["--py-step", STEP] if torch else ["-u", f"{LIBRARY}:plant_call()@step"]


def record(what, seed, steps, rate, folder):
    profile, err = os.path.join(folder, "python.jsonl"), os.path.join(folder, "python.err")
    if os.path.exists(profile):
        os.unlink(profile)
    with Processes() as run:
        program = run.start([*what.command, str(seed), str(steps)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
        line_from(program, "the program", "ready")
        tracer = run.start([INFTRACE, "record", "--strict", "-e", "-functions", "-e", "+samples", "--sample-rate", str(rate),
                            "--engine", "none", *what.step, "--profile", profile, "-p", str(program.pid)], stderr=open(err, "w"))
        wait_recording(tracer, err)
        program.stdin.write("\n")
        program.stdin.flush()
        said = program.stdout.readline()
        program.stdin.write("\n")
        program.stdin.close()
        if program.wait(timeout=TIMEOUT_S) or tracer.wait(timeout=TIMEOUT_S) or not said:
            raise Failed(f"seed {seed}: the program or inftrace failed; see {folder}")
    return json.loads(said), profile


def report(profile, pid):
    run = subprocess.run([INFTRACE, "report", "--json", "-n", "100000", profile], capture_output=True, text=True)
    if run.returncode:
        raise Failed(f"inftrace report: {run.stderr.strip()}")
    process, = (p for p in json.loads(run.stdout)["processes"] if p["pid"] == pid)
    return process


def function_of(text):
    """plant_loop (slow_python.py) -> plant_loop; None: no function in the program's file."""
    name, _, place = text.partition(" (")
    return name if place.startswith(("slow_python.py", "slow_torch.py")) else None


def names_of(hot):
    """The functions of the program that a slow step, or a row of a difference, names."""
    return {function_of(hot[k]) for k in ("function", "called_from", "used_by") if k in hot} - {None}


def first_named(process):
    """The function of the program that the first row of the difference names: itself, or as that which called it."""
    diffs = [d for d in process.get("slow_code", []) if d["state"] == "cpu"]
    return next((f for d in diffs[:1] for row in d["functions"][:1] for f in names_of(row)), None)


def judge(said, profile, verbose):
    process = report(profile, said["pid"])
    steps = sorted((e["shape"]["step"], e["stage_us"]) for e in lines_of(profile) if e["event"] == "token_prof")
    if len(steps) <= max(said["planted"], default=0):
        raise Failed(f"{len(steps)} steps were recorded")
    planted = {steps[i][0] for i in said["planted"]}
    disturbed = {n for n, stage in steps if stage.get("runnable", 0) > stage["total"] / 2}
    named = {s["step"]: set().union(*(names_of(s[k]) for k in ("code", "second_code") if k in s)) for s in process["slowest"]}
    right = {n for n in planted if named.get(n, set()) & set(said["slow"])}
    wrong = {n for n in named if named[n] and n not in right}
    missed = planted - right - disturbed
    if verbose:
        print(f"# first: {first_named(process)}")
        for s in process["slowest"]:
            if s["step"] in wrong | missed:
                print(f"# {s['text']}")
    return collections.Counter(
        found=first_named(process) in said["slow"], planted=len(planted), right=len(right), missed=len(missed),
        others=len(steps) - len(planted), false=len(wrong), disturbed=len(planted - right) - len(missed))


def share(part, whole):
    return part / whole if whole else 1.0


def main():
    p = argparse.ArgumentParser(prog="tests/plant/python.py", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", "--plants", type=int, default=20)
    p.add_argument("-s", "--seed", type=int, default=0, help="of the first plant; the others have those that follow")
    p.add_argument("--steps", type=int, default=200, help="of each plant (200)")
    p.add_argument("--rate", type=int, default=999, help="samples a second (999)")
    p.add_argument("--torch", action="store_true", help="a generate loop of PyTorch")
    p.add_argument("-v", "--verbose", action="store_true", help="tells of each that was not right")
    o = p.parse_args()
    if os.geteuid():
        raise Failed("tracing needs root")
    made = subprocess.run(["make", "-s", "-C", HERE, f"O={PLANT}", LIBRARY], capture_output=True, text=True)
    if made.returncode or not os.path.exists(INFTRACE):
        raise Failed(made.stderr.strip() or f"no {INFTRACE}: build it first")
    folder = os.path.join(PLANT, "python")
    os.makedirs(folder, exist_ok=True)
    what = Program(o.torch)
    all_of = collections.Counter()
    print("".join(c.ljust(8 if c != "slow" else 26) for c in COLUMNS).rstrip())
    for seed in range(o.seed, o.seed + o.plants):
        said, profile = record(what, seed, o.steps, o.rate, folder)
        n = judge(said, profile, o.verbose)
        all_of += n
        print(str(seed).ljust(8) + said["slow"][0].ljust(26) +
              "".join(str(n[c]).ljust(8) for c in COLUMNS[2:]).rstrip(), flush=True)
    precision = share(all_of["right"], all_of["right"] + all_of["false"])
    recall = share(all_of["right"], all_of["right"] + all_of["missed"])
    print(f"found {all_of['found']} of {o.plants}, precision {precision:.3f}, recall {recall:.3f}")
    return 0 if all_of["found"] == o.plants and precision >= TARGET and recall >= TARGET else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as e:
        sys.exit(f"plant: {e}")
