//! A body that keeps something until it has ended: a place, a count of calls in flight.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use super::{BodyError, ResponseBody};

struct Holding<T> {
    inner: ResponseBody,
    _held: T,
}

/// `body`, which keeps `held` until it is dropped.
pub(super) fn holding<T: Send + Unpin + 'static>(body: ResponseBody, held: T) -> ResponseBody {
    Holding { inner: body, _held: held }.boxed_unsync()
}

impl<T: Unpin> Body for Holding<T> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
