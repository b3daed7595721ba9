// The TypeScript SDK v1 as a client: runs a plan against URL and prints what it saw as one JSON line.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { CAN_ANSWER, formAnswer, modelAnswer, parseArguments, rootsAnswer, runPlan } from './common.mjs';

const options = parseArguments(process.argv.slice(2));
const capabilities = options.plan.extra ? CAN_ANSWER : {};
const client = new Client({ name: 'smartgate-real-ts1', version: '1.0.0' }, { capabilities });
if (options.plan.extra) {
  client.setRequestHandler(ElicitRequestSchema, formAnswer);
  client.setRequestHandler(CreateMessageRequestSchema, modelAnswer);
  client.setRequestHandler(ListRootsRequestSchema, rootsAnswer);
}
// A stream's own path means HTTP+SSE, the transport of 2024-11-05, which does not keep the revision that was agreed.
const Transport = options.url.includes('/sse') ? SSEClientTransport : StreamableHTTPClientTransport;
const transport = new Transport(new URL(options.url), { requestInit: { headers: options.headers } });
let agreed;
transport.setProtocolVersion = (old => version => { agreed = version; old?.call(transport, version); })(transport.setProtocolVersion);
await client.connect(transport);
const heard = new Set();
for (const schema of [
  LoggingMessageNotificationSchema, ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
]) {
  client.setNotificationHandler(schema, ({ method }) => void heard.add(method.replace('notifications/', '')));
}
const watch = async uris => {
  for (const uri of uris) await client.subscribeResource({ uri });
};
const level = async name => void await client.setLoggingLevel(name);
const callTool = (params, requestOptions) => client.callTool(params, undefined, requestOptions);
const seen = await runPlan(client, callTool, options.plan, agreed, { level, watch, heard }, params => client.listTools(params));
await transport.terminateSession?.();
await client.close();
console.log(JSON.stringify(seen));
