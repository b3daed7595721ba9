// What both TypeScript clients of a session share: commands are read as JSON lines, each is answered by one JSON line.
// A command that fails is answered with `{"failed": ...}`; the session goes on.
import { createInterface } from 'node:readline';

import { CAN_ANSWER } from './common.mjs';

export { CAN_ANSWER };
const MOST_PAGES = 50;

export function parseArguments([url, ...rest]) {
  const at = rest.indexOf('--mode');
  return { url, mode: at < 0 ? 'auto' : rest[at + 1] };
}

/** The entries of all pages. */
async function everyPage(list, member) {
  const found = [];
  let cursor;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const result = await list(cursor === undefined ? undefined : { cursor });
    found.push(...result[member]);
    cursor = result.nextCursor;
    if (cursor === undefined) return found;
  }
  throw new Error(`${member} has more than ${MOST_PAGES} pages`);
}

async function lists(client) {
  const resources = await everyPage(params => client.listResources(params), 'resources');
  const templates = await everyPage(params => client.listResourceTemplates(params), 'resourceTemplates');
  return {
    tools: (await everyPage(params => client.listTools(params), 'tools')).map(tool => tool.name),
    prompts: (await everyPage(params => client.listPrompts(params), 'prompts')).map(prompt => prompt.name),
    resources: resources.map(resource => resource.uri),
    templates: templates.map(template => template.uriTemplate),
  };
}

async function obey(client, command) {
  const { name, arguments: args } = command;
  switch (command.do) {
    case 'lists':
      return lists(client);
    case 'call': {
      const result = await client.callTool({ name, arguments: args });
      return { text: result.content.map(part => part.text ?? '').join(''), error: result.isError === true };
    }
    case 'prompt': {
      const result = await client.getPrompt({ name, arguments: args });
      return { text: result.messages.map(each => each.content.text ?? '').join('') };
    }
    case 'read': {
      const result = await client.readResource({ uri: command.uri });
      return { text: result.contents.map(each => each.text ?? '').join('') };
    }
    default:
      throw new Error(`unknown command ${command.do}`);
  }
}

const say = answer => console.log(JSON.stringify(answer));

/** Obeys until the input ends. */
export async function serve(client, protocol) {
  say({ protocol });
  for await (const line of createInterface({ input: process.stdin })) {
    say(await obey(client, JSON.parse(line)).catch(error => ({ failed: String(error) })));
  }
}
