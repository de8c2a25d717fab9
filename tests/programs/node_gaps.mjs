// SPDX-License-Identifier: BSD-2-Clause
// A server in node, which has another process make each step, and before it does something else. As `gaps`:
//
//	node --expose-gc --single-threaded-gc node_gaps.mjs GAPS N [PLANT...]
//
// GAPS: that program. Prints its process id and "ready", waits for a line, and prints one for each step but the first: the plant,
// the main thread, and for how long that was in the way (ns). Without the second option, a collection is mostly by others of
// node's threads.
import { spawn } from "node:child_process";
import { once } from "node:events";

const [gaps, n, ...names] = process.argv.slice(2);
const engine = spawn(gaps, ["orders"], { stdio: ["pipe", "pipe", "inherit"] });
const heap = Array.from({ length: 400000 }, (_, i) => ({ i })); // something to look at

const plants = { none: () => {}, collection: gc };

async function step() {
	engine.stdin.write("x");
	await once(engine.stdout, "data");
}

console.log(`${engine.pid}\nready`);
await once(process.stdin, "data");
process.stdin.destroy();
await step();
for (let i = 0; i < Number(n); i++) {
	for (const name of names) {
		const start = process.hrtime.bigint();
		plants[name]();
		const ns = process.hrtime.bigint() - start;
		await step();
		console.log(name, process.pid, Number(ns));
	}
}
engine.stdin.end();
if (heap.length !== 400000) throw new Error("the heap is gone");
