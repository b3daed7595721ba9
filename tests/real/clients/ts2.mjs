// The TypeScript SDK v2 as a client: runs a plan against URL and prints what it saw as one JSON line.
// Modes: `auto` (probes for 2026-07-28, falls back), `pinned` (takes 2026-07-28 only, never falls back) and `legacy` (the initialize handshake).
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { CAN_ANSWER, formAnswer, modelAnswer, parseArguments, rootsAnswer, runPlan } from './common.mjs';

const options = parseArguments(process.argv.slice(2));
const capabilities = options.plan.extra ? CAN_ANSWER : {};
const about = { name: 'smartgate-real-ts2', version: '1.0.0' };
const mode = options.mode === 'pinned' ? { pin: '2026-07-28' } : options.mode;
const client = new Client(about, { capabilities, versionNegotiation: { mode } });
if (options.plan.extra) {
  client.setRequestHandler('elicitation/create', formAnswer);
  client.setRequestHandler('sampling/createMessage', modelAnswer);
  client.setRequestHandler('roots/list', rootsAnswer);
}
// A stream's own path means HTTP+SSE, the transport of 2024-11-05.
const Transport = options.url.includes('/sse') ? SSEClientTransport : StreamableHTTPClientTransport;
const transport = new Transport(new URL(options.url), { requestInit: { headers: options.headers } });
await client.connect(transport);
const heard = new Set();
for (const kind of ['message', 'resources/updated', 'resources/list_changed', 'tools/list_changed']) {
  client.setNotificationHandler(`notifications/${kind}`, () => void heard.add(kind));
}
const legacy = client.getProtocolEra() === 'legacy';
let listening;
const watch = async uris => {
  if (legacy) for (const uri of uris) await client.subscribeResource({ uri });
  else listening = await client.listen({ toolsListChanged: true, resourcesListChanged: true, resourceSubscriptions: uris });
};
const level = async name => {
  if (legacy) return void await client.setLoggingLevel(name);
  return { _meta: { 'io.modelcontextprotocol/logLevel': name } };
};
const callTool = (params, requestOptions) => client.callTool(params, requestOptions);
// `listTools` would put the pages together.
const page = params => client.request({ method: 'tools/list', params });
const seen = await runPlan(client, callTool, options.plan, client.getNegotiatedProtocolVersion(), { level, watch, heard }, page);
await listening?.close();
if (legacy) await transport.terminateSession?.();
await client.close();
console.log(JSON.stringify(seen));
