// Walks the admin pages in a real browser: pages.mjs SCENARIO, with the places and secrets in the environment.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { accessible, call, check, fits, launch, open, shot, tool } from './browser.mjs';

const { ADMIN, MCP, KEY, CHROMIUM, ARTIFACTS, LOCKED, LOCKED_KEY, HOSTILE } = process.env;
const bearer = { authorization: `Bearer ${KEY}` };
const rows = page => page.locator('table.calls tbody tr');
/** Resolves when the page hears live calls. */
const live = page => page.locator('#live[data-state=live]').waitFor();

const scenarios = {
  /** Both pages at both widths, light and dark, a call's and the login at two of them: accessible, clean, not too wide. */
  async look(browser) {
    for (const [width, scheme] of [[360, 'light'], [360, 'dark'], [1280, 'light'], [1280, 'dark']]) {
      const { page, context, clean } = await open(browser, ADMIN, { width, scheme });
      const seen = async (at, name) => {
        await accessible(at);
        await fits(at);
        await shot(at, ARTIFACTS, `${name}-${width}-${scheme}`);
      };
      await page.goto('/activity');
      await live(page);
      await seen(page, 'activity');
      await page.goto('/connect?host=cursor');
      await seen(page, 'connect');
      if (['360 dark', '1280 light'].includes(`${width} ${scheme}`)) {
        await page.goto('/activity?tool=files__count&outcome=ok');
        await rows(page).filter({ hasText: 'schema_coercion' }).first().getByRole('link').click();
        await page.locator('pre.diff').first().waitFor();
        await seen(page, 'call');
        const login = await open(browser, LOCKED, { width, scheme });
        await login.page.goto('/activity');
        await seen(login.page, 'login');
        login.clean();
        await login.context.close();
      }
      clean();
      await context.close();
    }
  },

  /** A call shows up by itself, sums follow, filters hold for live calls too, and a row leads to its call. */
  async live(browser) {
    const { page, clean } = await open(browser, ADMIN);
    await page.goto('/activity');
    await live(page);
    const before = await rows(page).count();
    const sum = await page.locator('#sums dd').nth(1).textContent();
    await call(MCP, tool('files__echo', { message: 'live' }), { ...bearer, 'user-agent': 'live-one/1.0' });
    await rows(page).filter({ hasText: 'live-one 1.0' }).first().waitFor();
    check(await rows(page).count() > before, 'a live call is no row of its own');
    await page.waitForFunction(was => document.querySelectorAll('#sums dd')[1].textContent !== was, sum);

    await page.getByLabel('Tool or method').fill('smart_*');
    await page.getByLabel('Key', { exact: true }).selectOption('cursor-ada');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.waitForURL(/tool=smart_/);
    await live(page);
    await call(MCP, tool('files__echo', { message: 'not this' }), { ...bearer, 'user-agent': 'unseen/1' });
    await call(MCP, tool('smart_dedup', { texts: ['a', 'a'] }), { ...bearer, 'user-agent': 'seen/1' });
    await rows(page).filter({ hasText: 'seen 1' }).first().waitFor();
    check(await rows(page).filter({ hasText: 'unseen' }).count() === 0, 'the filter does not hold for live calls');
    for (const name of await rows(page).locator('th').allTextContents()) check(name.startsWith('smart_'), `row of ${name}`);

    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('#live[data-state=paused]').waitFor();
    const paused = await rows(page).count();
    await call(MCP, tool('smart_dedup', { texts: ['b', 'b'] }), bearer);
    await page.waitForTimeout(1000);
    check(await rows(page).count() === paused, 'a paused table goes on');
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.waitForFunction(n => document.querySelectorAll('table.calls tbody tr').length > n, paused);

    await rows(page).first().getByRole('link').click();
    await page.getByRole('heading', { name: 'smart_dedup' }).waitFor();
    await page.getByText('Where the time went').waitFor();
    clean();
  },

  /** Everything is reached with the keyboard alone, and one sees where one is. */
  async keyboard(browser) {
    const { page, clean } = await open(browser, ADMIN);
    await page.goto('/activity');
    await live(page);
    const focus = () => page.evaluate(() => {
      const at = document.activeElement;
      const style = getComputedStyle(at);
      const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
      return { name: (at.getAttribute('aria-label') || at.labels?.[0]?.textContent || at.textContent).trim().slice(0, 40), tag: at.tagName, seen };
    });
    const walked = [];
    for (let step = 0; step < 60; step++) {
      await page.keyboard.press('Tab');
      const at = await focus();
      if (at.tag === 'BODY') break;
      check(at.seen, `no outline at ${at.tag} ${at.name}`);
      walked.push(at.name);
    }
    const wanted = ['Skip to content', 'Activity', 'Connect', 'Key', 'Tool or method', 'Upstream', 'Outcome', 'Filter', 'Pause', 'Calls, table'];
    const order = wanted.map(name => walked.indexOf(name));
    check(order.every((at, n) => at >= 0 && (n === 0 || at > order[n - 1])), `tab order: ${walked.join(' | ')}`);

    await page.goto('/activity');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    check(await page.evaluate(() => document.activeElement.id === 'main'), 'the skip link does not lead to the content');
    await page.getByRole('button', { name: 'Pause' }).focus();
    await page.keyboard.press('Space');
    await page.locator('#live[data-state=paused]').waitFor();
    await rows(page).first().getByRole('link').focus();
    await page.keyboard.press('Enter');
    await page.getByText('Where the time went').waitFor();
    await page.goto('/connect');
    await page.getByRole('link', { name: 'VS Code' }).focus();
    await page.keyboard.press('Enter');
    await page.getByText('.vscode/mcp.json').waitFor();
    clean();
  },

  /** The block is copied as it is, and the light turns green when that host's first call comes. */
  async connect(browser) {
    const { page, context, clean } = await open(browser, ADMIN);
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.goto('/connect?host=windsurf');
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByText('Copied.').waitFor();
    const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
    check(copied.mcpServers.smartgate.serverUrl === MCP, `copied ${JSON.stringify(copied)}`);
    check(copied.mcpServers.smartgate.headers.Authorization === 'Bearer YOUR_KEY', 'no place for the key');

    const light = page.locator('#light');
    check(await light.evaluate(l => l.classList.contains('waiting')), 'green before anybody called');
    await call(MCP, tool('files__echo', { message: 'x' }), { authorization: 'Bearer wrong' });
    await page.getByText('A call was turned away').waitFor();
    check(await light.evaluate(l => l.classList.contains('waiting')), 'green by a call that was turned away');
    await realClient('somebody-else');
    await page.waitForTimeout(500);
    check(await light.evaluate(l => l.classList.contains('waiting')), 'green by another host');
    await realClient('windsurf-client');
    await page.locator('#light.good').waitFor();
    await page.getByText('Connected.').waitFor();
    await accessible(page);
    await shot(page, ARTIFACTS, 'connected-1280-light');
    await page.reload();
    await page.locator('#light.good').waitFor();

    // By a key, whatever the host calls itself.
    await page.goto('/connect?host=openclaw');
    check(await light.evaluate(l => l.classList.contains('waiting')), 'green by another host');
    await page.getByLabel('Recognise it by').selectOption('cursor-ada');
    await page.getByRole('button', { name: 'Use' }).click();
    await page.locator('#light.good').waitFor();
    clean();
  },

  /** Without scripts both pages can be read, and the filter works. */
  async noscript(browser) {
    const { page, clean } = await open(browser, ADMIN, { scripts: false });
    await page.goto('/activity');
    check(await rows(page).count() > 5, 'no rows without scripts');
    check(await page.locator('svg.large rect').count() > 0, 'no plots without scripts');
    await page.getByLabel('Outcome').selectOption('rejected');
    await page.getByRole('button', { name: 'Filter' }).click();
    for (const state of await rows(page).locator('.state').allTextContents()) check(state === 'rejected', `a row is ${state}`);
    await page.goto('/connect?host=vscode');
    check((await page.locator('#block').textContent()).includes(MCP), 'no block without scripts');
    check(!await page.getByRole('button', { name: 'Copy' }).isVisible(), 'a button that does nothing is shown');
    await shot(page, ARTIFACTS, 'noscript-1280-light');
    clean();
  },

  /** Names that clients and the configuration give are text, whatever is in them: served, live, and in attributes. */
  async hostile(browser) {
    const { page, clean } = await open(browser, ADMIN);
    await page.goto('/activity');
    await live(page);
    const agent = { authorization: `Bearer ${HOSTILE}`, 'mcp-protocol-version': '2025-11-25' };
    const names = ['<img src=x onerror=alert(1)>', '"><script>alert(2)</script>', "' onmouseover='alert(3)", '</template></textarea><svg onload=alert(4)>'];
    for (const name of names) {
      await call(MCP, { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name, version: name } } }, agent);
      await call(MCP, tool(name, { [name]: name }), agent);
      await call(MCP, { jsonrpc: '2.0', id: name, method: name, params: [name] }, agent);
    }
    await rows(page).filter({ hasText: names[3] }).first().waitFor();
    const intact = async () => {
      const found = await page.evaluate(() => document.querySelectorAll('img, script:not([src]), [onerror], [onload], [onmouseover], main svg[onload]').length);
      check(found === 0, `markup of a client's is in ${page.url()}`);
    };
    await intact();
    await page.reload();
    await live(page);
    await intact();
    await accessible(page);
    await shot(page, ARTIFACTS, 'hostile-1280-light');
    for (let n = 0; n < 4; n++) {
      await page.goto('/activity?key=' + encodeURIComponent('<script>alert(5)</script>') + '&tool=' + encodeURIComponent('"><img src=x onerror=alert(6)>'));
      await intact();
    }
    await page.goto('/activity');
    await rows(page).filter({ hasText: names[1] }).first().getByRole('link').click();
    await page.getByText('Where the time went').waitFor();
    await intact();
    await page.goto('/connect?host=generic&key=' + encodeURIComponent('"><script>alert(7)</script>'));
    await intact();
    clean();
  },

  /** Where there is a key, it is asked for. */
  async login(browser) {
    const { page, context, clean } = await open(browser, LOCKED, { expected: /status of 401/ });
    await page.goto('/connect?host=vscode');
    await page.getByRole('heading', { name: 'Log in' }).waitFor();
    await page.getByLabel('Admin key').fill('not the key');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    await accessible(page);
    await page.getByLabel('Admin key').fill(LOCKED_KEY);
    await page.keyboard.press('Enter');
    await page.waitForURL(/connect\?host=vscode/);
    const [cookie] = await context.cookies();
    check(cookie.httpOnly && cookie.sameSite === 'Strict', `cookie: ${JSON.stringify(cookie)}`);
    await page.goto('/activity');
    await live(page);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in' }).waitFor();
    check((await page.goto('/activity')).url().includes('/login'), 'logged out and still in');
    clean();
  },
};

/** A client of the official SDK that greets, lists the tools and calls one. */
async function realClient(name) {
  const client = new Client({ name, version: '9.9.9' });
  await client.connect(new StreamableHTTPClientTransport(new URL(MCP), { requestInit: { headers: bearer } }));
  await client.listTools();
  await client.close();
}

const browser = await launch(CHROMIUM);
try {
  await scenarios[process.argv[2]](browser);
} catch (error) {
  console.error(error.stack ?? error);
  process.exitCode = 1;
} finally {
  await browser.close();
}
