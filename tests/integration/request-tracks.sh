#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The process `requests` of traces, of a real engine that decodes in batches: its slices, arrows and counters against
# the profile of the same recording and the driver's own log, in both formats, in files that are rotated or cut off,
# and in dumps.

. "$(dirname "$0")/../lib.sh"

CHECK=$TOP/tests/programs/check_request_tracks.py

need python3
need_llama
serve=$(serve_driver)
batches=$(batch_driver)
model=$(llama_model mite)
libs=${MODEL_ARGS[0]}

# recorded NAME RECORD-OPTION... -- COMMAND ARG...: to the end of the command
recorded() {
	if engine_recorded "$@"; then
		return 0
	fi
	exec 9>&-
	sed 's/^/# /' "$TMP/$1.out" "$TMP/$1.err"
	not_ok "$1" "the run failed"
	return 1
}

# tracks NAME CHECK-OPTION... FILE...
tracks() {
	check_shown "$1" "$CHECK" --some "${@:2}"
}

test_serve() {
	local name=serve f=$TMP/serve
	recorded "$name" --strict -o "$f.json" -o "$f.pftrace" --profile "$f.jsonl" -- \
		"$serve" -w -l "$f.log" -r 200 -p 8 -x 10 -d 10 -L 20:300 "$libs" "$model" || return 0
	tracks "$name: slices, arrows and counters are those of the profile and the driver's log" \
		--log "$f.log" --profile "$f.jsonl" "$f.json" "$f.pftrace"
	check "$name: both traces have the same" "$TOP/tests/tools/pftrace.py" compare "$f.pftrace" "$f.json"
	check "$name: files" "$INFTRACE" validate "$f.json" "$f.jsonl"
	need_importer || return 0
	check "$name: the importer of chrome://tracing drops only what the rule says" \
		node "$TOP/tests/tools/check_chrome_trace.mjs" --brief "$f.json"
}

need_importer() {
	local rc=0
	echo '[]' >"$TMP/empty.json"
	command -v node >/dev/null && node "$TOP/tests/tools/check_chrome_trace.mjs" "$TMP/empty.json" >/dev/null 2>&1 || rc=$?
	[ "$rc" -ne 2 ] && command -v node >/dev/null && return 0
	skip "the importer of chrome://tracing" "needs nodejs and golang-1.19-src"
	return 1
}

# One sequence alone has a slot, too; several requests in turns have one each.
test_scenes() {
	local name f
	for name in alone one turns prefix; do
		f=$TMP/$name
		recorded "$name" --strict -e functions -o "$f.json" -o "$f.pftrace" --profile "$f.jsonl" -- \
			"$batches" -w -l "$f.log" "$name" "${MODEL_ARGS[@]}" || continue
		tracks "$name: as the profile has them" --profile "$f.jsonl" "$f.json" "$f.pftrace"
		check "$name: files" "$INFTRACE" validate "$f.json" "$f.jsonl"
	done
}

# Each file opens by itself, and together they have every request once.
test_rotated() {
	local name=rotated f=$TMP/rotated suffix parts
	recorded "$name" --strict -e functions --max-size 1M -o "$f.json" -o "$f.pftrace" -- \
		"$serve" -w -l "$f.log" -r 600 -p 4 -L 5:400 "$libs" "$model" || return 0
	for suffix in json pftrace; do
		mapfile -t parts < <(find "$TMP" -name "$name*.$suffix" | sort -V)
		[ "${#parts[@]}" -gt 1 ] || not_ok "$name: several files .$suffix" "only ${parts[*]}"
		tracks "$name: all .$suffix together are the recording" --parts --log "$f.log" "${parts[@]}"
		if [ "$suffix" = json ]; then
			check "$name: each opens" "$INFTRACE" validate "${parts[@]}"
		else
			check "$name: each .$suffix opens" "$TOP/tests/tools/pftrace.py" loads "${parts[@]}"
		fi
	done
}

# Killed at any moment: what is there opens.
test_killed() {
	local name=killed f=$TMP/killed
	engine_started "$name" -e functions -o "$f.json" -o "$f.pftrace" -- \
		"$serve" -w -l "$f.log" -r 1000000 -p 4 "$libs" "$model"
	wait_until 60 grep -qs '"name":"request 1[0-9]"' "$f.json"
	kill -9 "$TRACER" "$ENGINE"
	wait "$TRACER" "$ENGINE" 2>/dev/null || true
	check "$name: the JSON opens" "$INFTRACE" validate "$f.json"
	check "$name: the .pftrace opens" "$TOP/tests/tools/pftrace.py" loads "$f.pftrace"
}

# The dump of a flight recorder: requests that had begun before it say so.
test_dumped() {
	local name=dumped d=$TMP/dumps
	mkdir "$d"
	engine_started "$name" -e functions --flight-recorder 2MB --output-dir "$d" -- \
		"$serve" -w -l "$TMP/$name.log" -r 1000000 -p 4 -n 60 "$libs" "$model"
	wait_until 60 grep -qs '"step":2000,' "$TMP/$name.log"
	check "$name: dump" "$INFTRACE" dump -p "$ENGINE"
	kill -9 "$ENGINE"
	wait "$ENGINE" 2>/dev/null || true
	wait "$TRACER" || true
	tracks "$name: as its profile has them" "--profile=$(echo "$d"/profile*.jsonl)" "$d"/trace*.json
	expect "$name: some of them had begun before" \
		'any(e["args"].get("began_before") for e in t if e.get("cat") == "batch" and e["ph"] == "X")' \
		t="$(echo "$d"/trace*.json)"
}

# Steps of which no rows are known are in no such process; one sequence alone, whose rows are, is.
test_without_rows() {
	local name=without f=$TMP/without mini
	mini=$(mini_engine)
	recorded "$name" --strict --engine none -o "$f.json" \
		-u "$(dirname "$mini")/libllama.so:llama_decode(n_tokens=s32 *(sp+8))@step" -- "$mini" -w -n 4 -t 1 || return 0
	expect "$name: no process requests" \
		'not any(e["pid"] == 4194600 for e in t) and any(e.get("cat") == "step" for e in t)' t="$f.json"
	recorded with --strict -o "$f.json" -- "$mini" -w -n 4 -t 1 || return 0
	expect "with: one slot" '{e["args"]["name"] for e in t if e["pid"] == 4194600 and e["name"] == "thread_name"} == {"slot 0"}' \
		t="$f.json"
}

run_tests "$@"
