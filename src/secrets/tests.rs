use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;

use super::*;

/// Rule, sample and secret of each published sample.
fn samples() -> Vec<(String, String, String)> {
    let decoded = |text: &str| String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap();
    let lines = include_str!("../../tests/fixtures/secrets.tsv").lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|line| {
            let [rule, sample, secret] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            (rule.to_owned(), decoded(sample), decoded(secret))
        })
        .collect()
}

/// What cannot be told from ordinary words: a name far away, or none, beside a value of lower-case letters or hex digits.
const MISSED: &[&str] = &["np.generic.7", "np.jenkins.2", "np.psexec.1", "np.thingsboard.1"];

#[test]
fn published_samples_are_found() {
    let left: Vec<_> = samples()
        .into_iter()
        .filter(|(_, sample, secret)| masked(sample).contains(secret.as_str()))
        .inspect(|(rule, sample, secret)| println!("{rule}: {secret:?} in {sample:?}"))
        .map(|(rule, ..)| rule)
        .collect();
    assert_eq!(left, MISSED);
}

#[test]
fn card_numbers_addresses_and_users_of_urls_are_masked() {
    for (text, expected) in [
        ("card 4111 1111 1111 1111, thanks", "card ***, thanks"),
        ("5555-5555-5555-4444", "***"),
        ("378282246310005", "***"),
        ("write to ada.l+x@mail.example.org.", "write to ***."),
        ("q=ada%40example.org&x=1", "q=***&x=1"),
        ("postgres://ada:hunter2@db.example/x", "postgres://***@db.example/x"),
        ("Authorization: Bearer mF_9.B5f-4.1JqM", "Authorization: Bearer ***"),
        (r#"{\"password\": \"two words\"}"#, r#"{\"password\": \"***\"}"#),
        ("-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nrest", "***\nrest"),
        ("-----BEGIN PRIVATE KEY-----\\nMHc", "***"),
    ] {
        assert_eq!(masked(text), expected);
    }
}

#[test]
fn escapes_of_json_hide_nothing() {
    for (text, expected) in [
        (r#"said {"a":"\u0061da\u0040example.org"}"#, r#"said {"a":"***"}"#),
        (r#"{"t":"{\"m\":\"ad\\u0061@example.org\"}"}"#, r#"{"t":"{\"m\":\"***\"}"}"#),
        (r#"{"p\u0061ssword":"horse\/staple"}"#, r#"{"p\u0061ssword":"***"}"#),
    ] {
        assert_eq!(masked(text), expected);
    }
    let all = |secret: &str| secret.bytes().map(|b| format!("\\u{b:04x}")).collect::<String>();
    for (rule, sample, secret) in samples() {
        if !MISSED.contains(&rule.as_str()) {
            assert!(!masked(&all(&sample)).contains(&all(&secret)), "{rule}");
        }
    }
}

#[test]
fn ordinary_text_stays() {
    for text in [
        "4111111111111112",
        "1700000000000000",
        "0.4111111111111111",
        "files__read",
        "notifications/tools/list_changed",
        "io.modelcontextprotocol/clientInfo is missing from _meta; keys: a, b",
        "the upstream answered HTTP 502",
        "token: expired",
        "missing or unknown key; send Authorization: Bearer with a key of this gateway",
        "MCP-Protocol-Version: 2025-11-25 is not supported",
        "2f9c1e0a-4b1d-4c7e-9d3a-1f2e3d4c5b6a",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "cursor 2.1 (https://cursor.com/docs@latest)",
        "npm i @modelcontextprotocol/sdk@1.27.0",
        "https://example.org/a/Long/Path/With/Many/Segments/And/v2/Names/index.html",
        "http://127.0.0.1:8787/mcp",
        "01J5ZK7Q4T3N8XW2V9YRBCDEFG",
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn names_tell_secrets() {
    assert!(is_named("api_key", "9f8a7b6c5d4e3f2a1b0c"));
    assert!(is_named("clientSecret", "open-sesame"));
    assert!(!is_named("primaryKey", "orders"));
    assert!(!is_named("path", "src/main.rs"));
}

/// Beginnings of everything that is looked for, one after the other: each is looked at for a bounded stretch.
#[test]
fn hostile_text_takes_linear_time() {
    let begins =
        ["sk-", "token=", "://", "@", "-----begin ", "bearer ", "4111 1111 ", "key_key_", "eyJ", "password "];
    for begin in begins.map(ToOwned::to_owned).into_iter().chain([begins.concat()]) {
        let time = |n: usize| {
            let text = begin.repeat(n / begin.len());
            // Of this thread alone: others may be at work on this machine.
            let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let took = || {
                let start = now();
                std::hint::black_box(masked(&text));
                let end = now();
                (end.tv_sec - start.tv_sec) as f64 + (end.tv_nsec - start.tv_nsec) as f64 / 1e9
            };
            (0..3).map(|_| took()).fold(f64::MAX, f64::min)
        };
        let (short, long) = (time(16 << 10), time(128 << 10));
        assert!(long < short * 30.0, "{begin}: {short} s for 16 KiB, {long} s for 128 KiB");
    }
}

proptest! {
    #[test]
    fn masking_ends_and_keeps_what_is_around(text in "[ -~é\n]{0,300}") {
        let once = masked(&text).into_owned();
        prop_assert!(once.len() <= text.len() + 3 * find(text.as_bytes()).len());
    }

    #[test]
    fn a_token_is_found_wherever_it_stands(before in "[a-z ,.:\"{]{0,40} ", after in "[\" ,}\n][ -~]{0,40}", n in 0usize..150) {
        let (_, sample, secret) = samples().swap_remove(n);
        // Only those that need no name beside them.
        prop_assume!(masked(&secret) == MASK && sample.contains(&secret));
        let text = [before, secret.clone(), after].concat();
        prop_assert!(!masked(&text).contains(&secret));
    }
}
