//! Name globs: `*` and `?`, a leading `!` excludes, the last match wins. Linear in the name for each pattern.

/// An ordered list of globs over names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Globs(Vec<(bool, Box<str>)>);

impl Globs {
    /// Compiles patterns; `!` in front excludes.
    pub fn new<I: IntoIterator<Item = S>, S: AsRef<str>>(patterns: I) -> Self {
        let one = |p: S| match p.as_ref().strip_prefix('!') {
            Some(rest) => (false, rest.into()),
            None => (true, p.as_ref().into()),
        };
        Self(patterns.into_iter().map(one).collect())
    }

    /// Everything matches.
    #[must_use]
    pub fn any() -> Self {
        Self::new(["*"])
    }

    /// Whether every name matches, so that nothing needs to be filtered.
    #[must_use]
    pub fn is_any(&self) -> bool {
        let last_star =
            self.0.iter().rposition(|(yes, p)| *yes && p.chars().all(|c| c == '*') && !p.is_empty());
        last_star.is_some_and(|at| self.0[at..].iter().all(|(yes, _)| *yes))
    }

    /// Whether the last pattern that matches `name` includes it.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let hit = self.0.iter().rev().find(|(_, p)| matches(p.as_bytes(), name.as_bytes()));
        hit.is_some_and(|(yes, _)| *yes)
    }
}

/// Greedy match with one point to return to: no recursion, at most `pattern * name` steps.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_match_wins() {
        let globs = Globs::new(["*", "!files__delete_*", "files__delete_tmp"]);
        assert!(globs.matches("files__read"));
        assert!(!globs.matches("files__delete_all"));
        assert!(globs.matches("files__delete_tmp"));
        assert!(!globs.is_any());
        assert!(Globs::any().is_any());
        assert!(Globs::new(["!a", "*"]).is_any());
        assert!(!Globs::default().matches("x"));
    }

    #[test]
    fn stars_backtrack_without_blowing_up() {
        let globs = Globs::new(["*a*a*a*a*a*a*a*a*b"]);
        assert!(!globs.matches(&"a".repeat(5_000)));
        assert!(Globs::new(["a?c*"]).matches("abcdef"));
        assert!(Globs::new(["*token*"]).matches("access_token_v2"));
    }
}
