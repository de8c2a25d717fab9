#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Engines written in Python, whose steps a preset names: programs with the names that the real ones have.

. "$(dirname "$0")/../lib.sh"
need python3 gcc

setup() {
	"$INFTRACE" record -q --engine none --py-step none -o /dev/null -f chrome -- python3 -c pass 2>"$TMP/err" || true
	! grep -q 'not in' "$TMP/err" || skip_all "its steps cannot be seen: $(grep -m 1 'not in' "$TMP/err")"
	mkdir -p "$TMP/site/vllm/v1/engine"
	cat >"$TMP/site/vllm/v1/engine/core.py" <<-'PY'
		import time

		def now():
		    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

		class EngineCore:
		    def step(self):
		        first = now()
		        sum(range(20_000))
		        return first, now()
	PY
	cat >"$TMP/site/serve.py" <<-'PY'
		import ctypes, sys, threading, time
		from vllm.v1.engine.core import EngineCore, now

		def run(n):
		    for _ in range(n):
		        before = now()
		        first, last = core.step()
		        print(before, first, last, now(), threading.get_native_id())

		print("ready", flush=True)
		sys.stdin.readline()
		core = EngineCore()
		for _ in range(5):
		    core.step()
		for library in sys.argv[2:]:
		    ctypes.CDLL(library)
		print("loaded", flush=True)
		time.sleep(1)
		run(int(sys.argv[1]))
	PY
	gcc -shared -o "$TMP/_C.abi3.so" -x c - <<<'int nothing;'
}

# vllm NAME OPTION... -- LIBRARY...: records the program, which loads the libraries as an engine does.
vllm() {
	local name=$1
	args_split "${@:2}"
	engine_recorded "$name" --engine "$TOP/engines/vllm.json" --engine "$TOP/engines/python.json" -o "$TMP/$name.json" \
		--profile "$TMP/$name.jsonl" "${BEFORE[@]}" -- python3 "$TMP/site/serve.py" 60 "${BEHIND[@]}"
}

test_steps() {
	check "vllm: is recorded" vllm core --strict -v -- "$TMP/_C.abi3.so"
	check "vllm: each call after its library was there is a step" "$TOP/tests/programs/check_py_steps.py" "$TMP/core.json" "$TMP/core.out" engine
	check "vllm: valid" "$INFTRACE" validate "$TMP/core.json" "$TMP/core.jsonl"
	check "vllm: its probes are told" grep -q 'probe vllm' "$TMP/core.err" # which test_no_engine wants not to see
	same "vllm: as many lines" "$(grep -c '"event":"token_prof"' "$TMP/core.jsonl")" 60
}

# The same program without the engine's library: no step, and no probe that would slow it down.
test_no_engine() {
	check "no engine: is recorded" vllm none -v
	same "no engine: no step" "$(grep -c '"event":"token_prof"' "$TMP/none.jsonl")" 0
	same "no engine: no probe" "$(grep -c 'probe vllm' "$TMP/none.err")" 0
}

# It runs already.
test_attached() {
	python3 "$TMP/site/serve.py" 100000 "$TMP/_C.abi3.so" >"$TMP/attached.out" </dev/null &
	test_pids+=("$!")
	wait_until 60 grep -q loaded "$TMP/attached.out"
	"$INFTRACE" record -q -d 2s --engine "$TOP/engines/vllm.json" --profile "$TMP/attached.jsonl" -p "$!" 2>"$TMP/err" || not_ok "attached" "$(cat "$TMP/err")"
	check "attached: steps" grep -q '"phase":"engine"' "$TMP/attached.jsonl"
	kill "$!"
}

run_tests "$@"
