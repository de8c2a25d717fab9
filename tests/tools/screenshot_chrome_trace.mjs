#!/usr/bin/env node
// SPDX-License-Identifier: BSD-2-Clause
//
// A picture of a trace as chrome://tracing shows it: the viewer itself (Catapult, as the Go source
// tree carries it) in a headless Chromium.
//
// usage: screenshot_chrome_trace.mjs [option]... TRACE.json[.gz] PICTURE.png
//   --from MS, --to MS  the range to show, counted from the first event; default: all of it
//   --hide REGEX        processes (by the name in the viewer) that are left out
//   --collapse REGEX    processes and threads that are folded to one row
//   --expand REGEX      processes and threads that are unfolded, after --collapse
//   --select NAME       select the longest slice of this name that begins in the range: its
//                       arguments stand below the tracks, which otherwise take all the space
//   --flows             draw the arrows of all categories
//   --size WxH          default 1600x900
// needs: Debian packages chromium, golang-1.19-src (or TRACE_VIEWER_DIR), nodejs; npm playwright-core
//        in ./node_modules or NODE_PATH; CHROMIUM names another browser
// exit:  0 done; 1 the importer or the page threw; 2 usage, or something needed is not there;
//        3 done, with import warnings (on stderr)

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';

const STATIC = process.env.TRACE_VIEWER_DIR || '/usr/share/go-1.19/src/cmd/trace/static';
const BROWSER = process.env.CHROMIUM || '/usr/bin/chromium';
const ORIGIN = 'http://viewer.invalid'; // answered here, never looked up
const PAGE = `<!DOCTYPE html><html><head><script src="/webcomponents.min.js"></script><script>
window.viewerReady = new Promise((resolve, reject) => {
  const link = document.createElement('link');
  link.rel = 'import';
  link.href = '/trace_viewer_full.html';
  link.onload = () => resolve();
  link.onerror = () => reject(new Error('the viewer did not load'));
  document.head.appendChild(link);
});
</script><style>html, body, #view { margin: 0; width: 100%; height: 100%; font-size: 12px; }</style></head>
<body></body></html>`;

function die(text) {
  console.error(`screenshot_chrome_trace: ${text}`);
  process.exit(2);
}

function parseCommandLine() {
  const text = { type: 'string' };
  let parsed;
  try {
    parsed = parseArgs({
      allowPositionals: true,
      options: {
        from: text, to: text, hide: text, collapse: text, expand: text, select: text,
        size: { type: 'string', default: '1600x900' }, flows: { type: 'boolean', default: false },
      },
    });
  } catch (e) {
    die(e.message);
  }
  const options = parsed.values;
  const size = /^(\d+)x(\d+)$/.exec(options.size);
  if (parsed.positionals.length !== 2 || !size)
    die('usage: screenshot_chrome_trace.mjs [option]... TRACE.json[.gz] PICTURE.png (see its head)');
  for (const key of ['from', 'to']) {
    if (options[key] === undefined)
      continue;
    options[key] = Number(options[key]);
    if (Number.isNaN(options[key]))
      die(`--${key}: not a number of milliseconds`);
  }
  const [trace, picture] = parsed.positionals;
  return { options, trace, picture, width: Number(size[1]), height: Number(size[2]) };
}

function loadPlaywright() {
  const from = createRequire(path.join(process.cwd(), 'x.js'));
  for (const req of [createRequire(import.meta.url), from]) {
    try {
      return req('playwright-core');
    } catch { /* not there */ }
  }
  return die('playwright-core not found: npm install playwright-core');
}

// Runs in the page: imports the trace and puts the viewer on the page.
async function openTrace({ gzip, title }) {
  await window.viewerReady;
  const buffer = await (await fetch('/trace')).arrayBuffer();
  const model = new tr.Model();
  new tr.importer.Import(model, new tr.importer.ImportOptions())
    .importTraces([gzip ? buffer : new TextDecoder().decode(buffer)]);
  const container = document.createElement('track-view-container');
  container.id = 'track_view_container';
  const view = document.createElement('tr-ui-timeline-view');
  view.track_view_container = container;
  Polymer.dom(view).appendChild(container);
  view.id = 'view';
  view.globalMode = true;
  Polymer.dom(document.body).appendChild(view);
  view.model = model;
  view.viewTitle = title;
  await view.builtPromise;
  return model.importWarnings.map((w) => `${w.type}: ${w.message}`);
}

// Runs in the page: what is shown of it. The viewer sets its own range once it stands on the page,
// so this comes a moment later.
function arrange({ from, to, hide, collapse, expand, select, flows }) {
  const view = document.getElementById('view');
  const { model, trackView } = view;
  const { viewport } = trackView;
  // the polyfill of web components returns lists that are not iterable
  const all = (selector) => Array.prototype.slice.call(document.querySelectorAll(selector));
  const min = from === undefined ? model.bounds.min : from;
  const max = to === undefined ? model.bounds.max : to;

  for (const selector of ['tr-ui-b-mouse-mode-selector', 'tr-ui-side-panel-container',
    'tr-ui-b-info-bar-group', '#import-warnings', '#control > #right-controls',
    'tr-ui-timeline-view-side-panel-container'])
    for (const e of all(selector))
      e.style.display = 'none';
  if (select === undefined)
    for (const e of all('tr-ui-b-drag-handle, tr-ui-a-analysis-view'))
      e.style.display = 'none';

  const fold = (pattern, expanded) => {
    if (pattern === undefined)
      return;
    const regex = new RegExp(pattern);
    for (const process of trackView.processViews)
      if (regex.test(process.processBase.userFriendlyName))
        process.expanded = expanded;
    for (const track of all('.slice-group-track, .multi-row-track'))
      if (regex.test(track.heading))
        track.expanded = expanded;
  };
  if (hide !== undefined)
    for (const process of trackView.processViews)
      if (new RegExp(hide).test(process.processBase.userFriendlyName))
        process.visible = false;
  fold(collapse, false);
  fold(expand, true);

  let selected = null;
  if (select !== undefined) {
    for (const slice of model.getDescendantEvents())
      if (slice.title === select && slice.start >= min && slice.start <= max &&
          (!selected || slice.duration > selected.duration))
        selected = slice;
    if (!selected)
      throw new Error(`--select: no slice ${select} begins in the range`);
    view.brushingStateController.changeSelectionFromTimeline(new tr.model.EventSet([selected]));
  }
  if (flows)
    viewport.selectedFlowEvents = new Set(model.flowEvents.map((f) => f.category));
  const transform = viewport.currentDisplayTransform.clone();
  const margin = (max - min) * 0.01;
  transform.xSetWorldBounds(min - margin, max + margin, viewport.modelTrackContainer.canvas.width);
  viewport.setDisplayTransformImmediately(transform);
}

const { options, trace, picture, width, height } = parseCommandLine();
const playwright = loadPlaywright();
let raw;
try {
  raw = fs.readFileSync(trace);
  fs.accessSync(path.join(STATIC, 'trace_viewer_full.html'));
  fs.accessSync(BROWSER, fs.constants.X_OK);
} catch (e) {
  die(e.message);
}
const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'screenshot-'));
const browser = await playwright.chromium.launchPersistentContext(profile, {
  executablePath: BROWSER, headless: true, viewport: { width, height },
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});
let rc = 0;
try {
  const page = await browser.newPage();
  page.on('pageerror', (e) => {
    console.error(`screenshot_chrome_trace: page: ${e.message.slice(0, 300)}`);
    rc = 1;
  });
  await page.route('**/*', (route) => {
    const url = new URL(route.request().url());
    if (url.origin !== ORIGIN)
      return route.abort();
    if (url.pathname === '/')
      return route.fulfill({ contentType: 'text/html', body: PAGE });
    if (url.pathname === '/trace')
      return route.fulfill({ contentType: 'application/octet-stream', body: raw });
    return route.fulfill({ path: path.join(STATIC, path.basename(url.pathname)) });
  });
  await page.goto(`${ORIGIN}/`);
  const warnings = await page.evaluate(openTrace,
    { gzip: raw[0] === 0x1f && raw[1] === 0x8b, title: path.basename(trace) });
  await page.waitForTimeout(1000);
  await page.evaluate(arrange, options);
  await page.waitForTimeout(1000);
  await page.screenshot({ path: picture });
  for (const warning of warnings.slice(0, 10))
    console.error(`screenshot_chrome_trace: import warning: ${warning}`);
  if (warnings.length && !rc)
    rc = 3;
} catch (e) {
  console.error(`screenshot_chrome_trace: ${e.message.split('\n')[0]}`);
  rc = 1;
} finally {
  await browser.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
process.exit(rc);
