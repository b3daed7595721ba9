//! Puts the commit into the binary for `--version`: from `SMARTGATE_COMMIT` (image builds have no `.git`),
//! else from git, else `unknown`. With `compact-encoders` also writes the lists of tokens that the encoders are made of.

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
    #[cfg(feature = "compact-encoders")]
    tokens();
}

/// Each token with a byte for its length before it, in the order of their ranks.
#[cfg(feature = "compact-encoders")]
fn tokens() {
    for (name, encoder) in [("o200k", bpe_openai::o200k_base()), ("cl100k", bpe_openai::cl100k_base())] {
        let mut list = Vec::new();
        for rank in 0..u32::try_from(encoder.bpe.num_tokens()).expect("ranks are 32 bits wide") {
            let token = encoder.bpe.token_bytes(rank);
            list.push(u8::try_from(token.len()).expect("tokens are short"));
            list.extend_from_slice(token);
        }
        let folder = env::var("OUT_DIR").expect("cargo says where");
        std::fs::write(Path::new(&folder).join(format!("{name}.tokens")), list)
            .expect("the folder takes files");
    }
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
