#!/usr/bin/env node
// SPDX-License-Identifier: BSD-2-Clause
//
// Opens a page that stands on its own in a headless Chromium and says what is wrong with it: errors
// on the console, exceptions, anything that it tries to load, horizontal scrolling, backticks.
//
// usage: check_page.mjs [option]... PAGE.html
//   --size WxH         default 1200x900
//   --dark             prefers-color-scheme: dark
//   --picture FILE     a PNG of the whole page; --view: of what is seen without scrolling
//   --eval EXPRESSION  printed as JSON once the page is loaded
// needs: Debian packages chromium and nodejs; CHROMIUM names another browser
// prints: "loaded in N ms" and the value of the expression
// exit:  0 nothing is wrong; 1 something is (on stderr); 2 usage, or no browser

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const BROWSER = process.env.CHROMIUM || '/usr/bin/chromium';

function die(text) {
  console.error(`check_page: ${text}`);
  process.exit(2);
}

function parseCommandLine() {
  const text = { type: 'string' }, flag = { type: 'boolean', default: false };
  let parsed;
  try {
    parsed = parseArgs({
      allowPositionals: true,
      options: { size: { type: 'string', default: '1200x900' }, dark: flag, view: flag, picture: text, eval: text },
    });
  } catch (e) {
    die(e.message);
  }
  const size = /^(\d+)x(\d+)$/.exec(parsed.values.size);
  if (parsed.positionals.length !== 1 || !size)
    die('usage: check_page.mjs [option]... PAGE.html (see its head)');
  return { ...parsed.values, file: parsed.positionals[0], width: Number(size[1]), height: Number(size[2]) };
}

// The DevTools protocol over the pipes 3 and 4: JSON texts, each followed by a NUL.
class Browser {
  constructor(profile) {
    this.process = spawn(BROWSER, ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync',
      '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank'],
    { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    this.waiting = new Map();
    this.last = 0;
    this.onEvent = () => {};
    let rest = '';
    this.process.stdio[4].on('data', (chunk) => {
      const parts = (rest + chunk).split('\0');
      rest = parts.pop();
      for (const part of parts)
        this.receive(JSON.parse(part));
    });
    this.closed = new Promise((resolve) => {
      this.process.on('error', resolve);
      this.process.on('exit', resolve);
    });
    this.gone = this.closed.then((why) => {
      throw why instanceof Error ? why : new Error('the browser ended');
    });
    this.gone.catch(() => {});
    this.process.stdio[3].on('error', () => {});
  }

  receive(message) {
    if (message.id === undefined) {
      this.onEvent(message.method, message.params);
      return;
    }
    const { resolve, reject } = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.error)
      reject(new Error(message.error.message));
    else
      resolve(message.result);
  }

  send(method, params = {}) {
    const id = ++this.last;
    const answer = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: this.session })}\0`);
    return Promise.race([answer, this.gone]);
  }

  // Its own end, since it takes its children with it and writes its profile until then.
  async end() {
    const timer = setTimeout(() => this.process.kill('SIGKILL'), 5000);
    this.session = undefined;
    await this.send('Browser.close').catch(() => {});
    await this.closed;
    clearTimeout(timer);
  }
}

async function check(browser, options) {
  const wrong = [], url = pathToFileURL(path.resolve(options.file)).href;
  const { targetInfos } = await browser.send('Target.getTargets');
  const { targetId } = targetInfos.find((t) => t.type === 'page');
  browser.session = (await browser.send('Target.attachToTarget', { targetId, flatten: true })).sessionId;

  const loaded = new Promise((resolve) => {
    browser.onEvent = (method, params) => {
      if (method === 'Page.loadEventFired')
        resolve();
      else if (method === 'Runtime.exceptionThrown')
        wrong.push(`exception: ${params.exceptionDetails.exception?.description ?? params.exceptionDetails.text}`);
      else if (method === 'Runtime.consoleAPICalled' && /error|warning|assert/.test(params.type))
        wrong.push(`console: ${params.args.map((a) => a.value ?? a.description).join(' ')}`);
      else if (method === 'Log.entryAdded' && /error|warning/.test(params.entry.level))
        wrong.push(`log: ${params.entry.text} ${params.entry.url ?? ''}`);
      else if (method === 'Network.requestWillBeSent' && params.request.url !== url &&
          !params.request.url.startsWith('data:'))
        wrong.push(`it loads ${params.request.url}`);
      else if (method === 'Network.loadingFailed')
        wrong.push(`loading failed: ${params.errorText}`);
      else if (method === 'Page.javascriptDialogOpening')
        wrong.push(`dialog: ${params.message}`);
    };
  });
  for (const domain of ['Page', 'Runtime', 'Log', 'Network'])
    await browser.send(`${domain}.enable`);
  await browser.send('Emulation.setDeviceMetricsOverride', {
    width: options.width, height: options.height, deviceScaleFactor: 1, mobile: options.width < 600,
  });
  await browser.send('Emulation.setScrollbarsHidden', { hidden: true });
  await browser.send('Emulation.setEmulatedMedia', {
    features: [{ name: 'prefers-color-scheme', value: options.dark ? 'dark' : 'light' }],
  });
  const start = performance.now();
  await browser.send('Page.navigate', { url });
  await Promise.race([loaded, browser.gone]);
  const evaluate = async (expression) => {
    const { result, exceptionDetails } = await browser.send('Runtime.evaluate',
      { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails)
      throw new Error(`--eval: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  };
  // two frames: what is drawn when sizes are known is there as well
  await evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
  console.log(`loaded in ${Math.round(performance.now() - start)} ms`);
  if (await evaluate('document.body.innerText.includes("`")'))
    wrong.push('a backtick is shown');
  const width = await evaluate('document.documentElement.scrollWidth');
  if (width > options.width)
    wrong.push(`it scrolls sideways: ${width} pixels on a screen of ${options.width}`);
  if (options.eval !== undefined)
    console.log(JSON.stringify(await evaluate(options.eval)));
  if (options.picture !== undefined) {
    const { data } = await browser.send('Page.captureScreenshot', { captureBeyondViewport: !options.view });
    fs.writeFileSync(options.picture, Buffer.from(data, 'base64'));
  }
  return wrong;
}

const options = parseCommandLine();
try {
  fs.accessSync(BROWSER, fs.constants.X_OK);
  fs.accessSync(options.file);
} catch (e) {
  die(e.message);
}
const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'check-page-'));
const browser = new Browser(profile);
let rc = 1;
try {
  const wrong = await check(browser, options);
  for (const text of wrong)
    console.error(`check_page: ${text}`);
  rc = wrong.length ? 1 : 0;
} catch (e) {
  console.error(`check_page: ${e.message}`);
} finally {
  await browser.end();
  fs.rmSync(profile, { recursive: true, force: true });
}
process.exit(rc);
