//! Tampered journals, before our verifier and before one that shares no code with it (`tests/audit_verifier.py`): both
//! pass what is good, and both name the same line of what is not.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use sha2::{Digest, Sha256};
use smartgate::signing::new_key;

use crate::support::recorder;

/// A journal of three boots in two old segments and the current one; lines without their line feeds.
struct Good {
    segments: Vec<Vec<String>>,
    key: String,
}

/// Boots of four lines: the start, a self-test, and a checkpoint each after it and at the end.
fn good() -> Good {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (private, public) = new_key().unwrap();
    for _ in 0..3 {
        boot(&path, Some(&private));
        // No two boots of a gateway are in the same millisecond.
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 12, "{text}");
    Good { segments: lines.chunks(5).map(<[String]>::to_vec).collect(), key: public.to_hex() }
}

fn boot(path: &Path, key: Option<&str>) {
    let (recorder, thread) = recorder::boot(path, key, Duration::from_secs(300));
    recorder.prove_journal().unwrap();
    thread.stop();
}

/// A line with its hash mended.
fn rehash(line: &str) -> String {
    let covered = line.rsplit_once(",\"hash\":").unwrap().0;
    format!("{covered},\"hash\":\"{}\"}}", hex(&Sha256::digest(covered)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn hash(line: &str) -> String {
    line[line.len() - 66..line.len() - 2].to_owned()
}

/// Puts a member into a line, and mends its hash. Bytes, because it need not be text.
fn with_member(line: &str, member: &[u8]) -> Vec<u8> {
    let (before, after) = line.rsplit_once(",\"prev\":").unwrap();
    let covered = [before.as_bytes(), b",", member, b",\"prev\":", &after.as_bytes()[..66]].concat();
    let ending = format!(",\"hash\":\"{}\"}}", hex(&Sha256::digest(&covered)));
    [covered, ending.into_bytes()].concat()
}

/// Mends every hash and `prev` from line `from` on.
fn rechain(lines: &mut [String], from: usize) {
    for n in from..lines.len() {
        let line = lines[n].clone();
        let line = if n == 0 {
            line
        } else {
            let (before, after) = line.rsplit_once(",\"prev\":\"").unwrap();
            format!("{before},\"prev\":\"{}{}", hash(&lines[n - 1]), &after[64..])
        };
        lines[n] = rehash(&line);
    }
}

/// What both verifiers say of these files: `None` if they pass, else the line that is named, or the whole.
fn verdicts(files: &[Vec<u8>], options: &[String]) -> [Option<String>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..files.len()).map(|n| folder.path().join(format!("s{n}"))).collect();
    paths.iter().zip(files).for_each(|(path, text)| fs::write(path, text).unwrap());
    let verifier = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/audit_verifier.py");
    let mut ours = Command::new(env!("CARGO_BIN_EXE_smartgate"));
    // One file is a journal whose segments are looked for.
    ours.args(["audit", "verify"]).args(options).args(&paths);
    let mut theirs = Command::new("python3");
    theirs.arg(verifier).args(options).args(&paths);
    [ours, theirs].map(|mut command| {
        let output = command.output().unwrap();
        let told = [output.stderr, output.stdout].concat();
        let told = String::from_utf8_lossy(&told).into_owned();
        match output.status.code() {
            Some(0) => None,
            Some(1) => {
                let place = told.strip_prefix(&format!("{}/", folder.path().display()));
                Some(
                    place.map_or("whole".to_owned(), |p| {
                        p.splitn(3, ':').take(2).collect::<Vec<_>>().join(":")
                    }),
                )
            }
            code => panic!("{code:?}: {told}"),
        }
    })
}

struct Case {
    name: &'static str,
    files: Vec<String>,
    options: Vec<String>,
    expected: Option<&'static str>,
}

fn text(segments: &[Vec<String>]) -> Vec<String> {
    segments.iter().map(|lines| lines.iter().map(|l| format!("{l}\n")).collect()).collect()
}

/// The good journal as one list, changed, and cut into its segments again.
fn changed(good: &Good, change: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
    let mut lines = good.segments.concat();
    change(&mut lines);
    text(&lines.chunks(5).map(<[String]>::to_vec).collect::<Vec<_>>())
}

#[test]
fn both_verifiers_agree_on_every_kind_of_tampering() {
    let good = good();
    let key = || vec!["--public-key".to_owned(), good.key.clone()];
    let lines = good.segments.concat();
    let keep = |n: usize| format!("{}\n", lines[n]);
    let folder = tempfile::tempdir().unwrap();
    let against = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        vec!["--against".to_owned(), path.to_str().unwrap().to_owned()]
    };
    let span = |line: &str, seq: u64| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let text =
            |name: &str| format!(r#"{{"key":"smartgate.{name}","value":{{"stringValue":{}}}}}"#, value[name]);
        format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"attributes":[{},{},{{"key":"smartgate.seq","value":{{"intValue":"{seq}"}}}}]}}]}}]}}]}}{}"#,
            text("boot"),
            text("hash"),
            "\n"
        )
    };
    let (other_private, other_public) = new_key().unwrap();
    drop(other_private);
    let mut cases = Vec::new();
    let mut case = |name, expected, files: Vec<String>, options: Vec<String>| {
        cases.push(Case { name, files, options, expected });
    };
    let whole = text(&good.segments);

    case("good", None, whole.clone(), vec![]);
    case("good, signatures checked", None, whole.clone(), key());
    case("good, without its oldest segment", None, whole[1..].to_vec(), key());
    case(
        "good, compared with spans and lines",
        None,
        whole.clone(),
        against("g", span(&lines[1], 1) + &keep(6)),
    );
    case(
        "good, crashed before the last spans were written",
        None,
        text(&[lines[..9].to_vec()]),
        against("c", span(&lines[9], 5)),
    );
    case(
        "good, spans older than the oldest segment",
        None,
        whole[1..].to_vec(),
        against("o", keep(0) + &keep(1)),
    );
    case(
        "a byte of a value",
        Some("s0:2"),
        changed(&good, |l| l[1] = l[1].replacen("selftest", "selfless", 1)),
        vec![],
    );
    case(
        "a byte of a hash",
        Some("s1:1"),
        changed(&good, |l| {
            let end = l[5].len() - 3;
            let digit = if l[5].as_bytes()[end] == b'0' { "1" } else { "0" };
            l[5].replace_range(end..=end, digit);
        }),
        vec![],
    );
    case(
        "a value, with its line's hash mended",
        Some("s0:3"),
        changed(&good, |l| l[1] = rehash(&l[1].replacen("time\":\"2", "time\":\"3", 1))),
        vec![],
    );
    case("a line taken away", Some("s0:2"), changed(&good, |l| drop(l.remove(1))), vec![]);
    case("two lines changed over", Some("s0:2"), changed(&good, |l| l.swap(1, 2)), vec![]);
    case("a line twice", Some("s0:3"), changed(&good, |l| l.insert(2, l[1].clone())), vec![]);
    case(
        "a line of another journal",
        Some("s0:3"),
        changed(&good, |l| l.insert(2, self::good().segments[0][1].clone())),
        vec![],
    );
    case("an empty line", Some("s0:3"), changed(&good, |l| l.insert(2, String::new())), vec![]);
    case("text that is no record", Some("s1:2"), changed(&good, |l| l.insert(6, "{\"v\":1}".into())), vec![]);
    case(
        "a hash over what is no JSON",
        Some("s0:2"),
        changed(&good, |l| l[1] = rehash(&l[1].replacen("{\"v\"", "{v", 1))),
        vec![],
    );
    case(
        "a member twice",
        Some("s0:2"),
        changed(&good, |l| l[1] = rehash(&l[1].replacen(",\"seq\":1", ",\"seq\":1,\"seq\":1", 1))),
        vec![],
    );
    case(
        "another version",
        Some("s0:2"),
        changed(&good, |l| l[1] = rehash(&l[1].replacen("\"v\":1", "\"v\":2", 1))),
        vec![],
    );
    case(
        "the last line cut short",
        Some("s2:2"),
        {
            let mut files = whole.clone();
            let end = files[2].len() - 9;
            files[2].truncate(end);
            files
        },
        vec![],
    );
    case(
        "an old segment cut short",
        Some("s0:5"),
        {
            let mut files = whole.clone();
            let end = files[0].len() - 1;
            files[0].truncate(end);
            files
        },
        vec![],
    );
    case("a segment in the middle gone", Some("s1:1"), vec![whole[0].clone(), whole[2].clone()], vec![]);
    case(
        "segments changed over",
        Some("s1:1"),
        vec![whole[1].clone(), whole[0].clone(), whole[2].clone()],
        vec![],
    );
    case(
        "a segment replaced by another journal's",
        Some("s1:1"),
        {
            let mut files = whole.clone();
            files[1] = text(&self::good().segments)[1].clone();
            files
        },
        vec![],
    );
    case("a segment emptied", Some("s2:1"), vec![whole[0].clone(), String::new(), whole[2].clone()], vec![]);
    case(
        "a line taken away and the chain mended",
        Some("s0:2"),
        changed(&good, |l| {
            l.remove(1);
            rechain(l, 0);
        }),
        vec![],
    );
    case(
        "a boot's start taken away and the chain mended",
        Some("s0:5"),
        changed(&good, |l| {
            l.remove(4);
            rechain(l, 0);
        }),
        vec![],
    );
    case(
        "a boot twice and the chain mended",
        Some("s1:4"),
        changed(&good, |l| {
            let again = l[..4].to_vec();
            l.splice(8.., again);
            rechain(l, 0);
        }),
        vec![],
    );
    case(
        "a first line that is no start",
        Some("s0:1"),
        changed(&good, |l| {
            l.remove(0);
            let (before, after) =
                l[0].rsplit_once(",\"prev\":\"").map(|(b, a)| (b.to_owned(), a.to_owned())).unwrap();
            l[0] = format!("{before},\"prev\":\"{}{}", "0".repeat(64), &after[64..]);
            rechain(l, 0);
        }),
        vec![],
    );
    let rewritten = |l: &mut Vec<String>| {
        l[1] = l[1].replacen("\"time\":\"2", "\"time\":\"3", 1);
        rechain(l, 1);
    };
    case("all written anew: not seen without a key", None, changed(&good, rewritten), vec![]);
    case("all written anew", Some("s0:3"), changed(&good, rewritten), key());
    case(
        "another key's signatures",
        Some("s0:3"),
        whole.clone(),
        vec!["--public-key".into(), other_public.to_hex()],
    );
    case(
        "a signature put elsewhere",
        Some("s1:2"),
        changed(&good, |l| {
            let of = |line: &str| line.split_once("\"signature\":\"").unwrap().1[..128].to_owned();
            l[6] = l[6].replace(&of(&l[6]), &of(&l[2]));
            rechain(l, 6);
        }),
        key(),
    );
    case(
        "signatures taken away from one",
        Some("s1:2"),
        changed(&good, |l| {
            let (a, b) = (l[6].find(",\"key\":").unwrap(), l[6].find(",\"prev\":").unwrap());
            l[6].replace_range(a..b, ",\"key\":null,\"signature\":null");
            rechain(l, 6);
        }),
        key(),
    );
    case(
        "all signatures taken away",
        Some("whole"),
        changed(&good, |l| {
            for line in l.iter_mut().filter(|l| l.contains("\"kind\":\"checkpoint\"")) {
                let (a, b) = (line.find(",\"key\":").unwrap(), line.find(",\"prev\":").unwrap());
                line.replace_range(a..b, ",\"key\":null,\"signature\":null");
            }
            rechain(l, 0);
        }),
        key(),
    );
    case("the end cut off: not seen without more", None, text(&[lines[..9].to_vec()]), key());
    case(
        "the end cut off past a kept checkpoint",
        Some("whole"),
        text(&[lines[..9].to_vec()]),
        against("k1", keep(10)),
    );
    case(
        "the end cut off past a clean stop",
        Some("whole"),
        text(&[lines[..4].to_vec()]),
        against("k2", span(&lines[1], 7)),
    );
    case(
        "whole boots cut off",
        Some("whole"),
        text(&[lines[..4].to_vec()]),
        against("k3", span(&lines[9], 1)),
    );
    case(
        "a span that was never recorded",
        Some("whole"),
        whole,
        against("k4", span(&lines[1], 1).replace(&hash(&lines[1]), &"a".repeat(64))),
    );
    case(
        "written anew, and spans kept",
        Some("whole"),
        changed(&good, rewritten),
        against("k5", span(&lines[1], 1)),
    );

    case("an empty journal, though a key is given", Some("whole"), vec![String::new()], key());
    case("an empty journal", None, vec![String::new()], vec![]);

    let bad = cases.iter().filter(|c| c.expected.is_some()).count();
    assert!(bad >= 20, "{bad} kinds");
    for Case { name, files, options, expected } in cases {
        let files: Vec<Vec<u8>> = files.into_iter().map(String::into_bytes).collect();
        let [ours, theirs] = verdicts(&files, &options);
        assert_eq!(ours.as_deref(), expected, "{name}: ours");
        assert_eq!(theirs.as_deref(), expected, "{name}: theirs");
    }
}

/// Lines whose hash is right and whose members are, but for one that no verifier has to read: JSON readers differ
/// about these, so the format says what is good.
#[test]
fn both_verifiers_agree_on_odd_members() {
    let lines = good().segments.concat();
    let deep = |levels: usize| format!("\"x\":{}{}", "[".repeat(levels), "]".repeat(levels)).into_bytes();
    let plain = |text: &str| text.as_bytes().to_vec();
    let odd: [(&str, bool, Vec<u8>); 26] = [
        ("a member", true, plain(r#""x":{"a":[{"a":1},{"a":1}]}"#)),
        ("a member twice within an object", false, plain(r#""x":{"a":1,"a":1}"#)),
        ("deeper", false, plain(r#""x":[[{"y":{"a":1,"b":2,"a":3}}]]"#)),
        ("spelt in another way", false, plain(r#""x":{"a":1,"\u0061":1}"#)),
        ("lone surrogates, which are the same name", false, plain(r#""x":{"\ud800":1,"\udfff":1}"#)),
        ("a lone surrogate", true, plain(r#""x":{"\ud800":"\udc00\ud800"}"#)),
        ("bad UTF-8 in a string", false, b"\"x\":\"\xff\"".to_vec()),
        ("bad UTF-8 in a name", false, b"\"\xc3\":1".to_vec()),
        ("a surrogate in UTF-8", false, b"\"x\":\"\xed\xa0\x80\"".to_vec()),
        ("512 levels", true, deep(511)),
        ("513 levels", false, deep(512)),
        ("100,000 levels", false, deep(100_000)),
        ("brackets in strings", true, format!("\"x\":\"\\\"{}\"", "[{".repeat(1000)).into_bytes()),
        ("NaN", false, plain("\"x\":NaN")),
        ("Infinity", false, plain("\"x\":[Infinity]")),
        ("-Infinity", false, plain("\"x\":-Infinity")),
        ("a number beyond all bounds", true, plain("\"x\":[1e999,-0,0.10E-7]")),
        ("a number of many digits", true, format!("\"x\":{}", "7".repeat(6000)).into_bytes()),
        ("a number that begins with 0", false, plain("\"x\":01")),
        ("a control character", false, plain("\"x\":\"\t\"")),
        ("a comma too many", false, plain("\"x\":[1,]")),
        ("`lost` of more than 64 bits", false, plain("\"lost\":18446744073709551616")),
        ("`lost` below 0", false, plain("\"lost\":-0")),
        ("`lost` with a point", false, plain("\"lost\":0.0")),
        ("`records` that are none", false, plain("\"records\":\"1\"")),
        ("`reason` that is no text", false, plain("\"reason\":\"\\ud800\"")),
    ];
    for (name, passes, member) in odd {
        let line = with_member(&lines[1], &member);
        let journal = [lines[0].as_bytes(), b"\n", &line, b"\n"].concat();
        let expected = if passes { None } else { Some("s0:2") };
        let [ours, theirs] = verdicts(&[journal], &[]);
        assert_eq!(ours.as_deref(), expected, "{name}: ours");
        assert_eq!(theirs.as_deref(), expected, "{name}: theirs");
    }
    // Escapes change nothing, in the members that are read neither.
    let spelt = rehash(&lines[1].replacen("\"selftest\"", "\"\\u0073elftest\"", 1));
    let journal = format!("{}\n{spelt}\n", lines[0]).into_bytes();
    assert_eq!(verdicts(&[journal], &[]), [None, None]);
}
