#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The preset ollama on a Go program that runs an engine through cgo, as Ollama did before it ran
# llama-server: its C functions are probed, with returns, its Go functions are not.

. "$(dirname "$0")/../lib.sh"
# Debian's versioned package has no link in /usr/bin
PATH=$PATH:/usr/lib/go-1.19/bin
need cc go python3


mkdir "$TMP/ollama.d"
cp "$TOP"/tests/engines/mini/*.[ch] "$TMP/ollama.d/"
cat >"$TMP/ollama.d/main.go" <<'GO'
package main

// #cgo CFLAGS: -O2 -g
// #cgo LDFLAGS: -lm -lpthread
// #include "llama.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
)

//go:noinline
func deep(n int) int { // grows the stack of its goroutine, which moves
	var a [64]int
	a[n&63] = n
	if n == 0 {
		return 0
	}
	return deep(n-1) + a[n&63]
}

func main() {
	os.Stdin.Read(make([]byte, 1))
	ctx := C.mini_context_new(1024, 16, 2)
	smpl := C.mini_sampler_new(7)
	tokens := [9]C.int32_t{1, 2, 3, 4, 5, 6, 7, 8, 9}
	done := make(chan int)
	for i := 0; i < 60; i++ {
		n := C.int32_t(1)
		if i == 0 {
			n = 9
		}
		go func() { done <- deep(2000) }()
		if C.llama_decode(ctx, C.llama_batch_get_one(&tokens[0], n)) != 0 {
			os.Exit(1)
		}
		tokens[0] = C.llama_sampler_sample(smpl, ctx, -1)
		<-done
		runtime.GC()
	}
	fmt.Println("done")
}
GO
(cd "$TMP/ollama.d" && GO111MODULE=off GOCACHE=$TMP/cache run_logged "$TMP/log" "cannot build with go" \
	go build -o "$TMP/ollama" .)
check "a Go program with an engine runs" line_recorded "$TMP/ollama" -u ollama:main.deep
same "to its end" "$(cat "$TMP/t.out")" "done"
expect "steps and samples of the engine" \
	'[[e["args"]["n_tokens"], e["name"]] for e in sorted(t, key=lambda e: e.get("ts", 0)) if e.get("cat") == "step"] == [
		[9, "prefill"]] + [[1, "decode"]] * 59 and len([e for e in t if e.get("cat") == "sample"]) == 60' \
	t="$TMP/t.json"
same "its Go function is left out" "$(grep -c 'warning: main.deep in .* is a Go function' "$TMP/t.err")" 1
