#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace link: a Kineto trace and an execution trace of PyTorch on an H200 beside recordings whose clocks are planted, a real
# recording, and what is refused.

. "$(dirname "$0")/../lib.sh"
need python3
KINETO=$TOP/tests/golden/kineto.json.gz
ET=$TOP/tests/golden/pytorch_et.json.gz
PLANT=$TOP/tests/tools/link_plant.py

# refuses NAME PATTERN ARG...: with exit code 1, and without an archive
refuses() {
	EMPTY=$TMP/refused refused "$1" 1 "$2" "$INFTRACE" link -o "$TMP/refused/refused.zip" "${@:3}"
}
mkdir "$TMP/refused"

# linked NAME COMMAND...: as check; what it said is in $TMP/told
linked() {
	check "$@"
	cp "$TMP/check.out" "$TMP/told"
}

# planted NAME OUT LINK-ARGUMENT... -- PLANT-OPTION...
planted() {
	local name=$1 out=$TMP/$2 args=()
	shift 2
	while [ "$1" != -- ]; do
		args+=("$1")
		shift
	done
	shift
	"$PLANT" make "$KINETO" "$out" "$@" >"$TMP/made"
	linked "$name: linked" "$INFTRACE" link -o "$TMP/all.zip" "$out" "$KINETO" "${args[@]}"
	check_shown "$name: placed where it was planted, and no byte changed" "$PLANT" check "$TMP/all.zip" "$KINETO" "$out" "$@"
}

test_offsets() {
	local out ahead
	for out in ours.json ours.json.gz ours.pftrace; do
		for ahead in 0 3000000 -250; do
			planted "$out, $ahead ns" "$out" -- "--ahead=$ahead"
		done
	done
	planted "two seconds apart" ours.pftrace -- --ahead=-2000000000
	planted "another boot" ours.pftrace -- --ahead=77777 --boot=123456789
	# numbers of threads as they are outside of the container, and some calls lost
	planted "other numbers of threads" ours.pftrace -- --ahead=3000000 --tid=90210
	planted "a call in ten lost" ours.json -- --ahead=3000000 --drop=10
	planted "only a part of it recorded" ours.json -- --ahead=3000000 --from=0.03 --to=0.08
}

test_said() {
	planted "with its execution trace" ours.pftrace --et "$ET" -- --ahead=3000000
	check "it says by how much" grep -qE 'kineto.json.gz: host 1, .*3\.00[0-9] ms ahead of .*ours.pftrace, residual [0-9.]+ [nu]s: ' "$TMP/told"
	check "kernels follow their launch" grep -q 'each of 1239 kernels and copies begins after its launch' "$TMP/told"
	check "the execution trace is of that run" grep -q '4338 of 4338 operators are in .*kineto.json.gz with their number and name' "$TMP/told"
	"$INFTRACE" link --check "$TMP/ours.pftrace" "$KINETO" --et "$ET" >"$TMP/checked"
	grep -v '^inftrace: ' "$TMP/told" >"$TMP/linked"
	check "--check says the same" diff "$TMP/linked" "$TMP/checked"
}

test_contradiction() {
	"$PLANT" make "$KINETO" "$TMP/ours.json" --ahead=1000000 --later=6000000 >"$TMP/made"
	refuses "clocks that contradict each other" 'contradict each other: .* at least 6\.00[0-9] ms, .* at most 1\.00[0-9] ms, [45]\.[0-9]* ms less' \
		"$TMP/ours.json" "$KINETO"
}

test_refused() {
	"$PLANT" make "$KINETO" "$TMP/ours.json" >"$TMP/made"
	"$PLANT" make "$KINETO" "$TMP/ours.pftrace" >"$TMP/made"
	"$PLANT" make "$KINETO" "$TMP/late.json" --ahead=-60000000000 >"$TMP/made"
	refuses "no time in common" 'no time in common: .* from 2026-11-20 04:14:50.* UTC, .* from 2026-11-20 04:15:50' "$TMP/ours.json" "$TMP/late.json"
	head -c 100000 "$KINETO" >"$TMP/cut.json.gz"
	refuses "a Kineto trace that is cut off" 'cut.json.gz: .*gzip data is cut inside a member' "$TMP/ours.json" "$TMP/cut.json.gz"
	zcat "$KINETO" >"$TMP/cut.json"
	truncate -s 1000000 "$TMP/cut.json"
	refuses "the same, unpacked" 'cut.json: line [0-9]*: the file ends inside an event' "$TMP/ours.json" "$TMP/cut.json"
	zcat "$ET" | sed 's/"id": 3, "name": "aten::empty", "ctrl_deps": 2/"id": 3, "name": "aten::empty", "ctrl_deps": 3/' >"$TMP/cycle.json"
	refuses "an execution trace with a cycle" 'cycle.json: its dependencies form a cycle: node 3 needs node 3' "$KINETO" --et "$TMP/cycle.json"
	zcat "$ET" | sed 's/"name": "rf_id", "type": "uint64", "value": /&9/g' >"$TMP/other.json"
	check_rc "validate says the same of it" 1 'cycle.json: its dependencies form a cycle: node 3 needs node 3' "$INFTRACE" validate "$TMP/cycle.json"
	check_rc "and takes the one that was recorded" 0 'execution trace of PyTorch, 4340 nodes, 4339 dependencies$' "$INFTRACE" validate "$ET"
	refuses "an execution trace without --et" 'pytorch_et.json.gz: is an execution trace: .* takes it with --et' "$TMP/ours.json" "$ET"
	refuses "an execution trace of another run" 'other.json is of another run' "$KINETO" --et "$TMP/other.json"
	refuses "a file that is not there" 'none: cannot open: No such file' "$TMP/none"
	printf 'PK\x03\x04' >"$TMP/archive.zip"
	refuses "an archive" 'archive.zip: neither a profile' "$TMP/ours.json" "$TMP/archive.zip"
	cp "$TMP/ours.json" "$TMP/same.json"
	check_rc "an archive in place of an input" 1 'same.json: it is one of the files to be linked' \
		"$INFTRACE" link -o "$TMP/same.json" "$TMP/same.json"
	check "which is left alone" cmp "$TMP/ours.json" "$TMP/same.json"
	# shellcheck disable=SC2016
	check_rc "to a pipe" 1 'an archive can only be written to a file' bash -c '"$@" | cat >/dev/null; exit "${PIPESTATUS[0]}"' _ \
		"$INFTRACE" link -o /dev/stdout "$TMP/ours.json"
	check_rc "no file" 2 'no FILE given' "$INFTRACE" link -o "$TMP/x.zip"
	check_rc "neither -o nor --check" 2 'give one of -o OUT.zip and --check' "$INFTRACE" link "$TMP/ours.json"
	check_rc "a host without a file" 2 'no file behind the name of the host' "$INFTRACE" link --check gpu1=
}

# A trace of some 150 MB in an address space that would not hold it.
test_streamed() {
	"$PLANT" make "$KINETO" "$TMP/ours.pftrace" --ahead=3000000 >"$TMP/made"
	python3 - "$KINETO" "$TMP/large.json" <<-'PY'
		import gzip, sys
		text = gzip.open(sys.argv[1], "rt").read()
		begin = text.index('"traceEvents": [') + len('"traceEvents": [')
		end = text.rindex("],")
		# what does not count for anything, between the events
		filler = ('{"ph":"X","cat":"python_function","name":"f","pid":1,"tid":1,"ts":4291064930000.000,"dur":1.5,"args":{"x":"'
		          + "y" * 400 + '"}},\n') * 2000
		with open(sys.argv[2], "w") as f:
		    f.write(text[:begin])
		    for _ in range(150):
		        f.write(filler)
		    f.write(text[begin:])
	PY
	linked "a large trace in little memory" bash -c 'ulimit -v 100000 && "$@"' _ "$INFTRACE" link -o "$TMP/large.zip" \
		"$TMP/ours.pftrace" "$TMP/large.json"
	check "is related as the small one" grep -q '3.000 ms ahead' "$TMP/told"
	check "no byte of it changed" python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open("large.json") as a, open(sys.argv[2], "rb") as b:
    while True:
        x = a.read(1 << 20)
        assert x == b.read(1 << 20)
        if not x:
            break' "$TMP/large.zip" "$TMP/large.json"
	rm -f "$TMP/large.zip" "$TMP/large.json"
}

# Two formats of one recording have the same clock; the hosts are those that are named.
test_recorded() {
	check "record" "$INFTRACE" record --engine none -o "$TMP/a.pftrace" -o "$TMP/a.json" --profile "$TMP/a.jsonl" -- sleep 0.3
	linked "link" "$INFTRACE" link -o "$TMP/recorded.zip" "gpu1=$TMP/a.pftrace" "$TMP/a.json" "$TMP/a.jsonl"
	check "one host" grep -q 'a.json: gpu1, .*, of the same clock' "$TMP/told"
	check "the JSON's times become those of the .pftrace" python3 - "$TMP/recorded.zip" "$TMP/a.json" <<-'PY'
		import json, sys, zipfile
		with zipfile.ZipFile(sys.argv[1]) as z:
		    names = z.namelist()
		    manifest = json.loads(z.read(names[0]))["perfetto_manifest"]
		assert names[1:] == ["a.pftrace", "a.json", ".inftrace/a.jsonl"], names
		clock = next(e for e in json.load(open(sys.argv[2])) if e["name"] == "inftrace_clock")
		assert clock["ts"] == 0
		first, second = manifest["files"]
		assert first == {"path": "a.pftrace", "machine": {"name": "gpu1"}}, first
		assert second["clocks"] == {"sync_to": {"file": "a.pftrace", "clock": "BOOTTIME"},
		                            "offset_ns": int(clock["args"]["boottime_ns"])}, second
	PY
	linked "as two hosts" "$INFTRACE" link -o "$TMP/two.zip" "gpu1=$TMP/a.pftrace" "gpu2=$TMP/a.json"
	check "by the wall clocks, and it says so" grep -q 'gpu2, .*by the wall clocks of the hosts, which nothing has checked' "$TMP/told"
}

# Hosts whose clocks a time namespace sets: the programs in the kernel read them without that. What a program does between two
# readings of its clock is there in its recording, and also in the archive.
test_time_namespaces() {
	local set
	if ! unshare --time --boottime 1 --fork true 2>/dev/null; then
		skip "time namespaces" "unshare --time is not allowed here"
		return
	fi
	cat >"$TMP/between.py" <<-'PY'
		import os, sys, time
		before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
		os.mkdir(sys.argv[1])
		print(before, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
	PY
	for set in "--boottime 5000" "--monotonic 5000" "--monotonic 5000 --boottime 5000" "--boottime 5000 --monotonic 100" "--monotonic 5000 --boottime 1000"; do
		rm -rf "$TMP/made.dir"
		# shellcheck disable=SC2086
		check "$set: record" unshare --time $set --fork "$INFTRACE" record --engine none -o "$TMP/there.json" -o "$TMP/there.pftrace" -- \
			python3 "$TMP/between.py" "$TMP/made.dir"
		cp "$TMP/check.out" "$TMP/between"
		check "$set: times are by the clock that the program reads" python3 - "$TMP/there.json" "$TMP/between" <<-'PY'
			import json, re, sys
			trace = json.load(open(sys.argv[1]))
			before, after = map(int, re.search(r"^(\d+) (\d+)$", open(sys.argv[2]).read(), re.M).groups())
			zero = next(int(e["args"]["boottime_ns"]) for e in trace if e["name"] == "inftrace_clock")
			call, = (e for e in trace if e["name"] in ("mkdir", "mkdirat"))
			start, end = (zero + us * 1e3 for us in (call["ts"], call["ts"] + call["dur"]))
			# the clocks' difference is followed to a millisecond
			assert before - 1e6 <= start <= end <= after + 1e6, (before, start, end, after)
		PY
		linked "$set: link" "$INFTRACE" link -o "$TMP/hosts.zip" "there=$TMP/there.pftrace" "there=$TMP/there.json"
		check "$set: one clock" grep -q 'there.json: there, .*, of the same clock' "$TMP/told"
	done
}

# The profiles of an archive, each process with its host, though both have the same pid and environment.
test_report() {
	local rc=0
	cp "$TOP/tests/golden/family_token_prof_good.jsonl" "$TMP/a.jsonl"
	"$PLANT" make "$KINETO" "$TMP/ours.json" >"$TMP/made"
	check "an archive of two hosts" "$INFTRACE" link -o "$TMP/hosts.zip" "gpu1=$TMP/ours.json" "gpu1=$TMP/a.jsonl" "gpu2=$TMP/a.jsonl" "$KINETO"
	"$INFTRACE" report --json "$TMP/hosts.zip" >"$TMP/report.json" 2>"$TMP/notes" || rc=$?
	"$INFTRACE" report --json "$TMP/a.jsonl" >"$TMP/alone.json" 2>/dev/null || true
	same "its report" "$rc" 0
	check "has each process of both" python3 - "$TMP/report.json" "$TMP/alone.json" <<-'PY'
		import json, sys
		both, alone = (json.load(open(path))["processes"] for path in sys.argv[1:])
		assert alone and not any("host" in p for p in alone)
		for host in ("gpu1", "gpu2"):
		    there, wanted = ([{k: p[k] for k in ("pid", "env_hash", "steps", "wall_us", "operators")} for p in list]
		                     for list in ([p for p in both if p["host"] == host], alone))
		    assert there == wanted, (host, there, wanted)
		assert len(both) == 2 * len(alone)
	PY
	check "it says what it has not" grep -q 'ours.json is not in the report: the archive has profiles' "$TMP/notes"
	truncate -s 3000 "$TMP/hosts.zip"
	check_rc "an archive that is cut off" 1 'hosts.zip: the archive is cut off' "$INFTRACE" report "$TMP/hosts.zip"
}

run_tests "$@"
