#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# record --gpu with a GPU of AMD's, which does not exist (tests/gpu/mock_rocm.h): what the trace and the profile say of it,
# against what it did; and the preset hip.

. "$(dirname "$0")/../lib.sh"

need cc python3 protoc
build_mock_gpu
DRIVER=$MOCK/mock_hip_driver
STEP=(-u "$DRIVER:mock_step(kernels=u64 arg1, cpu_ns=u64 arg2)@step")

# recorded NAME OPTION... -- COMMAND-OF-THE-DRIVER...
recorded() {
	local name=$1
	args_split "${@:2}"
	MOCK_TRUTH=$TMP/$name.bin check "$name: records" timeout 120 "$INFTRACE" record --gpu "${STEP[@]}" -o "$TMP/$name.json" \
		-o "$TMP/$name.pftrace" --profile "$TMP/$name.jsonl" "${BEFORE[@]}" -- "$DRIVER" "${BEHIND[@]}"
	cp "$TMP/check.out" "$TMP/$name.err"
	"$MOCK/mock_driver" --truth "$TMP/$name.bin" >"$TMP/$name.truth"
}

valid() { # NAME
	check "$1: the files are valid" "$INFTRACE" validate "$TMP/$1.json" "$TMP/$1.jsonl" --require token_prof
	check "$1: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$TMP/$1.pftrace" "$TMP/$1.json"
	grep -q '"cat":"kernel"' "$TMP/$1.json" || return 0 # nothing of a GPU was recorded
	check "$1: Perfetto's tables of GPUs as the JSON has it" "$TOP/tests/tools/gpu_tables.py" "$TMP/$1.pftrace" "$TMP/$1.json" HIP
}

# launches_seen NAME N: of so many kernels and copies, but for those whose times a disturbed comparison of clocks has made nonsense
launches_seen() {
	local kept bad
	kept=$(sed -n 's/.*gpu: \([0-9]*\) kernels and copies of 1 process, .*; of 0 the launch was not seen.*/\1/p' "$TMP/$1.err")
	bad=$(sed -n 's/.*records are missing, .* dropped 0 and \([0-9]*\) made no sense.*/\1/p' "$TMP/$1.err")
	same "$1: all launches were seen" $((${kept:-0} + ${bad:-0})) "$2"
}

# Each kernel and copy, with its launch; steps that are divided to the nanosecond, which validate looks at.
test_all() {
	local version
	for version in 0.5 1.3; do
		export MOCK_ROCPROFILER=$version MOCK_SHUFFLE=1 MOCK_CLOCK_OFFSET_NS=123456789
		recorded "$version" -- init "launch 500" sync "copies 60" "threads 4 100" sync "step 30 20000" "kernel-ns 100000" \
			"step 20 0" sync truth
		unset MOCK_ROCPROFILER MOCK_SHUFFLE MOCK_CLOCK_OFFSET_NS
		check_shown "$version: what ran, when, and what launched it" "$TOP/tests/programs/check_gpu.py" all "$TMP/$version.json" \
			"$TMP/$version.truth" "$TMP/$version.err"
		launches_seen "$version" 998
		valid "$version"
	done
	# where the comparison of clocks was disturbed it is not known, which is said
	expect "steps have the parts of the GPU, and nothing is unknown" \
		'["gpu_lost" in s or (s["gpu_kernels"] >= s["kernels"] and s["gpu_unknown_us"] == 0)
			for s in (x["shape"] for x in p if x["event"] == "token_prof")] == [True, True]' \
		p="$TMP/1.3.jsonl"
	expect "20 kernels of 100 us keep it busy" \
		'["gpu_lost" in s or 1999 < s["gpu_busy_us"] < 2001 for s in (x["shape"] for x in p if x["event"] == "token_prof")
			if s["kernels"] == 20] == [True]' p="$TMP/1.3.jsonl"
	expect "calls have their arguments, and kernels the names of the program" '[len([e for e in t if e.get("name") == "hipModuleLaunchKernel" and
		e["args"]["block_x"] == 128 and e["args"]["shared"] == 512]), len([e for e in t if e.get("name") == "hipExtModuleLaunchKernel" and
		e["args"]["items_x"] == 32 * e["args"]["block_x"] * (e["args"]["items_x"] // 1024)]) >= 0] == [167, True]' t="$TMP/1.3.json"
}

# A launch of a graph has all of its kernels, whose capture launched nothing.
test_graphs() {
	recorded graphs -- init "graph 20" sync "step 5 0" truth
	check "graphs: what ran, and when" "$TOP/tests/programs/check_gpu.py" some "$TMP/graphs.json" "$TMP/graphs.truth" "$TMP/graphs.err"
	launches_seen graphs 105
	expect "graphs: an arrow for each launch" 'sum(e.get("cat") == "ac2g" and e["ph"] == "s" for e in t) == 25' t="$TMP/graphs.json"
}

# Where another thread hands over the launches their calls cannot be found, and none is guessed.
test_indirect() {
	MOCK_INDIRECT=1 recorded indirect -- init "launch 50" sync "step 10 0" truth
	check "indirect: what ran, and when" "$TOP/tests/programs/check_gpu.py" some "$TMP/indirect.json" "$TMP/indirect.truth" "$TMP/indirect.err"
	check "indirect: it is said that launches were not seen" grep -q '60 kernels and copies of 1 process, .*; of 60 the launch was not seen' \
		"$TMP/indirect.err"
	expect "indirect: no arrows" 'sum(e.get("cat") == "ac2g" for e in t) == 0' t="$TMP/indirect.json"
}

test_dropped() { # what rocprofiler drops is counted; a step that it may concern has no numbers
	MOCK_DROP_EVERY=50 recorded dropped -- init "launch 110" sync "step 100 1000" "sleep 300" "launch 9" sync truth
	check "dropped: what is there is right" "$TOP/tests/programs/check_gpu.py" some "$TMP/dropped.json" "$TMP/dropped.truth" "$TMP/dropped.err"
	valid dropped
	expect "dropped: the step says so" '["gpu_lost" in x["shape"] and not "gpu_busy_us" in x["shape"] for x in p
		if x["event"] == "token_prof"] == [True]' p="$TMP/dropped.jsonl"
	check "dropped: a message" sh -c 'grep -q "4 records are missing, of which rocprofiler-sdk itself dropped 4" "$1" || { cat "$1"; false; }' \
		- "$TMP/dropped.err"
}

# One line says what is missing, and the CPU side is recorded.
test_without() {
	MOCK_FAIL_START=12 recorded failed -- init "step 10 0"
	check "rocprofiler-sdk fails" grep -q 'rocprofiler-sdk failed in rocprofiler_start_context (error 12)' "$TMP/failed.err"
	expect "the CPU side is there" 'sum(e["name"] == "hipLaunchKernel" for e in t) == 10' t="$TMP/failed.json"
	valid failed
	MOCK_FAIL_CONFIGURE=39 recorded configure -- init "step 10 0"
	check "rocprofiler-sdk refuses" grep -q 'rocprofiler-sdk failed in configuring its services (error 39)' "$TMP/configure.err"
	printf '#include <stddef.h>\nvoid *rocprofiler_configure(void) { return NULL; }\n' >"$TMP/tool.c"
	cc -shared -fPIC -o "$TMP/tool.so" "$TMP/tool.c"
	ROCP_TOOL_LIBRARIES=$TMP/tool.so recorded two -- init "step 10 0" sync
	check "another tool is kept" grep -q 'gpu: 10 kernels' "$TMP/two.err"
}

# Not into a process that runs, which is said.
test_attach() {
	local target
	fed target "$DRIVER" >"$TMP/attach.out"
	echo init >&9
	wait_until 60 grep -q ok "$TMP/attach.out"
	check_rc "attach: one line" 0 'uses an AMD GPU, which can be recorded from its start only: record --gpu -- COMMAND' timeout 60 "$INFTRACE" \
		record --gpu=attach -d 100ms -o "$TMP/attach.json" -p "$target"
	echo exit >&9
	exec 9>&-
	check "attach: the target ends by itself" wait "$target"
}

# inftrace is killed while kernels are collected: the program goes on, and ends as if nothing had been.
test_killed() {
	local tracer child
	fed tracer "$INFTRACE" record -q --gpu "${STEP[@]}" -o "$TMP/killed.json" -- "$DRIVER" >"$TMP/killed.out"
	echo "step 10 0" >&9
	check "killed: kernels are collected" wait_until 60 grep -sq '"cat":"kernel"' "$TMP/killed.json"
	child=$(pgrep -P "$tracer" -x mock_hip_driver)
	kill -KILL "$tracer"
	wait "$tracer" 2>/dev/null || :
	printf '%s\n' "step 100 0" "copies 20" sync "sleep 1500" "launch 100" sync >&9
	check "killed: the program goes on" wait_until 60 sh -c "[ \$(grep -c ok '$TMP/killed.out') = 7 ]"
	echo exit >&9
	exec 9>&-
	check "killed: it ends" wait_until 60 sh -c "! kill -0 $child 2>/dev/null"
	check "killed: what was written is valid" "$INFTRACE" validate "$TMP/killed.json"
}

# Windows open and close.
test_windows() {
	check_rc "windows: records" 0 'gpu: ' timeout 60 "$INFTRACE" record --gpu "${STEP[@]}" --window every=100ms,for=50ms \
		--output-dir "$TMP/windows" -- "$DRIVER" init "step 100 1000000" "step 100 1000000" "step 100 1000000"
	check "windows: valid" "$INFTRACE" validate "$TMP"/windows/*
}

run_tests "$@"
