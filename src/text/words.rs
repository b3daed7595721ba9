//! The words of a text as matching sees them: NFKC, lower case, split by Unicode's rules (UAX #29), stemmed in the
//! text's language; scripts without spaces as pairs of characters. The same terms serve ranking in memory and the
//! full-text index, so that both find the same.

use std::{borrow::Cow, collections::HashMap, fmt};

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};
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
    let stemmer = language.0.map(Stemmer::create);
    let mut terms = Vec::new();
    walk(text, |word, whole| match &stemmer {
        Some(stemmer) if whole => terms.push(stemmer.stem(word).into_owned()),
        _ => terms.push(word.to_owned()),
    });
    terms
}

/// Numbers terms, so that those of a long text cost no more than a look-up each.
pub struct Vocabulary {
    stemmer: Option<Stemmer>,
    terms: HashMap<String, u32>,
    words: HashMap<String, u32>,
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").field("terms", &self.terms.len()).finish_non_exhaustive()
    }
}

impl Vocabulary {
    /// One in which nothing is numbered yet.
    #[must_use]
    pub fn new(language: Language) -> Self {
        let stemmer = language.0.map(Stemmer::create);
        Self { stemmer, terms: HashMap::new(), words: HashMap::new() }
    }

    /// Calls `found` with the number of each term of `text`, in order. Numbers count from 0 as terms turn up.
    pub fn each(&mut self, text: &str, mut found: impl FnMut(u32)) {
        let Self { stemmer, terms, words } = self;
        walk(text, |word, whole| {
            if let Some(number) = words.get(word) {
                return found(*number);
            }
            let stem = stemmer.as_ref().filter(|_| whole).map_or(Cow::Borrowed(word), |s| s.stem(word));
            let next = terms.len() as u32;
            let number = match terms.get(&*stem) {
                Some(number) => *number,
                None => *terms.entry(stem.into_owned()).or_insert(next),
            };
            words.insert(word.to_owned(), number);
            found(number);
        });
    }

    /// How many terms have turned up.
    #[must_use]
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

/// Calls `found` with each word of `text`, normalised but not stemmed, and whether it is a whole word rather than a
/// pair of characters.
fn walk(text: &str, mut found: impl FnMut(&str, bool)) {
    if text.is_ascii() {
        let text = text.to_ascii_lowercase();
        text.unicode_words().for_each(|word| found(word, true));
        return;
    }
    let text: String = if is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        text.chars().flat_map(char::to_lowercase).collect()
    } else {
        text.nfkc().flat_map(char::to_lowercase).collect()
    };
    let mut run = String::new();
    for word in text.unicode_words() {
        // UAX #29 leaves ideographs and Thai letters one by one, or in clusters that are no words.
        if word.chars().all(has_no_spaces) {
            run.push_str(word);
            continue;
        }
        pairs(&mut run, &mut found);
        found(word, true);
    }
    pairs(&mut run, &mut found);
}

/// Takes the pairs of neighbours out of a run of characters.
fn pairs(run: &mut String, found: &mut impl FnMut(&str, bool)) {
    let starts = || run.char_indices().map(|(at, _)| at).chain([run.len()]);
    for (from, to) in starts().zip(starts().skip(2)) {
        found(&run[from..to], false);
    }
    if run.chars().nth(1).is_none() && !run.is_empty() {
        found(run, false);
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
        assert_eq!(terms("京 1", Language::UNKNOWN), ["京", "1"]);
    }

    #[test]
    fn a_vocabulary_gives_equal_numbers_to_equal_terms() {
        let text = "Connected houses connect a house 東京都東京";
        let mut vocabulary = Vocabulary::new(Language::ENGLISH);
        let mut numbers = Vec::new();
        vocabulary.each(text, |number| numbers.push(number));
        assert_eq!(numbers, [0, 1, 0, 2, 1, 3, 4, 5, 3]);
        assert_eq!(terms(text, Language::ENGLISH).len(), numbers.len());
        assert_eq!(vocabulary.len(), 6);
    }
}
