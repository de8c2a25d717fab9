#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Virtual functions of a file without symbols, found by the type information that C++ keeps: each call is there.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"
need strip python3
strip -o "$TMP/virtual" "$PROGRAMS/virtual"

# calls FUNCTION EXPRESSION: how often the program c calls it, by its own count
calls() {
	check "$1: recorded" "$INFTRACE" record --strict --engine none -e functions -o "$TMP/t.json" -u "$TMP/virtual:$1@op" -- \
		sh -c '"$0" >"$1"' "$TMP/virtual" "$TMP/counts"
	expect "$1: each call" 'sum(e.get("cat") == "op" for e in t) == '"$2" t="$TMP/t.json" c=last:"$TMP/counts"
}

calls '_ZTVN6engine4KernE[2]' 'c["base_run"]'
calls '_ZTVN6engine4KernE[3]' 'c["base_stop"]'
calls '_ZTV4Kern[3]' 'c["stop"]'
calls '_ZTV4Kern[4]' 'c["more"]'
# no such class; no such function of it, in the program and in an array; no function; no path
for name in '_ZTV4Nern[2]' '_ZTV4Kern[9]' '_ZTV4Kern[9999999999]' '_ZTV4Kern[1]' '_ZTV4Kern[2' '_ZTV4Kern[2]x' '_ZTV' '_ZTV4Kern'; do
	"$INFTRACE" record --strict --engine none -o "$TMP/none.json" -u "$TMP/virtual:$name@op" -- "$TMP/virtual" >"$TMP/said" 2>&1 || true
	check "$name: said" grep -qF -e "$name: no file that the targets mapped has this function" -e "has no function $name;" "$TMP/said"
done
