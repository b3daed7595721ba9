// An MCP server on the TypeScript SDK v2, both eras, for the client matrix and the conformance suite.
//
// Owns: the front over HTTP (era routing, sessions, Host check) or over stdio. The tools are in ts_tools.mjs and ts_input_required.mjs,
// resources and prompts in ts_resources.mjs. What the SDK does on the wire is what is tested.
// Usage: ts_server.mjs PORT|stdio EVENTS_FILE [REVISION], the latter for one legacy revision and no other.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { classifyInboundRequest, createMcpHandler, isInitializeRequest, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { EventLog } from './ts_event_log.mjs';
import { registerInputRequiredTools, requestStateCodec } from './ts_input_required.mjs';
import { registerPrompts, registerResources } from './ts_resources.mjs';
import { pageTools, registerTools } from './ts_tools.mjs';

const [place, eventsFile, revision] = process.argv.slice(2);
const LOCAL_NAMES = new Set(['127.0.0.1', 'localhost', '[::1]']);
const RETRY_MS = 500;
const sessions = new Map();
/** The servers that have a client of their own, whom they tell of changes: of legacy sessions, and over stdio. */
const connected = new Set();

function newServer() {
  const server = new McpServer({ name: 'smartgate-ts-server', version: '1.0.0' }, {
    capabilities: {
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      prompts: { listChanged: true },
      logging: {},
      completions: {},
    },
    requestState: { verify: requestStateCodec.verify },
    ...(revision && { supportedProtocolVersions: [revision] }),
  });
  registerTools(server, { eventsFile, sessions, notifyChange: () => place === 'stdio' ? undefined : modern.notify, connected });
  registerInputRequiredTools(server);
  registerResources(server);
  registerPrompts(server);
  pageTools(server);
  server.server.setRequestHandler('completion/complete', async () => ({ completion: { values: ['paris'], total: 1, hasMore: false } }));
  return server;
}

const modern = createMcpHandler(newServer);
const modernHandler = toNodeHandler(modern);

/** True where Host, and Origin if there is one, name this machine: a page elsewhere must not reach us by rebinding. */
function isLocal(request) {
  const named = [`http://${request.headers.host}`, request.headers.origin].filter(Boolean);
  return named.every(url => URL.canParse(url) && LOCAL_NAMES.has(new URL(url).hostname));
}

function refuse(response, status, code, message) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code, message } }));
}

async function readJson(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString('utf8');
  return text === '' ? undefined : JSON.parse(text);
}

async function openSession() {
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new EventLog(),
    retryInterval: RETRY_MS,
    onsessioninitialized: id => sessions.set(id, transport),
  });
  const server = newServer();
  transport.onclose = () => {
    sessions.delete(transport.sessionId);
    connected.delete(server);
  };
  connected.add(server);
  await server.connect(transport);
  return transport;
}

async function handleLegacy(request, response, body) {
  const id = request.headers['mcp-session-id'];
  if (id !== undefined && !sessions.has(id)) return refuse(response, 404, -32001, 'Session not found');
  if (id === undefined && !isInitializeRequest(body)) return refuse(response, 400, -32000, 'Session id required');
  const transport = sessions.get(id) ?? await openSession();
  await transport.handleRequest(request, response, body);
}

async function handle(request, response) {
  if (!isLocal(request)) return refuse(response, 403, -32000, 'Host or Origin is not local');
  if (new URL(request.url, 'http://localhost').pathname !== '/mcp') return refuse(response, 404, -32000, 'No such path');
  let body;
  try {
    body = request.method === 'POST' ? await readJson(request) : undefined;
  } catch {
    return refuse(response, 400, -32700, 'Parse error');
  }
  const inbound = classifyInboundRequest({
    httpMethod: request.method,
    protocolVersionHeader: request.headers['mcp-protocol-version'],
    mcpMethodHeader: request.headers['mcp-method'],
    body,
  });
  if (inbound.kind === 'legacy') await handleLegacy(request, response, body);
  else await modernHandler(request, response, body);
}

function serveHttp() {
  createServer((request, response) => {
    handle(request, response).catch(error => {
      console.error(error);
      if (!response.headersSent) refuse(response, 500, -32603, 'Internal error');
    });
  }).listen(Number(place), '127.0.0.1', () => console.log(`listening on ${place}`));
}

if (place === 'stdio') {
  serveStdio(() => {
    const server = newServer();
    connected.add(server);
    return server;
  });
} else {
  serveHttp();
}
