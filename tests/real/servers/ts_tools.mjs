// Plain tools of the TypeScript server: the three of the client matrix, and those that the conformance suite calls by
// name (`test_*`). Texts, names and schemas that the suite looks for are its own; everything else is free.
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { fromJsonSchema, inputRequired, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import { AUDIO_WAV, IMAGE_PNG, text } from './ts_content.mjs';

const WATCHED = 'test://watched-resource';
const SLOW_MS = 60_000;
const NO_ARGUMENTS = { type: 'object', properties: {} };

const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const string = { type: 'string' };

/** `table`: name -> [schema, (args, context) => content parts or a whole result]. */
function registerAll(server, table) {
  for (const [name, [schema, run]] of Object.entries(table)) {
    server.registerTool(name, { description: `Test tool ${name}`, inputSchema: fromJsonSchema(schema) }, async (args, context) => {
      const answer = await run(args, context);
      return Array.isArray(answer) ? { content: answer } : answer;
    });
  }
}

function progress(context, done, total) {
  const progressToken = context.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return Promise.resolve();
  return context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: done, total } });
}

const matrixTools = eventsFile => ({
  echo: [object({ message: string }), ({ message }) => [text(`Echo: ${message}`)]],
  count: [object({ steps: { type: 'integer' } }), async ({ steps }, context) => {
    for (let step = 1; step <= steps; step++) {
      await progress(context, step, steps);
      await sleep(20);
    }
    return [text(`Counted to ${steps}`)];
  }],
  slow: [object({ tag: string }), async ({ tag }, context) => {
    const report = event => appendFileSync(eventsFile, `${event} ${tag}\n`);
    report('start');
    await progress(context, 1, 2);
    try {
      await sleep(SLOW_MS, undefined, { signal: context.mcpReq.signal });
    } catch (error) {
      report('cancelled');
      throw error;
    }
    report('finished');
    return [text('nobody cancelled')];
  }],
});

const contentTools = {
  test_simple_text: [NO_ARGUMENTS, () => [text('This is a simple text response for testing.')]],
  test_image_content: [NO_ARGUMENTS, () => [{ type: 'image', data: IMAGE_PNG, mimeType: 'image/png' }]],
  test_audio_content: [NO_ARGUMENTS, () => [{ type: 'audio', data: AUDIO_WAV, mimeType: 'audio/wav' }]],
  test_embedded_resource: [NO_ARGUMENTS, () => [embedded('test://embedded-resource', 'text/plain', 'An embedded resource.')]],
  test_multiple_content_types: [NO_ARGUMENTS, () => [
    text('Several kinds of content:'),
    { type: 'image', data: IMAGE_PNG, mimeType: 'image/png' },
    embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
  ]],
  test_error_handling: [NO_ARGUMENTS, () => { throw new Error('This tool intentionally returns an error for testing'); }],
  test_streaming_elicitation: [NO_ARGUMENTS, () => [text('nothing to ask')]],
  test_x_mcp_header: [
    object({ region: { type: 'string', 'x-mcp-header': 'Region' }, level: { type: 'integer' } }, []),
    ({ region }) => [text(`region=${region ?? 'none'}`)],
  ],
};

function embedded(uri, mimeType, body) {
  return { type: 'resource', resource: { uri, mimeType, text: body } };
}

const notifyingTools = ({ sessions, notifyChange, connected }) => ({
  test_tool_with_logging: [NO_ARGUMENTS, async (_args, context) => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await context.mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data } });
      await sleep(50);
    }
    return [text('logged three times')];
  }],
  test_logging_tool: [NO_ARGUMENTS, async (_args, context) => {
    await context.mcpReq.log('info', 'sent only if the request asked for logs');
    return [text('logged')];
  }],
  test_tool_with_progress: [NO_ARGUMENTS, async (_args, context) => {
    for (const done of [0, 50, 100]) {
      await progress(context, done, 100);
      await sleep(50);
    }
    return [text(String(context.mcpReq._meta?.progressToken ?? 'no token'))];
  }],
  test_reconnection: [NO_ARGUMENTS, async (_args, context) => {
    sessions.get(context.sessionId)?.closeSSEStream(context.mcpReq.id);
    await sleep(100);
    return [text('sent after the stream was closed')];
  }],
  test_trigger_tool_change: [NO_ARGUMENTS, async () => {
    notifyChange()?.toolsChanged();
    await Promise.all([...connected].map(server => server.sendToolListChanged()));
    return [text('published')];
  }],
  test_trigger_prompt_change: [NO_ARGUMENTS, async () => {
    notifyChange()?.promptsChanged();
    await Promise.all([...connected].map(server => server.sendPromptListChanged()));
    return [text('published')];
  }],
});

/** How often `change` was called: each time it adds a tool, in the place of the last one. */
let changes = 0;

/** Tells of changes in the way of each era: of the tools to all, of a resource to all who listen, or to its own client. */
function registerChange(server, { notifyChange, connected }) {
  const about = { description: 'Changes a resource and the tools, tells of it, and logs it', inputSchema: fromJsonSchema(NO_ARGUMENTS) };
  server.registerTool('change', about, async (_args, context) => {
    changes += 1;
    const listeners = notifyChange();
    await context.mcpReq.log('warning', 'changed');
    if (context.mcpReq.envelope && listeners) listeners.resourceUpdated(WATCHED);
    else await server.server.sendResourceUpdated({ uri: WATCHED });
    listeners?.toolsChanged();
    await Promise.all([...connected].map(other => other.sendToolListChanged()));
    return { content: [text(`added_${changes}`)] };
  });
}

/** Asks the client in the way of the request's era: by a request of the server's own, or by a result that asks first. */
async function ask(context, method, params, answer) {
  if (!context.mcpReq.envelope) return answer(await context.mcpReq.send({ method, params }));
  const asked = context.mcpReq.inputResponses?.asked;
  return asked ? answer(asked) : inputRequired({ inputRequests: { asked: { method, params } } });
}

/** Tools of the suite's older sets. */
const askingTools = {
  test_sampling: [object({ prompt: string }), ({ prompt }, context) => {
    const messages = [{ role: 'user', content: text(prompt) }];
    return ask(context, 'sampling/createMessage', { messages, maxTokens: 100 }, answer => [text(`LLM response: ${answer.content?.text}`)]);
  }],
  test_elicitation: [object({ message: string }), ({ message }, context) =>
    elicit(context, message, { response: string }, ['response'])],
  test_elicitation_sep1034_defaults: [NO_ARGUMENTS, (_args, context) => elicit(context, 'Check the defaults', {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  })],
  test_elicitation_sep1330_enums: [NO_ARGUMENTS, (_args, context) => elicit(context, 'Choose', {
    untitledSingle: { type: 'string', enum: plain('option') },
    titledSingle: { type: 'string', oneOf: titled('value') },
    legacyEnum: { type: 'string', enum: plain('opt'), enumNames: ['One', 'Two', 'Three'] },
    untitledMulti: { type: 'array', minItems: 1, maxItems: 3, items: { type: 'string', enum: plain('option') } },
    titledMulti: { type: 'array', minItems: 1, maxItems: 3, items: { anyOf: titled('value') } },
  })],
};

const plain = stem => [1, 2, 3].map(n => `${stem}${n}`);
const titled = stem => [1, 2, 3].map(n => ({ const: `${stem}${n}`, title: `Choice ${n}` }));

function elicit(context, message, properties, required = []) {
  const requestedSchema = { type: 'object', properties, required };
  return ask(context, 'elicitation/create', { message, requestedSchema }, answer =>
    [text(`User response: action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`)]);
}

const schemaTool = {
  json_schema_2020_12_tool: [{
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: string, city: string } } },
    properties: {
      name: string,
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: string,
      email: string,
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  }, args => [text(JSON.stringify(args))]],
};

/** Its schema makes clients check the result. */
function registerTotal(server) {
  const about = {
    description: 'Adds two numbers, as a structured result',
    inputSchema: fromJsonSchema(object({ a: { type: 'integer' }, b: { type: 'integer' } })),
    outputSchema: fromJsonSchema(object({ total: { type: 'integer' } })),
  };
  server.registerTool('total', about, async ({ a, b }) => {
    const structuredContent = { total: a + b };
    return { content: [text(JSON.stringify(structuredContent))], structuredContent };
  });
}

export function registerTools(server, options) {
  registerTotal(server);
  registerChange(server, options);
  registerAll(server, {
    ...matrixTools(options.eventsFile), ...contentTools, ...notifyingTools(options), ...askingTools, ...schemaTool,
  });
}

/** Lists the tools in two pages: first what the conformance suite looks for, which does not turn pages, then the rest. */
export function pageTools(server) {
  const all = server.server._requestHandlers.get('tools/list');
  server.server.setRequestHandler('tools/list', async (request, context) => {
    const { tools, ...rest } = await all(request, context);
    const [first, second] = [true, false].map(suite => tools.filter(({ name }) => /^test_|^json_/.test(name) === suite));
    const cursor = request.params?.cursor;
    if (cursor === undefined) return { ...rest, tools: first, nextCursor: 'second' };
    if (cursor !== 'second') throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'no such page');
    const added = changes === 0 ? [] : [{ name: `added_${changes}`, inputSchema: NO_ARGUMENTS }];
    return { ...rest, tools: [...second, ...added] };
  });
}
