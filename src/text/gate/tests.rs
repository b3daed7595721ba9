//! The promises of a cut, on texts of every kind.

use proptest::prelude::{Strategy, prop, proptest};
use serde_json::{Value, json};

use super::*;
use crate::text::tokens;

fn options(ratio: f64) -> Options {
    Options { ratio, max_tokens: None, ..Options::to_fit(0, None) }
}

fn for_purpose(ratio: f64, purpose: &str) -> Options {
    Options { purpose: Some(purpose.into()), ..options(ratio) }
}

/// What is left between the marks.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("[… ") {
        pieces.push(&rest[..at]);
        rest = rest[at..].split_once(" tokens omitted]").unwrap().1;
    }
    pieces.push(rest);
    pieces.into_iter().map(str::trim).filter(|piece| !piece.is_empty()).collect()
}

fn is_in_order(text: &str, pieces: &[&str]) -> bool {
    let mut rest = text;
    pieces.iter().all(|piece| {
        rest.find(piece).is_some_and(|at| {
            rest = &rest[at + piece.len()..];
            true
        })
    })
}

const PAGE: &str = "# Harbour\n\nThe quay was built in 1840 by the guild. Fishing boats unload there before dawn. Rents rose in May. \
    Nobody knows who painted the sheds.\n\n## Trains\n\nThe railway reached the coast in 1871. It carried wool, timber and salt to the inland valleys. \
    Two trains ran each day.\n\n- A single ticket cost four pence.\n- Dogs travelled free of charge.\n\n## Market\n\n| good | price |\n|---|---|\n| cod | 3 |\n| rope | 9 |\n\n\
    ```sh\nmarket --open\n```\n\nThe market moved uphill, close to the station. Merchants came weekly from the valleys to trade.\n";

#[test]
fn a_purpose_finds_its_sentence_and_the_heading_above_it() {
    let cut = cut(PAGE, &for_purpose(0.3, "How much was a ticket?")).unwrap();
    assert!(
        cut.text.contains("- A single ticket cost four pence.") && cut.text.contains("## Trains"),
        "{}",
        cut.text
    );
    assert!(cut.lossy && cut.tokens_out <= cut.target && cut.warnings.is_empty());
    assert!(is_in_order(PAGE, &pieces(&cut.text)), "{}", cut.text);
    let omitted: usize = cut.omitted.iter().map(|gap| gap.units).sum();
    assert_eq!(omitted + cut.units_kept, cut.units_total);
}

#[test]
fn tables_and_code_are_whole_or_gone() {
    for purpose in ["price of cod and rope", "market open command", "railway", "dogs"] {
        let text = cut(PAGE, &for_purpose(0.4, purpose)).unwrap().text;
        assert_eq!(text.contains("| good"), text.contains("| rope | 9 |"), "{text}");
        assert_eq!(text.matches("```").count() % 2, 0, "{text}");
    }
    assert!(cut(PAGE, &for_purpose(0.4, "price of cod and rope")).unwrap().text.contains("| cod | 3 |"));
}

#[test]
fn what_fits_is_left_alone() {
    let all = cut(PAGE, &Options::to_fit(5_000, Some("railway"))).unwrap();
    assert_eq!((all.text.as_str(), all.mode_used, all.lossy), (PAGE, "none", false));
    assert_eq!(cut(" \n", &options(0.5)), Err(Error::Empty));
}

#[test]
fn what_loses_nothing_comes_first() {
    let text = "connection lost\n".repeat(40) + "connection is up again\n";
    let squeezed = cut(&text, &options(0.5)).unwrap();
    assert_eq!(
        (squeezed.text.as_str(), squeezed.mode_used),
        ("connection lost (×40)\nconnection is up again\n", "lossless")
    );
    assert!(!squeezed.lossy);
    let extracted = cut(&text, &Options { mode: Mode::Extract, ..options(0.5) }).unwrap();
    assert_eq!(extracted.mode_used, "extract");
    let lossless = cut(PAGE, &Options { mode: Mode::Lossless, ..options(0.1) }).unwrap();
    assert_eq!((lossless.text.as_str(), lossless.mode_used), (PAGE, "none"));
}

#[test]
fn what_must_be_kept_is_kept_or_named_as_too_much() {
    let keep = |phrase: &str, ratio| {
        cut(PAGE, &Options { keep: vec![phrase.into()], ..for_purpose(ratio, "price of cod") })
    };
    assert!(keep("painted the sheds", 0.4).unwrap().text.contains("Nobody knows who painted the sheds."));
    assert_eq!(keep("no such words", 0.3).unwrap().warnings, ["keep_not_found"]);
    assert!(matches!(keep("the", 0.2), Err(Error::KeepExceedsBudget { needed, target }) if needed > target));
}

#[test]
fn without_a_match_the_cut_is_blind_and_says_so() {
    assert_eq!(cut(PAGE, &options(0.5)).unwrap().warnings, ["no_purpose"]);
    assert_eq!(cut(PAGE, &for_purpose(0.5, "quantum xylophone")).unwrap().warnings, ["purpose_not_found"]);
}

#[test]
fn json_stays_json_and_keeps_ends_and_matches() {
    let filler = "nothing of interest is written in this part of the record ".repeat(3);
    let rows: Vec<Value> = (0..60).map(|n| json!({"id": n, "note": if n == 37 { "the pump was leaking".into() } else { format!("{filler}{n}") }})).collect();
    let text = serde_json::to_string_pretty(
        &json!({"total": 60, "rows": rows, "long": "Some words here. ".repeat(80)}),
    )
    .unwrap();
    for ratio in [0.05, 0.1, 0.3, 0.6] {
        let cut = cut(&text, &for_purpose(ratio, "leaking pump")).unwrap();
        assert_eq!(cut.kind, Kind::Json);
        let left: Value = serde_json::from_str(&cut.text).unwrap_or_else(|e| panic!("{e}: {}", cut.text));
        let ids: Vec<_> =
            left["rows"].as_array().unwrap().iter().filter_map(|row| row["id"].as_u64()).collect();
        assert!(ids.contains(&37), "{ratio}: {ids:?}");
        assert!(ratio < 0.1 || ids.contains(&0) && ids.contains(&59), "{ratio}: {ids:?}");
    }
}

#[test]
fn logs_keep_what_went_wrong() {
    let mut log: Vec<String> = (0..300)
        .map(|n| format!("2024-05-01 10:{:02}:{:02} INFO served request {n} in 3 ms", n / 60, n % 60))
        .collect();
    log[123] = "2024-05-01 10:02:03 ERROR database unreachable\n  at connect\n  at main".into();
    let cut = cut(&log.join("\n"), &options(0.1)).unwrap();
    assert_eq!(cut.kind, Kind::Log);
    assert!(cut.text.contains("ERROR database unreachable\n  at connect\n  at main"), "{}", cut.text);
}

#[test]
fn near_repeats_are_left_out() {
    let line = "The committee met on Monday to discuss the budget of the harbour and the wages of the pilots";
    let text = format!(
        "{line}. {line} again. Elsewhere the weather was fine and nobody talked about money at all. {}",
        "Filler without a point. ".repeat(9)
    );
    let cut = cut(&text, &for_purpose(0.6, "budget of the harbour")).unwrap();
    assert_eq!(cut.text.matches("committee").count(), 1, "{}", cut.text);
}

#[test]
fn one_unit_larger_than_the_target_is_divided() {
    for text in [
        "word ".repeat(4_000),
        "漢字".repeat(3_000),
        "x1y2".repeat(3_000),
        format!("```\n{}```\n", "let x = 1;\n".repeat(2_000)),
    ] {
        let cut = cut(&text, &Options { mode: Mode::Extract, ..Options::to_fit(100, Some("word")) }).unwrap();
        assert!(cut.tokens_out <= 100 && cut.units_kept > 0, "{}", cut.text);
    }
}

fn documents() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "The quay was built in 1840. ",
        "Boats unload at dawn! ",
        "Who painted the sheds? ",
        "\n\n",
        "\n\n",
        "\n# Heading\n\n",
        "\n```\ncode();\n```\n",
        "\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "\n- an item\n",
        "漢字仮名交じり文。",
        "हिन्दी भाषा। ",
        "2024-01-01 ERROR x\n",
        "[1,2]",
        "🦀 ",
        "supercalifragilistic",
    ]);
    prop::collection::vec(part, 1..80).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn promises_hold(text in documents(), ratio in 0.02..1.0_f64, purpose in prop::option::of("(quay|boats|漢字|x) (sheds|dawn)"),
        kind in prop::option::of(prop::sample::select(vec![Kind::Prose, Kind::Markdown, Kind::Code, Kind::Json, Kind::Log]))) {
        let options = Options { purpose, kind, mode: Mode::Extract, ..options(ratio) };
        let Ok(first) = cut(&text, &options) else { return Ok(()) };
        assert_eq!(Ok(&first), cut(&text, &options).as_ref());
        assert!(first.tokens_out <= first.target, "{} > {}: {}", first.tokens_out, first.target, first.text);
        assert_eq!(first.tokens_out as u64, tokens::count(&first.text));
        assert!(first.tokens_out <= first.tokens_in && first.tokens_in as u64 == tokens::count(&text));
        assert!(is_in_order(&text, &pieces(&first.text)), "{text:?} -> {:?}", first.text);
    }

    #[test]
    fn json_stays_json(words in prop::collection::vec("[a-z\\\\\"\u{e9}]{0,60}", 1..60), ratio in 0.05..0.9_f64) {
        let text = json!({"list": words, "object": {"a": words.concat(), "b": {"c": words}}}).to_string();
        let cut = cut(&text, &options(ratio)).unwrap();
        assert!(cut.units_kept == 0 || serde_json::from_str::<Value>(&cut.text).is_ok(), "{}", cut.text);
        assert!(cut.tokens_out <= cut.target);
    }

    #[test]
    fn any_text_is_cut(text in ".{0,300}", ratio in 0.02..1.0_f64, max in 16..200_usize) {
        let options = Options { max_tokens: Some(max), ..options(ratio) };
        if let Ok(cut) = cut(&text, &options) {
            assert!(cut.tokens_out <= cut.target && cut.tokens_out <= cut.tokens_in);
        }
    }
}
