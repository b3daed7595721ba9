//! The text of the configuration that `smartgate init` writes. Owns its comments; values are escaped by the TOML
//! library.

use std::fmt::Write;

use toml::Value;

use super::{Answers, Key, SMART, Target, key};

/// The whole file.
pub(super) fn text(answers: &Answers, keys: &[Key]) -> String {
    let mut out = String::new();
    head(&mut out, answers);
    for key in keys {
        paragraph(
            &mut out,
            "# One client. `smartgate key new NAME` makes more; limits, tools and budgets are for each.",
        );
        out.push_str(&key::page(&key.name, &key.secret));
    }
    for (name, target) in &answers.upstreams {
        upstream(&mut out, name, target);
    }
    if answers.builtin {
        paragraph(&mut out, "# The built-in tools. `smartgate tools` lists them.");
        writeln!(out, "[upstreams.{SMART}]\nbuiltin = true").expect("a String takes every write");
    }
    tail(&mut out, answers);
    out
}

fn head(out: &mut String, answers: &Answers) {
    out.push_str("# SmartGate. `smartgate check FILE` finds mistakes; a running gateway takes changes within a second.\n");
    out.push_str(
        "# All settings with their defaults: docs/configuration.md, or `smartgate schema` for an editor.\n\n",
    );
    out.push_str("[server]\n");
    match &answers.listen {
        Some(listen) => setting(out, "listen", &listen.to_string().into(), ""),
        None => setting(out, "listen", &"127.0.0.1:8787".into(), " # this machine only"),
    }
}

fn upstream(out: &mut String, name: &str, target: &Target) {
    match target {
        Target::Url(url) => {
            paragraph(out, "# A server that somebody else runs.");
            writeln!(out, "[upstreams.{name}]").expect("a String takes every write");
            setting(out, "url", &url.as_str().into(), "");
            out.push_str("# headers = { authorization = \"env:SERVER_AUTH\" }   # its own credentials, if it wants some\n");
        }
        Target::Command { env, words } => {
            paragraph(out, "# A server over stdio, which the gateway starts, watches and stops.");
            writeln!(out, "[upstreams.{name}]").expect("a String takes every write");
            let words = words.iter().map(|w| Value::from(w.as_str())).collect::<Vec<_>>();
            setting(out, "command", &Value::Array(words), "");
            environment(out, env);
        }
    }
}

fn environment(out: &mut String, env: &[(String, String)]) {
    out.push_str("# Beside PATH, HOME and a few more it sees only what `env` says; a secret is better as \"env:NAME\".\n");
    if env.is_empty() {
        out.push_str("# env = { TOKEN = \"env:TOKEN\" }\n");
        return;
    }
    let of = |(name, value): &(String, String)| (name.clone(), Value::from(value.as_str()));
    setting(out, "env", &Value::Table(env.iter().map(of).collect()), "");
}

fn tail(out: &mut String, answers: &Answers) {
    paragraph(
        out,
        "# Every call is a line in the journal; `smartgate audit verify` checks that none was altered.",
    );
    out.push_str("[audit]\ncapture = \"hash\"   # of arguments and results only their SHA-256; or none, redacted, full\n");
    if let Some(url) = &answers.otlp {
        paragraph(out, "# And a span at this collector.");
        out.push_str("[telemetry]\n");
        setting(out, "otlp", &url.as_str().into(), "");
    }
}

fn paragraph(out: &mut String, comment: &str) {
    writeln!(out, "\n{comment}").expect("a String takes every write");
}

fn setting(out: &mut String, name: &str, value: &Value, comment: &str) {
    writeln!(out, "{name} = {value}{comment}").expect("a String takes every write");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{super::Answers, *};
    use crate::config::{self, Target};

    #[test]
    fn every_answer_is_in_the_configuration() {
        let mut answers = Answers {
            builtin: true,
            listen: Some("0.0.0.0:1".parse().unwrap()),
            otlp: Some("http://127.0.0.1:4317".into()),
            ..Answers::default()
        };
        answers.add("files=http://127.0.0.1:3001/mcp").unwrap();
        answers.add(r#"notes=A_B='x "y"' npx "a\"b" 'c d'"#).unwrap();
        let keys = [Key { name: "ada".into(), secret: "sg_x".into() }];
        let text = text(&answers, &keys);
        let loaded = config::from_str(&text, Path::new("/"), "t").unwrap_or_else(|p| panic!("{p}\n{text}"));
        assert_eq!(loaded.warnings, []);
        assert_eq!(loaded.config.upstreams.len(), 3);
        assert_eq!(loaded.config.keys.len(), 1);
        assert_eq!(loaded.config.server.listen.port(), 1);
        let Target::Command(notes) = &loaded.config.upstreams[1].target else { panic!("{text}") };
        assert_eq!(notes.env.keys().collect::<Vec<_>>(), ["A_B"]);
        assert!(!text.contains("sg_x"), "{text}");
    }

    #[test]
    fn the_smallest_answers_load_too() {
        let answers = Answers { builtin: true, ..Answers::default() };
        config::from_str(&text(&answers, &[]), Path::new("/"), "t").unwrap();
    }
}
