#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Batches with rows of several sequences: the steps and requests of a profile and of a trace, and the
# reports on both, agree with what the driver itself has written down.

. "$(dirname "$0")/../lib.sh"

need python3
need_llama
driver=$(batch_driver)

# Arrays and structures that point nowhere, end too soon, or are too long; and structures of another build.
test_junk() {
	for name in junk good structs other; do
		batches_of "$name"
	done
	check "other: the preset is said not to fit, once" \
		[ "$(grep -c 'does not fit this engine: llama_process: row 0 of 4 is no row of a batch' "$TMP/other.err")" -eq 1 ]
}

batches_of() {
	# on one CPU: what does not fit is learned in the order in which the rings of the CPUs are read
	if engine_recorded "$name" -e functions -o "$TMP/$name.json" --profile "$TMP/$name.jsonl" -- \
		taskset -c 0 "$(dirname "$driver")/mini/junk_batches" "$1"; then
		check "$name: what could be read of each batch, and no more" \
			"$TOP/tests/programs/check_batches.py" junk "$TMP/$name.out" "$TMP/$name.jsonl" \
			"$TMP/$name.json"
		check "$name: files" "$INFTRACE" validate "$TMP/$name.json" "$TMP/$name.jsonl"
		check "$name: functions of the preset that were not called are not named" \
			bash -c "! grep -q 'never hit' '$TMP/$name.err'"
	else
		sed 's/^/# /' "$TMP/$name.out" "$TMP/$name.err"
		not_ok "$name" "the run failed"
	fi
}

# scene_of NAME COMMAND...: the driver with all of its arguments, which writes $TMP/NAME.log
scene_of() {
	local name=$1
	shift
	if ! engine_recorded "$name" --strict -e functions -o "$TMP/$name.json" --profile "$TMP/$name.jsonl" -- "$@"; then
		sed 's/^/# /' "$TMP/$name.out" "$TMP/$name.err"
		not_ok "$name" "the run failed"
		return 0
	fi
	"$INFTRACE" report --json "$TMP/$name.jsonl" >"$TMP/$name.p"
	"$INFTRACE" report --json "$TMP/$name.json" >"$TMP/$name.t"
	check_shown "$name: steps, requests and the report's numbers, by the driver's own log" \
		"$TOP/tests/programs/check_batches.py" "$TMP/$name.log" "$TMP/$name.jsonl" "$TMP/$name.json" "$TMP/$name.p" "$TMP/$name.t"
	check "$name: files" "$INFTRACE" validate "$TMP/$name.json" "$TMP/$name.jsonl"
}

test_scenes() {
	for scene in serve alone one draft turns prefix; do
		scene_of "$scene" "$driver" -w -l "$TMP/$scene.log" "$scene" "${MODEL_ARGS[@]}"
	done
}

# The same by llama_process(), by turns with llama_decode(), and by llama_decode() alone, in the build of Debian's next
# release.
test_process() {
	local root lib

	lib=/usr/lib/$(uname -m)-linux-gnu
	root=$(llama_next 2>"$TMP/next.err") || { skip "process" "$(cat "$TMP/next.err")"; return 0; }
	mkdir "$TMP/root"
	ln "$driver" "${MODEL_ARGS[1]}" "$TMP/root" 2>/dev/null || cp "$driver" "${MODEL_ARGS[1]}" "$TMP/root"
	for scene in serve alone draft turns prefix; do
		for how in -e -ee; do
			scene_of "root/$scene$how" "$TOP/tests/engines/in_root" "$root" "$TMP/root" /mnt/batch_driver -w $how \
				-l "/mnt/$scene$how.log" "$scene" "$lib" "/mnt/$(basename "${MODEL_ARGS[1]}")"
		done
	done
	scene_of root/serve "$TOP/tests/engines/in_root" "$root" "$TMP/root" /mnt/batch_driver -w -l /mnt/serve.log serve "$lib" \
		"/mnt/$(basename "${MODEL_ARGS[1]}")"
}

# The engine drops the sequence of each request as it is over: also known without a trace.
test_life() {
	name=life
	if engine_recorded "$name" --strict -e functions -o "$TMP/$name.json" --profile "$TMP/$name.jsonl" -- \
		"$driver" -w -l "$TMP/$name.log" alone "${MODEL_ARGS[@]}"; then
		expect "$name: sequences that are removed, in which context" \
			'(lambda e, steps: [x["args"]["sequence"] for x in e if x["name"] == "remove"] ==
				[r["sequence"] for r in c if "shared" in r] and
				{x["args"]["context"] for x in e if x["name"] == "memory"} == {s["args"]["context"] for s in steps} and
				{x["args"]["memory"] for x in e} == {x["args"]["memory"] for x in e if x["name"] == "memory"})(
				sorted((x for x in t if x.get("cat") == "sequence"), key=lambda x: x["ts"]),
				[x for x in t if x.get("cat") == "step"])' t="$TMP/$name.json" c="$TMP/$name.log"
	else
		sed 's/^/# /' "$TMP/$name.out" "$TMP/$name.err"
		not_ok "$name" "the run failed"
	fi
	if engine_recorded "$name-profile" --strict --profile "$TMP/$name.jsonl" -- \
		"$driver" -w -l "$TMP/$name.log" alone "${MODEL_ARGS[@]}"; then
		calls=$((2 * $(grep -c '"shared"' "$TMP/$name.log")))
		check "$name: told to the profile alone as well" grep -q " $calls function" "$TMP/$name-profile.err"
	else
		sed 's/^/# /' "$TMP/$name-profile.out" "$TMP/$name-profile.err"
		not_ok "$name-profile" "the run failed"
	fi
}

# Requests of which the recording has only a part, without the beginning or the end.
test_edges() {
	name=edges
	spawn engine "$driver" -r 1000000 -l "$TMP/$name.log" turns "${MODEL_ARGS[@]}"
	wait_until 60 grep -sq '"request"' "$TMP/$name.log"
	"$INFTRACE" record --strict --max-steps 300 --profile "$TMP/$name.jsonl" -p "$engine" 2>"$TMP/$name.err"
	kill -9 "$engine"
	wait "$engine" 2>/dev/null || true
	"$INFTRACE" report --json "$TMP/$name.jsonl" >"$TMP/$name.p"
	# its sequence is dropped when a request is over: that is known where a step of another one follows
	expect "$name: the last request of a sequence has an end that was not seen, unless others went on, and no other one has" \
		'(lambda r, last: all((not any(o["shape"]["sequence"] == e["shape"]["sequence"] for o in r[i + 1:])) >= unseen and
				(unseen or e["shape"]["ts_us"] + e["stage_us"]["total"] < last)
			for i, e in enumerate(r)
			for unseen in [bool(e["shape"].get("end_not_seen") or e["shape"].get("unfinished"))]))(
			sorted((e for e in p if e["event"] == "request_prof"), key=lambda e: e["shape"]["ts_us"]),
			max(e["shape"]["ts_us"] for e in p if e["event"] == "token_prof"))' \
		p="$TMP/$name.jsonl"
	expect "$name: those that began before have no first token, all others do, and the report says how many" \
		'(lambda r: all(("ttft" in e["stage_us"]) != e["shape"].get("began_before", False) for e in r
				if e["shape"]["output_tokens"] > 1) and
			q[0]["processes"][0]["requests"]["began_before"] == sum(e["shape"].get("began_before", False) for e in r) and
			q[0]["processes"][0]["first_step_to_first_token_us"]["count"] == sum("ttft" in e["stage_us"] for e in r) and
			q[0]["processes"][0]["requests"]["count"] == len(r) > 4)(
			[e for e in p if e["event"] == "request_prof"])' p="$TMP/$name.jsonl" q="$TMP/$name.p"
}

# of the driver, so many more
steps_on() {
	local end=$((SECONDS + 60)) wanted
	wanted=$(($(wc -l <"$TMP/$name.log") + $1))
	while [ "$(wc -l <"$TMP/$name.log")" -lt "$wanted" ] && [ "$SECONDS" -lt "$end" ]; do
		sleep 0.02
	done
}

traces_are() {
	[ "$(find "$TMP/$name" -name 'trace_*.json' | wc -l)" -ge "$1" ]
}

window_is_open() {
	[ "$(find "$TMP/$name" -name 'trace_*.part' | wc -l)" -gt 0 ]
}

# Steps that the edge of a window or a dump cuts have their rows by sequence as well, and a time since the step before
# if that was in the same window.
test_cut() {
	name="cut"
	spawn engine "$driver" -r 1000000 -l "$TMP/$name.log" serve "${MODEL_ARGS[@]}"
	wait_until 60 grep -sq '"request"' "$TMP/$name.log"
	mkdir "$TMP/$name"
	recording BG "$name" --window-flag "$TMP/flag" -e functions --output-dir "$TMP/$name" --format json -p "$engine"
	for i in 1 2 3; do
		touch "$TMP/flag"
		wait_until 60 window_is_open
		steps_on 12
		rm "$TMP/flag"
		wait_until 60 traces_are "$i"
	done
	kill -INT "$BG"
	wait "$BG"
	recording BG "$name" --flight-recorder 30s -e functions --output-dir "$TMP/$name" --format json -p "$engine"
	steps_on 12
	kill -USR1 "$BG"
	wait_until 60 traces_are 4
	kill -INT "$BG"
	wait "$BG"
	kill -9 "$engine"
	wait "$engine" 2>/dev/null || true
	i=0
	for trace in "$TMP/$name"/trace_*.json; do
		i=$((i + 1))
		expect "$name: trace $i, each step with its rows by sequence, and with a time since the one before but the first" \
			'(lambda s: len(s) > 5 and all(("batch" in e["args"]) == (e["name"] == "mixed") for e in s) and
				[("before_us" in e["args"]) for e in s] == [k > 0 for k in range(len(s))])(
				sorted((e for e in t if e.get("cat") == "step"), key=lambda e: e["args"]["step"]))' t="$trace"
	done
	same "$name: traces" "$i" 4
}

run_tests "$@"
