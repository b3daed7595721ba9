//! What later versions will understand and this one refuses by name, so that nobody takes it for a typing error.

/// Keys, as dotted paths; `*` stands for one name.
const KEYS: &[&str] = &[
    "auth.jwt",
    "upstreams.*.budget_guard",
    "upstreams.*.context_gate",
    "upstreams.*.dedup",
    "upstreams.*.memory",
    "upstreams.*.pipe",
];

/// Keys that this version has, with words that a later one also takes; `*` at the end stands for any text.
const WORDS: &[(&str, &str)] = &[
    ("auth.mode", "jwt"),
    ("limits.on_store_error", "deny"),
    ("limits.store", "redis:*"),
    ("limits.store", "rediss:*"),
];

/// The refusal of a key.
pub(super) fn key(path: &str) -> Option<String> {
    KEYS.iter().any(|k| same(k, path)).then(|| format!("`{path}` is not in this version"))
}

/// The refusal of a word. Of text that is only known by its start, no more than that is shown: the rest may hold
/// a password.
pub(super) fn word(path: &str, text: &str) -> Option<String> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => text == pattern,
    };
    let (_, word) = WORDS.iter().find(|(k, w)| same(k, path) && fits(w))?;
    Some(format!("`{path}`: `{word}` is not in this version"))
}

fn same(pattern: &str, path: &str) -> bool {
    let (mut a, mut b) = (pattern.split('.'), path.split('.'));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(p), Some(k)) if p == "*" || p == k => {}
            _ => return false,
        }
    }
}
