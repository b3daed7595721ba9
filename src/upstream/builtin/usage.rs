//! Token counts and the `usage` block of results. Owns the tokenizer, which loads (some tens of MiB) when the
//! first count is asked for and not before. Invariant: text that the caller sent inline never counts as saved.

use serde::Serialize;

/// What a tool call worked on and gave back, in o200k tokens. For the audit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Size of the material worked on.
    pub tokens_in: u64,
    /// Size of the result without its usage block.
    pub tokens_out: u64,
    /// The part of the reduction that never entered the caller's context.
    pub tokens_saved: u64,
}

/// The `usage` member of a result.
#[derive(Serialize)]
pub(super) struct UsageBlock {
    tokenizer: &'static str,
    tokens_in: u64,
    tokens_out: u64,
    tokens_reduced: u64,
    tokens_saved: u64,
    savings_basis: &'static str,
    tokens_charged: u64,
    budget_remaining: Option<u64>,
    est_usd_saved: Option<f64>,
}

impl Usage {
    /// For material that came inline in the arguments: the caller has paid for it already, so nothing is saved.
    pub(super) fn inline(tokens_in: u64, tokens_out: u64) -> Self {
        Self { tokens_in, tokens_out, tokens_saved: 0 }
    }

    /// The block. The charge is what the result weighs; no budget applies in this version, so none remains.
    pub(super) fn block(self) -> UsageBlock {
        UsageBlock {
            tokenizer: "o200k_base",
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            tokens_reduced: self.tokens_in.saturating_sub(self.tokens_out),
            tokens_saved: self.tokens_saved,
            savings_basis: "inline",
            tokens_charged: self.tokens_out,
            budget_remaining: None,
            est_usd_saved: None,
        }
    }
}

/// Counts the o200k tokens of `text`: about 20 MB/s, and 0.1 s more the first time.
pub(super) fn count(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}
