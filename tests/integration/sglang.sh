#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The requests in each step of SGLang, by the preset: a program with its names replays what a log of the real scheduler says.

. "$(dirname "$0")/../lib.sh"
need python3 gcc

setup() {
	"$INFTRACE" record -q --engine none --py-step none -o /dev/null -f chrome -- python3 -c pass 2>"$TMP/err" || true
	! grep -q 'not in' "$TMP/err" || skip_all "its steps cannot be seen: $(grep -m 1 'not in' "$TMP/err")"
	mkdir "$TMP/at"
	cp -r "$TOP/tests/programs/sglang_like/." "$TOP"/tests/programs/schedules/sglang-*.gz "$TMP/at"
	gunzip "$TMP"/at/*.gz
	gcc -shared -o "$TMP/at/common_ops.abi3.so" -x c - <<<'int nothing;'
	RUN=(env PYTHONDONTWRITEBYTECODE=1 python3)
	AT=$TMP/at
	NEAR=
}

# replay NAME [overlap] [new] [paced]: with RUN, to which the files are at AT; and compares all rows and requests
replay() {
	local name=$1
	check "$name: is recorded" engine_recorded "$name" -v --strict --engine "$TOP/engines/sglang.json" -o "$TMP/$name.json" \
		--profile "$TMP/$name.jsonl" -- "${RUN[@]}" "$AT/replay.py" "$AT/sglang-schedule.jsonl" "${@:2}"
	check "$name: the rows of each step, and each request" "$TOP/tests/programs/check_sglang.py" "$TMP/at/sglang-schedule.jsonl" \
		"$TMP/$name.json" "$TMP/$name.jsonl" "$TMP/$name.out" $NEAR
}

test_normal() {
	replay normal
	check "normal: valid" "$INFTRACE" validate --require request_prof "$TMP/normal.json" "$TMP/normal.jsonl"
	schema_fits "normal: as the schema says" profile "$TMP/normal.jsonl"
	check "normal: report" "$INFTRACE" report "$TMP/normal.jsonl"
	cp "$TMP/check.out" "$TMP/report"
	check "normal: it has all requests" grep -q 'requests: 198, of ' "$TMP/report" # two more were never scheduled
}

# A batch is begun before the results of the one before it are there, with requests of which it is not known that they are over.
test_overlap() {
	replay overlap overlap
	check "overlap: valid" "$INFTRACE" validate --require request_prof "$TMP/overlap.json" "$TMP/overlap.jsonl"
}

# An attribute has another name in newer releases.
test_new() {
	replay new overlap new
}

test_versions() {
	local version python RUN
	while read -r version python; do
		case $version in
		3.8 | 3.9) continue ;; # the engine needs 3.10
		esac
		RUN=(env PYTHONDONTWRITEBYTECODE=1 "$python")
		replay "$version" overlap
	done < <(python_versions)
}

test_next_release() {
	local root version RUN AT=/mnt
	root=$(python_next 2>&1) || {
		skip "next release" "$root"
		return
	}
	for version in 3.13 3.14; do
		RUN=("$TOP/tests/engines/in_root" "$root" "$TMP/at" "/usr/bin/python$version")
		replay "next-$version" overlap
	done
}

# Batches that no scheduler makes, and that change while they are read.
test_junk() {
	check "junk: is recorded" engine_recorded junk --strict --engine "$TOP/engines/sglang.json" -o "$TMP/junk.json" \
		--profile "$TMP/junk.jsonl" -- "${RUN[@]}" "$AT/junk.py"
	same "junk: the program did not notice" "$(tail -n 1 "$TMP/junk.out")" "done"
	check "junk: rows are whole, or none" "$TOP/tests/programs/check_sglang.py" junk "$TMP/junk.json" "$TMP/junk.out"
	check "junk: valid" "$INFTRACE" validate "$TMP/junk.json" "$TMP/junk.jsonl"
}

test_windows() {
	mkdir "$TMP/windows"
	check "windows: are recorded" engine_recorded windows --strict --engine "$TOP/engines/sglang.json" --window every=500ms,for=200ms \
		--output-dir "$TMP/windows" -- "${RUN[@]}" "$AT/replay.py" "$AT/sglang-schedule.jsonl" overlap paced
	check "windows: rows of all steps but the first" "$TOP/tests/programs/check_sglang.py" windows "$TMP/windows.out" "$TMP"/windows/trace_*.json
}

# While it runs, watchpoints take over from the probes: the same.
test_watched() {
	local NEAR=200000 # a watchpoint costs up to 20 us in a virtual machine
	watchpoints_here watched || return
	replay watched overlap paced
	check "watched: watchpoints have taken over" grep -q 'its Python functions are watched' "$TMP/watched.err"
	check "watched: none was missed" test -z "$(grep 'watchpoints .* were missed' "$TMP/watched.err")"
}

run_tests "$@"
