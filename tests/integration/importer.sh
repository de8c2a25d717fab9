#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# How chrome://tracing shows calls that are shorter than the microseconds by which it nests, according to
# its own importer and to inftrace validate. Needs no root.

. "$(dirname "$0")/../lib.sh"
need node

run_logged "$TMP/make.log" "cannot build the unit tests" make -C "$TOP" O="$BUILD" "$BUILD/tests/test_chrome_waits"
check "fast calls: written by the sink" env -C "$TOP" KEEP="$TMP/fast.json" "$BUILD/tests/test_chrome_waits"
"$INFTRACE" validate "$TMP/fast.json" >"$TMP/valid"
note=$(grep -o '[0-9]* arrows that chrome://tracing leaves out' "$TMP/valid" || true)

rc=0
node "$TOP/tests/tools/check_chrome_trace.mjs" --brief "$TMP/fast.json" >"$TMP/importer" 2>&1 || rc=$?
if [ "$rc" -eq 2 ]; then
	skip "fast calls: importer" "$(cat "$TMP/importer")"
	exit 0
fi
same "fast calls: the importer warns of nothing else" "$rc" 0
expect "fast calls: it drops what the rule says" \
	'i["flows"] + i["arrows_rounded"] == i["phases"]["s"] and 0 < i["arrows_rounded"]' i=last:"$TMP/importer"
same "fast calls: inftrace validate knows as many" "${note%% *}" \
	"$(json 'i["arrows_rounded"]' i=last:"$TMP/importer")"

# An arrow outside of every slice must not be dropped silently.
sed -e 's/,"ts":20.000,"dur":[0-9.]*,/,"ts":20.000,"dur":0.001,/' "$TMP/fast.json" >"$TMP/outside.json"
rc=0
node "$TOP/tests/tools/check_chrome_trace.mjs" --brief "$TMP/outside.json" >/dev/null 2>&1 || rc=$?
same "an arrow outside of every slice: the importer's check fails" "$rc" 3
check_rc "an arrow outside of every slice: inftrace validate refuses it" 1 'outside of every slice' \
	"$INFTRACE" validate "$TMP/outside.json"
