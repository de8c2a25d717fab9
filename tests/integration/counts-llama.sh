#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Real llama.cpp: steps, tokens, operators, barriers, faults, switches and CPU time, against what the
# engine's driver counts around each call, the engine's own graphs, and the calls that a preloaded library
# counts in the same run. How many barriers a token has depends on the CPU that the engine was built for.

. "$(dirname "$0")/../lib.sh"
need python3 node
need_llama
. "$TOP/tests/programs/programs.sh"

build_probed

# A pause before the first prompt: the probes are in place 10 ms after a library is mapped.
delay=(-d 3000)

# Sets COUNTED, the driver with the library that counts its calls, for a recording of that name.
counted() { # NAME
	COUNTED=(env LD_PRELOAD="$probed/count_calls.so" COUNT_CALLS="$TMP/$1.calls" "$DRIVER" -N "$TMP/$1.nodes")
}

# check_llama NAME: a recording against the driver's last line
check_llama() {
	check "$1: steps, n_tokens, operators, barriers, samples, faults and switches" \
		"$CHECK" llama "$TMP/$1.json" "$TMP/$1.jsonl" "$TMP/$1.out" "$TMP/$1.nodes"
	check "$1: the breakdown of each step, to the nanosecond, from its spans" \
		"$CHECK" breakdown "$TMP/$1.json" "$TMP/$1.jsonl"
}

# With two threads a step takes a hundred times longer as soon as the CPUs are busy.
for threads in 1 2; do
	tokens=$((threads == 1 ? 64 : 8))
	args=(-n "$tokens" -r 2 -t "$threads" -q)
	counted "command-$threads"
	record "command-$threads" -- "${COUNTED[@]}" "${args[@]}" "${delay[@]}" "${MODEL_ARGS[@]}" &&
		check_llama "command-$threads"
	counted "attached-$threads"
	record_attached "attached-$threads" -- "${COUNTED[@]}" "${args[@]}" -w "${MODEL_ARGS[@]}" &&
		check_llama "attached-$threads"
done

# another build of the CPU backend than the one that the engine chose: the plainest
variant=$(llama_variants 2>/dev/null | tail -n 1) || variant=
if [ "$variant" ]; then
	counted "other-cpu"
	record_attached "other-cpu" -- "${COUNTED[@]}" -n 8 -t 2 -P 50 -q -w "$(llama_variant_libs "$variant")" \
		"${MODEL_ARGS[1]}" && check_llama "other-cpu"
	json '"# other-cpu: " + c["cpu_backend"]' c=last:"$TMP/other-cpu.out"
else
	skip "other-cpu" "no build of the CPU backend can be chosen here"
fi

# Long steps, since the driver's clock reads and the probe lie outside of the compared stretch. The time
# that a hypervisor takes away is no CPU time, but looks the same: then (2) it is tried again.
check_cpu() { # NAME THREADS TOKENS
	local text="$1: time on the CPU within 1 % of the thread's clock" rc try
	for try in 1 2 3; do
		rc=0
		record "$1" -- "$DRIVER" -n "$3" -b 256 -r 4 -t "$2" -q "${delay[@]}" "${MODEL_ARGS[@]}" ||
			return 0
		"$CHECK" cpu "$TMP/$1.json" "$TMP/$1.jsonl" "$TMP/$1.out" >"$TMP/$1.log" || rc=$?
		sed 's/^/# /' "$TMP/$1.log"
		[ "$rc" -eq 2 ] || break
	done
	if [ "$rc" -eq 0 ]; then
		ok "$text"
	else
		not_ok "$text" "too $([ "$rc" -eq 2 ] && echo much || echo little), in try $try"
	fi
	check "$1: the breakdown of each step, to the nanosecond, from its spans" \
		"$CHECK" breakdown "$TMP/$1.json" "$TMP/$1.jsonl"
}

check_cpu cpu-1 1 8
check_cpu cpu-2 2 2

traces_check
