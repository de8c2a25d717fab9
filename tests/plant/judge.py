# SPDX-License-Identifier: BSD-2-Clause
"""Compares what `inftrace report` names with what was planted, and with what the kernel counted.

The counts are taken by hook.c around each step, without inftrace: the wall time of a step is the sum of three
parts of the thread that calls it,

    cpu    its CPU clock: running, in whatever state; and being interrupted
    delay  waiting for a CPU (schedstat)
    off    the rest: blocked or stopped; or, without a voluntary switch, taken away by a hypervisor

What a step has more of a part than the steps around it, and more than the plant itself makes up, is of another
origin: the machine has other work. A planted step with much of that proves nothing either way; it is not judged,
and planted anew. A step that is not planted may be named where these counts say the same: else it is a false
alarm.
"""

import collections
import dataclasses
import statistics

MS = 1e6
NOISE = 1 * MS
TOLERANCE = 0.1
LEAST = 3 * MS  # smaller parts, as at the edges of a plant, may go unnamed
NEAR = 80  # steps before and behind one that are compared with it

PARTS = ("cpu", "delay", "off")
RUNNING = ("cpu", "barrier", "syscall", "fault", "irq")


def part_of(state):
    return "cpu" if state in RUNNING else "delay" if state == "runnable" else "off"


@dataclasses.dataclass(frozen=True)
class Cause:
    """state: what it must be called. also: further states that it consists of. measure: how its size is known:
    "plant", by who planted it; "overlap", the part of the step that it was in force; else the parts of the
    step's time that it adds to, by the kernel's counts. by: who must be named as the one behind it."""
    planted: str
    state: str
    also: tuple = ()
    measure: object = "plant"
    by: str = None
    where: tuple = ("own",)
    threads: int = 1
    contended: int = 0  # the thread that it is planted beside
    events: tuple = ()


CAUSES = {
    "hog": Cause("hog", "runnable", measure=("delay",), by="plant_hog"),
    "hog-worker": Cause("hog", "runnable", measure="worker", by="plant_hog", where=("straggler", "workers"), threads=2,
                        contended=1),
    "quota": Cause("quota", "runnable", measure=("delay",), by="cpu.max"),
    "stop": Cause("stop", "stopped", measure="overlap", by="planter"),
    "evict": Cause("evict", "blocked_fault", ("fault",), measure=("off", "cpu")),
    "drop": Cause("drop", "blocked_fault", ("fault",), measure=("off", "cpu")),
    "mutex": Cause("mutex", "blocked_futex", by="plant_holder"),
    "pipe": Cause("pipe", "blocked_ipc", ("syscall",), by="planter"),
    "socket": Cause("socket", "blocked_ipc", by="planter"),
    "sleep": Cause("sleep", "blocked_sleep"),
    "fsync": Cause("fsync", "blocked_io", ("syscall",)),
    "storm": Cause("storm", "syscall", ("cpu",)),
    "fork": Cause("fork", "syscall", ("fault",)),
    "debugger": Cause("debugger", "stopped", measure="overlap", by="planter"),
    "softirq": Cause("softirq", "irq", measure=("cpu",), events=("-e", "+irq")),
}


class Step:
    """A step as hook.c has seen it, in nanoseconds, with what the profile and the report say of it."""

    def __init__(self, line, profile, report):
        caller, *workers = line["threads"]
        self.number, self.n_tokens, self.majflt = line["step"], line["n_tokens"], line["majflt"]
        self.start, self.end = caller["start_ns"], caller["end_ns"]
        self.wall, self.cpu = self.end - self.start, caller["cpu_ns"]
        # what is read just behind the step may hold a delay behind it
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
    """Counts what became of each step; notes say why those were not right that were not."""

    def __init__(self, cause, plants, steps):
        self.cause, self.plants = cause, plants
        self.steps = [s for s in steps if s.n_tokens == 1]
        self.usual = [s for s in self.steps if not any(s.overlaps(p) for p in plants)]
        self.count = collections.Counter()
        self.errors, self.notes = [], []
        for s in self.steps:
            self.step(s)

    def near(self, s):
        return [u for u in self.usual if abs(u.number - s.number) <= NEAR and u is not s]

    def more(self, s, part):
        """Than the steps around it have."""
        return getattr(s, part) - statistics.median(getattr(u, part) for u in self.near(s))

    def more_in_state(self, s, state):
        return s.states.get(state, 0) - statistics.median(u.states.get(state, 0) for u in self.near(s))

    def noise(self, s, state):
        """How much more of it one in twenty of the steps around this one has."""
        values = sorted(u.states.get(state, 0) for u in self.near(s))
        return values[len(values) * 19 // 20] - statistics.median(values)

    def least(self, s):
        walls = [u.wall for u in self.near(s)]
        middle = statistics.median(walls)
        return max(LEAST, TOLERANCE * middle, 9 * statistics.median(abs(w - middle) for w in walls))

    def own(self, s):
        """What the plants add to each part of the step; None: nothing."""
        c, own = self.cause, dict.fromkeys(PARTS, 0)
        hit = [p for p in self.plants if s.overlaps(p) and p.get("step", s.number) == s.number]
        if c.planted == "evict":  # the pages are read again when they are needed next
            hit = [p for p in self.plants if p["start_ns"] < s.end and s.majflt]
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
        if size < self.least(s):
            self.unplanted(s)
        elif self.disturbed(s, own, size):
            self.count["disturbed"] += 1
            self.note(s, f"disturbed, planted {size / MS:.2f} ms")
        else:
            self.planted(s, own, size)

    def disturbed(self, s, own, size):
        """Whether something else has added to the step, or to a part of it."""
        limit = max(NOISE, TOLERANCE * size)
        return (abs(self.more(s, "wall") - size) > limit or
                self.cause.measure != "worker" and self.more(s, "worker") > limit or
                any(abs(self.more(s, p) - own[p]) > limit for p in PARTS))

    def confirmed(self, s):
        """Whether the kernel's counts tell of the same."""
        parts = {p: self.more(s, p) for p in PARTS}
        if not s.blocked:  # the hypervisor
            parts["cpu"] += parts["off"]
            parts["off"] = 0
        size = parts[part_of(s.named)] if s.report["where"] == "own" else max(parts.values())
        return close(self.more(s, "wall"), s.excess) and size >= 0.4 * s.excess

    def unplanted(self, s):
        self.count["others"] += 1
        if not s.named:
            self.count["unnamed"] += self.more(s, "wall") > self.least(s)
        elif self.confirmed(s):
            self.count["natural"] += 1
        else:
            self.count["false"] += 1
            self.note(s, "false alarm")

    def limit(self, s, size):
        """For sizes by state. What the kernel counts as one part is several states."""
        mixed = isinstance(self.cause.measure, tuple) and len(self.cause.measure) > 1
        return max(NOISE, TOLERANCE * size, self.noise(s, "cpu") if mixed else 0)

    def size_by_state(self, s):
        """How much more time than usual was spent in the states that the cause consists of."""
        if "own" not in self.cause.where:
            return s.report["state_us"] * 1e3
        return sum(self.more_in_state(s, state) for state in (self.cause.state, *self.cause.also))

    def others(self, s, own, size):
        """States that have risen though they are none of the cause, by more than something else in the step."""
        c = self.cause
        for state in s.states if "own" in c.where else ():
            if state not in (c.state, *c.also):
                part = part_of(state)
                else_ = max(0, self.more(s, part) - own[part])
                if self.more_in_state(s, state) > else_ + max(NOISE, TOLERANCE * size, self.noise(s, state)):
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
        elif abs(self.size_by_state(s) - size) > self.limit(s, size):
            self.note(s, f"{self.size_by_state(s) / MS:.2f} ms in the states of the cause, not {size / MS:.2f}")
        elif others:
            self.note(s, "more " + ", ".join(others))
        else:
            self.count["right"] += 1
            self.count["who"] += s.report.get("by") == c.by
            self.errors.append(abs(s.excess - size))
