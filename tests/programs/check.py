#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what inftrace wrote with counts that come from elsewhere.

  check.py sections TRACE OUT            OUT: what a program here printed (section.h)
  check.py strace TRACE OUT TABLE OUT2   TABLE: strace -fc -U name,calls,errors of a second run
  check.py faults PROFILE OUT            OUT: of faults
  check.py states TRACE PROFILE OUT      OUT: of states
  check.py llama TRACE PROFILE LOG NODES of a run of the llama.cpp driver under count_calls.so:
                                         LOG: what it printed, NODES: of its -N
  check.py cpu TRACE PROFILE LOG         its CPU time; exits with 2 when the trace has too much
  check.py workers TRACE PROFILE         the same of the worker, where there is one
  check.py crews PROFILE OUT WORKERS ERR who was late in the rounds of crews.c; exits with 2 when
                                         too few rounds had nobody else in the way
  check.py breakdown TRACE PROFILE       the states of each step, from the spans of its thread
  check.py summary COUNTS STDERR         COUNTS: check_chrome_trace.mjs --counts of the trace,
                                         STDERR: what inftrace record printed
Prints every difference and exits with 1, or prints what was compared and exits with 0.
"""
import bisect
import collections
import json
import os
import re
import sys

from reading import ns, read_lines, read_trace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "../probed"), os.path.join(HERE, "../tools")]
from compare_llama import FUSED, expected_ops, read_nodes  # noqa: E402
from lanes import own_threads  # noqa: E402

Count = collections.namedtuple("Count", "n errors sum")
# Neither return, nor can strace show how they end.
NEVER_RETURN = ("exit", "exit_group")


class Differences:
    def __init__(self):
        self.n = 0

    def equal(self, what, got, wanted):
        if got != wanted:
            print(f"{what}: the trace has {got}, wanted {wanted}")
            self.n += 1


def events_of(path):
    """The events of a trace, each under its thread; a call that passes data between processes or threads under its own
    name."""
    events = own_threads(read_trace(path))
    for e in events:
        if e.get("cat") == "ipc":
            e["name"] = e["args"]["syscall"]
    return events


def start(e):
    return ns(e["ts"])


def end(e):
    return ns(e["ts"]) + ns(e.get("dur", 0))


def is_syscall(e):
    return e.get("cat") in ("syscall", "ipc")


def count_calls(events):
    """Per name: calls, those that failed, and the sum of small results (as section_did has it)."""
    calls = collections.defaultdict(lambda: Count(0, 0, 0))
    for e in events:
        ret = e["args"].get("ret")
        failed = isinstance(ret, str) and not ret.startswith("0x")
        small = ret if isinstance(ret, int) and 0 <= ret <= 1000000 else 0
        c = calls[e["name"]]
        calls[e["name"]] = Count(c.n + 1, c.errors + failed, c.sum + small)
    return calls


def markers(events, section):
    """The end of the first marker and the start of the last one, in nanoseconds."""
    first, last = -1000 - 2 * section["section"], -1001 - 2 * section["section"]
    calls = [e for e in events
             if is_syscall(e) and e["tid"] == section["tid"] and e["name"] == "close"]
    return (max(end(e) for e in calls if e["args"].get("fd") == first),
            max(start(e) for e in calls if e["args"].get("fd") == last))


def is_switch(e):
    """A switch that the kernel counts: a new thread has not been switched away from yet."""
    new = e["name"] == "runnable" and not e["args"].get("preempted")
    return e.get("cat") == "sched" and e["ph"] == "X" and not new


def section_check(events, s, diff):
    try:
        begin, stop = markers(events, s)
    except ValueError:
        print(f"section {s['section']}: the trace does not have both markers of thread {s['tid']}")
        diff.n += 1
        return 0
    mine = [e for e in events if e.get("tid") == s["tid"] and "ts" in e]
    within = [e for e in mine if begin <= start(e) < stop]
    name = f"section {s['section']}: "

    calls = count_calls(e for e in within if is_syscall(e))
    # reading a clock takes a call on some machines only
    names = set() if s["skip_calls"] else (set(calls) | set(s["calls"])) - {"clock_gettime"}
    for call in sorted(names):
        got, wanted = calls[call], Count(*s["calls"].get(call, (0, 0, 0)))
        diff.equal(f"{name}{call}", got.n, wanted.n)
        if call != "rt_sigreturn":  # returns the result of the interrupted call
            diff.equal(f"{name}{call}, errors", got.errors, wanted.errors)
        # the markers' own readings of /proc are longer or shorter
        if call not in ("pread64", "mmap", "rt_sigreturn"):
            diff.equal(f"{name}{call}, sum of the results", got.sum, wanted.sum)

    faults = collections.Counter(e["name"] for e in within if e.get("cat") == "fault")
    diff.equal(f"{name}minor faults", faults["page_fault_minor"], s["minor"] - s["populated"])
    diff.equal(f"{name}major faults", faults["page_fault_major"], s["major"])

    switches = [e for e in (mine if s["from_birth"] else within)
                if is_switch(e) and start(e) < stop]
    late = sum(1 for e in switches if e["args"].get("end_not_seen"))
    note = f", {late} of them with an end that the kernel did not report" if late else ""
    forced = sum(1 for e in switches if e["args"].get("preempted"))
    voluntary = len(switches) - forced
    diff.equal(f"{name}switches{note}", len(switches), s["voluntary"] + s["involuntary"])
    # A thread that a signal keeps from going to sleep may be switched away from all the same: it
    # stays runnable, which the kernel counts as voluntary.
    if not 0 <= s["voluntary"] - voluntary <= s["signals"]:
        diff.equal(f"{name}voluntary switches{note}", voluntary, s["voluntary"])
    return len(within)


def sections(trace, out):
    events, diff = events_of(trace), Differences()
    found = [s for s in read_lines(out) if "section" in s]
    if not found:
        sys.exit(f"{out}: no sections")
    n = sum(section_check(events, s, diff) for s in found)
    if not diff.n:
        print(f"{len(found)} sections, {n} events")
    return diff.n


def killed_in(events):
    """The calls that a death ended: they return within the kernel only, which strace cannot see."""
    killed, last = [], {}
    for e in sorted((e for e in events if is_syscall(e) or e.get("cat") == "task"), key=end):
        if is_syscall(e):
            last[e["tid"]] = e
        elif e["name"] == "exit" and e["tid"] in last:
            call = last.pop(e["tid"])
            if str(call["args"].get("ret")).startswith("ERESTART"):
                killed.append(id(call))
    return killed


def whole_calls(trace):
    """What the command did since its exec."""
    events = events_of(trace)
    main = next(e for e in events if e.get("cat") == "task" and e["name"] == "exec")
    killed = killed_in(events)
    return count_calls(e for e in events if is_syscall(e) and e["name"] not in NEVER_RETURN
                       and not e["args"].get("unfinished") and id(e) not in killed
                       and (e["pid"] != main["pid"] or end(e) > start(main)))


def table_read(path):
    calls = {}
    with open(path) as f:
        for line in f:
            m = re.match(r"(\w+)\s+(\d+)(?:\s+(\d+))?\s*$", line)
            if m and m[1] != "total":
                calls[m[1]] = Count(int(m[2]), int(m[3] or 0), 0)
    return calls


def variable_calls(out):
    """The calls of a run whose number depends on timing."""
    n = collections.Counter()
    for line in read_lines(out):
        n.update(line.get("variable", {}))
        for call, each in (("pread64", 2), ("getrusage", 2), ("close", 1)):
            n[call] += each * line.get("retries", 0)
    return n


def strace(trace, out, table, out2):
    diff = Differences()
    calls, table = whole_calls(trace), table_read(table)
    variable, variable2 = variable_calls(out), variable_calls(out2)
    # strace -c leaves out the calls that do not exist
    calls = {name: c for name, c in calls.items() if not re.fullmatch(r"syscall_\d+", name)}
    for call in sorted(set(calls) | set(table)):
        got, wanted = calls.get(call, Count(0, 0, 0)), table.get(call, Count(0, 0, 0))
        diff.equal(f"{call}, without those that vary", got.n - variable[call],
                   wanted.n - variable2[call])
        if call not in variable and call != "rt_sigreturn":
            diff.equal(f"{call}, errors", got.errors, wanted.errors)
    if not diff.n:
        print(f"{sum(c.n for c in calls.values())} calls of {len(calls)} kinds")
    return diff.n


def steps_of(profile):
    return sorted(read_lines(profile, "token_prof"),
                  key=lambda p: p["shape"]["step"])


def faults(profile, out):
    diff = Differences()
    steps = {p["shape"]["kind"]: p["shape"] for p in steps_of(profile)}
    for line in (line for line in read_lines(out) if "step" in line):
        shape = steps[line["kind"]]
        for key in ("faults_minor", "faults_major"):
            # a page of the program's own may have been taken away just before the step
            if not shape[key] <= line[key] <= shape[key] + 2:
                diff.equal(f"{line['step']}: {key}", shape[key], line[key])
        if line["step"] in ("fresh", "zero", "kernel", "populated", "handled"):
            diff.equal(f"{line['step']}: one fault for each page", shape["faults_minor"],
                       line["pages"])
    if not diff.n:
        print(f"{len(steps)} steps")
    return diff.n


def off_state(e):
    return e["name"].replace("blocked: ", "blocked_")


def boundaries(events):
    """When a thread enters or leaves a span: (time, what, +1 or -1), in the order of time."""
    found = []

    def add(begin, stop, what):
        if stop > begin:
            found.extend(((begin, 1, what), (stop, -1, what)))

    for e in events:
        cat = e.get("cat")
        if e["ph"] != "X":
            continue
        if cat == "sched":
            # where the end of a wait was not seen, the time from which it could have run is unknown
            queued = 0 if e["args"].get("end_not_seen") else ns(e["args"].get("run_queue_us", 0))
            add(start(e), end(e) - queued, "off " + off_state(e))
            add(end(e) - queued, end(e), "off runnable")
        elif is_syscall(e):
            add(start(e), end(e), "syscall")
        elif cat in ("fault", "barrier", "gpu_wait", "gc", "irq"):
            add(start(e), end(e), cat)
        elif cat == "step":
            add(start(e), end(e), ("step", e["args"]["step"]))
    found.sort(key=lambda b: b[0])
    return found


def state_of(inside):
    off = next((what for what in inside if isinstance(what, str) and what.startswith("off ")), None)
    if "gpu_wait" in inside:
        return "gpu_wait"
    if off:
        return off[4:]
    return next((s for s in ("irq", "fault", "syscall", "barrier", "gc") if s in inside), "cpu")


def states_by_step(events):
    """Nanoseconds per step and state, from the spans alone."""
    threads, steps = collections.defaultdict(list), {}
    for e in events:
        threads[e["pid"], e["tid"]].append(e)
    for spans in threads.values():
        if not any(e.get("cat") == "step" for e in spans):
            continue
        inside, before = collections.Counter(), 0
        for time, delta, what in boundaries(spans):
            for step in [w[1] for w in inside if isinstance(w, tuple)] if time > before else ():
                steps.setdefault(step, collections.Counter())[state_of(inside)] += time - before
            before = time
            inside[what] += delta
            if not inside[what]:
                del inside[what]
    return steps


def stages_of(line):
    return {s: ns(us) for s, us in line["stage_us"].items()
            if s != "total" and not s.startswith("workers_")}


def counts_by_step(events):
    """What began within each step on its thread."""
    steps, counts = collections.defaultdict(list), {}
    for e in sorted((e for e in events if e.get("cat") == "step"), key=start):
        steps[e["tid"]].append(e)
        counts[e["args"]["step"]] = collections.Counter()
    for e in events:
        mine = steps.get(e.get("tid"), ())
        if e["ph"] == "M" or not mine or e.get("cat") not in ("sched", "fault", "syscall", "ipc"):
            continue
        i = bisect.bisect_right(mine, start(e), key=start) - 1
        if i < 0 or start(e) >= end(mine[i]):
            continue
        count = counts[mine[i]["args"]["step"]]
        if is_syscall(e):
            count["syscalls"] += 1
            count["signals"] += e["name"] == "rt_sigreturn"
        elif e["cat"] == "fault":
            count["faults_minor" if e["name"] == "page_fault_minor" else "faults_major"] += 1
        elif is_switch(e):
            count["switches"] += 1
            count["switches_voluntary"] += not e["args"].get("preempted")
    return counts


def fully_preemptible():
    """Whether the kernel may switch threads within a BPF program. Then the time that a program
    accounts, a microsecond or so, can end up in the state before, and the switch itself outside of a
    step."""
    try:
        with open("/sys/kernel/debug/sched/preempt") as f:
            return "(full)" in (mode := f.read()) or "(lazy)" in mode
    except OSError:
        return bool(re.search(r" PREEMPT(_RT)? ", os.uname().version))


PREEMPTIBLE = fully_preemptible()


def stages_agree(got, wanted, switches):
    if not PREEMPTIBLE:
        return got == wanted
    return sum(got.values()) == sum(wanted.values()) and all(
        abs(got.get(s, 0) - wanted.get(s, 0)) <= 20000 * switches for s in set(got) | set(wanted))


def counts_check(shape, count, diff):
    name = f"step {shape['step']}: "
    for key in ("syscalls", "faults_minor", "faults_major"):
        diff.equal(f"{name}{key}", count[key], shape[key])
    if PREEMPTIBLE and abs(count["switches"] - shape["switches"]) <= 2:
        return
    diff.equal(f"{name}switches", count["switches"], shape["switches"])
    # as in section_check
    key = "switches_voluntary"
    if not 0 <= shape[key] - count[key] <= count["signals"]:
        diff.equal(f"{name}{key}", count[key], shape[key])


def breakdown(trace, profile):
    diff = Differences()
    events, lines = events_of(trace), steps_of(profile)
    steps = states_by_step(events)
    in_trace = {e["args"]["step"]: {s: ns(us) for s, us in e["args"]["breakdown_us"].items()}
                for e in events if e.get("cat") == "step"}
    diff.equal("steps", len(in_trace), len(lines))
    counts = counts_by_step(events)
    for line in lines:
        n, stages = line["shape"]["step"], stages_of(line)
        # the last switch of a thread, and what an exec copies, have no span
        if not line["shape"].get("unfinished"):
            counts_check(line["shape"], counts[n], diff)
        diff.equal(f"step {n}: breakdown_us", in_trace.get(n), stages)
        if not stages_agree(steps.get(n, {}), stages, line["shape"]["switches"]):
            diff.equal(f"step {n}: its spans", dict(steps.get(n, {})), stages)
    if not diff.n:
        print(f"{len(lines)} steps, {sum(map(len, steps.values()))} states")
    return diff.n


def within(e, step):
    return start(step) <= start(e) and end(e) <= end(step) and e["tid"] == step["tid"]


def states(trace, profile, out):
    diff, events = Differences(), events_of(trace)
    spans = {e["args"]["seq"]: e for e in events if e.get("cat") == "step"}
    lines = {p["shape"]["seq"]: p for p in steps_of(profile)}

    def at_least(what, got, wanted):
        if got < wanted:
            print(f"{what} is {got} ns, must be at least {wanted} ns")
            diff.n += 1

    found = [line for line in read_lines(out) if "kind" in line]
    for w in found:
        step, stages = spans[w["seq"]], stages_of(lines[w["seq"]])
        kind, state, total = w["kind"], w["state"], ns(lines[w["seq"]]["stage_us"]["total"])
        off = [e for e in events if e.get("cat") == "sched" and e["ph"] == "X" and within(e, step)]
        late = sum(ns(e["dur"]) for e in off if e["args"].get("end_not_seen"))
        at_least(f"{kind}: the step", total, w["inner_ns"])
        at_least(f"{kind}: the time around the step", w["outer_ns"], total)
        for s in stages:
            if s.startswith("blocked_") or s == "stopped":
                diff.equal(f"{kind}: what it was blocked in", s, state)
        if state.startswith("blocked_") or state in ("stopped", "gpu_wait"):
            at_least(f"{kind}: {state}", stages.get(state, 0), w["held_ns"])
            # where others use the CPUs it may have waited longer for one
            spans_of = [e for e in off if state in ("gpu_wait", off_state(e))]
            at_least(f"{kind}: its longest span", max((ns(e["dur"]) for e in spans_of), default=0), w["held_ns"])
        elif state == "barrier":
            at_least(f"{kind}: barrier and runnable",
                     stages["barrier"] + stages.get("runnable", 0), w["held_ns"])
        elif state == "syscall":
            calls = [e for e in events if is_syscall(e) and within(e, step)]
            longest = max(calls, key=lambda e: e["dur"])
            diff.equal(f"{kind}: the longest call", longest["name"], "getrandom")
            at_least(f"{kind}: all but cpu", w["inner_ns"], ns(longest["dur"]))
        else:
            # The kernel's own accounting: not the same clock, and the work of a switch, some
            # microseconds, is time off the CPU there.
            on = sum(stages.get(s, 0) for s in ("cpu", "syscall", "fault"))
            slack = 50000 + 20000 * lines[w["seq"]]["shape"]["switches"]
            at_least(f"{kind}: time on the CPU", int((on + late) * 1.01), w["cpu_ns"])
            at_least(f"{kind}: runnable", int(stages.get("runnable", 0) * 1.01) + slack,
                     w["delay_ns"])
    if not diff.n:
        print(f"{len(found)} states")
    return diff.n


def usage_check(events, c, diff):
    """The driver calls getrusage before and after each step, and so has counted everything in between."""
    mine = [e for e in events if e.get("tid") == c["tid"] and "ts" in e]
    calls = sorted((e for e in mine if is_syscall(e) and e["name"] == "getrusage"), key=start)
    diff.equal("calls of getrusage", len(calls), 2 * c["steps"])
    sure, unsure = collections.Counter(), collections.Counter()
    for e in mine:
        if is_switch(e):
            what = "nivcsw" if e["args"].get("preempted") else "nvcsw"
        elif e.get("cat") == "fault":
            what = "minflt" if e["name"] == "page_fault_minor" else "majflt"
        else:
            continue
        i = bisect.bisect_right(calls, start(e), key=start)  # calls that have begun
        if i and start(e) < end(calls[i - 1]):
            unsure[what] += 1  # within the call, before or after the kernel took the numbers
        elif i % 2:
            sure[what] += 1
    for what in ("nvcsw", "nivcsw", "minflt", "majflt"):
        if not sure[what] <= c[what] <= sure[what] + unsure[what]:
            diff.equal(f"{what} in the trace", sure[what], c[what])


def llama(trace, profile, log, nodes):
    diff, events, lines = Differences(), events_of(trace), steps_of(profile)
    c = read_lines(log)[-1]
    spans = sorted((e for e in events if e.get("cat") == "step"), key=start)
    diff.equal("n_tokens of the steps in the profile",
               [p["shape"]["n_tokens"] for p in lines], c["step_n_tokens"])
    diff.equal("n_tokens of the steps in the trace",
               [e["args"]["n_tokens"] for e in spans], c["step_n_tokens"])
    names = ["decode" if n == 1 else "prefill" for n in c["step_n_tokens"]]
    diff.equal("phases", [p["shape"]["phase"] for p in lines], names)
    diff.equal("names of the steps", [e["name"] for e in spans], names)
    diff.equal("samples", sum(e["name"] == "llama_sampler_sample" for e in events), c["generated"])

    starts = {"operators": [], "norms": [], "barriers": []}
    for e in events:
        if e.get("cat") == "op":
            starts["norms" if e["name"] == "rms_norm_mul" else "operators"].append(start(e))
        elif e.get("cat") == "barrier":
            starts["barriers"].append(start(e))
    for what in starts.values():
        what.sort()
    graphs = [[name for name, _ in expected_ops(g)] for g in read_nodes(nodes)]
    diff.equal("graphs", len(graphs), len(spans))
    for i, (e, graph) in enumerate(zip(spans, graphs)):
        norms = graph.count(FUSED)
        wanted = {"operators": (len(graph) - norms) * c["threads"], "norms": norms * c["threads"],
                  # the preset leaves out barriers of a single thread
                  "barriers": c["step_barriers"][i] if c["threads"] > 1 else 0}
        diff.equal(f"step {i}: operators by the graph", wanted["operators"], c["step_forwards"][i])
        for what, n in wanted.items():
            got = bisect.bisect_left(starts[what], end(e)) - bisect.bisect_left(starts[what], start(e))
            diff.equal(f"step {i}: {what}", got, n)
    diff.equal("there are operators and barriers to count",
               bool(c["step_forwards"] and min(c["step_forwards"]) and min(c["step_barriers"])), True)

    usage_check(events, c, diff)
    for key, own in (("faults_minor", "minflt"), ("faults_major", "majflt"),
                     ("switches_voluntary", "nvcsw")):
        got = sum(p["shape"][key] for p in lines)
        if got > c[own]:  # around the steps
            diff.equal(f"{key} of all steps", got, c[own])
    if not diff.n:
        print(f"{len(lines)} steps")
    return diff.n


def cpu(trace, profile, log):
    """Time on the CPU by the profile and by the thread's own clock, within 1 %. An unknown part of
    a span whose end the kernel did not report was on the CPU."""
    lines, events = steps_of(profile), events_of(trace)
    clock = read_lines(log)[-1]["cpu_ns"]
    on = sum(stages_of(p).get(s, 0) for p in lines for s in ("cpu", "barrier", "gc", "syscall", "fault"))
    spans = [e for e in events if e.get("cat") == "step"]
    late = sum(ns(e["dur"]) for e in events if e.get("cat") == "sched" and e["ph"] == "X"
               and e["args"].get("end_not_seen") and any(within(e, s) for s in spans))
    print(f"{on} ns, and {late} ns in doubt, of {len(lines)} steps; "
          f"the thread's clock has {clock} ns: {100 * (on / clock - 1):+.2f} %")
    # the kernel counts the work of a switch as time off the CPU
    if on > clock * 1.01 + 20000 * sum(p["shape"]["switches"] for p in lines):
        return 2
    return 1 if on + late < clock * 0.99 else 0


def states_within(spans, begin, stop):
    """Nanoseconds per state from begin to stop, from the spans of a thread alone."""
    inside, before, states = collections.Counter(), begin, collections.Counter()
    for time, delta, what in boundaries(spans) + [(stop, 0, "end")]:
        at = min(max(time, begin), stop)
        if at > before:
            states[state_of(inside)] += at - before
            before = at
        inside[what] += delta
        if not inside[what]:
            del inside[what]
    return states


UNSEEN_NS = 100_000


def states_unseen(spans, begin, stop):
    """The same for who looked at the thread while it changed its state: the time of a change is taken before others can see the new
    state, so that what follows the last change counts as the state before it, at the end, at the beginning, or at both."""
    changes = [t for t, _, _ in boundaries(spans)]
    found = [states_within(spans, begin, stop)]
    for edge, sign in ((stop, 1), (begin, -1)):
        at = max((t for t in changes if edge - UNSEEN_NS < t < edge), default=None)
        if at is None:
            continue
        (old, _), (new, _) = states_within(spans, at - 1, at).popitem(), states_within(spans, at, at + 1).popitem()
        for states in list(found):
            found.append(collections.Counter(states))
            found[-1].update({old: sign * (edge - at)})
            found[-1].update({new: -sign * (edge - at)})
    return [{s: ns for s, ns in states.items() if ns} for states in found]


def workers(trace, profile):
    """For steps with one worker, which goes on living: its time by state, from the start of the step, or
    from one of its barriers where it is new, to the end. Its state may have changed while it was read."""
    diff, events = Differences(), events_of(trace)
    steps = {e["args"]["step"]: e for e in events if e.get("cat") == "step"}
    threads = collections.defaultdict(list)
    for e in events:
        threads[e["pid"], e["tid"]].append(e)
    n = late = ended = 0
    for p in steps_of(profile):
        shape, e = p["shape"], steps.get(p["shape"]["step"])
        got = {s[8:]: ns(us) for s, us in p["stage_us"].items() if s.startswith("workers_")}
        total = got.pop("total", 0)
        diff.equal(f"step {shape['step']}: the sum of the workers' states", sum(got.values()), total)
        if shape["workers"] != 1 or shape.get("unfinished"):
            continue
        n += 1
        found = None
        for (pid, tid), spans in threads.items():
            if pid != shape["pid"] or tid == shape["tid"]:
                continue
            if not any(b.get("cat") == "barrier" and within(b, {**e, "tid": tid}) for b in spans):
                continue
            begins = [start(b) for b in spans if b.get("cat") == "barrier"] if n == 1 else [start(e)]
            for begin in begins:
                over = begin + total - end(e)
                if start(e) <= begin and 0 <= over < 100000 and (not found or over < found[0]):
                    found = over, begin, spans
        if not found:
            if n > 1 and total < ns(p["stage_us"]["total"]):
                ended += 1  # with the program
            else:
                diff.equal(f"step {shape['step']}: joined at a barrier", None, total)
            continue
        late += found[0] > 0
        states = states_within(found[2], found[1], found[1] + total)
        if not stages_agree(got, states, sum(e.get("cat") == "sched" for e in found[2])) and \
                got not in states_unseen(found[2], found[1], found[1] + total):
            diff.equal(f"step {shape['step']}: workers", got, dict(states))
    if not diff.n:
        print(f"{n} steps with one worker, {ended} that it left early, {late} looked at later than their end")
    return diff.n or not n or late > n / 4 or ended > 1


def crews(profile, out, n_workers, err):
    """The rounds of crews.c: who was late is known, and its sleep is in no other crew's sums."""
    diff, judged, begun_late, stolen = Differences(), 0, 0, 0
    rounds = {(r["crew"], r["round"]): r for r in read_lines(out) if "crew" in r}
    with open(err) as f:  # a worker that exits while its step ends may have no time to add its own, which is counted
        left_out = sum(int(n) for n in re.findall(r"(\d+) workers of a step are not in its sums", f.read()))
    steps = steps_of(profile)
    diff.equal("rounds", len(steps), len(rounds))
    for p in steps:
        shape, stages = p["shape"], p["stage_us"]
        r = rounds[shape["crew"], shape["round"]]
        name = f"crew {shape['crew']}, round {shape['round']}: "
        got = {s[8:]: ns(us) for s, us in stages.items() if s.startswith("workers_")}
        diff.equal(f"{name}sum of the workers' states", sum(got.values()) - got["total"], got["total"])
        missing = int(n_workers) - shape["workers"]
        if 0 < missing <= left_out:
            left_out -= missing
        else:
            diff.equal(f"{name}workers", shape["workers"], int(n_workers))
        # nobody else sleeps
        asleep = got.get("blocked_sleep", 0)
        if shape["round"] and asleep > r["slept_ns"]:
            diff.equal(f"{name}sleep of the workers", asleep, r["slept_ns"])
        # with more threads than CPUs another one may be later still; and workers that meet before
        # their leader has ever met them are not yet known to be its workers
        if not shape["round"] or (ns(stages.get("runnable", 0)) + got.get("runnable", 0) >
                                  r["sleep_ns"] / 10):
            continue
        # a new thread may begin late, held up by the locks of its start; where that is rare it is one of those
        waits = [(shape[f"wait{n}_tid"], shape[f"wait{n}_state"], ns(shape[f"wait{n}_us"])) for n in range(1, 5) if f"wait{n}_us" in shape]
        if shape.get("straggler_tid") != r["late"] and begun_late < len(steps) / 50:
            begun_late += 1
            continue
        judged += 1
        diff.equal(f"{name}late", shape.get("straggler_tid"), r["late"])
        slept, held = sum(us for tid, state, us in waits if (tid, state) == (r["late"], "blocked_sleep")), ns(shape.get("straggler_held_us", 0))
        # the timer runs from the call, which is before the thread is off the CPU, and it may be asleep before the others wait for it
        if asleep >= 0.9 * r["sleep_ns"] and 0.9 * r["sleep_ns"] - 1e6 <= slept <= held:
            continue
        # a hypervisor may take the CPU away in between: rarely
        stolen += 1
        if stolen > len(steps) / 40:
            diff.equal(f"{name}asleep, and waited for", (asleep, slept, held, waits), r["sleep_ns"])
    print(f"{len(steps)} rounds, {judged} without others in the way")
    if diff.n:
        return 1
    return 2 if judged < len(steps) / 5 else 0


KIND_OF_CATEGORY = {"syscall": "syscall", "ipc": "syscall", "sched": "off_cpu", "cpu": "on_cpu",
                    "fault": "fault", "step": "step", "task": "task", "irq": "irq"}


def summary(counts, err):
    diff = Differences()
    with open(counts) as f:
        counts = json.load(f)
    got = collections.Counter()
    for cat, names in counts.items():
        if cat == "steps":
            # those that overlap with more than a few others are on their threads' tracks only
            more = {name: n for name, n in names.items() if n > counts["step"].get(name, 0)}
            diff.equal("more steps on their own track than on the threads'", more, {})
        elif cat == "requests":
            got["request"] += sum(n for name, n in names.items() if name != "ttft")
        elif cat == "inftrace":
            got["hold"] += names.get("waiting for probes", 0)
        elif cat not in ("batch", "loss", "gap"):
            got[KIND_OF_CATEGORY.get(cat, "function")] += sum(names.values())
    with open(err) as f:
        line = re.search(r"^inftrace: [\d.]+ s, (.*)$", f.read(), re.M)
    own = collections.Counter({kind: int(n) for n, kind in re.findall(r"(\d+) (\w+)", line[1])})
    del own["memory"], own["placed"]  # counters, and instants of a process, are no slices
    for kind in sorted(set(got) | set(own)):
        diff.equal(kind, got[kind], own[kind])
    if not diff.n:
        print(line[1])
    return diff.n


COMMANDS = {"sections": (sections, 2), "strace": (strace, 4), "faults": (faults, 2),
            "states": (states, 3), "llama": (llama, 4), "cpu": (cpu, 3), "breakdown": (breakdown, 2), "workers": (workers, 2),
            "crews": (crews, 4), "summary": (summary, 2)}

if __name__ == "__main__":
    run, n = COMMANDS.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if not run or len(sys.argv) != 2 + n:
        sys.exit(__doc__)
    result = run(*sys.argv[2:])
    sys.exit(result if run in (cpu, crews) else bool(result))
