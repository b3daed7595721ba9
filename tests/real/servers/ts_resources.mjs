// Resources and prompts of the TypeScript server, as the conformance suite asks for them by URI and name.
import { fromJsonSchema, ResourceTemplate } from '@modelcontextprotocol/server';
import { IMAGE_PNG, text } from './ts_content.mjs';

const fixed = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: IMAGE_PNG },
  'test://watched-resource': { mimeType: 'text/plain', text: 'watched' },
};

export function registerResources(server) {
  for (const [uri, body] of Object.entries(fixed)) {
    const about = { description: `Fixed resource ${uri}`, mimeType: body.mimeType };
    server.registerResource(uri.slice('test://'.length), uri, about, async () => ({ contents: [{ uri, ...body }] }));
  }
  const template = new ResourceTemplate('test://template/{id}/data', { list: undefined });
  const about = { description: 'A templated resource', mimeType: 'application/json' };
  server.registerResource('template', template, about, async (uri, { id }) => ({
    contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }],
  }));
  server.server.setRequestHandler('resources/subscribe', async () => ({}));
  server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
}

const says = (...parts) => ({ messages: parts.map(content => ({ role: 'user', content })) });
const strings = (...names) => fromJsonSchema({
  type: 'object',
  properties: Object.fromEntries(names.map(name => [name, { type: 'string', description: `Argument ${name}` }])),
  required: names,
});

export function registerPrompts(server) {
  server.registerPrompt('test_simple_prompt', { description: 'No arguments' }, async () => says(text('This is a simple prompt for testing.')));
  server.registerPrompt(
    'test_prompt_with_arguments',
    { description: 'Two arguments', argsSchema: strings('arg1', 'arg2') },
    async ({ arg1, arg2 }) => says(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  );
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'Embeds a resource', argsSchema: strings('resourceUri') },
    async ({ resourceUri: uri }) => says(
      { type: 'resource', resource: { uri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' } },
      text('Please process the embedded resource above.'),
    ),
  );
  server.registerPrompt('test_prompt_with_image', { description: 'Carries an image' }, async () =>
    says({ type: 'image', data: IMAGE_PNG, mimeType: 'image/png' }, text('Please analyze the image above.')));
}
