//! The encoders that tokens are counted with, loaded when they are first asked for. Owns where their tables come from:
//! ready-made in the program (45 MB, loaded in 0.1 s), or with the feature `compact-encoders` computed from the list of
//! tokens (2.5 MB, and about a second of processor time), which suits an image in front of other servers' tools.

#[cfg(not(feature = "compact-encoders"))]
pub(super) use bpe_openai::{cl100k_base as cl100k, o200k_base as o200k};

#[cfg(feature = "compact-encoders")]
pub(super) use compact::{cl100k, o200k};

#[cfg(feature = "compact-encoders")]
mod compact {
    use std::sync::LazyLock;

    use bpe_openai::{Tokenizer, byte_pair_encoding::BytePairEncoding};

    /// With this factor no two tokens of either list have the same hash (build.rs of the crate `bpe-openai`).
    const HASH_FACTOR: u64 = 17_846_336_922_010_275_747;

    /// How texts are split before they are encoded, from OpenAI's `tiktoken` (`tiktoken_ext/openai_public.py`). Its
    /// negative look-ahead `\s+(?!\S)` is here a pattern that gives its last character back.
    const CL100K: &str = concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+$"
    );
    const O200K: &str = concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+$"
    );

    pub(in crate::text) fn o200k() -> &'static Tokenizer {
        static ENCODER: LazyLock<Tokenizer> =
            LazyLock::new(|| build(include_bytes!(concat!(env!("OUT_DIR"), "/o200k.tokens")), O200K));
        &ENCODER
    }

    pub(in crate::text) fn cl100k() -> &'static Tokenizer {
        static ENCODER: LazyLock<Tokenizer> =
            LazyLock::new(|| build(include_bytes!(concat!(env!("OUT_DIR"), "/cl100k.tokens")), CL100K));
        &ENCODER
    }

    /// `tokens` has each token with a byte for its length before it, in the order of their ranks.
    fn build(tokens: &[u8], pattern: &str) -> Tokenizer {
        let mut rest = tokens;
        let tokens = std::iter::from_fn(|| {
            let (length, after) = rest.split_first()?;
            let (token, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            Some(token.to_vec())
        });
        let encoding = BytePairEncoding::from_dictionary(tokens, Some(HASH_FACTOR));
        let patterns = [(pattern, false), (r"\s+\s", true), (r"\s+", false)];
        Tokenizer::new_lookahead(encoding, &patterns, false).expect("the patterns are constants")
    }
}
