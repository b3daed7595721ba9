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

/// The lines of the section between two marks that begin with `$ `, each with its output.
fn commands(document: &str, section: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap();
    let inner = text.split(&format!("<!-- {section}:begin -->")).nth(1).expect("it begins");
    let inner = inner.split(&format!("<!-- {section}:end -->")).next().expect("it ends");
    let mut found: Vec<(String, String)> = Vec::new();
    for line in inner.lines().filter(|l| !l.starts_with("```")) {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command.to_owned(), String::new())),
            (None, Some((_, output))) if !line.is_empty() => {
                output.push_str(line);
                output.push('\n');
            }
            _ => {}
        }
    }
    found
}

#[test]
fn the_tools_of_the_readme_do_what_it_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let program = Path::new(env!("CARGO_BIN_EXE_smartgate"));
    let path = format!("{}:/usr/bin:/bin", program.parent().expect("a file has a folder").display());
    for name in ["docs", "README.md"] {
        std::os::unix::fs::symlink(root.join(name), folder.path().join(name)).unwrap();
    }
    let commands = commands("README.md", "tools");
    assert!(commands.len() >= 4);
    for (command, expected) in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(&folder).env("PATH", &path).env("XDG_STATE_HOME", &state);
        let out = shell.output().expect("sh is there");
        assert_eq!(String::from_utf8_lossy(&out.stdout), expected, "{command}");
    }
}

/// The journal of `tests/fixtures/journal` was written by a gateway with the `old.toml` beside it.
#[test]
fn the_questions_of_the_page_have_the_answers_that_it_shows() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/journal");
    let folder = tempfile::tempdir().unwrap();
    for name in ["audit.jsonl", "new.toml", "tools-list.json"] {
        std::fs::copy(fixtures.join(name), folder.path().join(name)).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_smartgate"));
    let path = format!("{}:/usr/bin:/bin", program.parent().expect("a file has a folder").display());
    let mut count = 0;
    for section in ["query", "replay"] {
        for (command, expected) in commands("docs/queries.md", section) {
            let mut shell = Command::new("sh");
            shell.args(["-c", &command]).current_dir(&folder).env("PATH", &path);
            let out = shell.env("XDG_STATE_HOME", folder.path()).output().expect("sh is there");
            let said = String::from_utf8_lossy(&out.stderr);
            // Blank lines between tables are not looked at.
            let shown: String = String::from_utf8_lossy(&out.stdout)
                .lines()
                .filter(|l| !l.is_empty())
                .flat_map(|l| [l, "\n"])
                .collect();
            assert_eq!(shown, expected, "{command}: {said}");
            count += 1;
        }
    }
    assert!(count >= 5);
}
