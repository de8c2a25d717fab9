#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --max-size and --max-files: each file opens by itself, and together they are the recording.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

# shellcheck disable=SC2016 # at the end
at_end eval 'umount -ql "$TMP"/disk.*'
ROTATED=$TOP/tests/tools/rotated.py
SIZE=1048576
run=("$INFTRACE" record --engine none -u "$TMP/storm:storm_step@step" --max-size 1MB)

need cc node python3
build storm

# A busy recording, whole through pipes, and split into files.
test_busy() {
	busy=$TMP/busy
	mkdir "$busy"
	mkfifo "$busy/whole.json" "$busy/whole.pftrace"
	cat "$busy/whole.json" >"$TMP/whole.json" &
	cats=($!)
	cat "$busy/whole.pftrace" >"$TMP/whole.pftrace" &
	cats+=($!)
	events=+cpu,+memory,+irq
	if libs=$(llama_libs 2>/dev/null); then
		engine=("$(llama_driver)" -n 2 -t 2 "$libs" "$(llama_model)")
		run_busy=("$INFTRACE" record -u "$TMP/storm:storm_step@step" --max-size 1MB)
	else
		engine=(true)
		run_busy=("${run[@]}")
	fi
	# shellcheck disable=SC2016
	check_shown "busy: recorded" timeout 100 "${run_busy[@]}" --strict --ring-size 64MB -e "$events" \
		-o "$busy/whole.json" -o "$busy/whole.pftrace" -o "$busy/t.json" -o "$busy/t.json.gz" -o "$busy/t.pftrace" \
		-o "$busy/t.pftrace.gz" --profile "$busy/t.jsonl" -- \
		bash -c '"$@" >"$0.2" & "$0" -w -t 3 -n 60 -s 400 -p 200 >"$0.1"; wait' "$TMP/storm" "${engine[@]}"
	cp "$TMP/check.out" "$TMP/said"
	wait "${cats[@]}"
	same "busy: pipes are not cut, and it says so once" \
		"$(grep -cE 'warning: --max-size: .*/whole\.(json|pftrace) is not a regular file' "$TMP/said")" 2
	for kind in json json.gz pftrace pftrace.gz; do
		mapfile -t files < <(printf '%s\n' "$busy/t.$kind" "$busy"/t.[0-9]*."$kind" | grep -vF '*')
		check_shown "busy: .$kind: together they are the recording" "$ROTATED" same "$TMP/whole.${kind%.gz}" "${files[@]}"
		# a whole .pftrace.gz is hardly larger than one file may be
		[ ${#files[@]} -gt 1 ] || [ "$kind" != pftrace.gz ] || continue
		check_shown "busy: .$kind: sizes" "$ROTATED" sizes "$SIZE" "${files[@]}"
	done
	check "busy: .json and .json.gz are valid" "$INFTRACE" validate "$busy"/t.*json "$busy"/t.*json.gz
	importer "busy: each opens in chrome://tracing" "$busy"/t.json "$busy"/t.[0-9]*.json "$busy"/t*.json.gz
	n=$(find "$busy" ! -type d -printf . | wc -c)
	same "busy: the summary names 20 files, and counts the others" \
		"$(sed -nE 's/.*wrote ([0-9]+) more.*/\1/p' "$TMP/said") $(grep -c ': wrote .*/' "$TMP/said")" \
		"$( ((n <= 20)) || echo $((n - 20))) $((n > 20 ? 20 : n))"
}

# names DIRECTORY: those of its files, sorted
names() {
	(cd "$1" && find . -type f -printf '%P\n' | sort | tr '\n' ' ')
}

# The newest files, and names that are taken.
test_newest() {
	few=$TMP/few
	mkdir "$few"
	# of earlier runs, or of unknown origin: none of these may change
	taken=(t.2.json t.7.json t.1.json t.x.json t.3.json.gz t.4.pftrace t.10000000.json t p.3.jsonl)
	for name in "${taken[@]}"; do
		echo "$name" >"$few/$name"
	done
	(cd "$few" && md5sum "${taken[@]}") >"$TMP/sums"
	yes '{"ph":"X"},' | head -c "$SIZE" >"$few/t.json" || true # is written anew
	printf '{"event":"former"}\n' >"$few/p.jsonl"     # is appended to
	# until there are three of each: none is begun while something waits to be written
	# shellcheck disable=SC2016
	check "newest: recorded" timeout 60 "${run[@]}" --strict --ring-size 64MB -e syscalls,functions --max-files 3 \
		-o "$few/t.json" --profile "$few/p.jsonl" -- sh -c '
			until "$0" -t 2 -n 8 -s 6000 -p 50 && [ "$(ls "$1" | grep -cE "^(t\.[0-9]*\.json|p\.[0-9]*\.jsonl)$")" -ge 11 ]; do
				:
			done' "$TMP/storm" "$few"
	cp "$TMP/check.out" "$TMP/said"
	wrote=$(sed -nE 's|.*: wrote .*/([^/]*) \(.*|\1|p' "$TMP/said")
	check "newest: what was there is there" env -C "$few" md5sum --quiet -c "$TMP/sums"
	same "newest: a profile that was there too" "$(head -n 1 "$few/p.jsonl")" '{"event":"former"}'
	same "newest: and the files of this run that it names" "$(names "$few")" \
		"$(printf '%s\n' "${taken[@]}" "$wrote" | sort | tr '\n' ' ')"
	same "newest: three of each, and that profile" \
		"$(grep -c '^t\.[0-9]*\.json$' <<<"$wrote") $(grep -c '^p\.[0-9]*\.jsonl$' <<<"$wrote")" "3 3"
	sorted=$(grep -oE '^t\.[0-9]+' <<<"$wrote" | cut -d. -f2)
	same "newest: the last ones, in a row" "$(tr '\n' ' ' <<<"$sorted")" \
		"$(seq "$(head -n 1 <<<"$sorted")" "$(tail -n 1 <<<"$sorted")" | tr '\n' ' ')"
	# t.7.json is one of them
	check "newest: numbers behind all that were taken" test "$(head -n 1 <<<"$sorted")" -gt 7
	check "newest: they open" "$ROTATED" load "$few"/t.[0-9][0-9].json
}

# profile_rotated NAME FILE STOP PATTERN: a profile in FILE and further ones, at least until STOP is there: no file is begun while
# something waits to be written. PATTERN: of those that are new.
profile_rotated() {
	# shellcheck disable=SC2016
	check "$1: recorded" timeout 60 "${run[@]}" --strict --ring-size 64MB --profile "$2" -- \
		sh -c 'until "$0" -t 2 -n 2 -s 4000 -p 50 && test -e "$1"; do :; done >"$0.counts"' "$TMP/storm" "$3"
	# a loaded machine needs more than nine, and the window's line is in the last one
	mapfile -t files < <(find "${2%/*}" -name "$4" | sort -V)
	check "$1: each file is valid" "$INFTRACE" validate "${files[@]}"
	zcat -f "${files[@]}" >"$TMP/p.jsonl"
	expect "$1: each step is in one of ${#files[@]} files" \
		'(sorted((l["shape"]["tid"], l["shape"]["step"]) for l in p if l["event"] == "token_prof") ==
		 sorted({(l["shape"]["tid"], l["shape"]["step"]) for l in p if l["event"] == "token_prof"}) and
		 sum(l["event"] == "token_prof" for l in p) == sum(n["steps"] for n in c) == 8000 * len(c) and
		 [l["event"] for l in p].index("window_prof") == len(p) - 1)' p="$TMP/p.jsonl" c="$TMP/storm.counts"
}

test_profile() {
	prof=$TMP/prof
	mkdir "$prof"
	yes '{"event":"former"}' | head -c "$((SIZE + SIZE / 16))" | sed '$d' >"$prof/p.jsonl" || true
	cp "$prof/p.jsonl" "$TMP/former"
	profile_rotated profile "$prof/p.jsonl" "$prof/p.3.jsonl" 'p.[0-9]*.jsonl'
	check "profile: one that has its size is left as it is" cmp "$TMP/former" "$prof/p.jsonl"
	check "profile: sizes" "$ROTATED" sizes "$SIZE" "${files[@]}"
}

# Appended to what a run that was killed has left.
test_profile_gzip() {
	mkdir "$TMP/packed"
	"${run[@]}" -q --profile "$TMP/packed/former" -- "$TMP/storm" -n 10 -s 10 -p 1 >/dev/null
	grep -v 'token_prof\|window_prof' "$TMP/packed/former" | gzip >"$TMP/packed/p.jsonl.gz"
	gzip -c "$TMP/packed/former" | head -c 100 >>"$TMP/packed/p.jsonl.gz"
	profile_rotated "compressed profile" "$TMP/packed/p.jsonl.gz" "$TMP/packed/p.2.jsonl.gz" 'p*.jsonl.gz'
}

# Also which file it writes.
test_killed() {
	killed=$TMP/killed
	mkdir "$killed"
	kinds=(json json.gz pftrace)
	spawn recorder "${run[@]}" -q -e syscalls,functions "${kinds[@]/#/--output=$killed/t.}" -- \
		"$TMP/storm" -t 2 -n 20 -s 0 -p 100 >/dev/null
	for kind in "${kinds[@]}"; do
		wait_until 60 test -s "$killed/t.3.$kind" || not_ok "killed" "no t.3.$kind"
	done
	"$INFTRACE" status -p "$recorder" --json >"$TMP/status"
	storm=$(pgrep -P "$recorder" -x storm)
	kill -9 "$recorder"
	kill "$storm"
	wait "$recorder" 2>/dev/null || true
	expect "status: the newest files" 'all(o.split("/")[-1].split(".")[1].isdigit() for o in s["outputs"]) and len(s["outputs"]) == 3' \
		s=last:"$TMP/status"
	# a file without content does not have its name yet
	check "killed: all files open" "$ROTATED" load "$killed"/t*{json,gz,pftrace}
	check "killed: all are valid" "$INFTRACE" validate "$killed"/t*.json "$killed"/t*.json.gz
	newest() { # KIND
		printf '%s\n' "$killed"/t*."$1" | sort -V | tail -n 1
	}
	importer "killed: the last ones open in chrome://tracing" "$(newest json)" "$(newest json.gz)"
}

# full NAME MOUNT_OPTIONS PATTERN: a recording to a disk on which a file after the first has no room. Where nothing is
# written for a while, a file becomes larger than it should, and may fill the disk alone: then it is tried again.
full() {
	local name=$1 options=$2 pattern=$3 disk=$TMP/disk.${1%% *} rc
	mkdir "$disk"
	for try in {9..0}; do
		rc=0
		mount -t tmpfs -o "$options" none "$disk"
		timeout 60 "${run[@]}" --min-free 0 -e syscalls,functions -d 20s -o "$disk/t.json" -- \
			"$TMP/storm" -n 20 -s 0 -p 100 >/dev/null 2>"$TMP/err" || rc=$?
		[ "$try" -gt 0 ] && [ ! -s "$disk/t.3.json" ] || break
		umount "$disk"
	done
	sed 's/^/# /' "$TMP/err"
	same "$name: exit code" "$rc" 1
	# one for each file that was being written: two at most
	check "$name: what it says" grep -qE "$pattern" "$TMP/err"
	same "$name: and no more" "$(grep cannot "$TMP/err" | grep -cvE "$pattern" || true)" 0
	check "$name: all files open" "$ROTATED" load "$disk"/t*.json
	check "$name: all are valid" "$INFTRACE" validate "$disk"/t*.json
	check "$name: the recording was cut in files" test -s "$disk/t.3.json"
	umount "$disk"
}

test_full_disk() {
	mkdir "$TMP/disk.try"
	if mount -t tmpfs none "$TMP/disk.try" 2>/dev/null; then
		umount "$TMP/disk.try"
		full "full disk" size=3500k 'cannot write .*/t\.[0-9]+\.json: No space left on device; (the file is valid up to here|nothing was written to it)'
		full "names full" nr_inodes=5 'cannot create .*/t\.5\.json(\.part)?: No space left on device'
	else
		skip "full disk" "tmpfs cannot be mounted here"
	fi
}

test_windows() {
	win=$TMP/win
	record_windows() {
		rm -rf "$win"
		timeout 60 "${run[@]}" --strict --ring-size 64MB -e syscalls,functions --window every=1s,for=600ms \
			--output-dir "$win" --format json,pftrace -- "$TMP/storm" -t 2 -n 20 -s 3500 -p 400
	}
	# the storm is only a breeze if others use the CPUs: then once more
	for _ in {1..9}; do
		rc=0
		record_windows >"$TMP/check.out" 2>&1 || rc=$?
		[ "$rc" -ne 0 ] || [ -z "$(find "$win" -name '*.2.json')" ] || break
	done
	sed 's/^/# /' "$TMP/check.out"
	same "windows: recorded" "$rc" 0
	same "windows: no file is a part" "$(find "$win" -name '*.part')" ""
	check "windows: all files open" "$ROTATED" load "$win"/trace_*
	check "windows: all are valid" "$INFTRACE" validate "$win"/trace_*.json
	firsts=$(find "$win" -regex '.*/trace_pid[0-9]*_[0-9]*\.json' -printf .)
	check "windows: several, each with a name" test "${#firsts}" -ge 2
	check "windows: a large one is cut" test -n "$(find "$win" -name 'trace_pid*.2.json')"
	# not each large one: the next file begins when the one before is written, which may be after the window
	for second in "$win"/trace_pid*.2.json; do
		[ "$(stat -c %s "${second%.2.json}.json")" -ge "$SIZE" ] ||
			not_ok "windows: only a large one is cut" "${second%.2.json}.json is small"
	done
}

run_tests "$@"
