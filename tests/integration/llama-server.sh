#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The real llama-server of Debian's next release: each request of its clients is found once, in the slot and with the
# tokens and times that the server itself tells them, and joined with its socket, whatever the server is asked to do.

. "$(dirname "$0")/../lib.sh"

NET=() # what brings a command to where the server is

need python3
root=$(llama_next 2>"$TMP/next.err") || skip_all "$(cat "$TMP/next.err")"
run_logged "$BUILD/programs/make.log" "cannot build the test programs" make -C "$TOP/tests/programs" O="$BUILD/programs"
mkdir "$TMP/mnt"
mkdir "$TMP/mnt/models"
for preset in tiny mite; do
	cp "$(llama_model "$preset")" "$TMP/mnt/models/$preset.gguf"
done
cp "$TMP"/mnt/models/tiny.gguf "$(llama_model mtp)" "$TMP/mnt"
"$TOP/tests/engines/make_gguf.py" --lora --out "$TMP/mnt/lora.gguf" >/dev/null

# serve NAME SERVER-OPTION...: starts a server, and records it until recorded. Sets URL.
serve() {
	spawn SERVER "$TOP/tests/engines/in_root" "$root" "$TMP/mnt" llama-server --offline --host 127.0.0.1 --port 0 --threads 1 "${@:2}" \
		>"$TMP/$1.log" 2>&1
	wait_until 60 grep -qs 'listening on http' "$TMP/$1.log"
	URL=$(grep -oE -m 1 'http://127.0.0.1:[0-9]+' "$TMP/$1.log")
	record "$1"
}

record() { # NAME
	recording TRACER "$1" --strict -e +requests --profile "$TMP/$1.jsonl" -p "$SERVER"
}

wait_for_tracer() {
	wait "$TRACER"
}

recorded() { # NAME
	kill -INT "$TRACER"
	check "$1: nothing is lost" wait_for_tracer
	kill "$SERVER"
	wait "$SERVER" 2>/dev/null || true # of a service, it is not this shell's
	check "$1: valid" "$INFTRACE" validate "$TMP/$1.jsonl" --require token_prof,request_prof
}

# shapes FAMILY NAME: of the lines of that family in the profile, in TMP/NAME.FAMILY
shapes() {
	json '[e["shape"] for e in p if e["event"] == "'"$1"'"]' p="$TMP/$2.jsonl" >"$TMP/$2.$1"
}

# clients NAME CLIENT-OPTION... -- SERVER-OPTION...
clients() {
	local name=$1
	args_split "${@:2}"
	serve "$name" -m "/mnt/${MODEL-tiny}.gguf" "${BEHIND[@]}"
	"$BUILD/programs/llama_clients" "${BEFORE[@]}" "${URL##*:}" >"$TMP/$name.clients"
	recorded "$name"
	check_shown "$name: requests, slots, tokens and times, as the server and its clients say" \
		"$TOP/tests/programs/check_llama_server.py" "$TMP/$name.clients" "$TMP/$name.jsonl"
}

# One prompt in 9 has 300 words.
test_users() {
	clients "8 users" -u 8 -n "$(often 10 60)" -- -np 4
	clients "8 users, kept prompts" -u 8 -n "$(often 10 60)" -c -- -np 4
	clients "32 users" -u 32 -n "$(often 4 20)" -c -- -np 8
	clients "answers in one part" -u 8 -n "$(often 5 40)" -1 -c -- -np 4 --kv-unified
}

pages() { # NAME
	grep -c '"name":"up"' "$TMP/$1.json" || true
}

pages_read() { # NAME N
	[ "$(pages "$1")" -ge "$2" ]
}

# Its own metrics beside what is recorded: how many tokens it has predicted, on its last page.
test_metrics() {
	serve shown -m /mnt/tiny.gguf -np 4 --metrics
	interrupted "metrics: it has begun" "$TRACER"
	rm "$TMP/shown.jsonl"
	recording TRACER shown -e +requests --metrics "${URL##*:}" -o "$TMP/shown.json" --profile "$TMP/shown.jsonl" -p "$SERVER"
	"$BUILD/programs/llama_clients" -u 2 -n 5 -c "${URL##*:}" >"$TMP/shown.clients"
	wait_until 60 pages_read shown $(($(pages shown) + 2))
	recorded shown
	expect "metrics: all tokens, as its steps have given" '(lambda own: own == sum(x["shape"]["output_tokens"] for x in p if x["event"] == "request_prof"
		and "output_tokens" in x["shape"]) > 0)([e["args"]["value"] for e in t if e["name"] == "llamacpp:tokens_predicted_total"][-1])' \
		t="$TMP/shown.json" p="$TMP/shown.jsonl"
}

# Recordings that end while requests wait for their first token: what is not known yet is in no line.
test_cut() {
	serve cut -m /mnt/tiny.gguf -np 4
	spawn CLIENTS "$BUILD/programs/llama_clients" -u 8 -n 100000 "${URL##*:}" >"$TMP/cut.clients"
	for i in {1..20}; do
		check "cut $i: recorded" "$INFTRACE" record -q -d 500ms -e +requests --profile "$TMP/cut$i.jsonl" -p "$SERVER"
		check "cut $i: valid" "$INFTRACE" validate "$TMP/cut$i.jsonl"
		# on a busy machine no step may have ended yet
		! grep -q token_prof "$TMP/cut$i.jsonl" || check "cut $i: report" "$INFTRACE" report "$TMP/cut$i.jsonl"
		[ "$(json 'any(e["shape"].get("joined") and "ttft_client" not in e["stage_us"] for e in p if e["event"] == "request_prof")' \
			p="$TMP/cut$i.jsonl")" != true ] || break
	done
	if [ "$i" -lt 20 ]; then
		ok "cut: some requests were not answered yet"
	else
		skip "cut: requests that were not answered yet" "no recording of 20 ended with one that is joined"
	fi
	check "cut: what it does now" "$INFTRACE" why -d 500ms -p "$SERVER"
	kill "$CLIENTS"
	recorded cut
}

test_disconnects() {
	clients "disconnects" -u 8 -n "$(often 10 60)" -c -d 5 -- -np 4
}

# Each step of the draft model's context says so, and none is a request.
drafts() { # NAME MODEL SERVER-OPTION...
	local MODEL=$2
	clients "$1" -u 8 -n "$(often 6 30)" -c -- -np 4 "${@:3}"
	shapes token_prof "$1"
	# those that are read before the first call that names the draft's context, in the order of the rings, are not known as its own
	expect "$1: the steps of one of the two contexts draft, from some step on" \
		'sorted("".join("d" if s["phase"] == "draft" else "-" for s in p if s["context"] == c).lstrip("-").strip("d") for c in {s["context"] for s in p}) == ["", ""] and len({s["context"] for s in p if s["phase"] == "draft"}) == 1' \
		p="$TMP/$1.token_prof"
}

test_draft() {
	drafts draft tiny -md /mnt/tiny.gguf --spec-type draft-simple --spec-draft-n-max 4
	shapes request_prof draft
	expect "draft: guesses were accepted" 'sum(r.get("draft_steps", 0) for r in p) > 0' p="$TMP/draft.request_prof"
}

# A layer of the model itself drafts, in a context of its own.
test_mtp() {
	drafts mtp mtp-f16 --spec-type draft-mtp
}

# Long prompts are computed in parts, among the decodes of others.
test_chunks() {
	clients "chunks" -u 8 -n "$(often 10 60)" -l 4 -- -np 4 -b 64 -ub 32
}

# Requests with and without an adapter do not share a batch.
test_lora() {
	clients "lora" -u 8 -n "$(often 10 60)" -c -j '"lora":[{"id":0,"scale":1}]' -j '"lora":[]' -- -np 4 --lora /mnt/lora.gguf
}

# Each token has to fit a grammar, as in answers that call a tool.
test_grammar() {
	clients "grammar" -u 8 -n "$(often 5 30)" -c -j '"grammar":"root ::= [a-z ]+"' -j '"grammar":"root ::= (\"[\" [a-z ]* \"]\")+"' -- -np 4
}

post() { # PATH JSON
	"${NET[@]}" curl -sS --fail --noproxy '*' --max-time 60 "$URL$1" -d "$2"
}

# Slots that are saved and restored, a context that is shifted, several answers to one prompt, a grammar.
test_slots() {
	mkdir "$TMP/mnt/slots"
	serve slots -m /mnt/tiny.gguf -np 4 -c 1024 --context-shift --slot-save-path /mnt/slots
	{
		post /completion '{"prompt": "the time of a token", "n_predict": 5, "id_slot": 1, "ignore_eos": true}' && echo
		post '/slots/1?action=save' '{"filename": "one"}' >"$TMP/saved"
		post /completion '{"prompt": "waiting", "n_predict": 3, "id_slot": 1, "ignore_eos": true}' && echo
		post '/slots/1?action=restore' '{"filename": "one"}' >"$TMP/restored"
		post /completion '{"prompt": "the time of a token", "n_predict": 5, "id_slot": 1, "ignore_eos": true}' && echo
		post /completion '{"prompt": "the time", "n_predict": 400, "id_slot": 2, "ignore_eos": true}' && echo
		post /completion '{"prompt": "the time", "n_predict": 9, "id_slot": 0, "grammar": "root ::= [a-z ]+"}' && echo
	} >"$TMP/slots.said"
	recorded slots
	shapes request_prof slots
	expect "slots: prompt, kept and answered tokens of each request, in its slot" \
		'[[r[k] for k in ("sequence", "prompt_tokens", "cached_tokens", "output_tokens")] for r in p if r["source_kind"] == "sequence"] == [[d["id_slot"]] + [d["timings"][k] for k in ("prompt_n", "cache_n", "predicted_n")] for d in s]' \
		p="$TMP/slots.request_prof" s="$TMP/slots.said"
	expect "slots: the context was shifted" 's[3]["truncated"]' s="$TMP/slots.said"
	expect "slots: what is no completion is no request of a sequence" \
		'[r["request"] for r in p if r["source_kind"] == "socket"] == ["POST /slots/1"] * 2' p="$TMP/slots.request_prof"
}

# What encodes, and gives no tokens.
test_embeddings() {
	serve embeddings -m /mnt/tiny.gguf -np 4 --embedding --pooling mean
	post /embedding '{"content": "the time of a token"}' >"$TMP/embedding"
	post /v1/embeddings '{"input": ["the time", "of a token went"]}' >"$TMP/embeddings"
	recorded embeddings
	shapes request_prof embeddings
	expect "embeddings: one sequence for each text, and each request" \
		'[r["output_tokens"] for r in p if r["source_kind"] == "sequence"] == [0] * 3 and sum(r.get("joined", False) for r in p) == 2' \
		p="$TMP/embeddings.request_prof"
	serve rerank -m /mnt/tiny.gguf -np 4 --rerank
	post /rerank '{"query": "the time", "documents": ["of a token went", "into", "waiting"]}' >"$TMP/reranked"
	recorded rerank
	shapes request_prof rerank
	expect "rerank: one sequence for each text, with all tokens that the server counts" \
		'sum(r["source_kind"] == "sequence" for r in p) == 3 and sum(r.get("prompt_tokens", 0) for r in p) == s["usage"]["prompt_tokens"]' \
		p="$TMP/rerank.request_prof" s=last:"$TMP/reranked"
}

# Two models, each in a child of the server: what they do to warm up is no request.
each_model() { # NAME
	local model
	for model in tiny mite; do
		post /completion '{"model": "'$model'", "prompt": "the time of a token", "n_predict": 5, "ignore_eos": true}' >"$TMP/$model.said"
	done
	rm -f "$TMP/later.jsonl"
	recording LATER later --profile "$TMP/later.jsonl" -p "$SERVER" || return 0
	check "$1: children that were there before are recorded with it" grep -q 'also recorded: 2 running child processes that' "$TMP/later.err"
	for model in tiny mite; do
		post /completion '{"model": "'$model'", "prompt": "of a token", "n_predict": 4, "ignore_eos": true}' >"$TMP/$model.later"
	done
	interrupted "$1: they are recorded" "$LATER"
	expect "$1: with their requests" '[r["shape"]["output_tokens"] for r in p if r["event"] == "request_prof" and r["shape"]["source_kind"] == "sequence"] == [4, 4]' \
		p="$TMP/later.jsonl"
	recorded "$1"
	shapes request_prof "$1"
	expect "$1: one request of each child, joined" \
		'[[r["prompt_tokens"], r["output_tokens"], r["joined"]] for r in p if r["source_kind"] == "sequence" and r["output_tokens"] == 5] == [[d["timings"]["prompt_n"], 5, True] for d in (a, b)] and len({r["pid"] for r in p}) == 3' \
		p="$TMP/$1.request_prof" a=last:"$TMP/tiny.said" b=last:"$TMP/mite.said"
}

test_router() {
	serve router --models-dir /mnt/models -np 2
	each_model router
}

# Starts systemd of that tree with nothing but the unit, on a copy of it, as process 1 of its namespaces; it may write to its own
# cgroups and to nothing of the kernel's.
boot() { # TREE
	local new=$TMP/boot/root dir
	echo $$ >"$CGROUP/cgroup.procs"
	mkdir "$TMP/boot"
	mount -t tmpfs none "$TMP/boot"
	mkdir "$TMP"/boot/{upper,work,root}
	mount -t overlay -o "lowerdir=$1,upperdir=$TMP/boot/upper,workdir=$TMP/boot/work" none "$new"
	mount --bind "$TMP/mnt" "$new/mnt"
	cp "$TMP/default" "$new/etc/default/llama-server"
	mount -t proc proc "$new/proc"
	mount --bind -o ro "$new/proc/sys" "$new/proc/sys"
	mount -t sysfs -o ro sysfs "$new/sys"
	mount -t tmpfs none "$new/dev"
	for dir in null zero full random urandom; do
		: >"$new/dev/$dir"
		mount --bind "/dev/$dir" "$new/dev/$dir"
	done
	exec unshare --cgroup sh -e -c 'mount -t cgroup2 none "$1/sys/fs/cgroup"
		exec env -i container=test PATH="$PATH" setpriv --bounding-set=-sys_time,-sys_module \
			chroot "$1" /usr/lib/systemd/systemd --unit=llama-server.service' sh "$new"
}

# All of it ends with its process 1.
unit_end() {
	pkill -9 -P "$BOOT"
	wait "$BOOT"
	wait_until 60 find "$CGROUP" -depth -type d -exec rmdir {} +
}

# As Debian's own unit runs it, by systemd: the server has no model of its own, but starts a child for each.
test_unit() {
	local tree user NET
	if ! tree=$(llama_service 2>&1) || ! CGROUP=$(cgroup_root 2>&1); then
		skip "unit" "${CGROUP:-$tree}"
		return
	fi
	CGROUP=$CGROUP/inftrace-test-$$
	mkdir "$CGROUP" 2>/dev/null || {
		skip "unit" "cgroups cannot be made here"
		return
	}
	printf '%s\n' LLAMA_ARG_PORT=8080 LLAMA_ARG_MODELS_DIR=/mnt/models LLAMA_ARG_OFFLINE=1 LLAMA_ARG_THREADS=1 >"$TMP/default"
	export -f boot
	export TMP CGROUP
	spawn BOOT unshare --mount --pid --fork --kill-child --ipc --uts --net bash -eu -c 'boot "$1"' bash "$tree" >"$TMP/boot.log" 2>&1
	at_end unit_end
	procs=$CGROUP/system.slice/llama-server.service/cgroup.procs
	wait_until 60 grep -qs . "$procs" || not_ok "unit: started" "$(tail -n 1 "$TMP/boot.log")"
	read -r SERVER <"$procs"
	URL=http://127.0.0.1:8080
	NET=(nsenter --target "$SERVER" --net)
	check "unit: the server answers" wait_until 60 "${NET[@]}" curl -s --fail --noproxy '*' "$URL/health"
	user=$(sed -n 's/^User=//p' "$tree/usr/lib/systemd/system/llama-server.service")
	same "unit: it runs as the user whom the unit names" "$(stat -c %u "/proc/$SERVER")" "$(awk -F: -v u="$user" '$1 == u { print $3 }' "/proc/$SERVER/root/etc/passwd")"
	record unit
	each_model unit
}

run_tests "$@"
