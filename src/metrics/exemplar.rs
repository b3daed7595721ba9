//! Which call is the example of a number: its trace and span, as labels of an exemplar.

use std::fmt::Error;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

/// A span of a trace. Its hex text is made only when somebody asks for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpanRef {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
}

impl EncodeLabelSet for SpanRef {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), Error> {
        let labels = [("trace_id", hex::encode(self.trace_id)), ("span_id", hex::encode(self.span_id))];
        labels.encode(encoder)
    }
}
