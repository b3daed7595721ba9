//! The `usage` block of results. Invariant: text that a model sent inline never counts as saved, nor does growth.

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
    basis: &'static str,
}

/// Where the material of a call came from, which decides what can be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// Nothing that the caller would have read otherwise.
    None,
    /// The arguments.
    Inline,
    /// A reference.
    ByReference,
    /// A page, which would have been read as Markdown.
    FullPageMarkdown,
    /// The steps of a pipeline.
    Pipe,
    /// Hits of several engines.
    DuplicateResults,
}

/// What a call takes from the budget; nothing where there is none.
pub(super) struct Charge {
    pub(super) tokens: u64,
    /// What is left after it, where there is a budget.
    pub(super) remaining: Option<u64>,
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
    /// `program`: the caller is a program, so that what it sends inline has cost a model nothing.
    pub(super) fn of(basis: Basis, tokens_in: u64, tokens_out: u64, program: bool) -> Self {
        let reduced = tokens_in.saturating_sub(tokens_out);
        let (basis, tokens_saved) = match basis {
            Basis::None => ("none", 0),
            Basis::Inline if program => ("program", reduced),
            Basis::Inline => ("inline", 0),
            Basis::ByReference => ("by_reference", reduced),
            Basis::FullPageMarkdown => ("full_page_markdown", reduced),
            Basis::Pipe => ("pipe", reduced),
            Basis::DuplicateResults => ("duplicate_results", reduced),
        };
        Self { tokens_in, tokens_out, tokens_saved, basis }
    }

    /// The block.
    pub(super) fn block(self, charge: Charge) -> UsageBlock {
        UsageBlock {
            tokenizer: "o200k_base",
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            tokens_reduced: self.tokens_in.saturating_sub(self.tokens_out),
            tokens_saved: self.tokens_saved,
            savings_basis: self.basis,
            tokens_charged: charge.tokens,
            budget_remaining: charge.remaining,
            est_usd_saved: None,
        }
    }
}
