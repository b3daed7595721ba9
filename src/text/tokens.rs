//! Token counts, exactly as OpenAI's `o200k_base` and `cl100k_base` encoders count. Owns the encoders, which load
//! (some tens of MiB each) when the first count is asked for and not before.

/// Counts the o200k tokens of `text`: about 20 MB/s, and 0.1 s more the first time.
#[must_use]
pub fn count(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

/// Counts the cl100k tokens of `text`.
#[must_use]
pub fn count_cl100k(text: &str) -> u64 {
    bpe_openai::cl100k_base().count(text) as u64
}

/// Whether `text` has at most `limit` o200k tokens; stops counting beyond it.
#[must_use]
pub fn fits(text: &str, limit: usize) -> bool {
    let encoder = bpe_openai::o200k_base();
    encoder.count_till_limit(&encoder.normalize(text), limit).is_some()
}
