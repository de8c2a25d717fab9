#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --py-step: each call of a Python function is a step, as long as the program itself says that the call took.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

P=$TOP/tests/programs/py_steps.py
CALLS=60

# The first interpreter that has the places for the probes.
setup() {
	need_root
	local p
	PYTHON=
	for p in /usr/bin/python3 python3; do
		command -v "$p" >/dev/null || continue
		if stepped --py-step none -- "$p" "$P" generate 1 && ! grep -q 'not in' "$TMP/steps.err"; then
			PYTHON=$p
			return
		fi
	done
	skip_all "no interpreter here is a CPython 3.11 with USDT probes: $(grep -m 1 'not in' "$TMP/steps.err")"
}

# stepped OPTION... -- COMMAND...: what an earlier recording has left is not to be taken for this one's.
stepped() {
	rm -f "$TMP"/steps.*
	engine_recorded steps --engine none -e functions -o "$TMP/steps.json" "$@"
}

# recorded CASE NAME: each call that the program makes is one step.
recorded() {
	local case=$1 name=$2
	check "$case, $name: is recorded" stepped --strict --py-step "$name" -- "$PYTHON" "$P" "$case" "$CALLS"
	check "$case, $name: each call is a step" "$TOP/tests/programs/check_py_steps.py" "$TMP/steps.json" "$TMP/steps.out" "$name"
}

steps() {
	python3 -c 'import json, sys; print(sum(e.get("cat") == "step" for e in json.load(sys.stdin)))' <"$TMP/steps.json"
}

test_loop() {
	recorded generate Model.step
	recorded generate py_steps.Model.step
	recorded generate programs/py_steps.py:Model.step
}

test_called_by_c() {
	recorded called_by_c Model.step
}

# The outermost call is the step.
test_recursive() {
	recorded recursive Model.recursive
}

test_exceptions() {
	recorded fails Model.fails
}

# Each time that they are resumed.
test_generators() {
	recorded tokens Model.tokens
	recorded awaits Model.awaits
}

test_threads() {
	recorded threads Model.step
}

# A function of the same name in another file.
test_files() {
	recorded other py_steps.py:twin
	check "other.twin: is recorded" stepped --py-step other.twin -- "$PYTHON" "$P" other "$CALLS"
	same "other.twin: as many" "$(steps)" "$CALLS"
	check "twin: is recorded" stepped --py-step twin -- "$PYTHON" "$P" other "$CALLS"
	same "twin: of both files" "$(steps)" $((2 * CALLS))
}

# The call that is under way as the recording begins is no step; those after it are.
test_inside() {
	recorded inside Model.step
	check "within a call: is recorded" stepped --py-step "inside.<locals>.inlined" -- "$PYTHON" "$P" inside "$CALLS"
	same "within a call: no step" "$(steps)" 0
	check "within a call: it is said" grep -q 'no call of it began' "$TMP/steps.err"
}

test_torch() {
	if ! "$PYTHON" -c 'import torch' 2>/dev/null; then
		skip "torch" "python3-torch is not installed"
		return
	fi
	recorded torch "py_steps.py:torch.<locals>.Net.forward"
}

test_refused() {
	local name
	for name in "" "a..b" "a." ".a" "f.py:" ":f" "é" "a b" "$(printf 'x%.0s' {1..64})" a.b.c.d.e.f.g.h.i.j; do
		check_rc "--py-step '$name' is refused" 2 "--py-step .*write MODULE" \
			"$INFTRACE" record --py-step "$name" -o "$TMP/refused.json" -- true
	done
}

ALL_TESTS=(loop called_by_c recursive exceptions generators threads files inside torch refused)
run_tests "$@"
