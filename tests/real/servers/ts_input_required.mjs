// Tools and checks for results that ask for more input (revision 2026-07-28): the call answers `input_required` until
// the retried request carries what it asked for. Names of tools and of inputs are the conformance suite's.
import { randomBytes, randomUUID } from 'node:crypto';

import {
  acceptedContent, CLIENT_CAPABILITIES_META_KEY, createRequestStateCodec, fromJsonSchema, inputRequired,
} from '@modelcontextprotocol/server';
import { text } from './ts_content.mjs';

/** Seals `requestState`, which comes back from the client as untrusted input. One key for the process. */
export const requestStateCodec = createRequestStateCodec({ key: randomBytes(32) });

const mint = payload => requestStateCodec.mint({ ...payload, nonce: randomUUID() });
const done = body => ({ content: [text(body)] });
const ask = (message, field, type = 'string') => inputRequired.elicit({
  message,
  requestedSchema: { type: 'object', properties: { [field]: { type } }, required: [field] },
});
const askModel = prompt => inputRequired.createMessage({ messages: [{ role: 'user', content: text(prompt) }], maxTokens: 50 });
const askName = () => ask('What is your name?', 'name');

async function confirmWithState(request, verdict) {
  const confirmed = acceptedContent(request.inputResponses, 'confirm') !== undefined;
  if (confirmed && request.requestState() !== undefined) return done(verdict);
  return inputRequired({ inputRequests: { confirm: ask('Please confirm', 'ok', 'boolean') }, requestState: await mint({}) });
}

async function severalInputs({ inputResponses }) {
  const name = acceptedContent(inputResponses, 'user_name')?.name;
  const greeting = inputResponses?.greeting?.content?.text;
  const roots = inputResponses?.client_roots?.roots;
  if (name !== undefined && greeting !== undefined && roots !== undefined) {
    return done(`${greeting} ${name}, ${roots.length} roots`);
  }
  return inputRequired({
    inputRequests: { user_name: askName(), greeting: askModel('Greet the user'), client_roots: inputRequired.listRoots() },
    requestState: await mint({}),
  });
}

/** Two rounds; which one comes next is known only from the sealed state. */
async function twoRounds(request) {
  const state = request.requestState();
  if (state?.round === 2) {
    return done(`${state.name} likes ${acceptedContent(request.inputResponses, 'step2')?.color}`);
  }
  if (state?.round === 1) {
    const name = acceptedContent(request.inputResponses, 'step1')?.name ?? 'unknown';
    return inputRequired({ inputRequests: { step2: ask('Which colour?', 'color') }, requestState: await mint({ round: 2, name }) });
  }
  return inputRequired({ inputRequests: { step1: askName() }, requestState: await mint({ round: 1 }) });
}

/** Asks only for kinds of input that this request's client says it can give: with the request, or once for its session. */
function coveredInputs(request, ofSession) {
  if (request.inputResponses !== undefined) return done('answered');
  const declared = (request.envelope ? request.envelope[CLIENT_CAPABILITIES_META_KEY] : ofSession) ?? {};
  const inputRequests = {
    ...(declared.elicitation && { user_name: askName() }),
    ...(declared.sampling && { greeting: askModel('Greet the user') }),
    ...(declared.roots && { client_roots: inputRequired.listRoots() }),
  };
  return Object.keys(inputRequests).length > 0 ? inputRequired({ inputRequests }) : done('nothing can be asked');
}

const oneInput = (key, question, read) => ({ inputResponses }) => {
  const answer = read(inputResponses);
  return answer === undefined ? inputRequired({ inputRequests: { [key]: question() } }) : done(`Received: ${answer}`);
};

/** Asks for a page to be opened; the answer has no content. */
function openPage({ inputResponses }) {
  const answer = inputResponses?.page;
  if (answer !== undefined) return done(`The page: ${answer.action}`);
  const page = inputRequired.elicitUrl({ message: 'Please look', url: 'https://example.com/page' });
  return inputRequired({ inputRequests: { page } });
}

const tools = {
  open_page: openPage,
  test_missing_capability: oneInput('llm_answer', () => askModel('Say pong'), r => r?.llm_answer?.content?.text),
  test_input_required_result_elicitation: oneInput('user_name', askName, r => acceptedContent(r, 'user_name')?.name),
  test_input_required_result_sampling:
    oneInput('capital_question', () => askModel('What is the capital of France?'), r => r?.capital_question?.content?.text),
  test_input_required_result_list_roots:
    oneInput('client_roots', () => inputRequired.listRoots(), r => r?.client_roots?.roots?.map(root => root.uri).join(', ')),
  test_input_required_result_request_state: request => confirmWithState(request, 'state-ok'),
  test_input_required_result_tampered_state: request => confirmWithState(request, 'integrity-ok'),
  test_input_required_result_multiple_inputs: severalInputs,
  test_input_required_result_multi_round: twoRounds,
  test_input_required_result_capabilities: coveredInputs,
};

export function registerInputRequiredTools(server) {
  const inputSchema = fromJsonSchema({ type: 'object', properties: {} });
  for (const [name, run] of Object.entries(tools)) {
    server.registerTool(name, { description: `Test tool ${name}`, inputSchema }, async (_args, context) =>
      run(context.mcpReq, server.server.getClientCapabilities()));
  }
  server.registerPrompt('test_input_required_result_prompt', { description: 'A prompt that asks first' }, async context => {
    const answer = acceptedContent(context.mcpReq.inputResponses, 'user_context')?.context;
    if (answer === undefined) return inputRequired({ inputRequests: { user_context: ask('Which context?', 'context') } });
    return { messages: [{ role: 'user', content: text(`Use this context: ${answer}`) }] };
  });
}
