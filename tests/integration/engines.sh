#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The engines that other tests compare with: their counts must hold by themselves.

. "$(dirname "$0")/../lib.sh"

# check_counts NAME LOG STAGES: of a run with -n 8 -r 2
check_counts() {
	expect "$1: steps" 'c["steps"] == 18 == len(c["step_ns"])' c=last:"$2"
	expect "$1: tokens" 'c["n_tokens"] == sum(c["step_n_tokens"]) == c["prompt_tokens"] + 16' \
		c=last:"$2"
	expect "$1: CPU time within wall time" \
		'all(0 < cpu <= wall * 1.001 + 1000 for cpu, wall in zip(c["step_cpu_ns"], c["step_ns"]))' \
		c=last:"$2"
	expect "$1: stages" \
		'[s["dur_ns"] for s in s if s["stage"] == "decode"] == c["step_ns"]' s="$3" c=last:"$2"
}

mini=$(mini_engine)
check "mini: runs" "$mini" -n 8 -r 2 -t 2 -S "$TMP/stages"
cp "$TMP/check.out" "$TMP/mini.log"
check_counts mini "$TMP/mini.log" "$TMP/stages"
# 3 nodes and 17 for each of 4 layers, in 18 steps, on 2 threads
expect "mini: operators" 'c["ops"] == c["barriers"] == 71 * 18 * 2' c=last:"$TMP/mini.log"
"$mini" -n 20 -t 1 | sed -n 2p >"$TMP/text1"
"$mini" -n 20 -t 2 | sed -n 2p >"$TMP/text2"
same "mini: the same text with 1 and 2 threads" "$(cat "$TMP/text2")" "$(cat "$TMP/text1")"
check_rc "mini: malformed number" 2 'mini_engine: -n 1x: give a number' "$mini" -n 1x
check_rc "mini: no arguments taken" 2 'wrong arguments' "$mini" model.gguf

# tree DIRECTORY: one that in_root takes, with this system's programs
tree() {
	mkdir -p "$1"/{usr,proc,sys,dev,mnt,tmp} && ln -s usr/{bin,lib,lib64} "$1" && mount --bind /usr "$1/usr"
}

# in_root within a tree that is a mere directory, of mounts that are shared: none of its own is seen outside.
in_chroot() {
	mount --make-rshared / && tree "$TMP/tree" && tree "$TMP/tree/tmp/inner" && mount --bind /proc "$TMP/tree/proc" &&
		cp "$TOP/tests/engines/in_root" "$TMP/tree/tmp/" && cp "/proc/$$/mountinfo" "$TMP/tree/tmp/before" &&
		chroot "$TMP/tree" /tmp/in_root /tmp/inner /tmp cmp "/proc/$$/mountinfo" /mnt/before
}

if [ "$(id -u)" -eq 0 ]; then
	export -f in_chroot tree
	check "in_root: in a chroot that is no mount point" env TMP="$TMP" TOP="$TOP" unshare --mount bash -c in_chroot
else
	skip "in_root" "needs root"
fi

need_llama
check "llama: runs" "$DRIVER" -n 8 -r 2 -t 1 -S "$TMP/stages" "${MODEL_ARGS[@]}"
cp "$TMP/check.out" "$TMP/llama.log"
check_counts llama "$TMP/llama.log" "$TMP/stages"
check_rc "llama: no such folder" 1 'llama_driver: /nowhere: No such file' \
	"$DRIVER" /nowhere "${MODEL_ARGS[1]}"
check_rc "llama: not a model" 1 'cannot load this model' "$DRIVER" "${MODEL_ARGS[0]}" "$0"
