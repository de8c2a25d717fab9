#!/usr/bin/env node
// SPDX-License-Identifier: BSD-2-Clause
//
// Runs a model of make_onnx.py in onnxruntime-node, again and again. Run it from a folder into
// which onnxruntime-node was installed (npm install --ignore-scripts).
//
// usage: run_onnx.mjs [-w] MODEL.onnx [RUNS]
//
// -w: once ready, print "ready" and begin at the next line of input. The last line printed is JSON:
// what was run.
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

function fail(text, code) {
    console.error(`run_onnx: ${text}`);
    process.exit(code);
}

// The package is looked up from the working directory: nothing is installed beside this file.
async function importRuntime() {
    const require = createRequire(path.join(process.cwd(), "package.json"));
    try {
        return (await import(pathToFileURL(require.resolve("onnxruntime-node")))).default;
    } catch (e) {
        return fail(`no onnxruntime-node in ${process.cwd()}: ${e.message.split("\n")[0]}`, 1);
    }
}

async function main() {
    const wait = process.argv[2] === "-w";
    const [model, text = "100"] = process.argv.slice(wait ? 3 : 2);
    if (!model || !/^[1-9][0-9]*$/.test(text))
        fail("usage: run_onnx.mjs [-w] MODEL.onnx [RUNS]", 2);
    const runs = Number(text);

    const ort = await importRuntime();
    const session = await ort.InferenceSession.create(
        model, {intraOpNumThreads: 1, interOpNumThreads: 1});
    const tokens = new ort.Tensor(
        "float32", Float32Array.from({length: 256}, (_, i) => Math.sin(i)), [1, 256]);
    if (wait) {
        console.log("ready");
        await new Promise((resolve) => process.stdin.once("data", resolve));
    }

    let sum = 0;
    const start = performance.now();
    for (let i = 0; i < runs; i++) {
        const {scores} = await session.run({tokens});
        sum += scores.data.reduce((a, b) => a + b); // of a softmax: 1
    }
    console.log(JSON.stringify({
        engine: "onnxruntime-node", pid: process.pid, runs,
        inputs: session.inputNames, outputs: session.outputNames,
        us_per_run: (performance.now() - start) * 1000 / runs, sum,
    }));
    process.exit(0);
}

main().catch((e) => fail(e.message, 1));
