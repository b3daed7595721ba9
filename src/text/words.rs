//! The words of a text as matching sees them: NFKC, lower case, split by Unicode's rules (UAX #29), stemmed in the
//! text's language; scripts without spaces as pairs of characters. The same terms serve ranking in memory and the
//! full-text index, so that both find the same.

use std::iter;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;
use whatlang::{Detector, Lang};

/// Of a long text, this much tells its language, in bytes.
const SAMPLE: usize = 4_096;
/// Shorter texts are not judged, in characters: the guess would be worse than none.
const TOO_SHORT: usize = 24;

/// A language with a stemmer, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language(Option<Algorithm>);

impl Language {
    /// Words stay as they are.
    pub const UNKNOWN: Self = Self(None);
    /// English.
    pub const ENGLISH: Self = Self(Some(Algorithm::English));

    /// The language of a text; English if it is too short to tell and in Latin letters.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let sample = &text[..text.floor_char_boundary(SAMPLE)];
        if sample.chars().nth(TOO_SHORT).is_none() {
            return if sample.is_ascii() { Self::ENGLISH } else { Self::UNKNOWN };
        }
        Self(Detector::new().detect_lang(sample).and_then(algorithm))
    }

    /// Its ISO 639-3 code, to be stored; "" if unknown.
    #[must_use]
    pub fn code(self) -> &'static str {
        let known = |lang: &Lang| self.0.is_some() && algorithm(*lang) == self.0;
        Lang::all().iter().find(|lang| known(lang)).map_or("", |lang| lang.code())
    }

    /// The language of a stored code.
    #[must_use]
    pub fn from_code(code: &str) -> Self {
        Self(Lang::from_code(code).and_then(algorithm))
    }
}

/// The terms of a text, in order.
#[must_use]
pub fn terms(text: &str, language: Language) -> Vec<String> {
    let text: String = text.nfkc().flat_map(char::to_lowercase).collect();
    let stemmer = language.0.map(Stemmer::create);
    let mut terms = Vec::new();
    let mut run = String::new();
    for word in text.unicode_words() {
        // UAX #29 leaves ideographs and Thai letters one by one, or in clusters that are no words.
        if word.chars().all(has_no_spaces) {
            run.push_str(word);
            continue;
        }
        pairs(&mut run, &mut terms);
        terms.push(stemmer.as_ref().map_or_else(|| word.to_owned(), |s| s.stem(word).into_owned()));
    }
    pairs(&mut run, &mut terms);
    terms
}

/// Takes the pairs of neighbours out of a run of characters.
fn pairs(run: &mut String, terms: &mut Vec<String>) {
    let mut chars = run.chars();
    match (chars.next(), chars.next()) {
        (Some(only), None) => terms.push(only.to_string()),
        (Some(first), Some(second)) => {
            let mut before = first;
            for next in iter::once(second).chain(chars) {
                terms.push([before, next].iter().collect());
                before = next;
            }
        }
        (None, _) => {}
    }
    run.clear();
}

/// Scripts written without spaces: Han, kana, Thai, Lao, Khmer, Myanmar.
fn has_no_spaces(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x31f0..=0x31ff
        | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x323af)
}

fn algorithm(language: Lang) -> Option<Algorithm> {
    Some(match language {
        Lang::Ara => Algorithm::Arabic,
        Lang::Dan => Algorithm::Danish,
        Lang::Nld => Algorithm::Dutch,
        Lang::Eng => Algorithm::English,
        Lang::Fin => Algorithm::Finnish,
        Lang::Fra => Algorithm::French,
        Lang::Deu => Algorithm::German,
        Lang::Ell => Algorithm::Greek,
        Lang::Hun => Algorithm::Hungarian,
        Lang::Ita => Algorithm::Italian,
        Lang::Nob => Algorithm::Norwegian,
        Lang::Por => Algorithm::Portuguese,
        Lang::Ron => Algorithm::Romanian,
        Lang::Rus => Algorithm::Russian,
        Lang::Spa => Algorithm::Spanish,
        Lang::Swe => Algorithm::Swedish,
        Lang::Tam => Algorithm::Tamil,
        Lang::Tur => Algorithm::Turkish,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        assert_eq!(Language::ENGLISH.code(), "eng");
        for language in [Language::ENGLISH, Language::UNKNOWN, Language(Some(Algorithm::Norwegian))] {
            assert_eq!(Language::from_code(language.code()), language);
        }
    }

    #[test]
    fn words_are_stemmed_and_scripts_without_spaces_paired() {
        let english = "The runners were running past connected houses all day";
        let found = terms(english, Language::of(english));
        assert!(found.contains(&"run".into()) && found.contains(&"connect".into()), "{found:?}");
        assert_eq!(terms("東京都 2024", Language::UNKNOWN), ["東京", "京都", "2024"]);
        assert_eq!(terms("ﬁne", Language::UNKNOWN), ["fine"]);
        assert_eq!(terms("हिन्दी भाषा", Language::UNKNOWN).len(), 2);
    }
}
