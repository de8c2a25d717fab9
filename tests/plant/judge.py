# SPDX-License-Identifier: BSD-2-Clause
"""Compares what `inftrace report` names with what was planted, and with what the kernel counted.

The counts are taken by hook.c around each step, without inftrace: the wall time of a step is the sum of three
parts of the thread that calls it,

    cpu    its CPU clock: running, in whatever state; and being interrupted
    delay  waiting for a CPU (schedstat)
    off    the rest: blocked or stopped; or, without a voluntary switch, taken away by a hypervisor

Where a step has more of a part than the typical step and than the plant itself adds, that time has another origin:
other work of the machine. A planted step with much of that proves nothing either way; it is not judged, and planted
again. A step that is not planted may be named if these counts say the same; otherwise it is a false alarm.
"""

import collections
import dataclasses
import statistics

MS = 1e6
NOISE = 1 * MS
TOLERANCE = 0.1
PACKETS = 50  # and more: their cost can be measured
LEAST = 3 * MS  # smaller parts, as at the edges of a plant, may go unnamed

PARTS = ("cpu", "delay", "off")
RUNNING = ("cpu", "barrier", "syscall", "fault", "irq")


def part_of(state):
    return "cpu" if state in RUNNING else "delay" if state == "runnable" else "off"


@dataclasses.dataclass(frozen=True)
class Cause:
    """state: what it must be called. also: further states that it consists of. measure: how its size is known:
    "plant", by the planter; "overlap", the part of the step in which it was in force; "packets", by their number
    and the usual cost of one; else the parts of the step's time that it adds to, by the kernel's counts. by: who
    causes it."""
    planted: str
    state: str
    also: tuple = ()
    measure: object = "plant"
    by: str = None
    where: tuple = ("own",)
    threads: int = 1
    contended: int = 0  # the thread that it is planted beside; None: all
    events: tuple = ()


CAUSES = {
    "hog": Cause("hog", "runnable", measure=("delay",), by="plant_hog"),
    "hog-worker": Cause("hog", "runnable", measure="worker", by="plant_hog", where=("straggler", "workers"), threads=2,
                        contended=1),
    "quota": Cause("quota", "runnable", measure=("delay",), by="cpu.max", contended=None),
    "stop": Cause("stop", "stopped", measure="overlap", by="planter"),
    # cpu: what a hypervisor does about a page that is mapped anew, and caches that are cold, look like running
    "evict": Cause("evict", "blocked_fault", ("fault", "cpu"), measure=("off", "cpu")),
    "drop": Cause("drop", "blocked_fault", ("fault", "cpu"), measure=("off", "cpu")),
    "mutex": Cause("mutex", "blocked_futex", by="plant_holder"),
    "pipe": Cause("pipe", "blocked_ipc", ("syscall",), by="planter"),
    "socket": Cause("socket", "blocked_ipc", by="planter"),
    "sleep": Cause("sleep", "blocked_sleep"),
    "fsync": Cause("fsync", "blocked_io", ("syscall",)),
    "storm": Cause("storm", "syscall", ("cpu",)),
    "fork": Cause("fork", "syscall", ("fault", "cpu")),
    "debugger": Cause("debugger", "stopped", measure="overlap", by="planter"),
    "softirq": Cause("softirq", "irq", measure="packets", events=("-e", "+irq")),
}


class Step:
    """A step as hook.c has seen it, in nanoseconds, with what the profile and the report say about it."""

    def __init__(self, line, profile, report):
        caller, *workers = line["threads"]
        self.number, self.n_tokens, self.majflt = line["step"], line["n_tokens"], line["majflt"]
        self.packets = line["packets"]
        self.total = profile["stage_us"]["total"] * 1e3
        self.start, self.end = caller["start_ns"], caller["end_ns"]
        self.wall, self.cpu = self.end - self.start, caller["cpu_ns"]
        # a value read just after the step may include a delay after it
        self.delay = min(caller["delay_ns"], max(0, self.wall - self.cpu))
        self.off = max(0, self.wall - self.cpu - self.delay)
        self.blocked = line["nvcsw"] > 0
        self.worker = max((min(w["delay_ns"], self.wall) for w in workers), default=0)
        self.states = {s: us * 1e3 for s, us in profile["stage_us"].items()
                       if s != "total" and not s.startswith("workers_")}
        self.workers = {s[8:]: us * 1e3 for s, us in profile["stage_us"].items() if s.startswith("workers_")}
        self.report, self.shape = report, profile["shape"]
        self.named = report["state"] if report["where"] != "none" else None
        self.excess = report["excess_us"] * 1e3

    def overlaps(self, plant):
        return plant["start_ns"] < self.end and plant["end_ns"] > self.start

    def __str__(self):
        def text(values):
            return ", ".join(f"{k} {v / MS:.2f}" for k, v in values.items() if v >= MS / 10)

        stalls = ", ".join(f"{k} {v}" for k, v in self.shape.items() if k.startswith(("stall", "straggler")))
        said = ", ".join(f"{k} {v}" for k, v in self.report.items() if k not in ("pid", "recording", "n_tokens"))
        return (f"\n    kernel   {text({p: getattr(self, p) for p in (*PARTS, 'worker')})} ms"
                f"\n    profile  {text(self.states)} ms; workers {text(self.workers)} ms; {stalls}"
                f"\n    report   {said}")


def close(a, b):
    return abs(a - b) <= max(NOISE, TOLERANCE * max(a, b))


class Judge:
    """Counts the results of the steps; notes say why the wrong ones were wrong."""

    def __init__(self, cause, plants, steps):
        self.cause, self.plants = cause, plants
        self.steps = [s for s in steps if s.n_tokens == 1]
        usual = [s for s in self.steps if not s.packets and not any(s.overlaps(p) for p in plants)]
        self.typical = {p: statistics.median(getattr(s, p) for s in usual) for p in ("wall", "worker", *PARTS)}
        self.usual_states = {state: [u.states.get(state, 0) for u in usual] for s in self.steps for state in s.states}
        # as much as chance would add to one in 10^9, if the distribution were normal
        scatter = statistics.median(abs(s.wall - self.typical["wall"]) for s in usual)
        self.least = max(LEAST, TOLERANCE * self.typical["wall"], 9 * scatter)
        costs = [self.more(s, "cpu") / s.packets for s in self.steps if s.packets >= PACKETS]
        self.packet_cost = statistics.median(costs) if costs else 0
        self.count = collections.Counter()
        self.errors, self.notes = [], []
        for s in self.steps:
            self.step(s)

    def more(self, s, part):
        """More of a part than steps usually have."""
        return getattr(s, part) - self.typical[part]

    def more_in_state(self, s, state):
        return s.states.get(state, 0) - statistics.median(self.usual_states[state])

    def noise(self, state):
        """How much more of a part one in twenty of the usual steps has."""
        values = sorted(self.usual_states[state])
        return values[len(values) * 19 // 20] - statistics.median(values)

    def own(self, s):
        """What the plants add to each part of the step; None: nothing."""
        c, own = self.cause, dict.fromkeys(PARTS, 0)
        if c.measure == "packets":  # they are received until some time after the last is sent
            own["cpu"] = s.packets * self.packet_cost
            return own if s.packets else None
        hit = [p for p in self.plants if s.overlaps(p) and p.get("step", s.number) == s.number]
        if c.planted in ("evict", "drop") and not s.majflt:
            hit = []
        if not hit:
            return None
        if c.measure == "plant":
            for p in hit:
                own["cpu"] += p["cpu_ns"]
                own["off"] += p["end_ns"] - p["start_ns"] - p["cpu_ns"] - p["delay_ns"]
        elif c.measure == "overlap":
            own["off"] = sum(min(p["end_ns"], s.end) - max(p["start_ns"], s.start) for p in hit)
        elif c.measure == "worker":  # for which the caller spins, and then sleeps
            own["off"] = max(0, min(self.more(s, "worker"), self.more(s, "off")))
            own["cpu"] = max(0, self.more(s, "worker")) - own["off"]
        else:
            for part in c.measure:
                own[part] = max(0, self.more(s, part))
        return own

    def note(self, s, what):
        self.notes.append(f"step {s.number}: {what}: {s}")

    def step(self, s):
        own = self.own(s)
        size = sum(own.values()) if own else 0
        if size < self.least:
            self.unplanted(s)
        elif self.disturbed(s, own, size):
            self.count["disturbed"] += 1
            self.note(s, f"disturbed, planted {size / MS:.2f} ms")
        else:
            self.planted(s, own, size)

    def disturbed(self, s, own, size):
        """Whether something else has added to the step, or to a part of it; or has come between the step and the
        clock reads around it."""
        limit = max(NOISE, TOLERANCE * size)
        # without nested paging a page that is in memory again takes longer to be mapped than to be read
        if self.cause.planted in ("evict", "drop") and own["cpu"] > own["off"]:
            return True
        return (s.wall - s.total > NOISE or abs(self.more(s, "wall") - size) > limit or
                self.cause.contended is not None and self.cause.measure != "worker" and
                self.more(s, "worker") > limit or
                any(abs(self.more(s, p) - own[p]) > limit for p in PARTS))

    def confirmed(self, s):
        """Whether the kernel's counts say the same."""
        parts = {p: self.more(s, p) for p in PARTS}
        if not s.blocked:  # the hypervisor
            parts["cpu"] += parts["off"]
            parts["off"] = 0
        size = parts[part_of(s.named)] if s.report["where"] == "own" else max(parts.values())
        return close(self.more(s, "wall"), s.excess) and size >= 0.4 * s.excess

    def unplanted(self, s):
        self.count["others"] += 1
        if not s.named:
            self.count["unnamed"] += self.more(s, "wall") > self.least
        elif self.confirmed(s):
            self.count["natural"] += 1
        else:
            self.count["false"] += 1
            self.note(s, "false alarm")

    def limit(self, size):
        """For sizes by state. One part of the kernel's counts is several states."""
        mixed = "cpu" in self.cause.measure
        return max(NOISE, TOLERANCE * size, self.noise("cpu") if mixed else 0)

    def size_by_state(self, s):
        """How much more time than usual was spent in the states that the cause consists of."""
        if "own" not in self.cause.where:
            return s.report["state_us"] * 1e3
        return sum(self.more_in_state(s, state) for state in (self.cause.state, *self.cause.also))

    def others(self, s, own, size):
        """States that have grown although the cause does not consist of them, by more than the other work explains."""
        c = self.cause
        for state in s.states if "own" in c.where else ():
            if state not in (c.state, *c.also):
                part = part_of(state)
                else_ = max(0, self.more(s, part) - own[part])
                if self.more_in_state(s, state) > else_ + max(NOISE, TOLERANCE * size, self.noise(state)):
                    yield state

    def planted(self, s, own, size):
        c = self.cause
        self.count["planted"] += 1
        others = list(self.others(s, own, size))
        if s.named != c.state or s.report["where"] not in c.where:
            self.count["false"] += bool(s.named)
            self.note(s, f"not {c.state}")
        elif not close(s.excess, size):
            self.note(s, f"not {size / MS:.2f} ms")
        elif abs(self.size_by_state(s) - size) > self.limit(size):
            self.note(s, f"{self.size_by_state(s) / MS:.2f} ms in the states of the cause, not {size / MS:.2f}")
        elif others:
            self.note(s, "more " + ", ".join(others))
        else:
            self.count["right"] += 1
            self.count["who"] += s.report.get("by") == c.by
            self.errors.append(abs(s.excess - size))
