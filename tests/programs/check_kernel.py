#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares interrupts, IPC, memory and the sums of a profile with counts that come from elsewhere.

  check_kernel.py irqs TRACE OUT         OUT: of irqs
  check_kernel.py ipc TRACE OUT          OUT: of ipc
  check_kernel.py strace TRACE STRACE    STRACE: strace -f -yy of a second run of the same program
  check_kernel.py pages TRACE PROFILE OUT    OUT: of pages
  check_kernel.py sums TRACE PROFILE     the sums per process, from the spans
  check_kernel.py same PROFILE PROFILE2  the sums of two runs of the same program: the counts
Prints every difference and exits with 1, or prints what was compared and exits with 0.
"""
import collections
import re
import sys

from check import Differences, end, events_of, is_switch, is_syscall, off_state, start
from reading import ns, read_lines, read_trace

IPC_NAMES = {"ipc_fast_send": "send", "ipc_fast_recv": "recv", "ipc_slow": "slow"}


def irqs(trace, out):
    diff, events = Differences(), events_of(trace)
    wanted = read_lines(out)[-1]
    mine = [e for e in events if e.get("tid") == wanted["tid"] and "ts" in e]
    closes = [e for e in mine if is_syscall(e) and e["name"] == "close"]
    begin = max(end(e) for e in closes if e["args"].get("fd") == -1001)
    stop = max(start(e) for e in closes if e["args"].get("fd") == -1002)
    spans = [e for e in mine if e.get("cat") == "irq" and begin <= start(e) < stop]
    types = collections.Counter(e["args"]["type"] for e in spans)
    counts = collections.Counter()
    for name, value in wanted.items():
        if isinstance(value, list):
            counts[value[0]] += value[1]
            if value[0] == "vector":
                vector = name.removesuffix("_entry")
                diff.equal(vector, sum(e["name"] == vector for e in spans), value[1])
    for kind in ("handler", "softirq", "vector"):
        diff.equal(kind, types[kind], counts[kind])
    # the receive path of the loopback, within the call
    sends = sorted((start(e), end(e)) for e in mine if is_syscall(e) and e["name"] == "sendto"
                   and begin <= start(e) < stop)
    received = [e for e in spans if e["name"] == "NET_RX"]
    inside = sum(any(s <= start(e) and end(e) <= t for s, t in sends) for e in received)
    diff.equal("calls of sendto", len(sends), wanted["sends"])
    if inside < wanted["sends"] * 0.9:
        diff.equal("NET_RX within sendto", inside, wanted["sends"])
    if not diff.n:
        print(f"{len(spans)} interrupts: {dict(types)}; {inside} NET_RX in {len(sends)} calls")
    return diff.n


def ipc_counts(trace):
    """By call, kind and way, of the whole program after its exec."""
    events = read_trace(trace)
    exec_at = next(start(e) for e in events if e.get("cat") == "task" and e["name"] == "exec")
    counts = collections.Counter()
    for e in events:
        if e.get("cat") == "ipc" and start(e) >= exec_at:
            counts[f"{e['args']['syscall']} {e['args']['kind']} {IPC_NAMES[e['name']]}"] += 1
    return counts, events


def ipc(trace, out):
    diff = Differences()
    counts, events = ipc_counts(trace)
    wanted = read_lines(out)[-1]
    for what in sorted(set(counts) | set(wanted)):
        diff.equal(what, counts[what], wanted.get(what, 0))
    for e in (e for e in events if e.get("cat") == "ipc" and e["ph"] == "X"):
        a = e["args"]
        if (a["kind"] == "futex") == ("fd" in a):
            diff.equal(f"{a}: a descriptor", "fd" in a, a["kind"] != "futex")
        if a["kind"] != "futex" and isinstance(a.get("ret"), int) and a["ret"] > 0:
            diff.equal(f"{a}: bytes", a.get("bytes"), a["ret"])
    if not diff.n:
        print(f"{sum(counts.values())} calls of {len(counts)} kinds")
    return diff.n


# What strace -y shows for a descriptor.
STRACE_KINDS = (("pipe:[", "pipe"), (".fifo", "pipe"), ("UNIX", "unix"), ("anon_inode:[eventfd]", "eventfd"))
STRACE_CALLS = ("read", "write", "readv", "writev", "sendto", "recvfrom", "sendmsg", "recvmsg")


def strace_counts(path):
    counts = collections.Counter()
    with open(path) as f:
        for line in f:
            m = re.match(r"\d+ +(\w+)\((?:\d+<([^>]*)>)?", line)
            if not m:
                continue
            if m[1] == "futex":
                counts["futex futex"] += 1
            elif m[1] in STRACE_CALLS and m[2]:
                kind = next((k for text, k in STRACE_KINDS if text in m[2]), None)
                if kind:
                    counts[f"{m[1]} {kind}"] += 1
    return counts


def strace(trace, path):
    diff, got = Differences(), collections.Counter()
    for what, n in ipc_counts(trace)[0].items():
        got[what.rsplit(" ", 1)[0]] += n
    wanted = strace_counts(path)
    for what in sorted(set(got) | set(wanted)):
        diff.equal(what, got[what], wanted[what])
    if not diff.n:
        print(f"{sum(got.values())} calls of {len(got)} kinds")
    return diff.n


def counters(events):
    """By name: (time, value) in the order of time."""
    found = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "C":
            found[e["name"]].append((start(e), next(iter(e["args"].values()))))
    for values in found.values():
        values.sort()
    return found


def clock_start(events):
    first = min((e for e in events if e["name"] == "inftrace_clock"), key=start)
    return int(first["args"]["boottime_ns"]) - start(first)


def pages(trace, profile, out):
    diff, events = Differences(), events_of(trace)
    zero, series = clock_start(events), counters(events)
    lines = [p for p in read_lines(out) if "plateau" in p and p["from_ns"] > zero]
    page, before = lines[0]["page"], None

    def value_at(name, at):
        return [v for t, v in series[name] if t <= at][-1]

    def near(what, got, wanted, slack):
        if abs(got - wanted) > slack:
            diff.equal(f"{what} (within {slack})", got, wanted)

    for line in lines:
        at = line["to_ns"] - zero
        # what the kernel sets aside for each CPU, before 6.16
        near(f"{line['plateau']}: rss", value_at("rss", at), line["rss"], 256 * page)
        now = {name: value_at(name, at) for name in ("pages_allocated", "pages_freed")}
        if before:
            # and what page tables, files and printing need, and the slabs of others that a busy
            # kernel happens to give back in a call of this process
            for name, key in (("pages_allocated", "touched"), ("pages_freed", "freed")):
                done = line[key] - before[1][key]
                rise = now[name] - before[0][name]
                if not done <= rise <= done * 1.02 + 1000:
                    diff.equal(f"{line['plateau']}: {name}", rise, done)
        before = (now, line)
    shape = next(p["shape"] for p in read_lines(profile, "memory_prof"))
    near("rss_peak_bytes", shape["rss_peak_bytes"], max(p["rss"] for p in lines), 256 * page)
    near("rss_peak_bytes and getrusage", shape["rss_peak_bytes"], lines[-1]["maxrss"], 256 * page)
    for name in ("pages_allocated", "pages_freed"):
        diff.equal(f"{name} of the profile and the last counter", shape[name], series[name][-1][1])
        if sorted(v for _, v in series[name]) != [v for _, v in series[name]]:
            diff.equal(f"{name}: rises", False, True)
        for (a, _), (b, _) in zip(series[name], series[name][1:-1]):
            if b - a < 10000000:
                diff.equal(f"{name}: time between two counters", b - a, 10000000)
    if not diff.n:
        print(f"{len(lines)} plateaus, {len(series['rss'])} counters")
    return diff.n


def sums_of(profile, family):
    return {p["shape"]["pid"]: p for p in read_lines(profile, family)}


def stages(line):
    return {s: ns(us) for s, us in line["stage_us"].items() if s != "total" and us}


def sums_syscalls(mine, line, diff):
    count, time = collections.Counter(), collections.Counter()
    for e in (e for e in mine if is_syscall(e)):
        count[e["name"]] += 1
        time[e["name"]] += end(e) - start(e)
    got = {k[2:]: v for k, v in line["shape"].items() if k.startswith("n_")} if line else {}
    diff.equal("syscall_prof: counts", dict(count), got)
    diff.equal("syscall_prof: times", {k: v for k, v in time.items() if v}, stages(line) if line else {})
    return len(got)


def sums_faults(mine, line, diff):
    found = [e for e in mine if e.get("cat") == "fault"]
    for kind in ("minor", "major"):
        own = [e for e in found if e["name"] == f"page_fault_{kind}"
               and not e["args"].get("unfinished")]
        diff.equal(f"fault_prof: n_{kind}", len(own), line["shape"][f"n_{kind}"])
        diff.equal(f"fault_prof: {kind}", sum(end(e) - start(e) for e in own),
                   ns(line["stage_us"][kind]))
    diff.equal("fault_prof: n_kernel", sum(e["ph"] == "i" for e in found), line["shape"]["n_kernel"])


def sums_sched(mine, line, diff):
    """The time off the CPU to the nanosecond; the time on it is what remains."""
    cut = {e["tid"] for e in mine if e.get("cat") == "sched" and e["ph"] == "X"
           and e["args"].get("unfinished")}
    off, switches = collections.Counter(), collections.Counter()
    for e in (e for e in mine if e.get("cat") == "sched" and e["ph"] == "X"):
        queued = 0 if e["args"].get("end_not_seen") else ns(e["args"].get("run_queue_us", 0))
        off[off_state(e)] += end(e) - start(e) - queued
        off["runnable"] += queued
        if is_switch(e) and not e["args"].get("began_before"):
            switches["involuntary" if e["args"].get("preempted") else "voluntary"] += 1
    # the last of a thread has no span
    switches["voluntary"] += sum(e.get("cat") == "task" and e["name"] == "exit" and e["tid"] not in cut
                                 for e in mine)
    got = {s: t for s, t in stages(line).items() if s in ("runnable", "stopped") or s.startswith("blocked_")}
    diff.equal("sched_prof: time off the CPU", {s: t for s, t in off.items() if t}, got)
    for kind in ("voluntary", "involuntary"):
        diff.equal(f"sched_prof: {kind}", switches[kind], line["shape"][f"switches_{kind}"])
    threads = {e["tid"] for e in mine if e["ph"] != "M" and e["tid"] < 4194304}
    diff.equal("sched_prof: threads", len(threads), line["shape"]["threads"])


def sums(trace, profile):
    diff, events = Differences(), events_of(trace)
    calls, faults = sums_of(profile, "syscall_prof"), sums_of(profile, "fault_prof")
    sched = sums_of(profile, "sched_prof")
    pids = {e["pid"] for e in events if e["ph"] == "X" and e["pid"] < 4194304}
    diff.equal("processes", pids, set(sched))
    n = 0
    for pid in sorted(pids & set(sched)):
        mine = [e for e in events if e["pid"] == pid]
        before = diff.n
        n += sums_syscalls(mine, calls.get(pid), diff)
        sums_faults(mine, faults[pid], diff)
        sums_sched(mine, sched[pid], diff)
        if diff.n > before:
            print(f"above: process {pid}, {sched[pid]['shape']['comm']}")
    if not diff.n:
        print(f"{len(pids)} processes, {n} kinds of calls")
    return diff.n


def same(one, two):
    """Families without times, of processes that do not depend on timing."""
    diff = Differences()
    for family in ("syscall_prof", "sched_prof", "fault_prof", "memory_prof"):
        shapes = []
        for profile in (one, two):
            lines = sorted(sums_of(profile, family).values(), key=lambda p: p["shape"]["pid"])
            shapes.append([p["shape"] for p in lines])
        diff.equal(f"{family}: processes", len(shapes[0]), len(shapes[1]))
        if family == "syscall_prof":
            for a, b in zip(*shapes):
                a.pop("pid"), b.pop("pid")
                diff.equal("calls", a, b)
    return diff.n


COMMANDS = {"irqs": (irqs, 2), "ipc": (ipc, 2), "strace": (strace, 2), "pages": (pages, 3),
            "sums": (sums, 2), "same": (same, 2)}

if __name__ == "__main__":
    run, n_args = COMMANDS.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if not run or len(sys.argv) != 2 + n_args:
        sys.exit(__doc__)
    sys.exit(bool(run(*sys.argv[2:])))
