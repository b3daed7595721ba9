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

/// The longest beginning of `text` that has at most `limit` o200k tokens, cut at a character.
#[must_use]
pub fn head(text: &str, limit: usize) -> &str {
    if fits(text, limit) {
        return text;
    }
    let (mut low, mut high) = (0, text.len());
    while low < high {
        let middle = text.floor_char_boundary(low + (high - low).div_ceil(2));
        if middle <= low {
            break;
        }
        if fits(&text[..middle], limit) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    &text[..text.floor_char_boundary(low)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_as_long_as_it_may_be() {
        let text = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich 🦊 ".repeat(40);
        for limit in [0, 1, 7, 100, 10_000] {
            let head = head(&text, limit);
            assert!(text.starts_with(head) && count(head) <= limit as u64);
            let more = text[head.len()..].chars().next();
            assert!(more.is_none_or(|c| count(&format!("{head}{c}")) >= limit as u64), "{limit}");
        }
    }
}
