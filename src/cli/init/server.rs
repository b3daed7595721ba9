//! One server as `smartgate init` takes it: `[NAME=]URL` or `[NAME=][VARIABLE=VALUE ...] COMMAND`. Owns what is refused and
//! what is proposed instead.
//!
//! Invariant: what looks like an address is never taken for a command, nor a variable for a name.

use std::net::IpAddr;

use crate::config;

/// Ends of host names that no program has.
const DOMAINS: [&str; 7] = ["com", "org", "net", "io", "dev", "ai", "app"];

/// What runs or is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    Url(String),
    Command {
        /// Variables of its environment, with their values.
        env: Vec<(String, String)>,
        words: Vec<String>,
    },
}

/// The name, if one is written, and the target.
pub(super) fn parse(written: &str) -> Result<(Option<String>, Target), String> {
    let (name, rest) = named(written.trim())?;
    let target = match address(rest)? {
        Some(url) => Target::Url(url),
        None => command(rest)?,
    };
    Ok((name.map(str::to_owned), target))
}

/// The name in front of the first `=`, if what stands there is one.
fn named(written: &str) -> Result<(Option<&str>, &str), String> {
    let Some((name, rest)) = written.split_once('=') else { return Ok((None, written)) };
    let (name, rest) = (name.trim(), rest.trim());
    if is_name(name) {
        return Ok((Some(name), rest));
    }
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.is_empty() || name.starts_with(['-', '.']) || !name.bytes().all(word) || is_variable(name) {
        return Ok((None, written));
    }
    Err(format!("'{name}' cannot name a server: write {}=..., with a-z, 0-9 and - only", as_name(name)))
}

fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && !text.starts_with('-') && text.bytes().all(plain)
}

fn as_name(text: &str) -> String {
    text.to_ascii_lowercase().replace(['_', '.'], "-").trim_matches('-').to_owned()
}

/// An identifier that cannot be a server's name: `TOKEN`, `http_proxy`.
fn is_variable(text: &str) -> bool {
    let identifier = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    identifier && (text.contains('_') || !text.contains(|c: char| c.is_ascii_lowercase()))
}

/// The URL; `None` for what can only be a command.
fn address(text: &str) -> Result<Option<String>, String> {
    let first = text.split_whitespace().next().unwrap_or_default();
    let alone = first.len() == text.len();
    let (scheme, after) = match first.split_once(':') {
        Some((scheme, after)) if after.starts_with("//") && is_scheme(scheme) => {
            (scheme.to_ascii_lowercase(), &after[2..])
        }
        Some((scheme, after)) if matches!(&*scheme.to_ascii_lowercase(), "http" | "https") => {
            (String::new(), after.trim_start_matches('/'))
        }
        _ if alone && is_host(first) => (String::new(), first.trim_start_matches('/')),
        _ => return Ok(None),
    };
    if matches!(&*scheme, "http" | "https") {
        if !alone {
            return Err("nothing may follow a URL; headers are set in the file that is written".to_owned());
        }
        let url = format!("{scheme}://{after}");
        return match config::http_url(&url) {
            Ok(()) => Ok(Some(url)),
            Err(why) => Err(format!("the URL {why}, such as http://127.0.0.1:3001/mcp")),
        };
    }
    Err(meant(after, scheme.ends_with('s')))
}

/// A word in front of `:` (RFC 3986 section 3.1).
fn is_scheme(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

/// Proposes the URL that an address without a good scheme probably is.
fn meant(address: &str, tls: bool) -> String {
    let host = host(address);
    let tls = tls || DOMAINS.iter().any(|d| host.ends_with(&format!(".{d}")));
    let url = format!("{}://{address}", if tls { "https" } else { "http" });
    let proposal = match config::http_url(&url) {
        Ok(()) => format!("did you mean {url} ?"),
        Err(why) => format!("a URL {why}, such as http://127.0.0.1:3001/mcp."),
    };
    format!(
        "A server's address begins with http:// or https://; {proposal} (A program in this folder is ./NAME.)"
    )
}

/// The host of an address without a scheme.
fn host(address: &str) -> &str {
    let authority = address.split(['/', '?']).next().unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Whether a word is `HOST`, `HOST:PORT` or `HOST/PATH` rather than a program.
fn is_host(word: &str) -> bool {
    if word.starts_with("//") {
        return true;
    }
    if word.starts_with(['.', '/', '~', '-']) {
        return false;
    }
    let authority = word.split(['/', '?']).next().unwrap_or_default();
    let host = host(word);
    if host.contains('=') {
        return false;
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let has_port = host.len() < authority.len();
    let domain = host.rsplit_once('.').is_some_and(|(_, end)| DOMAINS.contains(&end));
    let has_path = authority.len() < word.len();
    has_port
        || host == "localhost"
        || bare.parse::<IpAddr>().is_ok()
        || domain
        || (has_path && host.contains('.'))
}

/// The words as a shell would see them; assignments in front become the environment.
fn command(text: &str) -> Result<Target, String> {
    let words = shlex::split(text).ok_or_else(|| format!("a quote is not closed in: {text}"))?;
    let assignment = |word: &String| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
    let count = words.iter().take_while(|word| assignment(word)).count();
    let (env, words) = words.split_at(count);
    let env: Vec<_> =
        env.iter().filter_map(|w| w.split_once('=')).map(|(n, v)| (n.into(), v.into())).collect();
    match (words.first(), env.last()) {
        (Some(program), _) if !program.is_empty() && !program.starts_with('-') => {
            Ok(Target::Command { env, words: words.to_vec() })
        }
        (_, Some((name, _))) => Err(format!(
            "'{name}=' sets a variable, and no command follows it; to name a server write {}=...",
            as_name(name)
        )),
        (Some(option), None) => Err(format!("'{option}' is neither a URL nor a program")),
        (None, None) => Err(
            "a URL is wanted, such as http://127.0.0.1:3001/mcp, or a command, such as uvx mcp-server-time"
                .to_owned(),
        ),
    }
}

impl Target {
    /// A name that says what it is: of a package `@scope/server-files` or `mcp-server-time` its last part, of a URL
    /// the first label of its host.
    pub(super) fn name(&self) -> String {
        let name = match self {
            Self::Url(url) => {
                let host = url.split("://").nth(1).unwrap_or_default();
                let label = host.split(['/', ':', '.']).next().unwrap_or_default();
                if label.starts_with(|c: char| c.is_ascii_alphabetic()) { label } else { "server" }
            }
            Self::Command { words, .. } => {
                let of_server = words.iter().find_map(|word| word.split("server-").nth(1));
                let program = words.first().map_or("server", |w| w.rsplit('/').next().unwrap_or(w));
                of_server.unwrap_or(program)
            }
        };
        let name = name.to_ascii_lowercase();
        let kept: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        if !is_name(&kept) || kept == "localhost" { "server".to_owned() } else { kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Target {
        Target::Url(text.to_owned())
    }

    fn command(env: &[(&str, &str)], words: &[&str]) -> Target {
        let env = env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Target::Command { env, words: words.iter().map(|w| (*w).to_owned()).collect() }
    }

    #[test]
    fn urls_and_commands_with_and_without_names() {
        let good = [
            ("http://127.0.0.1:3001/mcp", None, url("http://127.0.0.1:3001/mcp")),
            ("HTTP://h/mcp", None, url("http://h/mcp")),
            ("https://h/mcp?a=b", None, url("https://h/mcp?a=b")),
            ("files=http://h", Some("files"), url("http://h")),
            ("files = http://h", Some("files"), url("http://h")),
            ("uvx mcp-server-time", None, command(&[], &["uvx", "mcp-server-time"])),
            ("notes=npx server 'my notes'", Some("notes"), command(&[], &["npx", "server", "my notes"])),
            ("server.py", None, command(&[], &["server.py"])),
            ("bin/server", None, command(&[], &["bin/server"])),
            ("./my.server/run --port=1", None, command(&[], &["./my.server/run", "--port=1"])),
            (
                "docker run -p 3001:3001 image",
                None,
                command(&[], &["docker", "run", "-p", "3001:3001", "image"]),
            ),
        ];
        for (written, name, target) in good {
            assert_eq!(parse(written), Ok((name.map(str::to_owned), target)), "{written}");
        }
    }

    #[test]
    fn variables_in_front_of_a_command_are_its_environment() {
        let of = |written| parse(written).unwrap();
        assert_eq!(of("TOKEN=a=b cmd"), (None, command(&[("TOKEN", "a=b")], &["cmd"])));
        let two = command(&[("A", "1 2"), ("http_proxy", "x")], &["cmd"]);
        assert_eq!(of("files=A='1 2' http_proxy=x cmd"), (Some("files".into()), two));
    }

    #[test]
    fn mistyped_addresses_are_no_commands() {
        let meant = [
            ("localhost:3001/mcp", "http://localhost:3001/mcp"),
            ("a=localhost:3001/mcp", "http://localhost:3001/mcp"),
            ("localhost/mcp", "http://localhost/mcp"),
            ("127.0.0.1", "http://127.0.0.1"),
            ("[::1]:3001/mcp", "http://[::1]:3001/mcp"),
            ("htp://127.0.0.1:3001/mcp", "http://127.0.0.1:3001/mcp"),
            ("htps://h/mcp", "https://h/mcp"),
            ("http:/h/mcp", "http://h/mcp"),
            ("http:h:3001", "http://h:3001"),
            ("//h:3001/mcp", "http://h:3001/mcp"),
            ("wss://h/mcp", "https://h/mcp"),
            ("docs.example.com", "https://docs.example.com"),
            ("files.internal/mcp", "http://files.internal/mcp"),
        ];
        for (written, proposal) in meant {
            let why = parse(written).unwrap_err();
            assert!(why.contains(&format!("did you mean {proposal} ?")), "{written}: {why}");
        }
    }

    #[test]
    fn what_is_refused_says_what_to_type() {
        let refused = [
            ("", "uvx mcp-server-time"),
            ("a=", "uvx mcp-server-time"),
            ("a='unfinished", "quote"),
            ("http://", "such as http://"),
            ("http://ada:hunter2@h/", "headers"),
            ("htp://ada:hunter2@h/", "headers"),
            ("http://h/mcp -H x", "headers are set"),
            ("Files=http://h/", "write files=..."),
            ("my.files=cmd", "write my-files=..."),
            ("MY_FILES=http://h/", "write my-files=..."),
            ("MY_FILES=localhost:3001/mcp", "write my-files=..."),
            ("FILES=npx -y server", "write files=..."),
            ("--upstream x", "neither a URL nor a program"),
        ];
        for (written, advice) in refused {
            let why = parse(written).unwrap_err();
            assert!(why.contains(advice) && !why.contains("hunter2"), "{written}: {why}");
        }
    }
}
