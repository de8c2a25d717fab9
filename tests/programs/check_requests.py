#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_requests.py [--edges] [--loss] [--least N] LOG PROFILE ...

Holds the requests that inftrace has found in the batches of tests/engines/serve_driver against the driver's own log:
every request is there, none is mixed with another, its tokens and steps are the same, and each of its times is
what the rows of the log and the times of the steps make of it, to the nanosecond. The steps lie between the
clock readings of the driver around them.

--edges: the recording has a part of the run. Requests that it has as a whole are held against the log as ever,
         the others have to say what is missing.
--loss:  steps were lost; the same.
--least: so many requests must be there as a whole.
Several profiles are those of windows, in the order of time: what is of the same request in two of them has to say that
there is more of it.
"""

import argparse
import collections
import copy
import math
import sys

from reading import ns, read_lines

NEAR = 20000  # ns between a time of the driver and one of inftrace, where nothing came between the two; where probes are dear,
MOST = 100000  # five times the median, and at most this
JUDGED = 100  # at least, for a verdict about how many are not near
FAR = 0.25    # of them may not be: a page fault or an interrupt that falls between two clock readings takes some 30 us where
#               the machine is virtual without nested paging, and one in ten steps had one; an error of inftrace is in all
FOUND = 30    # steps, by which a window can be found in the log
WAITS = 8
SPANS = ("own_prefill", "own_decode", "others", "between")
TIMES = ("ttft", "tpot_p50", "tpot_p90", "tpot_p99", "tpot_max")


class Wrong(Exception):
    pass


def require(what, got, wanted):
    if got != wanted:
        raise Wrong(f"{what}: {got}, wanted {wanted}")


def require_near(what, got, wanted, tolerance):
    if abs(got - wanted) > tolerance:
        raise Wrong(f"{what}: {got} ns, wanted {wanted} ns (+-{tolerance})")


class Part:
    """What a step has of a request."""

    def __init__(self, values):
        self.request, self.sequence, self.position, self.rows, self.outputs, self.taken = values
        self.prompt = 0


class Step:
    """A step of the driver's log; start and end are inftrace's, in nanoseconds from the start of the recording."""

    def __init__(self, e):
        self.number, self.before, self.after, self.preempted = e["step"], e["before"], e["after"], e["preempted"]
        self.parts = {p.request: p for p in map(Part, e["parts"])}
        self.rows = sum(p.rows for p in self.parts.values())
        self.start = self.end = self.states = None

    @property
    def ns(self):
        return self.end - self.start

    @property
    def prompt(self):
        return sum(p.prompt for p in self.parts.values())


class Request:
    """A request of the driver's log."""

    def __init__(self, e, steps):
        self.__dict__.update(e)
        self.id = e["request"]
        self.carried = [s for s in steps[e["first_step"]:e["last_step"] + 1] if self.id in s.parts]
        self.all = steps[e["first_step"]:e["last_step"] + 1]
        left = self.prompt
        for s in self.carried:
            p = s.parts[self.id]
            p.prompt = min(left, p.rows)
            left -= p.prompt
        self.settled = True
        self.given = [s for s in self.carried if s.parts[self.id].outputs]

    def cut(self):
        """What the recording has of it, if that is its beginning; else None."""
        seen = [s for s in self.carried if s.start is not None]
        last = [s for s in self.all if s.number <= seen[-1].number]
        if seen != self.carried[:len(seen)] or any(s.start is None for s in last):
            return None
        r = copy.copy(self)
        r.carried, r.all, r.steps = seen, last, len(seen)
        r.given = [s for s in seen if r.part(s).outputs]
        r.prompt = sum(r.part(s).prompt for s in seen)
        r.outputs = sum(r.part(s).taken for s in seen)
        return r

    def forget_beginning(self):
        """What is prompt where only the recording's part of it is known: a single row with an output is none, unless it
        is behind rows of a prompt without one."""
        prompt = False
        for p in (self.part(s) for s in self.carried if s.start is not None):
            prompt = p.outputs < p.rows or (prompt and p.rows == 1)
            p.prompt = p.rows if prompt else 0
            prompt &= not p.outputs

    def forget_lost(self, lost):
        """The same where steps were lost, before it or in it: whether a single row with an output is the last one of a
        prompt cannot be known any more."""
        for s in self.all:
            lost |= s.start is None
            if lost and self.id in s.parts and s.start is not None:
                p = self.part(s)
                p.prompt = p.rows if p.outputs < p.rows else 0

    def part(self, s):
        return s.parts[self.id]

    def known(self):
        """Whether the recording has all steps that it lived through, as a whole."""
        return all(s.start is not None for s in self.all)

    def settle(self, shape, stage):
        """How many drafts of a last step were taken only the driver knows, unless the next request goes on
        there: it is one, at least. Returns its tokens."""
        p = self.part(self.carried[-1])
        self.settled = True
        if p.outputs > 1 and (p.taken > 1 and shape["output_tokens"] != self.outputs or p.taken == 1 and
                              any(ns(stage.get(k, 0)) != v for k, v in percentiles(self.intervals(lambda s: s.end)).items())):
            self.settled = False
        return self.outputs - (0 if self.settled else p.taken - 1)

    def intervals(self, end):
        """Between its tokens, by that clock."""
        times = []
        for a, b in zip(self.given, self.given[1:]):
            n = self.part(b).taken
            if b is not self.carried[-1] or self.settled:
                times += [(end(b) - end(a)) // n] * n
        return sorted(times)

    def spans(self):
        """Its whole time by what it was spent for, and by whom it waited for."""
        spans, waits = collections.Counter(dict.fromkeys(SPANS, 0)), collections.Counter()
        for s in self.all:
            own = s.parts.get(self.id)
            others = {p.request: p.prompt if own else p.rows for p in s.parts.values() if p.request != self.id}
            waited = s.ns * sum(others.values()) // s.rows
            spans["others"] += waited
            if own:
                spans["own_prefill" if own.prompt else "own_decode"] += s.ns - waited
            for other, rows in others.items():
                waits[other] += s.ns * rows / s.rows
        spans["between"] = self.all[-1].end - self.all[0].start - sum(s.ns for s in self.all)
        return spans, waits

    def states(self):
        """The same by the states of its steps' time."""
        states = collections.Counter()
        for s in self.all:
            own = s.parts.get(self.id)
            for state, time in s.states.items():
                waited = time * sum(p.prompt if own else p.rows for p in s.parts.values() if p.request != self.id) / s.rows
                states["others", state] += waited
                if own:
                    states["own_prefill" if own.prompt else "own_decode", state] += time - waited
        return states


def percentiles(values):
    def at(p):
        return values[math.ceil(len(values) * p / 100) - 1]

    return {"tpot_p50": at(50), "tpot_p90": at(90), "tpot_p99": at(99), "tpot_max": values[-1]} if values else {}


# ---- steps ----


def first_of(log, got):
    """The step of the log that the first whole one of the profile is: by how long they and the gaps between
    them took, which is less than between the driver's readings around them."""
    def fits(n):
        for k, s in got.items():
            if not 0 <= n + k < len(log):
                return False
            if ns(s["stage_us"]["total"]) > log[n + k].after - log[n + k].before:
                return False
            if k + 1 in got and 0 <= n + k + 1 < len(log):
                if begin(got[k + 1]) - finish(s) < log[n + k + 1].before - log[n + k].after:
                    return False
        return True

    found = [n for n in range(-min(got), len(log) - max(got)) if fits(n)]
    if len(found) != 1:
        raise Wrong(f"the steps of the profile fit {len(found)} runs of steps of the log")
    return found[0]


def begin(e):
    return ns(e["shape"]["ts_us"])


def begin_steps(e):
    """Of a request: one that is joined with a socket begins there, and is queued first."""
    return begin(e) + ns(e["stage_us"].get("queued", 0))


def finish(e):
    return begin(e) + ns(e["stage_us"]["total"])


def is_cut(e):
    return e["shape"].get("began_before") or e["shape"].get("unfinished")


def match_steps(log, profile, whole):
    steps = {e["shape"]["step"]: e for e in profile if e["event"] == "token_prof"}
    complete = {n: e for n, e in steps.items() if not is_cut(e)}
    if whole:
        require("steps", len(complete), len(log))
    if not complete:
        raise Wrong("no steps")
    at = first_of(log, complete)
    if whole:
        require("the first step", at, 0)
    for n, e in complete.items():
        s, shape = log[at + n], e["shape"]
        s.start, s.end = begin(e), finish(e)
        s.states = {k: ns(v) for k, v in e["stage_us"].items() if k != "total" and not k.startswith("workers_")}
        name = f"step {s.number}"
        require(f"{name}: rows", shape.get("rows", shape["n_tokens"]), s.rows)
        require(f"{name}: sequences", shape["n_sequences"], len(s.parts))
    return at, steps


def check_rows(log, at, steps):
    """What the rows of each step were, as far as the recording can know."""
    for n, e in steps.items():
        if is_cut(e):
            continue
        s, shape = log[at + n], e["shape"]
        require(f"step {s.number}: prompt", shape.get("prompt_tokens"), s.prompt)
        require(f"step {s.number}: decodes", shape.get("decode_tokens"), s.rows - s.prompt)


def near(times):
    """What is near on this machine. times: sorted."""
    return min(max(NEAR, 5 * times[len(times) // 2]), MOST) if times else NEAR


def check_clock(seen):
    """All steps lie between the driver's readings, by one and the same difference of the two clocks. Returns how
    far the two were apart at most where nothing came between."""
    low = max(s.before - s.start for s in seen)
    high = min(s.after - s.end for s in seen)
    if low > high:
        raise Wrong(f"steps do not lie between the driver's clock readings, by {low - high} ns")
    apart = sorted(s.after - s.before - s.ns for s in seen if not s.preempted)
    far = sum(a > near(apart) for a in apart)
    # interrupts, the hypervisor and probes that others place are not counted as preemption
    if len(apart) >= JUDGED and far > FAR * len(apart):
        raise Wrong(f"{far} of {len(apart)} steps that nobody preempted are {near(apart)} ns longer for the driver")
    return f"{len(seen)} steps, {len(seen) - len(apart)} of them preempted; " + (
        f"the driver's are {apart[len(apart) // 2]} ns longer, p99 {apart[len(apart) * 99 // 100]} ns" if apart else "")


# ---- requests ----


def check_tokens(name, r, shape, stage):
    wanted = {"sequence": r.sequence, "prompt_tokens": r.prompt, "cached_tokens": r.cached, "output_tokens": r.settle(shape, stage),
              "steps": len(r.carried), "steps_shared": sum(len(s.parts) > 1 for s in r.carried),
              "prefill_steps": sum(r.part(s).prompt > 0 for s in r.carried),
              "draft_steps": sum(r.part(s).outputs > 1 for s in r.given[1:])}
    for key, value in wanted.items():
        require(f"{name}: {key}", shape.get(key, 0 if key in ("draft_steps", "steps_shared") else None), value)
    require(f"{name}: steps in the log", len(r.carried), r.steps)
    if shape.get("cancelled") and not shape.get("joined"):  # else see check_http_requests.py
        require(f"{name}: cancelled", True, r.cancelled)


def check_times(name, r, stage):
    require(f"{name}: total", ns(stage["total"]) - ns(stage.get("queued", 0)), r.all[-1].end - r.all[0].start)
    require(f"{name}: times", {k for k in TIMES if k in stage}, set(wanted_times(r, lambda s: s.start, lambda s: s.end)))
    for key, value in wanted_times(r, lambda s: s.start, lambda s: s.end).items():
        require(f"{name}: {key}", ns(stage[key]), value)


def wanted_times(r, start, end):
    times = percentiles(r.intervals(end))
    if r.given:
        times["ttft"] = end(r.given[0]) - start(r.carried[0])
    return times


def apart(r):
    """How far its times are from those by the driver's clock, where nobody preempted the driver around them."""
    pairs = [(r.carried[0], r.given[0], "start", "before")] if r.given else []
    pairs += [(a, b, "end", "after") for a, b in zip(r.given, r.given[1:])]
    for a, b, begins, reads in pairs:
        if not a.preempted and not b.preempted:
            yield abs(b.end - getattr(a, begins) - (b.after - getattr(a, reads)))


def check_spans(name, r, stage):
    got = {k: ns(stage.get(k, 0)) for k in ("queued", *SPANS)}
    require(f"{name}: the sum of the parts", sum(got.values()), ns(stage["total"]))
    spans, states_wanted = r.spans()[0], r.states()
    for k in SPANS:
        require_near(f"{name}: {k}", got[k], spans[k], 0 if k == "between" else len(r.all))
    for k in SPANS:
        states = {s[len(k) + 1:]: ns(v) for s, v in stage.items() if s.startswith(k + "_")}
        if states or (k != "between" and got[k]):
            require(f"{name}: the sum of the states of {k}", sum(states.values()), got[k])
        for state in set(states) | {s for p, s in states_wanted if p == k}:
            if k != "between":
                require_near(f"{name}: {k}_{state}", states.get(state, 0), states_wanted[k, state], 2 * len(r.all) + 1)


def check_waits(name, r, e, numbers):
    shape, stage = e["shape"], e["stage_us"]
    waits, named, last = r.spans()[1], {}, None
    rounding = sum(len(s.parts) for s in r.all)
    for i in range(1, WAITS + 1):
        if f"waited{i}_us" not in shape:
            require(f"{name}: waits", [k for k in shape if k.startswith(f"waited{i}")], [])
            continue
        number, time = shape[f"waited{i}_for"], ns(shape[f"waited{i}_us"])
        if number not in numbers:
            raise Wrong(f"{name}: waited for {number}, which is no request")
        others = numbers[number]
        require(f"{name}: waited{i}_sequence", shape[f"waited{i}_sequence"], others[0].sequence)
        require(f"{name}: waited{i}_pid", shape[f"waited{i}_pid"], shape["pid"])
        if last is not None and time > last:
            raise Wrong(f"{name}: waited{i} is longer than the one before")
        last = time
        named.update((other.id, 0) for other in others)
        named[others[0].id] = time
        require_near(f"{name}: waited for number {number}, request {others[0].id}", time, sum(waits[o.id] for o in others), rounding)
    rest = ns(shape.get("waited_others_us", 0))
    require(f"{name}: the sum of the waits", sum(named.values()) + rest, ns(stage.get("others", 0)))
    left_out = {i: w for i, w in waits.items() if i not in named}
    if len(named) < WAITS:
        require_near(f"{name}: waits that are not named", rest, sum(left_out.values()), rounding * (1 + len(waits)))
    elif left_out and max(left_out.values()) > last + rounding:
        raise Wrong(f"{name}: a longer wait is left out")


def says_so(shape):
    return {k for k in ("began_before", "unfinished", "end_not_seen", "lost_steps") if shape.get(k)}


def check_whole(r, e):
    name = f"request {r.id} (number {e['shape']['number']})"
    check_tokens(name, r, e["shape"], e["stage_us"])
    check_times(name, r, e["stage_us"])
    check_spans(name, r, e["stage_us"])


def check_numbers(got):
    order = sorted(got, key=lambda e: e["shape"]["number"])
    require("numbers", [e["shape"]["number"] for e in order], list(range(1, len(got) + 1)))
    for a, b in zip(order, order[1:]):
        if begin_steps(b) < begin_steps(a):
            raise Wrong(f"number {b['shape']['number']} began before the one with the number before")


def check_part(mine, r, e, first, steps):
    """A request that the recording has a part of: it says what is missing, and has no number that needs it. With lost steps
    it may be several."""
    name, shape, said = f"request {r.id} (number {e['shape']['number']})", e["shape"], says_so(e["shape"])
    if not said:
        raise Wrong(f"{name}: the recording has a part of it only, and it does not say so")
    if r.first_step < first:
        require(f"{name}: began before", "began_before" in said, True)
    if said == {"end_not_seen"}:
        if not r.cut():
            raise Wrong(f"{name}: it lacks more than its end, and does not say so")
        check_whole(r.cut(), e)
        return
    if "began_before" in said or "lost_steps" in said:
        require(f"{name}: ttft", "ttft" in e["stage_us"], False)
    if "began_before" in said:
        require(f"{name}: prompt", {"prompt_tokens", "cached_tokens"} & shape.keys(), set())
    if "lost_steps" in said:
        require(f"{name}: times", [k for k in TIMES if k in e["stage_us"]], [])
    if shape.get("output_tokens", 0) > sum(q.outputs for q in mine):
        raise Wrong(f"{name}: {shape['output_tokens']} output tokens of {r.outputs}")
    if shape.get("prompt_tokens", 0) > sum(q.prompt for q in mine):
        raise Wrong(f"{name}: {shape['prompt_tokens']} tokens of a prompt of {r.prompt}")
    seen = sum(s.start is not None for q in mine for s in q.carried) + sum(bool(is_cut(s)) for s in steps.values())
    if shape.get("steps", 0) > seen:
        raise Wrong(f"{name}: {shape['steps']} steps of {seen}")
    spans = {k: ns(e["stage_us"][k]) for k in ("queued", *SPANS) if k in e["stage_us"]}
    if spans:
        require(f"{name}: the sum of the parts", sum(spans.values()), ns(e["stage_us"]["total"]))


def check_edges(windows):
    """A request that is in several windows ends in none but the last, and begins in none but the first."""
    over = 0
    for a, b in zip(windows, windows[1:]):
        for i in a.keys() & b.keys():
            require(f"request {i}: its end was not seen in the first of two windows", bool(a[i] & {"end_not_seen", "unfinished"}), True)
            require(f"request {i}: it began before the second of two windows", "began_before" in b[i], True)
            over += 1
    if not over:
        raise Wrong("no request is in two windows")
    print(f"{len(windows)} windows, with {over} requests over their edges")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--edges", action="store_true")
    p.add_argument("--loss", action="store_true")
    p.add_argument("--least", type=int, default=1)
    p.add_argument("log")
    p.add_argument("profile", nargs="+")
    o = p.parse_args()
    windows = [check(o, profile) for profile in o.profile]
    if len(windows) > 1:
        check_edges(windows)


def check(o, profile):
    """Returns what is said of each request that it has."""
    whole = not o.edges and not o.loss
    log, profile = read_lines(o.log), read_lines(profile)
    if len(o.profile) > 1 and sum(e["event"] == "token_prof" for e in profile) < FOUND:
        return {}  # the last window may be as short as that, and others on a busy machine
    told = [e for e in log if "cached" in e]
    log = [Step(e) for e in log if "parts" in e]
    requests = [Request(e, log) for e in told]
    at, steps = match_steps(log, profile, whole)
    print(check_clock([s for s in log if s.start is not None]))
    got = [e for e in profile if e["event"] == "request_prof" and e["shape"]["source_kind"] != "socket"]
    for e in got:
        require("source_kind", e["shape"]["source_kind"], "sequence")
        require("mixed", "mixed" in e["shape"], False)
    check_numbers(got)
    found, among, distances, parts, n_whole = {}, {}, [], collections.Counter(), 0
    begun = collections.defaultdict(list)
    unfinished = {at + n for n, e in steps.items() if e["shape"].get("unfinished")}
    for r in requests:
        begun[r.carried[0].start].append(r)
    for e in got:
        shape = e["shape"]
        mine = exact = [r for r in begun[begin_steps(e)] if r.sequence == shape["sequence"]]
        if not exact or "lost_steps" in says_so(shape):
            mine = [r for r in requests if r.sequence == shape["sequence"] and
                    any(s.start is not None and s.start >= begin_steps(e) and s.end <= finish(e) or
                        s.number in unfinished and "unfinished" in shape for s in r.carried)]
        if not mine and is_cut(e):
            continue  # of a single step, which the recording has a part of
        if len(mine) != 1 and not (says_so(shape) and (exact or mine)):
            raise Wrong(f"number {shape['number']} in sequence {shape['sequence']} is the requests {[r.id for r in mine]}")
        r = (exact or mine)[0]
        if r.id in found:
            raise Wrong(f"request {r.id} is number {found[r.id][1]['shape']['number']} and {shape['number']}")
        found[r.id] = r, e
        among[r.id] = mine if "lost_steps" in says_so(shape) else [r]
    # with lost steps a line may be of several: one has ended, and others have begun, in these
    numbers = {e["shape"]["number"]: [r, *(q for q in among[r.id] if q.id not in found)] for r, e in found.values()}
    for r, e in found.values():
        if e["shape"].get("began_before"):
            r.forget_beginning()
        for q in among[r.id] if e["shape"].get("lost_steps") else ():
            q.forget_lost(q is not r)
    check_rows(log, at, steps)
    for r, e in found.values():
        said = says_so(e["shape"]) - {"end_not_seen"}
        # the last one of each sequence has no other behind it
        if r.known() and not said:
            check_whole(r, e)
            check_waits(f"request {r.id}", r, e, numbers)
            distances += apart(r)
            n_whole += 1
        elif whole:
            raise Wrong(f"request {r.id}: {said} in a recording of the whole run")
        else:
            check_part(among[r.id], r, e, at, steps)
            parts.update(said or {"end_not_seen"})
    missing = [r.id for r in requests if r.id not in found and any(s.start is not None for s in r.carried)]
    if missing and not o.loss:
        raise Wrong(f"no line for the requests {missing}")
    if n_whole < (len(requests) if whole else o.least):
        raise Wrong(f"{n_whole} requests as a whole")
    distances.sort()
    far = sum(d > near(distances) for d in distances)
    # on a busy machine few are left, and what interrupts and the hypervisor did to some of them weighs too much
    if len(distances) >= JUDGED and far > FAR * len(distances):
        raise Wrong(f"{far} of {len(distances)} times that nobody preempted are more than {near(distances)} ns off the driver's")
    print(f"{n_whole} requests, {sum(r.cancelled for r, _ in found.values())} of them cancelled; {len(distances)} times to tokens "
          f"that nobody preempted are {distances[len(distances) // 2] if distances else 0} ns off the driver's, "
          f"p99 {distances[len(distances) * 99 // 100] if distances else 0} ns; parts: {dict(parts)}")
    return {i: says_so(e["shape"]) for i, (_, e) in found.items()}


if __name__ == "__main__":
    try:
        main()
    except Wrong as e:
        sys.exit(str(e))
