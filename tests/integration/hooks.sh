#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --hooks: time at barriers without probes. What they count, and that the process does not notice them, whatever it does.

. "$(dirname "$0")/../lib.sh"
need python3
[ "$(uname -m)" = x86_64 ] || skip_all "--hooks is for x86_64"
source=/sys/devices/system/clocksource/clocksource0/current_clocksource
grep -qxE 'tsc|kvm-clock|hyperv_clocksource_tsc_page' $source || skip_all "the kernel's clock is $(cat $source)"
. "$TOP/tests/programs/programs.sh"

engine() { # NAME LIBRARY STEP-LIBRARY STEP [ARGS]
	cat >"$TMP/$1-engine.json" <<-END
		{ "name": "$1", "match": { "mapped": ["$2"] }, "probes": [
		  { "library": "$3", "symbol": "$4", "role": "step", "args": { $5 } },
		  { "library": "$2", "symbol": "meet", "role": "barrier", "group": "ptr arg1" } ] }
	END
}
of_crews='"crew": "s32 arg2", "round": "s32 arg3"'
engine hooked libhooked.so hooked turn ""
engine crews libcrews.so libcrews.so work "$of_crews"
engine direct crews crews work "$of_crews"

# The library is brought in within a second, or not at all: on a busy machine that may take some tries.
too_late='hooks: process .*(could not be|in time|none of its threads|did not (answer|place))'

# hooked NAME [OPTION...] -- COMMAND...: recorded with --hooks until it ends by itself
hooked() {
	local name=$1 target rc try
	args_split "${@:2}"
	for try in 1 2 3 4 5; do
		rc=0
		rm -f "$TMP/$name.jsonl"
		waiting target "$name" "${BEHIND[@]}"
		recording BG "$name" --strict --hooks --profile "$TMP/$name.jsonl" "${BEFORE[@]}" -p "$target" || true
		echo >"$TMP/$name.go"
		wait "$target" || rc=$?
		wait "$BG" || rc=$?
		grep -qE "$too_late" "$TMP/$name.err" || break
		echo "# $name: try $try: $(grep -E "$too_late" "$TMP/$name.err")"
	done
	[ "$rc" -eq 0 ] || sed 's/^/# /' "$TMP/$name.err"
	same "$name: recorded" "$rc" 0
	check "$name: valid" "$INFTRACE" validate "$TMP/$name.jsonl"
}

barriers_in_all='all("barrier" in l["stage_us"] and "workers_barrier" in l["stage_us"] for l in p
	if l["event"] == "token_prof" and not l["shape"].get("unfinished"))'

has_llama() { # TEST
	local why
	why=$(llama_libs 2>&1 >/dev/null) || { skip "$1" "$why" && return 1; }
}

waits_said() { # NAME
	sed -n 's/.* hooks: \([0-9]*\) waits .*/\1/p' "$TMP/$1.err"
}

test_counts() {
	hooked counts --engine "$TMP/hooked-engine.json" -- "$PROGRAMS/hooked" "$PROGRAMS/libhooked-there.so" 32 2000
	same "counts: each call" "$(waits_said counts)" \
		"$(json 'c["calls"]' c=last:"$TMP/counts.out")"
}

# It has the library from its start, also after an exec, and hooks some milliseconds later.
test_command() {
	local target
	mkfifo "$TMP/command.go"
	"$INFTRACE" record -v --strict --hooks --engine "$TMP/hooked-engine.json" --profile "$TMP/command.jsonl" -- \
		sh -c 'exec "$@"' sh "$PROGRAMS/hooked" "$PROGRAMS/libhooked-there.so" 8 2000 probed <>"$TMP/command.go" \
		>"$TMP/command.out" 2>"$TMP/command.err" &
	target=$!
	test_pids+=("$target")
	await "command: hooks are placed" grep -q 'meet through 1 slots' "$TMP/command.err"
	echo >"$TMP/command.go"
	ended "command: recorded" "$target"
	same "command: each call" "$(waits_said command)" "$(json 'c["calls"]' c=last:"$TMP/command.out")"
	check "command: valid" "$INFTRACE" validate "$TMP/command.jsonl"
	has_llama "command: llama" || return 0
	check "command: llama recorded" "$INFTRACE" record --strict --hooks --profile "$TMP/command-llama.jsonl" -- \
		"$(llama_driver)" -q -n 32 -t 2 -i 1 "$(llama_libs)" "$(llama_model)"
	cp "$TMP/check.out" "$TMP/command-llama.err"
	check "command: llama: valid" "$INFTRACE" validate "$TMP/command-llama.jsonl"
	expect "command: time at barriers in each step of two threads" "$barriers_in_all" p="$TMP/command-llama.jsonl"
	check "command: its barriers had hooks" grep -qE 'hooks: [0-9]{3,} waits' "$TMP/command-llama.err"
}

# The crews' own checks: the latecomer of each round, for how long, and sums of each crew apart.
test_crews() {
	local shape name
	for shape in "1 1 40 keep" "1 3 40 keep" "3 2 40 keep" "3 2 40 renew"; do
		name=crews-${shape// /-}
		# shellcheck disable=SC2086 # words
		crews_judged "$name" "$name: its latecomers" "${shape:2:1}" \
			hooked "$name" --engine "$TMP/crews-engine.json" -- "${AHEAD[@]}" "$PROGRAMS/crews_in_library" $shape
	done
}

# seen_twice NAME LIBS TOKENS [OPTION...]: llama.cpp, with hooks in NAME.*, and in a second recording by probes in probes.*. PAUSED: the first one
# is stopped while it runs.
seen_twice() {
	local name=$1 target try
	for try in 1 2 3 4 5; do
		rm -f "$TMP/$name".json*
		waiting target "$name" "$(llama_driver)" -q -w -W -n "$3" -t 2 -P 50 "$2" "$(llama_model)"
		recording HOOKS "$name" --hooks "${@:4}" -p "$target"
		recording PROBES probes -e functions -o "$TMP/probes.json" -p "$target"
		[ -z "${PAUSED-}" ] || kill -STOP "$HOOKS"
		echo >"$TMP/$name.go"
		ended "$name: the program" "$target"
		[ -z "${PAUSED-}" ] || kill -CONT "$HOOKS"
		ended "$name: the recording with hooks" "$HOOKS"
		ended "$name: the one with probes" "$PROBES"
		grep -qE "$too_late" "$TMP/$name.err" || break
		echo "# try $try: $(grep -E "$too_late" "$TMP/$name.err")"
	done
}

# Each variant of the library that this machine can run.
test_llama() {
	local variant waits spans
	has_llama llama || return 0
	for variant in $(llama_variants | tail -n "$(often 1 3)"); do
		seen_twice llama "$(llama_variant_libs "$variant")" 16 --profile "$TMP/llama.jsonl"
		waits=$(waits_said llama)
		spans=$(json 'sum(e["name"] == "ggml_barrier" for e in t)' t="$TMP/probes.json")
		same "llama: $variant: as many waits as slices" "$waits" "$spans"
		check "llama: valid" "$INFTRACE" validate "$TMP/llama.jsonl"
		expect "llama: time at barriers in each step of two threads" "$barriers_in_all" p="$TMP/llama.jsonl"
		rm -f "$TMP/llama.jsonl" "$TMP/probes.json"
	done
}

# The same operators and waits of each thread in each step, in their order.
test_timeline() {
	has_llama timeline || return 0
	seen_twice timeline "$(llama_libs)" 16 --strict -o "$TMP/timeline.json" --profile "$TMP/timeline.jsonl"
	check "timeline: valid" "$INFTRACE" validate "$TMP/timeline.json" "$TMP/timeline.jsonl"
	expect "timeline: calls are those that probes see" '(lambda calls: len(calls(a)) > 1000 and calls(a) == calls(b))(
		lambda t: [(e["tid"], e["cat"], e["name"], e.get("args", {}).get("step")) for e in
			sorted((e for e in t if e.get("cat") in ("op", "barrier")), key=lambda e: (e["tid"], e["cat"], e["ts"]))])' \
		a="$TMP/timeline.json" b="$TMP/probes.json"
	check "timeline: a COMMAND is recorded" "$INFTRACE" record --strict --hooks -o "$TMP/timeline.json" -- \
		"$(llama_driver)" -q -n 32 -t 2 -i 1 -N "$TMP/nodes" "$(llama_libs)" "$(llama_model)"
	check "timeline: which is valid" "$INFTRACE" validate "$TMP/timeline.json"
	# but for one of each thread, if hooks are placed just then
	expect "timeline: with all of its operators" \
		'0 <= 2 * sum(node["op"] == "mul_mat" for node in nodes) - sum(e.get("name") == "mul_mat" for e in t) <= 2' \
		t="$TMP/timeline.json" nodes="$TMP/nodes"
}

calls_said() { # NAME REGEX-OF-THE-LINE
	grep -E "$2" "$TMP/$1.err" | grep -oE '[0-9]+ function' | cut -d' ' -f1
}

# inftrace does not run meanwhile, and each thread makes more calls than its ring has room for.
test_lost() {
	local lost
	has_llama lost || return 0
	PAUSED=1 seen_twice lost "$(llama_libs)" 300 -o "$TMP/lost.json"
	lost=$(calls_said lost ' lost ')
	check "lost: some were" [ "${lost:-0}" -gt 1000 ]
	same "lost: all others are there" $(($(calls_said lost ' s, ') + ${lost:-0})) "$(calls_said probes ' s, ')"
	check "lost: valid" "$INFTRACE" validate "$TMP/lost.json"
	rm -f "$TMP/lost.json" "$TMP/probes.json"
}

# As plant.sh does, with two threads and hooks.
test_plants() {
	local rc
	has_llama plants || return 0
	for _ in 1 2 3; do
		rc=0
		PLANT_TARGET=0.9 ENGINES=$ENGINES BUILD=$BUILD "$TOP/tests/plant/run" --hooks -v -n "$(often 1 5)" {hog,hog-worker,stop,mutex,sleep}/2 \
			>"$TMP/table" 2>"$TMP/table.err" || rc=$?
		[ "$rc" -eq 1 ] || break
	done
	sed 's/^/# /' "$TMP/table"
	case $rc in
	0 | 3) ok "plants: causes are named as with probes" ;;
	*) not_ok "plants: causes are named as with probes" "$(tail -n 1 "$TMP/table.err" | grep . || tail -n 1 "$TMP/table")" ;;
	esac
}

# Hooks come and go while 32 threads do what they can, also in signal handlers; inftrace is killed, too.
test_wild() {
	local target i n placed=0
	waiting target wild "$PROGRAMS/hooked" "$PROGRAMS/libhooked-there.so" 32 2000 wild
	echo >"$TMP/wild.go"
	n=$(often 12 500)
	for ((i = 0; i < n; i++)); do
		recording BG "wild$((i % 2))" --hooks --engine "$TMP/hooked-engine.json" --profile "$TMP/wild.jsonl" -p "$target" || break
		grep -q 'its barriers have probes' "$TMP/wild$((i % 2)).err" || placed=$((placed + 1))
		sleep "0.0$((RANDOM % 90 + 10))"
		if [ $((i % 3)) -eq 0 ]; then
			kill -KILL "$BG"
			wait "$BG" || true
		else
			interrupted "wild: the recording ends" "$BG"
		fi
		rm -f "$TMP/wild.jsonl"
		kill -0 "$target" 2>/dev/null || break
	done
	same "wild: $n recordings" "$i" "$n"
	# not if a child that was just forked has to be recorded, too
	check "wild: hooks were placed in some" [ "$placed" -ge $((n / 6)) ]
	await "wild: the library's thread is gone" eval "! grep -qs inftrace-hook /proc/$target/task/*/comm"
	kill -TERM "$target"
	ended "wild: the program found nothing wrong" "$target"
	sed 's/^/# /' "$TMP/wild.log"
}

# Its only thread mostly waits within the dynamic linker, where a call of dlopen() would end the program.
test_loading() {
	local target i
	waiting target loading "$PROGRAMS/slow_loads" "$PROGRAMS/libhooked-there.so"
	for i in 1 2 3 4; do
		recording BG "loading$i" --hooks --engine "$TMP/hooked-engine.json" --profile "$TMP/loading.jsonl" -p "$target" || break
		interrupted "loading: the recording ends" "$BG"
	done
	kill -TERM "$target"
	ended "loading: the program found nothing wrong" "$target"
	sed 's/^/# /' "$TMP/loading.log"
}

test_refused() {
	local p=(-p $$)
	refused "refused: all processes" 2 'for a COMMAND, or' "$INFTRACE" record --hooks --profile "$TMP/r.jsonl" -a
	refused "refused: a COMMAND with a budget" 2 'exclude each other' "$INFTRACE" record --hooks --budget 2% --profile "$TMP/r.jsonl" -- true
	refused "refused: operators in detail" 2 'only their times and names' "$INFTRACE" record --hooks --op-detail -o "$TMP/r.json" "${p[@]}"
	hooked direct --engine "$TMP/direct-engine.json" -- "$PROGRAMS/crews" 1 1 10 keep
	check "refused: calls that no hook would see have probes" grep -q 'hooks: process .*; its barriers have probes' "$TMP/direct.err"
	expect "refused: and are seen by them" '10 == sum("straggler_tid" in l["shape"] for l in p if l["event"] == "token_prof")' p="$TMP/direct.jsonl"
}

run_tests "$@"
