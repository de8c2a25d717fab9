#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The preset llama.cpp on builds of the bundled engine whose tensors have a different layout: what
# does not fit is left out with a warning, the rest stays.

. "$(dirname "$0")/../lib.sh"
need cc make python3

# build NAME SED-SCRIPT: the bundled engine, its ggml.h changed so
build() {
	mkdir -p "$TMP/$1"
	cp -r "$TOP"/tests/engines/{Makefile,*.c,*.h,mini} "$TMP/$1/"
	cp "$TOP/tests/program.h" "$TMP/"
	sed -i -e '/^_Static_assert(.*ggml_tensor/d' -e "$2" "$TMP/$1/mini/ggml.h"
	run_logged "$TMP/$1/log" "cannot build the engine $1" make -C "$TMP/$1" O="$TMP/$1/out"
}

# record NAME RECORD-OPTION...: the engine says "ready" and then waits for a line of input
record() {
	engine_recorded "$1" --strict -e functions --engine llama.cpp -o "$TMP/$1.json" --profile "$TMP/$1.jsonl" "${@:2}" \
		-- "$TMP/${1%-*}/out/mini/mini_engine" -w -q -n 8 -t 1
}

# warnings NAME: about presets that do not fit
warnings() {
	sed -n 's/^inftrace: warning: the preset //p' "$TMP/$1.err"
}

ops='[e for e in t if e.get("cat") == "op"]'
build same ''
build moved 's/^\tvoid \*buffer;/&\n\tlong more[3];/' # all behind the type
build swapped 's/^\tint32_t op;//; s/^\tint32_t op_params\[16\];/&\n\tint32_t op;/' # op_params where op was

for name in same-plain same-detail; do
	option=()
	[ $name = same-plain ] || option=(--op-detail)
	check "$name: recorded" record $name "${option[@]}"
	same "$name: no warning" "$(warnings $name)" ""
	expect "$name: each operator has its name" \
		"len($ops) == c['ops'] and {e['name'] for e in $ops} == {'add', 'rms_norm', 'mul_mat', 'get_rows', \
			'set_rows', 'rope', 'flash_attn_ext', 'glu'}" t="$TMP/$name.json" c=last:"$TMP/$name.out"
done

for name in moved-plain moved-detail swapped-plain swapped-detail; do
	option=()
	[ "${name#*-}" = plain ] || option=(--op-detail)
	check "$name: recorded" record $name "${option[@]}"
	same "$name: one warning" "$(warnings $name | sed 's/ is .*; left out/; left out/')" \
		"llama.cpp does not fit this engine: ggml_cpu_extra_compute_forward: op; left out: $(
			[ "${name#*-}" = plain ] && echo op || echo op, tensor, type, ne0, ne1, ne2, ne3, src0_ne0, src0_type
		) (give one that fits with --engine FILE: docs/engines.md)"
	expect "$name: nothing read through the pointer is shown" \
		"[[e['name'], e['args']] for e in $ops] == [['ggml_cpu_extra_compute_forward', {}]] * c['ops']" \
		t="$TMP/$name.json" c=last:"$TMP/$name.out"
	expect "$name: the steps fit" '[[e["name"], e["args"]["n_tokens"]] for e in sorted(t, key=lambda e: e.get("ts", 0)) if e.get("cat") == "step"] == [
		["decode" if n == 1 else "prefill", n] for n in c["step_n_tokens"]]' \
		t="$TMP/$name.json" c=last:"$TMP/$name.out"
	values=$([ "${name#*-}" = plain ] && echo 1 || echo 9)
	same "$name: the values left out are counted" \
		"$(sed -n 's/^inftrace: ggml_cpu_extra_compute_forward: \([0-9]*\) values left out.*/\1/p' "$TMP/$name.err")" \
		"$(json "c['ops'] * $values" c=last:"$TMP/$name.out")"
done
