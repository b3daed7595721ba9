//! Token counts, exactly as OpenAI's `o200k_base` and `cl100k_base` encoders count. Owns what is counted;
//! the encoders (some tens of MiB each in memory) load when the first count is asked for and not before.

use std::collections::HashMap;

use super::encoders;

/// Counts the o200k tokens of `text`: about 20 MB/s, and 0.1 s more the first time.
#[must_use]
pub fn count(text: &str) -> u64 {
    encoders::o200k().count(text) as u64
}

/// Counts the cl100k tokens of `text`.
#[must_use]
pub fn count_cl100k(text: &str) -> u64 {
    encoders::cl100k().count(text) as u64
}

/// Whether `text` has at most `limit` o200k tokens; stops counting beyond it.
#[must_use]
pub fn fits(text: &str, limit: usize) -> bool {
    let encoder = encoders::o200k();
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

/// Where the tokens of a text lie, so that the size of any part of it is known without counting anew.
#[derive(Debug)]
pub struct Offsets {
    /// The end of each word as the encoder splits them, and the tokens up to there.
    ends: Vec<(usize, usize)>,
}

impl Offsets {
    /// Counts the o200k tokens of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let encoder = encoders::o200k();
        let (mut end, mut tokens) = (0, 0);
        // Most words of a long text have come before, and encoding them is what costs.
        let mut known: HashMap<&str, usize> = HashMap::new();
        let ends = encoder.split(text).map(|word| {
            end += word.len();
            tokens += *known.entry(word).or_insert_with(|| encoder.bpe.count(word.as_bytes()));
            (end, tokens)
        });
        Self { ends: ends.collect() }
    }

    /// The tokens of the whole text.
    #[must_use]
    pub fn total(&self) -> usize {
        self.ends.last().map_or(0, |last| last.1)
    }

    /// The tokens before `at`, in bytes. Within a long word, such as a run of ideographs, its even share.
    #[must_use]
    pub fn before(&self, at: usize) -> usize {
        let word = self.ends.partition_point(|(end, _)| *end < at);
        let (start, before) = word.checked_sub(1).map_or((0, 0), |last| self.ends[last]);
        match self.ends.get(word) {
            Some((end, tokens)) if at > start => {
                before + ((tokens - before) * (at - start)).div_ceil((end - start).max(1))
            }
            _ => before,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, proptest};

    use super::*;

    /// A text and how often it is repeated, and its counts in o200k and cl100k. They were computed once with the
    /// reference encoder (PyPI tiktoken 0.14.0, `encode_ordinary`). On the million of spaces its o200k pattern overflows
    /// a stack, so that count is of its `encode_single_piece`: the pattern takes the spaces for one piece.
    const CORPUS: [(&str, usize, u64, u64); 15] = [
        ("", 1, 0, 0),
        (
            "The harbour town grew around a single quay where fishing boats unloaded before dawn. It's what they'd said: 1,234,567 crates in '99!\n",
            40,
            1_240,
            1_360,
        ),
        ("👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪🇯🇵 ❤️‍🔥 🤷🏿‍♀️ ☕️ 𝒳𝒴 \u{200d}\u{fe0f}\n", 30, 1_560, 2_220),
        (
            "敏捷的棕色狐狸跳过懒狗。日本語の文章には漢字とひらがなとカタカナがあります。한국어 문장도 있습니다. 〇々〆ヵヶ\n",
            30,
            1_440,
            2_160,
        ),
        (
            "Съешь же ещё этих мягких французских булок. نص عربي قصير. हिन्दी में एक वाक्य। ภาษาไทยไม่มีช่องว่าง ẞßÅ\u{30a} e\u{301}\n",
            30,
            1_200,
            2_730,
        ),
        (
            "fn main() {\n\tlet x: Vec<u8> = vec![0u8; 1 << 20];\r\n    if x.len() >= 0xFF_usize && !x.is_empty() { println!(\"{:>8.3}\\n\", x[0]); } // TODO(#42)\n}\n\n\n",
            40,
            2_560,
            2_480,
        ),
        (
            "{\"id\": 12345678901234567890, \"f\": -1.5e-10, \"a\": [null,true,\"\\u00e9\\\\\"], \"k\": {\"\": []}}\n",
            40,
            1_720,
            1_720,
        ),
        ("<|endoftext|><|fim_prefix|> <|im_start|>system<|im_sep|>\n", 20, 500, 500),
        (" ", 1_000_000, 7_813, 7_813),
        ("\n", 100_000, 6_250, 3_125),
        ("\t  \t ", 50_000, 100_000, 100_000),
        ("a", 100_000, 12_500, 12_500),
        ("\u{200b}\u{200c}\u{feff}\0\u{7}\u{fffd}", 2_000, 12_000, 12_000),
        ("0123456789", 20_000, 66_667, 66_667),
        ("!@#$%^&*()_+-=[]{};':\\\",./<>?`~", 3_000, 57_000, 57_000),
    ];

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

    #[test]
    fn counts_as_the_reference_encoder_does() {
        for (unit, times, o200k, cl100k) in CORPUS {
            let text = unit.repeat(times);
            assert_eq!((count(&text), count_cl100k(&text)), (o200k, cl100k), "{unit:?} {times} times");
            let o200k = usize::try_from(o200k).unwrap();
            assert!(fits(&text, o200k) && (o200k == 0 || !fits(&text, o200k - 1)), "{unit:?}");
        }
    }

    proptest! {
        // The encoder is slow where it is not optimised.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_input_panics(text in any::<String>(), unit in any::<char>(), times in 0..1_000_usize) {
            let many = unit.to_string().repeat(times);
            for text in [text.as_str(), &many, &format!("{many}{text}{many}")] {
                let tokens = count(text);
                assert!(tokens <= text.len() as u64 && count_cl100k(text) <= text.len() as u64);
                assert!(fits(text, usize::try_from(tokens).unwrap()));
            }
        }
    }

    #[test]
    fn offsets_add_up_to_the_count() {
        for text in ["", "One sentence. Another one!\n\n  Ünïcode 漢字かな 🦀🦀", &" ".repeat(9), "x"]
        {
            let offsets = Offsets::of(text);
            assert_eq!(offsets.total() as u64, count(text));
            assert_eq!((offsets.before(0), offsets.before(text.len())), (0, offsets.total()));
        }
        let ideographs = Offsets::of("漢字漢字漢字漢字");
        assert_eq!(ideographs.before(12) * 2, ideographs.total());
    }
}
