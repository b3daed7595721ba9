//! `smartgate init` without a terminal: flags, answers from a pipe, and the commands that it names at its end.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Output, Stdio},
};

use super::support::process::program;

fn init(folder: &Path, args: &[&str], answers: &str) -> Output {
    let mut command = program();
    command.arg("init").args(args).current_dir(folder);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that refuses before it reads is no fault of this writer.
    drop(child.stdin.take().unwrap().write_all(answers.as_bytes()));
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn loads(text: &str) -> smartgate::config::Config {
    let loaded = smartgate::config::from_str(text, Path::new("/"), "t");
    loaded.unwrap_or_else(|problems| panic!("{problems}\n{text}")).config
}

#[test]
fn flags_alone_write_a_file_or_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        "--yes",
        "--builtin",
        "--upstream",
        "files=http://127.0.0.1:3001/mcp",
        "--upstream",
        "TZ=UTC uvx mcp-server-time",
        "--key",
        "ada",
        "--listen",
        "0.0.0.0:8787",
        "--otlp",
        "http://127.0.0.1:4317",
    ];
    let written = init(folder.path(), &flags, "");
    assert_eq!(written.status.code(), Some(0), "{}", said(&written));
    let file = std::fs::read_to_string(folder.path().join("smartgate.toml")).unwrap();
    let config = loads(&file);
    assert_eq!(config.upstreams.len(), 3);
    assert!(file.contains("env = { TZ = \"UTC\" }"), "{file}");

    let shown = init(folder.path(), &[&flags[..], &["-o", "-"]].concat(), "");
    assert_eq!(shown.status.code(), Some(0), "{}", said(&shown));
    assert_eq!(loads(&String::from_utf8(shown.stdout).unwrap()).upstreams.len(), 3);
    assert!(!folder.path().join("-").exists());
}

#[test]
fn a_wrong_answer_is_refused_at_once_and_nothing_written() {
    let folder = tempfile::tempdir().unwrap();
    for (args, answers, advice) in [
        (&["--yes", "--upstream", "localhost:3001/mcp"][..], "", "did you mean http://localhost:3001/mcp ?"),
        (&["--yes", "--upstream", "htp://h/mcp"], "", "did you mean http://h/mcp ?"),
        (&["--yes", "--builtin", "--upstream", "smart=http://h/"], "", "name of the built-in tools"),
        (&["--yes", "--listen", "8787"], "", "127.0.0.1:8787"),
        (&["--yes", "--otlp", "localhost:4317"], "", "http://127.0.0.1:4317"),
        (&["--yes", "--key", ""], "", "1 to 64 characters"),
        (&["--yes", "-o", "nowhere/a.toml"], "", "no folder nowhere"),
        (&[], "localhost:3001/mcp\n\ny\n", "did you mean"),
    ] {
        let refused = init(folder.path(), args, answers);
        assert_eq!(refused.status.code(), Some(64), "{args:?}");
        assert!(said(&refused).contains(advice), "{args:?}: {}", said(&refused));
        assert!(!folder.path().join("smartgate.toml").exists());
    }
    std::fs::write(folder.path().join("smartgate.toml"), "kept").unwrap();
    let refused = init(folder.path(), &["--yes"], "");
    assert!(said(&refused).contains("--force"), "{}", said(&refused));
    assert_eq!(std::fs::read(folder.path().join("smartgate.toml")).unwrap(), b"kept");
}

#[test]
fn the_commands_that_it_names_work_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["-o", "my gate.toml", "--listen", "127.0.0.1:0"];
    let written = init(folder.path(), &args, "http://127.0.0.1:1/mcp\n\nn\nn\n\n");
    assert_eq!(written.status.code(), Some(0), "{}", said(&written));
    let file = folder.path().join("my gate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("admin.listen = \"127.0.0.1:0\"\n{text}")).unwrap();

    let printed = said(&written);
    let commands: Vec<_> = printed.lines().filter_map(|l| l.strip_prefix("  ")).collect();
    assert_eq!(commands.len(), 2, "{printed}");
    for command in commands {
        let mut child = std::process::Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .current_dir(&folder)
            .env("XDG_STATE_HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!first.is_empty(), "{command} does not work");
    }
}
