#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# -o x.pftrace against the Chrome JSON of the same recording, read with a decoder that knows nothing of
# inftrace's encoder, and with protoc.

. "$(dirname "$0")/../lib.sh"
need python3 protoc
READER=$TOP/tests/tools/pftrace.py

# both NAME RECORD-OPTION... -- COMMAND...
both() {
	check "$1: records" timeout 120 "$INFTRACE" record --strict -o "$TMP/$1.pftrace" \
		-o "$TMP/$1.json" -o "$TMP/$1.pftrace.gz" "${@:2}"
	[ -s "$TMP/$1.pftrace" ] || return 0
	check_shown "$1: as the JSON has it" "$READER" compare "$TMP/$1.pftrace" "$TMP/$1.json"
	check "$1: packed, too" "$READER" compare "$TMP/$1.pftrace.gz" "$TMP/$1.json"
	protoc --decode_raw <"$TMP/$1.pftrace" >"$TMP/$1.text" || true
	check "$1: protoc reads every packet" "$READER" protoc "$TMP/$1.pftrace" "$TMP/$1.text"
	check "$1: cut at 50 places" "$READER" cuts "$TMP/$1.pftrace" 50 1
}

MINI=$(mini_engine)
both mini -e +irq,+memory -- "$MINI" -n 16
both mini-cpu -e +cpu -- "$MINI" -n 16
. "$TOP/tests/programs/programs.sh"
both ipc -e +cpu -- "$PROGRAMS/ipc"

name=killed
recording BG "$name" -a -e +cpu --engine none -o "$TMP/$name.pftrace"
sleep 1
kill -9 "$BG"
wait "$BG" || true
check "$name: its whole packets can be read" "$READER" loads "$TMP/$name.pftrace"

name=lost
"$INFTRACE" record --ring-size 4K -e +irq --engine none -o "$TMP/$name.pftrace" -- \
	dd if=/dev/zero of=/dev/null bs=1 count=500000 2>"$TMP/$name.err"
n=$(sed -n 's/.*warning: lost \(.*\): a larger.*/\1/p' "$TMP/$name.err" | grep -oE '[0-9]+' |
	awk '{ n += $1 } END { print n + 0 }')
check_shown "$name: marks, and names anew behind them" "$READER" lost "$TMP/$name.pftrace" "${n:-0}"

check_rc "an unknown suffix" 2 "must end in .json, .json.gz, .pftrace, .pftrace.gz or .et" \
	"$INFTRACE" record -o "$TMP/x.perfetto" -- true

need_llama
both llama -e +memory --op-detail -- "$DRIVER" -n 8 -t 2 "${MODEL_ARGS[@]}"
