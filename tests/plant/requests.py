#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Disturbs requests that share their steps, in a known way, and tells whether the profile's lines of these requests
name who or what it was. Needs root, and a checkout that is built.

prompt  every 15th request has a prompt of 1,024 tokens, which is decoded while eight others wait for tokens.
        Its victims wait for it by name: waitedN_for.
sleep, cpu, pipe
        the sampler of one request stalls between two steps; all that are being answered have to wait, and find
        it in the state of the time between steps: between_blocked_sleep, between_cpu, between_blocked_ipc.
client  requests come by HTTP, and the client of every fifth reads its answer slowly: answered, in write_blocked_us.
queue   they come faster than two slots can answer them: queued. For both the socket has to be joined.

What a request lost is known from the driver's own log and clock: it counts as a victim if that is at least a tenth of
its time. It is named if the profile says so. Those that are within a fifth of that limit are not judged. The exit
code is 1 when precision or recall are below PLANT_TARGET, of all together, or below PLANT_EACH for one cause. Beside
other load a cause may have three victims, of which one is wrong.
"""

import argparse
import bisect
import collections
import json
import os
import random
import shlex
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../programs"))

from check_requests import Request, Step, begin_steps, match_steps  # noqa: E402
from engine import INFTRACE, PLANT, TOP, Failed, Processes, line_from, wait_recording  # noqa: E402
from reading import ns, read_lines  # noqa: E402

CLIENT = os.path.join(HERE, "../programs/serve_client.py")
LIMIT = 1 / 10
TARGET = float(os.environ.get("PLANT_TARGET", "0.98"))
EACH = float(os.environ.get("PLANT_EACH", TARGET))
STALLS = {"sleep": "blocked_sleep", "cpu": "cpu", "pipe": "blocked_ipc"}
HTTP = {  # slots; arguments of serve_client.py behind the number of requests
    "client": ("4", ["20", "20", "5"]),
    "queue": ("2", ["5", "60"]),
}
CAUSES = ("prompt", *STALLS, *HTTP)
STALL_US = 20000
COLUMNS = ("cause", "planted", "victims", "named", "missed", "others", "false", "precision", "recall", "close")


def options(cause, seed, times):
    if cause == "prompt":
        return ["-p", "9", "-a", "4", "-n", "60", "-m", "60", "-x", "0", "-c", "1280", "-b", "256", "-L", "15:1024",
                "-r", str(15 * times), "-s", str(seed)]
    return ["-p", "8", "-a", "6", "-n", "40", "-m", "60", "-x", "5", "-r", str(20 * times), "-s", str(seed),
            "-S", f"4:{STALL_US}:{cause}"]


def prepare():
    script = ('. tests/engines/engines.sh; libs=$(llama_libs) && driver=$(serve_driver) && model=$(llama_model mite) && '
              'echo "$driver" "$libs" "$model"')
    made = subprocess.run(["bash", "-c", "set -eu; TOP=" + shlex.quote(TOP) + "; cd $TOP; " + script], capture_output=True,
                          text=True)
    if made.returncode or not os.path.exists(INFTRACE):
        raise Failed(made.stderr.strip() or f"no {INFTRACE}: build it first")
    return made.stdout.split()


def record(engine, cause, seed, times, folder):
    driver, libs, model = engine
    log, profile = os.path.join(folder, f"{cause}.log"), os.path.join(folder, f"{cause}.jsonl")
    if os.path.exists(profile):
        os.unlink(profile)
    with Processes() as run:
        served = run.start([driver, "-w", "-l", log, *options(cause, seed, times), libs, model], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE)
        line_from(served, "the driver", "ready")
        tracer = run.start([INFTRACE, "record", "--strict", "--profile", profile, "-p", str(served.pid)],
                           stderr=open(os.path.join(folder, f"{cause}.err"), "w"))
        wait_recording(tracer, os.path.join(folder, f"{cause}.err"))
        served.stdin.write("\n")
        served.stdin.close()
        if served.wait() or tracer.wait():
            raise Failed(f"{cause}: the driver or inftrace failed; see {folder}")
    return read_lines(log), read_lines(profile)


def record_http(engine, cause, times, folder):
    driver, libs, model = engine
    log, profile, err = (os.path.join(folder, f"{cause}.{kind}") for kind in ("log", "jsonl", "err"))
    slots, asked = HTTP[cause]
    if os.path.exists(profile):
        os.unlink(profile)
    with Processes() as run:
        served = run.start([driver, "-H", "-p", slots, "-l", log, libs, model], stdout=subprocess.PIPE)
        port = served.stdout.readline().strip()
        line_from(served, "the driver", "ready")
        tracer = run.start([INFTRACE, "record", "--strict", "-e", "+requests", "--profile", profile, "-p", str(served.pid)],
                           stderr=open(err, "w"))
        wait_recording(tracer, err)
        client = subprocess.run([CLIENT, port, str(5 * times), *asked], capture_output=True, text=True, timeout=120)
        served.terminate()
        if client.returncode or served.wait() or tracer.wait():
            raise Failed(f"{cause}: the driver, its clients or inftrace failed; see {folder}")
    return read_lines(log), read_lines(profile), {e["name"]: e for e in map(json.loads, client.stdout.splitlines())}


class Run:
    """The requests of a run, each with the line that inftrace has of it."""

    def __init__(self, log, profile):
        self.steps = [Step(e) for e in log if "parts" in e]
        self.requests = [Request(e, self.steps) for e in log if "cached" in e]
        self.stalls = [e for e in log if "stall" in e]
        match_steps(self.steps, profile, True)
        at = {(e["shape"]["sequence"], begin_steps(e)): e for e in profile
              if e["event"] == "request_prof" and e["shape"]["source_kind"] == "sequence"}
        self.lines = {r.id: at.get((r.sequence, r.carried[0].start)) for r in self.requests}
        missing = [i for i, e in self.lines.items() if not e]
        if missing or len(at) != len(self.requests):
            raise Failed(f"no line for the requests {missing}; there are {len(at)} lines")
        self.numbers = {i: e["shape"]["number"] for i, e in self.lines.items()}

    def time(self, r):
        return r.carried[-1].after - r.carried[0].before


def judge_prompt(run, count):
    """Of each pair of a request with a long prompt and one that was being answered meanwhile: by how much the steps with rows
    of that prompt took longer than steps without any prompt do, of as many rows. (Of one that had rows of its own prompt
    beside them, that cannot be told.)"""
    usual = collections.defaultdict(list)
    for s in run.steps:
        if not s.prompt:
            usual[s.rows].append(s.after - s.before)
    sizes = sorted(usual)
    long = [r for r in run.requests if r.prompt >= 1024]
    count["planted"] = len(long)

    def usual_time(rows):
        return statistics.median(usual[sizes[min(bisect.bisect_left(sizes, rows), len(sizes) - 1)]])

    for r in run.requests:
        if r in long:
            continue
        shape, total = run.lines[r.id]["shape"], ns(run.lines[r.id]["stage_us"]["total"])
        waited = {shape[f"waited{i}_for"]: ns(shape[f"waited{i}_us"]) for i in range(1, 9) if f"waited{i}_for" in shape}
        for other in long:
            beside = [s for s in other.carried if r.id in s.parts and other.part(s).prompt]
            lost = 0
            if any(r.part(s).prompt for s in beside):
                continue
            for s in beside:
                more = s.after - s.before - usual_time(s.rows - s.prompt)
                lost += max(0, more) * other.part(s).prompt / s.prompt
            yield lost / run.time(r), waited.get(run.numbers[other.id], 0) / total, (r, {"for": other.id})


def judge_stalls(run, count, state):
    """Of each request: the stalls between its steps, and what it has more of that state than others do between two steps."""
    count["planted"] = len(run.stalls)
    between, lost = {}, {}
    for r in run.requests:
        stage = run.lines[r.id]["stage_us"]
        between[r.id] = ns(stage.get(f"between_{state}", 0))
        lost[r.id] = sum(e["cpu"] if state == "cpu" else e["end"] - e["start"] - e["cpu"] for e in run.stalls
                         if r.first_step <= e["step"] < r.last_step)
    usual = [between[r.id] / (len(r.all) - 1) for r in run.requests if not lost[r.id] and len(r.all) > 1]
    for r in run.requests:
        more = between[r.id] - statistics.median(usual) * (len(r.all) - 1)
        yield lost[r.id] / run.time(r), more / ns(run.lines[r.id]["stage_us"]["total"]), (r, {})


def judge_client(run, count, asked):
    """Of each request: how much of its client's time was behind the last step, and in calls that wait for a client. Other
    clients may be late themselves, on a busy machine: those are not judged."""
    count["planted"] = sum(e["slow"] for e in asked.values())
    for r in run.requests:
        e, client = run.lines[r.id], asked[r.name]
        answered, write = ns(e["stage_us"].get("answered", 0)), ns(e["shape"].get("write_blocked_us", 0))
        lost = max(0, client["last"] - r.carried[-1].after) / (client["last"] - client["connected"])
        if lost >= LIMIT and not client["slow"]:
            count["close"] += 1
            continue
        yield lost, answered / (ns(e["stage_us"]["total"]) + answered) if 2 * write >= answered else 0, (r, client)


def judge_queue(run, count, asked):
    """Of each request: how much of the time until its last step was before its first. Its first bytes were read after the client
    sent them and after the server began to wait for them, and before the server read its clock again. Where that is not
    enough to tell, because the thread that read them had no CPU in between, it is not judged."""
    for r in run.requests:
        stage, client = run.lines[r.id]["stage_us"], asked[r.name]
        least, most = ((r.carried[0].before - at) / (r.carried[-1].after - at) for at in
                       (r.arrived, max(client["sent"], r.waiting)))
        count["planted"] += least >= LIMIT
        if least < LIMIT <= most:
            count["close"] += 1
            continue
        yield least, stage.get("queued", 0) / stage["total"], (r, client)


def tell(run, what, lost, said, r, more):
    """What the driver's log and the profile have of a request about which they disagree."""
    e = run.lines[r.id]
    log = {k: v for k, v in vars(r).items() if isinstance(v, (int, str))}
    print(f"# {what}: request {r.id}, lost {lost:.4f}, said {said:.4f}; log {log}, from {r.carried[0].before} to "
          f"{r.carried[-1].after}; {more}; profile {json.dumps(e)}", flush=True)


def judge(cause, run, asked, verbose):
    count = collections.Counter()
    if cause in HTTP:
        pairs = {"client": judge_client, "queue": judge_queue}[cause](run, count, asked)
    else:
        pairs = judge_prompt(run, count) if cause == "prompt" else judge_stalls(run, count, STALLS[cause])
    for lost, said, about in pairs:
        if 0.8 * LIMIT < lost < 1.2 * LIMIT:
            count["close"] += 1
        elif lost >= LIMIT:
            count["victims"] += 1
            count["named" if said >= LIMIT else "missed"] += 1
        else:
            count["others"] += 1
            count["false"] += said >= LIMIT
        if verbose and (said >= LIMIT) != (lost >= LIMIT) and not 0.8 * LIMIT < lost < 1.2 * LIMIT:
            tell(run, "missed" if lost >= LIMIT else "false", lost, said, *about)
    return count


def share(part, whole):
    return part / whole if whole else 1.0


def row(name, n, target):
    """Prints it; whether it meets the target."""
    p, r = share(n["named"], n["named"] + n["false"]), share(n["named"], n["victims"])
    print(" ".join(str(c).ljust(len(k) + 3) for k, c in zip(COLUMNS, (
        name, *(n[k] for k in COLUMNS[1:7]), f"{p:.3f}", f"{r:.3f}", n["close"]))).rstrip(), flush=True)
    return min(p, r) >= target


def planted(engine, name, seed, o, folder):
    # where everybody waits for a CPU, nobody may have waited clearly longer for what was planted: then once more
    for turn in range(4):
        asked = None
        if name in HTTP:
            log, profile, asked = record_http(engine, name, o.times, folder)
        else:
            log, profile = record(engine, name, seed + turn, o.times, folder)
        n = judge(name, Run(log, profile), asked, o.verbose)
        if n["victims"]:
            return n
        print(f"{name}: no victims")
    raise Failed(f"{name}: no victims, four times")


def main():
    p = argparse.ArgumentParser(prog="tests/plant/requests.py", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cause", nargs="*", metavar="CAUSE", help=f"of {', '.join(CAUSES)} (default: all)")
    p.add_argument("-n", "--times", type=int, default=25, help="about so many plants of each (25)")
    p.add_argument("-s", "--seed", type=int, default=None)
    p.add_argument("-v", "--verbose", action="store_true", help="tells of each that was not right")
    o = p.parse_args()
    for name in o.cause:
        if name not in CAUSES:
            p.error(f"{name}: no such cause; there are {', '.join(CAUSES)}")
    if os.geteuid():
        raise Failed("tracing needs root")
    engine, ok, every = prepare(), True, collections.Counter()
    seed = o.seed if o.seed is not None else random.randrange(1, 1 << 31)
    print(f"seed {seed}")
    print(" ".join(c.ljust(len(c) + 3) for c in COLUMNS).rstrip())
    folder = os.path.join(PLANT, "requests")
    os.makedirs(folder, exist_ok=True)
    for name in o.cause or CAUSES:
        n = planted(engine, name, seed, o, folder)
        ok &= row(name, n, EACH)
        every.update(n)
    ok &= row("all", every, TARGET)
    return 0 if ok else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as e:
        sys.exit(f"plant: {e}")
