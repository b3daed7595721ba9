// The TypeScript SDK v2 as a client that holds one session and obeys commands from its input; see session.mjs.
// Modes: `auto` (probes for 2026-07-28, falls back) and `legacy` (the initialize handshake).
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { formAnswer, modelAnswer, rootsAnswer } from './common.mjs';
import { CAN_ANSWER, parseArguments, serve } from './session.mjs';

const options = parseArguments(process.argv.slice(2));
const about = { name: 'smartgate-real-ts2', version: '1.0.0' };
const client = new Client(about, { capabilities: CAN_ANSWER, versionNegotiation: { mode: options.mode } });
client.setRequestHandler('elicitation/create', formAnswer);
client.setRequestHandler('sampling/createMessage', modelAnswer);
client.setRequestHandler('roots/list', rootsAnswer);
const transport = new StreamableHTTPClientTransport(new URL(options.url));
await client.connect(transport);
await serve(client, client.getNegotiatedProtocolVersion());
if (client.getProtocolEra() === 'legacy') await transport.terminateSession();
await client.close();
