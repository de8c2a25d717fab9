#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Known causes of slow steps, planted into real llama.cpp, are named in the report. The short version:
# tests/plant/run without arguments is the whole one.

. "$(dirname "$0")/../lib.sh"
need python3
need_llama

causes=(hog hog-worker quota stop evict drop mutex pipe socket sleep fsync storm fork debugger softirq)
# Some thirty plants, or sixty, of which one in ten may not be recognised because of other load on the machine: then more are planted.
for _ in 1 2 3; do
	rc=0
	PLANT_TARGET=0.9 ENGINES=$ENGINES BUILD=$BUILD "$TOP/tests/plant/run" -v -n "$(often 1 2)" "${causes[@]}" >"$TMP/table" 2>"$TMP/err" || rc=$?
	[ "$rc" -eq 1 ] || break
done
grep '^skip ' "$TMP/table" || true
grep -v '^skip ' "$TMP/table" | sed 's/^/# /'
name="planted causes are named, nothing else is"
case $rc in
0 | 3) ok "$name: $(awk '/^all / { print "precision " $(NF - 2) ", recall " $(NF - 1) }' "$TMP/table")" ;;
*) not_ok "$name" "$(tail -n 1 "$TMP/err" | grep . || tail -n 1 "$TMP/table")" ;;
esac
