//! The documentation's examples are true: configurations load, commands run.

use std::{path::Path, process::Command};

/// The fenced blocks of a document in one language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(document)).expect("the document is in the repository");
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn the_readme_s_configuration_loads() {
    let examples = blocks("README.md", "toml");
    assert_eq!(examples.len(), 1);
    for example in examples {
        let loaded = smartgate::config::from_str(&example, Path::new("."), "README.md");
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.warnings, []);
        assert_eq!(loaded.config.keys.len(), 1);
    }
}

#[test]
fn the_repair_shown_happens() {
    let examples: Vec<_> = blocks("docs/normalization.md", "");
    let example = examples.iter().find(|e| e.contains("smartgate normalize")).expect("it shows one");
    let program = Path::new(env!("CARGO_BIN_EXE_smartgate"));
    let path = format!("{}:/usr/bin:/bin", program.parent().expect("a file has a folder").display());
    let out = Command::new("sh").args(["-c", example]).env("PATH", path).output().expect("sh is there");
    assert!(out.status.success());
    let forwarded = String::from_utf8(out.stdout).unwrap();
    assert!(
        forwarded.contains(r#""method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}"#),
        "{forwarded}"
    );
    let explained = String::from_utf8(out.stderr).unwrap();
    assert!(explained.contains(r#""rules":["direct_tool_method"]"#), "{explained}");
}
