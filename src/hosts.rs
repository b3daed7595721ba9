//! What to paste into a host so that it talks to the gateway, for `smartgate connect` and for the connect page. Owns the
//! hosts' formats; each names its source. A key never appears, only the place for it.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::config::{AuthMode, Config};

/// What hosts call the gateway.
const NAME: &str = "smartgate";
/// What stands where the secret belongs.
pub const YOUR_KEY: &str = "YOUR_KEY";

/// The host that stands for all that have no block of their own.
pub const GENERIC: &str = "generic";

/// An application that talks to MCP servers.
#[derive(Debug)]
pub struct Host {
    /// Its name on the command line.
    pub name: &'static str,
    /// As people call it.
    pub title: &'static str,
    /// Where the block belongs.
    pub place: &'static str,
    /// Parts of the client names that it gives itself, in lower case.
    clients: &'static [&'static str],
    make: fn(&Endpoints) -> String,
}

/// All of them; a client name belongs to the first that it fits.
pub const HOSTS: &[Host] = &[
    // https://cursor.com/docs/mcp
    host("cursor", "Cursor", ".cursor/mcp.json or ~/.cursor/mcp.json", &["cursor"], cursor),
    // https://github.com/geelen/mcp-remote: the file itself takes local programs only. It adds its own name to the host's.
    host(
        "claude-desktop",
        "Claude Desktop",
        "claude_desktop_config.json (Settings, Developer, Edit Config); needs Node.js",
        &["claude-ai", "claude desktop", "claude-desktop", "mcp-remote"],
        claude_desktop,
    ),
    // https://code.claude.com/docs/en/mcp
    host("claude-code", "Claude Code", "a shell", &["claude-code", "claude code"], claude_code),
    // https://docs.windsurf.com/windsurf/cascade/mcp
    host("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json", &["windsurf", "codeium"], windsurf),
    // https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
    host("vscode", "VS Code", ".vscode/mcp.json", &["visual studio code", "vscode"], vscode),
    // https://docs.openclaw.ai/cli/mcp
    host("openclaw", "OpenClaw", "~/.openclaw/openclaw.json", &["openclaw"], openclaw),
    host(GENERIC, "Any other", "whatever takes a URL and headers", &[""], generic),
];

const fn host(
    name: &'static str,
    title: &'static str,
    place: &'static str,
    clients: &'static [&'static str],
    make: fn(&Endpoints) -> String,
) -> Host {
    Host { name, title, place, clients, make }
}

/// Where clients reach the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// The URL of the endpoint, which shows several upstreams as one.
    pub url: String,
    /// Names and URLs of several upstreams, each alone.
    pub alone: Vec<(String, String)>,
    /// Whether clients send a key.
    pub key: bool,
}

impl Endpoints {
    /// The endpoints of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let scheme = if config.server.tls.is_some() { "https" } else { "http" };
        let base = format!("{scheme}://{}{}", authority(config), config.server.path);
        let alone = match config.upstreams.as_slice() {
            [_] => Vec::new(),
            several => several.iter().map(|u| (u.name.to_string(), format!("{base}/{}", u.name))).collect(),
        };
        Self { url: base, alone, key: config.auth == AuthMode::Keys }
    }

    /// One line about the ways to one upstream alone, if there are several.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let each: Vec<_> = self.alone.iter().map(|(name, url)| format!("{name} {url}")).collect();
        (!each.is_empty()).then(|| format!("Each upstream alone: {}", each.join(", ")))
    }

    /// `value` with the header that carries the key, if there is one.
    fn with_headers(&self, mut value: Value, key: &str) -> Value {
        if self.key {
            value["headers"] = json!({ "Authorization": format!("Bearer {key}") });
        }
        value
    }
}

/// The host and port that a client on this machine would use.
fn authority(config: &Config) -> String {
    let listen = config.server.listen;
    let named = config.server.allowed_hosts.iter().find(|h| *h != "*");
    match (named, listen.ip()) {
        (Some(host), _) if host.contains(':') && !host.ends_with(']') => host.clone(),
        (Some(host), _) => format!("{host}:{}", listen.port()),
        (None, IpAddr::V4(ip)) if ip.is_unspecified() => format!("127.0.0.1:{}", listen.port()),
        (None, IpAddr::V6(ip)) if ip.is_unspecified() => format!("[::1]:{}", listen.port()),
        (None, _) => listen.to_string(),
    }
}

impl Host {
    /// The host with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        HOSTS.iter().find(|h| h.name == name)
    }

    /// The host that a client's name belongs to; `generic` is all that is no other.
    #[must_use]
    pub fn of_client(client: &str) -> Option<&'static Self> {
        let client = client.to_lowercase();
        HOSTS.iter().find(|h| h.clients.iter().any(|part| client.contains(part)))
    }

    /// What to paste.
    #[must_use]
    pub fn block(&self, endpoints: &Endpoints) -> String {
        (self.make)(endpoints)
    }
}

/// What to paste into a host; `None` for a host that is not known.
#[must_use]
pub fn block(host: &str, endpoints: &Endpoints) -> Option<String> {
    Host::named(host).map(|h| h.block(endpoints))
}

fn cursor(to: &Endpoints) -> String {
    let entry = |url: &str| to.with_headers(json!({ "url": url }), YOUR_KEY);
    format!("{:#}", json!({ "mcpServers": { NAME: entry(&to.url) } }))
}

fn claude_desktop(to: &Endpoints) -> String {
    let entry = |url: &str| {
        let mut args = vec!["-y", "mcp-remote", url, "--transport", "http-only"];
        if url.starts_with("http:") {
            args.push("--allow-http");
        }
        if !to.key {
            return json!({ "command": "npx", "args": args });
        }
        // The value comes from the environment because some hosts break arguments with blanks.
        args.extend(["--header", "Authorization:${AUTH_HEADER}"]);
        json!({ "command": "npx", "args": args, "env": { "AUTH_HEADER": format!("Bearer {YOUR_KEY}") } })
    };
    format!("{:#}", json!({ "mcpServers": { NAME: entry(&to.url) } }))
}

fn claude_code(to: &Endpoints) -> String {
    let header =
        if to.key { format!(" --header \"Authorization: Bearer {YOUR_KEY}\"") } else { String::new() };
    format!("claude mcp add --transport http {NAME} {}{header}", to.url)
}

fn windsurf(to: &Endpoints) -> String {
    let entry = |url: &str| to.with_headers(json!({ "serverUrl": url }), YOUR_KEY);
    format!("{:#}", json!({ "mcpServers": { NAME: entry(&to.url) } }))
}

/// VS Code asks for the key once and keeps it in its own secret storage.
fn vscode(to: &Endpoints) -> String {
    let entry = |url: &str| to.with_headers(json!({ "type": "http", "url": url }), "${input:smartgate-key}");
    let mut block = json!({ "servers": { NAME: entry(&to.url) } });
    if to.key {
        let input = json!({
            "type": "promptString",
            "id": "smartgate-key",
            "description": "SmartGate key",
            "password": true
        });
        block["inputs"] = json!([input]);
    }
    format!("{block:#}")
}

fn openclaw(to: &Endpoints) -> String {
    let entry = |url: &str| to.with_headers(json!({ "url": url, "transport": "streamable-http" }), YOUR_KEY);
    format!("{:#}", json!({ "mcp": { "servers": { NAME: entry(&to.url) } } }))
}

fn generic(to: &Endpoints) -> String {
    let mut lines = vec![format!("{NAME}: {}", to.url), "Transport: streamable HTTP".to_owned()];
    if to.key {
        lines.push(format!("Header: Authorization: Bearer {YOUR_KEY}"));
    }
    lines.extend(to.note());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(key: bool) -> Endpoints {
        Endpoints { url: "http://127.0.0.1:8787/mcp".into(), alone: Vec::new(), key }
    }

    fn json_of(host: &str, key: bool) -> Value {
        serde_json::from_str(&block(host, &endpoints(key)).unwrap()).unwrap()
    }

    #[test]
    fn blocks_name_the_url_where_the_host_reads_it() {
        let url = "http://127.0.0.1:8787/mcp";
        assert_eq!(json_of("cursor", false)["mcpServers"]["smartgate"]["url"], url);
        assert_eq!(json_of("windsurf", false)["mcpServers"]["smartgate"]["serverUrl"], url);
        assert_eq!(json_of("vscode", false)["servers"]["smartgate"]["url"], url);
        assert_eq!(json_of("vscode", false)["servers"]["smartgate"]["type"], "http");
        assert_eq!(json_of("openclaw", false)["mcp"]["servers"]["smartgate"]["transport"], "streamable-http");
        assert_eq!(json_of("claude-desktop", false)["mcpServers"]["smartgate"]["args"][2], url);
        assert!(block("claude-code", &endpoints(false)).unwrap().contains(&format!("http smartgate {url}")));
        assert!(block("generic", &endpoints(false)).unwrap().contains(url));
        assert!(block("emacs", &endpoints(false)).is_none());
    }

    #[test]
    fn a_client_s_name_belongs_to_one_host() {
        for (client, host) in [
            ("cursor-vscode", "cursor"),
            ("claude-ai (via mcp-remote 0.15.1)", "claude-desktop"),
            ("claude-code", "claude-code"),
            ("Visual Studio Code - Insiders", "vscode"),
            ("my-agent", "generic"),
        ] {
            assert_eq!(Host::of_client(client).unwrap().name, host, "{client}");
        }
    }

    #[test]
    fn header_is_there_only_with_keys() {
        for host in HOSTS {
            let with = block(host.name, &endpoints(true)).unwrap();
            assert!(with.contains("Authorization") && with.contains("Bearer"), "{}", host.name);
            assert!(!block(host.name, &endpoints(false)).unwrap().contains("uthorization"), "{}", host.name);
        }
        assert_eq!(json_of("vscode", true)["inputs"][0]["id"], "smartgate-key");
    }

    fn of(text: &str) -> Endpoints {
        Endpoints::of(&crate::config::from_str(text, std::path::Path::new("/"), "t").unwrap().config)
    }

    #[test]
    fn endpoint_is_one_that_a_client_can_reach() {
        assert_eq!(of(""), endpoints(false));
        let open = of("server = { listen = '0.0.0.0:1' }\nauth.mode = 'none'");
        assert_eq!(open.url, "http://127.0.0.1:1/mcp");
        let named =
            of("server = { listen = '[::]:1', allowed_hosts = ['*', 'a.example'] }\nauth.mode = 'none'");
        assert_eq!(named.url, "http://a.example:1/mcp");
        let several = of("[upstreams.b]\nurl = 'http://h/b'\n[upstreams.a]\nurl = 'http://h/a'");
        assert_eq!(several.url, "http://127.0.0.1:8787/mcp");
        let alone: Vec<_> = several.alone.iter().map(|(name, url)| (name.as_str(), url.as_str())).collect();
        assert_eq!(alone, [("b", "http://127.0.0.1:8787/mcp/b"), ("a", "http://127.0.0.1:8787/mcp/a")]);
        for host in HOSTS.iter().filter(|h| h.name != "generic") {
            let block = block(host.name, &several).unwrap();
            assert!(block.contains("/mcp") && !block.contains("/mcp/"), "{block}");
        }
        assert!(block("generic", &several).unwrap().contains("a http://127.0.0.1:8787/mcp/a"));
    }
}
