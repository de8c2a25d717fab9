#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --py-step: each call of a Python function is a step, as long as the program itself says that the call took.

. "$(dirname "$0")/../lib.sh"

P=$TOP/tests/programs/py_steps.py
CALLS=60

# The first interpreter that has the places for the probes; generators are steps only where one has USDT probes.
setup() {
	local p
	PYTHON=
	for p in ${PY_STEPS_PYTHON:-/usr/bin/python3 python3}; do
		command -v "$p" >/dev/null || continue
		if stepped --py-step none -- "$p" "$P" generate 1 && ! grep -q 'not in' "$TMP/steps.err"; then
			PYTHON=$p
			return
		fi
	done
	skip_all "no interpreter here is a CPython 3.8 to 3.14 that is known: $(grep -m 1 'not in' "$TMP/steps.err")"
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
	recorded recursing Model.recursive
}

test_exceptions() {
	recorded failing Model.fails
}

# Each time that they are resumed.
test_generators() {
	if ! readelf -n "$(readlink -f "$(command -v "$PYTHON")")" 2>/dev/null | grep -q function__return; then
		skip "generators" "this interpreter was built without USDT probes"
		return
	fi
	recorded resuming Model.tokens
	recorded awaiting Model.awaits
}

test_threads() {
	recorded threads Model.step
}

# spans TEXT CASE OPTION... -- COMMAND...: py_steps.py, by the command; each call of a module is a slice, as long as the program itself says, and
# called as its class
spans() {
	local text=$1 case=$2 name=Module.call
	args_split "${@:3}"
	[ "$case" != cells ] || name=Module.within
	check "$text, $case: is recorded" stepped --strict --py-span "py_steps.py:$name(name=type(self), depth=self.depth)" "${BEFORE[@]}" -- \
		"${BEHIND[@]}" "$case" "$(often 40 1000)"
	check "$text, $case: each call is a slice" "$TOP/tests/programs/check_py_steps.py" "$TMP/steps.json" "$TMP/steps.out" --slices
	expect "$text, $case: with its argument" "({(e['name'], e['args']['depth']) for e in t if e.get('cat') == 'other' and e['name'] != 'Leaf'} ==
		{*(('Tower', i) for i in range(4)), *((i, d) for i in ('Tree', 'Fails') for d in range(4))})" t="$TMP/steps.json"
}

# links TEXT COMMAND...: the same of functions that one call of the interpreter runs, of which one is a step, too
links() {
	check "$1, links: are recorded" stepped --strict --py-span py_steps.py:link --py-step py_steps.py:link -- "${@:2}" links "$(often 60 1000)"
	check "$1, links: each call is a slice" "$TOP/tests/programs/check_py_steps.py" "$TMP/steps.json" "$TMP/steps.out" --slices py_steps.py:link
	expect "$1, links: and the outermost is a step, which a slice neither begins before nor outlasts" "(lambda steps, slices: len(steps) == $(often 60 1000) and
		{e['ts'] for e in steps} <= {e['ts'] for e in slices} and
		all(s['ts'] + s['dur'] >= e['ts'] + e['dur'] for e, s in ((e, next(s for s in reversed(steps) if s['ts'] <= e['ts'])) for e in slices)))(
		*(sorted((e for e in t if e.get('cat') == i), key=lambda e: e['ts']) for i in ('step', 'other')))" t="$TMP/steps.json"
}

# Slices of functions that call one another, in every way.
test_spans() {
	local version PYTHON=$PYTHON
	check "tower: is recorded" stepped --py-span Module.call -- "$PYTHON" "$P" tower 10
	same "tower: as many as fit" "$(json 'sum(e.get("cat") == "other" for e in t)' t="$TMP/steps.json")" 320
	check "tower: the others are counted" grep -q '80 calls were nested too deep for a span' "$TMP/steps.err"
	while read -r version PYTHON; do
		links "$version" "$PYTHON" "$P"
		case $version in
		3.8 | 3.9) # which have no arguments
			check "$version, modules: is recorded" stepped --strict --py-span "py_steps.py:Module.call" -- "$PYTHON" "$P" modules 40
			check "$version, modules: each call is a slice" "$TOP/tests/programs/check_py_steps.py" \
				"$TMP/steps.json" "$TMP/steps.out" --slices py_steps.py:Module.call
			;;
		*)
			spans "$version" modules -- "$PYTHON" "$P"
			spans "$version" modules_of_threads -- "$PYTHON" "$P"
			[ "$version" = 3.10 ] || spans "$version" cells -- "$PYTHON" "$P"
			;;
		esac
	done < <(python_versions)
}

test_spans_next_release() {
	local root version case
	root=$(python_next 2>&1) || {
		skip "slices, next release" "$root"
		return
	}
	for version in 3.13 3.14; do
		links "next $version" "$TOP/tests/engines/in_root" "$root" "$TOP/tests/programs" "/usr/bin/python$version" /mnt/py_steps.py
		for case in modules cells; do
			spans "next $version" $case -- "$TOP/tests/engines/in_root" "$root" "$TOP/tests/programs" "/usr/bin/python$version" /mnt/py_steps.py
		done
	done
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

test_versions() {
	local version case name=py_steps.py:Model PYTHON=$PYTHON cases=("generate step" "failing fails")
	[ -z "${TEST_ALL:-}" ] || cases+=("recursing recursive" "called_by_c step" "threads step")
	[ "$(python_versions | wc -l)" -gt 1 ] || skip "other versions" "there is one interpreter only"
	while read -r version PYTHON; do
		for case in "${cases[@]}"; do
			recorded_of "$version" "${case% *}" "$name.${case#* }"
		done
		case $version in
		3.8 | 3.9 | 3.10)
			recorded_of "$version" resuming "$name.tokens"
			check "$version: a class without a file is recorded" stepped --py-step Model.step -- "$PYTHON" "$P" generate 1
			check "$version: ... and refused" grep -q 'not in .*write FILE:NAME' "$TMP/steps.err"
			;;
		esac
	done < <(python_versions)
}

# recorded_of VERSION CASE NAME
recorded_of() {
	check "$1, $2: is recorded" stepped --strict --py-step "$3" -- "$PYTHON" "$P" "$2" "$CALLS"
	check "$1, $2: each call is a step" "$TOP/tests/programs/check_py_steps.py" "$TMP/steps.json" "$TMP/steps.out" "$3"
}

# Those of Debian's next release.
test_next_release() {
	local root version case name=py_steps.py:Model
	root=$(python_next 2>&1) || {
		skip "next release" "$root"
		return
	}
	for version in 3.13 3.14; do
		for case in "generate step" "failing fails" "recursing recursive" "called_by_c step" "threads step"; do
			check "next $version, ${case% *}: is recorded" stepped --strict --py-step "$name.${case#* }" -- \
				"$TOP/tests/engines/in_root" "$root" "$TOP/tests/programs" "/usr/bin/python$version" /mnt/py_steps.py "${case% *}" "$CALLS"
			check "next $version, ${case% *}: each call is a step" "$TOP/tests/programs/check_py_steps.py" \
				"$TMP/steps.json" "$TMP/steps.out" "$name.${case#* }"
		done
	done
}

# Once a function was seen for a while, its calls are watched instead of all functions' being probed: the same, on both sides of that and
# across it.
test_watched() {
	local version case name=py_steps.py:Model PYTHON=$PYTHON cases=("generate step" "failing fails" "forking step" "execing step" "threads step") n late
	watchpoints_here watched || return 0
	[ -z "${TEST_ALL:-}" ] || cases+=("recursing recursive" "called_by_c step")
	while read -r version PYTHON; do
		case $version in
		3.8 | 3.9 | 3.10) continue ;; # each function is a call of the interpreter
		esac
		for case in "${cases[@]}"; do
			n=1000
			[ "${case% *}" != threads ] || n=4000 # four of them
			[ "${case% *}" != forking ] || n=2400 # on a busy machine the child begins before it is watched
			check "$version, ${case% *}, watched: is recorded" stepped -v --strict --py-step "$name.${case#* }" -- \
				"$PYTHON" "$P" "${case% *}" "$n" 0.003
			late=$(sed -n 's/.* got their function probes up to \([0-9.]*\) ms after .*/\1/p' "$TMP/steps.err")
			check "$version, ${case% *}, watched: each call is a step" "$TOP/tests/programs/check_py_steps.py" "$TMP/steps.json" "$TMP/steps.out" \
				"$name.${case#* }" ${late:+"$late"}
			check "$version, ${case% *}, watched: watchpoints have taken over" grep -q 'its Python functions are watched' "$TMP/steps.err"
			check "$version, ${case% *}, watched: none was missed" test -z "$(grep 'watchpoints .* were missed' "$TMP/steps.err")"
			expect "$version, ${case% *}, watched: later steps say so, in each thread" \
				"all(e['args'].get('watched') for e in {e['tid']: e for e in t if e.get('cat') == 'step'}.values())" t="$TMP/steps.json"
		done
	done < <(python_versions)
}

# Their arguments, too.
test_values_watched() {
	local version PYTHON=$PYTHON
	watchpoints_here "arguments, watched" || return 0
	while read -r version PYTHON; do
		case $version in
		3.8 | 3.9 | 3.10) continue ;;
		esac
		values_recorded "$version, arguments, watched" "${ARGUMENTS[0]}" values -v -- "$PYTHON" "$V" values 3 1000 "${ARGUMENTS[0]}" 0.003
		check "$version, arguments, watched: watchpoints have taken over" grep -q 'its Python functions are watched' "$TMP/steps.err"
	done < <(python_versions)
}

# Not functions of which there may be others of the same name.
test_not_watched() {
	local name
	watchpoints_here not_watched || return 0
	for name in Model.step "py_steps.py:Model.step|py_steps.py:twin"; do
		check "$name: is recorded" stepped -v --strict --py-step "$name" -- "$PYTHON" "$P" generate 600 0.003
		check "$name: each call is a step" "$TOP/tests/programs/check_py_steps.py" "$TMP/steps.json" "$TMP/steps.out" "$name"
		same "$name: is not watched" "$(grep -c 'its Python functions are watched' "$TMP/steps.err")" 0
		check "$name: -v says why" grep -q 'have probes only: this takes one FILE:NAME' "$TMP/steps.err"
	done
}

V=$TOP/tests/programs/py_values.py
ARGUMENTS=("n_tokens=len(ids), past=past is None, deep=req.meta['deep'][1][-1], neg=self.neg, has=key is not None, name=str(req.name), big=req.big"
	"kw=key, seen=len(self.seen), items=len(req.queue), other=req.meta[\"list\"][0], many=req.n >= 3, none=self.nothing, inner=req.cfg.n"
	"a=req.n == -70000, b=req.n != 7, c=req.n < 255, d=req.n <= 255, e=req.n > 0, f=len(ids.kept?), more=req.meta['more']['a']")

# values_recorded TEXT ARGUMENTS values|requests|junk OPTION... -- COMMAND...: py_values.py, by the command; junk is not compared
values_recorded() {
	local text=$1 arguments=$2 what=$3
	args_split "${@:4}"
	check "$text: is recorded" stepped --strict --py-step "py_values.py:Model.forward($arguments)" "${BEFORE[@]}" -- "${BEHIND[@]}"
	case $what in
	values) check "$text: what Python finds" "$TOP/tests/programs/check_py_values.py" values "$TMP/steps.json" "$TMP/steps.out" ;;
	requests) check "$text: their tokens and times" "$TOP/tests/programs/check_py_values.py" requests "$TMP/steps.jsonl" "$TMP/steps.out" ;;
	esac
}

values_of() { # VERSION COMMAND...
	local i
	for ((i = 0; i < ${#ARGUMENTS[@]}; i++)); do
		values_recorded "$1, arguments $i" "${ARGUMENTS[i]}" values -- "${@:2}" values "$i" "$(often 100 1000)" "${ARGUMENTS[i]}"
	done
	values_recorded "$1, requests" "n_tokens=len(ids), request=req.rid" requests --profile "$TMP/steps.jsonl" -- "${@:2}" requests 1 30
	check "$1, requests: valid" "$INFTRACE" validate --require request_prof "$TMP/steps.jsonl"
}

# Arguments of a step: what Python finds, and nothing else.
test_values() {
	local version PYTHON=$PYTHON
	while read -r version PYTHON; do
		case $version in
		3.8 | 3.9)
			check "$version, arguments: is recorded" stepped --py-step "py_values.py:Model.forward(n=len(ids))" -- "$PYTHON" "$V" junk 1 1
			check "$version, arguments: ... and refused" grep -q 'not in .*CPython 3.10 to 3.14 only' "$TMP/steps.err"
			;;
		*) values_of "$version" "$PYTHON" "$V" ;;
		esac
	done < <(python_versions)
}

test_values_next_release() {
	local root version
	root=$(python_next 2>&1) || {
		skip "arguments, next release" "$root"
		return
	}
	for version in 3.13 3.14; do
		values_of "next $version" "$TOP/tests/engines/in_root" "$root" "$TOP/tests/programs" "/usr/bin/python$version" /mnt/py_values.py
	done
}

# Without ids, a prompt begins a request.
test_loops() {
	local arguments
	for arguments in "n_tokens=len(ids)" "prefill=past is None"; do
		rm -f "$TMP/loop.jsonl"
		check "loop, $arguments: is recorded" stepped --strict --py-step "py_steps.py:forward($arguments)" --profile "$TMP/loop.jsonl" -- \
			"$PYTHON" "$P" loop "$CALLS"
		expect "loop, $arguments: a request of six tokens for each prompt" \
			"[(r['shape']['output_tokens'], r['stage_us']['ttft'] > 0) for r in p if r['event'] == 'request_prof'] == [(6, True)] * 10" p="$TMP/loop.jsonl"
	done
}

# A request whose prompt was before the window has none, and no time to its first token.
# Two options of one thread, which look for different attributes of one object.
test_values_of_two() {
	cat >"$TMP/two.py" <<-END
		class Two:
		    def __init__(self):
		        self.one, self.two = 1, 2


		def first(x):
		    sum(range(100))


		def second(x):
		    sum(range(100))


		x = Two()
		print("ready", flush=True)
		input()
		for _ in range(50):
		    first(x)
		    second(x)
	END
	check "two options: are recorded" stepped --strict --py-step 'two.py:first(n=x.one)' --py-step 'two.py:second(n=x.two)' -- \
		"$PYTHON" "$TMP/two.py"
	same "two options: each has its own attribute" \
		"$(json 'sorted({(e["name"], e["args"]["n"]) for e in t if e.get("cat") == "step"})' t="$TMP/steps.json")" '[["two.py:first", 1], ["two.py:second", 2]]'
}

test_values_windows() {
	rm -rf "$TMP"/steps.* "$TMP/windows"
	mkdir "$TMP/windows"
	check "windows: are recorded" engine_recorded steps --engine none --strict --window every=300ms,for=100ms --output-dir "$TMP/windows" \
		--py-step "py_values.py:Model.forward(n_tokens=len(ids), request=req.rid)" -- "$PYTHON" "$V" requests 2 600
	check "windows: each request has its prompt, or began before" "$TOP/tests/programs/check_py_values.py" windows "$TMP/steps.out" "$TMP"/windows/*.jsonl
}

# What no program should have: the steps are there, and the recorder does not mind.
test_values_junk() {
	values_recorded junk "${ARGUMENTS[0]}" junk -- "$PYTHON" "$V" junk "$RANDOM" "$(often 300 5000)"
	same "junk: each call is a step" "$(steps)" "$(often 300 5000)"
	values_recorded "junk ids" "n_tokens=len(ids), request=req.name" junk -- "$PYTHON" "$V" junk "$RANDOM" "$(often 300 5000)"
	same "junk ids: each call is a step" "$(steps)" "$(often 300 5000)"
	check "junk: valid" "$INFTRACE" validate "$TMP/steps.json"
}

test_torch() {
	if ! "$PYTHON" -c 'import torch' 2>/dev/null; then
		skip "torch" "python3-torch is not installed"
		return
	fi
	recorded torch "py_steps.py:torch.<locals>.Net.forward"
	values_recorded "tensors" "$TENSORS" values -- "$PYTHON" "$V" tensors 1 200 "$TENSORS"
	modules torch "$PYTHON" "$P"
}

# modules TEXT COMMAND...: PyTorch's own ones, called as their classes; in profiles they are operators.
modules() {
	local module='torch/nn/modules/module.py:Module._call_impl(name=type(self))'
	check "$1, modules: are recorded" stepped --strict --py-span "$module" -- "${@:2}" torch "$CALLS"
	expect "$1, modules: each Linear is within a Net" "(lambda nets, layers: len(nets) == len(layers) == $CALLS and
		all(n['ts'] <= l['ts'] and l['ts'] + l['dur'] <= n['ts'] + n['dur'] for n, l in zip(nets, layers)))(
		*([e for e in t if e.get('cat') == 'other' and e['name'] == i] for i in ('Net', 'Linear')))" t="$TMP/steps.json"
	check "$1, modules: are operators" stepped --strict --py-span "$module@op" --profile "$TMP/steps.jsonl" -- "${@:2}" torch "$CALLS"
	expect "$1, modules: and counted as such" "[(s['n_Net'], s['n_Linear']) for s in (e['shape'] for e in p if e['event'] == 'op_prof')] == [($CALLS, $CALLS)]" \
		p="$TMP/steps.jsonl"
}

TENSORS="n_tokens=len(ids), first=ids.shape[0], last=ids.shape[-1], fourth=ids.shape[3], inner=len(req.meta['deep'][1][-1]), rows=len(req.array), columns=req.array.shape[1]"

# PyTorch's next release keeps tensors in another way.
test_torch_next_release() {
	local root
	if [ ! -d "$ENGINES/next-torch" ] && [ ! "$(often '' all)" ]; then
		skip "tensors, next release" "with --all only: 245 MB are to be fetched"
		return
	fi
	root=$(torch_next 2>&1) || {
		skip "tensors, next release" "$root"
		return
	}
	values_recorded "tensors, next release" "$TENSORS" values -- \
		"$TOP/tests/engines/in_root" "$root" "$TOP/tests/programs" python3 /mnt/py_values.py tensors 1 200 "$TENSORS"
	modules "torch, next release" "$TOP/tests/engines/in_root" "$root" "$TOP/tests/programs" python3 /mnt/py_steps.py
}

test_refused() {
	local name
	for name in "" "a..b" "a." ".a" "f.py:" ":f" "é" "a b" "$(printf 'x%.0s' {1..64})" a.b.c.d.e.f.g.h.i.j; do
		check_rc "--py-step '$name' is refused" 2 "--py-step .*write MODULE" \
			"$INFTRACE" record --py-step "$name" -o "$TMP/refused.json" -- true
	done
	for name in "(" "()" "(a)" "(a=)" "(=b)" "(a=b" "(a=b,)" "(a=b,a=c)" "(step=b)" "(a=b.)" "(a=b[)" "(a=b['x)" "(a=b[x])" "(a=b()" "(a=len(b)" "(a=b?)" \
		"(a=len(b) is None)" "(a=str(b) == 1)" "(a=b ==)" "(a=b == c)" "(a=b <= 9223372036854775807)" "(a=1)" "(a=b.c.d.e.f.g.h)" "(a=b[99999999999])" "(request=a)" \
		"(n_tokens=a,request=len(a))" "(n_tokens=a,request=b,request=c)" "(a=a,b=b,c=c,d=d,e=e,f=f,g=g,h=h)" "(a=str(a),b=str(b),c=str(c))" \
		"(n_tokens=a,b=b,c=c,d=d,e=e,request=r)"; do
		check_rc "--py-step 'f$name' is refused" 2 "--py-step .*write MODULE" \
			"$INFTRACE" record --py-step "f$name" -o "$TMP/refused.json" -- true
	done
}

test_spans_refused() {
	local name
	for name in "" "a..b" "f(" "f(request=a)" "f(name=a)" "f(a=type(b) == 1)" "f(a=b)@step" "f(a=b)@"; do
		check_rc "--py-span '$name' is refused" 2 "--py-span .*write MODULE" "$INFTRACE" record --py-span "$name" -o "$TMP/refused.json" -- true
	done
	check_rc "--py-span without a trace is refused" 2 '--py-span f: without a trace, .*@op' "$INFTRACE" record --py-span 'f(a=b)' --profile "$TMP/refused.jsonl" -- true
}

# What makes the steps cannot be left out: it is said what stays when all else is off.
test_budget() {
	if [ "$(readlink /proc/self/ns/pid)" != "pid:[4026531836]" ]; then
		skip "budget" "no weight is told in a pid namespace"
		return
	fi
	rm -f "$TMP"/steps.*
	engine_started steps --engine none --budget 0.001% --py-step Model.step --profile "$TMP/steps.jsonl" -- "$PYTHON" "$P" generate 100000
	wait_until 60 grep -q 'nothing is left to turn off: --py-step' "$TMP/steps.err"
	check "budget: says that --py-step stays" grep -q 'nothing is left to turn off: --py-step' "$TMP/steps.err"
	kill "$ENGINE"
	wait "$TRACER"
}

run_tests "$@"
