// A headless Chromium (the system's own) whose pages must be clean: no error in the console, nothing against the policy,
// nothing asked of another place.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const WAIT = 15_000;

export function check(condition, message) {
  if (!condition) throw new Error(message);
}

export async function launch(executablePath) {
  // The sandbox needs rights that containers of CI do not give.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
}

/** A page at `base`, with what went wrong on it in `faults`. `expected` matches console errors that the test causes. */
export async function open(browser, base, { width = 1280, height = 900, scheme = 'light', scripts = true, expected = null } = {}) {
  const context = await browser.newContext({
    baseURL: base, viewport: { width, height }, colorScheme: scheme, javaScriptEnabled: scripts, reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  const faults = [];
  page.on('console', message => {
    if (['error', 'warning'].includes(message.type()) && !expected?.test(message.text())) faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', error => faults.push(`script: ${error.message}`));
  page.on('dialog', dialog => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', request => {
    if (new URL(request.url()).origin !== new URL(base).origin) faults.push(`outside request: ${request.url()}`);
  });
  if (scripts) {
    await page.exposeFunction('reportViolation', text => faults.push(`policy: ${text}`));
    await page.addInitScript(() => document.addEventListener('securitypolicyviolation', event => {
      window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    }));
  }
  return { context, page, faults, clean: () => check(faults.length === 0, `faults on ${page.url()}: ${faults.join('; ')}`) };
}

/** What axe-core finds: no fault may be serious or critical; the rest is printed. */
export async function accessible(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const line = v => `${v.impact} ${v.id}: ${v.nodes.slice(0, 3).map(n => n.target.join(' ')).join(', ')}`;
  const bad = violations.filter(v => ['serious', 'critical'].includes(v.impact));
  check(bad.length === 0, `axe on ${page.url()}: ${bad.map(line).join('; ')}`);
  violations.forEach(v => console.log(`axe, below serious, on ${page.url()}: ${line(v)}`));
}

/** Nothing may be wider than the window. */
export async function fits(page) {
  const [has, may] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  check(has <= may, `${page.url()} is ${has} px wide in ${may}`);
}

export async function shot(page, folder, name) {
  await page.screenshot({ path: path.join(folder, `${name}.png`), fullPage: true });
}

/** POSTs a message to the gateway; extra headers over the usual ones. */
export async function call(endpoint, message, headers = {}) {
  const answer = await fetch(endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: typeof message === 'string' ? message : JSON.stringify(message),
  });
  await answer.text();
  return answer.status;
}

export const tool = (name, args, id = 1) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args } });
