#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --discover: engines that come and go are recorded without being named, others are not, and what inftrace holds does
# not grow.

. "$(dirname "$0")/../lib.sh"

TOKENS=5
BATCH=6
copies=0

# under a name that no process of another test has
cp -r "$(dirname "$(mini_engine)")" "$TMP/mini"
MINI=$TMP/mini/found-$$
mv "$TMP/mini/mini_engine" "$MINI"
cat >"$TMP/mini.json" <<-JSON
	{"name": "mini", "version": 1, "match": {"mapped": ["found-$$"]},
	 "probes": [{"library": "libllama*.so*", "symbol": "llama_decode", "role": "step", "name": "decode"}]}
JSON

# probed NAME DIRECTORY TIMES: the library there has been given its probes that often
probed() { [ "$(grep -c "probes in $2/libllama.so," "$TMP/$1.log")" -ge "$3" ]; }

# engines NAME N [own|TIMES]: starts N engines at once, which wait; lets each begin once it was found. own: each has files that no
# other process ever had, and its library has its probes, too. TIMES: their common one was given its probes that often. Their
# numbers are added to TMP/NAME.pids.
engines() {
	local i pids=() mini=$MINI dirs=()
	rm -f "$TMP/go"
	mkfifo "$TMP/go"
	for ((i = 0; i < $2; i++)); do
		if [ "${3:-}" = own ]; then
			dirs+=("$TMP/copy-$((copies++))")
			cp -r "$TMP/mini" "${dirs[-1]}"
			mini=${dirs[-1]}/$(basename "$MINI")
		fi
		"$mini" -q -w -t 1 -n "$TOKENS" <"$TMP/go" >/dev/null &
		pids+=("$!")
		test_pids+=("$!")
	done
	exec 8>"$TMP/go"
	for i in "${pids[@]}"; do
		wait_until 60 grep -q "found process $i " "$TMP/$1.log" || not_ok "$1: found" "not $i"
	done
	for i in "${dirs[@]}"; do
		wait_until 60 probed "$1" "$i" 1 || not_ok "$1: probed" "not $i"
	done
	if [ "${3:-own}" != own ]; then
		wait_until 60 probed "$1" "$TMP/mini" "$3" || not_ok "$1: probed" "not $3 times"
	fi
	for i in "${pids[@]}"; do
		echo >&8
	done
	exec 8>&-
	for i in "${pids[@]}"; do
		wait "$i" || not_ok "$1: engine" "$i failed"
	done
	printf '%s\n' "${pids[@]}" >>"$TMP/$1.pids"
	rm -rf "${dirs[@]}"
}

# held FILE: the recorder's descriptors, mappings and KiB of memory, several times, since it may be looking at something
held() {
	for ((i = 0; i < 10; i++)); do
		echo "$(find "/proc/$RECORDER/fd" | wc -l) $(wc -l <"/proc/$RECORDER/maps")" \
			"$(awk '/^VmRSS/ { print $2 }' "/proc/$RECORDER/status")"
		sleep 0.03
	done >"$1"
}

# flat COLUMN MORE: the least of the end is not more than the most of the beginning, and MORE
flat() {
	awk -v c="$1" -v more="$2" 'NR == FNR { if ($c > most) most = $c; next }
		FNR == 1 || $c < least { least = $c }
		END { print most, least; exit !(least <= most + more) }' "$TMP/early" "$TMP/late"
}

test_many() {
	local n more
	n=$(often 60 500)
	spawn other sleep 1000
	recorder_started many --discover -e functions -o "$TMP/many/t.json" --profile "$TMP/many/p.jsonl"
	engines many 12
	held "$TMP/early"
	for ((more = n - 12; more > 0; more -= BATCH)); do
		engines many $((more < BATCH ? more : BATCH))
	done
	held "$TMP/late"
	echo "# descriptors, mappings, KiB: $(head -n 1 "$TMP/early") after 12 processes, $(head -n 1 "$TMP/late") after $n"
	check "many: descriptors" flat 1 0
	check "many: mappings" flat 2 4
	# the profile has sums of each process at its end, which are kept up to there
	check "many: memory" flat 3 $((4096 + 32 * (n - 12)))
	recorder_ended many
	check "many: counted" grep -q "^inftrace: $n processes found, $n of them have ended" "$TMP/many.log"
	check "many: the trace is valid" "$INFTRACE" validate "$TMP/many/t.json"
	check "many: the profile is valid" "$INFTRACE" validate "$TMP/many/p.jsonl"
	# a prompt, and TOKENS tokens
	expect "many: the steps of each, of no other" \
		"(lambda c, w: c == dict.fromkeys(w, $((TOKENS + 1))))(__import__('collections').Counter(e['pid'] for e in t if e.get('cat') == 'step'), [int(x) for x in open('$TMP/many.pids')])" \
		t="$TMP/many/t.json"
	check "many: what matches nothing is not recorded" sh -c "! grep -q '\"pid\":$other,' $TMP/many/t.json"
	kill "$other"
}

# status KEY: of the recorder
status() {
	timeout 60 "$INFTRACE" status -p "$RECORDER" --json >"$TMP/status.json"
	json "s[0]['$1']" s="$TMP/status.json"
}

no_file_probed() { [ "$(status probed_files)" = 0 ]; }

# What the recorder holds of the probed files: links, and descriptors of the files themselves.
held_links() { grep -l '^link_type' "/proc/$RECORDER"/fdinfo/* 2>/dev/null | wc -l; }
held_files() { find "/proc/$RECORDER/fd" -lname "$TMP/copy-*" -o -lname "$TMP/mini/*" | wc -l; }

no_file_held() { [ "$(held_files)" -eq 0 ]; }
links_as_before() { [ "$(held_links)" -eq "$LINKS" ]; }

# all_given_back WHEN: waits until no file has probes
all_given_back() {
	check "files: $1: none has probes" wait_until 120 no_file_probed
	check "files: $1: none is open" wait_until 60 no_file_held
	check "files: $1: links as at the beginning" wait_until 60 links_as_before # they are closed in the background
}

# Each process has library files of its own, as with a new image for each: they lose their probes once nobody maps them.
test_files() {
	local n=0 rounds=10 each=6 round
	recorder_started files --discover -e functions -o "$TMP/files/t.json" --profile "$TMP/files/p.jsonl"
	if [ "$(status probed_files 2>/dev/null)" != 0 ]; then
		skip files "without uprobe_multi files keep their probes"
		recorder_ended files
		return
	fi
	LINKS=$(held_links)
	for ((round = 1; round <= rounds; round++)); do
		engines files "$each" own
		n=$((n + each))
		if [ "$round" -eq 2 ]; then
			all_given_back "after $n"
			held "$TMP/early"
		fi
	done
	all_given_back "after $n"
	held "$TMP/late"
	echo "# descriptors, mappings, KiB: $(head -n 1 "$TMP/early") after $((2 * each)), $(head -n 1 "$TMP/late") after $n"
	check "files: descriptors" flat 1 0
	check "files: mappings" flat 2 0
	# a file that had none for a while
	engines files 1 1
	all_given_back "used again"
	engines files 1 2
	check "files: counted" test "$(status probed_files_given_back)" -gt "$n"
	recorder_ended files
	check "files: the trace is valid" "$INFTRACE" validate "$TMP/files/t.json"
	expect "files: the steps of each" \
		"(lambda c, w: c == dict.fromkeys(w, $((TOKENS + 1))))(__import__('collections').Counter(e['pid'] for e in t if e.get('cat') == 'step'), [int(x) for x in open('$TMP/files.pids')])" \
		t="$TMP/files/t.json"
}

# All kinds of records, of processes that are found within a window and between two.
test_windows() {
	recorder_started windows --discover --window manual --output-dir "$TMP/windows"
	timeout 60 "$INFTRACE" start -p "$RECORDER" >/dev/null
	engines windows 2
	timeout 60 "$INFTRACE" stop -p "$RECORDER" >/dev/null
	"$MINI" -q -w -t 1 -n "$TOKENS" <"$TMP/go" >/dev/null &
	between=$!
	test_pids+=("$between")
	exec 8>"$TMP/go"
	wait_until 60 grep -q "found process $between " "$TMP/windows.log" || not_ok "windows: found" "not $between"
	timeout 60 "$INFTRACE" start -p "$RECORDER" >/dev/null
	echo >&8
	exec 8>&-
	wait "$between"
	timeout 60 "$INFTRACE" stop -p "$RECORDER" >/dev/null
	echo "$between" >>"$TMP/windows.pids"
	recorder_ended windows
	for pid in $(cat "$TMP/windows.pids"); do
		check "windows: a valid trace" "$INFTRACE" validate "$TMP"/windows/trace_pid"$pid"_*.json
		check "windows: a valid profile" "$INFTRACE" validate "$TMP"/windows/profile_pid"$pid"_*.jsonl --require window_prof
		same "windows: its steps" "$(grep -c '"cat":"step"' "$TMP"/windows/trace_pid"$pid"_*.json)" $((TOKENS + 1))
		# what it did before it was found is in no slice
		expect "windows: nothing before it was born" \
			"all(e['ts'] >= 0 and e['dur'] >= 0 for e in t if e['ph'] == 'X')" t="$(echo "$TMP"/windows/trace_pid"$pid"_*.json)"
	done
	same "windows: no other files" "$(find "$TMP/windows" -type f | wc -l)" 6
}

# A dump has those that have ended, too.
test_flight() {
	recorder_started flight --discover --flight-recorder 16MB --output-dir "$TMP/flight"
	engines flight 2
	check "flight: dumped" timeout 60 "$INFTRACE" dump -p "$RECORDER"
	recorder_ended flight
	for pid in $(cat "$TMP/flight.pids"); do
		check "flight: a valid trace" "$INFTRACE" validate "$TMP"/flight/trace_pid"$pid"_*.json
		same "flight: its steps" "$(grep -c '"cat":"step"' "$TMP"/flight/trace_pid"$pid"_*.json)" $((TOKENS + 1))
	done
}

# Engines that wait for nobody and live for some ten milliseconds: each was found, or is counted as missed.
test_short() {
	local n=40
	recorder_started short --discover -e functions -o "$TMP/short/t.json"
	for ((i = 0; i < n; i++)); do
		"$MINI" -q -t 1 -n "$TOKENS" >/dev/null || not_ok "short: engine" "failed"
	done
	recorder_ended short
	found=$(sed -nE 's/^inftrace: ([0-9]+) processes found, .*/\1/p' "$TMP/short.log")
	missed=$(sed -nE 's/^inftrace: warning: ([0-9]+) processes that mapped a file of a preset ended .*/\1/p' "$TMP/short.log")
	echo "# $found found, ${missed:-0} missed"
	if grep -q 'looking ten times a second' "$TMP/short.log"; then
		skip "short: found or counted" "the kernel does not tell here which processes map files"
	else
		same "short: found or counted" $((found + ${missed:-0})) "$n"
	fi
}

# More than may be alive at a time, all of one user: further ones of that user come in as others end, and there is room for another user's.
test_room() {
	local max=192 pids=() i out
	chmod 755 "$TMP"
	cp "$(command -v sleep)" "$TMP/found-$$"
	recorder_started room --discover -e sched --window manual --output-dir "$TMP/room"
	for ((i = 0; i < 260; i++)); do
		setpriv --reuid nobody --clear-groups "$TMP/found-$$" 1000 &
		pids+=("$!")
		test_pids+=("$!")
	done
	check "room: said" wait_until 120 grep -q "warning: --discover: more than 256 processes at a time" "$TMP/room.log"
	found() { [ "$(grep -c 'found process' "$TMP/room.log")" -eq "$1" ]; }
	check "room: as many as there is room for" wait_until 120 found "$max"
	"$TMP/found-$$" 1000 &
	pids+=("$!")
	test_pids+=("$!")
	check "room: one of another user has it" wait_until 120 grep -q "found process ${pids[-1]} " "$TMP/room.log"
	# one that was found
	out=$(sed -nE 's/.*found process ([0-9]+) .*/\1/p' "$TMP/room.log" | head -n 1)
	kill "$out"
	check "room: another one comes in" wait_until 120 found $((max + 2))
	recorder_ended room
	check "room: counted" grep -q "^inftrace: $((max + 2)) processes found, 1 of them have ended" "$TMP/room.log"
	check "room: those left out are counted" \
		grep -q "^inftrace: warning: $((260 - max - 1)) processes that a preset matches were left out: more than 256 at a time" "$TMP/room.log"
	kill "${pids[@]}" 2>/dev/null || true
	wait "${pids[@]}" 2>/dev/null || true
}

# What can't be read even by root, such as process 1 of some containers, is no reason for a warning.
test_quiet() {
	recorder_started quiet --discover --window manual --output-dir "$TMP/quiet"
	recorder_ended quiet
	same "quiet: nothing is said of process 1 and of kernel threads" \
		"$(grep -cE 'the files of process (1|2)[^0-9]' "$TMP/quiet.log")" 0
}

test_refused() {
	check_rc "with a process" 2 'give one of -p, -a, --discover and -- COMMAND' "$INFTRACE" record --discover -p $$
	check_rc "without presets" 2 '--discover: finds the processes that a preset matches, and none is loaded' \
		"$INFTRACE" record --discover --engine none -o "$TMP/none.json"
	check_rc "with --hold-libraries" 2 '--hold-libraries: not with --discover' "$INFTRACE" record --discover --hold-libraries
}

run_tests "$@"
