#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# -e irq: interrupts agree with the kernel's own counters, and steps still add up.

# The second opinion on counts needs tracefs: in a mount namespace of its own where it is not mounted.
if [ "${1:-}" != --list ] && [ "$(id -u)" -eq 0 ] && [ ! -e /sys/kernel/tracing/events/irq ] && [ -z "${IRQ_NAMESPACE:-}" ]; then
	# shellcheck disable=SC2016
	IRQ_NAMESPACE=1 exec unshare -m sh -c 'mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec "$0" "$@"' "$0" "$@"
fi

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"
CHECK_KERNEL=$TOP/tests/programs/check_kernel.py

adds_up() { # STDERR
	! grep -e "did not add up" -e "nested too deep" -e "within an interrupt" "$1"
}

need python3 node bpftool

test_irqs() {
	p=$PROGRAMS/irqs
	if record irqs -e +irq --engine none -u "$p:work(round=s32 arg1)@step" -- "$p" 40; then
		why=$(json 'o[-1].get("skipped", "")' o="$TMP/irqs.out")
		if [ -n "$why" ]; then
			skip "irqs: counts" "$why"
		else
			check "irqs: as perf_event_open counts them, of each type" \
				"$CHECK_KERNEL" irqs "$TMP/irqs.json" "$TMP/irqs.out"
		fi
		check "irqs: the breakdown of each step, from its spans" \
			"$CHECK" breakdown "$TMP/irqs.json" "$TMP/irqs.jsonl"
		check "irqs: every step adds up" adds_up "$TMP/irqs.err"
		expect "irqs: the time is in the steps" \
			'(lambda steps: steps and all(p["stage_us"].get("irq", 0) > 0 for p in steps))([
				p for p in p if p["event"] == "token_prof"]) is True' p="$TMP/irqs.jsonl"
		check "irqs: the sums of the process" "$CHECK_KERNEL" sums "$TMP/irqs.json" "$TMP/irqs.jsonl"
	fi
}

# Interrupts, preemption and probes in the middle of each other.
test_preempt() {
	p=$PROGRAMS/preempt
	if record preempt -e +irq --engine none --ring-size 64MB -u "$p:work(round=s32 arg1)@step" \
		-u "$p:leaf@op" -u "$p:spin@barrier" -- "$p" 12 150; then
		check "preempt: calls, faults and switches of each thread" \
			"$CHECK" sections "$TMP/preempt.json" "$TMP/preempt.out"
		check "preempt: the breakdown of each step, from its spans" \
			"$CHECK" breakdown "$TMP/preempt.json" "$TMP/preempt.jsonl"
		check "preempt: every step adds up" adds_up "$TMP/preempt.err"
	fi
}

test_alone() {
	p=$PROGRAMS/irqs
	record alone -e irq --engine none -u "$p:work@step" -- "$p" 5
	expect "-e irq alone: interrupts, and steps with them" \
		'{e.get("cat") for e in t if e["ph"] == "X"} - {"inftrace", "gap"} == {"irq", "step", "steps"}' t="$TMP/alone.json"
}

loaded() { # PID: the programs of interrupts and memory that it holds; others may trace, too
	bpftool -j prog show | python3 -c '
import glob, json, sys
held = set()
for path in glob.glob("/proc/%s/fdinfo/*" % sys.argv[1]):
    with open(path) as f:
        held |= {int(l.split()[1]) for l in f if l.startswith("prog_id:")}
names = [p["name"] for p in json.load(sys.stdin) if p.get("id") in held and "name" in p]
print(sum(n.startswith(("irq_", "memory_")) for n in names), bool(names))' "$1"
}

# Programs that are not needed are not loaded.
test_loaded() {
	background "$INFTRACE" record -q --engine none -o "$TMP/none.json" -p $$
	wait_until 60 test -s "$TMP/none.json"
	same "without -e irq and -e memory none of their programs is loaded" "$(loaded "$BG")" "0 True"
	kill -INT "$BG"
	wait "$BG" || true
}

teardown() {
	traces_check
}

run_tests "$@"
