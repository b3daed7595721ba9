// What both TypeScript-SDK clients share: the command line and the walk through the plan.
// TLS trust comes from NODE_EXTRA_CA_CERTS, which the runner sets.

import { setTimeout as sleep } from 'node:timers/promises';

export function parseArguments(argv) {
  const [url, ...rest] = argv;
  const options = { url, mode: 'auto', plan: null, key: null };
  for (let i = 0; i < rest.length; i += 2) {
    options[rest[i].replace(/^--/, '')] = rest[i + 1];
  }
  options.plan = JSON.parse(options.plan);
  options.headers = options.key ? { authorization: `Bearer ${options.key}` } : {};
  return options;
}

const toolText = result => result.content.filter(part => part.type === 'text').map(part => part.text).join('');

/** Calls a tool that does not end and aborts at the first progress report. */
async function cancelledCall(callTool, [name, args]) {
  const controller = new AbortController();
  try {
    await callTool({ name, arguments: args }, { signal: controller.signal, onprogress: () => controller.abort() });
    return false;
  } catch (error) {
    if (!controller.signal.aborted) throw error;
    return true;
  }
}

/** What a client that can be asked answers. */
export const CAN_ANSWER = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
export const formAnswer = async ({ params }) =>
  params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { name: 'Ada' } };
export const rootsAnswer = async () => ({ roots: [{ uri: 'file:///home/ada', name: 'ada' }] });
export const modelAnswer = async () => ({ role: 'assistant', content: { type: 'text', text: 'sampled' }, model: 'test' });

/** Calls each tool of the plan's `extra`; what goes wrong in one step does not end the others. */
async function walkExtra(call, extra) {
  const seen = {};
  for (const [step, tool] of Object.entries(extra)) {
    try {
      const result = await call(tool);
      seen[step] = { text: toolText(result), structured: result.structuredContent ?? null, error: result.isError === true };
    } catch (error) {
      seen[step] = { failed: String(error) };
    }
  }
  return seen;
}

/** How long news may take. */
const PATIENCE_MS = 8000;

/** Subscribes, and in each round lets the server change, and tells what came of it: the names of the notices, and the
 * texts of the calls. `level` sets how much is logged, or gives what the calls have to say of it. */
async function noticesOf(callTool, { uris, rounds }, { level, watch, heard }) {
  const seen = [];
  await level(rounds[0].level);
  await watch(uris);
  for (const { level: wantedLevel, calls, wanted } of rounds) {
    heard.clear();
    const more = await level(wantedLevel);
    const texts = [];
    for (const [name, args] of calls) texts.push(toolText(await callTool({ name, arguments: args, ...more })));
    for (let waited = 0; waited < PATIENCE_MS && !wanted.every(kind => heard.has(kind)); waited += 20) await sleep(20);
    seen.push({ heard: [...heard].sort(), texts });
  }
  return seen;
}

/** The names of the tools, page by page; `page` gives the page at a cursor. */
async function pagesOf(page) {
  const pages = [];
  let cursor;
  do {
    const { tools, nextCursor } = await page(cursor === undefined ? {} : { cursor });
    pages.push(tools.map(tool => tool.name));
    cursor = nextCursor;
  } while (cursor !== undefined);
  return pages;
}

/** Runs the plan; `callTool(params, options)` hides how the two SDK generations differ, and so does
 * `notices`: what was `heard` after `watch(uris)` and `level(name)`. `page` is one `tools/list`. */
export async function runPlan(client, callTool, plan, protocol, notices, page) {
  const pages = await pagesOf(page);
  const progress = [];
  const call = ([name, args], options) => callTool({ name, arguments: args }, options);
  const seen = {
    protocol,
    server: client.getServerVersion()?.name ?? null,
    pages: pages.length,
    tools: pages.flat(),
    echo: toolText(await call(plan.echo)),
  };
  if (plan.slow) Object.assign(seen, {
    // What has no total is the SDK's own report, of a question that the server asked meanwhile.
    counted: toolText(await call(plan.progress, { onprogress: p => p.total !== undefined && progress.push([p.progress, p.total]) })),
    progress,
    cancelled: await cancelledCall(callTool, plan.slow),
    echo_after: toolText(await call(plan.echo)),
  });
  if (plan.extra) seen.extra = await walkExtra(call, plan.extra);
  if (plan.read) seen.read = (await client.readResource({ uri: plan.read })).contents[0].text;
  if (plan.prompt) {
    const [name, args] = plan.prompt;
    seen.prompt = (await client.getPrompt({ name, arguments: args })).messages[0].content.text;
    const [ref, argument, value] = plan.completion;
    const { completion } = await client.complete({ ref: { type: 'ref/prompt', name: ref }, argument: { name: argument, value } });
    seen.completion = completion.values;
  }
  if (plan.notices) {
    seen.notices = await noticesOf(callTool, plan.notices, notices);
    seen.after = (await pagesOf(page)).flat();
  }
  return seen;
}
