//! A body that is written piece by piece from elsewhere. Ends when its writer is dropped; the writer learns of a reader
//! that left by [`mpsc::Sender::closed`].

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use super::{BodyError, ResponseBody};

/// The body of what `pieces` brings.
pub(super) fn body(pieces: mpsc::Receiver<Bytes>) -> ResponseBody {
    Written(pieces).boxed_unsync()
}

struct Written(mpsc::Receiver<Bytes>);

impl Body for Written {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
