//! Where messages for a client wait that belong to no call: its GET stream, and a little that waits for one.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;

use super::outbox::{Outbox, Reader, outbox};

/// Messages, and bytes of them, that wait for a stream.
const HELD: usize = 64;
const HELD_BYTES: usize = 256 * 1024;

/// See the module. `I` names requests.
#[derive(Debug)]
pub(in crate::upstream) struct Mailbox<I> {
    state: Mutex<State<I>>,
}

#[derive(Debug)]
struct State<I> {
    stream: Option<Outbox>,
    /// Each with its id if it is a request.
    held: VecDeque<(Bytes, Option<I>)>,
    bytes: usize,
    closed: bool,
}

impl<I> Default for Mailbox<I> {
    fn default() -> Self {
        Self { state: Mutex::default() }
    }
}

impl<I> Default for State<I> {
    fn default() -> Self {
        Self { stream: None, held: VecDeque::new(), bytes: 0, closed: false }
    }
}

impl<I> Mailbox<I> {
    /// Opens the GET stream, with what waits for it. One that is open ends: its client has come back.
    pub(in crate::upstream) async fn open(&self) -> Reader {
        let (stream, reader) = outbox();
        let held = {
            let mut state = self.state();
            state.stream = (!state.closed).then(|| stream.clone());
            state.bytes = 0;
            std::mem::take(&mut state.held)
        };
        for (message, _) in held {
            stream.event(message, Duration::ZERO).await;
        }
        reader
    }

    /// The GET stream, while somebody reads it.
    pub(in crate::upstream) fn stream(&self) -> Option<Outbox> {
        self.state().stream.clone().filter(Outbox::is_open)
    }

    /// Keeps a message for the next stream; gives the ids of requests that had to make room.
    pub(in crate::upstream) fn hold(&self, message: Bytes, id: Option<I>) -> Vec<I> {
        let mut state = self.state();
        state.bytes += message.len();
        state.held.push_back((message, id));
        let mut lost = Vec::new();
        while state.held.len() > HELD || state.bytes > HELD_BYTES {
            let Some((message, id)) = state.held.pop_front() else { break };
            state.bytes -= message.len();
            lost.extend(id);
        }
        lost
    }

    /// Ends the stream for good.
    pub(in crate::upstream) fn close(&self) {
        let mut state = self.state();
        *state = State { closed: true, ..State::default() };
    }

    fn state(&self) -> MutexGuard<'_, State<I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::outbox::Item, *};

    fn event(item: Option<Item>) -> Option<Bytes> {
        match item {
            Some(Item::Event(message, _)) => Some(message),
            _ => None,
        }
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_comes_first_on_the_next_stream() {
        let mailbox = Mailbox::<String>::default();
        for n in 0..HELD + 2 {
            let lost = mailbox.hold(format!("{n}").into(), (n % 2 == 1).then(|| n.to_string()));
            assert_eq!(lost, if n == HELD + 1 { vec!["1".to_owned()] } else { Vec::new() });
        }
        let mut reader = mailbox.open().await;
        assert_eq!(event(reader.recv().await).unwrap(), "2");
        let mut next = mailbox.open().await;
        while let Some(item) = reader.recv().await {
            assert!(event(Some(item)).is_some());
        }
        mailbox.close();
        assert!(next.recv().await.is_none());
        assert!(mailbox.hold(vec![b'x'; HELD_BYTES + 1].into(), None).is_empty());
    }
}
