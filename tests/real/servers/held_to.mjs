// Loaded before a server on the TypeScript SDK 1 (`node --import`), holds it to the revision in HELD_TO: whatever a client
// asks for, that one is answered. The SDK has no option for it.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';

const initialize = Server.prototype._oninitialize;
Server.prototype._oninitialize = function (request) {
  return initialize.call(this, { ...request, params: { ...request.params, protocolVersion: process.env.HELD_TO } });
};
