#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# There is no return probe where it would end the target: in Go functions, and in processes with a
# shadow stack on kernels that do not keep it in step. And what two probes of one call see of its return.

. "$(dirname "$0")/../lib.sh"

setup() {
	need cc python3
	# What identifies Go code, made by hand: the section, and the two symbols around it.
	cat >"$TMP/like_go.c" <<'C'
#include <stdio.h>

int c_work(int n), go_work(int n) __asm__("main.work");

__asm__(".pushsection .go.buildinfo, \"aw\"\n.ascii \"\\377 Go buildinf:\"\n.popsection\n"
	".text\n.type runtime.text, @function\nruntime.text: nop\n");
int __attribute__((noinline)) go_work(int n)
{
	__asm__("" : "+r"(n));
	return n + 1;
}
__asm__(".text\n.type runtime.etext, @function\nruntime.etext: nop\n");
int __attribute__((noinline)) c_work(int n)
{
	__asm__("" : "+r"(n));
	return n + 2;
}

int main(void)
{
	int n = 0;

	getchar();
	for (int i = 0; i < 100; i++)
		n += go_work(i) + c_work(i);
	return n == 0;
}
C
	cc -O1 -fno-toplevel-reorder "$TMP/like_go.c" -o "$TMP/like_go"
	cat >"$TMP/like_go.json" <<'JSON'
{
  "name": "like_go", "match": { "mapped": ["like_go"] },
  "probes": [{ "instant": "main.work", "role": "op" }, { "symbol": "c_work", "role": "graph" }]
}
JSON
}

test_like_go() {
	check "functions named as Go's: the program runs" line_recorded "$TMP/like_go" --engine "$TMP/like_go.json" \
		-u like_go:main.work@sample
	expect "one has no return probe" \
		'[len([e for e in t if e.get("cat") == c]) for c in ("op", "graph", "sample")] == [100, 100, 0]' t="$TMP/t.json"
	same "a line says so" "$(grep -c 'warning: main.work in .* is a Go function' "$TMP/t.err")" 1
	check_rc "inftrace engines says so" 0 'warning: main.work in .* is a Go function' "$INFTRACE" engines \
		-e <(sed 's/"instant"/"symbol"/' "$TMP/like_go.json") "$TMP/like_go"
}

# A slice of the function that is the step lies within it.
test_step_too() {
	check "a step and a slice of one call: recorded" line_recorded "$TMP/like_go" --engine none -u "like_go:c_work@step" -u "like_go:c_work@graph"
	expect "the slice is within the step" "(lambda steps, slices: len(steps) == len(slices) == 100 and
		all(s['ts'] <= g['ts'] and g['ts'] + g['dur'] <= s['ts'] + s['dur'] + 1e-6 for s, g in zip(steps, slices)))(
		*(sorted((e for e in t if e.get('cat') == i), key=lambda e: e['ts']) for i in ('step', 'graph')))" t="$TMP/t.json"
}

# A process that says it has a shadow stack.
bound() { # PID TEXT: what stands in its /proc/PID/status, in this mount namespace
	sed "s/^Threads:/$2&/" "/proc/$1/status" >"$TMP/status"
	mount --bind "$TMP/status" "/proc/$1/status"
}
shadowed() { # RECORD-OPTION...
	local target rc=0
	fed target "$TMP/like_go"
	export -f bound
	export TMP
	background unshare -m bash -c 'pid=$1; shift; bound "$pid" "x86_Thread_features:\tshstk wrss\n" && exec "$@"' \
		- "$target" "$INFTRACE" record --strict -e functions -o "$TMP/t.json" "$@" -p "$target" 2>"$TMP/t.err"
	wait_until 60 grep -qE 'recording|cannot|denied' "$TMP/t.err" || rc=1
	echo >&9
	exec 9>&-
	wait "$target" && wait "$BG" || rc=1
	return $rc
}

test_shadow_stack() {
	if ! unshare -m mount --bind "$TMP/like_go.c" /proc/self/status 2>/dev/null; then
		skip "shadow stack" "/proc/PID/status cannot be covered"
		return
	fi
	check "a shadow stack: recorded" shadowed --engine "$TMP/like_go.json" -u "$TMP/like_go:c_work@sample"
	if bpftool btf dump file /sys/kernel/btf/vmlinux | grep -q "FUNC 'shstk_update_last_frame'"; then
		returns=100 warnings=0
	else
		returns=0 warnings=1
	fi
	expect "a shadow stack: returns where the kernel can" \
		'[len([e for e in t if e.get("cat") == c]) for c in ("op", "graph")] == [100, '$returns']' t="$TMP/t.json"
	same "a shadow stack: a line says so" "$(grep -c 'warning: .* functions left out: a target has a shadow stack' "$TMP/t.err")" \
		"$warnings"
}

run_tests "$@"
