//! `[limits]`, `[normalize]` and `[storage]`.

use super::{Checker, word};
use crate::config::{
    AuthMode, Coercion, Globs, Limits, Normalize, Refusal, Storage,
    file::{self, CONCURRENCY, QUOTA, RATE, REFUSAL, SCHEMA_COERCION, STORAGE},
    text,
};

/// Smallest quota of the storage, in bytes: its empty tables fit well into it.
const SMALLEST: u64 = 1 << 20;

impl Checker<'_> {
    pub(super) fn limits(&mut self, limits: file::Limits, mode: AuthMode) -> Limits {
        // Without keys of ours, a whole office may share one client address.
        let default = if mode == AuthMode::Keys { RATE } else { "none" };
        let mut per_tool: Vec<_> = limits.per_tool.into_iter().collect();
        per_tool.sort_by_key(|(_, rate)| rate.at);
        let per_tool = per_tool.into_iter().filter_map(|(glob, rate)| {
            if glob.is_empty() || glob.starts_with('!') {
                self.findings
                    .problem(rate.at, format!("`limits.per_tool`: the glob \"{glob}\" matches nothing"));
            }
            let key = format!("limits.per_tool.\"{glob}\"");
            self.parsed(&key, &rate, text::rate).map(|rate| (Globs::new([&glob]), rate))
        });
        Limits {
            per_tool: per_tool.collect(),
            rate: self.value("limits.rate", limits.rate.as_ref(), default, text::limit),
            concurrency: limits.concurrency.map_or(CONCURRENCY, |c| c.value) as usize,
            refusal: match word(limits.refusal.as_ref(), REFUSAL) {
                file::Refusal::Http => Refusal::Http,
                file::Refusal::ToolError => Refusal::ToolError,
            },
        }
    }

    pub(super) fn storage(&mut self, storage: &file::Storage) -> Storage {
        let path = storage.path.as_ref().map_or(STORAGE, |p| p.value.0.as_str());
        let quota = self.value("storage.quota", storage.quota.as_ref(), QUOTA, text::size);
        if quota < SMALLEST
            && let Some(written) = &storage.quota
        {
            self.findings.problem(written.at, "`storage.quota`: must be at least 1MiB");
        }
        Storage { path: Some(self.resolve(path)), quota }
    }
}

pub(super) fn normalize(written: &file::Normalize) -> Normalize {
    Normalize {
        params: written.params.unwrap_or(true),
        arguments: written.arguments.unwrap_or(true),
        direct_tool_method: written.direct_tool_method.unwrap_or(true),
        fill_arguments: written.fill_arguments.unwrap_or(true),
        schema_coercion: word(written.schema_coercion.as_ref(), SCHEMA_COERCION).into(),
        shadow: written.shadow.unwrap_or(false),
    }
}

impl From<file::Coercion> for Coercion {
    fn from(coercion: file::Coercion) -> Self {
        match coercion {
            file::Coercion::Off => Self::Off,
            file::Coercion::Safe => Self::Safe,
            file::Coercion::Full => Self::Full,
        }
    }
}
