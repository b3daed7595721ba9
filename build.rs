//! Puts the commit into the binary for `--version`: from `SMARTGATE_COMMIT` (image builds have no `.git`),
//! else from git, else `unknown`.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SMARTGATE_COMMIT");
    // Watching git's head in debug builds would compile everything again after each commit.
    if env::var("PROFILE").is_ok_and(|p| p == "release") {
        for name in ["HEAD", "logs/HEAD"] {
            watch(git(&["rev-parse", "--git-path", name]));
        }
    }
    let given = env::var("SMARTGATE_COMMIT").ok().filter(|c| !c.is_empty());
    let commit = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=SMARTGATE_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

fn watch(path: Option<String>) {
    if let Some(path) = path.filter(|p| Path::new(p).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// The trimmed output of a git command; nothing without git or outside a repository of our own.
fn git(args: &[&str]) -> Option<String> {
    let root = env::var("CARGO_MANIFEST_DIR").ok()?;
    if !Path::new(&root).join(".git").exists() {
        return None; // a copy inside somebody else's repository
    }
    let out = Command::new("git").args(args).current_dir(root).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
