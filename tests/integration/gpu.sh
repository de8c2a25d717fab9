#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# record --gpu, with a GPU that does not exist (tests/gpu/mock.h): what the trace and the profile say of it, against what it did.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

setup() {
	need_root
	need cc python3
	run_logged "$TMP/make.log" "cannot build the GPU that does not exist" make -C "$TOP/tests/gpu" O="$BUILD/gpu"
	MOCK=$BUILD/gpu
	STEP=(-u "$MOCK/mock_driver:mock_step(kernels=u64 arg1, cpu_ns=u64 arg2)@step")
	export LD_LIBRARY_PATH=$MOCK
}

# recorded NAME OPTION... -- COMMAND-OF-THE-DRIVER...
recorded() {
	local name=$1
	args_split "${@:2}"
	MOCK_TRUTH=$TMP/$name.bin check "$name: records" timeout 120 "$INFTRACE" record --gpu --cupti "$MOCK/libcupti.so" \
		"${STEP[@]}" -o "$TMP/$name.json" -o "$TMP/$name.pftrace" --profile "$TMP/$name.jsonl" "${BEFORE[@]}" -- \
		"$MOCK/mock_driver" "${BEHIND[@]}"
	cp "$TMP/check.out" "$TMP/$name.err"
	"$MOCK/mock_driver" --truth "$TMP/$name.bin" >"$TMP/$name.truth"
}

valid() { # NAME
	check "$1: the files are valid" "$INFTRACE" validate "$TMP/$1.json" "$TMP/$1.jsonl" --require token_prof
	check "$1: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$TMP/$1.pftrace" "$TMP/$1.json"
}

# Each kernel, copy and set, with its launch; steps that are divided to the nanosecond, which validate looks at.
test_all() {
	local version
	for version in 12.0 13.4; do
		export MOCK_CUPTI=$version MOCK_SHUFFLE=1 MOCK_CLOCK_OFFSET_NS=123456789
		recorded "$version" -- init "launch 500" sync "copies 60" "graph 20" sync "step 30 20000" "kernel-ns 100000" \
			"step 20 0" sync truth
		unset MOCK_CUPTI MOCK_SHUFFLE MOCK_CLOCK_OFFSET_NS
		check "$version: what ran, when, and what launched it" "$TOP/tests/programs/check_gpu.py" all "$TMP/$version.json" \
			"$TMP/$version.truth" "$TMP/$version.err"
		sed 's/^/# /' "$TMP/check.out"
		valid "$version"
	done
	expect "steps have the parts of the GPU, and nothing is unknown" \
		'[x["shape"]["gpu_kernels"] >= x["shape"]["kernels"] and x["shape"]["gpu_unknown_us"] == 0 for x in p if x["event"] == "token_prof"] == [True, True]' \
		p="$TMP/13.4.jsonl"
	expect "20 kernels of 100 us keep it busy" \
		'[1999 < x["shape"]["gpu_busy_us"] < 2001 for x in p if x["event"] == "token_prof"][-1]' p="$TMP/13.4.jsonl"
}

test_report() {
	recorded bound -- init "step 20 200000" sync truth
	"$INFTRACE" report --json "$TMP/bound.jsonl" >"$TMP/bound.report"
	expect "report: launch-bound" '[[g["bound"], g["steps"], g["kernels"]] for g in r[0]["processes"][0]["gpu"]] == [["launch-bound", 1, 20]]' \
		r="$TMP/bound.report"
	recorded busy -- init "kernel-ns 30000000" "step 20 0" sync truth
	"$INFTRACE" report "$TMP/busy.jsonl" >"$TMP/busy.report"
	# a busy machine can make it wait for longer than that, or its clocks seem to step
	expect "report: it is busy for 600 ms, if that is known" '["gpu_lost" in x["shape"] or 599990 < x["shape"]["gpu_busy_us"] < 600010 for x in p
		if x["event"] == "token_prof"] == [True]' p="$TMP/busy.jsonl"
	check "report: says what it did" grep -q '^What the GPU did in mock_step' "$TMP/busy.report"
}

# Into a process that runs, which goes on as before.
test_attach() {
	local go=$TMP/attach.go
	mkdir -p "$TMP/lib"
	ln -sf "$MOCK/libcupti.so" "$TMP/lib/libcupti.so.13" # the first of the names that are tried
	mkfifo "$go"
	LD_LIBRARY_PATH=$TMP/lib:$MOCK "$MOCK/mock_driver" <"$go" >"$TMP/attach.out" 2>&1 &
	local target=$!
	test_pids+=("$target")
	exec 9>"$go"
	echo "launch 5
sync" >&9
	wait_until 60 sh -c "[ \$(grep -c ok '$TMP/attach.out') = 2 ]"
	background "$INFTRACE" record -v --gpu=attach "${STEP[@]}" -o "$TMP/attach.json" --profile "$TMP/attach.jsonl" -p "$target" \
		2>"$TMP/attach.err"
	check "attach: the agent connects" wait_until 60 grep -q 'process [0-9]* has connected' "$TMP/attach.err"
	check "attach: recording" wait_until 60 grep -q 'Ctrl-C ends it' "$TMP/attach.err"
	# the library collects some time after that
	check "attach: kernels are collected" wait_until 60 sh -c "echo 'step 10 0' >&9; sleep 0.2; grep -sq gpu_busy_us '$TMP/attach.jsonl'"
	kill -INT "$BG"
	check "attach: inftrace ends" wait "$BG"
	echo "launch 5
sync
exit" >&9
	exec 9>&-
	check "attach: the target goes on, and ends by itself" wait "$target"
	"$INFTRACE" validate "$TMP/attach.json" "$TMP/attach.jsonl" >"$TMP/attach.valid" || not_ok "attach: valid" "$(tail -n 1 "$TMP/attach.valid")"
	check_rc "attach: not into a process without CUDA" 0 'has not loaded CUDA' timeout 60 "$INFTRACE" record --gpu=attach -d 100ms \
		-o "$TMP/none.json" -p $$
	check_rc "attach: needs -p" 2 'needs -p' "$INFTRACE" record --gpu=attach -- true
	check_rc "attach: no other word" 2 'is not attach' "$INFTRACE" record --gpu=no -p $$
}

# What runs is in the file while the process goes on, and the lines of its steps.
test_live() {
	local go=$TMP/live.go
	mkfifo "$go"
	"$INFTRACE" record -q --gpu --cupti "$MOCK/libcupti.so" "${STEP[@]}" -o "$TMP/live.json" --profile "$TMP/live.jsonl" -- \
		"$MOCK/mock_driver" <"$go" >"$TMP/live.out" 2>&1 &
	test_pids+=("$!")
	exec 9>"$go"
	echo "step 10 0" >&9
	check "live: kernels are in the file" wait_until 60 sh -c "[ \$(grep -c '\"cat\":\"kernel\"' '$TMP/live.json') = 10 ]"
	check "live: the step has its parts" wait_until 60 grep -sq gpu_busy_us "$TMP/live.jsonl"
	echo exit >&9
	exec 9>&-
	check "live: ends" wait "${test_pids[-1]}"
}

# More than a ring holds: each is there, or counted. How many are lost is up to the machine.
test_many() {
	local kept missing
	check "many: records" timeout 120 "$INFTRACE" record --gpu --cupti "$MOCK/libcupti.so" -e functions --ring-size 64MB \
		--profile "$TMP/many.jsonl" -- "$MOCK/mock_driver" init "kernel-ns 500" "launch 100000" sync "launch 100000" sync "launch 100000" sync
	kept=$(sed -n 's/^inftrace: gpu: \([0-9]*\) kernels.*/\1/p' "$TMP/check.out")
	missing=$(sed -n 's/.*warning: gpu: \([0-9]*\) records are missing.*/\1/p' "$TMP/check.out")
	same "many: all of them" "$((${kept:-0} + ${missing:-0}))" 300000
	echo "# $kept kept"
	expect "many: the profile says the same" '[x["shape"].get("lost_gpu", 0) for x in p if x["event"] == "window_prof"] == '"[${missing:-0}]" \
		p="$TMP/many.jsonl"
}

# What CUPTI drops is counted; a step that it may concern has no numbers.
test_dropped() {
	MOCK_DROP_EVERY=50 recorded dropped -- init "launch 100" "step 100 1000" sync truth
	check "dropped: what is there is right" "$TOP/tests/programs/check_gpu.py" some "$TMP/dropped.json" "$TMP/dropped.truth" \
		"$TMP/dropped.err"
	valid dropped
	expect "dropped: the step says so" '["gpu_lost" in x["shape"] and not "gpu_busy_us" in x["shape"] for x in p
		if x["event"] == "token_prof"] == [True]' p="$TMP/dropped.jsonl"
	expect "dropped: as many as the messages say" \
		'[x["shape"]["lost_gpu"] for x in p if x["event"] == "window_prof"] == [4]' p="$TMP/dropped.jsonl"
	check "dropped: a message" grep -q '4 records are missing, of which CUPTI itself dropped 4' "$TMP/dropped.err"
}

# One line says what is missing, and the CPU side is recorded.
test_without() {
	MOCK_ERROR39=1 recorded other -- init "step 10 0"
	check "another user of CUPTI" grep -q 'uses CUPTI (its error 39)' "$TMP/other.err"
	MOCK_FAIL_ENABLE=15 recorded failed -- init "step 10 0"
	check "CUPTI fails" grep -q 'cuptiActivityEnable (error 15)' "$TMP/failed.err"
	expect "the CPU side is there" 'sum(e["name"] == "cuLaunchKernel" for e in t) == 10' t="$TMP/failed.json"
	valid failed
	check_rc "no CUDA" 0 'no process started CUDA' "$INFTRACE" record --gpu -o "$TMP/none.json" -- true
	check_rc "no such libcupti" 2 "cupti $TMP/none: No such file" "$INFTRACE" record --gpu --cupti "$TMP/none" -- true
	check_rc "another injection" 2 'is set to .*unset it' env CUDA_INJECTION64_PATH=/x "$INFTRACE" record --gpu -- true
	check_rc "no COMMAND" 2 'needs a COMMAND' "$INFTRACE" record --gpu -p $$
}

# Children and a process that calls exec have rings of their own; windows open and close.
test_processes() {
	echo "launch 10
sync
exit" >"$TMP/input"
	check_rc "exec: records" 0 'gpu: 18 .*of 3 processes.* of 0 the launch was not seen' "$INFTRACE" record --gpu --cupti "$MOCK/libcupti.so" \
		-o "$TMP/exec.json" -- sh -c "'$MOCK/mock_driver' 'launch 3' sync; exec '$MOCK/mock_driver' 'launch 5' sync 'sleep 1000' exec <'$TMP/input'"
	# what CUPTI had not handed over is not there, which is said
	check_rc "exec: launches without a record" 0 'of 5 launches no record came' "$INFTRACE" record --gpu --cupti "$MOCK/libcupti.so" \
		-o "$TMP/early.json" -- env MOCK_COMPLETE_MS=60000 sh -c "exec '$MOCK/mock_driver' 'launch 5' exec </dev/null"
	expect "exec: kernels of all" 'sum(e.get("cat") == "kernel" for e in t) == 18' t="$TMP/exec.json"
	check_rc "windows: records" 0 'gpu: ' timeout 60 "$INFTRACE" record --gpu --cupti "$MOCK/libcupti.so" "${STEP[@]}" \
		--window every=100ms,for=50ms --output-dir "$TMP/windows" -- "$MOCK/mock_driver" init \
		"step 100 1000000" "step 100 1000000" "step 100 1000000"
	check "windows: valid" "$INFTRACE" validate "$TMP"/windows/*
}

ALL_TESTS=(all report live attach many dropped without processes)
run_tests "$@"
