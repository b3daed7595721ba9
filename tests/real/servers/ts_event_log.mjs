// The events of one session's streams, kept in memory so that a client can resume with Last-Event-ID.
// Invariant: an event is replayed only on the stream that it was sent on, and in the order of sending.
import { randomUUID } from 'node:crypto';

export class EventLog {
  #events = [];

  async storeEvent(streamId, message) {
    const id = randomUUID();
    this.#events.push({ id, streamId, message });
    return id;
  }

  async replayEventsAfter(lastEventId, { send }) {
    const last = this.#events.findIndex(event => event.id === lastEventId);
    if (last < 0) throw new Error('unknown event id');
    const { streamId } = this.#events[last];
    for (const event of this.#events.slice(last + 1)) {
      // The priming event that opens a stream has no message.
      if (event.streamId === streamId && event.message?.jsonrpc) await send(event.id, event.message);
    }
    return streamId;
  }
}
