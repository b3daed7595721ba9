// The TypeScript SDK v2 as the client that the conformance suite drives (its `client` mode). The suite names the scenario
// in the environment, gives the URL of its own server, and judges what arrives there. SMARTGATE_CLIENT_MODE makes it a client of
// another era than the suite's server, for runs with a gateway in between.
import { setTimeout as sleep } from 'node:timers/promises';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const serverMode = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION === '2026-07-28' ? 'auto' : 'legacy';
const mode = process.env.SMARTGATE_CLIENT_MODE ?? serverMode;
const capabilities = { elicitation: { form: { applyDefaults: true } } };

const client = new Client({ name: 'smartgate-conformance', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: {} }));
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

const firstTool = async args => {
  const { tools } = await client.listTools();
  if (tools.length > 0) await client.callTool({ name: tools[0].name, arguments: args });
};

/** Calls each of these; what one answers decides nothing about the next. */
const callAll = async calls => {
  for (const call of calls) await client.callTool(call).catch(() => {});
};

const scenarios = {
  initialize: () => client.listTools(),
  tools_call: () => firstTool({ a: 2, b: 3 }),
  'request-metadata': () => client.listTools(),
  'elicitation-sep1034-client-defaults': () => firstTool({}),
  'json-schema-2020-12-preservation': async () => {
    const { tools } = await client.listTools();
    const schema = tools.find(tool => tool.name === 'json_schema_2020_12_tool').inputSchema;
    await client.callTool({ name: 'json_schema_echo', arguments: { schema } });
  },
  'json-schema-ref-no-deref': () => client.listTools(),
  'http-standard-headers': async () => {
    const { tools } = await client.listTools();
    await callAll(tools.map(({ name }) => ({ name, arguments: {} })));
    const { resources } = await client.listResources();
    for (const { uri } of resources) await client.readResource({ uri });
    const { prompts } = await client.listPrompts();
    for (const { name } of prompts) await client.getPrompt({ name });
  },
  'http-custom-headers': async () => {
    await client.listTools();
    await callAll(JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT).toolCalls);
  },
  // It is to call whatever it was shown, so that the suite sees what was hidden from it.
  'http-invalid-tool-headers': async () => {
    const { tools } = await client.listTools();
    await callAll(tools.map(({ name }) => ({ name, arguments: { region: 'us-west1' } })));
  },
  'sep-2322-client-request-state': async () => {
    const { tools } = await client.listTools();
    await callAll(tools.map(({ name }) => ({ name, arguments: {} })));
  },
  'sse-retry': async () => {
    await firstTool({});
    await sleep(500); // the suite watches when the client comes back
  },
};
await scenarios[scenario]();
await client.close();
