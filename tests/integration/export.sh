#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace export, of a recording with known stacks, and what it says of files that it cannot export. The formats are
# in tests/unit/test_export.c.

. "$(dirname "$0")/../lib.sh"
# Debian's versioned package has no link in /usr/bin
PATH=$PATH:/usr/lib/go-1.19/bin

refuses() { # NAME WANTED_RC PATTERN ARG...
	refused "$1" "$2" "$3" "$INFTRACE" export "${@:4}"
}

test_options() {
	refuses "no format" 2 'give one of --collapsed, --pprof, --speedscope, --prometheus and --otlp' "$TMP/x"
	refuses "two formats" 2 'give one of --collapsed' --collapsed --pprof "$TMP/x"
	refuses "no file" 2 'no FILE given' --collapsed
	refuses "two files" 2 'one FILE at a time' --collapsed "$TMP/x" "$TMP/y"
	refuses "a state that there is none" 2 '.' --collapsed --state running "$TMP/x"
	refuses "--off-cpu with another format" 2 'off-cpu is for --collapsed' --pprof --off-cpu "$TMP/x"
}

test_files() {
	: >"$TMP/empty"
	echo '[' >"$TMP/trace.json"
	echo 'neither' >"$TMP/text"
	# a packet of 1 byte, then one of 16, of which 2 are there
	printf '\x0a\x02\x50\x01\x0a\x10\x50\x01' >"$TMP/torn"
	gzip -c "$TMP/torn" | head -c 20 >"$TMP/cut.gz"
	refuses "a directory" 1 "$TMP: is a directory" --collapsed "$TMP"
	refuses "a file that is not there" 1 'none: cannot open: No such file' --collapsed "$TMP/none"
	refuses "an empty file" 1 'empty: is empty' --collapsed "$TMP/empty"
	refuses "a Chrome trace" 1 'trace.json: is a Chrome trace.*record with -o FILE.pftrace' --pprof "$TMP/trace.json"
	refuses "no trace at all" 1 'text: byte 0: no packet begins here' --speedscope "$TMP/text"
	refuses "gzip cut inside a member" 1 'byte [0-9]*: gzip data is cut inside a member' --collapsed "$TMP/cut.gz"
	check_rc "a torn packet is a warning" 1 'warning: .*ends within a packet' "$INFTRACE" export --collapsed "$TMP/torn"
	check_rc "and no sample in it an error" 1 'has no samples: record with -e \+samples' \
		"$INFTRACE" export --collapsed "$TMP/torn"
}

# Records once for the tests below.
recorded() {
	[ ! -e "$TMP/flames.out" ] || return 0
	. "$TOP/tests/programs/programs.sh"
	timeout 100 "$INFTRACE" record -q --strict -e +samples,+stacks --sample-rate 499 --min-stack 1ms -o "$TMP/flames.pftrace" \
		-o "$TMP/flames.pftrace.gz" -o "$TMP/flames.json" --profile "$TMP/flames.jsonl" \
		-- "$PROGRAMS/flames" 500 >"$TMP/flames.out"
}

# The sum of the lines of collapsed stacks that match.
sum_of() { # PATTERN FILE
	{ grep -E -e "$1" "$2" || true; } | awk '{ n += $NF } END { print n + 0 }'
}

test_recorded() {
	local n all
	recorded
	check "recorded: collapsed" "$INFTRACE" export --collapsed -o "$TMP/cpu" "$TMP/flames.pftrace"
	check "recorded: waits, collapsed" "$INFTRACE" export --collapsed --off-cpu -o "$TMP/waits" "$TMP/flames.pftrace"
	check "recorded: packed" "$INFTRACE" export --collapsed -o "$TMP/cpu.gz" "$TMP/flames.pftrace.gz"
	same "recorded: packed, the same" "$(sort "$TMP/cpu.gz")" "$(sort "$TMP/cpu")"
	all=$(sum_of . "$TMP/cpu") n=$(sum_of '^flames;.*;main;outer(;inner)?[; ]' "$TMP/cpu")
	expect "recorded: samples are where the time is" "0 < $n <= $all and $n >= 0.8 * $all"
	expect "recorded: each sample is in the profile" \
		"sum(l['shape']['samples'] for l in p if l['event'] == 'stack_prof' and l['shape']['kind'] == 'sample') == $all" \
		p="$TMP/flames.jsonl"
	# so long it slept in each, except that a thread is preempted before it sleeps while the time runs
	expect "recorded: waits are as long as they were" \
		"0 < $(sum_of ';hold_lock;.*nanosleep' "$TMP/waits") >= c['naps'] * 4000 - sum(
			e['dur'] if e['name'] == 'runnable' else e['args'].get('run_queue_us', 0)
			for e in t if e.get('cat') == 'sched' and e['ph'] == 'X')" c=last:"$TMP/flames.out" t="$TMP/flames.json"
	expect "recorded: waits for a lock show who wanted it" "$(sum_of ';hold_lock;.*lock' "$TMP/waits") >= 4000"
	expect "recorded: each wait is in the profile, to the nanosecond" "abs(sum(l['stage_us']['total'] for l in p
		if l['event'] == 'stack_prof' and l['shape']['kind'] == 'wait') - $(sum_of . "$TMP/waits")) < 1000" p="$TMP/flames.jsonl"
	check "recorded: valid" "$INFTRACE" validate "$TMP/flames.json" "$TMP/flames.jsonl"
	check "recorded: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$TMP/flames.pftrace" "$TMP/flames.json"
}

# The profile has the same samples, and their states.
test_profile() {
	local all
	recorded
	check_rc "profile: not over itself" 1 'is the file to export' "$INFTRACE" export --collapsed -o "$TMP/flames.jsonl" "$TMP/flames.jsonl"
	check "profile: exported" "$INFTRACE" export --collapsed -o "$TMP/profile" "$TMP/flames.jsonl"
	check "profile: the .pftrace" "$INFTRACE" export --collapsed -o "$TMP/cpu" "$TMP/flames.pftrace"
	same "profile: as many samples" "$(sum_of . "$TMP/profile")" "$(sum_of . "$TMP/cpu")"
	# threads have the name of their process, and frames the same names
	same "profile: the same stacks" "$(sort "$TMP/profile")" "$(sort "$TMP/cpu")"
	check "profile: a state" "$INFTRACE" export --collapsed --off-cpu --state blocked_futex -o "$TMP/futex" "$TMP/flames.jsonl"
	same "profile: nothing else in it" "$(sum_of nanosleep "$TMP/futex")" 0
	expect "profile: which threads waited for" "$(sum_of ';hold_lock;' "$TMP/futex") >= 4000"
	refuses "profile: of a phase that there was none" 1 'has no samples of that phase' --pprof --phase prefill "$TMP/flames.jsonl"
	refuses "a .pftrace does not say the phase" 1 'is no profile' --collapsed --phase prefill "$TMP/flames.pftrace"
	refuses "a profile without samples" 1 'has no samples: record with' --collapsed \
		"$TOP/tests/golden/family_token_prof_good.jsonl"
}

test_pprof() {
	local pprof
	recorded
	check "pprof: written" "$INFTRACE" export --pprof -o "$TMP/flames.pb.gz" "$TMP/flames.pftrace"
	pprof=$(command -v pprof || go tool -n pprof 2>/dev/null || true)
	if [ -z "$pprof" ]; then
		skip "pprof: reads it" "Go is not installed"
		return
	fi
	check_rc "pprof: reads it, and names the function" 0 ' inner$' env PPROF_TMPDIR="$TMP" "$pprof" -top "$TMP/flames.pb.gz"
	check_rc "pprof: waits" 0 'hold_lock' env PPROF_TMPDIR="$TMP" "$pprof" -top -cum -nodefraction=0 -sample_index=off_cpu \
		"$TMP/flames.pb.gz"
}

test_speedscope() {
	recorded
	check "speedscope: written" "$INFTRACE" export --speedscope -o "$TMP/flames.ss.json" "$TMP/flames.pftrace"
	check "speedscope: a profile for each thread and its waits, whose weights add up" python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
n = len(d["shared"]["frames"])
assert len(d["profiles"]) >= 3
for p in d["profiles"]:
    assert p["type"] == "sampled" and p["unit"] == "nanoseconds", p["name"]
    assert sum(p["weights"]) == p["endValue"] and len(p["weights"]) == len(p["samples"]), p["name"]
    assert all(0 <= frame < n for stack in p["samples"] for frame in stack), p["name"]' "$TMP/flames.ss.json"
}

# Which files have samples is said before anything is recorded.
test_outputs() {
	local none='warning: -e samples: no output has samples: add -o FILE.pftrace or --profile FILE'
	recorded
	check_rc "outputs: no place for samples" 0 "$none" "$INFTRACE" record -e +samples -o "$TMP/o.json" -- true
	check_rc "outputs: one file without" 0 'samples are in .pftrace files and profiles, not in .*o.json' \
		"$INFTRACE" record -e +samples -o "$TMP/o.json" -o "$TMP/o.pftrace" -- true
	check_rc "outputs: the default has samples" 0 'wrote inftrace-true.pftrace' \
		env -C "$TMP" "$INFTRACE" record -e +samples -- true
	check_rc "outputs: the default without samples" 0 'wrote inftrace-true.json' env -C "$TMP" "$INFTRACE" record -e +stacks -- true
}

# Each window has its own names.
test_parts() {
	local file n=0
	recorded
	timeout 100 "$INFTRACE" record -q -e +samples,+stacks --sample-rate 999 --window every=400ms,for=200ms --format pftrace -d 4s \
		--output-dir "$TMP/windows" -- "$PROGRAMS/flames" 1500 >"$TMP/windows.out"
	for file in "$TMP"/windows/*.pftrace; do
		"$INFTRACE" export --collapsed "$file" >"$TMP/part" 2>"$TMP/part.err" || continue
		n=$((n + (0 < $(sum_of ';main;outer' "$TMP/part"))))
	done
	expect "windows: each with samples has their stacks" "$n >= 2"
	check "windows: valid" "$INFTRACE" validate "$TMP"/windows/*.jsonl
}

run_tests "$@"
