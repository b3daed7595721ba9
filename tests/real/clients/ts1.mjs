// The TypeScript SDK v1 as a client: runs a plan against URL and prints what it saw as one JSON line.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, LoggingMessageNotificationSchema, ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { CAN_ANSWER, formAnswer, modelAnswer, parseArguments, runPlan } from './common.mjs';

const options = parseArguments(process.argv.slice(2));
const capabilities = options.plan.extra ? CAN_ANSWER : {};
const client = new Client({ name: 'smartgate-real-ts1', version: '1.0.0' }, { capabilities });
if (options.plan.extra) {
  client.setRequestHandler(ElicitRequestSchema, formAnswer);
  client.setRequestHandler(CreateMessageRequestSchema, modelAnswer);
}
const transport = new StreamableHTTPClientTransport(new URL(options.url), { requestInit: { headers: options.headers } });
await client.connect(transport);
const heard = new Set();
for (const schema of [LoggingMessageNotificationSchema, ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema]) {
  client.setNotificationHandler(schema, ({ method }) => void heard.add(method.replace('notifications/', '')));
}
const watch = async uri => {
  await client.subscribeResource({ uri });
  await client.setLoggingLevel('info');
};
const callTool = (params, requestOptions) => client.callTool(params, undefined, requestOptions);
const seen = await runPlan(client, callTool, options.plan, transport.protocolVersion, { watch, heard });
await transport.terminateSession();
await client.close();
console.log(JSON.stringify(seen));
