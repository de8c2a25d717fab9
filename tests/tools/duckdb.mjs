#!/usr/bin/env node
// SPDX-License-Identifier: BSD-2-Clause
// Runs the SQL of a document (indented blocks after <!-- sql: NAME -->) with DuckDB and prints an object of the rows by name.
// usage: duckdb.mjs DOCUMENT, in the directory of the profiles; NODE_DIR is the directory in which @duckdb/node-api was installed.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.env.NODE_DIR + "/");
const { DuckDBInstance } = require("@duckdb/node-api");
const text = readFileSync(process.argv[2], "utf8");
const connection = await (await DuckDBInstance.create(":memory:")).connect();
const results = {};

for (const [, name, sql] of text.matchAll(/^<!-- sql: (\w+) -->\n((?: {4}.*\n)+)/gm)) {
	try {
		const reader = await connection.runAndReadAll(sql);
		results[name] = reader.getRowObjectsJson();
	} catch (e) {
		console.error(`${name}: ${e.message}`);
		process.exit(1);
	}
}
console.log(JSON.stringify(results));
