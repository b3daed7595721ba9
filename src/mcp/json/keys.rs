//! Noticing a member name that comes twice in one object, however many members there are.
//!
//! Names are kept as keyed hashes of their decoded text; only if two hashes are the same are names compared.
//! Invariants: the answer is exact; linear in the members.

use std::collections::HashSet;

use super::{Raw, hash::FoldState, scan::Visit, text};

/// Up to this many names, comparing each with each is quickest.
const FEW: usize = 16;

/// Hashes in one bucket of a large object, on average.
const BUCKET: usize = 512;

/// The names of one object.
#[derive(Debug, Default)]
pub struct Keys {
    few: [u64; FEW],
    len: usize,
    /// All of them, once they are more than a few.
    many: Vec<u64>,
}

/// The hash of a name, given with its quotes.
#[inline]
fn hash(state: FoldState, token: &[u8], plain: bool) -> u64 {
    let inner = token.get(1..token.len().saturating_sub(1)).unwrap_or_default();
    if plain {
        return state.hash_bytes(inner);
    }
    let token = std::str::from_utf8(token).unwrap_or_default();
    state.hash_bytes(text::decode_lossy(token).as_bytes())
}

impl Keys {
    /// Adds a decoded name.
    #[inline]
    pub fn add(&mut self, state: FoldState, name: &[u8]) {
        let hash = state.hash_bytes(name);
        if let Some(slot) = self.few.get_mut(self.len) {
            *slot = hash;
            self.len += 1;
        } else {
            self.spill(hash);
        }
    }

    fn spill(&mut self, hash: u64) {
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(hash);
    }

    /// Whether two of the names have the same hash.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        if self.many.is_empty() { repeats(&self.few[..self.len]) } else { repeats(&self.many) }
    }

    /// Whether `object`, whose names have all been added, has a member twice.
    #[must_use]
    pub fn repeat_in(&self, object: Raw<'_>) -> bool {
        self.may_repeat() && names_repeat(object)
    }
}

/// Whether `object` has a member twice, by comparing names.
fn names_repeat(object: Raw<'_>) -> bool {
    let mut seen = HashSet::with_hasher(FoldState::default());
    !object.members().all(|m| m.name.as_str().is_some_and(|name| seen.insert(name)))
}

/// Whether a number comes twice. They must be well mixed.
fn repeats(hashes: &[u64]) -> bool {
    if hashes.len() <= FEW {
        return hashes.iter().enumerate().any(|(i, h)| hashes[..i].contains(h));
    }
    if hashes.len() <= 2 * BUCKET {
        return table_repeats(hashes, &mut Vec::new());
    }
    let bits = (hashes.len() / BUCKET).ilog2();
    let (parts, ends) = partition(hashes, bits);
    let (mut start, mut table) = (0, Vec::new());
    ends.into_iter().any(|end| table_repeats(&parts[std::mem::replace(&mut start, end)..end], &mut table))
}

/// The hashes in buckets by their first `bits` bits, and where each bucket ends: neighbours in memory are then
/// compared with each other, which a table of all of them would not give.
fn partition(hashes: &[u64], bits: u32) -> (Vec<u64>, Vec<usize>) {
    let bucket = |h: u64| (h >> (64 - bits)) as usize;
    let mut ends = vec![0; 1 << bits];
    for h in hashes {
        ends[bucket(*h)] += 1;
    }
    let mut total = 0;
    for end in &mut ends {
        total += std::mem::replace(end, total);
    }
    let mut parts = vec![0; hashes.len()];
    for h in hashes {
        let at = &mut ends[bucket(*h)];
        parts[*at] = *h;
        *at += 1;
    }
    (parts, ends)
}

/// Whether a number comes twice, by a table of twice as many slots; `table` is only kept to be used again.
fn table_repeats(hashes: &[u64], table: &mut Vec<u64>) -> bool {
    let slots = (hashes.len() * 2).next_power_of_two();
    table.clear();
    table.resize(slots, 0);
    for h in hashes {
        // 0 marks a free slot; a hash that is 0 shares the number of another, which only costs a comparison.
        let h = (*h).max(1);
        let mut at = h as usize & (slots - 1);
        while table[at] != 0 {
            if table[at] == h {
                return true;
            }
            at = (at + 1) & (slots - 1);
        }
        table[at] = h;
    }
    false
}

/// Watches a pass over a value for members that come twice, at any depth. Here a hash is the name: two names are
/// taken for one with a chance of about 2^-64 for each pair.
#[derive(Debug, Default)]
pub struct Duplicates {
    state: FoldState,
    /// For each open container, where its names start in `hashes`.
    open: Vec<usize>,
    hashes: Vec<u64>,
    found: bool,
}

impl Duplicates {
    /// Whether a member came twice.
    #[must_use]
    pub fn found(&self) -> bool {
        self.found
    }
}

impl Visit for Duplicates {
    #[inline]
    fn name(&mut self, bytes: &[u8], from: usize, to: usize, plain: bool) {
        self.hashes.push(hash(self.state, &bytes[from..to], plain));
    }

    #[inline]
    fn open(&mut self) {
        self.open.push(self.hashes.len());
    }

    #[inline]
    fn close(&mut self) {
        if let Some(start) = self.open.pop() {
            self.found = self.found || repeats(&self.hashes[start..]);
            self.hashes.truncate(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duplicates, Keys, repeats};
    use crate::mcp::json::{hash::FoldState, parse, scan::Scanner};

    fn any_duplicates(text: &str) -> bool {
        let mut duplicates = Duplicates::default();
        Scanner::new(text).visited(0, &mut duplicates).unwrap();
        duplicates.found()
    }

    #[test]
    fn a_name_that_comes_twice_is_noticed_however_it_is_spelt() {
        for text in [
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"x":{"b":1, "c":2 , "b" :3}}]"#,
            r#"{"a":[{},{"k":1,"k":1}]}"#,
            r#"{"":0,"":0}"#,
        ] {
            assert!(any_duplicates(text), "{text}");
        }
        for text in
            [r#"{"a":{"a":"a"},"b":["a","a"]}"#, r#"[{"a":1},{"a":1}]"#, r#"{"a":"b","b":"a"}"#, "1", "[]"]
        {
            assert!(!any_duplicates(text), "{text}");
        }
    }

    #[test]
    fn many_names_are_compared_as_well_as_few() {
        for many in [15, 16, 17, 1000, 1025, 5000, 70_000] {
            let object: Vec<String> = (0..many).map(|n| format!("\"k{n}\":0")).collect();
            let unique = format!("{{{}}}", object.join(","));
            assert!(!any_duplicates(&unique), "{many}");
            let twice = format!("{{{},\"\\u006b7\":1}}", object.join(","));
            assert!(any_duplicates(&twice), "{many}");
            let mut keys = Keys::default();
            let value = parse(twice.as_bytes()).unwrap();
            value.members().for_each(|m| keys.add(FoldState::default(), m.name.as_str().unwrap().as_bytes()));
            assert!(keys.repeat_in(value), "{many}");
        }
    }

    #[test]
    fn equal_hashes_of_different_names_are_no_repetition() {
        let keys = Keys { len: 2, ..Keys::default() };
        assert!(keys.may_repeat() && !keys.repeat_in(parse(br#"{"a":1,"b":2}"#).unwrap()));
        assert!(repeats(&[0, 3, 0]) && repeats(&[[0; 1].as_slice(), &[1; 20]].concat()));
    }
}
