//! The configuration as users meet it: examples load, bad files are told off word for word, the command line wins.

use std::{
    env::VarError,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::*;

/// The folder of the package, as a relative path: problems name files as the user did.
pub(super) fn root() -> PathBuf {
    PathBuf::new()
}

/// Compares a kept text with what is produced now, or keeps the new one where `variable` is set.
pub(super) fn compare(file: &Path, now: &str, variable: &str) {
    if std::env::var_os(variable).is_some() {
        fs::write(file, now).unwrap();
    }
    let kept = fs::read_to_string(file).unwrap_or_default();
    assert!(kept == now, "{} differs; set {variable}=1 to write it anew:\n{now}", file.display());
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|e| e.unwrap().path());
    let mut files: Vec<_> = entries.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    assert!(files.len() > 4, "{folder} is not there");
    files
}

fn env(name: &str) -> Result<String, VarError> {
    match name {
        "FILES_AUTH" => Ok("Bearer hunter2".into()),
        "KEY" => Ok("sg_a-secret-of-some-length".into()),
        "BREAK" => Ok("a\nb".into()),
        "EMPTY" => Ok(String::new()),
        _ => Err(VarError::NotPresent),
    }
}

fn with(text: &str, over: &CliOverrides) -> Result<Loaded, Problems> {
    load::from_text(text, Path::new("/etc/smartgate"), "f.toml", over, env)
}

fn good(text: &str) -> Loaded {
    with(text, &CliOverrides::default()).unwrap_or_else(|p| panic!("{p}"))
}

fn bad(text: &str) -> String {
    with(text, &CliOverrides::default()).expect_err("is right").to_string()
}

#[test]
fn every_example_loads() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["tls.crt", "tls.key", "batch", "files-auth"] {
        let path = folder.path().join(file);
        fs::write(path, "0123456789012345678901234567\n").unwrap();
    }
    for file in files("config") {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.replace("/etc/smartgate-keys", &folder.path().display().to_string());
        let name = file.display().to_string();
        let loaded = load::from_text(&text, folder.path(), &name, &CliOverrides::default(), env);
        loaded.unwrap_or_else(|problems| panic!("{problems}"));
    }
}

#[test]
fn defaults_written_out_are_the_defaults() {
    let text = fs::read_to_string(root().join("config/defaults.toml")).unwrap();
    let mut expected = good("").config;
    expected.telemetry.service_name = Some(file::SERVICE_NAME.into());
    expected.telemetry.protocol = Some(OtlpProtocol::Grpc);
    assert_eq!(good(&text).config, expected);
}

#[test]
fn defaults_file_has_every_key_at_the_default_of_the_schema() {
    let text = fs::read_to_string(root().join("config/defaults.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let written = serde_json::to_value(&table).unwrap();
    let schema = schema();
    for section in ["server", "admin", "limits", "aggregate", "normalize", "telemetry"] {
        let name = section[..1].to_uppercase() + &section[1..];
        for (key, property) in schema["$defs"][&name]["properties"].as_object().unwrap() {
            // The one default that depends on another key.
            let default =
                if (section, key.as_str()) == ("limits", "rate") { None } else { property.get("default") };
            if let Some(default) = default {
                assert_eq!(&written[section][key], default, "{section}.{key}");
            }
        }
    }
}

/// Each `x.toml` has beside it what `smartgate check` says about it.
#[test]
fn every_bad_file_is_told_off_word_for_word() {
    for file in files("tests/fixtures/bad-config") {
        let problems = load(&file).expect_err("a bad file is right").to_string();
        for secret in ["hunter2", "sg_"] {
            assert!(!problems.contains(secret), "a secret is shown: {problems}");
        }
        compare(&file.with_extension("txt"), &format!("{problems}\n"), "UPDATE_FIXTURES");
    }
}

#[test]
fn mode_defaults_to_keys_where_there_are_any() {
    assert_eq!(good("").config.auth, AuthMode::None);
    assert_eq!(good("[auth]").config.auth, AuthMode::None);
    let keys = good("[[keys]]\nname = 'a'\nenv = 'KEY'").config;
    assert_eq!(keys.auth, AuthMode::Keys);
    assert_eq!(keys.limits.rate, Some(Rate { count: 120, per: Duration::from_secs(60) }));
    assert_eq!(good("").config.limits.rate, None);
    assert_eq!(good("[limits]\nrate = '1/s'").config.limits.rate.unwrap().count, 1);
    assert_eq!(good("limits.rate = 'none'\n[[keys]]\nname = 'a'\nenv = 'KEY'").config.limits.rate, None);
}

#[test]
fn open_listener_needs_keys_or_a_written_none() {
    assert!(
        bad("server.listen = '0.0.0.0:1'")
            .starts_with("f.toml:1:17: `server.listen`: 0.0.0.0:1 is not a loopback")
    );
    assert!(bad("server.listen = '[::]:1'").contains("not a loopback"));
    for loopback in ["127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(good(&format!("server.listen = '{loopback}'")).warnings.is_empty());
    }
    let none = good("server.listen = '0.0.0.0:1'\nauth.mode = 'none'");
    assert!(
        none.warnings[0].to_string().starts_with("f.toml:2:13: everybody who reaches 0.0.0.0:1 may call")
    );
    good("server.listen = '0.0.0.0:1'\n[[keys]]\nname = 'a'\nenv = 'KEY'");
    good("server.listen = '0.0.0.0:1'\nauth.mode = 'passthrough'\n[upstreams.a]\nurl = 'http://h'");
}

#[test]
fn last_key_taken_out_locks_where_the_mode_is_written() {
    let locked = good("server.listen = '0.0.0.0:1'\nauth.mode = 'keys'");
    assert_eq!(locked.config.auth, AuthMode::Keys);
    assert!(locked.warnings[0].message.starts_with("every call is refused"));
}

#[test]
fn passthrough_takes_one_upstream_with_a_url() {
    let text =
        "auth.mode = 'passthrough'\n[upstreams.a]\nurl = 'http://h/a'\n[upstreams.b]\nurl = 'http://h/b'";
    assert!(bad(text).contains("takes one upstream"));
    assert!(bad("auth.mode = 'passthrough'").contains("needs an upstream with a `url`"));
}

#[test]
fn upstreams_keep_their_order_and_their_prefix() {
    let loaded = good(
        "[upstreams.z]\nurl = 'http://h/z'\n[upstreams.a]\nurl = 'http://h/a'\n[upstreams.m]\nbuiltin = true",
    );
    let seen: Vec<_> = loaded.config.upstreams.iter().map(|u| (&*u.name, u.prefix.as_str())).collect();
    assert_eq!(seen, [("z", "z"), ("a", "a"), ("m", "")]);
    assert!(loaded.warnings.is_empty());
    let one = good("[upstreams.z]\nurl = 'http://h/z'").config;
    assert_eq!(one.upstreams[0].prefix, "");
    good("[upstreams.z]\nurl = 'http://h/z'\nprefix = ''");
    good("[upstreams.z]\nurl = 'http://h/z'\nprefix = 'z'\n[upstreams.a]\nbuiltin = true");
    assert_eq!(good("[upstreams.z]\nurl = 'http://h/z'\nprefix = 'f.1'").config.upstreams[0].prefix, "f.1");
    assert!(
        bad("[upstreams.z]\nurl = 'http://h/z'\nprefix = 'a b'").contains("`upstreams.z.prefix`: must be")
    );
    assert_eq!(good("aggregate.separator = '.'").config.separator, ".");
    assert!(bad("aggregate.separator = ''").contains("must be 1 to 8"));
}

#[test]
fn names_that_the_file_makes_equal_are_a_problem() {
    let two = |a: &str, b: &str| {
        format!("[upstreams.a]\nurl = 'http://h/a'\n{a}\n[upstreams.b]\nurl = 'http://h/b'\n{b}")
    };
    let same = two("prefix = ''\nrename.x = { name = 'b__y' }", "rename.z = { name = 'y' }");
    assert!(bad(&same).contains("\"b__y\" is what `upstreams.a.rename.\"x\"` is called already"));
    let within = two("rename.x = { name = 'n' }\nrename.y = { name = 'n' }", "");
    assert!(bad(&within).contains("is called already"));
    assert!(bad(&two("rename.x = {}", "")).contains("needs `name` or `description`"));
    assert!(bad(&two("rename.x = { name = 'ä' }", "")).contains("must be 1 to 128"));
    let prefix = good(&two("prefix = 'p'", "prefix = 'p'"));
    assert!(prefix.warnings[0].message.contains("has the prefix \"p\" of `a`"));
    let hidden = good(&two("tools = ['!x']\nrename.x = { name = 'n' }", ""));
    assert!(hidden.warnings[0].message.contains("has no effect"));
    let passed = "auth.mode = 'passthrough'\n[upstreams.a]\nurl = 'http://h/a'\npin = true";
    assert!(bad(passed).contains("not with `passthrough`"));
}

#[test]
fn fixed_parameters_are_any_value_that_json_has() {
    let fixed = |value: &str| format!("[upstreams.a]\nurl = 'http://h/a'\nfixed.t = {{ p = {value} }}");
    let read = |value: &str| good(&fixed(value)).config.upstreams[0].show.fixed["t"]["p"].clone();
    assert_eq!(read("[1, 'a', {b = true, c = 1.5}]"), serde_json::json!([1, "a", {"b": true, "c": 1.5}]));
    for none in ["2027-01-01T00:00:00Z", "[inf]"] {
        assert!(bad(&fixed(none)).contains("`upstreams.a.fixed.t.p`: must be"), "{none}");
    }
    let pins = good("storage.path = '/s/x.db'\n[upstreams.a]\nurl = 'http://h/a'\npin = true").config;
    assert_eq!(pins.upstreams[0].show.pins.as_deref(), Some(Path::new("/s/pins-a.json")));
}

#[test]
fn secrets_come_from_variables_and_files_and_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), "hunter2\r\n").unwrap();
    let text = "[upstreams.a]\nurl = 'http://h'\n[upstreams.a.headers]\nAuthorization = 'env:FILES_AUTH'\n\
                x-token = 'file:token'\nx-plain = 'hunter2'";
    let loaded = load::from_text(text, folder.path(), "f", &CliOverrides::default(), env).unwrap();
    let headers = &loaded.config.upstreams[0].headers;
    assert_eq!(headers["authorization"].expose(), "Bearer hunter2");
    assert_eq!(headers["x-token"].expose(), "hunter2");
    assert_eq!(headers["x-plain"].expose(), "hunter2");
    assert!(!format!("{loaded:?}").contains("hunter2"));
    let source = &loaded.sources[0];
    assert_eq!(source.path, folder.path().join("token"));
    assert!(!source.changed());
    fs::write(&source.path, "other").unwrap();
    assert!(source.changed());
    fs::remove_file(&source.path).unwrap();
    assert!(source.changed());
}

#[test]
fn keys_are_kept_as_hashes() {
    // SHA-256 of "sg_a-secret-of-some-length", by coreutils' sha256sum.
    let hash = "0295a5d9c562cbdf71c1a0de8a1203a5f2187bc8db8aa3bfc11b37cc3a360840";
    let key = &good("[[keys]]\nname = 'a'\nenv = 'KEY'\nexpires = 2027-01-01T00:00:00+01:00").config.keys[0];
    let shown: String = key.sha256.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(shown, hash);
    let expires = key.expires.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(expires.as_secs(), 1_798_758_000);
    assert!(
        good("[[keys]]\nname = 'a'\nenv = 'KEY'\nexpires = 2020-01-01T00:00:00Z").warnings[0]
            .message
            .contains("expired")
    );
}

#[test]
fn file_itself_is_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("smartgate.toml");
    fs::write(&file, "[[keys]]\nname = 'a'\nfile = 'secret'").unwrap();
    fs::write(folder.path().join("secret"), "0123456789012345678901234567").unwrap();
    let loaded = load(&file).unwrap();
    let paths: Vec<_> = loaded.sources.iter().map(|s| s.path.clone()).collect();
    assert_eq!(paths, [file.clone(), folder.path().join("secret")]);
    assert_eq!(loaded.config.audit.journal.path, folder.path().join("audit.jsonl"));
    fs::write(&file, "").unwrap();
    assert!(loaded.sources[0].changed());
}

#[test]
fn command_line_goes_over_the_file() {
    let over = CliOverrides {
        ephemeral: false,
        listen: Some("127.0.0.1:1".into()),
        upstreams: CliOverrides::upstreams(&["http://h/x?a=b", "two=http://h/2", "http://h/3"]),
        builtin: true,
    };
    let config =
        with("server.listen = '127.0.0.1:2'\n[upstreams.a]\nurl = 'http://h'", &over).unwrap().config;
    assert_eq!(config.server.listen.port(), 1);
    let names: Vec<_> = config.upstreams.iter().map(|u| &*u.name).collect();
    assert_eq!(names, ["upstream", "two", "upstream-2", "builtin"]);
    let wrong = CliOverrides { listen: Some("x".into()), ..Default::default() };
    let said = with("", &wrong).unwrap_err().to_string();
    assert!(said.starts_with("f.toml: `server.listen`: `x` is no address"), "{said}");
    let twice = CliOverrides {
        upstreams: CliOverrides::upstreams(&["a=http://h", "a=http://i"]),
        ..Default::default()
    };
    assert!(with("", &twice).unwrap_err().to_string().contains("`a` is there twice"));
}

#[test]
fn one_upstream_alone_without_a_file_is_passed_through() {
    let one = CliOverrides { upstreams: CliOverrides::upstreams(&["http://h"]), ..Default::default() };
    assert_eq!(default_with(&one).unwrap().config.auth, AuthMode::Passthrough);
    assert_eq!(default_with(&CliOverrides { builtin: true, ..one }).unwrap().config.auth, AuthMode::None);
    let builtin = default_with(&CliOverrides::default()).unwrap().config;
    assert_eq!((builtin.auth, &builtin.upstreams[0].target), (AuthMode::None, &Target::Builtin));
    assert_eq!(builtin.audit.journal.path, state_dir().unwrap().join("audit.jsonl"));
    let open = CliOverrides { listen: Some("0.0.0.0:1".into()), ..Default::default() };
    assert!(default_with(&open).unwrap_err().to_string().starts_with("command line: `server.listen`"));
}

#[test]
fn what_is_missing_because_it_was_refused_is_told_once() {
    assert_eq!(bad("[[keys]]\nname = 1\nsha256 = 2").lines().count(), 2);
    assert_eq!(bad("[upstreams.a]\nurl = 1").lines().count(), 1);
    assert_eq!(bad("server.listen = '0.0.0.0:1'\nauth.mode = 'jwt'").lines().count(), 1);
}

#[test]
fn schema_is_one_that_editors_take() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema, super::schema());
    let text = schema.to_string();
    assert!(!text.contains("\"null\"") && !text.contains("anyOf"), "{text}");
}

#[test]
fn many_keys_load() {
    let stanza = |i: u32| format!("[[keys]]\nname = 'key-{i}'\nsha256 = '{i:064x}'\n");
    let text: String = (0..20_000).map(stanza).collect();
    assert_eq!(good(&text).config.keys.len(), 20_000);
}

#[test]
fn a_key_and_a_team_of_one_name_would_be_one_tenant() {
    let key = |name: &str, last: u8, team: &str| {
        format!("[[keys]]\nname = \"{name}\"\nsha256 = \"{:064x}\"\n{team}\n", last)
    };
    let both = key("acme", 1, "") + &key("bob", 2, "team = \"acme\"");
    assert!(bad(&both).contains("`acme` is also the team of `bob`"));
    good(&(key("acme", 1, "team = \"acme\"") + &key("bob", 2, "team = \"acme\"")));
}
