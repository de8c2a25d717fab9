#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A glob that matches more functions than there is room for: what fits is probed, the rest counted.

. "$(dirname "$0")/../lib.sh"
need cc python3

n=4200 room=4096
for ((i = 0; i < n; i++)); do
	echo "void full_$i(void); void __attribute__((noinline)) full_$i(void) { asm volatile(\"nop; nop\"); }"
done >"$TMP/lib.c"
{
	echo '#include <stdio.h>'
	sed 's/; void .*/;/' "$TMP/lib.c"
	echo 'int main(void) { getchar();'
	for ((i = 0; i < n; i++)); do echo "full_$i();"; done
	echo '}'
} >"$TMP/main.c"
cc -O1 -fPIC -shared "$TMP/lib.c" -o "$TMP/libfull.so"
cc -O0 "$TMP/main.c" -o "$TMP/main" -L"$TMP" -lfull "-Wl,-rpath,$TMP"
cat >"$TMP/full.json" <<'JSON'
{
  "name": "full", "match": { "mapped": ["libfull.so"] },
  "probes": [{ "instant": "full_*", "role": "op" }]
}
JSON
left=$((n - (room - 1))) # the glob itself takes one

check_rc "engines says how many" 0 "^left out: $left functions" \
	"$INFTRACE" engines -e "$TMP/full.json" "$TMP/libfull.so"

# without uprobe_multi (before kernel 6.6) a file with that many is refused
"$INFTRACE" doctor | grep -q '^ok *uprobe_multi ' || skip_all "needs uprobe_multi"
check "recorded" line_recorded "$TMP/main" --engine "$TMP/full.json"
same "a warning says how many" "$(sed -n 's/^inftrace: warning: [^ ]*: \([0-9]*\) functions left out.*/\1/p' "$TMP/t.err")" "$left"
expect "all that fit are probed" 'len({e["name"] for e in t if e.get("cat") == "op"}) == '"$((room - 1))" t="$TMP/t.json"
