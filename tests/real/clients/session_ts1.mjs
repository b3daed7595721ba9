// The TypeScript SDK v1 as a client that holds one session and obeys commands from its input; see session.mjs.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { formAnswer, modelAnswer, rootsAnswer } from './common.mjs';
import { CAN_ANSWER, parseArguments, serve } from './session.mjs';

const options = parseArguments(process.argv.slice(2));
const client = new Client({ name: 'smartgate-real-ts1', version: '1.0.0' }, { capabilities: CAN_ANSWER });
client.setRequestHandler(ElicitRequestSchema, formAnswer);
client.setRequestHandler(CreateMessageRequestSchema, modelAnswer);
client.setRequestHandler(ListRootsRequestSchema, rootsAnswer);
const transport = new StreamableHTTPClientTransport(new URL(options.url));
await client.connect(transport);
await serve(client, transport.protocolVersion);
await transport.terminateSession();
await client.close();
