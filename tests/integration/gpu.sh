#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# record --gpu, with a GPU that does not exist (tests/gpu/mock.h): what the trace and the profile say of it, against what it did.

. "$(dirname "$0")/../lib.sh"

need cc python3 protoc
build_mock_gpu
STEP=(-u "$MOCK/mock_driver:mock_step(kernels=u64 arg1, cpu_ns=u64 arg2)@step")
GPU=(timeout 120 "$INFTRACE" record --gpu --cupti "$MOCK/libcupti.so")
export LD_LIBRARY_PATH=$MOCK

# recorded NAME OPTION... -- COMMAND-OF-THE-DRIVER...
# Where records were left out since the comparison of clocks was disturbed, as a busy machine may do, it records again, twice at most.
recorded() {
	local name=$1 try
	args_split "${@:2}"
	for try in 1 2 3; do
		rm -f "$TMP/$name".{json,pftrace,jsonl,bin}
		MOCK_TRUTH=$TMP/$name.bin check "$name: records" "${GPU[@]}" "${STEP[@]}" -o "$TMP/$name.json" -o "$TMP/$name.pftrace" \
			--profile "$TMP/$name.jsonl" "${BEFORE[@]}" -- "$MOCK/mock_driver" "${BEHIND[@]}"
		cp "$TMP/check.out" "$TMP/$name.err"
		# what was lost, and why, where a check says that something is not there
		grep -E '^inftrace: (gpu|warning)' "$TMP/$name.err" | sed "s/^/# try $try: /" || true
		grep -q ' and [1-9][0-9]* made no sense' "$TMP/$name.err" || break
	done
	"$MOCK/mock_driver" --truth "$TMP/$name.bin" >"$TMP/$name.truth"
}

export MOCK_DEVICES=4 # those that say their names

valid() { # NAME
	check "$1: the files are valid" "$INFTRACE" validate "$TMP/$1.json" "$TMP/$1.jsonl" --require token_prof
	check "$1: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$TMP/$1.pftrace" "$TMP/$1.json"
	grep -q '"cat":"kernel"' "$TMP/$1.json" || return 0 # nothing of a GPU was recorded
	check_shown "$1: Perfetto's tables of GPUs as the JSON has it" "$TOP/tests/tools/gpu_tables.py" "$TMP/$1.pftrace" "$TMP/$1.json"
}

# What the importer of chrome://tracing makes of it: all slices and arrows, in tracks without overlaps.
imported() { # NAME
	local rc=0
	if ! command -v node >/dev/null; then
		skip "$1: importer" "node is not installed"
		return
	fi
	node "$TOP/tests/tools/check_chrome_trace.mjs" --brief "$TMP/$1.json" >"$TMP/$1.importer" 2>&1 || rc=$?
	if [ "$rc" -eq 2 ]; then
		skip "$1: importer" "$(tail -n 1 "$TMP/$1.importer")"
		return
	fi
	same "$1: the importer of chrome://tracing finds nothing wrong" "$rc" 0
	expect "$1: it has all arrows" 'i["flows"] + i["arrows_rounded"] == i["phases"]["s"] > 0' i=last:"$TMP/$1.importer"
}

# Each kernel, copy and set, with its launch; steps that are divided to the nanosecond, which validate looks at.
test_all() {
	local version
	for version in 12.0 13.4; do
		export MOCK_CUPTI=$version MOCK_SHUFFLE=1 MOCK_CLOCK_OFFSET_NS=123456789
		recorded "$version" -- init "launch 500" sync "copies 60" "graph 20" sync "step 30 20000" "kernel-ns 100000" \
			"step 20 0" sync "kernel-ns 40000000" "launch 1" sync truth
		unset MOCK_CUPTI MOCK_SHUFFLE MOCK_CLOCK_OFFSET_NS
		check_shown "$version: what ran, when, and what launched it" "$TOP/tests/programs/check_gpu.py" all "$TMP/$version.json" \
			"$TMP/$version.truth" "$TMP/$version.err"
		check "$version: arguments as HTA wants them" "$TOP/tests/programs/check_gpu.py" hta "$TMP/$version.json"
		valid "$version"
	done
	imported 13.4
	# where the comparison of clocks was disturbed it is not known, which is said
	expect "steps have the parts of the GPU, and nothing is unknown" \
		'["gpu_lost" in s or (s["gpu_kernels"] >= s["kernels"] and s["gpu_unknown_us"] == 0)
			for s in (x["shape"] for x in p if x["event"] == "token_prof")] == [True, True]' \
		p="$TMP/13.4.jsonl"
	local busy='[e for e in t if e["ph"] == "C" and e["name"] == "busy"]'
	# the last kernel takes several of their intervals as a whole, which all that is before it may not
	expect "counters of the device" "100 in [e['args']['%'] for e in $busy]" t="$TMP/13.4.json"
	expect "counters of the device: at most 100 times a second" \
		"[b['ts'] - a['ts'] for c in [$busy] for a, b in zip(c, c[1:]) if b['ts'] - a['ts'] <= 9999] == []" t="$TMP/13.4.json"
	expect "counters of the device: at most 100 %" "max((e['args']['%'] for e in $busy), default=0) <= 100" t="$TMP/13.4.json"
	expect "20 kernels of 100 us keep it busy" \
		'["gpu_lost" in s or 1999 < s["gpu_busy_us"] < 2001 for s in (x["shape"] for x in p if x["event"] == "token_prof")
			if s["kernels"] == 20] == [True]' p="$TMP/13.4.jsonl"
}

# A preset of one's own, which has no launches: --gpu has them.
test_engine() {
	echo '{ "name": "mine", "match": { "mapped": ["mock_driver"] }, "probes": [{ "instant": "mock_outer", "role": "other" }] }' >"$TMP/preset.json"
	recorded mine --engine "$TMP/preset.json" -- init "step 30 20000" sync truth
	check "mine: what ran, when, and what launched it" "$TOP/tests/programs/check_gpu.py" all "$TMP/mine.json" "$TMP/mine.truth" "$TMP/mine.err"
	expect "mine: nothing is unknown" '["gpu_lost" in s or s["gpu_unknown_us"] == 0
		for s in (x["shape"] for x in p if x["event"] == "token_prof")] == [True]' p="$TMP/mine.jsonl"
}

test_report() {
	recorded bound -- init "step 20 200000" sync truth
	"$INFTRACE" report --json "$TMP/bound.jsonl" >"$TMP/bound.report"
	expect "report: launch-bound, if that is known" '("gpu_lost" in str(p) or
		[[g["bound"], g["steps"], g["kernels"]] for g in r[0]["processes"][0]["gpu"]] == [["launch-bound", 1, 20]])' \
		r="$TMP/bound.report" p="$TMP/bound.jsonl"
	recorded busy -- init "kernel-ns 30000000" "step 20 0" sync truth
	"$INFTRACE" report "$TMP/busy.jsonl" >"$TMP/busy.report"
	# a busy machine can make it wait for longer than that, or its clocks seem to step
	expect "report: it is busy for 600 ms, if that is known" '["gpu_lost" in x["shape"] or 599990 < x["shape"]["gpu_busy_us"] < 600010 for x in p
		if x["event"] == "token_prof"] == [True]' p="$TMP/busy.jsonl"
	check "report: says what it did" grep -q '^What the GPU did in mock_step' "$TMP/busy.report"
}

# Kernels belong to operators: of 40 half to the outer one, a quarter to the inner one, and a quarter to none. They do not overlap, but
# where the comparison of clocks was disturbed.
test_operators() {
	local ops=(-u "$MOCK/mock_driver:mock_ops()@step" -u "$MOCK/mock_driver:mock_outer()@op" -u "$MOCK/mock_driver:mock_inner()@op")
	local detail
	for detail in '' --op-detail; do
		check "operators: records $detail" "${GPU[@]}" "${ops[@]}" ${detail:+"$detail"} \
			-o "$TMP/ops$detail.json" --profile "$TMP/ops$detail.jsonl" -- "$MOCK/mock_driver" init "kernel-ns 20000" "ops 10" sync
		check "operators: valid $detail" "$INFTRACE" validate "$TMP/ops$detail.jsonl" --require op_prof
		expect "operators: each has the time of its kernels $detail" '("gpu_lost" in str(p) or all(abs(
			sum(x["shape"].get(k, 0) for x in p if x["event"] == "op_prof") - sum(e["dur"] for e in t if e.get("cat") == "kernel" and e["name"] == name)) < 5
			for k, name in (("g_mock_outer_us", "rmsnorm"), ("g_mock_inner_us", "cutlass::Kernel"), ("gpu_unattributed_us", "flash_fwd_kernel"))))' \
			p="$TMP/ops$detail.jsonl" t="$TMP/ops$detail.json"
	done
	expect "operators: of a step as much as the GPU was busy" '("gpu_lost" in str(p) or
		abs(sum(x["shape"].get("gpu_us", 0) for x in p if x["event"] == "op_prof" and "step" in x["shape"]) -
		sum(x["shape"]["gpu_busy_us"] for x in p if x["event"] == "token_prof")) < 0.0005)' p="$TMP/ops$detail.jsonl"
}

# In the form of PyTorch's profiler kernels have the call that launched them and the number of the operator around it, which the execution
# trace has, too.
# Most operators end before what they launched is recorded; one sleeps until it has been.
test_kineto() {
	check "kineto: records" "${GPU[@]}" -u "$MOCK/mock_driver:mock_ops()@step" \
		-u "$MOCK/mock_driver:mock_outer()@op" -u "$MOCK/mock_driver:mock_inner()@op" -o "$TMP/pair.et.json" -o "$TMP/pair.kineto.json" \
		-- "$MOCK/mock_driver" init "kernel-ns 20000" "ops 10" "copies 10" "op-sleep 500" "ops 1" "op-sleep 0" "ops 10" sync
	grep -E '^inftrace: (gpu|warning)' "$TMP/check.out" | sed 's/^/# /' || true
	check "kineto: valid" "$INFTRACE" validate "$TMP/pair.et.json" "$TMP/pair.kineto.json"
	check "kineto: what launched each, and within which operator" "$TOP/tests/tools/kineto.py" "$TMP/pair.et.json" "$TMP/pair.kineto.json"
	expect "kineto: all of it" '[o["nodes"], o["steps"]] == [42, 3] and o["work"] >= 94' o=last:"$TMP/check.out"
}

# One process uses three devices, one after the other: each has its own tracks, and a step has the parts of the one that was busy in it.
test_devices() {
	recorded devices -- init "launch 100" sync "device 1" "launch 50" "step 30 0" sync "device 5" "copies 20" "step 20 0" sync truth
	check "devices: what ran, when, and what launched it" "$TOP/tests/programs/check_gpu.py" all "$TMP/devices.json" "$TMP/devices.truth" \
		"$TMP/devices.err"
	valid devices
	expect "devices: each has what ran on it" '{d: sum(e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and e["args"]["device"] == d
		for e in t) for d in (0, 1, 5)} == {0: 100, 1: 80, 5: 40}' t="$TMP/devices.json"
	expect "devices: those that say so have a name" '(sorted(e["args"]["name"] for e in t if e["name"] == "process_name" and e["args"]["name"][:3] == "GPU") ==
		["GPU 0: Mock H100 (ffff:1b:00.0)", "GPU 1: No \"Such\" GPU (ffff:1c:00.0)", "GPU 5"])' t="$TMP/devices.json"
	expect "devices: steps have the parts of theirs" '[x["shape"].get("gpu_device", d) for d, x in zip((1, 5), sorted((x for x in p
		if x["event"] == "token_prof"), key=lambda x: x["shape"]["step"]))] == [1, 5]' p="$TMP/devices.jsonl"
}

# Processes that see other devices, by other numbers: each device is one, and a step has the parts of its own. The machine has 4.
test_visible() {
	local run='"$1" init "kernel-ns 20000"' f=$TMP/visible
	check "visible: records" "${GPU[@]}" "${STEP[@]}" -o "$f.json" -o "$f.pftrace" \
		--profile "$f.jsonl" -- env -u CUDA_VISIBLE_DEVICES sh -c "CUDA_VISIBLE_DEVICES=1 $run 'launch 10' 'step 5 0' sync
			CUDA_VISIBLE_DEVICES=GPU-00000003 $run 'launch 20' 'step 6 0' sync
			CUDA_VISIBLE_DEVICES=3,1 $run 'launch 40' sync 'device 1' 'launch 80' 'step 7 0' sync" sh "$MOCK/mock_driver"
	expect "visible: kernels of each device" '({n: sum(e.get("cat") == "kernel" and e["pid"] == pid for e in t) for n, pid in
		((e["args"]["name"].partition(": ")[2], e["pid"]) for e in t if e["name"] == "process_name" and e["args"]["name"][:4] == "GPU ")} ==
		{"No \"Such\" GPU (ffff:1c:00.0)": 10 + 5 + 80 + 7, "No \"Such\" GPU (ffff:1e:00.0)": 20 + 6 + 40})' t="$f.json"
	expect "visible: steps say which" '(lambda w, steps: sorted(w["gpu_device%d_uuid" % s["gpu_device"]][:12] for s in steps if "gpu_device" in s) ==
		sorted(("GPU-00000001", "GPU-00000003", "GPU-00000001")[s["kernels"] - 5] for s in steps if "gpu_device" in s))(
		[x["shape"] for x in p if x["event"] == "window_prof"][0], [x["shape"] for x in p if x["event"] == "token_prof"])' p="$f.jsonl"
	valid visible
}

# Several at once: a step has the parts of all together, and those of each.
test_parallel() {
	local n f
	for n in 2 8; do
		f=parallel$n
		recorded "$f" -u "$MOCK/mock_driver:mock_parallel()@step" -- init "kernel-ns 300000" "parallel 1 $n 0" "parallel 20 $n 100000" \
			"parallel 10 $n 2000000" sync truth
		check_shown "$f: what ran, when, and the parts of steps" "$TOP/tests/programs/check_gpu.py" steps "$TMP/$f.json" "$TMP/$f.truth" "$TMP/$f.err" \
			"$TMP/$f.jsonl"
		valid "$f"
		expect "$f: all devices are told, if the clocks were not disturbed" '"gpu_lost" in str(p) or [x["shape"]["gpu_devices"] for x in p
			if x["event"] == "token_prof"] == 3 * ['"$n]" p="$TMP/$f.jsonl"
		expect "$f: the parts of each sum to the step" '[s for x in p if x["event"] == "token_prof" for s in [x["shape"]] for d in range('"$n"')
			if "gpu_devices" in s and abs(sum(v for k, v in s.items() if k.startswith("gpu_device%d_" % d) and k.endswith("_us") and
			"after" not in k) - x["stage_us"]["total"]) > 0.0005] == []' p="$TMP/$f.jsonl"
		expect "$f: a step on the track of each" 'all(len({e["pid"] for e in t if e.get("cat") == "gpu_step" and e["name"] == n}) == '"$n"'
			for n in {e["name"] for e in t if e.get("cat") == "gpu_step"})' t="$TMP/$f.json"
		"$INFTRACE" report "$TMP/$f.jsonl" >"$TMP/$f.report"
		same "$f: the report has a line for each" "$(grep -c '^  GPU [0-9]* *kernels [0-9.]* %' "$TMP/$f.report")" \
			"$(grep -q gpu_devices "$TMP/$f.jsonl" && echo "$n" || echo 0)"
		"$INFTRACE" report --json "$TMP/$f.jsonl" >"$TMP/$f.rjson"
		expect "$f: so has its JSON" '"gpu_lost" in str(p) or [d["device"] for d in r[0]["processes"][0]["gpu"][0]["devices"]] == list(range('"$n"'))' \
			r="$TMP/$f.rjson" p="$TMP/$f.jsonl"
	done
	sed 's/"gpu_device1_busy_us":[0-9]/&1/' "$TMP/parallel2.jsonl" >"$TMP/wrong.jsonl"
	cmp -s "$TMP/parallel2.jsonl" "$TMP/wrong.jsonl" || check_rc "parallel: validate adds them up" 1 'the parts of GPU 1 sum to' "$INFTRACE" \
		validate "$TMP/wrong.jsonl"
}

# Kernels of a graph that was captured in operators belong to these, and each has its place in the graph; so have those of a graph
# that was captured outside of any.
test_graphs() {
	check "graphs: records" "${GPU[@]}" -u "$MOCK/mock_driver:mock_outer()@op" \
		-u "$MOCK/mock_driver:mock_inner()@op" -o "$TMP/graphs.json" -o "$TMP/graphs.pftrace" --profile "$TMP/graphs.jsonl" -- \
		"$MOCK/mock_driver" init "graph 10" "graph-ops 20" sync "graph-ops 10" sync
	check "graphs: the files are valid" "$INFTRACE" validate "$TMP/graphs.json" "$TMP/graphs.jsonl" --require op_prof
	check "graphs: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$TMP/graphs.pftrace" "$TMP/graphs.json"
	check "graphs: Perfetto's tables of GPUs as the JSON has it" "$TOP/tests/tools/gpu_tables.py" "$TMP/graphs.pftrace" "$TMP/graphs.json"
	expect "graphs: launches are spans" 'sum(e["name"] == "cuGraphLaunch" and e["ph"] == "X" for e in t) == 40' t="$TMP/graphs.json"
	expect "graphs: each part has its place" '(sorted((e["args"]["graph id"], e["args"]["graph node id"] & 0xffffffff,
		e["args"].get("graph position", 0)) for e in t if e.get("cat") == "kernel") ==
		[(1, i, i) for i in range(1, 6) for _ in range(10)] + [(2, i, i) for i in range(1, 5) for _ in range(30)])' t="$TMP/graphs.json"
	expect "graphs: and the operator of its capture" '([{e["args"].get("captured in") for e in t if e.get("cat") == "kernel" and
		e["args"]["graph id"] == 2 and e["args"]["graph position"] == i} for i in range(1, 5)] ==
		[{"mock_outer"}, {"mock_inner"}, {"mock_outer"}, {None}])' t="$TMP/graphs.json"
	expect "graphs: captured outside of any" '({e["args"].get("captured in") for e in t if e.get("cat") == "kernel" and
		e["args"]["graph id"] == 1} == {None})' t="$TMP/graphs.json"
	expect "graphs: operators have the time of their kernels" '("gpu_lost" in str(p) or all(abs(
		sum(x["shape"].get(k, 0) for x in p if x["event"] == "op_prof") - sum(e["dur"] for e in t if e.get("cat") == "kernel" and
		e["args"].get("captured in") == op)) < 1 for k, op in (("g_mock_outer_us", "mock_outer"), ("g_mock_inner_us", "mock_inner"))))' \
		p="$TMP/graphs.jsonl" t="$TMP/graphs.json"
}

# What the launching thread did while the GPU had nothing to do: it slept. With and without a timeline.
test_gaps() {
	local trace
	for trace in '' "$TMP/nap.json"; do
		check "gaps: records $trace" "${GPU[@]}" -u "$MOCK/mock_driver:mock_nap()@step" \
			${trace:+-o "$trace"} --profile "$TMP/nap.jsonl" -- "$MOCK/mock_driver" init "nap 100" sync
	done
	check "gaps: valid" "$INFTRACE" validate "$TMP/nap.jsonl"
	expect "gaps: their cause" '["gpu_lost" in x or (x["gpu_gap1_us"] > 99000 and x["gpu_gap1_blocked_sleep_us"] > 0 and
		x["gpu_gap1_state"] in ("blocked_sleep", "runnable") and x.get("gpu_gap1_call", "clock_nanosleep") == "clock_nanosleep")
		for x in (y["shape"] for y in p if y["event"] == "token_prof")] == [True, True]' p="$TMP/nap.jsonl"
	"$INFTRACE" report "$TMP/nap.jsonl" >"$TMP/nap.report"
	if grep -q gpu_gap1_state "$TMP/nap.jsonl"; then
		check "gaps: the report names it" grep -q 'longest gaps: .*the launching thread \(slept for\|waited\)' "$TMP/nap.report"
	fi
}

# Calls of NCCL, with their bytes, within their groups; the time of its kernels, 1 ms each, of which a step has three, is a part of its own.
# What runs before all probes are there is not looked at.
test_collectives() {
	local f=$TMP/collectives
	fed BG "${GPU[@]}" --ring-size 64MB -u "$MOCK/mock_driver:mock_collectives()@step" -o "$f.json" -o "$f.et" \
		-o "$f.pftrace" --profile "$f.jsonl" -- "$MOCK/mock_driver" >"$f.out" 2>"$f.err"
	echo "kernel-ns 1000000" >&9
	check "collectives: steps have their part, and all calls are seen" wait_until 100 sh -c "echo 'collectives 1' >&9; sleep 0.1
		grep -sq gpu_collective_us '$f.jsonl' && grep -q ncclGroupStart '$f.json' && grep -q ncclAllReduce '$f.json' &&
		grep -q ncclGroupEnd '$f.json'"
	printf '%s\n' "collectives 5" exit >&9
	exec 9>&-
	check "collectives: ends" wait "$BG"
	check "collectives: the files are valid" "$INFTRACE" validate "$f.json" "$f.jsonl" --require token_prof
	check "collectives: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$f.pftrace" "$f.json"
	expect "collectives: groups, and bytes of calls" '([(e["name"], e["args"].get("count"), e["args"].get("type"), e["args"].get("bytes"))
		for e in sorted((e for e in t if e["ph"] == "X" and e["name"][:4] == "nccl" and e.get("cat") != "kernel"), key=lambda e: e["ts"])][-25:] ==
		5 * [("ncclGroupStart", None, None, None), ("ncclAllReduce", 1000, "float16", 2000), ("ncclAllReduce", 2000, "float16", 4000),
		("ncclGroupEnd", None, None, None), ("ncclAllReduce", 3000, "float16", 6000)])' t="$f.json"
	check "collectives: the execution trace is valid" "$INFTRACE" validate "$f.et"
	check "collectives: the execution trace has them" sh -c "'$TOP/tests/tools/et.py' --comms '$f.et' >'$f.comms.jsonl'"
	# all of the last five steps, in which no call was missed
	expect "collectives: one after the other, with their bytes" '(lambda last: [(x["name"], x["type"], x["comm_type"], x["comm_size"]) for x in last] ==
		5 * [("ncclAllReduce", "COMM_COLL_NODE", 0, n) for n in (2000, 4000, 6000)] and
		[x["after"] for x in last][1:] == [[x["id"]] for x in last][:-1])(c[-15:])' c="$f.comms.jsonl"
	expect "collectives: their time is a part of its own, where the clocks were not disturbed" '(lambda k: bool(k) and
		[s for s in k if abs(s["gpu_collective_us"] - 3000) > 1 + 8 * s["gpu_residual_us"] or
		abs(s["gpu_busy_us"] - 1000) > 1 + 8 * s["gpu_residual_us"]] == [])(
		[x["shape"] for x in p if x["event"] == "token_prof" and "gpu_collective_us" in x["shape"]])' p="$f.jsonl"
}

# The flight recorder is dumped for a step in which the GPU had nothing to do for long.
test_idle() {
	check_rc "idle: needs --gpu" 2 '--trigger gpu_idle needs --gpu' "$INFTRACE" record --flight-recorder 60s --trigger 'gpu_idle>1ms' -- true
	local try
	for try in 1 2 3 4 5; do
		check "idle: records" "${GPU[@]}" -u "$MOCK/mock_driver:mock_nap()@step" --flight-recorder 60s --trigger 'gpu_idle>90ms' \
			--output-dir "$TMP/idle" -- "$MOCK/mock_driver" init "nap 100" sync
		# where the clocks were disturbed the idle time is not known
		grep -q 'nothing was seen' "$TMP/check.out" || break
	done
	check "idle: dumped" sh -c "ls '$TMP'/idle/profile_*.jsonl"
	check "idle: valid" "$INFTRACE" validate "$TMP"/idle/*
	expect "idle: the reason" '["had nothing to do for" in x["shape"]["trigger"] for x in p if x["event"] == "window_prof"] == [True]' \
		p="$(echo "$TMP"/idle/profile_*.jsonl)"
}

# attached NAME COMMAND...: into a process that runs, which goes on as before. It is COMMAND, or its only child. BESIDE: others before it.
attached() {
	local name=$1 target child
	mkdir -p "$TMP/lib"
	ln -sf "$MOCK/libcupti.so" "$TMP/lib/libcupti.so.13" # the first of the names that are tried
	LD_LIBRARY_PATH=$TMP/lib:$MOCK fed target "${@:2}" >"$TMP/$name.out" 2>&1
	printf '%s\n' "launch 5" sync >&9
	wait_until 60 sh -c "[ \$(grep -c ok '$TMP/$name.out') = 2 ]"
	read -r child <"/proc/$target/task/$target/children" || :
	background "$INFTRACE" record -v --gpu=attach "${STEP[@]}" -o "$TMP/$name.json" --profile "$TMP/$name.jsonl" -p "${BESIDE:-}${child:-$target}" \
		2>"$TMP/$name.err"
	check "$name: the agent connects" wait_until 60 grep -q 'process [0-9]* has connected' "$TMP/$name.err"
	check "$name: recording" wait_until 60 grep -q 'Ctrl-C ends it' "$TMP/$name.err"
	# the library collects some time after that
	check "$name: kernels are collected" wait_until 60 sh -c "echo 'step 10 0' >&9; sleep 0.2; grep -sq gpu_busy_us '$TMP/$name.jsonl'"
	# what is said of another target is said after a second of it
	[ ! "${SAYS:-}" ] || wait_until 60 grep -q "$SAYS" "$TMP/$name.err"
	kill -TERM "$BG"
	local signalled=${EPOCHREALTIME/./}
	check "$name: inftrace ends" wait_until 60 sh -c "! kill -0 $BG 2>/dev/null || grep -q '^State:.*Z' /proc/$BG/status"
	ENDED_MS=$(((${EPOCHREALTIME/./} - signalled) / 1000))
	echo "# after $ENDED_MS ms"
	check "$name: in order" wait "$BG"
	printf '%s\n' "launch 5" sync exit >&9
	exec 9>&-
	check "$name: the target goes on, and ends by itself" wait "$target"
	"$INFTRACE" validate "$TMP/$name.json" "$TMP/$name.jsonl" >"$TMP/$name.valid" || not_ok "$name: valid" "$(tail -n 1 "$TMP/$name.valid")"
}

# With mounts, a network and process numbers of its own, where the library is not.
test_container() {
	if ! unshare -mnpf --mount-proc true 2>/dev/null; then
		skip "container: the agent connects" "no namespaces can be made here"
		return
	fi
	attached container unshare -mnpf --mount-proc sh -c 'mount --bind /dev/null "$1" && exec "$2"' sh "$BUILD/inftrace-gpu.so" "$MOCK/mock_driver"
}

test_attach() {
	attached attach "$MOCK/mock_driver"
	check_rc "attach: not into a process without CUDA" 0 'has not loaded CUDA' timeout 60 "$INFTRACE" record --gpu=attach -d 100ms \
		-o "$TMP/none.json" -p $$
	check_rc "attach: needs -p" 2 'needs -p' "$INFTRACE" record --gpu=attach -- true
	check_rc "attach: a duration to wait" 2 'wait=x: write a duration' "$INFTRACE" record --gpu=wait=x -p $$
	check_rc "attach: no other word" 2 'is neither attach nor every=N' "$INFTRACE" record --gpu=no -p $$
}

# Targets that would hold up whoever attaches to them: another one is recorded meanwhile, and the recorder ends soon, in one of
# three tries, as a busy machine takes longer at times.
test_hostile() {
	local mode try
	for mode in calls signals again small ring full head punch; do
		for try in 1 2 3; do
			hostile "$mode" "hostile-$mode-$try"
			[ "$ENDED_MS" -ge 6000 ] || break
		done
		check "hostile-$mode: ends within 6 s of SIGTERM" test "$ENDED_MS" -lt 6000
	done
}

hostile() { # MODE NAME
	local mode=$1 name=$2 err=$TMP/$2.err start=("$MOCK/hostile_target" "$1") hostile says
	# where the library has to be brought in
	[ "$mode" != punch ] || start=(unshare -m sh -c 'mount --bind /dev/null "$1" && exec "$2" "$3"' sh "$BUILD/inftrace-gpu.so" "${start[@]}")
	spawn hostile "${start[@]}" >"$TMP/$name.hostile" 2>&1
	ENDED_MS=0
	if ! wait_until 60 grep -q ready "$TMP/$name.hostile"; then
		skip "$name" "$(tail -n 1 "$TMP/$name.hostile")"
		return
	fi
	says=
	case $mode in
	calls | signals) says="process $hostile: .*not come back from loading" ;;
	esac
	BESIDE=$hostile, SAYS=$says attached "$name" "$MOCK/mock_driver"
	check "$name: it lives on" is_own "$hostile"
	case $mode in
	again) same "$name: what its entry says is no reason to try again" "$(grep -c entered "$TMP/$name.hostile")" 1 ;;
	ring | full) check "$name: it had a ring" grep -q 'has the ring' "$TMP/$name.hostile" ;;
	head) check "$name: is said" grep -q "process $hostile: its ring makes no sense" "$err" ;;
	punch) check "$name: it has a library that it cannot change" grep -q "process $hostile has connected" "$err" ;;
	small) check "$name: the line says what is in the way" grep -q "process $hostile: " "$err" ;;
	*) check "$name: the line says what is in the way" grep -q "$says" "$err" ;;
	esac
	kill -9 "$hostile"
}

# Connections that say nothing, of a target or a stranger, come behind that of an agent whose hello has not been read yet.
test_flood() {
	local who recorder
	for who in target stranger; do
		mkfifo "$TMP/$who.go" "$TMP/$who.flood"
		# shellcheck disable=SC2016 # for the shell there
		spawn recorder "$INFTRACE" record -v --gpu --cupti "$MOCK/libcupti.so" -o "$TMP/$who.json" -- \
			sh -c '"$1" <"$3.go" & driver=$!; { read -r _; exec "$2" flood "$PPID"; } <"$3.flood" & wait $driver; kill $!' sh \
			"$MOCK/mock_driver" "$MOCK/hostile_target" "$TMP/$who" >"$TMP/$who.out" 2>"$TMP/$who.err"
		exec 9>"$TMP/$who.go" 8>"$TMP/$who.flood"
		kill -STOP "$recorder"
		echo init >&9
		has_connected() { [ "$(grep -c "@inftrace-gpu-$recorder-" /proc/net/unix)" -gt 1 ]; }
		check "flood: $who: an agent waits" wait_until 60 has_connected
		if [ $who = target ]; then
			echo >&8
		else
			background "$MOCK/hostile_target" flood "$recorder" >"$TMP/$who.out"
		fi
		check "flood: $who: so do others" wait_until 60 grep -q ready "$TMP/$who.out"
		kill -CONT "$recorder"
		printf '%s\n' "launch 5" sync exit >&9
		exec 9>&- 8>&-
		check "flood: $who: ends" wait "$recorder"
		check "flood: $who: the agent was served" grep -q 'gpu: 5 kernels and copies of 1 process' "$TMP/$who.err"
	done
}

# What runs is in the file while the process goes on, and the lines of its steps.
test_live() {
	fed BG "$INFTRACE" record -q --gpu --cupti "$MOCK/libcupti.so" "${STEP[@]}" -o "$TMP/live.json" --profile "$TMP/live.jsonl" -- \
		"$MOCK/mock_driver" >"$TMP/live.out" 2>&1
	echo "step 10 0" >&9
	check "live: kernels are in the file" wait_until 60 sh -c "[ \$(grep -c '\"cat\":\"kernel\"' '$TMP/live.json') = 10 ]"
	check "live: the step has its parts" wait_until 60 grep -sq gpu_busy_us "$TMP/live.jsonl"
	echo exit >&9
	exec 9>&-
	check "live: ends" wait "$BG"
}

# More than a ring holds: each is there, or counted. How many are lost is up to the machine.
test_many() {
	local kept missing
	check "many: records" "${GPU[@]}" -e functions --ring-size 64MB \
		--profile "$TMP/many.jsonl" -- "$MOCK/mock_driver" init "kernel-ns 500" "launch 100000" sync "launch 100000" sync "launch 100000" sync
	kept=$(sed -n 's/^inftrace: gpu: \([0-9]*\) kernels.*/\1/p' "$TMP/check.out")
	missing=$(sed -n 's/.*warning: gpu: \([0-9]*\) records are missing.*/\1/p' "$TMP/check.out")
	same "many: all of them" "$((${kept:-0} + ${missing:-0}))" 300000
	echo "# $kept kept"
	expect "many: the profile says the same" '[x["shape"].get("lost_gpu", 0) for x in p if x["event"] == "window_prof"] == '"[${missing:-0}]" \
		p="$TMP/many.jsonl"
	check "many: records without waiting" timeout 120 "$INFTRACE" record --gpu=wait=0s --cupti "$MOCK/libcupti.so" -e functions \
		--ring-size 64MB --profile "$TMP/many.jsonl" -- "$MOCK/mock_driver" init "kernel-ns 500" "launch 300000" sync
	check "many: it has not waited" bash -c "! grep -q 'library waited' '$TMP/check.out'"
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
	check_rc "CUPTI fails in a process that ends before the others" 0 'cuptiActivityEnable .error 15.' timeout 60 env MOCK_FAIL_ENABLE=15 \
		"${GPU[@]}" "${STEP[@]}" -o "$TMP/ended.json" -- sh -c '"$1" init "step 10 0"; sleep 1' sh "$MOCK/mock_driver"
	MOCK_FAIL_FLUSH=3 recorded flush -- init "step 10 0"
	check "CUPTI fails later" grep -q 'cuptiActivityFlushAll (error 3), so what' "$TMP/flush.err"
	expect "the CPU side is there" 'sum(e["name"] == "cuLaunchKernel" for e in t) == 10' t="$TMP/failed.json"
	valid failed
	check_rc "no CUDA" 0 'no process started CUDA' "$INFTRACE" record --gpu -o "$TMP/none.json" -- true
	check_rc "no such libcupti" 2 "cupti $TMP/none: No such file" "$INFTRACE" record --gpu --cupti "$TMP/none" -- true
	check_rc "another injection" 2 'is set to .*unset it' env CUDA_INJECTION64_PATH=/x "$INFTRACE" record --gpu -- true
	check_rc "no COMMAND" 2 'needs a COMMAND' "$INFTRACE" record --gpu -p $$
}

# top says how busy it is.
test_top() {
	check_rc "top: GPU 0 is busy" 0 'GPU 0 busy [1-9]' timeout 60 "$INFTRACE" top --gpu --cupti "$MOCK/libcupti.so" -b -n 1 -d 3600 -- \
		"$MOCK/mock_driver" init "kernel-ns 10000000" "launch 20" sync
	check_rc "top: not some steps only" 2 'every=N is for record' "$INFTRACE" top --gpu=every=2 -- true
}

# Children and a process that calls exec have rings of their own; windows open and close.
test_processes() {
	printf '%s\n' "launch 10" sync exit >"$TMP/input"
	check_rc "exec: records" 0 'gpu: 18 .*of 3 processes.* of 0 the launch was not seen' "${GPU[@]}" \
		-o "$TMP/exec.json" -o "$TMP/exec.pftrace" -o "$TMP/exec2.pftrace" -- sh -c "'$MOCK/mock_driver' 'launch 3' sync; exec '$MOCK/mock_driver' 'launch 5' sync 'sleep 1000' exec <'$TMP/input'"
	# what CUPTI had not handed over is not there, which is said
	check_rc "exec: launches without a record" 0 'of 5 launches no record came' "${GPU[@]}" \
		-o "$TMP/early.json" -- env MOCK_COMPLETE_MS=60000 sh -c "exec '$MOCK/mock_driver' 'launch 5' exec </dev/null"
	check "exec: the numbers of its events and contexts are those of no other file" python3 -B -c 'import sys
sys.path.insert(0, sys.argv[1])
from gpu_tables import decode
a, b = ({(k, e[k][0]) for p in decode(f) for e in p.get("gpu_render_stage_event", []) for k in ("event_id", "context")} for f in sys.argv[2:])
sys.exit(not a or not b or bool(a & b))' "$TOP/tests/tools" "$TMP/exec.pftrace" "$TMP/exec2.pftrace"
	check "exec: contexts of several processes in Perfetto's tables" "$TOP/tests/tools/gpu_tables.py" "$TMP/exec.pftrace" "$TMP/exec.json"
	expect "exec: kernels of all" 'sum(e.get("cat") == "kernel" for e in t) == 18' t="$TMP/exec.json"
	check_rc "windows: records" 0 'gpu: ' "${GPU[@]}" "${STEP[@]}" --window every=500ms,for=400ms --output-dir "$TMP/windows" -- \
		"$MOCK/mock_driver" init "steps 20 100 1000000"
	check "windows: valid" "$INFTRACE" validate "$TMP"/windows/*
	# 100 of each step
	check "windows: all have their kernels" sh -c "cat '$TMP'/windows/*.json | grep -c '\"cat\":\"kernel\"' >'$TMP/windows.kernels'
		cat '$TMP'/windows/*.jsonl | grep -c gpu_busy_us >'$TMP/windows.steps'
		[ \$(cat '$TMP/windows.kernels') -gt \$((60 * \$(cat '$TMP/windows.steps'))) ]"
}

# A process whose clock is another one: what its GPU did is where its launches are. A busy machine may lose some (their clock seems to step).
test_time_namespace() {
	local boot
	if ! unshare --time --boottime 1 --fork true 2>/dev/null; then
		skip "time namespace: GPU times" "unshare --time is not allowed here"
		return
	fi
	for boot in 5000 -1; do
		check "time namespace: records ($boot s)" "${GPU[@]}" "${STEP[@]}" -o "$TMP/time.json" \
			-- unshare --time --boottime "$boot" --fork "$MOCK/mock_driver" init "step 200 0" sync
		expect "time namespace: kernels begin after their launch, within the trace ($boot s)" '[len(k) > 100 and min(l) < min(k) and max(k) < max(e["ts"] for e in t
			if e["ph"] == "X")
			for k, l in [[[e["ts"] for e in t if e["ph"] == "X" and (e.get("cat") == "kernel", e["name"] == "cuLaunchKernel")[i]] for i in (0, 1)]]] == [True]' \
			t="$TMP/time.json"
	done
}

# One step in five or so has its parts; the others say that they have not. How many, is up to how soon a busy machine reacts.
test_every() {
	fed BG "$INFTRACE" record --gpu=every=5 --cupti "$MOCK/libcupti.so" "${STEP[@]}" -o "$TMP/every.json" --profile "$TMP/every.jsonl" -- \
		"$MOCK/mock_driver" >"$TMP/every.out" 2>"$TMP/every.err"
	check "every: some steps have their parts, and some have not" wait_until 60 sh -c "echo 'steps 5 10 0' >&9; sleep 0.1
		[ \"\$(grep -sc gpu_lost '$TMP/every.jsonl')\" -ge 3 ] && [ \"\$(grep -c '\"gpu_kernels\":10,' '$TMP/every.jsonl')\" -ge 3 ]"
	echo exit >&9
	exec 9>&-
	check "every: ends" wait "$BG"
	check "every: the files are valid" "$INFTRACE" validate "$TMP/every.json" "$TMP/every.jsonl"
	# where the comparison of clocks was disturbed it is not known, which is said
	same "every: those that have know what ran" "$(json '[{k: v for k, v in x["shape"].items() if k.startswith("gpu_") or k == "step"} for x in p
		if x["event"] == "token_prof" and "gpu_busy_us" in x["shape"] and x["shape"]["gpu_kernels"] != 10 and not x["shape"]["gpu_unknown_us"]]' \
		p="$TMP/every.jsonl")" "[]"
	check_rc "every: no number" 2 'write a number of steps' "$INFTRACE" record --gpu=every=x -- true
}

# Where the library takes more than it may, it pauses, which is said.
test_budget() {
	fed BG "$INFTRACE" record --gpu --gpu-budget 0.0001% --cupti "$MOCK/libcupti.so" "${STEP[@]}" --profile "$TMP/budget.jsonl" -- \
		"$MOCK/mock_driver" >"$TMP/budget.out" 2>"$TMP/budget.err"
	echo "step 10 0" >&9
	check "budget: it pauses, and says so" wait_until 60 grep -sq 'budget: what the GPU of process .* is not collected for a while' "$TMP/budget.err"
	printf '%s\n' "step 10 0" exit >&9
	exec 9>&-
	check "budget: ends" wait "$BG"
	expect "budget: the step in the pause has no parts" \
		'["gpu_busy_us" in x["shape"] for x in sorted((x for x in p if x["event"] == "token_prof"),
			key=lambda x: x["shape"]["step"])][1:] == [False]' p="$TMP/budget.jsonl"
	check "budget: a message at the end" grep -q 'gpu: nothing was collected for .*--gpu-budget' "$TMP/budget.err"
	check_rc "budget: needs --gpu" 2 'needs --gpu' "$INFTRACE" record --gpu-budget 2% -- true
}

run_tests "$@"
