#!/usr/bin/env node
// SPDX-License-Identifier: BSD-2-Clause
//
// Loads traces with the importer of chrome://tracing (Catapult, as the Go source tree carries it) in
// plain Node, without a browser and without npm packages, and checks what the importer lets pass:
// slices of one track that overlap without nesting, and events that it dropped in silence.
//
// One warning is expected, where the rule says so and nowhere else: the importer nests slices whose ends are in
// the same microsecond when rounded, although they follow each other, and does not find an arrow's end
// in the second of them (docs/trace-format.md). Which arrows it drops for that is computed here, without the
// importer, and it must have dropped exactly these.
//
// usage: check_chrome_trace.mjs [--brief | --counts] TRACE.json[.gz] ...
//   default   one JSON object a line and file, with the threads and what they hold
//   --brief   the same without the threads
//   --counts  only the slices by category and name: {"syscall": {"read": 12}, ...}; instants of
//             a thread count with them, as the importer makes slices of no length of them
// needs: Debian packages golang-1.19-src (or TRACE_VIEWER_DIR with trace_viewer_full.html), nodejs
// exit:  0  all files are clean
//        1  a file cannot be read, or the importer threw
//        2  usage, or the importer is not there
//        3  import warnings
//        4  partial overlaps, or the model does not hold what the file holds
//        with several files the first of 1, 3, 4 that occurred

import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import zlib from 'node:zlib';

const VIEWER = path.join(
  process.env.TRACE_VIEWER_DIR || '/usr/share/go-1.19/src/cmd/trace/static',
  'trace_viewer_full.html');

const own = console; // without what the importer prints

function die(text) {
  own.error(`check_chrome_trace: ${text}`);
  process.exit(2);
}

// The viewer is one HTML file of some hundred modules. Those that draw need a DOM and throw here:
// only the importer and the model are wanted, and their absence is noticed below.
function loadCatapult() {
  let html;
  try {
    html = fs.readFileSync(VIEWER, 'utf8');
  } catch (e) {
    die(`${e.message} (apt-get install golang-1.19-src, or set TRACE_VIEWER_DIR)`);
  }
  let oboe;
  // In a context of its own each use of a global would go through Node, which takes more time than the import.
  const g = globalThis;
  g.console = { ...console, log() {}, warn() {}, error() {} };
  g.HTMLImportsLoader = { hrefToAbsolutePath: (p) => p };
  g.require = (p) => (/oboe/.test(p) ? oboe : {});
  g.Polymer = Object.assign(() => function () {}, { dom: () => ({}) });
  for (const [, script] of html.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)) {
    for (const module of script.split(/(?='use strict';)/)) {
      try {
        vm.runInThisContext(module);
      } catch { /* draws */ }
      if (g.window && g.window.oboe)
        oboe = g.window.oboe;
    }
  }
  if (!g.tr?.importer?.Import || !g.tr?.e?.importer?.TraceEventImporter)
    die(`the importer did not load from ${VIEWER}`);
  return g.tr;
}

function readTrace(file) {
  const raw = fs.readFileSync(file);
  const gzip = raw[0] === 0x1f && raw[1] === 0x8b;
  return new TextDecoder().decode(gzip ? zlib.gunzipSync(raw) : raw);
}

// The events themselves; an array may end after any event, as the importer has it.
function parseEvents(text) {
  text = text.trim();
  if (text[0] === '[') {
    if (text.endsWith(','))
      text = text.slice(0, -1).trimEnd();
    if (!text.endsWith(']'))
      text += ']';
  }
  const json = JSON.parse(text);
  return Array.isArray(json) ? json : json.traceEvents;
}

// Times in the file have three decimals; as integers of nanoseconds they compare exactly.
const toNs = (us) => Math.round(us * 1000);

// What the importer turns into a slice: X, and an instant with the scope of a thread.
const isThreadInstant = (e) => (e.ph === 'i' || e.ph === 'I') && (e.s === undefined || e.s === 't');

function findOverlaps(events) {
  const tracks = new Map();
  for (const e of events) {
    if (e.ph !== 'X')
      continue;
    const key = `${e.pid}/${e.tid}`;
    const start = toNs(e.ts);
    if (!tracks.has(key))
      tracks.set(key, []);
    tracks.get(key).push({ name: e.name, start, end: start + toNs(e.dur) });
  }
  const found = [];
  for (const [track, slices] of tracks) {
    slices.sort((a, b) => a.start - b.start || b.end - a.end);
    const open = [];
    for (const s of slices) {
      while (open.length && open.at(-1).end <= s.start)
        open.pop();
      const outer = open.at(-1);
      if (outer && s.end > outer.end)
        found.push({ track, first: outer, second: s, by_ns: outer.end - s.start });
      open.push(s);
    }
  }
  return found;
}

// The arrows that have both ends in slices, but one of them in a slice that the importer nests in an earlier one,
// in which it does not look for it: their ids.
function findRounded(tr, events) {
  const toMs = (us) => tr.b.Unit.timestampFromUs(us);
  const roundedLess = tr.b.TimeDisplayModes.ms.roundedLess;
  const tracks = new Map();
  const track = (e) => {
    const key = `${e.pid}/${e.tid}`;
    if (!tracks.has(key))
      tracks.set(key, { slices: [], ends: [] });
    return tracks.get(key);
  };
  for (const e of events) {
    if (e.ph === 'X')
      track(e).slices.push({ start: toMs(e.ts), end: toMs(e.ts) + toMs(e.dur) });
    else if (isThreadInstant(e))
      track(e).slices.push({ start: toMs(e.ts), end: toMs(e.ts), instant: true });
    else if (e.ph === 's' || (e.ph === 'f' && e.bp === 'e'))
      track(e).ends.push({ id: e.id, ts: toMs(e.ts) });
  }
  const found = new Set();
  for (const { slices, ends } of tracks.values()) {
    if (!ends.length)
      continue;
    slices.sort((a, b) => a.start - b.start); // stable: in the order of the file
    const tops = [];
    const open = [];
    for (const s of slices) {
      while (open.length && roundedLess(open.at(-1).end, s.end))
        open.pop();
      if (!open.length)
        tops.push(s);
      open.push(s);
    }
    const holds = (s, ts) => s && s.start <= ts && ts <= s.end;
    for (const { id, ts } of ends) {
      let low = 0;
      for (let high = tops.length; low < high;) {
        const middle = (low + high) >> 1;
        if (tops[middle].start < ts)
          low = middle + 1;
        else
          high = middle;
      }
      if (!holds(tops[low - 1], ts) && !holds(tops[low], ts) &&
          slices.some((s) => !s.instant && holds(s, ts)))
        found.add(id);
    }
  }
  return found;
}

function countBy(counts, key) {
  counts[key] = (counts[key] || 0) + 1;
}

function summarizeModel(model) {
  const sum = {
    processes: 0, threads: 0, slices: 0, unfinished: 0, max_depth: 0, async_slices: 0,
    counters: 0, counter_samples: 0, flows: model.flowEvents.length,
    counts: {}, thread_detail: {},
  };
  const depth = (s) => 1 + Math.max(0, ...(s.subSlices || []).map(depth));
  for (const process of Object.values(model.processes)) {
    sum.processes++;
    for (const counter of Object.values(process.counters)) {
      sum.counters++;
      sum.counter_samples += counter.numSamples;
    }
    for (const thread of Object.values(process.threads)) {
      sum.threads++;
      sum.slices += thread.sliceGroup.length;
      for (const s of thread.sliceGroup.slices) {
        if (s.didNotFinish)
          sum.unfinished++;
        countBy(sum.counts[s.category] ||= {}, s.title);
      }
      for (const s of thread.sliceGroup.topLevelSlices)
        sum.max_depth = Math.max(sum.max_depth, depth(s));
      for (const _ of thread.asyncSliceGroup.getDescendantEvents())
        sum.async_slices++;
      sum.thread_detail[`${process.pid}/${thread.tid}`] = {
        process: process.name || null, name: thread.name || null,
        slices: thread.sliceGroup.length, async: thread.asyncSliceGroup.length,
      };
    }
  }
  return sum;
}

function checkFile(tr, file) {
  const began = performance.now();
  const result = { file: path.basename(file), threw: null };
  let text;
  let model;
  try {
    text = readTrace(file);
    model = new tr.Model();
    new tr.importer.Import(model, new tr.importer.ImportOptions()).importTraces([text]);
  } catch (e) {
    result.threw = String((e && e.message) || e);
    return result;
  }
  const events = parseEvents(text);
  const overlaps = findOverlaps(events);
  const instants = {};
  const phases = {};
  for (const e of events) {
    countBy(phases, e.ph);
    if (e.ph === 'i' || e.ph === 'I')
      countBy(instants, e.name);
  }
  Object.assign(result, summarizeModel(model));
  // B and E make slices as well, but how many depends on their pairing
  const expected = events.filter((e) => e.ph === 'X' || isThreadInstant(e)).length;
  result.missing = phases.B || phases.E ? 0 : expected - result.slices;
  const rounded = phases.B || phases.E ? new Set() : findRounded(tr, events);
  result.arrows_rounded = rounded.size;
  let warnings = model.importWarnings;
  if (rounded.size && result.flows === (phases.s || 0) - rounded.size)
    warnings = warnings.filter((w) => !(/^flow_slice_(start|end|ordering)_error$/.test(w.type) &&
      rounded.has(Number(/\bid:? (\d+)\b/.exec(w.message)?.[1]))));
  Object.assign(result, {
    phases, instants,
    bounds_ms: model.bounds.isEmpty ? null : [model.bounds.min, model.bounds.max],
    overlaps: overlaps.length, first_overlaps: overlaps.slice(0, 5),
    warnings: warnings.length,
    import_warnings: warnings.slice(0, 10).map(({ type, message }) => ({ type, message })),
    import_ms: Math.round(performance.now() - began),
  });
  return result;
}

function exitCode(result) {
  if (result.threw)
    return 1;
  if (result.warnings)
    return 3;
  return result.overlaps || result.missing ? 4 : 0;
}

const known = ['--brief', '--counts'];
const flags = process.argv.slice(2).filter((a) => a.startsWith('--'));
const files = process.argv.slice(2).filter((a) => !a.startsWith('--'));
if (!files.length || flags.some((f) => !known.includes(f)))
  die('usage: check_chrome_trace.mjs [--brief | --counts] TRACE.json[.gz] ...');
const tr = loadCatapult();
const codes = new Set();
for (const file of files) {
  const result = checkFile(tr, file);
  const code = exitCode(result);
  codes.add(code);
  if (flags.includes('--counts')) {
    if (code) {
      const why = result.threw || (result.import_warnings[0] || result.first_overlaps[0]) ||
        `${result.missing} slices missing from the model`;
      own.error(`check_chrome_trace: ${file}: ${typeof why === 'string' ? why : JSON.stringify(why)}`);
    }
    own.log(JSON.stringify(result.counts || null));
    continue;
  }
  delete result.counts;
  if (flags.includes('--brief'))
    delete result.thread_detail;
  own.log(JSON.stringify(result));
}
process.exit([1, 3, 4].find((c) => codes.has(c)) || 0);
