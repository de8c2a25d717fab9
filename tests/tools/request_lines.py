#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the profile of a server that batches requests, without a server: the lines of token_prof, request_prof
(source_kind "sequence") and window_prof (docs/profile-schema.md) of a simulation, in which every time is known.

usage: request_lines.py [--requests N] [--slots N] [--batch ROWS] [--rate PER_S] [--seed N] [--no-steps]
                        [--prompts A:B] [--outputs A:B] [--long EVERY:TOKENS] [--stall EVERY:MS] [--cancel EVERY]
                        [--truth FILE]

--long: each EVERYth request has a prompt of TOKENS; --stall: before each EVERYth step the server is blocked in the
network for MS. --truth: what was simulated, one JSON object a request, in the order of their numbers.
"""
import argparse
import collections
import json
import random

PID, CONTEXT = 4711, 94000000000000
HEAD = ('{"event":"%s","commit_sha":null,"env_hash":"sha256:0","model":"simulated","concurrency":%d,"shape":{%s},'
        '"stage_us":{%s},"graph_enabled":false,"runtime_flags":{},"source":"native","inftrace":1}')
WAITS = 8


def us(ns):
    return "%d.%03d" % divmod(ns, 1000)


def percentile(sorted_values, percent):
    return sorted_values[(len(sorted_values) * percent + 99) // 100 - 1]


class Request:
    def __init__(self, index, arrived, prompt, outputs):
        self.index, self.arrived, self.prompt, self.outputs = index, arrived, prompt, outputs
        self.cancel_after = None
        self.number = None
        self.slot = None
        self.begin = None          # of its first step
        self.left = prompt
        self.given = 0
        self.first_end = self.last_end = None
        self.intervals = []
        self.steps = self.shared = self.prefills = 0
        self.own_prefill = self.own_decode = self.others = self.between = 0
        self.states = collections.defaultdict(int)
        self.waited = collections.defaultdict(int)
        self.waited_first = {}
        self.first = None          # others and between before its first output

    def split(self, part, ns, states):
        """Time of a part by states, in the shares that the states have of what it is taken from."""
        whole = sum(states.values())
        left = ns
        for name, value in list(states.items())[1:]:
            self.states[part, name] += ns * value // whole
            left -= ns * value // whole
        self.states[part, next(iter(states))] += left

    def wait(self, ns, rows, states):
        """The time that rows of others took: rows is a list of (request, rows)."""
        self.others += ns
        self.split("others", ns, states)
        whole = sum(n for _, n in rows)
        for other, n in rows[1:]:
            self.waited[other] += ns * n // whole
        if rows:
            self.waited[rows[0][0]] += ns - sum(ns * n // whole for _, n in rows[1:])


class Server:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(args.seed)
        self.now = 1000000
        self.slots = [None] * args.slots
        self.step = self.numbers = 0
        self.done = []

    def write_step(self, total, states, rows):
        if self.args.no_steps:
            return
        n = sum(rows.values())
        prompts = sum(min(r.left, k) for r, k in rows.items())
        phase = "decode" if not prompts else "prefill" if len(rows) == 1 else "mixed"
        sequence = '"sequence":%d,' % next(iter(rows)).slot if len(rows) == 1 else ''
        outputs = sum(1 for r, k in rows.items() if not r.left or r.left == k)
        shape = ('"step":%d,"pid":%d,"tid":%d,"phase":"%s","n_tokens":%d,"context":%d,"n_outputs":%d,"n_sequences":%d,'
                 '%s"rows":%d,"prompt_tokens":%d,"decode_tokens":%d,"ts_us":%s' % (
                     self.step, PID, PID, phase, n, CONTEXT, outputs, len(rows), sequence, n, prompts, n - prompts,
                     us(self.now)))
        print(HEAD % ("token_prof", len(rows), shape, '"total":%s,' % us(total) + ",".join(
            '"%s":%s' % (k, us(v)) for k, v in states.items())))

    def begin(self, request, slot):
        self.numbers += 1
        request.number, request.slot, request.begin = self.numbers, slot, self.now
        self.slots[slot] = request

    def run_step(self):
        room, rows = self.args.batch, {}
        for r in self.slots:                    # those that decode first, as servers do
            if r and not r.left:
                rows[r] = 1
                room -= 1
        for r in self.slots:
            if r and r.left and room > 0:
                rows[r] = min(r.left, room)
                room -= rows[r]
        n = sum(rows.values())
        total = int((2000000 + 60000 * n) * self.random.uniform(1, 1.02))
        states = {"cpu": total * 9 // 10, "barrier": total - total * 9 // 10}
        self.write_step(total, states, rows)
        self.step += 1
        prompts = {r: k for r, k in rows.items() if r.left}
        end = self.now + total
        for r in [r for r in self.slots if r]:
            if r in rows:
                others = [(o, k) for o, k in prompts.items() if o is not r]
                waits = total * sum(k for _, k in others) // n
                if waits:
                    r.wait(waits, others, states)
                part = "own_prefill" if r.left else "own_decode"
                setattr(r, part, getattr(r, part) + total - waits)
                r.split(part, total - waits, states)
                r.steps += 1
                r.shared += len(rows) > 1
                r.prefills += r.left > 0
            elif r.steps:
                r.wait(total, list(rows.items()), states)
            else:
                r.begin = end                   # its first step is still to come
        self.now = end
        for r, k in rows.items():
            if r.left:
                r.left -= k
                if r.left:
                    continue
            r.given += 1
            if r.first_end is None:
                r.first_end = end
                r.first = r.others, r.between
                r.waited_first = dict(r.waited)
            else:
                r.intervals.append(end - r.last_out)
            r.last_out = end
        for r in rows:
            r.last_end = end

    def finish(self, r, unfinished=False, cancelled=False):
        self.slots[r.slot] = None
        self.done.append(r)
        total = r.last_end - r.arrived
        queued = r.begin - r.arrived
        waited = sorted(((o, ns) for o, ns in r.waited.items() if ns), key=lambda w: -w[1])
        shape = ('"pid":%d,"source_kind":"sequence","number":%d,"context":%d,"sequence":%d,"ts_us":%s,"prompt_tokens":%d,'
                 '"cached_tokens":0,"output_tokens":%d,"steps":%d,"steps_shared":%d,"prefill_steps":%d' % (
                     PID, r.number, CONTEXT, r.slot, us(r.arrived), r.prompt - r.left, r.given, r.steps, r.shared,
                     r.prefills))
        shape += ',"joined":true'
        if unfinished:
            shape += ',"end_not_seen":true'
        if cancelled:
            shape += ',"cancelled":true'
        for i, (other, ns) in enumerate(waited[:WAITS], 1):
            shape += ',"waited%d_for":%d,"waited%d_pid":%d,"waited%d_sequence":%d,"waited%d_us":%s' % (
                i, other.number, i, PID, i, other.slot, i, us(ns))
            if r.waited_first.get(other):
                shape += ',"waited%d_ttft_us":%s' % (i, us(r.waited_first[other]))
        if waited[WAITS:]:
            shape += ',"waited_others_us":%s' % us(sum(ns for _, ns in waited[WAITS:]))
        stages = [("total", total)]
        parts = [("queued", queued), ("own_prefill", r.own_prefill), ("own_decode", r.own_decode), ("others", r.others),
                 ("between", r.between)]
        assert sum(ns for _, ns in parts) == total, (parts, total)
        for part, ns in parts:
            stages.append((part, ns))
            stages += [("%s_%s" % k, v) for k, v in r.states.items() if k[0] == part and v]
        if r.first_end is not None:
            assert r.first_end - r.begin == r.own_prefill + r.first[0] + r.first[1]
            stages += [("ttft", r.first_end - r.begin), ("ttft_others", r.first[0]), ("ttft_between", r.first[1]),
                       ("ttft_client", r.first_end - r.arrived)]
        if r.intervals:
            values = sorted(r.intervals)
            stages.append(("tpot_mean", sum(values) // len(values)))
            stages += [("tpot_p%d" % p, percentile(values, p)) for p in (50, 90, 99)] + [("tpot_max", values[-1])]
        print(HEAD % ("request_prof", 1, shape, ",".join('"%s":%s' % (k, us(v)) for k, v in stages)))

    def pause(self, ns, state):
        """The server does something other than steps."""
        for r in self.slots:
            if r and r.steps:
                r.between += ns
                r.states["between", state] += ns
            elif r:
                r.begin += ns
        self.now += ns

    def run(self):
        args, arrivals, at = self.args, collections.deque(), 0
        for i in range(args.requests):
            at += int(self.random.expovariate(args.rate) * 1e9)
            prompt = self.random.randint(*args.prompts)
            if args.long and i % args.long[0] == args.long[0] - 1:
                prompt = args.long[1]
            r = Request(i, at, prompt, self.random.randint(*args.outputs))
            if args.cancel and i % args.cancel == args.cancel - 1:
                r.cancel_after = self.random.randint(1, max(1, r.outputs - 1))
            arrivals.append(r)
        while arrivals or any(self.slots):
            if not any(self.slots) and arrivals[0].arrived > self.now:
                self.now = arrivals[0].arrived + 20000
            for slot, r in enumerate(self.slots):
                if not r and arrivals and arrivals[0].arrived <= self.now:
                    self.begin(arrivals.popleft(), slot)
            self.run_step()
            for r in [r for r in self.slots if r]:
                if r.given >= r.outputs or (r.cancel_after and r.given >= r.cancel_after):
                    self.finish(r, cancelled=r.given < r.outputs)
            self.pause(150000 + self.random.randint(0, 20000), "cpu")
            if args.stall and self.step % args.stall[0] == args.stall[0] - 1:
                self.pause(args.stall[1] * 1000000, "blocked_net")
        print(HEAD % ("window_prof", 1, '"window":0,"records":%d,"lost":0,"steps":%d,"coverage":1.000000' % (
            self.step, self.step), '"total":%s' % us(self.now)))


def pair(text):
    a, b = text.split(":")
    return int(a), int(b)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--requests", type=int, default=100)
    p.add_argument("--slots", type=int, default=8)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--rate", type=float, default=6)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--no-steps", action="store_true")
    p.add_argument("--prompts", type=pair, default=(40, 120))
    p.add_argument("--outputs", type=pair, default=(8, 64))
    p.add_argument("--long", type=pair)
    p.add_argument("--stall", type=pair)
    p.add_argument("--cancel", type=int)
    p.add_argument("--truth")
    args = p.parse_args()
    server = Server(args)
    server.run()
    if args.truth:
        with open(args.truth, "w") as f:
            for r in sorted(server.done, key=lambda r: r.number):
                f.write(json.dumps({
                    "number": r.number, "slot": r.slot, "arrived": r.arrived, "begin": r.begin, "end": r.last_end,
                    "prompt": r.prompt, "outputs": r.given, "ttft": r.first_end - r.begin, "queued": r.begin - r.arrived,
                    "tpot": sum(r.intervals) // len(r.intervals) if r.intervals else None,
                    "waited": {str(o.number): ns for o, ns in r.waited.items()}}) + "\n")


if __name__ == "__main__":
    main()
